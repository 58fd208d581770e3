"""Uses all that users reach, each in the ways that need kernels of their own, and lists what was compiled for it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from numba.core import event

import prudent as pr
from prudent.service.bodies import SlotSpec

COMPILED: list[str] = []


class Listener(event.Listener):
    def on_start(self, event):
        pass

    def on_end(self, event):
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("prudent"):
            COMPILED.append(f"{function.__module__}.{function.__qualname__}{event.data['args']}")


def models():
    rng = np.random.default_rng(0)
    dense = pr.MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)), 0.9)
    ending = pr.MDP(0.9 * rng.dirichlet(np.ones(4), (4, 2)), rng.random((4, 2)), 0.9, termination=np.full((4, 2), 0.1))
    sparse = pr.envs.random_model(500, 3, branching=4, rng=0).mdp()
    table = pr.MDP.from_table([("a", "go", "b", 1.0, 1.0), ("b", "go", "a", 1.0, 0.0)], discount=0.9)
    for mdp in (dense, ending, sparse, table, pr.MDP.from_gymnasium("FrozenLake-v1", discount=0.95)):
        for method in ("newton", "value_iteration"):
            policy = pr.solve(mdp, options=pr.planning.SolverOptions(method=method, tol=1e-6)).policy
            pr.evaluate(mdp, policy, options=pr.planning.SolverOptions(method=method, tol=1e-6))


def uncertain():
    lake, shop = pr.envs.frozen_lake(p_h=0.2), pr.envs.inventory()
    few, many = pr.envs.random_model(6, 2, rng=0), pr.envs.random_model(310, 2, branching=2, rng=1)
    pr.theory.limit_law(few.mdp(), pr.solve(few.mdp()).policy, 0.9)
    unknown = pr.envs.GymnasiumModel("FrozenLake-v1", discount=0.95, rewards=(0, 1))
    rng = np.random.default_rng(0)
    for problem in (lake, shop, few, many):
        model = problem.model
        log = model.trajectory(problem.theta, np.argmax(model.admissible, axis=1), 50, rng=0)
        posterior = pr.DirichletPosterior(model.count(log, model.prior(), indices=True))
        brmdp = pr.BayesianRiskMDP(model, posterior, alpha=0.9)
        for options in ({}, {"draws": 20, "rng": rng}, {"threads": 1}):
            brmdp.evaluate(brmdp.solve(**options).policy, **options)
        pr.risk_profile(model, posterior, (0.0, 0.9), draws=3, rng=0, regret=True)
        agent = pr.PosteriorSamplingAgent(model, alpha=0.5, rng=1)
        for row in log[:3]:
            agent.act(int(row[0]))
    agent = pr.PosteriorSamplingAgent(unknown.model, alpha=0.5, prior=unknown.model.prior(0.1), rng=1)
    pr.simulation.learn(agent, unknown, steps=30, rng=1)
    rewards = pr.posteriors.BetaPosterior(np.ones((6, 2)), np.ones((6, 2)))
    free = pr.BayesianRiskMDP(few.model, few.model.prior(), 0.9, reward_posterior=rewards)
    free.evaluate(free.solve(draws=20, rng=0).policy, draws=20, rng=0)
    measures = (
        pr.CVaR(0.9),
        pr.VaR(0.9),
        pr.risk.Mean(),
        pr.risk.WorstCase(),
        pr.MeanCVaR(0.5, 0.9),
        pr.risk.ModifiedCVaR(0.9),
    )
    for risk in measures:
        pr.BayesianRiskMDP(lake.model, lake.model.prior(), risk=risk).solve(draws=15, rng=0)
    for risk in (pr.CVaR(0.8), pr.VaR(0.8)):
        few = pr.UncertainMDP.direct(np.arange(8.0).reshape(4, 2) % 3, discount=0.9)
        static = pr.PosteriorRisk(risk)
        pr.BayesianRiskMDP(few, few.prior(), alpha=0.5).solve(objective=static, draws=20, rng=0)


def numbers():
    rng = np.random.default_rng(0)
    for rows in ((), (5,), (300,)):
        pr.exact.dirichlet_tail(rng.random((*rows, 7)), np.ones((*rows, 7)), 0.9)
    pr.exact.cvar_normal(0.0, 1.0, 0.9)
    pr.exact.cvar_clipped_normal(rng.random(5), 1.0, 0.9)
    pr.risk.lowest_normals(100, 10, rng=0)
    pr.risk.lowest_normals(100, 10, size=5, rng=0)
    pr.cvar(rng.random((20, 3)), 0.9)
    pr.posteriors.LinearGaussianPosterior(2, 1.0, 1.0).update(np.ones((3, 2)), np.ones(3)).update([1.0, 0.0], 1.0)


def bandits():
    rng = np.random.default_rng(0)
    makers = (
        pr.bandits.thompson_sampling(),
        pr.bandits.brps_cmab(0.8),
        pr.bandits.brps_cmab(0.95, draws=50, estimator="modified"),
        pr.bandits.brps_cmab_clipped(0.9),
        pr.bandits.brps_cmab_inflated(0.8, delta=0.05),
        pr.bandits.thompson_sampling_inflated(sampling_sd=2.0),
    )
    for env in (pr.envs.gaussian_bandit(), pr.envs.bounded_bandit()):
        pr.simulation.simulate_bandit(env, makers, horizon=20, replications=2, alphas=(0.0, 0.9))
    for settings in makers:
        bandit = pr.LinearBandit(8, dim=5, settings=settings, noise_sd=1.0, rng=1)
        for contexts in (rng.random(5), rng.random((1, 5)), rng.random((3, 5)), rng.random((100, 5))):
            for arms in (None, [1, 5, 7]):
                decision = bandit.select(contexts, arms)
                assert np.all(np.asarray(decision.propensity) >= 0)
                assert np.shape(decision.propensities)[-1] == (len(arms) if arms else 8)
                assert np.isfinite(decision.score).all()
                assert np.isfinite(decision.mean).all()
                bandit.update(contexts, decision.arm, np.zeros(len(contexts)) if contexts.ndim == 2 else 0.0)
        bandit.posterior(3).sample(2, rng=0)
        with tempfile.TemporaryDirectory() as folder:
            bandit.save(Path(folder) / "state")
            pr.LinearBandit.load(Path(folder) / "state").select(rng.random(5))
    either = rng.integers(2, size=(100, 2)).astype(float)
    found = pr.LinearBandit(2, dim=2, rng=1, interactions="auto").update(
        either, [0] * 100, either[:, 0] != either[:, 1]
    )
    assert found.interactions_found  # the product
    for contexts in (either[0], either):
        assert np.isfinite(found.select(contexts).propensity).all()
    for options in (
        {},
        {"rewards": "bernoulli"},
        {"rewards": "hurdle"},
        {"half_life": 50, "first_pulls": 1, "min_propensity": 0.01},
    ):
        learner = pr.LinearBandit(8, dim=5, rng=1, **options)
        for contexts in (rng.random(5), rng.random((100, 5)), rng.random(5)):
            decision = learner.select(contexts)
            rewards = np.arange(100) % 2 if contexts.ndim == 2 else 1.0
            learner.update(contexts, decision.arm, rewards)
            assert np.isfinite(decision.propensities).all()
        learner.propensities(rng.random((3, 5)))
        learner.predict(rng.random((3, 5)))
        learner.copy().select(rng.random(5))
    log = [(rng.random(2), arm, 1.0) for arm in "abcab"]
    pr.LinearBandit.from_log(log, alpha=0.8, noise_sd=1.0).select([0.5, 0.5])
    world = pr.envs.LinearBanditGym(pr.envs.gaussian_bandit(), steps=3)
    world.reset(seed=0)
    world.step(0)


def served():
    """Do what ``prudent serve`` does for slots of all kinds."""
    kinds = [{"arms": 3, "dim": dim, "rewards": rewards} for dim in (0, 2) for rewards in ("gaussian", "bernoulli")]
    kinds += [{"kind": "items", "dim": 2, "rewards": rewards} for rewards in ("gaussian", "bernoulli")]
    kinds += [{"arms": 3, "dim": 2, "rewards": "hurdle"}]
    kinds += [{"arms": 3, "dim": 2, "rewards": "poisson"}, {"arms": 3, "dim": 2, "alpha": 0.9, "min_propensity": 0.05}]
    with tempfile.TemporaryDirectory() as folder:
        for number, options in enumerate(kinds):
            path = f"{folder}/{number}"
            with pr.Journal(path, SlotSpec(**options).bandit(1000), synchronous="NORMAL") as live:
                point = [[1.0, 0.5], [0.0, 1.0], [0.5, 0.5]] if "kind" in options else [1.0, 0.5][: options["dim"]]
                for _ in range(3):
                    decisions = live.select_each([{"context": point}] * 3)
                    live.reward_each([(each.id, float(i % 2)) for i, each in enumerate(decisions)])
                live.explain(decisions[0].id)
                live.bandit.check()
                live.catch_up()
            with pr.Journal(path) as live:
                live.select_each([{"context": point}])


def agents():
    lake = pr.envs.frozen_lake(p_h=0.2)
    settings = [
        pr.agents.ts_rl(),
        pr.agents.ts_rl(sweeps=3, label="sweeps"),
        pr.brps_rl(0.9),
        pr.agents.certainty_equivalence(),
        pr.agents.worst_case(5),
        pr.agents.optimistic_vi(0.9),
    ]
    record = ("states", "rewards", "policies")
    pr.simulate(lake, settings, episodes=3, replications=2, br_episodes=[1], alphas=[0.5], record=record)
    pr.simulate(pr.envs.inventory(), [pr.agents.ts_rl(), pr.brps_rl(0.9)], episodes=3, replications=1)
    pr.simulate(pr.envs.random_model(320, 2, branching=3, rng=0), pr.brps_rl(0.9), episodes=2, replications=1)
    optimist = pr.OptimisticVIAgent(lake.model, 0.9, horizon=100, rng=1)
    optimist.observe(0, optimist.act(0), 0)


def planned():
    """Solve what is not a plain model under a posterior."""
    model = pr.UncertainMDP.direct([[0.0, 1.0], [1.0, 0.0], [0.5, 0.2]], discount=0.9)
    counts = [[5.1, 1.1, 2.1], [1.1, 1.1, 1.1], [0.1, 3.1, 1.1], [2.1, 2.1, 2.1], [9.1, 1.1, 1.1], [1.1, 0.1, 4.1]]
    problem = pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts, prior=np.full((6, 3), 0.1)), alpha=0.8)
    known = model.mdp(pr.DirichletPosterior(counts).mean())
    pr.IntervalMDP.credible(model, counts, 0.9).solve()
    pr.IntervalMDP.credible(model, counts, 0.9).optimist().solve()
    pr.planning.RobustMDP(known, pr.L1Ball(0.2)).solve()
    pr.solve(known, objective="average")
    pr.solve(known, objective=pr.EVaR(0.7), start=0, horizon=3)
    pr.returns(known, [0, 0, 1], horizon=3, replications=10, rng=0)
    pr.BayesianRiskMDP(model, counts, alpha=0.5, outcome_risk=pr.CVaR(0.5)).solve()
    sure = problem.solve(baseline="log", min_visits=2)
    problem.solve(horizon=3)
    sure.explain(0)
    pr.value_of_data(model, pr.DirichletPosterior(counts), alpha=0.8, start=0, rng=0)
    pr.posterior_returns(model, pr.DirichletPosterior(counts), {"mine": sure}, start=0, draws=20, rng=0)
    arms = pr.UncertainMDP(source=[[0, 1]], next_state=[[[0, 0], [0, 0]]], reward=[[[0, 1], [0, 1]]], discount=1)
    pr.BayesianRiskMDP(arms, [[1, 1], [1, 1]], alpha=0.5).solve(horizon=4, learning=True)


def judged():
    """Judge policies from logs, and learn one; features of named columns, items and slates."""
    rng = np.random.default_rng(0)
    log = [([x / 9], arm, float(arm == ("b" if x > 4 else "a")), 0.5) for x in range(10) for arm in "ab" * 30]
    pr.learn_policy(log).act([0.9])
    pr.off_policy(log, "b")
    pr.evaluation.replay(log, pr.LinearBandit(["a", "b"], dim=1, rng=1))
    pr.evaluation.tune(log, {"noise_sd": [0.1, 3.0]})
    steps = {"episode": [i // 2 for i in range(400)], "state": ["new", "old"] * 200}
    steps |= {"action": rng.choice(["call", "mail"], 400).tolist(), "reward": rng.random(400)}
    pr.off_policy(steps, {"new": "call", "old": "mail"}, discount=0.9)
    drawn = {"slate": [i // 2 for i in range(400)], "position": [0, 1] * 200, "reward": rng.random(400)}
    pr.evaluation.off_policy_slates(drawn | {"propensity": [0.5] * 400, "target": [0.8, 0.5, 0.2, 0.5] * 100})
    features = pr.Features(user={"kind": "category", "slots": 0, "shared": 500}, hour="hour")
    point = {"user": "u17", "hour": 6}
    for bandit in (
        pr.bandits.SparseLinearBandit(["a", "b"], features=features, rng=1),
        pr.LinearBandit(["a", "b"], features=pr.Features(user="category", hour="hour"), rng=1),
    ):
        for reward in (1.0, 0.0):
            decision = bandit.select(point)
            bandit.update(point, decision.arm, reward)
    items = pr.SharedLinearBandit(3, rng=1, offsets=True)
    for top in (1, 2):
        slate = items.select(dict(zip("abcde", rng.random((5, 3)), strict=True)), top=top)
        assert np.isfinite(slate.propensity)
        if top == 1:
            items.update(slate.context, slate.arm, 1.0)
    slate.inclusion()
    confidence = pr.evaluation.ConfidenceSequence("bernstein", value_range=(0.0, 1.0))
    confidence.update(rng.random(100)).interval()


if __name__ == "__main__":
    event.register("numba:compile", Listener())
    for part in (models, uncertain, numbers, bandits, served, agents, planned, judged):
        part()
    print(*COMPILED, sep="\n", end="")
