"""
# Inventory with ten weeks of demand

A shop sells one product. How much is asked for in a week is unknown; ten weeks have been seen. Everything else is
known: prices, costs, and what an order does to the stock. Up to which level should the shop fill its shelf?

You will write the known rules as a function, learn the demand from ten numbers, see how the order-up-to level depends
on `alpha`, and what each level earns over everything that ten weeks leave possible.
"""

import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

# mkdocs_gallery_thumbnail_number = 2

weeks = [3, 5, 2, 4, 3, 6, 4, 2, 3, 5]  # what was asked for, week by week

# %%
# ## The known part
#
# A week starts with some stock; an order arrives at once; then customers come. The function returns the next state
# and the reward. `from_dynamics` calls it for every state, action and demand, and numbers nothing: stock is stock.

SHELF, MOST = 12, 10  # room on the shelf; more than that nobody asks for


def week(stock, order, demand):
    """Return the stock after a week, and what it earned."""
    sold = min(stock + order, demand)
    left = stock + order - sold
    return left, 6.0 * sold - 4.0 * order - 0.2 * left


shop = pr.UncertainMDP.from_dynamics(
    week,
    states=range(SHELF + 1),
    actions=range(SHELF + 1),
    noise=range(MOST + 1),
    discount=0.98,
    admissible=lambda stock, order: stock + order <= SHELF,
)
print(shop)

# %%
# One source, the demand, drives all 91 pairs of stock and order. So one week teaches about all of them.
#
# ## The unknown part
#
# The prior has 0.2 for each of the eleven demands: worth about two weeks. A prior of 1 for each would weigh more than
# the data ([Choose a prior](../howto/choose-a-prior.md)).

demand = pr.DirichletPosterior.for_model(shop, shop.prior(0.2)).update(
    source=0, outcome=weeks
)

draws = demand.sample(2_000, rng=1)[:, 0]  # [draws, demands]
fig, axes = plt.subplots(figsize=(6.4, 2.9))
axes.bar(
    range(MOST + 1),
    np.bincount(weeks, minlength=MOST + 1) / len(weeks),
    color="#d9d9d6",
    label="seen in ten weeks",
)
low, high = np.quantile(draws, [0.05, 0.95], axis=0)
axes.vlines(
    range(MOST + 1), low, high, color="C0", lw=2, label="posterior, 5% to 95%"
)
axes.plot(
    range(MOST + 1), demand.mean()[0], "o", color="C0", label="posterior mean"
)
axes.set(
    xlabel="demand in a week", ylabel="probability", xticks=range(MOST + 1)
)
axes.legend()

# %%
# ## The order-up-to level against alpha
#
# Every policy here has the same shape: fill up to a level. One solve takes milliseconds, so ask for many levels of
# risk.

alphas = np.round(np.concatenate([np.linspace(-0.95, 0.95, 39), [0.99]]), 3)
level = [
    int(pr.BayesianRiskMDP(shop, demand, alpha).solve().policy[0])
    for alpha in alphas
]

fig, axes = plt.subplots(figsize=(6.4, 2.9))
axes.step(alphas, level, where="mid")
axes.axvline(0, color="black", lw=0.8, ls=":")
axes.set(
    xlabel="alpha: optimism below 0, caution above",
    ylabel="fill the shelf up to",
    yticks=range(min(level), max(level) + 1),
)

# %%
# Bad cases are those with little demand, and unsold goods cost money: caution fills the shelf less. `alpha` does not
# say "order less"; it says which part of the posterior to prepare for.
#
# ## What each level earns
#
# The value of a cautious solution is no forecast. What the policies earn, over 2,000 demands that ten weeks leave
# possible:

plans = {
    "optimistic, -0.9": pr.BayesianRiskMDP(shop, demand, -0.9).solve(),
    "neutral, 0": pr.BayesianRiskMDP(shop, demand, 0).solve(),
    "careful, 0.5": pr.BayesianRiskMDP(shop, demand, 0.5).solve(),
    "careful, 0.9": pr.BayesianRiskMDP(shop, demand, 0.9).solve(),
}
returns = pr.posterior_returns(shop, demand, plans, start=0, draws=2_000, rng=1)
table = returns[["mean", "cvar", "probability_best", "regret"]].to_pandas()
table.insert(0, "fill up to", [int(plan.policy[0]) for plan in plans.values()])
print(table.round(2))

# %%
# `cvar` is the mean of the worst tenth, `regret` what is lost on average against somebody who knows the demand. All
# policies face the same draws, so small differences mean something; `mean_se` and `cvar_se` say how small. Levels 0.5
# and 0.9 are the same policy; the Bayesian-risk value, the diamond below, is not the same: do not report it as an
# income.

figure = pr.analysis.plot_returns(returns)

# %%
# ## More weeks
#
# Caution is about what is unknown, and weeks make it known. Repeat the same ten weeks as if they had come again and
# again:

alphas = (-0.9, 0, 0.5, 0.9)
print("weeks  fill up to, at alpha", *alphas, sep="  ")
for times in (1, 2, 4, 8, 16, 32):
    more = pr.DirichletPosterior.for_model(shop, shop.prior(0.2)).update(
        0, weeks * times
    )
    found = [
        int(pr.BayesianRiskMDP(shop, more, alpha).solve().policy[0])
        for alpha in alphas
    ]
    print(f"{10 * times:5d}", " " * 21, *(f"{x:4d}" for x in found))

# %%
# ## What to try next
#
# - Sold out weeks hide demand. If the log has sales instead of demand, give it as (stock, order, next stock): counts
#   are split over the demands that explain a row, see `pr.envs.inventory(censored=True)`.
# - A Dirichlet posterior does not know that a demand of 3 is close to 4. A fitted curve does: [Posterior draws from
#   PyMC or NumPyro](plan_posterior_draws.md).
# - Is the tenth or the twentieth what you are afraid of? [Choose alpha](../howto/choose-alpha.md).
# - A season of twelve weeks instead of for ever: `solve(horizon=12)`, see [Terminal states, episodes,
#   horizons](../howto/episodes-and-horizons.md).
