"""The base of bandits: features with names, settings, evidence that fades, copies, merging, and a state in a file."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    generator,
    instance_of,
    non_negative_array,
    open_probability,
    probability,
    refuse,
    require_shape,
    risk_level,
)
from .._support.locks import Changing
from ..data.features import Names, shown
from ..errors import ParameterError
from ..types import ContextLike, RngLike, TableLike
from .belief.base import NEW, Belief, Match
from .decision import Arm
from .fading import Drift, HalfLife, HalfLifeLike, TimeLike
from .kernels.step import LARGEST
from .kernels.stream import Uniforms
from .law.base import Law
from .limits import PropensityLimits
from .saved import SavedBandit
from .settings import BanditSettings

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from .explain import Explanation, PartsOf


class Bandit(SavedBandit):
    """Base class of ``LinearBandit`` and ``SharedLinearBandit``.

    It holds a belief (what was learned), settings (how scores are drawn), a random stream, and names. Subclasses say
    which arms there are and what a context is. Threads may share a bandit: it has a lock. A forked process draws from
    a new random stream.

    Parameters
    ----------
    belief : Belief
        What is known before the first reward.
    settings : BanditSettings
        How decisions are taken.
    half_life : float or timedelta or None
        Half-life of evidence, in decisions or in time; None if evidence does not fade.
    rng : RngLike
        Seed, or Generator, which the bandit then owns.

    Raises
    ------
    ParameterError
        If settings do not suit the belief.
    """

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
        self._falling = settings.falling
        self._stream = Uniforms(generator(rng), np.empty(0))
        self._limits: PropensityLimits | None = None
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
    def limits(self) -> PropensityLimits | None:
        """Floors and caps of the probabilities of arms; None if there are none but a common floor."""
        return self._limits

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
    def _learned_by_position(self) -> bool:
        return self._rewards > 0 and self._names_of_features is None

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

    def _check_floor(self, k: int, names: Sequence[Arm] | None = None) -> None:
        """Raise if ``k`` arms cannot all have the least probability, or limits of arms leave no probabilities."""
        if self._limits is not None and names is not None:
            self._limits.ends(names)
        floor = self._settings.min_propensity
        if floor * k > 1.0 + 1e-12:
            message = f"min_propensity is {floor}, but {k} arms are eligible: it can be at most 1/{k}"
            raise ParameterError(message, code="probability-range", argument="min_propensity", value=floor)

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
    def _explained(self, context: Any, arms: Any) -> tuple[Law, Sequence[Arm], IntArray, PartsOf, dict[str, Any]]:
        """Return the law of one decision, the arms and their pulls, parts of their scores, and names of features."""

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
        from .explain import explained

        with self._lock:
            law, names, pulls, parts_of, facts = self._explained(context, arms)
            facts |= {"alpha": self.alpha, "kind": self.reward_kind, "lowest": self._settings.min_propensity}
            return explained(law, names, pulls, arm, parts_of, **facts)

    @abstractmethod
    def to_xarray(self) -> xarray.Dataset:
        """Return what is known of the coefficients as an xarray.Dataset.

        Returns
        -------
        xarray.Dataset
            Means, sds and covariances.
        """

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes of ``to_xarray``."""
        numbers = {"decisions": self.decisions, "alpha": self.alpha, "noise_sd": self.noise_sd}
        return {"rewards": self.reward_kind} | numbers

    def plot(self, *, confidence: float = 0.95) -> Figure:
        """Return a figure of the coefficients with intervals, the intercepts first.

        Of up to 12 arms, those with the most rewards, and up to 24 features, those that matter most. Save it with
        ``bandit.plot().savefig("bandit.png")``.

        Parameters
        ----------
        confidence : float, default=0.95
            Probability of an interval.

        Returns
        -------
        matplotlib.figure.Figure
            Figure of matplotlib.

        Raises
        ------
        ParameterError
            If a learned noise is unknown yet.
        """
        from ..display.figures import coefficients
        from .explain import SCORES

        level, data = open_probability(confidence, "confidence"), self.to_xarray()
        mean, sd = np.atleast_2d(data["mean"].values), np.atleast_2d(data["sd"].values)
        if not np.isfinite(sd).all():
            message = "nothing is known yet: two different rewards must have been seen"
            raise ParameterError(message, code="unknown-noise")
        arms, order = ["all items"], np.arange(1)
        if data["mean"].ndim == 2:
            order = np.argsort(-data["pulls"].values, kind="stable")
            arms = data["arm"].values[order].tolist()
        names = data["feature"].values.tolist()
        score = SCORES[self.reward_kind]
        figure = coefficients.draw(mean[order], sd[order], arms=arms, features=names, score=score, confidence=level)
        return figure.to_matplotlib()

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
        with self._lock, Changing(self):
            self._forget(share)
        return self

    def _forget(self, factor: float) -> None:
        if factor != 1.0:
            self._belief.forget(factor)

    def _move(self, time: TimeLike) -> None:
        """Let evidence fade up to now."""
        drift = self._drift
        if drift is not None:
            tick = drift.tick
            with Changing(self):
                try:
                    self._forget(drift.move(self._decisions, time))
                except BaseException:
                    drift.tick = tick
                    raise

    @contextmanager
    def _all_or_none(self, contexts: FloatArray, *, deciding: bool = False) -> Iterator[None]:
        """Put back what has faded if contexts [T,D] or [D] are refused in the block, where rewards are learned.

        With ``deciding`` a decision is taken there.
        """
        drift, belief = self._drift, self._belief
        if drift is None or not (belief.may_overflow(contexts) if deciding else belief.may_refuse(contexts)):
            yield
            return
        belief, tick = copy.deepcopy(self._belief), drift.tick
        try:
            yield
        except BaseException:
            self._belief, drift.tick = belief, tick
            raise

    def _weights(self, time: Any, rows: int) -> FloatArray:
        """Let evidence fade up to the latest of ``time``, and return the weights [T] of rewards of these times."""
        if self._drift is None:
            return np.ones(rows)
        share, weights = self._drift.weights(self._decisions, time, rows)
        self._forget(share)
        return weights

    def _checked_rewards(self, reward: Any, shape: tuple[int, ...]) -> FloatArray:
        """Return rewards as an array of our own of this shape, all of the kind of this bandit."""
        if type(reward) is float and not shape and abs(reward) <= LARGEST and self._belief.any_reward:
            return np.array(reward)
        values = finite_array(reward, "reward")
        require_shape(values, "reward", shape, "[T]" if shape else "one number")
        refuse(np.abs(values) > LARGEST, values, "reward", f"a number of at most {LARGEST}", code="too-large")
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
            How much each reward counts, from 0 to 1, for instance ``0.5 ** (age / half_life)``.

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
        with self._lock, Changing(self):
            known, self._rewards = self._rewards, 0  # what was learned by position is replaced
            try:
                contexts, rows, values, names = self._log_rows(log)
            finally:
                self._rewards = known
            counted = np.ones(len(contexts)) if weights is None else non_negative_array(weights, "weights")
            require_shape(counted, "weights", values.shape, "[T]")
            refuse(counted > 1.0, counted, "weights", "a number from 0 to 1", code="value-range")
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
            message = "other is the bandit itself: its rewards would count twice"
            raise ParameterError(message, code="conflicting-arguments", argument="other")
        theirs = self._kin(other, "other").copy()  # it may learn meanwhile
        past = None if since is None else self._kin(since, "since")
        with self._lock, Changing(self):
            # all that can be refused is refused before anything changes
            decisions = theirs.decisions - (past.decisions if past else 0)
            if decisions < 0:
                message = f"other has taken {-decisions} decisions fewer than since: it comes from elsewhere"
                raise ParameterError(message, code="not-an-ancestor", argument="since")
            names = list(theirs.pulls)
            before = {} if past is None else {name: row for row, name in enumerate(past.pulls)}
            known = None if past is None else past.belief
            matches = [  # an arm that was removed here since has no row
                Match(there, before.get(name), self._index.get(name, None if name in before else NEW))
                for there, name in enumerate(names)
            ]
            wrong = self._belief.contradiction(theirs.belief, known, matches)
            if wrong is not None:
                arm = names[wrong.there] if wrong.there >= 0 else None
                about = "all items" if arm is None else f"arm {arm!r}"
                message = f"other does not come from since: what they know of {about} contradicts it"
                raise ParameterError(message, code="not-an-ancestor", argument="since", arm=arm)
            self._belief.merge(theirs.belief, known, matches)
            self._add_names([names[match.there] for match in matches if match.here == NEW])
            self._rewards = self._belief.n_rewards
            self._decisions += decisions
            self._went_on()
            if self._encoder is None:
                self._names_of_features = self._names_of_features or theirs.features
        return self

    def _compute_again(self) -> None:
        self._belief.solve_again()
        self._went_on()

    def _kin(self, bandit: Any, label: str) -> Self:
        """Return a bandit of the same settings whose evidence does not fade, or raise."""
        instance_of(bandit, label, type(self))
        mine, theirs = _recipe(self), _recipe(bandit)
        for name in mine:
            if mine[name] != theirs.get(name):
                message = f"{label} has other settings: its {name} is {theirs.get(name)!r}, here it is {mine[name]!r}"
                raise ParameterError(message, code="different-settings", argument=label, setting=name)
        if self.features is not None and bandit.features is not None and self.features != bandit.features:
            message = (
                f"{label} has the features {shown(bandit.features)} in this order, here they are "
                f"{shown(self.features)}: give the common ancestor their names, features=[...], and what starts from "
                "it has one order"
            )
            raise ParameterError(message, code="different-features", argument=label)
        codes = [None if one.encoder is None else one.encoder.digest for one in (self, bandit)]
        if codes[0] != codes[1]:
            message = (
                f"{label} has Features that have learned other scales or categories: freeze those of the common "
                "ancestor, Features.fit(sample).freeze(), and what starts from it encodes contexts equally"
            )
            raise ParameterError(message, code="different-features", argument=label)
        if self._drift is not None or self._belief.faded or bandit.belief.faded:
            message = f"the evidence of {label} fades, or has faded: such bandits cannot be merged"
            raise ParameterError(message, code="faded-evidence", argument=label)
        return bandit


def _recipe(bandit: Bandit) -> dict[str, Any]:
    """Return what must be equal for bandits to be merged."""
    names = ("dim", "settings", "intercept", "half_life", "limits")
    return {name: getattr(bandit, name) for name in names} | bandit.belief.options()
