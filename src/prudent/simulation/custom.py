"""Agents of any class in tabular problems, step by step: the general path of `prudent.simulate`.

The environment draws from the same streams as in the compiled loops, so an agent of one's own is paired with ours:
given the same policy in the same episode, it sees the same transitions. The regret of a step is V*(s) - V^pi(s), by an
exact solve in the true model, with the policy pi that the agent shows when it acts.

An agent that Numba compiled (a jitclass) runs in a compiled loop.
"""

from __future__ import annotations

import inspect
import operator
from bisect import bisect_right
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from .._numerics.philox import uniform_at
from .._support.checks import FloatArray, takes
from ..agents.protocol import Agent, AgentFactory
from ..agents.tabular import TabularAgent
from ..envs.problem import Problem
from ..errors import ParameterError
from ..models.transitions import draw, earned
from ..models.uncertain import UncertainMDP
from ..planning.inner import Known, Work, known_part
from ..planning.solve import evaluate
from .loops import Trace, Truth, true_values

MOST_POLICIES = 4096  # whose values are kept
METHODS = {"reset": 1, "act": 1, "observe": 5}  # and the number of their arguments
NAMED = ("states", "actions")


def new_agent(factory: AgentFactory, model: UncertainMDP, label: str) -> Agent:
    """Return an agent for a model, or raise if it does not follow the protocol."""
    kind: Any = factory.func if isinstance(factory, partial) else factory
    tabular = isinstance(kind, type) and issubclass(kind, TabularAgent)
    if not takes(factory, 1):
        text = f"agents: {label!r} is made by {factory!r}, which does not take the model as its only required argument"
        raise ParameterError(
            text, code="wrong-type", argument="agents", value=label, expected="a function of the model"
        )
    agent = factory(model, indices=True) if tabular else factory(model)  # type: ignore[call-arg]
    absent = [name for name in METHODS if not callable(getattr(agent, name, None))]
    if absent:
        text = f"agents: {label!r} makes {agent!r}, which has no method {absent[0]}; see prudent.agents.Agent"
        raise ParameterError(text, code="wrong-type", argument="agents", value=label, expected=tuple(METHODS))
    for name, count in METHODS.items():
        if not is_compiled(agent) and not takes(getattr(agent, name), count):
            found = f"{name}{inspect.signature(getattr(agent, name))}"
            text = f"agents: {label!r} has {found}, expected {count} argument{'s' if count > 1 else ''}"
            raise ParameterError(
                f"{text}; see prudent.agents.Agent", code="wrong-type", argument="agents", value=label, expected=count
            )
    if isinstance(agent, TabularAgent) and not agent.indices and any(model.names()[axis] for axis in NAMED):
        text = f"agents: {label!r} makes an agent that goes by names; make it with indices=True"
        raise ParameterError(text, code="wrong-type", argument="agents", value=label)
    return agent


def is_compiled(agent: object) -> bool:
    """Return whether Numba compiled the class of an agent."""
    return hasattr(agent, "_numba_type_")


