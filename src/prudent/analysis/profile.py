"""Which alpha? Policies at several risk levels, and what each of them really earns over the posterior.

The level of a Bayesian risk MDP is a dial, and its value is no forecast (see
:mod:`prudent.analysis.posterior_returns`).
What the dial buys shows in the returns of the policies that it leads to: their mean, and their tail, the CVaR of the
true return at one level ``tail`` that is the same for all of them. The policies face the same draws, so that the errors
of differences are those of paired numbers.

**Protects as well.** Level a protects as well as a higher level b unless the tail of b is significantly better: the
difference of the two CVaRs, b less a, exceeds t times its standard error. t is the quantile of Student's law with as
many degrees of freedom as there are draws in the tail, less one, at 1 - :data:`FALSE_ALARM` / M for the M pairs of
levels. So, where draws are many, the probability that Monte Carlo error alone makes any of the comparisons significant
is at most :data:`FALSE_ALARM`. The recommended level is the lowest that protects as well as every higher one. With few
draws nothing is significant, and the lowest level is recommended: more draws see smaller differences.

**Worse.** Level b is worse than a lower one a if both its mean and its tail are lower, significantly in the same sense.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .._support.checks import BoolArray, FloatArray, generator, risk_level, whole_number
from ..errors import CautionWarning, ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.model_draws import Layout, occupancy
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..risk import CVaR
from .estimates import cvar_terms, mean
from .posterior_returns import posterior_returns
from .reading import Belief, problem_of, read_belief

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure

__all__ = ["RiskProfile", "risk_profile"]


FALSE_ALARM = 0.01
DRAWS = 2_000


@dataclass(frozen=True, eq=False, repr=False)
class RiskProfile:
    """Policies at several risk levels and what they earn, as :func:`risk_profile` returns it."""

    alphas: tuple[float, ...]  # ascending, L of them
    solutions: dict[float, Solution]  # the policy and the Bayesian-risk value of each level
    neutral: Solution  # at level 0, also if that is none of the levels
    returns: xarray.Dataset  # of :func:`posterior_returns`, with the levels as policies
    differs: BoolArray  # [L, S] where the policy of a level is not the neutral one
    occupancy: FloatArray  # [L, S] shares of the discounted time that it spends in each state, in the mean model
    recommended: float  # the lowest level that protects as well as every higher one
    worse: tuple[tuple[float, float], ...]  # levels and lower ones that are better in mean and in tail

    @property
    def tail(self) -> float:
        """The level of the CVaR of the true return."""
        return float(self.returns.attrs["alpha"])

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each level.

        Columns: mean, sd, quantiles (as 5%) and cvar of the true return, standard errors of mean and cvar, how many
        states have another action than at level 0 and the share of time spent in these, the Bayesian-risk value (which
        is no forecast: its risk is taken anew at every step), and whether the level is recommended.
        """
        import pandas

        returns = self.returns
        columns: dict[str, Any] = {name: returns[name].values for name in ("mean", "mean_se", "cvar", "cvar_se", "sd")}
        for level in returns.level.values:
            columns[f"{100 * level:g}%"] = returns["quantile"].sel(level=level).values
        columns["probability_best"] = returns["probability_best"].values
        if "regret" in returns:
            columns["regret"] = returns["regret"].values
        columns["states_differ"] = self.differs.sum(axis=1)
        columns["time_differs"] = (self.occupancy * self.differs).sum(axis=1)
        columns["risk_value"] = returns["risk_value"].values
        columns["recommended"] = [alpha == self.recommended for alpha in self.alphas]
        return pandas.DataFrame(columns, index=pandas.Index(self.alphas, name="alpha"))

    def to_xarray(self) -> xarray.Dataset:
        """Return the returns by ``alpha``, with the action, ``differs`` and ``occupancy`` of each state."""
        parts = [self.solutions[alpha].to_xarray() for alpha in self.alphas]
        data = self.returns.rename(policy="alpha")
        by_state = {
            "action": np.stack([part.policy.values for part in parts]),
            "differs": self.differs,
            "occupancy": self.occupancy,
        }
        data = data.assign_coords(state=parts[0].state.values)
        data = data.assign({name: (("alpha", "state"), values) for name, values in by_state.items()})
        return data.assign_attrs(recommended=self.recommended)

    def plot(self) -> Figure:
        """Return a figure: the mean against the tail of the return by level, and the actions that change with it."""
        from .profile_figure import plot_profile

        return plot_profile(self)

    def __repr__(self) -> str:
        table = self.to_pandas().rename(
            columns={
                "states_differ": "states that differ",
                "time_differs": "time in them",
                "probability_best": "P(best)",
            }
        )
        table["recommended"] = ["<- recommended" if yes else "" for yes in table["recommended"]]
        table = table.rename(columns={"recommended": ""}).drop(columns=["sd"])
        about = self.returns.attrs
        lines = [
            f"RiskProfile: true returns over {about['draws']:,} draws from {about['start']}; CVaR at {self.tail:g}",
            table.to_string(float_format=lambda number: f"{number:.4g}"),
        ]
        lines += [f"caution: {said}" for said in _upside_down(self.worse, self.returns)]
        return "\n".join(lines)


