"""
# ICU-Sepsis from 10,000 admissions

Clinicians have treated 10,000 patients with sepsis. From the log alone, can a policy be found that saves more of
them, and does caution help? In a hospital nobody could tell. Here the truth is a public benchmark, hidden from the
planner and used only to judge: [ICU-Sepsis](https://arxiv.org/abs/2406.05646), 716 states and 25 actions,
estimated from MIMIC-III.

It says nothing about patients. It says something about planning from logs. `pip install icu-sepsis` brings the data.
"""

import importlib.util
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

# %%
# ## The truth, which nobody gets to see
#
# The package holds one file with the true probabilities, the policy of the clinicians, and where patients start.
# States 713 and 714 are death and survival.

DEATH, SURVIVAL, ADMISSIONS = 713, 714, 10_000
# to import the package itself would need gym
folder = Path(importlib.util.find_spec("icu_sepsis").origin).parent
with np.load(folder / "envs" / "assets" / "dynamics.npz") as data:
    move, clinicians, begin = data["tx_mat"], data["expert_policy"], data["d_0"]
clinicians = clinicians / np.maximum(
    clinicians.sum(axis=1, keepdims=True), 1e-300
)


def survival(policy):
    """Return the true survival under chances of actions [S, A], in percent."""
    chain = np.einsum("sa,sat->st", policy[:DEATH], move[:DEATH])
    reach = np.linalg.solve(
        np.eye(DEATH) - chain[:, :DEATH], chain[:, SURVIVAL]
    )
    return 100.0 * begin[:DEATH] @ reach


usual = survival(clinicians)
print(f"with the clinicians {usual:.2f}% survive")

# %%
# ## The log
#
# All patients at once, step by step, until each is discharged or has died.


def drawn(heights, rng):
    """Return one index for each row of summed probabilities."""
    return (
        heights <= (rng.random(len(heights)) * heights[:, -1])[:, None]
    ).sum(axis=1)


rng = np.random.default_rng(1)
choices, moves = clinicians.cumsum(axis=1), move.cumsum(axis=2)
patients = rng.choice(begin.size, ADMISSIONS, p=begin / begin.sum())
rows = []
while patients.size:
    action = drawn(choices[patients], rng)
    after = drawn(moves[patients, action], rng)
    rows.append(np.stack([patients, action, after], axis=1))
    patients = after[after < DEATH]
log = np.concatenate(rows)
print(f"{len(log):,} steps of {ADMISSIONS:,} patients")

# %%
# ## A model from the log
#
# `support="state"`: what was seen after any action in a state is possible after every action there. The prior of each
# pair is worth one observation. There are no rewards on the way.

model, posterior = pr.from_log(
    log,
    discount=0.999,
    terminal={DEATH: 0, SURVIVAL: 1},
    support="state",
    rewards=0,
)
print(model.summary)

# %%
# Half of the pairs have been tried three times or less. That is the trouble with logs: the action that looks best is
# often the one about which little is known.
#
# ## Two policies
#
# The solve is exact, without draws. `tol=1e-3` is a tenth of a percent of survival, certified; it saves some seconds.

plans = {}
value = None
for alpha in (0, 0.9):
    plans[alpha] = pr.BayesianRiskMDP(model, posterior, alpha).solve(
        tol=1e-3, initial_value=value
    )
    value = plans[alpha].value  # a warm start for the next one


def followed(plan):
    """Return the chances of actions of a plan: the log has seen all states."""
    return np.eye(25)[plan.policy]


found = {"clinicians": usual} | {
    f"alpha {alpha}": survival(followed(plan)) for alpha, plan in plans.items()
}
for name, percent in found.items():
    print(f"{name}: {percent:.2f}% survive")
print("values of 0.9 are certified to", f"{plans[0.9].error_bound:.0e}")

# %%
# ## What caution does
#
# Where do the policies differ, and how much is known about what they choose?

# by source, which is a state and an action; one is the prior
seen = posterior.counts.sum(axis=1) - 1.0
states = np.arange(DEATH)
evidence = {
    alpha: seen[model.source[states, plan.policy[:DEATH]]]
    for alpha, plan in plans.items()
}
differ = np.count_nonzero(plans[0].policy != plans[0.9].policy)
print(f"another action in {differ} of {DEATH} states")
for alpha in plans:
    times = np.median(evidence[alpha])
    print(f"alpha {alpha}: its actions were tried {times:.0f} times (median)")

fig, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.0))
edges = np.array([1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377]) - 0.5
for alpha, colour in ((0, "C0"), (0.9, "C1")):
    left.hist(
        evidence[alpha],
        edges,
        histtype="step",
        lw=1.6,
        color=colour,
        label=f"alpha {alpha}",
    )
left.set(
    xscale="log",
    xlabel="how often the chosen action was tried in the state",
    ylabel="states",
)
left.legend()
for row, percent in enumerate(found.values()):
    right.plot(percent, row, "o", ms=8, color=("#6b6b6e", "C0", "C1")[row])
    right.text(percent + 0.25, row, f"{percent:.2f}", va="center")
right.set(
    xlabel="survival in percent, in the true model",
    xlim=(77, 84),
    ylim=(2.5, -0.5),
)
right.set_yticks(range(3), found)

# %%
# Caution chooses what has been tried more often, where that costs little.
#
# ## Is it luck?
#
# One log proves nothing. The study behind [ICU-Sepsis: does caution help?](../icu-sepsis.md) repeats this with twenty
# logs of each size (`python -m benchmarks.icu`, about 15 minutes on one core). Level 0.9 less level 0, in percent of
# patients, with 95% intervals:
#
# | admissions | level 0 | level 0.9 | difference |
# |---:|---:|---:|---:|
# | 1,000 | 78.85 ± 0.12 | 79.15 ± 0.15 | 0.30 ± 0.13 |
# | 3,000 | 79.38 ± 0.14 | 80.03 ± 0.11 | 0.64 ± 0.12 |
# | 10,000 | 80.48 ± 0.14 | 81.64 ± 0.11 | 1.16 ± 0.12 |
# | 30,000 | 80.93 ± 0.10 | 83.22 ± 0.11 | 2.29 ± 0.11 |
#
# Clinicians: 78.18%. The best policy that knows the truth, among actions that clinicians take now and then: 87.51%.
#
# ## What to try next
#
# - `min_count=5` leaves out actions that were seldom tried. It is no substitute for caution: [the
#   study](../icu-sepsis.md) has both.
# - What a policy earns over the posterior, in place of a truth that you do not have: `pr.posterior_returns`, as in [A
#   treatment choice with few patients](plan_treatment.md).
# - [Few data or many](../howto/few-or-many-data.md), [Choose a prior](../howto/choose-a-prior.md).
# - A log of this size from the command line: `prudent solve icu.csv --terminal 713=0,714=1 --rewards 0 --support
#   state --discount 0.999 --alpha 0,0.5,0.9`.
