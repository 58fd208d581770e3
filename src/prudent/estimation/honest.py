"""Honest values: a policy from some episodes is judged by a model of the others.

A model judges the policy that was chosen from it too well: the maximum over actions picks those whose data happened
to be lucky, and the more states the data are spread over, the more so. Here the episodes (never the rows) are split
into K folds, R times. The *training part* are all folds but one. Its model and posterior give a policy at each risk
level, and the *judging part*, the fold left out, has a model of its own: the observed frequencies. With mu the share of
the judging episodes that start in each state, P and r the frequencies and mean rewards of the judging part,

    promised = the value of the policy in the posterior mean of the training part,
    honest   = mu' V,    V = r_pi + gamma P_pi V                           (judging part).

Where transitions take times tau, P_pi(s' | s) stands for the sum over tau of gamma^(tau - 1) P_pi(s', tau | s).
Where rewards of the same transition vary, the policy is chosen with the posterior of their means, as by ``solve``. The
honest value is an expectation, for which the mean rewards of the judging part suffice; that they are means of few rows
is in the interval, which has the reward of every single row.

**What the judging part does not know.** Where the policy has no action (the training part never saw the state) or one
that the judging part never tried in the state, the judging part follows what its own episodes did there. ``unknown``
is the share of the discounted time spent in such states. The interval is widened by what this may miss: there the
unknown action is taken to be as bad as the worst, and as good as the best, that the judging part tried. Transitions
into states that a part never leaves, and that are not terminal, are left out of this part (``cut`` is their share): the
others of the same pair stand for them.

**Interval.** To first order the error of an honest value is a sum over judging episodes e of

    psi_e = sum over rows of e of d(s) u (r + gamma^tau V(s') - V(s)) / (1 - u)  +  (V(start of e) - mu'V) / E,

with d the discounted occupancy, u the weight of the row among those that make the row of P_pi of its state, and 1 - u
the correction of a residual for having taken part in the mean; a state with a single row gets the pooled variance of
the others. Episodes may depend on their past in any way: nothing is assumed within one. The second estimate is that
of balanced half samples, the variance of the folds' values over K, averaged over the splits: it sees what is not of
first order. The larger of both is taken, with Student's law of R (K - 1) degrees of freedom.

**The policy of all episodes.** A policy of a training part has only (K - 1) / K of the episodes, and that of the whole
log, which is used in the end, is better. To first order what a policy lacks to the best one falls as c / m with the
number m of its episodes, and its own model flatters it by as much again: promised - honest = 2 c / m. So the policy of
all episodes is better by c / m - c (K - 1) / (K m) = (promised - honest) / (2 K), and the upper end of the interval is
raised by it. The largest promise of all levels of a design counts, since caution promises less than it learns.

References
----------
McCarthy, *Pseudo-replication: half samples*, Review of the International Statistical Institute 37 (1969).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from .._support.checks import discount_factor, generator, open_probability, positive, risk_level, whole_number
from .._support.progress import Progress
from ..errors import ParameterError
from ..types import FloatArray, IntArray, RngLike
from .counts import DistinctRows, Outcomes, Transitions, sums
from .designs import Design
from .parts import UNLIMITED, Learner, Limits, Part, PolicyChain, Units, first_states
from .rewards import rewards_of
from .rows import LogRows

if TYPE_CHECKING:
    import pandas

FOLDS = 2
REPEATS = 5
ALPHAS = (0.0, 0.5, 0.9)
CONFIDENCE = 0.9
LOG = None  # the level of what the log did, which stands beside the levels of policies


# -- results -----------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """What is compared: a design of the states, a risk level, a prior mass and a support."""

    design: str
    alpha: float | None  # None: what the log did
    prior: float
    support: str


class Difference(NamedTuple):
    """The honest value of one cell minus that of another, on the same splits."""

    value: float
    error: float  # standard
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class HonestValues:
    """Promised and honest values of policies, the result of ``honest_values``.

    Attributes
    ----------
    cells : tuple of Cell
        What was compared [C].
    promised, honest, error, low, high : ndarray [C]
        Value in the model that chose the policy; value in the model of the other episodes, its standard error, and the
        interval.
    unknown : ndarray [C]
        Share of the discounted time of the honest value that the judging part could only fill with what the log did.
    cut : ndarray [C]
        Share of the rows that were left out, because they lead to a state that the part never leaves.
    states : ndarray [C]
        Mean number of states to act in of the training part.
    promises, splits : ndarray [C, R, K]
        The promised and the honest value of each fold.
    influence : ndarray [C, N]
        Contribution of each episode to the honest value (to first order).
    folds, repeats : int
        Numbers of folds and of splits.
    confidence : float
        Probability of the intervals.
    by_rows : bool
        Whether the log has no episodes, so that its observations were split, which hides dependence within episodes.
    chosen : int or None
        The recommended cell, where something else than honest values of these cells has chosen it.
    """

    cells: tuple[Cell, ...]
    promised: FloatArray
    honest: FloatArray
    error: FloatArray
    low: FloatArray
    high: FloatArray
    unknown: FloatArray
    cut: FloatArray
    states: FloatArray
    promises: FloatArray
    splits: FloatArray
    influence: FloatArray
    folds: int
    repeats: int
    confidence: float
    by_rows: bool
    chosen: int | None = None

    def difference(self, one: int, other: int) -> Difference:
        """Return how much better cell ``one`` is than cell ``other``, paired over splits and episodes."""
        value = float(self.honest[one] - self.honest[other])
        error = _error(self.splits[one] - self.splits[other], self.influence[one] - self.influence[other])
        wide = _width(self.confidence, self.repeats, self.folds) * error
        return Difference(value, error, value - wide, value + wide)

    def at(self, **wanted: Any) -> list[int]:
        """Return the cells that have these values: ``at(alpha=0.0, prior=1.0)``."""
        return [i for i, cell in enumerate(self.cells) if all(getattr(cell, k) == v for k, v in wanted.items())]

    def log_of(self, i: int) -> int:
        """Return the cell of what the log did under the design, prior and support of cell ``i``."""
        cell = self.cells[i]
        return self.at(design=cell.design, alpha=LOG, prior=cell.prior, support=cell.support)[0]

    @property
    def best(self) -> int:
        """The recommended policy: that with the highest honest value, or of its design, prior and support the lowest
        level that is not worse by more than one standard error of the paired difference; or the ``chosen`` one.
        """
        if self.chosen is not None:
            return self.chosen
        policies = [i for i, cell in enumerate(self.cells) if cell.alpha is not LOG]
        top = max(policies, key=lambda i: self.honest[i])
        rivals = [i for i in policies if self.cells[i]._replace(alpha=LOG) == self.cells[top]._replace(alpha=LOG)]
        for i in rivals:  # ascending in size of the level
            apart = self.difference(top, i)
            if apart.value <= apart.error:
                return i
        return top

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each cell; alpha is NaN for what the log did."""
        import pandas

        columns: dict[str, Any] = {
            name: [getattr(cell, name) for cell in self.cells] for name in ("design", "alpha", "prior", "support")
        }
        columns["alpha"] = np.array([np.nan if cell.alpha is LOG else cell.alpha for cell in self.cells])
        for name in ("promised", "honest", "error", "low", "high", "unknown", "cut", "states"):
            columns[name] = getattr(self, name)
        return pandas.DataFrame(columns)

    def __repr__(self) -> str:
        return f"HonestValues({self.repeats} x {self.folds} folds)\n{self.to_pandas().to_string()}"


