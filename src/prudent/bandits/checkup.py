"""What may go wrong with a bandit, as far as its sums tell.

Beside the sums of least squares a bandit keeps, for every arm, those of three numbers z that a linear model has no use
for: the squared length of the context, the reward before this one, and the number of the reward. If z helps to predict
rewards next to the features, rewards are not linear in the context, or follow on each other, or drift. With z'r, z's
and z'z summed up, that is an F test, exact for normal noise and a design that does not depend on rewards; the level of
each test is ``FALSE_ALARM``. (A bandit chooses its design by what it has seen, which matters little at that level.)
A few large rewards can make it large, so F is divided by 1 + sqrt(F) M / (3 sqrt n), as in Bernstein's inequality, with
M the largest |z r| in sds.

Whether arms have different noise is a test of their log variances. That of an arm has about the variance
(kappa - 1) / n with the kurtosis kappa of its residuals, which is at most R^2 / s^2 for residuals of at most R: with
this bound neither heavy tails nor rewards that are mostly 0 pass for a difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._support.checks import BoolArray, FloatArray, IntArray
from .kernels.layout import GAIN, HIGH, LOW, PULLS, WEIGHT, Arms, sums_of, totals_of

FALSE_ALARM = 1e-7
_LARGEST_RATIO = 30.0  # of the sds of features that are on one scale
_LEAST_FREEDOM = 30  # degrees of freedom for tests of residuals
_NOISE_RATIO = 2.0  # of the sds of arms, below which a difference does no harm
_STARVED = 0.02  # of an equal share of rewards
_SHOWN = 5
Spans = Mapping[str, slice] | None


class Finding(NamedTuple):
    """Something that may go wrong: a word for it, and what to do."""

    kind: str  # "scales", "constant", "curvature", "autocorrelation", "drift", "noise", "starved", or one of a log
    text: str


@dataclass(frozen=True)
class Checkup:
    """Findings of ``LinearBandit.check``: as good as a list of them, and printable.

    ``kind`` of a finding is ``"scales"``, ``"constant"`` (a feature that never changes), ``"curvature"`` (rewards are
    not linear in the context), ``"autocorrelation"``, ``"drift"``, ``"noise"`` (arms differ in it) or ``"starved"``.
    Of a log they are also ``"interactions"`` (products or thresholds predict rewards), ``"missing"`` and ``"delay"``
    (rewards of arms are missing, or late, to different degrees). Tests of residuals raise a false alarm with a chance
    of about 1e-7 each if noise is normal.
    """

    findings: tuple[Finding, ...]
    rewards: int

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __getitem__(self, place: int) -> Finding:
        return self.findings[place]

    def __str__(self) -> str:
        count = len(self.findings)
        head = f"{count or 'no'} finding{'' if count == 1 else 's'} after {self.rewards} rewards"
        return "\n".join([head + (":" if count else "")] + [f"- {kind}: {text}" for kind, text in self.findings])


def checkup(
    arms: Arms,
    names: Sequence[str | int],
    intercept: bool,
    features: Sequence[str] | None = None,
    *,
    spans: Spans = None,
    normal: bool = True,
) -> Checkup:
    """Return the findings; residuals are looked at if rewards are ``normal``.

    ``features`` are names, and ``spans`` the places of columns that several features are made of.
    """
    pulls = arms.marks[:, PULLS]
    residuals = _residuals(arms, names) if normal else ()
    dim = arms.mean.shape[1]
    sums = sums_of(arms)[:, :, :dim, :dim].sum(axis=(0, 1))
    count = float(sums[0, 0] if intercept else arms.parts[:, WEIGHT].sum())  # clicks have weights other than 1
    about = _features(sums, count, int(pulls.sum()), intercept, features, spans)
    return Checkup((*about, *residuals, *_starved(names, pulls)), int(pulls.sum()))


def item_checkup(
    sums: FloatArray, rewards: int, intercept: bool, features: Sequence[str] | None = None, spans: Spans = None
) -> Checkup:
    """Return the findings on the features of items, given the sums [D,D] of their products over all rewards."""
    count = float(sums[0, 0]) if intercept else float(rewards)
    return Checkup(tuple(_features(sums, count, rewards, intercept, features, spans)), rewards)


def starved_checkup(names: Sequence[str | int], pulls: IntArray) -> Checkup:
    """Return the findings on arms that have next to no rewards."""
    return Checkup(tuple(_starved(names, pulls)), int(pulls.sum()))


def _features(
    sums: FloatArray, count: float, rewards: int, intercept: bool, features: Sequence[str] | None, spans: Spans
) -> Iterator[Finding]:
    dim = len(sums)
    called: Sequence[str | int] = range(dim) if features is None else [repr(name) for name in features]
    if not rewards >= 10 or not count > 0.0 or dim == int(intercept):
        return
    own = np.diagonal(sums)[int(intercept) :]
    share = np.zeros_like(own)  # of the mean square that is the square of the mean
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # weights of clicks may be next to nothing
        square = own / count
        if intercept:
            share = np.where(own > 0.0, sums[0, 1:] / (math.sqrt(count) * np.sqrt(own)), 1.0) ** 2
        spread = square * (1.0 - share)
    still = (own == 0.0) | (1.0 - share <= 1e-12)
    coded = (
        intercept & (own == sums[0, int(intercept) :]) if intercept else np.zeros(len(own), dtype=np.bool_)
    )  # 0 or 1
    constant = [] if not intercept else _constant(still, sums[0, 1:] / count, called, spans)
    for always in constant[:_SHOWN]:
        yield Finding("constant", f"{always}: it tells nothing that the intercept does not. Leave it out.")
    sds = np.sqrt(np.where(still | coded | ~(spread < math.inf), np.nan, spread))
    if not np.isfinite(sds).any():
        return
    most, least = int(np.nanargmax(sds)), int(np.nanargmin(sds))
    ratio = sds[most] / sds[least]
    if ratio > _LARGEST_RATIO:
        word = "varies" if intercept else "is"
        yield Finding(
            "scales",
            f"feature {called[most]} {word} {ratio:.0f} times as {'much' if intercept else 'large'} as feature "
            f"{called[least]} (sds {sds[most]:.4g} and {sds[least]:.4g}). The prior treats all features alike: put "
            "them on one scale, by dividing each by its sd.",
        )


def _constant(still: BoolArray, level: FloatArray, called: Sequence[str | int], spans: Spans) -> list[str]:
    """Return what is said of features that never change; of a column all features must be ``still``."""
    if spans is None:
        return [f"feature {called[i]} is always {level[i]:.4g}" for i in map(int, np.flatnonzero(still))]
    return [f"column {name!r} never changes" for name, span in spans.items() if still[span].all()]


# -- residuals ---------------------------------------------------------------------------------------------

_QUESTIONS = {
    "curvature": "rewards are not linear in the context: its squared length predicts what the features leave over. "
    "Add features, such as squares or products.",
    "autocorrelation": "a reward predicts the next one: rewards are not independent given the context. The bandit is "
    "surer than it should be.",
    "drift": "rewards of the same arm in the same context change with time. Give the bandit a half_life.",
}


def _residuals(arms: Arms, names: Sequence[str | int]) -> Iterator[Finding]:
    from scipy import stats

    if arms.pool[GAIN] != 1.0:  # weighted rewards do not have equal variances
        return
    fits = [_fit(arms, int(arm)) for arm in np.flatnonzero(arms.marks[:, PULLS] > arms.mean.shape[1] + 2)]
    fits = [fit for fit in fits if fit.freedom > 1 and fit.residual > 0.0]
    freedom, residual = sum(fit.freedom for fit in fits), sum(fit.residual for fit in fits)
    if freedom < _LEAST_FREEDOM:
        return
    reach = float((_reach(arms, fits) / np.sqrt(residual / freedom)).max())
    for i, (kind, text) in enumerate(_QUESTIONS.items()):
        gains = [fit.gains[i] for fit in fits if fit.gains[i] >= 0.0]
        free = freedom - len(gains)
        if gains and residual > sum(gains):
            ratio = sum(gains) / len(gains) / ((residual - sum(gains)) / free)
            wide = reach * (_SPREADS[kind] or reach)
            chance = stats.f.sf(ratio / (1.0 + math.sqrt(ratio) * wide / (3.0 * math.sqrt(free))), len(gains), free)
            if chance < FALSE_ALARM:
                yield Finding(kind, f"{text} (F = {ratio:.1f} with {len(gains)} and {free} degrees of freedom)")
    tested = [fit for fit in fits if fit.freedom >= _LEAST_FREEDOM]
    if len(tested) > 1:
        variances = np.array([fit.residual / fit.freedom for fit in tested])
        chance = _differ(variances, np.array([fit.freedom for fit in tested]), _reach(arms, tested) ** 2 / variances)
        ratio = float(np.sqrt(variances.max() / variances.min()))
        if chance < FALSE_ALARM and ratio > _NOISE_RATIO:
            high, low = (tested[int(place)].arm for place in (variances.argmax(), variances.argmin()))
            yield Finding(
                "noise",
                f"rewards of arm {names[high]!r} are {ratio:.1f} times as noisy as those of arm {names[low]!r}. "
                "Consider noise='by arm'.",
            )


_SPREADS = {"curvature": 5.0, "autocorrelation": None, "drift": math.sqrt(3.0)}  # largest z in sds; None: as of rewards


class _Fit(NamedTuple):
    """Least squares of one arm, without a prior."""

    arm: int
    freedom: int
    residual: float  # sum of squares
    gains: list[float]  # what each z takes from it; -1 if z is a combination of features


def _fit(arms: Arms, arm: int) -> _Fit:
    dim = arms.mean.shape[1]
    sums = totals_of(arms, arm)
    extra = arms.extra[arm]  # [3,D+2]
    unit = np.sqrt(np.diagonal(sums)[:dim])
    unit = np.where(unit > 0.0, unit, 1.0)
    values, vectors = np.linalg.eigh(sums[:dim, :dim] / np.outer(unit, unit))
    used = values > 1e-10
    turned = vectors[:, used].T / unit  # to uncorrelated features
    target = turned @ sums[:dim, dim]
    residual = float(sums[dim, dim] - (target**2 / values[used]).sum())
    residual = residual if residual > 1e-10 * sums[dim, dim] else 0.0
    gains = []
    for row in extra:
        own = turned @ row[:dim]
        left = row[dim + 1] - (own**2 / values[used]).sum()
        with_reward = row[dim] - (own * target / values[used]).sum()
        gains.append(float(with_reward**2 / left) if left > 1e-8 * row[dim + 1] else -1.0)
    return _Fit(arm, int(arms.marks[arm, PULLS] - used.sum()), residual, gains)


def _reach(arms: Arms, fits: Sequence[_Fit]) -> FloatArray:
    """Return how far rewards of some arms can be at most from their means."""
    dim = arms.mean.shape[1]
    sums, weights = totals_of(arms)[:, 0, :], arms.parts[:, WEIGHT]
    constant = np.abs(sums[:, 0] - weights) <= 1e-6 * weights  # the first feature
    levels = [sums[fit.arm, dim] / weights[fit.arm] if constant[fit.arm] else 0.0 for fit in fits]
    return np.array([max(arms.pool[HIGH] - level, level - arms.pool[LOW]) for level in levels])


def _differ(variances: FloatArray, freedom: IntArray, kurtosis: FloatArray) -> float:
    """Return the chance of variances that differ as much if they are estimates of one, given bounds of kurtosis."""
    from scipy import stats

    weight = freedom / np.maximum(kurtosis - 1.0, 2.0)
    logs = np.log(variances)
    square = (weight * (logs - np.average(logs, weights=weight)) ** 2).sum()
    return float(stats.chi2.sf(square, len(variances) - 1))


def _starved(names: Sequence[str | int], pulls: IntArray) -> Iterator[Finding]:
    share = pulls.sum() / len(names)
    starved = np.flatnonzero(pulls < _STARVED * share) if share >= 10 and len(names) > 1 else np.empty(0, dtype=int)
    if starved.size:
        listed = ", ".join(f"{names[i]!r} ({pulls[i]})" for i in starved[:_SHOWN])
        listed += ", ..." if starved.size > _SHOWN else ""
        yield Finding(
            "starved",
            f"of {pulls.sum()} rewards these arms have next to none: {listed}. If they are poor that is right; "
            "if nobody knows, use first_pulls, min_propensity or a lower alpha.",
        )
