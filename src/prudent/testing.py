"""Conformance suites for parts of your own: does a class keep to the protocol that the library relies on?

Each suite raises a ``ConformanceError`` at the first rule that is broken, with the rule as its ``code``, and returns
the rules that it has tested. Call it in a test of yours:

    def test_my_agent():
        prudent.testing.check_agent(MyAgent)
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from scipy import stats

from ._support.checks import FloatArray, IntArray, takes, whole_number
from ._support.content import Content
from .agents.protocol import AgentFactory
from .agents.tabular import TabularAgent
from .envs import frozen_lake, inventory, river_swim
from .envs.bandits import BanditEnvironment
from .envs.problem import Problem
from .errors import ConformanceError, DataError, ModelError, ParameterError, PrudentError, StateFileError
from .models.uncertain import UncertainMDP
from .posteriors.base import Posterior
from .risk.conformance import check_risk
from .simulation.custom import is_compiled, new_agent
from .simulation.tabular import simulate

__all__ = ["check_agent", "check_environment", "check_posterior", "check_risk"]

_MOST = 10**7  # steps and draws of a suite
FALSE_ALARM = 1e-7  # probability that a suite fails by chance, for each of its statistical tests
Played = list[tuple[int, int, int | None, int | None, float]]


# -- agents ------------------------------------------------------------------------------------------------


def check_agent(
    factory: AgentFactory, problems: Problem | Sequence[Problem] | None = None, *, steps: int = 100, rng: int = 1
) -> list[str]:
    """Check that a class or function makes agents that keep to the protocol `prudent.agents.Agent`.

    Parameters
    ----------
    factory : callable
        What `prudent.simulate` is given: a class or function that makes an agent from a model.
    problems : Problem or sequence of Problem, optional
        Where to try it. The default is a lake, a shop whose demand is censored, a river, and a machine that breaks
        for good and bars an action; a problem that the agent refuses with a ModelError is left out.
    steps : int, default=100
        Number of steps in each problem.
    rng : int, default=1
        Seed.

    Returns
    -------
    list of str
        The rules that were tested.

    Raises
    ------
    ConformanceError
        If a rule is broken. Its code is the rule:

        - ``agent-methods``: it has ``reset``, ``act`` and ``observe``;
        - ``agent-action``: actions are indices that are admissible;
        - ``agent-repeatable``: two agents with the same stream act alike, also if one lives after the other;
        - ``agent-reset``: after ``reset`` nothing is left of the replication before;
        - ``agent-randomness``: random numbers come from the stream that ``reset`` was given;
        - ``agent-model``: the model is not changed;
        - ``agent-policy``: a policy that it shows is one of the model, and is followed;
        - ``agent-policy-reading``: to read the policy changes nothing;
        - ``agent-content``: two new agents hold the same data, so that finished work can be used again;
        - ``agent-save``: a `TabularAgent` that can be saved goes on alike after `load`.
    ParameterError
        If the agent refuses all problems.

    Examples
    --------
    >>> from prudent import PosteriorSamplingAgent
    >>> "agent-reset" in check_agent(PosteriorSamplingAgent)
    True
    """
    if problems is None:
        listed = [frozen_lake(0.2), inventory(censored=True), river_swim(4), _machine()]
    else:
        listed = [problems] if isinstance(problems, Problem) else list(problems)
    steps, rng = whole_number(steps, "steps", maximum=_MOST), whole_number(rng, "rng", minimum=0)
    suites = [_AgentSuite(factory, problem, steps, rng) for problem in listed]
    tested: dict[str, None] = {}
    refusals: list[ModelError] = []
    for suite in suites:
        try:
            suite.new()
        except ModelError as error:
            refusals.append(error)
            continue
        tested |= dict.fromkeys(suite.run())
    if not tested:
        text = (
            f"problems: the agent refuses all of them, the last since {refusals[-1] if refusals else 'there is none'}"
        )
        raise ParameterError(text, code="empty", argument="problems")
    return list(tested)


def _machine() -> Problem:
    """Return a problem with an end, a terminal state, a barred action and outcomes that are not seen."""
    next_state = [[[0, 1, 1], [0, 0, 2]], [[1, 1, -2], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]]
    model = UncertainMDP([[0, 1], [0, -1], [0, 1]], next_state, [[0.5, 0.1], [0.9, 0.0], [0.0, 0.0]], 0.8, terminal=[2])
    return Problem(model, [[0.6, 0.3, 0.1], [0.3, 0.5, 0.2]], observed=False)


class _AgentSuite:
    """The rules of agents in one problem."""

    def __init__(self, factory: AgentFactory, problem: Problem, steps: int, seed: int) -> None:
        self.factory, self.problem, self.steps, self.seed = factory, problem, steps, seed
        self.model = problem.model
        self.label = getattr(factory, "__name__", repr(factory))

    def fail(self, code: str, text: str, **fields: object) -> ConformanceError:
        return ConformanceError(f"{self.label}: {text}", code=code, **fields)

    def new(self) -> Any:
        try:
            return new_agent(self.factory, self.model, self.label)
        except ParameterError as error:
            if error.code == "wrong-type":
                raise self.fail("agent-methods", str(error)) from None
            raise

    def live(self, agent: Any, read: bool = False, seed: int | None = None, reset: bool = True) -> Played:
        """Let an agent live through a replication; return what happened."""
        stream = np.random.default_rng(self.seed if seed is None else seed)
        if reset:
            agent.reset(stream)
        world, played = np.random.default_rng(self.seed + 7), Played()
        nowhere, state = -1 if is_compiled(agent) else None, self.problem.start
        for _ in range(self.steps):
            action = agent.act(state)
            self.check_action(state, action)
            if read:
                self.check_policy(agent, state, int(action))
            action = int(action)
            b = self.model.source[state, action]
            outcome = int(world.choice(self.problem.theta.shape[1], p=self.problem.theta[b]))
            after = int(self.model.next_state[state, action, outcome])
            seen = outcome if self.problem.observed else nowhere
            reward = float(self.model.reward[state, action, outcome])
            ended = after < 0
            agent.observe(state, action, nowhere if ended else after, seen, reward)
            played.append((state, action, after, seen, reward))
            state = self.problem.start if ended or self.model.terminal[after] else after
        return played

    def check_action(self, state: int, action: Any) -> None:
        allowed = np.flatnonzero(self.model.admissible[state]).tolist()
        whole = isinstance(action, int | np.integer) and not isinstance(action, bool)
        if not whole or int(action) not in allowed:
            text = f"act({state}) returned {action!r}, expected an int among {allowed}"
            raise self.fail("agent-action", text, state=state, value=action, expected=allowed)

    def check_policy(self, agent: Any, state: int, action: int) -> None:
        if not hasattr(agent, "policy"):
            return
        policy = np.asarray(agent.policy)
        if policy.ndim == 3 or (policy.ndim == 2 and np.issubdtype(policy.dtype, np.integer)):
            return  # by the step of the episode
        try:
            row = self.model.policy_indices(policy) if policy.ndim == 1 else _distributions(self.model, policy)
        except (PrudentError, TypeError, ValueError) as error:
            raise self.fail("agent-policy", f"its policy is none of the model: {error}", value=policy) from None
        followed = row[state] == action if policy.ndim == 1 else row[state, action] > 0.0
        if not followed:
            text = f"in state {state} it took the action {action}, and its policy there is {row[state]}"
            raise self.fail("agent-policy", text, state=state, value=action, expected=row[state])

    def run(self) -> Iterator[str]:
        """Yield the rules as they are tested."""
        agent = self.new()
        yield "agent-methods"
        model, rivals = Content(self.model.entries, self.model.terminal).hexdigest(), _global_streams()
        first = self.live(agent)
        yield "agent-action"
        if _global_streams() != rivals:
            text = "it draws from numpy.random or random; draw from the stream that reset was given"
            raise self.fail("agent-randomness", text)
        yield "agent-randomness"
        if Content(self.model.entries, self.model.terminal).hexdigest() != model:
            raise self.fail("agent-model", "it changed the arrays of the model")
        yield "agent-model"
        if self.live(agent) != first:
            text = "reset with the same stream gave another run: something is left of the replication before"
            raise self.fail("agent-reset", text)
        yield "agent-reset"
        if self.live(self.new()) != first:
            text = "a second agent with the same stream acts otherwise: they share something, or a stream is not set"
            raise self.fail("agent-repeatable", text)
        yield "agent-repeatable"
        if hasattr(agent, "policy"):
            if self.live(self.new(), read=True) != first:
                raise self.fail("agent-policy-reading", "reading its policy changes what it does")
            yield from ("agent-policy", "agent-policy-reading")
        if not is_compiled(agent):
            self.check_content()
            yield "agent-content"
        if isinstance(agent, TabularAgent) and self.check_saving():
            yield "agent-save"

    def check_content(self) -> None:
        digests = []
        for _ in range(2):
            agent = self.new()
            agent.reset(np.random.default_rng(self.seed))
            state = {k: v for k, v in vars(agent).items() if k != "_reader"} if hasattr(agent, "__dict__") else agent
            known: dict[type, Callable[[Any], Any]] = {UncertainMDP: lambda model: model.entries}
            if isinstance(agent, TabularAgent):
                with contextlib.suppress(TypeError):
                    state = agent.state()
            digests.append(Content(state, known=known).hexdigest())
        if digests[0] != digests[1]:
            text = (
                "two new agents do not hold the same data, perhaps since an array was made by numpy.empty: finished "
                "chunks of a sweep would never be used again"
            )
            raise self.fail("agent-content", text)

    def check_saving(self) -> bool:
        import tempfile

        agent = self.new()
        try:
            agent.own_state()
        except TypeError:
            return False
        self.live(agent)
        with tempfile.TemporaryDirectory() as folder:
            try:
                agent.save(f"{folder}/agent.state")
                loaded = type(agent).load(f"{folder}/agent.state")
            except StateFileError as error:
                raise self.fail("agent-save", str(error)) from None
        if self.live(loaded, reset=False) != self.live(agent, reset=False):
            raise self.fail("agent-save", "an agent that was saved and loaded goes on otherwise")
        return True


def _distributions(model: UncertainMDP, policy: FloatArray) -> FloatArray:
    """Return probabilities of actions [S, A], or raise if they are none."""
    if policy.shape != model.admissible.shape:
        raise ValueError(f"its shape is {policy.shape}, expected {model.admissible.shape}")
    if not (np.isfinite(policy).all() and (policy >= 0).all() and (abs(policy.sum(axis=1) - 1.0) < 1e-9).all()):
        raise ValueError("its rows are no probabilities")
    if (policy[~model.admissible] > 0).any():
        raise ValueError("it takes actions that are not admissible")
    return policy


def _global_streams() -> str:
    """Return a digest of the random streams that everybody shares."""
    return Content(np.random.get_state(), random.getstate()).hexdigest()  # noqa: NPY002


# -- environments ------------------------------------------------------------------------------------------


def check_environment(
    make: Callable[[], Problem | BanditEnvironment], *, steps: int = 200, rng: int = 1, draws: int = 2000
) -> list[str]:
    """Check that a function makes environments that keep to the protocol of their kind.

    Parameters
    ----------
    make : callable
        Function without arguments that returns a `prudent.envs.Problem` or a `prudent.envs.BanditEnvironment`.
    steps : int, default=200
        Number of steps of a bandit.
    rng : int, default=1
        Seed.
    draws : int, default=2000
        Rewards that are drawn to test their mean.

    Returns
    -------
    list of str
        The rules that were tested.

    Raises
    ------
    ConformanceError
        If a rule is broken. Its code is the rule:

        - ``environment-kind``: it is a Problem, or has ``n_arms``, ``dim``, ``context`` and ``reward``;
        - ``environment-repeatable``: made twice, and played twice with the same stream, it is the same;
        - ``environment-randomness``: random numbers come from the stream that it is given;
        - ``environment-solvable``: the truth of a Problem can be solved and walked;
        - ``environment-context``: contexts are finite and have ``dim`` features;
        - ``environment-reward``: rewards are finite numbers;
        - ``environment-pairing``: it draws as many random numbers whatever the arm;
        - ``environment-means``: ``mean_rewards`` are the means of rewards (false alarms: 1e-7).

    Examples
    --------
    >>> from prudent.envs import gaussian_bandit
    >>> check_environment(gaussian_bandit)[-1]
    'environment-means'
    """
    steps, rng = whole_number(steps, "steps", maximum=_MOST), whole_number(rng, "rng", minimum=0)
    draws = whole_number(draws, "draws", maximum=_MOST)
    env = make()
    rules: Callable[..., Iterator[str]] = _problem_rules if isinstance(env, Problem) else _bandit_rules
    return list(rules(make, env, steps, rng, draws))


def _fault(code: str, text: str, **fields: object) -> ConformanceError:
    return ConformanceError(text, code=code, **fields)


def _problem_rules(make: Callable[[], Any], env: Problem, steps: int, seed: int, draws: int) -> Iterator[str]:
    yield "environment-kind"
    rivals = _global_streams()
    other = make()
    same = isinstance(other, Problem) and all(
        Content(each.model.entries, each.model.terminal, each.theta, each.start, each.observed).hexdigest()
        == Content(env.model.entries, env.model.terminal, env.theta, env.start, env.observed).hexdigest()
        for each in [other]
    )
    if not same:
        text = "make() returned two problems that differ; draw random parts from a fixed seed"
        raise _fault("environment-repeatable", text)
    yield "environment-repeatable"
    if _global_streams() != rivals:
        raise _fault("environment-randomness", "make() draws from numpy.random or random")
    yield "environment-randomness"
    try:
        runs = simulate(env, _Uniform, episodes=1, episode_length=steps, replications=2, rng=seed)
    except PrudentError as error:
        raise _fault("environment-solvable", f"the problem cannot be simulated: {error}") from error
    if not np.isfinite(runs.regret.values).all() or not np.isfinite(runs.reward.values).all():
        raise _fault("environment-solvable", "regret or reward of the problem is not finite")
    yield "environment-solvable"


class _Uniform:
    """Takes every admissible action with the same probability."""

    def __init__(self, model: UncertainMDP) -> None:
        self.policy = model.admissible / model.admissible.sum(axis=1, keepdims=True)

    def reset(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def act(self, state: int) -> int:
        return int(self.rng.choice(self.policy.shape[1], p=self.policy[state]))

    def observe(self, *row: object) -> None:
        pass


def _bandit_rules(make: Callable[[], Any], env: Any, steps: int, seed: int, draws: int) -> Iterator[str]:
    absent = [name for name in ("n_arms", "dim", "context", "reward") if not hasattr(env, name)]
    if absent:
        text = f"make() returned {env!r}, which is no Problem and has no {absent[0]}"
        raise _fault("environment-kind", text, value=env)
    yield "environment-kind"
    rivals = _global_streams()
    steps = min(steps, getattr(env, "steps", None) or steps)
    arms = np.random.default_rng(seed + 1).integers(env.n_arms, size=steps)
    first, state = _bandit_run(env, arms, seed)
    yield from ("environment-context", "environment-reward")
    if _bandit_run(make(), arms, seed)[0] != first or _bandit_run(env, arms, seed)[0] != first:
        raise _fault("environment-repeatable", "the same stream and the same arms gave other contexts or rewards")
    yield "environment-repeatable"
    if _global_streams() != rivals:
        raise _fault("environment-randomness", "it draws from numpy.random or random")
    yield "environment-randomness"
    for arm in range(env.n_arms):
        if _bandit_run(make(), np.full(steps, arm), seed)[1] != state:
            text = f"with arm {arm} it draws another number of random numbers: agents would not face the same world"
            raise _fault("environment-pairing", text, arm=arm)
    yield "environment-pairing"
    if hasattr(env, "mean_rewards"):
        _check_means(make(), seed, draws)
        yield "environment-means"


def _bandit_run(env: Any, arms: IntArray, seed: int) -> tuple[list[Any], str]:
    """Return contexts and rewards of some arms, and a digest of the stream after them."""
    rng = np.random.default_rng(seed)
    stage = env.start(rng) if hasattr(env, "start") else env
    seen: list[Any] = []
    for t, arm in enumerate(arms.tolist(), 1):
        context = np.asarray(stage.context(t, rng), dtype=np.float64)
        if context.shape != (env.dim,) or not np.isfinite(context).all():
            text = f"context({t}) is {context!r}, expected {env.dim} finite numbers"
            raise _fault("environment-context", text, index=(t,), value=context, expected=env.dim)
        reward = stage.reward(t, context, arm, rng)
        if np.ndim(reward) or not np.isfinite(float(reward)):
            text = f"reward({t}, arm {arm}) is {reward!r}, expected a finite number"
            raise _fault("environment-reward", text, index=(t,), arm=arm, value=reward)
        seen.append((context.tolist(), float(reward)))
    return seen, Content(rng).hexdigest()


def _check_means(env: Any, seed: int, draws: int) -> None:
    rng = np.random.default_rng(seed)
    stage = env.start(rng) if hasattr(env, "start") else env
    context = stage.context(1, rng)
    means = np.asarray(stage.mean_rewards(1, context), dtype=np.float64)
    if means.shape != (env.n_arms,) or not np.isfinite(means).all():
        text = f"mean_rewards is {means!r}, expected {env.n_arms} finite numbers"
        raise _fault("environment-means", text, value=means, expected=env.n_arms)
    for arm in range(env.n_arms):
        found = np.array([float(stage.reward(1, context, arm, rng)) for _ in range(draws)])
        _check_mean(found, means[arm], env.n_arms, "environment-means", f"the rewards of arm {arm}")


def _check_mean(found: FloatArray, mean: float, tests: int, code: str, what: str) -> None:
    """Raise if a sample does not have this mean; all ``tests`` together fail by chance with FALSE_ALARM."""
    error = found.std(ddof=1) / np.sqrt(found.size)
    limit = float(stats.t.isf(FALSE_ALARM / (2 * tests), found.size - 1)) * error + 1e-9 * max(1.0, abs(mean))
    if abs(found.mean() - mean) > limit:
        text = f"{what} have the mean {found.mean():.6g} in {found.size} draws, expected {mean:.6g}"
        raise ConformanceError(text, code=code, value=float(found.mean()), expected=float(mean))


# -- posteriors --------------------------------------------------------------------------------------------


def check_posterior(
    make: Callable[[], Any],
    observations: Sequence[tuple[Any, ...]] = (),
    *,
    model: UncertainMDP | None = None,
    draws: int = 4000,
    rng: int = 1,
) -> list[str]:
    """Check that a function makes posteriors that agents and planners can use.

    Parameters
    ----------
    make : callable
        Function without arguments that returns the posterior before data.
    observations : sequence of tuple, optional
        Arguments of some calls of ``update``, which are independent of each other.
    model : UncertainMDP, optional
        The model whose probabilities it is about: draws are then [N, B, K].
    draws : int, default=4000
        Number of draws that are compared with mean and variance.
    rng : int, default=1
        Seed.

    Returns
    -------
    list of str
        The rules that were tested.

    Raises
    ------
    ConformanceError
        If a rule is broken. Its code is the rule:

        - ``posterior-methods``: it has ``sample(n, rng)`` and ``update``;
        - ``posterior-draws``: draws are finite, [n, ...], also for one draw;
        - ``posterior-repeatable``: the same stream gives the same draws, and to draw changes nothing;
        - ``posterior-randomness``: random numbers come from the stream that it is given;
        - ``posterior-probabilities``: draws for a `model` are probabilities of its outcomes;
        - ``posterior-mean``, ``posterior-variance``: draws have the mean and the variance that it states (false
          alarms: 1e-7);
        - ``posterior-order``: the order of observations does not matter;
        - ``posterior-merge``, ``posterior-save``, ``posterior-copy``: a `prudent.posteriors.Posterior` merges what two
          copies learned apart, survives a state file, and leaves its copies alone.

    Examples
    --------
    >>> from prudent.posteriors import BetaPosterior
    >>> rules = check_posterior(lambda: BetaPosterior([1.0, 2.0], [1.0, 1.0]), [(0, 1), (1, 0), (0, 1)])
    >>> rules[-1]
    'posterior-copy'
    """
    draws, rng = whole_number(draws, "draws", minimum=2, maximum=_MOST), whole_number(rng, "rng", minimum=0)
    return list(_posterior_rules(make, list(observations), model, draws, rng))


def _posterior_rules(
    make: Callable[[], Any], observations: list[tuple[Any, ...]], model: UncertainMDP | None, draws: int, seed: int
) -> Iterator[str]:
    if not callable(make):
        text = f"make is {make!r}, expected a function without arguments that returns the posterior before data"
        raise ParameterError(text, code="wrong-type", argument="make", value=make)
    posterior = make()
    arguments = {"sample": 2, "update": len(observations[0]) if observations else None}
    for name, count in arguments.items():
        method = getattr(posterior, name, None)
        if not callable(method):
            text = f"make() returned {posterior!r}, which has no {name}"
            raise _fault("posterior-methods", text, value=posterior)
        if count is not None and not takes(method, count):
            text = f"{name} of {posterior!r} does not take {count} arguments"
            raise _fault("posterior-methods", text, value=posterior)
    yield "posterior-methods"
    for row in observations:
        posterior.update(*row)
    rivals = _global_streams()
    found = np.asarray(posterior.sample(draws, np.random.default_rng(seed)))
    one = np.asarray(posterior.sample(1, np.random.default_rng(seed)))
    numbers = np.issubdtype(found.dtype, np.number) and np.issubdtype(one.dtype, np.number)
    if not numbers or found.shape[:1] != (draws,) or one.shape != (1, *found.shape[1:]) or not np.isfinite(found).all():
        text = f"sample({draws}) has the shape {found.shape} and sample(1) {one.shape}, expected finite draws [n, ...]"
        raise _fault("posterior-draws", text, value=found.shape)
    yield "posterior-draws"
    if not np.array_equal(found, posterior.sample(draws, np.random.default_rng(seed))):
        raise _fault("posterior-repeatable", "the same stream gave other draws, or drawing changed the posterior")
    yield "posterior-repeatable"
    if _global_streams() != rivals:
        raise _fault("posterior-randomness", "it draws from numpy.random or random")
    yield "posterior-randomness"
    if model is not None:
        _check_probabilities(found, model)
        yield "posterior-probabilities"
    yield from _moment_rules(posterior, found.reshape(draws, -1))
    if observations:
        _check_order(make, observations, posterior, seed)
        yield "posterior-order"
    if isinstance(posterior, Posterior):
        yield from _class_rules(make, observations, posterior)


def _check_probabilities(found: FloatArray, model: UncertainMDP) -> None:
    mask = model.outcome_mask
    if found.shape[1:] != mask.shape:
        text = f"draws have the shape {found.shape}, expected [n, {mask.shape[0]}, {mask.shape[1]}]"
        raise _fault("posterior-probabilities", text, value=found.shape, expected=mask.shape)
    wrong = (found < 0.0).any() or (abs(found.sum(axis=2) - 1.0) > 1e-9).any() or (found[:, ~mask] != 0.0).any()
    if wrong:
        raise _fault("posterior-probabilities", "draws are not probabilities of the outcomes of the model")


def _moment_rules(posterior: Any, found: FloatArray) -> Iterator[str]:
    size = found.shape[1]
    if callable(getattr(posterior, "mean", None)):
        means = np.asarray(posterior.mean()).ravel()
        for i in range(size):
            _check_mean(found[:, i], means[i], size, "posterior-mean", f"draws of the number {i}")
        yield "posterior-mean"
        if callable(getattr(posterior, "variance", None)):
            variances = np.asarray(posterior.variance()).ravel()
            if variances.size == size:
                for i in range(size):
                    squares = (found[:, i] - means[i]) ** 2
                    what = f"squared deviations of the number {i}"
                    _check_mean(squares, variances[i], size, "posterior-variance", what)
                yield "posterior-variance"


def _check_order(make: Callable[[], Any], observations: list[tuple[Any, ...]], posterior: Any, seed: int) -> None:
    other = make()
    for row in reversed(observations):
        other.update(*row)
    one, two = (np.asarray(each.sample(3, np.random.default_rng(seed))) for each in (posterior, other))
    if not np.allclose(one, two, rtol=1e-6, atol=1e-9):
        raise _fault("posterior-order", "the same observations in another order gave another posterior")


def _class_rules(make: Callable[[], Any], observations: list[tuple[Any, ...]], posterior: Posterior) -> Iterator[str]:
    import tempfile

    half = len(observations) // 2
    parts = make(), make()
    for i, row in enumerate(observations):
        parts[i >= half].update(*row)
    merged = parts[0].merge(parts[1])
    for name in (*posterior.sums, *posterior.fixed):
        if not np.allclose(getattr(merged, name), getattr(posterior, name), rtol=1e-9, atol=1e-12):
            text = f"merge of two posteriors gave another {name} than all observations in one"
            raise _fault("posterior-merge", text, value=name)
    yield "posterior-merge"
    with tempfile.TemporaryDirectory() as folder:
        posterior.save(f"{folder}/posterior.state")
        if type(posterior).load(f"{folder}/posterior.state") != posterior:
            raise _fault("posterior-save", "what load returns differs from what save wrote")
    yield "posterior-save"
    before, copy = posterior.copy(), posterior.copy()
    for row in observations:
        with contextlib.suppress(DataError):
            copy.update(*row)
    if posterior != before or (observations and copy == before):
        raise _fault("posterior-copy", "an update of a copy changed the original, or did not change the copy")
    yield "posterior-copy"
