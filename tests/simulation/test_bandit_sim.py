"""The compiled simulator against the bandit called step by step, and regrets against the terms of their bounds."""

import subprocess
import sys
import warnings

import numpy as np
import pytest
from refusals import refused
from scipy import stats

from prudent._support.streams import replication_streams
from prudent.bandits import (
    BanditSettings,
    LinearBandit,
    brps_cmab,
    brps_cmab_clipped,
    brps_cmab_inflated,
    thompson_sampling,
    thompson_sampling_inflated,
)
from prudent.envs import LinearBanditEnv, LinearBanditGym, bounded_bandit, gaussian_bandit, register_gymnasium
from prudent.envs.linear_bandit import draw_context, draw_noise, reward_of
from prudent.errors import ModelError, ParameterError
from prudent.exact import cvar_clipped_normal, cvar_normal
from prudent.simulation.bandits import simulate_bandit
from prudent.theory import br_regret_bound


def step_by_step(env, settings, horizon, seed, replication, levels):
    """The simulation in Python: LinearBandit.select and update, regrets from prudent.exact."""
    environment, agent = replication_streams(seed, replication)
    bandit = LinearBandit(env.n_arms, env.dim, noise_sd=env.noise_sd, intercept=False, settings=settings, rng=agent)
    context = np.empty(env.dim)
    regret, br_regret = 0.0, np.zeros(len(levels))
    measure = cvar_clipped_normal if settings.clip else cvar_normal
    for _ in range(horizon):
        draw_context(environment, env.bounded, context)
        noise = draw_noise(environment, env.bounded)
        decision = bandit.select(context)
        means = env.theta @ context
        regret += means.max() - means[decision.arm]
        for i, level in enumerate(levels):
            risk = measure(decision.mean, decision.sd, level)
            br_regret[i] += risk.max() - risk[decision.arm]
        bandit.update(context, decision.arm, reward_of(means[decision.arm], noise, env.bounded, env.noise_sd))
    return regret, br_regret, list(bandit.pulls.values())


@pytest.mark.parametrize(
    "settings",
    [
        thompson_sampling(),
        brps_cmab(0.7),
        brps_cmab(0.99),
        brps_cmab(0.5, draws=9),
        brps_cmab_clipped(0.5),
        brps_cmab_clipped(0.7, estimator="cvar"),
        brps_cmab_inflated(0.8, delta=0.1),
        thompson_sampling_inflated(sampling_sd=2.0),
    ],
    ids=lambda settings: settings.label,
)
@pytest.mark.parametrize("env", [gaussian_bandit(), bounded_bandit(4)], ids=["gaussian", "bounded"])
def test_simulation_is_the_bandit_step_by_step(env, settings):
    levels = (0.0, 0.5, 0.9)
    runs = simulate_bandit(
        env, settings, horizon=400, replications=1, rng=3, alphas=levels, first_replication=2, times=[400]
    )
    regret, br_regret, pulls = step_by_step(env, settings, 400, 3, 2, levels)
    assert runs.pulls.values[0, 0].tolist() == pulls
    assert runs.regret.values[0, 0, -1] == pytest.approx(regret, rel=1e-12)
    np.testing.assert_allclose(runs.br_regret.values[0, 0, :, -1], br_regret, rtol=1e-9, atol=1e-11)


def test_datasets_say_what_they_hold():
    agents = [thompson_sampling(), brps_cmab(0.7), brps_cmab(0.7, estimator="modified", label="other")]
    runs = simulate_bandit(gaussian_bandit(), agents, horizon=1000, replications=4, alphas=[0.3], rng=1)
    assert dict(runs.sizes) == {"agent": 3, "replication": 4, "alpha": 1, "time": 200, "arm": 10}
    assert runs.agent.values.tolist() == ["TS", "BRPS(0.7)", "other"]
    assert runs.time.values[[0, -1]].tolist() == [5, 1000]
    assert (runs.pulls.sum("arm") == 1000).all()
    assert (runs.regret.diff("time") >= 0).all()
    assert (runs.br_regret.diff("time") >= 0).all()
    # every agent decides by its own settings: the estimators differ, as 1/(1-0.7) is not whole
    assert (runs.regret.sel(agent="BRPS(0.7)") != runs.regret.sel(agent="other")).any("time").all()


def test_results_do_not_depend_on_threads_order_or_number():
    env, agents = gaussian_bandit(), [thompson_sampling(), brps_cmab(0.9)]
    whole = simulate_bandit(env, agents, horizon=300, replications=6, rng=5, threads=3)
    parts = [simulate_bandit(env, agents, horizon=300, replications=3, rng=5, first_replication=i) for i in (0, 3)]
    for i, part in enumerate(parts):
        rows = whole.isel(replication=slice(3 * i, 3 * i + 3))
        assert part.identical(rows)
    alone = simulate_bandit(env, agents[1], horizon=300, replications=6, rng=5, threads=1)
    assert alone.equals(whole.sel(agent=["BRPS(0.9)"]))  # the attributes describe the agents of the call
    longer = simulate_bandit(env, agents, horizon=600, replications=6, rng=5, times=[300, 600])
    np.testing.assert_array_equal(longer.regret.sel(time=300), whole.regret.sel(time=300))


