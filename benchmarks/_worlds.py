"""Simulators with continuous states, and sensible but imperfect policies that write their logs.

Every world steps many episodes at once: ``reset(n, rng)`` returns observations [n, D], ``step(actions, rng)`` returns
observations, rewards, and which episodes ended. What an observation leaves out (``hidden``) no policy gets to see. The
first four are Gymnasium's classic control, stepped by Gymnasium itself; the others are small models of our own:

- ``glucose``: Bergman's minimal model of glucose and insulin with meals; insulin sensitivity differs by patient and is
  hidden, and so is what was eaten;
- ``pressure``: a patient in shock; a drug raises blood pressure and harms perfusion, the severity is hidden and drifts;
- ``tank``: two coupled tanks with a valve and a slow hidden leak;
- ``fishery``: a stock that is surveyed with errors and collapses where too much is caught; its growth is hidden;
- ``ward``: an infection in a hospital; what is seen are positive tests, how contagious it is differs and is hidden.

``simglucose`` has the equations and the thirty virtual patients of the package of that name (Xie, 2018; the UVa/Padova
model of type 1 diabetes), which are stepped here for many patients at once. It is there if the package is: it asks for
an old Gymnasium, which its equations do not need, hence ``pip install gym && pip install --no-deps simglucose``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

Array = np.ndarray[Any, Any]


class World(ABC):
    """A simulator of many episodes at once."""

    name: ClassVar[str]
    features: ClassVar[tuple[str, ...]]
    actions: ClassVar[tuple[str, ...]]
    steps: ClassVar[int]  # an episode is cut off after as many
    discount: ClassVar[float]
    episodes: ClassVar[int]  # of a log
    unit: ClassVar[tuple[str, float]]  # main column, and what a hasty analyst rounds it to

    @abstractmethod
    def reset(self, n: int, rng: np.random.Generator) -> Array:
        """Begin n episodes."""

    @abstractmethod
    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Return observations, rewards and which episodes ended."""

    @abstractmethod
    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        """Return the actions of the policy that writes the log."""


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

    @abstractmethod
    def intended(self, x: Array) -> Array:
        """Return what the logging policy would do without its mistakes."""

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        wild = rng.random(len(x)) < self.noise
        return np.where(wild, rng.integers(len(self.actions), size=len(x)), self.intended(x))


class CartPole(_Gym):
    """Balance a pole; the logging policy pushes to where the pole leans, and often at random."""

    name, id, noise, steps, discount, episodes = "cartpole", "CartPole-v1", 0.3, 200, 0.98, 200
    features: ClassVar = ("position", "velocity", "angle", "spin")
    unit: ClassVar = ("angle", 0.01)
    actions: ClassVar = ("left", "right")

    def intended(self, x: Array) -> Array:
        return (x[:, 2] > 0.0).astype(int)


class MountainCar(_Gym):
    """Reach the top; the logging policy pushes with the motion, and does anything in half of the steps."""

    name, id, noise, steps, discount, episodes = "mountaincar", "MountainCar-v0", 0.5, 300, 0.99, 60
    features: ClassVar = ("position", "velocity")
    unit: ClassVar = ("position", 0.01)
    actions: ClassVar = ("left", "none", "right")

    def intended(self, x: Array) -> Array:
        return np.where(x[:, 1] < 0.0, 0, 2)


class Acrobot(_Gym):
    """Swing up two links; the logging policy pushes against the spin of the second link, with many random actions."""

    name, id, noise, steps, discount, episodes = "acrobot", "Acrobot-v1", 0.4, 300, 0.99, 60
    features: ClassVar = ("angle 1", "angle 2", "spin 1", "spin 2")
    unit: ClassVar = ("angle 1", 0.05)
    actions: ClassVar = ("minus", "none", "plus")

    def observe(self, x: Array) -> Array:
        return np.stack([np.arctan2(x[:, 1], x[:, 0]), np.arctan2(x[:, 3], x[:, 2]), x[:, 4], x[:, 5]], axis=1)

    def intended(self, x: Array) -> Array:
        return np.where(x[:, 3] > 0.0, 2, 0)


class Pendulum(_Gym):
    """Swing up and hold a pendulum by five torques; the logging policy pumps energy and holds badly."""

    name, id, noise, steps, discount, episodes = "pendulum", "Pendulum-v1", 0.3, 150, 0.97, 100
    features: ClassVar = ("angle", "spin")
    unit: ClassVar = ("angle", 0.05)
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
    unit: ClassVar = ("glucose", 1.0)
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
    unit: ClassVar = ("pressure", 1.0)
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
    unit: ClassVar = ("level 2", 0.1)
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


