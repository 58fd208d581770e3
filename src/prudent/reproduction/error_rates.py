"""Error rates of verdicts, by simulation: how often a claim is called reproduced in worlds where it is false.

Worlds are made of measured data (``Rule.worlds``): the noise is that of the study, paired over replications, and the
means are moved to where the claim is false, or just ends to be true. A simulated study draws as many replications as
the real one from such a world, in two ways: whole replications of the measured data with replacement, which keeps its
skewness, and from the normal law with its means and covariances. It is then judged by the rule, with as many looks as
the real study takes. A rule keeps its promise if at most 1% of studies are reproduced in every world.

Studies are simulated and judged many at a time (``Rule.reproduced``), in bounded memory. Of studies that grow only the
sums that the rule needs are drawn (``draws``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from .draws import BLOCK, Normal, Resampled
from .rules import ERROR, Rule, Samples

STUDIES = 2_000  # simulated studies in each world
CLOSER = 20  # times as many where more than half of the promised rate was found
FILE = "error_rates.json"  # what was measured, by claim; written by `python -m benchmarks.verdicts rates`


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
        Simulated studies in each of them; up to 20 times as many where more than 0.5% were reproduced.
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
        width = sum(values[:1].size for values in world.values())
        together = min(studies, max(1, BLOCK // (first * width)))
        for kind, way in (("resampled", Resampled), ("normal", Normal)) if rule.smooth else (("resampled", Resampled),):
            generator = np.random.default_rng(np.random.SeedSequence(rng, spawn_key=(number, len(kind))))
            draw = way(world, generator)
            reproduced = done = 0
            # 2,000 studies of a rate of 0.9% say more than 1% in a third of the worlds: go on where it is not clear
            while done < studies or (done < CLOSER * studies and reproduced > 0.5 * ERROR * done):
                count = min(together, studies - done % studies)
                reproduced += int(rule.reproduced(draw, list(world), count, first, error).sum())
                done += count
            shares[f"{name} ({kind})"] = reproduced / done
    worst = max(shares, key=lambda name: shares[name])

    def largest(kind: str) -> float:
        return max(share for name, share in shares.items() if name.startswith(kind))

    return ErrorRate(largest("edge"), largest("false"), len(shares), studies, first, worst)


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
