"""Every kernel that users reach, called once on a small problem: what `prudent compile` runs.

Numba compiles a kernel anew for each combination of argument types, so what is called here must have the types of the
real thing. A test uses the library in a process of its own after this and counts what is still compiled: nothing.

Run as a program, it compiles the parts that it reads, one name a line. It prints its argument for each kernel that was
compiled, and for each part why kernels cannot be kept, or an empty line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
from numba.core import event

import prudent as pr
import prudent.simulation  # kernels are declared: known now whether they can be kept

from .._numerics.compile import unkept


def _small() -> tuple[pr.UncertainMDP, pr.DirichletPosterior]:
    model = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)
    return model, pr.DirichletPosterior.from_log(model, [(0, 0, 1), (1, 1, 0)])


def _plans() -> None:
    model, posterior = _small()
    problem = pr.BayesianRiskMDP(model, posterior, alpha=0.9)
    mdp = model.mdp(posterior.mean())
    for solution in (problem.solve(), problem.solve(draws=10, rng=0), pr.solve(mdp)):
        problem.evaluate(solution.policy)
    problem.solve(baseline="log", min_visits=2)
    pr.solve(mdp, tol=1e-30)  # beyond 64 bits
    pr.solve(pr.envs.random_model(301, 2, branching=3, rng=0).mdp())  # more states than are solved by elimination
    pr.exact.cvar_dirichlet([0.0, 1.0], [1.0, 1.0], 0.9)
    pr.exact.cvar_clipped_normal(0.5, 1.0, 0.9)
    pr.risk.lowest_normals(10, 1, rng=0)
    pr.posteriors.LinearGaussianPosterior(1).update([[1.0]], [0.0]).mean()
    for policy in ([0, 0], [[0, 0], [1, 1], [0, 0]]):
        model.trajectory(posterior.mean(), policy, 3, rng=0)


def _unknown_rewards() -> None:
    model, posterior = _small()
    unknown = pr.posteriors.NormalPosterior(np.zeros((2, 2)), 1.0, 1.0)
    pr.BayesianRiskMDP(model, posterior, alpha=0.9, reward_posterior=unknown).solve()


def _objectives() -> None:
    model, posterior = _small()
    mdp = model.mdp(posterior.mean())
    pr.planning.RobustMDP(mdp, pr.L1Ball(0.1)).solve()
    pr.IntervalMDP([[[0.8, 0.1]], [[1.0, 0.0]]], [[[0.9, 0.2]], [[1.0, 0.0]]], [1.0, 0.0], 0.9).solve()
    pr.BayesianRiskMDP(model, posterior, alpha=0.9, outcome_risk=pr.CVaR(0.5)).solve(draws=10, rng=0)
    pr.solve(mdp, horizon=2)
    pr.solve(mdp, objective=pr.EVaR(0.5), start=0, horizon=2)
    pr.evaluate(mdp, [[0.5, 0.5]] * 2, objective=pr.Entropic(1.0), horizon=2)
    pr.returns(mdp, [0, 0], horizon=2, replications=2, rng=0)
    static = pr.PosteriorRisk(pr.CVaR(0.5), randomised=True)  # whose upper bound calls all kernels of the search
    pr.BayesianRiskMDP(model, posterior, alpha=0.9).solve(objective=static, start=0, draws=4, rng=0)
    pr.risk_profile(model, posterior, (0.0, 0.9), draws=2, rng=0, regret=True)


def _bandits() -> None:
    contexts = np.ones((32, 2))  # enough for the screen in single precision, also with a constant
    for settings in (pr.bandits.brps_cmab(0.8), pr.bandits.brps_cmab_clipped(0.8)):
        bandit = pr.LinearBandit(3, dim=2, noise_sd=1.0, first_pulls=1, rng=0, settings=settings)
        for points in (contexts[0], contexts, contexts):
            decision = bandit.select(points)
            bandit.update(points, decision.arm, decision.propensity)
            decision.propensities, decision.score  # noqa: B018  # worked out when read
        bandit.propensities(contexts), bandit.predict(contexts), bandit.noise_sd, bandit.posterior(0)
    for rewards in ("gaussian", "bernoulli"):
        learner = pr.LinearBandit(3, dim=2, rng=0, rewards=rewards)
        for points in (contexts[0], contexts):
            decision = learner.select(points)
            learner.update(points, decision.arm, np.arange(np.size(decision.arm)) % 2 if points.ndim == 2 else 1.0)
            decision.propensity, decision.propensities  # noqa: B018
        learner.propensities(contexts), learner.select_each(contexts)
    either = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]] * 16)
    finder = pr.LinearBandit(2, dim=2, rng=0, interactions="auto")
    finder.update(either, [0] * 64, (either[:, 0] != either[:, 1]).astype(float)).select(contexts[0])  # with a product


def _clicks_and_items() -> None:
    """Compile what a server calls besides: clicks without context, counts, items."""
    for dim, kind in ((0, "bernoulli"), (2, "poisson"), (2, "hurdle")):
        learner = pr.LinearBandit(3, dim, rng=0, rewards=kind)
        for reward in (1.0, 0.0, 2.0 if kind == "hurdle" else 1.0):
            decision = learner.select(np.ones(learner.dim))
            learner.update(decision.context, decision.arm, reward)
            decision.propensity, decision.propensities  # noqa: B018
    for rewards in ("gaussian", "bernoulli"):
        items = pr.SharedLinearBandit(2, rng=0, rewards=rewards)
        for reward in (1.0, 0.0, 1.0):
            slate = items.select(np.eye(2))
            items.update(slate.context, slate.arm, reward)
            slate.propensity  # noqa: B018
    named = pr.SharedLinearBandit.from_log([([1.0, 0.0], "a", 2.0)], offsets=True, noise_sd=1.0, rng=0)
    page = named.select({item: [1.0, 0.5] for item in "abc"}, top=2)
    page.inclusion(), page.slate_propensity, page.set_propensity
    pr.posteriors.LogisticPosterior(1).update([[1.0]], [1.0])
    for sd in (None, 1.0):
        sparse = pr.bandits.SparseLinearBandit(3, 4, rng=0, noise_sd=sd)
        for reward in (1.0, 0.0, 1.0):
            choice = sparse.select([1.0, 0.0, 0.0, 2.0])
            sparse.update(choice.context, choice.arm, reward)
            choice.propensity, choice.propensities  # noqa: B018


def _simulated_bandits() -> None:
    world, rng = pr.envs.gaussian_bandit(), np.random.default_rng(0)
    pr.simulation.simulate_bandit(world, pr.bandits.brps_cmab(0.8), horizon=10, replications=1)
    world.reward(0, world.context(0, rng), 0, rng)
    pr.bandits.thompson_sampling_inflated(delta=0.1).nu(1, dim=3, noise_sd=1.0)


class _FirstAction:
    """The smallest agent that `simulate` takes."""

    def __init__(self, model: pr.UncertainMDP) -> None:
        self.policy = model.admissible.argmax(axis=1)

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, state: int) -> int:
        return int(self.policy[state])

    def observe(self, *transition: object) -> None: ...


def _agents() -> None:
    lake = pr.envs.frozen_lake(p_h=0.2)
    pr.simulate(lake, [pr.brps_rl(0.9), pr.agents.optimistic_vi(0.9)], episodes=2, replications=1)
    pr.simulate(lake, pr.brps_rl(0.9), episodes=2, replications=1, pairing="source")
    pr.simulate(lake, _FirstAction, episodes=1, replications=1)
    for agent in (
        pr.PosteriorSamplingAgent(lake.model, alpha=0.9, rng=0),
        pr.OptimisticVIAgent(lake.model, 0.9, horizon=100, rng=0),
    ):
        agent.observe(0, agent.act(0), 0)


_CALLS: dict[str, Callable[[], None]] = {
    "bandits": _bandits,
    "plans": _plans,
    "simulations": _agents,
    "objectives": _objectives,
    "clicks and items": _clicks_and_items,
    "unknown rewards": _unknown_rewards,
    "simulated bandits": _simulated_bandits,
}


class Counter(event.Listener):  # type: ignore[misc]
    """Calls a function for each kernel that was compiled in this process."""

    def __init__(self, advance: Callable[[], object]) -> None:
        self._advance = advance

    def on_start(self, event: object) -> None:
        """Do nothing yet."""

    def on_end(self, event: object) -> None:
        """Count the kernel."""
        self._advance()


def compile_part(name: str) -> str:
    """Compile a part; return why its kernels cannot be kept, or an empty text."""
    if not unkept():
        _CALLS[name]()
    return unkept()


if __name__ == "__main__":
    event.register("numba:compile", Counter(lambda: print(sys.argv[1], flush=True)))
    for line in sys.stdin:
        print(compile_part(line.strip()), flush=True)
