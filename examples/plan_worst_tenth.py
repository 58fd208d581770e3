r"""
# The policy with the best worst tenth

A board does not ask for a risk level. It asks: "one of these models is true; which plan is best if we are among the
unlucky tenth?" That is the risk of the *whole return*, taken once over the posterior. The dial `alpha` takes the risk
anew at every step, and no position of it need lead to that plan.

You will build a problem where it does not, look at the whole dial, find the best plan with a proof that there is no
better one, and see what the proof cost.
"""

import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

# %%
# ## A gamble, and a chain that can be sold
#
# A company can win 20 in a well-known way, with a chance known from 1,000 cases, or in a new one that looks better
# and was tried ten times. Then there is a project of six stages, each passed with a chance of about 0.9 (known from
# 100 cases), which is worth 10 at the end. It can be sold before every stage, a little below its mean.

STAGES = 6
over = STAGES + 1
source = np.full((over + 1, 2), -1)
follows = np.full((over + 1, 2, 2), over)
reward = np.zeros((over + 1, 2, 2))
source[0], follows[0], reward[0, :, 0] = [0, 1], 1, 20.0
for stage in range(1, over):
    source[stage] = stage + 1, STAGES + 2
    follows[stage, 0, 0] = stage + 1
    reward[stage, 0, 0] = 10.0 * (stage == STAGES)
    follows[stage, 1, 1] = -1
    reward[stage, 1, 0] = 10.0 * 0.872 ** (over - stage)
model = pr.UncertainMDP(
    source,
    follows,
    reward,
    discount=1.0,
    states=["choose", *(f"stage {i}" for i in range(1, over)), "over"],
    actions=["known way or keep", "new way or sell"],
    terminal=["over"],
)
posterior = pr.DirichletPosterior(
    [[500, 500], [6.5, 3.5], *[[90, 10]] * STAGES, [1, 0]]
)

# %%
# ## The whole dial, and the best plan for the worst tenth
#
# `best_tail=True` adds the plan that no level may reach, and says whether it makes the recommended level needless.

profile = pr.risk_profile(
    model,
    posterior,
    (0.0, 0.3, 0.5, 0.72, 0.9, 0.99),
    start="choose",
    draws=20_000,
    rng=1,
    best_tail=True,
)
print(profile)

# %%
# The dial has two plans. Up to the middle it takes the new way and keeps the project; from 0.72 on it takes the known
# way and **sells**, because caution is paid six times, once for each stage. Over the whole return the stages largely
# make up for each other, and keeping the project is better in the mean *and* in the tail.

table = profile.to_pandas()
fig, axes = plt.subplots(figsize=(6.0, 3.4))
levels = table.iloc[:-1]
axes.plot(levels["cvar"], levels["mean"], "o-", label="levels of the dial")
axes.plot(
    table["cvar"].iloc[-1],
    table["mean"].iloc[-1],
    "D",
    color="C3",
    label="best for the worst tenth",
)
for alpha in (0.5, 0.72):
    axes.annotate(
        f"α = {alpha:g}",
        (table.loc[alpha, "cvar"], table.loc[alpha, "mean"]),
        (6, 6),
        textcoords="offset points",
    )
axes.set(xlabel="mean of the worst tenth", ylabel="mean return")
axes.margins(0.15)
axes.legend()

# %%
# ## The proof
#
# The same as a question of its own. `upper_bound` is what no stationary policy exceeds in these draws, and the gap to
# the policy found is closed. The draws are made here, so that the policy is also judged by 20,000 fresh ones.

problem = pr.BayesianRiskMDP(model, posterior, alpha=0)
best = problem.solve(
    objective=pr.PosteriorRisk(pr.CVaR(0.9)), start="choose", rng=1
)
print(best.policy_names)
print(f"{best.objective_value:.4f}, at most {best.upper_bound:.4f}")
print(f"{best.search.nodes} nodes of {2**7} policies")
fresh = best.search.out_of_sample
print(f"fresh draws: {fresh.value:.3f} ± {2 * fresh.error:.3f}")

# %%
# ## What to try next
#
# - `pr.VaR(0.9)` or `pr.MeanCVaR(0.9, weight=0.5)` in place of `pr.CVaR(0.9)`: any weighted mean of sorted returns.
# - `pr.PosteriorRisk(pr.CVaR(0.9), randomised=True)`: policies that choose at random, never worse.
# - `time_limit=10` for a large problem: the gap is stated, and `best.resume()` goes on.
# - How the bounds work: [The risk of the return over the posterior](../mathematics/posterior-risk.md).
