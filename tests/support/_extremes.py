"""Fuzzed lives of bandits with numbers from 1e-300 to 1e300: ``_extremes.py SEED SEQUENCES [WORKERS [FAULTS]]``.

A life makes a bandit of any law, decides, learns, forgets, merges, adds and removes arms, with contexts and rewards on
wild scales. Every call must end in finite numbers or in an error of prudent, after which the state is bit for bit what
it was. Every state must load and be the same. FAULTS is a file to which a line of JSON is added for each failure, with
the seed of its life.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
import warnings
from contextlib import nullcontext, suppress
from multiprocessing import get_context

import numpy as np

from prudent.bandits import BanditSettings, Decay, LinearBandit, SharedLinearBandit, SparseLinearBandit
from prudent.errors import PrudentError, PrudentWarning

STEPS = 8


def scale(rng):
    """Return how large numbers are: ordinary, wild, or near where something overflows."""
    lot = rng.random()
    if lot < 0.3:
        return 1.0
    if lot < 0.5:
        return 10.0 ** rng.integers(-8, 16)
    return 10.0 ** (rng.uniform(-300, 300) if lot < 0.7 else rng.uniform(40, 160) if lot < 0.9 else rng.uniform(0, 60))


def numbers(rng, shape):
    """Return numbers on one scale, on one per column or per row, or large ones in half of the rows."""
    found = rng.normal(size=shape) if rng.random() < 0.7 else np.abs(rng.normal(size=shape)) + 1.0
    kind = rng.integers(4)
    if kind == 0 or not found.size:
        return found * scale(rng)
    if kind == 1:
        return found * np.array([scale(rng) for _ in range(shape[-1])])
    rows = (
        np.array([scale(rng) for _ in range(shape[0])])
        if kind == 2
        else np.where(rng.random(shape[0]) < 0.5, scale(rng), 1.0)
    )
    return found * rows.reshape(-1, *(1,) * (len(shape) - 1))


def made(rng):
    """Return a bandit of any kind."""
    kind = str(rng.choice(["gaussian", "gaussian", "bernoulli", "poisson"]))
    dim = int(rng.choice([1, 2, 3, 5, 66], p=[0.2, 0.3, 0.25, 0.23, 0.02]))
    options = {"rewards": kind, "intercept": bool(rng.random() < 0.7), "rng": int(rng.integers(2**31))}
    options["alpha"] = [0.0, 0.5, 0.9, -0.5, 0.3, Decay(0.9, half=2)][rng.integers(6)]
    if rng.random() < 0.2:
        options["half_life"] = float(rng.choice([1.0, 3.0, 100.0]))
    if rng.random() < 0.2:
        options["min_propensity"] = 0.05
    if rng.random() < 0.25:
        options["prior_precision"] = 10.0 ** rng.uniform(-6, 6)
    if kind == "gaussian" and rng.random() < 0.4:
        options["noise_sd"] = 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.5:
        options["draws"] = str(rng.choice(["independent", "joint"]))
        if kind == "gaussian" and rng.random() < 0.5:
            options["offsets"] = True
        return SharedLinearBandit(dim, **options)
    if kind == "bernoulli" and options["intercept"] and rng.random() < 0.3:
        dim = 0
        options.pop("prior_precision", None)
    elif kind == "gaussian" and "noise_sd" not in options and rng.random() < 0.3:
        options |= {"noise": "by arm", "alpha": [0.0, 0.5, -0.5][rng.integers(3)]}
    elif kind == "gaussian" and "noise_sd" in options and rng.random() < 0.2:
        options["settings"] = BanditSettings(0.5, clip=True)
        del options["alpha"]
    if rng.random() < 0.2:
        options["first_pulls"] = 1
    return LinearBandit(["a", "b", "c"], dim, **options)


def made_of_any_kind(rng):
    """Return a bandit of any kind, those among it that came later: revenue, interactions, many sparse features."""
    lot = rng.random()
    if lot < 0.6:
        return made(rng)
    dim = int(rng.choice([1, 2, 3, 5, 40], p=[0.2, 0.3, 0.2, 0.2, 0.1]))
    options = {"intercept": bool(rng.random() < 0.7), "rng": int(rng.integers(2**31))}
    options["alpha"] = [0.0, 0.5, 0.9, -0.5, 0.3, Decay(0.9, half=2)][rng.integers(6)]
    if rng.random() < 0.2:
        options["min_propensity"] = 0.05
    if rng.random() < 0.25:
        options["prior_precision"] = 10.0 ** rng.uniform(-6, 6)
    if rng.random() < 0.2:
        options["first_pulls"] = 1
    if lot < 0.75:
        if rng.random() < 0.2:
            options["half_life"] = float(rng.choice([1.0, 3.0, 100.0]))
        return LinearBandit(["a", "b", "c"], dim, rewards="hurdle", **options)
    if rng.random() < 0.4:
        options["noise_sd"] = 10.0 ** rng.uniform(-6, 6)
    if lot < 0.87:
        return SparseLinearBandit(["a", "b", "c"], dim, **options)
    return LinearBandit(["a", "b", "c"], dim, interactions="auto", **options)


def rewards(rng, kind, count):
    """Return rewards, most of them of the right kind."""
    if kind == "bernoulli":
        return rng.integers(0, 2, count).astype(float)
    if kind == "hurdle":
        return np.abs(numbers(rng, (count,))) * rng.integers(0, 2, count)
    if kind == "poisson":
        return np.floor(np.abs(numbers(rng, (count,)))) if rng.random() < 0.5 else rng.poisson(3.0, count).astype(float)
    return numbers(rng, (count,))


def finite(*arrays):
    for array in arrays:
        assert np.isfinite(array).all(), array


def step(bandit, past, rng):
    """Do one thing with a bandit; return a name for it and a function that does it."""
    items = isinstance(bandit, SharedLinearBandit)
    names = list("abcd") if items else list(bandit.arms)
    count = int(rng.integers(1, 6))
    points = numbers(rng, (count, bandit.dim)) if bandit.dim else np.empty((count, 0))
    lot = rng.random()
    if lot < 0.45:
        values, pulled = rewards(rng, bandit.reward_kind, count), [str(name) for name in rng.choice(names, count)]
        if rng.random() < 0.5:
            return "update", lambda: bandit.update(points[0], pulled[0], values[0])
        return "batch", lambda: bandit.update(points, pulled, values)
    if lot < 0.8:
        if items:
            points = numbers(rng, (4, bandit.dim))
        many = not items and rng.random() < 0.4

        def decide():
            decision = bandit.select(points if items or many else points[0], names if items else None)
            finite(decision.score)
            chances = decision.propensities
            finite(chances)
            assert np.abs(chances.sum(axis=-1) - 1.0).max() < 1e-6, chances
            assert (chances >= 0.0).all(), chances
            assert not np.isnan(decision.mean).any()
            assert not np.isnan(decision.sd).any()

        return "select", decide
    if lot < 0.86:
        factor = float(rng.choice([0.0, 1e-300, 1e-9, 0.5, 0.999]))
        return "forget", lambda: bandit.forget(factor)
    if lot < 0.92:
        other = past.copy()
        values = rewards(rng, bandit.reward_kind, count)
        with suppress(PrudentError):
            other.update(points, [str(name) for name in rng.choice(names if items else other.arms, count)], values)
        return "merge", lambda: bandit.merge(other, since=past)
    if lot < 0.96 and not items:
        fresh = f"new{rng.integers(10**9)}"
        return "add_arm", lambda: bandit.add_arm(fresh, **({"like": names[:2]} if rng.random() < 0.5 else {}))
    return "read", lambda: (bandit.to_xarray(), bandit.check(), bandit.copy())


def after_a_decision(bandit):
    """Return the state after one more decision: random numbers may be drawn ahead, which changes bytes alone."""
    same = type(bandit).from_bytes(bandit.to_bytes())
    items = isinstance(same, SharedLinearBandit)
    with suppress(PrudentError):
        same.select(np.zeros((1, same.dim)) if items else np.zeros(same.dim), ["a"] if items else None)
    return same.to_bytes()


def life(seed, make=made_of_any_kind):
    """Live one life; return the calls that were refused and those that were not."""
    rng = np.random.default_rng(seed)
    bandit = make(rng)
    past, done, said = bandit.copy(), [], [0, 0]
    for _ in range(STEPS):
        name, call = step(bandit, past, rng)
        before = bandit.to_bytes()
        done.append(name)
        try:
            call()
            said[0] += 1
        except PrudentError as error:
            said[1] += 1
            old = type(bandit).from_bytes(before)
            if bandit.to_bytes() != before and after_a_decision(bandit) != after_a_decision(old):
                raise AssertionError(f"{done}: refused with {error.code}, but something changed") from error
        except Exception as error:
            raise AssertionError(f"{done} of {bandit!r}: {type(error).__name__}: {error}") from error
        content = bandit.to_bytes()
        assert type(bandit).from_bytes(content).to_bytes() == content
    return said


def lives(seeds):
    """Live many lives; return counts and the failures."""
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", PrudentWarning)
    kept, refused, failures = 0, 0, []
    for seed in seeds:
        try:
            fine, not_so = life(seed)
        except BaseException:
            failures.append((seed, traceback.format_exc()))
            continue
        kept, refused = kept + fine, refused + not_so
    return kept, refused, failures


def main(seed, sequences, workers=1, faults_to=""):
    """Print what happened, and the seed of every failure."""
    clock, said, done = time.monotonic(), 0, 0
    seeds = [seed * 10**7 + i for i in range(sequences)]
    chunks = [seeds[i : i + 200] for i in range(0, sequences, 200)]
    kept, refused, failures = 0, 0, []
    with get_context("spawn").Pool(workers) if workers > 1 else nullcontext() as pool:
        for fine, not_so, wrong in map(lives, chunks) if pool is None else pool.imap_unordered(lives, chunks):
            kept, refused, failures, done = kept + fine, refused + not_so, failures + wrong, done + 200
            for which, text in wrong:
                print(f"life {which}: {text}", file=sys.stderr, flush=True)
                if faults_to:
                    with open(faults_to, "a") as file:
                        print(json.dumps({"life": which, "fault": text}), file=file)
            if done - said >= 5_000:
                said = done
                print(f"{done} lives, {len(failures)} failures, {time.monotonic() - clock:.0f} s", flush=True)
    print(f"seed {seed}: {sequences} lives, {kept} calls, {refused} refused, {len(failures)} failures")
    return len(failures)


if __name__ == "__main__":
    raise SystemExit(min(1, main(*map(int, sys.argv[1:4]), *sys.argv[4:])))
