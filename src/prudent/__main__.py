"""``python -m prudent``: compile the kernels now, so that no later process has to wait for it."""

from __future__ import annotations

import time

import prudent as pr


def main() -> None:
    """Run every kernel once on a small problem and say how long that took."""
    began = time.perf_counter()
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)
    posterior = pr.DirichletPosterior.from_log(model, [(0, 0, 1), (1, 1, 0)])
    problem = pr.BayesianRiskMDP(model, posterior, alpha=0.9)
    for solution in (problem.solve(), problem.solve(draws=10, rng=0), pr.solve(model.mdp(posterior.mean()))):
        problem.evaluate(solution.policy)
    pr.exact.cvar_dirichlet([0.0, 1.0], [1.0, 1.0], 0.9)
    pr.lowest_normals(10, 1, rng=0)
    print(f"prudent {pr.__version__}: kernels ready after {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
