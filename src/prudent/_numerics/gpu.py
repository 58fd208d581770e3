"""Vectors on a GPU: sums, extremes, and the values of a Markov chain.

Kernels here are those of CUDA through Numba. Reductions are done in two steps of fixed shape, so that the same numbers
give the same result every time. Under Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) all of it runs without a GPU, very
slowly: that is for tests. There "on the GPU" are NumPy arrays, and kernels take arrays in tuples, which the simulator
leaves alone: compiled functions of ours can then be called from kernels as they are on a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba import config

from .._support.checks import FloatArray
from ..errors import ParameterError
from .compile import kernel, source_stamp
from .krylov import CAP, FAST

SIMULATED = bool(config.ENABLE_CUDASIM)


def _load() -> Any:
    """Return Numba's CUDA, or say what is missing."""
    if not SIMULATED and importlib.util.find_spec("numba_cuda") is None:
        raise ParameterError('device="gpu" needs numba-cuda, which is not installed: pip install "prudent[gpu]"')
    try:
        from numba import cuda
    except Exception as error:  # numba-cuda 0.30 uses what NumPy 2.5 no longer has
        raise ParameterError(
            f'device="gpu": numba-cuda does not load with NumPy {np.__version__} ({error}); pip install "prudent[gpu]" '
            "chooses versions that work together"
        ) from None
    if not cuda.is_available():
        raise ParameterError(f'device="gpu" finds no GPU that CUDA can use: {_fault(cuda)}')
    if not SIMULATED:  # small models leave most of a GPU idle, which is no news
        settings: Any = importlib.import_module("numba.cuda.core.config")
        settings.CUDA_LOW_OCCUPANCY_WARNINGS = 0
    return cuda


def _fault(cuda: Any) -> str:
    try:
        cuda.current_context()
    except Exception as error:
        return " ".join(str(error).split())
    return "CUDA does not say why"


cuda = _load()


def on_device(function: Any) -> Any:
    """Compile a kernel of the GPU on first launch; keep it on disk as long as nothing that it is made of changes."""
    compiled = cuda.jit(function)
    if not SIMULATED:
        try:
            compiled.enable_caching()
            # Numba looks only at the file of the kernel itself, and most of it comes from others
            compiled._cache._cache_file._source_stamp = source_stamp(Path(function.__code__.co_filename))
        except (AttributeError, RuntimeError):  # another Numba, or no folder that may be written
            compiled = cuda.jit(function)
    return compiled


THREADS = 1 if SIMULATED else 256  # in a block; the simulator is not safe with more across modules
BLOCKS = 1 if SIMULATED else 1056  # the most that share a reduction

__all__ = [
    "BLOCKS",
    "SIMULATED",
    "Rows",
    "Vector",
    "allocate",
    "chain_values",
    "cuda",
    "download",
    "grid_for",
    "on_device",
    "range_in_block",
    "sum_in_block",
    "upload",
]


def upload(array: npt.NDArray[Any]) -> Any:
    """Return a copy of an array on the GPU."""
    return np.array(array, order="C") if SIMULATED else cuda.to_device(np.ascontiguousarray(array))


def download(array: Any) -> npt.NDArray[Any]:
    """Return a copy of an array on the GPU here."""
    return np.array(array) if SIMULATED else array.copy_to_host()


