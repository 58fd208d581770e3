"""What one bandit has learned since a common past, added to another: sums of sums, counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compensated import two_sums
from .._support.checks import FloatArray
from ..data.features import shown
from ..errors import ParameterError
from .linear_state import prior_kind
from .step import COUNT, DIRTY, GAIN, HIGH, LAST, LOW, ORIGIN, PULLS, STALE, TRIES, WEIGHT, WHICH, Arms
from .table import with_new_row

if TYPE_CHECKING:
    from .bandit import LinearBandit

__all__ = ["News", "add_news", "add_pool", "merge", "news_of", "same_prior"]


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


# -- whole bandits -----------------------------------------------------------------------------------------


def merge(bandit: LinearBandit, other: LinearBandit, since: LinearBandit | None) -> None:
    """Let a bandit learn what ``other`` has learned since it was ``since``; see :meth:`LinearBandit.merge`."""
    if other is bandit:
        raise ParameterError("other is the bandit itself: its rewards would count twice")
    for label, given in (("other", other), ("since", since)):
        if given is not None or label == "other":
            _require_kin(bandit, given, label)
    other = other.copy()  # it may learn meanwhile
    with bandit._lock:
        # all that can be refused is refused before anything changes
        decisions = other._decisions - (since._decisions if since else 0)
        if decisions < 0:
            raise ParameterError(f"other has taken {-decisions} decisions fewer than since: it comes from elsewhere")
        news = {}
        for place, name in enumerate(other._names):
            was = since._index.get(name) if since else None
            normal = bandit._clicks is None
            found = news_of(other._arms, place, since._arms if since else None, was, normal=normal)
            here = bandit._index.get(name)
            if found is None or (
                here is not None and not same_prior(bandit._arms, here, other._arms, place, normal=normal)
            ):
                raise ParameterError(f"other does not come from since: what they know of arm {name!r} contradicts it")
            news[name] = found
        for place, name in enumerate(other._names):
            if name not in bandit._index and not (since and name in since._index):
                which = other._arms.marks[place, WHICH]
                prior = (other._priors[which], other._arms.start[which]) if which else None
                if prior is not None:
                    bandit._priors = np.concatenate([bandit._priors, prior[0][np.newaxis]])
                bandit._set_arms([*bandit._names, name], with_new_row(bandit._arms, prior))
        for name, found in news.items():
            if name in bandit._index:
                add_news(bandit._arms, bandit._index[name], found)
        add_pool(bandit._arms, other._arms, since._arms if since else None)
        if bandit._clicks is not None:
            bandit._clicks.renew(bandit._arms)
        bandit._rewards = int(bandit._arms.marks[:, PULLS].sum())
        bandit._decisions += decisions
        bandit._names_of_features = bandit._names_of_features or other._names_of_features


def _require_kin(bandit: LinearBandit, given: Any, label: str) -> None:
    """Raise unless this is a bandit of the same settings, whose evidence does not fade."""
    from .bandit import LinearBandit

    if not isinstance(given, LinearBandit):
        raise ParameterError(f"{label} must be a LinearBandit, got {given!r}")
    for name, mine, theirs in zip(*_kind_of(bandit), _kind_of(given)[1], strict=True):
        if mine != theirs:
            raise ParameterError(f"{label} has other settings: its {name} is {theirs!r}, here it is {mine!r}")
    mine, theirs = bandit._names_of_features, given._names_of_features
    if mine is not None and theirs is not None and mine != theirs:
        raise ParameterError(
            f"{label} has the features {shown(theirs)} in this order, here they are {shown(mine)}: give the common "
            "ancestor their names, features=[...], and what starts from it has one order"
        )
    if bandit._drift is not None or any(each._arms.pool[GAIN] != 1.0 for each in (bandit, given)):
        raise ParameterError(f"the evidence of {label} fades, or has faded: such bandits cannot be merged")


def _kind_of(bandit: LinearBandit) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Return what must be equal for bandits to be merged: names and values."""
    names = ("dim", "settings", "noise_sd", "noise", "intercept", "rewards", "half_life", "prior_precision")
    prior = prior_kind(bandit._clicks)
    prior = bandit._priors[0].tolist() if prior == "given" else prior
    own = (getattr(bandit, f"_{name}") for name in names[:5])
    return names, (*own, bandit.reward_kind, bandit.half_life, prior)
