"""The entropic mean -(1/beta) log E[exp(-beta w.y)] of a Dirichlet mean, w ~ Dirichlet(psi), with its gradient.

Let A be the sum of psi. The moments m_j = E[(w.x)^j] follow from the generating function prod (1 - t x_k)^(-psi_k) of
(A)_j m_j / j!, and so do n_{k,j} = E[w_k (w.x)^j]:

    m_j = sum_{i=1..j} c_{j,i} p_i m_{j-i},   p_i = sum_k psi_k x_k^i,   c_{j,1} = 1/(A+j-1),
                                                                        c_{j,i+1} = c_{j,i} (j-i)/(A+j-i-1),
    n_{k,j} = (psi_k m_j + j x_k n_{k,j-1}) / (A + j).

Three ways to the expectation, by b = beta (max y - min y):

- b up to 1: the series sum (-beta)^j m_j / j! about the mean of y. Its first term vanishes, and log1p loses nothing.
- b up to 60: the same series about the largest y, where all terms are positive and nothing cancels.
- b above: the contour integral Gamma(A) / (2 pi i) int exp(z) prod (z + beta (y_k - min y))^(-psi_k) dz, on a path
  through the saddle point that bends to the left with the steepest descent. A trapezoid of it converges geometrically;
  the step is halved until two sums agree, and their difference is the error, with what is lost where terms cancel. The
  gradient has the extra factor psi_k / (z + beta (y_k - min y)).
- With b above 60 and A below 1e-14, w is a corner: -(1/beta) log sum (psi_k / A) exp(-beta y_k).
"""

from __future__ import annotations

import math

import numpy as np

from .._support.checks import FloatArray
from .compensated import EPS
from .compile import kernel

_SMALL, _LARGE = 1.0, 60.0
_TERMS = 260  # of a series: enough up to _LARGE
_MOST_HALVINGS = 7
_TINY = 1e-14  # a total below which w is a corner but for next to nothing


@kernel
def entropic_rows(
    values: FloatArray, counts: FloatArray, beta: float, out: FloatArray, means: FloatArray, error: FloatArray
) -> None:
    """Write the entropic mean of each row of ``values`` [P, K] into ``out``, its gradient and a bound on its error."""
    n = values.shape[1]
    y, psi, grad = np.empty(n), np.empty(n), np.empty(n)
    place = np.empty(n, np.int64)
    moments, powers, scratch = np.empty(_TERMS), np.empty(_TERMS), np.empty(n)
    for row in range(values.shape[0]):
        used = 0
        for k in range(n):
            means[row, k] = 0.0
            if counts[row, k] > 0.0:
                y[used], psi[used], place[used] = values[row, k], counts[row, k], k
                used += 1
        sign = 1.0 if beta >= 0.0 else -1.0
        for k in range(used):
            y[k] *= sign
        value, error[row] = entropic_of_row(y[:used], psi[:used], abs(beta), grad, scratch, moments, powers)
        out[row] = sign * value
        for k in range(used):
            means[row, place[k]] = grad[k]


@kernel
def entropic_of_row(y, psi, beta, grad, scratch, moments, powers):
    """Return the entropic mean of w.y for w ~ Dirichlet(psi), psi > 0 and beta >= 0, and a bound on its error.

    Its gradient is written into ``grad``; the last three arguments are scratch.
    """
    n = y.size
    low, high, total, mean, size = y[0], y[0], 0.0, 0.0, 0.0
    for k in range(n):
        low, high = min(low, y[k]), max(high, y[k])
        total += psi[k]
        size = max(size, abs(y[k]))
    for k in range(n):
        grad[k] = psi[k] / total
        mean += grad[k] * (y[k] - low)
    spread = high - low
    mean += low
    strength = beta * spread
    rounding = (2.0 * n + 8.0) * EPS * spread + 2.0 * EPS * size
    if not strength > 1e-280:
        return mean, rounding + strength * spread
    if strength <= _LARGE:
        centred = strength <= _SMALL
        for k in range(n):
            scratch[k] = (mean - y[k]) / spread if centred else (high - y[k]) / spread
        log, doubt = _series(scratch, psi, total, strength, centred, grad, moments, powers)
        return (mean if centred else high) - log / beta, doubt / beta + rounding
    for k in range(n):
        scratch[k] = beta * (y[k] - low)
    log, doubt = _choice(scratch[:n], psi, total, grad) if total < _TINY else _contour(scratch[:n], psi, total, grad)
    return low - log / beta, doubt / beta + rounding


