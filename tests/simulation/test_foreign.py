"""Bandits of other libraries behind our methods, with the real libraries: what is learned, chosen and told.

Each library is skipped where it is not installed (the extra ``bench`` has them all).
"""

import copy

import numpy as np
import pytest
from refusals import refused

from prudent.errors import ParameterError
from prudent.evaluation import off_policy, replay
from prudent.simulation import adapt_bandit, simulate_bandit

ARMS = ["left", "right", "middle"]


def mabwiser(**options):
    mab = pytest.importorskip("mabwiser.mab")
    return mab.MAB(ARMS, mab.LearningPolicy.LinUCB(**options), seed=1)


def contextualbandits(**options):
    return pytest.importorskip("contextualbandits.online").LinUCB(3, random_state=1, **options)


def bayesianbandits(**options):
    bb = pytest.importorskip("bayesianbandits")
    arms = [bb.Arm(name, learner=bb.NormalRegressor(alpha=1.0, beta=4.0)) for name in ARMS]
    return bb.ContextualAgent(arms, bb.ThompsonSampling(), random_seed=1)


def vowpalwabbit(options="--cb_explore 3 --epsilon 0.2"):
    return pytest.importorskip("vowpalwabbit").Workspace(f"{options} --quiet --random_seed 1")


def together(**options):
    return vowpalwabbit("--cb_explore_adf --squarecb -q CA")


def coba(**options):
    return pytest.importorskip("coba").LinUCBLearner(**options)


MAKERS = (mabwiser, contextualbandits, bayesianbandits, vowpalwabbit, together, coba)
TELLING = (vowpalwabbit, together, coba)


class Sides:
    """The right arm is a matter of one feature; the middle arm pays a little always."""

    n_arms, dim = 3, 2

    def context(self, t, rng):
        return rng.normal(size=2)

    def mean_rewards(self, t, context):
        return np.array([float(context[0] < 0.0), float(context[0] >= 0.0), 0.4])

    def reward(self, t, context, arm, rng):
        return float(self.mean_rewards(t, context)[arm] + 0.1 * rng.normal())


def played(bandit, rng, steps=400):
    """Return the share of the possible gain over uniform choices in the second half."""
    env, gain, best = Sides(), 0.0, 0.0
    for t in range(1, steps + 1):
        x = env.context(t, rng)
        arm = bandit.select(x).arm
        place = ARMS.index(arm)
        bandit.update(x, arm, env.reward(t, x, place, rng))
        if t > steps // 2:
            means = env.mean_rewards(t, x)
            gain, best = gain + means[place] - means.mean(), best + means.max() - means.mean()
    return gain / best


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_every_library_learns_which_arm_is_right(maker, rng):
    """A reward that reached another arm, or another context, would leave a share of about 0."""
    bandit = adapt_bandit(maker(), ARMS, rng=2)
    assert bandit.arms == tuple(ARMS)
    assert played(bandit, rng) > 0.2


@pytest.mark.parametrize("maker", [mabwiser, contextualbandits], ids=lambda maker: maker.__name__)
def test_upper_bounds_are_those_of_least_squares(maker, rng):
    """Choices of LinUCB are those of ridge regression with a bound, computed here, with a constant feature."""
    bandit = adapt_bandit(maker(alpha=0.7), ARMS, rng=2)
    design, places, rewards = [], [], []
    for t in range(60):
        x, place = rng.normal(size=2), t % 3
        reward = float(x[0] * (place - 1) + 0.3 * place + 0.1 * rng.normal())
        bandit.update(x, ARMS[place], reward)
        design.append([*x, 1.0])
        places.append(place)
        rewards.append(reward)
    rows, places, rewards = np.array(design), np.array(places), np.array(rewards)

    def bounds(x):
        for arm in range(3):
            own = rows[places == arm]
            precision = np.eye(3) + own.T @ own
            mean = np.linalg.solve(precision, own.T @ rewards[places == arm])
            yield x @ mean + 0.7 * np.sqrt(x @ np.linalg.solve(precision, x))

    near = 0
    for _ in range(50):
        x = rng.normal(size=2)
        values = np.array(list(bounds(np.array([*x, 1.0]))))
        second, first = np.sort(values)[-2:]
        near += first - second < 1e-3  # contextualbandits computes in single precision
        assert first - second < 1e-3 or bandit.select(x).arm == ARMS[values.argmax()]
    assert near < 25


