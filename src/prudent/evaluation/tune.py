"""Choice between settings of a bandit, by replay of a log.

The log is dealt into R parts (row i goes to part i mod R), and every setting is replayed on every part from the start
(``prudent.evaluation.replay``). So each setting has R independent runs, which include the variation of learning.
Settings are compared within parts, which show all of them the same rows: Student intervals of the paired differences to
the setting with the highest mean, together at the given confidence (Bonferroni). A setting is chosen only if all these
intervals lie above zero. Student intervals have no width where no run has earned anything, so each is widened by what
one more rewarded row could change: log(2 / (1 - confidence)) times the range of rewards over the number of decisions,
the exact bound for a mean of rewards none of which was seen. A setting that is not the best is chosen with probability
at most (1 - confidence) / 2, over all settings together.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.checks import open_probability, whole_number
from .._support.intervals import mean_and_half_width
from .._support.progress import Progress
from .._support.streams import seed_of
from ..bandits.bandit import LinearBandit
from ..bandits.fading import HalfLife
from ..bandits.settings import BanditSettings
from ..data.transformers import encoder_of
from ..display.figures import off_policy as figures
from ..errors import DataError, OverlapWarning, ParameterError
from ..types import ArmLike, FloatArray, IntArray, RngLike, TableLike
from .logs import BLOCK, BanditLog, Layout, feature_columns, is_independent
from .policies import TargetLike, adopt
from .replay import FEW_REWARDS, KeepRates, Run, few_rewards, require_logged, thresholds_of

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

SHOWN = 20  # settings in a repr


def tune(
    log: TableLike,
    settings: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any] | BanditSettings],
    *,
    make: Callable[..., Any] = LinearBandit,
    runs: int = 10,
    confidence: float = 0.95,
    rng: RngLike = 0,
    logging_policy: TargetLike | None = None,
    min_propensity: float | None = None,
    features: Sequence[str] | None = None,
    arms: Iterable[ArmLike] | None = None,
    columns: Mapping[str, str] | None = None,
    missing_reward: float | str | None = None,
    block: int = BLOCK,
    episode: bool | None = None,
) -> Tuning:
    """Compare settings of a bandit on a log, and choose one if the log has enough data.

    What is compared is the mean reward of a run from the start, over as many decisions as a part has matching rows:
    about n / (arms runs). The parameters are, in this order: log and settings, the runs, the propensities, and the
    format of the log.

    Parameters
    ----------
    log : DataFrame, dict of columns, path, pyarrow table, Journal or rows
        The decisions, as for ``replay``. It is dealt into `runs` parts.
    settings : dict of lists, or list of dicts or BanditSettings
        The settings to compare. Of a dict of lists every combination is tried:
        ``{"alpha": [0, 0.5], "noise_sd": [1, 2]}``.
    make : callable, default=LinearBandit
        Called as ``make(arms, dim, rng=..., **options)`` for every run.
    runs : int, default=10
        Number of parts of the log, and of runs of each setting.
    confidence : float, default=0.95
        Confidence of the intervals. A setting that is not the best is chosen with probability at most
        (1 - confidence) / 2.
    rng : int, Generator or None, default=0
        Source of randomness.

    Returns
    -------
    Tuning
        Mean rewards of the settings, and the chosen one.

    Other Parameters
    ----------------
    logging_policy, min_propensity, features, arms, columns, missing_reward, block, episode
        Propensities and format of the log, as for ``replay``.

    Raises
    ------
    DataError
        If the log is malformed or too short for so many runs.
    ParameterError
        If `settings` are fewer than two, or do not suit `make`.

    Warns
    -----
    OverlapWarning
        If fewer than 20 decisions of a setting have a reward other than 0.

    See Also
    --------
    replay : Replay a log to one bandit.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows = [(rng.random(2), arm) for arm in rng.integers(0, 2, 4000).tolist()]
    >>> log = [(x, arm, float(x[arm]), 0.5) for x, arm in rows]
    >>> tune(log, {"noise_sd": [0.1, 30.0]}).best
    {'noise_sd': 0.1}
    """
    confidence = open_probability(confidence, "confidence")
    runs = whole_number(runs, "runs", minimum=2, memory=1024.0)
    seed = seed_of(rng)
    tried = _options(settings)
    lives = (HalfLife.of(options.get("half_life")) for options in tried)
    timed = any(life is not None and life.unit == "seconds" for life in lives)
    theirs = next((options["features"] for options in tried if options.get("features")), None)
    reading, wide = encoder_of(theirs) or theirs, feature_columns(features)
    layout = Layout(wide, columns, arms, missing_reward, block, timed, reading, is_independent(episode), learn=True)
    with BanditLog(log, layout) as read:
        read.require_contexts("a bandit")
        if arms is not None:
            require_logged(read.arms, read)
        rates = KeepRates(read, logging_policy, min_propensity)
        table = [[Run(_made(make, options, read, seed, part)) for part in range(runs)] for options in tried]
        with closing(Progress("tuning")) as line:
            for rows, thresholds in thresholds_of(read, rates, np.random.default_rng(seed)):
                for part in range(runs):
                    chosen = np.flatnonzero((rows.rows % runs == part) & (thresholds < 1.0))
                    piece = rows.part(chosen)
                    for row in table:
                        row[part].go(piece, thresholds[chosen], read)
                line.show(f"{rows.rows[-1] + 1:,} of {read.rows:,} rows, {len(tried)} settings")
        matched = np.array([[run.paid.count for run in row] for row in table])
        if matched.min() < 2:
            message = f"only {matched.min()} rows of a part matched: {read.n} rows are too few for {runs} runs"
            raise DataError(message, code="too-few-rows", argument="runs", value=runs)
        means = np.array([[float(run.paid.mean[0]) for run in row] for row in table])
        rewarded = np.array([[run.rewarded for run in row] for row in table])
        low, high = read.reward_range(None)
    unseen = (high - low) / matched.sum(axis=1)
    comparison = compare(means, confidence, unseen)
    best = dict(tried[comparison.leader]) if comparison.decided else None
    candidates = [dict(tried[i]) for i in np.flatnonzero(comparison.difference - comparison.half <= 0.0)]
    totals = rewarded.sum(axis=1)
    fewest = int(np.argmin(totals))
    if totals[fewest] < FEW_REWARDS:
        message = f"{_label(tried[fewest])}: {few_rewards(int(totals[fewest]), int(matched[fewest].sum()))}"
        warnings.warn(OverlapWarning(message, code="few-rewards", value=int(totals[fewest])), stacklevel=2)
    return Tuning(best, candidates, tried, means, matched, rewarded, (low, high), confidence, comparison)


def _options(settings: Any) -> list[dict[str, Any]]:
    """Return the options of each setting, from a dict of lists or a list of dicts."""
    if isinstance(settings, Mapping):
        grids = [_require_iterable(values, f"settings[{name!r}]", name) for name, values in settings.items()]
        tried = [dict(zip(settings, values, strict=True)) for values in itertools.product(*grids)]
    else:
        tried = []
        for i, options in enumerate(_require_iterable(settings, "settings")):
            if not isinstance(options, (Mapping, BanditSettings)):
                message = f"settings[{i}] is {options!r}, expected a dict of options or BanditSettings"
                raise ParameterError(message, code="wrong-type", argument="settings", index=i, value=options)
            tried.append({"settings": options} if isinstance(options, BanditSettings) else dict(options))
    labels = [_label(options) for options in tried]
    if len(set(labels)) < max(len(labels), 2):
        message = f"settings must be at least two different ones, got {labels}"
        raise ParameterError(message, code="too-few-settings", argument="settings", value=labels)
    return tried


def _require_iterable(values: Any, name: str, index: object = None) -> Iterable[Any]:
    one = isinstance(values, str) or getattr(values, "ndim", 1) == 0
    if one or not isinstance(values, Iterable):
        message = f"{name} is {values!r}, expected a list; settings are a dict of lists or a list of dicts"
        raise ParameterError(message, code="wrong-type", argument="settings", index=index, value=values)
    return values


def _label(options: Mapping[str, Any]) -> str:
    shown = (value.label if isinstance(value, BanditSettings) else f"{name}={value}" for name, value in options.items())
    return ", ".join(shown) or "default"


def _made(make: Callable[..., Any], options: dict[str, Any], log: BanditLog, seed: int, part: int) -> Any:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))  # the same for all settings
    try:
        made = make(list(log.arms), log.dim, rng=rng, **options)
    except TypeError as error:
        message = f"settings {_label(options)!r} do not suit {getattr(make, '__name__', make)}: {error}"
        raise ParameterError(message, code="unknown-option", argument="settings", value=options) from None
    adopt(made, log)
    return made


class Comparison(NamedTuple):
    """Comparison of settings with the one of highest mean."""

    leader: int
    difference: FloatArray  # [S] leader minus each
    half: FloatArray  # [S] of its interval, all of them together
    decided: bool


def compare(means: FloatArray, confidence: float, unseen: FloatArray) -> Comparison:
    """Compare settings by their mean rewards [S,R] in R runs each; runs with the same number are paired.

    ``unseen`` [S] is by how much one more rewarded row could change the mean of a setting.

    >>> compare(np.array([[1.0, 2.0, 3.0], [0.9, 2.0, 2.8]]), 0.95, np.zeros(2)).decided
    False
    """
    leader, comparisons = int(np.argmax(means.mean(axis=1))), max(len(means) - 1, 1)
    difference, half = mean_and_half_width(means[leader] - means, confidence, comparisons, axis=1)
    half = half + math.log(2.0 * comparisons / (1.0 - confidence)) * np.maximum(unseen, unseen[leader])
    others = np.arange(len(means)) != leader
    half[~others] = 0.0
    return Comparison(leader, difference, half, bool((difference - half > 0.0)[others].all()))


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Comparison of settings of a bandit: the result of ``tune``.

    Attributes
    ----------
    best : dict or None
        The chosen setting; None if the log cannot tell which is best.
    candidates : list of dict
        Settings that may be the best.
    settings : list of dict
        All settings, S of them.
    means : ndarray [S, R]
        Mean reward of each run.
    matched : ndarray [S, R]
        Number of decisions of each run.
    rewarded : ndarray [S, R]
        Number of decisions of each run with a reward other than 0; a warning is given if those of a setting are below
        20.
    reward_range : tuple of float
        Range of the rewards: 0 and 1 if every reward is one of these, else as seen in the log.
    confidence : float
        Confidence of the intervals.
    comparison : Comparison
        Differences to the setting with the highest mean.

    See Also
    --------
    tune : Compare settings on a log.
    """

    best: dict[str, Any] | None
    candidates: list[dict[str, Any]]
    settings: list[dict[str, Any]]
    means: FloatArray
    matched: IntArray
    rewarded: IntArray
    reward_range: tuple[float, float]
    confidence: float
    comparison: Comparison

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table of the settings, highest mean first.

        Returns
        -------
        DataFrame
            Columns mean, low, high (an interval for each setting by itself), behind, behind_low, behind_high (the
            difference to the first, with intervals that hold together) and matched.

        Examples
        --------
        >>> log = [([1.0], i % 2, float(i % 3), 0.5) for i in range(400)]
        >>> list(tune(log, {"alpha": [0.0, 0.9]}, runs=4).to_pandas().columns)
        ['mean', 'low', 'high', 'behind', 'behind_low', 'behind_high', 'matched']
        """
        import pandas

        low, high = self.reward_range
        mean, half = mean_and_half_width(self.means, self.confidence, axis=1)
        half = half + math.log(2.0 / (1.0 - self.confidence)) * (high - low) / self.matched.sum(axis=1)
        behind, width = self.comparison.difference, self.comparison.half
        columns = {"mean": mean, "low": np.maximum(mean - half, low), "high": np.minimum(mean + half, high)}
        columns |= {"behind": behind, "behind_low": behind - width, "behind_high": behind + width}
        columns |= {"matched": self.matched.sum(axis=1)}
        frame = pandas.DataFrame(columns, index=pandas.Index(list(map(_label, self.settings)), name="setting"))
        return frame.sort_values("mean", ascending=False, kind="stable")

    def to_xarray(self) -> xarray.Dataset:
        """Return the runs as a dataset.

        Returns
        -------
        xarray.Dataset
            Variables mean and matched [setting, run]; confidence as an attribute.
        """
        import xarray

        variables = {"mean": self.means, "matched": self.matched}
        data = xarray.Dataset({name: (("setting", "run"), values) for name, values in variables.items()})
        return data.assign_coords(setting=list(map(_label, self.settings))).assign_attrs(confidence=self.confidence)

    def plot(self) -> Figure:
        """Plot the mean rewards of the settings with their intervals.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Examples
        --------
        >>> log = [([1.0], i % 2, float(i % 3), 0.5) for i in range(400)]
        >>> len(tune(log, {"alpha": [0.0, 0.9]}, runs=4).plot().axes)
        1
        """
        return figures.draw_settings(self.to_pandas(), self.confidence).to_matplotlib()

    def __repr__(self) -> str:
        if self.best is not None:
            verdict = f"chosen: {_label(self.best)}"
        else:
            verdict = f"no setting is chosen; these may be the best: {'; '.join(map(_label, self.candidates))}"
        means = self.means.mean(axis=1)
        rows = [f"{_label(self.settings[i])}: mean {means[i]:.6g}" for i in np.argsort(-means, kind="stable")]
        shown = rows[:SHOWN] + [f"and {len(rows) - SHOWN} more"] * (len(rows) > SHOWN)
        head = f"{len(rows)} settings, {self.means.shape[1]} runs each of about {self.matched.mean():.0f} decisions"
        chance = (1.0 - self.confidence) / 2.0
        return "\n".join([head, *shown, f"{verdict} (probability of a wrong choice at most {chance:.3g})"])
