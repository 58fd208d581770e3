"""
# RiverSwim and the schedule

A swimmer stands at the left bank of a river. Swimming left there pays 0.005, for sure. Swimming right fights the
current, and pays 1 at the far bank. Nobody has told the swimmer how strong the current is.

This is a problem in which caution can ruin a learner: whoever fears what is unknown never tries to swim, so it stays
unknown. The example sets four ways of setting the dial side by side, and shows which ones get across.
"""

# %%
# ## Four agents, one river
#
# All four are the same algorithm, posterior sampling at a risk level `alpha`; only the level differs.
#
# - Thompson sampling is `alpha = 0`;
# - a fixed 0.9 plans for the worst tenth of what it believes, for ever;
# - `Falling(0.9, 5, unseen=0)` starts at 0.9, has half of that after 5 episodes, and is neutral about anything that
#   was never observed;
# - -0.8 plans for the best fifth: optimism.
#
# [`pr.simulate`][prudent.simulate] lets all of them face the same luck, in 60 replications of 200 episodes of ten
# steps.
import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

agents = {
    "Thompson sampling": (
        pr.agents.ts_rl(label="Thompson sampling"),
        "#000000",
    ),
    "0.9, fixed": (pr.brps_rl(0.9, label="0.9, fixed"), "#e69f00"),
    "0.9 falling, 0 unseen": (
        pr.brps_rl(
            pr.schedules.Falling(0.9, 5, unseen=0),
            label="0.9 falling, 0 unseen",
        ),
        "#009e73",
    ),
    "-0.8, optimism": (pr.brps_rl(-0.8, label="-0.8, optimism"), "#cc79a7"),
}
river = pr.envs.river_swim()
runs = pr.simulate(
    river,
    [settings for settings, _ in agents.values()],
    episodes=200,
    replications=60,
    rng=1,
    record=["states"],
)
print(runs)

# %%
# ## Regret
#
# Regret is what the optimal policy would have been worth more, summed over every visited state. The bands are 95%
# intervals of the mean over replications. The scale is logarithmic: in the end the fixed level has lost more than ten
# times as much as any of the others, and goes on losing the same amount in every episode.


def mean_and_band(values):
    """Return mean and 95% half width over the replications, the first axis."""
    return values.mean(axis=0), 1.96 * values.std(axis=0, ddof=1) / np.sqrt(
        len(values)
    )


figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
episode = runs.episode.values + 1
for name, (_, colour) in agents.items():
    mean, half = mean_and_band(runs.regret.sel(agent=name).values)
    axes.plot(episode, mean, color=colour, label=name)
    axes.fill_between(
        episode, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0
    )
axes.set(
    yscale="log", xlabel="episode", ylabel="cumulative regret", xlim=(0, 200)
)
axes.legend(loc="lower right")
plt.show()

# %%
# The last column says how much regret still comes in an episode: close to nothing for the three that have learned to
# swim, unchanged for the one that has not.
print(
    f"{'':24}{'after 20':>10}{'after 200':>11}{'+-':>6}{'an episode now':>17}"
)
for name in agents:
    regret = runs.regret.sel(agent=name).values
    mean, half = mean_and_band(regret)
    slope = (mean[-1] - mean[-51]) / 50
    print(
        f"{name:24}{mean[19]:10.0f}{mean[-1]:11.0f}{half[-1]:6.0f}{slope:17.2f}"
    )

# %%
# ## What they do: who has seen the far bank?
#
# The recorded states tell why. At 0.9 the swimmer thinks of the worst tenth of the currents that its posterior
# allows. With a prior and no data that is a current that nobody can beat, so it stays where 0.005 is certain. It sees
# nothing new, its posterior does not change, and neither does its mind.
figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
for name, (_, colour) in agents.items():
    there = (runs.states.sel(agent=name) == river.model.n_states - 1).any(
        "step"
    )  # [replication, episode]
    arrived = np.maximum.accumulate(there.values, axis=1).mean(axis=0)
    axes.plot(episode, 100 * arrived, color=colour, label=name)
    print(
        f"{name:24} {arrived[-1]:4.0%} of the swimmers have seen the far bank"
    )
axes.set(
    xscale="log",
    xlabel="episode",
    ylabel="have seen the far bank, %",
    xlim=(1, 200),
    ylim=(-3, 103),
)
axes.legend(loc="center right")
plt.show()

# %%
# Two things rescue the green line: the level falls, and `unseen=0` makes the agent neutral about what nobody has
# tried. Caution about what was seen to go wrong stays. `prudent reproduce schedules` measures each of them alone,
# with intervals, here and on Frozen Lake, where caution pays.
#
# ## The level that an agent uses
#
# A schedule is a function of the episode and of the number of visits. Anything of that form will do:
schedule = pr.schedules.Falling(0.9, 5, unseen=0)
for episode_number in (0, 5, 45):
    unseen, seen = schedule.level(episode_number, [0, 3])
    print(
        f"episode {episode_number:2}: never seen {unseen:.2f}, seen three times {seen:.2f}"
    )

mine = pr.brps_rl(
    lambda episode, visits: np.where(visits < 5, -0.5, 0.5),
    label="curious, then careful",
)
own = pr.simulate(river, mine, episodes=200, replications=60, rng=1)
print(
    f"{mine.label}: regret {own.regret[0, :, -1].values.mean():.0f} after 200 episodes"
)

# %%
# ## What to try next
#
# - `pr.envs.river_swim(n_states=12)`: a longer river, where Thompson sampling too takes its time.
# - `pr.envs.river_swim(sources="shared")`: strokes of one kind are learned together. How often does the fixed level
#   get stuck then?
# - [Your own Gymnasium environment](learn_gymnasium.md), and the same dial on a bandit: [The dial](bandit_dial.md).
# - [How to choose alpha](../howto/choose-alpha.md); a policy from a fixed log does not choose its own data, and
#   cannot get stuck in this way.
