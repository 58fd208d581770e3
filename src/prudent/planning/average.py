"""Average reward: the gain of a process that runs for ever, certified, and the bias of the policy that reaches it.

Let T be a Bellman backup without a discount whose rows sum to one: monotone, and shifted by c when c is added to its
argument. With lo, hi the extremes of Th - h, T^n h lies between h + n lo and h + n hi, for any h. So the gain, the
limit of T^n h / n and of (1 - gamma) V_gamma, obeys

    lo <= gain <= hi.

This holds for a known model, a policy, and every risk of a posterior that is monotone and translation equivariant
(CVaR, quantiles, mixtures of them, entropic risk). The iteration of ``prudent.planning.newton`` looks for the h at
which the two meet: ``Average`` has other bounds and another chain to solve, and all else is the same, on threads and on
a GPU. At a discount, |(1 - gamma) V_gamma - gain| <= (hi - lo) / 2 + (1 - gamma) (max h - min h).

**The step.** With the greedy actions (and tail probabilities) P at h, a Newton step solves (I - P) d = Th - h - gain.
That matrix is singular, once for each closed class of P. Solved is (I - gamma P) d instead, gamma = ``NEAR_ONE``: it
leaves an error of (1 - gamma) P d, which the next step removes, and needs no knowledge of the classes. A sweep goes
half way, h + (Th - h - gain) / 2, which converges for periodic chains as well.

**Several gains (multichain).** If the process can be confined to several sets of states, the gain depends on where it
begins. A known model is then solved in parts. Its end components (``prudent.planning.components``) have one gain each.
In the quotient, where each component is one state in which one may stop and be paid its gain, every process ends, so
that the gains of all states are values of ``prudent.planning.undiscounted``, with its certificate. An end of it all
is a component with gain 0.

**Durations.** The gain is then that of a unit of time. A transformed model has it at level 0 (``_known_solution``);
under a risk it is looked for by ``prudent.planning.timed_gain``.

**Bias.** The bias of a policy with transition matrix P, reward r and gain g solves h = r - g + P h, and its mean
under the stationary law of each closed class of P is 0: what beginning in a state is worth beyond the gain of all
steps. Let xi bound the expected time to reach a fixed state of some class. If h solves the equation up to e, and m the
stationary equation up to f, the error of h is at most 2 xi (e + f max|h|).
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from .._support.checks import axes_of, finite_array, generator, require_shape
from .._support.notices import warn_caller
from ..errors import ConvergenceWarning, ModelError, ParameterError
from ..models.mdp import MDP
from ..types import FloatArray, IntArray, PolicyLike, RngLike
from .base import PlanningProblem
from .components import Components, end_components
from .ends import taken_pairs
from .execute.executor import Executor
from .fixed_point import Guess
from .gain_iteration import NEAR_ONE, SMALL_GAIN, Gains, gain_by_stages, size_of
from .gain_policies import DIRECT, policy_gain
from .known_problem import KnownProblem
from .long_run import Bias, Known, bias_of, stationary_law
from .newton import DIGITS, Iteration
from .options import SolverOptions
from .solution import Solution
from .stationary import solve_stationary
from .timed_gain import timed_gain

CONSERVED = 1e-9  # of the largest gain: an action that loses no more conserves the gain
SAME = 1e-12  # of the largest gain: gains of components that are closer are the same


class Answer(NamedTuple):
    """Gains of all states, a policy that reaches them, and how it was found."""

    gain: FloatArray  # [S]
    error: float
    policy: npt.NDArray[Any]  # [S]
    iterations: int
    converged: bool
    message: str
    capped: bool = False


def known_answer(rows: Known, options: SolverOptions, guess: Guess | None = None) -> Answer:
    """Return the gains of a known model, the same in all states or not."""
    parts = rows.components()
    if parts.number == 1 and not parts.ends:
        return _one_gain(rows, options, size_of(rows.reward), guess)
    return _several_gains(rows, parts, options)


def _one_gain(rows: Known, options: SolverOptions, scale: float, guess: Guess | None = None) -> Answer:
    """Return the gain of a known model that has only one.

    Where the iteration does not come to its tolerance soon, ``prudent.planning.gain_policies`` goes on, before all
    that is left of the cap is spent or, in large models, after that.
    """
    direct = options.method == "newton" and options.device != "gpu"
    small = direct and rows.reward.shape[0] <= DIRECT
    begun = (rows.executor(), rows.executor, rows.admissible, None, options, scale)
    found = gain_by_stages(*begun, guess, brief=small)
    answer = _answered(found, rows)
    if answer.converged or not direct or found.end.iterations >= options.cap:
        return answer
    tol = options.tol
    aim = DIGITS * max(abs(found.gain), SMALL_GAIN * scale) if tol is None else tol
    better = policy_gain(rows, found.actions, aim)
    if better is not None and 0.5 * (better.high - better.low) <= max(aim, answer.error):
        error = 0.5 * (better.high - better.low)
        iterations = found.end.iterations + better.policies
        ended = error <= aim
        message = (
            f"error bound {error:.2g} <= {aim:.2g} after {found.end.iterations} backups and {better.policies} policies"
        )
        if not ended:
            message = (
                f"error bound {error:.2g} is as small as rounding allows; {aim:.2g} would need more than 64-bit floats"
            )
        gain = np.full(rows.reward.shape[0], 0.5 * (better.low + better.high))
        return Answer(gain, error, better.policy, iterations, ended, message)
    if small and found.end.reason.capped:
        again = gain_by_stages(*begun, Guess(found.relative, found.end.iterations))
        return _answered(again, rows)
    return answer


def _answered(found: Gains, rows: Known) -> Answer:
    """Return a constant gain as an answer."""
    gain, reason = np.full(rows.reward.shape[0], found.gain), found.end.reason
    return Answer(
        gain, found.error, found.actions, found.end.iterations, reason.converged, reason.message, reason.capped
    )


def _several_gains(rows: Known, parts: Components, options: SolverOptions) -> Answer:
    """Return the gains of a multichain model: one for each end component, then those of the quotient."""
    gain, error, iterations, converged = np.zeros(parts.number), 0.0, 0, True
    single = np.bincount(parts.of_state[parts.of_state >= 0], minlength=parts.number) == 1
    own = np.where(parts.inside.reshape(rows.reward.shape), rows.reward, -np.inf).max(axis=1)
    settled = np.flatnonzero(parts.of_state >= 0)
    alone = settled[single[parts.of_state[settled]]]
    gain[parts.of_state[alone]] = own[alone]
    for number in np.flatnonzero(~single).tolist():
        part = rows.restricted(parts.states(number), parts.inside)
        found = _one_gain(part, options, size_of(rows.reward))
        gain[number], error = found.gain[0], max(error, found.error)
        iterations, converged = iterations + found.iterations, converged and found.converged
    value, above = _quotient_values(rows, parts, gain, options)
    iterations += above.iterations
    gains = value[_quotient_state(parts)]
    policy = _conserving_policy(rows, gains, error + above.error_bound)
    total = error + above.error_bound
    what = "one gain" if np.ptp(gains) <= SAME * abs(gains).max(initial=0.0) else "several gains (multichain)"
    message = f"{what}, error bound {total:.2g}, from {parts.number} end component{'s' * (parts.number != 1)}"
    return Answer(gains, total, policy, iterations, converged and above.converged, message)


def _quotient_state(parts: Components) -> IntArray:
    """Return the state of the quotient of each state [S]: those of components first."""
    free = parts.of_state < 0
    number = parts.of_state.copy()
    number[free] = parts.number + np.arange(int(free.sum()))
    return number


def _quotient_values(
    rows: Known, parts: Components, gain: FloatArray, options: SolverOptions
) -> tuple[FloatArray, Solution]:
    """Return the values of the quotient, and its solution: one may stop in a component, and be paid its gain."""
    number, n_actions = _quotient_state(parts), rows.reward.shape[1]
    size = int(number.max()) + 1
    pairs = np.flatnonzero(rows.admissible.reshape(-1) & ~parts.inside)
    owner = number[pairs // n_actions]
    order = np.argsort(owner, kind="stable")
    pairs, owner = pairs[order], owner[order]
    place = np.arange(pairs.size) - np.searchsorted(owner, owner)  # number of the pair among those of its owner
    width = int(place.max(initial=-1)) + 1 + (parts.number > 0)  # the last action stops in a component
    merged = scipy.sparse.csr_array((np.ones(number.size), (np.arange(number.size), number)), shape=(number.size, size))
    leaving = scipy.sparse.csr_array(rows.transition[pairs] @ merged).tocoo()
    steps = scipy.sparse.coo_array(
        (leaving.data, ((owner * width + place)[leaving.row], leaving.col)), shape=(size * width, size)
    ).tocsr()
    termination, reward = np.zeros((size, width)), np.zeros((size, width))
    termination[owner, place] = rows.ending[pairs]
    admissible = np.zeros((size, width), dtype=np.bool_)
    admissible[owner, place] = True
    stop = np.arange(parts.number)
    admissible[stop, -1], termination[stop, -1], reward[stop, -1] = True, 1.0, gain
    quotient = MDP(steps, reward, 1.0, termination=termination, admissible=admissible)
    solution = solve_stationary(KnownProblem(quotient), None, SolverOptions(tol=options.tol))
    return np.where(quotient.terminal, quotient.terminal_value, solution.value), solution


def _conserving_policy(rows: Known, gains: FloatArray, error: float) -> IntArray:
    """Return a policy [S] with these gains, the best of the actions that lose nothing of them."""
    size = float(abs(gains).max(initial=0.0))
    ahead = (rows.transition @ gains).reshape(rows.reward.shape)
    kept = rows.admissible & (ahead >= gains[:, None] - CONSERVED * size - 4.0 * error)
    kept[~kept.any(axis=1)] = rows.admissible[~kept.any(axis=1)]
    # what is earned beyond the gain, at a discount at which a lower gain cannot pay
    centred = rows._replace(reward=np.where(kept, rows.reward - gains[:, None], 0.0), admissible=kept)
    leaks = (min(rows.leaks[0], 0.0), 1.0) if rows.ending.any() else rows.leaks
    iteration = Iteration(centred.executor(NEAR_ONE, leaks), kept, None)
    end = iteration.to_tolerance(np.zeros(gains.size), None, SolverOptions().cap, newton=True)
    return np.asarray(end.point.actions)


# -- solutions ---------------------------------------------------------------------------------------------


def solve_average(
    problem: PlanningProblem,
    policy: PolicyLike | None,
    options: SolverOptions,
    initial_value: npt.ArrayLike | None = None,
    draws: npt.ArrayLike | None = None,
    rng: RngLike = None,
    threads: int | None = None,
) -> Solution:
    """Return the gain of the best policy, or of ``policy``, and its bias; arguments as for ``prudent.solve``."""
    exact_mean = draws is None and problem.is_mean
    if isinstance(problem.model, MDP):
        problem.model.require_unit_durations("average rewards of known models")
    if options.sweeps is not None:
        message = "sweeps are of value iteration with a discount; give tol or max_iterations for an average reward"
        raise ParameterError(message, code="conflicting-arguments", argument="sweeps")
    problem = problem.with_discount(1.0)
    model = problem.model
    guess = None
    if initial_value is not None:
        value = finite_array(initial_value, "initial_value", ndim=1, error=ParameterError)
        require_shape(value, "initial_value", (model.n_states,), "[S]", error=ParameterError)
        guess = Guess(value.copy(), 0)
    actions = None if policy is None else model.read_policy(policy)
    if exact_mean:
        problem.operator(draws, rng, threads)  # which refuses what it cannot use
        rows = Known.of(problem.mean_mdp())._replace(roundings=problem.mean_roundings)
        return _known_solution(problem, rows, _durations(problem), actions, options, guess)
    return _risk_solution(problem, actions, options, guess, draws, rng, threads)


def _known_solution(
    problem: PlanningProblem,
    rows: Known,
    durations: FloatArray | None,
    actions: npt.NDArray[Any] | None,
    options: SolverOptions,
    guess: Guess | None,
) -> Solution:
    """Return the solution of a model that is valued by its mean, with mean durations [S, A] of steps if there are any.

    With durations the gain is that of a unit of time. A model whose steps all take the shortest of the mean durations
    has the same gain (Schweitzer's transformation): rewards are divided by the durations, and a step stays where it is
    with the probability that its duration is not over.
    """
    original, shortest = rows, 1.0 if durations is None else float(durations[rows.admissible].min())

    def timed(rows: Known, durations: FloatArray | None) -> Known:
        if durations is None:
            return rows
        return rows.shortened(np.where(rows.admissible, durations, shortest), shortest)

    def followed(policy: npt.NDArray[Any]) -> Known:
        lasts = None if durations is None else _of_policy(durations, policy)[:, None]
        return timed(original.followed(policy), lasts)  # chance chooses steps, not units of time

    rows = timed(original, durations)
    answer = known_answer(rows if actions is None else followed(actions), options, guess)
    policy = answer.policy if actions is None else actions
    chain = followed(policy)
    bias = bias_of(chain)
    bias = Bias(shortest * bias.value, shortest * bias.error)
    q = (original.reward.reshape(-1) + original.transition @ bias.value).reshape(rows.reward.shape)
    q = q - answer.gain[:, None] * (1.0 if durations is None else durations)
    lost = answer.gain[:, None] - (rows.transition @ answer.gain).reshape(q.shape)
    worse = lost > CONSERVED * float(abs(answer.gain).max(initial=0.0)) + 4.0 * answer.error
    q = np.where(rows.admissible & ~worse, q, -np.inf)
    return _solution(problem, answer, policy, bias, q, rows.reward)


def _durations(problem: Any) -> FloatArray | None:
    """Return the mean durations of steps [S, A] at the posterior mean; None if all take one unit of time."""
    duration = getattr(problem.model, "duration", None)
    if duration is None:
        return None
    entries = problem.model.entries
    chance = entries.pack(problem.posterior.mean())[entries.slots()]
    mean = np.bincount(entries.pairs(), weights=chance * duration, minlength=entries.source.size)
    return np.asarray(mean.reshape(problem.model.admissible.shape))


def _risk_solution(
    problem: PlanningProblem,
    actions: npt.NDArray[Any] | None,
    options: SolverOptions,
    guess: Guess | None,
    draws: npt.ArrayLike | None,
    rng: RngLike,
    threads: int | None,
) -> Solution:
    """Return the solution under a posterior, whose gain must be the same in all states."""
    model, duration = problem.model, getattr(problem.model, "duration", None)
    parts = _possible(problem, actions)
    if parts.ends:
        message = (
            "the process may end, and then earns nothing any more: its average reward under a posterior is not defined "
            "here; omit objective for what it earns until then"
        )
        raise ModelError(message, code="process-ends", argument="objective")
    # every search with the same draws
    stream = generator(rng) if draws is not None and axes_of(draws) == 0 else rng

    def search(timed: PlanningProblem, options: SolverOptions, guess: Guess | None) -> tuple[Gains, Executor]:
        operator = timed.operator(draws, copy.deepcopy(stream), threads)

        def near(discount: float) -> Executor | None:
            twin = timed.with_discount(discount)
            return None if draws is not None else twin.first_guess(twin.operator(None, None, threads))

        return gain_by_stages(operator, near, model.admissible, actions, options, scale, guess), operator

    rewards = _rewards(problem)
    scale = size_of(rewards)
    if duration is None:
        found, operator = search(problem, options, guess)
        shift = found.gain
    else:
        found, rate = timed_gain(
            lambda gain, *given: search(problem.net_of_gain(gain), *given)[0], rewards, duration, options, guess
        )
        operator, shift = problem.net_of_gain(rate).operator(draws, copy.deepcopy(stream), threads), 0.0
    reason = found.end.reason
    if parts.number > 1 and not reason.converged and found.end.point.width > 100.0 * found.end.point.noise:
        low, high = found.gain - found.error, found.gain + found.error
        message = (
            f"the long run can be confined to {parts.number} sets of states, and the gain depends on the first state "
            f"(between {low:.4g} and {high:.4g}): a multichain model, which is solved only at level 0; exclude actions "
            "so that one set is left, or use a discount"
        )
        raise ModelError(message, code="several-gains", value=parts.number)
    relative = found.relative
    chain = _policy_chain(operator, relative, found.actions, model.n_actions)
    classes = chain.components()
    if classes.number == 1:
        states = classes.states(0)
        law, _ = stationary_law(chain.transition[states][:, states])
        if duration is not None:
            law = law * _mean_durations(problem, found.actions)[states]
        relative = relative - float(law @ relative[states]) / float(law.sum())
    gain = np.full(model.n_states, found.gain)
    answer = Answer(gain, found.error, found.actions, found.end.iterations, reason.converged, reason.message)
    q = np.full(model.admissible.shape, -np.inf)
    operator.accuracy = 1e-12 * float(abs(relative).max())
    operator.backup(relative, np.flatnonzero(model.admissible), q.reshape(-1))
    q = np.where(model.admissible, q - shift, -np.inf)
    kept = problem.snapshot(draws)
    return _solution(kept, answer._replace(capped=reason.capped), found.actions, Bias(relative, np.nan), q, rewards)


def _mean_durations(problem: PlanningProblem, policy: npt.NDArray[Any]) -> FloatArray:
    """Return the mean durations of the steps of a policy [S], as what a unit of time costs in the mean model."""
    free, paid = (problem.net_of_gain(gain).mean_mdp().reward for gain in (0.0, 1.0))
    return _of_policy(free - paid, policy)


def _of_policy(values: FloatArray, policy: npt.NDArray[Any]) -> FloatArray:
    """Return the mean over the actions [S] of a policy, [S] or [S, A]."""
    if policy.ndim == 1:
        return values[np.arange(policy.size), policy]
    return np.asarray((policy * np.where(policy > 0.0, values, 0.0)).sum(axis=1))


def _rewards(problem: PlanningProblem) -> FloatArray:
    """Return the rewards of all outcomes."""
    return problem.mean_mdp().outcomes().reward


def _possible(problem: PlanningProblem, actions: npt.NDArray[Any] | None) -> Components:
    """Return the end components of the outcomes that can happen, of all actions or those of a policy."""
    outcomes, (n_states, n_actions) = problem.mean_mdp().outcomes(), problem.model.admissible.shape
    taken = problem.model.admissible.reshape(-1).copy()
    if actions is not None:
        taken[:] = False
        taken[taken_pairs(actions, n_actions)] = True
    pair = np.repeat(np.arange(taken.size), np.diff(outcomes.first))
    target = outcomes.next_state.astype(np.int64)
    if actions is not None:  # chance takes all of them: as one action
        used = taken[pair]
        return end_components(pair[used] // n_actions, target[used], np.ones(n_states, np.bool_), 1)
    return end_components(pair, target, taken, n_actions)


def _policy_chain(operator: Executor, value: FloatArray, policy: npt.NDArray[Any], n_actions: int) -> Known:
    """Return the chain of a policy that touches the backup at ``value``."""
    pairs, size = taken_pairs(policy, n_actions), value.size
    chain = operator.linearise(value, pairs)
    matrix = scipy.sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(pairs.size, size))
    matrix.sum_duplicates()
    if policy.ndim == 2:
        parts = (policy.reshape(-1)[pairs], (pairs // n_actions, np.arange(pairs.size)))
        matrix = scipy.sparse.csr_array(scipy.sparse.csr_array(parts, shape=(size, pairs.size)) @ matrix)
    every = np.ones((size, 1), np.bool_)
    return Known(matrix, np.zeros((size, 1)), every, np.zeros(size), (0.0, 0.0))


def _solution(
    problem: PlanningProblem,
    answer: Answer,
    policy: npt.NDArray[Any],
    bias: Bias,
    q: FloatArray,
    rewards: FloatArray,
) -> Solution:
    """Return the solution, and warn if the iteration was cut short or few digits are certain."""
    if answer.capped:
        facts = {"iterations": answer.iterations, "error_bound": answer.error}
        warn_caller(ConvergenceWarning(answer.message, code="iteration-cap", **facts))
    elif not answer.converged and answer.error > 2.0 * (promised := DIGITS * size_of(np.append(answer.gain, rewards))):
        facts = {"iterations": answer.iterations, "error_bound": answer.error, "expected": promised}
        warn_caller(ConvergenceWarning(answer.message, code="few-digits", **facts))
    return Solution(
        value=answer.gain,
        policy=policy,
        q_source=q,
        residual=answer.error,
        error_bound=answer.error,
        iterations=answer.iterations,
        converged=answer.converged,
        message=answer.message,
        states=problem.model.states,
        actions=problem.model.actions,
        terminal=problem.model.terminal,
        problem=problem,
        bias=bias.value,
        bias_error=bias.error,
    )
