"""Arms without context that pay 0 or 1: clicks with no features, without approximation.

Before data the chance of every arm is uniform on [0, 1]; after s ones and f zeros it is Beta(1 + s, 1 + f). The sums of
normal rewards hold both numbers: of the constant feature and the reward they are s + f and s. Scores are log odds, and
their law is in ``prudent.bandits.law.beta``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ..._support.state import Arrays
from ...errors import ParameterError
from ...posteriors.linear import require_sums
from ...posteriors.scalar import BetaPosterior
from ..kernels import layout as col
from ..kernels.highest import coins_of, decide_coins
from ..kernels.stream import Uniforms
from ..law.base import Law
from ..law.beta import BetaLaw
from ..settings import BanditSettings
from .arms import ArmBelief
from .base import require_state


class BetaArms(ArmBelief):
    """Belief about A arms without context that pay 0 or 1, with uniform priors.

    Parameters
    ----------
    count : int
        Number of arms.
    """

    reward_kind = "bernoulli"
    prior_origin = "uniform"

    def __init__(self, count: int) -> None:
        super().__init__(count, np.ones((1, 1)), True, 1.0)
        self._latest: tuple[Any, BetaLaw] | None = None  # of the latest decision, and what it was made of

    def check(self, settings: BanditSettings) -> None:
        """Raise an error if settings do not suit this belief; see ``Belief.check``."""
        for name in ("draws", "sampling_sd", "delta", "exploration"):
            if getattr(settings, name) not in (None, 1.0):
                message = f"{name} is not for clicks without context, whose law is known: leave it out"
                raise ParameterError(message, code="conflicting-arguments", argument=name)
        super().check(settings)

    def use(self, settings: BanditSettings) -> None:
        """Take the settings of the next decision; see ``ArmBelief.use``."""
        self._settings = settings
        super().use(settings)

    def counts(self, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the parameters of the Beta laws of some arms.

        Parameters
        ----------
        rows : ndarray of int, [k]
            Rows of the arms.

        Returns
        -------
        tuple of ndarray of float, [k]
            Successes and failures, each plus one.
        """
        counts = np.empty((3, len(rows)))
        coins_of(self.table.gram, self.table.lost, rows, counts)
        return counts[0], counts[1]

    # -- decisions -----------------------------------------------------------------------------------------

    def decide(self, t: int, point: FloatArray, rows: IntArray, stream: Uniforms) -> tuple[int, float, Law] | None:
        """Take one decision; see ``ArmBelief.decide``."""
        if point.size:
            return None
        places, scores, law = self._decided(rows, 1, stream, None)
        return int(places[0]), float(scores[0]), law

    def decide_rows(
        self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms
    ) -> tuple[IntArray, FloatArray | Callable[[], FloatArray], Law]:
        """Take several decisions; see ``ArmBelief.decide_rows``."""
        return self._decided(rows, len(contexts), stream, len(contexts))

    def _decided(
        self, rows: IntArray, count: int, stream: Uniforms, many: int | None
    ) -> tuple[IntArray, FloatArray, BetaLaw]:
        settings, k = self._settings, len(rows)
        first, floor = settings.first_pulls, settings.min_propensity
        need = count * (k + (first > 0 or floor > 0.0))
        stream.reserve(need)
        uniforms = stream.block[stream.next : stream.next + need]
        stream.next += need
        sums = self.table.gram.tobytes(), self.table.lost.tobytes()
        given = (rows.tobytes(), *sums, settings.level, floor, many)
        if self._latest is None or self._latest[0] != given:
            self._latest = given, BetaLaw(*self.counts(rows), settings.level, floor, None, many)
        law = self._latest[1]
        chosen, scores = np.empty(count, dtype=np.int64), np.empty(count)
        among = np.empty((count if first > 0 else 0, k), dtype=np.bool_)
        marks, rule = self.table.marks, (law.n, law.place, first, floor)
        short = decide_coins(law.counts, marks, rows, uniforms, *rule, chosen, scores, among)
        if short:
            law = BetaLaw(law.successes, law.failures, settings.level, floor, among[:short], many)
        return chosen, scores, law

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores, the same in all contexts; see ``Belief.law``."""
        among = self._lacking(rows, settings, len(contexts))
        return BetaLaw(*self.counts(rows), settings.level, settings.min_propensity, among, len(contexts))

    # -- rewards -------------------------------------------------------------------------------------------

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        col.scale_sums(self.table, factor)
        self.table.extra[:] *= factor
        self.table.parts[:, col.WEIGHT] *= factor

    def fit(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by a log; see ``Belief.fit``."""
        arms = self.table
        for sums in (arms.gram, arms.lost, arms.extra):
            sums[:] = 0
        arms.parts[:, col.WEIGHT], arms.marks[:, col.PULLS], arms.pool[col.COUNT] = 0.0, 0, 0.0
        arms.pool[col.LOW], arms.pool[col.HIGH] = np.inf, -np.inf
        self.learn(contexts, rows, rewards, weights)

    # -- what it says --------------------------------------------------------------------------------------

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return means [A, 1] and variances [A, 1, 1] of the log odds; see ``Belief.coefficients``."""
        law = BetaLaw(*self.counts(np.arange(len(self.table.mean))), 0.0)
        return law.mean[:, np.newaxis], law.sd[:, np.newaxis, np.newaxis] ** 2

    def posterior(self, row: int) -> BetaPosterior:
        """Return a copy of the posterior of the chance of a 1; see ``Belief.posterior``."""
        return BetaPosterior(*(float(count[0]) for count in self.counts(np.array([row]))))

    def _require_sums(self, arrays: Arrays) -> None:
        gram = arrays["gram"]
        require_sums(gram, arrays["pulls"])
        total = gram.sum(axis=1)
        ones, count = total[:, 0, 1], total[:, 0, 0]
        slack = 1e-9 * (1.0 + count)
        near = np.abs(count - arrays["weights"]) <= slack
        binary = (np.abs(ones - total[:, 1, 1]) <= slack) & (ones >= -slack) & (ones <= count + slack)
        require_state((near & binary).all(), "sums that are not those of ones and zeros")
