"""Environments for bandits beyond the linear ones, and the general way to play on them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.envs import (
    BanditEnvironment,
    LinearBanditEnv,
    LogisticBanditEnv,
    bounded_bandit,
    classification,
    drifting,
    gaussian_bandit,
    logistic_bandit,
)
from prudent.errors import DataError, ModelError, ParameterError


def the_papers(settings):
    return lambda n_arms, dim, rng: pr.LinearBandit(
        n_arms, dim, settings=settings, noise_sd=1.0, rng=rng, intercept=False
    )


@pytest.mark.parametrize("env", [gaussian_bandit(), bounded_bandit(noise_sd=1.0)])
def test_the_general_path_is_the_compiled_one_step_by_step(env):
    for settings in (pr.bandits.thompson_sampling(), pr.bandits.brps_cmab(0.8)):
        compiled = pr.simulation.simulate_bandit(env, settings, horizon=60, replications=2, rng=3, noise_sd=1.0)
        general = pr.simulation.simulate_bandit(env, {"x": the_papers(settings)}, horizon=60, replications=2, rng=3)
        assert general.regret.values[0] == pytest.approx(compiled.regret.values[0], rel=1e-9, abs=1e-12)
        assert np.array_equal(general.pulls.values, compiled.pulls.values)
        assert np.array_equal(general.time, compiled.time)


def test_all_of_them_follow_the_protocol():
    envs = [gaussian_bandit(), logistic_bandit(), logistic_bandit(drift=5), classification([[0.0], [1.0]], [0, 1])]
    for env in envs:
        assert isinstance(env, BanditEnvironment)
        rng = np.random.default_rng(0)
        stage = env.start(rng) if hasattr(env, "start") else env
        context = stage.context(1, rng)
        assert np.shape(context) == (env.dim,)
        assert math.isfinite(stage.reward(1, context, 0, rng))
        assert np.shape(stage.mean_rewards(1, context)) == (env.n_arms,)


def test_a_dataset_is_a_bandit_whose_right_class_pays():
    rng = np.random.default_rng(1)
    x = rng.random((40, 2))
    y = np.array(["no", "yes"])[(x[:, 0] > x[:, 1]).astype(int)]
    env = classification(x, y)
    oracle = {tuple(point): int(name == "yes") for point, name in zip(x, y, strict=True)}

    class Knowing:
        def select(self, context):
            return type("Decision", (), {"arm": oracle[tuple(context)]})()

        def update(self, context, arm, reward):
            assert reward == 1.0

    runs = pr.simulation.simulate_bandit(
        env, {"knows": lambda *_: Knowing(), "learns": {"noise_sd": 0.3}}, replications=3
    )
    assert (runs.reward.sel(agent="knows") == 1.0).all()
    assert (runs.regret.sel(agent="knows") == 0.0).all()
    learns = runs.sel(agent="learns")
    assert np.allclose(learns.total_reward + learns.regret, learns.time)
    assert (learns.pulls.sum("arm") == 40).all()
    assert len({tuple(row) for row in learns.total_reward.values}) > 1  # the runs have orders of their own
    ordered = classification(x, y, shuffle=False)
    assert [ordered.context(t, rng).tolist() for t in (1, 40)] == [x[0].tolist(), x[-1].tolist()]


def test_clicks_come_at_their_rates():
    """20,000 clicks of each arm in one context against the binomial law; false alarm 1e-6."""
    env = LogisticBanditEnv(theta=[[1.0, 0.0], [0.0, -2.0]], offset=[-3.0, -1.0])
    context, rng = np.array([0.5, 0.4]), np.random.default_rng(2)
    for arm, rate in enumerate(env.mean_rewards(1, context)):
        assert rate == pytest.approx(1.0 / (1.0 + math.exp(-(env.offset[arm] + env.theta[arm] @ context))))
        clicks = sum(env.reward(1, context, arm, rng) for _ in range(20_000))
        assert stats.binomtest(int(clicks), 20_000, rate).pvalue > 1e-6
    rates = logistic_bandit(10, 20).mean_rewards(1, np.zeros(20))
    assert (rates.min(), rates.max()) == pytest.approx((0.01, 0.05))


def test_drift_changes_the_world_after_its_step():
    before, after = LinearBanditEnv([[1.0], [0.0]]), LinearBanditEnv([[0.0], [2.0]])
    env = drifting(before, after, before, at=[10, 20])
    assert [env.mean_rewards(t, [1.0]).tolist() for t in (10, 11, 20, 21)] == [[1, 0], [0, 2], [0, 2], [1, 0]]
    clicks = logistic_bandit(3, 2, drift=7)
    assert clicks.mean_rewards(7, np.zeros(2)).tolist() == pytest.approx([0.01, 0.03, 0.05])
    assert clicks.mean_rewards(8, np.zeros(2)).tolist() == pytest.approx([0.03, 0.05, 0.01])


def test_a_class_of_ones_own_and_no_regret_where_it_is_not_known():
    class Coins:
        n_arms, dim = 2, 1

        def context(self, t, rng):
            return [1.0]

        def reward(self, t, context, arm, rng):
            return float(rng.random() < (0.1, 0.9)[arm])

    runs = pr.simulation.simulate_bandit(
        Coins(), [pr.bandits.thompson_sampling(), pr.bandits.brps_cmab(0.5)], horizon=50, times=[10, 50]
    )
    assert set(runs.data_vars) == {"reward", "total_reward", "pulls"}
    assert runs.time.values.tolist() == [10, 50]
    assert np.isclose(runs.reward * runs.time, runs.total_reward).all()


def test_what_is_wrong_is_said():
    env = classification([[0.0], [1.0]] * 3, [0, 1] * 3)
    with refused(ParameterError, "wrong-type", argument="env"):
        pr.simulation.simulate_bandit(
            type("Thing", (), {"n_arms": 2, "dim": 1})(), pr.bandits.thompson_sampling(), horizon=5
        )
    with refused(ParameterError, "integer-range", argument="horizon"):
        pr.simulation.simulate_bandit(env, pr.bandits.thompson_sampling(), horizon=7)
    with refused(ParameterError, "missing-argument", argument="horizon"):
        pr.simulation.simulate_bandit(logistic_bandit(), pr.bandits.thompson_sampling())
    with refused(ParameterError, "wrong-type", argument="agents", index="x", value=3):
        pr.simulation.simulate_bandit(env, {"x": 3})
    with refused(ParameterError, "empty", argument="agents"):
        pr.simulation.simulate_bandit(env, [])
    with refused(DataError, "wrong-shape", argument="y", value=(1,)):
        classification([[0.0], [1.0]], [0])
    with refused(DataError, "too-few-classes", argument="y", value=1):
        classification([[0.0], [1.0]], [0, 0])
    with refused(DataError, "not-finite", argument="X", index=(1, 0)):
        classification([[0.0], [math.nan]], [0, 1])
    with refused(ModelError, "wrong-shape", argument="offset"):
        LogisticBanditEnv([[1.0]], [0.0, 1.0])
    with refused(ParameterError, "not-rising", argument="at"):
        drifting(gaussian_bandit(), gaussian_bandit(), at=[3, 2])
    with refused(ParameterError, "wrong-shape", argument="envs", index=(1,), value=(5, 3)):
        drifting(gaussian_bandit(), gaussian_bandit(5), at=3)
