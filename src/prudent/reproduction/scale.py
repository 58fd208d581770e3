"""How large the experiments are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """How large the experiments are; by default as in the paper.

    Attributes
    ----------
    name : str
        Name of the scale.
    bandit_replications, horizon : int
        Replications and steps of the bandit studies.
    lake_replications, few_lakes, episodes : int
        Replications of Frozen Lake under the main readings and under the others, and their episodes.
    lake_looks : int
        How often the study of the best level may look at growing data: with 1, 4, 12 and 36 times the replications.
    long_replications, few_long, long_episodes : int
        The same for the long runs.
    limit_replications, draws : int
        Replications of the limit law, and posterior draws of the sampled values.
    sizes : tuple of int
        Numbers of observations for the limit law.
    beyond_replications, beyond_episodes : int
        Replications and episodes of BR-regret on Frozen Lake.
    schedule_replications, schedule_episodes : int
        Replications and episodes of levels that change.
    few_schedules, schedule_long_episodes : int
        The same for their long runs.
    timing_replications, timing_episodes, loop_episodes : int
        Replications of the times, their episodes, and the episodes of a plain loop in Python.
    static_replications, static_timed : int
        Problems of each family for the risk of the return over the posterior, and those of them that are timed.
    learning_replications : int
        Data of each case of learning inside the horizon.

    Examples
    --------
    >>> Scale("tiny", horizon=100).horizon
    100
    """

    name: str
    bandit_replications: int = 200
    horizon: int = 200_000
    lake_replications: int = 500
    few_lakes: int = 500
    episodes: int = 400
    lake_looks: int = 4
    long_replications: int = 100
    few_long: int = 100
    long_episodes: int = 2_000
    limit_replications: int = 500
    sizes: tuple[int, ...] = (10_000, 50_000, 100_000, 1_000_000)
    draws: int = 5_000
    beyond_replications: int = 100
    beyond_episodes: int = 2_000
    schedule_replications: int = 400
    schedule_episodes: int = 400
    few_schedules: int = 45
    schedule_long_episodes: int = 10_000
    timing_replications: int = 100
    timing_episodes: int = 100
    loop_episodes: int = 5
    static_replications: int = 120
    static_timed: int = 20
    learning_replications: int = 150


SCALES = {
    "quick": Scale(
        "quick",
        bandit_replications=26,
        few_lakes=10,
        lake_looks=1,
        long_replications=90,
        few_long=6,
        long_episodes=1_000,
        limit_replications=220,
        draws=1_000,
        beyond_replications=48,
        beyond_episodes=400,
        schedule_replications=120,
        few_schedules=8,
        schedule_long_episodes=1_000,
        timing_replications=30,
        timing_episodes=50,
        loop_episodes=4,
        static_replications=20,
        static_timed=3,
        learning_replications=40,
    ),
    "paper": Scale("paper"),
}
