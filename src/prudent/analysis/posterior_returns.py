"""What policies really earn, over all that the model may be: true returns under posterior draws, side by side.

For each draw theta of the posterior the uncertain model is an ordinary MDP. There the discounted return of every policy
from the start is worked out exactly (a linear system with a checked residual), and so is that of the best policy
of that very draw. All policies face the same draws, so their differences are sharp.

**Two numbers that are not the same.** The return of a policy has one distribution over the posterior: its mean, its
quantiles and its CVaR answer "how bad could this policy be?". The Bayesian-risk value that :class:`BayesianRiskMDP`
gives is another thing: it takes the risk anew at every step, as if all sources were bad at once. In truth one is worse
than expected where another is better. So where the return depends on many sources, that value lies far below any
quantile of the return. (If all hangs on one source, it is close to the CVaR of the return.) It is there to choose
policies with, not to predict what they earn.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import default_threads, each_row, over_rows
from .._numerics.dirichlet_draws import draw_slots
from .._support.checks import BoolArray, FloatArray, IntArray, generator, probability, risk_level, whole_number
from .._support.progress import Progress
from .._support.streams import replication_streams
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.model_draws import DENSE, FLOOR, Layout, Rows, Task, drawn_returns, eliminated_returns
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from .estimates import Estimate, cvar, mean, quantiles, standard_deviation
from .reading import Belief, NamedPolicy, read_belief, read_policies, start_in_words

if TYPE_CHECKING:
    import xarray

__all__ = ["posterior_returns"]


DRAWS = 1_000
DIGITS = 1e-10  # of the largest value: the error of a return
UNIT = 16  # draws that share a random stream
ROOM = 2_000_000  # the most numbers drawn at a time by one thread; with more outcomes a unit has fewer draws


def posterior_returns(
    model: UncertainMDP,
    posterior: Any,
    policies: Any,
    start: Any = None,
    draws: int | None = None,
    rng: Any = None,
    *,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
    alpha: float = 0.9,
    regret: bool = True,
    reward_posterior: NormalPosterior | BetaPosterior | None = None,
    threads: int | None = None,
) -> xarray.Dataset:
    """Return what policies really earn under each of many posterior draws of the model, side by side.

    For every draw, the discounted return of each policy from the start is exact (no simulation), and all policies face
    the same draws.

    Parameters
    ----------
    model : the known part, :class:`UncertainMDP`.
    posterior : :class:`DirichletPosterior` or its counts [B, K]; or draws of the probabilities themselves, an array
        [N, B, K] or an xarray or ArviZ object, as for :class:`BayesianRiskMDP`.
    policies : a dict {name: policy}, a list of policies, or one. A policy is an action for each state, a
        :class:`Solution`, the chances of actions [S, A], or a dict or pandas object by the names of states.
    start : where the process begins: a state, a dict {state: chance} or chances [S]; by default every state that is not
        terminal is equally likely.
    draws : how many, by default 1,000, or all that were given.
    rng : a seed or a Generator. The first draws of a seed stay the same if more are asked for, and do not depend on
        threads; with ``regret`` nor on which policies are asked about.
    levels : of the quantiles.
    alpha : the CVaR of the return is its mean over the worst ``1 - alpha`` of the posterior.
    regret : whether to solve every drawn model for its best policy. Without it only the sources that the policies use
        are drawn, which for large models is many times faster.
    reward_posterior : unknown mean rewards [S, A], which are added to those of the model (absorbing and terminal states
        are left alone), as for :class:`BayesianRiskMDP`.
    threads : how many to use, by default all cores.

    Returns
    -------
    A dataset with, for each ``policy``,

    - ``returns`` [draw, policy], the draws themselves, and ``optimal`` [draw], the return of the best policy of each;
    - ``mean``, ``sd``, ``quantile`` [policy, level] and ``cvar`` of the return;
    - ``probability_best``: the posterior probability that no other of the policies earns more; ties share it;
    - ``regret``: what is lost on average against the best policy of each draw, which nobody can know, and
      ``regret_given`` against the best of the policies asked about;
    - ``risk_value``, for a :class:`Solution`: its own value from the start. That of a Bayesian risk MDP takes the
      risk anew at every step, as if all sources were bad at once. So it does not predict the return: where many
      sources matter it lies far below any quantile.

    and ``..._se``, the Monte Carlo standard error of each (none for ``risk_value``, which is no estimate). The
    attributes say the start, the draws, the certified error of every return, and which policies never differ.

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
    named = read_policies(model, policies)
    first = model.start_distribution(start)
    at = sorted({probability(level, "levels") for level in np.atleast_1d(np.asarray(levels, dtype=object)).tolist()})
    tail = risk_level(alpha)
    if belief.theta is None:
        count = DRAWS if draws is None else whole_number(draws, "draws")
    else:
        count = belief.theta.shape[0]
        if draws is not None:
            raise ParameterError(f"draws is {draws!r}, but the posterior is given by its {count} draws")
        if rng is not None and reward_posterior is None:
            raise ParameterError("rng has nothing to draw: the draws are given")
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    problem = _Problem(model, belief, named, first, regret, reward_posterior)
    seed = int(generator(rng).integers(2**63))
    drawn = problem.run(count, seed, workers)
    return _dataset(model, named, first, drawn, at, tail, problem.same)


