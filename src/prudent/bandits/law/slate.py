"""Chances of slates: of every candidate at every place, of a set, and of an order.

Scores are independent with cdfs F_b and densities f_b, and the slate is the ``top`` highest in order.

- Candidate a is at place p if p - 1 of the others are above it: the integral of f_a times the chance of exactly p - 1
  rivals above x. How many are is a sum of independent indicators (Poisson's binomial law). Its chances, kept up to
  ``top``, are built up over the candidates from both sides, so that leaving one out needs no division.
- The slate is a set C if the lowest of C is above all others: the integral of the sum over c in C of f_c times the
  survival functions of the rest of C, times the cdfs of all candidates outside.
- The slate is c_1, c_2, ... in this order: with J_top(x) the chance that c_top is at most x and above all candidates
  outside, J_j(x) is the integral of f_cj J_(j+1) up to x, and J_1 at the end the answer.

All are sums over Gauss-Legendre nodes in panels of at most ``_SHARE`` of the sds that they meet. The integral up to
every node is a matrix of weights for each panel, of polynomials through its nodes. The error is some 1e-12, like that
of the table of F.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial import legendre

from ..._numerics.compile import kernel
from ..._support.checks import FloatArray, IntArray
from .integral import high_end, table_cdf, table_pdf
from .tables import TableLaw

_SIZE = 16
_SHARE = 1.25  # sds that a panel is wide at most
_NODES, _WEIGHTS = legendre.leggauss(_SIZE)
_FIT = np.linalg.inv(legendre.legvander(_NODES, _SIZE - 1))
_SUMS = np.array([legendre.legint(np.eye(_SIZE)[i], lbnd=-1) for i in range(_SIZE)])
_UP_TO = np.ascontiguousarray(legendre.legvander(_NODES, _SIZE) @ _SUMS.T @ _FIT)  # integrals from -1 to each node


@kernel
def _edges(means: FloatArray, sds: FloatArray, top: int, law: TableLaw) -> FloatArray:
    """Return the edges of panels over all scores that can be among the ``top`` highest."""
    low, high = law.low, high_end(law)
    ends = np.sort(means + low * sds)
    x = ends[max(ends.shape[0] - top - 1, 0)]
    right = (means + high * sds).max()
    edges = [x]
    while x < right:
        width = right - x
        for b in range(means.shape[0]):
            start = means[b] + low * sds[b]
            if start < x + width and means[b] + high * sds[b] > x:
                width = min(width, max(start - x, _SHARE * sds[b]))
        following = x + width
        if not following > x:  # narrower than rounding
            following = np.nextafter(x, math.inf)
        x = min(following, right)
        edges.append(x)
    return np.array(edges)


@kernel
def _at(x: float, means: FloatArray, sds: FloatArray, law: TableLaw, below: FloatArray, density: FloatArray) -> None:
    """Write cdfs and densities [k] at x."""
    start = law.low / law.step
    for b in range(means.shape[0]):
        inverse = 1.0 / (sds[b] * law.step)
        place = (x - means[b]) * inverse - start
        below[b] = min(max(table_cdf(place, law.cells), 0.0), 1.0)
        density[b] = max(table_pdf(place, law.cells) * inverse, 0.0)


@kernel
def place_chances(means: FloatArray, sds: FloatArray, law: TableLaw, chances: FloatArray) -> None:
    """Write the chances [top,k] of every candidate at every place."""
    top, size = chances.shape
    edges = _edges(means, sds, top, law)
    below, density = np.empty(size), np.empty(size)
    before, behind = np.zeros((size + 1, top)), np.zeros((size + 1, top))  # of so many above, of the first or last ones
    before[0, 0], behind[size, 0] = 1.0, 1.0
    chances[:] = 0.0
    for panel in range(edges.shape[0] - 1):
        half, centre = 0.5 * (edges[panel + 1] - edges[panel]), 0.5 * (edges[panel + 1] + edges[panel])
        for node in range(_SIZE):
            _at(centre + half * _NODES[node], means, sds, law, below, density)
            for a in range(size):
                stay = below[a]
                for j in range(top):
                    more = before[a, j - 1] * (1.0 - stay) if j > 0 else 0.0
                    before[a + 1, j] = before[a, j] * stay + more
            for a in range(size - 1, -1, -1):
                stay = below[a]
                for j in range(top):
                    more = behind[a + 1, j - 1] * (1.0 - stay) if j > 0 else 0.0
                    behind[a, j] = behind[a + 1, j] * stay + more
            for a in range(size):
                weight = half * _WEIGHTS[node] * density[a]
                if weight > 0.0:
                    for p in range(top):
                        total = 0.0
                        for j in range(p + 1):
                            total += before[a, j] * behind[a + 1, p - j]
                        chances[p, a] += weight * total


@kernel
def set_chance(means: FloatArray, sds: FloatArray, chosen: IntArray, law: TableLaw) -> float:
    """Return the chance that the highest scores are those of the candidates at ``chosen`` [top], in any order."""
    size, top = means.shape[0], chosen.shape[0]
    edges = _edges(means, sds, top, law)
    below, density = np.empty(size), np.empty(size)
    inside = np.zeros(size, dtype=np.bool_)
    for c in chosen:
        inside[c] = True
    total = 0.0
    for panel in range(edges.shape[0] - 1):
        half, centre = 0.5 * (edges[panel + 1] - edges[panel]), 0.5 * (edges[panel + 1] + edges[panel])
        for node in range(_SIZE):
            _at(centre + half * _NODES[node], means, sds, law, below, density)
            others = 1.0
            for b in range(size):
                if not inside[b]:
                    others *= below[b]
            if others == 0.0:
                continue
            lowest = 0.0
            for c in chosen:
                product = density[c]
                for d in chosen:
                    if d != c:
                        product *= 1.0 - below[d]
                lowest += product
            total += half * _WEIGHTS[node] * lowest * others
    return total


@kernel
def order_chance(means: FloatArray, sds: FloatArray, chosen: IntArray, law: TableLaw) -> float:
    """Return the chance that the highest scores are those of the candidates at ``chosen`` [top], in this order."""
    size, top = means.shape[0], chosen.shape[0]
    edges = _edges(means, sds, top, law)
    below, density = np.empty(size), np.empty(size)
    inside = np.zeros(size, dtype=np.bool_)
    for c in chosen:
        inside[c] = True
    so_far = np.zeros(top)  # J_j at the left edge of the panel
    values, products = np.empty((top, _SIZE)), np.empty((top, _SIZE))
    for panel in range(edges.shape[0] - 1):
        half, centre = 0.5 * (edges[panel + 1] - edges[panel]), 0.5 * (edges[panel + 1] + edges[panel])
        for node in range(_SIZE):
            _at(centre + half * _NODES[node], means, sds, law, below, density)
            others = 1.0
            for b in range(size):
                if not inside[b]:
                    others *= below[b]
            values[top - 1, node] = density[chosen[top - 1]] * others
            for j in range(top - 1):
                values[j, node] = density[chosen[j]]
        for j in range(top - 1, -1, -1):
            for node in range(_SIZE):
                products[j, node] = values[j, node]
                if j < top - 1:  # J_(j+1) at the node
                    up_to = so_far[j + 1]
                    for other in range(_SIZE):
                        up_to += half * _UP_TO[node, other] * products[j + 1, other]
                    products[j, node] *= max(up_to, 0.0)
        for j in range(top):
            for node in range(_SIZE):
                so_far[j] += half * _WEIGHTS[node] * products[j, node]
    return so_far[0]
