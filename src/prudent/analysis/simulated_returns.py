"""Distribution of the return of a policy in a known model, by simulation.

A return is sum_t gamma^t r_t over one run of the process: to its end, to the horizon, or until the remaining steps can
change it by at most a tolerance. Random streams belong to a seed and the number of a run, so the first runs of a seed
stay the same if more are asked for, and the number of threads does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._numerics.compile import default_threads, kernel
from .._support.checks import generator, positive, require_scale, risk_level, whole_number
from .._support.streams import replication_streams
from ..data.policy import Policy
from ..display.figures import returns as figures
from ..errors import ModelError, ParameterError
from ..models.entries import Outcomes
from ..models.mdp import MDP
from ..models.transitions import Plan, cumulative_rows, draw, plan_of
from ..models.uncertain import UncertainMDP
from ..planning.drawn_policies import over_units
from ..planning.ends import find_over
from ..planning.objectives import Entropic, EVaR
from ..risk import CVaR
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, PolicyLike, RngLike, StartLike
from .reading import start_in_words
from .return_distribution import QUANTILES, TAIL_ALPHA, ReturnDistribution, read_quantiles

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

RUNS_PER_STREAM = 256  # runs that share a random stream
DEFAULT_TOL = 1e-6  # bound on the steps that are not simulated, relative to the largest possible return
MAX_STEPS = 10**9  # of one run
LINEAR_SEARCH = 16  # number of outcomes up to which they are searched one by one


class Returns(np.ndarray[Any, np.dtype[np.float64]]):
    """Simulated returns of a policy: an array [N] with risk measures, a table and a figure.

    It has all methods of arrays (``mean()``, ``std()``, ...). Results of computations are ordinary arrays.

    Parameters
    ----------
    values : array_like [N]
        Return of each run.
    like : Returns, optional
        Returns from which the attributes are copied.

    Attributes
    ----------
    steps : ndarray [N]
        Number of steps of each run.
    truncation : float
        Bound on what the steps after the last simulated one could have added to a return.
    horizon : int or None
        Maximum number of steps of a run; None if runs go on to the end.
    start : str
        Where the runs began, in words.
    label : str
        "return", or "discounted return" for a discount below 1.

    See Also
    --------
    returns : Simulate returns.

    Examples
    --------
    >>> import prudent as pr
    >>> coin = pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[[[1, 0]], [[0, 0]]], discount=1.0)
    >>> heads = pr.returns(coin, [0, 0], start=0, replications=10_000, rng=1)
    >>> heads.shape, bool(abs(heads.mean() - 1.0) < 0.1), heads.quantile(0.25)
    ((10000,), True, 0.0)
    >>> bool(heads.evar(0.5) <= heads.cvar(0.5) <= heads.mean())
    True
    """

    truncation: float
    steps: IntArray
    horizon: int | None
    start: str
    label: str

    def __new__(cls, values: ArrayLike, like: Returns | None = None) -> Self:
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
        """Return results of computations as ordinary arrays."""
        plain = np.asarray(array)
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    @property
    def distribution(self) -> ReturnDistribution:
        """Distribution of the return of the policy, with standard errors."""
        return ReturnDistribution(np.asarray(self)[:, np.newaxis], ("policy",), self.start)

    def quantile(self, quantiles: ArrayLike) -> Any:
        """Return one quantile or several.

        Parameters
        ----------
        quantiles : float or array_like
            Probabilities in [0, 1].

        Returns
        -------
        float or ndarray
            The quantiles, in the shape of `quantiles`.
        """
        asked = np.array(read_quantiles(quantiles)).reshape(np.shape(quantiles))
        values = np.quantile(np.asarray(self), asked) if asked.size else asked
        return float(values) if values.ndim == 0 else values

    def cvar(self, alpha: float) -> float:
        """Return the mean of the worst ``1 - alpha`` of the returns.

        Parameters
        ----------
        alpha : float
            Risk level in (-1, 1).

        Returns
        -------
        float
            The CVaR of the returns.
        """
        return float(CVaR(alpha)(np.asarray(self)))

    def entropic(self, beta: float) -> float:
        """Return the entropic risk of the returns; see ``prudent.Entropic``.

        Parameters
        ----------
        beta : float
            Risk aversion.

        Returns
        -------
        float
            The entropic risk.
        """
        return Entropic(beta)(np.asarray(self))

    def evar(self, alpha: float) -> float:
        """Return the entropic value at risk of the returns; see ``prudent.EVaR``.

        It is far too high for few draws, because the worst outcomes are not among them.

        Parameters
        ----------
        alpha : float
            Risk level in [0, 1).

        Returns
        -------
        float
            The entropic value at risk.
        """
        return EVaR(alpha)(np.asarray(self))

    def summary(self, tail_alpha: float = TAIL_ALPHA, quantiles: Sequence[float] = QUANTILES) -> pandas.DataFrame:
        """Return the mean, the standard deviation, CVaR, quantiles and EVaR, with Monte Carlo standard errors.

        Parameters
        ----------
        tail_alpha : float, default=0.9
            Level of CVaR and EVaR in [0, 1).
        quantiles : sequence of float, default=(0.05, 0.5, 0.95)
            Probabilities of the quantiles.

        Returns
        -------
        DataFrame
            A row for each measure with columns estimate and standard_error, which is NaN for EVaR.
        """
        import pandas

        alpha, law = risk_level(tail_alpha, "tail_alpha", cautious=True), self.distribution
        rows = {"mean": law.mean(), "sd": law.standard_deviation(), f"CVaR {alpha:g}": law.cvar(alpha)}
        table = {name: (part.value[0], part.error[0]) for name, part in rows.items()}
        points = law.quantiles(quantiles)
        for i, q in enumerate(read_quantiles(quantiles)):
            table[f"quantile {q:g}"] = (points.value[i, 0], points.error[i, 0])
        table[f"EVaR {alpha:g}"] = (self.evar(alpha), np.nan)
        return pandas.DataFrame.from_dict(table, orient="index", columns=["estimate", "standard_error"])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each run.

        Returns
        -------
        DataFrame
            Columns return and steps.
        """
        import pandas

        return pandas.DataFrame({"return": np.asarray(self), "steps": self.steps})

    def to_xarray(self) -> xarray.Dataset:
        """Return the runs as a dataset.

        Returns
        -------
        xarray.Dataset
            Variables return and steps over the dimension run; truncation and start as attributes.
        """
        data = self.to_pandas().rename_axis("run").to_xarray()
        return data.assign_attrs(truncation=self.truncation, start=self.start)

    def plot(self, tail_alpha: float = TAIL_ALPHA) -> Figure:
        """Plot a histogram of the returns with their mean, CVaR, EVaR and 5% quantile.

        Parameters
        ----------
        tail_alpha : float, default=0.9
            Level of CVaR and EVaR in [0, 1).

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        alpha = risk_level(tail_alpha, "tail_alpha", cautious=True)
        return figures.draw_simulated(
            np.asarray(self),
            quantile=self.quantile(0.05),
            cvar=self.cvar(alpha),
            evar=self.evar(alpha),
            tail_alpha=alpha,
            x_label=f"{self.label} from {self.start}",
        ).to_matplotlib()

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
    policy: PolicyLike,
    *,
    start: StartLike = None,
    horizon: int | None = None,
    replications: int = 10_000,
    rng: RngLike = None,
    terminal_value: ArrayLike | Mapping[Any, float] | None = None,
    tol: float | None = None,
    threads: int | None = None,
) -> Returns:
    """Simulate the discounted return of a policy in a known model.

    Parameters
    ----------
    mdp : MDP
        The model; for an uncertain one, ``model.mdp(theta)`` or ``problem.mean_mdp()``. Rewards are random where the
        model has rewards of single transitions.
    policy : array_like, dict or Solution
        An action for each state, probabilities of actions [S, A], a ``Solution``; or one that depends on time:
        actions [T, S], probabilities [T, S, A], a list of policies, or a solution with a horizon.
    start : state, dict or array_like [S], optional
        Where runs begin: a state, a dict {state: probability} or probabilities. By default every state that is not
        terminal is equally likely.
    horizon : int, optional
        Number of steps. The default is the horizon of a policy that depends on time; otherwise runs go on to the end
        of the process or, with a discount below 1, until all further steps together could change the return by at most
        `tol`.
    replications : int, default=10000
        Number of runs.
    rng : int or Generator, optional
        Source of randomness. The first runs of a seed stay the same if more are asked for; `threads` does not matter.
    terminal_value : array_like or dict, optional
        Value of the states after the horizon, as for ``solve``.
    tol : float, optional
        Bound on the steps that are not simulated, by default a millionth of the largest possible return.
    threads : int, optional
        Number of threads, by default all cores.

    Returns
    -------
    Returns
        An array [replications] of discounted returns.

    Raises
    ------
    ModelError
        If `mdp` is not an MDP, or a run without a horizon does not end.
    ParameterError
        If the policy does not fit the model, or arguments cannot be combined.

    See Also
    --------
    posterior_returns : Returns of policies in an uncertain model.

    Examples
    --------
    The nested risk of the paper against the risk of the return:

    >>> import prudent as pr
    >>> mdp = pr.MDP([[[0.9, 0.1], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[5, 4], [0, -3]], discount=0.9)
    >>> plan = pr.solve(mdp, objective=pr.EVaR(0.9), start=0, horizon=20)
    >>> drawn = pr.returns(mdp, plan, start=0, replications=2000, rng=7)
    >>> len(drawn), bool(drawn.cvar(0.9) > plan.objective_value - 0.5)
    (2000, True)
    """
    if not isinstance(mdp, MDP):
        hint = "; for an uncertain model give model.mdp(theta)" if isinstance(mdp, UncertainMDP) else ""
        message = f"mdp must be an MDP, got {type(mdp).__name__}{hint}"
        raise ModelError(message, code="wrong-type", argument="mdp", expected="MDP")
    steps = None if horizon is None else whole_number(horizon, "horizon", maximum=MAX_STEPS)
    timed = Policy.read(policy, mdp, steps)
    if steps is None and timed.later is None:
        steps = timed.steps.shape[0]
    if steps is not None:
        timed.require(steps)
    elif terminal_value is not None:
        message = "terminal_value needs horizon: it is the value of states after a horizon"
        raise ParameterError(message, code="missing-argument", argument="horizon")
    runs = whole_number(replications, "replications", memory=16.0)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    first = mdp.start_distribution(start)
    if tol is not None and (steps is not None or mdp.discount == 1.0):
        message = "tol needs a discount below 1 and no horizon: only such runs are truncated"
        raise ParameterError(message, code="conflicting-arguments", argument="tol", value=tol)
    simulator = _Simulator(mdp, timed, first, steps, mdp.final_values(terminal_value), tol)
    values, lengths = simulator.run(runs, int(generator(rng).integers(2**63)), workers)
    made = Returns(values)
    made.truncation, made.horizon, made.steps = simulator.truncation, steps, lengths
    made.start = start_in_words(mdp, first)
    made.label = "return" if mdp.discount == 1.0 else "discounted return"
    return made


class _Simulator:
    """Simulator of one policy in one model."""

    def __init__(
        self, mdp: MDP, policy: Policy, start: FloatArray, horizon: int | None, final: FloatArray, tol: float | None
    ) -> None:
        mdp.require_unit_durations("simulated returns")
        outcomes = mdp.outcomes()
        require_scale(np.append(outcomes.reward, final), "simulated returns")
        final = final if horizon is not None else np.zeros(mdp.n_states)
        # a run may stop where nothing more can be earned
        over = find_over(mdp, outcomes, _ever_taken(mdp, policy), must_end=False) & (not final.any())
        self.truncation, most = 0.0, MAX_STEPS if horizon is None else horizon
        self.must_end = horizon is None and mdp.discount == 1.0
        if self.must_end:
            find_over(mdp, outcomes, policy.later)
        elif horizon is None:
            largest = float(abs(outcomes.reward).max()) / (1.0 - mdp.discount)
            most = max(_steps_within(tol, largest, mdp.discount), policy.steps.shape[0], 1)
            self.truncation = largest * mdp.discount**most
        starts = cumulative_rows(start[np.newaxis])[0]
        self.task = (outcomes, _cumulated(outcomes), plan_of(*policy), starts, over, final, mdp.discount, most)

    def run(self, runs: int, seed: int, threads: int) -> tuple[FloatArray, IntArray]:
        """Return the returns and the lengths of so many runs."""
        values, lengths = np.empty(runs), np.empty(runs, np.int64)

        def work(unit: int) -> int:
            part = slice(unit * RUNS_PER_STREAM, min(runs, (unit + 1) * RUNS_PER_STREAM))
            _simulate(replication_streams(seed, unit)[0], *self.task, values[part], lengths[part])
            return part.stop - part.start

        over_units(work, -(-runs // RUNS_PER_STREAM), threads, "simulating returns", f"{{:,}} of {runs:,} runs")
        if self.must_end and (lengths == MAX_STEPS).any():
            message = f"run {int(np.argmax(lengths))} has not ended after {MAX_STEPS:,} steps; give a horizon"
            raise ModelError(message, code="endless-process", index=int(np.argmax(lengths)))
        return values, lengths


def _steps_within(tol: float | None, largest: float, discount: float) -> int:
    """Return the number of steps after which the rest of a return, ``largest`` at most, is below the tolerance."""
    aim = DEFAULT_TOL * largest if tol is None else positive(tol, "tol")
    steps = 1 if largest <= aim or discount == 0.0 else math.ceil(math.log(aim / largest) / math.log(discount))
    if steps > MAX_STEPS:
        message = f"tol {aim:.2g} needs {steps:,} steps; give a horizon or a larger tol"
        raise ParameterError(message, code="too-many-steps", argument="tol", value=aim)
    return steps


def _ever_taken(mdp: MDP, policy: Policy) -> BoolArray:
    """Return the pairs [S, A] that a policy takes at some time."""
    taken = np.zeros(mdp.admissible.shape, dtype=np.bool_)
    for rows in (policy.steps, policy.later):
        if rows is not None and policy.mixed:
            taken |= (rows > 0.0).reshape(-1, *taken.shape).any(axis=0)
        elif rows is not None:
            taken[np.arange(mdp.n_states), rows] = True
    return taken


@kernel
def _cumulated(outcomes: Outcomes) -> FloatArray:
    """Return cumulative probabilities [E] of the outcomes of each pair; the last one is 1."""
    cumulative = np.empty(outcomes.chance.size)
    for p in range(outcomes.first.size - 1):
        total = 0.0
        for e in range(outcomes.first[p], outcomes.first[p + 1]):
            total += outcomes.chance[e]
            cumulative[e] = total
        for e in range(outcomes.first[p], outcomes.first[p + 1]):
            cumulative[e] /= total
    return cumulative


@kernel
def _simulate(
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
            entry, chance = begin, rng.random()
            if end - begin > LINEAR_SEARCH:
                entry += draw(cumulative[begin:end], chance)
            else:
                while cumulative[entry] <= chance:
                    entry += 1
            total += weight * outcomes.reward[entry]
            weight *= discount
            time += 1
            state = int(outcomes.next_state[entry])
        values[i] = total + weight * final[state] if time == most and state >= 0 else total
        lengths[i] = time
