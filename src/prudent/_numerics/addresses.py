"""Arrays by their addresses, for kernels that are called often with the same ones.

Numba looks at every array that Python passes to a kernel, which takes a tenth of a microsecond each. Where a call takes
a few microseconds in all, the arrays that stay the same from call to call are passed by address: one array of
numbers holds the addresses and shapes of the others. Whoever makes such numbers keeps the arrays as long as they are
used, and never copies them to another process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import inlined


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return the address of an array of float64, int64 or uint32, which must lie in one piece and be writable."""
    if not array.flags.carray or array.dtype not in (np.float64, np.int64, np.uint32):
        raise TypeError(f"an array of {array.dtype} with {array.flags} has no address for kernels")
    return int(array.ctypes.data)


def bits_of(value: float) -> int:
    """Return the bits of a float as an integer."""
    return int(np.float64(value).view(np.int64))


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


@inlined
def float_of_bits(bits: Any) -> Any:
    """Return the float that has these bits, in a kernel."""
    return np.int64(bits).view(np.float64)


@inlined
def float_array(address: int, shape: Any) -> Any:
    """Return the array of float64 at an address, in a kernel."""
    return carray(_pointer(address), shape, np.float64)


@inlined
def int_array(address: int, shape: Any) -> Any:
    """Return the array of int64 at an address, in a kernel."""
    return carray(_pointer(address), shape, np.int64)


@inlined
def half_array(address: int, shape: Any) -> Any:
    """Return the array of uint32 at an address, in a kernel."""
    return carray(_pointer(address), shape, np.uint32)