def _kept_apart(rewards: Any) -> bool:
    """Return whether every reward of a transition is an outcome of its own."""
    return isinstance(rewards, str) and rewards == "outcomes"


def _width(confidence: float, repeats: int, folds: int) -> float:
    return float(scipy.special.stdtrit(repeats * (folds - 1), 0.5 + confidence / 2.0))


def _error(splits: FloatArray, influence: FloatArray) -> float:
    """Return the standard error of the mean of ``splits`` [R, K], with contributions ``influence`` [N] of episodes."""
    halves = float(np.mean(splits.var(axis=1, ddof=1)) / splits.shape[1])
    return float(np.sqrt(max(halves, float(influence @ influence))))


def _still_to_learn(flattered: FloatArray, levels: int, folds: int) -> FloatArray:
    """Return by how much the policies of all episodes are better than those of the training parts, by cell.

    ``flattered`` [C] is promised minus honest; the cells of a setting are its levels and, last, what the log did.
    """
    gaps = flattered.reshape(-1, levels + 1)
    gain = np.zeros_like(gaps)
    gain[:, :levels] = np.maximum(gaps[:, :levels].max(axis=1, keepdims=True), 0.0) / (2.0 * folds)
    return gain.reshape(-1)


# -- the engine --------------------------------------------------------------------------------------------