@kernel
def _series(x, psi, total, strength, centred, grad, moments, powers):
    """Return log E[exp(strength w.x)] for |x| <= 1 and a bound on its error; write the gradient into ``grad``."""
    n = psi.size
    moments[0], term, rest = 1.0, 1.0, 0.0  # rest is the expectation less one
    for k in range(n):
        grad[k] = 1.0  # x_k^i
    last = 0
    for j in range(1, _TERMS):
        power = 0.0
        for k in range(n):
            grad[k] *= x[k]
            power += psi[k] * grad[k]
        powers[j] = 0.0 if centred and j == 1 else power  # the mean of w.x is zero but for rounding
        moment, c = 0.0, 1.0 / (total + (j - 1.0))  # brackets: the total may be tiny
        for i in range(1, j + 1):
            moment += c * powers[i] * moments[j - i]
            c *= (j - i) / (total + (j - i - 1.0)) if i < j else 0.0
        moments[j] = moment
        term *= strength / j
        rest += term * moment
        last = j
        # moments of |w.x| <= 1 fall, so that the terms left out are at most a geometric series
        ratio = strength / (j + 1.0)
        bound = term * (1.0 if centred else moment)
        if ratio < 0.5 and bound * 2.0 * ratio <= 0.25 * EPS * (abs(rest) if centred else 1.0 + rest):
            break
    kept = 1.0 + rest
    for k in range(n):
        part = psi[k] / total  # E[w_k (w.x)^j]
        term, mean = 1.0, part
        for j in range(1, last + 1):
            part = (psi[k] * moments[j] + j * x[k] * part) / (total + j)
            term *= strength / j
            mean += term * part
        grad[k] = mean / kept
    relative = (6.0 * last + 4.0 * n + 32.0) * EPS
    if centred:
        # the terms are below strength^2, and rounding of x moves the mean by less than is added elsewhere
        return math.log1p(rest), relative * strength * strength
    return math.log(kept), relative + EPS * strength


@kernel
def _choice(a, psi, total, grad):
    """Return log sum (psi_k / A) exp(-a_k), which is the limit for A -> 0, and a bound on its error."""
    n = psi.size
    top, large = -math.inf, 0.0
    for k in range(n):
        grad[k] = math.log(psi[k] / total) - a[k] if psi[k] / total > 0.0 else -math.inf
        top, large = max(top, grad[k]), max(large, a[k])
    sum_ = 0.0
    for k in range(n):
        grad[k] = math.exp(grad[k] - top)
        sum_ += grad[k]
    for k in range(n):
        grad[k] /= sum_
    # two corners share w with a chance of the order of A log a
    return top + math.log(sum_), 8.0 * total * (2.0 + math.log1p(large)) + (8.0 * n + 64.0) * EPS * (1.0 + abs(top))


