"""What the paper proves, as functions: the limit law of Bayesian-risk values, bounds on regret, and a lemma.

**Limit law** (weak-convergence theorem). Let N transitions be observed, a fraction n_s of them in (s, pi(s)), with
uniform Dirichlet priors on all next states. With V the values of policy pi, P its transition matrix, J the inverse of
I - gamma P, and

    sigma_s^2 = (sum_s' P(s, s') V(s')^2 - (P V)(s)^2) / n_s,      lambda_s = -sigma_s phi(Phi^-1(alpha)) / (1 - alpha),

sqrt(N) (V^{psi,pi} - V) tends to a normal law with mean J gamma lambda and covariance J diag((gamma sigma)^2) J'. The
mean is negative: divided by sqrt(N), it is what risk aversion costs after N observations. For another measure of risk
its value for a standard normal takes the place of -phi(Phi^-1(alpha)) / (1 - alpha), which is that of CVaR: the normal
quantile Phi^-1(1 - alpha) for VaR, and the same numbers with the other sign, a gain, at negative levels. (Theorems are
the paper's for CVaR; for the others this is the same expansion, with the delta method of the same measure.)

**Regret bounds.** Misprints are corrected. In the high-probability bound of the conventional-regret theorem T stands
under the logarithm, sqrt(2 ln(2T/delta)); its proof (Azuma-Hoeffding over T steps) and its own expected bound have
sqrt(2T ln(2/delta)). In the expected bound the main text has ln(4T^2) where the appendix has ln(4T^3); delta = 1/T^2
gives the appendix's.

**Order-statistic lemma.** The bounds rest on it. What it calls "CVaR_{1/n}" is CVaR of the worst 1/n, at risk level
1 - 1/n here.

In the bounds T is a number of steps, K of arms, d of features, S of states and A of actions, as in the paper.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ._support.checks import (
    SUM_TOLERANCE,
    discount_factor,
    distribution,
    finite_array,
    instance_of,
    non_negative_array,
    open_probability,
    positive,
    refuse,
    require_scale,
    require_shape,
    risk_level,
    whole_number,
)
from .errors import DataError, ModelError, ParameterError
from .exact import cvar_normal, var_normal
from .models.mdp import MDP
from .models.uncertain import UncertainMDP
from .risk import RiskMeasure, form_of, measure_of
from .types import ArrayLike, FloatArray, IntArray, PolicyLike

__all__ = [
    "LimitLaw",
    "br_regret_bound",
    "expected_order_statistic",
    "expected_regret_bound",
    "limit_law",
    "optimistic_vi_regret_bound",
    "regret_bound",
    "stationary_distribution",
]

LARGEST = 1e100  # of arguments: products of bounds must be finite

# -- the limit law -------------------------------------------------------------------------------------------


class LimitLaw(NamedTuple):
    """Normal law of the values of all states.

    Attributes
    ----------
    mean : ndarray of shape (S,)
        Mean.
    cov : ndarray of shape (S, S)
        Covariance matrix.
    """

    mean: FloatArray
    cov: FloatArray


def limit_law(
    mdp: MDP | UncertainMDP,
    policy: PolicyLike,
    alpha: float | None = None,
    visits: ArrayLike | None = None,
    *,
    risk: RiskMeasure | None = None,
    theta: ArrayLike | None = None,
) -> LimitLaw:
    """Return the limit law of sqrt(N) (V^{psi,pi} - V^pi), by the weak-convergence theorem.

    The theorem is about a Dirichlet posterior for each pair. A model whose pairs share sources has rows that are wrong
    together: with y_s the values r + gamma V of the outcomes in state s, the covariance of the rows of s and s' is
    Cov(y_s, y_s') / n_b if both have the source b, else zero. Any other posterior that concentrates at the rate
    1/sqrt(N) like the maximum-likelihood estimate has the same limit.

    Parameters
    ----------
    mdp : MDP or UncertainMDP
        True model, discounted and without steps that end. Each pair of an MDP is a source of its own.
    policy : PolicyLike
        Deterministic policy pi.
    alpha : float, optional
        Risk level of CVaR.
    visits : array_like of shape (S,) or (B,), optional
        Fractions n_s of the N observations that fall on (s, policy[s]); for an UncertainMDP, fractions n_b that fall on
        each source. The default is the stationary distribution under the policy, as for one long trajectory. A state
        that is never visited has no limit, unless its next value is certain.
    risk : RiskMeasure, optional
        Another measure in place of CVaR, such as ``VaR(0.9)``. Exactly one of `alpha` and `risk` must be given.
    theta : array_like of shape (B, K), optional
        True probabilities of the outcomes of an UncertainMDP.

    Returns
    -------
    LimitLaw
        Mean (S,) and covariance (S, S).

    Raises
    ------
    ModelError
        If `mdp` is no MDP, has steps that end, or has no single stationary distribution.
    ParameterError
        If the limit is infinite or does not exist.

    References
    ----------
    Wang and Zhou, *Online Bayesian Risk-Averse Reinforcement Learning*, Theorem 1.

    Examples
    --------
    >>> coin = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], reward=[0.0, 1.0], discount=0.5)
    >>> mean, cov = limit_law(coin, [0, 0], alpha=0.5)
    >>> mean, cov
    (array([-0.5642, -0.5642]), array([[0.3125, 0.1875],
           [0.1875, 0.3125]]))
    >>> from prudent.risk import VaR
    >>> limit_law(coin, [0, 0], risk=VaR(0.9)).mean
    array([-0.9062, -0.9062])
    """
    unit = _normal_risk(measure_of(alpha, risk))
    truth = _truth(mdp, theta)
    if truth.termination is not None:
        raise ModelError("the limit law needs a model without steps that end", code="ending-steps")
    truth.require_discounted("the limit law")
    require_scale(truth.reward, "the limit law")
    actions = truth.policy_indices(policy)
    states = np.arange(truth.n_states)
    chain = truth.transition[states * truth.n_actions + actions].toarray()
    inverse = np.linalg.inv(np.eye(truth.n_states) - truth.discount * chain)
    value = inverse @ truth.reward[states, actions]
    if isinstance(mdp, UncertainMDP):
        chances, worth, sources = _outcome_rows(mdp, theta, actions, value)
    else:
        chances, sources = chain, states
        worth = np.broadcast_to(truth.discount * value, chain.shape)  # the reward of a pair is known
    n_sources = mdp.n_sources if isinstance(mdp, UncertainMDP) else mdp.n_states
    fractions: FloatArray
    if visits is None:
        fractions = np.bincount(sources, stationary_distribution(chain), n_sources).astype(np.float64)
    else:
        fractions = _fractions(visits, n_sources)
    centred = worth - (chances * worth).sum(axis=1)[:, np.newaxis]  # so that variances are sums of squares
    spread = (chances * centred**2).sum(axis=1)
    certain = spread <= 1e-24 * max(1.0, float(abs(value).max())) ** 2
    unseen = (fractions[sources] <= 1e-15) & ~certain
    if unseen.any():
        place = int(sources[np.argmax(unseen)])
        message = f"visits[{place}] is {fractions[place]}: the value there has no limit"
        raise ParameterError(message, code="no-limit", argument="visits", index=(place,), value=float(fractions[place]))
    shares = np.where(certain, 1.0, fractions[sources])
    centred[certain] = 0.0
    together = ((chances * centred) @ centred.T) * (sources[:, np.newaxis] == sources)
    together /= np.sqrt(shares[:, np.newaxis] * shares)
    return LimitLaw(inverse @ (np.sqrt(np.diag(together)) * unit), inverse @ together @ inverse.T)


def _truth(mdp: MDP | UncertainMDP, theta: ArrayLike | None) -> MDP:
    """Return the true model."""
    if isinstance(mdp, UncertainMDP):
        if theta is None:
            message = "theta must be given: the true probabilities of the outcomes of an UncertainMDP"
            raise ParameterError(message, code="missing-argument", argument="theta")
        return mdp.mdp(theta)
    instance_of(mdp, "mdp", MDP, "; or an UncertainMDP with theta", error=ModelError)
    if theta is not None:
        message = "theta is for an UncertainMDP; an MDP has its probabilities"
        raise ParameterError(message, code="conflicting-arguments", argument="theta")
    return mdp


def _outcome_rows(
    model: UncertainMDP, theta: ArrayLike | None, actions: IntArray, value: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return probabilities and values [S, K] of the outcomes of the pairs that a policy takes, and their sources."""
    entries = model.entries
    pairs = np.arange(model.n_states) * model.n_actions + actions
    sources = entries.source[pairs]
    worth = np.zeros((model.n_states, model.n_outcomes))
    for s, (pair, b) in enumerate(zip(pairs.tolist(), sources.tolist(), strict=True)):
        mine = slice(entries.first[pair], entries.first[pair + 1])
        outcomes = entries.outcome[entries.begin[b] : entries.begin[b + 1]]
        worth[s, outcomes] = entries.reward[mine] + model.discount * value[entries.next_state[mine]]
    return np.asarray(theta, dtype=np.float64)[sources], worth, sources


