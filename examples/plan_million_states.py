r"""
# A certified solve of a million states

How large may a model be? Here 20,000 states with 10 actions each are solved on your processor, in every one of
200,000 pairs an unknown distribution, to ten digits with a certificate. The same script solves a million states, and
ten million on a GPU: those numbers are recorded, with the command that measured them.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import prudent as pr

# mkdocs_gallery_thumbnail_number = 2

# %%
# ## A large problem
#
# Ten actions in each state, five possible next states for each of them, anywhere, and some twenty observations of
# each pair. Arrays are all you need: `source` numbers the unknown distributions, `next_state` says where their
# outcomes lead.


def large_problem(n_states):
    """Return a random problem, that of `make bench` and `make bench-gpu`."""
    rng = np.random.default_rng(4)
    shape = (n_states, 10)
    source = np.arange(n_states * 10).reshape(shape)
    model = pr.UncertainMDP(
        source,
        rng.integers(0, n_states, (*shape, 5)),
        rng.random(shape),
        discount=0.95,
    )
    counts = 1.0 + rng.poisson(3.0, (n_states * 10, 5))
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts), alpha=0.9)


problem = large_problem(20_000)
print(problem.model)

# %%
# ## Solve it
#
# By default `solve` asks for ten digits of the largest value, and uses all cores.

small = large_problem(3_000)
exact = small.solve()  # also compiles, or loads what was compiled

began = time.perf_counter()
solution = problem.solve()
seconds = time.perf_counter() - began
print(f"{seconds:.1f} s, {solution.iterations} backups")
print(f"values {solution.value.min():.4f} to {solution.value.max():.4f}")
print(f"certified to {solution.error_bound:.1e}")

# %%
# ## What the certificate says
#
# Write $T$ for the Bayesian-risk Bellman operator, a contraction with the discount $\gamma$ as its modulus. If $V$
# moves by at most $d$ under $T$, then it is at most $d / (1 - \gamma)$ away from the fixed point. `error_bound` is
# such a bound, sharper, and with the rounding of all sums counted in ([The
# certificate](../mathematics/certificate.md)). So you can check it: solve to a coarse tolerance, and see that the
# coarse values are as close to the fine ones as they claim. 3,000 states will do:

for tol in (1e-1, 1e-3, 1e-6):
    coarse = small.solve(tol=tol)
    gap = abs(coarse.value - exact.value).max()
    claim = coarse.error_bound
    print(f"asked for {tol:.0e}, claims {claim:.1e}, is off by {gap:.1e}")

# %%
# ## What it looks like
#
# With more than forty states `plot` shows values by action, and how clear the choices are.

figure = solution.plot()

# %%
# ## Larger
#
# Time grows in proportion to the states. Measured here, on your processor, and recorded on one H200 with 16 cores
# beside it (`make bench-gpu`, [A GPU](../gpu.md)); transfers included, kernels compiled before, the model made
# before:
#
# | states | pairs | seconds on the GPU | backups |
# |---:|---:|---:|---:|
# | 100,000 | 1,000,000 | 0.35 | 10 |
# | 1,000,000 | 10,000,000 | 2.6 | 12 |
# | 10,000,000 | 100,000,000 | 26 | 12 |
#
# The 16 cores take 1.1 s for the first. The call is `problem.solve(device="gpu")`: the same solver, the same
# certificate.

recorded = {100_000: 0.35, 1_000_000: 2.6, 10_000_000: 26.0}
began = time.perf_counter()
small.solve()
here = {3_000: time.perf_counter() - began, 20_000: seconds}

fig, axes = plt.subplots(figsize=(6.4, 3.2))
axes.plot(
    here.keys(),
    here.values(),
    "o-",
    label="where this page was made, its processor",
)
axes.plot(recorded.keys(), recorded.values(), "s-", label="one H200 (recorded)")
axes.set(
    xscale="log",
    yscale="log",
    xlabel="states, with 10 actions each",
    ylabel="seconds",
)
axes.legend()

# %%
# ## What to try next
#
# - `large_problem(1_000_000)` takes gigabytes, and minutes on a processor. [Large models](../howto/large-models.md)
#   says how memory grows and what to do about it.
# - Several machines: `problem.solve(client=...)`, see [A cluster](../cluster.md).
# - A solve that takes longer than you like: [Slow solves](../howto/slow-solves.md).
# - Known models have no posterior and are larger still for the same money: `pr.solve(mdp)`.
