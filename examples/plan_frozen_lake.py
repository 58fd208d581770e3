"""
# Frozen Lake, step by step

A player crosses a frozen lake from the start to the goal. The ice is slippery, holes hold whoever falls in, and
nobody has told her how slippery the ice is or how hard it is to climb out. She has walked about for a short while.
What should she do now, and how sure can she be?

This is the example of the paper's numerical study. You will make a posterior from a short log, work out a policy at
three risk levels, draw it on the map, and read the certificate of a solution.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import beta

import prudent as pr

# mkdocs_gallery_thumbnail_number = 2

# %%
# ## The lake
#
# On ice a step goes where it should, or to one side, or to the other: three chances, the same on all ice. In a hole a
# step succeeds with probability `p_h`, else the player stays. Here each hole has its own unknown `p_h` (`sources="by
# hole"`); in truth all are 0.2. The step after the goal earns 1 and puts her anywhere on the ice.

lake = pr.envs.frozen_lake(p_h=0.2, sources="by hole")
model, truth = lake
print("\n".join(lake.layout))
print(model)

# %%
# A source is a set of unknown chances that is learned together: here one for the ice, one for each of the four holes
# and one for where the goal leads. Everything else (the map, the moves, the rewards) is known.
#
# ## Six short episodes
#
# She walks at random, fifteen steps from the start each time. `trajectory` plays the true lake and returns a log:
# state, action, next state, outcome.

at_random = np.full((model.n_states, model.n_actions), 0.25)


def walked(seed):
    """Return the log of six episodes of fifteen steps."""
    return np.concatenate(
        [
            model.trajectory(truth, at_random, steps=15, rng=[seed, i])
            for i in range(6)
        ]
    )


log = walked(seed=1)
posterior = pr.DirichletPosterior.from_log(model, log)
prior = pr.DirichletPosterior.for_model(model)

holes = [s for s, letter in enumerate("".join(lake.layout)) if letter == "H"]
ice = model.source[0, 0]
seen = posterior.counts - prior.counts
print(
    "steps on ice: as meant, to one side, to the other:",
    seen[ice, :3].astype(int),
)
for hole in holes:
    out, stuck = seen[model.source[hole, 0], :2].astype(int)
    print(f"hole {hole:2d}: got out in {out} of {out + stuck} steps")

# %%
# What this leaves open is a probability distribution: the posterior. The prior is flat, one count for each outcome.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 2.9))
x = np.linspace(0.001, 0.999, 400)
meant = posterior.counts[ice, :3]
left.plot(x, beta.pdf(x, meant[0], meant[1:].sum()), label="posterior")
left.axvline(truth[ice, 0], color="black", lw=1, ls=":", label="truth")
left.set(
    title="A step on ice goes where it should",
    xlabel="probability",
    ylabel="density",
)
left.legend()
for hole, dash in zip(holes, ("-", "-", "--", "-"), strict=True):
    out, stuck = posterior.counts[model.source[hole, 0], :2]
    right.plot(
        x,
        beta.pdf(x, out, stuck),
        dash,
        label=f"hole {hole}, {int(out + stuck) - 2} steps in it",
    )
right.axvline(0.2, color="black", lw=1, ls=":")
right.set(title="A step out of a hole succeeds", xlabel="probability")
right.legend()

# %%
# ## A policy for each risk level
#
# `alpha` is the dial. At 0 a policy is judged by the average over the posterior, at 0.9 every step is judged by the
# average of its worst tenth (the Bayesian-risk Bellman equation of the paper, with CVaR). No draws are involved.

plans = {
    alpha: pr.BayesianRiskMDP(model, posterior, alpha).solve()
    for alpha in (0, 0.5, 0.9)
}


def draw(axes, policy, base):
    """Draw a policy on the map, red where it differs from another one."""
    axes.set(
        xlim=(-0.5, 3.5), ylim=(3.5, -0.5), aspect="equal", xticks=[], yticks=[]
    )
    axes.grid(visible=False)
    axes.set_frame_on(False)
    for s, letter in enumerate("".join(lake.layout)):
        row, column = divmod(s, 4)
        colour = {"H": "#9bb8cc", "G": "#ffe08a"}.get(letter, "#eef4f8")
        axes.add_patch(
            plt.Rectangle(
                (column - 0.48, row - 0.48), 0.96, 0.96, color=colour, lw=0
            )
        )
        axes.text(
            column - 0.42,
            row - 0.26,
            letter.replace("F", ""),
            size=8,
            color="#555",
        )
        if letter == "G":
            continue
        dx, dy = ((-1, 0), (0, 1), (1, 0), (0, -1))[policy[s]]
        differs = policy[s] != base[s]
        axes.annotate(
            "",
            (column + 0.3 * dx, row + 0.3 * dy),
            (column - 0.3 * dx, row - 0.3 * dy),
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#d55e00" if differs else "#1b1c1e",
                "lw": 2.4 if differs else 1.2,
            },
        )


fig, grid = plt.subplots(1, 3, figsize=(8.6, 3.2))
for axes, (alpha, plan) in zip(grid, plans.items(), strict=True):
    draw(axes, plan.policy, plans[0].policy)
    axes.set_title(f"alpha = {alpha}")

# %%
# S is the start, G the goal, blue cells are holes; red arrows differ from the policy at level 0. At level 0 she walks
# through the two holes on the right: nobody has tried them, and with a flat prior half of the steps out of them
# succeed on average. That is an opinion, not a finding. At 0.9 she walks around them. `explain` says why, in one
# state: the one to the left of the upper of these holes.

print(plans[0.9].explain(6))

# %%
# (0 is left, 1 down, 2 right, 3 up.)
#
# ## The certificate
#
# Every solution says how far its values can be from the exact ones, rounding included. It is a theorem about these
# numbers, not an estimate; `tol=` sets what you ask for. A solve that does not get there warns.

for alpha, plan in plans.items():
    error = plan.error_bound
    print(f"alpha {alpha}: value {plan.value[0]:.6f}, certified to {error:.0e}")

# %%
# Check it without the library: the mean over many posterior draws of the worst tenth is close to the value, in one
# Bellman step. The error of the draws is far larger than the certified one.

draws = posterior.sample(20_000, rng=1)
plan, s = plans[0.9], 0
a = plan.policy[s]
chances = draws[:, model.source[s, a]]
leads = np.maximum(model.next_state[s, a], 0)
worth = chances @ (model.reward[s, a] + model.discount * plan.value[leads])
worst = np.sort(worth)[: len(worth) // 10]
print(f"worst tenth of 20,000 draws: {worst.mean():.5f}")
print(f"certified value: {plan.value[s]:.5f}")

# %%
# ## What the policies earn
#
# The value at level 0.9 is no forecast: it takes the risk anew at every step, as if all that is unknown were bad at
# once. What a policy earns is another question, with another answer. `cvar` is the mean over the worst tenth of the
# posterior:

returns = pr.posterior_returns(
    model,
    posterior,
    {f"alpha {alpha}": plan for alpha, plan in plans.items()},
    start=0,
    rng=1,
)
print(returns[["mean", "cvar", "risk_value"]].to_pandas().round(4))
true = [
    float(pr.evaluate(lake.mdp(), plan.policy).value[0])
    for plan in plans.values()
]
print(
    "on the true lake:",
    np.round(true, 4),
    "and the best possible:",
    round(float(pr.solve(lake.mdp()).value[0]), 4),
)

# %%
# Level 0 promises most on average. Its worst tenth is worse, and the true lake lies there: holes that nobody had
# tried are as bad as the others. One log is luck, though. Over twenty such logs, how often does the dial change
# anything?

changed = []
for seed in range(20):
    posterior = pr.DirichletPosterior.from_log(model, walked(seed))
    policies = [
        pr.BayesianRiskMDP(model, posterior, alpha).solve().policy
        for alpha in (0, 0.5, 0.9)
    ]
    changed.append(
        [int((policy != policies[0]).sum()) for policy in policies[1:]]
    )
for alpha, counts in zip((0.5, 0.9), np.transpose(changed), strict=True):
    logs, states = np.count_nonzero(counts), counts.mean()
    print(
        f"alpha {alpha}: other actions in {logs} of 20 logs, {states:.1f} states"
    )

# %%
# ## What to try next
#
# - `sources="shared"`: one `p_h` for all holes, as the paper writes it. There is less to be unsure of, and the dial
#   changes less. [The paper, name by name](../mathematics/paper.md) says which reading gives the paper's figures.
# - Which level? [Choose alpha](../howto/choose-alpha.md).
# - How the certificate is proved: [The certificate](../mathematics/certificate.md).
# - Agents that learn on the lake while they play: `pr.simulate`, in [Start here: the
#   researcher](../start/researcher.md).
