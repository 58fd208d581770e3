"""LinearBandit: arms with coefficients of their own, which decides, learns and says with what probability.

The mathematics is in ``prudent.bandits`` and ``prudent.bandits.kernels.step``. This file checks what the user
gives and knows names; a belief decides and learns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from .._support.checks import one_of, require_shape
from .._support.locks import Changing
from .._support.memory import require_memory
from .._support.state import Arrays
from ..data.features import PLAIN
from ..data.log_files import logged
from ..data.transformers import FeaturesLike, column_names
from ..errors import DataError, ParameterError
from ..posteriors.linear import LinearGaussianPosterior
from ..schedules import Schedule
from ..types import ArrayLike, ContextLike, RngLike, TableLike
from .arm_names import arm_names, checked_name, listed_names
from .belief.arms import ArmBelief
from .belief.beta import BetaArms
from .belief.gaussian import GaussianArms
from .belief.glm import LINKS, GlmArms
from .belief.hurdle import HurdleArms
from .belief.wide import WideArms
from .checks import context_size, options_of, refuse_noise, settings_of
from .decision import Arm, Decision
from .fading import HalfLifeLike, TimeLike
from .limits import PropensityLimits
from .named_arms import NamedArms
from .settings import BanditSettings, checked_sd

_SEARCHED = 100  # features at most among which interactions are looked for by default: with more that takes long
_FLOAT = np.dtype(np.float64)
_array, _ndarray = np.array, np.ndarray  # looked up once: decisions take microseconds


def _is_zero(alpha: Any) -> bool:
    """Return whether a level was left out, or says the same."""
    return alpha is None or (isinstance(alpha, (int, float)) and alpha == 0.0)


class LinearBandit(NamedArms):
    """Contextual bandit whose arms have linear rewards with coefficients of their own, and a dial for risk.

    The reward of arm a in context s is s'theta_a plus noise; for clicks and counts s'theta_a is a log odds or log rate.
    Rewards may come late, in any order, or never: nothing is kept between ``select`` and ``update``.

    Parameters
    ----------
    arms : int or iterable of str or int
        Number of arms (named 0, 1, ...) or their names.
    dim : int, optional
        Number of features of a context. Features should be on one scale (see ``check``). 0 is for arms without
        context. The default is the number of `features`.
    alpha : float or Schedule, optional
        Risk level in (-1, 1), or a schedule of it such as ``Decay``. 0 is Thompson sampling, positive values are
        averse to uncertainty about the mean reward, negative values seek it. Online, 0 to 0.5 is recommended. The
        default is 0, and 0.5 for clicks and counts.
    noise_sd : float, optional
        Sd of the noise of rewards: with it the bandit is the agent of the paper. By default it is learned, and
        decisions depend neither on the unit nor, with an intercept, on the zero of rewards; until two different rewards
        were seen choices are uniform. Then `exploration` and `interactions` are ``"auto"`` unless they are given.
    rng : RngLike, optional
        Seed, or Generator, which the bandit then owns.
    features : Features or iterable of str or transformer, optional
        Names of the features, by which dicts and tables of pandas are read. The default is the names of the first such
        context. Lists and arrays go by position. Or ``Features``, which make numbers of categories, tags, times and so
        on, of which the bandit keeps a copy; or a fitted transformer of scikit-learn.
    rewards : {"gaussian", "bernoulli", "poisson", "hurdle"}, default="gaussian"
        Kind of rewards: real numbers, clicks (0 or 1), counts, or revenue (0, or a positive amount if there is a
        purchase).

    Other Parameters
    ----------------
    noise : {"shared", "by arm"}, default="shared"
        Whether a learned noise is that of all arms, or each arm has its own (then scores are Student's t).
    intercept : bool, default=True
        Put a constant feature before those of a context. Its prior mean, common to the arms, is learned with the noise.
    prior_precision : array-like, optional
        Prior precision P of theta_a: a number (times the identity) or a matrix [D, D], intercept included. For normal
        rewards the covariance is noise^2 P^-1, and the default is 1. For clicks and counts it is P^-1, and by default
        the prior is learned from all arms (with ``dim=0``, clicks have uniform Beta priors).
    first_pulls : int, optional
        Number of decisions for every arm before scores count. A cure for lock-in at high `alpha`.
    min_propensity : float or mapping of arm to float, optional
        Smallest probability of every eligible arm, or of some arms. Keeps logs usable for off-policy evaluation.
    max_propensity : float or mapping of arm to float, optional
        Largest probability of every eligible arm, or of some arms. An arm with equal `min_propensity` and
        `max_propensity`, a control arm, has a fixed share. Propensities are exact with all of them.
    exploration : float or "auto", optional
        Sd of a draw over the sd of the posterior; 1 is Thompson sampling. With ``"auto"`` it is smaller for arms that
        are known as well as the others in a context: that earns more where decisions are few, and locks no arm out; see
        ``BanditSettings``. The default is ``"auto"`` if the noise is learned and `alpha` is 0, else 1.
    horizon : int, optional
        Number of decisions in all, for ``exploration="auto"``.
    half_life : float or timedelta, optional
        Half-life of evidence, in decisions or in time; with time, ``select`` and ``update`` take ``time=``.
    interactions : {"none", "auto"}, optional
        Whether products, thresholds and hinges of features become features as soon as rewards give evidence of them.
        For normal rewards. They are in ``interactions_found``; the how-to page "Features" says how they are found. The
        default is ``"auto"`` if the noise is learned, `alpha` is 0 and there are at most 100 features, else ``"none"``.
    settings : BanditSettings, optional
        All settings at once, in place of `alpha`; see ``BanditSettings``.

    Raises
    ------
    ParameterError
        If an argument is out of range, or two exclude each other.

    See Also
    --------
    SharedLinearBandit : Items that share one theta and are known by their features.
    Journal : Writes decisions and rewards down before they count.

    Notes
    -----
    The how-to page "Bandits in production" explains priors, noise, lock-in, drift, workers and merging.

    Examples
    --------
    >>> bandit = LinearBandit(["red", "green", "blue"], dim=2, rng=7)
    >>> decision = bandit.select([1.0, 0.5], arms=["red", "blue"])
    >>> decision.arm in ("red", "blue"), decision.propensity
    (True, 0.5)
    >>> bandit.update([1.0, 0.5], decision.arm, reward=1.0)
    LinearBandit(3 arms, dim=2, settings='TS auto', 1 decisions, 1 rewards)
    """

    _KIND: ClassVar[str] = "LinearBandit"
    _belief: ArmBelief

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
        noise: str = "shared",
        intercept: bool = True,
        prior_precision: ArrayLike | None = None,
        first_pulls: int | None = None,
        min_propensity: float | Mapping[Arm, float] | None = None,
        max_propensity: float | Mapping[Arm, float] | None = None,
        exploration: float | str | None = None,
        horizon: int | None = None,
        half_life: HalfLifeLike = None,
        interactions: str | None = None,
        settings: BanditSettings | None = None,
    ) -> None:
        names = arm_names(arms, "arms")
        one_of(rewards, "rewards", ["gaussian", *LINKS, "hurdle"])
        free = settings is None and noise_sd is None and rewards == "gaussian" and _is_zero(alpha)
        exploration = "auto" if exploration is None and free else exploration
        common = None if isinstance(min_propensity, Mapping) else min_propensity
        more = {"first_pulls": first_pulls, "min_propensity": common, "exploration": exploration, "horizon": horizon}
        if interactions is not None:
            one_of(interactions, "interactions", ["none", "auto"])
        if interactions == "auto" and rewards != "gaussian":
            message = f'interactions="auto" is for normal rewards, not for rewards={rewards!r}'
            raise ParameterError(message, code="conflicting-arguments", argument="interactions")
        chosen = settings_of(settings, alpha, rewards, more)
        self._set_features(dim, features, intercept, least=0 if intercept else 1)
        looks = interactions == "auto" or (interactions is None and free and self._dim <= _SEARCHED)
        sd = None if noise_sd is None else checked_sd(noise_sd, "noise_sd")
        size = self._dim + self._intercept
        require_memory(16.0 * len(names) * size**2, "dim", self._dim)
        prior = None if prior_precision is None else LinearGaussianPosterior(size, prior_precision).prior
        belief: ArmBelief
        if rewards == "gaussian":
            blank = np.eye(size) if prior is None else prior
            kind = WideArms if looks and self._dim else GaussianArms
            belief = kind(len(names), blank, self._intercept, sd, noise)
        else:
            refuse_noise(rewards, sd, noise)
            if rewards == "hurdle":
                belief = HurdleArms(len(names), size, prior, self._intercept)
            elif rewards == "bernoulli" and self._dim == 0 and prior is None:
                belief = BetaArms(len(names))
            else:
                belief = GlmArms(len(names), rewards, size, prior, self._intercept)
        self._start(belief, chosen, half_life, rng, names, min_propensity, max_propensity)

    def _start(
        self,
        belief: Any,
        chosen: BanditSettings,
        half_life: HalfLifeLike,
        rng: RngLike,
        names: Sequence[Arm],
        min_propensity: Any,
        max_propensity: Any,
    ) -> None:
        """Take a belief without data, settings, names and limits of arms."""
        super().__init__(belief, chosen, half_life, rng)
        by_arm = min_propensity if isinstance(min_propensity, Mapping) else None
        self._limits = PropensityLimits.of(chosen.min_propensity, by_arm, max_propensity, names)
        self._skipped = 0
        self._set_names(names)
        self._use_settings()

    def _use_settings(self) -> None:
        """Tell the belief the settings of the next decision."""
        self._belief.use(self._settings.at(self._decisions + 1))
        self._direct = self._drift is None and self._belief.any_reward
        free = self._settings.min_propensity == 0.0 and self._limits is None
        self._plain = free and self._drift is None

    _went_on = _use_settings

    @classmethod
    def from_log(cls, log: TableLike, arms: int | Iterable[Arm] | None = None, **options: Any) -> Self:
        """Return a bandit that has learned from a log of (context, arm, reward) rows.

        Parameters
        ----------
        log : TableLike
            Sequence of such rows, or a table with columns ``context``, ``arm`` and ``reward``. Of a table without
            ``context``, ``features=[...]`` names the columns that make it. Of what a ``Journal`` has exported, arms,
            names of features, kind of rewards and settings are those of the journal, unless `options` say otherwise.
        arms : int or iterable of str or int, optional
            The arms. The default is those of the log in order of appearance.
        **options : object
            Parameters of the class.

        Returns
        -------
        LinearBandit
            A bandit with `dim` of the log.

        Raises
        ------
        DataError
            If the log cannot be read.

        Examples
        --------
        >>> bandit = LinearBandit.from_log([([1.0], "a", 2.0), ([3.0], "b", 1.0)], alpha=0.5)
        >>> bandit.pulls
        {'a': 1, 'b': 1}
        """
        about, (contexts, pulled, rewards) = logged(log, column_names(options.get("features")), "arm", "reward")
        if about is not None:
            options = options_of(about, options)
            arms = (
                list(dict.fromkeys([*about["arms"], *listed_names(pulled, "arm", DataError)])) if arms is None else arms
            )
        size = context_size(contexts, options.get("features"))
        if arms is None:
            names = arm_names(dict.fromkeys(listed_names(pulled, "arm", DataError)), "arm", DataError)
        else:
            names = arm_names(arms, "arms")
        return cls(names, size, **options).update(contexts, pulled, rewards)

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def noise(self) -> str:
        """Whether a learned noise is ``"shared"`` by the arms or learned ``"by arm"``."""
        return self._belief.noise if isinstance(self._belief, GaussianArms) else "shared"

    @property
    def interactions(self) -> str:
        """Whether products and thresholds of features are looked for: ``"auto"``, or ``"none"``."""
        return "auto" if isinstance(self._belief, WideArms) else "none"

    @property
    def interactions_found(self) -> tuple[str, ...]:
        """Names of the products, thresholds and hinges that rewards give evidence of.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> bandit = LinearBandit(2, features=["old", "new"], interactions="auto", rng=1)
        >>> contexts = rng.integers(0, 2, (200, 2))
        >>> arms = rng.integers(0, 2, 200)
        >>> rewards = (contexts[:, 0] ^ contexts[:, 1]) == arms
        >>> bandit.update(contexts, arms, rewards + rng.normal(0.0, 0.3, 200)).interactions_found
        ('old x new',)
        """
        with self._lock:
            names = self._labels(self.features)
            return self._belief.labels(names)[len(names) :]

    @property
    def skipped(self) -> int:
        """Number of rewards that ``update(..., unknown="skip")`` left out, in this process."""
        return self._skipped

    def posterior(self, arm: Arm) -> Any:
        """Return a copy of the posterior of theta of one arm; the intercept, if there is one, comes first.

        Its prior mean is the common level of the arms, as far as that is learned. With ``noise="by arm"`` it is the
        normal law with the noise of the arm.

        Parameters
        ----------
        arm : str or int
            Name of the arm.

        Returns
        -------
        LinearGaussianPosterior or LogisticPosterior or PoissonPosterior or BetaPosterior
            What suits the rewards.

        Raises
        ------
        ParameterError
            If the arm is unknown.
        DataError
            If a learned noise is unknown yet: two different rewards must have been seen.

        Examples
        --------
        >>> LinearBandit(2, dim=1, noise_sd=2.0, intercept=False).posterior(1).covariance()
        array([[4.]])
        """
        with self._lock:
            return self._belief.posterior(self._arm_index(arm, error=ParameterError))

    def add_arm(self, arm: Arm, like: Iterable[Arm] | None = None) -> Self:
        """Add an arm, which starts from the prior, or from what is known of other arms.

        Parameters
        ----------
        arm : str or int
            Name of the arm.
        like : iterable of str or int, optional
            Arms that it is like. Its prior mean is the average of their posterior means. Its prior covariance is the
            average of their posterior covariances, plus how much their means differ.

        Returns
        -------
        LinearBandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If the name is taken, or an arm of `like` is unknown.

        Examples
        --------
        >>> LinearBandit(["a"], dim=1).add_arm("b").add_arm("c", like=["a", "b"]).arms
        ('a', 'b', 'c')
        """
        name = checked_name(arm, "arm")
        with self._lock, Changing(self):
            if name in self._index:
                raise ParameterError(f"arm {name!r} is already there", code="duplicate-name", argument="arm", arm=name)
            if like is not None and isinstance(self._belief, BetaArms):
                text = "like is not for clicks without context: such arms start from the uniform prior"
                raise ParameterError(text, code="conflicting-arguments", argument="like")
            self._belief.add_row(None if like is None else self._belief.prior_like(self._eligible(like, "like")[1]))
            self._add_names([name])
            self._went_on()
        return self

    def remove_arm(self, arm: Arm) -> Self:
        """Remove an arm and what was learned of it.

        Parameters
        ----------
        arm : str or int
            Name of the arm.

        Returns
        -------
        LinearBandit
            The bandit itself.

        Raises
        ------
        ParameterError
            If the arm is unknown, or the only one.

        Examples
        --------
        >>> LinearBandit(["a", "b"], dim=1).remove_arm("a").arms
        ('b',)
        """
        with self._lock, Changing(self):
            row = self._arm_index(arm, error=ParameterError)
            if len(self._names) == 1:
                text = f"arm {arm!r} is the only one: a bandit needs at least one arm"
                raise ParameterError(text, code="last-arm", argument="arm")
            self._belief.remove_row(row)
            self._set_names([name for name in self._names if name != self._names[row]])
            self._rewards = self._belief.n_rewards
            self._went_on()
        return self

    # -- decisions -----------------------------------------------------------------------------------------

    def select(
        self,
        context: ContextLike | None = None,
        arms: Iterable[Arm] | None = None,
        *,
        propensity: bool = True,
        time: TimeLike = None,
    ) -> Decision:
        """Choose among the eligible arms in a context or in many.

        Many contexts are all decided from the posterior as it is now, and at the same risk level.

        Parameters
        ----------
        context : ContextLike, optional
            Context [D], or contexts [T, D]. None is for arms without context.
        arms : iterable of str or int, optional
            The eligible arms. The default is all arms.
        propensity : bool, default=True
            Keep what the probability of the choice is computed from, when it is read.
        time : float or datetime, optional
            Seconds since 1970 or a date with time, for a half-life in time. The default is now.

        Returns
        -------
        Decision
            The arm, its score and its probability; arrays of them for contexts [T, D].

        Raises
        ------
        DataError
            If the context has another shape or is not finite.
        ParameterError
            If an arm is unknown, or occurs twice.

        Examples
        --------
        >>> bandit = LinearBandit(3, dim=2, alpha=0.5, rng=1)
        >>> bandit.select([0.2, 0.4]).arm in (0, 1, 2)
        True
        >>> bandit.select([[0.2, 0.4], [1.0, 0.0]], arms=[0, 2]).arm.shape
        (2,)
        """
        try:
            kind = type(context)
            point = None
            if kind in PLAIN and (kind is not _ndarray or context.dtype.kind != "c"):  # type: ignore[union-attr]
                point = _array(context, _FLOAT)
        except (TypeError, ValueError, OverflowError):
            point = None
        if point is None or point.ndim != 1:
            ours = type(context) is np.ndarray and point is not None  # rows of a list may have names
            return self._select_rows(point if ours else context, not ours, arms, propensity, time)
        with self._lock:
            if arms is None:
                names, rows = self._names, self._every
            else:
                names, rows = self._eligible(arms)
            decisions = self._decisions
            if self._plain:
                decided = self._belief.decide(decisions + 1, point, rows, self._stream)
            else:
                self._check_floor(len(names), names)
                if not self._fits(point):
                    self._refuse(context)
                with self._all_or_none(point, deciding=True):
                    self._move(time)
                    decided = self._belief.decide(decisions + 1, point, rows, self._stream)
                    if decided is None:
                        self._refuse(context)
            if decided is None:
                self._refuse(context)
            self._decisions = decisions + 1
            if self._falling:
                self._fall()
            if self._limits is not None:
                decided = self._limit_one(names, rows, decided)
            place, score, law = decided
            return Decision(names, place, score, law, point, (decisions, self._rewards), propensity)

    def _select_rows(
        self, context: Any, copy: bool, arms: Iterable[Arm] | None, propensity: bool, time: Any
    ) -> Decision:
        """Choose in contexts [T,D], or in one that is no list or array of numbers; ``copy`` what is not ours."""
        with self._lock:
            points, labels = self._read(context, copy=copy and not self._intercept, learn=True)
            if points.ndim == 1:
                decision = self.select(points, arms, propensity=propensity, time=time)
            else:
                names, rows = self._names_and_rows(arms)
                self._check_floor(len(names), names)
                t, contexts = self._decisions + 1, self._with_constant(points)
                points = contexts[:, contexts.shape[1] - points.shape[1] :]  # one copy is enough
                points.flags.writeable = False  # propensities are computed from it later
                with self._all_or_none(contexts, deciding=True):
                    self._move(time)
                    decided = self._belief.decide_rows(t, contexts, rows, self._stream)
                    if decided is None:
                        self._refuse(context)
                places, scores, law = decided
                if self._limits is not None:
                    places, scores, law = self._limit_rows(names, rows, places, scores, law)
                self._decisions += len(points)
                if self._falling:
                    self._fall()
                decision = Decision(names, places, scores, law, points, (t - 1, self._rewards), propensity)
            self._names_of_features = labels
            return decision

    def _fall(self) -> None:
        """Tell the belief the level of the next decision, if it is another one."""
        level = self._settings.alpha
        if isinstance(level, Schedule) and level.signed_draws(self._decisions + 1) != self._belief.rule.n:
            self._use_settings()

    # -- rewards -------------------------------------------------------------------------------------------

    def update(
        self,
        context: ContextLike | None,
        arm: Arm | Sequence[Arm],
        reward: ArrayLike,
        *,
        time: TimeLike | Sequence[TimeLike] = None,
        unknown: str = "raise",
    ) -> Self:
        """Learn a reward of an arm in a context, or many; a batch is learned whole or not at all.

        Parameters
        ----------
        context : ContextLike or None
            Context [D], or contexts [T, D].
        arm : str or int, or sequence of them
            The arm, or arms [T].
        reward : array-like
            The reward, or rewards [T].
        time : float or datetime, or sequence of them, optional
            Time of the decision, one or [T], for a half-life in time. A late reward enters as faded as it is old.
        unknown : {"raise", "skip"}, default="raise"
            What to do with rewards of arms that are not there. Skipped ones are counted in ``skipped``.

        Returns
        -------
        LinearBandit
            The bandit itself.

        Raises
        ------
        DataError
            If an arm is unknown, shapes differ, or a number is not finite or not of the kind of rewards.

        Warns
        -----
        PrudentWarning
            If rewards were skipped.

        Examples
        --------
        >>> LinearBandit(2, dim=1).update([[1.0], [2.0]], [0, 1], [1.0, 0.0]).pulls
        {0: 1, 1: 1}
        """
        try:
            kind = type(context)
            point = None
            if kind in PLAIN and (kind is not _ndarray or context.dtype.kind != "c"):  # type: ignore[union-attr]
                point = _array(context, _FLOAT)
        except (TypeError, ValueError, OverflowError):
            point = None
        if unknown != "raise":
            one_of(unknown, "unknown", ("raise", "skip"))
        with self._lock:
            if point is None or point.ndim != 1:
                return self._update_rows(context, arm, reward, time, unknown)
            try:
                row = self._index[arm]  # type: ignore[index]
            except (KeyError, TypeError):
                if unknown == "skip":
                    self._skip([arm], 1)
                    return self
                row = self._arm_index(arm)
            try:
                value = reward if type(reward) is float else float(reward)  # type: ignore[arg-type]
            except (TypeError, ValueError, OverflowError):
                text = f"reward must be a number, got {reward!r}"[:200]
                raise DataError(text, code="not-a-number", argument="reward") from None
            self._changing = True  # as ``Changing`` does, in less time
            try:
                if self._direct:
                    if not self._belief.learn_one(point, row, value, 1.0):
                        self._require_number(value)
                        self._refuse(context)
                else:
                    if not self._fits(point):
                        self._refuse(context)
                    self._require_number(value)
                    self._belief.require(reward, _array([value]))
                    with self._all_or_none(point):
                        self._belief.learn_one(point, row, value, float(self._weights(time, 1)[0]))
                self._rewards += 1
            finally:
                self._changing = False
        return self

    def _update_rows(self, context: Any, arm: Any, reward: Any, time: Any, unknown: str) -> Self:
        """Learn in contexts [T,D], or in one that is no list or array of numbers."""
        points, labels = self._read(context, learn=True)
        single = not isinstance(reward, (list, tuple)) and np.ndim(reward) == 0
        if points.shape[:-1] == (1,) and single and isinstance(arm, (str, int)):
            points = points[0]  # a row vector
        if points.ndim == 1:
            self.update(points, arm, reward, time=time, unknown=unknown)
        else:
            require_shape(np.asarray(arm, dtype=object), "arm", (len(points),), "[T]")
            values, arms = self._checked_rewards(reward, (len(points),)), list(arm)
            kept = [t for t, name in enumerate(arms) if unknown == "raise" or self._has(name)]
            rows = [self._arm_index(arms[t], f"arm[{t}]") for t in kept]
            if len(kept) < len(arms):
                self._skip([name for name in arms if not self._has(name)], len(arms))
            contexts = self._with_constant(points[kept])
            with Changing(self), self._all_or_none(contexts):
                weights = self._weights(time, len(points))
                self._belief.learn(contexts, np.array(rows, dtype=np.int64), values[kept], weights[kept])
                self._rewards += len(kept)
        self._names_of_features = labels
        return self

    def __repr__(self) -> str:
        return (
            f"LinearBandit({len(self._names)} arms, dim={self._dim}, settings={self._settings.label!r}, "
            f"{self._decisions} decisions, {self._rewards} rewards)"
        )

    @classmethod
    def _blank(cls, names: list[Arm], values: dict[str, Any], arrays: Arrays, **options: Any) -> Self:
        priors = arrays["prior_precision"]
        if priors.ndim != 3 or not len(priors):
            raise ValueError(f"priors of shape {priors.shape}")
        size = values.get("dim", priors.shape[1] - bool(options["intercept"])) + bool(options["intercept"])
        return cls(
            names,
            size - bool(options["intercept"]),
            noise=values.get("noise", "shared"),
            prior_precision=values.get("given", priors[0]) if values["prior"] == "given" else None,
            interactions=values.get("interactions", "none"),
            **options,
        )
