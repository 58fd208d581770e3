"""One GPU: certified solves of large models, transfers included, and sweeps against the speed of memory.

``make bench-gpu``, on a machine with an NVIDIA GPU. Each solve is done once before it is timed, on a small model of the
same shape, which compiles its kernels; the model is made before that and is not part of the time. ``--small`` leaves
out the largest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import prudent as pr
from prudent._numerics import gpu
from prudent._numerics.gpu import Vector, allocate, cuda, upload
from prudent.planning.execute.cuda import Cuda
from prudent.planning.row_risks import MeanRows

from ._problems import large_problem
from ._timing import Row


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds that ``work`` takes, and its result."""
    cuda.synchronize()
    began = time.perf_counter()
    result = work()
    cuda.synchronize()
    return time.perf_counter() - began, result


def said(text: str) -> None:
    """Say what is under way."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def exact(n_states: int, limit: float, compare: bool = False) -> Row:
    """Solve the large problem of ``benchmarks core`` to ten digits."""
    said(f"making the exact problem with {n_states:,} states")
    problem = large_problem(n_states)
    said("solving")
    seconds, solution = timed(lambda: problem.solve(device="gpu"))
    digits = solution.error_bound / abs(solution.value).max()
    pairs = n_states * 10 * solution.iterations / seconds
    note = f"{solution.iterations} backups, error {digits:.1e} of the largest value, {pairs / 1e6:.0f} M pairs/s"
    met = solution.converged and digits <= 1e-10 and seconds <= limit
    other = limit
    if compare:
        said("the same on the CPU")
        problem.solve()
        other, here = timed(problem.solve)
        gap = abs(here.value - solution.value).max()
        met &= gap <= here.error_bound + solution.error_bound
        note += f"; the CPU with all cores: {other:.2f} s, gap {gap:.1e}"
    return Row(f"exact, {n_states:,} x 10 x 5, alpha 0.9: within {limit:g} s", seconds, other, "as said", met, note)


def known_model(n_states: int, n_actions: int, near: bool) -> pr.MDP:
    """Return a model with five next states a pair: close by, or anywhere."""
    rng = np.random.default_rng(5)
    n_pairs = n_states * n_actions
    indices = rng.integers(0, 2_000 if near else n_states, (n_pairs, 5), dtype=np.int32)
    if near:
        indices += (np.arange(n_pairs, dtype=np.int64) // n_actions).astype(np.int32)[:, None]
        indices %= n_states
    data = rng.random((n_pairs, 5))
    data /= data.sum(axis=1, keepdims=True)
    rows = sparse.csr_array(
        (data.reshape(-1), indices.reshape(-1), np.arange(0, 5 * n_pairs + 1, 5)), shape=(n_pairs, n_states)
    )
    return pr.MDP(rows, rng.random((n_states, n_actions)), 0.99)


def known(n_states: int, n_actions: int, limit: float) -> list[Row]:
    """Solve a known model to ten digits, and time its sweeps against a copy of the same bytes."""
    rows = []
    for near in (True, False):
        where = "close by" if near else "anywhere"
        said(f"making the known model, next states {where}")
        mdp = known_model(n_states, n_actions, near)
        said("solving")
        seconds, solution = timed(lambda mdp=mdp: pr.solve(mdp, device="gpu"))
        digits = solution.error_bound / abs(solution.value).max()
        met = solution.converged and digits <= 1e-10 and seconds <= limit
        note = f"{solution.iterations} backups, error {digits:.1e} of the largest value; a T4 took 135 s at this size"
        name = f"known, {n_states:,} x {n_actions} x 5, {where}"
        rows.append(Row(f"{name}: within {limit:g} s", seconds, limit, "as said", met, note))
        operator: Any = Cuda(MeanRows(mdp.transition, mdp.reward, mdp.discount, mdp.leaks))
        value = operator.vector(solution.value)
        sweep = min(timed(lambda o=operator, v=value: o.device.sweep(v))[0] for _ in range(5))
        bytes_read = mdp.transition.nnz * 12 + n_states * n_actions * 8
        copy = copy_time(bytes_read // 2)
        rows.append(
            Row(
                f"{name}: a sweep against a copy that moves as much",
                sweep,
                copy,
                "ratio >= 0.5" if near else "for the record: sectors of the cache are the limit",
                copy >= 0.5 * sweep or not near,
                f"{bytes_read / sweep / 1e12:.2f} TB/s of {bytes_read / copy / 1e12:.2f}",
            )
        )
        del operator, mdp
    return rows


def copy_time(n_bytes: int) -> float:
    """Return the time to copy so many bytes on the GPU."""
    n = n_bytes // 8
    there, to = Vector(allocate(n)), Vector(allocate(n))
    grid = gpu.grid_for(n)
    return min(timed(lambda: gpu._combine[grid]((there.data, there.data, to.data), 0.0, 0.0))[0] for _ in range(5))


def sampled(n_states: int, draws: int) -> Row:
    """Solve the large problem with posterior draws."""
    problem = large_problem(n_states)
    seconds, solution = timed(lambda: problem.solve(draws, rng=1, device="gpu"))
    problem.solve(draws, rng=1)
    other, here = timed(lambda: problem.solve(draws, rng=1))
    gap = abs(here.value - solution.value).max()
    met = gap <= here.error_bound + solution.error_bound
    return Row(f"{draws} draws, {n_states:,} x 10 x 5: the CPU", seconds, other, "same values", met, f"gap {gap:.1e}")


def run() -> list[Row]:
    """Return the rows of the table; see the module."""
    small = "--small" in sys.argv
    said(f"{cuda.get_current_device().name}; compiling")
    began = time.perf_counter()
    little = large_problem(100)
    little.solve(device="gpu")
    little.solve(10, rng=1, device="gpu")
    pr.solve(known_model(100, 105, False), device="gpu")
    upload(np.zeros(1))
    said(f"compiled in {time.perf_counter() - began:.0f} s")
    rows = [exact(100_000, 1.0, compare=True), exact(1_000_000, 5.0), sampled(20_000, 100)]
    if not small:
        rows += [*known(1_157_625, 105, 10.0), exact(10_000_000, 60.0)]
    return rows
