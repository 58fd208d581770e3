"""Choice of a state map by held-out episodes.

Every candidate is fitted on the training episodes of a fold, and three things are measured on the other episodes:

- how well state and action predict: the share of the variance of the reward, of the features one step later and of the
  end of the process that the means of the training rows of the same state and action explain. It is about columns of
  the log, not about states, so that maps with different numbers of states can be compared;
- coverage: the share of rows whose pair of state and action the training part has at least ``min_count`` times;
- the honest value (``honest_values``) of the policy at several levels, and of what the log did.

The candidates are trees of different sizes. Grids of quantiles were tried in simulators and left out: within a cell
the action is often chosen for a reason that matters, which makes both the policy and its judge wrong; a tree is grown
on the policy of the log as well, and splits there. Maps that predict much worse than the best one are left out too.

Honest values of a coarse map are judged by its own states, which may be blind to what is wrong with them. So every
policy is also judged in the states of all other candidates (``second_opinion``), and the lowest *gain* over what the
log did counts. This does not undo the error of a coarse map: its policy may lead to where the log has hardly been (an
open state such as "9 or more" hides that), and there all judges know only what the log did. How far the other judges
fall short of the map's own is what shows of such an error, so maps are ranked by the lowest gain less this *dispute*.
Where the data do not tell, caution does: of all levels and maps whose rank is within one standard error of the
highest, those with the highest level, and of these the one with the highest rank. The choice *improves* on the log if
the lower end of the interval of its lowest gain is above zero and above what the best calibrated model overrates what
the log is known to have earned.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import discount_factor, one_of, positive
from ..data.state_map import StateMap
from ..errors import DataError, ParameterError
from ..types import BoolArray, FloatArray, IntArray, Label, RngLike, TableLike, TerminalLike
from .feature_log import ANY, FeatureLog, MapDesign
from .honest import LOG, Cell, Difference, HonestValues, honest_values
from .rows import LogRows, read_rows
from .second_opinion import Opinions, Panel

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from ..display.figures.base import Figure as Panels

TREES = (16, 32, 64, 128, 256, 512)
LEVELS = (0.0, 0.5, 0.9)
MIN_COUNT = 5
SLACK = 0.1  # explained variance that a map may lack
_FOLDS, _REPEATS = 2, 2


@dataclass(frozen=True, eq=False, repr=False)
class StateChoice:
    """Candidates for a state map and how they did on held-out episodes.

    Attributes
    ----------
    chosen : StateMap
        The chosen map, fitted on the whole log.
    design : str
        Its name in the table.
    alpha : float
        The risk level with the highest honest value.
    gain : Difference
        Lowest gain over what the log did that any judging map sees, with the interval of the honest difference.
    gap : float
        How much the best calibrated model overrates what the log is known to have earned.
    improves : bool
        Whether the interval of the gain is above zero and above the gap.
    candidates : dict of str to StateMap
        Settings of all candidates by name, for an override: ``states=choice.candidates["tree 64"]``.
    honest : HonestValues
        Honest values of all candidates and levels.
    opinions : Opinions
        Gains that each map sees in the policies of each other.
    scores, coverage, unseen : dict of str to float
        Explained variance; share of held-out rows whose pair has enough data; share of held-out rows like nothing in
        the training episodes.
    """

    chosen: StateMap
    design: str
    alpha: float
    gain: Difference
    gap: float
    improves: bool
    candidates: Mapping[str, StateMap]
    honest: HonestValues
    opinions: Opinions
    scores: Mapping[str, float]
    coverage: Mapping[str, float]
    unseen: Mapping[str, float]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each candidate.

        Returns
        -------
        pandas.DataFrame
            Columns design, states, predicts, coverage, unseen, alpha (the best level; of the chosen design, the level
            that was chosen), promised, honest, low, high, log (the honest value of what the log did in these states),
            gain (the lowest that any judge sees), dispute (how far it is below what these states say themselves), gap
            (how much these states overrate what the log earned) and chosen.
        """
        import pandas

        rows = []
        for name in self.candidates:
            cells = [i for i in self.honest.at(design=name) if self.honest.cells[i].alpha is not LOG]
            best = max(cells, key=lambda i: self.opinions.least(name, _level(self.honest, i)))
            if name == self.design:
                best = self.honest.at(design=name, alpha=self.alpha)[0]
            row: dict[str, Any] = {"design": name, "states": round(float(self.honest.states[best]))}
            row |= {"predicts": self.scores[name], "coverage": self.coverage[name], "unseen": self.unseen[name]}
            row |= {"alpha": self.honest.cells[best].alpha}
            row |= {key: float(getattr(self.honest, key)[best]) for key in ("promised", "honest", "low", "high")}
            row |= {"log": float(self.honest.honest[self.honest.log_of(best)])}
            row |= {"gain": self.opinions.least(name, row["alpha"])}
            row |= {"dispute": self.opinions.dispute(name, row["alpha"]), "gap": self.opinions.gap[name]}
            row |= {"chosen": name == self.design}
            rows.append(row)
        return pandas.DataFrame(rows)

    def plot(self) -> Figure:
        """Draw the trade-off: honest and promised value, explained variance and coverage by number of states.

        Returns
        -------
        matplotlib.figure.Figure
            Two panels.
        """
        return self.figure().to_matplotlib()

    def figure(self) -> Panels:
        """Return the panels of ``plot``, for a page.

        Returns
        -------
        prudent.display.figures.base.Figure
            Panels and a legend.
        """
        from ..display.figures.state_choice import draw

        return draw(self.to_pandas())

    @property
    def sentence(self) -> str:
        """What was chosen, in a sentence."""
        text = (
            f"{len(self.chosen.states)} states by {self.design}, risk level {self.alpha:g}: on held-out episodes "
            f"{self.gain.value:+.3g} over what the log did ({self.honest.confidence:.0%} interval {self.gain.low:.3g} "
            f"to {self.gain.high:.3g}); {self.unseen[self.design]:.1%} of new observations were like nothing seen "
            "before"
        )
        if self.improves:
            return text
        if self.gain.low > 0.0:
            return (
                text + f"; the states overrate what the log earned by {self.gap:.3g}, so this is no evidence of a gain"
            )
        return text + "; this is no evidence of an improvement"

    def __repr__(self) -> str:
        table = self.to_pandas().to_string(index=False, float_format=lambda x: f"{x:.4g}")
        return f"StateChoice: {self.sentence}\n{table}"


