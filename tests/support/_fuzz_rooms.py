"""Further entry points of ``_fuzz``: sparse bandits, features, sequences, sets of models, certificates and worlds."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _fuzz import Call
from _fuzz_calls import (
    _actions,
    _array,
    _counts,
    _decided,
    _finite_horizon,
    _problem,
    _ranged,
    _regret,
    _uncertain,
    _walk,
    _within,
    _world,
    adds_up,
    anything,
    between,
    finite,
)
from _fuzz_decisions import CALLS as FIRST
from _fuzz_decisions import _damage

import prudent as pr
from prudent import agents, bandits, envs, evaluation, planning, risk, simulation
from prudent.certificates.checker import RefusedError
from prudent.certificates.checker import check as checked

# -- sparse bandits, limits of propensities, features in front ------------------------------------------------------


def _sparse(context: Any, arm: Any, reward: Any, **options: Any) -> Any:
    bandit = bandits.SparseLinearBandit(["a", "b"], dim=6, rng=1, **options).update(context, arm, reward)
    decision = bandit.select(context)
    again = bandits.SparseLinearBandit.from_bytes(bandit.to_bytes())
    if not np.array_equal(again.propensities(context), bandit.propensities(context)):
        raise AssertionError("a bandit that was read again decides otherwise")
    return decision


def _hashed(cells: Any, number: Any, arm: Any, reward: Any, dim: Any) -> Any:
    features = pr.Features({"a": {"kind": "category", "slots": dim}, "b": "number"}, cross=[("a", "b")])
    bandit = pr.LinearBandit(["x", "y"], features=features, rng=1)
    bandit.update({"a": cells, "b": number}, arm, reward)
    return bandit.select({"a": cells, "b": number})


def _limited(low: Any, high: Any, arms: Any) -> Any:
    bandit = pr.LinearBandit(["a", "b", "c"], dim=2, rng=1).update([[1.0, 2.0]], ["a"], [1.0])
    bandit.set_limits(low, high)
    return bandit.select([1.0, 0.5], arms)


def _joined(first: Any, second: Any, reward: Any, factor: Any) -> Any:
    past = pr.LinearBandit(["a", "b"], dim=2, rng=1)
    one, two = past.copy().update(first, "a", reward), past.copy().update(second, "b", 1.0)
    one.merge(two, since=past).forget(factor)
    return one.select([0.5, 0.5])


def _live_features(cell: Any, number: Any, reward: Any, key: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        features = pr.Features({"a": "category", "b": "number", "c": "tags"})
        made = pr.LinearBandit(["x", "y"], features=features, rng=1)
        with pr.Journal(f"{folder}/j", made, synchronous="NORMAL") as live:
            for each in live.select_each([{"context": {"a": cell, "b": number, "c": ["t"]}, "key": key}]):
                if isinstance(each, Exception):
                    raise each
                for end in live.reward_each([(each.id, reward)]):
                    if isinstance(end, Exception):
                        raise end
        with pr.Journal(f"{folder}/j") as live:
            live.verify()
            return [row["propensity"] for row in live.rows()]


def _score(given: dict[str, Any], found: Any) -> str:
    if np.ndim(found.score) == 0 and found.score is None:
        return ""
    return _decided(given, found)


def _one(rng: np.random.Generator, **options: Any) -> dict[str, Any]:
    return {"context": rng.normal(size=6), "arm": "a", "reward": 1.0, **options}


BANDITS = {
    "SparseLinearBandit": Call(
        _sparse, lambda rng: _one(rng, alpha=0.5, noise_sd=1.0, prior_precision=1.0), _decided, 0.1
    ),
    "SparseLinearBandit: options": Call(
        _sparse,
        lambda rng: _one(rng, first_pulls=1, min_propensity=0.05, max_propensity=0.9, exploration=1.5, intercept=True),
        _decided,
        0.1,
        ("first_pulls",),
    ),
    "Features: bandit": Call(
        _hashed,
        lambda rng: {"cells": "DE", "number": 1.5, "arm": "x", "reward": 1.0, "dim": 4},
        _decided,
        0.1,
        ("dim",),
    ),
    "Features: journal": Call(
        _live_features,
        lambda rng: {"cell": "DE", "number": 1.5, "reward": 1.0, "key": "k"},
        lambda given, found: between(0.0, 1.0, found),
        0.03,
    ),
    "LinearBandit: limits": Call(
        _limited, lambda rng: {"low": {"a": 0.1}, "high": {"b": 0.8}, "arms": ["a", "b", "c"]}, _decided, 0.2
    ),
    "LinearBandit: merge": Call(
        _joined,
        lambda rng: {"first": rng.normal(size=2), "second": rng.normal(size=2), "reward": 1.0, "factor": 0.9},
        _decided,
        0.2,
    ),
    "bandits.brps_cmab": Call(
        lambda alpha, draws, estimator, delta, sampling_sd: [
            bandits.brps_cmab(alpha, draws=draws, estimator=estimator),
            bandits.brps_cmab_clipped(alpha, draws=draws, estimator=estimator),
            bandits.brps_cmab_inflated(alpha, delta=delta, draws=draws, estimator=estimator),
            bandits.thompson_sampling_inflated(sampling_sd=sampling_sd),
        ],
        lambda rng: {"alpha": 0.5, "draws": 4, "estimator": "cvar", "delta": 0.1, "sampling_sd": 1.0},
        anything,
        0.1,
        ("draws",),
    ),
}


# -- sequences ------------------------------------------------------------------------------------------------------


def _sequence(kind: Any, values: Any, weights: Any, baseline: Any, mean: Any, **options: Any) -> Any:
    stream = evaluation.ConfidenceSequence(kind, **options)
    for _ in range(2):
        stream.update(values, weights, **({} if baseline is None else {"baseline": baseline}))
    low, high = stream.interval()
    evidence = stream.evidence(mean)
    if np.isnan(evidence):
        raise AssertionError("no evidence")
    return low, high


def _difference(kind: Any, first: Any, second: Any, arm: Any, **options: Any) -> Any:
    stream = evaluation.DifferenceSequence(kind, **options)
    stream.update(0, first).update(arm, second)
    return stream.interval()


def _around(given: dict[str, Any], found: Any) -> str:
    """Require an interval that is not upside down; its ends may be infinite before there are data."""
    low, high = map(float, found)
    return "" if low <= high else f"[{low}, {high}]"


SEQUENCES = {
    "ConfidenceSequence": Call(
        _sequence,
        lambda rng: {
            "kind": "bernstein",
            "values": rng.random(5),
            "weights": None,
            "baseline": None,
            "mean": 0.5,
            "value_range": [0.0, 1.0],
            "confidence": 0.9,
            "planned": 100,
        },
        _around,
        0.1,
        ("planned",),
    ),
    "ConfidenceSequence: normal": Call(
        _sequence,
        lambda rng: {
            "kind": "normal",
            "values": rng.normal(size=5),
            "weights": None,
            "baseline": None,
            "mean": 0.5,
            "sd": 1.0,
        },
        _around,
        0.1,
    ),
    "ConfidenceSequence: weights": Call(
        _sequence,
        lambda rng: {
            "kind": "bernstein",
            "values": rng.random(5),
            "weights": 1.5 * rng.random(5),
            "baseline": 1.0,
            "mean": 0.0,
            "value_range": [0.0, 1.0],
            "largest_weight": 2.0,
            "relative": True,
        },
        _around,
        0.1,
    ),
    "DifferenceSequence": Call(
        _difference,
        lambda rng: {"kind": "normal", "first": rng.normal(size=4), "second": rng.normal(size=4), "arm": 1, "sd": 1.0},
        _around,
        0.1,
    ),
    "DifferenceSequence: bernstein": Call(
        _difference,
        lambda rng: {
            "kind": "bernstein",
            "first": rng.random(4),
            "second": rng.random(4),
            "arm": 1,
            "value_range": [0.0, 1.0],
            "confidence": 0.9,
            "planned": 50,
        },
        _around,
        0.1,
        ("planned",),
    ),
    "confidence_sequence: kinds": Call(
        evaluation.confidence_sequence,
        lambda rng: {"values": rng.normal(size=4), "kind": "normal", "sd": 1.0, "planned": 100},
        _ranged,
        0.1,
        ("planned",),
    ),
}


# -- sets of models, risk over outcomes, policies judged over the posterior, certificates ---------------------------


def _lucky(outcome: Any, draws: Any, mixed: Any, **given: Any) -> Any:
    reward, discount, counts, alpha = (given[name] for name in ("reward", "discount", "counts", "alpha"))
    model = pr.UncertainMDP.direct(reward, discount)
    luck = risk.MeanCVaR(outcome, mixed)
    return pr.BayesianRiskMDP(model, counts, alpha, outcome_risk=luck).solve(draws=draws, rng=1)


def _certified(alpha: Any, lot: Any, **given: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        model, certificate = Path(folder) / "model", Path(folder) / "certificate"
        _problem(**given, alpha=alpha).solve().certificate(certificate, model=model)
        _damage((model, certificate)[len(repr(lot)) % 2], lot)
        try:
            said = checked(model.read_bytes(), certificate.read_bytes(), 4)
        except RefusedError as refused:
            counts = _array(given["counts"])  # for extreme ones the checker may give up
            if isinstance(lot, int) and lot == 0 and counts.min() > 1e-6 and counts.max() < 1e9:
                raise
            said = str(refused)
        if "\n" in said:
            raise AssertionError(f"more than a line: {said!r}")
        return said


def _set_file(lot: Any, **given: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        pr.IntervalMDP(**given).to_bmdp(path)
        _damage(path, lot)
        return pr.IntervalMDP.from_bmdp(path, given["discount"], reward=given["reward"]).solve()


def _sets(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "lower": rng.random((2, 2, 2)) / 2.0,
        "upper": 0.5 + rng.random((2, 2, 2)) / 2.0,
        "reward": rng.random((2, 2)),
        "discount": 0.9,
    }


def _bounded(given: dict[str, Any], found: Any) -> str:
    return finite(given, [found.objective_value, found.upper_bound]) or (
        ""
        if found.objective_value <= found.upper_bound + 1e-9 * max(1.0, abs(found.upper_bound))
        else "above its bound"
    )


MODELS = {
    "BayesianRiskMDP: outcomes": Call(
        _lucky,
        lambda rng: _uncertain(rng) | {"alpha": 0.5, "outcome": 0.4, "mixed": 0.7, "draws": 20},
        lambda given, found: finite(given, found.value),
        0.05,
        ("draws",),
    ),
    "BayesianRiskMDP: outcomes, exact": Call(
        lambda level, **given: pr.BayesianRiskMDP(
            pr.UncertainMDP.direct(given["reward"], given["discount"]),
            given["counts"],
            given["alpha"],
            outcome_risk=pr.CVaR(level),
        ).solve(),
        lambda rng: _uncertain(rng) | {"alpha": 0.5, "level": 0.4},
        _within,
        0.1,
    ),
    "PosteriorRisk: options": Call(
        lambda level, kind, draws, start, randomised, time_limit, **given: pr.solve(
            _problem(**given, alpha=0.0),
            objective=pr.PosteriorRisk({"var": pr.VaR}.get(str(kind), pr.CVaR)(level), randomised),
            start=start,
            draws=draws,
            rng=0,
            time_limit=time_limit,
        ),
        lambda rng: (
            _uncertain(rng)
            | {
                "level": 0.5,
                "kind": str(rng.choice(["var", "cvar"])),
                "draws": 5,
                "start": 0,
                "randomised": False,
                "time_limit": 1.0,
            }
        ),
        _bounded,
        0.03,
        ("draws",),
    ),
    "risk_profile: best tail": Call(
        lambda reward, discount, counts, **given: pr.risk_profile(
            pr.UncertainMDP.direct(reward, discount), pr.DirichletPosterior(counts), [0.0], rng=1, **given
        ),
        lambda rng: _uncertain(rng) | {"draws": 5, "best_tail": True, "start": 0, "tail_alpha": 0.5, "regret": False},
        anything,
        0.01,
        ("draws",),
    ),
    "L1Ball: set": Call(
        lambda optimistic, radius, centre, **given: planning.RobustMDP(
            pr.UncertainMDP.direct(given["reward"], given["discount"]),
            pr.L1Ball(radius, None, centre),
            optimistic=optimistic,
        ).solve(),
        lambda rng: _uncertain(rng) | {"optimistic": True, "radius": 0.4, "centre": rng.dirichlet([1.0, 1.0], 4)},
        _within,
        0.1,
    ),
    "L1Ball: credible set": Call(
        lambda counts, coverage, weights, draws: (
            pr.L1Ball.credible(counts, coverage, joint=False, weights=weights, draws=draws, rng=0).radius
        ),
        lambda rng: _counts(rng) | {"coverage": 0.9, "weights": np.ones((2, 3)), "draws": 100},
        finite,
        0.1,
        ("draws",),
    ),
    "IntervalMDP: options": Call(
        lambda **given: pr.IntervalMDP(**given).solve(),
        lambda rng: _sets(rng) | {"optimistic": True, "admissible": [[True, True], [True, False]], "terminal": [1]},
        _within,
        0.1,
    ),
    "IntervalMDP: horizon": Call(
        lambda horizon, **given: pr.IntervalMDP(**given).solve(horizon=horizon),
        lambda rng: _sets(rng) | {"horizon": 3},
        _finite_horizon,
        0.05,
        ("horizon",),
    ),
    "IntervalMDP: bmdp file": Call(_set_file, lambda rng: _sets(rng) | {"lot": 0}, anything, 0.05),
    "certificate": Call(_certified, lambda rng: _uncertain(rng) | {"alpha": 0.5, "lot": 0}, anything, 0.03),
    "solve: options": Call(
        lambda tol, method, sweeps, max_iterations, **given: pr.solve(
            pr.MDP(**given), options=planning.SolverOptions(tol, method, sweeps, max_iterations)
        ),
        lambda rng: (
            _world(rng)
            | {
                "tol": 1e-6,
                "method": str(rng.choice(["newton", "value_iteration"])),
                "sweeps": None,
                "max_iterations": 10_000,
            }
        ),
        anything,
        0.1,
        ("sweeps", "max_iterations"),
    ),
    "MDP: table": Call(
        lambda rows, discount: pr.solve(pr.MDP.from_table(rows, discount)).value,
        lambda rng: {"rows": [("a", "go", "b", 1.0, 1.0), ("b", "go", "a", 1.0, 0.0)], "discount": 0.9},
        finite,
        0.1,
    ),
    "UncertainMDP: trajectory": Call(
        lambda reward, discount, theta, policy, steps, state: pr.UncertainMDP.direct(reward, discount).trajectory(
            theta, policy, steps, state, 1
        ),
        lambda rng: {
            "reward": rng.random((2, 2)),
            "discount": 0.9,
            "theta": rng.dirichlet([1.0, 1.0], 4),
            "policy": [0, 1],
            "steps": 5,
            "state": 0,
        },
        finite,
        0.1,
        ("steps",),
    ),
    "returns: law": Call(
        lambda level, beta, share, replications, **given: [
            *(lambda found: [*np.ravel(found.quantile(share)), found.entropic(beta), found.evar(level)])(
                pr.returns(pr.MDP(**given), [0, 1], start=0, horizon=3, replications=replications, rng=1)
            )
        ],
        lambda rng: _world(rng) | {"level": 0.5, "beta": 1.0, "share": 0.1, "replications": 8},
        lambda given, found: between(
            min(3.0 * _array(given["reward"]).min(), 0.0), max(3.0 * _array(given["reward"]).max(), 0.0), found
        ),
        0.1,
        ("replications",),
    ),
}


# -- agents and worlds ----------------------------------------------------------------------------------------------


def _q_agent(reward: Any, discount: Any, state: Any, action: Any, next_state: Any, **options: Any) -> Any:
    settings = agents.brql(**options)
    model = pr.UncertainMDP.direct(reward, discount)
    agent = agents.QLearningAgent(model, settings=settings, rng=1, indices=True)
    first = agent.act(state)
    agent.observe(state, action, next_state)
    return [first, agent.act(next_state)]


def _played_bandit(horizon: Any, replications: Any, alphas: Any, noise_sd: Any, times: Any) -> Any:
    return simulation.simulate_bandit(
        envs.gaussian_bandit(3),
        [bandits.thompson_sampling()],
        horizon=horizon,
        replications=replications,
        alphas=alphas,
        noise_sd=noise_sd,
        times=times,
        rng=1,
    )


def _clicks(n_arms: Any, dim: Any, rates: Any, strength: Any, drift: Any) -> Any:
    world = envs.logistic_bandit(n_arms, dim, rates, strength=strength, drift=drift)
    return world.n_arms


AGENTS = {
    "brql": Call(
        _q_agent,
        lambda rng: {
            **{name: value for name, value in _walk(rng).items() if name != "alpha"},
            "alpha": 0.5,
            "risk": "cvar",
            "draws": 5,
            "batch": 2,
            "updates": 3,
            "power": 0.6,
            "epsilon": 0.1,
        },
        _actions,
        0.05,
        ("draws", "batch", "updates"),
    ),
    "ts_rl": Call(
        lambda sweeps, draws, delta, horizon: [
            agents.ts_rl(sweeps=sweeps),
            agents.worst_case(draws),
            agents.optimistic_vi(0.5, delta=delta, horizon=horizon),
        ],
        lambda rng: {"sweeps": 3, "draws": 5, "delta": 0.1, "horizon": 10},
        anything,
        0.1,
        ("sweeps", "draws", "horizon"),
    ),
    "simulate_bandit: options": Call(
        _played_bandit,
        lambda rng: {"horizon": 5, "replications": 2, "alphas": [0.5], "noise_sd": 1.0, "times": [1, 5]},
        _regret,
        0.03,
        ("horizon", "replications"),
    ),
    "logistic_bandit": Call(
        _clicks,
        lambda rng: {"n_arms": 3, "dim": 4, "rates": [0.01, 0.05], "strength": 0.5, "drift": 5},
        finite,
        0.05,
        ("n_arms", "dim", "drift"),
    ),
    "classification": Call(
        lambda X, y: envs.classification(X, y).n_arms,
        lambda rng: {"X": rng.normal(size=(6, 2)), "y": [0, 1, 0, 1, 1, 0]},
        finite,
        0.05,
    ),
    "random_model: sizes": Call(
        lambda n_states, n_actions, branching: envs.random_model(n_states, n_actions, branching=branching, rng=1).theta,
        lambda rng: {"n_states": 4, "n_actions": 2, "branching": 2},
        lambda given, found: adds_up(found),
        0.03,
        ("n_states", "n_actions", "branching"),
    ),
}

CALLS: dict[str, Call] = FIRST | BANDITS | SEQUENCES | MODELS | AGENTS
