"""The record of a decision: what was known, what was chosen, with which chance."""

import json
import pickle
import time

import numpy as np
import pytest

from prudent.bandits import LinearBandit

KEYS = ["id", "time", "context", "arms", "arm", "propensity", "score", "version"]


@pytest.fixture
def bandit():
    return LinearBandit(["a", "b", 3], 2, alpha=0.8, noise_sd=1.0, rng=4)


def test_a_record_is_plain_and_whole(bandit):
    bandit.update([[1.0, 0.0], [0.0, 1.0]], ["a", 3], [1.0, 2.0])
    bandit.select([0.0, 0.0])
    began = time.time()
    decision = bandit.select(np.array([0.1, -2.5]), arms=[3, "a"])
    record = decision.to_dict()
    assert list(record) == KEYS
    assert record["id"] is None
    assert began <= record["time"] <= time.time()
    assert record["context"] == [0.1, -2.5]
    assert record["arms"] == [3, "a"]
    assert (record["arm"], record["score"]) == (decision.arm, decision.score)
    assert record["propensity"] == decision.propensity
    assert record["version"] == {"decisions": 1, "rewards": 2}
    assert json.loads(decision.to_json()) == record  # every float comes back to the last bit
    assert "\n" not in decision.to_json()


def test_the_version_counts_what_the_model_had_seen(bandit, tmp_path):
    versions = []
    for _ in range(3):
        versions.append(bandit.select([1.0, 1.0]).version)
        bandit.update([1.0, 1.0], "a", 1.0)
    bandit.update(np.ones((4, 2)), ["a", "b", "b", 3], np.zeros(4))
    versions.append(bandit.select([1.0, 1.0]).version)
    bandit.save(tmp_path / "s")
    versions.append(LinearBandit.load(tmp_path / "s").select([1.0, 1.0]).version)
    bandit.remove_arm("b")  # with its two rewards
    versions.append(bandit.select([1.0, 1.0]).version)
    assert versions == [(0, 0), (1, 1), (2, 2), (3, 7), (4, 7), (4, 5)]
    assert repr(bandit).endswith("5 decisions, 5 rewards)")


def test_a_decision_keeps_its_own_context(bandit):
    context = np.array([1.0, 2.0])
    decision = bandit.select(context)
    context[:] = 9.0
    assert decision.context.tolist() == decision.to_dict()["context"] == [1.0, 2.0]


def test_a_propensity_that_was_left_out_is_none(bandit):
    record = bandit.select([1.0, 2.0], propensity=False).to_dict()
    assert record["propensity"] is None


def test_a_decision_survives_pickling(bandit):
    decision = bandit.select([1.0, 2.0])
    assert pickle.loads(pickle.dumps(decision)).to_json() == decision.to_json()
