"""Learning inside the horizon: plans that value what they will learn (the original Bayesian risk MDP).

A plan with a fixed posterior acts at every step as if nothing were learned on the way. Here the posterior is updated
along the horizon. With psi the Dirichlet counts of all sources and b = source(s, a), for t = T-1, ..., 0

    V_t(s, psi) = max_a rho_{theta ~ Dir(psi_b)}[ sum_k theta_k ( r(s,a,k) + gamma V_{t+1}(s', psi + e_{b,k}) ) ],

and V_T(s, psi) is what a state is worth when no step is left (Lin, Ren and Zhou, *Bayesian Risk Markov Decision
Processes*, 2022, arXiv 2106.02558). At level 0 this is the Bayes-adaptive optimum.

**Nodes.** Only counts of observed outcomes matter, and their order does not: a node of layer t is a state with the
number of times that each unknown outcome was seen. Nodes with equal content are one node. Sources that many pairs
share, and sources with one possible outcome, make them few. A node is one integer, the counts in mixed radix T + 1.

**Rows.** A layer is one batch of rows, evaluated exactly as everywhere else (``prudent.exact.risk_dirichlet``). CVaR at
a level of at least 0 is at most the mean, and at a negative level at most mean + sd sqrt(|alpha| / (1 - |alpha|)): the
action with the highest bound is evaluated first, then only those whose bound exceeds its value.

**Error.** A risk measure that is monotone and translation equivariant does not stretch the error of its values, so
e_t = eta_t + gamma e_{t+1}, with eta_t the largest error of a row of layer t and of the rounding of its values.

**The value of learning** is the difference to the value with the fixed posterior. It may be NEGATIVE, for two reasons.
A fixed posterior draws the model anew at every step, so that uses of one source are independent. In truth they are not:
two failures in a row are more likely than the square of the mean says. And with caution the nested risk is taken at
every step: each look at the data adds spread between the values of the next nodes, and the risk of that step punishes
it. In a bandit at level 0 neither happens, and learning is worth at least 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._support.checks import finite_array, generator, positive, require_shape, whole_number
from .._support.progress import Progress
from ..display.figures.learning import draw
from ..errors import ParameterError, PosteriorError
from ..exact import risk_dirichlet
from ..models.base import plural
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..risk import CVaR, RiskMeasure
from ..types import ArrayLike, FloatArray, IntArray, StartLike, TerminalValueLike
from .base import PlanningProblem
from .horizon import DIGITS, reached
from .learning_nodes import Layer, Nodes, PairTable
from .learning_rollout import Leaves, leaf_bounds
from .solve import solve

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.figure import Figure

MAX_LEAVES = 2_000  # nodes that are bounded by draws
MAX_ENTRIES = 20_000_000  # of all layers: a node, an action and an outcome; about 2 GB while a layer is made
ENTRY_BYTES = 100


def _bounds(risk: RiskMeasure, mean: FloatArray, values: FloatArray, counts: FloatArray) -> FloatArray | None:
    """Return upper bounds on the risk of rows, or None where none is known."""
    if not isinstance(risk, CVaR):
        return None
    if risk.alpha >= 0.0:
        return mean
    total = counts.sum(axis=1)
    gaps = values - mean[:, None]
    size = np.maximum(np.abs(gaps).max(axis=1), np.finfo(np.float64).tiny)  # squares of large gaps overflow
    spread = (counts * (gaps / size[:, None]) ** 2).sum(axis=1) / (total * (total + 1.0))
    return np.asarray(mean + size * np.sqrt(spread * -risk.alpha / (1.0 + risk.alpha)))


def _best(
    risk: RiskMeasure, first: IntArray, values: FloatArray, counts: FloatArray
) -> tuple[FloatArray, IntArray, float]:
    """Return the best value of each node [M], its row, and the largest error of a row."""
    total = counts.sum(axis=1)
    mean = (counts / total[:, np.newaxis] * values).sum(axis=1)  # products of large counts overflow
    size = float(np.abs(values).max(initial=0.0))
    rounding = (2.0 * values.shape[1] + 8.0) * EPS * size
    neutral = isinstance(risk, CVaR) and risk.alpha == 0.0
    bound = None if neutral else _bounds(risk, mean, values, counts)
    node = np.repeat(np.arange(first.size - 1), np.diff(first))

    def highest(numbers: FloatArray) -> tuple[FloatArray, IntArray]:
        top = np.maximum.reduceat(numbers, first[:-1])
        at = np.flatnonzero(numbers == top[node])
        return top, at[np.searchsorted(node[at], np.arange(first.size - 1))]

    if neutral:
        return *highest(mean), rounding
    q, error = np.full(mean.size, -np.inf), 0.0

    def evaluate(rows: IntArray) -> None:
        nonlocal error
        if rows.size:
            found = risk_dirichlet(values[rows], counts[rows], risk)
            q[rows], error = found.value, max(error, float(found.error.max()))

    if bound is None:
        evaluate(np.arange(mean.size))
    else:
        _, leading = highest(bound)
        evaluate(leading)
        evaluate(np.flatnonzero((q == -np.inf) & (bound + rounding + error > q[leading][node])))
    return *highest(q), error + rounding


@dataclass(frozen=True, eq=False)
class LearningPlan:
    """A plan for a horizon whose actions depend on what was observed on the way.

    Attributes
    ----------
    value : ndarray of shape (S,)
        Value at time 0 of each state where the plan may start; NaN elsewhere.
    policy : ndarray of shape (S,)
        First action of each such state; -1 elsewhere.
    fixed_value : ndarray of shape (S,)
        Value of the best plan that never updates the posterior, for the same states.
    error_bound : float
        Bound on the error of every value of the plan.
    converged : bool
        Whether the error bound is at most the tolerance.
    message : str
        The error bound in words.
    horizon : int
        Number of steps T.
    nodes : int
        Number of nodes: states with observed counts, over all times.
    start : ndarray of shape (S,)
        Probabilities of the first state.
    action_shares : ndarray of shape (T, A)
        Probability of each action at each time, from `start`, with outcomes as the posterior predicts them. What is
        missing to one is the probability that the process has ended.
    upper_bound : ndarray of shape (S,)
        What no plan is worth more than: `value` for an exact plan. With ``draws`` the first `depth` steps are exact and
        the rest is bounded, so that `value` is a lower bound; both hold with probability 0.999.
    depth : int
        Number of steps for which the plan says what to do.
    states, actions : tuple
        Names of states and actions.
    """

    value: FloatArray
    policy: IntArray
    fixed_value: FloatArray
    error_bound: float
    converged: bool
    message: str
    horizon: int
    nodes: int
    start: FloatArray
    action_shares: FloatArray
    upper_bound: FloatArray
    depth: int
    states: tuple[Hashable, ...]
    actions: tuple[Hashable, ...]
    _model: UncertainMDP = field(repr=False)
    _counts: FloatArray = field(repr=False)
    _risk: RiskMeasure = field(repr=False)
    _codes: Nodes = field(repr=False)
    _slots: IntArray = field(repr=False)
    _layers: tuple[npt.NDArray[Any], ...] = field(repr=False)
    _actions: tuple[IntArray, ...] = field(repr=False)
    _values: tuple[FloatArray, ...] = field(repr=False)

    @property
    def start_value(self) -> float:
        """Mean value over the first states."""
        used = self.start > 0.0
        return float(self.start[used] @ self.value[used])

    @property
    def gap(self) -> FloatArray:
        """What the bounds leave open in each state [S]: ``upper_bound - value``."""
        return self.upper_bound - self.value

    @property
    def value_of_learning(self) -> FloatArray:
        """What updating the posterior is worth in each state [S]: ``value - fixed_value``.

        It may be negative: a fixed posterior takes the uses of one source as independent, and with caution the risk is
        taken anew at every step, over values that are spread by what will be learned.
        """
        return self.value - self.fixed_value

    def act(self, state: Hashable, counts: DirichletPosterior | ArrayLike, time: int | None = None) -> Hashable:
        """Return the action of the plan after some observations.

        Parameters
        ----------
        state : hashable
            Name of the state.
        counts : DirichletPosterior or array_like of shape (B, K)
            The posterior counts now: those that the plan began with, and one for every outcome that was observed.
        time : int, optional
            Number of steps taken. By default the number of observations, which it is if every step teaches something.

        Returns
        -------
        hashable
            Name of the action.

        Raises
        ------
        ParameterError
            If the plan does not come to this state with these counts at this time.
        PosteriorError
            If the counts are not those of the plan plus whole numbers.

        Examples
        --------
        Two arms of which nothing is known. After a failure of the first arm the plan tries the second:

        >>> from prudent import BayesianRiskMDP, UncertainMDP
        >>> arms = UncertainMDP(source=[[0, 1]], next_state=[[[0, 0], [0, 0]]], reward=[[[0, 1], [0, 1]]], discount=1)
        >>> plan = BayesianRiskMDP(arms, [[1, 1], [1, 1]], alpha=0).solve(horizon=5, learning=True)
        >>> plan.value.round(6), plan.value_of_learning.round(6)
        (array([2.888889]), array([0.388889]))
        >>> plan.act(0, [[1, 1], [1, 1]]), plan.act(0, [[2, 1], [1, 1]])
        (0, 1)
        """
        layer, node = self._find(state, counts, time)
        return self.actions[self._actions[layer][node]]

    def value_at(self, state: Hashable, counts: DirichletPosterior | ArrayLike, time: int | None = None) -> float:
        """Return the value of the steps that are left after some observations.

        Parameters
        ----------
        state : hashable
            As for ``act``.
        counts : DirichletPosterior or array_like of shape (B, K)
            As for ``act``.
        time : int, optional
            As for ``act``.

        Returns
        -------
        float
            Value, discounted to this time.
        """
        layer, node = self._find(state, counts, time)
        return float(self._values[layer][node])

    def _find(self, state: Hashable, counts: DirichletPosterior | ArrayLike, time: int | None) -> tuple[int, int]:
        model, began = self._model, self._counts
        given = counts.counts if isinstance(counts, DirichletPosterior) else counts
        now = finite_array(given, "counts", error=PosteriorError)
        if now.shape != began.shape:
            now = model.with_end(now)
        require_shape(now, "counts", began.shape, "[B, K]", error=PosteriorError)
        more = np.asarray(model.entries.pack(now - began))
        seen = np.rint(more)
        if (np.abs(more - seen) > 1e-6).any() or (seen < 0.0).any():
            message = "counts must be those that the plan began with, plus a whole number for each outcome"
            raise PosteriorError(message, code="other-posterior", argument="counts")
        if (seen[model.entries.pack(began) == 0.0] > 0.0).any():
            message = "counts must be zero for outcomes that the plan took as impossible"
            raise PosteriorError(message, code="other-posterior", argument="counts")
        step = int(seen.sum()) if time is None else whole_number(time, "time", 0, maximum=self.horizon - 1)
        code = model.state_index(state) + sum(
            int(number) * int(weight) for number, weight in zip(seen[self._slots], self._codes.weights, strict=False)
        )
        if step < self.depth and seen[self._slots].sum() <= step:  # larger numbers would be other digits
            codes = self._layers[step]
            node = int(np.searchsorted(codes, code))
            if node < codes.size and codes[node] == code:
                return step, node
        message = f"the plan does not come to state {state!r} with these counts at time {step}; it has "
        message += f"{plural(self.depth, 'step')}, and time must be given if a step may teach nothing"
        raise ParameterError(message, code="not-reached", argument="counts", value=step)

    def to_xarray(self) -> xr.Dataset:
        """Return the whole plan: every node with its time, state, observed counts, action and value.

        Returns
        -------
        xarray.Dataset
            Variables ``time``, ``state``, ``action``, ``value`` over ``node``, and ``seen`` over ``node`` and
            ``outcome``, the observed counts; ``source`` and ``k`` say which outcome it is.
        """
        import xarray as xr

        time = np.repeat(np.arange(self.depth), [codes.size for codes in self._layers])
        code, entries = np.concatenate(self._layers), self._model.entries
        digits = np.broadcast_to(np.arange(self._slots.size), (code.size, self._slots.size))
        source = np.repeat(np.arange(entries.begin.size - 1), np.diff(entries.begin))[self._slots]
        names, acts = np.empty(len(self.states), dtype=object), np.empty(len(self.actions), dtype=object)
        names[:], acts[:] = self.states, self.actions
        return xr.Dataset(
            {
                "time": ("node", time),
                "state": ("node", names[(code % self._codes.n_states).astype(np.int64)]),
                "action": ("node", acts[np.concatenate(self._actions)]),
                "value": ("node", np.concatenate(self._values)),
                "seen": (("node", "outcome"), self._codes.seen(code[:, None], digits).astype(np.int64)),
            },
            coords={"source": ("outcome", source), "k": ("outcome", entries.outcome[self._slots])},
            attrs={"risk": repr(self._risk), "horizon": self.horizon, "error_bound": self.error_bound},
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return the first decisions: a row for each state where the plan may start.

        Returns
        -------
        pandas.DataFrame
            Columns action, value, fixed_value and value_of_learning, by state.
        """
        import pandas as pd

        at = np.flatnonzero(self.policy >= 0)
        columns = {
            "action": [self.actions[a] for a in self.policy[at]],
            "value": self.value[at],
            "fixed_value": self.fixed_value[at],
            "value_of_learning": self.value_of_learning[at],
        }
        if self.depth < self.horizon:
            columns["upper_bound"] = self.upper_bound[at]
        return pd.DataFrame(columns, index=pd.Index([self.states[s] for s in at], name="state"))

    def __str__(self) -> str:
        first = f"Plan of {plural(self.horizon, 'step')} that learns: {plural(self.nodes, 'node')}, {self.message}"
        table = self.to_pandas()
        rest = f"\n... {plural(len(table) - 20, 'more state')}" if len(table) > 20 else ""
        return f"{first}\n{table.head(20).to_string()}{rest}"

    def plot(self) -> Figure:
        """Draw how likely each action is at each time.

        Returns
        -------
        matplotlib.figure.Figure
            One band for each action, with outcomes as the posterior predicts them.
        """
        return draw(self.action_shares, [str(action) for action in self.actions]).to_matplotlib()


