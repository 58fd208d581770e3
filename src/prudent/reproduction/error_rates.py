"""Error rates of verdicts, by simulation: how often a claim is called reproduced in worlds where it is false.

Worlds are made of measured data (``Rule.worlds``): the noise is that of the study, paired over replications, and the
means are moved to where the claim is false, or just ends to be true. A simulated study draws as many replications as
the real one from such a world, in two ways: whole replications of the measured data with replacement, which keeps its
skewness, and from the normal law with its means and covariances. It is then judged by the rule, with as many looks as
the real study takes. A rule keeps its promise if at most 1% of studies are reproduced in every world.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from ..types import FloatArray
from .rules import ERROR, Rule, Samples, Verdict

STUDIES = 2_000  # simulated studies in each world
FILE = "error_rates.json"  # what was measured, by claim; written by `python -m benchmarks.verdicts rates`

World = Mapping[str, FloatArray]
Draw = Callable[[np.random.Generator, Sequence[str], int], dict[str, FloatArray]]  # paired over quantities


@dataclass(frozen=True)
class ErrorRate:
    """Shares of simulated studies that were called reproduced in worlds where the claim is false.

    Attributes
    ----------
    edge : float
        Largest share in the worlds where the claim just ends to be true.
    false : float
        Largest share in the worlds where it is false by one standard error of the study.
    worlds : int
        Number of worlds.
    studies : int
        Simulated studies in each of them.
    replications : int
        Replications of a study; at the first look if there are several.
    worst : str
        The world with the largest share.
    """

    edge: float
    false: float
    worlds: int
    studies: int
    replications: int
    worst: str

    @property
    def largest(self) -> float:
        """The largest share in any world."""
        return max(self.edge, self.false)


def error_rate(
    rule: Rule,
    samples: Samples,
    error: float = ERROR,
    studies: int = STUDIES,
    rng: int = 1,
    replications: int | None = None,
) -> ErrorRate:
    """Return how often a rule calls its claim reproduced in worlds where it is false.

    Parameters
    ----------
    rule : Rule
        The rule.
    samples : mapping of str to array-like
        Measured samples.
    error : float, default=0.01
        The error rate that the rule promises.
    studies : int, default=2000
        Simulated studies in each world.
    rng : int, default=1
        Seed.
    replications : int, optional
        Replications of a simulated study at its first look; the default is as many as were measured.

    Returns
    -------
    ErrorRate
        The shares.
    """
    first = replications or min(len(np.asarray(values)) for values in samples.values())
    shares: dict[str, float] = {}
    for number, (name, world) in enumerate(rule.worlds(samples).items()):
        for kind, draw in _ways(world, rule.smooth).items():
            generator = np.random.default_rng(np.random.SeedSequence(rng, spawn_key=(number, len(kind))))
            reproduced = sum(
                _study(rule, list(world), draw, first, error, generator) is Verdict.REPRODUCED for _ in range(studies)
            )
            shares[f"{name} ({kind})"] = reproduced / studies
    worst = max(shares, key=lambda name: shares[name])

    def largest(kind: str) -> float:
        return max(share for name, share in shares.items() if name.startswith(kind))

    return ErrorRate(largest("edge"), largest("false"), len(shares), studies, first, worst)


def _ways(world: World, smooth: bool) -> dict[str, Draw]:
    """Return the ways to draw replications of a world."""

    def resampled(rng: np.random.Generator, names: Sequence[str], count: int) -> dict[str, FloatArray]:
        places = rng.random(count)
        return {name: world[name][(places * len(world[name])).astype(np.int64)] for name in names}

    return {"resampled": resampled, **({"normal": _normal(world)} if smooth else {})}


def _normal(world: World) -> Draw:
    """Return a draw from the normal law with the mean and the covariance of all quantities together."""
    flat = {name: values.reshape(len(values), -1) for name, values in world.items()}
    rows = min(map(len, flat.values()))
    stacked = np.concatenate([values[:rows] for values in flat.values()], axis=1)
    # the covariance is factor' factor
    factor = np.linalg.qr(stacked - stacked.mean(axis=0), mode="r") / np.sqrt(rows - 1.0)
    ends = np.cumsum([values.shape[1] for values in flat.values()])
    factors = dict(zip(flat, np.split(factor, ends[:-1], axis=1), strict=True))
    means = {name: values.mean(axis=0) for name, values in flat.items()}

    def draw(rng: np.random.Generator, names: Sequence[str], count: int) -> dict[str, FloatArray]:
        noise = rng.standard_normal((count, factor.shape[0]))
        return {name: (means[name] + noise @ factors[name]).reshape(count, *world[name].shape[1:]) for name in names}

    return draw


def _study(rule: Rule, names: list[str], draw: Draw, first: int, error: float, rng: np.random.Generator) -> Verdict:
    """Return the verdict of one simulated study, which looks at its data as often as the real one."""
    samples: dict[str, FloatArray] = {}
    open_, before = names, 0
    for multiple in rule.multiples:
        for name, rows in draw(rng, open_, multiple * first - before).items():
            samples[name] = np.concatenate([samples[name], rows]) if before else rows
        before = multiple * first
        open_ = rule.undecided(samples, error)
        if not open_:
            break
    return rule.judge(samples, error).verdict


# -- what was measured -------------------------------------------------------------------------------------


def record(rates: Mapping[str, ErrorRate]) -> dict[str, Any]:
    """Return the error rates of a claim under its readings, for JSON."""
    return {reading: asdict(rate) for reading, rate in rates.items()}


@cache
def measured() -> dict[str, dict[str, ErrorRate]]:
    """Return the error rates that were measured for all claims, by claim and reading ("" for as written)."""
    text = resources.files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    return {
        claim: {reading: ErrorRate(**rate) for reading, rate in rates.items()}
        for claim, rates in json.loads(text)["claims"].items()
    }
