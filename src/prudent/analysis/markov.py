"""Tests of the Markov property: does the past say more about the next state or the value than state and action do?

Rows with the same state and action form a *stratum*. If the state says all that matters, what follows a row does not
depend on anything earlier: outcomes (next state and reward) can be exchanged between rows of a stratum. Every
statistic is compared with its values after random exchanges of this kind, which leave the estimated model as it is.
With O the number of rows of a stratum that have a level of the past and a next state, and
delta = r + gamma V(s') minus its mean over the stratum (the surprise of a row, V the values of the model), these are

- *next state*: sum O log O, the likelihood-ratio statistic G of independence up to constants. Its excess over the
  exchanged rows, divided by their number, is information in bits for a row;
- *value*: the sum over strata and levels of (sum delta)^2 / number. Its excess over the exchanged rows, divided by the
  sum of delta^2, is the share of the surprise that the past explains;
- *previous surprise*: the sum of the products of successive deltas;
- *episode*: the sum over episodes of (sum delta)^2, and over episodes and actions: the score test of a random effect of
  the patient, and of the patient for each action.

The P value is the share of exchanges that are as large, of more exchanges where it is small; beyond a few exceedances,
the tail of a Pearson III law with the mean, variance and skewness of the exchanged statistics. Holm's rule adjusts for
the number of tests. Exchanges are exact for rows that do not follow each other; otherwise nearly so, since the outcome
of a row decides which rows come later. Measured false-alarm rates are in the documentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from .._support.progress import Progress
from ..estimation.rows import LogRows
from ..types import BoolArray, FloatArray, IntArray

EXCHANGES = 199
MOST_ROWS = 60_000  # of longer logs some episodes are tested
TIMES = 4  # parts of the episode by time
FURTHER = 1_800  # exchanges of statistics whose P value is at most DOUBTFUL, less than CLEAR standard deviations away
DOUBTFUL = 0.01
CLEAR = 10.0
MANY_ROWS = 20_000  # with more, a third of the further exchanges
FEW = 10  # exceedances from which on their share is the P value


class Test(NamedTuple):
    """One test: what of the past, of what it may tell, and the result."""

    past: str  # previous state, previous action, previous surprise, time, episode, half
    what: str  # next state, or value
    p: float  # after Holm's rule
    raw_p: float
    effect: float  # bits for a row, share of the surprise that is explained, or correlation with the previous one
    worth: float  # typical shift of the value of a step, in rewards; NaN for next states
    rows: int


class _Rows(NamedTuple):
    """Rows to test, sorted by stratum."""

    stratum: IntArray  # [M] 0, 1, ..., ascending
    size: IntArray  # [strata]
    outcome: IntArray  # [M] number of the next state within the stratum
    outcomes: IntArray  # [strata] how many next states each has
    delta: FloatArray  # [M]
    order: IntArray  # [M] which rows of the log these are


def markov_tests(
    read: LogRows, value: FloatArray, discount: float, rng: np.random.Generator, exchanges: int = EXCHANGES
) -> list[Test]:
    """Return the tests that the log allows: those of the past need episodes.

    Parameters
    ----------
    read : LogRows
        The rows of a log.
    value : float64 [S]
        Values of the states of the log.
    discount : float
        Discount factor.
    rng : Generator
        Source of the exchanges.
    exchanges : int, default=199
        Number of random exchanges.

    Returns
    -------
    list of Test
        Results, with P values that Holm's rule has adjusted.
    """
    which = _some_episodes(read, rng)
    reward = 0.0 if read.reward is None else read.reward[which]
    later = np.broadcast_to(read.discounts(discount), read.state.shape)[which]
    target = reward + later * value[read.target[which]]
    pair = read.state[which] * read.shape[1] + read.action[which]
    tests: list[Test] = []
    if read.by_episode is None:
        if (read.times == 1.0).all():
            half = (np.arange(which.size) * 2 >= which.size).astype(np.int64)
            rows = _rows_of(pair, read.target[which], target, np.ones(which.size, dtype=np.bool_))
            tests += _exchanged(rows, {"half": half}, {}, None, exchanges, rng)
        return _holm(tests)
    episode, place = read.episode[which], read.place[which]
    order = np.lexsort((place, episode))
    before = np.full(which.size, -1, dtype=np.int64)
    follows = (np.diff(episode[order]) == 0) & (np.diff(place[order]) == 1)
    follows &= read.target[which][order[:-1]] == read.state[which][order[1:]]
    before[order[1:][follows]] = order[:-1][follows]
    time = np.searchsorted(np.quantile(place, np.arange(1, TIMES) / TIMES), place, side="right")
    # episodes in the order in which they come in the log
    _, first, number = np.unique(episode, return_index=True, return_inverse=True)
    half = (np.argsort(np.argsort(first))[number] * 2 >= first.size).astype(np.int64)
    every = np.ones(which.size, dtype=np.bool_)
    rows = _rows_of(pair, read.target[which], target, every)
    groups = {"episode": number, "episode and action": number * read.shape[1] + read.action[which]}
    tests += _exchanged(rows, {"time": time, "half": half}, groups, None, exchanges, rng)
    later = before >= 0
    if later.any():
        delta = np.zeros(which.size)
        delta[rows.order] = rows.delta
        past = {"previous state": read.state[which][before], "previous action": read.action[which][before]}
        some = _rows_of(pair, read.target[which], target, later)
        tests += _exchanged(some, past, {}, delta[before], exchanges, rng)
    return _holm(tests)


def _some_episodes(read: LogRows, rng: np.random.Generator) -> IntArray:
    """Return the rows to test: all of them, or those of some episodes."""
    size = read.state.size
    if size <= MOST_ROWS:
        return np.arange(size)
    if read.by_episode is None:
        return np.sort(rng.choice(size, MOST_ROWS, replace=False))
    lengths = np.bincount(read.episode, minlength=read.by_episode.size)
    order = rng.permutation(lengths.size)
    taken = order[: max(1, int(np.searchsorted(np.cumsum(lengths[order]), MOST_ROWS)))]
    chosen = np.zeros(lengths.size, dtype=np.bool_)
    chosen[taken] = True
    return np.flatnonzero(chosen[read.episode])


def _rows_of(pair: IntArray, target: IntArray, value: FloatArray, used: BoolArray) -> _Rows:
    """Return the used rows by strata; strata of one row say nothing and are left out."""
    kept = np.flatnonzero(used)
    _, code, count = np.unique(pair[kept], return_inverse=True, return_counts=True)
    kept = kept[count[code] > 1]
    kept = kept[np.argsort(pair[kept], kind="stable")]
    _, stratum, size = np.unique(pair[kept], return_inverse=True, return_counts=True)
    steps, step = np.unique(np.stack((stratum, target[kept]), axis=1), axis=0, return_inverse=True)
    step = step.reshape(-1)
    first = np.searchsorted(steps[:, 0], np.arange(size.size)) if kept.size else np.zeros(0, dtype=np.int64)
    outcomes = np.bincount(steps[:, 0], minlength=size.size) if kept.size else np.zeros(0, dtype=np.int64)
    mean = np.bincount(stratum, value[kept], size.size) / np.maximum(size, 1)
    return _Rows(stratum, size, step - first[stratum], outcomes, value[kept] - mean[stratum], kept)


def _dot(one: FloatArray | IntArray, other: FloatArray) -> float:
    """Return the sum of products on this thread: those of BLAS wait for each other, thousands of times."""
    return float(np.einsum("i,i->", one, other))


class _Statistic(NamedTuple):
    """A statistic of outcomes and surprises in the order of the rows, and what its excess is measured by."""

    past: str
    what: str
    kind: str  # table, means, sums or product
    cell: IntArray  # [M] group of the row; for tables the first cell of its group
    size: int  # number of groups or cells
    weight: FloatArray  # 1 / rows of each group, or the previous surprise
    scale: float

    def value(self, outcome: IntArray, delta: FloatArray) -> float:
        """Return the statistic."""
        if self.kind == "table":
            key = self.cell + outcome
            sparse = self.size > 4 * key.size  # most cells of the table are empty
            counts = np.unique(key, return_counts=True)[1] if sparse else np.bincount(key, minlength=self.size)
            return _dot(counts, np.log(np.maximum(counts, 1)))
        if self.kind == "product":
            return _dot(self.weight, delta)
        total = np.bincount(self.cell, delta, self.size)
        return _dot(total * total, self.weight)


def _exchanged(
    rows: _Rows,
    past: dict[str, IntArray],
    groups: dict[str, IntArray],
    previous: FloatArray | None,
    exchanges: int,
    rng: np.random.Generator,
) -> list[Test]:
    """Return tests of levels of the past, of groups of rows across strata, and of the previous surprise."""
    M = rows.order.size
    if M < 2 or not rows.delta.any():
        past, previous = (past, None) if M >= 2 else ({}, None)
        groups = {}
    total = float(rows.delta @ rows.delta)
    listed: list[_Statistic] = []
    for name, every in past.items():
        level = every[rows.order]
        cells, group = np.unique(np.stack((rows.stratum, level), axis=1), axis=0, return_inverse=True)
        group = group.reshape(-1)
        if np.unique(cells[:, 0]).size == cells.shape[0]:
            continue  # no stratum has two levels
        wide = rows.outcomes[cells[:, 0]]
        first = np.cumsum(wide) - wide
        cell, cells_in_all, bits = first[group], int(wide.sum()), M * np.log(2.0)
        listed.append(_Statistic(name, "next state", "table", cell, cells_in_all, np.zeros(0), bits))
        if total:
            count = np.bincount(group).astype(np.float64)
            listed.append(_Statistic(name, "value", "means", group, count.size, 1.0 / count, total))
    for name, every in groups.items():
        _, group = np.unique(every[rows.order], return_inverse=True)
        count = np.bincount(group).astype(np.float64)
        pairs = float((count * (count - 1.0)).sum())
        if pairs:
            each, scale = np.ones(count.size), pairs * total / M
            listed.append(_Statistic(name, "value", "sums", group, count.size, each, scale))
    if previous is not None:
        lag = previous[rows.order]
        spread = float(np.sqrt(lag @ lag * total))
        if spread:
            listed.append(_Statistic("previous surprise", "value", "product", rows.stratum, 0, lag, spread))
    seen = [statistic.value(rows.outcome, rows.delta) for statistic in listed]
    line = Progress("tests of the Markov property")

    def draws(which: Sequence[int], count: int) -> FloatArray:
        drawn = np.empty((count, len(which)))
        for i in range(count):
            order = np.argsort(rows.stratum + rng.random(M))
            outcome, delta = rows.outcome[order], rows.delta[order]
            drawn[i] = [listed[j].value(outcome, delta) for j in which]
            line.show(f"{i + 1:,} of {count:,} exchanges")
        return drawn

    columns = list(draws(range(len(listed)), exchanges).T)
    near = [j for j, column in enumerate(columns) if _is_near(seen[j], column)]
    if near:  # a small P value that more exchanges may change
        more = draws(near, FURTHER if M <= MANY_ROWS else FURTHER // 3)
        for j, column in zip(near, more.T, strict=True):
            columns[j] = np.concatenate((columns[j], column))
    line.close()
    noise = np.sqrt(total / max(M, 1))
    tests = []
    for statistic, value, column in zip(listed, seen, columns, strict=True):
        effect = (value - float(column.mean())) / statistic.scale
        share = max(effect, 0.0) ** (2 if statistic.kind == "product" else 1)
        worth = np.nan if statistic.what == "next state" else float(np.sqrt(share) * noise)
        p = _p_value(value, column)
        tests.append(Test(statistic.past, statistic.what, p, p, float(effect), worth, M))
    return tests


def _is_near(seen: float, drawn: FloatArray) -> bool:
    """Return whether the P value is small, but not so small that its exact size does not matter."""
    spread = float(drawn.std(ddof=1))
    return _p_value(seen, drawn) <= DOUBTFUL and spread > 0.0 and seen - float(drawn.mean()) < CLEAR * spread


def _p_value(seen: float, drawn: FloatArray) -> float:
    """Return the chance of a value as large as ``seen`` under the law of ``drawn``."""
    slack = 1e-9 * max(1.0, abs(seen))
    above = int(np.count_nonzero(drawn >= seen - slack))
    spread = float(drawn.std(ddof=1))
    if above >= FEW or spread <= slack:
        return (1 + above) / (1 + drawn.size)
    skew = float(np.clip(stats.skew(drawn), 0.0, 2.0))
    tail = float(stats.pearson3.sf((seen - float(drawn.mean())) / spread, skew))
    return float(min(max(tail, 1e-300), (2 + above) / (1 + drawn.size)))


def _holm(tests: list[Test]) -> list[Test]:
    """Return the tests with adjusted P values."""
    order = sorted(range(len(tests)), key=lambda i: tests[i].raw_p)
    adjusted, worst = list(tests), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(tests) - rank) * tests[i].raw_p))
        adjusted[i] = tests[i]._replace(p=worst)
    return adjusted
