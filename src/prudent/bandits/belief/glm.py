"""Clicks and counts: arms whose rewards are 0 or 1, or counts, and the prior that they share.

Arm a pays 1 with the chance 1 / (1 + exp(-s'theta_a)), or a count with the rate exp(s'theta_a). Its posterior is the
Laplace posterior of ``_numerics.glm``: a normal one on the scale of scores s'theta_a, in the same sums as those of
normal rewards with a noise of sd 1. The link is monotone, so decisions, levels of risk and chances are what they are
there. Root and mean are brought up to date with every reward, in O(D^2).

**The prior is learned**, unless it is given. Clicks are few: with ten arms and twenty features a click in a hundred
tells next to nothing of an arm by itself, and a bandit that takes coefficients of size 1 to be likely tries everything
for long. Before data theta_a ~ Normal((c, 0, ..., 0), diag(u^2, v^2, ..., v^2)): the arms have a common level c, differ
from it by u, and coefficients of features have the size v. Given the posteriors of the arms with means m_a and
variances w_a, the evidence of all rewards is stationary at (MacKay, Neural Computation 4, 1992)

    u^2 = sum_a (m_a0 - c)^2 / sum_a g_a0,    v^2 = sum_aj m_aj^2 / sum_aj g_aj,    sum_a g_a0 (h_a - c) = 0,

where g = 1 - w / (its variance before data) is the share of a coefficient that data has determined, from 0 to 1, and
h_a what data alone says of the level of arm a, m_a0 = g_a0 h_a + (1 - g_a0) c. One such step is taken each time the
number of rewards has grown by a quarter, and then all arms are solved again. Until data tells, c ~ Normal(0, 5^2), and
u = 1 and v = 0.3, over the size of a typical feature, have the weight of four coefficients. Arms without rewards say
nothing and start from what others say.

**When the prior moves, or evidence fades**, the mean of an arm moves, and what its rewards say is worth more or less
there: a thousand zeros say much at odds of one to one, next to nothing at one to a million. As in ``_numerics.glm``,
the rewards are taken to be so many in one context, here the average one, whose mean put the mode where it was. If the
score of that context moves by d from f, the slope of what data says changes by tau(d) times what the sums say, and
their precision is rho(d) times what it was, with tau(d) = (mu(f + d) - mu(f)) / (d mu'(f)) and
rho(d) = mu'(f + d) / mu'(f).

The weights of rewards may be negative (see ``_numerics.glm``), so that the sums of an arm could, with another prior or
added to those of another bandit, give a precision that is not positive. Directions in which the sums would take more
than a tenth of the prior's precision are then taken to say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from ..._numerics.compile import kernel
from ..._numerics.glm import COUNTS, ODDS, laplace_sums, learn_reward, seen_before
from ..._numerics.triangles import diagonal_of, entry_of, lower_of, symmetric_of, triangle_of
from ..._support.checks import FloatArray, IntArray
from ..._support.state import Arrays
from ...errors import DataError
from ...posteriors.glm import LogisticPosterior, PoissonPosterior
from ...posteriors.linear import LinearGaussianPosterior
from ..kernels import layout as col
from ..kernels.layout import Arms
from ..kernels.step import WIDE, wide
from .arms import ArmBelief
from .base import POSTERIORS, all_usable, require_state

LINKS = {"bernoulli": ODDS, "poisson": COUNTS}
_NONE_GIVEN = np.empty(0)
_GROWTH = 1.25  # of the number of rewards, after which the prior is learned again
_FIRST = 16  # rewards, after which it is for the first time
_LEVEL_SD = 5.0  # of the common level before data
_OWN_SD, _SLOPE_SD = 1.0, 0.3  # of an arm's level and of a coefficient before data
_WEIGHT = 4.0  # coefficients that these two are worth
_LEAST, _MOST = 1e-4, 1e4  # of them, sds that are learned
_CHUNK = 256  # arms solved at a time
_FARTHEST = 30.0  # that a score moves at a time
_LEAST_MOVE = 1e-7  # for which weights change
_FAR = 0.01  # beyond which tau is worked out
_SAME_STRETCH = 1e-3
_TRIES = 20
_LARGE = 64  # features, from which triangles are inverted as such
_LARGE_FEATURES = 10.0
_LARGEST_DEBT = 0.1  # of the precision of the prior
_ROUNDS = 40  # of fitting arms and learning their prior
_SAME_PRIOR = 1e-6
_LOST = 0.01  # of a root or, in sds, of a mean that rewards may cost by cancellation
_ROUNDINGS = 1000.0  # that a root may differ from the sums by, besides those of rewards


class GlmArms(ArmBelief):
    """Belief about A arms whose rewards are clicks or counts: Laplace posteriors, and the prior that arms share.

    Parameters
    ----------
    count : int
        Number of arms.
    rewards : {"bernoulli", "poisson"}
        Kind of rewards.
    dim : int
        Number of features D, constant feature included.
    prior : ndarray of float, [D, D], optional
        Prior precision; None to learn the prior.
    intercept : bool, default=True
        Whether the first feature is constant.
    given : ndarray of float, optional
        Prior sds of the last coefficients, which are not learned.
    """

    link: int
    schema: ClassVar[dict[str, str]] = {"root": "float64 A D D", "mean": "float64 A D"}

    def __init__(
        self,
        count: int,
        rewards: str,
        dim: int,
        prior: FloatArray | None = None,
        intercept: bool = True,
        given: FloatArray = _NONE_GIVEN,
    ) -> None:
        self.reward_kind, self.link = rewards, LINKS[rewards]
        self.prior_origin = "learned" if prior is None else "given"
        self._roots = np.empty((0, 0))  # [J,T] of the priors
        self._slopes = slice(int(intercept), dim - given.size)
        sds = np.where(np.arange(dim) < int(intercept), _OWN_SD, _SLOPE_SD)
        sds[dim - given.size :] = given
        precision = np.diag(sds**-2.0) if prior is None else prior
        super().__init__(count, LinearGaussianPosterior(dim, precision).prior, intercept, 1.0)
        self._solve_again()

    @property
    def learned(self) -> bool:
        """Whether the prior is learned."""
        return self.prior_origin == "learned"

    # -- rewards -------------------------------------------------------------------------------------------

    def learn_one(self, point: FloatArray, row: int, reward: float, weight: float) -> bool:
        """Learn one reward in a context without the constant feature; see ``ArmBelief.learn_one``."""
        context = np.concatenate([np.ones(int(self.intercept)), point])[np.newaxis]
        self.learn(context, np.array([row], dtype=np.int64), np.array([reward]), np.array([weight]))
        return True

    def learn(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Learn rewards; see ``Belief.learn``."""
        self.learn_shifted(contexts, rows, rewards, weights, np.zeros(len(rewards)))

    def learn_shifted(
        self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray, offsets: FloatArray
    ) -> None:
        """Learn rewards whose scores are those of the contexts plus offsets.

        Parameters
        ----------
        contexts : ndarray of float, [T, D]
            Contexts, constant feature included.
        rows : ndarray of int, [T]
            Rows of the arms.
        rewards, weights, offsets : ndarray of float, [T]
            Rewards, how often they count, and what is added to their scores.
        """
        until = self._until_solved(contexts.shape[1])
        one = len(contexts) == 1 < until and self.table.pool[col.COUNT] > 0.0  # which the kernel refuses by itself
        if one and self._learn_until(contexts, rows, rewards, weights, offsets, 0, 1, narrow=True):
            return
        own = np.unique(rows)
        first_ones = self.learned and self.table.pool[col.COUNT] == 0.0 and len(contexts) > 0
        with self.all_or_none(None if first_ones or until <= len(contexts) else own):
            if first_ones:
                self._try(self._meet, contexts[0, self._slopes])
            first = 0
            while first < len(contexts):
                last = min(len(contexts), first + self._until_solved(contexts.shape[1]))
                self._learn_until(contexts, rows, rewards, weights, offsets, first, last)
                if self._until_solved(contexts.shape[1], -1) == 1:
                    self._try(self._learn_prior if self.learned else self._solve)  # fewer roundings, if no better prior
                first = last
            if self._fault(own):
                self._solve(own.tolist())  # roots that were updated may have lost more than those of the sums

    def _until_solved(self, size: int, more: int = 0) -> int:
        """Return after how many rewards all arms are solved again."""
        return until_next(int(self.table.pool[col.COUNT]) + more, size)

    def _learn_until(
        self,
        contexts: FloatArray,
        rows: IntArray,
        rewards: FloatArray,
        weights: FloatArray,
        offsets: FloatArray,
        first: int,
        last: int,
        narrow: bool = False,
    ) -> bool:
        """Learn rewards ``first`` to ``last`` - 1, or raise; with ``narrow``, return False at a wide context."""
        data = (contexts, rows, rewards, weights, offsets)
        done = _learn_rows(self.link, self._roots, self.table[:], *data, first, last, narrow)
        if done < 0:
            return False
        if done < last:
            where = f"[{done}]" if len(contexts) > 1 else ""
            message = f"context{where} is {contexts[done]}, too large for the sums: scale the features"
            raise DataError(message, code="too-large", argument="context", value=contexts[done])
        return True

    def may_refuse(self, contexts: FloatArray) -> bool:
        """Return whether contexts may be too large to learn from; see ``Belief.may_refuse``."""
        return True

    def _put_back(self) -> None:
        self._set_prior()

    def _fault(self, rows: Any) -> str:
        arms = self.table
        if not (arms.root[rows][:, diagonal_of(arms.mean.shape[1])] > 0.0).all():
            return "a root of a posterior would not be positive"
        total, root, mean = col.totals_of(arms, rows), col.roots_of(arms, rows), arms.mean[rows]
        if not all_usable(total, arms.prior, arms.start):
            return "the sums would be too large to square"
        fault = super()._fault(rows)
        if fault:
            return fault
        pulls, which = arms.marks[rows, col.PULLS], arms.marks[rows, col.WHICH]
        size, prior = mean.shape[1], col.priors_of(arms)[which]
        precision = prior + total[:, :size, :size]
        # one reward may take all but ten digits of a precision (``_numerics.glm``), and the next one as many
        rounding = np.finfo(np.float64).eps * (_ROUNDINGS + 10.0 * pulls[:, np.newaxis, np.newaxis])
        widths = np.abs(root) @ np.abs(precision)
        off = np.abs(root @ precision @ root.swapaxes(1, 2) - np.eye(size))
        if not (off <= _LOST + rounding * (widths @ np.abs(root).swapaxes(1, 2))).all():
            return "a root would not be that of the sums"
        target = _times(prior, arms.start[which]) + total[:, :size, size]
        gap = _times(root, _times(precision, mean) - target)  # in sds
        scale = 1.0 + np.abs(_times(root, target)).max(axis=1, keepdims=True)
        sizes = _times(widths, np.abs(mean)) + _times(np.abs(root), np.abs(target))
        near = np.abs(gap) <= _LOST * scale + rounding[:, :, 0] * sizes
        return "" if near.all() else "a mean would not be that of the sums"

    def _try(self, step: Callable[..., Any], *arguments: Any) -> None:
        """Take a step that improves numbers or prior; stay where we are if it fails in double precision."""
        with suppress(DataError), self.all_or_none():
            step(*arguments)

    def forget(self, factor: float) -> None:
        """Multiply all evidence by a factor; see ``Belief.forget``."""
        with self.all_or_none():
            col.scale_sums(self.table, factor)
            self.table.parts[:, col.WEIGHT] *= factor
            self._solve()

    def fit(self, contexts: FloatArray, rows: IntArray, rewards: FloatArray, weights: FloatArray) -> None:
        """Replace what was learned by the exact Laplace posteriors of a log, and by their prior."""
        arms, dim = self.table, contexts.shape[1]
        own = [np.flatnonzero(rows == arm) for arm in range(len(arms.mean))]
        with self.all_or_none():
            arms.marks[:, col.PULLS] = [at.size for at in own]
            arms.marks[:, col.TRIES] = np.maximum(self.pulls, self.tries)
            arms.parts[:, col.WEIGHT] = [weights[at].sum() for at in own]
            arms.pool[col.COUNT] = len(contexts)
            arms.pool[[col.LOW, col.HIGH]] = (rewards.min(), rewards.max()) if len(contexts) else (np.inf, -np.inf)
            for _ in range(_ROUNDS if self.learned else 1):
                for arm, at in enumerate(own):
                    which = arms.marks[arm, col.WHICH]
                    data = contexts[at], rewards[at], weights[at]
                    given = (self.link, symmetric_of(arms.prior[which]), arms.start[which], *data, arms.mean[arm])
                    col.put_sums(arms, arm, laplace_sums(*given) if at.size else np.zeros((2, dim + 1, dim + 1)))
                self._solve(anchored=True)
                before = np.append(self._first_precision(), arms.start[0])
                if not self.learned or not self._learn_prior():
                    break
                after = np.append(self._first_precision(), arms.start[0])
                if (np.abs(after - before) <= _SAME_PRIOR * (1.0 + np.abs(after))).all():
                    break
        self.priors = col.priors_of(arms)

    # -- the prior -----------------------------------------------------------------------------------------

    def _set_prior(self) -> None:
        """Compute the roots of the priors, after one of them has changed."""
        self._roots = triangle_of(_lower_root(col.priors_of(self.table)))

    def _first_precision(self) -> FloatArray:
        """Return the diagonal [D] of the first prior precision."""
        return self.table.prior[0, diagonal_of(self.table.mean.shape[1])]

    def _solve_again(self) -> None:
        """Solve all arms after a prior has changed."""
        self._set_prior()
        self._solve()

    def _solve_merged(self) -> None:
        self._solve_again()
        if self.learned:
            self._try(self._learn_prior)

    def _impossible(self, gram: FloatArray) -> bool:
        return False  # weights of clicks may be negative

    def same_prior(self, row: int, other: ArmBelief, there: int) -> bool:
        """Return whether an arm has the same prior here and there; see ``ArmBelief.same_prior``."""
        if self.table.marks[row, col.WHICH] == other.table.marks[there, col.WHICH] == 0:
            return True  # it is learned, or given and compared as such
        return super().same_prior(row, other, there)

    def add_row(self, prior: tuple[FloatArray, FloatArray] | None = None) -> None:
        """Add an arm without data; see ``ArmBelief.add_row``."""
        super().add_row(prior)
        self._set_prior()
        self._solve([len(self.table.mean) - 1])

    def remove_row(self, row: int) -> None:
        """Remove an arm, and a prior of its own; see ``ArmBelief.remove_row``."""
        super().remove_row(row)
        self._set_prior()

    def _meet(self, features: FloatArray) -> None:
        """Make the first prior one for large features, if the first ones are: scores would be far out of range."""
        arms = self.table
        there = features[features != 0.0]
        size = float(np.sqrt(np.mean((there / np.abs(there).max()) ** 2)) * np.abs(there).max()) if there.size else 0.0
        if size > _LARGE_FEATURES:
            sds = self._first_precision() ** -0.5
            sds[self._slopes] = _SLOPE_SD / size
            arms.prior[0] = triangle_of(np.diag(sds**-2.0))
            self._solve_again()

    def _learn_prior(self) -> bool:
        """Take one step of the learning of the prior; return whether there was anything to learn from."""
        arms = self.table
        mine = np.flatnonzero((arms.marks[:, col.WHICH] == 0) & (arms.marks[:, col.PULLS] > 0))
        if not mine.size:
            return False
        precision, level = self._first_precision(), arms.start[0].copy()
        means = arms.mean[mine]
        variances = (col.roots_of(arms, mine) ** 2).sum(axis=1)
        shares = np.clip(1.0 - variances * precision, 0.0, 1.0)  # [A',D]
        slopes, has_slopes = self._slopes, self._slopes.start < self._slopes.stop
        size = 1.0  # of the features
        if self.intercept:
            top = precision[0] * (means[:, 0] - (1.0 - shares[:, 0]) * level[0]).sum()
            level[0] = top / (_LEVEL_SD**-2.0 + precision[0] * shares[:, 0].sum())
            squares = arms.gram[mine][:, diagonal_of(means.shape[1] + 1)].sum(axis=0)
            typical = float(np.median(squares[slopes])) if has_slopes else 0.0
            size = np.sqrt(typical / squares[0]) if typical > 0.0 and squares[0] > 0.0 else 1.0
        for part, guess in ((slice(slopes.start), _OWN_SD), (slopes, _SLOPE_SD / size)):
            square = _WEIGHT * guess**2 + ((means - level)[:, part] ** 2).sum()
            sd = np.sqrt(square / (_WEIGHT + shares[:, part].sum()))
            precision[part] = np.clip(sd / guess, _LEAST, _MOST) ** -2.0 / guess**2
        arms.prior[0], arms.start[0] = triangle_of(np.diag(precision)), level
        self._solve_again()
        return True

    def _solve(self, rows: Sequence[int] | None = None, *, anchored: bool = False) -> None:
        """Solve roots and means of the arms at ``rows``, by default all, from their sums.

        Weights are changed to what they are at the new means, unless sums are ``anchored`` there already.
        """
        arms = self.table
        at = np.arange(len(arms.mean)) if rows is None else np.asarray(rows, dtype=np.int64)
        seen, blank = at[self.pulls[at] > 0], at[self.pulls[at] == 0]
        which = arms.marks[blank, col.WHICH]
        arms.root[blank], arms.mean[blank] = self._roots[which], arms.start[which]
        arms.marks[at, col.STALE] = 0
        for first in range(0, seen.size, _CHUNK):
            self._follow(seen[first : first + _CHUNK], anchored)

    def _follow(self, at: IntArray, anchored: bool) -> None:
        """Move k arms to where prior and sums put them."""
        arms = self.table
        size = arms.mean.shape[1]
        which = arms.marks[at, col.WHICH]
        prior, start, old = symmetric_of(arms.prior[which]), arms.start[which], arms.mean[at]
        total = col.totals_of(arms, at)
        sums, target = total[:, :size, :size], total[:, :size, size]
        mended = False
        try:
            np.linalg.cholesky(_LARGEST_DEBT * prior + sums)
        except np.linalg.LinAlgError:
            slope = target - _times(sums, old)
            sums = np.stack([_positive(one, two) for one, two in zip(prior, sums, strict=True)])
            target, mended = slope + _times(sums, old), True
        slope = target - _times(sums, old) - _times(prior, old - start)
        root = _lower_root(prior + sums)
        step = np.einsum("aji,aj->ai", root, _times(root, slope))
        move, ratio = np.zeros(len(at)), np.ones(len(at))
        if self.intercept and not anchored:
            weight = sums[:, 0, 0]
            context = np.where(weight[:, np.newaxis] > 0.0, sums[:, 0] / np.maximum(weight, 1e-300)[:, np.newaxis], 0.0)
            centre = (context * old).sum(axis=1)
            stretch = np.ones(len(at))
            move = np.clip((context * step).sum(axis=1), -_FARTHEST, _FARTHEST)
            far = np.flatnonzero(np.abs(move) > _FAR)
            for _ in range(_TRIES):
                following = _shift(self.link, centre[far], move[far])[0]
                off = np.abs(following - stretch[far]) > _SAME_STRETCH * stretch[far]
                far, following = far[off], following[off]
                if not far.size:
                    break
                # downwards this goes one way; upwards it would swing
                stretch[far] = np.where(move[far] < 0.0, following, np.sqrt(stretch[far] * following))
                precision = prior[far] + stretch[far, np.newaxis, np.newaxis] * sums[far]
                step[far] = np.linalg.solve(precision, slope[far, :, np.newaxis])[:, :, 0]
                move[far] = np.clip((context[far] * step[far]).sum(axis=1), -_FARTHEST, _FARTHEST)
            ratio = _shift(self.link, centre, move)[1]
        mean = old + step
        moved = np.abs(move) > (_LEAST_MOVE if size < _LARGE else _FAR)
        if moved.any() or mended:
            sums = np.where(moved, ratio, 1.0)[:, np.newaxis, np.newaxis] * sums
            target = _times(prior, mean - start) + _times(sums, mean)
            total = np.zeros((len(at), 2, size + 1, size + 1))
            total[:, 0, :size, :size], total[:, 0, size, :size] = sums, target
            col.put_sums(arms, at, total)
            root[moved] = _lower_root((prior + sums)[moved])
        arms.root[at], arms.mean[at] = triangle_of(root), mean

    # -- what it says --------------------------------------------------------------------------------------

    def posterior(self, row: int) -> LogisticPosterior | PoissonPosterior:
        """Return a copy of the posterior of theta of one arm; see ``Belief.posterior``."""
        return self._glm_posterior(row, self.reward_kind)

    def _glm_posterior(self, row: int, kind: str) -> Any:
        arms = self.table
        which = arms.marks[row, col.WHICH]
        prior, start = symmetric_of(arms.prior[which]), arms.start[which].copy()
        solved = lower_of(arms.root[row]), arms.mean[row].copy()  # what decisions are taken from
        return POSTERIORS[kind].of_sums(prior, 1.0, col.sums_of(arms, row), start, solved)

    def arrays(self) -> Arrays:
        """Return the arrays of a state file; see ``Belief.arrays``."""
        arms = self.table  # root and mean were updated with the rewards
        return super().arrays() | {
            "prior_precision": col.priors_of(arms),
            "root": col.roots_of(arms),
            "mean": arms.mean,
        }

    def _restore_solved(self, arrays: Arrays) -> None:
        self._set_prior()
        self.table.root[:], self.table.mean[:] = triangle_of(arrays["root"]), arrays["mean"]
        self.table.marks[:, col.STALE] = 0

    def _moved(self, start: FloatArray) -> FloatArray:
        return start[int(self.intercept) :] if self.learned else start  # only a level is learned

    def _require_sums(self, arrays: Arrays) -> None:
        gram, pulls, priors = (arrays[name] for name in ("gram", "pulls", "prior_precision"))
        for name in self.schema:
            require_state(all_usable(arrays[name]), f"{name} holds a number that is too large")
        symmetric = all_usable(gram) and np.array_equal(gram, gram.swapaxes(2, 3))
        require_state(symmetric, "gram is not symmetric, or too large")
        require_state(not gram[pulls == 0].any(), "sums of an arm without rewards")
        diagonal = (np.diag(np.diagonal(priors[0])) == priors[0]).all()
        require_state(diagonal or not self.learned, "a prior that was not learned")
        lower = not np.triu(arrays["root"], 1).any() and (np.diagonal(arrays["root"], axis1=1, axis2=2) > 0.0).all()
        require_state(lower, "a root that is no lower triangle")


