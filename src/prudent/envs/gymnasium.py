"""Adapters to and from Gymnasium: problems of prudent as environments, environments as models.

``MAKERS``, at the end, lists what is registered. An environment that is added there is under the conformance tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import gymnasium
import numpy as np
import numpy.typing as npt

from .._support.checks import FloatArray, finite_array, one_of, whole_number
from ..errors import DataError, ParameterError
from ..models.builders import discrete_environment
from ..models.transitions import cumulative_rows
from ..models.uncertain import UncertainMDP
from ..types import ArrayLike
from .frozen_lake import ACTIONS, frozen_lake
from .inventory import inventory
from .linear_bandit import LinearBanditEnv, bounded_bandit, draw_context, draw_noise, gaussian_bandit, reward_of
from .problem import Problem
from .random_model import random_model
from .river_swim import river_swim

Image = npt.NDArray[np.uint8]

# pictures: cells of this many pixels, in the colour of their letter, with lines between them
_CELL = 32
_COLOURS = {"F": (224, 238, 248), "S": (200, 226, 200), "H": (70, 100, 140), "G": (250, 214, 110)}
_PLAIN = (235, 235, 235)
_LINE = (255, 255, 255)
_PLAYER = (200, 50, 50)


# -- problems as environments ------------------------------------------------------------------------------


def _contains(space: gymnasium.spaces.Discrete, action: Any) -> bool:
    try:
        return bool(space.contains(action))
    except OverflowError:  # no number of 64 bits
        return False


class TabularEnv(gymnasium.Env):  # type: ignore[misc]
    """A `Problem` as a Gymnasium environment: observations are state indices, actions action indices.

    A step draws one uniform number and inverts the distribution of the source, as the simulator does. ``info`` has
    the ``outcome`` if it is observed, and ``action_mask``, the admissible actions. Without terminal states an episode
    never ends: wrap it in a ``TimeLimit``.

    Parameters
    ----------
    problem : Problem
        Model and true probabilities.
    render_mode : {"ansi", "rgb_array"}, optional
        What `render` returns.

    Attributes
    ----------
    problem : Problem
        Model and true probabilities.

    Raises
    ------
    ParameterError
        If `render_mode` is unknown.

    Examples
    --------
    >>> env = TabularEnv(frozen_lake(p_h=0.1), render_mode="ansi")
    >>> state, info = env.reset(seed=1)
    >>> print(env.render())
    [S]F F F
     F H F H
     F F F H
     H F F G
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}

    def __init__(self, problem: Problem, render_mode: str | None = None) -> None:
        if not isinstance(problem, Problem):
            problem = Problem(*problem)
        self.problem = problem
        self.render_mode = one_of(render_mode, "render_mode", (None, *self.metadata["render_modes"]))
        self.observation_space = gymnasium.spaces.Discrete(problem.model.n_states)
        self.action_space = gymnasium.spaces.Discrete(problem.model.n_actions)
        self._cumulative = cumulative_rows(problem.theta)
        self._state = problem.start
        self._last: int | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """Start an episode.

        Parameters
        ----------
        seed : int, optional
            Seed of the random stream.
        options : dict, optional
            ``{"state": 3}`` starts in another state than that of the problem.

        Returns
        -------
        observation : int
            Index of the first state.
        info : dict
            The mask of admissible actions.

        Raises
        ------
        ParameterError
            If there is no such state.
        """
        super().reset(seed=seed)
        state = (options or {}).get("state", self.problem.start)
        if state not in self.observation_space:
            text = f"options['state'] is {state!r}, expected 0 to {self.observation_space.n - 1}"
            raise ParameterError(text, code="unknown-state", argument="options", value=state)
        self._state, self._last = int(state), None
        return self._state, self._info()

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action.

        Parameters
        ----------
        action : int
            Index of an admissible action.

        Returns
        -------
        tuple
            Observation, reward, terminated, truncated (always False) and info.

        Raises
        ------
        ParameterError
            If the action is not admissible. Nothing is changed then.
        """
        model = self.problem.model
        if not _contains(self.action_space, action) or not model.admissible[self._state, int(action)]:
            text = f"action is {action!r}, expected an admissible action of state {self._state}"
            raise ParameterError(text, code="inadmissible-action", argument="action", value=action, state=self._state)
        s, a = self._state, int(action)
        row = self._cumulative[model.source[s, a]]
        outcome = int(np.searchsorted(row, self.np_random.random(), side="right"))
        target, self._last = int(model.next_state[s, a, outcome]), a
        ended = target < 0  # there is no next state
        self._state = s if ended else target
        info = self._info() | ({"ended": True} if ended else {})
        if self.problem.observed:
            info["outcome"] = outcome
        over = ended or bool(model.terminal[target])
        return self._state, float(model.reward[s, a, outcome]), over, False, info

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.problem.model.admissible[self._state].astype(np.int8)}

    def render(self) -> Any:
        """Return a picture of the state.

        Returns
        -------
        str or ndarray of uint8 or None
            Text (``"ansi"``), image [height, width, 3] (``"rgb_array"``), or None without a render mode.
        """
        if self.render_mode == "ansi":
            return self._text()
        return self._image() if self.render_mode == "rgb_array" else None

    def _text(self) -> str:
        model, layout = self.problem.model, self.problem.layout
        if layout is None:
            return f"state {model.states[self._state]} ({self._state + 1} of {model.n_states})"
        width = len(layout[0])
        lines = []
        for i, row in enumerate(layout):
            marked = [f"[{c}]" if i * width + j == self._state else f" {c} " for j, c in enumerate(row)]
            lines.append("".join(marked).replace("  ", " ").replace("] ", "]").replace(" [", "[").rstrip())
        if self._last is not None:
            plain = model.action_labels.numbered and model.n_actions == len(ACTIONS)
            lines.append(f"({(ACTIONS if plain else model.actions)[self._last]})")
        return "\n".join(lines)

    def _image(self) -> Image:
        """Return the map, or without one all states in rows of up to 16, with the player on the state."""
        layout, n = self.problem.layout, self.problem.model.n_states
        width = min(n, 16) if layout is None else len(layout[0])
        cells = " " * n if layout is None else "".join(layout)
        image = np.full(((n + width - 1) // width * _CELL, width * _CELL, 3), _LINE, dtype=np.uint8)
        for s in range(n):
            i, j = (_CELL * index for index in divmod(s, width))
            image[i + 1 : i + _CELL - 1, j + 1 : j + _CELL - 1] = _COLOURS.get(cells[s], _PLAIN)
        y, x = (_CELL * index + _CELL / 2 - 0.5 for index in divmod(self._state, width))
        down, across = np.ogrid[: image.shape[0], : image.shape[1]]
        image[(down - y) ** 2 + (across - x) ** 2 <= (0.3 * _CELL) ** 2] = _PLAYER
        return image


class LinearBanditGym(gymnasium.Env[FloatArray, np.int64]):  # type: ignore[misc]
    """A `LinearBanditEnv` as a Gymnasium environment.

    Observations are contexts [D], actions arms 0..A-1; ``info["regret"]`` is the difference of the mean rewards of the
    best arm and the chosen one.

    Parameters
    ----------
    bandit : LinearBanditEnv
        The linear bandit.
    steps : int, default=1000
        Number of pulls after which an episode is truncated.

    Attributes
    ----------
    bandit : LinearBanditEnv
        The linear bandit.
    steps : int
        Pulls in an episode.

    Examples
    --------
    >>> env = LinearBanditGym(gaussian_bandit(), steps=2)
    >>> context, info = env.reset(seed=1)
    >>> context, reward, terminated, truncated, info = env.step(3)
    >>> context.shape, truncated
    ((3,), False)
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(self, bandit: LinearBanditEnv, steps: int = 1000) -> None:
        side = 1.0 / math.sqrt(bandit.dim) if bandit.bounded else 1.0
        self.bandit = bandit
        self.steps = whole_number(steps, "steps")
        self.observation_space = gymnasium.spaces.Box(0.0, side, (bandit.dim,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(bandit.n_arms)
        self._context = np.zeros(bandit.dim)
        self._pulls = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start an episode.

        Parameters
        ----------
        seed : int, optional
            Seed of the random stream.
        options : dict, optional
            Not used.

        Returns
        -------
        observation : ndarray of float
            First context [D].
        info : dict
            Empty.
        """
        super().reset(seed=seed)
        self._pulls = 0
        draw_context(self.np_random, self.bandit.bounded, self._context)
        return self._context.copy(), {}

    def step(self, action: Any) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Pull an arm.

        Parameters
        ----------
        action : int
            The arm.

        Returns
        -------
        tuple
            Next context, reward, terminated (always False), truncated, and info with the regret.

        Raises
        ------
        ParameterError
            If there is no such arm.
        """
        if not _contains(self.action_space, action):
            text = f"action is {action!r}, expected an arm from 0 to {self.bandit.n_arms - 1}"
            raise ParameterError(text, code="unknown-arm", argument="action", value=action)
        bandit = self.bandit
        means = bandit.theta @ self._context
        noise = draw_noise(self.np_random, bandit.bounded)
        reward = reward_of(float(means[action]), noise, bandit.bounded, bandit.noise_sd)
        regret = float(means.max() - means[action])
        self._pulls += 1
        draw_context(self.np_random, bandit.bounded, self._context)
        return self._context.copy(), reward, False, self._pulls >= self.steps, {"regret": regret}


# -- environments as models --------------------------------------------------------------------------------


class GymnasiumModel:
    """Direct model of a Gymnasium environment of which only the spaces and the possible rewards are known.

    Every pair of state and action has its own source, whose outcome is a next state together with a reward. One more
    state, the last, stands for the end: it follows a step that terminates, and earns nothing.

    Parameters
    ----------
    env : gymnasium.Env or str
        Environment with Discrete spaces, or its id.
    discount : float
        Discount factor in [0, 1).
    rewards : array_like, default=(0, 1)
        Values that the reward can take.

    Attributes
    ----------
    env : gymnasium.Env
        The environment.
    model : UncertainMDP
        The model, with one state more than the environment.
    rewards : ndarray of float
        Values of the reward, rising.
    end : int
        Index of the last state, the end.

    Raises
    ------
    ParameterError
        If there are no rewards, or a space is not Discrete.

    Examples
    --------
    >>> learned = GymnasiumModel("FrozenLake-v1", discount=0.95, rewards=(0, 1))
    >>> learned.model
    UncertainMDP(17 states, 4 actions, 68 sources, up to 34 outcomes, discount 0.95)
    """

    def __init__(self, env: gymnasium.Env | str, discount: float, rewards: ArrayLike = (0.0, 1.0)) -> None:
        self.env = world = discrete_environment(env)
        self.rewards = np.unique(finite_array(rewards, "rewards", ndim=1, error=ParameterError))
        if not self.rewards.size:
            raise ParameterError("rewards must have at least one value, got none", code="empty", argument="rewards")
        self._first = (int(world.observation_space.start), int(world.action_space.start))
        n_states, n_actions = int(world.observation_space.n), int(world.action_space.n)
        self.end = n_states
        everywhere = np.tile(np.arange(n_states + 1), self.rewards.size)  # outcome: reward * (S + 1) + next state
        next_state = np.broadcast_to(everywhere, (n_states + 1, n_actions, everywhere.size)).copy()
        next_state[self.end] = -1
        next_state[self.end, :, 0] = self.end
        reward = np.broadcast_to(np.repeat(self.rewards, n_states + 1), next_state.shape).copy()
        reward[self.end] = 0.0
        source = np.arange((n_states + 1) * n_actions).reshape(n_states + 1, n_actions)
        self.model = UncertainMDP(source, next_state, reward, discount)

    def state(self, observation: int) -> int:
        """Return the index of an observation.

        Parameters
        ----------
        observation : int
            Observation of the environment.

        Returns
        -------
        int
            Index of the state.
        """
        return int(observation) - self._first[0]

    def action(self, index: int) -> int:
        """Return an action of the environment.

        Parameters
        ----------
        index : int
            Index of the action in the model.

        Returns
        -------
        int
            The action.
        """
        return index + self._first[1]

    def transition(self, observation: int, reward: float, terminated: bool) -> tuple[int, int]:
        """Return next state and outcome of a step.

        Parameters
        ----------
        observation : int
            Observation after the step.
        reward : float
            Reward of the step.
        terminated : bool
            Whether the step terminated the episode.

        Returns
        -------
        next_state : int
            Index of the next state.
        outcome : int
            Index of the outcome.

        Raises
        ------
        DataError
            If the reward is none of the given values.
        """
        level = int(np.searchsorted(self.rewards, float(reward)))
        if level == self.rewards.size or self.rewards[level] != float(reward):
            listed = ", ".join(f"{value:g}" for value in self.rewards)
            text = f"the reward is {float(reward)!r}, expected one of the rewards {listed}"
            raise DataError(text, code="unknown-reward", argument="reward", value=float(reward))
        target = self.end if terminated else self.state(observation)
        return target, level * (self.end + 1) + target


# -- what is registered ------------------------------------------------------------------------------------


def _tabular(make: Callable[..., Problem], render_mode: str | None = None, **options: Any) -> TabularEnv:
    """Return a problem as an environment; ``make`` takes the options."""
    return TabularEnv(make(**options), render_mode)


def _bandit(make: Callable[..., LinearBanditEnv], steps: int = 1000, **options: Any) -> LinearBanditGym:
    """Return a linear bandit as an environment; ``make`` takes the options."""
    return LinearBanditGym(make(**options), steps)


frozen_lake_env = partial(_tabular, frozen_lake)
"""Return `prudent.envs.frozen_lake` as an environment; it takes the same options, as do those below."""
inventory_env = partial(_tabular, inventory)
random_model_env = partial(_tabular, random_model, rng=0)  # the same model for the same rng
river_swim_env = partial(_tabular, river_swim)
gaussian_bandit_env = partial(_bandit, gaussian_bandit)
bounded_bandit_env = partial(_bandit, bounded_bandit)

MAKERS = {
    "prudent/FrozenLake-v0": "frozen_lake_env",
    "prudent/Inventory-v0": "inventory_env",
    "prudent/RandomModel-v0": "random_model_env",
    "prudent/RiverSwim-v0": "river_swim_env",
    "prudent/GaussianBandit-v0": "gaussian_bandit_env",
    "prudent/BoundedBandit-v0": "bounded_bandit_env",
}
"""Names of the makers above, by the id that they are registered with."""


def register() -> None:
    """Register the environments of prudent with Gymnasium; a second call does nothing.

    Examples
    --------
    >>> register()
    >>> gymnasium.make("prudent/FrozenLake-v0", p_h=0.2).observation_space
    Discrete(16)
    """
    for name, maker in MAKERS.items():
        if name not in gymnasium.registry:
            gymnasium.register(id=name, entry_point=f"{__name__}:{maker}")


register()
