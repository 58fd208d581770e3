"""Which settings of a bandit to take, as far as a log can tell.

The log is dealt into R parts (row i goes to part i mod R), and every setting is replayed on every part from nothing
(:mod:`~prudent.evaluation.replay`). So each setting has R independent runs, and luck in learning counts as what it is.
Settings are compared within parts, which show all of them the same rows: Student intervals of the paired differences to
the setting with the highest mean, together at the level asked for (Bonferroni). A setting is chosen only if all these
intervals lie above zero. To choose one that is not the best, it must be found better than the best one, which it is
not: that happens with chance at most (1 - level) / 2, over all settings together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, open_probability, whole_number
from .._support.intervals import mean_and_half_width
from .._support.progress import Progress
from ..bandits.bandit import LinearBandit
from ..bandits.fading import HalfLife
from ..bandits.settings import BanditSettings
from ..errors import DataError, ParameterError
from .logs import BLOCK, BanditLog, Layout
from .replay import Lots, Run, lottery, require_logged

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

__all__ = ["Tuning", "compare", "tune"]


def tune(
    log: Any,
    settings: Any,
    *,
    make: Callable[..., Any] = LinearBandit,
    runs: int = 10,
    level: float = 0.95,
    seed: int = 0,
    logging_policy: Any = None,
    min_propensity: float | None = None,
    context: str | Sequence[str] | None = None,
    arms: Iterable[Any] | None = None,
    columns: Mapping[str, str] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
) -> Tuning:
    """Compare settings of a bandit on a log, and choose one if the data can tell.

    ``settings`` is a dict of lists, of which every combination is tried (``{"alpha": [0, 0.5], "noise_sd": [1, 2]}``),
    or a list of dicts or :class:`BanditSettings`. Each is handed to ``make(arms, dim, rng=..., **options)``, by
    default :class:`LinearBandit`. The log and the other arguments are as in :func:`replay`; it is dealt into ``runs``
    parts.

    The chance to choose a setting that is not the best is at most (1 - level) / 2. What is compared is the mean reward
    of a run from nothing, as long as a part has matching rows: about n / (arms runs) decisions.

    >>> rng = np.random.default_rng(1)
    >>> rows = [(rng.random(2), arm) for arm in rng.integers(0, 2, 4000).tolist()]
    >>> log = [(x, arm, float(x[arm]), 0.5) for x, arm in rows]
    >>> found = tune(log, {"noise_sd": [0.1, 30.0]})
    >>> found.best
    {'noise_sd': 0.1}
    """
    level = open_probability(level, "level")
    runs = whole_number(runs, "runs", minimum=2)
    seed = whole_number(seed, "seed", minimum=0)
    tried = _options(settings)
    lives = (HalfLife.of(options.get("half_life")) for options in tried)
    timed = any(life is not None and life.unit == "seconds" for life in lives)
    features = next((options["features"] for options in tried if options.get("features")), None)
    with BanditLog(log, Layout(context, columns, arms, missing_reward, block, timed, features)) as read:
        read.require_contexts("a bandit")
        if arms is not None:
            require_logged(read.arms, read)
        lots = Lots(read, logging_policy, min_propensity)
        table = [[Run(_made(make, options, read, seed, part)) for part in range(runs)] for options in tried]
        line, done = Progress("tuning"), 0
        try:
            for rows, thresholds in lottery(read, lots, np.random.default_rng(seed)):
                for part in range(runs):
                    mine = np.flatnonzero((rows.rows % runs == part) & (thresholds < 1.0))
                    piece = rows.part(mine)
                    for row in table:
                        row[part].go(piece, thresholds[mine], read)
                done += len(rows)
                line.show(f"{done:,} of {read.n:,} rows, {len(tried)} settings")
        finally:
            line.close()
        matched = np.array([[run.paid.count for run in row] for row in table])
        if matched.min() < 2:
            raise DataError(
                f"only {matched.min()} rows of a part matched: the log of {read.n} rows is too short for {runs} runs"
            )
        means = np.array([[float(run.paid.mean[0]) for run in row] for row in table])
    return Tuning(tried, means, matched, level)


def _options(settings: Any) -> list[dict[str, Any]]:
    if isinstance(settings, Mapping):
        for name, values in settings.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise ParameterError(f"settings[{name!r}] is {values!r}, expected a list of values to try")
        grids = {name: list(values) for name, values in settings.items()}
        tried = [dict(zip(grids, values, strict=True)) for values in itertools.product(*grids.values())]
    elif isinstance(settings, Iterable) and not isinstance(settings, str):
        tried = []
        for i, each in enumerate(settings):
            if not isinstance(each, (Mapping, BanditSettings)):
                raise ParameterError(f"settings[{i}] is {each!r}, expected a dict of options or BanditSettings")
            tried.append({"settings": each} if isinstance(each, BanditSettings) else dict(each))
    else:
        raise ParameterError(f"settings must be a dict of lists or a list of dicts, got {settings!r}")
    labels = [_label(options) for options in tried]
    if len(set(labels)) < max(len(labels), 2):
        raise ParameterError(f"settings must be at least two different ones, got {labels}")
    return tried


def _label(options: Mapping[str, Any]) -> str:
    shown = (value.label if isinstance(value, BanditSettings) else f"{name}={value}" for name, value in options.items())
    return ", ".join(shown) or "default"


def _made(make: Callable[..., Any], options: dict[str, Any], log: BanditLog, seed: int, part: int) -> Any:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))  # the same for all settings
    try:
        return make(list(log.arms), log.dim, rng=rng, **options)
    except TypeError as error:
        raise ParameterError(
            f"settings {_label(options)!r} do not suit {getattr(make, '__name__', make)}: {error}"
        ) from None


class Comparison(NamedTuple):
    """Settings against the one with the highest mean."""

    leader: int
    difference: FloatArray  # [S] leader minus each
    half: FloatArray  # [S] of its interval, all of them together
    decided: bool


def compare(means: FloatArray, level: float) -> Comparison:
    """Compare settings by their mean rewards [S,R] in R runs each; runs with the same number are paired.

    >>> compare(np.array([[1.0, 2.0, 3.0], [0.9, 2.0, 2.8]]), 0.95).decided
    False
    """
    leader = int(np.argmax(means.mean(axis=1)))
    difference, half = mean_and_half_width(means[leader] - means, level, max(len(means) - 1, 1), axis=1)
    others = np.arange(len(means)) != leader
    return Comparison(leader, difference, half, bool((difference - half > 0.0)[others].all()))


class Tuning:
    """What :func:`tune` found: ``best`` is the setting chosen, None if the log cannot tell.

    ``candidates`` are those that may be the best. ``means`` [S,R] are the mean rewards of the runs, ``matched`` [S,R]
    their lengths; ``to_pandas()`` is a table of the settings, the highest mean first.
    """

    def __init__(self, tried: list[dict[str, Any]], means: FloatArray, matched: Any, level: float) -> None:
        found = compare(means, level)
        self.level = level
        self.settings = tried
        self.means = means
        self.matched = matched
        self.best: dict[str, Any] | None = dict(tried[found.leader]) if found.decided else None
        self.candidates = [dict(tried[i]) for i in np.flatnonzero(found.difference - found.half <= 0.0)]
        self._found = found

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each setting: mean with its own interval, and how far the first is ahead of it.

        The intervals of ``behind`` hold together at the level, those of ``mean`` each for itself.

        >>> log = [([1.0], i % 2, float(i % 3), 0.5) for i in range(400)]
        >>> list(tune(log, {"alpha": [0.0, 0.9]}, runs=4).to_pandas().columns)
        ['mean', 'low', 'high', 'behind', 'behind_low', 'behind_high', 'matched']
        """
        import pandas

        mean, half = mean_and_half_width(self.means, self.level, axis=1)
        found = self._found
        columns = {
            "mean": mean,
            "low": mean - half,
            "high": mean + half,
            "behind": found.difference,
            "behind_low": found.difference - found.half,
            "behind_high": found.difference + found.half,
            "matched": self.matched.sum(axis=1),
        }
        frame = pandas.DataFrame(columns, index=pandas.Index([_label(each) for each in self.settings], name="setting"))
        return frame.sort_values("mean", ascending=False, kind="stable")

    def plot(self) -> Figure:
        """Return a figure of matplotlib: the mean rewards of the settings with their intervals.

        >>> log = [([1.0], i % 2, float(i % 3), 0.5) for i in range(400)]
        >>> len(tune(log, {"alpha": [0.0, 0.9]}, runs=4).plot().axes)
        1
        """
        from . import figures

        table = self.to_pandas()
        return figures.intervals(list(table.index), table, "Settings replayed", "mean reward per decision", self.level)

    def __repr__(self) -> str:
        runs = self.means.shape[1]
        if self.best is not None:
            verdict = f"chosen: {_label(self.best)}"
        else:
            shown = "; ".join(_label(each) for each in self.candidates)
            verdict = f"none is chosen: the log cannot tell these apart: {shown}"
        table = self.to_pandas().to_string(float_format=lambda x: f"{x:.6g}")
        return (
            f"{len(self.settings)} settings, {runs} runs each of about {self.matched.mean():.0f} decisions\n{table}\n"
            f"{verdict} (false choice at most {(1.0 - self.level) / 2.0:.3g})"
        )