def choose_states(
    log: TableLike,
    features: Sequence[str] | StateMap,
    discount: float,
    *,
    candidates: Mapping[str, StateMap] | Sequence[StateMap] | None = None,
    alphas: Sequence[float] = LEVELS,
    min_count: float = MIN_COUNT,
    prior: float = 1.0,
    support: str = "state",
    terminal: TerminalLike = (),
    columns: Mapping[str, Any] | None = None,
    end: Hashable = None,
    duration: Label = None,
    gaps: str = "error",
    folds: int = _FOLDS,
    repeats: int = _REPEATS,
    rng: RngLike = 1,
    threads: int | None = None,
) -> StateChoice:
    """Choose a state map for a log, by held-out episodes.

    Parameters
    ----------
    log : TableLike
        A table with the features, episode, action, reward, and perhaps step and done; see ``from_log``.
    features : sequence of str or StateMap
        Columns of the state; or a map whose settings (cyclic, categorical, cuts, min_rows) all candidates take over.
    discount : float
        Discount factor in [0, 1).
    candidates : mapping or sequence of StateMap, optional
        Maps to compare; by default trees with 16 to 256 states.
    alphas : sequence of float, default=(0, 0.5, 0.9)
        Risk levels.
    min_count : float, default=5
        As for ``from_log``.
    prior : float, default=1
        As for ``from_log``.
    support : str, default="state"
        As for ``from_log``.
    terminal : TerminalLike, default=()
        As for ``from_log``.
    columns : mapping, optional
        As for ``from_log``.
    end : hashable, optional
        As for ``from_log``.
    duration : hashable, optional
        As for ``from_log``.
    gaps : {"error", "cut", "fill", "duration"}, default="error"
        As for ``from_log``.
    folds, repeats : int, default=2
        Number of folds, and how often episodes are split.
    rng : int or Generator, default=1
        Source of the splits.
    threads : int, optional
        Threads of a solve.

    Returns
    -------
    StateChoice
        The chosen map, the table and the figure.

    Raises
    ------
    DataError
        If the log cannot be read, or has too few episodes.
    ParameterError
        If an argument is wrong.
    """
    gamma = discount_factor(discount)
    base = features if isinstance(features, StateMap) else StateMap(tuple(_listed(features)), discount=gamma)
    read = FeatureLog.read(log, base, columns, end, gaps, duration=duration)
    return choose(
        read, base, gamma, candidates, alphas, min_count, prior, support, terminal, folds, repeats, rng, threads
    )


