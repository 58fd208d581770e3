r"""
# Posterior draws from PyMC or NumPyro

Often the posterior is not a Dirichlet: demand follows a curve, patients are similar but not the same, chances depend
on covariates. Then you fit a model with PyMC, NumPyro, Stan or anything else, and what you get are draws, in a file.
`prudent` plans with them as they are; it needs none of these libraries.

The shop of [Inventory with ten weeks of demand](plan_inventory.md) again. Now demand has a shape: a negative binomial
distribution with unknown mean and dispersion, fitted to ten weeks.
"""

import importlib.util
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import xarray
from scipy.stats import nbinom

import prudent as pr

weeks = np.array([3, 5, 2, 4, 3, 6, 4, 2, 3, 5])
MOST = 10

# %%
# ## The draws
#
# In PyMC this would be
#
# ```py
# with pymc.Model(coords={"demand": range(11)}):
#     mean = pymc.LogNormal("mean", 1.0, 1.0)
#     dispersion = pymc.LogNormal("dispersion", 2.0, 1.0)
#     pymc.NegativeBinomial("weeks", mu=mean, alpha=dispersion, observed=weeks)
#     demand = pymc.NegativeBinomial.dist(mu=mean, alpha=dispersion)
#     chances = pymc.math.exp(pymc.logp(demand, numpy.arange(11)))
#     pymc.Deterministic("chances", chances / chances.sum(), dims="demand")
#     result = pymc.sample(chains=4)
# result.to_netcdf("posterior.nc")
# ```
#
# The one thing to remember: store the **probabilities of the outcomes** (`Deterministic` in PyMC,
# `numpyro.deterministic` in NumPyro, generated quantities in Stan), not only the parameters. Here a few lines of
# NumPy stand in for the sampler: four chains of a random walk, all at once.


def log_density(parameters):
    """Return that of the posterior, of log mean and dispersion [chain, 2]."""
    mean, dispersion = np.exp(parameters.T)
    fit = nbinom.logpmf(
        weeks[:, None], dispersion, dispersion / (dispersion + mean)
    ).sum(axis=0)
    return (
        fit
        - 0.5 * (parameters[:, 0] - 1.0) ** 2
        - 0.5 * (parameters[:, 1] - 2.0) ** 2
    )


rng = np.random.default_rng(3)
at = rng.normal([1.0, 2.0], 0.3, (4, 2))
density, chain = log_density(at), []
for step in range(2_500):
    asked = at + rng.normal(0.0, [0.25, 0.8], (4, 2))
    asked_density = log_density(asked)
    taken = np.log(rng.random(4)) < asked_density - density
    at, density = (
        np.where(taken[:, None], asked, at),
        np.where(taken, asked_density, density),
    )
    if step >= 500 and step % 5 == 0:
        chain.append(at)
# each [chain, draw]
mean, dispersion = np.exp(np.array(chain).transpose(2, 1, 0))

chances = nbinom.pmf(
    np.arange(MOST + 1),
    dispersion[..., None],
    (dispersion / (dispersion + mean))[..., None],
)
chances /= chances.sum(axis=2, keepdims=True)

# %%
# ## The file
#
# ArviZ writes a dataset with the dimensions `chain`, `draw` and those of the variable, in the group `/posterior`.
# Groups need h5netcdf or netCDF4 beside xarray. Where neither is installed, write the dataset by itself (of an ArviZ
# result: `result.posterior.to_netcdf(...)`).

data = xarray.Dataset(
    {
        "mean": (("chain", "draw"), mean),
        "dispersion": (("chain", "draw"), dispersion),
        "chances": (("chain", "draw", "demand"), chances),
    },
    coords={"demand": np.arange(MOST + 1)},
)
readers = [importlib.util.find_spec(name) for name in ("h5netcdf", "netCDF4")]
group = "posterior" if any(readers) else None
with tempfile.TemporaryDirectory() as folder:
    data.to_netcdf(f"{folder}/posterior.nc", group=group)
    with xarray.open_dataset(f"{folder}/posterior.nc", group=group) as file:
        posterior = file.load()
print(dict(posterior.sizes), list(posterior.data_vars))

