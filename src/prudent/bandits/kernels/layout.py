"""Layout of the state that kernels of bandits read: the arms, the rule of a decision, and the handle of both.

Columns of the state arrays are declared here and nowhere else. From Python into a kernel every array takes about a
tenth of a microsecond, and a NamedTuple one more: longer than the work of a decision. So kernels that Python calls for
every decision take a *handle* (``handle_of``), one array of integers with the addresses and shapes of all the
others. Writer and readers of handles are made of the fields of ``Arms`` and ``Rule`` and of ``SHAPES``, so that an
array without a shape raises an error on import.

Other modules import this one as ``col``, after the columns: ``pool[col.GAIN]``.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

import numpy as np

from ..._numerics.addresses import address_of, bits_of, float_array, float_of_bits, half_array, int_array
from ..._numerics.compile import inlined
from ..._numerics.copying import put
from ..._numerics.order_statistics import lowest_normals_into
from ..._numerics.triangles import HalfArray, errors_of, halves_of, lower_of, symmetric_of, triangle_of
from ..._support.checks import FloatArray, IntArray

_BINS = 512


# How the noise is known
FIXED, SHARED, BY_ARM = range(3)


# Columns of Arms.marks, integers of an arm: what is to be solved (1 root and mean, 2 the mean only), which prior it
# has, its decisions and its rewards.
MARKS = 4
STALE, WHICH, TRIES, PULLS = range(MARKS)


# Columns of Arms.parts, numbers of an arm: the weight of its rewards in units of the sums; its mean reward and the
# coefficients of q_a; the c of its present mean; sd of the noise and degrees of freedom if they are its own; how often
# its root was updated since it was factored (minus infinity: it took twice the precision, and cannot be).
PARTS = 9
WEIGHT, LEVEL, Q0, Q1, Q2, FORMED, OWN_NOISE, FREEDOM, UPDATES = range(PARTS)


# Entries of Arms.pool, numbers of all arms: the lowest and the highest reward; the gain; the first reward, the last
# one, and how many there were; then what is computed, c and nu (0: unknown), and whether there were rewards since.
POOL = 9
LOW, HIGH, GAIN, ORIGIN, LAST, COUNT, CENTRE, NOISE, DIRTY = range(POOL)
SAVED = slice(LOW, CENTRE)


EXTRAS = 3  # numbers z of a reward beside its features, see ``checkup``


class Rule(NamedTuple):
    """How scores are drawn: settings as kernels read them."""

    n: int  # draws for each score
    weights: FloatArray  # [M] of the M lowest draws
    clip: bool  # draws to [0, 1]
    scale: float  # the sd of a draw over the posterior sd, if it is fixed
    delta: float  # of the schedule nu_t that it follows otherwise; 0 if it is fixed
    screen: FloatArray  # [bins + 1] bounds on the lowest draw if M = 1
    per_arm: int  # uniforms that a decision uses up at most for each eligible arm: M, and one for a tie
    floor: float  # the least chance of an eligible arm
    first: int  # decisions that every arm gets before its score counts
    share: float  # of the scale, for draws of an arm with the typical variance; 0: the scale is that of all draws
    horizon: int  # decisions in all: the scale falls towards the last ones; 0 if that is not known


class Arms(NamedTuple):
    """State of A arms: the sums of their data (``_numerics.least_squares``), and what is solved from them.

    Matrices are triangles (``_numerics.triangles``): T = D(D+1)/2 numbers, S = (D+1)(D+2)/2 those of the sums.
    """

    prior: FloatArray  # [J,T] prior precisions over the gain
    start: FloatArray  # [J,D] prior means; the first is zero, and c e_0 is added to it
    gram: FloatArray  # [A,S] sums of z z'
    lost: HalfArray  # [A,S] halves of their rounding errors
    root: FloatArray  # [A,T] with V^-1 = root' root
    mean: FloatArray  # [A,D]
    lines: FloatArray  # [A,2,D] m and t, if the noise is learned
    parts: FloatArray  # [A,PARTS]
    pool: FloatArray  # [POOL]
    marks: IntArray  # [A,MARKS]
    kind: int  # FIXED, SHARED or BY_ARM
    centred: bool  # the first feature is constant, and c is learned
    extra: FloatArray  # [A,EXTRAS,D+2] sums of z s, z r and z^2; [0,EXTRAS,D+2] if nobody asks


# Shapes of the arrays, in sizes that a handle holds: A arms, D features, T and S entries of triangles, J priors, L rows
# of lines, E rows of extra, M weights, B entries of the screen.
SHAPES = {
    "prior": "J T",
    "start": "J D",
    "gram": "A S",
    "lost": "A S",
    "root": "A T",
    "mean": "A D",
    "lines": "L 2 D",
    "parts": f"A {PARTS}",
    "pool": f"{POOL}",
    "marks": f"A {MARKS}",
    "extra": f"E {EXTRAS} D+2",
    "weights": "M",
    "screen": "B",
}
_SIZES = ("A", "D", "T", "S", "J", "L", "E", "M", "B")
_TYPES: dict[str, Any] = get_type_hints(Arms) | get_type_hints(Rule)
_SLOTS = {name: slot for slot, name in enumerate((*_SIZES, "intercept", *_TYPES))}
_INTERCEPT = _SLOTS["intercept"]
_READERS = {FloatArray: "float_array", IntArray: "int_array", HalfArray: "half_array"}
_DTYPES = {FloatArray: np.float64, IntArray: np.int64, HalfArray: np.uint32}
_SCALARS = {int: "{}", bool: "{} != 0", float: "float_of_bits({})"}  # how kernels read them


def _reader(name: str, kind: type[Any]) -> Any:
    """Return the kernel that reads a bundle from a handle."""

    def read(field: str) -> str:
        slot = f"handle[{_SLOTS[field]}]"
        if field not in SHAPES:
            return _SCALARS[_TYPES[field]].format(slot)
        sizes = re.sub("[A-Z]", lambda size: f"handle[{_SLOTS[size[0]]}]", SHAPES[field]).split()
        return f"{_READERS[_TYPES[field]]}({slot}, ({', '.join(sizes)},))"

    fields = ", ".join(map(read, get_type_hints(kind)))
    space: dict[str, Any] = {
        "kind": kind,
        "float_array": float_array,
        "int_array": int_array,
        "half_array": half_array,
        "float_of_bits": float_of_bits,
    }
    space["__name__"] = __name__
    exec(compile(f"def {name}(handle):\n    return kind({fields})\n", __file__, "exec"), space)
    return inlined(space[name])


arms_at = _reader("arms_at", Arms)  # the arms of a handle
rule_at = _reader("rule_at", Rule)  # its rule


def handle_of(arms: Arms, rule: Rule, intercept: bool) -> IntArray:
    """Return the handle of arms and rule: it holds as long as both are kept, and their arrays are not replaced.

    With ``intercept``, contexts come without the constant feature.
    """
    dim = arms.mean.shape[1]
    sizes = {"A": len(arms.mean), "D": dim, "T": dim * (dim + 1) // 2, "S": (dim + 1) * (dim + 2) // 2}
    sizes |= {"J": len(arms.prior), "L": len(arms.lines)}
    sizes |= {"E": len(arms.extra), "M": rule.weights.size, "B": rule.screen.size}
    values: dict[str, int] = sizes | {"intercept": int(intercept)}
    fields: tuple[Any, ...] = (*arms, *rule)
    for (name, kind), field in zip(_TYPES.items(), fields, strict=True):
        if name not in SHAPES:
            values[name] = bits_of(field) if kind is float else int(field)
            continue
        expected = shape_of(SHAPES[name], sizes)
        if field.shape != expected or field.dtype != _DTYPES[kind]:
            raise TypeError(f"{name} is an array {field.shape} of {field.dtype}, expected {expected}")
        values[name] = address_of(field)
    return np.array([values[name] for name in _SLOTS], dtype=np.int64)


def shape_of(declared: str, sizes: dict[str, int]) -> tuple[int, ...]:
    """Return a shape that is declared in sizes, such as ``"A 2 D+1"``."""
    split = [part.partition("+") for part in declared.split()]
    return tuple(sizes[size] + int(more or 0) if size in sizes else int(size) for size, _, more in split)


@inlined
def with_intercept(handle: IntArray, context: FloatArray) -> FloatArray:
    """Return a context with the constant feature, if there is one."""
    if handle[_INTERCEPT] == 0:
        return context
    features = np.empty(context.shape[0] + 1)
    features[0] = 1.0
    put(features[1:], context)
    return features


def arms_of(prior: FloatArray, noise_sd: float | None, size: int, **options: Any) -> Arms:
    """Return arms without data, of which nothing is solved yet, and ``options``: other fields of ``Arms``."""
    dim = len(prior)
    entries = (dim + 1) * (dim + 2) // 2
    pool = np.array([math.inf, -math.inf, 1.0, 0.0, 0.0, 0.0, 0.0, noise_sd or 0.0, 1.0])
    marks = np.zeros((size, MARKS), dtype=np.int64)
    marks[:, STALE] = 1
    fields: dict[str, Any] = {
        "prior": triangle_of(prior[np.newaxis]),
        "start": np.zeros((1, dim)),
        "gram": np.zeros((size, entries)),
        "lost": np.zeros((size, entries), dtype=np.uint32),
        "root": np.empty((size, dim * (dim + 1) // 2)),
        "mean": np.empty((size, dim)),
        "lines": np.empty((size if noise_sd is None else 0, 2, dim)),
        "parts": np.zeros((size, PARTS)),
        "pool": pool,
        "marks": marks,
        "kind": FIXED if noise_sd is not None else SHARED,
        "centred": False,
        "extra": np.zeros((0, EXTRAS, dim + 2)),
    }
    return Arms(**(fields | options))


def replace_arrays(arms: Arms, **fields: Any) -> Arms:
    """Return the arms with some fields replaced, and arrays that have an address, their own where they have one."""
    for name, field in zip(get_type_hints(Arms), arms, strict=True):
        value = fields.setdefault(name, field)
        fields[name] = np.require(value, requirements=["C", "A", "W"]) if name in SHAPES else value
    return Arms(**fields)


def sums_of(arms: Arms, rows: Any = slice(None)) -> FloatArray:
    """Return the sums of some arms and their rounding errors, [k,2,D+1,D+1]."""
    return np.stack([symmetric_of(arms.gram[rows]), symmetric_of(errors_of(arms.lost[rows]))], axis=-3)


def totals_of(arms: Arms, rows: Any = slice(None)) -> FloatArray:
    """Return the sums of some arms, rounding errors added, [k,D+1,D+1]."""
    return symmetric_of(arms.gram[rows] + errors_of(arms.lost[rows]))


def put_sums(arms: Arms, rows: Any, sums: FloatArray) -> None:
    """Replace the sums of some arms by others with their rounding errors, [k,2,D+1,D+1]."""
    arms.gram[rows] = triangle_of(sums[..., 0, :, :])
    arms.lost[rows] = halves_of(triangle_of(sums[..., 1, :, :]))


def scale_sums(arms: Arms, factor: float) -> None:
    """Multiply the sums of all arms by a factor."""
    errors = errors_of(arms.lost)
    arms.gram[:] *= factor
    arms.lost[:] = halves_of(factor * errors)


def priors_of(arms: Arms) -> FloatArray:
    """Return the prior precisions over the gain, [J,D,D]."""
    return symmetric_of(arms.prior)


def roots_of(arms: Arms, rows: Any = slice(None)) -> FloatArray:
    """Return the roots of some arms, [k,D,D]."""
    return lower_of(arms.root[rows])


def rule_of(
    n: int,
    weights: FloatArray,
    clip: bool,
    scale: float,
    delta: float | None,
    floor: float = 0.0,
    first: int = 0,
    share: float = 0.0,
    horizon: int = 0,
) -> Rule:
    """Return the rule; the schedule of ``delta``, if there is one, takes the place of ``scale``."""
    screen = _screen_of(n) if weights.size == 1 else np.zeros(2)
    return Rule(n, weights, clip, scale, delta or 0.0, screen, weights.size + 1, floor, first, share, horizon)


@lru_cache(maxsize=64)
def _screen_of(n: int) -> FloatArray:
    """Return the lowest of ``n`` normals as a function of its uniform, at the edges of equal bins."""
    edges = np.arange(_BINS + 1) / _BINS
    edges[-1] = np.nextafter(1.0, 0.0)
    screen = np.empty(_BINS + 1)
    for i in range(_BINS + 1):
        lowest_normals_into(screen[i : i + 1], n, edges[i : i + 1])
    return screen
