"""What a LinearBandit expects of its arms in contexts: chances, moments, risk. Nothing is drawn, nothing changes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from .._numerics.student import student_shortfall
from .._support.checks import FloatArray, risk_level
from .batch import moments_of, scales
from .coins import Coins
from .decision import Arm, chances_of
from .step import BY_ARM, FREEDOM, TRIES, noise_of, refresh

if TYPE_CHECKING:
    from .bandit import LinearBandit

__all__ = ["chances", "coefficients", "moments", "shortfall"]


def chances(bandit: LinearBandit, contexts: Any, arms: Iterable[Arm] | None) -> FloatArray:
    """Return the chances of the next decision; see :meth:`LinearBandit.propensities`."""
    points = bandit._points(contexts)
    with bandit._lock:
        _, eligible = bandit._names_and_places(arms)
        bandit._check_floor(eligible.size)
        t = bandit._decisions + 1
        settings = bandit._settings.at(t)
        rows = bandit._checked_rows(np.atleast_2d(points))
        if isinstance(bandit._clicks, Coins):
            coin = bandit._clicks.chances(bandit._arms, eligible, settings)
            return coin if points.ndim == 1 else np.tile(coin, (len(rows), 1))
        known = moments_of(bandit._arms, rows, eligible)
        values = known.values
        scale = scales(bandit._arms, bandit._rule, t, 1, rows.shape[1])[0]
        lacks = bandit._arms.marks[eligible, TRIES] < settings.first_pulls
    sds = np.ascontiguousarray(scale * values[1].T)
    if lacks.any():
        sds[:] = np.where(lacks, np.nan, 0.0)
    sds[np.isinf(sds)] = np.nan
    law = (settings.min_propensity, settings.signed_draws, tuple(settings.weights.tolist()), settings.clip)
    found = chances_of(law, np.ascontiguousarray(values[0].T), sds, known.freedom)
    return found[0] if points.ndim == 1 else found


def moments(
    bandit: LinearBandit, contexts: Any, arms: Iterable[Arm] | None, response: bool
) -> tuple[FloatArray, FloatArray]:
    """Return mean and sd of the posterior of the mean reward; see :meth:`LinearBandit.predict`."""
    points = bandit._points(contexts)
    with bandit._lock:
        _, eligible = bandit._names_and_places(arms)
        if isinstance(bandit._clicks, Coins):
            coins, rows = bandit._clicks, bandit._checked_rows(np.atleast_2d(points))
            told = (coins.chances_of_one if response else coins.moments)(bandit._arms, eligible)
            mean, sd = (each if points.ndim == 1 else np.tile(each, (len(rows), 1)) for each in told)
            return mean, sd
        known = moments_of(bandit._arms, bandit._checked_rows(np.atleast_2d(points)), eligible)
        mean, sd = known.values[0].T.copy(), known.sds.T.copy()
    if response and bandit._clicks is not None:
        mean, sd = bandit._clicks.response(mean, sd)
    return (mean[0], sd[0]) if points.ndim == 1 else (mean, sd)


def shortfall(bandit: LinearBandit, contexts: Any, arms: Iterable[Arm] | None, alpha: float | None) -> FloatArray:
    """Return CVaR of the mean reward; see :meth:`LinearBandit.score`."""
    from ..exact import cvar_clipped_normal, cvar_normal

    level = bandit.alpha if alpha is None else risk_level(alpha)
    with bandit._lock:
        mean, sd = bandit.predict(contexts, arms)
        _, eligible = bandit._names_and_places(arms)
        freedom = bandit._arms.parts[eligible, FREEDOM]
        if isinstance(bandit._clicks, Coins):
            return np.broadcast_to(bandit._clicks.shortfall(bandit._arms, eligible, level), mean.shape).copy()
    if level == 0.0 and not bandit._settings.clip:
        return mean
    if not np.isfinite(sd).all():
        return np.full_like(mean, -np.copysign(np.inf, level))
    if bandit._noise == "by arm":
        below = np.copysign(student_shortfall(abs(level), freedom), level)
        return mean - sd * np.sqrt(1.0 - 2.0 / freedom) * below
    values = (cvar_clipped_normal if bandit._settings.clip else cvar_normal)(mean, sd, level)
    return np.asarray(values)


def coefficients(bandit: LinearBandit) -> tuple[FloatArray, FloatArray]:
    """Return means [A,D] and covariances [A,D,D] of theta; infinite ones if the noise is not known yet."""
    with bandit._lock:
        arms = bandit._arms
        if isinstance(bandit._clicks, Coins):
            centre, sd = bandit._clicks.moments(arms, bandit._every)
            return centre[:, np.newaxis], sd[:, np.newaxis, np.newaxis] ** 2
        refresh(bandit._arms, bandit._every)
        noise = np.array([float(noise_of(arms, int(place))) for place in bandit._every])
        if arms.kind == BY_ARM:
            freedom = arms.parts[:, FREEDOM]
            noise = noise * np.sqrt(freedom / (freedom - 2.0))
        covariance = arms.root.swapaxes(1, 2) @ arms.root
        known = noise[:, np.newaxis, np.newaxis] > 0.0
        return arms.mean.copy(), np.where(known, noise[:, np.newaxis, np.newaxis] ** 2 * covariance, math.inf)
