"""The rule for claims about the best of several options: confidence sets by multiple comparisons with the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from ..types import ArrayLike, FloatArray
from .rules import ERROR, FEWEST, POWER, Finding, Interval, Rule, Samples, Verdict, size_of


@dataclass(frozen=True)
class BestOptions(Rule):
    """The options that are best in several groups; samples are [R, options] by group, and the least mean is best.

    An option is in the set of a group unless some other is better beyond doubt. The set holds the best option with
    probability at least ``1 - error``, for all groups and looks together: the best one is lost only if one of the
    others looks better than it by its quantile of Student's t, at ``error / (looks groups others)`` on one side
    (multiple comparisons with the best). Groups may have different numbers of replications.

    Attributes
    ----------
    options : tuple of float
        The options.
    claimed : tuple of float
        A choice of one option for each group of which the claim is true.
    holds : callable
        Whether the claim is true of a choice.
    multiples : tuple of int
        See ``Rule``: the error rate is split evenly among the looks.
    """

    options: tuple[float, ...]
    claimed: tuple[float, ...]
    holds: Callable[[tuple[float, ...]], bool]
    multiples: tuple[int, ...] = (1,)

    @property
    def words(self) -> str:
        """See ``Rule``."""
        looks = f", {len(self.multiples)} looks at growing data" if len(self.multiples) > 1 else ""
        return (
            "confidence sets of the best option, by multiple comparisons with the best (paired Student t, Bonferroni), "
            f"all groups together{looks}; reproduced if every choice from the sets is as claimed"
        )

    def _level(self, groups: int, error: float) -> float:
        """Return the probability, on one side, of each comparison."""
        return error / (len(self.multiples) * groups * (len(self.options) - 1))

    def _compared(self, values: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
        """Return by how much the mean of each option exceeds that of each other, and the half widths."""
        data = np.asarray(values, dtype=np.float64)
        count = data.shape[0]
        means = data.mean(axis=0)
        excess = means[:, np.newaxis] - means
        if count < FEWEST:
            return excess, np.full_like(excess, np.inf)
        centred = data - means
        cov = centred.T @ centred / (count - 1.0)
        variances = np.diag(cov)[:, np.newaxis] + np.diag(cov) - 2.0 * cov
        quantile = float(stdtrit(count - 1, 1.0 - level))
        return excess, quantile * np.sqrt(np.maximum(variances, 0.0) / count)

    def sets(self, samples: Samples, error: float = ERROR) -> dict[str, list[float]]:
        """Return the options that may be the best in each group.

        Parameters
        ----------
        samples : mapping of str to array-like
            Samples [R, options] by group.
        error : float, default=0.01
            Error rate of all sets and looks together.

        Returns
        -------
        dict of str to list
            Sets by group.
        """
        level = self._level(len(samples), error)
        found = {}
        for group, values in samples.items():
            excess, half = self._compared(values, level)
            found[group] = [option for i, option in enumerate(self.options) if not np.any(excess[i] > half[i])]
        return found

    def _possible(self, sets: Mapping[str, Sequence[float]]) -> set[bool]:
        """Return whether the claim is true of the choices from sets: of all, of none, or both."""
        return {self.holds(choice) for choice in itertools.product(*sets.values())}

    def judge(self, samples: Samples, error: float = ERROR) -> Finding:
        """See ``Rule``."""
        sets, level = self.sets(samples, error), self._level(len(samples), error)
        possible = self._possible(sets)
        reach = 1.0 + float(ndtri(POWER) / ndtri(1.0 - level))
        shown, against, estimates, sizes = [], [], [], [0.0]
        for group, values in samples.items():
            excess, halves = self._compared(values, level)
            count, first = len(np.asarray(values)), int(np.argmin(excess[:, 0]))
            best = self.options[first]
            estimates.append(best)
            listed = ", ".join(f"{option:g}" for option in sets[group])
            shown.append(
                Interval(f"{group}: may be the best after {count:,} replications: {listed}. Number", len(sets[group]))
            )
            for option, mean, half in zip(
                self.options, excess[:, first].tolist(), halves[:, first].tolist(), strict=True
            ):
                if option == best:
                    continue
                against.append(Interval(f"{group}: {option:g} minus {best:g}", mean, mean - half, mean + half))
                if option in sets[group]:
                    sizes.append(count * (reach * half / mean) ** 2 if mean else math.inf)
        evidence = [*shown, *against]
        if possible == {True}:
            return Finding(evidence, Verdict.REPRODUCED)
        if possible == {False}:
            return Finding(evidence, Verdict.NOT_REPRODUCED, self._contradicting(sets))
        verdict = Verdict.COMPATIBLE if self.holds(tuple(estimates)) else Verdict.INCONCLUSIVE
        widest = int(np.argmax([len(options) for options in sets.values()]))
        return Finding(evidence, verdict, widest, size_of(max(sizes)))

    def _contradicting(self, sets: Mapping[str, Sequence[float]]) -> int:
        """Return the first group whose set excludes the claim by itself, with the claimed options elsewhere."""
        for i, options in enumerate(sets.values()):
            if not any(self.holds((*self.claimed[:i], option, *self.claimed[i + 1 :])) for option in options):
                return i
        return len(sets) - 1

    def undecided(self, samples: Samples, error: float = ERROR) -> list[str]:
        """Return the groups whose set still has several options, unless the verdict is decided."""
        sets = self.sets(samples, error)
        return [group for group, options in sets.items() if len(options) > 1] if len(self._possible(sets)) > 1 else []

    def worlds(self, samples: Samples) -> dict[str, dict[str, FloatArray]]:
        """See ``Rule``; at the edge an option ties with the claimed one, so that the claim is true of one of them."""
        centred = {name: _centred(x) for name, x in samples.items()}

        def at(i: int, group: str, rival: float | None = None, ahead: float = 0.0) -> FloatArray:
            far = 1e3 * float(centred[group].std()) + 1.0
            means = dict.fromkeys(self.options, far) | {self.claimed[i]: 0.0}
            if rival is not None:
                means[rival] = -ahead
            return centred[group] + [means[option] for option in self.options]

        worlds = {}
        for i, group in enumerate(samples):
            for rival in self.options:
                if self.holds((*self.claimed[:i], rival, *self.claimed[i + 1 :])):
                    continue
                pair = [self.options.index(option) for option in (self.claimed[i], rival)]
                difference = centred[group][:, pair] @ (1.0, -1.0)
                beyond = float(difference.std(ddof=1)) / math.sqrt(difference.size)
                for kind, ahead in (("edge", 0.0), ("false", beyond)):
                    worlds[f"{kind}: {group}, {rival:g} beside {self.claimed[i]:g}"] = {
                        other: at(j, other, *((rival, ahead) if other == group else ()))
                        for j, other in enumerate(samples)
                    }
        return worlds


def _centred(values: ArrayLike) -> FloatArray:
    data = np.asarray(values, dtype=np.float64)
    return np.asarray(data - data.mean(axis=0))