def honest_values(
    designs: Design | Sequence[Design],
    discount: float,
    *,
    alphas: Sequence[float] = ALPHAS,
    priors: Sequence[float] = (1.0,),
    supports: Sequence[str] = ("state",),
    min_count: float = 1,
    rewards: Any = "mean",
    start: Mapping[Hashable, float] | None = None,
    folds: int = FOLDS,
    repeats: int = REPEATS,
    confidence: float = CONFIDENCE,
    rng: RngLike = 1,
    threads: int | None = None,
    hear: Callable[[Cell, IntArray], None] | None = None,
    limits: Limits = UNLIMITED,
) -> HonestValues:
    """Compute promised and honest values of the policies of several designs, levels, priors and supports.

    Parameters
    ----------
    designs : Design or sequence of Design
        Ways to give rows their states: ``GivenStates(read)``, ``MappedStates(...)``, or anything with ``name`` and
        ``states(training)``. All share the rows of one log.
    discount : float
        Discount factor in [0, 1).
    alphas : sequence of float, default=(0, 0.5, 0.9)
        Risk levels.
    priors : sequence of float, default=(1,)
        Prior masses of a pair, as for ``from_log``.
    supports : sequence of str, default=("state",)
        As ``support`` of ``from_log``.
    min_count : float, default=1
        As for ``from_log``, in the training part.
    rewards : str, float, callable or TableLike, default="mean"
        As for ``from_log``.
    start : mapping, optional
        Chances of the states at the start; by default those of the judging episodes, or evenly in all states if there
        are no episodes.
    folds, repeats : int
        Number of folds, and how often the episodes are split anew.
    confidence : float, default=0.9
        Probability of the intervals.
    rng : int or Generator, default=1
        Source of the splits.
    threads : int, optional
        Threads of a solve.
    hear : callable, optional
        Called with each cell and its policy [S] in every fold, -1 where it does what the log does.
    limits : Limits, optional
        What policies keep to, and the group that they are for. Only episodes of this group are split and judge; those
        of others are in every training part, in the prior. Where a training part tried nothing but what is excluded,
        its policy is unknown.

    Returns
    -------
    HonestValues
        A cell for each design, prior, support and level, and one for what the log did.

    Raises
    ------
    DataError
        If there are fewer episodes than folds.
    ParameterError
        If an argument is out of range.
    """
    listed = list(designs) if isinstance(designs, Sequence) else [designs]
    levels = sorted({risk_level(alpha, "alphas") for alpha in alphas}, key=lambda alpha: (abs(alpha), alpha))
    if not listed or not levels:
        name = "alphas" if listed else "designs"
        raise ParameterError(f"{name} is empty: give at least one", code="empty", argument=name)
    gamma = discount_factor(discount)
    masses = [positive(prior, "priors") for prior in priors]
    K, R = whole_number(folds, "folds", 2), whole_number(repeats, "repeats")
    log = listed[0].read
    units = Units.of(log, K, limits.own(log))
    settings = list(itertools.product(masses, supports))
    cells = tuple(
        Cell(design.name, alpha, prior, support)
        for design in listed
        for prior, support in settings
        for alpha in (*levels, LOG)
    )
    C = len(cells)
    promises, splits, influence = np.zeros((C, R, K)), np.zeros((C, R, K)), np.zeros((C, units.size))
    facts = np.zeros((5, C))
    line, done = Progress("honest values"), 0
    random = generator(rng)
    share = 1.0 / (R * K)
    indexed: dict[int, tuple[LogRows, DistinctRows]] = {}
    for r in range(R):
        weights = units.split(random, K)
        for k in range(K):
            judging = next(itertools.islice(weights(), k, None))
            training = log.times - judging
            for i, design in enumerate(listed):
                read = design.states(training > 0.0)
                if i not in indexed or indexed[i][0] is not read:  # states as they are: found once
                    indexed[i] = read, DistinctRows.of(read, by_reward=_kept_apart(rewards))
                fold = _Fold.of(read, indexed[i][1], training, judging, units, gamma, rewards, start, limits)
                for j, (prior, support) in enumerate(settings):
                    at = (i * len(settings) + j) * (len(levels) + 1)
                    for value, judged in fold.verdicts(levels, prior, support, min_count, threads):
                        promises[at, r, k] = value
                        splits[at, r, k] = judged.honest
                        if hear is not None:
                            hear(cells[at], judged.policy)
                        influence[at] += share * judged.influence
                        facts[:, at] += share * np.array([judged.unknown, fold.cut, fold.states, *judged.missed])
                        at += 1
                done += 1
                line.show(f"{done:,} of {R * K * len(listed):,} folds")
    line.close()
    honest = splits.mean(axis=(1, 2))
    error = np.array([_error(*parts) for parts in zip(splits, influence, strict=True)])
    wide = _width(open_probability(confidence, "confidence"), R, K) * error
    unknown, cut, states, worse, better = facts
    promised = promises.mean(axis=(1, 2))
    interval = honest - wide + worse, honest + wide + better + _still_to_learn(promised - honest, len(levels), K)
    values = promised, honest, error, *interval, unknown, cut, states, promises, splits, influence
    return HonestValues(cells, *values, K, R, confidence, log.by_episode is None)


