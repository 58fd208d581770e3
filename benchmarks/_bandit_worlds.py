"""Worlds with a known truth for bandits: products, thresholds, rare clicks, a trap of revenue, drift and delays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Means = Callable[[np.ndarray, int], np.ndarray]


class World:
    """Contexts, mean rewards of arms as a function of context and step, and noise.

    ``kind`` of contexts is "binary", "uniform" or "normal"; of rewards "normal", "click" (the mean is the chance of a
    1) or "revenue" (the mean is that of a purchase times a lognormal basket).
    """

    def __init__(
        self, dim: int, n_arms: int, means: Means, contexts: str = "normal", rewards: str = "normal", noise: float = 0.5
    ) -> None:
        self.dim, self.n_arms, self._means = dim, n_arms, means
        self._contexts, self._rewards, self._noise = contexts, rewards, noise

    def context(self, t: int, rng: np.random.Generator) -> np.ndarray:
        if self._contexts == "binary":
            return rng.integers(0, 2, self.dim).astype(float)
        return rng.random(self.dim) if self._contexts == "uniform" else rng.standard_normal(self.dim)

    def mean_rewards(self, t: int, context: Any) -> np.ndarray:
        return self._means(np.asarray(context), t)

    def reward(self, t: int, context: Any, arm: int, rng: np.random.Generator) -> float:
        mean, uniform, normal = self.mean_rewards(t, context)[arm], rng.random(), rng.standard_normal()
        if self._rewards == "click":
            return float(uniform < mean)
        if self._rewards == "revenue":  # an arm with more baskets has smaller ones
            chance = (0.02, 0.05, 0.10)[arm % 3]
            return float(uniform < chance) * mean / chance * float(np.exp(0.8 * normal - 0.32))
        return float(mean + self._noise * normal)


class Place(NamedTuple):
    """A world, how long it is played, and after how many decisions rewards come."""

    make: Callable[[int], World]
    steps: int
    delay: int = 0


def _xor(x: np.ndarray, t: int) -> np.ndarray:
    return np.array([float(x[0] != x[1]), float(x[0] == x[1])])


def _steps(x: np.ndarray, t: int) -> np.ndarray:
    return np.array([float(x[0] > 0.3), float(x[0] <= 0.3), 0.4])


def _rectangles(x: np.ndarray, t: int) -> np.ndarray:
    return np.array([float(x[0] > 0.5 and x[1] > 0.5), float(x[2] > 0.6), 0.4])


def _linear(run: int, arms: int, dim: int, size: float, turn: int = 0) -> Means:
    theta = size * np.random.default_rng([17, run]).standard_normal((arms, dim))
    return lambda x, t: (theta if not turn or t <= turn else -theta) @ x


def _clicks(run: int) -> Means:
    theta = 0.8 * np.random.default_rng([19, run]).standard_normal((8, 6))
    return lambda x, t: 1.0 / (1.0 + np.exp(3.9 - theta @ x))


WORLDS: dict[str, Place] = {
    "xor": Place(lambda run: World(6, 2, _xor, "binary"), 3000),
    "xor, clicks": Place(lambda run: World(5, 2, lambda x, t: 0.2 + 0.6 * _xor(x, t), "binary", "click"), 3000),
    "xor of signs": Place(lambda run: World(5, 2, lambda x, t: _xor(x > 0.0, t)), 3000),
    "threshold": Place(lambda run: World(5, 3, _steps), 3000),
    "rectangles": Place(lambda run: World(5, 3, _rectangles, "uniform"), 3000),
    "linear": Place(lambda run: World(8, 5, _linear(run, 5, 8, 0.5), noise=1.0), 3000),
    "linear, many coefficients": Place(lambda run: World(20, 10, _linear(run, 10, 20, 0.2), noise=1.0), 3000),
    "rare clicks": Place(lambda run: World(6, 8, _clicks(run), rewards="click"), 3000),
    "revenue, trap": Place(
        lambda run: World(3, 3, lambda x, t: np.array([0.9, 1.0, 1.1]) + 0.2 * np.tanh(x), rewards="revenue"), 3000
    ),
    "drift": Place(lambda run: World(5, 4, _linear(run, 4, 5, 0.5, turn=1500)), 3000),
    "delays": Place(lambda run: World(5, 4, _linear(run, 4, 5, 0.5)), 3000, delay=200),
}