def _times(matrices: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return the products of matrices [k,D,D] with vectors [k,D]."""
    return np.asarray(np.einsum("aij,aj->ai", matrices, vectors))


def until_next(count: int, size: int) -> int:
    """Return how many rewards after the first ``count`` the prior of ``size`` coefficients is learned again."""
    step = max(_FIRST, size // 4)
    while step <= count:
        step = int(step * _GROWTH)
    return step - count


def _positive(prior: FloatArray, sums: FloatArray) -> FloatArray:
    """Return sums [D,D] without what would cost more of the precision than a tenth of the prior's."""
    factor = np.linalg.cholesky(prior)
    inner = np.linalg.solve(factor, np.linalg.solve(factor, sums).T)
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    if values[0] >= -_LARGEST_DEBT:
        return sums
    turned = factor @ vectors
    mended = (turned * np.maximum(values, 0.0)) @ turned.T
    return np.asarray(0.5 * (mended + mended.T))


def _shift(link: int, centre: FloatArray, move: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return tau and rho (see above) of scores [k] that move from ``centre`` by ``move``."""
    change, ratio = np.empty_like(move), np.empty_like(move)
    for i in range(move.size):
        change[i], ratio[i] = seen_before(link, centre[i], move[i])
    still = np.abs(move) < 1e-9
    return np.where(still, 1.0, change / np.where(still, 1.0, move)), ratio


def _lower_root(precision: FloatArray) -> FloatArray:
    """Return lower triangles [k,D,D] with V^-1 = root' root."""
    try:
        factor = np.linalg.cholesky(precision)
    except np.linalg.LinAlgError:
        return np.stack([_careful_root(one) for one in precision])
    if factor.shape[-1] < _LARGE or not len(factor):
        return np.tril(np.linalg.inv(factor))
    from scipy.linalg.lapack import dtrtri

    return np.stack([dtrtri(one, lower=1)[0] for one in factor])


def _careful_root(precision: FloatArray) -> FloatArray:
    """Return the root of a matrix [D,D] that rounding may have made indefinite.

    In units of its diagonal, eigenvalues below rounding are taken to be as large as rounding. If V = U W U', the rows
    of W^(-1/2) U' are a root, and its QL decomposition gives the lower triangular one.
    """
    unit = np.sqrt(np.diagonal(precision))
    if not (unit > 0.0).all() or not np.isfinite(precision).all():
        raise np.linalg.LinAlgError("the precision is not positive")
    values, vectors = np.linalg.eigh(precision / np.outer(unit, unit))
    values = np.maximum(values, np.finfo(np.float64).eps * len(unit) * values[-1])
    wide = (vectors / np.sqrt(values)).T / unit
    lower = np.asarray(np.linalg.qr(wide[:, ::-1], mode="r"))[::-1, ::-1]  # the upper triangle of the mirrored columns
    return np.asarray(np.tril(lower * np.copysign(1.0, np.diagonal(lower))[:, np.newaxis]))


# -- kernels -----------------------------------------------------------------------------------------------


@kernel
def _is_wide(prior: FloatArray, sums: FloatArray, context: FloatArray) -> bool:
    """Return whether a context [D], or the sums of what was learned before, may drown the prior precision."""
    found, dim = 0, context.shape[0]
    for i in range(dim):
        found += entry_of(sums, i, i, dim + 1) > WIDE * entry_of(prior, i, i, dim)
    return found > 0 or wide(prior, 1.0, context)


@kernel
def _learn_rows(
    link: int,
    roots: FloatArray,
    arms_fields: tuple[Any, ...],
    contexts: FloatArray,
    places: IntArray,
    rewards: FloatArray,
    weights: FloatArray,
    offsets: FloatArray,
    first: int,
    last: int,
    narrow: bool,
) -> int:
    """Learn the rewards from ``first`` on; return the place of one that cannot be learned, or ``last``.

    With ``narrow``, return -1 before a context that is `wide`, and for an arm that has learned from one.
    """
    arms = Arms(*arms_fields)
    gram, lost, root, mean = arms.gram, arms.lost, arms.root, arms.mean
    parts, pool, marks = arms.parts, arms.pool, arms.marks
    scratch = np.empty((2, mean.shape[1]))
    for t in range(first, last):
        arm, reward = places[t], rewards[t]
        own = roots[marks[arm, col.WHICH]]
        if narrow and _is_wide(arms.prior[marks[arm, col.WHICH]], gram[arm], contexts[t]):
            return -1
        sums = (gram[arm], lost[arm], root[arm], mean[arm])
        if not learn_reward(link, own, *sums, contexts[t], reward, weights[t], offsets[t], scratch):
            return t
        parts[arm, col.WEIGHT] += weights[t]
        marks[arm, col.PULLS] += 1
        marks[arm, col.TRIES] = max(marks[arm, col.TRIES], marks[arm, col.PULLS])
        pool[col.LOW], pool[col.HIGH] = min(pool[col.LOW], reward), max(pool[col.HIGH], reward)
        pool[col.COUNT] += 1.0
    return last
