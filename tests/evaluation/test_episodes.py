"""Off-policy evaluation of episodes against whole populations, loops written anew, SCOPE-RL's numbers, and laws."""

from __future__ import annotations

import itertools
import json
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import prudent as pr
from prudent.errors import OverlapWarning
from prudent.evaluation.episodes.log import read_episodes
from prudent.evaluation.episodes.weights import Weights, weighted_estimates

SCOPE = json.loads((Path(__file__).parents[1] / "golden" / "scope_rl.json").read_text())
WEIGHTED = ("is", "wis", "pdis", "wpdis", "dr", "wdr")


def evaluated(log, policy, **keywords):
    """Return the result; small logs cannot answer, which is no matter here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverlapWarning)
        return pr.off_policy(log, policy, **{"discount": 0.9, "draws": 100, **keywords})


# -- a world that can be enumerated ------------------------------------------------------------------------

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
MOVE = {  # (state, action): next states with probabilities; "end" is over
    ("x", "a"): {"x": HALF, "y": HALF},
    ("x", "b"): {"y": QUARTER, "x": QUARTER, "end": HALF},
    ("y", "a"): {"x": QUARTER, "end": 3 * QUARTER},
    ("y", "b"): {"y": HALF, "x": HALF},
}
REWARD = {("x", "a"): 1.0, ("x", "b"): 2.0, ("y", "a"): -1.0, ("y", "b"): 0.5}
ACTING = {"x": {"a": HALF, "b": HALF}, "y": {"a": QUARTER, "b": 3 * QUARTER}}
TARGET = {"x": {"a": 0.2, "b": 0.8}, "y": {"a": 0.7, "b": 0.3}}


def trajectories(steps, state="x", path=(), chance=Fraction(1)):
    """Yield every course of an episode of at most so many steps, with its probability."""
    if steps == 0 or state == "end":
        yield path, chance
        return
    for action, p in ACTING[state].items():
        for after, q in MOVE[state, action].items():
            reward = REWARD[state, action] + (after == "end")
            yield from trajectories(steps - 1, after, (*path, (state, action, reward, after)), chance * p * q)


def true_value(steps, discount, state="x"):
    if steps == 0 or state == "end":
        return 0.0
    total = 0.0
    for action, p in TARGET[state].items():
        for after, q in MOVE[state, action].items():
            ahead = discount * true_value(steps - 1, discount, after)
            total += p * float(q) * (REWARD[state, action] + (after == "end") + ahead)
    return total


def population(steps, copies=1):
    """Return a log in which every course of an episode has exactly its share; episode i is in copy i mod copies."""
    courses = list(trajectories(steps))
    whole = np.lcm.reduce([chance.denominator for _, chance in courses])
    rows, number = [], 0
    for path, chance in courses:
        for _ in range(int(chance * whole)):
            for copy in range(copies):
                for step, (state, action, reward, after) in enumerate(path):
                    done = after == "end"
                    own = float(ACTING[state][action])
                    rows.append((number * copies + copy, step, state, action, reward, done, own, after))
            number += 1
    names = ["episode", "step", "state", "action", "reward", "done", "propensity", "next_state"]
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize("marginal", ["step", "state"])
@pytest.mark.parametrize("discount", [0.9, 1.0])
def test_every_estimate_is_the_truth_in_the_whole_population(discount, marginal):
    log = population(3, copies=5)  # each fold of the cross-fit has the whole population
    found = evaluated(log, TARGET, discount=discount, marginal=marginal)
    truth = true_value(3, discount)
    for name in (*WEIGHTED, "mis", "fqe"):
        assert found.loc[name, "estimate"] == pytest.approx(truth, abs=1e-10), name
    # the posterior's mean has the prior of one observation in each pair, of thousands
    assert found.loc["model", "estimate"] == pytest.approx(truth, abs=0.02)
    assert found.horizon == 3
    assert found.by_step["mean_weight"].to_numpy() == pytest.approx(1.0, abs=1e-10)


@settings(max_examples=20)
@given(st.lists(st.floats(-5.0, 5.0), min_size=8, max_size=8), st.floats(0.1, 1.0))
def test_dr_is_unbiased_for_all_values(numbers, discount):
    """The mean over all courses of an episode, by their probabilities, is the truth for any q at all."""
    courses = list(trajectories(2))
    rows = [(i, t, *row) for i, (path, _) in enumerate(courses) for t, row in enumerate(path)]
    log = pd.DataFrame(rows, columns=["episode", "step", "state", "action", "reward", "after"])
    read = read_episodes(log.drop(columns="after"), episode="episode", unfinished="end")
    table = dict(zip(itertools.product((0, 1), "xy", "ab"), numbers, strict=True))
    q = np.array([table[t, s, a] for t, s, a in log[["step", "state", "action"]].itertuples(index=False)])
    v = np.array(
        [sum(TARGET[s][a] * table[t, s, a] for a in "ab") for t, s in zip(log["step"], log["state"], strict=True)]
    )
    ratio = np.array([TARGET[s][a] / float(ACTING[s][a]) for s, a in zip(log["state"], log["action"], strict=True)])
    found = weighted_estimates(read, Weights.of(read, ratio), discount, q, v)
    chances = np.array([float(chance) for _, chance in courses])
    for name in ("is", "pdis", "dr"):
        mean = float(chances @ found[name].top.sum(axis=1))
        assert mean == pytest.approx(true_value(2, discount), abs=1e-10), name


def test_a_process_that_ends_has_no_horizon():
    """Where the log says that every episode is over, tables of states have the values of the whole process."""
    rng = np.random.default_rng(5)
    log = simulated(4000, rng, steps=200)
    assert log["done"].groupby(log["episode"]).last().all()
    found = evaluated(log, TARGET, discount=1.0)
    chain = {s: {t: sum(TARGET[s][a] * float(MOVE[s, a].get(t, 0)) for a in "ab") for t in "xy"} for s in "xy"}
    earned = [sum(TARGET[s][a] * (REWARD[s, a] + float(MOVE[s, a].get("end", 0))) for a in "ab") for s in "xy"]
    matrix = np.eye(2) - np.array([[chain[s][t] for t in "xy"] for s in "xy"])
    truth = np.linalg.solve(matrix, earned)[0]
    assert found.horizon is None
    for name in ("fqe", "model", "wdr"):
        assert abs(found.loc[name, "estimate"] - truth) < 5.0 * found.loc[name, "error"], name  # false alarms 1e-6


def simulated(episodes, rng, steps=6, state="x"):
    """Return a log of the world of ``MOVE``."""
    rows = []
    for i in range(episodes):
        here = state
        for t in range(steps):
            action = "a" if rng.random() < float(ACTING[here]["a"]) else "b"
            names, shares = zip(*MOVE[here, action].items(), strict=True)
            after = names[int(np.searchsorted(np.cumsum([float(q) for q in shares]), rng.random(), side="right"))]
            own = float(ACTING[here][action])
            rows.append((i, t, here, action, REWARD[here, action] + (after == "end"), after == "end", own))
            here = after
            if here == "end":
                break
    return pd.DataFrame(rows, columns=["episode", "step", "state", "action", "reward", "done", "propensity"])


# -- loops written anew ------------------------------------------------------------------------------------


def by_loops(log, discount):
    """Return is, wis, pdis, wpdis and mis of a log, as the definitions say."""
    episodes = [part.sort_values("step") for _, part in log.groupby("episode")]
    horizon = max(map(len, episodes))
    weights = np.ones((len(episodes), horizon))
    rewards = np.zeros((len(episodes), horizon))
    states = [[None] * horizon for _ in episodes]
    ratios = np.ones((len(episodes), horizon))
    for i, part in enumerate(episodes):
        product = 1.0
        for t, row in enumerate(part.itertuples()):
            ratios[i, t] = TARGET[row.state][row.action] / row.propensity
            product *= ratios[i, t]
            weights[i, t], rewards[i, t], states[i][t] = product, row.reward * discount**t, row.state
        weights[i, len(part) :] = product
    last = weights[:, -1]
    found = {
        "is": np.mean(last * rewards.sum(axis=1)),
        "wis": np.sum(last * rewards.sum(axis=1)) / last.sum(),
        "pdis": np.mean((weights * rewards).sum(axis=1)),
        "wpdis": sum(np.sum(weights[:, t] * rewards[:, t]) / weights[:, t].sum() for t in range(horizon)),
    }
    marginal, total = np.ones(len(episodes)), 0.0
    for t in range(horizon):
        alive = [i for i in range(len(episodes)) if states[i][t] is not None]
        if t:
            for state in {states[i][t] for i in alive}:
                same = [i for i in alive if states[i][t] == state]
                marginal[same] = np.mean(marginal[same])
        marginal[alive] = marginal[alive] * ratios[alive, t]
        total += np.sum(marginal[alive] * rewards[alive, t]) / marginal.sum()
    return found | {"mis": total}


def test_estimates_agree_with_loops(rng):
    log = simulated(60, rng)
    found = evaluated(log, TARGET)
    for name, value in by_loops(log, 0.9).items():
        assert found.loc[name, "estimate"] == pytest.approx(value, rel=1e-10, abs=1e-10), name


def test_fqe_agrees_with_counts(rng):
    log = simulated(200, rng)
    found = evaluated(log, TARGET)
    pairs = dict(list(log.groupby(["state", "action"])))
    following = log["state"].shift(-1).where(log["episode"] == log["episode"].shift(-1), "end")
    unknown = (following == "end") & ~log["done"]  # cut after six steps
    v = {"x": 0.0, "y": 0.0, "end": 0.0}
    for _ in range(6):
        q = {}
        for key, part in pairs.items():
            known = following[part.index][~unknown[part.index]]
            q[key] = part["reward"].mean() + 0.9 * np.mean([v[s] for s in known])
        v = {s: sum(TARGET[s][a] * q[s, a] for a in "ab") for s in "xy"} | {"end": 0.0}
    assert found.loc["fqe", "estimate"] == pytest.approx(v["x"], rel=1e-10)


def test_scope_rl_agrees():
    state, action, reward = (np.array(SCOPE[name]) for name in ("state", "action", "reward"))
    behaviour, target, q = (np.array(SCOPE[name]) for name in ("behaviour", "target", "q"))
    log = {"episode": np.arange(state.size) // SCOPE["steps"], "state": state, "action": action, "reward": reward}
    log["propensity"] = behaviour[state, action]
    read = read_episodes(log, episode=None)
    weights = Weights.of(read, (target / behaviour)[state, action])
    found = weighted_estimates(read, weights, SCOPE["discount"], q[state, action], (target * q).sum(axis=1)[state])
    for name, value in SCOPE["found"].items():
        # SCOPE-RL adds 1e-10 to the denominators of its self-normalised estimates
        assert found[name].value == pytest.approx(value, abs=1e-10), name
    whole = evaluated(log, target, discount=SCOPE["discount"])
    for name in ("is", "wis", "pdis", "wpdis"):
        assert whole.loc[name, "estimate"] == pytest.approx(SCOPE["found"][name], abs=1e-10), name


# -- laws --------------------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(st.floats(0.1, 10.0), st.floats(-3.0, 3.0), st.integers(0, 2**32 - 1))
def test_scaled_and_shifted_rewards(scale, shift, seed):
    """Estimates scale with rewards; those whose weights are normalised shift with them, if all episodes are as long."""
    rng = np.random.default_rng(seed)
    n, steps, discount = 12, 3, 0.8
    state, action = rng.integers(0, 3, n * steps), rng.integers(0, 2, n * steps)
    log = {
        "episode": np.arange(n * steps) // steps,
        "state": state,
        "action": action,
        "propensity": [0.5] * (n * steps),
    }
    log["reward"] = rng.normal(size=n * steps)
    policy = rng.dirichlet([2.0, 2.0], 3)
    options = {"discount": discount, "draws": 100}
    before = evaluated(log, policy, **options).table["estimate"]
    scaled = evaluated(log | {"reward": scale * log["reward"]}, policy, **options).table["estimate"]
    shifted = evaluated(log | {"reward": log["reward"] + shift}, policy, **options).table["estimate"]
    exact = [*WEIGHTED, "mis", "fqe"]
    assert scaled[exact].to_numpy() == pytest.approx(scale * before[exact].to_numpy(), rel=1e-8, abs=1e-8)
    more = shift * sum(discount**t for t in range(steps))
    normalised = ["wis", "wpdis", "wdr", "mis", "fqe"]
    assert shifted[normalised].to_numpy() == pytest.approx(before[normalised].to_numpy() + more, rel=1e-8, abs=1e-8)


def test_the_policy_that_acted_earns_what_it_earned(rng):
    log = simulated(80, rng)
    chances = {s: {a: float(p) for a, p in row.items()} for s, row in ACTING.items()}
    mean = np.mean([sum(0.9 ** part["step"] * part["reward"]) for _, part in log.groupby("episode")])
    for policy in ("logged", chances):
        found = evaluated(log, policy)
        assert found.value == pytest.approx(mean)
        for name in ("is", "wis", "pdis", "wpdis", "mis"):
            assert found.loc[name, "estimate"] == pytest.approx(mean, rel=1e-12), name
        assert found.loc["wis", "ess"] == pytest.approx(80)
    assert evaluated(log, "logged").loc["fqe", "estimate"] == pytest.approx(mean, abs=0.3)


def test_order_of_rows_and_names_do_not_matter(rng):
    log = simulated(60, rng)
    found = evaluated(log, TARGET).table["estimate"]
    shuffled = log.sample(frac=1.0, random_state=int(rng.integers(2**32)))
    again = evaluated(shuffled, TARGET).table["estimate"]
    # folds go by the names of episodes, which stay; the posterior draws its own numbers
    assert again.drop("model").to_numpy() == pytest.approx(found.drop("model").to_numpy(), rel=1e-12)
    other = log.assign(state=log["state"].map({"x": "zebra", "y": "ant"}))
    renamed = evaluated(other, {"zebra": TARGET["x"], "ant": TARGET["y"]}).table["estimate"]
    assert renamed.drop("model").to_numpy() == pytest.approx(found.drop("model").to_numpy(), rel=1e-10)


def test_distribution_of_returns_with_weights_of_one(rng):
    log = simulated(101, rng)
    earned = np.array([sum(0.9 ** part["step"] * part["reward"]) for _, part in log.groupby("episode")])
    found = evaluated(log, "logged", tail_alpha=0.8).returns
    for probability in (0.05, 0.25, 0.5, 0.75, 0.95):
        exact = np.quantile(earned, probability, method="inverted_cdf")
        assert found.loc[f"quantile {probability:g}", "estimate"] == pytest.approx(exact)
    assert found.loc["cvar 0.8", "estimate"] == pytest.approx(pr.cvar(earned, 0.8))
    assert (found["estimate"] == found["logged"]).all()
    assert (found["low"] <= found["estimate"] + 1e-12).all()
    assert (found["estimate"] <= found["high"] + 1e-12).all()
