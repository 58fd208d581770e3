"""Public calls with arguments that nobody tuned: each ends in a finite result or in an exception or warning of ours.

``CALLS`` lists entry points with good arguments. A call replaces some of them by strange ones: numbers from 1e-320 to
1e308, NaN, strings, None, arrays of wrong shape. `make test-slow` makes 10^6 of them, the normal suite 2,000. The
seed of every call is printed when it fails: ``PRUDENT_TEST_SEED`` repeats the run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest

import prudent as pr
from prudent import exact, theory
from prudent.errors import PrudentError, PrudentWarning
from prudent.evaluation import confidence_sequence, off_policy

STRANGE = (
    *(0.0, 1.0, -1.0, 0.5, 1e-320, 1e-154, 1e-9, 1e9, 1e60, 1e154, 1e300, 1.7e308, -1e308),
    *(float("nan"), float("inf"), -float("inf"), 0, 1, -1, 3, 10**14, 10**30, -(10**30), True, None),
    *("", "a", "1", "0.5", "nan", b"x", (), [], {}, [1], [1, 2], [[1.0, 2.0]], [[1.0], [1.0, 2.0]], object, 1j),
)


class Call(NamedTuple):
    """An entry point, its good arguments, and what must be finite in its result."""

    function: Callable[..., Any]
    good: Callable[[np.random.Generator], dict[str, Any]]
    numbers: Callable[[Any], Any]


def _number(rng: np.random.Generator) -> float:
    return float(10.0 ** rng.uniform(-320, 308)) * float(rng.choice([-1.0, 1.0]))


def _strange(rng: np.random.Generator, good: Any) -> Any:
    """Return something else in place of a good argument."""
    kind = rng.integers(5)
    if isinstance(good, list) and isinstance(good[0], str):
        return [good[0], STRANGE[rng.integers(len(STRANGE))], *good[2:]] if kind > 2 else good[:-1]
    if kind == 0:
        return STRANGE[rng.integers(len(STRANGE))]
    if kind == 1:
        return _number(rng)
    if kind == 2 and isinstance(good, (list, np.ndarray)):  # of the same shape, with a strange entry
        array = np.array(good, dtype=float)
        array.reshape(-1)[rng.integers(array.size)] = rng.choice([np.nan, np.inf, _number(rng), -1.0, 0.0])
        return array
    if kind == 3 and isinstance(good, (list, np.ndarray)):
        with np.errstate(over="ignore"):
            return np.asarray(good, dtype=float) * abs(_number(rng))
    shape = tuple(rng.integers(0, 4, rng.integers(0, 4)).tolist())
    return rng.standard_normal(shape)


def _model(rng: np.random.Generator) -> Any:
    return pr.UncertainMDP.direct(rng.random((2, 2)), 0.9)


def _bandit_update(context: Any, arm: Any, reward: Any) -> Any:
    bandit = pr.LinearBandit(["a", "b"], dim=2, rng=1)
    bandit.update(context, arm, reward)
    return bandit.propensities([[0.5, 0.5]])


def _log_of(reward: Any, propensity: Any, arm: Any, target: Any, confidence: Any) -> Any:
    return off_policy({"arm": arm, "reward": reward, "propensity": propensity}, target, confidence=confidence)


def _normal(rng: np.random.Generator) -> dict[str, Any]:
    return {"mean": 0.3, "sd": 1.0, "alpha": 0.9}


def _dirichlet(rng: np.random.Generator) -> dict[str, Any]:
    return {"values": [0.0, 1.0, 3.0], "counts": [1.0, 2.0, 0.5], "alpha": 0.8}


def _rows(rng: np.random.Generator) -> dict[str, Any]:
    arms = ["a", "b"] * 10
    return {"reward": rng.random(20), "propensity": [0.5] * 20, "arm": arms, "target": "a", "confidence": 0.9}


def _known(transition: Any, reward: Any, discount: Any) -> Any:
    return pr.solve(pr.MDP(transition, reward, discount))


def _uncertain(reward: Any, counts: Any, alpha: Any) -> Any:
    return pr.BayesianRiskMDP(pr.UncertainMDP.direct(reward, 0.9), counts, alpha).solve()


CALLS: dict[str, Call] = {
    "cvar": Call(pr.cvar, lambda rng: {"draws": rng.random(7), "alpha": 0.5}, np.asarray),
    "sample_size": Call(pr.sample_size, lambda rng: {"alpha": 0.9}, np.asarray),
    "cvar_normal": Call(exact.cvar_normal, _normal, np.asarray),
    "cvar_clipped_normal": Call(exact.cvar_clipped_normal, _normal, np.asarray),
    "cvar_dirichlet": Call(exact.cvar_dirichlet, _dirichlet, np.asarray),
    "dirichlet_tail": Call(exact.dirichlet_tail, _dirichlet, lambda found: np.append(found.cvar, found.tail_means)),
    "dirichlet_quantile": Call(exact.dirichlet_quantile, _dirichlet, lambda found: found.var),
    "Dirichlet mean": Call(
        lambda counts: pr.DirichletPosterior(counts).mean(),
        lambda rng: {"counts": [[1.0, 2.0], [0.5, 3.0]]},
        np.asarray,
    ),
    "Dirichlet sample": Call(
        lambda counts, n: pr.DirichletPosterior(counts).sample(n, 0),
        lambda rng: {"counts": [[1.0, 2.0], [0.5, 3.0]], "n": 3},
        np.asarray,
    ),
    "solve": Call(
        _known,
        lambda rng: {"transition": np.full((2, 2, 2), 0.5), "reward": rng.random((2, 2)), "discount": 0.9},
        lambda found: found.value,
    ),
    "BayesianRiskMDP": Call(
        _uncertain,
        lambda rng: {"reward": rng.random((2, 2)), "counts": 1.0 + rng.random((4, 2)), "alpha": 0.7},
        lambda found: found.value,
    ),
    "LinearBandit.update": Call(
        _bandit_update, lambda rng: {"context": [0.2, 0.4], "arm": "a", "reward": 1.0}, np.asarray
    ),
    "off_policy": Call(_log_of, _rows, lambda found: found.table[["estimate", "ess"]].loc[["ips", "dr"]]),
    "confidence_sequence": Call(
        confidence_sequence,
        lambda rng: {"values": rng.random(3), "value_range": [0.0, 1.0], "confidence": 0.9},
        np.asarray,
    ),
    "br_regret_bound": Call(
        theory.br_regret_bound, lambda rng: {"T": 100, "K": 3, "d": 2, "alpha": 0.5, "nu": 1.0}, np.asarray
    ),
    "regret_bound": Call(
        theory.regret_bound, lambda rng: {"T": 100, "K": 3, "d": 2, "alpha": 0.5, "delta": 0.1}, np.asarray
    ),
}
WEIGHTS = {
    "solve": 0.2,
    "BayesianRiskMDP": 0.1,
    "off_policy": 0.1,
    "confidence_sequence": 0.2,
    "LinearBandit.update": 0.2,
}


def one_call(seed: int, number: int) -> str | None:
    """Make one call; return what is wrong with how it ended, or None."""
    rng = np.random.default_rng([seed, number])
    chances = np.array([WEIGHTS.get(name, 1.0) for name in CALLS])
    name = list(CALLS)[rng.choice(chances.size, p=chances / chances.sum())]
    call = CALLS[name]
    given = call.good(rng)
    for key in given:
        if rng.random() < 0.4:
            given[key] = _strange(rng, given[key])
    try:
        found = call.function(**given)
    except (PrudentError, PrudentWarning):
        return None
    except Exception as error:  # anything else is a fault of ours
        return f"call {number}: {name}({given!r}) raised {error!r}"
    if not np.isfinite(np.asarray(call.numbers(found), dtype=np.float64)).all():
        return f"call {number}: {name}({given!r}) returned {found!r}"
    return None


def faults(seed: int, begin: int, end: int) -> list[str]:
    """Return what is wrong with the calls of a range; warnings that are not ours are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [fault for number in range(begin, end) if (fault := one_call(seed, number)) is not None]


def test_strange_arguments_end_in_our_exceptions(seed):
    found = faults(seed, 0, 2_000)
    assert not found, f"{len(found)} faults with seed {seed}\n" + "\n".join(found[:20])


def test_strange_arguments_in_threads(seed):
    """Warnings filters belong to the process, so that only exceptions are judged here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ThreadPoolExecutor(4) as pool:
            found = [fault for fault in pool.map(one_call, [seed] * 300, range(300)) if fault is not None]
    assert not found, f"{len(found)} faults with seed {seed}\n" + "\n".join(found[:20])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_a_million_strange_calls(part, seed):
    print(f"calls {part * 10_000} to {(part + 1) * 10_000} with seed {seed}")
    found = faults(seed, part * 10_000, (part + 1) * 10_000)
    assert not found, f"{len(found)} faults with seed {seed}\n" + "\n".join(found[:20])
