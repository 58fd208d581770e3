r"""
# A plan that knows it will learn

A plan with a fixed posterior acts at every step as if nothing would be learned on the way. A plan that learns updates
the posterior along the horizon and values what it will see: it tries the new drug *because* it may find out something.

You will look at three cases, a clinical trial, a gambler and a shop, see what learning is worth in each, and find that
with caution it can be worth *less than nothing*.
"""

import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

# %%
# ## A clinical trial
#
# The usual treatment has helped 30 of 50 patients, the new one 2 of 4. Twenty patients are to come.

trial = pr.UncertainMDP(
    source=[[0, 1]],
    next_state=[[[0, 0], [0, 0]]],
    reward=[[[0, 1], [0, 1]]],
    discount=1,
    actions=["usual", "new"],
)
counts = np.array([[21.0, 31.0], [3.0, 3.0]])
plan = pr.BayesianRiskMDP(trial, counts, 0).solve(horizon=20, learning=True)
print(plan)

# %%
# With a fixed posterior everybody gets the usual treatment. The plan that learns gives the new one first, and
# goes on with it only if it works: after one failure it is over.

for helped, failed in ((0, 0), (1, 0), (0, 1), (0, 2)):
    now = counts + np.array([[0, 0], [failed, helped]])
    print(f"new: {helped} helped, {failed} did not:", plan.act(0, now))
fig = plan.plot()

# %%
# ## A gambler
#
# A game with an unknown chance, won twice in four games. Who has 4 is done; who has nothing is out. The same coin
# decides all games, so that one unknown source is shared by all states, and six games have few nodes.

MOST = 4
source = np.full((MOST + 1, 2), -1)
follows = np.zeros((MOST + 1, 2, 2), dtype=int)
for capital in range(1, MOST):
    source[capital] = 1, 0
    follows[capital, 0] = capital, -1
    follows[capital, 1] = capital - 1, capital + 1
game = pr.UncertainMDP(
    source,
    follows,
    np.zeros((MOST + 1, 2)),
    discount=1.0,
    actions=["stop", "play"],
    terminal={0: 0.0, MOST: 1.0},
)
final = {capital: capital / MOST for capital in range(1, MOST)}
for alpha in (0.0, 0.5):
    gambler = pr.BayesianRiskMDP(game, [[3, 3], [1, 0]], alpha)
    plan = gambler.solve(
        horizon=6, learning=True, terminal_value=final, start=2
    )
    print(
        f"alpha {alpha}: {plan.value[2]:.4f}, "
        f"learning is worth {plan.value_of_learning[2]:+.4f}"
    )

# %%
# ## A shop with unknown demand
#
# Orders of 0 to 2 units, a demand of which nothing is known. What is sold shows the demand.

shop = pr.envs.inventory([0.2, 0.5, 0.3], capacity=3, max_order=2)
stock = pr.BayesianRiskMDP(shop.model, np.ones((1, 3)), 0)
plan = stock.solve(horizon=8, learning=True, start=0)
print(plan)

# %%
# ## Caution pays at every look
#
# The nested risk is taken at every step. With learning, what the next step is worth depends on what is seen, and this
# spread is punished as well, at every look anew. From some level on a plan that learns is worth less than one that
# acts as if it never would.

arms = pr.UncertainMDP(
    source=[[0, 1]],
    next_state=[[[0, 0], [0, 0]]],
    reward=[[[0, 1], [0, 1]]],
    discount=1,
)
alphas = np.round(np.arange(0.0, 0.96, 0.05), 2)
fig, axes = plt.subplots(figsize=(6.0, 3.2))
for horizon in (5, 10, 20):
    worth = []
    for alpha in alphas:
        plan = pr.BayesianRiskMDP(arms, np.ones((2, 2)), alpha).solve(
            horizon=horizon, learning=True
        )
        worth.append(100 * plan.value_of_learning[0] / plan.fixed_value[0])
    axes.plot(alphas, worth, "o-", ms=3, label=f"{horizon} pulls")
axes.axhline(0, color="black", lw=0.8)
axes.set(xlabel="level", ylabel="value of learning, %")
axes.legend()

# %%
# ## What to try next
#
# - Where a plan is too large, `draws=200` makes its first steps exact and bounds the rest: `plan.value`,
#   `plan.upper_bound`, `plan.gap`.
# - `plan.to_xarray()` is the whole tree.
# - Why it is exact, and why the bounds hold: [Learning inside the horizon](../mathematics/learning.md).