def allocate(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Return an array on the GPU with nothing in it yet."""
    return np.empty(shape, dtype) if SIMULATED else cuda.device_array(shape, dtype)


def grid_for(n: int, threads: int = THREADS) -> tuple[int, int]:
    """Return the blocks and threads of a launch whose threads share n things between them, see ``cuda.gridsize``."""
    return (BLOCKS, THREADS) if SIMULATED else (max(1, min(BLOCKS * THREADS // threads, -(-n // threads))), threads)


class Vector:
    """A vector [n] on the GPU, with the few operations that solvers use; ``np.asarray`` brings it back."""

    __slots__ = ("_extremes", "data")

    def __init__(self, data: Any) -> None:
        """``data`` [n] is on the GPU."""
        self.data = data
        self._extremes: tuple[float, float] | None = None

    @classmethod
    def empty(cls, n: int) -> Vector:
        """Return a vector with nothing in it yet."""
        return cls(allocate(n))

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return int(self.data.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.asarray(download(self.data), dtype=dtype)

    def _with(self, factor: float, other: Vector | None, shift: float) -> Vector:
        out = Vector.empty(self.size)
        added = self.data if other is None else other.data
        _combine[grid_for(self.size)]((self.data, added, out.data), factor, shift)
        return out

    def __add__(self, other: Vector | float) -> Vector:
        return self._with(1.0, other, 0.0) if isinstance(other, Vector) else self._with(0.0, None, float(other))

    def __sub__(self, other: Vector) -> Vector:
        return self._with(-1.0, other, 0.0)

    def copy(self) -> Vector:
        """Return another vector with the same numbers."""
        return self._with(0.0, None, 0.0)

    def min(self) -> float:
        """Return the least."""
        return self._range()[0]

    def max(self) -> float:
        """Return the greatest."""
        return self._range()[1]

    def _range(self) -> tuple[float, float]:
        if self._extremes is None:  # vectors are not written to once they are read
            part = allocate((BLOCKS, 2))
            grid = grid_for(self.size)
            _ranges[grid]((self.data, part))
            found = download(part)[: grid[0]]
            self._extremes = float(found[:, 0].min()), float(found[:, 1].max())
        return self._extremes

    def __abs__(self) -> _Size:
        return _Size(self)


class _Size:
    """The absolute values of a vector, of which only the greatest is ever asked for."""

    def __init__(self, vector: Vector) -> None:
        self._vector = vector

    def max(self) -> float:
        low, high = self._vector._range()
        return max(abs(low), abs(high))


@on_device
def _combine(arrays: Any, factor: Any, shift: Any) -> None:
    a, b, out = arrays
    i = cuda.grid(1)
    while i < out.size:
        out[i] = a[i] + shift if factor == 0.0 else a[i] + factor * b[i] + shift
        i += cuda.gridsize(1)


# -- reductions --------------------------------------------------------------------------------------------


@kernel
def _lower(a: float, b: float) -> float:
    """Return the lower of two numbers; NaN goes through."""
    return a if a < b or a != a else b


@kernel
def _higher(a: float, b: float) -> float:
    """Return the higher of two numbers; NaN goes through."""
    return a if a > b or a != a else b


@cuda.jit(device=True)
def sum_in_block(x: Any, y: Any, part: Any) -> None:
    """Write the sums of x and of y over the threads of a block into its row of ``part``."""
    xs = cuda.shared.array(THREADS, numba.float64)
    ys = cuda.shared.array(THREADS, numba.float64)
    me = cuda.threadIdx.x
    xs[me], ys[me] = x, y
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if me < half:
            xs[me] += xs[me + half]
            ys[me] += ys[me + half]
        cuda.syncthreads()
        half //= 2
    if me == 0:
        part[cuda.blockIdx.x, 0], part[cuda.blockIdx.x, 1] = xs[0], ys[0]


@cuda.jit(device=True)
def range_in_block(low: Any, high: Any, part: Any) -> None:
    """Write the least and the greatest over the threads of a block into its row of ``part``; NaN goes through."""
    lows = cuda.shared.array(THREADS, numba.float64)
    highs = cuda.shared.array(THREADS, numba.float64)
    me = cuda.threadIdx.x
    lows[me], highs[me] = low, high
    cuda.syncthreads()
    half = cuda.blockDim.x // 2
    while half > 0:
        if me < half:
            lows[me], highs[me] = _lower(lows[me], lows[me + half]), _higher(highs[me], highs[me + half])
        cuda.syncthreads()
        half //= 2
    if me == 0:
        part[cuda.blockIdx.x, 0], part[cuda.blockIdx.x, 1] = lows[0], highs[0]


@on_device
def _ranges(arrays: Any) -> None:
    a, part = arrays
    low, high = math.inf, -math.inf
    i = cuda.grid(1)
    while i < a.size:
        low, high = _lower(low, a[i]), _higher(high, a[i])
        i += cuda.gridsize(1)
    range_in_block(low, high, part)


# -- chains ------------------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """The transition matrix of a chain, its rows padded to one length with probabilities of zero."""

    indices: Any  # [L, S]
    data: Any  # [L, S]
    reward: Any  # [S]


@kernel
def _expect(indices: Any, data: Any, x: Any, s: Any) -> Any:
    """Return entry s of P x."""
    total = 0.0
    for k in range(data.shape[0]):
        total += data[k, s] * x[indices[k, s]]
    return total


@on_device
def _sweep(arrays: Any, discount: Any) -> None:
    """Write reward + gamma P x - x into r, and its extremes into ``part``."""
    indices, data, reward, x, r, part = arrays
    low, high = math.inf, -math.inf
    s = cuda.grid(1)
    while s < x.size:
        r[s] = reward[s] + discount * _expect(indices, data, x, s) - x[s]
        low, high = _lower(low, r[s]), _higher(high, r[s])
        s += cuda.gridsize(1)
    range_in_block(low, high, part)


@on_device
def _step(arrays: Any) -> None:
    x, r = arrays
    s = cuda.grid(1)
    while s < x.size:
        x[s] += r[s]
        s += cuda.gridsize(1)


@on_device
def _aim(arrays: Any, beta: Any, omega: Any) -> None:
    r, v, p = arrays
    s = cuda.grid(1)
    while s < p.size:
        p[s] = r[s] + beta * (p[s] - omega * v[s])
        s += cuda.gridsize(1)


@on_device
def _apply(arrays: Any, discount: Any) -> None:
    """Write p - gamma P p into v, and the products of v with ``with_`` and with itself into ``part``."""
    indices, data, p, with_, v, part = arrays
    along, square = 0.0, 0.0
    s = cuda.grid(1)
    while s < p.size:
        v[s] = p[s] - discount * _expect(indices, data, p, s)
        along += with_[s] * v[s]
        square += v[s] * v[s]
        s += cuda.gridsize(1)
    sum_in_block(along, square, part)


@on_device
def _take(arrays: Any, alpha: Any) -> None:
    r, v = arrays
    s = cuda.grid(1)
    while s < r.size:
        r[s] -= alpha * v[s]
        s += cuda.gridsize(1)


@on_device
def _move(arrays: Any, alpha: Any, omega: Any) -> None:
    """Take both steps of BiCGStab; the product of the new r with ``shadow``, and the extremes of r, go into parts."""
    x, p, r, t, shadow, part, sizes = arrays
    along = 0.0
    low, high = math.inf, -math.inf
    s = cuda.grid(1)
    while s < x.size:
        x[s] += alpha * p[s] + omega * r[s]
        r[s] -= omega * t[s]
        along += shadow[s] * r[s]
        low, high = _lower(low, r[s]), _higher(high, r[s])
        s += cuda.gridsize(1)
    sum_in_block(along, 0.0, part)
    cuda.syncthreads()
    range_in_block(low, high, sizes)


def chain_values(rows: Rows, discount: float, guess: Vector, target: float, conservative: bool) -> Vector:
    """Return ``guess``, improved as :func:`prudent._numerics.krylov.chain_values` does on the CPU, step by step."""
    n = guess.size
    grid = grid_for(n)
    x = guess.copy()
    r, t, v, p = (allocate(n) for _ in range(4))
    part, sizes = (allocate((BLOCKS, 2)) for _ in range(2))

    def found(parts: Any) -> FloatArray:
        return download(parts)[: grid[0]]

    def extremes(parts: Any) -> tuple[float, float]:
        rows = found(parts)
        return float(rows[:, 0].min()), float(rows[:, 1].max())

    products, spread = 0, math.inf
    while True:
        _sweep[grid]((*rows, x.data, r, part), discount)
        products += 1
        low, high = extremes(part)
        if not conservative:
            low, high = min(low, -high), max(high, -low)
        slow = high - low > FAST * spread
        spread = high - low
        if spread <= 2.0 * target or products >= CAP or not math.isfinite(spread):
            return x
        if slow:
            break
        _step[grid]((x.data, r))

    biggest = max(abs(low), abs(high))
    shadow = Vector(r).copy().data
    for start in (p, v):
        _combine[grid]((r, r, start), -1.0, 0.0)  # zero
    _apply[grid]((rows.indices, rows.data, r, shadow, t, part), 0.0)  # with gamma = 0: the square of r
    new = float(found(part)[:, 0].sum())
    rho, alpha, omega = 1.0, 1.0, 1.0
    while biggest > target and products < CAP:
        if new == 0.0 or omega == 0.0:
            break
        beta = (new / rho) * (alpha / omega)
        rho = new
        _aim[grid]((r, v, p), beta, omega)
        _apply[grid]((rows.indices, rows.data, p, shadow, v, part), discount)
        along = float(found(part)[:, 0].sum())
        if along == 0.0:
            break
        alpha = rho / along
        _take[grid]((r, v), alpha)
        _apply[grid]((rows.indices, rows.data, r, r, t, part), discount)
        products += 2
        rt, tt = found(part).sum(axis=0).tolist()
        omega = rt / tt if tt > 0.0 else 0.0
        _move[grid]((x.data, p, r, t, shadow, part, sizes), alpha, omega)
        new = float(found(part)[:, 0].sum())
        low, high = extremes(sizes)
        biggest = max(abs(low), abs(high))
    return x
