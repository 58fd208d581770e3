"""Vectors on a GPU, with sums and extremes.

Kernels are CUDA kernels compiled by Numba. Reductions take two steps of fixed shape, so the same numbers always give
the same result. Numba's simulator (``NUMBA_ENABLE_CUDASIM=1``) runs all of this without a GPU, slowly, for tests.
Arrays "on the GPU" are then NumPy arrays. Kernels take their arrays in tuples, because the simulator does not wrap
those: kernels can then call the compiled functions of the CPU, as they do on a GPU.
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
    """Return ``numba.cuda``, or raise with what is missing."""
    if not SIMULATED and importlib.util.find_spec("numba_cuda") is None:
        message = 'device="gpu" needs numba-cuda, which is not installed: pip install "prudent[gpu]"'
        raise ParameterError(message, code="missing-package", package="numba-cuda")
    try:
        from numba import cuda
    except Exception as error:  # numba-cuda 0.30 uses what NumPy 2.5 no longer has
        message = (
            f'device="gpu": numba-cuda does not load with NumPy {np.__version__} ({error}); pip install "prudent[gpu]" '
            "chooses versions that work together"
        )
        raise ParameterError(message, code="missing-package", package="numba-cuda") from None
    if not cuda.is_available():
        message = f'device="gpu" finds no GPU that CUDA can use: {_fault(cuda)}'
        raise ParameterError(message, code="no-device", argument="device", value="gpu")
    if not SIMULATED:  # no warnings that a small model leaves most of the GPU idle
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
    """Compile a GPU kernel on first launch; cache it on disk until one of its source files changes."""
    compiled = cuda.jit(function)
    if not SIMULATED:
        try:
            compiled.enable_caching()
            # Numba checks only the file of the kernel itself, and kernels call functions of other files
            compiled._cache._cache_file._source_stamp = source_stamp(Path(function.__code__.co_filename))
        except (AttributeError, RuntimeError):  # another version of Numba, or no writable folder
            compiled = cuda.jit(function)
    return compiled


THREADS = 1 if SIMULATED else 256  # threads of a block; the simulator is not safe with more across modules
BLOCKS = 1 if SIMULATED else 1056  # maximum number of blocks of a reduction


def upload(array: npt.NDArray[Any]) -> Any:
    """Return a copy of an array on the GPU."""
    return np.array(array, order="C") if SIMULATED else cuda.to_device(np.ascontiguousarray(array))


def download(array: Any) -> npt.NDArray[Any]:
    """Return a copy on the host of an array on the GPU."""
    return np.array(array) if SIMULATED else array.copy_to_host()


def allocate(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
    """Return an uninitialised array on the GPU."""
    return np.empty(shape, dtype) if SIMULATED else cuda.device_array(shape, dtype)


def grid_for(n: int, threads: int = THREADS) -> tuple[int, int]:
    """Return the numbers of blocks and threads of a launch for n elements, see ``cuda.gridsize``."""
    return (BLOCKS, THREADS) if SIMULATED else (max(1, min(BLOCKS * THREADS // threads, -(-n // threads))), threads)


class Vector:
    """A vector [n] on the GPU with the operations that solvers use; ``np.asarray`` downloads it."""

    __slots__ = ("_extremes", "data")

    def __init__(self, data: Any) -> None:
        """``data`` [n] is on the GPU."""
        self.data = data
        self._extremes: tuple[float, float] | None = None

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.data.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.asarray(download(self.data), dtype=dtype)

    def _with(self, factor: float, other: Vector | None, shift: float) -> Vector:
        out = Vector(allocate(self.size))
        added = self.data if other is None else other.data
        _combine[grid_for(self.size)]((self.data, added, out.data), factor, shift)
        return out

    def __add__(self, other: Vector | float) -> Vector:
        return self._with(1.0, other, 0.0) if isinstance(other, Vector) else self._with(0.0, None, float(other))

    def __sub__(self, other: Vector) -> Vector:
        return self._with(-1.0, other, 0.0)

    def __mul__(self, factor: float) -> Vector:
        return self._with(factor - 1.0, self, 0.0)

    def copy(self) -> Vector:
        """Return a copy."""
        return self._with(0.0, None, 0.0)

    def min(self) -> float:
        """Return the lowest element."""
        return self._range()[0]

    def max(self) -> float:
        """Return the highest element."""
        return self._range()[1]

    def _range(self) -> tuple[float, float]:
        if self._extremes is None:  # a vector does not change once it has been read
            part = allocate((BLOCKS, 2))
            grid = grid_for(self.size)
            _ranges[grid]((self.data, part))
            self._extremes = extremes(part, grid)
        return self._extremes

    def __abs__(self) -> FloatArray:
        """Return the sizes of the extremes: solvers need only the largest of the absolute values."""
        return np.abs(self._range())


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


@kernel
def _plus(a: float, b: float) -> float:
    return a + b


def _in_block(first: Any, second: Any) -> Any:
    """Return the device function that reduces x by ``first`` and y by ``second`` over the threads of a block.

    It writes both results into the row of the block in ``part``.
    """

    @cuda.jit(device=True)
    def reduce(x: Any, y: Any, part: Any) -> None:
        xs = cuda.shared.array(THREADS, numba.float64)
        ys = cuda.shared.array(THREADS, numba.float64)
        me = cuda.threadIdx.x
        xs[me], ys[me] = x, y
        cuda.syncthreads()
        half = cuda.blockDim.x // 2
        while half > 0:
            if me < half:
                xs[me], ys[me] = first(xs[me], xs[me + half]), second(ys[me], ys[me + half])
            cuda.syncthreads()
            half //= 2
        if me == 0:
            part[cuda.blockIdx.x, 0], part[cuda.blockIdx.x, 1] = xs[0], ys[0]

    return reduce


sum_in_block = _in_block(_plus, _plus)  # sums of x and of y
range_in_block = _in_block(lower, higher)  # the lowest x and the highest y; NaN goes through


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
