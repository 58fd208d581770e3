"""What one bandit has learned since a common past, added to another: sums of sums, counted once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numerics.compensated import two_sums
from .._support.checks import FloatArray
from .step import COUNT, DIRTY, HIGH, LAST, LOW, ORIGIN, PULLS, STALE, TRIES, WEIGHT, WHICH, Arms

__all__ = ["News", "add_news", "add_pool", "news_of", "same_prior"]


class News(NamedTuple):
    """The sums of the rewards of one arm since then."""

    gram: FloatArray  # [2,D+1,D+1]
    extra: FloatArray  # [3,D+2]
    weight: float
    pulls: int
    tries: int


def news_of(arms: Arms, place: int, base: Arms | None, was: int | None, *, normal: bool = True) -> News | None:
    """Return what is known of an arm beyond what ``base`` knew in its row ``was``; None if it contradicts that.

    Weights of rewards that are not ``normal`` may be negative.
    """
    gram, extra, weight = arms.gram[place], arms.extra[place], float(arms.parts[place, WEIGHT])
    pulls, tries = int(arms.marks[place, PULLS]), int(arms.marks[place, TRIES])
    if base is None or was is None:
        return News(gram, extra, weight, pulls, tries)
    total, lost = two_sums(gram[0], -base.gram[was, 0])
    fresh = News(
        np.stack([total, gram[1] - base.gram[was, 1] + lost]),
        extra - base.extra[was],
        weight - float(base.parts[was, WEIGHT]),
        pulls - int(base.marks[was, PULLS]),
        tries - int(base.marks[was, TRIES]),
    )
    torn = fresh.pulls < 0 or fresh.tries < 0 or (fresh.pulls == 0 and bool(fresh.gram.any()))
    if normal and (np.diagonal(fresh.gram.sum(axis=0)) < 0.0).any():
        return None
    if torn or not same_prior(arms, place, base, was, normal=normal):
        return None
    return fresh


def same_prior(arms: Arms, place: int, others: Arms, there: int, *, normal: bool = True) -> bool:
    """Return whether an arm has the same prior in two tables; if rewards are not ``normal``, the first is learned."""
    which, other = arms.marks[place, WHICH], others.marks[there, WHICH]
    if not normal and which == other == 0:
        return True
    return np.array_equal(arms.prior[which], others.prior[other]) and np.array_equal(
        arms.start[which], others.start[other]
    )


def add_news(arms: Arms, place: int, news: News) -> None:
    """Add the news of an arm to what is known of it."""
    arms.marks[place, TRIES] += news.tries
    if not news.pulls:
        return
    total, lost = two_sums(arms.gram[place, 0], news.gram[0])
    arms.gram[place] = two_sums(total, arms.gram[place, 1] + news.gram[1] + lost)
    arms.extra[place] += news.extra
    arms.parts[place, WEIGHT] += news.weight
    arms.marks[place, PULLS] += news.pulls
    arms.marks[place, STALE] = 1


def add_pool(arms: Arms, others: Arms, base: Arms | None) -> None:
    """Add what the rewards of all arms have in common: their range, the first and the last, and their number."""
    pool, theirs = arms.pool, others.pool
    fresh = theirs[COUNT] - (base.pool[COUNT] if base is not None else 0.0)
    pool[LOW], pool[HIGH] = min(pool[LOW], theirs[LOW]), max(pool[HIGH], theirs[HIGH])
    if fresh > 0.0:
        pool[ORIGIN] = pool[ORIGIN] if pool[COUNT] > 0.0 else theirs[ORIGIN]
        pool[LAST] = theirs[LAST]
        pool[COUNT] += fresh
    pool[DIRTY] = 1.0
