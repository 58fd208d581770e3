"""Vectors on a GPU, with sums and extremes.

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
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from numba import config

from .._support.checks import FloatArray
from ..errors import ParameterError
from .compile import kernel, source_stamp

SIMULATED = bool(config.ENABLE_CUDASIM)


def _load() -> Any:
    """Return Numba's CUDA, or say what is missing."""
    if not SIMULATED and importlib.util.find_spec("numba_cuda") is None:
        raise ParameterError(
            'device="gpu" needs numba-cuda, which is not installed: pip install "prudent[gpu]"',
            code="missing-package",
            package="numba-cuda",
        )
    try:
        from numba import cuda
    except Exception as error:  # numba-cuda 0.30 uses what NumPy 2.5 no longer has
        raise ParameterError(
            f'device="gpu": numba-cuda does not load with NumPy {np.__version__} ({error}); pip install "prudent[gpu]" '
            "chooses versions that work together",
            code="missing-package",
            package="numba-cuda",
        ) from None
    if not cuda.is_available():
        raise ParameterError(
            f'device="gpu" finds no GPU that CUDA can use: {_fault(cuda)}',
            code="no-device",
            argument="device",
            value="gpu",
        )
    if not SIMULATED:  # small models leave most of a GPU idle, as expected
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
    "Vector",
    "allocate",
    "cuda",
    "download",
    "extremes",
    "grid_for",
    "higher",
    "lower",
    "on_device",
    "range_in_block",
    "sum_in_block",
    "sums",
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
            self._extremes = extremes(part, grid)
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
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a[i] + shift if factor == 0.0 else a[i] + factor * b[i] + shift


# -- reductions --------------------------------------------------------------------------------------------


@kernel
def lower(a: float, b: float) -> float:
    """Return the lower of two numbers; NaN goes through."""
    return a if a < b or a != a else b


@kernel
def higher(a: float, b: float) -> float:
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
            lows[me], highs[me] = lower(lows[me], lows[me + half]), higher(highs[me], highs[me + half])
        cuda.syncthreads()
        half //= 2
    if me == 0:
        part[cuda.blockIdx.x, 0], part[cuda.blockIdx.x, 1] = lows[0], highs[0]


def sums(part: Any, grid: tuple[int, int]) -> tuple[float, float]:
    """Return both sums over the blocks of a launch, see ``sum_in_block``."""
    first, second = download(part)[: grid[0]].sum(axis=0).tolist()
    return first, second


def extremes(part: Any, grid: tuple[int, int]) -> tuple[float, float]:
    """Return the least and the greatest over the blocks of a launch, see ``range_in_block``."""
    blocks = download(part)[: grid[0]]
    return float(blocks[:, 0].min()), float(blocks[:, 1].max())


@on_device
def _ranges(arrays: Any) -> None:
    a, part = arrays
    low, high = math.inf, -math.inf
    for i in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        low, high = lower(low, a[i]), higher(high, a[i])
    range_in_block(low, high, part)
