"""The rule for claims about the best of several options: confidence sets by multiple comparisons with the best."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from ..types import ArrayLike, BoolArray, FloatArray
from .draws import Draw, Sums
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

    def _compared(self, sums: Sums, level: float) -> tuple[FloatArray, FloatArray]:
        """Return by how much the mean of each option exceeds that of each other, and the half widths."""
        count = sums.size[..., np.newaxis, np.newaxis]
        means = sums.total / sums.size[..., np.newaxis]
        excess = means[..., :, np.newaxis] - means[..., np.newaxis, :]
        own = np.diagonal(sums.products, axis1=-2, axis2=-1)
        squares = own[..., :, np.newaxis] + own[..., np.newaxis, :] - 2.0 * sums.products
        enough = count >= FEWEST
        variances = np.maximum(squares - count * excess**2, 0.0) / np.where(enough, count - 1.0, 1.0)
        half = stdtrit(np.maximum(count - 1.0, 1.0), 1.0 - level) * np.sqrt(variances / count)
        return excess, np.where(enough, half, np.inf)

    def _all_kept(self, sums: Mapping[str, Sums], level: float) -> BoolArray:
        """Return which options [..., groups, options] may be the best."""
        compared = [self._compared(each, level) for each in sums.values()]
        return np.stack([~(excess > half).any(axis=-1) for excess, half in compared], axis=-2)

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
        kept = self._all_kept(_sums(samples), self._level(len(samples), error))
        return {
            group: list(itertools.compress(self.options, mask))
            for group, mask in zip(samples, kept.tolist(), strict=True)
        }

    def possible(self, kept: BoolArray) -> tuple[BoolArray, BoolArray]:
        """Return whether the claim is true, and whether it is false, of some choice of options that may be the best.

        Parameters
        ----------
        kept : ndarray of bool
            Whether options [..., groups, options] may be the best.

        Returns
        -------
        tuple of ndarray of bool
            Whether some choice is as claimed, and whether some choice is not.
        """
        groups = kept.shape[-2]
        holds = [self.holds(choice) for choice in itertools.product(self.options, repeat=groups)]
        chosen = kept[..., 0, :]
        for i in range(1, groups):
            chosen = (chosen[..., :, np.newaxis] & kept[..., i, np.newaxis, :]).reshape(*chosen.shape[:-1], -1)
        true, false = ((chosen & which).any(axis=-1) for which in (np.array(holds), ~np.array(holds)))
        return np.asarray(true), np.asarray(false)

    def judge(self, samples: Samples, error: float = ERROR) -> Finding:
        """See ``Rule``."""
        level, sums, sets = self._level(len(samples), error), _sums(samples), self.sets(samples, error)
        true, false = self.possible(self._all_kept(sums, level))
        reach = 1.0 + float(ndtri(POWER) / ndtri(1.0 - level))
        shown, against, estimates, sizes = [], [], [], [0.0]
        for group, each in sums.items():
            excess, halves = self._compared(each, level)
            count, first = int(each.size), int(np.argmin(excess[:, 0]))
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
        if not false:
            return Finding(evidence, Verdict.REPRODUCED)
        if not true:
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
        kept = self._all_kept(_sums(samples), self._level(len(samples), error))
        return list(itertools.compress(samples, self._open(kept).tolist()))

    def _open(self, kept: BoolArray) -> BoolArray:
        """Return the groups [..., groups] that a further look needs."""
        true, false = self.possible(kept)
        return (kept.sum(axis=-1) > 1) & (true & false)[..., np.newaxis]

    def reproduced(self, draw: Draw, names: Sequence[str], studies: int, first: int, error: float) -> BoolArray:
        """See ``Rule``; studies grow in the groups that are open, until they are decided or have had all looks."""
        level, options = self._level(len(names), error), len(self.options)
        sums = {name: Sums.none(studies, options) for name in names}
        kept = np.ones((studies, len(names), options), dtype=np.bool_)
        open_, before = np.ones(kept.shape[:2], dtype=np.bool_), 0
        for multiple in self.multiples:
            for wanted in np.unique(
                open_[open_.any(axis=1)], axis=0
            ):  # studies with the same open groups grow together
                which = np.flatnonzero((open_ == wanted).all(axis=1))
                grown = list(itertools.compress(names, wanted.tolist()))
                for name, more in draw.sums(grown, which, multiple * first - before).items():
                    sums[name].add(more, which)
            before = multiple * first
            kept = self._all_kept(sums, level)
            open_ = self._open(kept)
        return ~self.possible(kept)[1]

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


def _sums(samples: Samples) -> dict[str, Sums]:
    """Return the sums of the samples of each group, around the mean of all of them."""
    arrays = {group: np.asarray(values, dtype=np.float64) for group, values in samples.items()}
    return {group: Sums.of(values - values.mean()) for group, values in arrays.items()}


def _centred(values: ArrayLike) -> FloatArray:
    data = np.asarray(values, dtype=np.float64)
    return np.asarray(data - data.mean(axis=0))