def _normal_risk(measure: RiskMeasure) -> float:
    """Return the risk of a standard normal."""
    levels, weights, quantile = form_of(measure)
    if quantile and np.isin(levels, (0.0, 1.0)).any():
        message = f"{measure!r} of a normal law is infinite, so there is no limit law"
        raise ParameterError(message, code="no-limit", value=measure)
    return float(weights @ (var_normal if quantile else cvar_normal)(0.0, 1.0, levels))


def _fractions(visits: ArrayLike, n_sources: int) -> FloatArray:
    fractions = non_negative_array(visits, "visits", ndim=1, error=ParameterError)
    require_shape(fractions, "visits", (n_sources,), "one for each source", error=ParameterError)
    if fractions.sum() > 1.0 + SUM_TOLERANCE:
        message = f"visits must be fractions of all observations, but they sum to {fractions.sum()}"
        raise ParameterError(message, code="sum-not-one", argument="visits", value=float(fractions.sum()))
    return fractions


def stationary_distribution(chain: ArrayLike) -> FloatArray:
    """Return the stationary distribution of a Markov chain.

    Parameters
    ----------
    chain : array_like of shape (S, S)
        Transition matrix with one recurrent class.

    Returns
    -------
    ndarray of shape (S,)
        Stationary distribution.

    Raises
    ------
    ModelError
        If a row is no distribution, or there are several recurrent classes.

    Examples
    --------
    >>> stationary_distribution([[0.9, 0.1], [0.3, 0.7]])
    array([0.75, 0.25])
    """
    matrix = distribution(chain, "chain", ndim=2, error=ModelError)
    n = matrix.shape[0]
    require_shape(matrix, "chain", (max(n, 1), max(n, 1)), "[S, S]", error=ModelError)
    # p (I - P) = 0 with sum p = 1: n + 1 equations of rank n if there is one recurrent class
    equations = np.vstack([np.eye(n) - matrix.T, np.ones(n)])
    answer, _, rank, _ = np.linalg.lstsq(equations, np.concatenate([np.zeros(n), [1.0]]), rcond=1e-12)
    if rank < n:
        message = "chain has more than one recurrent class, hence no single stationary distribution"
        raise ModelError(message, code="several-classes", argument="chain")
    return np.maximum(np.where(abs(answer) < 1e-14, 0.0, answer), 0.0)