class Fishery(World):
    """A fish stock, year by year: the action is the effort. Below a tenth of its capacity it collapses.

    Hidden: the growth of the stock, which differs between fisheries and drifts, and the error of the survey.
    """

    name, steps, discount, episodes = "fishery", 40, 0.95, 80
    features: ClassVar = ("stock", "change", "price")
    unit: ClassVar = ("stock", 1.0)
    actions: ClassVar = ("none", "low", "middle", "high")
    _effort = np.array([0.0, 0.12, 0.25, 0.5])

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        self.growth = rng.uniform(0.3, 0.75, n)
        self.stock = rng.uniform(250.0, 800.0, n)
        self.price = rng.uniform(0.7, 1.3, n)
        self.before = self.stock * np.exp(rng.normal(0.0, 0.12, n))
        return self._observe(rng)

    def _observe(self, rng: np.random.Generator) -> Array:
        seen = self.stock * np.exp(rng.normal(0.0, 0.12, self.stock.size))
        x = np.stack([seen, seen - self.before, self.price], axis=1)
        self.before = seen
        return x

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        n = self.stock.size
        caught = self.stock * self._effort[actions]
        left = self.stock - caught
        self.growth = np.clip(self.growth + rng.normal(0.0, 0.02, n), 0.15, 0.9)
        crowded = (1.0 - left / 1000.0) * (left / 1000.0 - 0.08) / 0.35  # few fish find no mates
        self.stock = np.maximum(left * np.exp(self.growth * crowded + rng.normal(0.0, 0.15, n)), 1.0)
        reward = 0.01 * caught * self.price - 0.8 * self._effort[actions]
        self.price = np.clip(self.price + rng.normal(0.0, 0.05, n), 0.5, 1.5)
        ended = self.stock < 100.0
        return self._observe(rng), reward - np.where(ended, 15.0, 0.0), ended

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        usual = np.select([x[:, 0] < 400.0, x[:, 0] < 800.0], [0, 1], 2)
        wild = rng.random(len(x)) < 0.15
        return np.where(wild, rng.integers(4, size=len(x)), usual)


class Ward(World):
    """An infection in a hospital, day by day: do nothing, test and isolate, or close the ward.

    Hidden: how contagious it is, who carries it without a test, and how many are immune. An outbreak of more than 60
    carriers ends the episode at a high price.
    """

    name, steps, discount, episodes = "ward", 60, 0.97, 100
    features: ClassVar = ("positive", "change", "staff out")
    unit: ClassVar = ("positive", 1.0)
    actions: ClassVar = ("nothing", "isolate", "close")

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        self.spread = rng.uniform(0.16, 0.34, n)
        self.carriers = rng.gamma(2.0, 2.0, n)
        self.staff = np.zeros(n)
        self.before = np.zeros(n)
        return self._observe(rng)

    def _observe(self, rng: np.random.Generator) -> Array:
        seen = rng.poisson(0.6 * self.carriers).astype(float)
        x = np.stack([seen, seen - self.before, np.round(self.staff, 1)], axis=1)
        self.before = seen
        return x

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        less = np.array([1.0, 0.55, 0.15])[actions]
        rate = self.spread * less * self.carriers * (1.0 - self.carriers / 150.0) + 0.15
        self.carriers = np.maximum(self.carriers + rng.poisson(rate) - rng.poisson(0.17 * self.carriers), 0.0)
        self.staff = 0.9 * self.staff + 0.1 * (rng.poisson(0.1 * self.carriers) + 0.5 * (actions == 1))
        ended = self.carriers > 60.0
        reward = -0.05 * self.carriers - np.array([0.0, 0.35, 2.0])[actions] - 0.1 * self.staff
        return self._observe(rng), reward - np.where(ended, 40.0, 0.0), ended

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        usual = np.select([x[:, 0] < 3.0, x[:, 0] < 16.0], [0, 1], 2)
        wild = rng.random(len(x)) < 0.2
        return np.where(wild, rng.integers(3, size=len(x)), usual)