def test_bayesian_posteriors_are_conjugate_ones(rng):
    bandit = adapt_bandit(bayesianbandits(), ARMS)
    rows = rng.normal(size=(40, 2))
    rewards = rows @ [1.0, -2.0] + 0.5 + 0.5 * rng.normal(size=40)
    for x, reward in zip(rows, rewards, strict=True):
        bandit.update(x, "right", float(reward))
    design = np.column_stack([rows, np.ones(40)])
    expected = np.linalg.solve(np.eye(3) + 4.0 * design.T @ design, 4.0 * design.T @ rewards)
    learners = {arm.action_token: arm.learner for arm in bandit.bandit.arms}
    np.testing.assert_allclose(np.ravel(learners["right"].coef_), expected, rtol=1e-6)
    assert not hasattr(learners["left"], "coef_")


@pytest.mark.parametrize("maker", TELLING, ids=lambda maker: maker.__name__)
def test_what_is_told_is_what_is_played(maker, rng):
    """Choices of 3,000 decisions against the told probabilities; a false alarm has the chance 1e-6 for each arm."""
    bandit = adapt_bandit(maker(), ARMS, rng=rng)
    played(bandit, rng, 60)
    x = np.array([0.7, -0.2])
    told = bandit.propensities(x)
    assert told.sum() == pytest.approx(1.0, abs=1e-6)
    assert (told >= 0.0).all()
    decisions = [bandit.select(x) for _ in range(3000)]
    counts = np.array([sum(decision.arm == name for decision in decisions) for name in ARMS])
    assert (np.abs(counts - 3000 * told) <= 5.0 * np.sqrt(3000 * told * (1.0 - told)) + 1e-9).all()
    assert all(decision.propensity == pytest.approx(told[ARMS.index(decision.arm)]) for decision in decisions[:20])
    some = bandit.propensities(x, arms=["middle", "left"])
    kept = told[[2, 0]]
    np.testing.assert_allclose(some, kept / kept.sum() if kept.sum() > 0.0 else [0.5, 0.5], rtol=1e-6)


@pytest.mark.parametrize("maker", [vowpalwabbit, together], ids=lambda maker: maker.__name__)
def test_a_copy_learns_by_itself(maker, rng):
    bandit = adapt_bandit(maker(), ARMS, rng=rng)
    played(bandit, rng, 60)
    x = np.array([2.0, 0.0])
    before, twin = bandit.propensities(x), copy.deepcopy(bandit)
    np.testing.assert_allclose(twin.propensities(x), before, atol=1e-6)
    for _ in range(200):
        twin.update(x, "left", 5.0)
    np.testing.assert_allclose(bandit.propensities(x), before, atol=1e-6)
    assert twin.propensities(x)[0] > before[0]


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_they_are_simulated_and_replayed(maker, rng):
    runs = simulate_bandit(
        Sides(), {"theirs": lambda arms, dim, rng: adapt_bandit(maker(), arms, rng=rng)}, horizon=60, replications=2
    )
    assert runs.pulls.sum("arm").values.tolist() == [[60, 60]]
    assert (runs.regret.values >= -1e-9).all()
    log = [
        (x, int(arm), float(x[0] + arm + 0.1))
        for x, arm in zip(rng.normal(size=(90, 2)), rng.integers(3, size=90), strict=True)
    ]
    result = replay(log, adapt_bandit(maker(), 3, rng=1))
    assert 0 < result.matched < 90


@pytest.mark.parametrize("maker", TELLING, ids=lambda maker: maker.__name__)
def test_what_tells_probabilities_is_a_policy_to_be_judged(maker, rng):
    """Its value by logged decisions is that of the means, weighted with what it tells, within six standard errors."""
    policy = adapt_bandit(maker(), 3, rng=1)
    env, rows = Sides(), rng.normal(size=(600, 2))
    for x in rows[:60]:
        arm = policy.select(x).arm
        policy.update(x, arm, env.reward(1, x, arm, rng))
    arms = rng.integers(3, size=600)
    means = np.array([env.mean_rewards(1, x) for x in rows])
    log = {
        "context": list(rows),
        "arm": arms.tolist(),
        "reward": (means[np.arange(600), arms] + 0.1 * rng.normal(size=600)).tolist(),
        "propensity": [1 / 3] * 600,
    }
    found = off_policy(log, policy)
    expected = (policy.propensities(rows) * means).sum(axis=1).mean()
    weights = 3.0 * policy.propensities(rows)[np.arange(600), arms]
    error = (weights * means[np.arange(600), arms]).std() / np.sqrt(600)
    assert abs(found.table["estimate"]["ips"] - expected) < 6.0 * error + 0.01


def test_arms_that_are_left_out_and_strangers():
    with refused(ParameterError, "not-supported", argument="arms"):
        adapt_bandit(contextualbandits(), ARMS).select([0.0, 1.0], arms=["left", "right"])
    with refused(ParameterError, "unknown-arm", arm="up"):
        adapt_bandit(contextualbandits(), ARMS).update([0.0, 1.0], "up", 1.0)
    with refused(ParameterError, "wrong-type", argument="bandit"):
        adapt_bandit(object(), 2)