def learning_plan(
    problem: PlanningProblem, posterior: DirichletPosterior | None, risk: RiskMeasure, keywords: Mapping[str, Any]
) -> LearningPlan:
    """Return the best plan that updates a posterior on the way; ``posterior`` is None where that is not possible.

    ``keywords`` are those of ``BayesianRiskMDP.solve``; what a plan that learns cannot use is refused.
    """
    given = dict(keywords)
    tol, horizon, terminal_value, start, exclude, draws, rng, threads = (
        given.pop(name, None)
        for name in ("tol", "horizon", "terminal_value", "start", "exclude", "draws", "rng", "threads")
    )
    if draws is None and rng is not None:
        message = "rng is only used with a number of draws; omit it for an exact plan"
        raise ParameterError(message, code="conflicting-arguments", argument="rng")
    for name, value in given.items():
        if value is not None:
            message = f"{name} cannot be combined with learning"
            raise ParameterError(message, code="conflicting-arguments", argument=name)
    if horizon is None:
        message = "horizon must be given: a plan that learns has a finite horizon"
        raise ParameterError(message, code="missing-argument", argument="horizon")
    if posterior is None:
        message = (
            "learning=True needs a DirichletPosterior, a risk measure that is evaluated exactly, and known rewards "
            "(reward_posterior='certain')"
        )
        raise ParameterError(message, code="conflicting-arguments", argument="learning")
    allowed = problem if exclude is None else problem.without(exclude)
    fixed = solve(allowed, tol, horizon=horizon, terminal_value=terminal_value).value[0]
    model = cast(UncertainMDP, allowed.model)
    rollout = None
    if draws is not None:
        workers = default_threads() if threads is None else whole_number(threads, "threads")
        rollout = _Rollout(whole_number(draws, "draws", 10), generator(rng), workers)
    return _solved(model, posterior.counts, risk, horizon, terminal_value, start, tol, fixed, rollout)


