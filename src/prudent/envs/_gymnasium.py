"""The linear bandits as Gymnasium environments. Imported only when asked for: gymnasium takes a while to load."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np

from .._checks import FloatArray, whole_number
from ..errors import DataError
from .linear_bandit import LinearBanditEnv, bounded_bandit, draw_context, draw_noise, gaussian_bandit, reward_of

__all__ = ["LinearBanditGym", "register"]


class LinearBanditGym(gymnasium.Env[FloatArray, np.int64]):  # type: ignore[misc]
    """Pull an arm in a context, see the reward and the next context; an episode is cut off after ``steps`` pulls.

    Observations are contexts [D], actions arms 0..A-1; ``info["regret"]`` is what the best arm would have paid
    more on average.
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
        """Start an episode; return the first context."""
        super().reset(seed=seed)
        self._pulls = 0
        draw_context(self.np_random, self.bandit.bounded, self._context)
        return self._context.copy(), {}

    def step(self, action: Any) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Pull arm ``action``; return next context, reward, False, whether the episode is over, and the regret."""
        if not self.action_space.contains(action):
            raise DataError(f"action is {action!r}, expected an arm from 0 to {self.bandit.n_arms - 1}")
        bandit = self.bandit
        means = bandit.theta @ self._context
        noise = draw_noise(self.np_random, bandit.bounded)
        reward = reward_of(float(means[action]), noise, bandit.bounded, bandit.noise_sd)
        regret = float(means.max() - means[action])
        self._pulls += 1
        draw_context(self.np_random, bandit.bounded, self._context)
        return self._context.copy(), reward, False, self._pulls >= self.steps, {"regret": regret}


def _gaussian(steps: int = 1000, **options: Any) -> LinearBanditGym:
    return LinearBanditGym(gaussian_bandit(**options), steps)


def _bounded(steps: int = 1000, **options: Any) -> LinearBanditGym:
    return LinearBanditGym(bounded_bandit(**options), steps)


def register() -> None:
    """Make ``gymnasium.make("prudent/GaussianBandit-v0")`` and ``"prudent/BoundedBandit-v0"`` work."""
    for name, make in (("GaussianBandit", _gaussian), ("BoundedBandit", _bounded)):
        if f"prudent/{name}-v0" not in gymnasium.registry:
            gymnasium.register(id=f"prudent/{name}-v0", entry_point=make)
