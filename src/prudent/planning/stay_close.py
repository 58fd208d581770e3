"""Policies that stay close to a baseline where there are few data: which mixtures of actions a state may use.

Let b be the baseline and e(s, a) >= 0 the price of moving probability away from it. The mixtures of state s are

    C(s) = { pi : pi >= 0, sum_a pi(a) = 1, sum_a e(s, a) |pi(a) - b(a | s)| <= epsilon },

and the operator of the constrained problem is (TV)(s) = max over pi in C(s) of sum_a pi(a) Q(s, a), where Q(s, a) is
the risk of one step, as without a constraint.

- **SPIBB** (safe policy improvement with baseline bootstrapping; Laroche, Trichelair and Tachet des Combes, ICML 2019):
  e is infinite for pairs seen fewer than ``min_visits`` times, which keep exactly the probability of the baseline, and
  0 for the others, whose mass goes to the best of them.
- **Soft-SPIBB** (Nadjahi, Laroche and Tachet des Combes, ECML 2019): e(s, a) = 1 / sqrt(n(s, a)) for a pair seen n
  times, so that rarely seen pairs move less. Infinite prices and a budget may be combined.

**The bounds hold.** C(s) does not depend on V, and each pi is a distribution. If V <= U then Q_V <= Q_U and the maxima
are in the same order: T is monotone. If V = U + c then T V = T U + gamma c, where rows sum to one. These are all that
the certificate needs (``prudent.planning.certificate``), so T is a contraction with factor gamma, its fixed point is
the value of the best allowed policy, and the bounds of MacQueen, the stopping rule and the safeguarded Newton steps are
those of the unconstrained problem. The chain of a Newton step takes the mixture that attains the maximum.

**The maximum is exact.** Moving a unit of probability from a to a' earns q(a') - q(a) and costs e(a) + e(a'). With a
multiplier x >= 0 for the budget, all mass is moved to one action, a*(x) = argmax q - x e, from the actions with
q(a) < q(a*) - x (e(a*) + e(a)). So the dual function

    D(x) = x epsilon + sum_a b(a) max(q(a), q(a*) - x e(a*) - x e(a))

is convex and piecewise linear, D(x) >= max for every x, and the maximum is its minimum. Two mixtures, one above the
budget and one within it, define two lines; D is evaluated where they intersect, which replaces one of the two or proves
that their combination with cost epsilon is optimal. What rounding leaves between D and the value of the mixture is
added to the error of the backup, so that the certificate does not depend on this iteration having ended.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._numerics.compensated import EPS
from .._numerics.compile import kernel
from .._numerics.copying import put
from .._support.checks import finite_array, require_shape
from ..errors import ParameterError, PosteriorError
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..types import BoolArray, FloatArray, PolicyLike
from .base import PlanningProblem

LOG = "log"  # the baseline that is estimated from the data


class Allowed(NamedTuple):
    """The mixtures of actions that each state may use."""

    baseline: FloatArray  # [S, A] probabilities of the baseline
    price: FloatArray  # [S, A] of moving probability; infinity: this pair keeps that of the baseline
    budget: float  # most that a state may spend

    @property
    def bound(self) -> BoolArray:
        """Pairs that keep the probability of the baseline [S, A]."""
        return np.isinf(self.price)

    @property
    def is_soft(self) -> bool:
        """Whether the values of all actions matter, not only the best of those that are free."""
        return bool((self.price[~self.bound] > 0.0).any())

    @property
    def used(self) -> BoolArray:
        """Pairs whose values matter [S, A]: those of the baseline, and those that may take its mass."""
        return (self.baseline > 0.0) | ~self.bound

    @property
    def only_best(self) -> BoolArray:
        """Pairs of which only the best of each state matters [S, A]."""
        return np.zeros(self.price.shape, dtype=np.bool_) if self.is_soft else ~self.bound

    def best_free(self, q: FloatArray) -> FloatArray:
        """Return the best of the free actions [S] of ``q`` [S, A]; minus infinity where there is none."""
        return np.asarray(np.where(self.bound, -np.inf, q).max(axis=1))

    def leaves_free(self, admissible: BoolArray) -> bool:
        """Return whether nothing is constrained."""
        return not (self.price[admissible] > 0.0).any()

    def best(self, q: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return the largest values [S] that allowed mixtures make of ``q`` [S, A], the mixtures, and the error."""
        value, policy = np.empty(q.shape[0]), np.zeros(q.shape)
        gap, size = best_mixtures(q, self.baseline, self.price, self.budget, value, policy)
        return value, policy, gap + (6.0 * q.shape[1] + 64.0) * EPS * size