class Stage:
    """A problem as one agent walks through it.

    Parameters
    ----------
    problem : Problem
        The model and its true probabilities.
    truth : Truth
        The same for kernels.
    work : Work
        Arrays of the compiled solver.
    horizon : int
        Steps after which an episode begins anew, or 0 if the process runs on.
    label : str
        Name of the agent, for messages.
    """

    def __init__(self, problem: Problem, truth: Truth, work: Work, horizon: int, label: str) -> None:
        self.model, self.truth, self.work, self.label, self.horizon = problem.model, truth, work, label, horizon
        self.known = None if horizon else known_part(problem.model)
        self._mdp = problem.mdp()
        self._pairs: dict[tuple[int, int], tuple[int, list[float], list[int], list[int], list[float]]] = {}
        self._worth: dict[bytes, list[float]] = {}
        self._best: list[float] = truth.best.tolist()

    def index(self, state: int, action: Any) -> int:
        """Return an action as an int, if it is a whole number of another type."""
        try:
            if not isinstance(action, bool | np.bool_):
                return operator.index(action)
        except TypeError:
            pass
        raise self._unknown(state, action)

    def _unknown(self, state: int, action: Any) -> ParameterError:
        allowed = np.flatnonzero(self.model.admissible[state]).tolist()
        text = f"agents: {self.label!r} took the action {action!r} in state {state}, expected one of {allowed}"
        fields = {"argument": "agents", "state": state, "value": action, "expected": allowed}
        return ParameterError(text, code="unknown-action", **fields)

    def pair(self, state: int, action: int) -> tuple[int, list[float], list[int], list[int], list[float]]:
        """Return source, cumulative probabilities, next states, outcomes and rewards of an admissible pair."""
        model, entries = self.model, self.model.entries
        if not 0 <= action < model.n_actions or model.source[state, action] < 0:
            raise self._unknown(state, action)
        p = state * model.n_actions + action
        b = int(entries.source[p])
        slots, own = slice(entries.begin[b], entries.begin[b + 1]), slice(entries.first[p], entries.first[p + 1])
        found = (
            b,
            self.truth.course.cumulative[slots].tolist(),
            entries.next_state[own].tolist(),
            entries.outcome[slots].tolist(),
            entries.reward[own].tolist(),
        )
        self._pairs[state, action] = found
        return found

    def worth(self, policy: Any) -> list[float]:
        """Return the exact values [S] of a policy in the true model; of the first step in a finite horizon."""
        array = np.ascontiguousarray(policy)
        mark = array.tobytes()
        values = self._worth.get(mark)
        if values is None:
            if len(self._worth) >= MOST_POLICIES:
                self._worth.clear()
            values = self._worth[mark] = self._values(array).tolist()
        return values

    def allows(self, policy: Any, step: int, state: int, action: int) -> bool:
        """Return whether a policy that was shown could have taken an action; `worth` has read its shape."""
        axes = np.ndim(policy)
        if axes == 1:
            return bool(policy[state] == action)
        if axes == 2 and not (self.horizon and np.asarray(policy).dtype.kind in "iu"):
            return bool(policy[state][action] > 0.0)
        return bool(policy[step][state] == action if axes == 2 else policy[step][state][action] > 0.0)

    def untrue(self, policy: Any, step: int, state: int, action: int) -> ParameterError:
        """Return the error of an agent that did not follow the policy that it showed."""
        row = policy[state] if np.ndim(policy) == 1 or not self.horizon else policy[step][state]
        text = (
            f"agents: {self.label!r} took the action {action} in state {state}, and the policy that it shows has {row} "
            "there; its regret would be that of another policy: show probabilities of actions [S, A], or no policy"
        )
        return ParameterError(text, code="wrong-policy", argument="agents", state=state, value=action, expected=row)

    def _values(self, policy: npt.NDArray[Any]) -> FloatArray:
        try:
            if self.horizon:
                return evaluate(self._mdp, policy, horizon=self.horizon).value[0]
            if policy.ndim == 1 and self.known is not None:
                actions = self.model.policy_indices(policy)
                return self.truth.values[true_values(self.known, self.work, self.truth, actions)].copy()
            return evaluate(self._mdp, policy, tol=1e-12).value
        except ParameterError as error:
            text = f"agents: the policy of {self.label!r} is none of the model: {error}"
            raise ParameterError(text, code="wrong-policy", argument="agents", value=policy) from error

    def play(self, agent: Any, env: np.random.Generator, trace: Trace) -> None:
        """Let an agent live through one replication, at the speed of Python."""
        pairs, truth, start, horizon = self._pairs, self.truth, self.truth.start, self.horizon
        terminal, shows, best = truth.course.terminal.tolist(), hasattr(agent, "policy"), self._best
        act, observe, uses = agent.act, agent.observe, truth.uses
        by_source, nowhere = uses.used.size > 0, -1 if is_compiled(agent) else None
        episodes, length = trace.rewards.shape
        state, total = start, 0.0
        t = i = 0
        try:
            for t in range(episodes):
                if trace.at[t]:
                    trace.snapshots[trace.at[t] - 1] = agent.counts
                uniforms: list[float] = np.asarray(env.random(length)).tolist()
                rewards, visited = trace.rewards[t], trace.visited[t]
                for i in range(length):
                    action = act(state)
                    if type(action) is not int:
                        action = self.index(state, action)
                    try:
                        b, cumulative, targets, outcomes, pays = pairs[state, action]
                    except KeyError:
                        b, cumulative, targets, outcomes, pays = self.pair(state, action)
                    if shows:
                        policy = agent.policy
                        if not (horizon and i):
                            total += best[state] - self.worth(policy)[state]
                        if not self.allows(policy, i, state, action):
                            raise self.untrue(policy, i, state, action)
                    if i == 0:
                        trace.followed[t] = policy if shows and np.ndim(policy) == 1 else -1
                    uniform = uniforms[i]
                    if by_source:
                        uniform = uniform_at(uses.key, b, uses.used[b])
                        uses.used[b] += 1
                    place = bisect_right(cumulative, uniform)
                    after: int | None = targets[place]
                    visited[i] = state
                    rewards[i] = reward = pays[place]
                    ended = after < 0 or terminal[after]  # type: ignore[operator]
                    if after < 0:  # type: ignore[operator]
                        after = nowhere
                    observe(state, action, after, outcomes[place] if truth.observed else nowhere, reward)
                    state = start if ended else after  # type: ignore[assignment]
                    if ended and horizon:
                        rewards[i + 1 :], visited[i + 1 :] = 0.0, -1
                        break
                if horizon:
                    state = start
                trace.regret[t] = total if shows else np.nan
        except Exception as error:
            error.add_note(f"agent {self.label!r} in episode {t + 1}, step {i + 1}, state {state}")
            raise


