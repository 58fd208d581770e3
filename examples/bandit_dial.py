"""
# The dial on a contextual bandit

`alpha` of a bandit says how it looks at what it does not know: 0 is Thompson sampling, above zero it counts the worst
part of its posterior, below zero the best part. This example turns the dial on a bandit whose truth is known, shows
where a high level locks in, cures it in two ways, and checks the probabilities that the bandit reports against the
choices that it makes.
"""

# %%
# ## Regret at four levels
#
# The problem is that of the paper: ten arms, contexts of three numbers between 0 and 1, rewards with a noise of 1.
# [`pr.simulation.simulate_bandit`][prudent.simulation.simulate_bandit] plays compiled agents on it; all of them meet
# the same contexts and
# noise.
import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

env = pr.envs.gaussian_bandit()
STEPS = 4000
levels = {"0": "#000000", "0.5": "#56b4e9", "0.9": "#e69f00", "-0.5": "#cc79a7"}
agents = [
    pr.bandits.BanditSettings(float(level), label=level) for level in levels
]
runs = pr.simulation.simulate_bandit(
    env, agents, horizon=STEPS, replications=50, rng=1
)


def draw(axes, regret, colour, label, dash="-"):
    """Draw mean regret with a 95% interval."""
    mean, half = (
        regret.mean("replication"),
        1.96
        * regret.std("replication", ddof=1)
        / np.sqrt(regret.sizes["replication"]),
    )
    axes.plot(regret.time, mean, color=colour, label=label, linestyle=dash)
    axes.fill_between(
        regret.time,
        mean - half,
        mean + half,
        color=colour,
        alpha=0.2,
        linewidth=0,
    )


figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
for level, colour in levels.items():
    draw(axes, runs.regret.sel(agent=level), colour, f"alpha {level}")
axes.set(
    xlabel="decision",
    ylabel="cumulative regret",
    xlim=(0, STEPS),
    ylim=(0, None),
)
axes.legend(loc="upper left")
plt.show()

# %%
# ## Lock-in
#
# A little caution pays here: 0.5 wastes less on arms that are probably poor. At 0.9 an arm that did well early is
# preferred to every arm about which little is known, so nothing more is learned of those. The number of arms that get
# at least 1% of the decisions shows it; the first line is how many arms are the best one for at least 1% of the
# contexts.
contexts = np.random.default_rng(0).random((20_000, 3))
best = np.bincount(
    (contexts @ env.theta.T).argmax(axis=1), minlength=env.n_arms
) / len(contexts)
print(f"{'best in 1% of contexts':32} {np.sum(best >= 0.01):4} arms")
for level in levels:
    used = (runs.pulls.sel(agent=level) >= 0.01 * STEPS).sum("arm").values
    regret = runs.regret.sel(agent=level).isel(time=-1).values
    print(
        f"{'alpha ' + level:32} {used.mean():4.1f} arms   regret {regret.mean():4.0f}, "
        f"a tenth of the runs above {np.quantile(regret, 0.9):4.0f}"
    )

# %%
# ## Two cures
#
# - `first_pulls=20`: every arm gets 20 decisions before scores count. It costs something at once, and then most runs
#   do not lock in.
# - `Decay(0.9, half=300)`: the level is 0.9 at first, half of that after 300 decisions, and 0 in the end.
#
# The compiled agents take levels that stay. A level that falls is played step by step by the same function when
# agents are given as a dict of options of [`LinearBandit`][prudent.LinearBandit]; `noise_sd` and `intercept` make it
# the same problem.
cured = pr.simulation.simulate_bandit(
    env,
    pr.bandits.BanditSettings(0.9, first_pulls=20, label="first_pulls"),
    horizon=STEPS,
    replications=50,
    rng=1,
)
falling = pr.simulation.simulate_bandit(
    env,
    {"decay": {"alpha": pr.bandits.Decay(0.9, half=300), "intercept": False}},
    noise_sd=1.0,
    horizon=STEPS,
    replications=5,
    rng=1,
)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
draw(axes, runs.regret.sel(agent="0.9"), "#e69f00", "alpha 0.9")
draw(
    axes,
    cured.regret.sel(agent="first_pulls"),
    "#009e73",
    "alpha 0.9, first_pulls=20",
)
draw(
    axes,
    falling.regret.sel(agent="decay"),
    "#0072b2",
    "Decay(0.9, half=300), 5 runs",
)
draw(axes, runs.regret.sel(agent="0"), "#000000", "alpha 0", "--")
axes.set(
    xlabel="decision",
    ylabel="cumulative regret",
    xlim=(0, STEPS),
    ylim=(0, 1000),
)
axes.legend(loc="upper left")
plt.show()
for name, data in (
    ("0.9, first_pulls=20", cured),
    ("Decay(0.9, half=300)", falling),
):
    print(
        f"{name:22} regret {data.regret.isel(time=-1).values.mean():4.0f} after {STEPS} decisions"
    )

# %%
# ## Exact propensities
#
# The score of an arm is a random draw, so the choice is random; its probability is an integral over the laws of the
# scores, and the bandit works it out to many digits. Here are bandits at four levels after the same 20 rewards, 8 of
# arm 0 and 2 of arm 4. The bars are what they report for one context; the dots are how often they choose each arm
# when asked 5,000 times, with 95% intervals.
rng = np.random.default_rng(3)
arms = np.repeat([0, 1, 2, 3, 4], [8, 5, 3, 2, 2])
seen = rng.random((len(arms), 3))
rewards = (seen * env.theta[arms]).sum(axis=1) + rng.normal(0, 1, len(arms))
context, asked = [0.8, 0.5, 0.1], 5000

figure, grid = plt.subplots(
    1, 4, figsize=(8.6, 2.6), layout="constrained", sharey=True
)
for axes, (level, colour) in zip(grid, levels.items(), strict=True):
    bandit = pr.LinearBandit(5, dim=3, alpha=float(level), rng=9).update(
        seen, arms, rewards
    )
    exact = bandit.propensities(context)
    chosen = [
        bandit.select(context, propensity=False).arm for _ in range(asked)
    ]
    share = np.bincount(chosen, minlength=5) / asked
    error = np.sqrt(exact * (1 - exact) / asked)
    axes.bar(np.arange(5), exact, color=colour, alpha=0.35)
    axes.errorbar(
        np.arange(5),
        share,
        1.96 * error,
        fmt=".",
        color="#1b1c1e",
        markersize=5,
        capsize=2,
    )
    axes.set(title=f"alpha {level}", xlabel="arm", xticks=range(5))
    axes.grid(axis="x", visible=False)
    told = " ".join(f"{chance:.4f}" for chance in exact)
    print(
        f"alpha {level:>4}: {told}, sum {exact.sum():.12f}, furthest dot {abs(share - exact).max():.4f}"
    )
grid[0].set_ylabel("chance of the arm")
plt.show()

# %%
# So a log of decisions and propensities can be used for off-policy evaluation without guessing what the bandit would
# have done. The same holds with `arms=` (some arms only), `min_propensity`, `first_pulls` and `exploration`.
#
# ## What to try next
#
# - `pr.bandits.BanditSettings(0.9, min_propensity=0.005)`: a third cure. What does it cost in the long run, and what
# does it
#   buy when the log is evaluated?
# - `pr.simulation.simulate_bandit(..., levels=(0.5, 0.9))` also records `br_regret`, the regret in Bayesian risk, in
# which the
#   cautious agents are ahead: the paper's other measure.
# - [How to choose alpha](../howto/choose-alpha.md), [propensities, derived](../mathematics/propensities.md), [the
#   dial on RiverSwim](learn_river_swim.md).
