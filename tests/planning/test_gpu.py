"""Solves on a GPU against the same on the CPU.

Tests marked ``gpu`` need a GPU (``make test-gpu``) or Numba's simulator, under which the first test runs them.
"""

import os
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError

SIMULATED = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


def test_under_the_simulator():
    if SIMULATED:
        pytest.skip("this is the simulator")
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", __file__]
    done = subprocess.run(call, env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_gpu_it_is_said_what_is_missing():
    code = """
import prudent as pr
try:
    pr.solve(pr.MDP([[[1.0]]], [[1.0]], 0.5), device="gpu")
except pr.errors.ParameterError as error:
    print(error)
"""
    env = {name: text for name, text in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    if "prudent[gpu]" not in done.stdout and "no GPU that CUDA can use" not in done.stdout:
        assert (done.returncode, done.stdout) == (0, ""), done.stderr  # there is one


def test_devices_are_cpu_and_gpu():
    with refused(ParameterError, "unknown-option", argument="device", value="tpu"):
        pr.solve(pr.MDP([[[1.0]]], [[1.0]], 0.5), device="tpu")


# -- on a GPU, or under the simulator ----------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quick_simulator():
    """The simulator polls its threads: let them run."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5 if SIMULATED else before)
    yield
    sys.setswitchinterval(before)


def alike(solve):
    """Solve on both; values agree to the two certificates. The simulator is slow: few digits are enough there."""
    tol = 1e-4 if SIMULATED else None
    here, there = solve(device="cpu", tol=tol), solve(device="gpu", tol=tol)
    assert there.converged
    gap = abs(here.value - there.value).max()
    assert gap <= here.error_bound + there.error_bound
    if not SIMULATED:
        assert (here.policy == there.policy).all()
    np.testing.assert_allclose(there.q, here.q, atol=10.0 * (here.error_bound + there.error_bound), rtol=0.0)


def model_of(rng, n_states, n_actions, most, discount=0.9, terminal=False):
    """A model with ragged rows; some pairs are not admissible, some outcomes end the process."""
    rows = []
    for s in range(n_states):
        for a in range(n_actions):
            if a > 0 and rng.random() < 0.2:
                continue
            for k in range(rng.integers(1, most + 1)):
                end = terminal and k == 0 and rng.random() < 0.3
                rows.append((s, a, n_states if end else rng.integers(n_states), rng.random()))
    # every state is arrived at
    rows += [(rng.integers(n_states), 0, s, rng.random()) for s in range(n_states)]
    table = {(s, a, t): r for s, a, t, r in rows}
    frame = {
        "state": [s for s, _, _ in table],
        "action": [a for _, a, _ in table],
        "next_state": [t for _, _, t in table],
        "reward": list(table.values()),
    }
    log = dict(frame, count=rng.integers(1, 20, len(table)).tolist())
    return pr.from_log(log, discount, terminal={n_states: 5.0} if terminal else None)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(1 if SIMULATED else 40))
def test_a_known_model(seed):
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(3, 12 if SIMULATED else 5_000))
    model, posterior = model_of(rng, n_states, 3, 4, discount=rng.choice([0.5, 0.9, 0.99]))
    mdp = model.mdp(posterior.mean())
    alike(partial(pr.solve, mdp))
    alike(partial(pr.evaluate, mdp, np.zeros(mdp.n_states, int)))
    if not SIMULATED:
        alike(partial(pr.solve, mdp, method="value_iteration"))
    swept = [pr.solve(mdp, sweeps=3, device=device).value for device in ("cpu", "gpu")]
    np.testing.assert_allclose(*swept, rtol=1e-12)


@pytest.mark.gpu
@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("seed", range(1 if SIMULATED else 40))
def test_exact_risk(seed, terminal):
    rng = np.random.default_rng(100 + seed)
    n_states = int(rng.integers(3, 8 if SIMULATED else 3_000))
    model, posterior = model_of(rng, n_states, 3, 6 if SIMULATED or seed % 3 else 30, terminal=terminal)
    cautious = pr.MeanCVaR(0.9, weight=0.3)
    for risk in (
        (cautious,) if SIMULATED else (pr.CVaR(0.1), pr.CVaR(0.9), pr.CVaR(0.99), pr.CVaR(-0.8), pr.VaR(0.7), cautious)
    ):
        problem = pr.BayesianRiskMDP(model, posterior, risk=risk)
        alike(problem.solve)
        if not SIMULATED or not terminal:
            alike(partial(problem.evaluate, np.zeros(model.n_states, int)))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(1 if SIMULATED else 20))
@pytest.mark.parametrize("rewards", [False, True])
def test_sampled_risk(seed, rewards):
    rng = np.random.default_rng(200 + seed)
    n_states = int(rng.integers(3, 6 if SIMULATED else 1_000))
    model, posterior = model_of(rng, n_states, 2, 4, terminal=bool(seed % 2))
    unknown = None
    if rewards:
        unknown = pr.posteriors.NormalPosterior(np.zeros((model.n_states, model.n_actions)), 1.0, 1.0)
    for risk in (
        (pr.CVaR(-0.7),) if SIMULATED else (pr.CVaR(-0.7), pr.CVaR(0.7), pr.CVaR(0.0), pr.CVaR(0.99), pr.VaR(0.5))
    ):
        problem = pr.BayesianRiskMDP(model, posterior, risk=risk, reward_posterior=unknown)
        draws = 20 if SIMULATED else int(rng.integers(2, 500))
        alike(partial(problem.solve, draws, rng=1))


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(1 if SIMULATED else 20))
def test_robust_sets(seed):
    rng = np.random.default_rng(300 + seed)
    n_states = int(rng.integers(3, 6 if SIMULATED else 3_000))
    model, posterior = model_of(rng, n_states, 2, 4 if SIMULATED or seed % 3 else 30, terminal=bool(seed % 2))
    weights = rng.random(posterior.counts.shape) + 0.1
    for optimistic in (False, True):
        for ball in (pr.L1Ball(0.3, centre=posterior), pr.L1Ball(0.3, weights, posterior)):
            alike(pr.planning.RobustMDP(model, ball, optimistic=optimistic).solve)
        alike(pr.IntervalMDP.credible(model, posterior, 0.9, joint=False, optimistic=optimistic).solve)


@pytest.mark.gpu
def test_an_average_reward():
    rng = np.random.default_rng(4)
    n_states = 4 if SIMULATED else 3_000
    model, posterior = model_of(rng, n_states, 2, 3)
    mdp = model.mdp(posterior.mean())
    tol = 1e-3 if SIMULATED else 1e-9
    for solve in (
        partial(pr.solve, mdp),
        pr.BayesianRiskMDP(model, posterior, 0.5).solve,
        partial(pr.evaluate, mdp, np.zeros(n_states, int)),
    ):
        here, there = (solve(objective="average", device=device, tol=tol) for device in ("cpu", "gpu"))
        assert there.converged
        assert abs(here.value - there.value).max() <= here.error_bound + there.error_bound


@pytest.mark.gpu
def test_what_a_gpu_does_not_do_is_said():
    mdp = pr.MDP([[[1.0], [1.0]]], [[1.0, 2.0]], 0.5)
    with refused(ParameterError, "gpu-stochastic-policy", argument="policy"):
        pr.evaluate(mdp, [[0.5, 0.5]], device="gpu")


@pytest.mark.gpu
def test_reductions_go_over_many_threads():
    from prudent._numerics import gpu

    numbers = np.random.default_rng(1).normal(size=1_001 if SIMULATED else 3_000_001)
    before = gpu.THREADS, gpu.BLOCKS
    try:
        if SIMULATED:  # this module alone: safe with several threads there
            gpu.THREADS, gpu.BLOCKS = 4, 2
        there = gpu.Vector(gpu.upload(numbers))
        assert (there.min(), there.max(), abs(there).max()) == (numbers.min(), numbers.max(), abs(numbers).max())
        assert (np.asarray(there + 1.5) == numbers + 1.5).all()
        assert (np.asarray(there - there) == 0.0).all()
        assert np.isnan(gpu.Vector(gpu.upload(np.append(numbers, np.nan))).max())
        for place in (0, numbers.size // 2):  # whatever comes after it
            numbers[place] = np.nan
            there = gpu.Vector(gpu.upload(numbers))
            assert np.isnan(there.min())
            assert np.isnan(there.max())
            numbers[place] = 0.0
    finally:
        gpu.THREADS, gpu.BLOCKS = before
