"""What data on one source would do to a problem; the head of :mod:`prudent.analysis.value_of_data` has the terms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from .._support.checks import BoolArray, FloatArray, IntArray
from ..exact import dirichlet_tail
from ..planning.execute.threads import Threads
from ..planning.options import SolverOptions
from ..planning.problem import BayesianRiskMDP
from ..planning.row_risks import DirichletRows
from ..planning.solve import evaluate
from ._data_sets import data_sets
from ._pinned import Curve, Held, Rows, between, derivatives

__all__ = ["NOT_LOOKED_AT", "SKIPPED", "Answer", "Study"]

SAME = 1e-7  # of the range of what outcomes are worth: actions so close are equally good, and the present one stays
STRAIGHT = 1e-4  # of a change of the values: bends of CVaR that are left out
SMALL = 50  # states up to which no bend is left out
BENT = 100.0  # times that: from here on they are worked out again and again, below once
STEPS = 30  # towards a point of a curve, or the place of a data set on it
NODES = 9  # of a part of a curve, if it bends
MOST_NODES = 129
FINER = 8  # points between two nodes where a new lead is looked for
PARTS = 300  # of a curve; with more of them each data set is solved for by itself
WIDER = 1.3  # than thought at first, is a curve made
SKIPPED = {
    "one outcome": "have one outcome",
    "out of reach": "are out of reach from the start",
    "same worth": "have outcomes that are worth the same",
    "never attractive": "could not make another action attractive",
}


class Answer(NamedTuple):
    """What is found out about one source."""

    gain: float = 0.0
    gain_error: float = 0.0
    value_change: float = 0.0
    value_change_error: float = 0.0
    switch: float = 0.0
    method: str = ""


NOT_LOOKED_AT = Answer(*5 * (np.nan,), "not looked at")


class _NoCurve(Exception):
    """The curve has too many parts, or its points were not found."""


@dataclass(frozen=True)
class _Course:
    """Which actions are taken elsewhere on a part of a curve, and what that returns in the mean model."""

    differs: bool  # from the present policy, in a state that it visits
    at_zero: FloatArray  # [U, K] of next states: their return where state s returns as much as now, above the present
    follow: FloatArray  # [U, K] and by how much it rises with s
    start: tuple[float, float]  # the same two from the start
    others: tuple[FloatArray, FloatArray]  # and of the outside pairs: one-step return [O] above the present, rise


class _Place:
    """State s, whose pairs draw from the source (the users U) or do not (outside, O)."""

    def __init__(self, study: Study, users: IntArray, possible: BoolArray) -> None:
        self.s = int(study.state[users[0]])
        here = study.pairs_of(self.s)
        self.users, self.outside = users, np.setdiff1d(here, users)
        entries = study.starts[users][:, np.newaxis] + np.flatnonzero(possible)
        self.target = study.target[entries]  # [U, K], below 0: the process ends
        self.worth, self.mean_worth = study.worth[entries], study.mean_worth[entries]  # [U, K]
        self.used = self.s in users
        self.slope, self.mean_slope = study.rows.slope[self.outside], study.mean.slope[self.outside]
        # where the present action is among users and outside, in this order
        self.own = int(np.flatnonzero(np.concatenate([users, self.outside]) == self.s)[0])

    def seen(self, d: FloatArray) -> FloatArray:
        """Return ``d`` [S, ...] at the next states [U, K, ...]."""
        found = d[np.maximum(self.target, 0)]
        found[self.target < 0] = 0.0
        return found


class Study:
    """The problem as it is now.

    Pairs P are the admissible ones of the states S that the start leads to; the policy's own come first, one for each
    of these states.
    """

    def __init__(self, problem: BayesianRiskMDP, m: int, replications: int, start: FloatArray, threads: int) -> None:
        assert problem.posterior is not None
        self.m, self.replications, self.alpha = m, replications, float(problem.alpha or 0.0)
        self.model, self.whole_start, self.counts = problem.model, start, problem.posterior.counts.copy()
        self.now = problem.solve(threads=threads)
        self.value = self.now.value
        mean = problem.mean_mdp()
        self.mean_value = evaluate(mean, self.now.policy, initial_value=self.value).value  # [S]
        self._take_pairs(mean.transition)
        self._take_rows(threads)

    def _take_pairs(self, mean: sparse.csr_array) -> None:
        """Number states and pairs; ``mean`` is the transition matrix (S*A) x S at the posterior mean."""
        model, entries = self.model, self.model.entries
        n_states, n_actions = model.admissible.shape
        at = mean.tocoo()
        steps = sparse.csr_array((at.data, (at.row // n_actions, at.col)), (n_states, n_states))
        self.states = np.flatnonzero(_reached(steps, self.whole_start))
        visited = _reached(mean[np.arange(0, mean.shape[0], n_actions) + self.now.chosen], self.whole_start)
        self.visited, self.start = visited[self.states], self.whole_start[self.states]
        own = self.states * n_actions + self.now.chosen[self.states]
        admissible = model.admissible & np.isin(np.arange(n_states), self.states)[:, np.newaxis]
        self.pairs = np.concatenate([own, np.setdiff1d(np.flatnonzero(admissible), own)])
        local = np.full(n_states, -1)
        local[self.states] = np.arange(self.states.size)
        self.state = local[self.pairs // n_actions]
        self._by_state = np.argsort(self.state, kind="stable")
        self._state_begins = np.searchsorted(self.state[self._by_state], np.arange(self.states.size + 1))
        self.source = entries.source[self.pairs]
        order = np.argsort(self.source, kind="stable")
        edges = np.searchsorted(self.source[order], np.arange(model.n_sources + 1))
        self.users = [order[i:j] for i, j in pairwise(edges)]  # [B] of each source
        # entries of the pairs, one after the other
        each, self.starts = entries.of_pairs(self.pairs)
        self.psi = entries.pack(self.counts)[entries.slots()[each]]
        self.gain = entries.reward[each]
        to = entries.next_state[each]
        self.target = np.where((to >= 0) & (self.psi > 0.0), local[np.maximum(to, 0)], -1)
        self.total = np.add.reduceat(self.psi, self.starts[:-1])
        self.weight = self.psi / np.repeat(self.total, np.diff(self.starts))

    def pairs_of(self, s: int) -> IntArray:
        """Return the pairs of a state."""
        return self._by_state[self._state_begins[s] : self._state_begins[s + 1]]

    def _take_rows(self, threads: int) -> None:
        """Make what is linear around the present values, at the level and at the mean."""
        value, mean_value = self.value[self.states], self.mean_value[self.states]
        self.worth, self.mean_worth = self._worth(value), self._worth(mean_value)
        possible = self.psi > 0.0
        size = float(np.max(abs(self.worth), where=possible, initial=0.0))
        high, low = (f(self.worth, where=possible, initial=i) for f, i in ((np.max, -np.inf), (np.min, np.inf)))
        self.slack = SAME * float(high - low) + 1e-12 * size
        self.options = SolverOptions(tol=0.1 * self.slack or 1.0)
        first = self.starts[:-1]
        self.mean = Rows(
            self._matrix(self.weight), np.add.reduceat(self.weight * self.gain, first), self.state, mean_value
        )
        self.rows = self.mean
        # moments of what a pair is worth
        self.mu = np.add.reduceat(self.weight * self.worth, first)
        self.square = np.add.reduceat(self.weight * (self.worth - np.repeat(self.mu, np.diff(self.starts))) ** 2, first)
        self.price = np.zeros(self.pairs.size)
        if self.alpha > 0.0:
            chain = Threads(DirichletRows(self.model, self.counts, self.alpha), threads).linearise(
                self.value, self.pairs
            )
            self.rows = Rows(self._matrix(chain.data), chain.reward, self.state, value)
            self.price = np.maximum(self.mu - self.rows.lead - value[self.state], 0.0)
            self.cross = self._matrix(self.weight * self.worth)
        self.visits = self.rows.visits(self.start)
        self.longest = float(self.rows.inverse(np.ones(self.states.size)).max())  # discounted steps to the end

    def _worth(self, value: FloatArray) -> FloatArray:
        later = np.where(self.target >= 0, value[np.maximum(self.target, 0)], 0.0)
        found: FloatArray = self.gain + self.model.discount * later
        return found

    def _matrix(self, weight: FloatArray) -> sparse.csr_array:
        """Return discounted weights of entries as a matrix [P, S]."""
        kept = (self.target >= 0) & (weight != 0.0)
        ends = np.concatenate(([0], np.cumsum(kept)))[self.starts]
        rows = (self.model.discount * weight[kept], self.target[kept], ends)
        matrix = sparse.csr_array(rows, (self.pairs.size, self.states.size))
        matrix.sum_duplicates()
        return matrix

    # -- what is worth a look ------------------------------------------------------------------------------

    def reasons(self) -> list[str]:
        """Return for each source [B] why no data on it can matter, or an empty string."""
        n, first = self.model.n_sources, self.starts[:-1]
        possible = self.psi > 0.0
        best = np.maximum.reduceat(np.where(possible, self.worth, -np.inf), first)
        worst = np.minimum.reduceat(np.where(possible, self.worth, np.inf), first)
        same = best - worst <= 4.0 * np.spacing(np.maximum(abs(best), abs(worst)))
        # the mean is an upper bound of CVaR, and enough to rule out most
        here = self.rows.value[self.state] + self.slack
        lucky = (self.total * self.mu + self.m * best) / (self.total + self.m) > here
        lucky[: self.states.size] = True  # the policy's own
        if self.alpha > 0.0:
            for p in np.flatnonzero(lucky[self.states.size :]) + self.states.size:
                part = slice(self.starts[p], self.starts[p + 1])
                top = np.argmax(np.where(possible[part], self.worth[part], -np.inf))
                after = self.psi[part] + self.m * (np.arange(part.stop - part.start) == top)
                lucky[p] = self._tail(self.worth[part][np.newaxis], after[np.newaxis])[0][0] > here[p]
        differ, attract = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        np.logical_or.at(differ, self.source, ~same)
        np.logical_or.at(attract, self.source, lucky)
        reached = np.isin(np.arange(n), self.source)
        several = (self.counts > 0.0).sum(axis=1) > 1
        kinds = np.select([~several, ~reached, ~differ, ~attract], list(SKIPPED), default="")
        return [str(kind) for kind in kinds]

    def promise(self) -> FloatArray:
        """Return a guess of the gain for each source [B], to first order and as if everything were normal.

        The posterior mean of what a pair is worth will move with the standard deviation sigma; its caution will shrink.
        In each visit a switch pays what the new action has more in the mean, in the state itself and in those that lead
        to it.
        """
        later = self.total / (self.total + self.m)
        sigma = np.sqrt(self.square / (self.total + 1.0) * (1.0 - later))
        then = self.mu - self.price * np.sqrt(later)  # on average
        n, value = self.states.size, self.rows.value
        q = self.rows.lead + value[self.state]
        q[:n] = -np.inf
        rank = np.lexsort((q, self.state))  # the last of each state is the best but for the policy's own
        second = rank[np.append(np.flatnonzero(np.diff(self.state[rank])), rank.size - 1)]
        gap, pays = value[self.state] - then, self.mean.lead.copy()
        gap[:n], pays[:n] = then[:n] - q[second], self.mean.lead[second]
        # a state that the policy never visits counts for next to nothing, but for more than nothing
        visits = self.mean.visits(self.start)
        weight = (visits + 1e-9 * visits.sum())[self.state]
        found = np.zeros(self.model.n_sources)
        np.add.at(found, self.source, weight * _pay(gap, sigma, pays))
        rivals = np.arange(n, self.pairs.size)
        if rivals.size:
            lead, at, slope = self.rows.lead[rivals], self.state[rivals], self.rows.slope[rivals]
            for s in range(n):
                follow = self.rows.follow(s)
                where, chance = self.rows.row(s)
                move = sigma[s] / max(1.0 - chance @ follow[where], 1e-12)
                rate = abs(slope @ follow - follow[at]) * move
                rate[at == s] = 0.0
                found[self.source[s]] += float(weight[rivals] @ _pay(-lead, rate, self.mean.lead[rivals]))
        return found

    # -- one source ----------------------------------------------------------------------------------------

    def of_source(self, b: int, rng: np.random.Generator) -> Answer:
        """Return what m more observations of source b are worth."""
        users, psi = self.users[b], self.counts[b]
        data = data_sets(psi, self.m, self.replications, rng)
        after = psi + data.counts
        try:
            if np.ptp(self.state[users]):
                raise _NoCurve
            possible = psi[self.model.entries.outcome[slice(*self.model.entries.begin[b : b + 2])]] > 0.0
            gain, change, switch = self._along_a_curve(_Place(self, users, possible), after[:, psi > 0.0])
        except _NoCurve:
            gain, change, switch = np.array([self._solved(b, row) for row in after]).T
        if data.halves:
            # what the shift of the mean does to the value has expectation zero, and most of the noise
            slots = slice(*self.model.entries.begin[b : b + 2])
            shift = (after / after.sum(axis=1, keepdims=True) - psi / psi.sum())[:, self.model.entries.outcome[slots]]
            for p in users[users < self.states.size]:
                change = change - self.visits[p] * (shift @ self.worth[self.starts[p] : self.starts[p + 1]])
        return Answer(
            *data.mean_and_error(gain),
            *data.mean_and_error(change),
            data.mean_and_error(switch)[0],
            "sampled" if data.halves else "exact",
        )

    def _along_a_curve(self, place: _Place, after: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return gain, change of the value, and 1 where the policy changes [R], for the counts ``after`` [R, K]."""
        n = after.shape[0]
        gain, change, switch = np.zeros(n), np.zeros(n), np.zeros(n)
        flat = np.zeros((n, place.users.size, after.shape[1]))
        follow = self.rows.follow(place.s)
        lead, slope = self._one_step(place, after, flat, flat + place.seen(follow))
        live = np.arange(n) if place.used else np.flatnonzero((lead > self.slack).any(axis=1))
        if not live.size:
            return gain, change, switch
        best = lead[live].argmax(axis=1)
        rise = lead[live, best] / (1.0 - slope[live, best])
        if place.used and place.outside.size:
            rise = np.maximum(rise, np.max(self.rows.lead[place.outside]))
        t, curve, courses = self._places(place, after[live], rise)
        y, dy, course = curve.at(t)
        lead, _ = self._leads(place, after[live], y, dy)
        best = lead.argmax(axis=1)
        chosen = np.where(lead[:, place.own] >= lead.max(axis=1) - self.slack, place.own, best)
        change[live] = y[:, -1]
        theta = after[live] / after[live].sum(axis=1, keepdims=True)
        before = self._returns(place, courses[0], place.own, theta)
        for c, each in enumerate(courses):
            for action in np.unique(chosen[course == c]):
                rows = np.flatnonzero((course == c) & (chosen == action))
                new = each.differs or (action != place.own and self.visited[place.s])
                if new:
                    more = self._returns(place, each, int(action), theta[rows]) - before[rows]
                    switch[live[rows]] = 1.0
                    gain[live[rows]] = np.where(abs(more) > self.slack, more, 0.0)
        if self.alpha == 0.0:
            gain = np.maximum(gain, 0.0)
        return gain, change, switch

    def _one_step(
        self, place: _Place, after: FloatArray, seen: FloatArray, rise: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return by how much the users lead in their state [R, U], and how that rises.

        ``seen`` and ``rise`` [R, U, K] are what the next states have gained, and by how much they rise.
        """
        gamma = self.model.discount
        counts = np.broadcast_to(after[:, np.newaxis], seen.shape)
        cvar, weight = self._tail(place.worth + gamma * seen, counts)
        return cvar - self.rows.value[place.s], gamma * np.einsum("ruk,ruk->ru", weight, rise)

    def _tail(self, values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return CVaR and tail means."""
        if self.alpha == 0.0:
            weight = counts / counts.sum(axis=-1, keepdims=True)
            return np.einsum("...k,...k->...", weight, values), weight
        tail = dirichlet_tail(values, counts, self.alpha, threads=1)
        return tail.cvar, tail.tail_means

    def _leads(self, place: _Place, after: FloatArray, y: FloatArray, dy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what users and outside pairs are worth above the present [R, U + O] on the curve, and its rise."""
        shape = (-1, *place.target.shape)
        size = place.target.size
        lead, slope = self._one_step(place, after, y[:, :size].reshape(shape), dy[:, :size].reshape(shape))
        return np.hstack([lead, y[:, size:-1]]), np.hstack([slope, dy[:, size:-1]])

    def _places(self, place: _Place, after: FloatArray, guess: FloatArray) -> tuple[FloatArray, Curve, list[_Course]]:
        """Return where on the curve each data set lies [R], with the curve and its courses."""
        t, near = guess, 1e-2 * self.slack
        low, high = WIDER * min(float(guess.min()), -near), WIDER * max(float(guess.max()), near)
        wanted = t
        for _ in range(STEPS):
            curve, courses = self._curve(place, low, high, wanted)
            t, rest = self._settle(place, after, curve, np.clip(t, low, high), near)
            if (abs(rest) > near).any():  # beyond the ends
                low, high = (2.0 if (rest < -near).any() else 1.0) * low, (2.0 if (rest > near).any() else 1.0) * high
                continue
            few = self.alpha > 0.0 and max(np.unique(t[t > 0.0]).size, np.unique(t[t < 0.0]).size) < NODES - 2
            if not few or (wanted.size == t.size and abs(t - wanted).max() <= 1e-6 * (high - low)):
                return t, curve, courses
            wanted = t.copy()  # once more, with nodes where the data sets are
        raise _NoCurve

    def _settle(
        self, place: _Place, after: FloatArray, curve: Curve, t: FloatArray, near: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return where on the curve each data set [R] has v = max Q(W(v)), and by how much it misses that.

        Newton steps with a bracket. The right side rises by less than the left, so there is one such place; it may lie
        beyond the ends of the curve.
        """
        ends = np.tile([curve.low, curve.high], (t.size, 1))  # of the bracket
        tried = np.zeros(ends.shape, dtype=np.bool_)
        rest, left = np.zeros(t.size), np.arange(t.size)
        for _ in range(2 * STEPS):
            y, dy, _ = curve.at(t[left])
            lead, slope = self._leads(place, after[left], y, dy)
            best = lead.argmax(axis=1)
            each = np.arange(left.size)
            rest[left] = lead[each, best] - t[left]
            up = (rest[left] > 0.0).astype(np.int64)
            ends[left, 1 - up], tried[left, 1 - up] = t[left], True
            step = t[left] + rest[left] / (1.0 - slope[each, best])
            # to an end of the bracket only if nobody was there
            past = np.where(up == 1, step >= ends[left, 1], step <= ends[left, 0])
            step = np.where(past, np.where(tried[left, up], ends[left].mean(axis=1), ends[left, up]), step)
            go = (abs(rest[left]) > 0.1 * near) & (step != t[left])
            left, step = left[go], step[go]
            if not left.size:
                break
            t[left] = step
        return t, rest

    # -- the curve of one state ----------------------------------------------------------------------------

    def _curve(self, place: _Place, low: float, high: float, wanted: FloatArray) -> tuple[Curve, list[_Course]]:
        """Return the curve of the best values of the other states, with state s held ``low`` to ``high`` above now."""
        curve, courses = Curve(), list[_Course]()
        for end in (high, low):
            held = Held(self.rows, place.s)
            mean = held if self.rows is self.mean else Held(self.mean, place.s)
            t, course, differs = 0.0, 0, False
            if not courses:
                courses.append(self._course(place, mean, differs))
            while t != end:
                nodes, d, y = self._stretch(place, held, t, end, wanted)
                turn, p = self._next_lead(held, nodes, d)
                if turn != t:
                    if turn != end:
                        kept = np.append(nodes[abs(nodes - t) < abs(turn - t)], turn)
                        y = between(kept, nodes, y, derivatives(nodes, y))
                        nodes = kept
                    curve.add(nodes, y, course)
                if p < 0:
                    break
                held.switch(p)
                if mean is not held:
                    mean.switch(p)
                differs = bool((held.own != np.arange(held.own.size))[self.visited].any())
                courses.append(self._course(place, mean, differs))
                course = len(courses) - 1
                if course > PARTS:
                    raise _NoCurve
                t = turn
        return curve.done(), courses

    def _stretch(
        self, place: _Place, held: Held, t: float, end: float, wanted: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return nodes [N] from t to ``end``, the distances [S, N] and the quantities [C, N] there.

        Nodes are doubled until every other one is enough to know those between. Weak evidence makes sharp bends.
        """
        nodes = self._nodes(t, end, wanted)
        while True:
            d = self._points(held, nodes)
            y = self._quantities(place, held, nodes, d)
            if nodes.size < NODES or nodes.size >= MOST_NODES:
                return nodes, d, y
            guess = between(nodes[1::2], nodes[::2], y[:, ::2], derivatives(nodes[::2], y[:, ::2]))
            if (abs(guess - y[:, 1::2]) <= 1e-3 * np.ptp(y, axis=1, keepdims=True) + self.slack).all():
                return nodes, d, y
            nodes = np.linspace(t, end, 2 * nodes.size - 1)

    def _nodes(self, t: float, end: float, wanted: FloatArray) -> FloatArray:
        """Return where to work out the curve from t to ``end``: where data sets are, if they are few."""
        if self.alpha == 0.0:
            return np.array([t, end])
        inside = np.unique(wanted[(wanted > min(t, end)) & (wanted < max(t, end))])
        if inside.size and inside.size < NODES - 2:
            far = np.diff(inside, prepend=min(t, end)) > 1e-4 * abs(end - t)
            inside = inside[far & (max(t, end) - inside > 1e-4 * abs(end - t))]
            nodes = np.concatenate([[min(t, end)], inside, [max(t, end)]])
            return nodes if end > t else nodes[::-1]
        return np.linspace(t, end, NODES)

    def _points(self, held: Held, t: FloatArray) -> FloatArray:
        """Return the distances [S, N] of the values from the present ones, with state s held ``t`` [N] above now."""
        d = held.distance(t)
        if self.alpha == 0.0:
            return d
        size = float(abs(t).max())
        enough = max(0.1 * self.slack, STRAIGHT * size)
        bent = BENT * enough
        if held.own.size <= SMALL:
            enough = bent = 0.1 * self.slack
        bends = self._bends(held.own, d[:, abs(t).argmax()]) * self.longest
        bends[held.s] = 0.0
        weak, rows = np.flatnonzero((bends > enough) & (bends <= bent)), np.flatnonzero(bends > bent)
        if not weak.size + rows.size:
            return d
        bend = np.zeros((d.shape[0], t.size))
        bend[weak] = self._smooth_shortfall(held.own[weak], t, d)
        for _ in range(STEPS):
            bend[rows] = self._shortfall(held.own[rows], d)
            new = held.distance(t, bend)
            moved = float(abs(new - d).max())
            d = new
            if not rows.size or moved <= max(1e-2 * self.slack, 0.1 * enough):
                return d
        raise _NoCurve

    def _bends(self, pairs: IntArray, d: FloatArray) -> FloatArray:
        """Return about how much the rows of ``pairs`` lack at ``d`` [S] for being straight, or more.

        The second derivative of CVaR is a variance of what outcomes gain, given what they are worth, over the spread of
        that; and CVaR never differs from the mean by more than a multiple of the standard deviation.
        """
        total = self.total[pairs] + 1.0
        first = self.mean.slope[pairs] @ d
        second = np.maximum(self.model.discount * (self.mean.slope[pairs] @ d**2) - first**2, 0.0)
        common = self.cross[pairs] @ d - self.mu[pairs] * first
        square = self.square[pairs]
        known = square > 4.0 * second  # beyond, outcomes may change places, and nothing local is known
        own = np.maximum(second - common**2 / np.where(known, square, np.inf), 0.0)
        most = 2.0 * np.sqrt(self.alpha / (1.0 - self.alpha) * second / total)
        return np.minimum(most, np.where(known, self.price[pairs] * own / np.where(known, square, 1.0), np.inf))

    def _shortfall(self, pairs: IntArray, d: FloatArray) -> FloatArray:
        """Return by how much the worth of ``pairs`` at ``d`` [S, N] lies above what is linear, [len(pairs), N]."""
        if not pairs.size:
            return np.zeros((0, d.shape[1]))
        sizes = self.starts[pairs + 1] - self.starts[pairs]
        k = np.arange(sizes.max())
        entry = self.starts[pairs][:, np.newaxis] + np.minimum(k, sizes[:, np.newaxis] - 1)
        psi = np.where(k < sizes[:, np.newaxis], self.psi[entry], 0.0)
        later = np.where((self.target[entry] >= 0)[..., np.newaxis], d[np.maximum(self.target[entry], 0)], 0.0)
        worth = self.worth[entry][..., np.newaxis] + self.model.discount * later  # [P', K, N]
        values = np.ascontiguousarray(np.moveaxis(worth, 1, 2))
        q, _ = self._tail(values, np.broadcast_to(psi[:, np.newaxis], values.shape))
        line = (self.rows.lead + self.rows.value[self.state])[pairs][:, np.newaxis] + self.rows.slope[pairs] @ d
        return q - line

    def _smooth_shortfall(self, pairs: IntArray, t: FloatArray, d: FloatArray) -> FloatArray:
        """Return the same where it is small: a parabola in ``t`` [N] through its ends and middle."""
        if t.size <= 3 or not pairs.size:
            return self._shortfall(pairs, d)
        at = [0, t.size // 2, t.size - 1]
        known = self._shortfall(pairs, d[:, at])
        return np.asarray(known @ np.array([_weight_of(i, t[at], t) for i in range(3)]))

    def _next_lead(self, held: Held, nodes: FloatArray, d: FloatArray) -> tuple[float, int]:
        """Return where on the way along ``nodes`` another action takes the lead elsewhere, and its pair; or -1."""
        # at most, as if rows were straight; SciPy multiplies columns one by one in half the time
        steps = [self.rows.slope @ np.ascontiguousarray(column) for column in d.T]
        lead = self.rows.lead[:, np.newaxis] + np.stack(steps, axis=1) - d[self.state]
        lead[held.own] = -np.inf
        lead[self.pairs_of(held.s)] = -np.inf
        rivals = np.flatnonzero((lead > self.slack).any(axis=1))
        if not rivals.size:
            return float(nodes[-1]), -1
        lead = lead[rivals]
        if self.alpha > 0.0:
            lead += self._shortfall(rivals, d)
            fine = np.linspace(nodes[:-1], nodes[1:], FINER, endpoint=False).T.ravel()
            fine = np.append(fine, nodes[-1])
            lead, nodes = between(fine, nodes, lead, derivatives(nodes, lead)), fine
        lead = lead - self.slack
        over = lead > 0.0
        if not over.any():
            return float(nodes[-1]), -1
        i = int(np.argmax(over.any(axis=0)))
        ahead = np.flatnonzero(over[:, i])
        if i == 0:
            return float(nodes[0]), int(rivals[ahead[lead[ahead, 0].argmax()]])
        share = lead[ahead, i - 1] / (lead[ahead, i - 1] - lead[ahead, i])
        first = int(share.argmin())
        return float(nodes[i - 1] + share[first] * (nodes[i] - nodes[i - 1])), int(rivals[ahead[first]])

    def _quantities(self, place: _Place, held: Held, t: FloatArray, d: FloatArray) -> FloatArray:
        """Return [C, N]: d at the next states of the users [U K], leads of the outside pairs [O], d from the start."""
        lead = self.rows.lead[place.outside][:, np.newaxis] + place.slope @ d
        if self.alpha > 0.0:
            lead += self._shortfall(place.outside, d)
        return np.vstack([place.seen(d).reshape(-1, t.size), lead, self.start @ d])

    def _course(self, place: _Place, held: Held, differs: bool) -> _Course:
        zero, follow = held.distance(np.zeros(1))[:, 0], held.follow
        slope = place.mean_slope
        return _Course(
            differs,
            place.seen(zero),
            place.seen(follow),
            (float(self.start @ zero), float(self.start @ follow)),
            (held.rows.lead[place.outside] + slope @ zero, slope @ follow),
        )

    def _returns(self, place: _Place, course: _Course, action: int, theta: FloatArray) -> FloatArray:
        """Return what a course with an action in state s returns from the start in the mean model, above now [R]."""
        gamma, users = self.model.discount, place.users.size
        if action < users:
            worth = place.mean_worth[action] + gamma * course.at_zero[action]
            more = (theta @ worth - self.mean.value[place.s]) / (1.0 - gamma * (theta @ course.follow[action]))
        else:
            lead, rise = (each[action - users] for each in course.others)
            more = np.full(theta.shape[0], lead / (1.0 - rise))
        from_start, rise = course.start
        return from_start + rise * more

    # -- sources that several states share -----------------------------------------------------------------

    def _solved(self, b: int, psi: FloatArray) -> tuple[float, float, float]:
        """Return gain, change of the value, and 1.0 if the policy changes, where source b has the counts ``psi``."""
        counts = self.counts.copy()
        counts[b] = psi
        start, policy = self.whole_start, self.now.chosen
        problem = BayesianRiskMDP(self.model, counts, self.alpha)
        then = problem.solve(initial_value=self.value, threads=1, options=self.options)
        change = self._beyond_rounding(start @ (then.value - self.value))
        kept = then.q_of(policy) >= then.value - self.slack
        if kept[self.states][self.visited].all():
            return 0.0, change, 0.0
        neutral = problem if self.alpha == 0.0 else BayesianRiskMDP(self.model, counts, 0.0)
        before = neutral.evaluate(policy, initial_value=self.value, threads=1, options=self.options).value
        if self.alpha == 0.0:
            return max(self._beyond_rounding(start @ (then.value - before)), 0.0), change, 1.0
        after = neutral.evaluate(then.policy, initial_value=before, threads=1, options=self.options).value
        return self._beyond_rounding(start @ (after - before)), change, 1.0

    def _beyond_rounding(self, size: Any) -> float:
        """Return a difference of values from the start, zero where it is no more than their tolerance."""
        return float(size) if abs(size) > self.slack else 0.0


def _reached(step: sparse.csr_array, start: FloatArray) -> BoolArray:
    """Return the states [S] that steps of positive probability [S, S] lead to from the start."""
    reached = start > 0.0
    front = reached
    while front.any():
        front = ((front.astype(np.float64) @ step) > 0.0) & ~reached
        reached = reached | front
    return reached


def _weight_of(i: int, nodes: FloatArray, t: FloatArray) -> FloatArray:
    """Return the weights [N] of node i in the polynomial through the nodes, at ``t`` [N]."""
    others = np.delete(nodes, i)
    found: FloatArray = np.prod((t - others[:, np.newaxis]) / (nodes[i] - others)[:, np.newaxis], axis=0)
    return found


def _pay(gap: FloatArray, sd: FloatArray, pays: FloatArray) -> FloatArray:
    """Return E[(pays + X) 1{X > gap}] for a normal X with mean 0."""
    known = sd > 0.0
    x = np.clip(np.divide(gap, sd, out=np.full(gap.shape, np.inf), where=known), -1e3, 1e3)
    return np.where(known, pays * ndtr(-x) + sd * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi), 0.0)
