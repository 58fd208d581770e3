"""What a bandit with shared features decided, and with what chance."""

from __future__ import annotations

from time import time
from typing import Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, IntArray, generator, whole_number
from ..errors import ParameterError
from .decision import Arm, Record
from .score_law import score_law

__all__ = ["Chances", "IndependentScores", "JointScores", "Scores", "SharedDecision", "UniformScores", "mixed"]


_SAMPLED = 4096  # decisions that chances are sampled from
_ENTRIES = 2**20  # numbers of a sample held at a time


class Chances(NamedTuple):
    """Chances and their standard errors, which are 0 where chances are exact."""

    chance: FloatArray
    error: FloatArray


class UniformScores(NamedTuple):
    """All k items are equal: nothing tells them apart yet."""

    size: int

    def first(self, places: IntArray) -> Chances:
        """Return the chances of the items at ``places`` to come first."""
        return Chances(np.full(places.size, 1.0 / self.size), np.zeros(places.size))

    def included(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the chances of all items to be among the first ``top``."""
        return Chances(np.full(self.size, top / self.size), np.zeros(self.size))


class IndependentScores(NamedTuple):
    """Every item draws its score from its own marginal: the weighted lowest of n normals."""

    means: FloatArray  # [k]
    sds: FloatArray  # [k], all above zero
    n: int  # below zero: the weighted highest of -n normals
    weights: tuple[float, ...]

    def first(self, places: IntArray) -> Chances:
        """Return the exact chances of the items at ``places`` to come first."""
        law = score_law(self.n, self.weights, False)
        # The likeliest rivals first: the product of their cdfs is then soon known to be zero where it is.
        order = np.argsort(-(self.means + self.sds))
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        means, sds = self.means[order], self.sds[order]
        if places.size == order.size:
            return Chances(law.every_chance(means[np.newaxis], sds[np.newaxis])[0][rank[places]], np.zeros(places.size))
        return Chances(np.array([law.chance(means, sds, rank[i]) for i in places]), np.zeros(places.size))

    def included(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the chances of all items to be among the first ``top``, by conditional sampling.

        Given the scores of the others, an item is among the first if its score exceeds the ``top``-th highest of them:
        a chance that its own law gives. It is averaged over sampled scores of the others.
        """
        size, weights = self.means.size, np.array(self.weights)
        law = score_law(self.n, self.weights, False)
        # between its nodes the law is known to 1e-6, much better than samples can tell
        nodes = np.linspace(-12.0, 9.0, 8401) if self.n > 0 else np.linspace(-9.0, 12.0, 8401)
        cdf = np.array([law.cdf(x) for x in nodes])
        totals = np.zeros((2, size))
        rows = max(1, _ENTRIES // (size * abs(self.n)))
        for done in range(0, draws, rows):
            normals = rng.standard_normal((min(rows, draws - done), abs(self.n), size))
            scores = self.means + self.sds * _outer_mean(normals, weights, self.n)
            ranked = -np.partition(-scores, (top - 1, top), axis=1)[:, top - 1 : top + 1]
            hurdle = np.where(scores >= ranked[:, :1], ranked[:, 1:], ranked[:, :1])
            chance = 1.0 - np.interp((hurdle - self.means) / self.sds, nodes, cdf)
            totals += chance.sum(axis=0), (chance * chance).sum(axis=0)
        mean = totals[0] / draws
        return Chances(mean, np.sqrt(np.maximum(totals[1] / draws - mean * mean, 0.0) / draws))


class JointScores(NamedTuple):
    """One theta for all items in every draw; scores depend on each other, so chances are sampled."""

    rows: FloatArray  # [k,D] features less those of the offsets
    shifts: FloatArray  # [k] means of the offsets
    spreads: FloatArray  # [k] sds of the offsets over nu
    mean: FloatArray  # [D] of theta
    root: FloatArray  # [D,D] nu times the root of V^-1
    noise: float
    n: int  # below zero: the highest of -n draws count
    weights: tuple[float, ...]

    @property
    def normals(self) -> int:
        """The number of standard normals that the scores of one decision are made of."""
        return abs(self.n) * (self.mean.size + (self.shifts.size if self.spreads.any() else 0))

    def scores(self, normals: FloatArray) -> FloatArray:
        """Return scores [T,k]: CVaR, item by item, of what n draws of theta say; ``normals`` is [T, normals]."""
        count, dim, n = len(normals), self.mean.size, abs(self.n)
        theta = self.mean + normals[:, : n * dim].reshape(count, n, dim) @ self.root
        draws = self.shifts + theta @ self.rows.T  # [T,n,k]
        if self.spreads.any():
            draws += self.noise * self.spreads * normals[:, n * dim :].reshape(draws.shape)
        return _outer_mean(draws, np.array(self.weights), self.n)

    def first(self, places: IntArray) -> Chances:
        """Return sampled chances of the items at ``places`` to come first, see :meth:`included`."""
        sampled = self.included(1, _SAMPLED, np.random.default_rng(0))
        return Chances(sampled.chance[places], sampled.error[places])

    def included(self, top: int, draws: int, rng: np.random.Generator) -> Chances:
        """Return the chances of all items to be among the first ``top``, from sampled decisions.

        One more decision is counted in which all are equal, so that no chance is zero.
        """
        size = self.shifts.size
        hits = np.full(size, top / size)
        rows = max(1, _ENTRIES // (self.normals + abs(self.n) * size))
        for done in range(0, draws, rows):
            scores = self.scores(rng.standard_normal((min(rows, draws - done), self.normals)))
            chosen = scores.argmax(axis=1) if top == 1 else np.argpartition(-scores, top - 1, axis=1)[:, :top]
            hits += np.bincount(chosen.reshape(-1), minlength=size)
        chance = hits / (draws + 1.0)
        return Chances(chance, np.sqrt(chance * (1.0 - chance) / (draws + 1.0)))


def _outer_mean(draws: FloatArray, weights: FloatArray, n: int) -> FloatArray:
    """Return the weighted lowest of draws [T,n,k], as [T,k]; the highest if ``n`` is below zero."""
    if n < 0:
        return -_outer_mean(-draws, weights, -n)
    if weights.size == 1:
        return weights[0] * draws.min(axis=1)
    return np.einsum("tms,m->ts", np.sort(draws, axis=1)[:, : weights.size], weights)


Scores = UniformScores | IndependentScores | JointScores


class SharedDecision(Record):
    """What :meth:`SharedLinearBandit.select` decided.

    ``arm`` came first, with ``score``; ``slate`` are all chosen arms in order, with ``scores``. ``arms`` are the k
    candidates, ``features`` [k,D] what was given of them, ``mean`` and ``sd`` [k] those of the posterior of their
    expected rewards. ``context`` [D] are the features of ``arm``, ``chosen`` [top,D] those of the slate: what
    ``update`` wants with the reward.

    ``propensity`` is the chance with which ``arm`` came first, ``propensities`` [k] are those of all candidates. They
    are exact for independent draws; for joint draws they are sampled, and ``propensity_error`` is the standard error.
    The chances to be on the slate at all are :meth:`inclusion`. For the record: ``time`` in seconds since 1970 (UTC),
    ``version``, the numbers of decisions and rewards that the model had seen, and ``ids``, one for each place of the
    slate to report its reward by, which a :class:`~prudent.bandits.Journal` gives; ``id`` is the first of them.

    >>> from prudent.bandits import SharedLinearBandit
    >>> bandit = SharedLinearBandit(dim=2, noise_sd=1.0, seed=1)
    >>> decision = bandit.select([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], arms=["x", "y", "z"], top=2)
    >>> len(decision.slate), decision.arm == decision.slate[0], decision.chosen.shape
    (2, True, (2, 2))
    >>> float(decision.propensities.sum())
    1.0
    """

    __slots__ = ("_floor", "_law", "_order", "_propensity", "features", "ids", "scores")

    features: FloatArray
    scores: FloatArray
    ids: tuple[str, ...] | None

    def __init__(
        self,
        arms: tuple[Arm, ...],
        features: FloatArray,
        order: IntArray,
        scores: FloatArray,
        moments: FloatArray,
        floor: float,
        law: Scores | None,
        version: tuple[int, int],
    ) -> None:
        self.arms = arms
        self.features = features
        self.arm = arms[order[0]]
        self.scores = scores  # [top]
        self.score = float(scores[0])
        self._order = order  # [top] places of the slate
        self._moments = moments  # [2,k] posterior means and sds
        self._floor = floor
        self._law = law
        self._propensity: Chances | None = None
        self.version = version
        self.time = time()
        self.id = None
        self.ids = None

    @property
    def slate(self) -> tuple[Arm, ...]:
        """The chosen arms, best score first."""
        return tuple(self.arms[i] for i in self._order)

    @property
    def context(self) -> FloatArray:
        """The features [D] of ``arm``."""
        return self.features[self._order[0]]

    @property
    def chosen(self) -> FloatArray:
        """The features [top,D] of the slate."""
        return self.features[self._order]

    @property
    def propensity(self) -> float | None:
        """The chance with which ``arm`` came first."""
        found = self._first()
        return None if found is None else float(found.chance[0])

    @property
    def propensity_error(self) -> float | None:
        """The standard error of ``propensity``: 0 if it is exact."""
        found = self._first()
        return None if found is None else float(found.error[0])

    @property
    def propensities(self) -> FloatArray | None:
        """The chances [k] of all candidates to come first; they sum to one."""
        if self._law is None:
            return None
        return mixed(self._law.first(np.arange(len(self.arms))), self._floor, 1, len(self.arms)).chance

    def inclusion(self, draws: int = 1000, rng: Any = 0) -> Chances:
        """Return the chances [k] of the candidates to be on a slate of this length, and standard errors [k].

        They are sampled from ``draws`` decisions with ``rng``, a seed or a Generator; the bandit's own random stream is
        not touched. For independent draws only the scores of the others are sampled, which makes errors small.

        >>> from prudent.bandits import SharedLinearBandit
        >>> bandit = SharedLinearBandit(dim=1, noise_sd=1.0, seed=1)
        >>> chance, error = bandit.select([[1.0], [1.0], [1.0]], top=2).inclusion()
        >>> bool((abs(chance - 2 / 3) < 6 * error + 1e-12).all())
        True
        """
        if self._law is None:
            raise ParameterError("select was asked to leave chances out (propensity=False)")
        top, size = len(self._order), len(self.arms)
        draws = whole_number(draws, "draws")
        if top == size:
            return Chances(np.ones(size), np.zeros(size))
        return mixed(self._law.included(top, draws, generator(rng)), self._floor, top, size)

    def _first(self) -> Chances | None:
        if self._propensity is None and self._law is not None:
            self._propensity = mixed(self._law.first(self._order[:1]), self._floor, 1, len(self.arms))
        return self._propensity

    def to_dict(self) -> dict[str, Any]:
        """Return the decision as plain values for a log: candidates, slate, scores, features and propensity.

        >>> from prudent.bandits import SharedLinearBandit
        >>> decision = SharedLinearBandit(dim=1, noise_sd=1.0, seed=1).select([[1.0]], arms=["only"])
        >>> decision.to_dict()["arm"], decision.to_dict()["propensity"]
        ('only', 1.0)
        """
        return {
            "id": self.id,
            "ids": None if self.ids is None else list(self.ids),
            "time": self.time,
            "arm": self.arm,
            "slate": list(self.slate),
            "score": self.score,
            "scores": self.scores.tolist(),
            "propensity": self.propensity,
            "propensity_error": self.propensity_error,
            "context": self.context.tolist(),
            "arms": list(self.arms),
            "features": self.features.tolist(),
            "version": self._versions(),
        }

    def __repr__(self) -> str:
        rest = f", {len(self._order)} chosen" if len(self._order) > 1 else ""
        return f"SharedDecision(arm={self.arm!r}, score={self.score:.6g}, {len(self.arms)} candidates{rest})"


def mixed(found: Chances, floor: float, top: int, size: int) -> Chances:
    """Return the chances if, with the chance ``size * floor``, all slates of ``top`` items are equal."""
    kept = max(1.0 - size * floor, 0.0)
    return Chances(top * floor + kept * found.chance, kept * found.error)