# -- bounds on regret ----------------------------------------------------------------------------------------


def br_regret_bound(T: ArrayLike, K: int, d: int, alpha: float, nu: float) -> FloatArray:
    """Return the bound on the expected BR-regret of Algorithm 2' (the BR-regret theorem).

    (nu sqrt(2 (1-alpha) ln(K T^2)) + nu/(1-alpha) (1/sqrt(2 pi) + phi(Phi^-1(alpha)))) 5 sqrt(d K T ln T) + 1, for
    alpha >= 1/2. Lemma D.4, on which it rests, holds where 1/(1 - alpha) is a whole number; elsewhere this is the bound
    as printed.

    Parameters
    ----------
    T : array_like
        Number of steps, at least 1.
    K : int
        Number of arms.
    d : int
        Number of features.
    alpha : float
        Risk level in [1/2, 1).
    nu : float
        Scale of the posterior that is drawn from.

    Returns
    -------
    float or ndarray
        Bound, in the shape of `T`.

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> round(float(br_regret_bound(1000, K=10, d=3, alpha=0.5, nu=0.5)))
    6386
    """
    T, K, d = _sizes(T, K, d)
    level = risk_level(alpha, cautious=True)
    if level < 0.5:
        message = f"alpha must be at least 1/2 for the BR-regret bound, got {level}"
        raise ParameterError(message, code="alpha-range", argument="alpha", value=level)
    nu, tail = positive(nu, "nu"), 1.0 - level
    refuse(nu > LARGEST, np.asarray(nu), "nu", f"at most {LARGEST:g}", error=ParameterError)
    # phi(Phi^-1(alpha)) / (1 - alpha) is minus CVaR of a standard normal
    width = nu * np.sqrt(2.0 * tail * np.log(K * T * T))
    width = width + nu * (1.0 / (tail * math.sqrt(2.0 * math.pi)) - float(cvar_normal(0.0, 1.0, level)))
    return width * 5.0 * np.sqrt(d * K * T * np.log(T)) + 1.0