class SimGlucose(World):
    """Patients of the package ``simglucose``, every half hour for a day: the action is the rate of the pump.

    Hidden: which of the thirty patients it is, meals, and twelve of the thirteen variables of the model.
    """

    name, steps, discount, episodes = "simglucose", 48, 0.94, 80
    features: ClassVar = ("glucose", "change", "hour")
    unit: ClassVar = ("glucose", 1.0)
    actions: ClassVar = ("off", "basal", "double", "five times")
    _rates = np.array([0.0, 1.0, 2.0, 5.0])

    @staticmethod
    @cache
    def patients() -> tuple[Any, Any, list[Any]]:
        """Return the equations, the class of their input, and the parameters of the patients."""
        import pandas as pd

        module = import_module("simglucose.patient.t1dpatient")
        table = pd.read_csv(module.PATIENT_PARA_FILE)
        who = [
            SimpleNamespace(**row, start=table.iloc[i, 2:15].to_numpy(float)) for i, row in enumerate(_records(table))
        ]
        return module.T1DPatient.model, module.Action, who

    def reset(self, n: int, rng: np.random.Generator) -> Array:
        known = self.patients()[2]
        self.who = [known[i] for i in rng.integers(len(known), size=n)]
        self.x = np.array([patient.start for patient in self.who])
        self.x[:, [3, 4, 12]] *= rng.uniform(0.8, 1.5, n)[:, None]
        self.stomach, self.eaten, self.over = np.zeros(n), np.zeros(n), np.zeros(n, dtype=bool)
        self.volume = np.array([patient.Vg for patient in self.who])
        self.t = 0
        self.before = self.x[:, 12] / self.volume
        return self._observe(rng)

    def _observe(self, rng: np.random.Generator) -> Array:
        seen = self.x[:, 12] / self.volume + rng.normal(0.0, 4.0, len(self.x))
        x = np.stack([seen, seen - self.before, np.full(len(self.x), (self.t * 0.5 + 6.0) % 24.0)], axis=1)
        self.before = seen
        return x

    def step(self, actions: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        model, given, _ = self.patients()
        n, hour = len(self.x), (self.t * 0.5 + 6.0) % 24.0
        usual = {7.0: 0.6, 12.5: 0.9, 19.0: 0.9}.get(hour, 0.0)  # grams of carbohydrates per kg
        meal = usual * rng.uniform(0.5, 1.5, n) * (rng.random(n) < 0.9)
        for i in np.flatnonzero(~self.over):
            patient, x = self.who[i], self.x[i]
            grams = meal[i] * patient.BW
            if grams > 0.0:
                self.stomach[i], self.eaten[i] = x[0] + x[1], grams
            basal = patient.u2ss * patient.BW / 6000.0
            taken = given(CHO=grams / 30.0, insulin=basal * self._rates[actions[i]])
            rest = patient, self.stomach[i], self.eaten[i]
            for _ in range(10):  # Runge and Kutta's method, three minutes a step
                k1 = model(0.0, x, taken, *rest)
                k2 = model(0.0, x + 1.5 * k1, taken, *rest)
                k3 = model(0.0, x + 1.5 * k2, taken, *rest)
                k4 = model(0.0, x + 3.0 * k3, taken, *rest)
                x = x + 0.5 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            self.x[i] = x
        self.t += 1
        g = self.x[:, 3] / self.volume
        ended = (g < 40.0) & ~self.over
        self.over |= ended
        reward = -np.where(g > 180.0, (g - 180.0) / 100.0, np.where(g < 70.0, (70.0 - g) / 10.0, 0.0))
        return self._observe(rng), reward - np.where(ended, 40.0, 0.0), ended

    def logging(self, x: Array, rng: np.random.Generator) -> Array:
        usual = np.select([x[:, 0] > 300.0, x[:, 0] > 190.0, x[:, 0] > 110.0], [3, 2, 1], 0)
        shift = rng.choice([-1, 0, 1], size=len(x), p=[0.1, 0.85, 0.05])
        wild = rng.random(len(x)) < 0.02
        return np.where(wild, rng.integers(4, size=len(x)), np.clip(usual + shift, 0, 3))


def _records(table: Any) -> list[dict[str, Any]]:
    """Return the rows of a table whose columns are called like attributes."""
    names = [name for name in table.columns if str(name).isidentifier()]
    return [dict(zip(names, row, strict=True)) for row in table[names].itertuples(index=False, name=None)]


_ALL = (CartPole, MountainCar, Acrobot, Pendulum, Glucose, Pressure, Tank, Fishery, Ward)
WORLDS: dict[str, type[World]] = {world.name: world for world in _ALL}
if find_spec("simglucose"):
    WORLDS[SimGlucose.name] = SimGlucose


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
