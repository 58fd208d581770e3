"""Clicks without context cost what a context of one feature costs, about."""

from __future__ import annotations

import time

import numpy as np

from prudent.bandits import LinearBandit
from prudent.journal import Journal


def test_a_click_without_context_costs_what_one_feature_costs(tmp_path):
    """The least of five times on the processor each; ``benchmarks.journal`` has the ratios."""
    lives = [
        Journal(tmp_path / str(dim), LinearBandit(5, dim, rewards="bernoulli", rng=1), synchronous="NORMAL")
        for dim in (0, 1)
    ]
    least = np.full((2, 2), np.inf)
    for _ in range(5):
        for dim, live in enumerate(lives):
            began = time.thread_time()
            ids = [live.select(np.ones(dim)).id for _ in range(20)]
            decided = time.thread_time()
            for i, each in enumerate(ids):
                live.reward(each, i % 2)
                live.select(np.ones(dim))
            least[dim] = np.minimum(least[dim], (decided - began, time.thread_time() - decided))
    for live in lives:
        live.close()
    assert (least[0] < 1.5 * least[1]).all(), least


def test_a_decision_after_a_reward_has_the_new_chances(rng):
    bandit = LinearBandit(4, 0, rewards="bernoulli", rng=rng)
    for step in range(30):
        fresh = LinearBandit.from_bytes(bandit.to_bytes())  # which has computed nothing yet
        arms = None if step % 3 else [0, 2, 3]
        for _ in range(2):
            decision = bandit.select(arms=arms)
            np.testing.assert_array_equal(decision.propensities, fresh.propensities(arms=arms))
        bandit.update(None, decision.arm, float(rng.random() < 0.3))
        if step == 20:
            bandit.forget(0.5)
