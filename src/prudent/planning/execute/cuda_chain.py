"""The value of a Markov chain on the GPU: the driver of ``prudent.planning.chain`` over kernel launches.

Kernels take arrays in tuples, see ``prudent._numerics.gpu``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..._numerics.compile import kernel
from ..._numerics.gpu import (
    BLOCKS,
    Vector,
    allocate,
    cuda,
    extremes,
    grid_for,
    higher,
    lower,
    on_device,
    range_in_block,
    sum_in_block,
    sums,
)
from ..chain import MAX_PRODUCTS, bicgstab


class GpuChain(NamedTuple):
    """A chain on the GPU, the rows of its transition matrix padded to one length with probabilities of zero."""

    indices: Any  # [L, S]
    data: Any  # [L, S]
    reward: Any  # [S]

    def with_reward(self, reward: Vector) -> GpuChain:
        """Return the chain with another reward [S]."""
        return self._replace(reward=reward.data)

    def values(self, discount: float, guess: Vector, target: float, conservative: bool) -> Vector:
        """Return the values of the chain, or ``guess`` where they are not finite."""
        answer, n = guess.copy(), guess.size
        work = _Work(grid_for(n), *(allocate(n) for _ in range(5)), *(allocate((BLOCKS, 2)) for _ in range(2)))
        _drive(self, discount, answer.data, target, conservative, MAX_PRODUCTS, work)
        return answer if math.isfinite(answer.min() + answer.max()) else guess


class _Work(NamedTuple):
    """The launch grid, the vectors of BiCGStab, and room for the parts of two reductions."""

    grid: tuple[int, int]
    r: Any
    t: Any
    v: Any
    p: Any
    shadow: Any
    part: Any
    sizes: Any


def _sweep(chain: GpuChain, discount: float, x: Any, work: _Work) -> tuple[float, float]:
    _write_residual[work.grid]((*chain, x, work.r, work.part), discount)
    return extremes(work.part, work.grid)


def _step(x: Any, work: _Work) -> None:
    _add[work.grid]((x, work.r), 1.0)


def _begin(work: _Work) -> float:
    _clear[work.grid]((work.r, work.shadow, work.p, work.v, work.part))
    return sums(work.part, work.grid)[0]


def _aim(chain: GpuChain, discount: float, beta: float, omega: float, work: _Work) -> float:
    _turn[work.grid]((work.r, work.v, work.p), beta, omega)
    _product[work.grid]((chain.indices, chain.data, work.p, work.shadow, work.v, work.part), discount)
    return sums(work.part, work.grid)[0]


def _apply(chain: GpuChain, discount: float, alpha: float, work: _Work) -> tuple[float, float]:
    _add[work.grid]((work.r, work.v), -alpha)
    _product[work.grid]((chain.indices, chain.data, work.r, work.r, work.t, work.part), discount)
    return sums(work.part, work.grid)


def _move(x: Any, alpha: float, omega: float, work: _Work) -> tuple[float, float]:
    _both_steps[work.grid]((x, work.p, work.r, work.t, work.shadow, work.part, work.sizes), alpha, omega)
    low, high = extremes(work.sizes, work.grid)
    return sums(work.part, work.grid)[0], max(abs(low), abs(high))


_drive = bicgstab(_sweep, _step, _begin, _aim, _apply, _move)


@kernel
def _expect(indices: Any, data: Any, x: Any, s: Any) -> Any:
    """Return entry s of P x."""
    total = 0.0
    for k in range(data.shape[0]):
        total += data[k, s] * x[indices[k, s]]
    return total


@on_device
def _write_residual(arrays: Any, discount: Any) -> None:
    """Write reward + gamma P x - x into r, and its extremes into ``part``."""
    indices, data, reward, x, r, part = arrays
    low, high = math.inf, -math.inf
    for s in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        r[s] = reward[s] + discount * _expect(indices, data, x, s) - x[s]
        low, high = lower(low, r[s]), higher(high, r[s])
    range_in_block(low, high, part)


@on_device
def _add(arrays: Any, factor: Any) -> None:
    """Add ``factor`` times r to x."""
    x, r = arrays
    for s in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[s] += factor * r[s]


@on_device
def _clear(arrays: Any) -> None:
    """Copy r into ``shadow``, set p and v to zero; the product of r with itself goes into ``part``."""
    r, shadow, p, v, part = arrays
    square = 0.0
    for s in range(cuda.grid(1), r.size, cuda.gridsize(1)):
        shadow[s] = r[s]
        p[s], v[s] = 0.0, 0.0
        square += r[s] * r[s]
    sum_in_block(square, 0.0, part)


@on_device
def _turn(arrays: Any, beta: Any, omega: Any) -> None:
    r, v, p = arrays
    for s in range(cuda.grid(1), p.size, cuda.gridsize(1)):
        p[s] = r[s] + beta * (p[s] - omega * v[s])


@on_device
def _product(arrays: Any, discount: Any) -> None:
    """Write p - gamma P p into v, and the products of v with ``other`` and with itself into ``part``."""
    indices, data, p, other, v, part = arrays
    along, square = 0.0, 0.0
    for s in range(cuda.grid(1), p.size, cuda.gridsize(1)):
        v[s] = p[s] - discount * _expect(indices, data, p, s)
        along += other[s] * v[s]
        square += v[s] * v[s]
    sum_in_block(along, square, part)


@on_device
def _both_steps(arrays: Any, alpha: Any, omega: Any) -> None:
    """Take both steps of BiCGStab; the product of the new r with ``shadow``, and the extremes of r, go into parts."""
    x, p, r, t, shadow, part, sizes = arrays
    along = 0.0
    low, high = math.inf, -math.inf
    for s in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[s] += alpha * p[s] + omega * r[s]
        r[s] -= omega * t[s]
        along += shadow[s] * r[s]
        low, high = lower(low, r[s]), higher(high, r[s])
    sum_in_block(along, 0.0, part)
    cuda.syncthreads()
    range_in_block(low, high, sizes)