class _Returns(NamedTuple):
    """The returns under each draw."""

    policies: FloatArray  # [N, J]
    optimal: FloatArray | None  # [N]
    error: float  # none of them is further than this from the truth


class _Question(NamedTuple):
    """One thing to be worked out for each draw: the return of a policy, or that of the best one."""

    rows: Rows
    states: IntArray  # [R]
    start: FloatArray  # [R]
    weights: FloatArray | None  # [R, A] of the policy; None: the best one


class _Problem:
    """The chains of all policies, laid out once, and the posterior that fills them."""

    def __init__(
        self,
        model: UncertainMDP,
        belief: Belief,
        named: Sequence[NamedPolicy],
        start: FloatArray,
        regret: bool,
        reward_posterior: NormalPosterior | BetaPosterior | None,
    ) -> None:
        self.model = model
        self.reward_posterior = reward_posterior
        possible = belief.mean > 0.0
        layout = Layout.of(model, possible)
        self.biggest = float(np.abs(layout.reward).max())
        questions: dict[bytes, int] = {}
        self.questions: list[_Question] = []
        self.column: list[int] = []  # the question that each policy asks: policies may ask the same
        for policy in named:
            states = layout.reached(start, policy.weights)
            rows = layout.chain(states, policy.weights)
            weights = policy.weights[states]
            # rewards that are drawn by pair tell apart what is else the same
            parts = (states, *rows) if reward_posterior is None else (states, *rows, weights)
            key = b"|".join(part.tobytes() for part in parts)
            self.column.append(questions.setdefault(key, len(questions)))
            if len(questions) > len(self.questions):
                self.questions.append(_Question(rows, states, start[states], weights))
        if regret:
            states = layout.reached(start, (model.source >= 0).astype(np.float64))
            self.questions.append(_Question(layout.pairs(states), states, start[states], None))
        self.regret = regret
        groups = {
            column: [p.name for p, c in zip(named, self.column, strict=True) if c == column] for column in self.column
        }
        self.same = [names for names in groups.values() if len(names) > 1]
        self._lay_out_draws(belief, possible)
        quiet = model.terminal | model.absorbing
        self._quiet = model.terminal if quiet.all() else quiet  # states that earn no drawn rewards

    def _lay_out_draws(self, belief: Belief, possible: BoolArray) -> None:
        """Keep the sources that some question asks about; number their outcomes anew."""
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
        self.given = belief.theta
        self.surplus = belief.surplus
        self.mean = belief.mean[self.slot]
        self.unit = max(1, min(UNIT, ROOM // max(self.slot.size, 1)))

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
        here = rewards[:, question.states]
        if question.weights is None:
            return np.ascontiguousarray(here.reshape(here.shape[0], -1))
        return np.ascontiguousarray(np.einsum("nra,ra->nr", here, question.weights))

    def _reward_draws(self, n: int, rng: np.random.Generator | None) -> FloatArray | None:
        if self.reward_posterior is None:
            return None
        drawn = self.reward_posterior.mean()[np.newaxis] if rng is None else self.reward_posterior.sample(n, rng)
        return np.where(self._quiet[:, np.newaxis], 0.0, drawn)

    def run(self, count: int, seed: int, threads: int) -> _Returns:
        """Return the answers under ``count`` draws."""
        results = np.empty((len(self.questions), count))
        solvers = [self._solver(question) for question in self.questions]
        units = -(-count // self.unit)
        progress, done = Progress("returns over the posterior"), 0

        def work(i: int, j: int) -> None:
            nonlocal done
            for unit in each_row(i, j):
                begin, stop = unit * self.unit, min(count, (unit + 1) * self.unit)
                for_theta, for_rewards = replication_streams(seed, unit)
                theta = self._theta(unit, stop, for_theta)
                rewards = self._reward_draws(self.unit, for_rewards)
                for question, solver, row in zip(self.questions, solvers, results, strict=True):
                    extra = self._extra(question, None if rewards is None else rewards[: stop - begin])
                    solver(theta, extra, row[begin:stop])
                done += stop - begin
                progress.show(f"{done:,} of {count:,} draws")

        over_rows(work, units, threads, long=True)
        progress.close()
        self._say_if_unsettled(solvers)
        error = max(solver.error_bound(self.surplus) for solver in solvers)
        return _Returns(results[self.column].T, results[-1] if self.regret else None, error)

    def _say_if_unsettled(self, solvers: Sequence[_Solver]) -> None:
        left = max(solver.unsettled for solver in solvers)
        if left > 0.0:
            warnings.warn(
                f"the values of some draws are not settled: a residual of {left:.2g} is left; see attrs['error_bound']",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _solver(self, question: _Question) -> _Solver:
        theta = self.mean[np.newaxis]
        rewards = self._reward_draws(1, None)
        return _Solver(question, self.model.discount, self.biggest, theta, self._extra(question, rewards))


class _Solver:
    """Answers one question for draw after draw, from the values of the posterior mean; threads may share it."""

    def __init__(
        self, question: _Question, discount: float, biggest: float, theta: FloatArray, extra: FloatArray
    ) -> None:
        rows, n_states = question.rows, question.states.size
        self.longest = int(np.diff(rows.indptr).max(initial=0))
        self.biggest = biggest  # reward
        digits = DIGITS * (1.0 - discount)
        self.task = Task(rows, question.start, discount, digits * biggest, False)
        self.checks: list[tuple[float, float]] = []  # residual and size of values of each call
        self.guess = np.zeros(n_states)
        self.sparse = False  # by sparse elimination
        products, _, _ = self._work_out(theta, extra, self.guess, np.empty(1))
        self.sparse = products < 0  # where the mean model needs it, draws do too
        entries = rows.indices.size * n_states // (rows.indptr.size - 1)
        # in units of an entry of a product with P; elimination runs at the speed of a matrix product
        direct = n_states <= DENSE and 0.1 * n_states**3 < products * (entries + 8 * n_states)
        scale = max(self.biggest, float(np.abs(self.guess).max()))
        self.task = self.task._replace(aim=digits * scale, direct=direct)

    def __call__(self, theta: FloatArray, extra: FloatArray, out: FloatArray) -> None:
        """Write the answers under the draws ``theta`` [n, E] into ``out`` [n]."""
        self.checks.append(self._work_out(theta, extra, self.guess.copy(), out)[1:])

    def _work_out(self, theta: FloatArray, extra: FloatArray, guess: FloatArray, out: FloatArray) -> Any:
        try:
            if not self.sparse:
                found = drawn_returns(self.task, theta, extra, guess, out)
                if not self._left(*found[1:]):
                    return found
                guess[:] = 0.0  # it may have run away
            return eliminated_returns(self.task, theta, extra, guess, out)
        except (np.linalg.LinAlgError, RuntimeError):  # singular: at discounts within rounding of one
            raise _no_value(self.task.discount) from None

    def _left(self, residual: float, size: float) -> float:
        """Return a residual that is neither as small as was asked for nor rounding, else 0."""
        return 0.0 if residual <= 4.0 * max(self.task.aim, FLOOR * size) else residual

    @property
    def unsettled(self) -> float:
        """The largest residual that is neither as small as was asked for nor rounding; 0 if there is none."""
        return max(self._left(*check) for check in self.checks)

    def error_bound(self, surplus: float) -> float:
        """Return how far any answer may be from the truth, if rows sum to no more than 1 + ``surplus``."""
        discount, roundings = self.task.discount, (self.longest + 4.0) * EPS
        gap = (1.0 - discount) - discount * (surplus + roundings)
        if not gap > 0.0:
            raise _no_value(discount)
        return max(residual + roundings * (size + self.biggest) for residual, size in self.checks) / gap


def _no_value(discount: float) -> ModelError:
    return ModelError(f"at discount {discount!r} the rounding of probabilities leaves no finite value; lower it")


def _dataset(
    model: UncertainMDP,
    named: Sequence[NamedPolicy],
    start: FloatArray,
    drawn: _Returns,
    levels: Sequence[float],
    alpha: float,
    same: Sequence[Sequence[Any]],
) -> xarray.Dataset:
    import xarray

    returns, error = drawn.policies, drawn.error
    top = returns.max(axis=1, keepdims=True)
    ties = returns >= top - 2.0 * error  # closer than that they cannot be told apart
    at = quantiles(returns, levels)
    measures: dict[str, tuple[Estimate, str]] = {
        "mean": (mean(returns), "mean return"),
        "sd": (standard_deviation(returns), "standard deviation of the return"),
        "cvar": (cvar(returns, alpha), f"mean return in the worst {1.0 - alpha:.4g} of the posterior"),
        "probability_best": (mean(ties / ties.sum(axis=1, keepdims=True)), "probability of being the best of these"),
        "regret_given": (mean(top - returns), "mean loss against the best of these in each draw"),
    }
    variables: dict[str, Any] = {"returns": (("draw", "policy"), returns, {"long_name": "true return"})}
    if drawn.optimal is not None:
        best = np.maximum(drawn.optimal, top[:, 0])
        variables["optimal"] = ("draw", best, {"long_name": "return of the best policy of this draw"})
        lost = mean(best[:, np.newaxis] - returns)
        measures["regret"] = (lost, "mean loss against the best policy of each draw")
    for name, (estimate, label) in measures.items():
        variables[name] = ("policy", estimate.value, {"long_name": label})
        variables[f"{name}_se"] = ("policy", estimate.error, {"long_name": f"standard error of: {label}"})
    variables["quantile"] = (("policy", "level"), at.value.T, {"long_name": "quantile of the return"})
    variables["quantile_se"] = (("policy", "level"), at.error.T, {"long_name": "standard error of the quantile"})
    values = [np.nan if policy.value is None else float(start @ policy.value) for policy in named]
    label = "value of the Solution from the start: for a Bayesian risk MDP, the risk is taken anew at every step"
    variables["risk_value"] = ("policy", np.array(values), {"long_name": label})
    names = np.empty(len(named), dtype=object)  # names may be tuples
    names[:] = [policy.name for policy in named]
    for kind in (str, float):
        if all(type(policy.name) is kind for policy in named):
            names = names.astype(kind)
    return xarray.Dataset(
        variables,
        coords={"policy": names, "level": np.asarray(levels), "draw": np.arange(returns.shape[0])},
        attrs={
            "title": "true discounted returns of policies over the posterior",
            "start": start_in_words(model, start),
            "discount": model.discount,
            "draws": returns.shape[0],
            "alpha": alpha,
            "error_bound": error,
            "same": _same_text(same, len(named)),
        },
    )


def _same_text(same: Sequence[Sequence[Any]], count: int) -> str:
    if not same:
        return ""
    if len(same[0]) == count:
        return "all policies act alike in every state that the start leads to"
    alike = "; ".join(", ".join(map(str, names)) for names in same)
    return f"act alike in every state that the start leads to: {alike}"