class _Rollout(NamedTuple):
    """How nodes are bounded where a plan is too large to be exact."""

    draws: int
    rng: np.random.Generator
    threads: int


def _solved(
    model: UncertainMDP,
    prior: FloatArray,
    risk: RiskMeasure,
    horizon: int,
    terminal_value: TerminalValueLike,
    start: StartLike,
    tol: float | None,
    fixed_value: FloatArray,
    rollout: _Rollout | None = None,
) -> LearningPlan:
    """Return the plan for Dirichlet counts ``prior`` [B, K]; ``fixed_value`` [S] are the values without updates."""
    model.require_unit_durations("plans that learn")
    steps = whole_number(horizon, "horizon")
    aim = None if tol is None else positive(tol, "tol")
    final = model.final_values(terminal_value)
    shares = model.start_distribution(start)
    table, slots = PairTable.of(model, prior)
    codes = Nodes(table, model.n_states, slots.size, steps)
    progress = Progress("learning plan")
    layers, last = _forward(codes, np.flatnonzero(shares > 0.0), steps, progress, rollout is not None)
    depth, ends = len(layers), (last % model.n_states).astype(np.int64)
    below = above = final[ends]
    if depth < steps:
        assert rollout is not None
        digits = np.broadcast_to(np.arange(slots.size), (last.size, slots.size))
        counts = np.tile(model.entries.pack(prior), (last.size, 1))
        counts[:, slots] += codes.seen(last[:, None], digits)
        below, above = leaf_bounds(model, risk, Leaves(ends, counts), steps - depth, final, *rollout)
    values, taken, best_rows, error = _backward(codes, layers, below, risk, model.discount, progress)
    upper = values[0] if depth == steps else _backward(codes, layers, above, risk, model.discount, progress)[0][0]
    progress.close()
    roots = (layers[0].code % model.n_states).astype(np.int64)
    found, policy, high = np.full(model.n_states, np.nan), np.full(model.n_states, -1), np.full(model.n_states, np.nan)
    found[roots], policy[roots], high[roots] = values[0], taken[0], upper
    largest = max(float(np.abs(each).max(initial=0.0)) for each in values)
    converged, message = reached(error, DIGITS * largest if aim is None else aim, steps)
    if depth < steps:
        gap = float((high - found)[roots].max())
        converged = gap <= (0.0 if aim is None else aim)
        message = f"{plural(depth, 'step')} exact, the rest bounded by {rollout.draws:,} draws: gap {gap:.3g}"  # type: ignore[union-attr]
    return LearningPlan(
        value=found,
        policy=policy,
        fixed_value=np.where(np.isnan(found), np.nan, fixed_value),
        error_bound=error,
        converged=converged,
        message=message,
        horizon=steps,
        nodes=sum(layer.code.size for layer in layers),
        start=shares,
        action_shares=_shares(codes, layers, best_rows, shares, model.n_actions),
        upper_bound=high,
        depth=depth,
        states=model.states,
        actions=model.actions,
        _model=model,
        _counts=prior.copy(),
        _risk=risk,
        _codes=codes,
        _slots=slots,
        _layers=tuple(layer.code for layer in layers),
        _actions=tuple(taken),
        _values=tuple(values),
    )


