"""Several loggers in one log: the balance heuristic."""

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import DataError, ParameterError
from prudent.evaluation import balanced_propensities

OLD, NEW = {"a": 0.9, "b": 0.1}, {"a": 0.2, "b": 0.8}


def log_of(rng, size):
    names = rng.choice(["old", "new"], size, p=[0.75, 0.25])
    arms = np.array([rng.choice(["a", "b"], p=list((OLD if name == "old" else NEW).values())) for name in names])
    own = np.array([(OLD if name == "old" else NEW)[arm] for name, arm in zip(names, arms, strict=True)])
    rewards = (arms == "b") + rng.normal(size=size)
    return {"arm": arms, "reward": rewards, "logger": names, "propensity": own}


def test_balanced_weights_are_unbiased_and_vary_less(rng):
    """Six standard errors, 2e-9; the value of b is 1."""
    log = log_of(rng, 6000)
    share = float((log["logger"] == "old").mean())
    balanced = balanced_propensities(log, {"old": OLD, "new": NEW})
    expected = [share * OLD[arm] + (1.0 - share) * NEW[arm] for arm in log["arm"]]
    np.testing.assert_allclose(balanced, expected, rtol=1e-12)
    found = pr.off_policy(log | {"propensity": balanced}, "b", interval="normal", confidence=1.0 - 2e-9)
    assert found.loc["ips", "low"] <= 1.0 <= found.loc["ips", "high"]
    assert found.loc["ips", "ess"] > 1.5 * pr.off_policy(log, "b").loc["ips", "ess"]


def test_rows_and_policies_of_other_kinds(rng):
    log = log_of(rng, 60)
    rows = [{name: column[i] for name, column in log.items()} | {"context": [0.5]} for i in range(60)]
    bandit = pr.LinearBandit(["a", "b"], 1, noise_sd=1.0, rng=1)
    found = balanced_propensities(rows, {"old": bandit, "new": lambda x: np.full((len(x), 2), 0.5)})
    np.testing.assert_allclose(found, 0.5, atol=1e-9)


def test_what_is_refused(rng):
    log = log_of(rng, 30)
    with refused(ParameterError, "unknown-option", argument="loggers"):
        balanced_propensities(log, {"old": OLD})
    with refused(DataError, "zero-propensity", argument="loggers"):
        balanced_propensities(log, {"old": "a", "new": "a"})
    with pytest.raises(DataError):
        balanced_propensities([("x", "a", 1.0, 0.5)], {"old": OLD})
