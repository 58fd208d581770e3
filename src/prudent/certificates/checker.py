"""Check a certificate of values and a policy against a model, without the library that made it.

This file stands alone: it imports the standard library and, for models with unknown probabilities, python-flint (ball
arithmetic). ``python checker.py MODEL CERTIFICATE`` says yes (exit code 0) or no (1), or that it cannot be checked (2).

Claim: with V the values and e the error of the certificate, U = V + e and L = V - e. The Bellman operator T is monotone
and contracts. If T U <= U in every state, the optimal values are at most U. If T_pi L >= L for the policy pi, its
values, hence the optimal ones, are at least L. Both: V is within e of the optimal values, the policy loses at most 2 e.
For the claim "policy" T_pi takes the place of T. Known rows are summed in floats, then in rational numbers if in doubt.

Rows of Dirichlet counts psi: with X = w.v, w ~ Dirichlet(psi), and a level alpha > 0,

    CVaR = max_x G(x),    G(x) = x - E[(x - X)+] / (1 - alpha),    G concave.

So G at any point is a lower bound. For an upper bound take x1 < x2 < x3, equally far apart, with G(x2) above G(x1) and
G(x3): the maximum lies between x1 and x3, on either side of x2 below the line through x2 and the point on the other
side, hence at most max(G(x2) - G(x1), G(x2) - G(x3)) above G(x2). With independent g_k ~ Gamma(psi_k), a_k = x - v_k,
Y = sum_k g_k a_k, M(z) = prod_k (1 - z a_k)^(-psi_k), z = c + i t and 0 < c < 1 / max a,

    E[(x - X)+] = E[Y+] / sum(psi) = 1 / (pi sum(psi)) Re int_0^oo M(z) / z^2 dt.

The integral up to T is enclosed by ball arithmetic. Beyond T its size is at most M(c) exp(-D) / T, with
D = sum_k psi_k log max(1, T |a_k| / (1 - c a_k)). CVaR at a level below 0 is minus that of -X at minus the level.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import Any, cast

try:
    import flint
except ImportError:  # enough for known probabilities
    flint = None  # type: ignore[assignment]

acb, arb, ctx = (getattr(flint, name, None) for name in ("acb", "arb", "ctx"))  # type: Any, Any, Any
BITS, STEPS = 128, (1e-7, 1e-5, 1e-3)  # precision of balls; distances of x1, x2, x3 to try, per depth of the tail


class RefusedError(Exception):
    """The certificate does not hold, or is not about this model."""


def check(model_file: bytes, certificate_file: bytes, rows: int | None = None) -> str:
    """Return a sentence that says what was proved; at most ``rows`` rows by integrals, others are counted."""
    record, digest = _read(certificate_file, "certificate"), hashlib.sha256(model_file).hexdigest()
    _require({"the certificate is about another model: its hash differs": record.get("model") == digest})
    try:
        model = Model(_read(model_file, "model"))
        value, error = _column(record, "value", model.n_states), _column(record, "error", 1)[0]
        policy, kind = _column(record, "policy", model.n_states, int), str(record.get("claim"))
        alpha = 0.0 if model.counts is None else _column(record, "alpha", 1)[0]
        taken = {s * model.n_actions + a for s, a in enumerate(policy) if 0 <= a < model.n_actions}
        fits = len(taken) == model.n_states and taken.issubset(model.pairs)
        _require({"the policy has an action that the model has not": fits, "alpha is in (-1, 1)": -1 < alpha < 1})
        _require({"claim is 'optimal' or 'policy', error 0 or more": kind in ("optimal", "policy") and error >= 0})
        proofs, skipped, left = {"sums": 0, "their mean": 0, "integrals": 0}, 0, math.inf if rows is None else rows
        for j, pair in enumerate(model.pairs):
            state, action = divmod(pair, model.n_actions)
            chosen = policy[state] == action
            for above in [True] * (kind == "optimal" or chosen) + [False] * chosen:
                row = Row(model, j, value, error if above else -error, state)
                if (how := row.by_mean(above, alpha)) is None:
                    left, skipped = left - 1, skipped + (left < 1)
                    if left < 0:
                        continue
                    how = row.by_integral(above, alpha)
                side = "above the upper" if above else "below the lower"
                _require({f"state {state}, action {action}: its backup may be {side} bound": bool(how)})
                proofs[how] += 1
    except (IndexError, ValueError, ArithmeticError, RecursionError) as fault:
        raise RefusedError(f"the numbers do not fit each other, or are too extreme: {fault}") from None
    proved = ", by ".join(f"{how}: {number}" for how, number in proofs.items() if number)
    told = f"{kind} values within {error:.3g} in {model.n_states} states; rows proved by {proved}"
    return told + (f"; NOT CHECKED: {skipped} rows" if skipped else "")


def _read(content: bytes, kind: str) -> dict[str, Any]:
    try:
        read = json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=Fraction)  # no NaN
    except (ValueError, RecursionError) as fault:
        raise RefusedError(f"the {kind} is no JSON file: {fault}") from None
    named = isinstance(read, dict) and [read.get("format"), str(read.get("version"))] == [f"prudent-{kind}", "1"]
    _require({f"the file is no prudent-{kind} of version 1": named})
    return cast(dict[str, Any], read)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of a file, in which no name occurs twice."""
    _require({"a name occurs twice in the file": len(found := dict(pairs)) == len(pairs)})
    return found


