"""Arms with normal rewards, and terms beside their features as far as rewards give evidence of them.

Contexts and rewards are kept, up to a number of rows that depends on that of the features. After 24 rewards, and then
each time there are a quarter more, the terms are searched anew among all rows (``terms.found_terms``). Those
of the last search are tried on the rewards that came since (``trial``); if terms have predicted such rewards better
than features alone, by ``_SURE`` standard errors over all trials, what was learned is learned again from these rows,
with the terms that were found, else without any. Once the last search is done the rows are dropped: the terms are
settled. Until terms are taken the belief is that of ``GaussianArms``, to the last bit. What is learned is a function of
the rewards in their order, in batches or not, so it can be replayed.

**Merging.** As long as another belief has its rows, those that came since the common ancestor are learned here, after
the own ones. A belief that is settled has sums only. They are added if all have the same terms; else what was learned
of terms is left out, which leaves the sums of the features as they are.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..._support.checks import FloatArray, IntArray
from ..._support.notices import warn_caller
from ..._support.state import Arrays
from ...errors import DataError, ParameterError, PrudentWarning
from ..kernels import layout as col
from ..kernels.layout import arms_of, replace_arrays
from ..kernels.step import usable
from ..kernels.stream import Uniforms
from ..law.base import Law
from ..settings import BanditSettings
from .arms import ArmBelief
from .base import NEW, Match, require_state, widened
from .gaussian import GaussianArms
from .terms import Terms, found_terms
from .trial import squares_saved

_FIRST = 24  # rewards before the first search
_GROWTH = 1.25  # of the number of rewards, after which there is another search
_SURE = 1.5  # standard errors by which terms must have predicted better
_MOST_ROWS, _MOST_NUMBERS = 4096, 2**18


class _Kept(NamedTuple):
    """Rows that are kept until the terms are settled."""

    points: FloatArray  # [M,D] contexts without the constant feature
    rows: IntArray  # [M]
    rewards: FloatArray  # [M]
    weights: FloatArray  # [M] as they count now

    def part(self, where: Any) -> _Kept:
        """Return some of the rows: a slice, places or a mask."""
        points, rows, rewards, weights = self
        return _Kept(points[where], rows[where], rewards[where], weights[where])


class WideArms(GaussianArms):
    """Belief about A arms with normal rewards, linear in features and in terms that are made of them.

    Parameters
    ----------
    count : int
        Number of arms.
    prior : ndarray of float, [D, D]
        Prior precision of the features, constant feature included, in units of the noise.
    intercept : bool
        Whether the first feature is constant.
    noise_sd : float or None
        Sd of the noise; None to learn it.
    noise : {"shared", "by arm"}, default="shared"
        Whether a learned noise is that of all arms, or each arm has its own.
    """

    def __init__(
        self, count: int, prior: FloatArray, intercept: bool, noise_sd: float | None, noise: str = "shared"
    ) -> None:
        self._dim, self._given = len(prior) - intercept, prior
        self.terms = Terms.none(self._dim)
        self._kept: _Kept | None = None
        self._late: list[tuple[FloatArray, int, float, float]] = []  # rows that are not in the arrays yet
        self._seen, self._due = 0, _FIRST
        self.keeps = True
        self._proposed, self._tried = self.terms, 0  # terms of the last search, and its rows
        self._lead = np.zeros(2)  # of squared errors by such terms: sum of the differences, and of their squares
        super().__init__(count, prior, intercept, noise_sd, noise)

    @property
    def settled(self) -> bool:
        """Whether terms will not change any more."""
        return not self.keeps

    def use(self, settings: BanditSettings) -> None:
        """Take the settings of the next decision; see ``ArmBelief.use``."""
        self._used = settings
        super().use(settings)

    def design(self, contexts: FloatArray) -> FloatArray:
        """Return contexts with terms; see ``ArmBelief.design``."""
        return self.terms.expanded(contexts, int(self.intercept))

    def labels(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return names of the coefficients; see ``ArmBelief.labels``."""
        return (*names, *self.terms.named(names[int(self.intercept) :]))

    def _expanded(self, point: FloatArray) -> FloatArray | None:
        if len(point) != self._dim or not usable(point):
            return None
        return self.terms.expanded(point[np.newaxis], 0)[0]

    # -- decisions -----------------------------------------------------------------------------------------

    def decide_rows(self, t: int, contexts: FloatArray, rows: IntArray, stream: Uniforms) -> Any:
        """Take decisions in contexts [T, D]; see ``ArmBelief.decide_rows``."""
        return super().decide_rows(t, self.design(contexts), rows, stream)

    def law(self, contexts: FloatArray, rows: IntArray, settings: BanditSettings, t: int) -> Law:
        """Return the law of the scores in contexts [T, D]; see ``Belief.law``."""
        return super().law(self.design(contexts), rows, settings, t)

    # -- rewards -------------------------------------------------------------------------------------------

    def _remember(self, point: FloatArray, row: int, reward: float, weight: float) -> None:
        self._late.append((point, row, reward, weight))
        if self._seen + len(self._late) >= self._due:
            self._search(self.kept_rows())

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``."""
        whole = copy.deepcopy(self.__dict__) if self.may_refuse(contexts) else None
        try:
            self._learn(contexts, rows, rewards, weights)
        except BaseException:
            if whole is not None:
                self.__dict__.update(whole)
                self._set_handle()
            raise

    def _learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        done, size, _ = 0, len(contexts), self.kept_rows()
        while done < size:
            end = min(size, done + self._due - self._seen) if self.keeps else size
            part = slice(done, end)
            super().learn(self.design(contexts[part]), rows[part], rewards[part], weights[part])
            if self.keeps:
                self._keep(contexts[part, int(self.intercept) :], rows[part], rewards[part], weights[part])
            done = end

    def _most(self) -> int:
        """Return how many rows are kept at most."""
        return min(_MOST_ROWS, max(2 ** int(math.log2(_MOST_NUMBERS / (self._dim + 3))), 256))

    def kept_rows(self) -> _Kept:
        """Return the rows that are kept, all of them in the arrays.

        Returns
        -------
        tuple of ndarray
            Points [M, D], rows [M] of arms, rewards [M] and weights [M], as views.
        """
        if self._late:
            late, self._late = self._late, []
            points, rows, *numbers = zip(*late, strict=True)
            self._put(np.array(points).reshape(-1, self._dim), np.array(rows, dtype=np.int64), *map(np.array, numbers))
        if self._kept is None:
            return _Kept(np.empty((0, self._dim)), np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
        return self._kept.part(slice(self._seen))

    def _keep(self, points: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Keep rows that were learned, and search when it is time."""
        self._put(points, rows, rewards, weights)
        if self._seen >= self._due:
            self._search(self.kept_rows())

    def _put(self, points: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Put rows into the arrays."""
        seen, end = self._seen, self._seen + len(rows)
        kept = self._kept
        if kept is None or len(kept.rewards) < end:
            room = max(2 * end, 2 * _FIRST)
            fresh = _Kept(np.empty((room, self._dim)), np.empty(room, dtype=np.int64), np.empty(room), np.empty(room))
            for new, old in zip(fresh, () if kept is None else kept, strict=False):
                new[:seen] = old[:seen]
            self._kept = kept = fresh
        for field, values in zip(kept, (points, rows, rewards, weights), strict=True):
            field[seen:end] = values
        self._seen = end

    def _settle(self) -> None:
        """Drop the rows: terms stay as they are."""
        self._kept, self._late, self._seen, self.keeps = None, [], 0, False
        self._proposed, self._tried = Terms.none(self._dim), 0

    def _search(self, kept: _Kept) -> None:
        """Look for terms among all rows, and say when to do so again; if there are enough rows, never."""
        self._find(kept)
        self._due = max(math.ceil(self._seen * _GROWTH), self._seen + 1)
        if self._due > self._most():
            self._settle()

    def _find(self, kept: _Kept) -> None:
        """Try the terms of the last search, search anew among all rows, and learn these again if terms have changed."""
        contexts = np.concatenate([np.ones((len(kept.rows), int(self.intercept))), kept.points], axis=1)
        with np.errstate(all="ignore"):
            if self._proposed.size and 0 < self._tried < len(kept.rows):
                self._try(contexts, kept)
            found = found_terms(kept.points, kept.rows, kept.rewards, kept.weights, self.intercept)
        self._proposed, self._tried = found, len(kept.rows)
        better = self._lead[0] > _SURE * math.sqrt(self._lead[1])
        terms = found if better else Terms.none(self._dim)
        if not terms.size and not self.terms.size:
            return
        before = self.terms, self.priors, self.table
        tries = self.table.marks[:, col.TRIES].copy()
        self._take(terms)
        try:
            super().learn(self.design(contexts), kept.rows, kept.rewards, kept.weights)
        except DataError:  # the rows together are out of range with these terms: what was learned stays
            self.terms, self.priors, self.table = before
            self.expands = bool(self.terms.size)
            self.use(self._used)
            return
        self.table.marks[:, col.TRIES] = np.maximum(tries, self.table.marks[:, col.PULLS])

    def _try(self, contexts: FloatArray, kept: _Kept) -> None:
        """Add up what the terms of the last search save of the squared errors of the rewards that came since."""
        constant, first = int(self.intercept), self._tried
        level = float(np.average(kept.rewards[:first])) if self.table.centred else 0.0
        wide, prior = self._proposed.expanded(contexts, constant), self._proposed.prior(self._given, constant)
        data = kept.rows, kept.rewards, kept.weights
        saved = squares_saved(contexts, wide, (self._given, prior), *data, first, level)
        self._lead += saved.sum(), (saved**2).sum()

    def _take(self, terms: Terms) -> None:
        """Take terms, and a table without data."""
        old = self.table
        prior = terms.prior(self._given, int(self.intercept))
        arms, size = len(old.mean), len(prior)
        options: dict[str, Any] = {} if self._unit_sd is not None else {"kind": old.kind, "centred": old.centred}
        extra = np.zeros((arms, col.EXTRAS, size + 2))
        table = replace_arrays(arms_of(prior, self._unit_sd, arms), extra=extra, **options)
        self.terms, self.priors, self.table, self.expands = terms, prior[np.newaxis], table, bool(terms.size)
        self.use(self._used)

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        super().forget(factor)
        self.kept_rows().weights[:] *= factor
        self._lead *= factor

    # -- rows ----------------------------------------------------------------------------------------------

    def add_row(self, prior: tuple[FloatArray, FloatArray] | None = None) -> None:
        """Add an arm without data; with a prior of its own, terms are settled: see ``ArmBelief.add_row``."""
        if prior is not None:
            self._settle()
        super().add_row(prior)

    def remove_row(self, row: int) -> None:
        """Remove an arm; see ``ArmBelief.remove_row``."""
        super().remove_row(row)
        kept = self.kept_rows()
        stay = kept.rows != row
        self._tried = int(stay[: self._tried].sum())
        self._kept = kept = kept.part(stay)
        kept.rows[kept.rows > row] -= 1
        self._seen = len(kept.rows)

    def contradiction(self, other: Self, since: Self | None, matches: Sequence[Match]) -> Match | None:
        """Return the first row by which ``other`` does not come from ``since``; see ``Belief.contradiction``."""
        if other.settled:
            mine, theirs, past = self._with_equal_terms(other, since)
            return ArmBelief.contradiction(mine, theirs, past, matches)
        if since is None:
            return None
        before, after = _known(since, matches), other.kept_rows()
        if since.settled or len(before.rows) > len(after.rows):
            return matches[0]
        wrong = np.zeros(len(before.rows), dtype=np.bool_)
        for one, two in zip(before, after, strict=True):
            unequal = one != two[: len(one)]
            wrong |= unequal if unequal.ndim == 1 else unequal.any(axis=1)
        by_row = {match.there: match for match in matches}
        if wrong.any():
            return by_row[int(after.rows[wrong.argmax()])]
        torn = [
            match for match in matches if match.was is not None and other.tries[match.there] < since.tries[match.was]
        ]
        return torn[0] if torn else None

    def _merge(self, other: Any, since: Any, matches: Sequence[Match]) -> None:
        if not other.settled:
            self._learn_since(other, since, matches)
            return
        mine, theirs, past = self._with_equal_terms(other, since)
        if mine is not self:
            message = "other has found other interactions and kept no rows: both go on without any"
            warn_caller(PrudentWarning(message, code="different-features"))
            self.__dict__.update(mine.__dict__)
            self._set_handle()
        self._settle()  # the rows of the other are not known
        super()._merge(theirs, past, matches)

    def _learn_since(self, other: WideArms, since: WideArms | None, matches: Sequence[Match]) -> None:
        """Learn the rows that another belief has kept since a common ancestor."""
        here = np.full(len(other.pulls), -1)
        for match in matches:
            if match.here == NEW:
                self.add_row()
            if match.here is not None:
                here[match.there] = len(self.pulls) - 1 if match.here == NEW else match.here
        tries = other.tries.copy()
        for match in matches:
            tries[match.there] -= since.tries[match.was] if since is not None and match.was is not None else 0
        stay = here >= 0
        total = self.tries.copy()
        total[here[stay]] += tries[stay]
        kept = other.kept_rows()
        kept = kept.part(slice(0 if since is None else len(_known(since, matches).rows), None))
        kept = kept.part(stay[kept.rows])
        contexts = np.concatenate([np.ones((len(kept.rows), int(self.intercept))), kept.points], axis=1)
        self._learn(contexts, here[kept.rows], kept.rewards, kept.weights)
        self.table.marks[:, col.TRIES] = np.maximum(total, self.pulls)

    def _with_equal_terms(self, other: WideArms, since: WideArms | None) -> tuple[WideArms, WideArms, WideArms | None]:
        """Return these beliefs if their terms are the same, else what is left of them without any terms."""
        if _same(self.terms, other.terms) and (since is None or _same(other.terms, since.terms)):
            return self, other, since
        return self.without_terms(), other.without_terms(), None if since is None else since.without_terms()

    def without_terms(self) -> WideArms:
        """Return a settled belief with the sums of the features alone.

        Returns
        -------
        WideArms
            Another belief.

        Raises
        ------
        ParameterError
            If arms have priors of their own.
        """
        if len(self.priors) > 1:
            message = "arms that were added with like= have priors of the interactions, which differ: merge sooner"
            raise ParameterError(message, code="different-features", argument="other")
        size, arrays, none = len(self._given), self.arrays(), Terms.none(self._dim)
        own, kept = np.arange(size), {f"kept_{name}": field[:0] for name, field in self.kept_rows()._asdict().items()}
        arrays |= none.arrays() | {f"proposed_{name}": field for name, field in none.arrays().items()} | kept
        arrays["prior_precision"], arrays["prior_mean"] = self._given[np.newaxis], arrays["prior_mean"][:, own]
        for name, ends in (("gram", 1), ("extra", 2)):
            places = np.append(own, np.arange(-ends, 0))
            arrays[name] = arrays[name][..., places]
        arrays["gram"] = arrays["gram"][..., np.append(own, -1), :]
        twin = WideArms(len(self.pulls), self._given, self.intercept, self._unit_sd, self.noise)
        twin.restore(self.values() | {"settled": True, "tried": 0, "lead": [0.0, 0.0]}, arrays)
        twin.use(self._used)
        return twin

    # -- state ---------------------------------------------------------------------------------------------

    def options(self) -> dict[str, Any]:
        """Return what was given when the belief was made; see ``Belief.options``."""
        return super().options() | {"interactions": "auto", "prior_precision": self._given.tolist()}

    @property
    def axes(self) -> dict[str, str]:
        """Type and sizes of the arrays of a state file, in which terms come after features; see ``Belief.axes``."""
        count = self.terms.size
        table = {
            name: re.sub(r"D\+?(\d*)", lambda found: f"D+{int(found[1] or 0) + count}", declared)
            for name, declared in super().axes.items()
        }
        moments = [f"{of}term_{name}" for of in ("", "proposed_") for name in ("mean", "sd")]
        return table | dict.fromkeys(moments, "float64 D") | {"kept_points": "float64 M D"}

    def widened(
        self, values: dict[str, Any], arrays: Arrays, count: int, precision: float
    ) -> tuple[dict[str, Any], Arrays]:
        """Return a state with more features; see ``Belief.widened``."""
        values, arrays = super().widened(values, arrays, count, precision)
        given = widened({"prior_precision": self._given}, {"prior_precision": "float64 D D"}, count, precision)
        prior = given["prior_precision"]
        arrays["prior_precision"][0] = Terms.of(arrays, self._dim + count).prior(prior, int(self.intercept))
        return values | {"dim": self._dim + count, "given": prior.tolist()}, arrays

    def values(self) -> dict[str, Any]:
        """Return the numbers of a state file that are not arrays; see ``Belief.values``."""
        more = {
            "interactions": "auto",
            "dim": self._dim,
            "due": self._due,
            "settled": self.settled,
            "tried": self._tried,
            "lead": self._lead.tolist(),
            "given": self._given.tolist(),
        }
        return super().values() | more

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        rows = {f"kept_{name}": field for name, field in self.kept_rows()._asdict().items()}
        proposed = {f"proposed_{name}": field for name, field in self._proposed.arrays().items()}
        return super().arrays() | self.terms.arrays() | proposed | rows

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take the state of a file; see ``Belief.restore``."""
        self._take(Terms.of(arrays, self._dim))
        super().restore(values, arrays)
        kept = _Kept(*(np.array(arrays[f"kept_{name}"]) for name in _Kept._fields))
        self._kept, self._late, self._seen = None, [], 0
        for field, like in zip(kept, self.kept_rows(), strict=True):
            sound = field.dtype == like.dtype and field.shape == (len(kept.rows), *like.shape[1:])
            require_state(sound and np.isfinite(field).all(), "kept rows that cannot be")
        due, settled = values["due"], values["settled"]
        require_state(((kept.rows >= 0) & (kept.rows < len(self.pulls))).all(), "kept rows of arms that are not there")
        require_state((kept.weights >= 0.0).all() and (kept.weights <= 1.0).all(), "kept weights that cannot be")
        require_state(settled is False or settled is True, "settled must be true or false")
        require_state(type(due) is int and due > (0 if settled else len(kept.rows)), "a search that is overdue")
        require_state(len(kept.rows) <= self.n_rewards and (not settled or not len(kept.rows)), "kept rows of nobody")
        tried, lead = values["tried"], np.array(values["lead"], dtype=np.float64)
        require_state(type(tried) is int and 0 <= tried <= len(kept.rows), "a trial of rows that are not there")
        require_state(lead.shape == (2,) and np.isfinite(lead).all() and lead[1] >= 0.0, "trials that cannot be")
        self._kept, self._seen = None if settled else kept, len(kept.rows)
        self._due, self.keeps, self._tried, self._lead = due, not settled, tried, lead
        proposed = {name.removeprefix("proposed_"): field for name, field in arrays.items() if "proposed_" in name}
        self._proposed = Terms.of(proposed, self._dim)


def _known(since: WideArms, matches: Sequence[Match]) -> _Kept:
    """Return the rows of a common ancestor, of the arms that a later belief has, by the rows of that one."""
    there = np.full(len(since.pulls), -1)
    for match in matches:
        if match.was is not None:
            there[match.was] = match.there
    kept = since.kept_rows()
    kept = kept.part(there[kept.rows] >= 0)
    return kept._replace(rows=there[kept.rows])


def _same(one: Terms, other: Terms) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