def risk_profile(
    model: UncertainMDP,
    posterior: Any,
    alphas: Sequence[float] = (0.0, 0.5, 0.8, 0.9, 0.99),
    start: Any = None,
    draws: int | None = None,
    rng: Any = None,
    *,
    tail: float = 0.9,
    levels: Sequence[float] = (0.05, 0.5, 0.95),
    regret: bool = False,
    solver_draws: int | None = None,
    reward_posterior: NormalPosterior | BetaPosterior | None = None,
    threads: int | None = None,
) -> RiskProfile:
    """Return the policies of several risk levels, what each really earns, and which level to take.

    Every level is solved exactly, warm-started from the one below, and its policy is judged by its true returns
    over common posterior draws (:func:`posterior_returns`). Recommended is the lowest level that protects as well as
    all higher ones: none of them has a significantly better CVaR of the true return. "Significantly" is by paired
    standard errors; Monte Carlo error alone brings about any such difference with probability at most 0.01.

    A :class:`CautionWarning` names the levels that are worse than a lower one, significantly, both in mean and
    in tail: there caution has bought nothing.

    Parameters
    ----------
    model, posterior, start, rng, levels, regret, threads : as for :func:`posterior_returns`; ``regret`` costs most of
        the time in large models.
    alphas : risk levels in (-1, 1) to compare. Where the action of level 0 is as good as any at a level, it is kept.
    draws : for the returns, by default 2,000, or all that were given.
    tail : the level of the CVaR of the true return, one for all policies.
    solver_draws : solve with so many posterior draws, the same for every level, instead of exactly. If the posterior
        is given by draws, all of them are used.
    reward_posterior : unknown mean rewards [S, A]; needs ``solver_draws``.

    In state 0, action 0 is well known and nothing is known of action 1. Caution prefers what is known:

    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> posterior = pr.DirichletPosterior([[60, 40], [1, 1], [50, 50], [60, 40]])
    >>> profile = risk_profile(model, posterior, alphas=(0, 0.5, 0.9), start=0, rng=1)
    >>> profile.recommended, profile.solutions[0.5].policy.tolist()
    (0.5, [0, 0])
    >>> profile.to_pandas()[["mean", "cvar", "states_differ", "risk_value"]].round(1)
           mean  cvar  states_differ  risk_value
    alpha
    0.0     4.1   0.8              0         4.5
    0.5     4.0   3.3              1         3.6
    0.9     4.0   3.3              1         3.1
    """
    listed = sorted({risk_level(alpha, "alphas") for alpha in _numbers(alphas)})
    if not listed:
        raise ParameterError("alphas holds no risk level")
    belief = read_belief(model, posterior, reward_posterior)
    first = model.start_distribution(start)
    random = generator(rng)
    given = belief.theta is not None
    if given and solver_draws is not None:
        raise ParameterError(f"solver_draws is {solver_draws!r}, but the posterior is given by its draws")
    if reward_posterior is not None and not given and solver_draws is None:
        raise ParameterError("unknown rewards have no exact operator; give solver_draws, e.g. solver_draws=1000")
    problems = (problem_of(model, posterior, alpha, reward_posterior) for alpha in sorted({0.0, *listed}, key=abs))
    drawn = solver_draws is not None or reward_posterior is not None
    seed = int(random.integers(2**63)) if drawn else None  # the same draws for every level
    count = None if solver_draws is None else whole_number(solver_draws, "solver_draws")
    solutions = _solutions(problems, count, seed, threads)
    neutral = solutions[0.0]
    returns = posterior_returns(
        model,
        posterior,
        {alpha: solutions[alpha] for alpha in listed},
        first,
        draws if given or draws is not None else DRAWS,
        None if given and reward_posterior is None else random,
        levels=levels,
        alpha=tail,
        regret=regret,
        reward_posterior=reward_posterior,
        threads=threads,
    )
    recommended, worse = _verdict(returns)
    if worse:
        said = "; ".join(_upside_down(worse, returns))
        warnings.warn(f"more caution bought nothing: {said}", CautionWarning, stacklevel=2)
    policies = np.stack([solutions[alpha].policy for alpha in listed])
    return RiskProfile(
        tuple(listed),
        {alpha: solutions[alpha] for alpha in listed},
        neutral,
        returns,
        policies != neutral.policy,
        _occupancy(model, belief, policies, first),
        recommended,
        worse,
    )


