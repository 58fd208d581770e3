"""SharedLinearBandit: many items that share one theta; it ranks by features, so items may come and go.

The mathematics is in ``prudent.bandits.kernels.items``, the law of scores in ``prudent.bandits.law``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    flag,
    one_of,
    positive,
    require_length,
    whole_number,
)
from .._support.locks import Changing
from .._support.memory import require_memory
from .._support.state import Arrays
from ..data.features import Names, read_named
from ..data.log_files import about_of, logged
from ..data.source import is_table
from ..data.transformers import FeaturesLike, column_names, is_encoder
from ..errors import DataError, ParameterError
from ..schedules import Schedule
from ..types import ArrayLike, ContextLike, RngLike, TableLike
from .arm_names import arm_names, listed_names
from .belief.glm import LINKS
from .belief.glm_items import GlmItems
from .belief.items import GaussianItems, ItemBelief
from .checks import item_prior, options_of, refuse_noise, settings_of
from .checkup import Checkup, item_checkup
from .decision import Arm, Decision
from .fading import HalfLifeLike, TimeLike
from .law.base import Law
from .places import MOST_PLACES, ItemPlaces
from .settings import BanditSettings, checked_sd

if TYPE_CHECKING:
    import xarray

    from .explain import Parts, PartsOf


_total = np.add.reduce  # sooner than a method


class SharedLinearBandit(ItemPlaces):
    """Bandit that chooses among items by their features, all with the same coefficients, and with a dial for risk.

    An item with features x pays x'theta plus noise; for clicks and counts x'theta is a log odds or log rate. What is
    learned from one item is known of all: an item that was never tried is ranked by its features. Give each decision
    the features [k, D] of its candidates, on one scale. Features of the user and of the moment matter only in products
    with those of items: put such products into the rows.

    Parameters
    ----------
    dim : int, optional
        Number of features of an item. The default is the number of `features`.
    alpha : float or Schedule, optional
        Risk level in (-1, 1), or a schedule of it such as ``Decay``. 0 is Thompson sampling; 0 to 0.5 is
        recommended online. The default is 0, and 0.5 for clicks and counts.
    noise_sd : float, optional
        Sd of the noise of rewards. By default it is learned, so that the unit of rewards does not matter; until two
        different rewards were seen all candidates are equally likely.
    rng : RngLike, optional
        Seed, or Generator, which the bandit then owns.
    features : Features or iterable of str or transformer, optional
        Names of the features, by which dicts and tables of pandas are read. The default is the names of the first such
        rows. Lists and arrays go by position. Or ``Features``, which make numbers of categories, tags, times and so on,
        of which the bandit keeps a copy; or a fitted transformer of scikit-learn.
    rewards : {"gaussian", "bernoulli", "poisson"}, default="gaussian"
        Kind of rewards: real numbers, clicks (0 or 1) or counts.

    Other Parameters
    ----------------
    intercept : bool, default=True
        Put a constant feature before the others. Its prior mean is learned with the noise.
    prior_precision : array-like, optional
        Prior precision P of theta: a number (times the identity) or a matrix [D, D], with or without a row for the
        intercept. For normal rewards the covariance is noise^2 P^-1, and the default is 1. For clicks and counts it is
        P^-1, and by default the prior is learned.
    offsets : bool, default=False
        Give each item something of its own, x'theta + b with b ~ Normal(0, noise^2 / offset_precision). Items are then
        known by name. For normal rewards only.
    offset_precision : float, optional
        Prior precision of the offsets, in units of the noise. By default it is learned from all items: where they
        differ by their features alone, offsets come to nothing.
    places : int, optional
        Number of places of a slate whose chances to be looked at are learned with theta, for clicks and counts: a click
        at place p has the chance e_p times that of the item. ``update`` then takes the place of each reward, and
        ``looked_at`` says what was learned. By default a reward says the same wherever the item stood.
    draws : {"independent", "joint"}, default="independent"
        Whether every item draws its score from its own marginal, for which propensities are exact, or all from common
        draws of theta, for which they are sampled.
    min_propensity : float, optional
        Smallest probability of a candidate to come first: with k times this probability the slate is uniform.
    exploration : float or "auto", optional
        Sd of a draw over the sd of the posterior. With ``"auto"`` it grows from 0.5 to 1 with the number of decisions;
        see ``BanditSettings``. The default is ``"auto"`` for clicks and counts without a given `alpha`, of which each
        tells so little that full draws try poor items for long, else 1.
    half_life : float or timedelta, optional
        Half-life of evidence, in decisions or in time; with time, ``select`` and ``update`` take ``time=``.
    settings : BanditSettings, optional
        All settings at once, in place of `alpha`.

    Raises
    ------
    ParameterError
        If an argument is out of range, or two exclude each other.

    See Also
    --------
    LinearBandit : Arms with coefficients of their own.
    Journal : Writes decisions and rewards down before they count.

    Examples
    --------
    >>> bandit = SharedLinearBandit(dim=2, alpha=0.5, rng=7)
    >>> items = {"tea": [1.0, 0.2], "coffee": [0.9, 0.8], "juice": [0.1, 0.5]}
    >>> decision = bandit.select(items, top=2)
    >>> decision.propensity                       # nothing is known yet
    0.3333333333333333
    >>> bandit.update(decision.chosen, decision.slate, [1.0, 0.0])
    SharedLinearBandit(dim=2, settings='BRPS(0.5)', 1 decisions, 2 rewards)
    >>> bandit.select(items).arm in items
    True
    """

    _KIND: ClassVar[str] = "SharedLinearBandit"
    _checked_names: tuple[Arm, ...] = ()  # of the last decision; nobody can change a tuple
    _text: list[Arm] | None = None  # the same if they are all texts, which nothing but texts are equal to

    def __init__(
        self,
        dim: int | None = None,
        *,
        alpha: float | Schedule | None = None,
        noise_sd: float | None = None,
        rng: RngLike = None,
        features: FeaturesLike | None = None,
        rewards: str = "gaussian",
        intercept: bool = True,
        prior_precision: ArrayLike | None = None,
        offsets: bool = False,
        offset_precision: float | None = None,
        places: int | None = None,
        draws: str = "independent",
        min_propensity: float | None = None,
        exploration: float | str | None = None,
        half_life: HalfLifeLike = None,
        settings: BanditSettings | None = None,
    ) -> None:
        one_of(rewards, "rewards", ["gaussian", *LINKS])
        if exploration is None and settings is None and alpha is None and rewards != "gaussian":
            exploration = "auto"
        chosen = settings_of(settings, alpha, rewards, {"min_propensity": min_propensity, "exploration": exploration})
        own = flag(offsets, "offsets")
        self._set_features(dim, features, intercept, ("offset",) * own)
        sd = None if noise_sd is None else checked_sd(noise_sd, "noise_sd")
        precision = "learned" if offset_precision is None else positive(offset_precision, "offset_precision")
        if not isinstance(precision, str) and not 1e-60 <= precision <= 1e60:
            message = f"offset_precision is {precision}, expected a number from 1e-60 to 1e+60"
            raise ParameterError(message, code="value-range", argument="offset_precision", value=precision)
        size = self._dim + self._intercept
        require_memory(32.0 * size**2, "dim", self._dim)
        prior = None if prior_precision is None else item_prior(prior_precision, self._dim, self._intercept)
        belief: ItemBelief
        known = 1 if places is None else whole_number(places, "places", 2, MOST_PLACES)
        if rewards == "gaussian":
            if places is not None:
                message = "places go with clicks and counts: give rewards='bernoulli' or 'poisson'"
                raise ParameterError(message, code="conflicting-arguments", argument="places")
            blank = np.eye(size) if prior is None else prior
            belief = GaussianItems(blank, self._intercept, sd, draws, precision if own else None)
        else:
            refuse_noise(rewards, sd)
            if own:
                message = f"offsets do not go with rewards={rewards!r}"
                raise ParameterError(message, code="conflicting-arguments", argument="offsets")
            belief = GlmItems(rewards, size, prior, self._intercept, draws, known)
        super().__init__(belief, chosen, half_life, rng)
        self._index: dict[Arm, int] = {}  # of the items that have offsets

    @classmethod
    def from_log(cls, log: TableLike, **options: Any) -> Self:
        """Return a bandit that has learned from a log of (context, reward) or (context, arm, reward) rows.

        Parameters
        ----------
        log : TableLike
            Sequence of such rows, or a table with columns ``context``, ``reward`` and, if there are offsets, ``arm``.
            Of a table without ``context``, ``features=[...]`` names the columns that make it.
        **options : object
            Parameters of the class.

        Returns
        -------
        SharedLinearBandit
            A bandit with `dim` of the log.

        Raises
        ------
        DataError
            If the log cannot be read.

        Examples
        --------
        >>> log = [([1.0, 0.0], "a", 2.0), ([0.0, 1.0], "b", 1.0)]
        >>> SharedLinearBandit.from_log(log, offsets=True).n_rewards
        2
        """
        about, contexts, arms, rewards = _log_columns(log, column_names(options.get("features")))
        options = options if about is None else options_of(about, options)
        if is_encoder(options.get("features")):
            made = cls(**options)
            points = super(SharedLinearBandit, made)._read(contexts, (2,), learn=True)[0]
            return made.update(points, arms, rewards)
        named = read_named(contexts, None, "context")
        if named is None:
            contexts = finite_array([list(point) for point in contexts], "context", ndim=2)
        elif isinstance(contexts, dict):  # columns of the table
            options["features"], contexts = named.names, named.values
        size = contexts.shape[1] if named is None else named.values.shape[1]
        return cls(size, **options).update(contexts, arms, rewards)

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def posterior(self) -> Any:
        """Copy of the posterior of theta; the intercept, if there is one, comes first.

        It has the moments that decisions are taken from, given the noise.

        Examples
        --------
        >>> bandit = SharedLinearBandit(dim=1, noise_sd=1.0, intercept=False)
        >>> bandit.update([1.0], None, 4.0).posterior.mean()
        array([2.])
        """
        with self._lock:
            return self._belief.posterior(0)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and sds of theta; the intercept, if there is one, comes first.

        Returns
        -------
        tuple of ndarray of float, [D]
            Means and standard deviations.

        Examples
        --------
        >>> SharedLinearBandit(dim=1, noise_sd=1.0, intercept=False).update([1.0], None, 4.0).coefficients()[0]
        array([2.])
        """
        with self._lock:
            mean, root, noise = self._belief.theta()
            sd = np.inf if noise == 0.0 else noise * np.sqrt((root**2).sum(axis=0))
            return mean.copy(), np.broadcast_to(sd, mean.shape).copy()

    def to_xarray(self) -> xarray.Dataset:
        """Return what is known of theta as an xarray.Dataset.

        Returns
        -------
        xarray.Dataset
            ``mean`` and ``sd`` [feature] of theta and its ``covariance``, intercept first; with offsets also ``pulls``
            [arm], the numbers of rewards of the items.

        Examples
        --------
        >>> SharedLinearBandit(features=["price"], noise_sd=1.0).update([1.0], None, 3.0).to_xarray()["mean"].values
        array([1., 1.])
        """
        from .explain import dataset

        with self._lock:
            mean, sd = self.coefficients()
            covariance, pulls = self._belief.coefficients()[1][0], self.pulls
            counts = {"pulls": list(pulls.values())} if pulls else {}
            labels, arms = self._labels(self.features), tuple(pulls)
            return dataset(labels, mean, sd, covariance, arms, counts, self._attributes())

    def check(self) -> Checkup:
        """Look for features on different scales, and for features that never change.

        Returns
        -------
        Checkup
            Findings, to be printed or iterated over.

        Examples
        --------
        >>> rows = [[0.001 * i, 100.0 * (i % 7)] for i in range(40)]
        >>> bandit = SharedLinearBandit(dim=2).update(rows, None, [float(i % 3) for i in range(40)])
        >>> [finding.kind for finding in bandit.check()]
        ['scales']
        """
        with self._lock:
            sums = self._belief.design_sums()
            return item_checkup(sums, self._rewards, self._intercept, self.features, self._spans)

    # -- decisions -----------------------------------------------------------------------------------------

    def select(
        self,
        context: ContextLike | Mapping[Arm, ArrayLike],
        arms: Iterable[Arm] | None = None,
        top: int = 1,
        *,
        propensity: bool = True,
        time: TimeLike = None,
    ) -> Decision:
        """Choose ``top`` of k candidates, best first.

        Parameters
        ----------
        context : ContextLike or mapping
            Features [k, D] of the candidates, or a dict from names to features.
        arms : iterable of str or int, optional
            Names of the candidates. The default is the index of a DataFrame or the keys of a dict, else 0 to k - 1.
            Bandits with offsets need names.
        top : int, default=1
            Length of the slate.
        propensity : bool, default=True
            Keep what probabilities are computed from, when they are read.
        time : float or datetime, optional
            Seconds since 1970 or a date with time, for a half-life in time. The default is now.

        Returns
        -------
        Decision
            The slate, its scores, and the probability with which the first item came first.

        Raises
        ------
        DataError
            If features have another shape or are not finite.
        ParameterError
            If names are missing or occur twice, or `top` exceeds the number of candidates.

        Examples
        --------
        >>> bandit = SharedLinearBandit(dim=2, noise_sd=1.0, rng=1)
        >>> decision = bandit.select([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], arms=["x", "y", "z"], top=2)
        >>> len(decision.slate), decision.arm == decision.slate[0], decision.chosen.shape
        (2, True, (2, 2))
        """
        with self._lock:
            features, names, labels = self._candidates(context, arms, learn=True)
            top = self._checked_top(top, len(names))
            self._check_floor(len(names))
            t = self._decisions + 1
            settings = self._settings.at(t, item=True)
            with nullcontext() if self._drift is None else self._all_or_none(features, deciding=True):
                self._move(time)
                law: Any = self._belief.law(features, self._rows(names), settings, t)
                uniform, spread = law.uniform() is not None, _total(law.sd)  # infinite while the noise is unknown
                if not (math.isfinite(_total(law.mean)) and (spread < math.inf or (uniform and spread == math.inf))):
                    message = "context has features for which scores would not be finite: scale the features"
                    raise DataError(message, code="too-large", argument="context")
            if not uniform and settings.min_propensity > 0.0:
                uniform = float(self._uniforms(1)[0]) < len(names) * settings.min_propensity
            if uniform:
                drawn = self._uniforms(len(names)).copy()
            else:
                drawn = law.draw(self._uniforms(law.uniforms_needed), top)
            order = self._best(drawn, top)
            version = self._decisions, self._rewards
            self._decisions += 1
            self._names_of_features = labels
        scores = law.mean[order] if uniform else drawn[order]
        return Decision(names, order, scores, law, features[order[0]], version, propensity, features)

    def checked_contexts(
        self, context: Any, arms: Iterable[Arm] | None = None, top: int | None = None
    ) -> list[Any] | None:
        """Return the candidates of several decisions, all of them checked, without deciding.

        If they name features, the bandit knows their names afterwards.

        Parameters
        ----------
        context : array-like, [T, k, D], or sequence of tables
            Features of the candidates.
        arms : iterable of str or int, optional
            Names of the candidates, which are checked too.
        top : int, optional
            Length of the slates, which is checked too.

        Returns
        -------
        list or None
            Features of each decision; None if it is one decision.
        """
        tables = isinstance(context, (list, tuple)) and any(hasattr(type(rows), "columns") for rows in context)
        try:
            slates = context if tables else np.asarray(context)
            slates = slates if tables or np.iscomplexobj(slates) else np.asarray(slates, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            return None
        if not (tables or slates.ndim == 3):
            return None
        for rows in slates:
            _, names, labels = self._candidates(rows, arms)
            self._check_floor(len(names))
            self._checked_top(1 if top is None else top, len(names))
            if labels is not None and self.features is None and self._encoder is None:
                self.name_features(labels)
        return list(slates)

    def _next_law(self, context: Any, arms: Any, check_floor: bool) -> tuple[Law, bool]:
        features, names, _ = self._candidates(context, arms)
        if check_floor:
            self._check_floor(len(names))
        with self._lock:
            t = self._decisions + 1
            return self._belief.law(features, self._rows(names), self._settings.at(t, item=True), t), False

    def _explained(self, context: Any, arms: Any) -> tuple[Law, Sequence[Arm], IntArray, PartsOf, dict[str, Any]]:
        features, names, labels = self._candidates(context, arms)
        law, _ = self._next_law(features, names, True)
        belief, rows, (mean, sd) = self._belief, self._rows(names), self.coefficients()

        def parts(two: list[int]) -> Parts:
            _, root, noise = belief.theta()
            noise, constant = noise or np.inf, belief.with_constant(features[two])
            design = belief.design(features[two], rows[two] if rows.size else rows)
            coefficients, sds = np.tile(mean, (2, 1)), np.tile(sd, (2, 1))
            if belief.offsets:  # b is m_r - m_s'theta, and what is left of it
                own = constant - design.rows
                coefficients = np.column_stack([coefficients, design.shifts - own @ mean])
                spread = np.hypot(np.linalg.norm(own @ root.T, axis=1), design.spreads)
                sds = np.column_stack([sds, noise * spread])
                constant = np.column_stack([constant, np.ones(2)])
            apart = np.linalg.norm([*(root @ (design.rows[0] - design.rows[1])), *design.spreads])
            return constant, coefficients, sds, float(noise * apart) if apart > 0.0 else 0.0

        pulls = np.array([self.pulls.get(name, 0) for name in names])
        facts = {"features": self._labels(labels) + ("offset",) * belief.offsets, "shared": self._rewards}
        return law, names, pulls, parts, facts

    def _uniforms(self, need: int) -> FloatArray:
        stream = self._stream
        stream.reserve(need)
        taken = stream.block[stream.next : stream.next + need]
        stream.next += need
        return taken

    def _best(self, scores: FloatArray, top: int) -> IntArray:
        """Return the places of the ``top`` highest scores; ties are broken by chance."""
        if top == 1:
            highest = np.flatnonzero(scores == scores.max())
            place = 0 if highest.size == 1 else int(float(self._uniforms(1)[0]) * highest.size)
            return highest[place : place + 1]
        drawn = np.flatnonzero(scores > -np.inf)  # the others cannot be among them
        order = drawn[np.argsort(-scores[drawn], kind="stable")]
        ranked = scores[order[: top + 1]]
        if (ranked[1:] == ranked[:-1]).any():
            order = drawn[np.lexsort((self._uniforms(scores.size)[drawn], -scores[drawn]))]
        return order[:top]

    # -- rewards -------------------------------------------------------------------------------------------

    def update(
        self,
        context: ContextLike,
        arm: Arm | Sequence[Arm] | None,
        reward: ArrayLike,
        *,
        place: int | Sequence[int] | None = None,
        time: TimeLike | Sequence[TimeLike] = None,
    ) -> Self:
        """Learn a reward of an item, or many; a batch is learned whole or not at all.

        Parameters
        ----------
        context : ContextLike
            Features [D] of the item, or [T, D] of items.
        arm : str or int, or sequence of them, or None
            Name of the item, or names [T]. Only bandits with offsets need it.
        reward : array-like
            The reward, or rewards [T].
        place : int or sequence of int, optional
            Place of the item on its slate, from 0, or places [T]: needed if the bandit learns `places`, else not used.
        time : float or datetime, or sequence of them, optional
            Time of the decision, one or [T], for a half-life in time. A late reward enters as faded as it is old.

        Returns
        -------
        SharedLinearBandit
            The bandit itself.

        Raises
        ------
        DataError
            If a name is missing, shapes differ, or a number is not finite or not of the kind of rewards.

        Examples
        --------
        >>> bandit = SharedLinearBandit(dim=1, offsets=True)
        >>> bandit.update([[1.0], [2.0]], ["a", "b"], [1.0, 0.0]).pulls
        {'a': 1, 'b': 1}
        """
        with self._lock, Changing(self):
            points, labels = self._read(context, learn=True)
            values = self._checked_rewards(reward, points.shape[:-1]).reshape(-1)
            contexts = self._belief.with_constant(points.reshape(-1, self._dim))
            names, stood = self._learned_names(arm, len(values)), self._learned_places(place, len(values))
            known = len(self._index)
            try:
                with nullcontext() if self._drift is None else self._all_or_none(contexts):
                    weights = self._weights(time, len(values))
                    self._belief.learn(contexts, self._new_rows(names) if stood is None else stood, values, weights)
            except BaseException:
                self._index = {name: row for name, row in self._index.items() if row < known}
                self._belief.keep_rows(known)
                raise
            self._rewards += len(values)
            self._names_of_features = labels
        return self

    def _learned_names(self, arms: Any, count: int) -> tuple[Arm, ...]:
        """Return the names of items whose rewards are learned; nothing for a bandit without offsets."""
        if not self._belief.offsets:
            return ()
        if arms is None:
            message = "arm is missing: a bandit with offsets learns the rewards of items by name"
            raise DataError(message, code="missing-argument", argument="arm")
        names = listed_names([arms] if isinstance(arms, (str, int, np.generic)) else arms, "arm", DataError)
        require_length(names, "arm", count, "reward")
        return names

    def _new_rows(self, names: tuple[Arm, ...]) -> IntArray:
        """Return the rows [T] of items among the offsets; new ones get one."""
        new = [name for name in dict.fromkeys(names) if name not in self._index]
        self._belief.add_rows(len(new))
        self._add_names(new)
        return np.array([self._index[name] for name in names], dtype=np.int64)

    def _add_names(self, names: list[Arm]) -> None:
        self._index |= {name: row for row, name in enumerate(names, len(self._index))}

    def _log_rows(self, log: Any) -> tuple[FloatArray, IntArray, FloatArray, Names | None]:
        _, contexts, _, rewards = _log_columns(log, self._columns)
        points, labels = super()._read(contexts, (2,))
        values = self._checked_rewards(rewards, (len(points),))
        return self._belief.with_constant(points), np.zeros(len(points), dtype=np.int64), values, labels

    # -- what is given -------------------------------------------------------------------------------------

    def _read(
        self, context: Any, axes: tuple[int, ...] = (1, 2), copy: bool = True, learn: bool = False
    ) -> tuple[FloatArray, Names | None]:
        rows, labels = super()._read(context, axes, copy, learn)
        if isinstance(context, Mapping) and rows.ndim > 1:
            message = "context is a dict of lists, of items or of features? Give a list of rows, or a table"
            raise DataError(message, code="ambiguous-table", argument="context")
        return rows, labels

    def _encoded_rows(self, context: Any) -> Any:
        return list(context.values()) if isinstance(context, Mapping) else context

    def _candidates(
        self, context: Any, arms: Iterable[Arm] | None, learn: bool = False
    ) -> tuple[FloatArray, tuple[Arm, ...], Names | None]:
        """Return features [k,D] and names of distinct candidates, and the names of the features."""
        if isinstance(context, Mapping) and arms is None:
            context, arms = list(context.values()), list(context)
        rows, labels = self._read(context, (2,), learn=learn)
        if arms is None and hasattr(type(context), "index") and hasattr(context, "to_numpy"):
            arms = context.index  # of pandas
        if arms is None:
            if self._belief.offsets:
                message = "arms is missing: a bandit with offsets knows items by name"
                raise ParameterError(message, code="missing-argument", argument="arms")
            arms = _numbers(len(rows))
        before = self._checked_names
        again = arms is before or (type(arms) is list and arms == self._text)
        if again and 0 < len(before) == len(rows):
            return rows, before, labels
        names = listed_names(arms, "arms", ParameterError)
        require_length(names, "arms", len(rows), "row of features", error=ParameterError)
        if not names:
            raise ParameterError("context is empty: there is no candidate", code="empty", argument="context")
        if len(set(names)) < len(names):
            arm_names(names, "arms")  # which names the second one
        self._checked_names = names
        self._text = list(names) if type(names[0]) is str and set(map(type, names)) == {str} else None
        return rows, names, labels

    def _rows(self, names: tuple[Arm, ...]) -> IntArray:
        if not self._belief.offsets:
            return np.empty(0, dtype=np.int64)
        return np.array([self._index.get(name, -1) for name in names], dtype=np.int64)

    def __repr__(self) -> str:
        items = f", {len(self._index)} items" if self._belief.offsets else ""
        return (
            f"SharedLinearBandit(dim={self._dim}, settings={self._settings.label!r}{items}, "
            f"{self._decisions} decisions, {self._rewards} rewards)"
        )

    @classmethod
    def _blank(cls, names: list[Arm], values: dict[str, Any], arrays: Arrays, **options: Any) -> Self:
        priors = arrays["prior_precision"]
        prior = priors if priors.ndim == 2 else priors[0]
        offset, places = values.get("offset_precision"), values.get("places")
        size = len(prior) - (0 if places is None else whole_number(places, "places", 2, MOST_PLACES) - 1)
        prior = prior[:size, :size]
        return cls(
            size - bool(options["intercept"]),
            draws=values["draws"],
            places=places,
            prior_precision=prior if values["prior"] == "given" else None,
            offsets=offset is not None,
            offset_precision=None if values.get("offsets") == "learned" else offset,
            **options,
        )


@lru_cache(maxsize=4)
def _numbers(count: int) -> tuple[int, ...]:
    """Return 0 to ``count`` - 1: the same object again for the same number."""
    return tuple(range(count))


def _log_columns(log: Any, features: Any) -> tuple[Any, Any, Any, Any]:
    """Return what a log says of itself, contexts, arms (None if the log names none) and rewards."""
    if about_of(log) is not None:
        named = True
    elif is_table(log):
        named = "arm" in log
    else:
        log = list(log) if isinstance(log, Iterable) else log
        named = isinstance(log, list) and bool(log) and isinstance(log[0], Sequence) and len(log[0]) == 3
    about, (contexts, *arms, rewards) = logged(log, features, *(["arm"] if named else []), "reward")
    return about, contexts, arms[0] if arms else None, rewards
