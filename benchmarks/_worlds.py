"""Simulators with continuous states, and sensible but imperfect policies that write their logs.

Every world steps many episodes at once: ``reset(n, rng)`` returns observations [n, D], ``step(actions, rng)`` returns
observations, rewards, and which episodes ended. What an observation leaves out (``hidden``) no policy gets to see. The
first four are Gymnasium's classic control, stepped by Gymnasium itself; the others are small models of our own:

- ``glucose``: Bergman's minimal model of glucose and insulin with meals; insulin sensitivity differs by patient and is
  hidden, and so is what was eaten;
- ``pressure``: a patient in shock; a drug raises blood pressure and harms perfusion, the severity is hidden and drifts;
- ``tank``: two coupled tanks with a valve and a slow hidden leak.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

Array = np.ndarray[Any, Any]


class World:
    """A simulator of many episodes at once."""

    name: ClassVar[str]
    features: ClassVar[tuple[str, ...]]
    actions: ClassVar[tuple[str, ...]]
    steps: ClassVar[int]  # an episode is cut off after as many
    discount: ClassVar[float]
    episodes: ClassVar[int]  # of a log

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        """Begin n episodes."""
        raise NotImplementedError

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Return observations, rewards and which episodes ended."""
        raise NotImplementedError

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        """Return the actions of the policy that writes the log."""
        raise NotImplementedError


class _Gym(World):
    """Classic control of Gymnasium: one environment for each episode."""

    id: ClassVar[str]
    noise: ClassVar[float]  # share of random actions in the log

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        import gymnasium

        self._envs = [gymnasium.make(self.id).unwrapped for _ in range(n)]
        self._over = np.zeros(n, dtype=bool)
        self._x = np.array([env.reset(seed=int(rng.integers(2**31)))[0] for env in self._envs], dtype=float)
        return self.observe(self._x)

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        reward, ended = np.zeros(len(self._envs)), np.zeros(len(self._envs), dtype=bool)
        for i, env in enumerate(self._envs):
            if not self._over[i]:
                x, reward[i], ended[i], _, _ = env.step(self.torque(int(actions[i])))
                self._x[i] = x
        self._over |= ended
        return self.observe(self._x), reward, ended

    def torque(self, action: int) -> Any:
        """Return an action of ours as one of Gymnasium."""
        return action

    def observe(self, x: Array) -> Array:
        """Return the columns of the log."""
        return x.copy()

    def intended(self, x: Array) -> Array:
        """Return what the logging policy would do without its mistakes."""
        raise NotImplementedError

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        wild = rng.random(len(x)) < self.noise
        return np.where(wild, rng.integers(len(self.actions), size=len(x)), self.intended(x))


class CartPole(_Gym):
    """Balance a pole; the logging policy pushes to where the pole leans, and often at random."""

    name, id, noise, steps, discount, episodes = "cartpole", "CartPole-v1", 0.3, 200, 0.98, 200
    features: ClassVar = ("position", "velocity", "angle", "spin")
    actions: ClassVar = ("left", "right")

    def intended(self, x: Array) -> Array:
        return (x[:, 2] > 0.0).astype(int)


class MountainCar(_Gym):
    """Reach the top; the logging policy pushes with the motion, and does anything in half of the steps."""

    name, id, noise, steps, discount, episodes = "mountaincar", "MountainCar-v0", 0.5, 300, 0.99, 60
    features: ClassVar = ("position", "velocity")
    actions: ClassVar = ("left", "none", "right")

    def intended(self, x: Array) -> Array:
        return np.where(x[:, 1] < 0.0, 0, 2)


class Acrobot(_Gym):
    """Swing up two links; the logging policy pushes against the spin of the second link, with many random actions."""

    name, id, noise, steps, discount, episodes = "acrobot", "Acrobot-v1", 0.4, 300, 0.99, 60
    features: ClassVar = ("angle 1", "angle 2", "spin 1", "spin 2")
    actions: ClassVar = ("minus", "none", "plus")

    def observe(self, x: Array) -> Array:
        return np.stack([np.arctan2(x[:, 1], x[:, 0]), np.arctan2(x[:, 3], x[:, 2]), x[:, 4], x[:, 5]], axis=1)

    def intended(self, x: Array) -> Array:
        return np.where(x[:, 3] > 0.0, 2, 0)