def _column(record: dict[str, Any], name: str, size: int | None, kind: type = float) -> list[Any]:
    """Return a list of finite numbers; a number stands for a list of one."""
    cells = found if isinstance(found := record.get(name), list) else [found]
    for cell in cells:
        if type(cell) not in (int, kind) or not abs(cast(float, cell)) < (2**53 if type(cell) is int else math.inf):
            raise RefusedError(f"{name} has {cell!r:.40}, where a finite number of type {kind.__name__} is expected")
    _require({f"{name} has {len(cells)} numbers, expected {size}": size in (None, len(cells))})
    return [kind(cell) for cell in cells]


class Model:
    """Pairs of state and action, what each can lead to, and probabilities or counts."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.n_states, self.n_actions = (_column(record, name, 1, int)[0] for name in ("n_states", "n_actions"))
        names = ("pairs", "first", "next_state")
        self.pairs, self.first, self.next_state = (_column(record, name, None, int) for name in names)
        self.discount, spans = _column(record, "discount", 1)[0], list(pairwise(self.first))
        states = {p // self.n_actions for p in self.pairs}
        first = self.first[0] == 0 and self.first[-1] == len(self.next_state) and all(a <= b for a, b in spans)
        rules = {
            "discount must be in [0, 1)": 0.0 <= self.discount < 1.0,
            "pairs must ascend": all(a < b for a, b in pairwise(self.pairs)),
            "every state needs a pair": len(states) == self.n_states == max(states) + 1 and min(states) == 0,
            "first must ascend from 0 to the end": first and len(spans) == len(self.pairs),
            "next_state must be a state, or -1": all(-1 <= s < self.n_states for s in self.next_state),
        }
        _require(rules)
        self.counts: list[list[float]] | None = None
        if "counts" in record:
            self.reward = _column(record, "reward", len(self.next_state))
            begin, source = _column(record, "begin", None, int), _column(record, "source", len(self.pairs), int)
            counts = _column(record, "counts", begin[-1])
            _require({"source must be in begin": begin[0] == 0 and all(0 <= b < len(begin) - 1 for b in source)})
            self.counts = [counts[begin[b] : begin[b + 1]] for b in source]
            fits = all(len(row) == b - a for row, (a, b) in zip(self.counts, spans, strict=True))
            good = all(c >= 0.0 for c in counts) and all(sum(row) > 0.0 for row in self.counts)
            _require({"source, begin and first do not fit": fits, "counts must be positive": good})
        else:
            self.probability = _column(record, "probability", len(self.next_state))
            self.reward = _column(record, "pair_reward", len(self.pairs))
            shrinks = (Fraction(self.discount) * sum(map(Fraction, self.probability[a:b])) < 1 for a, b in spans)
            good = all(p >= 0.0 for p in self.probability)
            _require({"probabilities must be 0 or more": good, "rows must sum to less than 1 / discount": all(shrinks)})


def _require(rules: dict[str, bool]) -> None:
    for rule, holds in rules.items():
        if not holds:
            raise RefusedError(rule)


class Row:
    """What one pair can bring, and the bound that its backup is compared with."""

    def __init__(self, model: Model, j: int, value: list[float], error: float, state: int) -> None:
        (a, b), self.discount, self.limit = model.first[j : j + 2], model.discount, (value[state], error)
        later = [(value[s], error) if s >= 0 else (0.0, 0.0) for s in model.next_state[a:b]]
        if model.counts is None:  # the reward of the pair is one more outcome, of weight 1
            self.weights, self.total = [1.0, *model.probability[a:b]], Fraction(1)
            self.outcomes = [(model.reward[j], (0.0, 0.0)), *((0.0, each) for each in later)]
        else:
            self.weights, self.total = model.counts[j], sum(map(Fraction, model.counts[j]), Fraction(0))
            self.outcomes = list(zip(model.reward[a:b], later, strict=True))

    def by_mean(self, above: bool, alpha: float) -> str | None:
        """Compare the mean with the bound; a level above 0 is below it, a level below 0 above it, else None."""
        if alpha == 0.0:
            return "sums" if self.compared(above) else ""
        return "their mean" if above == (alpha > 0.0) and self.compared(above) else None

    def compared(self, above: bool) -> bool:
        """Say whether the mean is at most (at least) the bound: in floats, then in rational numbers."""
        rows = [(p, r, v, e) for p, (r, (v, e)) in zip(self.weights, self.outcomes, strict=True)]
        limit, total = sum(self.limit), float(self.total)
        mean = math.fsum(p * (r + self.discount * (v + e)) for p, r, v, e in rows) / total
        size = math.fsum(p * (abs(r) + abs(v) + abs(e)) for p, r, v, e in rows) / total + sum(map(abs, self.limit))
        if abs(mean - limit) > 2.0**-48 * size + 1e-300:  # False for inf and nan
            return (mean < limit) == above
        g, f = Fraction(self.discount), Fraction
        exact = sum((f(p) * (f(r) + g * (f(v) + f(e))) for p, r, v, e in rows), f(0)) / self.total
        return (exact <= sum(map(f, self.limit))) if above else (exact >= sum(map(f, self.limit)))

    def by_integral(self, above: bool, alpha: float) -> str:
        """Enclose the CVaR; an empty text means that the bound is not proved."""
        if arb is None:
            raise ImportError("models with counts need python-flint: pip install python-flint")
        sign, merged = (1 if alpha > 0.0 else -1), dict[Any, Fraction]()
        for count, outcome in filter(lambda row: row[0] > 0.0, zip(self.weights, self.outcomes, strict=True)):
            merged[outcome] = merged.get(outcome, Fraction(0)) + Fraction(count)
        ctx.prec = BITS
        values = [sign * (arb(r) + arb(self.discount) * (arb(v) + arb(e))) for r, (v, e) in merged]
        tail = Tail(values, [arb(n.numerator) / arb(n.denominator) for n in merged.values()], abs(alpha))
        limit = sign * (arb(self.limit[0]) + arb(self.limit[1]))
        return "integrals" if (tail.at_most(limit) if above == (sign > 0) else tail.at_least(limit)) else ""


class Tail:
    """The lower tail of X = w.v with w Dirichlet; values and counts are balls."""

    def __init__(self, values: list[Any], counts: list[Any], alpha: float) -> None:
        ctx.prec, self.values, self.counts, self.alpha = BITS, values, counts, alpha
        self.total = sum(counts, arb(0))
        self.mean = sum((n * v for n, v in zip(counts, values, strict=True)), arb(0)) / self.total
        spread = sum((n * (v - self.mean) ** 2 for n, v in zip(counts, values, strict=True)), arb(0))
        self.sd = (spread / (self.total * (self.total + 1))).abs_upper().sqrt()
        self.least = self.mean - self.sd * (arb(alpha) / (1 - arb(alpha))).sqrt()  # <= CVaR <= mean: Cantelli

    def at_least(self, limit: Any) -> bool:
        """Say whether CVaR >= limit is proved."""
        certain = all(v >= limit for v in self.values) or self.least >= limit
        open_yet = len(self.values) > 1 and not self.mean < limit
        return bool(certain or (open_yet and self.gain(arb(self.quantile())) >= limit))

    def at_most(self, limit: Any) -> bool:
        """Say whether CVaR <= limit is proved."""
        certain = all(v <= limit for v in self.values) or self.mean <= limit
        if certain or len(self.values) == 1 or self.least > limit:
            return bool(certain)
        middle = arb(self.quantile())
        depth = float((middle - (top := self.gain(middle))).mid())  # of the tail
        pairs = ([self.gain(middle + sign * arb(step * depth)) for sign in (-1, 1)] for step in STEPS)
        return any(all(top > side and 2 * top - side <= limit for side in pair) for pair in pairs)

    def gain(self, x: Any) -> Any:
        """Return a ball with G(x) = x - E[(x - X)+] / (1 - alpha)."""
        gaps, rest = [x - v for v in self.values], 1 - arb(self.alpha)
        if all(a <= 0 for a in gaps):
            return x
        part = x - self.mean if all(a >= 0 for a in gaps) else self.integral(gaps, 2, 2.0**-90) / self.total
        return x - part / rest

    def integral(self, gaps: list[Any], power: int, precision: float) -> Any:
        """Return a ball with E[Y+] (power 2), or a number near P(Y > 0) (power 1)."""
        size = max(abs(float(gap.mid())) for gap in gaps)
        gaps = [gap / arb(size) for gap in gaps]
        rows = [(float(n.mid()), float(gap.mid())) for n, gap in zip(self.counts, gaps, strict=True)]
        low, high = 0.0, 1.0 / max(a for _, a in rows)
        for _ in range(80):  # c is near the saddle point of M(z) / z^power
            c = 0.5 * (low + high)
            low, high = (c, high) if math.fsum(n * a / (1.0 - c * a) for n, a in rows) < power / c else (low, c)
        width = (math.fsum(n * (a / (1.0 - c * a)) ** 2 for n, a in rows) + power / c**2) ** -0.5
        top = -sum((n * (1 - arb(c) * gap).log() for n, gap in zip(self.counts, gaps, strict=True)), arb(0))

        def along(t: Any, analytic: bool) -> Any:
            z = arb(c) + acb(0, 1) * t
            logs = (n * (1 - z * gap).log(analytic) for n, gap in zip(self.counts, gaps, strict=True))
            return (-top - sum(logs, acb(0))).exp() / z**power

        far, rest, goal = 4.0 * width, math.inf, precision * width / c**power
        while rest > goal and far < 1e60:
            far *= 4.0
            fall = math.fsum(n * math.log(max(1.0, far * abs(a) / (1.0 - c * a))) for n, a in rows)
            rest = 1.01 * math.exp(-fall) / far ** (power - 1) + 1e-300
        goals, near = {"abs_tol": arb(goal), "rel_tol": arb(precision)}, arb(4.0 * width)
        whole = acb.integral(along, 0, near, **goals)
        whole += acb.integral(lambda u, a: along(u.exp(), a) * u.exp(), near.log(), arb(far).log(), **goals)
        return (whole.real + arb(0, rest if power == 2 else 0.0)) * top.exp() / arb.pi() * arb(size) ** (power - 1)

    def quantile(self) -> float:
        """Return x with P(X <= x) near 1 - alpha; only the tightness of the bounds depends on it."""
        low, high = min(float(v.mid()) for v in self.values), max(float(v.mid()) for v in self.values)
        aim, margin, side = min(1.0 - self.alpha, 1.0 - 2.0**-53), 0.01 * (high - low), 0
        below, above = -aim, self.alpha
        x = min(max(float(self.mean.mid()) + float(self.sd) * NormalDist().inv_cdf(aim), low + margin), high - margin)
        ctx.prec = 64
        for _ in range(100):  # false position, Illinois
            found = float(self.integral([arb(x) - v for v in self.values], 1, 1e-12).mid()) - aim
            if abs(found) < 1e-10 * min(aim, 1.0 - aim) or x in (low, high):
                break
            if found < 0.0:
                low, below, above, side = x, found, above * (0.5 if side < 0 else 1.0), -1
            else:
                high, above, below, side = x, found, below * (0.5 if side > 0 else 1.0), 1
            x = low - below * (high - low) / (above - below)
        ctx.prec = BITS
        return x


def main(arguments: list[str] | None = None) -> int:
    """Check the files of a command line; return the exit code."""
    parser = argparse.ArgumentParser(description="Check a certificate of values and a policy against a model.")
    parser.add_argument("model", type=Path)
    parser.add_argument("certificate", type=Path)
    parser.add_argument("--rows", type=int, help="most rows to prove by integrals; the others are counted")
    given = parser.parse_args(arguments)
    try:
        print(f"yes: {check(given.model.read_bytes(), given.certificate.read_bytes(), given.rows)}")
        return 0
    except RefusedError as fault:
        print(f"no: {fault}")
        return 1
    except (OSError, ImportError) as fault:
        print(f"not checked: {fault}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