def _backward(
    codes: Nodes, layers: list[Layer], value: FloatArray, risk: RiskMeasure, discount: float, progress: Progress
) -> tuple[list[FloatArray], list[IntArray], list[IntArray], float]:
    """Return values, actions and rows of the nodes of all layers, from values after the last one, and the error."""
    error, values, taken, rows = 0.0, [], [], []
    for done, layer in enumerate(reversed(layers), 1):
        counts, earned = _rows(codes, layer, value, discount)
        size = float(np.abs(earned).max(initial=0.0))
        value, row, more = _best(risk, layer.first, earned, counts)
        error = discount * error + more + 4.0 * EPS * size
        values.append(value)
        rows.append(row)
        taken.append(codes.table.action[layer.pair[row]])
        progress.show(f"{done:,} of {len(layers):,} steps")
    return values[::-1], taken[::-1], rows[::-1], error


def _forward(
    codes: Nodes, roots: IntArray, steps: int, progress: Progress, bounded: bool
) -> tuple[list[Layer], npt.NDArray[Any]]:
    """Return the layers, and the nodes after the last one; refuse a plan that is too large, or end it early."""
    layers: list[Layer] = []
    code, entries = np.unique(roots.astype(codes.weights.dtype)), 0
    table = codes.table
    width, pairs = table.next_state.shape[1], np.diff(table.begin)
    ways = np.add.reduceat((table.next_state >= 0).sum(axis=1), table.begin[:-1])  # on from a node of each state
    joined = codes.most_parents(steps)
    for time in range(steps):
        state = (code % codes.n_states).astype(np.int64)
        entries += width * int(pairs[state].sum())
        # of later times, without making them
        least, fewest, to_come = float(ways[state].sum()), 0.0, 0.0
        for later_time in range(time + 1, steps):
            fewest = least / joined[later_time]
            to_come += width * int(pairs.min()) * fewest
            least = fewest * int(ways.min())
            if least == 0.0 or entries + to_come > MAX_ENTRIES:
                break
        if entries + to_come > MAX_ENTRIES and not bounded:
            nodes = sum(layer.code.size for layer in layers) + code.size
            digits = codes.weights.size - 1
            most = codes.n_states * math.comb(steps - 1 + digits, digits)
            size = most * width * float(pairs.mean()) * ENTRY_BYTES / 1e9
            alone = f", time {later_time:,} alone at least {math.ceil(fewest):,}" if to_come else ""
            message = (
                f"horizon {steps:,} is too long for an exact plan: it has {nodes:,} nodes up to time {time:,}{alone}, "
                f"and up to {most:.2g} at the last time, which take about {size:.2g} GB; "
                "shorten the horizon, let pairs share sources, or give draws, e.g. draws=200, for a plan with bounds"
            )
            raise ParameterError(message, code="too-large", argument="horizon", value=steps)
        layer, later = codes.layer(code)
        if bounded and layers and later.size > MAX_LEAVES:
            break
        code = later
        layers.append(layer)
        progress.show(f"{time + 1:,} of {steps:,} layers, {code.size:,} nodes")
    return layers, code


