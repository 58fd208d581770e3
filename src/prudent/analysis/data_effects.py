"""Effects of data on one source on the policy and its values; ``prudent.analysis.value_of_data`` defines the terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr

from ..exact import dirichlet_tail
from ..planning.execute.threads import Threads
from ..planning.model_draws import Layout
from ..planning.options import SolverOptions
from ..planning.problem import BayesianRiskMDP
from ..planning.row_risks import DirichletRows
from ..planning.solution import Solution
from ..planning.solve import evaluate
from ..types import BoolArray, FloatArray, IntArray
from .future_data import data_sets
from .reward_effects import Learned, reward_effects, with_rewards
from .value_curve import Curve, Held, Rows, between, derivatives

TIE = 1e-7  # relative to the range of what outcomes are worth: closer actions are equally good, the present one stays
STRAIGHT = 1e-4  # relative to a change of the values: smaller bends of CVaR are neglected
MAX_EXACT_STATES = 50  # number of states up to which no bend is neglected
ITERATED_BEND = 100.0  # times the neglected bend: larger bends are iterated, smaller ones computed once
MAX_STEPS = 30  # of an iteration for a point of a curve, or for a data set on it
NODES = 9  # of a piece of a curve, if it bends
MAX_NODES = 129
REFINEMENT = 8  # points between two nodes where an action may take the lead
MAX_PIECES = 300  # of a curve; with more of them each data set is solved by itself
LUCK = 6.0  # standard deviations by which a mean reward may turn out better
MARGIN = 1.3  # factor by which a curve is longer than the first guess
SKIPPED = {
    "one outcome": "have one outcome",
    "out of reach": "are out of reach from the start",
    "same worth": "have outcomes that are worth the same",
    "never attractive": "could not make another action attractive",
}


class Effect(NamedTuple):
    """Effect of data on one source."""

    gain: float = 0.0
    gain_error: float = 0.0
    value_change: float = 0.0
    value_change_error: float = 0.0
    switch: float = 0.0
    method: str = ""


NOT_EVALUATED = Effect(*5 * (np.nan,), "not evaluated")


class _NoCurve(Exception):
    """The curve has too many pieces, or an iteration for a point did not converge."""


@dataclass(frozen=True)
class _Course:
    """Actions of the other states on a piece of a curve, and their return in the mean model."""

    differs: bool  # from the present policy, in a state that the policy visits
    at_zero: FloatArray  # [U, K] return of next states above now, where state s returns as much as now
    follow: FloatArray  # [U, K] derivative of that in the return of s
    start: tuple[float, float]  # the same two numbers from the start
    others: tuple[FloatArray, FloatArray]  # of the outside pairs: one-step return [O] above now, and its derivative


class _Pivot:
    """The state s of a source: its pairs that draw from the source (users, U) and those that do not (outside, O)."""

    def __init__(self, study: DataEffects, users: IntArray, possible: BoolArray) -> None:
        self.s = int(study.state[users[0]])
        self.users, self.outside = users, np.setdiff1d(np.flatnonzero(study.state == self.s), users)
        entries = study.starts[users][:, np.newaxis] + np.flatnonzero(possible)
        self.target = study.target[entries]  # [U, K], below 0: the process ends
        self.worth, self.mean_worth = study.worth[entries], study.mean_worth[entries]  # [U, K]
        self.used = self.s in users
        self.slope, self.mean_slope = study.rows.slope[self.outside], study.mean.slope[self.outside]
        # index of the present action among users and outside, in this order
        self.present = int(np.flatnonzero(np.concatenate([users, self.outside]) == self.s)[0])

    def seen(self, d: FloatArray) -> FloatArray:
        """Return ``d`` [S, ...] at the next states [U, K, ...]."""
        at_next = d[np.maximum(self.target, 0)]
        at_next[self.target < 0] = 0.0
        return at_next


class DataEffects:
    """The problem with the present data, and the effects of more data on each source.

    States S are those that the start leads to. Pairs P are their admissible ones; those of the present policy come
    first, one for each state.
    """

    def __init__(
        self, problem: BayesianRiskMDP, solution: Solution, m: int, replications: int, start: FloatArray, threads: int
    ) -> None:
        assert problem.posterior is not None
        self.m, self.replications, self.alpha = m, replications, float(problem.alpha or 0.0)
        self.model, self.full_start, self.counts = problem.model, start, problem.posterior.counts.copy()
        self.now, self.value = solution, solution.value
        self.mean_value = evaluate(problem.mean_mdp(), solution.policy, initial_value=self.value).value  # [S]
        self.risk_model, self.mean_model, self.reward_sd, self.relief = reward_effects(problem, self.value, m, threads)
        self._take_pairs()
        self._take_rows(threads)

    def _take_pairs(self) -> None:
        """Number states and pairs."""
        model, entries = self.model, self.model.entries
        n_states, n_actions = model.admissible.shape
        packed = entries.pack(self.counts)
        layout = Layout.of(model, packed > 0.0)
        self.states = layout.reached(self.full_start, model.admissible.astype(np.float64))
        self.visited = np.isin(self.states, layout.reached(self.full_start, np.eye(n_actions)[self.now.chosen]))
        self.start = self.full_start[self.states]
        present = self.states * n_actions + self.now.chosen[self.states]
        admissible = model.admissible & np.isin(np.arange(n_states), self.states)[:, np.newaxis]
        self.pairs = np.concatenate([present, np.setdiff1d(np.flatnonzero(admissible), present)])
        local = np.full(n_states, -1)
        local[self.states] = np.arange(self.states.size)
        self.state = local[self.pairs // n_actions]
        self.source = entries.source[self.pairs]
        # entries of the pairs, one after the other
        entry, self.starts = entries.of_pairs(self.pairs)
        self.psi = packed[entries.slots()[entry]]
        self.gain, self.mean_gain = (kind.entries.reward[entry] for kind in (self.risk_model, self.mean_model))
        to = entries.next_state[entry]
        self.target = np.where((to >= 0) & (self.psi > 0.0), local[np.maximum(to, 0)], -1)
        self.survival = None if model.survival is None else model.survival[entry]
        self.total = np.add.reduceat(self.psi, self.starts[:-1])
        self.weight = self.psi / np.repeat(self.total, np.diff(self.starts))

    def _take_rows(self, threads: int) -> None:
        """Linearise the rows around the present values, at the risk level and at the mean."""
        value, mean_value = self.value[self.states], self.mean_value[self.states]
        self.worth, self.mean_worth = self._worth(value, self.gain), self._worth(mean_value, self.mean_gain)
        worth = self.worth[self.psi > 0.0]
        self.slack = TIE * float(np.ptp(worth)) + 1e-12 * float(abs(worth).max())
        self.options = SolverOptions(tol=0.1 * self.slack or 1.0)
        first = self.starts[:-1]
        self.mean = Rows(
            self._matrix(self.weight), np.add.reduceat(self.weight * self.mean_gain, first), self.state, mean_value
        )
        self.rows = self.mean
        # moments of what a pair is worth
        self.mu = np.add.reduceat(self.weight * self.worth, first)
        self.square = np.add.reduceat(self.weight * (self.worth - np.repeat(self.mu, np.diff(self.starts))) ** 2, first)
        self.price = np.zeros(self.pairs.size)
        if self.alpha > 0.0:
            chain = Threads(DirichletRows(self.risk_model, self.counts, self.alpha), threads).linearise(
                self.value, self.pairs
            )
            tails = chain.data if self.survival is None else chain.data / self.survival
            self.rows = Rows(self._matrix(tails), chain.reward, self.state, value)
            self.price = np.maximum(self.mu - self.rows.lead - value[self.state], 0.0)
            self.cross = self._matrix(self.weight * self.worth)
        self.visits = self.rows.visits(self.start)
        self.longest = float(self.rows.inverse(np.ones(self.states.size)).max())  # discounted steps to the end

    def _worth(self, value: FloatArray, gain: FloatArray) -> FloatArray:
        later = np.where(self.target >= 0, value[np.maximum(self.target, 0)], 0.0)
        later = later if self.survival is None else self.survival * later
        return np.asarray(gain + self.model.discount * later)

    def _matrix(self, weight: FloatArray) -> sparse.csr_array:
        """Return discounted weights of entries as a matrix [P, S]."""
        weight = weight if self.survival is None else self.survival * weight
        kept = (self.target >= 0) & (weight != 0.0)
        ends = np.concatenate(([0], np.cumsum(kept)))[self.starts]
        rows = (self.model.discount * weight[kept], self.target[kept], ends)
        matrix = sparse.csr_array(rows, (self.pairs.size, self.states.size))
        matrix.sum_duplicates()
        return matrix

    # -- screening -----------------------------------------------------------------------------------------

    def skip_reasons(self) -> list[str]:
        """Return for each source [B] why no data on it can matter, or an empty string."""
        n, first = self.model.n_sources, self.starts[:-1]
        possible = self.psi > 0.0
        best = np.maximum.reduceat(np.where(possible, self.worth, -np.inf), first)
        worst = np.minimum.reduceat(np.where(possible, self.worth, np.inf), first)
        taught = self.reward_sd[self.pairs]
        same = (best - worst <= 4.0 * np.spacing(np.maximum(abs(best), abs(worst)))) & (taught == 0.0)
        # the mean is an upper bound of CVaR, and enough to rule out most
        threshold = self.rows.value[self.state] + self.slack - self.relief[self.pairs] - LUCK * taught
        lucky = (self.total * self.mu + self.m * best) / (self.total + self.m) > threshold
        lucky[: self.states.size] = True  # the present policy
        if self.alpha > 0.0:
            for p in np.flatnonzero(lucky[self.states.size :]) + self.states.size:
                part = slice(self.starts[p], self.starts[p + 1])
                top = np.argmax(np.where(possible[part], self.worth[part], -np.inf))
                after = self.psi[part] + self.m * (np.arange(part.stop - part.start) == top)
                lucky[p] = self._tail(self.worth[part][np.newaxis], after[np.newaxis])[0][0] > threshold[p]
        differ, attract = (np.bincount(self.source, weights=mask, minlength=n) > 0.0 for mask in (~same, lucky))
        reached = np.bincount(self.source, minlength=n) > 0
        several = ((self.counts > 0.0).sum(axis=1) > 1) | (np.bincount(self.source, weights=taught, minlength=n) > 0.0)
        kinds: list[str] = np.select([~several, ~reached, ~differ, ~attract], list(SKIPPED), default="").tolist()
        return kinds

    def promise(self) -> FloatArray:
        """Return a guess of the gain for each source [B], to first order and as if everything were normal.

        The posterior mean of what a pair is worth moves with the standard deviation sigma, and its caution shrinks. In
        each visit a switch pays the difference of the means of the two actions, in the state itself and in those that
        lead to it.
        """
        later = self.total / (self.total + self.m)
        sigma = np.sqrt(self.square / (self.total + 1.0) * (1.0 - later) + self.reward_sd[self.pairs] ** 2)
        then = self.mu - self.price * np.sqrt(later) + self.relief[self.pairs]  # on average
        n, value = self.states.size, self.rows.value
        q = self.rows.lead + value[self.state]
        q[:n] = -np.inf
        rank = np.lexsort((q, self.state))  # the last of each state is the best besides the present one
        second = rank[np.append(np.flatnonzero(np.diff(self.state[rank])), rank.size - 1)]
        gap, pays = value[self.state] - then, self.mean.lead.copy()
        gap[:n], pays[:n] = then[:n] - q[second], self.mean.lead[second]
        # a state that the policy never visits counts for next to nothing, but for more than nothing
        visits = self.mean.visits(self.start)
        weight = (visits + 1e-9 * visits.sum())[self.state]
        guess = np.zeros(self.model.n_sources)
        np.add.at(guess, self.source, weight * _pay(gap, sigma, pays))
        rivals = np.arange(n, self.pairs.size)
        if rivals.size:
            lead, at, slope = self.rows.lead[rivals], self.state[rivals], self.rows.slope[rivals]
            for s in range(n):
                follow = self.rows.follow(s)
                where, chance = self.rows.row(s)
                move = sigma[s] / max(1.0 - chance @ follow[where], 1e-12)
                rate = abs(slope @ follow - follow[at]) * move
                rate[at == s] = 0.0
                guess[self.source[s]] += float(weight[rivals] @ _pay(-lead, rate, self.mean.lead[rivals]))
        return guess

    # -- one source ----------------------------------------------------------------------------------------

    def effect_of(self, b: int, rng: np.random.Generator) -> Effect:
        """Return the effect of m more observations of source b."""
        users, psi = np.flatnonzero(self.source == b), self.counts[b]
        outcome = self.model.entries.outcome[slice(*self.model.entries.begin[b : b + 2])]  # of each entry of a user
        data = data_sets(psi, self.m, self.replications, rng)
        pair = self.pairs[users[0]]
        if self.reward_sd[pair] > 0.0:
            data = data.singly(self.replications, rng)
        sets, after = data.counts.shape[0], psi + data.counts
        moves = self.reward_sd[pair] * rng.normal(size=sets) if self.reward_sd[pair] > 0.0 else np.zeros(sets)
        learned = Learned(after[:, psi > 0.0], moves, float(self.relief[pair]))
        try:
            if np.ptp(self.state[users]) or self.survival is not None:
                raise _NoCurve
            gain, change, switch = self._along_a_curve(_Pivot(self, users, psi[outcome] > 0.0), learned)
        except _NoCurve:
            moved = zip(after, learned.reward.tolist(), strict=True)
            gain, change, switch = np.array([self._solved(b, row, reward, pair) for row, reward in moved]).T
        if data.halves:
            # what the shift of the mean does to the value has expectation zero, and most of the noise
            shift = (after / after.sum(axis=1, keepdims=True) - psi / psi.sum())[:, outcome]
            for p in users[users < self.states.size]:
                moved_by = shift @ self.worth[self.starts[p] : self.starts[p + 1]] + learned.reward
                change = change - self.visits[p] * moved_by
        return Effect(
            *data.mean_and_error(gain),
            *data.mean_and_error(change),
            data.mean_and_error(switch)[0],
            "sampled" if data.halves else "exact",
        )

    def _along_a_curve(self, pivot: _Pivot, after: Learned) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return gain, change of the value, and 1 where the policy changes [R], for data sets."""
        n = after.reward.size
        gain, change, switch = np.zeros((3, n))
        flat = np.zeros((n, pivot.users.size, after.counts.shape[1]))
        follow = self.rows.follow(pivot.s)
        lead, slope = self._one_step(pivot, after, flat, flat + pivot.seen(follow))
        live = np.arange(n) if pivot.used else np.flatnonzero((lead > self.slack).any(axis=1))
        if not live.size:
            return gain, change, switch
        best = lead[live].argmax(axis=1)
        rise = lead[live, best] / (1.0 - slope[live, best])
        if pivot.used and pivot.outside.size:
            rise = np.maximum(rise, np.max(self.rows.lead[pivot.outside]))
        after = after.some(live)
        t, curve, courses = self._locate(pivot, after, rise)
        y, dy, course = curve.at(t)
        lead, _ = self._leads(pivot, after, y, dy)
        best = lead.argmax(axis=1)
        chosen = np.where(lead[:, pivot.present] >= lead.max(axis=1) - self.slack, pivot.present, best)
        change[live] = y[:, -1]
        theta, reward = after.counts / after.counts.sum(axis=1, keepdims=True), after.reward
        before = self._returns(pivot, courses[0], pivot.present, theta, reward)
        for c, piece in enumerate(courses):
            for action in np.unique(chosen[course == c]).tolist():
                if piece.differs or (action != pivot.present and self.visited[pivot.s]):
                    rows = np.flatnonzero((course == c) & (chosen == action))
                    switch[live[rows]] = 1.0
                    more = self._returns(pivot, piece, action, theta[rows], reward[rows]) - before[rows]
                    gain[live[rows]] = self._beyond_rounding(more)
        if self.alpha == 0.0:
            gain = np.maximum(gain, 0.0)
        return gain, change, switch

    def _one_step(
        self, pivot: _Pivot, after: Learned, seen: FloatArray, rise: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return by how much the users lead in their state [R, U], and how that rises.

        ``seen`` and ``rise`` [R, U, K] are what the next states have gained, and by how much they rise.
        """
        gamma = self.model.discount
        counts = np.broadcast_to(after.counts[:, np.newaxis], seen.shape)
        cvar, weight = self._tail(pivot.worth + gamma * seen, counts)
        cvar = cvar + (after.reward + after.relief)[:, np.newaxis]
        return cvar - self.rows.value[pivot.s], gamma * np.einsum("ruk,ruk->ru", weight, rise)

    def _tail(self, values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return CVaR and tail means."""
        if self.alpha == 0.0:
            weight = counts / counts.sum(axis=-1, keepdims=True)
            return np.einsum("...k,...k->...", weight, values), weight
        tail = dirichlet_tail(values, counts, self.alpha, threads=1)
        return tail.cvar, tail.tail_means

    def _leads(self, pivot: _Pivot, after: Learned, y: FloatArray, dy: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return what users and outside pairs are worth above the present [R, U + O] on the curve, and its rise."""
        shape = (-1, *pivot.target.shape)
        size = pivot.target.size
        lead, slope = self._one_step(pivot, after, y[:, :size].reshape(shape), dy[:, :size].reshape(shape))
        return np.hstack([lead, y[:, size:-1]]), np.hstack([slope, dy[:, size:-1]])

    def _locate(self, pivot: _Pivot, after: Learned, guess: FloatArray) -> tuple[FloatArray, Curve, list[_Course]]:
        """Return the position of each data set [R] on the curve, with the curve and its courses."""
        t, near = guess, 1e-2 * self.slack
        low, high = MARGIN * min(float(guess.min()), -near), MARGIN * max(float(guess.max()), near)
        wanted = t
        for _ in range(MAX_STEPS):
            curve, courses = self._curve(pivot, low, high, wanted)
            t, rest = self._settle(pivot, after, curve, np.clip(t, low, high), near)
            if (abs(rest) > near).any():  # beyond the ends
                low, high = (2.0 if (rest < -near).any() else 1.0) * low, (2.0 if (rest > near).any() else 1.0) * high
                continue
            few = self.alpha > 0.0 and max(np.unique(t[t > 0.0]).size, np.unique(t[t < 0.0]).size) < NODES - 2
            if not few or (wanted.size == t.size and abs(t - wanted).max() <= 1e-6 * (high - low)):
                return t, curve, courses
            wanted = t.copy()  # again, with nodes at the data sets
        raise _NoCurve

    def _settle(
        self, pivot: _Pivot, after: Learned, curve: Curve, t: FloatArray, near: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return the position on the curve where each data set [R] has v = max Q(W(v)), and the residual there.

        Newton steps with a bracket. The right side rises by less than the left, so there is one such position; it may
        lie beyond the ends of the curve.
        """
        ends = np.tile([curve.low, curve.high], (t.size, 1))  # of the bracket
        tried = np.zeros(ends.shape, dtype=np.bool_)
        rest, active = np.zeros(t.size), np.arange(t.size)
        for _ in range(2 * MAX_STEPS):
            y, dy, _ = curve.at(t[active])
            lead, slope = self._leads(pivot, after.some(active), y, dy)
            best = lead.argmax(axis=1)
            row = np.arange(active.size)
            rest[active] = lead[row, best] - t[active]
            up = (rest[active] > 0.0).astype(np.int64)
            ends[active, 1 - up], tried[active, 1 - up] = t[active], True
            step = t[active] + rest[active] / (1.0 - slope[row, best])
            # to an end of the bracket only if it was not tried
            past = np.where(up == 1, step >= ends[active, 1], step <= ends[active, 0])
            step = np.where(past, np.where(tried[active, up], ends[active].mean(axis=1), ends[active, up]), step)
            go = (abs(rest[active]) > 0.1 * near) & (step != t[active])
            active, step = active[go], step[go]
            if not active.size:
                break
            t[active] = step
        return t, rest

    # -- the curve of one state ----------------------------------------------------------------------------

    def _curve(self, pivot: _Pivot, low: float, high: float, wanted: FloatArray) -> tuple[Curve, list[_Course]]:
        """Return the curve of the best values of the other states, with state s held ``low`` to ``high`` above now."""
        pieces: list[tuple[FloatArray, FloatArray, int]] = []
        courses: list[_Course] = []
        for end in (high, low):
            held = Held(self.rows, pivot.s)
            mean = held if self.rows is self.mean else Held(self.mean, pivot.s)
            t, course = 0.0, 0
            if not courses:
                courses.append(self._course(pivot, mean, False))
            while t != end:
                nodes, d, y = self._stretch(pivot, held, t, end, wanted)
                turn, p = self._next_lead(held, nodes, d)
                if turn != t:
                    if turn != end:
                        kept = np.append(nodes[abs(nodes - t) < abs(turn - t)], turn)
                        nodes, y = kept, between(kept, nodes, y, derivatives(nodes, y))
                    pieces.append((nodes, y, course))
                if p < 0:
                    break
                held.switch(p)
                if mean is not held:
                    mean.switch(p)
                differs = bool((held.pairs != np.arange(held.pairs.size))[self.visited].any())
                course, t = len(courses), turn
                courses.append(self._course(pivot, mean, differs))
                if course > MAX_PIECES:
                    raise _NoCurve
        return Curve(pieces), courses

    def _stretch(
        self, pivot: _Pivot, held: Held, t: float, end: float, wanted: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return nodes [N] from t to ``end``, the distances [S, N] and the quantities [C, N] there.

        Nodes are doubled until every other one is enough to know those between. Weak evidence makes sharp bends.
        """
        nodes = self._nodes(t, end, wanted)
        while True:
            d = self._points(held, nodes)
            y = self._quantities(pivot, held, nodes, d)
            if nodes.size < NODES or nodes.size >= MAX_NODES:
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
        bent = ITERATED_BEND * enough
        if held.pairs.size <= MAX_EXACT_STATES:
            enough = bent = 0.1 * self.slack
        bends = self._bends(held.pairs, d[:, abs(t).argmax()]) * self.longest
        bends[held.s] = 0.0
        weak, rows = np.flatnonzero((bends > enough) & (bends <= bent)), np.flatnonzero(bends > bent)
        if not weak.size + rows.size:
            return d
        bend = np.zeros((d.shape[0], t.size))
        bend[weak] = self._smooth_shortfall(held.pairs[weak], t, d)
        for _ in range(MAX_STEPS):
            bend[rows] = self._shortfall(held.pairs[rows], d)
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
        local = square > 4.0 * second  # elsewhere outcomes may change their order, and derivatives say nothing
        own = np.maximum(second - common**2 / np.where(local, square, np.inf), 0.0)
        most = 2.0 * np.sqrt(self.alpha / (1.0 - self.alpha) * second / total)
        return np.minimum(most, np.where(local, self.price[pairs] * own / np.where(local, square, 1.0), np.inf))

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
        bends = self._shortfall(pairs, d[:, at])
        return np.asarray(bends @ np.array([_weight_of(i, t[at], t) for i in range(3)]))

    def _next_lead(self, held: Held, nodes: FloatArray, d: FloatArray) -> tuple[float, int]:
        """Return where on the way along ``nodes`` another action takes the lead elsewhere, and its pair; or -1."""
        # at most, as if rows were straight; SciPy multiplies columns one by one in half the time
        steps = [self.rows.slope @ np.ascontiguousarray(column) for column in d.T]
        lead = self.rows.lead[:, np.newaxis] + np.stack(steps, axis=1) - d[self.state]
        lead[held.pairs] = -np.inf
        lead[self.state == held.s] = -np.inf
        rivals = np.flatnonzero((lead > self.slack).any(axis=1))
        if not rivals.size:
            return float(nodes[-1]), -1
        lead = lead[rivals]
        if self.alpha > 0.0:
            lead += self._shortfall(rivals, d)
            fine = np.linspace(nodes[:-1], nodes[1:], REFINEMENT, endpoint=False).T.ravel()
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

    def _quantities(self, pivot: _Pivot, held: Held, t: FloatArray, d: FloatArray) -> FloatArray:
        """Return [C, N]: d at the next states of the users [U K], leads of the outside pairs [O], d from the start."""
        lead = self.rows.lead[pivot.outside][:, np.newaxis] + pivot.slope @ d
        if self.alpha > 0.0:
            lead += self._shortfall(pivot.outside, d)
        return np.vstack([pivot.seen(d).reshape(-1, t.size), lead, self.start @ d])

    def _course(self, pivot: _Pivot, held: Held, differs: bool) -> _Course:
        zero, follow = held.distance(np.zeros(1))[:, 0], held.follow
        slope = pivot.mean_slope
        return _Course(
            differs,
            pivot.seen(zero),
            pivot.seen(follow),
            (float(self.start @ zero), float(self.start @ follow)),
            (held.rows.lead[pivot.outside] + slope @ zero, slope @ follow),
        )

    def _returns(
        self, pivot: _Pivot, course: _Course, action: int, theta: FloatArray, reward: FloatArray
    ) -> FloatArray:
        """Return what a course with an action in state s returns from the start in the mean model, above now [R]."""
        gamma, users = self.model.discount, pivot.users.size
        if action < users:
            worth = pivot.mean_worth[action] + gamma * course.at_zero[action]
            more = (theta @ worth + reward - self.mean.value[pivot.s]) / (1.0 - gamma * (theta @ course.follow[action]))
        else:
            lead, rise = (values[action - users] for values in course.others)
            more = np.full(theta.shape[0], lead / (1.0 - rise))
        from_start, rise = course.start
        return from_start + rise * more

    # -- sources that several states share -----------------------------------------------------------------

    def _solved(self, b: int, psi: FloatArray, reward: float, pair: int) -> tuple[float, float, float]:
        """Return gain, change of the value, and 1.0 if the policy changes.

        Source b has the counts ``psi``, and the mean reward of ``pair`` moves by ``reward``.
        """
        moved, known = np.array([pair]), "certain"
        risk_model = with_rewards(self.risk_model, moved, np.array([reward + self.relief[pair]]))
        mean_model = with_rewards(self.mean_model, moved, np.array([reward]))
        counts = self.counts.copy()
        counts[b] = psi
        start, policy = self.full_start, self.now.chosen
        problem = BayesianRiskMDP(risk_model, counts, self.alpha, reward_posterior=known)
        then = problem.solve(initial_value=self.value, threads=1, options=self.options)
        change = self._beyond_rounding(start @ (then.value - self.value))
        kept = then.q_of(policy) >= then.value - self.slack
        if kept[self.states][self.visited].all():
            return 0.0, change, 0.0
        neutral = BayesianRiskMDP(mean_model, counts, 0.0, reward_posterior=known) if self.alpha > 0.0 else problem
        before = neutral.evaluate(policy, initial_value=self.value, threads=1, options=self.options).value
        if self.alpha == 0.0:
            return max(self._beyond_rounding(start @ (then.value - before)), 0.0), change, 1.0
        after = neutral.evaluate(then.policy, initial_value=before, threads=1, options=self.options).value
        return self._beyond_rounding(start @ (after - before)), change, 1.0

    def _beyond_rounding(self, difference: Any) -> Any:
        """Return a difference of values from the start, zero where it is no more than their tolerance."""
        return np.where(abs(difference) > self.slack, difference, 0.0)


def _weight_of(i: int, nodes: FloatArray, t: FloatArray) -> FloatArray:
    """Return the weights [N] of node i in the polynomial through the nodes, at ``t`` [N]."""
    others = np.delete(nodes, i)
    return np.asarray(np.prod((t - others[:, np.newaxis]) / (nodes[i] - others)[:, np.newaxis], axis=0))


def _pay(gap: FloatArray, sd: FloatArray, pays: FloatArray) -> FloatArray:
    """Return E[(pays + X) 1{X > gap}] for a normal X with mean 0."""
    moves = sd > 0.0
    x = np.clip(np.divide(gap, sd, out=np.full(gap.shape, np.inf), where=moves), -1e3, 1e3)
    return np.where(moves, pays * ndtr(-x) + sd * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi), 0.0)
