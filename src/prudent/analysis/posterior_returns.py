"""True returns of policies under posterior draws of the model.

For each draw theta of the posterior the uncertain model is an ordinary MDP. There the discounted return of every policy
from the start is exact (a linear system with a checked residual), and so is the return of the best policy of that draw.
All policies face the same draws, so their differences are precise.

**The return and the Bayesian-risk value differ.** The return of a policy has one distribution over the posterior. Its
mean, quantiles and CVaR answer "how bad could this policy be?". The Bayesian-risk value of ``BayesianRiskMDP``
takes the risk again at every step, as if all sources were bad at once. Where the return depends on many sources, that
value lies far below any quantile of the return. (If everything depends on one source, it is close to the CVaR of the
return.) Use it to choose policies, not to predict what they earn.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads
from .._numerics.dirichlet_draws import draw_slots
from .._support.checks import generator, risk_level, whole_number
from .._support.intervals import Estimate, estimate_mean
from .._support.streams import replication_streams
from ..data.columns import as_column
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.entries import END, Outcomes
from ..models.uncertain import UncertainMDP
from ..planning.horizon import steps_worth
from ..planning.model_draws import DENSE, FLOOR, Layout, Rows, Task, drawn_returns, eliminated_returns, plan_returns
from ..planning.problem import RewardsLike, unknown_rewards
from ..planning.stay_close import read_baseline
from ..planning.undiscounted import find_over
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, PolicyLike, RngLike, StartLike, TerminalValueLike
from .reading import Belief, NamedPolicy, horizon_of, over_units, problem_of, read_belief, read_policies, start_in_words
from .return_distribution import QUANTILES, TAIL_ALPHA, ReturnDistribution, read_quantiles

if TYPE_CHECKING:
    import xarray

TODAY = "today"  # name of the baseline
DEFAULT_DRAWS = 1_000
RELATIVE_ERROR = 1e-10  # of a return, relative to the largest value
DRAWS_PER_STREAM = 16  # draws that share a random stream
MAX_NUMBERS = 2_000_000  # drawn at a time by one thread; with more outcomes fewer draws share a stream


def posterior_returns(
    model: UncertainMDP,
    posterior: DirichletPosterior | ArrayLike,
    policies: PolicyLike | Mapping[Any, PolicyLike] | Sequence[PolicyLike],
    start: StartLike = None,
    draws: int | None = None,
    rng: RngLike = None,
    *,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    quantiles: Sequence[float] = QUANTILES,
    tail_alpha: float = TAIL_ALPHA,
    regret: bool = True,
    reward_posterior: RewardsLike = None,
    baseline: PolicyLike | str | None = None,
    threads: int | None = None,
) -> xarray.Dataset:
    """Compute the true returns of policies under many posterior draws of the model.

    For every draw, the discounted return of each policy from the start is exact (no simulation), and all policies face
    the same draws.

    Parameters
    ----------
    model : UncertainMDP
        The known part of the model. With discount 1 and no horizon the process must end under every policy (with
        `regret`, whatever is done).
    posterior : DirichletPosterior or array_like
        The posterior, its counts [B, K], or draws of the probabilities [N, B, K] (an array, an xarray or an ArviZ
        object), as for ``BayesianRiskMDP``.
    policies : policy, dict or sequence
        A dict {name: policy}, a list of policies, or one policy. A policy is an action for each state, a
        ``Solution``, probabilities of actions [S, A], or a dict or pandas object by the names of states.
    start : state, dict or array_like [S], optional
        Where the process begins: a state, a dict {state: probability} or probabilities. By default every state that is
        not terminal is equally likely.
    draws : int, optional
        Number of posterior draws, by default 1,000. Not allowed if `posterior` is given by draws.
    rng : int or Generator, optional
        Source of randomness. The first draws of a seed stay the same if more are asked for and do not depend on
        `threads`; with `regret` they do not depend on `policies` either.
    horizon : int, optional
        Number of steps, after which the return ends; policies may then depend on time. By default that of a policy
        that depends on time, such as a ``Solution`` with a horizon; otherwise the process goes on.
    terminal_value : array_like of shape (S,), float or mapping, optional
        What states are worth after the horizon, as for ``prudent.solve``.

    Returns
    -------
    xarray.Dataset
        For each ``policy``:

        - ``returns`` [draw, policy], the draws, and ``optimal`` [draw], the return of the best policy of each draw;
        - ``mean``, ``sd``, ``cvar`` and ``quantile`` [policy, probability] of the return;
        - ``probability_best``, the posterior probability that no other of the policies earns more; ties share it;
        - ``regret``, the mean loss against the best policy of each draw, and ``regret_given``, against the best of the
          given policies;
        - ``risk_value``, the value of a ``Solution`` from the start. That of a Bayesian risk MDP takes the risk
          again at every step, so it does not predict the return;
        - with `baseline`: ``difference``, the mean of the return minus that of the baseline in the same draw, and
          ``probability_better``, the posterior probability that this difference is positive; ties count half.

        Each estimate has its Monte Carlo standard error ``..._se``. The attributes are ``start``, ``draws``,
        ``tail_alpha``, the certified ``error_bound`` of every return, and ``same``, the policies that never differ.

    Other Parameters
    ----------------
    quantiles : sequence of float, default=(0.05, 0.5, 0.95)
        Probabilities of the quantiles of the return.
    tail_alpha : float, default=0.9
        Level of the CVaR of the return: its mean over the worst ``1 - tail_alpha`` of the posterior.
    regret : bool, default=True
        Whether to solve every drawn model for its best policy. Without it only the sources that the policies use are
        drawn, which is many times faster for large models.
    reward_posterior : NormalPosterior, BetaPosterior or "certain", optional
        Unknown mean rewards [S, A], added to those of the model except in absorbing and terminal states; by default
        those of the model, as for ``BayesianRiskMDP``.
    baseline : "log" or policy, optional
        What is done today, which is added as the last policy, ``"today"``: a policy, or ``"log"`` for the one that
        produced the data of the posterior (``prudent.planning.log_policy``).
    threads : int, optional
        Number of threads, by default all cores.

    Raises
    ------
    ModelError
        If `model` is no UncertainMDP, or a process at discount 1 may go on for ever.
    ParameterError
        If a policy or the start does not fit the model, or `draws` or `rng` is given with a posterior of draws.

    See Also
    --------
    plot_returns : Plot the result.
    risk_profile : Compare the policies of several risk levels.

    Examples
    --------
    In state 0, action 0 is well known and nothing is known of action 1:

    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> posterior = pr.DirichletPosterior([[60, 40], [1, 1], [50, 50], [60, 40]])
    >>> plans = {alpha: pr.BayesianRiskMDP(model, posterior, alpha).solve() for alpha in (0.0, 0.9)}
    >>> returns = posterior_returns(model, posterior, {"neutral": plans[0.0], "careful": plans[0.9]}, start=0, rng=1)
    >>> returns.sizes["draw"], returns.returns.dims
    (1000, ('draw', 'policy'))
    >>> returns[["mean", "cvar", "probability_best", "risk_value"]].to_pandas().round(1)
             mean  cvar  probability_best  risk_value
    policy
    neutral   4.2   0.9               0.6         4.5
    careful   3.9   3.3               0.4         3.1
    """
    belief = read_belief(model, posterior, reward_posterior)
    unknown = unknown_rewards(model, reward_posterior)
    steps = horizon_of(horizon, policies, model)
    if steps is None and terminal_value is not None:
        message = "terminal_value says what states are worth after a horizon; give horizon as well"
        raise ParameterError(message, code="missing-argument", argument="horizon")
    named = read_policies(model, policies, steps)
    if baseline is not None:
        if TODAY in [policy.name for policy in named]:
            message = f"policies has the name {TODAY!r}, which is that of baseline; give another name"
            raise ParameterError(message, code="duplicate-name", argument="policies", value=TODAY)
        today = read_baseline(baseline, problem_of(model, posterior, 0.0, reward_posterior))
        named.append(NamedPolicy(TODAY, today if steps is None else today[np.newaxis], None))
    first = model.start_distribution(start)
    probabilities = sorted(set(read_quantiles(quantiles)))
    alpha = risk_level(tail_alpha, "tail_alpha")
    if belief.theta is None:
        count = DEFAULT_DRAWS if draws is None else whole_number(draws, "draws", memory=32.0)
    else:
        count = belief.theta.shape[0]
        for name, value in (("draws", draws), ("rng", None if unknown is not None else rng)):
            if value is not None:
                message = f"{name} cannot be set: the posterior is given by its {count} draws"
                raise ParameterError(message, code="conflicting-arguments", argument=name, value=value)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    final = None if steps is None else model.final_values(terminal_value)
    problem = _Problem(model, belief, named, first, regret, unknown, steps, final)
    drawn = problem.run(count, int(generator(rng).integers(2**63)), workers)
    return _dataset(problem, drawn, probabilities, alpha, baseline is not None)


class _Returns(NamedTuple):
    """Returns under each draw."""

    policies: FloatArray  # [N, J]
    optimal: FloatArray | None  # [N]
    error: float  # bound on the error of each


class _Question(NamedTuple):
    """A value to compute for each draw: the return of a policy, or that of the best policy."""

    rows: Rows
    states: IntArray  # [R]
    start: FloatArray  # [R]
    weights: FloatArray | None  # [R, A] of the policy; None for the best policy, and with a horizon
    clock: FloatArray | None = None  # [E] factor of theta in the time of a step, at discount 1
    plan: FloatArray | None = None  # [T, R, A] of a policy with a horizon, or empty


class _Problem:
    """The chains of all policies, built once, and the posterior whose draws fill them."""

    def __init__(
        self,
        model: UncertainMDP,
        belief: Belief,
        named: Sequence[NamedPolicy],
        start: FloatArray,
        regret: bool,
        reward_posterior: NormalPosterior | BetaPosterior | None,
        horizon: int | None = None,
        final: FloatArray | None = None,
    ) -> None:
        self.model, self.named, self.start, self.reward_posterior = model, named, start, reward_posterior
        self.horizon, self.final = horizon, final
        possible = belief.mean > 0.0
        self.layout = Layout.of(model, possible)
        self.max_reward = float(np.abs(self.layout.reward).max())
        questions: dict[bytes, int] = {}
        self.questions: list[_Question] = []
        self.column: list[int] = []  # the question of each policy; policies may share one
        for policy in named:
            question = self._plan(policy.weights) if horizon is not None else self._chain(policy.weights)
            # with drawn rewards, chains that are otherwise the same may differ
            parts = [question.states, *question.rows]
            if horizon is not None or reward_posterior is not None:
                parts.append(question.weights if question.plan is None else question.plan)
            key = b"|".join(np.ascontiguousarray(part).tobytes() for part in parts)
            self.column.append(questions.setdefault(key, len(questions)))
            if len(questions) > len(self.questions):
                self.questions.append(question)
        if regret:
            every = (model.source >= 0).astype(np.float64)
            self.questions.append(self._plan(None) if horizon is not None else self._chain(every, best=True))
        self.regret = regret
        groups = {
            column: [p.name for p, c in zip(named, self.column, strict=True) if c == column] for column in self.column
        }
        self.same = [names for names in groups.values() if len(names) > 1]
        self._lay_out_draws(belief, possible)
        quiet = model.terminal | model.absorbing
        self._quiet = model.terminal if quiet.all() else quiet  # states that earn no drawn rewards

    def _chain(self, weights: FloatArray, best: bool = False) -> _Question:
        """Return the question of a policy with weights [S, A], or of the best one among those that have weight."""
        layout, clock = self.layout, None
        if self.model.discount == 1.0:
            over = self._over(None if best else weights)[layout.pair // layout.n_actions]
            layout = layout._replace(target=np.where(over, -1, layout.target))
            clock = layout._replace(reward=np.where(over, 0.0, 1.0))
        states = layout.reached(self.start, weights)
        parts = [
            None if one is None else (one.pairs(states) if best else one.chain(states, weights))
            for one in (layout, clock)
        ]
        assert parts[0] is not None
        times = None if parts[1] is None else parts[1].earning
        return _Question(parts[0], states, self.start[states], None if best else weights[states], times)

    def _plan(self, plan: FloatArray | None) -> _Question:
        """Return the question of a policy [T, S, A] with a horizon; None for the best one."""
        used = (self.model.source >= 0).astype(np.float64) if plan is None else plan.max(axis=0)
        states = self.layout.reached(self.start, used)
        steps = np.empty((0, 0, 0)) if plan is None else np.ascontiguousarray(plan[:, states])
        return _Question(self.layout.pairs(states, used), states, self.start[states], None, None, steps)

    def _over(self, weights: FloatArray | None) -> BoolArray:
        """Return where the process is over [S] at discount 1; it must end."""
        pair, target = self.layout.pair, np.where(self.layout.target < 0, END, self.layout.target).astype(np.int32)
        sizes = np.bincount(pair, minlength=self.model.source.size)
        first = np.concatenate(([0], np.cumsum(sizes)))
        earned = self.layout.reward + (
            0.0 if self.reward_posterior is None else ~self.model.absorbing[pair // self.layout.n_actions]
        )
        outcomes = Outcomes(first, target, earned, np.ones(pair.size))
        return find_over(self.model, outcomes, weights)

    def _lay_out_draws(self, belief: Belief, possible: BoolArray) -> None:
        """Keep the sources that some question uses; renumber their outcomes."""
        slot = np.flatnonzero(possible)  # of each place
        sizes = np.diff(belief.begin)
        source = np.repeat(np.arange(sizes.size), sizes)[slot]
        used = np.zeros(sizes.size, dtype=np.bool_)
        for question in self.questions:
            used[source[question.rows.place]] = True
        kept = used[source]
        number = np.cumsum(kept) - 1
        self.questions = [q._replace(rows=q.rows._replace(place=number[q.rows.place])) for q in self.questions]
        self.slot = slot[kept]
        sizes = np.bincount(source[kept], minlength=used.size)[used]
        self.first = np.concatenate(([0], np.cumsum(sizes)))
        self.counts = None if belief.counts is None else belief.counts[self.slot]
        self.given, self.surplus = belief.theta, belief.surplus
        self.mean = belief.mean[self.slot]
        self.unit = max(1, min(DRAWS_PER_STREAM, MAX_NUMBERS // max(self.slot.size, 1)))

    def _theta(self, unit: int, stop: int, rng: np.random.Generator) -> FloatArray:
        """Return the draws [n, E] of a unit."""
        begin = unit * self.unit
        if self.given is not None:
            return np.ascontiguousarray(self.given[begin:stop, self.slot])
        assert self.counts is not None
        theta = np.empty((self.slot.size, self.unit))  # a whole unit, so that more draws begin with the same ones
        draw_slots(rng, self.counts, self.first, theta, np.empty(self.unit))
        return np.ascontiguousarray(theta.T[: stop - begin])

    def _extra(self, question: _Question, rewards: FloatArray | None) -> FloatArray:
        """Return what drawn rewards [n, S, A] add to the rows of a question."""
        if rewards is None:
            return np.empty((0, 0))
        part = rewards[:, question.states]
        if question.weights is None:
            return np.ascontiguousarray(part.reshape(part.shape[0], -1))
        return np.ascontiguousarray(np.einsum("nra,ra->nr", part, question.weights))

    def _reward_draws(self, n: int, rng: np.random.Generator | None) -> FloatArray | None:
        if self.reward_posterior is None:
            return None
        drawn = self.reward_posterior.mean()[np.newaxis] if rng is None else self.reward_posterior.sample(n, rng)
        return np.where(self._quiet[:, np.newaxis], 0.0, drawn)

    def run(self, count: int, seed: int, threads: int) -> _Returns:
        """Return the returns under ``count`` draws."""
        results = np.empty((len(self.questions), count))
        mean, rewards = self.mean[np.newaxis], self._reward_draws(1, None)
        solvers: list[Any] = []
        for question in self.questions:
            if question.plan is None:
                extra = self._extra(question, rewards)
                solvers.append(_Solver(question, self.model.discount, self.max_reward, mean, extra))
            else:
                assert self.horizon is not None
                assert self.final is not None
                final = self.final[question.states]
                solvers.append(_Induction(question, self.model.discount, self.max_reward, self.horizon, final))

        def work(unit: int) -> int:
            begin, stop = unit * self.unit, min(count, (unit + 1) * self.unit)
            for_theta, for_rewards = replication_streams(seed, unit)
            theta = self._theta(unit, stop, for_theta)
            rewards = self._reward_draws(self.unit, for_rewards)
            for question, solver, row in zip(self.questions, solvers, results, strict=True):
                extra = self._extra(question, None if rewards is None else rewards[: stop - begin])
                solver(theta, extra, row[begin:stop])
            return stop - begin

        progress = f"{{:,}} of {count:,} draws"
        over_units(work, -(-count // self.unit), threads, "returns over the posterior", progress)
        residual = max(solver.unsettled for solver in solvers)
        if residual > 0.0:
            message = f"the values of some draws have a residual of {residual:.2g}; see attrs['error_bound']"
            warnings.warn(ConvergenceWarning(message, code="residual", value=residual), stacklevel=3)
        error = max(solver.error_bound(self.surplus) for solver in solvers)
        return _Returns(results[self.column].T, results[-1] if self.regret else None, error)


class _Solver:
    """Solver of one question for many draws, started at the values of the posterior mean; threads may share it."""

    def __init__(
        self, question: _Question, discount: float, max_reward: float, theta: FloatArray, extra: FloatArray
    ) -> None:
        rows, n_states = question.rows, question.states.size
        self.longest = int(np.diff(rows.indptr).max(initial=0))
        self.max_reward = max_reward  # reward
        self.clock = None if question.clock is None else rows._replace(earning=question.clock)
        self.start = question.start
        self.longest_time = 0.0
        gap = 1.0 / self._time(theta) if discount == 1.0 else 1.0 - discount
        digits = RELATIVE_ERROR * gap
        self.task = Task(rows, question.start, discount, digits * max_reward, False)
        self.checks: list[tuple[float, float]] = []  # residual and size of values of each call
        self.guess = np.zeros(n_states)
        self.sparse = False  # by sparse elimination
        products, _, _ = self._compute(theta, extra, self.guess, np.empty(1))
        self.sparse = products < 0  # where the mean model needs it, draws do too
        entries = rows.indices.size * n_states // (rows.indptr.size - 1)
        # in units of an entry of a product with P; elimination runs at the speed of a matrix product
        direct = n_states <= DENSE and 0.1 * n_states**3 < products * (entries + 8 * n_states)
        scale = max(self.max_reward, float(np.abs(self.guess).max()))
        self.task = self.task._replace(aim=digits * scale, direct=direct)

    def __call__(self, theta: FloatArray, extra: FloatArray, out: FloatArray) -> None:
        """Write the returns under the draws ``theta`` [n, E] into ``out`` [n]."""
        self.checks.append(self._compute(theta, extra, self.guess.copy(), out)[1:])
        if self.clock is not None:
            self.longest_time = max(self.longest_time, self._time(theta))

    def _time(self, theta: FloatArray) -> float:
        """Return a bound on the expected number of steps to the end, under every draw and from every state."""
        assert self.clock is not None
        task = Task(self.clock, self.start, 1.0, 1e-3, False)
        guess, out = np.zeros(self.start.size), np.empty(theta.shape[0])
        _, residual, size = drawn_returns(task, theta, np.empty((0, 0)), guess, out)
        if not residual < 0.5:
            _, residual, size = eliminated_returns(task, theta, np.empty((0, 0)), np.zeros(self.start.size), out)
        if not residual < 0.5:
            message = "at discount 1 a drawn process takes so long to end that 64-bit floats cannot bound its values; "
            raise ModelError(message + "give a horizon, or a discount below 1", code="endless-process", steps=size)
        return float(size / (1.0 - residual)) + 1.0

    def _compute(self, theta: FloatArray, extra: FloatArray, guess: FloatArray, out: FloatArray) -> Any:
        try:
            if not self.sparse:
                outcome = drawn_returns(self.task, theta, extra, guess, out)
                if not self._excess(*outcome[1:]):
                    return outcome
                guess[:] = 0.0  # it may have diverged
            return eliminated_returns(self.task, theta, extra, guess, out)
        except (np.linalg.LinAlgError, RuntimeError):  # singular: at discounts within rounding of one
            raise _no_value(self.task.discount) from None

    def _excess(self, residual: float, size: float) -> float:
        """Return the residual if it is above both the target and rounding, else 0."""
        return 0.0 if residual <= 4.0 * max(self.task.aim, FLOOR * size) else residual

    @property
    def unsettled(self) -> float:
        """The largest residual above both the target and rounding; 0 if there is none."""
        return max(self._excess(*check) for check in self.checks)

    def error_bound(self, surplus: float) -> float:
        """Return a bound on the error of every return, if rows sum to at most 1 + ``surplus``."""
        discount, roundings = self.task.discount, (self.longest + 4.0) * EPS
        gap = (1.0 / self.longest_time if discount == 1.0 else 1.0 - discount) - discount * (surplus + roundings)
        if not gap > 0.0:
            raise _no_value(discount)
        return max(residual + roundings * (size + self.max_reward) for residual, size in self.checks) / gap


class _Induction:
    """Solver of one question with a horizon, by backward induction: only rounding is left."""

    unsettled = 0.0

    def __init__(
        self, question: _Question, discount: float, max_reward: float, horizon: int, final: FloatArray
    ) -> None:
        assert question.plan is not None
        self.fixed = (question.rows, question.start, discount, horizon, question.plan, final)
        self.longest = int(np.diff(question.rows.indptr).max(initial=0)) + question.plan.shape[-1]
        self.steps = steps_worth(discount, horizon)
        self.sizes: list[float] = [max_reward]

    def __call__(self, theta: FloatArray, extra: FloatArray, out: FloatArray) -> None:
        """Write the returns under the draws ``theta`` [n, E] into ``out`` [n]."""
        self.sizes.append(plan_returns(*self.fixed, theta, extra, out))

    def error_bound(self, surplus: float) -> float:
        """Return a bound on the error of every return."""
        return (self.longest + 4.0) * EPS * max(self.sizes) * self.steps


def _no_value(discount: float) -> ModelError:
    message = f"at discount {discount!r} the rounding of probabilities leaves no finite value; lower it"
    return ModelError(message, code="discount-range", value=discount)


def _dataset(
    problem: _Problem, drawn: _Returns, probabilities: Sequence[float], alpha: float, compared: bool
) -> xarray.Dataset:
    import xarray

    returns, error, named, same = drawn.policies, drawn.error, problem.named, problem.same
    start = start_in_words(problem.model, problem.start)
    law = ReturnDistribution(returns, tuple(policy.name for policy in named), start)
    top = returns.max(axis=1, keepdims=True)
    ties = returns >= top - 2.0 * error  # within the error of each other
    shares = ties / ties.sum(axis=1, keepdims=True)
    measures: dict[str, tuple[Estimate, str]] = {
        "mean": (law.mean(), "mean return"),
        "sd": (law.standard_deviation(), "standard deviation of the return"),
        "cvar": (law.cvar(alpha), f"mean return in the worst {1.0 - alpha:.4g} of the posterior"),
        "probability_best": (estimate_mean(shares), "probability of being the best of these"),
        "regret_given": (estimate_mean(top - returns), "mean loss against the best of these in each draw"),
        "quantile": (law.quantiles(probabilities), "quantile of the return"),
    }
    if compared:  # with the last policy
        ahead = returns - returns[:, -1:]
        better = np.where(abs(ahead) <= 2.0 * error, 0.5, ahead > 0.0)
        measures["difference"] = (estimate_mean(ahead), f"mean return minus that of {TODAY}")
        measures["probability_better"] = (estimate_mean(better), f"probability of earning more than {TODAY}")
    variables: dict[str, Any] = {"returns": (("draw", "policy"), returns, {"long_name": "true return"})}
    if drawn.optimal is not None:
        best = np.maximum(drawn.optimal, top[:, 0])
        variables["optimal"] = ("draw", best, {"long_name": "return of the best policy of this draw"})
        regret = estimate_mean(best[:, np.newaxis] - returns)
        measures["regret"] = (regret, "mean loss against the best policy of each draw")
    for name, (estimate, label) in measures.items():
        dims = ("policy", "probability")[: estimate.value.ndim]
        variables[name] = (dims, estimate.value.T, {"long_name": label})
        variables[f"{name}_se"] = (dims, estimate.error.T, {"long_name": f"standard error of: {label}"})
    risk_values = [np.nan if policy.value is None else float(problem.start @ policy.value) for policy in named]
    label = "value of the Solution from the start: a Bayesian risk MDP takes the risk again at every step"
    variables["risk_value"] = ("policy", np.array(risk_values), {"long_name": label})
    names = as_column([policy.name for policy in named])
    if all(type(policy.name) is str for policy in named):
        names = names.astype(str)
    groups, where = "; ".join(", ".join(map(str, group)) for group in same), "in every state that the start leads to"
    alike = f"act alike {where}: {groups}" if same else ""
    if same and len(same[0]) == len(named):
        alike = f"all policies act alike {where}"
    return xarray.Dataset(
        variables,
        coords={"policy": names, "probability": np.asarray(probabilities), "draw": np.arange(returns.shape[0])},
        attrs={
            "title": "true discounted returns of policies over the posterior",
            "start": start,
            "discount": problem.model.discount,
            "horizon": 0 if problem.horizon is None else problem.horizon,
            "draws": returns.shape[0],
            "tail_alpha": alpha,
            "error_bound": error,
            "same": alike,
        },
    )
