r"""
# A custom spectral measure

`alpha` makes every risk CVaR: the average of the worst part, all of it with the same weight. You may want something
else: to weigh bad cases more the worse they are, or half of the average and half of the worst tenth. A spectral
measure is exactly that, weights on sorted outcomes:

$$\rho(Z) = \sum_i w_i z_{(i)}, \qquad w_i \ge 0, \quad \sum_i w_i = 1, \quad z_{(1)} \le \dots \le z_{(N)}.$$

You will write three of them, draw their weights, solve a problem with each without any draws, and compare with
posterior draws.
"""

import matplotlib.pyplot as plt
import numpy as np

import prudent as pr
from prudent.risk import ExactForm

# %%
# ## Three ways to write one
#
# **A mixture of CVaRs**: levels, and a share for each. Half of the average, half of the worst tenth:

half = pr.risk.Mixture(alphas=[0.0, 0.9], shares=[0.5, 0.5])
print(half.weights(10))

# %%
# **A distortion** $g$, nondecreasing from $g(0) = 0$ to $g(1) = 1$: the lowest share $u$ of all cases gets the weight
# $g(u)$. If $g$ is concave, bad cases weigh more. This one bends everywhere, so `pieces` puts lines in its place;
# `gap` says by how much that can change a value, as a share of the range of the draws.

smooth = pr.Spectral(lambda u: 1 - (1 - u) ** 4, pieces=50)
print(smooth.weights(10).round(3), "gap", round(smooth.gap, 5))

# %%
# **A class of your own**: a subclass of `RiskMeasure` says the weights of the lowest draws, the last of them not
# zero. That is all that planning with draws needs. `exact_form` adds what planning without draws needs: the mixture
# of CVaRs that it is.


class Trimmed(pr.risk.RiskMeasure):
    """The mean of the worst half, without the worst twentieth."""

    def tail_weights(self, n):
        places = np.arange(n + 1) / n
        return np.trim_zeros(
            np.diff(np.clip((places - 0.05) / 0.45, 0.0, 1.0)), "b"
        )

    def exact_form(self):
        """Return the lowest half less the lowest twentieth, as CVaRs."""
        return ExactForm(
            np.array([0.5, 0.95]), np.array([0.5, -0.05]) / 0.45, quantile=False
        )

    def __repr__(self):
        return "Trimmed()"


# %%
# The weights, of 100 draws:

measures = {
    "CVaR at 0.9": pr.CVaR(0.9),
    "half mean, half CVaR at 0.9": half,
    "smooth": smooth,
    "trimmed": Trimmed(),
}
fig, axes = plt.subplots(figsize=(7.0, 3.0))
for name, measure in measures.items():
    axes.step(
        np.arange(1, 101), 100 * measure.weights(100), where="mid", label=name
    )
axes.axhline(1, color="black", lw=0.8, ls=":")
axes.set(xlabel="draws, worst first", ylabel="weight, 1 is that of the mean")
axes.legend()

# %%
# ## Plan with them
#
# A machine that may be run or serviced, with few observations of everything. `risk=` takes the place of `alpha`.

model = pr.UncertainMDP.direct(
    [[3.0, -1.0], [1.0, -1.0], [-8.0, -4.0]],
    discount=0.9,
    states=["fine", "worn", "broken"],
    actions=["run", "service"],
)
counts = [[20, 8, 2], [4, 1, 1], [1, 9, 5], [3, 2, 1], [1, 1, 8], [6, 1, 1]]
posterior = pr.DirichletPosterior(
    counts, sources=model.sources, outcomes=model.outcomes
)

for name, measure in ({"mean": pr.risk.Mean()} | measures).items():
    plan = pr.BayesianRiskMDP(model, posterior, risk=measure).solve()
    print(f"{name:28} {plan.value.round(4)}  {plan.policy_names}")
print(f"the last one is certified to {plan.error_bound:.0e}")

# %%
# No draws were needed: a mixture of CVaRs is worked out by a contour integral for each of them ([Risk of a Dirichlet
# mean](../mathematics/dirichlet-tail.md)).
#
# ## Exact against draws
#
# The same with posterior draws, five times each. Draws miss the exact value by chance, and caution makes it worse:
# with few draws the worst tenth is an average of very few.

sizes = (30, 100, 300, 1_000, 3_000)
fig, grid = plt.subplots(1, 3, figsize=(9.0, 2.9))
for axes, name in zip(grid, ("CVaR at 0.9", "smooth", "trimmed"), strict=True):
    problem = pr.BayesianRiskMDP(model, posterior, risk=measures[name])
    exact = problem.solve().value[0]
    for seed in range(5):
        values = [problem.solve(draws=n, rng=seed).value[0] for n in sizes]
        axes.plot(
            sizes,
            values,
            "o-",
            ms=3,
            lw=0.8,
            color="C5",
            label="draws" if seed == 0 else None,
        )
    axes.axhline(exact, color="C3", label="exact")
    axes.set(title=name, xscale="log", xlabel="posterior draws")
grid[0].set_ylabel("value of the state fine")
grid[0].legend()

# %%
# A measure without `exact_form`, or a distortion that bends everywhere and has no `pieces`, needs draws. Asked for an
# exact solution, it says so:

try:
    pr.BayesianRiskMDP(
        model, posterior, risk=pr.Spectral(lambda u: 1 - (1 - u) ** 4)
    ).solve()
except pr.errors.ParameterError as error:
    print(error)

# %%
# ## What to try next
#
# - `pr.VaR(0.9)`, a quantile, and `pr.risk.WorstCase()`: both exact, too. A quantile does not see how bad the cases
# beyond
#   it are.
# - Negative levels are optimism: `pr.risk.Mixture([0.9, -0.9], [0.7, 0.3])` weighs the worst against the best.
# - Your own posteriors, agents and environments: [Your own parts](../howto/your-own-parts.md).
# - The classes: [Risk](../reference/risk.md).