def _rows(codes: Nodes, layer: Layer, value: FloatArray, discount: float) -> tuple[FloatArray, FloatArray]:
    """Return the counts [N, K] of the rows of a layer, and what their outcomes are worth."""
    table = codes.table
    node = np.repeat(np.arange(layer.code.size), np.diff(layer.first))
    base = table.counts[layer.pair]
    seen = codes.seen(layer.code[node, None], table.digit[layer.pair])
    later = np.append(value, 0.0)[layer.child]  # -1 is nothing
    return np.where(base > 0.0, base + seen, 0.0), table.reward[layer.pair] + discount * later


def _shares(
    codes: Nodes, layers: list[Layer], best_rows: list[IntArray], start: FloatArray, n_actions: int
) -> FloatArray:
    """Return how likely the plan takes each action at each time [T, A], as the posterior predicts."""
    shares = np.zeros((len(layers), n_actions))
    chance = start[(layers[0].code % codes.n_states).astype(np.int64)]
    for time, (layer, row) in enumerate(zip(layers, best_rows, strict=True)):
        table, pair = codes.table, layer.pair[row]
        shares[time] = np.bincount(table.action[pair], chance, n_actions)
        base = table.counts[pair]
        counts = np.where(base > 0.0, base + codes.seen(layer.code[:, None], table.digit[pair]), 0.0)
        likely = chance[:, None] * counts / counts.sum(axis=1, keepdims=True)
        child = layer.child[row]
        size = layers[time + 1].code.size if time + 1 < len(layers) else 0
        chance = np.bincount(child[child >= 0], likely[child >= 0], size).astype(np.float64)
    return shares