def _listed(features: Any) -> Sequence[str]:
    if isinstance(features, str):
        message = f"features is {features!r}, expected a list of columns"
        raise ParameterError(message, code="wrong-type", argument="features", value=features)
    return list(features)


def choose(
    log: FeatureLog,
    base: StateMap,
    discount: float,
    candidates: Mapping[str, StateMap] | Sequence[StateMap] | None,
    alphas: Sequence[float],
    min_count: float,
    prior: float,
    support: str,
    terminal: TerminalLike,
    folds: int = _FOLDS,
    repeats: int = _REPEATS,
    rng: RngLike = 1,
    threads: int | None = None,
) -> StateChoice:
    """Choose a state map for a log that was read."""
    rows = all_in_one(log, terminal)
    listed = _candidates(log, base, discount, rows, candidates)
    positive(min_count, "min_count")
    one_of(support, "support", ("state", "action", "all"))
    shared: dict[bytes, Any] = {}
    facts, panel = _Facts(log, rows, min_count), Panel(rows, discount)

    def inspect(design: MapDesign, training: BoolArray, made: LogRows, strange: BoolArray) -> None:
        facts.add(design, training, made, strange)
        panel.add_states(design.name, training, made)

    def hear(cell: Cell, policy: IntArray) -> None:
        if cell.alpha is not LOG:
            panel.add_policy(cell.design, cell.alpha, policy)

    designs = [MapDesign(name, rows, maker, log, shared, inspect) for name, maker in listed.items()]
    honest = honest_values(
        designs, discount, alphas=alphas, priors=[prior], supports=[support], min_count=min_count,
        folds=folds, repeats=repeats, rng=rng, threads=threads, hear=hear,
    )  # fmt: skip
    scores, coverage, unseen = ({name: float(np.mean(part[name])) for name in listed} for part in facts.parts)
    opinions = panel.opinions()
    best = pick(honest, opinions, scores)
    name, level = honest.cells[best].design, _level(honest, best)
    paired = honest.difference(best, honest.log_of(best))
    least = opinions.least(name, level)
    moved = least - paired.value
    gain = Difference(least, paired.error, paired.low + moved, paired.high + moved)
    gap = opinions.gap[opinions.best_judge]
    improves = gain.low > max(gap, 0.0)
    chosen = listed[name].fit_sample(log.sample)
    return StateChoice(chosen, name, level, gain, gap, improves, listed, honest, opinions, scores, coverage, unseen)


def pick(honest: HonestValues, opinions: Opinions, scores: Mapping[str, float]) -> int:
    """Return the recommended cell: that of the highest rank, and of what cannot be told from it the most cautious."""
    floor = max(scores.values()) - SLACK
    rank = {
        i: opinions.least(cell.design, _level(honest, i)) - opinions.dispute(cell.design, _level(honest, i))
        for i, cell in enumerate(honest.cells)
        if cell.alpha is not LOG and scores[cell.design] >= floor
    }
    best = max(rank, key=rank.__getitem__)
    near = [i for i in rank if rank[best] - rank[i] <= honest.difference(best, i).error]
    level = max(_level(honest, i) for i in near)
    return max((i for i in near if _level(honest, i) == level), key=rank.__getitem__)


def _level(honest: HonestValues, i: int) -> float:
    """Return the risk level of a cell."""
    return float(honest.cells[i].alpha or 0.0)