def log_policy(model: UncertainMDP, posterior: DirichletPosterior, smoothing: float = 0.1) -> FloatArray:
    """Return the policy that produced the data of a posterior: the share of each action in each state, smoothed.

    With n(s, a) observations of a pair beyond the prior, the probability is (n(s, a) + c(s, a)) / sum over actions. The
    c(s, a) of a state sum to ``smoothing`` and are proportional to the use of the actions in all states, so that an
    action that is admissible and was not tried in this state has a small probability.

    Parameters
    ----------
    model : UncertainMDP
        A model in which each pair has a source of its own, as ``prudent.from_log`` makes it.
    posterior : DirichletPosterior
        Its posterior, which tells data from prior.
    smoothing : float, default=0.1
        Number of observations that the smoothing is worth in each state; 0 for none. More of it pulls what is done in
        single states towards the average, and is then no longer what is done there.

    Returns
    -------
    ndarray of shape (S, A)
        Probabilities of actions.

    Raises
    ------
    PosteriorError
        If the posterior has no data, or pairs share sources.

    Examples
    --------
    >>> import prudent as pr
    >>> log = [("ill", "wait", "ill", 0, 6), ("ill", "wait", "well", 1, 2), ("ill", "drug", "well", 1, 1)]
    >>> pr.planning.log_policy(*pr.from_log(log, 0.95, terminal=["well"]), smoothing=0).round(3)
    array([[0.111, 0.889],
           [1.   , 0.   ]])
    """
    amount = float(finite_array(smoothing, "smoothing", ndim=0, error=ParameterError))
    if amount < 0.0:
        message = f"smoothing is {amount!r}, expected 0 or more"
        raise ParameterError(message, code="negative", argument="smoothing", value=amount)
    decided = model.admissible & ~model.terminal[:, np.newaxis]
    used = np.bincount(model.source[decided], minlength=model.n_sources)
    if (used > 1).any():
        b = int(np.argmax(used > 1))
        message = (
            f"baseline='log' needs a source for each pair, but {used[b]} pairs share source {b}, so that the data do "
            "not say which action was taken; give the baseline as a policy"
        )
        raise PosteriorError(message, code="shared-source", argument="baseline", source=b)
    visits = np.where(decided, visits_of(model, posterior), 0.0)
    if not visits.any():
        message = (
            "baseline='log' needs data, and posterior has none beyond its prior; make it by from_log, pass "
            "DirichletPosterior(counts, prior=...), or give the baseline as a policy"
        )
        raise PosteriorError(message, code="no-data", argument="baseline")
    usual = np.where(model.admissible, visits.sum(axis=0) / visits.sum(), 0.0)
    lacks = ~(usual.sum(axis=1) > 0.0)
    usual[lacks] = model.admissible[lacks]
    usual /= usual.sum(axis=1, keepdims=True)
    total = visits.sum(axis=1, keepdims=True)
    shares: FloatArray = np.where(total > 0.0, visits + amount * usual, usual)
    return shares / shares.sum(axis=1, keepdims=True)


def visits_of(model: UncertainMDP, posterior: DirichletPosterior) -> FloatArray:
    """Return the observations of the source of each pair, beyond the prior [S, A]; 0 where inadmissible."""
    counts, prior = (model.with_end(rows) for rows in (posterior.counts, posterior.prior))
    require_shape(counts, "posterior", (model.n_sources, model.n_outcomes), "[B, K]", error=PosteriorError)
    return np.where(model.source >= 0, (counts - prior).sum(axis=1)[model.source], 0.0)


def read_baseline(baseline: PolicyLike | str, problem: PlanningProblem) -> FloatArray:
    """Return the probabilities [S, A] of a baseline: ``"log"``, or any policy of the model."""
    if isinstance(baseline, str):
        if baseline != LOG:
            message = f"baseline is {baseline!r}, expected 'log' or a policy"
            raise ParameterError(message, code="unknown-option", argument="baseline", value=baseline)
        posterior = getattr(problem, "posterior", None)
        if posterior is None or isinstance(problem.model, MDP):
            message = "baseline='log' needs a posterior with data; give the baseline as a policy"
            raise ParameterError(message, code="no-data", argument="baseline", value=baseline)
        return log_policy(problem.model, posterior)
    try:
        return problem.model.policy_matrix(baseline)
    except ParameterError as fault:
        raise type(fault)(f"baseline: {fault}", code=fault.code, **fault.fields) from None


