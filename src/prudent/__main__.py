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
    bandit = pr.LinearBandit(3, dim=2, alpha=0.8, seed=0)
    decision = bandit.select([1.0, 0.5])
    bandit.update([1.0, 0.5], decision.arm, decision.propensity)
    bandit.select([[1.0, 0.5], [0.0, 1.0]])
    pr.simulate_bandit(pr.envs.gaussian_bandit(), pr.brps_cmab(0.8), horizon=10, replications=1)
    agents = [pr.ts_rl(), pr.brps_rl(0.9), pr.brps_rl(0.7)]
    pr.simulate(pr.envs.frozen_lake(p_h=0.2), agents, episodes=2, replications=1)
    print(f"prudent {pr.__version__}: kernels ready after {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