def test_agents_face_the_same_contexts_and_noise():
    # Both agents follow their posterior means, since they sample with next to no sd. Only the first decision, between
    # equal means, is random; whenever it agrees, all later ones must, although one agent draws five times as many
    # numbers. In 40 replications it never agrees with chance 2^-40.
    env = LinearBanditEnv([[1.0, 0.0], [0.0, 1.0]])
    agents = [BanditSettings(draws=draws, sampling_sd=1e-12, label=str(draws)) for draws in (1, 5)]
    runs = simulate_bandit(env, agents, horizon=60, replications=40, times=range(1, 61))
    one, five = runs.regret.values
    agree = one[:, 0] == five[:, 0]
    assert agree.any()
    np.testing.assert_array_equal(one[agree], five[agree])
    assert len(np.unique(one[agree, -1])) > 1  # and replications differ


def test_replications_have_streams_of_their_own():
    first, second = replication_streams(4, 7)
    assert first.bit_generator.seed_seq.spawn_key == (7, 0)
    assert second.bit_generator.seed_seq.spawn_key == (7, 1)
    assert first.bit_generator.seed_seq.entropy == 4


@pytest.mark.parametrize(
    "settings",
    [brps_cmab_clipped(0.5), brps_cmab_clipped(0.7), brps_cmab_clipped(0.9), brps_cmab_inflated(0.5, delta=0.05)],
    ids=lambda settings: settings.label,
)
def test_regret_bounds_term_by_term(settings, rng):
    # A whole bound is hundreds of times the regret, and no agent could break it. Its terms are within reach:
    # - the sum of sqrt(s'V^-1 s) over the pulled arms is at most 5 sqrt(d K T ln T), in both theorems, for certain;
    # - BR-regret: the score of the pulled arm exceeds its CVaR by at most the bracket times sqrt(s'V^-1 s). That an arm
    #   breaks this has a chance of at most 1 / (K T^2) at each step: below 1e-6 in all for T = 10^5 in the bracket.
    env, steps, alpha = bounded_bandit(), 3000, settings.alpha
    bandit = LinearBandit(env.n_arms, env.dim, noise_sd=env.noise_sd, intercept=False, settings=settings, rng=rng)
    width, excess = np.empty(steps), np.empty(steps)
    for t, context in enumerate(env.contexts(steps, rng)):
        decision = bandit.select(context)
        mean, sd = decision.mean[decision.arm], decision.sd[decision.arm]
        width[t] = sd / env.noise_sd
        excess[t] = decision.score - cvar_clipped_normal(mean, sd, alpha)
        reward = reward_of(env.theta[decision.arm] @ context, draw_noise(rng, True), True, env.noise_sd)
        bandit.update(context, decision.arm, reward)
    t = np.arange(2, steps + 1)
    potential = 5 * np.sqrt(env.dim * env.n_arms * t * np.log(t))
    total = np.cumsum(width)[1:]
    assert (total <= potential).all()
    assert total[-1] > potential[-1] / 50
    if settings.clip:
        far, nu = 10**5, env.noise_sd
        # the bound is bracket x potential + 1
        bracket = (br_regret_bound(far, env.n_arms, env.dim, alpha, nu) - 1) / (
            5 * np.sqrt(env.dim * env.n_arms * far * np.log(far))
        )
        assert (excess <= bracket * width).all()
        assert (excess / width).max() > bracket / 50


def test_risk_aversion_lowers_br_regret_and_all_agents_learn():
    # Over 60 paired replications the difference of BR-regrets is tens of standard errors: false alarms below 1e-9
    levels = (0.5, 0.8, 0.9)
    agents = [thompson_sampling(), *(brps_cmab(alpha) for alpha in levels)]
    runs = simulate_bandit(gaussian_bandit(), agents, horizon=4000, replications=60, alphas=levels)
    final = runs.br_regret.isel(time=-1)
    for alpha in levels:
        gain = final.sel(agent="TS", alpha=alpha) - final.sel(agent=f"BRPS({alpha})", alpha=alpha)
        assert stats.ttest_1samp(gain, 0.0).statistic > 6
    guess = 4000 * 0.5  # pulling at random costs more than half a unit a step
    assert (runs.regret.isel(time=-1).mean("replication") < guess).all()


# -- the environments --------------------------------------------------------------------------------------


def test_gaussian_bandit_is_that_of_the_study(rng):
    env = gaussian_bandit()
    i = 7
    np.testing.assert_allclose(env.theta[i - 1], [0.5, 0.5 + np.sin(i), 0.5 + np.cos(i)])
    contexts = env.contexts(100_000, rng)
    assert contexts.shape == (100_000, 3)
    for column in contexts.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-7
    noise = [draw_noise(rng, False) for _ in range(20_000)]
    assert stats.kstest(noise, "norm").pvalue > 1e-7
    assert reward_of(0.25, 2.0, False, 0.5) == 1.25


