"""SparseLinearBandit: arms with up to millions of features, of which a context has few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, finite_array, one_of, refuse
from .._support.memory import require_memory
from .._support.state import Arrays
from ..data.encoder import Features
from ..data.features import Names
from ..data.transformers import FeaturesLike
from ..errors import DataError, ParameterError
from ..schedules import Schedule
from ..types import ArrayLike, RngLike, TableLike
from .arm_names import arm_names
from .bandit import LinearBandit
from .belief.sparse import SparseArms, packed_row
from .checks import settings_of
from .checkup import Checkup, starved_checkup
from .decision import Arm
from .law.base import Law
from .settings import BanditSettings, checked_sd

if TYPE_CHECKING:
    from .explain import Parts, PartsOf


class SparseLinearBandit(LinearBandit):
    """Contextual bandit for very many features, of which a context has few: hashed texts, ids, crosses.

    It decides, learns and is saved as a ``LinearBandit``. Its belief has a mean and a variance of each coefficient and
    no covariances. So a decision and a reward cost as much as a context has values, scores are still normal with known
    variances, and propensities are exact. Without covariances the bandit is surer of sums of features that come
    together than it should be, or less sure: with few features, use ``LinearBandit``. Evidence does not fade by itself,
    and such bandits cannot be merged, since what an update leaves out depends on the order of rewards.

    Parameters
    ----------
    arms : int or iterable of str or int
        Number of arms (named 0, 1, ...) or their names.
    dim : int, optional
        Number of features. The default is that of `features`.
    alpha : float or Schedule, optional
        Risk level in (-1, 1), or a schedule of it. 0, the default, is Thompson sampling.
    noise_sd : float, optional
        Sd of the noise of rewards. By default it is learned, and decisions depend neither on the unit nor, with an
        intercept, on the zero of rewards.
    rng : RngLike, optional
        Seed, or Generator, which the bandit then owns.
    features : Features or iterable of str, optional
        ``Features``, whose rows are never written out with their zeros; or names.
    rewards : {"gaussian"}, default="gaussian"
        Kind of rewards: real numbers.

    Other Parameters
    ----------------
    intercept : bool, default=True
        Put a constant feature before those of a context.
    prior_precision : float or array-like, [D], default=1
        Prior precision of the coefficients, in units of the noise.
    first_pulls : int, optional
        Number of decisions for every arm before scores count.
    min_propensity, max_propensity : float or mapping of arm to float, optional
        Smallest and largest probabilities of arms.
    exploration : float or "auto", optional
        Sd of a draw over the sd of the posterior.
    settings : BanditSettings, optional
        All settings at once, in place of `alpha`.

    Raises
    ------
    ParameterError
        If an argument is out of range, or two exclude each other.

    See Also
    --------
    LinearBandit : All covariances, for up to some hundred features.

    Notes
    -----
    Contexts are rows with names for ``Features``, sparse matrices of SciPy, arrays [D], or what ``Decision.context``
    is: pairs of place and value of what is not zero, [2m].

    Examples
    --------
    >>> from prudent.data import Features
    >>> features = Features(user={"kind": "category", "slots": 0, "shared": 50_000}, hour="hour")
    >>> bandit = SparseLinearBandit(["a", "b"], features=features, rng=1)
    >>> decision = bandit.select({"user": "u17", "hour": 6})
    >>> bandit.update({"user": "u17", "hour": 6}, decision.arm, 1.0)
    SparseLinearBandit(2 arms, dim=50004, settings='TS', 1 decisions, 1 rewards)
    >>> decision.context.size // 2  # values that are not zero
    3
    """

    _KIND: ClassVar[str] = "SparseLinearBandit"
    _belief: SparseArms  # type: ignore[assignment]

    def __init__(
        self,
        arms: int | Iterable[Arm],
        dim: int | None = None,
        *,
        alpha: float | Schedule | None = None,
        noise_sd: float | None = None,
        rng: RngLike = None,
        features: FeaturesLike | None = None,
        rewards: str = "gaussian",
        intercept: bool = True,
        prior_precision: ArrayLike | None = None,
        first_pulls: int | None = None,
        min_propensity: float | Mapping[Arm, float] | None = None,
        max_propensity: float | Mapping[Arm, float] | None = None,
        exploration: float | str | None = None,
        settings: BanditSettings | None = None,
    ) -> None:
        one_of(rewards, "rewards", ["gaussian"])
        names = arm_names(arms, "arms")
        common = None if isinstance(min_propensity, Mapping) else min_propensity
        more = {"first_pulls": first_pulls, "min_propensity": common, "exploration": exploration}
        chosen = settings_of(settings, alpha, "gaussian", more)
        self._set_features(dim, features, intercept)
        size = self._dim + self._intercept
        require_memory(16.0 * len(names) * size, "dim", self._dim)
        sd = None if noise_sd is None else checked_sd(noise_sd, "noise_sd")
        belief = SparseArms(len(names), _prior(prior_precision, self._dim, size), self._intercept, sd)
        self._start(belief, chosen, None, rng, names, min_propensity, max_propensity)

    # -- contexts ------------------------------------------------------------------------------------------

    def _fits(self, point: FloatArray) -> bool:
        return self._belief.packed(point) is not None

    def _with_constant(self, points: FloatArray) -> FloatArray:
        return points  # the belief has it

    def _read(
        self, context: Any, axes: tuple[int, ...] = (1, 2), copy: bool = True, learn: bool = False
    ) -> tuple[FloatArray, Names | None]:
        rows = self._packed_rows(context, learn and not self._held)
        if rows is None:
            return super()._read(context, axes, copy, learn)
        packed, single = rows
        if single and 1 in axes:
            return packed[0], self._names_of_features
        longest = max((row.size for row in packed), default=0)
        out = np.zeros((len(packed), longest + 2 * (longest == self._dim)))
        for row, point in zip(out, packed, strict=True):
            row[: point.size] = point
        return out, self._names_of_features

    def _packed_rows(self, context: Any, learn: bool) -> tuple[list[FloatArray], bool] | None:
        """Return pairs of place and value of each row, and whether it is one context; None if zeros are written out."""
        dim = self._dim
        if hasattr(context, "tocsr"):
            table = context.tocsr()
            if table.shape[-1] != dim:
                message = f"context has shape {table.shape}, expected {dim} columns"
                raise DataError(message, code="wrong-shape", argument="context", value=table.shape)
            table = table.reshape(1, -1).tocsr() if table.ndim == 1 else table
            places, values = (np.split(part, table.indptr[1:-1]) for part in (table.indices, table.data))
            parts = zip(places, values, strict=True)
            return self._checked([packed_row(*part, dim) for part in parts]), table.shape[0] == 1
        if isinstance(self._encoder, Features) and type(context) is not np.ndarray:
            encoder = self._encoder
            found = encoder.learning(encoder.sparse, context) if learn else encoder.sparse(context)
            if found is not None:
                pairs = zip(found.places, found.values, strict=True)
                return [packed_row(*pair, dim) for pair in pairs], found.single
        if not isinstance(context, (np.ndarray, list, tuple)) or getattr(context, "ndim", 1) == 0:
            return None
        if not len(context):
            return [np.empty(0)], True
        single = not isinstance(context[0], (np.ndarray, list, tuple))
        try:
            rows = [np.array(row, dtype=np.float64) for row in ([context] if single else context)]
        except (TypeError, ValueError, OverflowError):
            return None
        if any(row.ndim != 1 for row in rows) or all(row.size == dim for row in rows):
            return None
        return self._checked(rows), single

    def _checked(self, rows: list[FloatArray]) -> list[FloatArray]:
        """Return rows as pairs; raise unless they are."""
        found = []
        for t, row in enumerate(rows):
            packed = self._belief.packed(row)
            if packed is None:
                message = (
                    f"context[{t}] holds {row.size} numbers, expected {self._dim}, or pairs of a place below "
                    f"{self._dim} and a finite value"
                )
                raise DataError(message, code="wrong-shape", argument="context", index=(t,), value=row.size)
            found.append(packed)
        return found

    # -- what it says --------------------------------------------------------------------------------------

    def check(self, log: TableLike | None = None) -> Checkup:
        """Look for starved arms; what else ``LinearBandit.check`` looks for needs sums that are not kept.

        Parameters
        ----------
        log : TableLike, optional
            Not taken here.

        Returns
        -------
        Checkup
            Findings, to be printed or iterated over.

        Raises
        ------
        ParameterError
            If a log is given.
        """
        if log is not None:
            message = "log is for bandits with few features: terms are not searched among many sparse ones"
            raise ParameterError(message, code="not-supported", argument="log")
        with self._lock:
            return starved_checkup(self._names, self._belief.pulls)

    def _explained(self, context: Any, arms: Any) -> tuple[Law, Sequence[Arm], IntArray, PartsOf, dict[str, Any]]:
        point, _ = self._read(context)
        if point.ndim != 1:
            message = f"context has shape {point.shape}, expected one context"
            raise ParameterError(message, code="wrong-shape", argument="context", value=point.shape)
        names, rows = self._names_and_rows(arms)
        law, _ = self._next_law(point, arms, True)
        (packed,) = self._checked([point])
        first = int(self._intercept)
        places = np.concatenate([np.zeros(first), packed[::2] + first]).astype(np.int64)
        design = np.tile(np.concatenate([np.ones(first), packed[1::2]]), (2, 1))
        mean, sd = self._belief.moments(places)
        called = self.features
        labels = ["intercept"] * first + [f"x{i}" if called is None else called[i] for i in packed[::2].astype(int)]

        def parts(two: list[int]) -> Parts:
            at = rows[two]
            return design, mean[at], sd[at], None

        return law, names, self._belief.pulls[rows], parts, {"features": tuple(labels)}

    def __repr__(self) -> str:
        return super().__repr__().replace("LinearBandit", "SparseLinearBandit", 1)

    @classmethod
    def _blank(cls, names: list[Arm], values: dict[str, Any], arrays: Arrays, **options: Any) -> Self:
        prior = arrays["prior_precision"]
        if prior.ndim != 1 or options.pop("half_life") is not None:
            raise ValueError(f"a prior of shape {prior.shape}")
        return cls(names, len(prior) - bool(options["intercept"]), prior_precision=prior, **options)


def _prior(given: Any, dim: int, size: int) -> FloatArray:
    """Return the prior precisions of all coefficients; that of an intercept that is not given is 1."""
    if given is None:
        return np.ones(size)
    values = finite_array(given, "prior_precision", error=ParameterError)
    wrong = (values < 1e-60) | (values > 1e60)
    refuse(wrong, values, "prior_precision", "a number from 1e-60 to 1e+60", error=ParameterError, code="value-range")
    if values.ndim > 1 or (values.ndim == 1 and values.size not in (dim, size)):
        message = f"prior_precision has shape {values.shape}, expected a number or ({size},)"
        raise ParameterError(message, code="wrong-shape", argument="prior_precision", value=values.shape)
    out = np.ones(size)
    out[size - values.size if values.ndim else 0 :] = values
    return out
