"""The linear bandit of a product: it decides, learns, knows its chances, and survives a restart.

The mathematics is told in :mod:`prudent.bandits` and :mod:`~prudent.bandits.step`. This file checks what the user gives
and keeps the state; kernels in :mod:`~prudent.bandits.step` decide and learn.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    first_index,
    flag,
    generator,
    non_negative_array,
    open_probability,
)
from .._support.state import (
    Arrays,
    State,
)
from ..data.features import PLAIN, read_named
from ..data.source import context_columns
from ..errors import DataError, ParameterError, PrudentError
from ..posteriors.linear import LinearGaussianPosterior
from ..schedules import Schedule
from .arm_names import arm_names, checked_name, plain_name
from .base import ProductBandit
from .batch import decide_rows, learn_rows
from .checkup import Checkup, checkup
from .clicks import LINKS, Clicks
from .coins import CoinBatch, CoinDecision, Coins
from .decision import Arm, BatchDecision, Decision, Law
from .fading import Drift, HalfLife
from .linear_state import restored, state_of, upgraded
from .merging import merge
from .outlook import chances, moments, shortfall
from .settings import BanditSettings, checked_sd
from .step import (
    BY_ARM,
    CENTRE,
    EXTRAS,
    GAIN,
    LARGEST,
    NOISE,
    PULLS,
    SHARED,
    WHICH,
    Arms,
    Uniforms,
    arms_of,
    decide_one,
    handle_of,
    in_one_piece,
    learn_one,
    noise_of,
    refresh,
    usable,
)
from .table import forget, like_prior, with_new_row, without_row

if TYPE_CHECKING:
    from .explain import Explanation

__all__ = ["LinearBandit"]


_FLOAT = np.dtype(np.float64)
_array = np.array  # looked up once: decisions take microseconds
_NOISES = {"shared": SHARED, "by arm": BY_ARM}


class LinearBandit(ProductBandit):
    """A contextual bandit with linear rewards and a dial for risk.

    ``n_arms`` is a number (arms 0, 1, ...) or the arms' names, strings or integers; contexts have ``dim`` features,
    which should be on one scale (:meth:`check` says if they are not). With ``intercept`` a constant feature is put
    before them; it is the first entry of theta in :meth:`posterior`. The reward of arm a is s'theta_a plus noise.

    **Features by name**: a context may be a dict, or a row or table of pandas. ``features=["age", "price"]`` says the
    names (``dim`` then follows); else those of the first such context are the names. From then on such contexts are
    put into order by name, and refused if one is missing or unknown; lists and arrays always go by position.

    **The noise** is learned unless ``noise_sd`` says its sd. Then decisions depend neither on the unit of rewards nor,
    with the intercept, on where their zero is: before data theta_a ~ Normal((c, 0, ..., 0), noise^2 P^-1), where P is
    ``prior_precision``, a number (times the identity) or a matrix [D,D] (of dim + 1 rows with the intercept), and c is
    the common level of the arms, learned too. Until two different rewards have been seen choices are uniform. With
    ``noise="by arm"`` every arm has a noise of its own, and Student's t takes the place of the normal law. If
    ``noise_sd`` is given, theta_a ~ Normal(0, noise_sd^2 P^-1) before data.

    **Clicks and counts**: with ``rewards="bernoulli"`` rewards are 0 or 1, and 1 has the chance 1 / (1 +
    exp(-s'theta_a)); with ``rewards="poisson"`` they are counts with the rate exp(s'theta_a). Posteriors are normal
    on that scale (Laplace), and so are ``mean``, ``sd`` and ``score`` of a decision; ``predict(..., response=True)``
    tells chances and rates. There is no noise to be given. The prior is learned by default: a common level, by how much
    arms differ from it, and the size of coefficients, which is what makes few clicks go far
    (:mod:`prudent.bandits.clicks`); with a ``prior_precision`` P it is Normal(0, P^-1). Rewards are learned one by one
    with a small error, which :meth:`refit` removes. The default ``alpha`` is 0.5 for them: clicks of a few percent
    tell so little that Thompson sampling tries poor arms for long. With ``dim=0`` there is no context (give None), and
    clicks have the uniform prior and exact Beta posteriors, unless ``prior_precision`` asks for log odds.

    **The risk level** ``alpha`` in (-1, 1) (or a :class:`Decay`, a level that falls, or whole ``settings``): 0, the
    default, is Thompson sampling. It hedges against not knowing the mean reward, not against the noise of rewards.
    Below zero it is optimism: a score is the highest of n draws, and arms of which little is known are sought. A bandit
    with a high level avoids arms of which it knows little, so it may lock in to a poor one: online, 0 to 0.5 is a good
    choice. What cures lock-in: ``first_pulls`` decisions for every arm before scores count, ``min_propensity``, a least
    chance for every eligible arm, and a level that falls (see :class:`BanditSettings`). ``exploration`` below 1 narrows
    the draws, which pays where decisions are few (0.5, not less).

    **Drift**: with a ``half_life`` evidence fades, and the prior stays: a number of decisions, or a time difference;
    then ``select`` and ``update`` take ``time=``, by default now. :meth:`forget` fades at once.

    There is no hidden state between ``select`` and ``update``: rewards may come late, in any order, or never. Threads
    may share a bandit: it has a lock of its own. ``seed`` is a seed or a Generator, which the bandit then owns.
    Processes have a bandit each: forked ones go on with random streams of their own, which differ from run to run;
    ``load(path, stream=worker)`` gives each worker a stream that can be repeated. What they learn is brought together
    by :meth:`merge`, or at once by a :class:`~prudent.bandits.Journal`.

    >>> bandit = LinearBandit(["red", "green", "blue"], dim=2, seed=7)
    >>> decision = bandit.select([1.0, 0.5], arms=["red", "blue"])
    >>> decision.arm in ("red", "blue"), decision.propensity
    (True, 0.5)
    >>> bandit.update([1.0, 0.5], decision.arm, reward=1.0)
    LinearBandit(3 arms, dim=2, settings='TS', 1 decisions, 1 rewards)
    """

    _KIND, _VERSION = "LinearBandit", 5

    def __init__(
        self,
        n_arms: int | Iterable[Arm],
        dim: int | None = None,
        alpha: float | Schedule | None = None,
        *,
        features: Iterable[str] | None = None,
        noise_sd: float | None = None,
        noise: str = "shared",
        rewards: str = "gaussian",
        intercept: bool = True,
        prior_precision: Any = None,
        first_pulls: int | None = None,
        min_propensity: float | None = None,
        exploration: float | None = None,
        half_life: Any = None,
        settings: BanditSettings | None = None,
        seed: Any = None,
    ) -> None:
        names = arm_names(n_arms, "n_arms")
        if alpha is None and settings is None and rewards != "gaussian":
            alpha = 0.5
        more = {"first_pulls": first_pulls, "min_propensity": min_propensity, "exploration": exploration}
        self._settings = _settings(settings, alpha, more)
        self._set_features(dim, features, flag(intercept, "intercept"))
        self._noise_sd = None if noise_sd is None else checked_sd(noise_sd, "noise_sd")
        if noise not in _NOISES:
            raise ParameterError(f"noise must be one of {list(_NOISES)}, got {noise!r}")
        self._noise = noise
        self._clicks = _clicks(rewards, prior_precision is None, self._intercept, self._dim)
        self._check_law()
        size = self._dim + self._intercept
        if prior_precision is None:
            prior_precision = Clicks.first_prior(size, self._intercept) if self._clicks is not None else 1.0
        blank = LinearGaussianPosterior(size, prior_precision)
        self._priors = blank.prior[np.newaxis]  # [J,D,D], of which arms hold a multiple
        half = HalfLife.of(half_life)
        self._drift = None if half is None else Drift(half)
        self._decisions = 0
        self._skipped = 0
        self._stream = Uniforms(generator(seed, "seed"), np.empty(0))
        self._falling = isinstance(self._settings.alpha, Schedule)
        self._use_settings(self._settings.at(1))
        options: dict[str, Any] = {"extra": np.zeros((len(names), EXTRAS, size + 2))}
        if self._unit_sd is None:
            options |= {"kind": _NOISES[noise], "centred": self._intercept}
        gram = np.zeros((len(names), 2, size + 1, size + 1))
        self._set_arms(names, arms_of(blank.prior, self._unit_sd, gram, **options))
        if self._clicks is not None:
            self._clicks.renew(self._arms)

    def _least_dim(self) -> int:
        return 0 if self._intercept else 1

    @property
    def _unit_sd(self) -> float | None:
        """The sd of the noise as kernels take it, None if it is to be learned."""
        return self._noise_sd if self._clicks is None else 1.0

    def _check_law(self) -> None:
        """Raise if settings and noise do not go together."""
        if self._clicks is not None:
            kind = f"rewards={self.reward_kind!r}"
            if self._noise_sd is not None or self._noise != "shared":
                name = "noise_sd" if self._noise_sd is not None else "noise"
                raise ParameterError(f"{name} does not go with {kind}: the law of such rewards has no noise to be set")
            if isinstance(self._clicks, Coins):
                self._clicks.check(self._settings)
            if self._settings.clip:
                raise ParameterError(f"clip does not go with {kind}: scores are not chances, but log odds or log rates")
            return
        if self._noise_sd is None and self._settings.sampling_sd is not None:
            raise ParameterError("sampling_sd is in units of the reward: give noise_sd too, or leave both out")
        own = self._noise == "by arm"
        if own and self._noise_sd is not None:
            raise ParameterError("give noise_sd or noise='by arm', not both: a noise that is given is that of all arms")
        if own and (self._settings.weights.size > 1 or self._settings.clip):
            raise ParameterError(
                "noise='by arm' takes levels of the form 1 - 1/n (0, 0.5, 0.75, 0.8, 0.9, ...), and no clipping"
            )

    def _use_settings(self, settings: BanditSettings) -> None:
        """Work out once what every call needs."""
        self._rule = settings.rule(self._dim + self._intercept, self._unit_sd)
        self._per_arm = self._rule.per_arm
        self._plain = self._rule.floor == 0.0 and self._drift is None and not self._falling
        self._plain = self._plain and not isinstance(self._clicks, Coins)
        self._law: Law = (
            settings.min_propensity,
            settings.signed_draws,
            tuple(self._rule.weights.tolist()),
            settings.clip,
        )

    def _set_arms(self, names: Sequence[Arm], arms: Arms) -> None:
        self._names = tuple(names)
        self._index = {name: i for i, name in enumerate(names)}
        self._every = np.arange(len(names))
        self._arms = in_one_piece(arms)
        self._rewards = int(arms.marks[:, PULLS].sum())
        self._set_handle()

    def _set_handle(self) -> None:
        """Tell kernels where the arms and the rule are; needed whenever one of them is replaced."""
        self._handle = handle_of(self._arms, self._rule, self._intercept)

    @classmethod
    def from_log(
        cls, log: Any, arms: int | Iterable[Arm] | None = None, alpha: float | Schedule | None = None, **options: Any
    ) -> Self:
        """Return a bandit that has learned from a log of (context, arm, reward) rows.

        ``log`` is a sequence of such rows, or a table or mapping with columns ``context``, ``arm`` and ``reward``; of a
        table without ``context``, ``features=[...]`` names the columns that make it. ``arms`` are the arms to choose
        from, by default those of the log in order of appearance. ``options`` are those of the class.

        >>> bandit = LinearBandit.from_log([([1.0], "a", 2.0), ([3.0], "b", 1.0)], alpha=0.5)
        >>> bandit.pulls
        {'a': 1, 'b': 1}
        """
        contexts, pulled, rewards = context_columns(log, options.get("features"), "arm", "reward")
        told = read_named(contexts, None, "context")
        points = finite_array(contexts, "context", ndim=2) if told is None else told.values
        if arms is None:
            names = arm_names(dict.fromkeys(plain_name(name) for name in pulled), "arm", DataError)
        else:
            names = arm_names(arms, "arms")
        return cls(names, points.shape[1], alpha, **options).update(contexts, pulled, rewards)

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The names of the arms."""
        return self._names

    @property
    def alpha(self) -> float:
        """The risk level of the next decision."""
        level = self._settings.at(self._decisions + 1).alpha
        assert not isinstance(level, Schedule)
        return level

    @property
    def settings(self) -> BanditSettings:
        """How decisions are taken."""
        return self._settings

    @property
    def reward_kind(self) -> str:
        """What rewards are: ``"gaussian"``, ``"bernoulli"`` or ``"poisson"``."""
        return "gaussian" if self._clicks is None else self._clicks.rewards

    @property
    def noise(self) -> str:
        """Whether a learned noise is ``"shared"`` by the arms or learned ``"by arm"``."""
        return self._noise

    @property
    def noise_sd(self) -> float | None:
        """The sd of a reward around its mean, given or as learned so far; None if it is not known yet, or not normal.

        With ``noise="by arm"`` it is the typical one, and those of the arms are in :meth:`posterior`.

        >>> bandit = LinearBandit(2, dim=1)
        >>> bandit.noise_sd is None
        True
        >>> bandit.update([[0.0], [0.0], [0.0]], [0, 0, 0], [1.0, 2.0, 3.0]).noise_sd
        1.0
        """
        if self._clicks is not None:
            return None
        with self._lock:
            refresh(self._arms, self._every[:0])
            sd = float(self._arms.pool[NOISE])
        return sd if sd > 0.0 else None

    @property
    def pulls(self) -> dict[Arm, int]:
        """The number of rewards seen of every arm."""
        return dict(zip(self._names, self._arms.marks[:, PULLS].tolist(), strict=True))

    @property
    def skipped(self) -> int:
        """The number of rewards that ``update(..., unknown="skip")`` left out, in this process."""
        return self._skipped

    def posterior(self, arm: Arm) -> LinearGaussianPosterior:
        """Return a copy of the posterior of theta of one arm; the intercept, if there is one, comes first.

        Its prior mean is the common level of the arms, as far as that is learned. With ``noise="by arm"`` it is the
        normal law with the noise of the arm. A learned noise must be known: two different rewards must have been seen.
        Of clicks and counts it is a :class:`LogisticPosterior` or a :class:`PoissonPosterior`.

        >>> LinearBandit(2, dim=1, noise_sd=2.0, intercept=False).posterior(1).covariance()
        array([[4.]])
        """
        with self._lock:
            place = self._arm_index(arm, error=ParameterError)
            if self._clicks is not None:
                return self._clicks.posterior(self._arms, place)
            refresh(self._arms, self._every[:0])
            noise = float(noise_of(self._arms, place))
            if not noise > 0.0:
                raise DataError("the noise is not known before two different rewards have been seen")
            which, pool = self._arms.marks[place, WHICH], self._arms.pool
            start = self._arms.start[which].copy()
            if which == 0 and self._arms.centred:
                start[0] = pool[CENTRE]
            return LinearGaussianPosterior.of_sums(
                self._priors[which].copy(), noise, pool[GAIN] * self._arms.gram[place], start
            )

    def add_arm(self, arm: Arm, like: Iterable[Arm] | None = None) -> Self:
        """Add an arm, which starts from the prior, or from what is known of arms that it is ``like``.

        Then its prior mean is the average of their posterior means. Its prior covariance is the average of their
        posterior covariances, plus how much their means differ.

        >>> LinearBandit(["a"], dim=1).add_arm("b").add_arm("c", like=["a", "b"]).arms
        ('a', 'b', 'c')
        """
        name = checked_name(arm, "arm")
        with self._lock:
            if name in self._index:
                raise ParameterError(f"arm {name!r} is already there")
            prior = None
            if like is not None and isinstance(self._clicks, Coins):
                raise ParameterError("like is not for clicks without context: such arms start from the uniform prior")
            if like is not None:
                prior = like_prior(self._arms, self._eligible(like, "like")[1])
                self._priors = np.concatenate([self._priors, prior[0][np.newaxis]])
            self._set_arms([*self._names, name], with_new_row(self._arms, prior))
            self._solve_clicks([len(self._names) - 1])
        return self

    def _solve_clicks(self, places: Any = None) -> None:
        """Work out roots of priors, and arms of clicks; all others are solved when they are needed."""
        if self._clicks is not None:
            self._clicks.set_prior(self._arms)
            self._clicks.solve(self._arms, places)

    def remove_arm(self, arm: Arm) -> Self:
        """Remove an arm and what was learned of it.

        >>> LinearBandit(["a", "b"], dim=1).remove_arm("a").arms
        ('b',)
        """
        with self._lock:
            place = self._arm_index(arm, error=ParameterError)
            if len(self._names) == 1:
                raise ParameterError(f"arm {arm!r} is the only one: a bandit needs at least one arm")
            names = [name for name in self._names if name != self._names[place]]
            which = self._arms.marks[place, WHICH]
            if which > 0:
                self._priors = np.delete(self._priors, which, axis=0)
            self._set_arms(names, without_row(self._arms, place))
            self._solve_clicks([])
        return self

    # -- decisions -----------------------------------------------------------------------------------------

    @overload
    def select(
        self,
        context: Sequence[float] | Mapping[str, Any] | None = None,
        arms: Iterable[Arm] | None = None,
        *,
        propensity: bool = True,
        time: Any = None,
    ) -> Decision: ...
    @overload
    def select(
        self,
        context: Sequence[Sequence[float]],
        arms: Iterable[Arm] | None = None,
        *,
        propensity: bool = True,
        time: Any = None,
    ) -> BatchDecision: ...
    @overload  # an array may be one context or many
    def select(
        self, context: Any, arms: Iterable[Arm] | None = None, *, propensity: bool = True, time: Any = None
    ) -> Any: ...
    def select(
        self, context: Any = None, arms: Iterable[Arm] | None = None, *, propensity: bool = True, time: Any = None
    ) -> Decision | BatchDecision:
        """Choose among the eligible ``arms`` (by default all) in a context [dim] or in contexts [T,dim].

        One context gives a :class:`Decision`. Contexts [T,dim] give a :class:`BatchDecision`; they are all decided from
        the posterior as it is now, and at the same level. The propensity of a choice is worked out when it is read;
        ``propensity=False`` leaves it out. ``time`` (seconds or a date with time) is for a half-life in time.

        >>> bandit = LinearBandit(3, dim=2, alpha=0.5, seed=1)
        >>> bandit.select([0.2, 0.4]).arm in (0, 1, 2)
        True
        >>> bandit.select([[0.2, 0.4], [1.0, 0.0]], arms=[0, 2]).arm.shape
        (2,)
        """
        if type(context) not in PLAIN:
            found = self._select_named(context, arms, propensity, time)
            if found is not None:
                return found
        try:
            point = _array(context, _FLOAT)
        except (TypeError, ValueError, OverflowError):
            found = self._select_named(context, arms, propensity, time)
            if found is None:
                raise self._context_error(context) from None
            return found
        with self._lock:
            if arms is None:
                names, eligible = self._names, self._every
            else:
                names, eligible = self._eligible(arms)
            k = len(names)
            if point.ndim != 1:
                self._check_floor(k)
                if context is None:
                    return self.select(self._points(None), arms, propensity=propensity, time=time)
                found = self._select_named(context, arms, propensity, time) if type(context) is not np.ndarray else None
                if found is not None:
                    return found
                if isinstance(self._clicks, Coins):
                    return self._select_coins(self._clicks, point, context, names, eligible, propensity, time)
                points = self._checked_rows(point)
                self._move(time)
                decided = decide_rows(self._arms, self._rule, self._decisions + 1, points, eligible, self._stream)
                self._decisions += len(points)
                return BatchDecision(names, decided, self._rule, self._law if propensity else None)
            if not self._plain:
                self._check_floor(k)
                if isinstance(self._clicks, Coins):
                    return self._select_coins(self._clicks, point, context, names, eligible, propensity, time)
                if point.size != self._dim or not usable(point):
                    raise self._context_error(context)
                self._move(time)
            stream, need, decisions = self._stream, k * self._per_arm + 1, self._decisions
            if stream.next + need > stream.block.size:
                stream.reserve(need)
            moments = np.empty((4, k))
            place, score, stream.next = decide_one(
                self._handle, decisions + 1, point, eligible, stream.block, stream.next, moments
            )
            if place < 0:
                raise self._context_error(context)
            self._decisions = decisions + 1
            version = decisions, self._rewards
            return Decision(names, place, score, moments, self._law if propensity else None, point, version)

    def _select_named(
        self, context: Any, arms: Iterable[Arm] | None, propensity: bool, time: Any
    ) -> Decision | BatchDecision | None:
        """Choose in contexts that have names; None if these have none."""
        with self._lock:
            told = self._told(context, "context")
            if told is None:
                return None
            found = self.select(told.values, arms, propensity=propensity, time=time)
            self._names_of_features = told.names
            return found

    def _select_coins(
        self,
        coins: Coins,
        point: FloatArray,
        context: Any,
        names: tuple[Arm, ...],
        eligible: IntArray,
        propensity: bool,
        time: Any,
    ) -> Decision | BatchDecision:
        """Choose between arms without context."""
        if point.ndim not in (1, 2) or point.shape[-1] != 0:
            raise self._context_error(context)
        rows = 1 if point.ndim == 1 else len(point)
        self._move(time)
        law = self._law if propensity else None
        moments = coins.moments(self._arms, eligible)
        settings = self._settings.at(self._decisions + 1)
        scores, chosen, among = coins.decide(self._arms, eligible, settings, rows, self._stream)
        version = self._decisions, self._rewards
        self._decisions += rows
        if point.ndim == 2:
            return CoinBatch(scores, names, chosen, moments, among, law)
        spread = np.where(among[0], np.nan, 0.0) if len(among) else moments[1]
        told = np.stack([*moments, spread, np.ones(len(names))])
        return CoinDecision(scores, names, int(chosen[0][0]), float(chosen[1][0]), told, law, point, version)

    def _move(self, time: Any) -> None:
        """Let the level fall and evidence fade, up to now."""
        level, t = self._settings.alpha, self._decisions + 1
        if isinstance(level, Schedule) and level.signed_draws(t) != self._rule.n:
            self._use_settings(self._settings.at(t))
            self._set_handle()
        if self._drift is not None:
            self._forget(self._drift.move(self._decisions, time))

    def _forget(self, factor: float) -> None:
        if factor == 1.0:
            return
        if self._clicks is not None:
            self._clicks.fade(self._arms, factor)
        else:
            forget(self._arms, self._priors, factor)

    def propensities(self, contexts: Any = None, arms: Iterable[Arm] | None = None) -> FloatArray:
        """Return the chances with which k eligible arms would be chosen next: [k] in a context, [T,k] in contexts.

        Nothing is drawn and nothing changes.

        >>> LinearBandit(["a", "b"], dim=1).propensities([[1.0], [2.0]])
        array([[0.5, 0.5],
               [0.5, 0.5]])
        """
        return chances(self, contexts, arms)

    def predict(
        self, contexts: Any = None, arms: Iterable[Arm] | None = None, *, response: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of the posterior of the mean reward s'theta: each [k] in a context, [T,k] in contexts.

        Of clicks and counts it is that of the score s'theta, log odds or log rate; with ``response`` it is that of the
        chance or the rate itself. Nothing is drawn and nothing changes. As long as a learned noise is not known, sds
        are infinite.

        >>> mean, sd = LinearBandit(2, dim=1, noise_sd=1.0).predict([0.0])
        >>> mean, sd
        (array([0., 0.]), array([1., 1.]))
        >>> clicks = LinearBandit(1, dim=0, rewards="bernoulli").update([[], [], []], [0, 0, 0], [0, 0, 1])
        >>> clicks.predict(response=True)[0]
        array([0.4])
        """
        return moments(self, contexts, arms, response)

    def score(self, contexts: Any = None, arms: Iterable[Arm] | None = None, alpha: float | None = None) -> FloatArray:
        """Return CVaR_alpha of the mean reward s'theta under the posterior: [k] in a context, [T,k] in contexts.

        It is what the drawn scores estimate; ``alpha`` is by default the level of the next decision. Nothing is drawn
        and nothing changes. As long as a learned noise is not known, it is minus infinity for alpha > 0, and infinity
        for alpha < 0.

        >>> LinearBandit(2, dim=1, noise_sd=1.0).score([0.0], alpha=0.5).round(4)
        array([-0.7979, -0.7979])
        """
        return shortfall(self, contexts, arms, alpha)

    def explain(
        self, context: Any = None, arm: Arm | None = None, *, arms: Iterable[Arm] | None = None, features: Any = None
    ) -> Explanation:
        """Return why ``arm``, by default the likeliest choice, would be chosen in a context [dim], or would not.

        It prints as words, and has tables: what each feature adds to the score, for the arm and for the runner-up, and
        what is known of every eligible arm. ``features`` are names of the features, by default those of the
        bandit or of the context, else x0, x1, ... Nothing is drawn and nothing changes. See
        :class:`prudent.bandits.explain.Explanation`.

        >>> bandit = LinearBandit(["a", "b"], dim=1, noise_sd=1.0)
        >>> _ = bandit.update([[1.0]] * 4, ["a", "a", "b", "b"], [3.0, 5.0, 1.0, 1.0])
        >>> print(bandit.explain([1.0], features=["age"]))
        The likeliest choice is 'a', with the chance 99.6%.
        Its mean reward is 3.20 (sd 0.63), known from 2 rewards.
        The runner-up is 'b', with the chance 0.4%: 0.80 (sd 0.63), known from 2 rewards.
        'a' is better with the chance 99.6%: it leads by 2.40 (sd 0.89).
        For 'a': intercept (+1.20), age (+1.20).
        """
        from .explain import explain

        return explain(self, context, arm, arms, features)

    def to_xarray(self, features: Any = None) -> Any:
        """Return what is known of the arms as an xarray.Dataset.

        ``mean`` and ``sd`` [arm, feature] of the coefficients, their ``covariance`` [arm, feature, feature2], the
        intercept first; ``pulls`` and ``tries`` [arm], the numbers of rewards and of decisions. ``features`` are names
        of the features, by default those of the bandit, else x0, x1, ... As long as a learned noise is not known, sds
        are infinite.

        >>> data = LinearBandit(["a", "b"], dim=1, noise_sd=1.0).update([1.0], "a", 3.0).to_xarray()
        >>> data["mean"].sel(arm="a").values
        array([1., 1.])
        """
        from .explain import dataset

        return dataset(self, features)

    def plot(self, features: Any = None, *, level: float = 0.95) -> Any:
        """Return a figure of the coefficients of the arms with intervals at ``level``, the intercepts first.

        Of up to 12 arms, those with the most rewards, and up to 24 features, those that matter most. It is a figure of
        matplotlib: ``bandit.plot().savefig("bandit.png")``.
        """
        from .explain import coefficients_figure

        return coefficients_figure(self.to_xarray(features), open_probability(level, "level"), self.reward_kind)

    def check(self) -> Checkup:
        """Look for what may go wrong: features on different scales, rewards that contradict the model, starved arms.

        Returns findings, to be printed or gone through. See :class:`prudent.bandits.checkup.Checkup`.

        >>> bandit = LinearBandit(2, dim=2, seed=1)
        >>> contexts = [[0.001 * i, 100.0 * (i % 7)] for i in range(40)]
        >>> report = bandit.update(contexts, [i % 2 for i in range(40)], [float(i % 3) for i in range(40)]).check()
        >>> [finding.kind for finding in report]
        ['scales']
        """
        with self._lock:
            refresh(self._arms, self._every)
            features = self._names_of_features
            return checkup(self._arms, self._names, self._intercept, features, normal=self._clicks is None)

    def _names_and_places(self, arms: Iterable[Arm] | None) -> tuple[tuple[Arm, ...], IntArray]:
        return (self._names, self._every) if arms is None else self._eligible(arms)

    def _check_floor(self, k: int) -> None:
        floor = self._settings.min_propensity
        if floor * k > 1.0 + 1e-12:
            raise ParameterError(f"min_propensity is {floor}, but {k} arms are eligible: it can be at most 1/{k}")

    def _checked_rows(self, points: FloatArray) -> FloatArray:
        """Return contexts [T,dim] as kernels take them."""
        if points.ndim != 2 or points.shape[1] != self._dim or not usable(points.reshape(-1)):
            raise self._context_error(points)
        if not self._intercept:
            return np.ascontiguousarray(points)
        rows = np.ones((len(points), self._dim + 1))
        rows[:, 1:] = points
        return rows

    def _points(self, context: Any) -> FloatArray:
        """Return a context or contexts as an array of our own."""
        if context is None:
            if self._dim == 0:
                return np.empty(0)
            raise self._context_error(None)
        told = self._told(context, "context")
        if told is not None:
            return told.values
        try:
            return np.array(context, _FLOAT)
        except (TypeError, ValueError, OverflowError):
            raise self._context_error(context) from None

    # -- rewards -------------------------------------------------------------------------------------------

    def update(self, context: Any, arm: Any, reward: Any, *, time: Any = None, unknown: str = "raise") -> Self:
        """Learn a reward of ``arm`` in a context [dim], or rewards [T] of arms [T] in contexts [T,dim].

        A batch is learned whole or, if something in it is wrong, not at all. Rewards of arms that are not there raise
        an error, or with ``unknown="skip"`` are left out; a warning and :attr:`skipped` say how many. ``time`` is for a
        half-life in time: that of the decision, one or [T]. A reward that comes late enters as faded as it is old.

        >>> LinearBandit(2, dim=1).update([[1.0], [2.0]], [0, 1], [1.0, 0.0]).pulls
        {0: 1, 1: 1}
        """
        if type(context) not in PLAIN and self._update_named(context, arm, reward, time, unknown):
            return self
        try:
            point = _array(context, _FLOAT)
        except (TypeError, ValueError, OverflowError):
            if self._update_named(context, arm, reward, time, unknown):
                return self
            raise self._context_error(context) from None
        if unknown != "raise" and unknown != "skip":
            raise ParameterError(f"unknown must be 'raise' or 'skip', got {unknown!r}")
        with self._lock:
            if point.ndim != 1:
                if type(context) is not np.ndarray and self._update_named(context, arm, reward, time, unknown):
                    return self
                if context is not None:
                    return self._update_rows(point, arm, reward, time, unknown)
                point = self._points(None)
            try:
                place = self._index[arm]
            except (KeyError, TypeError):
                if unknown == "skip":
                    self._skip([arm], 1)
                    return self
                place = self._arm_index(arm)
            try:
                value = reward if type(reward) is float else float(reward)
            except (TypeError, ValueError, OverflowError):
                raise DataError(f"reward must be a number, got {reward!r}"[:200]) from None
            if self._clicks is not None:
                return self._learn_clicks(point, context, place, reward, value, time)
            weight = 1.0
            if self._drift is not None and abs(value) <= LARGEST and point.size == self._dim and usable(point):
                weight = float(self._weights(time, 1)[0])
            if not learn_one(self._handle, point, place, value, weight):
                if not abs(value) <= LARGEST:
                    raise DataError(f"reward is {value}, expected a finite number{_limit(value)}")
                raise self._context_error(context)
            self._rewards += 1
        return self

    def _update_named(self, context: Any, arm: Any, reward: Any, time: Any, unknown: str) -> bool:
        """Learn in contexts that have names; return False if these have none."""
        with self._lock:
            told = self._told(context, "context")
            if told is None:
                return False
            self.update(told.values, arm, reward, time=time, unknown=unknown)
            self._names_of_features = told.names
            return True

    def _learn_clicks(self, point: FloatArray, context: Any, place: int, reward: Any, value: float, time: Any) -> Self:
        assert self._clicks is not None
        if point.shape != (self._dim,) or not usable(point):
            raise self._context_error(context)
        if not abs(value) <= LARGEST:
            raise DataError(f"reward is {value}, expected a finite number{_limit(value)}")
        values = np.array([value])
        self._clicks.require(reward, values)
        rows, places = self._checked_rows(point[np.newaxis]), np.array([place], dtype=np.int64)
        self._clicks.learn(self._arms, rows, places, values, self._weights(time, 1))
        self._rewards += 1
        return self

    def _require_rewards(self, reward: Any, values: FloatArray) -> None:
        """Raise unless rewards [T], which the user gave as ``reward``, are of the kind of this bandit."""
        if self._clicks is not None:
            self._clicks.require(reward, values)

    def refit(self, log: Any, *, weights: Any = None) -> Self:
        """Replace all that was learned of clicks or counts by the exact Laplace posteriors given a whole log.

        ``log`` is as in :meth:`from_log`. ``weights`` [T] >= 0 count rewards more or less than once, e.g.
        0.5 ** (age / half_life). If the prior is learned, it is the one that the whole log says. Arms that are not in
        the log start anew. The mode is found to 1e-12. Of normal rewards the posterior is exact as it is.

        >>> log = [([0.0], "a", 1), ([1.0], "a", 0), ([0.0], "b", 0)]
        >>> bandit = LinearBandit.from_log(log, rewards="bernoulli", prior_precision=1.0)
        >>> bandit.refit(log).posterior("a").mean()
        array([ 0.0685, -0.4144])
        """
        if self._clicks is None:
            raise ParameterError("refit is for clicks and counts: what is learned of normal rewards is exact already")
        contexts, pulled, rewards = context_columns(log, self._names_of_features, "arm", "reward")
        with self._lock:
            told = self._told(contexts, "context")
            points = self._points(contexts) if told is None else told.values
            rows, values, places = self._checked_log(points, pulled, rewards)
            counted = np.ones(len(rows)) if weights is None else non_negative_array(weights, "weights")
            if counted.shape != values.shape:
                raise DataError(f"weights has shape {counted.shape}, expected {values.shape}, one per reward")
            self._clicks.fit(self._arms, rows, places, values, counted)
            self._priors = self._arms.prior.copy()
            self._rewards = len(rows)
            self._names_of_features = self._names_of_features if told is None else told.names
        return self

    def _checked_log(self, points: FloatArray, arms: Any, reward: Any) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return contexts [T,D], rewards [T] and places of arms [T]."""
        rows, values = self._checked_rows(points), finite_array(reward, "reward")
        if values.shape != (len(rows),):
            raise DataError(f"reward has shape {values.shape}, expected ({len(rows)},), one per context")
        self._require_rewards(reward, values)
        places = [self._arm_index(arm, f"arm[{t}]") for t, arm in enumerate(arms)]
        return rows, values, np.array(places, dtype=np.int64)

    def _update_rows(self, points: FloatArray, arms: Any, reward: Any, time: Any, unknown: str) -> Self:
        points = self._checked_rows(points)
        values = finite_array(reward, "reward")
        for name, length in (("arm", np.asarray(arms, dtype=object).shape), ("reward", values.shape)):
            if length != (len(points),):
                raise DataError(f"{name} has shape {length}, expected ({len(points)},), one per context")
        huge = np.abs(values) > LARGEST
        if huge.any():
            raise DataError(f"reward{first_index(huge)} is {values[huge][0]}, too large to square")
        self._require_rewards(reward, values)
        arms = list(arms)
        kept = [t for t, arm in enumerate(arms) if unknown == "raise" or self._knows(arm)]
        places = [self._arm_index(arms[t], f"arm[{t}]") for t in kept]
        weights = self._weights(time, len(points))
        if len(kept) < len(arms):
            self._skip([arm for arm in arms if not self._knows(arm)], len(arms))
            points, values, weights = points[kept], values[kept], weights[kept]
        learning = learn_rows if self._clicks is None else self._clicks.learn
        learning(
            self._arms,
            points,
            np.array(places, dtype=np.int64),
            np.require(values, requirements=["C", "W"]),
            weights,
        )
        self._rewards += len(points)
        return self

    def _weights(self, time: Any, rows: int) -> FloatArray:
        """Let evidence fade up to the latest of ``time``, and return the weights [T] of rewards of these times."""
        if self._drift is None:
            return np.ones(rows)
        left, weights = self._drift.weights(self._decisions, time, rows)
        self._forget(left)
        return weights

    def _knows(self, arm: Any) -> bool:
        try:
            return arm in self._index
        except TypeError:
            return False

    def _skip(self, arms: list[Any], rows: int) -> None:
        self._skipped += len(arms)
        text = f"{len(arms)} of {rows} rewards are of arms that are not there, {arms[0]!r} first, and were left out"
        warnings.warn(text, stacklevel=4)

    # -- words for what is wrong ---------------------------------------------------------------------------

    def _arm_index(self, arm: Any, where: str = "arm", error: type[PrudentError] = DataError) -> int:
        try:
            return self._index[arm]
        except (KeyError, TypeError):
            shown = ", ".join(repr(name) for name in self._names[:8]) + (", ..." if len(self._names) > 8 else "")
            raise error(f"{where} is {arm!r}, which is not one of the arms ({shown})") from None

    def _eligible(self, arms: Iterable[Arm], label: str = "arms") -> tuple[tuple[Arm, ...], IntArray]:
        if isinstance(arms, str):
            raise ParameterError(f"{label} must be a list of arms, got the string {arms!r}")
        try:
            places = [self._arm_index(arm, f"{label}[{i}]", ParameterError) for i, arm in enumerate(arms)]
        except TypeError:
            raise ParameterError(f"{label} must be a list of arms, got {arms!r}") from None
        if not places:
            raise ParameterError(f"{label} is empty: no arm is eligible")
        if len(set(places)) < len(places):
            twice = next(i for i, place in enumerate(places) if place in places[:i])
            raise ParameterError(f"{label}[{twice}] is {self._names[places[twice]]!r} for the second time")
        return tuple(self._names[place] for place in places), np.array(places, dtype=np.int64)

    def _context_error(self, context: Any) -> PrudentError:
        """Return the error that says what is wrong with a context that was refused."""
        if context is None:
            return DataError(f"context is None, expected shape ({self._dim},) or (T, {self._dim})")
        try:
            points = finite_array(context, "context")
        except PrudentError as error:
            return error
        if points.ndim not in (1, 2) or points.shape[-1] != self._dim:
            return DataError(f"context has shape {points.shape}, expected ({self._dim},) or (T, {self._dim})")
        huge = np.abs(points) > LARGEST
        return DataError(f"context{first_index(huge)} is {points[huge][0]}, too large to square")

    def __repr__(self) -> str:
        return (
            f"LinearBandit({len(self._names)} arms, dim={self._dim}, settings={self._settings.label!r}, "
            f"{self._decisions} decisions, {self._rewards} rewards)"
        )

    # -- state ---------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return copy.deepcopy({name: value for name, value in self.__dict__.items() if name != "_handle"})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._set_handle()  # where its own arms are

    def merge(self, other: Self, *, since: Self | None) -> Self:
        """Learn what ``other`` has learned since it was ``since``, each reward once.

        ``since`` is the state from which ``other`` went on: the common ancestor of both, or ``other`` as it was when
        it was last merged into this one; None if it began without data. The result is that of learning the same
        rewards here, up to rounding; of clicks and counts about so. Arms that ``other`` has and this bandit never had
        are added; an arm that this bandit has removed since stays removed.

        >>> base = LinearBandit(["a", "b"], dim=1, seed=3)
        >>> one, two = base.copy(stream=0), base.copy(stream=1)
        >>> _ = one.update([1.0], "a", 2.0), two.update([2.0], "a", 1.0), two.add_arm("c").update([1.0], "c", 4.0)
        >>> one.merge(two, since=base).pulls
        {'a': 2, 'b': 0, 'c': 1}
        """
        merge(self, other, since)
        return self

    def _state(self) -> State:
        return state_of(self)

    @classmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        return restored(cls, values, arrays)

    @staticmethod
    def _upgraded(values: dict[str, Any], arrays: Arrays) -> State:
        return upgraded(values, arrays)


# -- names and logs ----------------------------------------------------------------------------------------


def _settings(settings: BanditSettings | None, alpha: Any, more: dict[str, Any]) -> BanditSettings:
    if settings is None:
        settings = BanditSettings(0.0 if alpha is None else alpha)
    elif alpha is not None:
        raise ParameterError("give alpha or settings, not both: settings have their own alpha")
    elif not isinstance(settings, BanditSettings):
        raise ParameterError(f"settings must be a BanditSettings, got {settings!r}")
    given = {name: value for name, value in more.items() if value is not None}
    if given and settings.label == settings._default_label():  # a name of its own stays
        given["label"] = ""
    return replace(settings, **given)


def _clicks(rewards: Any, learned: bool, intercept: bool, dim: int) -> Clicks | None:
    if rewards == "gaussian":
        return None
    if not isinstance(rewards, str) or rewards not in LINKS:
        raise ParameterError(f"rewards must be one of {['gaussian', *LINKS]}, got {rewards!r}")
    if rewards == "bernoulli" and dim == 0 and learned:
        return Coins()
    return Clicks(rewards, learned=learned, intercept=intercept)


def _limit(value: float) -> str:
    return " of at most 1e150" if math.isfinite(value) else ""
