"""The distribution of the return of a policy in a known model, by simulation.

A return is sum_t gamma^t r_t over one run of the process: to its end, to the horizon, or until what is left can no
longer matter. Random streams belong to a seed and the number of a run: more runs begin with the same ones, and the
number of threads does not matter.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._numerics.compile import default_threads, each_row, kernel, over_rows
from .._support.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    generator,
    positive,
    probability,
    risk_level,
    whole_number,
)
from .._support.progress import Progress
from .._support.streams import replication_streams
from ..data.policy import Policy
from ..errors import ModelError, ParameterError
from ..models.entries import Outcomes
from ..models.mdp import MDP
from ..models.transitions import Plan, cumulative_rows, draw, plan_of
from ..models.uncertain import UncertainMDP
from ..planning.objectives import Entropic, EVaR
from ..planning.undiscounted import find_over
from ..risk import CVaR
from .estimates import cvar, mean, quantiles, standard_deviation
from .reading import start_in_words

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

__all__ = ["Returns", "returns"]

UNIT = 256  # runs that share a random stream
CUT = 1e-6  # of the largest return: what the steps after the last one simulated may add
LONGEST = 10**9  # steps of one run
SHORT = 16  # outcomes that are looked through one by one


class Returns(np.ndarray[Any, np.dtype[np.float64]]):
    """Simulated returns of a policy: an array [N] that knows what it is.

    It has all that arrays have (``mean()``, ``std()``, ...), and quantiles, CVaR, EVaR and entropic risk, a table and a
    figure. What is computed from it is an ordinary array.

    >>> import prudent as pr
    >>> coin = pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[[[1, 0]], [[0, 0]]], discount=1.0)
    >>> heads = pr.returns(coin, [0, 0], start=0, replications=10_000, rng=1)
    >>> heads.shape, bool(abs(heads.mean() - 1.0) < 0.1), heads.quantile(0.25)
    ((10000,), True, 0.0)
    >>> bool(heads.evar(0.5) <= heads.cvar(0.5) <= heads.mean())
    True
    """

    truncation: float  # what the steps after the last one simulated could still have added to a return, at most
    steps: IntArray  # [N] how many each run took
    horizon: int | None  # the most steps of a run; None: until the end
    start: str  # where the runs began, in words
    label: str

    def __new__(cls, values: FloatArray, like: Returns | None = None) -> Self:
        """Return ``values`` [N] as returns."""
        made = np.asarray(values, dtype=np.float64).view(cls)
        made.__array_finalize__(like)
        return made

    def __array_finalize__(self, of: Any) -> None:
        self.__dict__.update(getattr(of, "__dict__", {}))

    def __getitem__(self, key: Any) -> Any:
        """Return one return, or some of them with their numbers of steps."""
        part = super().__getitem__(key)
        if isinstance(part, Returns):
            part.steps = self.steps[key]
        return part

    def __reduce__(self) -> Any:
        plain: Any = super().__reduce__()
        return plain[0], plain[1], (plain[2], self.__dict__)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        self.__dict__.update(state[1])

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return what is computed from returns as an ordinary array."""
        plain = np.asarray(array)
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def quantile(self, level: Any) -> Any:
        """Return the quantile at ``level`` in [0, 1], or those at several levels."""
        at = np.asarray(level, dtype=object)
        for each in at.ravel().tolist():
            probability(each, "level")
        found = np.quantile(np.asarray(self), at.astype(np.float64))
        return float(found) if at.ndim == 0 else found

    def cvar(self, alpha: float) -> float:
        """Return the mean of the worst ``1 - alpha`` of the returns."""
        return float(CVaR(alpha)(np.asarray(self)))

    def entropic(self, beta: float) -> float:
        """Return the entropic risk; see :class:`prudent.Entropic`."""
        return Entropic(beta)(np.asarray(self))

    def evar(self, alpha: float) -> float:
        """Return the entropic value at risk; see :class:`prudent.EVaR`.

        Of few draws it is far too high, as the worst that can happen is not among them.
        """
        return EVaR(alpha)(np.asarray(self))

    def summary(self, alpha: float = 0.9, levels: Any = (0.05, 0.5, 0.95)) -> pandas.DataFrame:
        """Return a table of the mean, the standard deviation, quantiles and CVaR, with Monte Carlo standard errors."""
        import pandas

        draws = np.asarray(self)
        tail = risk_level(alpha, cautious=True)
        at = [probability(level, "levels") for level in np.atleast_1d(levels).tolist()]
        points = quantiles(draws, at)
        rows = {"mean": mean(draws), "sd": standard_deviation(draws), f"CVaR {tail:g}": cvar(draws, tail)}
        rows |= {f"quantile {q:g}": type(points)(points.value[i], points.error[i]) for i, q in enumerate(at)}
        table = {name: (float(each.value), float(each.error)) for name, each in rows.items()}
        table[f"EVaR {tail:g}"] = (self.evar(tail), np.nan)
        return pandas.DataFrame.from_dict(table, orient="index", columns=["estimate", "standard_error"])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each run: its return and the number of steps that it took."""
        import pandas

        return pandas.DataFrame({"return": np.asarray(self), "steps": self.steps})

    def plot(self, alpha: float = 0.9) -> Figure:
        """Return a figure of matplotlib: the distribution, with its mean, CVaR, EVaR and 5% quantile."""
        from .simulated_returns_figure import rollouts_figure

        return rollouts_figure(self, risk_level(alpha, cautious=True))

    def __repr__(self) -> str:
        if self.ndim != 1 or not self.size or not hasattr(self, "truncation"):
            return repr(np.asarray(self))
        draws = np.asarray(self)
        ends = "to the end" if self.horizon is None else f"up to {self.horizon:,} steps"
        return (
            f"Returns({draws.size:,} runs from {self.start}, {ends}: mean {draws.mean():.6g}, "
            f"sd {draws.std():.4g}, from {draws.min():.6g} to {draws.max():.6g})"
        )


def returns(
    mdp: MDP,
    policy: Any,
    *,
    start: Any = None,
    horizon: int | None = None,
    replications: int = 10_000,
    rng: Any = None,
    terminal: Any = None,
    tol: float | None = None,
    threads: int | None = None,
) -> Returns:
    """Simulate the discounted return of ``policy`` in a known model, ``replications`` times.

    Parameters
    ----------
    mdp : the model; of an uncertain one, ``model.mdp(theta)`` or ``problem.mean_mdp()``. Where it knows what single
        transitions earn, rewards are random; a reward [S, A] is earned as it is.
    policy : an action for each state, probabilities of actions [S, A], a :class:`Solution`; or one that depends on
        time: a Solution with a horizon, actions [T, S], probabilities [T, S, A], a list of policies.
    start : where runs begin: a state, a mapping {state: probability} or probabilities [S]; by default every state that
        is not terminal is equally likely.
    horizon : the number of steps. By default that of a policy that depends on time; else runs go on to the end of the
        process or, with a discount below 1, until all further steps together could change the return by at most
        ``tol``. The result says that bound as ``truncation``; with a horizon nothing comes after it.
    replications : the number of runs.
    rng : a seed or a Generator. The first runs of a seed stay the same if more are asked for; threads do not matter.
    terminal : what states are worth after the horizon, as for :func:`solve`.
    tol : see ``horizon``; by default a millionth of the largest return that is possible.
    threads : how many to use, by default all cores.

    The nested risk of the paper against the risk of the return:

    >>> import prudent as pr
    >>> mdp = pr.MDP([[[0.9, 0.1], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[5, 4], [0, -3]], discount=0.9)
    >>> plan = pr.solve(mdp, objective=pr.EVaR(0.9), start=0, horizon=20)
    >>> drawn = pr.returns(mdp, plan, start=0, replications=2000, rng=7)
    >>> len(drawn), bool(drawn.cvar(0.9) > plan.objective_value - 0.5)
    (2000, True)
    """
    if not isinstance(mdp, MDP):
        hint = "; of an uncertain model: model.mdp(theta)" if isinstance(mdp, UncertainMDP) else ""
        raise ModelError(f"expected an MDP, got {type(mdp).__name__}{hint}")
    steps = None if horizon is None else whole_number(horizon, "horizon")
    timed = Policy.read(policy, mdp, steps)
    if steps is None and timed.later is None:
        steps = timed.steps.shape[0]
    if steps is not None:
        timed.require(steps)
    elif terminal is not None:
        raise ParameterError("terminal is what states are worth after a horizon; give horizon as well")
    runs = whole_number(replications, "replications")
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    first = mdp.start_distribution(start)
    walker = _Walker(mdp, timed, first, steps, mdp.final_values(terminal), tol)
    values, lengths = walker.run(runs, int(generator(rng).integers(2**63)), workers)
    made = Returns(values)
    made.truncation, made.horizon, made.steps = walker.truncation, steps, lengths
    made.start = start_in_words(mdp, first)
    made.label = "return" if mdp.discount == 1.0 else "discounted return"
    return made


class _Walker:
    """A policy in a model, ready to be run."""

    def __init__(
        self,
        mdp: MDP,
        policy: Policy,
        start: FloatArray,
        horizon: int | None,
        final: FloatArray,
        tol: float | None,
    ) -> None:
        self.outcomes = mdp.outcomes()
        self.discount = mdp.discount
        self.start = cumulative_rows(start[np.newaxis])[0]
        self.cumulative = _ragged_cumulative(self.outcomes)
        self.plan = plan_of(*policy)
        self.final = final if horizon is not None else np.zeros(mdp.n_states)
        taken = _ever_taken(mdp, policy)
        # where nothing more can be earned, a run may stop
        self.over = find_over(mdp, self.outcomes, taken, must_end=False) & (not self.final.any())
        self.truncation, self.horizon = 0.0, horizon
        self.most = LONGEST if horizon is None else horizon
        if horizon is None and mdp.discount < 1.0:
            self._cut(tol, max(1, policy.steps.shape[0]))
        elif horizon is None:
            find_over(mdp, self.outcomes, policy.later)
        if tol is not None and (horizon is not None or mdp.discount == 1.0):
            raise ParameterError("tol is for runs that are cut: without a horizon, at a discount below 1")

    def _cut(self, tol: float | None, least: int) -> None:
        """Choose after how many steps the rest is too small to matter."""
        most = float(abs(self.outcomes.reward).max()) / (1.0 - self.discount)
        aim = CUT * most if tol is None else positive(tol, "tol")
        steps = 1 if most <= aim or self.discount == 0.0 else math.ceil(math.log(aim / most) / math.log(self.discount))
        self.most = max(steps, least)
        if self.most > LONGEST:
            raise ParameterError(f"tol {aim:.2g} needs {self.most:,} steps; give a horizon or a larger tol")
        self.truncation = most * self.discount**self.most

    def run(self, runs: int, seed: int, threads: int) -> tuple[FloatArray, IntArray]:
        """Return the returns and the lengths of so many runs."""
        values, lengths = np.empty(runs), np.empty(runs, np.int64)
        progress, done = Progress("simulating returns"), 0

        def work(i: int, j: int) -> None:
            nonlocal done
            for unit in each_row(i, j):
                here = slice(unit * UNIT, min(runs, (unit + 1) * UNIT))
                _walk(
                    replication_streams(seed, unit)[0],
                    self.outcomes,
                    self.cumulative,
                    self.plan,
                    self.start,
                    self.over,
                    self.final,
                    self.discount,
                    self.most,
                    values[here],
                    lengths[here],
                )
                done += here.stop - here.start
                progress.show(f"{done:,} of {runs:,} runs")

        over_rows(work, -(-runs // UNIT), threads, long=True)
        progress.close()
        if self.horizon is None and self.discount == 1.0 and (lengths == LONGEST).any():
            raise ModelError(f"run {int(np.argmax(lengths))} has not ended after {LONGEST:,} steps; give a horizon")
        return values, lengths


def _ragged_cumulative(outcomes: Outcomes) -> FloatArray:
    """Return cumulative probabilities [E] of the outcomes of each pair; the last one is 1."""
    cumulative = np.empty(outcomes.chance.size)
    _cumulate(outcomes, cumulative)
    return cumulative


def _ever_taken(mdp: MDP, policy: Policy) -> BoolArray:
    """Return the pairs [S, A] that a policy takes at some time."""
    taken = np.zeros(mdp.admissible.shape, dtype=np.bool_)
    for rows in (policy.steps, *([] if policy.later is None else [policy.later[np.newaxis]])):
        if policy.mixed:
            taken |= (rows > 0.0).any(axis=0)
        else:
            taken[np.arange(mdp.n_states), rows] = True
    return taken


@kernel
def _cumulate(outcomes: Outcomes, cumulative: FloatArray) -> None:
    for p in range(outcomes.first.size - 1):
        total = 0.0
        for e in range(outcomes.first[p], outcomes.first[p + 1]):
            total += outcomes.chance[e]
            cumulative[e] = total
        for e in range(outcomes.first[p], outcomes.first[p + 1]):
            cumulative[e] /= total  # the last one is 1


@kernel
def _walk(
    rng: np.random.Generator,
    outcomes: Outcomes,
    cumulative: FloatArray,  # [E] of the outcomes of each pair
    plan: Plan,
    start: FloatArray,  # [S] cumulative
    over: BoolArray,  # [S]
    final: FloatArray,  # [S]
    discount: float,
    most: int,
    values: FloatArray,  # [N], filled
    lengths: IntArray,  # [N], filled
) -> None:
    """Run the process until its end or ``most`` steps, once for each of ``values``."""
    actions, choices, _ = plan
    n_times = actions.shape[0] + choices.shape[0]
    n_actions = (outcomes.first.size - 1) // over.size
    for i in range(values.size):
        state = draw(start, rng.random())
        total, weight, time = 0.0, 1.0, 0
        while time < most and state >= 0 and not over[state]:
            now = min(time, n_times - 1)
            action = draw(choices[now, state], rng.random()) if choices.size else actions[now, state]
            p = state * n_actions + action
            begin, end = outcomes.first[p], outcomes.first[p + 1]
            place, chance = begin, rng.random()
            if end - begin > SHORT:
                place += draw(cumulative[begin:end], chance)
            else:
                while cumulative[place] <= chance:
                    place += 1
            total += weight * outcomes.reward[place]
            weight *= discount
            time += 1
            state = int(outcomes.next_state[place])
        values[i] = total + weight * final[state] if time == most and state >= 0 else total
        lengths[i] = time