def test_bounded_bandit_is_within_the_assumption(rng):
    env = bounded_bandit(50)
    contexts = env.contexts(20_000, rng)
    assert (contexts >= 0).all()
    assert np.linalg.norm(contexts, axis=1).max() <= 1
    assert (np.linalg.norm(env.theta, axis=1) <= 1).all()
    means = contexts @ env.theta.T
    assert means.min() >= 0
    assert means.max() <= 1
    rewards = np.array([reward_of(0.3, draw_noise(rng, True), True, 0.5) for _ in range(50_000)])
    assert set(rewards) == {0.0, 1.0}
    assert stats.binomtest(int(rewards.sum()), 50_000, 0.3).pvalue > 1e-7


def test_gymnasium_environments_pass_its_own_checks():
    import gymnasium
    from gymnasium.utils.env_checker import check_env

    register_gymnasium()
    register_gymnasium()  # twice does no harm
    for name in ("GaussianBandit", "BoundedBandit"):
        env = gymnasium.make(f"prudent/{name}-v0", steps=20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its advice on rendering and wrappers
            check_env(env.unwrapped)
        env.reset(seed=3)
        for t in range(1, 21):
            context, reward, ended, cut, info = env.step(env.action_space.sample())
            assert env.observation_space.contains(context)
            assert info["regret"] >= 0
            assert (ended, cut) == (False, t == 20)
        assert isinstance(reward, float)


def test_gymnasium_reads_the_stream_as_the_simulator_does():
    from prudent.envs.gymnasium import LinearBanditGym

    env = gaussian_bandit()
    gym = LinearBanditGym(env, steps=5)
    first, _ = gym.reset(seed=8)
    rng = np.random.default_rng(8)
    np.testing.assert_array_equal(first, rng.random(3))
    noise = rng.standard_normal()
    second, reward, *_ = gym.step(2)
    assert reward == pytest.approx(env.theta[2] @ first + noise)
    np.testing.assert_array_equal(second, rng.random(3))


def test_nothing_slow_is_imported_with_the_library():
    code = "import sys, prudent.agents, prudent.envs, prudent.bandits, prudent.simulation; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'prudent.simulation.bandits'" in done.stdout
    for slow in ("gymnasium", "xarray", "pandas", "scipy.stats"):
        assert f"'{slow}'" not in done.stdout


@pytest.mark.parametrize(
    ("call", "error", "code", "fields"),
    [
        (lambda: LinearBanditEnv([1.0]), ModelError, "wrong-shape", {"argument": "theta"}),
        (lambda: LinearBanditEnv(np.empty((0, 2))), ModelError, "wrong-shape", {"argument": "theta"}),
        (lambda: LinearBanditEnv([[1.0, np.nan]]), ModelError, "not-finite", {"argument": "theta", "index": (0, 1)}),
        (lambda: LinearBanditEnv([[1.0]], noise_sd=0), ParameterError, "not-positive", {"argument": "noise_sd"}),
        (
            lambda: LinearBanditEnv([[0.5], [1.5]], bounded=True),
            ModelError,
            "reward-range",
            {"argument": "theta", "index": (1,)},
        ),
        (lambda: gaussian_bandit(0), ParameterError, "integer-range", {"argument": "n_arms", "value": 0}),
        (lambda: run(env="lake"), ParameterError, "wrong-type", {"argument": "env", "value": "lake"}),
        (lambda: run(agents=[]), ParameterError, "empty", {"argument": "agents"}),
        (lambda: run(agents=[brps_cmab(0.5)] * 2), ParameterError, "duplicate-label", {"value": "BRPS(0.5)"}),
        (lambda: run(agents=["ts"]), ParameterError, "wrong-type", {"argument": "agents", "index": (0,)}),
        (lambda: run(horizon=0), ParameterError, "integer-range", {"argument": "horizon", "value": 0}),
        (lambda: run(replications=0), ParameterError, "integer-range", {"argument": "replications", "value": 0}),
        (lambda: run(rng=-1), ParameterError, "integer-range", {"argument": "rng", "value": -1}),
        (lambda: run(alphas=[0.5, 1.0]), ParameterError, "alpha-range", {"argument": "alphas[1]", "value": 1.0}),
        (lambda: run(times=[5, 11]), ParameterError, "index-range", {"argument": "times", "index": (1,)}),
        (lambda: run(times=[5, 5]), ParameterError, "not-rising", {"argument": "times", "value": [5, 5]}),
        (lambda: run(times=[0, 5]), ParameterError, "not-rising", {"argument": "times", "value": [0, 5]}),
        (lambda: run(noise_sd=-1), ParameterError, "not-positive", {"argument": "noise_sd", "value": -1.0}),
        (lambda: LinearBanditGym(gaussian_bandit(), steps=0), ParameterError, "integer-range", {"argument": "steps"}),
        (lambda: LinearBanditGym(gaussian_bandit()).step(10), ParameterError, "unknown-arm", {"argument": "action"}),
    ],
)
def test_bad_arguments(call, error, code, fields):
    with refused(error, code, **fields):
        call()


def run(**changes):
    options = {"env": gaussian_bandit(), "agents": BanditSettings(), "horizon": 10, "replications": 1} | changes
    return simulate_bandit(options.pop("env"), options.pop("agents"), **options)