def _numbers(alphas: Any) -> list[Any]:
    return [alphas] if np.ndim(alphas) == 0 else list(alphas)


def _solutions(
    problems: Iterable[BayesianRiskMDP], draws: int | None, seed: int | None, threads: int | None
) -> dict[float, Solution]:
    """Return the solution of every level, each started from the one before; level 0 is the first."""
    solutions: dict[float, Solution] = {}
    value = None
    for problem in problems:
        assert problem.alpha is not None
        solution = problem.solve(draws, seed, initial_value=value, threads=threads)
        solutions[problem.alpha] = _kept(solution, solutions.get(0.0, solution))
        value = solution.value
    return solutions


def _kept(solution: Solution, neutral: Solution) -> Solution:
    """Return the solution with the neutral action wherever that is as good: levels differ only where they must."""
    best, other = solution.q_of(solution.policy), solution.q_of(neutral.policy)
    as_good = other >= best - 2.0 * solution.error_bound
    return solution.with_policy(np.where(as_good, neutral.policy, solution.policy))


class _Verdict(NamedTuple):
    """The recommended level, and the levels (higher, lower) that are upside down."""

    recommended: float
    worse: tuple[tuple[float, float], ...]


def _verdict(returns: xarray.Dataset) -> _Verdict:
    alphas, draws, tail = returns.policy.values.tolist(), returns.returns.values, float(returns.attrs["alpha"])
    freedom = CVaR(tail).outermost(draws.shape[0]).weights.size - 1
    pairs = list(combinations(range(len(alphas)), 2))
    if freedom < 1 or not pairs:
        return _Verdict(alphas[0], ())
    terms = cvar_terms(draws, tail)
    width = float(stdtrit(freedom, 1.0 - FALSE_ALARM / len(pairs)))
    rounding = 2.0 * float(returns.attrs["error_bound"])

    def exceeds(higher: FloatArray, lower: FloatArray) -> bool:
        gain = mean(higher - lower)
        return bool(gain.value > rounding and gain.value > width * gain.error)

    beaten = {low for low, high in pairs if exceeds(terms[:, high], terms[:, low])}
    worse = tuple(
        (alphas[high], alphas[low])
        for low, high in pairs
        if exceeds(terms[:, low], terms[:, high]) and exceeds(draws[:, low], draws[:, high])
    )
    return _Verdict(next(alpha for place, alpha in enumerate(alphas) if place not in beaten), worse)


def _upside_down(worse: Sequence[tuple[float, float]], returns: xarray.Dataset) -> list[str]:
    """Return words for every level that is worse than a lower one: than the best of these, if there are several."""
    means, tails = (
        dict(zip(returns.policy.values.tolist(), returns[name].values, strict=True)) for name in ("mean", "cvar")
    )
    best = {high: max((low for other, low in worse if other == high), key=lambda low: tails[low]) for high, _ in worse}
    return [
        f"level {high:g} is worse than {low:g}: mean return {means[high]:.4g} against {means[low]:.4g}, "
        f"CVaR {tails[high]:.4g} against {tails[low]:.4g}"
        for high, low in sorted(best.items())
    ]


def _occupancy(model: UncertainMDP, belief: Belief, policies: Any, start: FloatArray) -> FloatArray:
    """Return the shares of discounted time [L, S] that policies [L, S] spend in each state of the mean model."""
    mean_theta = belief.mean
    possible = mean_theta > 0.0
    layout = Layout.of(model, possible)
    shares = np.zeros(policies.shape)
    for share, policy in zip(shares, policies, strict=True):
        weights = model.policy_matrix(policy)
        states = layout.reached(start, weights)
        rows = layout.chain(states, weights)
        share[states] = occupancy(rows, start[states], mean_theta[possible], model.discount)
    return shares