def read_allowed(
    baseline: PolicyLike | str | None,
    min_visits: float | None,
    epsilon: float | None,
    full: PlanningProblem,
    problem: PlanningProblem,
) -> Allowed | None:
    """Return the mixtures that ``baseline``, ``min_visits`` and ``epsilon`` allow; None without a baseline.

    ``full`` has all actions, and ``problem`` those that are not excluded. The baseline of a state is what it does given
    that it takes none of the excluded actions.
    """
    if baseline is None:
        for name, value in (("min_visits", min_visits), ("epsilon", epsilon)):
            if value is not None:
                message = f"{name} says how close to stay to a baseline; give baseline='log' or a policy as well"
                raise ParameterError(message, code="missing-argument", argument="baseline")
        return None
    if min_visits is None and epsilon is None:
        message = (
            "min_visits or epsilon must be given with baseline: the number of observations from which a pair may "
            "differ from it, or how far the mixture of a state may be from it"
        )
        raise ParameterError(message, code="missing-argument", argument="min_visits")
    least = 0.0 if min_visits is None else _at_least_zero(min_visits, "min_visits")
    budget = np.inf if epsilon is None else _at_least_zero(epsilon, "epsilon")
    shares, admissible = read_baseline(baseline, full), problem.model.admissible
    if least == 0.0 and epsilon is None:
        return Allowed(shares, np.where(admissible, 0.0, np.inf), 0.0)
    posterior = getattr(problem, "posterior", None)
    if posterior is None or isinstance(problem.model, MDP):
        message = "baseline needs the observations of each pair, which only a BayesianRiskMDP with a posterior has"
        raise ParameterError(message, code="no-data", argument="baseline")
    visits = visits_of(problem.model, posterior)
    if not visits.any() and least < np.inf:
        message = (
            "baseline needs data to stay close where there are few, and posterior has none beyond its prior; make it "
            "by from_log, or pass DirichletPosterior(counts, prior=...)"
        )
        raise PosteriorError(message, code="no-data", argument="baseline")
    kept = np.where(admissible, shares, 0.0)
    total = kept.sum(axis=1, keepdims=True)
    if not (total > 0.0).all():
        s = int(np.argmin(total))
        message = (
            f"baseline takes only excluded actions in {problem.model.state_labels.show(s)}; give one that does "
            "something else there, or do not exclude them"
        )
        raise ParameterError(message, code="inadmissible-action", argument="baseline", state=problem.model.states[s])
    free = admissible & (visits >= least) & ((visits > 0.0) | (epsilon is None))
    price = np.zeros(visits.shape)
    if budget < np.inf:
        with np.errstate(divide="ignore"):
            price = 1.0 / np.sqrt(visits)
    price = np.where(free, price, np.inf)
    return Allowed(kept / total, np.ascontiguousarray(price), 0.0 if budget == np.inf else budget)


def _at_least_zero(value: Any, name: str) -> float:
    """Return a number that is 0 or more; infinity is allowed."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not number >= 0.0:
        raise ParameterError(f"{name} is {value!r}, expected 0 or more", code="negative", argument=name, value=value)
    return number


@kernel
def best_mixtures(q, baseline, price, budget, value, policy):
    """Write the largest values [S] of allowed mixtures of ``q`` [S, A] and these mixtures; q counts where needed.

    Returns the largest distance between a value and the dual bound, and the largest magnitude of a q that was used.
    """
    n_actions = q.shape[1]
    upper, lower, middle = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    worst, biggest = 0.0, 0.0
    for s in range(q.shape[0]):
        size = 0.0
        for a in range(n_actions):
            if (baseline[s, a] > 0.0 or price[s, a] < np.inf) and q[s, a] > -np.inf:  # not dropped
                size = max(size, abs(q[s, a]))
        biggest = max(biggest, size)
        gain, cost = _moved(q[s], baseline[s], price[s], 0.0, upper)
        share = 1.0  # of ``upper``, which costs more than the budget, in the mixture
        if cost > budget:
            least, spent = _moved(q[s], baseline[s], price[s], np.inf, lower)
            bound = np.inf
            for _ in range(4 * n_actions + 64):
                rate = (gain - least) / (cost - spent)
                other, costs = _moved(q[s], baseline[s], price[s], rate, middle)
                bound = min(bound, other + rate * (budget - costs))
                share = (budget - spent) / (cost - spent)
                if bound <= least + share * (gain - least) + 4.0 * EPS * size or not spent < costs < cost:
                    break
                if costs > budget:
                    gain, cost = other, costs
                    put(upper, middle)
                else:
                    least, spent = other, costs
                    put(lower, middle)
            share = (budget - spent) / (cost - spent)
            for a in range(n_actions):
                if upper[a] != lower[a]:  # what is bound stays the same to the last digit
                    upper[a] = share * upper[a] + (1.0 - share) * lower[a]
            gain = 0.0
            for a in range(n_actions):
                if upper[a] > 0.0:
                    gain += upper[a] * q[s, a]
            worst = max(worst, bound - gain)
        value[s] = gain
        put(policy[s], upper)
    return worst, biggest


@kernel
def _moved(q, baseline, price, rate, policy):
    """Write the best mixture if a unit of the budget costs ``rate``; return its value and what it spends."""
    best, top = -1, -np.inf
    for a in range(q.size):
        if price[a] < np.inf and (rate < np.inf or price[a] == 0.0):
            net = q[a] if price[a] == 0.0 else q[a] - rate * price[a]
            if net > top or (net == top and price[a] < price[best]):
                best, top = a, net
    put(policy, baseline)
    spent, taken = 0.0, 0
    if best >= 0:
        for a in range(q.size):
            if a != best and baseline[a] > 0.0 and price[a] < np.inf and (rate < np.inf or price[a] == 0.0):
                own = q[a] if price[a] == 0.0 else q[a] + rate * price[a]
                if own < top:
                    policy[a] = 0.0
                    policy[best] += baseline[a]
                    spent += baseline[a] * (price[a] + price[best])
    gain, last = 0.0, 0
    for a in range(q.size):
        if policy[a] > 0.0:
            taken += 1
            last = a
            gain += policy[a] * q[a]
    if taken == 1:  # but for rounding, all of the mass
        policy[last] = 1.0
        gain = q[last]
    return gain, spent
