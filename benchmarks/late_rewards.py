"""Why conversions are held as long as zeros: ``python -m benchmarks late_rewards``.

Three arms convert with the chances 3.0%, 3.5% and 4.1%; the conversions of the best arm come late, after 2 days on
average, those of the others within hours. A zero is known only when a window of seven days has passed. Learned at once,
conversions of fast arms count days before those of the slow one: for a while all that is known of the fast arms is
successes. What is compared is the conversion rate that a bandit earns over 60 days.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from prudent.bandits import LinearBandit

from ._timing import Row

RATES, DELAYS = np.array([0.030, 0.035, 0.041]), np.array([0.1, 0.1, 2.0])  # chances, and mean days to a conversion
DAYS, AN_HOUR, WINDOW = 60, 100, 7 * 24  # the window is in hours


def played(held: bool, seed: int) -> float:
    """Return the conversion rate of one run, in which conversions are held for the window or learned at once."""
    rng, hours = np.random.default_rng(seed), DAYS * 24
    bandit = LinearBandit(3, 0, rewards="bernoulli", rng=seed)
    known = np.zeros((hours + WINDOW + 1, 3, 2), dtype=np.int64)  # rewards by the hour in which they are learned
    won = 0
    for hour in range(hours):
        for arm in range(3):
            zeros, ones = known[hour, arm]
            if zeros + ones:
                rewards = np.repeat([0.0, 1.0], [zeros, ones])
                bandit.update(np.empty((rewards.size, 0)), [arm] * rewards.size, rewards)
        arms = bandit.select(np.empty((AN_HOUR, 0)), propensity=False).arm
        late = np.ceil(24.0 * rng.exponential(DELAYS[arms])).astype(np.int64)
        converts = (rng.random(AN_HOUR) < RATES[arms]) & (late < WINDOW)
        won += int(converts.sum())
        when = hour + np.where(converts & (not held), late, WINDOW)
        np.add.at(known, (when, arms, converts.astype(np.int64)), 1)
    return won / (hours * AN_HOUR)


def run(runs: int = 8) -> list[Any]:
    rates = np.array([[played(held, seed) for held in (True, False)] for seed in range(runs)])
    (held, at_once), error = rates.mean(axis=0), (rates[:, 0] - rates[:, 1]).std(ddof=1) / np.sqrt(runs)
    note = f"conversion rate, conversions held for the window against learned at once, difference +- {error:.4f}"
    met = held - at_once > 3.0 * error
    return [
        Row("late conversions", held, at_once, "held earns more", bool(met), note, unit="", higher=True, compared=False)
    ]
