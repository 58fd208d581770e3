"""The entry points of ``_fuzz``: good arguments, and a law that every finite result obeys.

Names begin with the public name that they call; ``tests/site/test_fuzz.py`` asks that every name at the top of the
package is among them.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
from _fuzz import Call

import prudent as pr
from prudent import bandits, envs, evaluation, exact, posteriors, risk, schedules, simulation, theory
from prudent.testing import check_risk

SLACK = 1e-6  # of the largest number of a law


def _array(found: Any) -> np.ndarray[Any, Any]:
    return np.asarray(found, dtype=np.float64)


def finite(given: dict[str, Any], found: Any) -> str:
    """Require finite numbers."""
    return "" if np.isfinite(_array(found)).all() else "not finite"


def anything(given: dict[str, Any], found: Any) -> str:
    """Require only that the call ends."""
    return ""


def between(low: Any, high: Any, found: Any) -> str:
    """Require finite numbers from ``low`` to ``high``, up to rounding."""
    value, low, high = _array(found), _array(low), _array(high)
    if not np.isfinite(value).all():
        return "not finite"
    slack = SLACK * np.maximum(np.abs(low), np.abs(high)) + 1e-300  # few digits are left of the smallest numbers
    return "" if ((value >= low - slack) & (value <= high + slack)).all() else f"not in [{low}, {high}]"


def adds_up(found: Any) -> str:
    """Require probabilities along the last axis."""
    value = _array(found)
    if not np.isfinite(value).all() or (value < -SLACK).any():
        return "no probabilities"
    return "" if np.abs(value.sum(axis=-1) - 1.0).max(initial=0.0) < 1e-6 else "does not add up to one"


# -- risk of draws and exact laws --------------------------------------------------------------------------


def _of_draws(given: dict[str, Any], found: Any) -> str:
    draws = _array(given["draws"])
    axis = int(given.get("axis", 0))
    return between(draws.min(axis=axis), draws.max(axis=axis), found)


def _measured(measure: Any, draws: Any, **parts: Any) -> Any:
    return measure(**parts)(draws)


def _risk(measure: Any, **parts: Any) -> Call:
    def good(rng: np.random.Generator) -> dict[str, Any]:
        return {"draws": rng.normal(size=9), **parts}

    return Call(lambda draws, **rest: _measured(measure, draws, **rest), good, _of_draws, 0.6)


def _averse(given: dict[str, Any], found: Any) -> str:
    if not np.isfinite(_array(found)).all():
        return "not finite"
    mean, alpha = _array(given["mean"]), _array(given["alpha"])
    return "" if (np.where(alpha >= 0.0, found <= mean + SLACK * np.abs(mean), True)).all() else "above the mean"


def _quantile(given: dict[str, Any], found: Any) -> str:
    """Require finite numbers but at level 0, where the highest value is infinite."""
    alpha = np.broadcast_to(_array(given["alpha"]), np.shape(found))
    return finite(given, _array(found)[np.abs(alpha) > 1e-15])


def _normal(rng: np.random.Generator) -> dict[str, Any]:
    return {"mean": float(rng.normal()), "sd": 1.0, "alpha": float(rng.uniform(-1, 1))}


def _dirichlet(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 5))
    alpha = float(rng.choice([rng.uniform(-1, 1), 0.0, 0.5, 0.9, 0.99, 0.999999]))
    return {"values": rng.normal(size=size), "counts": rng.exponential(2.0, size) + 1e-3, "alpha": alpha}


def _of_values(given: dict[str, Any], found: Any) -> str:
    if np.size(found) == 0:  # no rows
        return ""
    values, counts = np.broadcast_arrays(_array(given["values"]), _array(given["counts"]))
    low = np.where(counts > 0.0, values, np.inf).min(axis=-1)
    return between(low, np.where(counts > 0.0, values, -np.inf).max(axis=-1), found)


def _risk_of_row(values: Any, counts: Any, kind: Any, level: Any) -> Any:
    kinds = {"cvar": risk.CVaR, "var": risk.VaR, "entropic": risk.EntropicRisk}
    made = kinds.get(kind if isinstance(kind, str) else "", risk.CVaR)
    return exact.risk_dirichlet(values, counts, made(level)).value


def _row(rng: np.random.Generator) -> dict[str, Any]:
    kind = str(rng.choice(["cvar", "var", "entropic"]))
    return {"values": rng.normal(size=3), "counts": rng.exponential(2.0, 3) + 0.01, "kind": kind, "level": 0.4}


def _shares(rng: np.random.Generator) -> dict[str, Any]:
    return {"alphas": [0.0, 0.9], "shares": [0.4, 0.6], "draws": rng.normal(size=9)}


EXACT = {
    "cvar": Call(pr.cvar, lambda rng: {"draws": rng.random(7), "alpha": 0.5}, _of_draws),
    "cvar: weights": Call(
        pr.cvar, lambda rng: {"draws": rng.random(4), "alpha": 0.5, "weights": rng.random(4) + 0.1}, _of_draws
    ),
    "modified_cvar": Call(risk.modified_cvar, lambda rng: {"draws": rng.random((9, 2)), "alpha": 0.7}, _of_draws),
    "sample_size": Call(
        pr.sample_size,
        lambda rng: {"alpha": float(rng.uniform(-1, 1))},
        lambda given, found: "" if found >= (1.0 - 1e-9) / (1.0 - abs(given["alpha"])) else "too few",
    ),
    "lowest_normals": Call(
        risk.lowest_normals,
        lambda rng: {"n": 9, "m": 3, "size": 4, "rng": 1},
        lambda given, found: finite(given, found) or ("" if (np.diff(found) >= 0).all() else "not sorted"),
        0.5,
        ("n", "m", "size"),
    ),
    "CVaR": _risk(pr.CVaR, alpha=0.5),
    "VaR": _risk(pr.VaR, alpha=0.5),
    "MeanCVaR": _risk(pr.MeanCVaR, alpha=0.5, weight=0.4),
    "Spectral": _risk(lambda pieces: pr.Spectral(np.sqrt, pieces), pieces=4)._replace(sizes=("pieces",)),
    "EntropicRisk": _risk(risk.EntropicRisk, beta=0.5),
    "Expectile": _risk(risk.Expectile, tau=0.3),
    "ModifiedCVaR": _risk(risk.ModifiedCVaR, alpha=0.5),
    "Mixture": Call(lambda alphas, shares, draws: risk.Mixture(alphas, shares)(draws), _shares, _of_draws, 0.6),
    "check_risk": Call(lambda alpha: check_risk(pr.CVaR(alpha)), lambda rng: {"alpha": 0.5}, anything, 0.001),
    "cvar_normal": Call(exact.cvar_normal, _normal, _averse),
    "var_normal": Call(exact.var_normal, _normal, _quantile),
    "cvar_clipped_normal": Call(exact.cvar_clipped_normal, _normal, lambda given, found: between(0.0, 1.0, found)),
    "cvar_dirichlet": Call(exact.cvar_dirichlet, _dirichlet, _of_values),
    "var_dirichlet": Call(exact.var_dirichlet, _dirichlet, _of_values),
    "dirichlet_tail": Call(
        exact.dirichlet_tail,
        _dirichlet,
        lambda given, found: _of_values(given, found.cvar) or adds_up(found.tail_means),
    ),
    "dirichlet_quantile": Call(
        exact.dirichlet_quantile, _dirichlet, lambda given, found: _of_values(given, found.var) or adds_up(found.means)
    ),
    "risk_dirichlet": Call(_risk_of_row, _row, _of_values, 0.5),
}


# -- theory and schedules ----------------------------------------------------------------------------------


def _positive(given: dict[str, Any], found: Any) -> str:
    return finite(given, found) or ("" if (_array(found) >= 0.0).all() else "negative")


def _limit(transition: Any, reward: Any, discount: Any, alpha: Any, visits: Any) -> Any:
    return theory.limit_law(pr.MDP(transition, reward, discount), [0, 1], alpha, visits)


def _moments(given: dict[str, Any], found: Any) -> str:
    mean, covariance = found
    wrong = finite(given, mean) or finite(given, covariance)
    return wrong or ("" if (np.diagonal(covariance) >= 0.0).all() else "a negative variance")


THEORY = {
    "br_regret_bound": Call(
        theory.br_regret_bound, lambda rng: {"T": 100, "K": 3, "d": 2, "alpha": 0.5, "nu": 1.0}, _positive
    ),
    "regret_bound": Call(
        theory.regret_bound, lambda rng: {"T": 100, "K": 3, "d": 2, "alpha": 0.5, "delta": 0.1}, _positive
    ),
    "expected_regret_bound": Call(
        theory.expected_regret_bound, lambda rng: {"T": 100, "K": 3, "d": 2, "alpha": 0.5}, _positive
    ),
    "optimistic_vi_regret_bound": Call(
        theory.optimistic_vi_regret_bound,
        lambda rng: {"T": 100, "S": 3, "A": 2, "alpha": 0.5, "discount": 0.9, "delta": 0.1},
        _positive,
    ),
    "expected_order_statistic": Call(
        theory.expected_order_statistic,
        lambda rng: {"values": rng.random(5), "k": 2, "n": 4},
        lambda given, found: between(np.min(given["values"]), np.max(given["values"]), found),
        1.0,
        ("k", "n"),
    ),
    "stationary_distribution": Call(
        theory.stationary_distribution,
        lambda rng: {"chain": rng.dirichlet([1.0, 1.0, 1.0], 3)},
        lambda given, found: adds_up(found),
    ),
    "limit_law": Call(
        _limit,
        lambda rng: {
            "transition": rng.dirichlet([1.0, 1.0], (2, 2)),
            "reward": rng.random((2, 2)),
            "discount": 0.9,
            "alpha": 0.5,
            "visits": [0.5, 0.5],
        },
        _moments,
        0.3,
    ),
    "Decay": Call(
        lambda start, half: schedules.Decay(start, half).level(5, np.zeros(1)),
        lambda rng: {"start": 0.9, "half": 10.0},
        lambda given, found: between(-1.0, 1.0, found),
    ),
    "Falling": Call(
        lambda start, scale: schedules.Falling(start, scale).level(1, [1.0]),
        lambda rng: {"start": 0.9, "scale": 10.0},
        lambda given, found: between(-1.0, 1.0, found),
    ),
}


# -- posteriors --------------------------------------------------------------------------------------------


def _linear(kind: Any) -> Any:
    def call(context: Any, reward: Any, prior_precision: Any, point: Any) -> Any:
        made = kind(2, prior_precision).update(context, reward)
        return np.concatenate([np.ravel(part) for part in (made.mean(), *made.predict(point), made.sample(2, 1))])

    return call


def _contexts(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "context": rng.normal(size=(3, 2)),
        "reward": rng.integers(0, 2, 3).astype(float),
        "prior_precision": 1.0,
        "point": rng.normal(size=(1, 2)),
    }


def _counts(rng: np.random.Generator) -> dict[str, Any]:
    return {"counts": rng.exponential(1.0, (2, 3)) + 1e-3}


POSTERIORS = {
    "DirichletPosterior": Call(
        lambda counts: pr.DirichletPosterior(counts).mean(), _counts, lambda given, found: adds_up(found)
    ),
    "DirichletPosterior: sample": Call(
        lambda counts, n: pr.DirichletPosterior(counts).sample(n, 0),
        lambda rng: _counts(rng) | {"n": 3},
        lambda given, found: adds_up(found),
        1.0,
        ("n",),
    ),
    "DirichletPosterior: update": Call(
        lambda counts, source, outcome, count: pr.DirichletPosterior(counts).update(source, outcome, count).mean(),
        lambda rng: _counts(rng) | {"source": 1, "outcome": 2, "count": 3.0},
        lambda given, found: adds_up(found),
    ),
    "DirichletPosterior: moments": Call(
        lambda counts: np.append(pr.DirichletPosterior(counts).covariance(), pr.DirichletPosterior(counts).variance()),
        _counts,
        finite,
    ),
    "GroupedPosterior": Call(
        lambda counts, times, n: posteriors.GroupedPosterior(counts, [posteriors.Group(0, (0, 1), times)]).sample(n, 0),
        lambda rng: _counts(rng) | {"times": 3.0, "n": 2},
        lambda given, found: adds_up(found),
        0.3,
        ("n",),
    ),
    "BetaPosterior": Call(
        lambda successes, failures, index, reward: (
            posteriors.BetaPosterior(successes, failures).update(index, reward).mean()
        ),
        lambda rng: {"successes": rng.random(2) + 0.1, "failures": [1.0, 2.0], "index": 1, "reward": 1.0},
        lambda given, found: between(0.0, 1.0, found),
    ),
    "NormalPosterior": Call(
        lambda mean, sd, noise_sd, index, reward: (
            posteriors.NormalPosterior(mean, sd, noise_sd).update(index, reward).sample(2, 1)
        ),
        lambda rng: {"mean": rng.normal(size=2), "sd": [1.0, 2.0], "noise_sd": 1.0, "index": 1, "reward": 1.0},
        finite,
    ),
    "LinearGaussianPosterior": Call(_linear(posteriors.LinearGaussianPosterior), _contexts, finite),
    "LogisticPosterior": Call(_linear(posteriors.LogisticPosterior), _contexts, finite, 0.3),
    "PoissonPosterior": Call(_linear(posteriors.PoissonPosterior), _contexts, finite, 0.3),
}


# -- models and planning -----------------------------------------------------------------------------------


def _world(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "transition": rng.dirichlet([1.0, 1.0], (2, 2)),
        "reward": rng.random((2, 2)),
        "discount": float(rng.choice([0.0, 0.5, 0.9, 0.999])),
    }


def _uncertain(rng: np.random.Generator) -> dict[str, Any]:
    return {"reward": rng.random((2, 2)), "discount": 0.9, "counts": 0.1 + rng.exponential(2.0, (4, 2))}


def _within(given: dict[str, Any], found: Any) -> str:
    """Require values between the smallest and the largest reward over 1 - discount."""
    reward, left = np.ma.masked_invalid(_array(given["reward"])), 1.0 - float(given["discount"])
    bound = getattr(found, "error_bound", 0.0)  # pairs that are not admissible need no reward
    low, high = min(reward.min() / left, 0.0), max(reward.max() / left, 0.0)
    return between(low - 2.0 * bound, high + 2.0 * bound, found.value)


def _saved(settings: Any, **given: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        found = pr.solve(pr.MDP(**given))
        pr.save(folder, found, settings=settings)
        return found, pr.load(folder)


def _loaded(given: dict[str, Any], found: Any) -> str:
    solution, again = found
    return "" if np.array_equal(solution.value, again.solution.value) else "read back with other values"


def _finite_horizon(given: dict[str, Any], found: Any) -> str:
    if given["horizon"] is None:
        return _within(given, found)
    reward, horizon = _array(given["reward"]), int(given["horizon"])
    return between(min(horizon * reward.min(), 0.0), max(horizon * reward.max(), 0.0), found.value)


def _model(reward: Any, discount: Any) -> Any:
    return pr.UncertainMDP.direct(reward, discount)


def _problem(reward: Any, discount: Any, counts: Any, alpha: Any) -> Any:
    return pr.BayesianRiskMDP(_model(reward, discount), counts, alpha)


def _played(given: dict[str, Any], found: Any) -> str:
    reward = _array(given["reward"])
    left = 1.0 - float(given["discount"])
    total = 1.0 / left if given["horizon"] is None else max(1, int(given["horizon"]))
    return between(min(total * reward.min(), 0.0), max(total * reward.max(), 0.0), np.asarray(found))


PLANNING = {
    "MDP": Call(lambda **given: pr.MDP(**given).dense(), _world, lambda given, found: adds_up(found)),
    "UncertainMDP": Call(
        lambda reward, discount, counts: _model(reward, discount).mdp(pr.DirichletPosterior(counts).mean()).dense(),
        _uncertain,
        lambda given, found: adds_up(found),
        0.5,
    ),
    "UncertainMDP: sources": Call(
        lambda source, next_state, reward, discount, theta: (
            pr.UncertainMDP(source, next_state, reward, discount).mdp(theta).dense()
        ),
        lambda rng: {
            "source": [[0, 0], [1, 1]],
            "next_state": rng.integers(0, 2, (2, 2, 2)),
            "reward": rng.random((2, 2, 2)),
            "discount": 0.9,
            "theta": rng.dirichlet([1.0, 1.0], 2),
        },
        lambda given, found: adds_up(found),
        0.5,
    ),
    "solve": Call(lambda **given: pr.solve(pr.MDP(**given)), _world, _within, 0.3),
    "solve: horizon": Call(
        lambda horizon, **given: pr.solve(pr.MDP(**given), horizon=horizon),
        lambda rng: _world(rng) | {"horizon": 3},
        _finite_horizon,
        0.2,
        ("horizon",),
    ),
    "save": Call(_saved, lambda rng: _world(rng) | {"settings": {"ward": 7}}, _loaded, 0.1),
    "load": Call(
        lambda settings, **given: _saved(settings, **given)[1],
        lambda rng: _world(rng) | {"settings": {}},
        anything,
        0.1,
    ),
    "evaluate": Call(
        lambda policy, **given: pr.evaluate(pr.MDP(**given), policy),
        lambda rng: _world(rng) | {"policy": rng.dirichlet([1.0, 1.0], 2)},
        _within,
        0.3,
    ),
    "Entropic": Call(
        lambda beta, horizon, **given: pr.solve(pr.MDP(**given), objective=pr.Entropic(beta), horizon=horizon, start=0),
        lambda rng: _world(rng) | {"beta": 0.5, "horizon": 3},
        _finite_horizon,
        0.1,
        ("horizon",),
    ),
    "EVaR": Call(
        lambda alpha, horizon, **given: pr.solve(pr.MDP(**given), objective=pr.EVaR(alpha), horizon=horizon, start=0),
        lambda rng: _world(rng) | {"alpha": 0.5, "horizon": 2},
        anything,
        0.02,
        ("horizon",),
    ),
    "IntervalMDP": Call(
        lambda **given: pr.IntervalMDP(**given).solve(),
        lambda rng: {
            "lower": rng.random((2, 2, 2)) / 2.0,
            "upper": 0.5 + rng.random((2, 2, 2)) / 2.0,
            "reward": rng.random((2, 2)),
            "discount": 0.9,
        },
        _within,
        0.15,
    ),
    "L1Ball": Call(
        lambda radius, weights, **given: pr.planning.RobustMDP(pr.MDP(**given), pr.L1Ball(radius, weights)).solve(),
        lambda rng: _world(rng) | {"radius": rng.random(), "weights": rng.random(2) + 0.1},
        _within,
        0.15,
    ),
    "L1Ball: credible": Call(
        lambda counts, coverage, draws: pr.L1Ball.credible(counts, coverage, draws=draws, rng=0).radius,
        lambda rng: _counts(rng) | {"coverage": 0.9, "draws": 100},
        lambda given, found: between(0.0, 2.0, found),
        0.3,
        ("draws",),
    ),
    "BayesianRiskMDP": Call(
        lambda **given: _problem(**given).solve(), lambda rng: _uncertain(rng) | {"alpha": 0.7}, _within, 0.15
    ),
    "BayesianRiskMDP: draws": Call(
        lambda draws, **given: _problem(**given).solve(draws=draws, rng=1),
        lambda rng: _uncertain(rng) | {"alpha": 0.7, "draws": 5},
        _within,
        0.1,
        ("draws",),
    ),
    "BayesianRiskMDP: evaluate": Call(
        lambda policy, **given: _problem(**given).evaluate(policy),
        lambda rng: _uncertain(rng) | {"alpha": -0.3, "policy": [0, 1]},
        _within,
        0.1,
    ),
    "returns": Call(
        lambda transition, reward, discount, **given: pr.returns(
            pr.MDP(transition, reward, discount), [0, 1], rng=1, **given
        ),
        lambda rng: _world(rng) | {"start": 0, "horizon": 4, "replications": 8},
        _played,
        0.1,
        ("horizon", "replications"),
    ),
}


# -- analysis ----------------------------------------------------------------------------------------------


def _analysed(function: Any) -> Any:
    def call(reward: Any, discount: Any, counts: Any, **given: Any) -> Any:
        return function(_model(reward, discount), pr.DirichletPosterior(counts), rng=1, **given)

    return call


def _dataset(given: dict[str, Any], found: Any) -> str:
    reward, left = _array(given["reward"]), 1.0 - float(given["discount"])
    return between(min(reward.min() / left, 0.0), max(reward.max() / left, 0.0), found["mean"].values)


def _profile(given: dict[str, Any], found: Any) -> str:
    unknown = ["cvar_se"] + (["mean_se", "sd"] if given.get("draws") == 1 else [])  # of few draws
    table = found.to_pandas().select_dtypes("number").drop(columns=unknown, errors="ignore")
    return "" if np.isfinite(table.to_numpy()).all() else f"not finite: {table.to_dict()}"


ANALYSIS = {
    "posterior_returns": Call(
        _analysed(pr.posterior_returns),
        lambda rng: _uncertain(rng) | {"policies": [0, 1], "draws": 4, "tail_alpha": 0.5},
        _dataset,
        0.03,
        ("draws",),
    ),
    "risk_profile": Call(
        _analysed(pr.risk_profile),
        lambda rng: _uncertain(rng) | {"alphas": [0.0, 0.9], "draws": 4},
        _profile,
        0.015,
        ("draws",),
    ),
    "value_of_data": Call(
        _analysed(pr.value_of_data),
        lambda rng: _uncertain(rng) | {"alpha": 0.5, "observations": 2, "replications": 4},
        _profile,
        0.004,
        ("observations", "replications"),
    ),
}


# -- bandits -----------------------------------------------------------------------------------------------


def _arms(context: Any, arm: Any, reward: Any, **options: Any) -> Any:
    bandit = pr.LinearBandit(["a", "b"], dim=2, rng=1, **options)
    bandit.update(context, arm, reward)
    return bandit.propensities([[0.5, 0.5]])


def _one(rng: np.random.Generator, kind: str, **options: Any) -> dict[str, Any]:
    reward = 1.0 if kind != "gaussian" else float(rng.normal())
    return {"context": rng.normal(size=2), "arm": "a", "reward": reward, "rewards": kind, **options}


def _decided(given: dict[str, Any], found: Any) -> str:
    return adds_up(found.propensities) or finite(given, found.score)


def _selected(context: Any, arms: Any, **options: Any) -> Any:
    bandit = pr.LinearBandit(["a", "b", "c"], dim=2, rng=1, noise_sd=1.0, **options)
    return bandit.update([[1.0, 2.0], [0.0, 1.0]], ["a", "b"], [1.0, 2.0]).select(context, arms)


def _items(context: Any, reward: Any, features: Any, **options: Any) -> Any:
    return pr.SharedLinearBandit(2, rng=1, **options).update(context, "a", reward).select(features, ["a", "b", "c"])


def _predicted(context: Any, alpha: Any, factor: Any) -> Any:
    bandit = pr.LinearBandit(["a", "b"], dim=2, rng=1, noise_sd=1.0)
    bandit.update([[1.0, 2.0], [0.0, 1.0]], ["a", "b"], [1.0, 2.0]).forget(factor)
    return np.stack([*bandit.predict(context), bandit.score(context, alpha=alpha)])


def _journal(context: Any, reward: Any, factor: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        made = pr.LinearBandit(["a", "b"], dim=2, rng=1)
        with pr.Journal(f"{folder}/j", made, synchronous="NORMAL") as live:
            decision = live.select(context)
            for each in decision if isinstance(decision, list) else [decision]:
                live.reward(each.id, reward)
            live.forget(factor)
        with pr.Journal(f"{folder}/j") as live:
            live.verify()
            return [row["propensity"] for row in live.rows()]


def _features(kind: Any, cells: Any, cell: Any, cross: Any, **options: Any) -> Any:
    features = pr.Features({"a": {"kind": kind, **options}, "b": "category"}, cross=cross)
    many = isinstance(cells, list) or (isinstance(cells, np.ndarray) and cells.ndim > 0)
    features.learn([{"a": each, "b": "x"} for each in (cells if many else [cells])])
    again, row = pr.Features.from_dict(features.to_dict()), {"a": cell, "b": "x"}
    if not (again.transform([row, row]) == features.transform(row)).all():
        raise AssertionError("features that were read again have other codes")
    return features.freeze().transform(row)


def _encoded(kind: str, cells: Any, cell: Any, **options: Any) -> Call:
    def good(rng: np.random.Generator) -> dict[str, Any]:
        return {"kind": kind, "cells": cells, "cell": cell, "cross": [("a", "b")], **options}

    return Call(_features, good, finite, 0.1, ("rows", "slots", "shared"))


def _inferred(cells: Any, cell: Any) -> Any:
    return pr.Features.fit({"a": cells}).transform({"a": cell})


BANDITS = {
    "Features": _encoded("number", [1.0, 2.0, 4.0], 3.0, rows=3),
    "Features: counts": _encoded("count", [1, 2, 40], 3, rows=2),
    "Features: bins": _encoded("bins", [1.0, 2.0, 4.0], 3.0, edges=[1.0, 2.0]),
    "Features: categories": _encoded("category", ["DE", "FR"], "IT", slots=2, shared=2),
    "Features: tags": _encoded("tags", ["new", "sale"], ["new", "gift"], slots=2),
    "Features: times": _encoded("time", ["2026-03-01T17:30"], "2026-03-02"),
    "Features: fit": Call(
        _inferred,
        lambda rng: {"cells": rng.normal(size=9).tolist(), "cell": 0.5},
        lambda given, found: between(-10.0, 10.0, found),
        0.2,
    ),
    "LinearBandit": Call(
        _arms,
        lambda rng: _one(rng, "gaussian", alpha=0.5, noise_sd=1.0, prior_precision=1.0),
        lambda given, found: adds_up(found),
        0.3,
    ),
    "LinearBandit: clicks": Call(
        _arms, lambda rng: _one(rng, "bernoulli", alpha=0.5), lambda given, found: adds_up(found), 0.15
    ),
    "LinearBandit: counts": Call(
        _arms, lambda rng: _one(rng, "poisson", exploration=2.0), lambda given, found: adds_up(found), 0.15
    ),
    "LinearBandit: select": Call(
        _selected,
        lambda rng: {
            "context": rng.normal(size=2),
            "arms": ["a", "b"],
            "alpha": 0.5,
            "min_propensity": 0.01,
            "half_life": 10.0,
        },
        _decided,
        0.3,
    ),
    "LinearBandit: predict": Call(
        _predicted, lambda rng: {"context": rng.normal(size=(1, 2)), "alpha": 0.5, "factor": 0.5}, finite, 0.3
    ),
    "SharedLinearBandit": Call(
        _items,
        lambda rng: {"context": rng.normal(size=2), "reward": 1.0, "features": rng.normal(size=(3, 2)), "alpha": 0.5},
        _decided,
        0.3,
    ),
    "SharedLinearBandit: offsets": Call(
        _items,
        lambda rng: {
            "context": rng.normal(size=2),
            "reward": 1.0,
            "features": rng.normal(size=(3, 2)),
            "offsets": True,
            "offset_precision": 1.0,
            "noise_sd": 1.0,
        },
        _decided,
        0.2,
    ),
    "Journal": Call(
        _journal,
        lambda rng: {"context": rng.normal(size=2), "reward": 1.0, "factor": 0.9},
        lambda given, found: between(0.0, 1.0, found),
        0.01,
    ),
}


# -- logs --------------------------------------------------------------------------------------------------


def _off_policy(reward: Any, propensity: Any, arm: Any, target: Any, **options: Any) -> Any:
    return pr.off_policy({"arm": arm, "reward": reward, "propensity": propensity}, target, **options)


def _learned_policy(reward: Any, propensity: Any, arm: Any, context: Any, **options: Any) -> Any:
    log = {"arm": arm, "reward": reward, "propensity": propensity, "context": context}
    return pr.learn_policy(log, **options)


def _rows(rng: np.random.Generator) -> dict[str, Any]:
    return {"reward": rng.random(20), "propensity": [0.5] * 20, "arm": ["a", "b"] * 10}


def _estimates(given: dict[str, Any], found: Any) -> str:
    table = found.table
    if not np.isfinite(table[["estimate", "low", "high", "ess"]].to_numpy(dtype=float)).all():
        return "not finite"
    ordered = (table["low"] <= table["estimate"]) & (table["estimate"] <= table["high"])
    return "" if ordered.all() else "an estimate outside of its interval"


def _ranged(given: dict[str, Any], found: Any) -> str:
    low, high = found
    return "" if (_array(low) <= _array(high)).all() else "upside down"  # without data they are infinite


def _replayed(reward: Any, propensity: Any, arm: Any, context: Any, **options: Any) -> Any:
    log = {"arm": arm, "reward": reward, "propensity": propensity, "context": context}
    return evaluation.replay(log, pr.LinearBandit(["a", "b"], dim=2, rng=1), **options)


def _tuned(reward: Any, propensity: Any, arm: Any, context: Any, alphas: Any, **options: Any) -> Any:
    log = {"arm": arm, "reward": reward, "propensity": propensity, "context": context}
    return evaluation.tune(log, {"alpha": alphas}, **options)


def _steps(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "episode": np.repeat(np.arange(6), 4),
        "step": np.tile(np.arange(4), 6),
        "state": ["a", "b", "c", "a"] * 6,
        "action": ["x", "y", "y", "x"] * 6,
        "next_state": ["b", "c", "a", "b"] * 6,
        "reward": rng.random(24),
        "discount": 0.9,
    }


_COLUMNS = ("episode", "step", "state", "action", "next_state", "reward")


def _table(given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    return {name: given[name] for name in _COLUMNS}, {name: given[name] for name in given if name not in _COLUMNS}


def _from_log(**given: Any) -> Any:
    log, options = _table(given)
    model, posterior = pr.from_log(log, **options)
    return pr.BayesianRiskMDP(model, posterior, 0.5).solve().value


def _checked(**given: Any) -> Any:
    log, options = _table(given)
    return pr.check(log, repeats=1, alphas=(0.0,), **options)


def _mapped(x: Any, y: Any, reward: Any, action: Any, **options: Any) -> Any:
    log = {"x": x, "y": y, "reward": reward, "action": action, "episode": [0] * 10 + [1] * 10, "step": [*range(10)] * 2}
    made = pr.StateMap(["x", "y"], discount=0.9, **options).fit(log)
    return [made.transform(log), made.to_dict()]


LOGS = {
    "off_policy": Call(
        _off_policy, lambda rng: _rows(rng) | {"target": "a", "confidence": 0.9, "clip": 5.0}, _estimates, 0.02
    ),
    "off_policy: normal": Call(
        _off_policy,
        lambda rng: _rows(rng) | {"target": {"a": 0.3, "b": 0.7}, "interval": "normal", "reward_range": [0.0, 1.0]},
        _estimates,
        0.02,
    ),
    "learn_policy": Call(
        _learned_policy,
        lambda rng: {
            "reward": rng.random(100),
            "propensity": [0.5] * 100,
            "arm": ["a", "b"] * 50,
            "context": rng.random((100, 2)).tolist(),
            "confidence": 0.9,
        },
        lambda given, found: "" if found.low <= found.value <= found.high else "outside of its interval",
        0.1,
    ),
    "confidence_sequence": Call(
        evaluation.confidence_sequence,
        lambda rng: {"values": rng.random(3), "value_range": [0.0, 1.0], "confidence": 0.9},
        _ranged,
        0.1,
    ),
    "replay": Call(
        _replayed,
        lambda rng: _rows(rng) | {"context": rng.random((20, 2)).tolist(), "confidence": 0.9},
        lambda given, found: "" if np.isnan(found.mean) else between(found.low, found.high, found.mean),
        0.01,
    ),
    "tune": Call(
        _tuned,
        lambda rng: _rows(rng) | {"context": rng.random((20, 2)).tolist(), "alphas": [0.0, 0.5], "runs": 2},
        anything,
        0.003,
        ("runs",),
    ),
    "from_log": Call(_from_log, lambda rng: _steps(rng) | {"prior": 1.0, "min_count": 1}, finite, 0.03),
    "check": Call(_checked, lambda rng: _steps(rng) | {"folds": 2, "confidence": 0.9}, anything, 0.002, ("folds",)),
    "StateMap": Call(
        _mapped,
        lambda rng: {
            "x": rng.random(20),
            "y": rng.random(20),
            "reward": rng.random(20),
            "action": ["a", "b"] * 10,
            "method": str(rng.choice(["tree", "quantiles", "clusters"])),
            "n_states": 4,
            "min_rows": 2,
        },
        anything,
        0.02,
        ("n_states",),
    ),
}


# -- agents, environments and simulations ------------------------------------------------------------------


def _agent(kind: Any) -> Any:
    def call(reward: Any, discount: Any, alpha: Any, state: Any, action: Any, next_state: Any, **options: Any) -> Any:
        agent = kind(_model(reward, discount), alpha, rng=1, indices=True, **options)
        first = agent.act(state)
        agent.observe(state, action, next_state)
        return [first, agent.act(next_state)]

    return call


def _walk(rng: np.random.Generator) -> dict[str, Any]:
    return {"reward": rng.random((2, 2)), "discount": 0.9, "alpha": 0.5, "state": 0, "action": 1, "next_state": 1}


def _lake(p_h: Any, slip: Any, discount: Any) -> Any:
    problem = envs.frozen_lake(p_h, slip=slip, discount=discount)
    return problem.model.mdp(problem.theta).dense()


def _regret(given: dict[str, Any], found: Any) -> str:
    return "" if np.isfinite(found["regret"].values).all() else "not finite"


def _simulated(alpha: Any, reward: Any, discount: Any, theta: Any, **given: Any) -> Any:
    return pr.simulate((_model(reward, discount), theta), [pr.brps_rl(alpha)], rng=1, **given)


def _inventory(**given: Any) -> Any:
    problem = envs.inventory(**given)
    return problem.model.mdp(problem.theta).reward


def _actions(given: dict[str, Any], found: Any) -> str:
    """Require actions of the model, which may be more than two after its rewards were changed."""
    return between(0, np.shape(given["reward"])[1] - 1, found)


AGENTS = {
    "PosteriorSamplingAgent": Call(_agent(pr.PosteriorSamplingAgent), _walk, _actions, 0.15),
    "OptimisticVIAgent": Call(
        _agent(pr.OptimisticVIAgent),
        lambda rng: _walk(rng) | {"horizon": 10, "delta": 0.1},
        _actions,
        0.15,
        ("horizon",),
    ),
    "brps_rl": Call(
        lambda alpha, draws: pr.brps_rl(alpha, draws=draws), lambda rng: {"alpha": 0.5, "draws": 4}, anything, 0.3
    ),
    "BanditSettings": Call(
        bandits.BanditSettings,
        lambda rng: {"alpha": 0.5, "delta": 0.1, "min_propensity": 0.1, "first_pulls": 1, "exploration": 1.0},
        anything,
        0.3,
    ),
    "simulate": Call(
        _simulated,
        lambda rng: {
            "alpha": 0.5,
            "reward": rng.random((2, 2)),
            "discount": 0.9,
            "theta": rng.dirichlet([1.0, 1.0], 4),
            "episodes": 2,
            "replications": 2,
            "episode_length": 3,
        },
        _regret,
        0.03,
        ("episodes", "replications", "episode_length"),
    ),
    "simulate_bandit": Call(
        lambda n_arms, noise_sd, alpha: simulation.simulate_bandit(
            envs.gaussian_bandit(n_arms, noise_sd), [bandits.brps_cmab(alpha)], horizon=5, rng=1
        ),
        lambda rng: {"n_arms": 3, "noise_sd": 1.0, "alpha": 0.5},
        _regret,
        0.02,
        ("n_arms",),
    ),
    "frozen_lake": Call(
        _lake, lambda rng: {"p_h": 0.1, "slip": 0.25, "discount": 0.8}, lambda given, found: adds_up(found), 0.03
    ),
    "inventory": Call(
        _inventory,
        lambda rng: {"demand": [0.5, 0.5], "capacity": 3, "max_order": 2, "price": 4.0, "cost": 2.0, "discount": 0.9},
        finite,
        0.03,
        ("capacity", "max_order"),
    ),
    "river_swim": Call(
        lambda n_states, discount: envs.river_swim(n_states, discount=discount).theta,
        lambda rng: {"n_states": 4, "discount": 0.9},
        lambda given, found: adds_up(found),
        0.03,
        ("n_states",),
    ),
}

CALLS: dict[str, Call] = EXACT | THEORY | POSTERIORS | PLANNING | ANALYSIS | BANDITS | LOGS | AGENTS