@kernel
def _contour(a, psi, total, grad):
    """Return log E[exp(-w.a)] for a >= 0, of which one is zero, and a bound on its error; write the gradient."""
    n = psi.size
    # the saddle c solves sum psi_k / (c + a_k) = 1; the sum falls, and Newton on its reciprocal is monotone
    c = total
    for k in range(n):
        if a[k] == 0.0:
            c = min(c, psi[k])
    low, high = 0.0, total
    for _ in range(200):
        first, second = 0.0, 0.0
        for k in range(n):
            inverse = 1.0 / (c + a[k])
            first += psi[k] * inverse
            second += psi[k] * inverse * inverse
        if first > 1.0:
            low = c
        else:
            high = c
        step = (first - 1.0) * first / second
        new = c + step
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - c) <= 4.0 * EPS * c:
            c = new
            break
        c = new
    # everything is relative to c, so that no power of a huge or tiny count is a factor
    second, third, lacks = 0.0, 0.0, 0.0
    for k in range(n):
        share, near = psi[k] / (c + a[k]), c / (c + a[k])
        second += share * near
        third += share * near * near
        lacks += share * a[k]  # total - c
    h = 1.0 / math.sqrt(second) / math.sqrt(c)
    bend = min(1.0, 2.0 / 3.0 * third * h / second)
    # log of Gamma(A) exp(c) prod (c + a_k)^(-psi_k), without cancellation of the large parts
    top, large = 0.0, 0.0
    for k in range(n):
        part = (
            psi[k] * math.log1p((a[k] - lacks) / total)
            if abs(a[k] - lacks) < 0.5 * total
            else psi[k] * math.log((c + a[k]) / total)
        )
        top -= part
        large += abs(part)
    top += _stirling(total) - lacks
    large += lacks
    step, before, area, doubt = 0.5, 0.0, 0.0, 1.0
    far = max(60.0, min(6.0 - math.log(max(h * c, 1e-300)), 700.0))  # a tiny c is far from where exp(z) has fallen
    for halving in range(_MOST_HALVINGS):
        area, gross = 0.5 * h, 0.5 * h
        for k in range(n):
            grad[k] = 0.5 * h * (psi[k] / (c + a[k]))
        u = step
        while u < far:
            rise, width = math.sinh(u), math.cosh(u)
            z = complex(-h * bend * (width - 1.0), h * rise)  # from the saddle, over c
            slope = complex(h * width, h * bend * rise)  # dz/du over i
            exponent = complex(0.0, 0.0)  # the linear part vanishes at the saddle
            for k in range(n):
                exponent += psi[k] * _less_log(z * (c / (c + a[k])))
            if exponent.real < -46.0:
                break
            term = np.exp(exponent) * slope
            area += term.real
            gross += abs(term)
            for k in range(n):
                grad[k] += (term * ((psi[k] / (c + a[k])) / (1.0 + z * (c / (c + a[k]))))).real
            u += step
        area *= step
        gross *= step
        for k in range(n):
            grad[k] *= step
        if halving > 0:
            doubt = abs(area - before) / abs(area) if area != 0.0 else 1.0
            if doubt < 1e-13:
                break
        before = area
        step *= 0.5
    if not 8.0 * EPS * gross < area < math.inf:
        return _unresolved(a, psi, total, grad)
    one = 0.0
    for k in range(n):
        grad[k] = min(max(grad[k] / area, 0.0), 1.0)
        one += grad[k]
    for k in range(n):
        grad[k] /= max(one, 1e-300)
    doubt += 4.0 * EPS * gross / area  # where a rare outcome counts most, the terms cancel
    log = top + math.log(area / math.pi) + math.log(c)
    return log, 2.0 * doubt + (8.0 * n + 64.0) * EPS * (1.0 + large)


@kernel
def _unresolved(a, psi, total, grad):
    """Return the middle of what is known of log E[exp(-w.a)]: at most 0 and at least -E[w.a], with half of that."""
    mean = 0.0
    for k in range(psi.size):
        grad[k] = psi[k] / total
        mean += grad[k] * a[k]
    return -0.5 * mean, 0.5 * mean


@kernel
def _less_log(w):
    """Return w - log(1 + w), without cancellation for small w."""
    if abs(w.real) + abs(w.imag) > 0.3:
        return w - np.log(1.0 + w)
    total, power = complex(0.0, 0.0), w
    for i in range(2, 40):
        power *= -w
        total -= power / i
        if abs(power.real) + abs(power.imag) < EPS * (abs(total.real) + abs(total.imag)):
            break
    return total


@kernel
def _stirling(x):
    """Return log Gamma(x) - x log x + x."""
    if x < 12.0:
        return math.lgamma(x) - x * math.log(x) + x
    square = 1.0 / (x * x)
    series = 1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square * (1.0 / 1680.0 - square / 1188.0)))
    return 0.5 * math.log(2.0 * math.pi / x) + series / x
