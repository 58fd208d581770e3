"""A bandit for many items that share one theta: it ranks by features, so items may come and go.

The mathematics is told in :mod:`~prudent.bandits.items`, the chances of a decision in :mod:`~prudent.bandits.slate`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from .._numerics.least_squares import add_observations, add_to_root, solve_posterior
from .._support.checks import (
    FloatArray,
    IntArray,
    finite_array,
    first_index,
    flag,
    generator,
    open_probability,
    positive,
    probability,
    risk_level,
    whole_number,
)
from .._support.state import (
    Arrays,
    State,
)
from ..data.features import Names, read_named
from ..data.source import context_columns, is_table
from ..errors import DataError, ParameterError, PosteriorError
from ..exact import cvar_normal
from ..posteriors.linear import LinearGaussianPosterior
from .arm_names import listed_names
from .base import ProductBandit
from .decision import Arm
from .fading import Drift, HalfLife
from .items import centre_on_items, draw_scores, fade_sums, item_moments, solve_level
from .settings import BanditSettings, checked_sd
from .shared_state import MANY_FEATURES, MOST_ABSORBED, restored, state_of, upgraded
from .slate import IndependentScores, JointScores, Scores, SharedDecision, UniformScores, mixed
from .step import LARGEST, Uniforms, usable

if TYPE_CHECKING:
    from .explain import Explanation

__all__ = ["SharedLinearBandit"]


_LEAST_WEIGHT = 2.0**-200  # of faded evidence; less is none
_LEAST_SPREAD = 1e-13  # of the largest sd or mean: the least sd of a draw, so that no two scores are tied


class ItemView(NamedTuple):
    """What the scores of two items are made of, see :class:`prudent.bandits.explain.Explanation`."""

    rows: FloatArray  # [2,D] features, with the constant, and 1 for the offset
    coefficients: FloatArray  # [2,D]
    sds: FloatArray  # [2,D]
    spread: float  # of the difference of the scores


class SharedLinearBandit(ProductBandit):
    """A bandit that chooses among items by their features, all with the same coefficients, and with a dial for risk.

    An item with features x pays x'theta + noise. What is learned from one item is known of all: an item that was never
    tried is ranked by its features. Give each decision the features [k,D] of its candidates, on one scale. Features of
    the user and of the moment matter only in products with those of items: put such products into the rows.
    Rows may be dicts, or a table of pandas: the names of its columns, or ``features=["price", "age"]`` (``dim`` then
    follows), are those of the features from then on. Such rows are put into order by name, and refused if a name is
    missing or unknown; lists and arrays always go by position.

    ``alpha`` is the risk level: 0 is Thompson sampling, and 0 to 0.5 is recommended online, as high levels stop trying.
    ``noise_sd`` is the sd of the rewards' noise. By default it is learned, so that the unit of rewards does not matter;
    until two different rewards were seen all candidates are equally likely. Before data
    theta ~ Normal(0, noise_sd^2 P^-1) with ``prior_precision`` P, a number (times the identity) or a matrix [D,D].
    ``intercept`` adds a constant feature in the first place; if the noise is learned, so is its prior mean.
    ``offsets=True`` gives each item something of its own, x'theta + b_item with
    b_item ~ Normal(0, noise_sd^2 / offset_precision), for items known by name.

    Every item draws its score from its own marginal by default, ``draws="independent"``: the chance of each item to
    come first is then known exactly. ``draws="joint"`` draws thetas that all items share; chances are then sampled.
    ``min_propensity`` is the least chance of a candidate to come first: with k times this chance the slate is drawn
    uniformly. With a ``half_life`` evidence fades, and the prior stays: a number of decisions, or a time difference;
    then ``select`` and ``update`` take ``time=``, by default now. :meth:`forget` fades at once. ``seed`` is a seed or
    a Generator, which the bandit then owns.

    Rewards may come late, in any order, or never. Threads may share a bandit: it has a lock of its own. A forked
    process draws from a new random stream, not from that of its parent. :meth:`explain` says why an item comes first,
    and a :class:`~prudent.bandits.Journal` writes decisions and rewards down.

    >>> bandit = SharedLinearBandit(dim=2, alpha=0.5, seed=7)
    >>> items = {"tea": [1.0, 0.2], "coffee": [0.9, 0.8], "juice": [0.1, 0.5]}
    >>> decision = bandit.select(items, top=2)
    >>> decision.propensity                       # nothing is known yet
    0.3333
    >>> bandit.update(decision.chosen, [1.0, 0.0])
    SharedLinearBandit(dim=2, alpha=0.5, 1 decisions, 2 rewards)
    >>> bandit.select(items).arm in items
    True
    """

    _KIND, _VERSION = "SharedLinearBandit", 3

    def __init__(
        self,
        dim: int | None = None,
        alpha: float = 0.0,
        *,
        features: Iterable[str] | None = None,
        noise_sd: float | None = None,
        prior_precision: Any = 1.0,
        intercept: bool = True,
        offsets: bool = False,
        offset_precision: float = 1.0,
        draws: str = "independent",
        min_propensity: float = 0.0,
        half_life: Any = None,
        seed: Any = None,
    ) -> None:
        self._alpha = risk_level(alpha)
        settings = BanditSettings(self._alpha)
        self._n, self._weights = settings.signed_draws, settings.weights
        self._noise_sd = None if noise_sd is None else checked_sd(noise_sd, "noise_sd")
        self._offsets = flag(offsets, "offsets")
        self._set_features(dim, features, flag(intercept, "intercept"), ("offset",) * self._offsets)
        self._offset_precision = positive(offset_precision, "offset_precision")
        if draws not in ("independent", "joint"):
            raise ParameterError(f"draws must be 'independent' or 'joint', got {draws!r}")
        self._draws = draws
        self._floor = probability(min_propensity, "min_propensity")
        half = HalfLife.of(half_life)
        self._drift = None if half is None else Drift(half)
        self._prior = _prior_of(prior_precision, self._dim, self._intercept)
        self._stream = Uniforms(generator(seed, "seed"), np.empty(0))
        self._decisions = 0
        self._rewards = 0
        self._weight = 0.0  # of the rewards: their number, less what has faded
        self._range: tuple[float, float] | None = None  # the lowest and the highest reward
        size = len(self._prior)
        self._gram = np.zeros((2, size + 1, size + 1))
        self._root, self._mean, self._noise = np.empty((size, size)), np.empty(size), 0.0
        self._level = 0.0  # the learned prior mean of the intercept
        self._stale = True  # root does not know the latest rewards
        self._unsolved = True  # nor do mean and noise
        self._absorbed = 0
        self._index: dict[Arm, int] = {}  # of the items that have offsets
        self._item_means = np.zeros((0, size + 1))  # with room for more
        self._item_weights = np.zeros(0)
        self._item_counts = np.zeros(0, dtype=np.int64)

    @classmethod
    def from_log(cls, log: Any, alpha: float = 0.0, **options: Any) -> Self:
        """Return a bandit that has learned from a log of (features, reward) or (features, arm, reward) rows.

        ``log`` is a sequence of such rows, or a table or mapping with columns ``context`` (or ``features``), ``reward``
        and, if there are offsets, ``arm``; of a table without these, ``features=[...]`` names the columns that make
        features. ``options`` are those of the constructor.

        >>> log = [([1.0, 0.0], "a", 2.0), ([0.0, 1.0], "b", 1.0)]
        >>> SharedLinearBandit.from_log(log, offsets=True).rewards
        2
        """
        if is_table(log):
            place = "features" if "features" in log else "context"
            named = "arm" in log
        else:
            log = list(log) if isinstance(log, Iterable) else log
            place, named = "features", _three_parts(log)
        more = ["arm", "reward"] if named else ["reward"]
        found, *arms, rewards = context_columns(log, options.get("features"), *more, context=place)
        told = read_named(found, None, place)
        if told is None:
            found = finite_array([list(point) for point in found], place, ndim=2)
        elif isinstance(found, dict):  # columns of the table
            options["features"], found = told.names, told.values
        size = found.shape[1] if told is None else told.values.shape[1]
        return cls(size, alpha, **options).update(found, rewards, *arms)

    # -- what it is ----------------------------------------------------------------------------------------

    @property
    def alpha(self) -> float:
        """The risk level."""
        return self._alpha

    @property
    def noise_sd(self) -> float | None:
        """The sd of the noise, given or learned; None as long as it is not known."""
        with self._lock:
            self._solve()
            return self._noise or None

    @property
    def rewards(self) -> int:
        """The number of rewards seen."""
        return self._rewards

    @property
    def items(self) -> dict[Arm, int]:
        """The items that have offsets, and the number of rewards seen of each."""
        with self._lock:
            return dict(zip(self._index, self._item_counts[: len(self._index)].tolist(), strict=True))

    @property
    def posterior(self) -> LinearGaussianPosterior:
        """A copy of the posterior of theta; the intercept, if there is one, comes first.

        It has the moments that decisions are taken from, given the noise. What was learned of the prior mean of the
        intercept is put among the data, since the prior of the copy has mean zero.

        >>> bandit = SharedLinearBandit(dim=1, noise_sd=1.0, intercept=False)
        >>> bandit.update([1.0], 4.0).posterior.mean()
        array([2.])
        """
        noise = self.noise_sd
        if noise is None:
            raise PosteriorError("the noise is not known before two different rewards were seen; give noise_sd")
        with self._lock:
            gram = self._gram.copy()
            gram[0, :-1, -1] += self._level * self._prior[:, 0]
            gram[0, -1, :-1] = gram[0, :-1, -1]
            return LinearGaussianPosterior.of_sums(self._prior, noise, gram)

    def coefficients(self) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and sds of theta; the intercept, if there is one, comes first.

        >>> SharedLinearBandit(dim=1, noise_sd=1.0, intercept=False).update([1.0], 4.0).coefficients()[0]
        array([2.])
        """
        with self._lock:
            self._solve()
            sd = math.inf if self._noise == 0.0 else self._noise * np.sqrt((self._root**2).sum(axis=0))
            return self._mean.copy(), np.broadcast_to(sd, self._mean.shape).copy()

    def to_xarray(self, features: Any = None) -> Any:
        """Return ``mean`` and ``sd`` [feature] of theta and its ``covariance`` as an xarray.Dataset, intercept first.

        With offsets also ``pulls`` [arm], the numbers of rewards of the items. ``features`` are names of the features,
        by default those of the bandit, else x0, x1, ...

        >>> SharedLinearBandit(dim=1, noise_sd=1.0).update([1.0], 3.0).to_xarray(["price"])["mean"].values
        array([1., 1.])
        """
        from .explain import shared_dataset

        return shared_dataset(self, features)

    def plot(self, features: Any = None, *, level: float = 0.95) -> Any:
        """Return a figure of the coefficients with intervals at ``level``; it is a figure of matplotlib."""
        from .explain import coefficients_figure

        data = self.to_xarray(features).drop_dims("arm", errors="ignore")
        return coefficients_figure(data.expand_dims(arm=["all items"]), open_probability(level, "level"), "gaussian")

    # -- decisions -----------------------------------------------------------------------------------------

    def select(
        self,
        features: Any,
        arms: Iterable[Arm] | None = None,
        top: int = 1,
        *,
        propensity: bool = True,
        time: Any = None,
    ) -> SharedDecision:
        """Choose ``top`` of k candidates with these features [k,D], best first.

        ``arms`` are their names, strings or integers; by default the index of a DataFrame or the keys of a dict, else 0
        to k - 1. Bandits with offsets need names. Chances are worked out when they are read; ``propensity=False``
        leaves them out. ``time`` (seconds or a date with time) is for a half-life in time.

        >>> bandit = SharedLinearBandit(dim=2, noise_sd=1.0, seed=1)
        >>> bandit.select([[0.2, 0.4], [1.0, 0.0]], arms=["a", "b"]).arm in ("a", "b")
        True
        """
        with self._lock:
            rows, names, known = self._candidates(features, arms)
            top = whole_number(top, "top", maximum=len(names))
            self._check_floor(len(names))
            if self._drift is not None:
                self._forget(self._drift.move(self._decisions, time))
            moments, law = self._scores_of(rows, names)
            uniform = isinstance(law, UniformScores)
            if not uniform and self._floor > 0.0:
                uniform = float(self._uniforms(1)[0]) < len(names) * self._floor
            drawn = self._uniforms(len(names)).copy() if uniform else self._drawn(law)
            order = self._best(drawn, top)
            version = self._decisions, self._rewards
            self._decisions += 1
            self._names_of_features = known
        scores = moments[0, order] if uniform else drawn[order]
        return SharedDecision(names, rows, order, scores, moments, self._floor, law if propensity else None, version)

    def propensities(self, features: Any, arms: Iterable[Arm] | None = None) -> FloatArray:
        """Return the chances [k] with which each candidate would come first, without deciding anything.

        >>> SharedLinearBandit(dim=1).propensities([[1.0], [2.0]])
        array([0.5, 0.5])
        """
        rows, names, _ = self._candidates(features, arms)
        self._check_floor(len(names))
        with self._lock:
            law = self._scores_of(rows, names)[1]
        return mixed(law.first(np.arange(len(names))), self._floor, 1, len(names)).chance

    def predict(self, features: Any, arms: Iterable[Arm] | None = None) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and sd [k] of the expected reward of items with these features [k,D].

        >>> mean, sd = SharedLinearBandit(dim=2, noise_sd=1.0, intercept=False).predict([[3.0, 4.0]])
        >>> mean, sd
        (array([0.]), array([5.]))
        """
        rows, names, _ = self._candidates(features, arms)
        with self._lock:
            mean, sd = self._moments(rows, self._places(names))
        return mean, sd

    def score(self, features: Any, arms: Iterable[Arm] | None = None, alpha: float | None = None) -> FloatArray:
        """Return CVaR_alpha [k] of the expected rewards under the posterior: what the drawn scores estimate.

        ``alpha`` is by default that of the bandit. Nothing is drawn and nothing changes. As long as a learned noise is
        not known, it is minus infinity for alpha > 0.

        >>> bandit = SharedLinearBandit(dim=1, alpha=0.5, noise_sd=1.0, intercept=False)
        >>> bandit.score([[1.0], [2.0]])
        array([-0.7979, -1.5958])
        """
        level = self._alpha if alpha is None else risk_level(alpha)
        mean, sd = self.predict(features, arms)
        if level == 0.0:
            return mean
        return (
            np.full_like(mean, -np.copysign(np.inf, level))
            if np.isinf(sd).any()
            else np.asarray(cvar_normal(mean, sd, level))
        )

    def explain(
        self, features: Any, arms: Iterable[Arm] | None = None, arm: Arm | None = None, *, names: Any = None
    ) -> Explanation:
        """Return why ``arm``, by default the likeliest, would come first of k candidates [k,D], or would not.

        It prints as words, and has tables: what each feature adds to the score, for the item and for the runner-up, and
        what is known of every candidate. What an item has of its own is the feature ``offset``. ``names`` are those of
        the features, by default those of the bandit or of the rows, else x0, x1, ... Nothing is drawn and nothing
        changes. See :class:`prudent.bandits.explain.Explanation`.

        >>> bandit = SharedLinearBandit(dim=1, noise_sd=1.0).update([[0.0], [2.0], [4.0]], [1.0, 2.0, 3.0])
        >>> print(bandit.explain([[1.0], [3.0]], arms=["old", "new"], names=["price"]))
        The likeliest choice is 'new', with the chance 91.7%.
        Its mean reward is 2.38 (sd 0.66), known from 3 rewards of all items.
        The runner-up is 'old', with the chance 8.3%: 1.21 (sd 0.52), known from 3 rewards of all items.
        'new' is better with the chance 97.8%: it leads by 1.17 (sd 0.58).
        For 'new': price (+1.17).
        """
        from .explain import explain_items

        return explain_items(self, features, arms, arm, names)

    def _scores_of(self, rows: FloatArray, names: tuple[Arm, ...]) -> tuple[FloatArray, Scores]:
        """Return the moments [2,k] of the candidates and the law of their scores."""
        places = self._places(names)
        moments = self._moments(rows, places)
        if self._noise == 0.0:
            return moments, UniformScores(len(names))
        weights = tuple(self._weights.tolist())
        if self._draws == "independent":
            least = max(_LEAST_SPREAD * float(np.abs(moments).max()), 1e-300)
            return moments, IndependentScores(moments[0], np.maximum(moments[1], least), self._n, weights)
        design, shifts, spreads = self._design(rows, places)
        scaled = self._noise * self._root
        return moments, JointScores(design, shifts, spreads, self._mean.copy(), scaled, self._noise, self._n, weights)

    def _moments(self, rows: FloatArray, places: IntArray) -> FloatArray:
        """Return posterior means and sds [2,k]."""
        self._solve()
        moments = np.empty((2, len(rows)))
        q = self._offset_precision if self._offsets else 0.0
        items = (places, self._item_means, self._item_weights, q)
        item_moments(rows, self._intercept, *items, self._root, self._mean, moments)
        moments[1] = self._noise * moments[1] if self._noise > 0.0 else np.inf
        return moments

    def _design(self, rows: FloatArray, places: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return rows [k,D] that theta meets, and the means and the sds over nu of what is added to them."""
        design = self._with_constant(rows)
        if not self._offsets:
            return design, np.zeros(len(rows)), np.zeros(len(rows))
        known = places >= 0
        means = np.where(known[:, np.newaxis], self._item_means[places], 0.0) if known.any() else 0.0
        totals = np.where(known, self._item_weights[places], 0.0) if known.any() else 0.0
        own = np.broadcast_to(means, (len(rows), design.shape[1] + 1))
        spread = np.broadcast_to(1.0 / np.sqrt(self._offset_precision + totals), len(rows))
        return design - own[:, :-1], own[:, -1].copy(), spread.copy()

    def _view(self, rows: FloatArray, names: tuple[Arm, ...]) -> ItemView:
        """Return what the scores of two items are made of; sds are infinite if the noise is not known yet."""
        mean, sd = self.coefficients()
        coefficients, sds, whole = np.tile(mean, (2, 1)), np.tile(sd, (2, 1)), self._with_constant(rows)
        design, shifts, spreads = self._design(rows, self._places(names))
        noise = self._noise or math.inf
        if self._offsets:  # b is m_r - m_s'theta, and what is left of it
            own = whole - design
            coefficients = np.column_stack([coefficients, shifts - own @ mean])
            sds = np.column_stack([sds, noise * np.hypot(np.linalg.norm(own @ self._root.T, axis=1), spreads)])
            whole = np.column_stack([whole, np.ones(2)])
        apart = np.linalg.norm([*(self._root @ (design[0] - design[1])), *spreads])
        return ItemView(whole, coefficients, sds, float(noise * apart) if apart > 0.0 else 0.0)

    def _drawn(self, law: Scores) -> FloatArray:
        """Draw the scores [k] of one decision."""
        if isinstance(law, JointScores):
            from scipy.special import ndtri

            uniforms = np.maximum(self._uniforms(law.normals), 2.0**-54)
            return law.scores(ndtri(uniforms)[np.newaxis])[0]
        assert isinstance(law, IndependentScores)
        scores = np.empty(law.means.size)
        uniforms = self._uniforms(scores.size * len(self._weights))
        draw_scores(law.means, law.sds, self._n, self._weights, uniforms, scores)
        return scores

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
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order[: top + 1]]
        if (ranked[1:] == ranked[:-1]).any():
            order = np.lexsort((self._uniforms(scores.size), -scores))
        return order[:top]

    # -- rewards -------------------------------------------------------------------------------------------

    def update(self, features: Any, reward: Any, arms: Any = None, *, time: Any = None) -> Self:
        """Learn a reward of an item with features [D], or rewards [T] of items with features [T,D].

        ``arms`` are the names of the items; only bandits with offsets need them. A batch is learned whole or, if
        something in it is wrong, not at all. ``time`` is for a half-life in time: that of the decision, one or [T]. A
        reward that comes late enters as faded as it is old.

        >>> bandit = SharedLinearBandit(dim=1, offsets=True)
        >>> bandit.update([[1.0], [2.0]], [1.0, 0.0], arms=["a", "b"]).items
        {'a': 1, 'b': 1}
        """
        with self._lock:
            points, known = self._rows(features, (1, 2))
            self._update(points, reward, arms, time)
            self._names_of_features = known
        return self

    def _update(self, points: FloatArray, reward: Any, arms: Any, time: Any) -> None:
        values = finite_array(reward, "reward")
        if values.shape != points.shape[:-1]:
            raise DataError(f"reward has shape {values.shape}, expected {points.shape[:-1]}, one per row of features")
        huge = np.abs(values) > LARGEST
        if huge.any():
            raise DataError(f"reward{first_index(huge)} is {values[huge][0]}, too large to square")
        points, values = points.reshape(-1, self._dim), values.reshape(-1)
        names: tuple[Arm, ...] = ()
        if self._offsets:
            if arms is None:
                raise DataError("arms is missing: a bandit with offsets learns the rewards of items by name")
            given = [arms] if isinstance(arms, (str, int, np.generic)) else arms
            names = listed_names(given, "arms", DataError)
            if len(names) != len(values):
                raise DataError(f"arms has {len(names)} names, expected {len(values)}, one per reward")
        weights = np.ones(len(values))
        if self._drift is not None:
            left, weights = self._drift.weights(self._decisions, time, len(values))
            self._forget(left)
        self._learn(self._with_constant(points), values.copy(), names, weights)

    def _learn(self, rows: FloatArray, rewards: FloatArray, names: tuple[Arm, ...], weights: FloatArray) -> None:
        if not rewards.size:
            return
        low, high = float(rewards.min()), float(rewards.max())
        if self._range is not None:
            low, high = min(low, self._range[0]), max(high, self._range[1])
        if self._offsets:
            places = self._new_places(names)
            items = (places, self._item_means, self._item_weights, self._offset_precision)
            centre_on_items(rows, rewards, weights, *items)
            np.add.at(self._item_counts, places, 1)
        elif self._drift is not None:
            rows, rewards = np.sqrt(weights)[:, np.newaxis] * rows, np.sqrt(weights) * rewards
        add_observations(self._gram, rows, rewards)
        if len(self._prior) >= MANY_FEATURES and not self._stale and self._absorbed + len(rows) <= MOST_ABSORBED:
            for row in rows:
                add_to_root(self._root, row, 1.0)
            self._absorbed += len(rows)
        else:
            self._stale = True
        self._unsolved = True
        self._range = low, high
        self._rewards += len(rewards)
        self._weight += float(weights.sum())

    def _forget(self, factor: float) -> None:
        if factor == 1.0:
            return
        if factor * self._weight < _LEAST_WEIGHT:
            factor = 0.0
        fade_sums(self._gram, factor)
        if self._offsets and factor > 0.0:
            items, q = len(self._index), self._offset_precision
            means, totals = self._item_means[:items], self._item_weights[:items]
            growth = (q + totals) / (q + factor * totals)
            back = (math.sqrt(factor * (1.0 - factor) * q) * np.sqrt(growth))[:, np.newaxis] * means
            add_observations(self._gram, np.ascontiguousarray(back[:, :-1]), np.ascontiguousarray(back[:, -1]))
            means *= (factor * growth)[:, np.newaxis]
        elif self._offsets:
            self._item_means[:] = 0.0
        self._item_weights *= factor
        self._weight *= factor
        self._stale = self._unsolved = True

    def _new_places(self, names: tuple[Arm, ...]) -> IntArray:
        """Return the places [T] of items among the offsets; new ones get one."""
        for name in names:
            self._index.setdefault(name, len(self._index))
        short = len(self._index) - len(self._item_counts)
        if short > 0:
            room = short + len(self._item_counts) // 2
            self._item_means = np.concatenate([self._item_means, np.zeros((room, self._item_means.shape[1]))])
            self._item_weights = np.concatenate([self._item_weights, np.zeros(room)])
            self._item_counts = np.concatenate([self._item_counts, np.zeros(room, dtype=np.int64)])
        return np.array([self._index[name] for name in names], dtype=np.int64)

    def _solve(self) -> None:
        """Bring root, mean and noise up to date with the sums."""
        if not self._unsolved:
            return
        if self._stale:
            solve_posterior(self._gram, self._prior, self._root, self._mean)
            self._stale, self._absorbed = False, 0
        learned = self._noise_sd is None
        square, self._level = solve_level(self._gram, self._prior, self._root, learned and self._intercept, self._mean)
        if not learned:
            self._noise = self._noise_sd or 0.0
        elif self._range is not None and self._range[0] < self._range[1]:
            count = self._weight
            free = max(count - 1.0, 0.5 * count) if self._intercept else count
            self._noise = math.sqrt(square / free) if free > 0.0 else 0.0
        self._unsolved = False

    # -- what is given -------------------------------------------------------------------------------------

    def _with_constant(self, rows: FloatArray) -> FloatArray:
        if not self._intercept:
            return rows.copy()
        whole = np.empty((len(rows), self._dim + 1))
        whole[:, 0] = 1.0
        whole[:, 1:] = rows
        return whole

    def _rows(self, features: Any, axes: tuple[int, ...]) -> tuple[FloatArray, Names | None]:
        """Return features as an array of our own, nothing in it too large to square, and their names."""
        known = self._names_of_features
        told = (
            None if type(features) is np.ndarray and features.dtype == np.float64 else self._told(features, "features")
        )
        if told is not None:
            if isinstance(features, Mapping) and told.values.ndim > 1:
                raise DataError("features is a dict of lists, of items or of features? Give a list of rows, or a table")
            features, known = told
        try:
            rows = np.array(features, dtype=np.float64, order="C")
        except (TypeError, ValueError, OverflowError):
            rows = finite_array(features, "features")
        if rows.ndim not in axes or rows.shape[-1] != self._dim:
            shapes = {1: f"({self._dim},)", 2: f"(k, {self._dim})"}
            expected = " or ".join(shapes[axis] for axis in axes)
            raise DataError(f"features has shape {rows.shape}, expected {expected}")
        if not usable(rows.reshape(-1)):
            finite_array(rows, "features")
            huge = np.abs(rows) > LARGEST
            raise DataError(f"features{first_index(huge)} is {rows[huge][0]}, too large to square")
        return rows, known

    def _candidates(
        self, features: Any, arms: Iterable[Arm] | None
    ) -> tuple[FloatArray, tuple[Arm, ...], Names | None]:
        """Return features [k,D] and names of distinct candidates, and the names of the features."""
        if isinstance(features, Mapping) and arms is None:
            features, arms = list(features.values()), list(features)
        rows, known = self._rows(features, (2,))
        if arms is None and hasattr(type(features), "index") and hasattr(features, "to_numpy"):
            arms = features.index  # of pandas
        if arms is None:
            if self._offsets:
                raise ParameterError("arms is missing: a bandit with offsets knows items by name")
            arms = range(len(rows))
        names = listed_names(arms, "arms", ParameterError)
        if len(names) != len(rows):
            raise ParameterError(f"arms has {len(names)} names, expected {len(rows)}, one per row of features")
        if not names:
            raise ParameterError("features is empty: there is no candidate")
        if len(set(names)) < len(names):
            seen: set[Arm] = set()
            for i, name in enumerate(names):
                if name in seen:
                    raise ParameterError(f"arms[{i}] is {name!r} for the second time")
                seen.add(name)
        return rows, names, known

    def _places(self, names: tuple[Arm, ...]) -> IntArray:
        if not self._offsets:
            return np.empty(0, dtype=np.int64)
        return np.array([self._index.get(name, -1) for name in names], dtype=np.int64)

    def _check_floor(self, size: int) -> None:
        if self._floor * size > 1.0:
            raise ParameterError(
                f"min_propensity is {self._floor}, too much for {size} candidates: at most {1.0 / size:.6g}"
            )

    def __repr__(self) -> str:
        items = f", {len(self._index)} items" if self._offsets else ""
        return (
            f"SharedLinearBandit(dim={self._dim}, alpha={self._alpha:g}{items}, "
            f"{self._decisions} decisions, {self._rewards} rewards)"
        )

    # -- state ---------------------------------------------------------------------------------------------

    def _state(self) -> State:
        return state_of(self)

    @classmethod
    def _restored(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        return restored(cls, values, arrays)

    @staticmethod
    def _upgraded(values: dict[str, Any], arrays: Arrays) -> State:
        return upgraded(values, arrays)


# -- what users write --------------------------------------------------------------------------------------


def _three_parts(log: Any) -> bool:
    """Return whether the first row of a log names an arm."""
    return isinstance(log, list) and bool(log) and isinstance(log[0], Sequence) and len(log[0]) == 3


def _prior_of(precision: Any, dim: int, intercept: bool) -> FloatArray:
    """Return the prior precision of theta, intercept included: that of a matrix of features alone is 1."""
    size = dim + int(intercept)
    if intercept and np.shape(precision) == (dim, dim):
        whole = np.eye(size)
        whole[1:, 1:] = LinearGaussianPosterior(dim, precision).prior
        return whole
    return LinearGaussianPosterior(size, precision).prior