class Pendulum(_Gym):
    """Swing up and hold a pendulum by five torques; the logging policy pumps energy and holds badly."""

    name, id, noise, steps, discount, episodes = "pendulum", "Pendulum-v1", 0.3, 150, 0.97, 100
    features: ClassVar = ("angle", "spin")
    actions: ClassVar = ("-2", "-1", "0", "1", "2")

    def torque(self, action: int) -> Any:
        return np.array([action - 2.0])

    def observe(self, x: Array) -> Array:
        return np.stack([np.arctan2(x[:, 1], x[:, 0]), x[:, 2]], axis=1)

    def intended(self, x: Array) -> Array:
        near = np.abs(x[:, 0]) < 0.6
        hold = np.clip(np.round(-6.0 * x[:, 0] - 1.0 * x[:, 1]), -2, 2)
        pump = np.where(x[:, 1] > 0.0, 1.0, -1.0)
        return (np.where(near, hold, pump) + 2).astype(int)


class Glucose(World):
    """Glucose and insulin after Bergman, every 30 minutes for two days; a bolus of insulin is the action.

    Hidden: the insulin sensitivity of the patient (threefold between patients), insulin on its way, the size of meals.
    """

    name, steps, discount, episodes = "glucose", 96, 0.97, 120
    features: ClassVar = ("glucose", "change", "hour")
    actions: ClassVar = ("none", "low", "middle", "high")
    _doses = np.array([0.0, 0.4, 0.8, 1.6])

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        self.sensitivity = np.exp(rng.uniform(np.log(0.6), np.log(1.8), n))
        self.appetite = rng.uniform(0.7, 1.3, n)
        self.g = rng.uniform(90.0, 220.0, n)
        self.effect, self.depot, self.gut = np.zeros(n), np.zeros(n), np.zeros(n)
        self.before, self.t = self.g.copy(), np.zeros(n)
        return self._observe(rng)

    def _observe(self, rng: np.random.Generator) -> Array:
        seen = self.g + rng.normal(0.0, 4.0, self.g.size)
        x = np.stack([seen, seen - self.before, (self.t * 0.5 + 6.0) % 24.0], axis=1)
        self.before = seen
        return x

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        hour = (self.t * 0.5 + 6.0) % 24.0
        for meal, size in ((7.0, 45.0), (12.5, 65.0), (19.0, 70.0)):
            eaten = (hour == meal) & (rng.random(self.g.size) < 0.9)
            self.gut += np.where(eaten, size * self.appetite * rng.uniform(0.6, 1.4, self.g.size), 0.0)
        self.depot += self._doses[actions]
        for _ in range(6):  # five minutes each
            absorbed = 0.12 * self.gut
            insulin = 0.08 * self.depot
            self.gut -= absorbed
            self.depot -= insulin
            self.effect += insulin * self.sensitivity - 0.06 * self.effect
            self.g += 2.6 * absorbed - 0.02 * self.effect * self.g + 0.012 * (130.0 - self.g)
            self.g += rng.normal(0.0, 1.5, self.g.size)
            self.g = np.maximum(self.g, 20.0)
        self.t += 1
        reward = -np.where(self.g > 180.0, (self.g - 180.0) / 100.0, np.where(self.g < 70.0, (70.0 - self.g) / 10.0, 0))
        ended = self.g < 40.0
        return self._observe(rng), reward - np.where(ended, 40.0, 0.0), ended

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        usual = np.select([x[:, 0] > 240.0, x[:, 0] > 190.0, x[:, 0] > 150.0], [3, 2, 1], 0)
        shift = rng.choice([-1, 0, 1], size=len(x), p=[0.15, 0.7, 0.15])
        wild = rng.random(len(x)) < 0.05
        return np.where(wild, rng.integers(4, size=len(x)), np.clip(usual + shift, 0, 3))