def regret_bound(T: ArrayLike, K: int, d: int, alpha: float, delta: float) -> FloatArray:
    """Return the high-probability bound on the regret of Algorithm 2'' (the conventional-regret theorem).

    (3/2) (4 sqrt(pi) e)^((2-alpha)/(1-alpha)) sqrt(d ln(4T/delta) ln(2T^2/(1-alpha)))
    (15 sqrt(d K T ln T) + 6 sqrt(2 T ln(2/delta))). Near alpha = 1 the bound exceeds the largest float.

    Parameters
    ----------
    T : array_like
        Number of steps, at least 1.
    K : int
        Number of arms.
    d : int
        Number of features.
    alpha : float
        Risk level in [0, 1).
    delta : float
        Probability in (0, 1) that the regret exceeds the bound.

    Returns
    -------
    float or ndarray
        Bound, in the shape of `T`.

    Raises
    ------
    ParameterError
        If an argument is out of its range, or if the bound exceeds the largest float (`alpha` near 1).

    Examples
    --------
    >>> f"{float(regret_bound(1000, K=10, d=3, alpha=0.0, delta=0.1)):.3g}"
    '8.73e+07'
    """
    delta = open_probability(delta, "delta")
    refuse(delta < 1.0 / LARGEST, np.asarray(delta), "delta", f"at least {1.0 / LARGEST:g}", error=ParameterError)
    T, K, d = _sizes(T, K, d)
    return _conventional_bound(
        T, K, d, risk_level(alpha, cautious=True), np.log(4.0 * T / delta), math.log(2.0 / delta)
    )


def expected_regret_bound(T: ArrayLike, K: int, d: int, alpha: float) -> FloatArray:
    """Return the bound on the expected regret of Algorithm 2'' with delta = 1/T^2 (the conventional-regret theorem).

    It is ``regret_bound`` with ln(4T^3) and ln(2T^2) in place of ln(4T/delta) and ln(2/delta).

    Parameters
    ----------
    T : array_like
        Number of steps, at least 1.
    K : int
        Number of arms.
    d : int
        Number of features.
    alpha : float
        Risk level in [0, 1).

    Returns
    -------
    float or ndarray
        Bound, in the shape of `T`.

    Raises
    ------
    ParameterError
        If an argument is out of its range, or if the bound exceeds the largest float (`alpha` near 1).

    Examples
    --------
    >>> bool(expected_regret_bound(1000, 10, 3, 0.5) > regret_bound(1000, 10, 3, 0.5, delta=0.01))
    True
    """
    T, K, d = _sizes(T, K, d)
    return _conventional_bound(T, K, d, risk_level(alpha, cautious=True), np.log(4.0 * T**3), np.log(2.0 * T * T))


def _conventional_bound(
    T: FloatArray, K: int, d: int, alpha: float, log_width: FloatArray, log_chance: float | FloatArray
) -> FloatArray:
    """Return the bound of the conventional-regret theorem from the logarithms of its two factors."""
    power = (2.0 - alpha) / (1.0 - alpha) * math.log(4.0 * math.sqrt(math.pi) * math.e)
    growth = np.sqrt(d * log_width * np.log(2.0 * T * T / (1.0 - alpha)))
    steps = 15.0 * np.sqrt(d * K * T * np.log(T)) + 6.0 * np.sqrt(2.0 * T * log_chance)
    with np.errstate(over="ignore", invalid="ignore"):
        bound = 1.5 * np.exp(np.float64(power)) * growth * steps
    if not np.isfinite(bound).all():
        message = f"alpha must be further from 1: the bound exceeds the largest float at {alpha!r}"
        raise ParameterError(message, code="overflow", argument="alpha", value=alpha)
    return np.asarray(bound)[()]


