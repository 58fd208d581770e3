"""The base of bandits: features with names, settings, evidence that fades, copies, merging, and a state in a file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    first_index,
    first_place,
    generator,
    non_negative_array,
    open_probability,
    probability,
    risk_level,
    whole_number,
)
from .._support.state import (
    LARGEST_COUNT,
    Arrays,
    State,
    generator_from_state,
    generator_state,
)
from ..data.features import Names, shown
from ..errors import DataError, ParameterError
from ..schedules import Schedule, named_schedule, saved_schedule
from ..types import ContextLike, RngLike, TableLike
from .belief.base import NEW, Belief, Match
from .decision import Arm
from .fading import Drift, HalfLife, HalfLifeLike, TimeLike
from .kernels.step import LARGEST
from .kernels.stream import Uniforms
from .law.base import Law
from .saved import SavedBandit
from .settings import BanditSettings

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from .explain import Explanation

__all__ = ["Bandit"]


class Bandit(SavedBandit):
    """Base class of ``LinearBandit`` and ``SharedLinearBandit``.

    It holds a belief (what was learned), settings (how scores are drawn), a random stream, and names. Subclasses say
    which arms there are and what a context is. Threads may share a bandit: it has a lock. A forked process draws from
    a new random stream.
    """

    _belief: Belief
    _index: dict[Arm, int]  # rows of the arms

    def __init__(
        self,
        belief: Belief,
        settings: BanditSettings,
        half_life: HalfLifeLike,
        rng: RngLike,
    ) -> None:
        belief.check(settings)
        self._belief, self._settings = belief, settings
        half = HalfLife.of(half_life)
        self._drift = None if half is None else Drift(half)
        self._falling = isinstance(settings.alpha, Schedule)
        self._stream = Uniforms(generator(rng), np.empty(0))
        self._decisions = 0
        self._rewards = 0

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def alpha(self) -> float:
        """Risk level of the next decision."""
        return self._settings.at(self._decisions + 1).level

    @property
    def settings(self) -> BanditSettings:
        """How decisions are taken."""
        return self._settings

    @property
    def half_life(self) -> HalfLife | None:
        """Half-life of evidence, with its ``length`` and ``unit``; None if evidence does not fade."""
        return None if self._drift is None else self._drift.half

    @property
    def decisions(self) -> int:
        """Number of decisions taken; the next one is number ``decisions + 1``."""
        return self._decisions

    @property
    def n_rewards(self) -> int:
        """Number of rewards seen."""
        return self._rewards

    @property
    def reward_kind(self) -> str:
        """What rewards are: ``"gaussian"``, ``"bernoulli"`` or ``"poisson"``."""
        return self._belief.reward_kind

    @property
    def noise_sd(self) -> float | None:
        """Sd of a reward around its mean, given or as learned so far; None while unknown, and for clicks and counts.

        With ``noise="by arm"`` it is the typical one; those of the arms are in ``LinearBandit.posterior``.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(2, dim=1)
        >>> bandit.noise_sd is None
        True
        >>> bandit.update([[0.0], [0.0], [0.0]], [0, 0, 0], [1.0, 2.0, 3.0]).noise_sd
        1.0
        """
        with self._lock:
            return self._belief.noise_sd

    @property
    def pulls(self) -> dict[Arm, int]:
        """Number of rewards seen of every arm; of items, of those with offsets."""
        with self._lock:
            return dict(zip(self._index, self._belief.pulls.tolist(), strict=True))

    # -- what it expects -----------------------------------------------------------------------------------

    @abstractmethod
    def _next_law(self, context: Any, arms: Any, check_floor: bool) -> tuple[Law, bool]:
        """Return the law of the next decision, and whether arrays have an axis T of which only the first counts."""

    def propensities(self, context: ContextLike | None = None, arms: Iterable[Arm] | None = None) -> FloatArray:
        """Return the probabilities with which eligible arms would be chosen next.

        Nothing is drawn and nothing changes.

        Parameters
        ----------
        context : ContextLike, optional
            Context [D] or contexts [T, D]; of a ``SharedLinearBandit``, features [k, D] of the candidates.
        arms : iterable of str or int, optional
            The k eligible arms, or names of the candidates. The default is all arms.

        Returns
        -------
        ndarray of float, [k] or [T, k]
            Probabilities, which sum to one.

        Raises
        ------
        DataError
            If the context has another shape or is not finite.
        ParameterError
            If an arm is unknown, or occurs twice.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit(["a", "b"], dim=1).propensities([[1.0], [2.0]])
        array([[0.5, 0.5],
               [0.5, 0.5]])
        """
        law, first = self._next_law(context, arms, True)
        chances = law.chances()
        return chances[0] if first else chances

    def predict(
        self, context: ContextLike | None = None, arms: Iterable[Arm] | None = None, *, response: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and sd of the score s'theta of eligible arms.

        For normal rewards the score is the mean reward; for clicks and counts it is a log odds or log rate. Nothing is
        drawn and nothing changes. While a learned noise is unknown, sds are infinite.

        Parameters
        ----------
        context : ContextLike, optional
            Context [D] or contexts [T, D]; of a ``SharedLinearBandit``, features [k, D] of the candidates.
        arms : iterable of str or int, optional
            The k eligible arms, or names of the candidates. The default is all arms.
        response : bool, default=False
            Return moments of the expected reward: of clicks the chance of a 1, of counts the rate.

        Returns
        -------
        tuple of ndarray of float, [k] or [T, k]
            Means and standard deviations.

        Raises
        ------
        DataError
            If the context has another shape or is not finite.
        ParameterError
            If an arm is unknown, or occurs twice.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit(2, dim=1, noise_sd=1.0).predict([0.0])
        (array([0., 0.]), array([1., 1.]))
        >>> clicks = LinearBandit(1, dim=0, rewards="bernoulli").update([[], [], []], [0, 0, 0], [0, 0, 1])
        >>> clicks.predict(response=True)[0]
        array([0.4])
        """
        law, first = self._next_law(context, arms, False)
        mean, sd = law.response() if response else (law.mean, law.sd)
        return (mean[0].copy(), sd[0].copy()) if first else (mean.copy(), sd.copy())

    def score(
        self, context: ContextLike | None = None, arms: Iterable[Arm] | None = None, alpha: float | None = None
    ) -> FloatArray:
        """Return CVaR of s'theta under the posterior: what the drawn scores estimate.

        Nothing is drawn and nothing changes. While a learned noise is unknown, it is minus infinity for alpha > 0, and
        infinity for alpha < 0.

        Parameters
        ----------
        context : ContextLike, optional
            Context [D] or contexts [T, D]; of a ``SharedLinearBandit``, features [k, D] of the candidates.
        arms : iterable of str or int, optional
            The k eligible arms, or names of the candidates. The default is all arms.
        alpha : float, optional
            Risk level in (-1, 1). The default is that of the next decision.

        Returns
        -------
        ndarray of float, [k] or [T, k]
            CVaR.

        Raises
        ------
        DataError
            If the context has another shape or is not finite.
        ParameterError
            If an arm is unknown, or `alpha` is not in (-1, 1).

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> LinearBandit(2, dim=1, noise_sd=1.0).score([0.0], alpha=0.5).round(4)
        array([-0.7979, -0.7979])
        """
        level = self.alpha if alpha is None else risk_level(alpha)
        law, first = self._next_law(context, arms, False)
        values = law.shortfall(level)
        return values[0].copy() if first else values

    @abstractmethod
    def _explained(self, context: Any, arm: Arm | None, arms: Any) -> Explanation:
        """Return the explanation of an arm."""

    def explain(
        self, context: ContextLike | None = None, arm: Arm | None = None, *, arms: Iterable[Arm] | None = None
    ) -> Explanation:
        """Return why an arm would be chosen, or would not.

        It prints as words, and has tables: what each feature adds to the score, for the arm and for the runner-up, and
        what is known of every eligible arm. Nothing is drawn and nothing changes.

        Parameters
        ----------
        context : ContextLike, optional
            Context [D]; of a ``SharedLinearBandit``, features [k, D] of the candidates.
        arm : str or int, optional
            The arm to explain. The default is the likeliest.
        arms : iterable of str or int, optional
            The eligible arms, or names of the candidates. The default is all arms.

        Returns
        -------
        Explanation
            Words and tables.

        Raises
        ------
        ParameterError
            If the arm is not eligible.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(["a", "b"], features=["age"], noise_sd=1.0)
        >>> _ = bandit.update([[1.0]] * 4, ["a", "a", "b", "b"], [3.0, 5.0, 1.0, 1.0])
        >>> print(bandit.explain([1.0]))
        The likeliest choice is 'a', with the chance 99.6%.
        Its mean reward is 3.20 (sd 0.63), known from 2 rewards.
        The runner-up is 'b', with the chance 0.4%: 0.80 (sd 0.63), known from 2 rewards.
        'a' is better with the chance 99.6%: it leads by 2.40 (sd 0.89).
        For 'a': intercept (+1.20), age (+1.20).
        """
        return self._explained(context, arm, arms)

    def _figure(self, data: xarray.Dataset, confidence: float) -> Figure:
        from .explain import coefficients_figure

        return coefficients_figure(data, open_probability(confidence, "confidence"), self.reward_kind)

    # -- evidence ------------------------------------------------------------------------------------------

    def forget(self, factor: float) -> Self:
        """Multiply all evidence by a factor; the prior stays.

        Parameters
        ----------
        factor : float
            Number from 0 (forget everything) to 1 (nothing).

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If `factor` is not in [0, 1].

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> bandit = LinearBandit(1, dim=1, noise_sd=1.0, intercept=False).update([[1.0], [1.0]], [0, 0], [3.0, 3.0])
        >>> bandit.forget(0.5).posterior(0).mean()
        array([1.5])
        """
        share = probability(factor, "factor")
        with self._lock:
            self._forget(share)
        return self

    def _forget(self, factor: float) -> None:
        if factor != 1.0:
            self._belief.forget(factor)

    def _move(self, time: TimeLike) -> None:
        """Let evidence fade up to now."""
        if self._drift is not None:
            self._forget(self._drift.move(self._decisions, time))

    def _weights(self, time: Any, rows: int) -> FloatArray:
        """Let evidence fade up to the latest of ``time``, and return the weights [T] of rewards of these times."""
        if self._drift is None:
            return np.ones(rows)
        share, weights = self._drift.weights(self._decisions, time, rows)
        self._forget(share)
        return weights

    def _checked_rewards(self, reward: Any, shape: tuple[int, ...]) -> FloatArray:
        """Return rewards as an array of our own of this shape, all of the kind of this bandit."""
        values = finite_array(reward, "reward")
        if values.shape != shape:
            raise DataError(
                f"reward has shape {values.shape}, expected {shape}, one per context",
                code="wrong-shape",
                argument="reward",
                value=values.shape,
                expected=shape,
            )
        huge = np.abs(values) > LARGEST
        if huge.any():
            raise DataError(
                f"reward{first_index(huge)} is {values[huge][0]}, too large to square",
                code="too-large",
                argument="reward",
                index=first_place(huge),
                value=float(values[huge][0]),
            )
        self.require_rewards(reward, values)
        return values.copy()

    def require_rewards(self, reward: Any, values: FloatArray) -> None:
        """Raise an error unless rewards are of the kind of this bandit.

        Parameters
        ----------
        reward : object
            What the user gave.
        values : ndarray of float, [T]
            The same as numbers.

        Raises
        ------
        DataError
            If one is not, for instance 2 where rewards are 0 or 1.
        """
        self._belief.require(reward, np.atleast_1d(values))

    @abstractmethod
    def _log_rows(self, log: Any) -> tuple[FloatArray, IntArray, FloatArray, Names | None]:
        """Return contexts [T,D], rows [T], rewards [T] and names of features of a log."""

    def refit(self, log: TableLike, *, weights: Sequence[float] | None = None) -> Self:
        """Replace all that was learned of clicks or counts by the exact Laplace posteriors given a log.

        If the prior is learned, it is the one that the whole log says. Arms that are not in the log start anew. The
        mode is found to 1e-12. Of normal rewards the posterior is exact as it is.

        Parameters
        ----------
        log : TableLike
            Rows as in ``from_log``.
        weights : sequence of float, [T], optional
            How often each reward counts, for instance ``0.5 ** (age / half_life)``.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If rewards are normal.
        DataError
            If the log cannot be read, or weights have another shape.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> log = [([0.0], "a", 1), ([1.0], "a", 0), ([0.0], "b", 0)]
        >>> bandit = LinearBandit.from_log(log, rewards="bernoulli", prior_precision=1.0)
        >>> bandit.refit(log).posterior("a").mean()
        array([ 0.0685, -0.4144])
        """
        if self.reward_kind == "gaussian":
            nothing = np.empty(0)
            self._belief.fit(nothing, nothing.astype(np.int64), nothing, nothing)  # which raises
        with self._lock:
            contexts, rows, values, names = self._log_rows(log)
            counted = np.ones(len(contexts)) if weights is None else non_negative_array(weights, "weights")
            if counted.shape != values.shape:
                raise DataError(
                    f"weights has shape {counted.shape}, expected {values.shape}, one per reward",
                    code="wrong-shape",
                    argument="weights",
                    value=counted.shape,
                    expected=values.shape,
                )
            self._belief.fit(contexts, rows, values, counted)
            self._rewards = self._belief.n_rewards
            self._names_of_features = names
        return self

    def merge(self, other: Self, *, since: Self | None) -> Self:
        """Learn what another bandit has learned since a common past, each reward once.

        The result is that of learning the same rewards here, up to rounding; of clicks and counts about so. Arms that
        ``other`` has and this bandit never had are added; an arm that this bandit has removed since stays removed.

        Parameters
        ----------
        other : Bandit
            A bandit with the same settings.
        since : Bandit or None
            The state from which ``other`` went on: the common ancestor of both, or ``other`` as it was when it was last
            merged into this one. None if it began without data.

        Returns
        -------
        Bandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If settings differ, evidence has faded, or ``other`` does not come from ``since``.

        Examples
        --------
        >>> from prudent.bandits import LinearBandit
        >>> base = LinearBandit(["a", "b"], dim=1, rng=3)
        >>> one, two = base.copy(stream=0), base.copy(stream=1)
        >>> _ = one.update([1.0], "a", 2.0), two.update([2.0], "a", 1.0), two.add_arm("c").update([1.0], "c", 4.0)
        >>> one.merge(two, since=base).pulls
        {'a': 2, 'b': 0, 'c': 1}
        """
        if other is self:
            raise ParameterError(
                "other is the bandit itself: its rewards would count twice",
                code="conflicting-arguments",
                argument="other",
            )
        theirs = self._kin(other, "other").copy()  # it may learn meanwhile
        past = None if since is None else self._kin(since, "since")
        with self._lock:
            # all that can be refused is refused before anything changes
            decisions = theirs.decisions - (past.decisions if past else 0)
            if decisions < 0:
                raise ParameterError(
                    f"other has taken {-decisions} decisions fewer than since: it comes from elsewhere",
                    code="not-an-ancestor",
                    argument="since",
                )
            names = list(theirs.pulls)
            before = {} if past is None else {name: row for row, name in enumerate(past.pulls)}
            matches = []
            for there, name in enumerate(names):
                gone = name not in self._index and name in before
                matches.append(Match(there, before.get(name), None if gone else self._index.get(name, NEW)))
            wrong = self._belief.contradiction(theirs.belief, None if past is None else past.belief, matches)
            if wrong is not None:
                what = f"arm {names[wrong.there]!r}" if wrong.there >= 0 else "all items"
                raise ParameterError(
                    f"other does not come from since: what they know of {what} contradicts it",
                    code="not-an-ancestor",
                    argument="since",
                    arm=names[wrong.there] if wrong.there >= 0 else None,
                )
            self._belief.merge(theirs.belief, None if past is None else past.belief, matches)
            self._add_names([names[match.there] for match in matches if match.here == NEW])
            self._rewards = self._belief.n_rewards
            self._decisions += decisions
            self._names_of_features = self._names_of_features or theirs.features
        return self

    @property
    def belief(self) -> Belief:
        """What was learned. It is not a copy: change it only through the methods of the bandit."""
        return self._belief

    @abstractmethod
    def _add_names(self, names: list[Arm]) -> None:
        """Take the names of arms whose rows the belief has added."""

    def _kin(self, bandit: Any, label: str) -> Self:
        """Return a bandit of the same settings whose evidence does not fade, or raise."""
        if not isinstance(bandit, type(self)):
            raise ParameterError(
                f"{label} must be a {type(self).__name__}, got {bandit!r}", code="wrong-type", argument=label
            )
        mine, theirs = self._recipe(), bandit._recipe()
        for name in mine:
            if mine[name] != theirs.get(name):
                raise ParameterError(
                    f"{label} has other settings: its {name} is {theirs.get(name)!r}, here it is {mine[name]!r}",
                    code="different-settings",
                    argument=label,
                    setting=name,
                )
        if self.features is not None and bandit.features is not None and self.features != bandit.features:
            raise ParameterError(
                f"{label} has the features {shown(bandit.features)} in this order, here they are "
                f"{shown(self.features)}: give the common ancestor their names, features=[...], and what starts from "
                "it has one order",
                code="different-features",
                argument=label,
            )
        if self._drift is not None or self._belief.faded or bandit.belief.faded:
            raise ParameterError(
                f"the evidence of {label} fades, or has faded: such bandits cannot be merged",
                code="faded-evidence",
                argument=label,
            )
        return bandit

    def _recipe(self) -> dict[str, Any]:
        """Return what must be equal for bandits to be merged."""
        own = {"dim": self.dim, "settings": self.settings, "intercept": self.intercept, "half_life": self.half_life}
        return own | self._belief.options()

    # -- state ---------------------------------------------------------------------------------------------

    def state(self) -> State:
        """Return the values and arrays to save.

        Returns
        -------
        tuple of dict
            Values that JSON can hold, and arrays by name.
        """
        settings = {name: getattr(self._settings, name) for name in self._settings.__dataclass_fields__}
        if isinstance(self._settings.alpha, Schedule):
            settings["alpha"] = saved_schedule(self._settings.alpha)
        arrays = self._belief.arrays() | {"uniforms": self._stream.unused}
        values = {
            "settings": settings,
            "intercept": self._intercept,
            "features": None if self._names_of_features is None else list(self._names_of_features),
            "half_life": None if self._drift is None else asdict(self._drift.half),
            "tick": None if self._drift is None else self._drift.tick,
            "arms": list(self._index),
            "decisions": self._decisions,
            "belief": self._belief.values(),
            "rng": generator_state(self._stream.rng),
        }
        return values, arrays

    @classmethod
    @abstractmethod
    def _blank(cls, names: list[Arm], values: dict[str, Any], arrays: Arrays, **options: Any) -> Self:
        """Return a bandit without data for a state: its arms, what the belief says of itself, and its arrays."""

    @classmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the bandit of a state; raise if it cannot be one."""
        settings = dict(values["settings"])
        if isinstance(settings["alpha"], dict):
            settings["alpha"] = named_schedule(settings["alpha"])
        if not isinstance(values["arms"], list):
            raise ValueError(f"arms must be a list of names, got {values['arms']!r}")
        bandit = cls._blank(
            values["arms"],
            values["belief"],
            arrays,
            intercept=values["intercept"],
            features=values["features"],
            half_life=None if values["half_life"] is None else HalfLife(**values["half_life"]),
            settings=BanditSettings(**settings),
        )
        if bandit._drift is not None and values["tick"] is not None:
            bandit._drift.tick = whole_number(values["tick"], "tick", -LARGEST_COUNT, LARGEST_COUNT)
        if bandit._belief.values()["prior"] != values["belief"]["prior"]:
            raise ValueError(f"prior is {values['belief']['prior']!r}")
        bandit._belief.restore(values["belief"], arrays)
        bandit._rewards = bandit._belief.n_rewards
        bandit._decisions = whole_number(values["decisions"], "decisions", 0, LARGEST_COUNT)
        unused = arrays["uniforms"]
        if unused.ndim != 1 or unused.dtype != np.float64 or not ((unused >= 0.0) & (unused < 1.0)).all():
            raise ValueError("uniforms must be numbers in [0, 1)")
        bandit._stream = Uniforms(generator_from_state(values["rng"]), unused)
        bandit._went_on()
        return bandit

    def _went_on(self) -> None:
        """Bring up to date what depends on the number of decisions."""