class _Mix(NamedTuple):
    """How much an observation of a state weighs in the row of a policy: more if it is of an action of the policy."""

    own: FloatArray  # [S, A]
    any: FloatArray  # [S]

    def weights(self, states: IntArray, actions: IntArray) -> FloatArray:
        """Return the weights of observations of pairs."""
        return np.asarray(self.any[states] + self.own[states, actions])


class _Judged(NamedTuple):
    """What the judging part says about a policy."""

    honest: float
    unknown: float  # share of time
    missed: tuple[float, float]  # how much worse and better the value may be for what is unknown
    influence: FloatArray  # [N]
    policy: IntArray  # [S] actions, -1 for what the log does


class _Fold(NamedTuple):
    """The two parts of one fold of one design."""

    read: LogRows
    train: Part
    judge: Part
    judging: FloatArray  # [M]
    units: Units
    discount: float
    rewards: Any
    begin: tuple[FloatArray, FloatArray]  # [S] start of the training and of the judging part
    given_start: bool
    earned: FloatArray  # [M] reward of each row
    limits: Limits
    training: FloatArray  # [M]
    done: Transitions  # what was done in the training part

    @classmethod
    def of(
        cls,
        read: LogRows,
        rows: DistinctRows,
        training: FloatArray,
        judging: FloatArray,
        units: Units,
        discount: float,
        rewards: Any,
        start: Mapping[Hashable, float] | None,
        limits: Limits,
    ) -> _Fold:
        logged = isinstance(rewards, str) and rewards in ("mean", "outcomes")
        parts = [Part.of(rows.weighted(read, weights), read) for weights in (training, judging)]
        begin = [
            first_states(read, part, weights, units, start)
            for part, weights in zip(parts, (training, judging), strict=True)
        ]
        if logged and read.reward is not None:
            earned = read.reward
        else:
            every = rows.weighted(read, read.times)
            seen = Outcomes(every.pair, every.target, every.times, np.arange(every.pair.size))
            earned = rewards_of(rewards, read, every, seen)[0][rows.of_row]
        train, judge = parts
        starts, own, done = (begin[0], begin[1]), limits.own(read), train.seen
        if own is not None:
            done = Part.of(rows.weighted(read, np.where(own, training, 0.0)), read).seen
        given = start is not None, earned, limits, training, done
        return cls(read, train, judge, judging, units, discount, rewards, starts, *given)

    @property
    def cut(self) -> float:
        """Share of the observations that were left out."""
        return (self.train.lost + self.judge.lost) / float(self.read.times.sum())

    @property
    def states(self) -> int:
        """Number of states to act in of the training part."""
        return int(np.count_nonzero(self.train.acting))

    def verdicts(
        self, levels: Sequence[float], prior: float, support: str, min_count: float, threads: int | None
    ) -> Iterator[tuple[float, _Judged]]:
        """Give the promised value and the verdict for the policy of each level, and for what the log did."""
        read, seen = self.read, self.train.seen
        today = self._judge(np.full(read.shape[0], -1, dtype=np.int64))
        if not self.train.acting.any():  # nothing to learn from: the policy is what the log does
            yield from ((today.honest, today) for _ in (*levels, LOG))
            return
        limited = self.limits, self.training
        learner = Learner.of(read, seen, self.discount, prior, support, min_count, self.rewards, *limited)
        for learned in learner.policies(levels, threads):
            yield float(self.begin[0] @ learned.chain.values()), self._judge(learned.policy, learned.mixture)
        done = learner.log_chain(self.done, self._mean_rewards(self.done))
        yield float(self.begin[0] @ done.values()), today._replace(unknown=0.0)

    def _judge(self, policy: IntArray, mixture: FloatArray | None = None) -> _Judged:
        """Return what the judging part says about a policy [S], -1 for what the log does, or about a mixture [S, A]."""
        read, seen = self.read, self.judge.seen
        A, tiny = read.shape[1], np.finfo(np.float64).tiny
        every = np.maximum(seen.visits.sum(axis=1), tiny)
        share = mixture  # of each action in what the policy does
        if share is None:
            share = np.zeros(read.shape)
            share[np.arange(policy.size), np.maximum(policy, 0)] = policy >= 0
        tried = seen.visits > 0.0
        trust = seen.visits**2 / (1.0 + seen.visits**2)  # in the data of the action itself
        nothing = (policy < 0).astype(np.float64)
        guess = (share / (1.0 + seen.visits**2)).sum(axis=1) + nothing
        mix = _Mix(share * trust / np.maximum(seen.visits, tiny), guess / every)
        origin = seen.pair // A
        reward = self._mean_rewards(seen)
        chance = seen.times * mix.weights(origin, seen.pair % A)
        chain = PolicyChain.of(self.read, self.discount, origin, seen.target, chance, reward, seen.duration)
        begin = self.begin[1]
        value, spent = chain.values(), chain.occupancy(begin)
        honest = float(begin @ value)
        acting = spent * self.judge.acting
        untried = acting * ((share * ~tried).sum(axis=1) + nothing)
        unknown = float(untried.sum() / max(acting.sum(), tiny))
        influence = self._influence(mix, value, spent, honest)
        if (policy < 0).all():
            return _Judged(honest, unknown, (0.0, 0.0), influence, policy)
        later = self.discount if seen.duration is None else self.discount**seen.duration
        backed = sums(seen.pair, seen.times * (reward + later * value[seen.target]), seen.visits.size)
        backed = backed.reshape(seen.visits.shape)
        q, mean = backed / np.maximum(seen.visits, tiny), backed.sum(axis=1) / every
        drawn = share * tried * (1.0 - trust)  # how far its own data are drawn to the mean
        shift = float(acting @ (drawn * (q - mean[:, np.newaxis])).sum(axis=1))
        at = np.flatnonzero(untried)
        worst = np.where(seen.visits > 0.0, q, np.inf)[at].min(axis=1) - mean[at]
        best = np.where(seen.visits > 0.0, q, -np.inf)[at].max(axis=1) - mean[at]
        missed = min(shift, 0.0) + float(untried[at] @ worst), max(shift, 0.0) + float(untried[at] @ best)
        return _Judged(honest, unknown, missed, influence, policy)

    def _mean_rewards(self, seen: Transitions) -> FloatArray:
        every = Outcomes(seen.pair, seen.target, seen.times, np.arange(seen.pair.size))
        return rewards_of(self.rewards, self.read, seen, every)[0]

    def _influence(self, mix: _Mix, value: FloatArray, spent: FloatArray, honest: float) -> FloatArray:
        """Return the contribution of each unit to the error of the honest value."""
        read, units = self.read, self.units
        closed = read.terminal | read.absorbing
        alive = (self.judge.acting | closed)[read.target] & self.judge.acting[read.state]
        used = np.flatnonzero((self.judging > 0.0) & alive)
        s, weight = read.state[used], self.judging[used]
        later = np.broadcast_to(read.discounts(self.discount), read.state.shape)[used]
        residual = self.earned[used] + later * value[read.target[used]] - value[s]
        share = mix.weights(s, read.action[used])  # of one observation
        several = share < 1.0 - 1e-9
        reach = spent[s] * share
        lifted = np.where(several, residual / np.maximum(1.0 - share, 1e-9), 0.0)
        base = weight * reach * several
        typical = (
            np.sqrt(float(base @ lifted**2) / float(base.sum())) if base.any() else np.abs(residual).max(initial=0.0)
        )
        # the deviation of a lone row is unknown, the same in every split: a random sign keeps differences paired
        moves = reach * np.where(several, lifted, typical * units.sign[used])
        if units.first is None:  # every observation counts for itself
            return sums(units.of_row[used], weight / np.sqrt(units.times[used]) * moves, units.size)
        influence = sums(units.of_row[used], weight * moves, units.size)
        if not self.given_start:
            states = read.state[units.first]
            judged = (self.judging[units.first] > 0.0) & (self.begin[1][states] > 0.0)
            influence[judged] += (value[states[judged]] - honest) / max(int(judged.sum()), 1)
        return influence