def optimistic_vi_regret_bound(
    T: ArrayLike, S: int, A: int, alpha: float, discount: float, delta: float | None = None
) -> FloatArray:
    """Return the paper's bound on the regret of Algorithm 3 (``OptimisticVIAgent``).

    This is the bound as printed. It rests on Lemma E.3, which does not count the
    actions and is false as it stands: for S = A = T = 1 its sum is 1 + 1/sqrt(2), its bound sqrt(2 ln 2). With
    2 sqrt(S A (T + 1)) in its place the proof goes through.

    Parameters
    ----------
    T : array_like of int
        Number of steps, at least 1.
    S : int
        Number of states.
    A : int
        Number of actions.
    alpha : float
        Risk level in [0, 1).
    discount : float
        Discount factor in [0, 1).
    delta : float, optional
        Probability in (0, 1) that the regret exceeds the bound. Without it the bound is on the expected regret of the
        algorithm at delta = 1/T.

    Returns
    -------
    float or ndarray
        Bound, in the shape of `T`.

    Raises
    ------
    ParameterError
        If an argument is out of its range.

    Examples
    --------
    >>> float(optimistic_vi_regret_bound(10**6, S=2, A=2, alpha=0.0, discount=0.5, delta=0.1)) / 10**6
    0.1642
    """
    steps = _steps(T)
    refuse(steps != np.floor(steps), steps, "T", "a whole number", error=ParameterError, code="not-an-integer")
    states, actions = whole_number(S, "S"), whole_number(A, "A")
    level, gamma = risk_level(alpha, cautious=True), discount_factor(discount)
    chance = 1.0 / steps if delta is None else open_probability(delta, "delta")
    evidence = np.log(4.0 * (3.0 - 2.0 * level) * states**2 * actions * steps / (1.0 - level)) - np.log(chance)
    visits = np.minimum(states * np.sqrt(steps + 1.0), np.sqrt(states * (steps + 1.0) * np.log(steps + 1.0)))
    bound = 6.0 * np.sqrt(0.5 * states**2 * evidence) * visits
    bound += 2.0 * states + 2.0 + 2.0 * np.sqrt(2.0 * steps * (math.log(2.0) - np.log(chance)))
    bound = bound * gamma / (1.0 - gamma) ** 2
    return bound + 1.0 / (1.0 - gamma) if delta is None else bound


def _sizes(T: ArrayLike, K: int, d: int) -> tuple[FloatArray, int, int]:
    return _steps(T), whole_number(K, "K"), whole_number(d, "d")


def _steps(T: ArrayLike) -> FloatArray:
    steps = finite_array(T, "T", error=ParameterError)
    refuse((steps < 1.0) | (steps > LARGEST), steps, "T", f"from 1 to {LARGEST:g}", error=ParameterError)
    return steps


# -- the lemma they rest on ----------------------------------------------------------------------------------


def expected_order_statistic(values: ArrayLike, k: int, n: int, weights: ArrayLike | None = None) -> float:
    """Return the mean of the k-th lowest of n independent draws of a discrete variable.

    The order-statistic lemma: for k = 1 and k = 2 it is at least the mean of the worst k/n, ``cvar(values, 1 - k/n)``.

    Parameters
    ----------
    values : array_like of shape (N,)
        Values of the variable.
    k : int
        Rank, 1 for the lowest draw.
    n : int
        Number of draws, at least `k`.
    weights : array_like of shape (N,), optional
        Numbers in proportion to the probabilities of the values. By default all values are equally likely.

    Returns
    -------
    float
        Mean of the k-th lowest draw.

    Raises
    ------
    DataError
        If `values` and `weights` differ in length, or all weights are zero.
    ParameterError
        If `k` is above `n`.

    Examples
    --------
    >>> expected_order_statistic([0.0, 1.0], k=1, n=2)
    0.25
    """
    from scipy.special import betainc  # takes a while to load

    x = finite_array(values, "values", ndim=1)
    chance = np.ones_like(x) if weights is None else non_negative_array(weights, "weights", ndim=1)
    if not x.size or chance.shape != x.shape:
        message = f"values and weights must have the same length above 0, got {x.shape} and {chance.shape}"
        raise DataError(message, code="wrong-shape", argument="weights", value=chance.shape, expected=x.shape)
    if not chance.any():
        raise DataError("weights are all 0, expected a positive sum", code="sum-zero", argument="weights")
    n = whole_number(n, "n", memory=64.0)
    k = whole_number(k, "k", maximum=n)
    order = np.argsort(x)
    cdf = np.minimum(np.cumsum(chance[order]) / chance.sum(), 1.0)
    cdf[-1] = 1.0
    return float(x[order] @ np.diff(betainc(k, n - k + 1, cdf), prepend=0.0))