# %%
# ## Plan with it
#
# The rules of the shop are known; the draws take the place of a posterior. `variable` says which of the variables are
# the probabilities. `chain` and `draw` (or `sample`) number the draws; the other dimensions are source and outcome,
# and where there is one source, as here, its dimension may be missing.


def week(stock, order, demand):
    """Return the stock after a week, and what it earned."""
    sold = min(stock + order, demand)
    left = stock + order - sold
    return left, 6.0 * sold - 4.0 * order - 0.2 * left


shop = pr.UncertainMDP.from_dynamics(
    week,
    range(13),
    range(13),
    range(MOST + 1),
    0.98,
    admissible=lambda stock, order: stock + order <= 12,
)
plan = pr.BayesianRiskMDP(
    shop, draws=posterior, variable="chances", alpha=0.9
).solve()
print(plan)
print("fill up to", plan.policy_names[0])

# %%
# The solution is exact for these draws: the certificate is about the average of the worst tenth of the 1,600 draws,
# at every step. How well the draws stand for the posterior is for your sampler's diagnostics to say. So is how many
# you need: at level 0.9 only a tenth of the draws decides.
#
# ## Against the Dirichlet posterior
#
# The Dirichlet posterior of the other example takes each demand for itself: that 7 is likelier than 10, if 5 and 6
# have been seen, it does not know. The curve knows.

loose = pr.DirichletPosterior.for_model(shop, shop.prior(0.2)).update(0, weeks)
alphas = (-0.9, -0.5, 0, 0.5, 0.9)
for name, problem in {
    "curve": lambda alpha: pr.BayesianRiskMDP(
        shop, draws=posterior["chances"], alpha=alpha
    ),
    "Dirichlet": lambda alpha: pr.BayesianRiskMDP(shop, loose, alpha),
}.items():
    print(
        f"{name:10} fill up to",
        {alpha: problem(alpha).solve().policy_names[0] for alpha in alphas},
    )

fig, grid = plt.subplots(1, 2, figsize=(8.6, 3.0), sharey=True)
for axes, title, draws in (
    (grid[0], "Curve, from the file", chances.reshape(-1, MOST + 1)),
    (grid[1], "Dirichlet", loose.sample(1_600, rng=1)[:, 0]),
):
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    axes.bar(
        range(MOST + 1),
        np.bincount(weeks, minlength=MOST + 1) / len(weeks),
        color="#d9d9d6",
        label="seen",
    )
    axes.vlines(range(MOST + 1), low, high, lw=2, color="C0", label="5% to 95%")
    axes.plot(
        range(MOST + 1), draws.mean(axis=0), "o", color="C0", label="mean"
    )
    axes.set(
        title=title, xlabel="demand in a week", xticks=range(0, MOST + 1, 2)
    )
grid[0].set_ylabel("probability")
grid[1].legend()

# %%
# ## What it earns
#
# `posterior_returns` and `risk_profile` take draws, too: every draw is one true shop.

profile = pr.risk_profile(
    shop, posterior["chances"], alphas=(0, 0.5, 0.9), start=0
)
table = profile.to_pandas()
print(table[["mean", "cvar", "states_differ", "recommended"]].round(2))

# %%
figure = profile.plot()

# %%
# ## What can go wrong
#
# Draws that are no probabilities are refused, with their place. Parameters instead of probabilities, for example:

try:
    pr.BayesianRiskMDP(shop, draws=posterior, alpha=0.9)
except pr.errors.ParameterError as error:
    print("ParameterError:", error)
try:
    pr.BayesianRiskMDP(shop, draws=posterior["chances"] * 1.01, alpha=0.9)
except pr.errors.PosteriorError as error:
    print("PosteriorError:", error)

# %%
# ## What to try next
#
# - Several sources: dimensions called `source` and `outcome`, in the order of the model; or one long table with the
#   columns state, action, next_state, probability, reward, sample: `pr.BayesianRiskMDP.from_table`.
# - A posterior class of your own: [Your own parts](../howto/your-own-parts.md).
# - Rewards that are unknown as well: [Unknown rewards](../howto/unknown-rewards.md).
# - What draws do to the value of a careful policy: [A custom spectral measure](plan_spectral.md).