def all_in_one(log: FeatureLog, terminal: TerminalLike) -> LogRows:
    """Return the rows of a log in one state, with the terminal outcomes as further states."""
    worth = dict(terminal.items()) if isinstance(terminal, Mapping) else dict.fromkeys(terminal or (), 0.0)
    declared = {name: worth.get(name, 0.0) for name in log.outcomes}
    return read_rows(log.opened(None), (ANY, *log.outcomes), None, declared, (), None)


def _candidates(
    log: FeatureLog,
    base: StateMap,
    discount: float,
    rows: LogRows,
    given: Mapping[str, StateMap] | Sequence[StateMap] | None,
) -> dict[str, StateMap]:
    from dataclasses import replace

    if given is not None:
        named = dict(given) if isinstance(given, Mapping) else {_name(maker): maker for maker in given}
        for name, maker in named.items():
            if not isinstance(maker, StateMap) or maker.features != base.features:
                message = f"candidates[{name!r}] is {maker!r}, expected a StateMap of {', '.join(base.features)}"
                raise ParameterError(message, code="wrong-type", argument="candidates", value=name)
        if not named:
            raise ParameterError("candidates is empty: give at least one", code="empty", argument="candidates")
        return named
    pairs = rows.state.size / max(rows.by_action.size, 1)
    listed = {}
    plain = replace(base, discount=discount if base.discount is None else base.discount, fitted="")
    for count in TREES:
        if count == TREES[0] or count * base.min_rows <= pairs * 2.0:
            maker = replace(plain, method="tree", n_states=count)
            listed[_name(maker)] = maker
    return listed


def _name(maker: StateMap) -> str:
    if maker.method in ("tree", "clusters"):
        return f"{maker.method} {maker.n_states}"
    return f"quantiles {maker.bins}" if maker.method == "quantiles" else "cuts"


class _Facts:
    """Explained variance, coverage and share of unseen rows of each design, by fold."""

    def __init__(self, log: FeatureLog, rows: LogRows, min_count: float) -> None:
        self.parts: tuple[dict[str, list[float]], ...] = ({}, {}, {})
        self._least = min_count
        columns = [rows.reward] if rows.reward is not None else []
        over = rows.target > 0
        columns.append(over.astype(np.float64))
        for name, feature in log.following.items():
            if feature.numeric:
                now = log.features[name].cells.astype(np.float64)[rows.row]
                then = np.where(rows.waits > 0.0, now, feature.cells.astype(np.float64)[rows.row])
                known = then[~np.isnan(then)]
                columns.append(np.where(over | np.isnan(then), known.mean() if known.size else 0.0, then))
        self._targets: list[FloatArray] = [one for one in columns if np.ptp(one) > 0.0]

    def add(self, design: MapDesign, training: BoolArray, made: LogRows, strange: BoolArray) -> None:
        """Measure one fold."""
        pair: IntArray = made.state * made.by_action.size + made.action
        size = made.by_state.size * made.by_action.size
        seen = np.bincount(pair[training], made.times[training], size)
        states = np.bincount(made.state[training], made.times[training], made.by_state.size)
        judging = ~training
        explained = []
        for target in self._targets:
            mean, total = float(target[training].mean()), made.times[training] * target[training]
            by_state = np.bincount(made.state[training], total, made.by_state.size)
            prior = ((by_state + mean) / (states + 1.0))[np.arange(size) // made.by_action.size]
            by_pair = (np.bincount(pair[training], total, size) + prior) / (seen + 1.0)
            error = target[judging] - by_pair[pair[judging]]
            spread = target[judging] - mean
            largest = float(np.abs(spread).max(initial=0.0))  # squares of large numbers overflow
            share = float(((error / largest) ** 2).sum() / ((spread / largest) ** 2).sum()) if largest > 0.0 else 1.0
            explained.append(1.0 - share)
        facts = (float(np.mean(explained)) if explained else 0.0, float((seen[pair[judging]] >= self._least).mean()))
        for part, fact in zip(self.parts, (*facts, float(strange[judging].mean())), strict=True):
            part.setdefault(design.name, []).append(fact)


def refuse_few_episodes(log: FeatureLog) -> None:
    """Raise if a log has no episodes to split."""
    if log.flow.episodes is None:
        message = f"{log.held.table} has no episodes, by which states='auto' is judged; give a StateMap as states"
        raise DataError(message, code="few-episodes", argument="log", value=0)