class Pressure(World):
    """A patient in shock: fluid and a drug raise the pressure, the drug harms perfusion. Hidden: a drifting severity.

    A third of the patients respond to the drug half as much.
    """

    name, steps, discount, episodes = "pressure", 48, 0.98, 200
    features: ClassVar = ("pressure", "lactate", "urine", "trend")
    actions: ClassVar = ("nothing", "fluid", "drug", "both")

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        self.severity = rng.gamma(3.0, 0.35, n)
        self.response = np.where(rng.random(n) < 1 / 3, 0.5, 1.0)
        self.load = rng.normal(0.0, 0.5, n)
        self.p = 62.0 - 6.0 * self.severity + rng.normal(0.0, 4.0, n)
        self.lactate = 2.0 + self.severity + rng.exponential(0.7, n)
        self.before = self.p.copy()
        return self._observe(rng)

    def _observe(self, rng: np.random.Generator) -> Array:
        seen = np.round(self.p + rng.normal(0.0, 2.0, self.p.size))
        urine = np.maximum(0.0, 0.04 * (self.p - 40.0) - 0.1 * self.load**2 + rng.normal(0.0, 0.15, self.p.size))
        x = np.stack([seen, np.round(self.lactate, 1), np.round(urine, 2), seen - self.before], axis=1)
        self.before = seen
        return x

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        n = self.p.size
        fluid, drug = (actions == 1) | (actions == 3), (actions == 2) | (actions == 3)
        self.severity = np.maximum(0.0, 0.97 * self.severity + rng.normal(0.0, 0.07, n) + 0.02 * (self.lactate > 4.0))
        self.load = 0.9 * self.load + 0.55 * fluid
        goal = 88.0 - 16.0 * self.severity + 7.0 * np.tanh(self.load) + 16.0 * self.response * drug
        self.p += 0.4 * (goal - self.p) + rng.normal(0.0, 2.0, n)
        bad = 0.25 * (self.p < 60.0) + 0.18 * drug * (self.p > 75.0) + 0.25 * (self.load > 2.5)
        self.lactate = np.maximum(0.5, self.lactate + bad - 0.06 * self.lactate + rng.normal(0.0, 0.08, n))
        ill = (self.p < 65.0) * 0.3 + 0.15 * np.maximum(self.lactate - 2.0, 0.0) + 0.05 * fluid + 0.1 * drug
        ended = rng.random(n) < 0.002 * np.exp(0.5 * np.maximum(self.lactate - 3.0, 0.0)) + 0.05 * (self.p < 45.0)
        return self._observe(rng), -ill - np.where(ended, 30.0, 0.0), ended

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        usual = np.select([x[:, 0] < 55.0, x[:, 0] < 65.0, x[:, 0] < 72.0], [3, 2, 1], 0)
        wild = rng.random(len(x)) < 0.25
        return np.where(wild, rng.integers(4, size=len(x)), usual)


class Tank(World):
    """Two coupled tanks: keep the second level at 10 by a pump with three speeds. Hidden: a slow leak."""

    name, steps, discount, episodes = "tank", 80, 0.97, 80
    features: ClassVar = ("level 1", "level 2", "demand")
    actions: ClassVar = ("off", "half", "full")

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        self.a, self.b = rng.uniform(2.0, 15.0, n), rng.uniform(2.0, 15.0, n)
        self.leak = rng.uniform(0.0, 0.25, n)
        self.demand = rng.choice([0.5, 1.0, 1.6], n)
        return self._observe()

    def _observe(self) -> Array:
        return np.stack([self.a, self.b, self.demand], axis=1)

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        n = self.a.size
        for _ in range(5):
            flow = 0.25 * (self.a - self.b)
            self.a += 0.35 * actions - flow - self.leak * 0.2 + rng.normal(0.0, 0.05, n)
            self.b += flow - 0.12 * self.demand * np.sqrt(np.maximum(self.b, 0.0)) + rng.normal(0.0, 0.05, n)
            self.a, self.b = np.maximum(self.a, 0.0), np.maximum(self.b, 0.0)
        self.demand = np.where(rng.random(n) < 0.05, rng.choice([0.5, 1.0, 1.6], n), self.demand)
        ended = self.a > 22.0
        reward = -0.1 * np.abs(self.b - 10.0) - 0.05 * actions - np.where(ended, 20.0, 0.0)
        return self._observe(), reward, ended

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        usual = np.select([x[:, 1] < 8.0, x[:, 1] < 11.0], [2, 1], 0)
        wild = rng.random(len(x)) < 0.25
        return np.where(wild, rng.integers(3, size=len(x)), usual)


WORLDS: dict[str, type[World]] = {
    world.name: world for world in (CartPole, MountainCar, Acrobot, Pendulum, Glucose, Pressure, Tank)
}


def play(
    world: World, policy: Any, n: int, rng: np.random.Generator, whole: bool = False
) -> tuple[Array, dict[str, Array]]:
    """Return discounted returns [n] of a policy of observations [n, D], and the log of what happened.

    Episodes of a log are cut off after ``world.steps``; ``whole`` ones go on until nothing of weight is left.
    """
    steps = max(world.steps, int(np.ceil(np.log(0.02) / np.log(world.discount)))) if whole else world.steps
    x = world.reset(n, rng)
    total, alive = np.zeros(n), np.ones(n, dtype=bool)
    rows: list[tuple[Array, ...]] = []
    for t in range(steps):
        actions = np.asarray(policy(x, rng))
        y, reward, ended = world.step(actions, rng)
        who = np.flatnonzero(alive)
        rows.append((who, np.full(who.size, t), x[who], actions[who], reward[who], ended[who]))
        total[who] += world.discount**t * reward[who]
        alive &= ~ended
        x = y
        if not alive.any():
            break
    episode, step, features, action, earned, done = (np.concatenate(part) for part in zip(*rows, strict=True))
    log: dict[str, Array] = {"episode": episode, "step": step}
    log |= {name: features[:, i] for i, name in enumerate(world.features)}
    order = np.lexsort((step, episode))
    log |= {"action": np.array(world.actions, dtype=object)[action], "reward": earned, "done": done}
    return total, {name: column[order] for name, column in log.items()}