@cache
def compiled_loop(shows: bool, by_source: bool) -> Callable[..., tuple[int, int]]:
    """Return the loop for agents that Numba compiled, by whether they show a policy and how they are paired."""

    @numba.njit(nogil=True, error_model="numpy")
    def loop(
        agent: Any, env: np.random.Generator, known: Known, work: Work, truth: Truth, trace: Trace
    ) -> tuple[int, int]:
        entries = truth.course.entries
        uses = truth.uses
        state, total = truth.start, 0.0
        for t in range(trace.rewards.shape[0]):
            for i in range(trace.rewards.shape[1]):
                action = agent.act(state)
                if action < 0 or action >= entries.n_actions or entries.source[state * entries.n_actions + action] < 0:
                    return state, action
                if shows:
                    if agent.policy[state] != action:
                        return state, action
                    row = true_values(known, work, truth, agent.policy)
                    total += truth.best[state] - truth.values[row, state]
                    if i == 0:
                        trace.followed[t] = agent.policy
                p = state * entries.n_actions + action
                b = entries.source[p]
                begin, end = entries.begin[b], entries.begin[b + 1]
                uniform = env.random()
                if by_source:
                    uniform = uniform_at(uses.key, b, uses.used[b])
                    uses.used[b] += 1
                place = draw(truth.course.cumulative[begin:end], uniform)
                after, outcome = entries.next_state[entries.first[p] + place], entries.outcome[begin + place]
                reward = earned(entries, state, action, outcome)
                trace.visited[t, i] = state
                trace.rewards[t, i] = reward
                agent.observe(state, action, max(after, -1), outcome if truth.observed else -1, reward)
                state = truth.start if after < 0 or truth.course.terminal[after] else int(after)
            trace.regret[t] = total if shows else np.nan
        return -1, -1

    return loop


def play_compiled(stage: Stage, agent: Any, env: np.random.Generator, trace: Trace) -> None:
    """Let an agent that Numba compiled live through one replication, in compiled code."""
    shows = "policy" in type(agent)._numba_type_.class_type.struct
    if not shows:
        trace.followed[...] = -1
    state, action = compiled_loop(shows, stage.truth.uses.used.size > 0)(
        agent, env, stage.known, stage.work, stage.truth, trace
    )
    if state >= 0:
        stage.pair(state, action)
        raise stage.untrue(agent.policy, 0, state, action)
