"""
# Your own Gymnasium environment

Write a small environment for [Gymnasium](https://gymnasium.farama.org), let an agent of prudent learn in it, and plot
what it earns episode by episode. Then tell the agent what you know about the environment, and see how much faster it
learns.
"""

# %%
# ## The environment
#
# A path from home to the village leads along a cliff. The grid has three rows and four columns; home is bottom left,
# the village bottom right, and the two cells between them are the cliff. Gusts of wind push the walker down by one
# cell instead of where it wants to go. The short way (the middle row) is dangerous, the long way (the top row) is
# safe.
#
# Nothing in this class knows about prudent. Observations and actions are `Discrete`; that is all that is asked for.
import gymnasium
import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

ROWS, COLUMNS = 3, 4
MOVES = [(-1, 0), (0, 1), (1, 0), (0, -1)]  # up, right, down, left


def moved(cell, step):
    """Return the cell after a step, the reward, and whether the walk is over."""
    row = min(max(cell // COLUMNS + step[0], 0), ROWS - 1)
    column = min(max(cell % COLUMNS + step[1], 0), COLUMNS - 1)
    if row == ROWS - 1 and column > 0:
        return (
            row * COLUMNS + column,
            (1.0 if column == COLUMNS - 1 else -1.0),
            True,
        )
    return row * COLUMNS + column, 0.0, False


class CliffPath(gymnasium.Env):
    """A walk to the village along a cliff, in gusts of wind."""

    def __init__(self, gust=0.2):
        self.observation_space = gymnasium.spaces.Discrete(ROWS * COLUMNS)
        self.action_space = gymnasium.spaces.Discrete(len(MOVES))
        self.gust = gust

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = (ROWS - 1) * COLUMNS
        return self.cell, {}

    def step(self, action):
        wind = "gust" if self.np_random.random() < self.gust else "calm"
        self.cell, reward, over = moved(
            self.cell, MOVES[2] if wind == "gust" else MOVES[action]
        )
        return self.cell, reward, over, False, {"wind": wind}


# %%
# ## Learning, with nothing known
#
# [`GymnasiumModel`][prudent.envs.GymnasiumModel] makes a model of an environment about which nothing is known but its
# spaces and the values that its reward can take; a reward that is not among them is an error that names it.
# [`pr.simulation.learn`][prudent.simulation.learn] then lets an agent act and learn for a number of steps.
#
# `pr.simulation.learn` returns the reward of every step. Returns by episode come from Gymnasium's own wrapper
# `RecordEpisodeStatistics`, with a buffer that is long enough; `TimeLimit` ends walks that lead nowhere.
#
# The prior is 0.1 for every possible outcome of every pair of cell and action: there are 39 of them (13 cells, with
# the end, times 3 rewards), and with the default of 1 the agent would need dozens of visits to each pair to be
# convinced.


def walk():
    """Return the environment, with an end of every walk and a record of returns."""
    limited = gymnasium.wrappers.TimeLimit(CliffPath(), max_episode_steps=50)
    return gymnasium.wrappers.RecordEpisodeStatistics(
        limited, buffer_length=10_000
    )


def returns_by_episode(alpha, seed, steps=2500):
    world = pr.envs.GymnasiumModel(walk(), discount=0.95, rewards=(-1, 0, 1))
    agent = pr.PosteriorSamplingAgent(
        world.model, alpha=alpha, prior=world.model.prior(0.1), rng=seed
    )
    pr.simulation.learn(agent, world, steps=steps, rng=seed)
    return np.array(world.env.return_queue)


levels = {
    "alpha 0": 0.0,
    "alpha 0.5": 0.5,
    "0.9 falling, 0 unseen": pr.schedules.Falling(0.9, 20, unseen=0),
}
found = {
    name: [returns_by_episode(alpha, seed) for seed in range(4)]
    for name, alpha in levels.items()
}
for name, runs in found.items():
    ends = np.concatenate([run[-50:] for run in runs])
    print(
        f"{name:22} last 50 walks: return {ends.mean():5.2f}, fell {np.mean(ends < 0):4.0%}"
    )

# %%
# ## Learning, with the map known
#
# You usually know more. Here the map is known, and only the chance of a gust is not: one unknown number instead of 48
# unknown distributions. [`from_dynamics`][prudent.UncertainMDP.from_dynamics] says so, and the loop below is how an
# agent lives inside a program of your own: `act`, then `observe`.


def step_of(cell, action, wind):
    target, reward, over = moved(
        cell, MOVES[2] if wind == "gust" else MOVES[action]
    )
    return None if over else target, reward  # None ends the process


path = pr.UncertainMDP.from_dynamics(
    step_of,
    states=range(ROWS * COLUMNS),
    actions=range(len(MOVES)),
    noise=["calm", "gust"],
    discount=0.95,
)
print(path)


def returns_on_the_map(alpha, seed, walks=150):
    env = walk()
    agent = pr.PosteriorSamplingAgent(path, alpha=alpha, rng=seed)
    for number in range(walks):
        cell, _ = env.reset(seed=seed if number == 0 else None)
        over = False
        while not over:
            action = agent.act(cell)
            target, _, ended, cut, info = env.step(action)
            agent.observe(cell, action, None if ended else target, info["wind"])
            cell, over = target, ended or cut
    return np.array(env.return_queue)


found["alpha 0.5, map known"] = [
    returns_on_the_map(0.5, seed) for seed in range(4)
]
ends = np.concatenate([run[-50:] for run in found["alpha 0.5, map known"]])
print(
    f"map known, last 50 walks: return {ends.mean():.2f}, fell {np.mean(ends < 0):.0%}"
)

# %%
# ## What they earn
#
# Means over 15 walks and four seeds. The dashed line is the optimum: the probability of arriving less that of
# falling, under the policy that [`pr.solve`][prudent.solve] finds when the true chance of a gust is known.
best = pr.solve(path.mdp([[0.8, 0.2]]))
rewards = pr.returns(
    path.mdp([[0.8, 0.2]]),
    best,
    start=8,
    horizon=50,
    replications=20_000,
    rng=1,
)
optimum = np.sign(
    np.asarray(rewards)
).mean()  # a walk ends with +1 or -1, discounted

figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for (name, runs), colour in zip(
    found.items(), ("#000000", "#56b4e9", "#009e73", "#0072b2"), strict=True
):
    shortest = min(150, *(len(run) for run in runs))
    mean = np.mean([run[:shortest] for run in runs], axis=0)
    smooth = np.convolve(mean, np.ones(15) / 15, mode="valid")
    axes.plot(np.arange(15, shortest + 1), smooth, color=colour, label=name)
axes.axhline(
    optimum, color="#6b6b6e", linestyle="--", label=f"optimum, {optimum:.2f}"
)
axes.set(xlabel="walk", ylabel="return, mean of 15 walks", ylim=(-1.05, 1.05))
axes.legend(loc="lower right")
plt.show()

# %%
# ## A trap: when the end is a refuge
#
# Caution can do strange things in a world that ends. Twenty agents with a fixed 0.9, and nothing known:
stood, jumped = 0, 0
for seed in range(20):
    run = returns_by_episode(0.9, seed, steps=500)
    stood += bool(np.all(run == 0))
    jumped += len(run) > 100  # walks of a step or two
print(
    f"{stood} of 20 stand still until the time is up, {jumped} jump off the cliff again and again"
)

# %%
# In the worst tenth of what such an agent believes, *every* unknown step may cost 1, again and again, up to $1 / (1 -
# 0.95) = 20$ in all. A place where nothing happens is a refuge. So is a fall: it costs 1, and then it is over. This
# is what nested risk means: it is taken anew at every step, as if everything that is unknown were bad at once. The
# cures are the ones above: a lower level, one that falls with neutrality about what is unseen, and above all a model
# that contains what you know.
#
# ## What to try next
#
# - Give the environment a reward of -0.02 for every step, and add it to `rewards=`.
# - `world.env` may be any environment with Discrete spaces: `GymnasiumModel("CliffWalking-v1", discount=0.95,
#   rewards=(-100, -1))`.
# - Our own problems as Gymnasium environments: `pr.envs.register_gymnasium()`, then
#   `gymnasium.make("prudent/RiverSwim-v0")`.
# - [Your own agent, environment and study](../howto/your-own-parts.md); [terminal states, episodes,
#   horizons](../howto/episodes-and-horizons.md); [the same schedule on RiverSwim](learn_river_swim.md).
