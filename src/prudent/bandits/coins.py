"""Arms without context that pay 0 or 1: the bandit of clicks with no features, without approximation.

Before data the chance of every arm is uniform on [0, 1]; after s ones and f zeros it is Beta(1 + s, 1 + f). The sums of
normal rewards hold both numbers: of the constant feature and the reward they are s + f and s. Scores are log odds, and
their law is told in :mod:`~prudent.bandits.beta_scores`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._support.checks import FloatArray, IntArray
from .._support.state import Arrays
from ..errors import ParameterError
from ..posteriors.linear import require_sums
from ..posteriors.scalar import BetaPosterior
from .batch import learn_rows
from .beta_scores import BetaScores, beta_scores
from .clicks import Clicks
from .decision import Arm, BatchDecision, Decision, Law
from .settings import BanditSettings
from .step import COUNT, HIGH, LOW, PULLS, TRIES, WEIGHT, Arms, Uniforms, forced_place, lacking

__all__ = ["CoinBatch", "CoinDecision", "Coins"]


class CoinDecision(Decision):
    """A decision between arms without context; see :class:`Decision`."""

    __slots__ = ("_scores",)

    def __init__(self, scores: BetaScores, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._scores = scores

    @property
    def propensity(self) -> float | None:
        """The chance with which ``arm`` was chosen."""
        chances = self.propensities
        return None if chances is None else float(chances[self._place])

    @property
    def propensities(self) -> FloatArray | None:
        """The chances of all eligible arms, [k]; they sum to one."""
        return None if self._law is None else _mixed(self._scores, self._law[0], np.isnan(self._moments[2]))


class CoinBatch(BatchDecision):
    """Decisions between arms without context, all from the same posterior; see :class:`BatchDecision`."""

    def __init__(
        self,
        scores: BetaScores,
        names: tuple[Arm, ...],
        chosen: tuple[IntArray, FloatArray],
        moments: FloatArray,
        among: FloatArray,
        law: Law | None,
    ) -> None:
        self.arms = names
        self.arm = _array(names)[chosen[0]]
        self._places, self._drawn = chosen
        self._scores, self._moments, self._among, self._law = scores, moments, among, law

    @property
    def score(self) -> FloatArray:
        """The scores of ``arm``, [T]."""
        return self._drawn

    @property
    def mean(self) -> FloatArray:
        """The posterior means of the log odds of every eligible arm, [T,k]."""
        return np.tile(self._moments[0], (len(self.arm), 1))

    @property
    def sd(self) -> FloatArray:
        """The posterior standard deviations of the log odds of every eligible arm, [T,k]."""
        return np.tile(self._moments[1], (len(self.arm), 1))

    @property
    def propensity(self) -> FloatArray | None:
        """The chances with which ``arm`` was chosen, [T]."""
        chances = self.propensities
        return None if chances is None else np.take_along_axis(chances, self._places[:, np.newaxis], axis=1)[:, 0]

    @property
    def propensities(self) -> FloatArray | None:
        """The chances of all eligible arms, [T,k]; they sum to one."""
        if self._law is None:
            return None
        free = _mixed(self._scores, self._law[0], np.zeros(len(self.arms), dtype=bool))
        chances = np.tile(free, (len(self.arm), 1))
        count = len(self._among)
        chances[:count] = self._among / np.maximum(self._among.sum(axis=1, keepdims=True), 1)
        return chances


class Coins(Clicks):
    """How clicks of arms without context are learned, and chosen by."""

    def __init__(self) -> None:
        super().__init__("bernoulli", learned=False, intercept=True)

    @staticmethod
    def check(settings: BanditSettings) -> None:
        """Raise if settings are not for arms without context."""
        for name in ("draws", "sampling_sd", "delta", "exploration"):
            if getattr(settings, name) not in (None, 1.0):
                raise ParameterError(f"{name} is not for clicks without context, whose law is known: leave it out")

    def counts(self, arms: Arms, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters of the Beta laws, [k] each."""
        gram = arms.gram[places].sum(axis=1)
        return 1.0 + gram[:, 0, 1], 1.0 + np.maximum(gram[:, 0, 0] - gram[:, 0, 1], 0.0)

    def moments(self, arms: Arms, places: IntArray) -> FloatArray:
        """Return means and sds [2,k] of the log odds."""
        from scipy.special import digamma, polygamma

        a, b = self.counts(arms, places)
        return np.stack([digamma(a) - digamma(b), np.sqrt(polygamma(1, a) + polygamma(1, b))])

    def chances_of_one(self, arms: Arms, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return means and sds [k] of the chance of a 1."""
        a, b = self.counts(arms, places)
        mean = a / (a + b)
        return mean, np.sqrt(mean * (1.0 - mean) / (a + b + 1.0))

    def scores(self, arms: Arms, places: IntArray, alpha: float) -> BetaScores:
        """Return the law of the scores."""
        return beta_scores(*self.counts(arms, places), alpha)

    def shortfall(self, arms: Arms, places: IntArray, alpha: float) -> FloatArray:
        """Return CVaR_alpha of the log odds, [k]: an integral of quantiles, in log odds of their level."""
        if alpha == 0.0:
            return self.moments(arms, places)[0]
        successes, failures = self.counts(arms, places)
        if alpha < 0.0:  # minus that of the negated log odds, which are those of a failure
            return -self._shortfall(failures, successes, -alpha)
        return self._shortfall(successes, failures, alpha)

    def _shortfall(self, successes: FloatArray, failures: FloatArray, alpha: float) -> FloatArray:
        from scipy.special import expit

        law = beta_scores(successes, failures, 0.0)
        t = np.arange(-36.0, 36.0, 0.05)  # a trapezoid rule: u = (1 - alpha) expit(t)
        mass = expit(t) * expit(-t) * 0.05
        values = np.array([law.scores(np.full(len(successes), (1.0 - alpha) * u)) for u in expit(t)])
        return np.asarray(mass @ values)

    def chances(self, arms: Arms, places: IntArray, settings: BanditSettings) -> FloatArray:
        """Return the chances [k] of the next decision."""
        among = arms.marks[places, TRIES] < settings.first_pulls
        return _mixed(self.scores(arms, places, _level(settings)), settings.min_propensity, among)

    def decide(
        self, arms: Arms, places: IntArray, settings: BanditSettings, rows: int, stream: Uniforms
    ) -> tuple[BetaScores, tuple[IntArray, FloatArray], FloatArray]:
        """Take decisions: return the law of scores, chosen places and their scores [T], and who lacked first pulls."""
        law = self.scores(arms, places, _level(settings))
        k, first, floor = len(places), settings.first_pulls, settings.min_propensity
        mixed = first > 0 or floor > 0.0
        stream.reserve(rows * (k + mixed))
        block = stream.block[stream.next : stream.next + rows * (k + mixed)]
        stream.next += block.size
        own, drawn = block[: rows * mixed], np.maximum(block[rows * mixed :].reshape(rows, k), 2.0**-54)
        scores = law.scores(drawn)
        chosen = scores.argmax(axis=1)
        among = []
        for t in range(rows if mixed else 0):
            if lacking(arms.marks, first, places) > 0:
                among.append(arms.marks[places, TRIES] < first)
            place = forced_place(arms.marks, first, floor, True, places, float(own[t]))
            chosen[t] = place if place >= 0 else chosen[t]
            arms.marks[places[chosen[t]], TRIES] += 1
        if not mixed:
            arms.marks[:, TRIES] += np.bincount(places[chosen], minlength=len(arms.marks))
        return law, (chosen, scores[np.arange(rows), chosen]), np.array(among).reshape(-1, k)

    # -- what is learned -----------------------------------------------------------------------------------

    def learn(self, arms: Arms, rows: FloatArray, places: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Count ones and zeros."""
        learn_rows(arms, rows, places, rewards, weights)

    def fade(self, arms: Arms, factor: float) -> None:
        """Multiply all evidence by ``factor``."""
        for sums in (arms.gram, arms.extra):
            sums *= factor
        arms.parts[:, WEIGHT] *= factor

    def fit(self, arms: Arms, rows: FloatArray, places: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by all these rewards."""
        for sums in (arms.gram, arms.extra):
            sums[:] = 0.0
        arms.parts[:, WEIGHT], arms.marks[:, PULLS], arms.pool[COUNT] = 0.0, 0, 0.0
        arms.pool[LOW], arms.pool[HIGH] = np.inf, -np.inf
        learn_rows(arms, rows, places, rewards, weights)

    def solve(self, arms: Arms, places: Any = None, *, factor: float = 1.0, anchored: bool = False) -> None:
        """Do nothing: the sums are all there is."""

    def posterior(self, arms: Arms, place: int) -> Any:
        """Return a copy of the posterior of one arm."""
        return BetaPosterior(*(float(each[0]) for each in self.counts(arms, np.array([place]))))

    def solved(self, arms: Arms) -> Arrays:
        """Return nothing: it is all in the sums."""
        return {}

    def require_sums(self, arms: Arms, arrays: Arrays) -> None:
        """Raise unless the sums of a state file are those of ones and zeros."""
        gram = arrays["gram"]
        require_sums(gram, arrays["pulls"])
        total = gram.sum(axis=1)
        ones, count = total[:, 0, 1], total[:, 0, 0]
        slack = 1e-9 * (1.0 + count)
        near = np.abs(count - arrays["weights"]) <= slack
        if not (near & (np.abs(ones - total[:, 1, 1]) <= slack) & (ones >= -slack) & (ones <= count + slack)).all():
            raise ValueError("sums that are not those of ones and zeros")


def _level(settings: BanditSettings) -> float:
    assert isinstance(settings.alpha, float)
    return settings.alpha


def _mixed(scores: BetaScores, floor: float, among: Any) -> FloatArray:
    """Return chances [k], with a floor; uniform ``among`` some arms if there are any."""
    if among.any():
        return np.asarray(among / among.sum())
    return floor + (1.0 - floor * len(among)) * scores.chances()


def _array(names: tuple[Arm, ...]) -> np.ndarray[Any, Any]:
    from .decision import _name_array

    return _name_array(names)
