"""Many items with shared features, clicks and counts: decisions, propensities and posteriors against plain programs."""

from __future__ import annotations

import math
import time

import numpy as np

from prudent.bandits import SharedLinearBandit
from prudent.posteriors.glm import LogisticPosterior

from ._timing import Row, median_times

ITEMS = 1000


def decision_rows(dim: int) -> list[Row]:
    rng = np.random.default_rng(0)
    past = rng.normal(size=(3000, dim))
    rewards = past @ rng.normal(size=dim) / math.sqrt(dim) + rng.normal(size=3000)
    bandit = SharedLinearBandit(dim, rng=1).update(past, None, rewards)
    features, names = rng.normal(size=(ITEMS, dim)), [f"item {i}" for i in range(ITEMS)]
    theta, covariance = np.linalg.solve(np.eye(dim) + past.T @ past, past.T @ rewards), np.linalg.inv(past.T @ past)

    def numpy() -> int:
        sds = np.sqrt(((features @ covariance) * features).sum(axis=1))
        return int(np.argmax(features @ theta + sds * rng.standard_normal(ITEMS)))

    select, slate, plain = median_times(
        lambda: bandit.select(features, names),
        lambda: bandit.select(features, names, 10),
        numpy,
        repeats=50,
    )
    known = bandit.select(features, names)

    def propensity() -> None:
        known._propensity = None
        _ = known.propensity

    (chance,) = median_times(propensity, repeats=20)
    return [
        Row(
            f"1,000 items, D = {dim}: select",
            select,
            plain,
            "under 1 ms",
            select < 1e-3,
            "other: plain NumPy",
            why="it checks its input, keeps what the propensity needs, and learns the noise",
        ),
        Row(
            f"1,000 items, D = {dim}: a slate of 10",
            slate,
            plain,
            "under 1 ms",
            slate < 1e-3,
            "other: plain NumPy, one item",
            why="ten items one after the other, against one",
        ),
        Row(f"1,000 items, D = {dim}: propensity", chance, math.nan, "under 5 ms", chance < 5e-3),
    ]


def wide_rows() -> list[Row]:
    rng = np.random.default_rng(2)
    features = rng.normal(size=(20, 1000))
    bandit = SharedLinearBandit(1000, rng=1).update(features, None, features[:, 0])

    def decide() -> None:
        for _ in range(10):
            bandit.update(bandit.select(features).chosen, None, rng.normal(size=1))

    (ours,) = median_times(decide, repeats=3, clock=time.thread_time)
    return [Row("20 items, D = 1,000: select + update", ours / 10, 0.01, "under 10 ms", ours < 0.1, fixed=True)]


def click_rows() -> list[Row]:
    """20 features, clicks of 2%: a reward online, and 40,000 at once against scikit-learn's exact solver."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(40_000, 20))
    contexts[:, 0] = 1.0
    theta = np.append(-4.0, rng.normal(size=19) / math.sqrt(20))
    rewards = (rng.random(40_000) < 1.0 / (1.0 + np.exp(-contexts @ theta))).astype(float)
    online, exact, peer = median_times(
        lambda: LogisticPosterior(20).update(contexts, rewards),
        lambda: LogisticPosterior(20).refit(contexts, rewards),
        lambda: LogisticRegression(C=1.0, fit_intercept=False, solver="newton-cholesky").fit(contexts, rewards),
        repeats=3,
    )
    return [
        Row(
            "40,000 clicks, D = 20: online",
            online,
            peer,
            "under 10 us each",
            online < 0.4,
            "other: sklearn's fit",
            why="40,000 posteriors, one after each click, against one fit of all",
        ),
        Row(
            "40,000 clicks, D = 20: refit",
            exact,
            peer,
            "ratio >= 0.1",
            peer / exact >= 0.1,
            "exact mode and Hessian",
            why="to the last digit and with the Hessian; scikit-learn stops at a gradient of 1e-4",
        ),
    ]


PIECES = {"items": lambda: [*decision_rows(20), *decision_rows(50), *wide_rows()], "clicks": click_rows}
