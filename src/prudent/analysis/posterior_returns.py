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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numerics.compile import default_threads
from .._support.checks import generator, require_scale, risk_level, whole_number
from .._support.intervals import Estimate, estimate_mean
from ..data.columns import as_column
from ..errors import ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.drawn_policies import DrawnPolicies, DrawnReturns, NamedPolicy
from ..planning.stay_close import read_baseline
from ..planning.unknown_rewards import RewardsLike, unknown_rewards
from ..posteriors.dirichlet import DirichletPosterior
from ..types import ArrayLike, PolicyLike, RngLike, StartLike, TerminalValueLike
from .reading import horizon_of, problem_of, read_belief, read_policies, start_in_words
from .return_distribution import QUANTILES, TAIL_ALPHA, ReturnDistribution, read_quantiles

if TYPE_CHECKING:
    import xarray

TODAY = "today"  # name of the baseline
DEFAULT_DRAWS = 1_000


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
    if final is not None:
        require_scale(np.append(model.entries.reward, final), "questions about returns over the posterior")
    problem = DrawnPolicies(model, belief, named, first, regret, unknown, steps, final)
    drawn = problem.run(count, int(generator(rng).integers(2**63)), workers)
    return _dataset(problem, drawn, probabilities, alpha, baseline is not None)


def _dataset(
    problem: DrawnPolicies, drawn: DrawnReturns, probabilities: Sequence[float], alpha: float, compared: bool
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
