"""Interval models: bounds on every transition probability, from arrays, files of bmdp-tool, or a posterior."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._support.checks import flag, instance_of, number_array, refuse, require_shape
from ..data.labels import Labels
from ..errors import ModelError, ParameterError, PosteriorError
from ..models.base import admissible_mask, held, read_terminal
from ..models.builders import BY_PAIR, own_sources, places_in, read_transitions, row_numbers
from ..models.entries import END
from ..models.files.bmdp import IntervalLines, read_bmdp, write_bmdp
from ..models.files.choices import chosen_discount
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, Label, NamesLike, PathLike, SparseLike, TerminalLike
from .credible import marginal_intervals
from .robust import SUM_SLACK, RobustMDP
from .set_rows import Sets


class IntervalMDP(RobustMDP):
    """A model that knows a lower and an upper bound on every transition probability.

    Parameters
    ----------
    lower, upper : array_like or sparse matrix
        Bounds on P(s' | s, a), in the forms that ``prudent.MDP`` takes: arrays [S, A, S], or [A, S, S] with
        ``actions_first``; sparse matrices (S*A) x S; or lists of A sparse S x S matrices. The lower bounds of a pair
        sum to at most 1, the upper ones to at least 1.
    reward : array_like of shape (S,), (S, A) or (S, A, S)
        Rewards of states, pairs or transitions; [A, S, S] with ``actions_first``.
    discount : float
        Discount factor in [0, 1]. At 1, solvers need a horizon, or a process that ends for certain.
    optimistic : bool, default=False
        Whether the best of each set counts instead of the worst.
    actions_first : bool, default=False
        Whether dense arrays have the axes [A, S, S].
    admissible : array_like of bool of shape (S, A), optional
        Admissible pairs, by default all. What is given for the other pairs is ignored.
    terminal : TerminalLike, optional
        States where the process ends, see ``prudent.UncertainMDP``; what is given for them is ignored.
    states, actions : iterable of hashable, optional
        Names. By default 0, 1, ..., n-1.

    Raises
    ------
    ModelError
        If shapes disagree, bounds are no bounds, or no probabilities lie between those of a pair.

    See Also
    --------
    RobustMDP : Balls around known probabilities, and the methods that both have.

    Examples
    --------
    The machine breaks with a probability between 0.05 and 0.2. It is repaired in state 1:

    >>> from prudent import IntervalMDP
    >>> machine = IntervalMDP([[[0.8, 0.05]], [[1.0, 0.0]]], [[[0.95, 0.2]], [[1.0, 0.0]]], [5.0, -3.0], 0.9)
    >>> machine.solve().value.round(4), machine.optimist().solve().value.round(4)
    (array([37.7966, 31.0169]), array([46.555 , 38.8995]))
    """

    def __init__(
        self,
        lower: ArrayLike | SparseLike | Sequence[SparseLike],
        upper: ArrayLike | SparseLike | Sequence[SparseLike],
        reward: ArrayLike,
        discount: float,
        *,
        optimistic: bool = False,
        actions_first: bool = False,
        admissible: ArrayLike | None = None,
        terminal: TerminalLike = None,
        states: NamesLike = None,
        actions: NamesLike = None,
    ) -> None:
        above, shape = read_transitions(upper, actions_first)
        below, other = read_transitions(lower, actions_first)
        if shape != other:
            message = f"lower and upper must have the same shape, got {other} and {shape} states and actions"
            raise ModelError(message, code="wrong-shape", argument="lower", value=other)
        pair, target = row_numbers(above).astype(np.int64), above.indices.astype(np.int64)
        keys, wanted = pair * shape[0] + target, row_numbers(below).astype(np.int64) * shape[0] + below.indices
        at = np.searchsorted(keys, wanted)
        least = np.zeros(keys.size)
        known = np.append(keys, -1)[at] == wanted
        least[at[known]] = below.data[known]
        lines = IntervalLines(pair, target, least, above.data)
        if not known.all():
            stray = wanted[np.argmin(known)]
            lines = IntervalLines(
                *(
                    np.append(part, more)
                    for part, more in zip(
                        lines, (stray // shape[0], stray % shape[0], below.data[np.argmin(known)], 0.0), strict=True
                    )
                )
            )
        earned = number_array(reward, "reward", error=ModelError)
        if earned.ndim == 1:
            earned = np.repeat(earned[:, np.newaxis], shape[1], axis=1)
        elif earned.ndim == 3 and actions_first:
            earned = earned.swapaxes(0, 1)
        self._of_lines(lines, shape, earned, discount, optimistic, admissible, terminal, states, actions)

    def _of_lines(
        self,
        lines: IntervalLines,
        shape: tuple[int, int],
        reward: Any,
        discount: float,
        optimistic: bool,
        admissible: ArrayLike | None,
        terminal: TerminalLike,
        states: NamesLike,
        actions: NamesLike,
    ) -> None:
        """Make the model of a list of transitions; rewards are [S, A], [S, A, S] or [M] by transition."""
        S, A = shape
        states, terminal = held(states), held(terminal)
        allowed = admissible_mask(admissible, shape)
        labels = Labels("state", states, S)
        allowed &= ~read_terminal(terminal, labels)[0][:, np.newaxis]
        used = allowed.reshape(-1)[lines.pair] & ((lines.upper != 0.0) | (lines.lower != 0.0))
        order = np.flatnonzero(used)[np.lexsort((lines.target[used], lines.pair[used]))]
        pair, target = lines.pair[order], lines.target[order]
        lower, upper = lines.lower[order], lines.upper[order]
        where = (labels, Labels("action", actions, A))
        _check_bounds(pair, target, lower, upper, allowed, where)
        given = number_array(reward, "reward", error=ModelError)
        if given.ndim == 1:
            earned = given[order]
        elif given.ndim == 2:
            require_shape(given, "reward", (S, A), "[S, A]", error=ModelError)
            earned = given.reshape(-1)[pair]
        else:
            require_shape(given, "reward", (S, A, S), "[S, A, S]", error=ModelError)
            earned = given.reshape(S * A, S)[pair, target]
        bad = ~np.isfinite(earned)
        if bad.any():
            p = int(pair[np.argmax(bad)])
            message = f"reward of {where[0].show(p // A)}, {where[1].show(p % A)} must be a finite number"
            raise ModelError(message, code="not-finite", argument="reward", value=float(earned[bad][0]))
        model = UncertainMDP.from_entries(
            own_sources(allowed),
            pair,
            places_in(pair),
            target,
            earned,
            discount,
            states=states,
            actions=actions,
            terminal=terminal,
            **BY_PAIR,  # type: ignore[arg-type]
        )
        self._of_slots(model, lower, upper, optimistic)

    def _of_slots(self, model: UncertainMDP, lower: FloatArray, upper: FloatArray, optimistic: bool) -> None:
        """Keep a model with bounds by slots; those of terminal states may be left out."""
        if model.terminal.any() and lower.size < model.entries.outcome.size:
            lower, upper = np.append(lower, 1.0), np.append(upper, 1.0)
        sets = Sets(np.ascontiguousarray(lower), np.ascontiguousarray(upper), np.empty(0), 1.0)
        begin = model.entries.begin[:-1]
        left, width = 1.0 - np.add.reduceat(lower, begin), np.add.reduceat(upper - lower, begin)
        share = np.clip(np.divide(left, width, out=np.zeros(left.size), where=width > 0.0), 0.0, 1.0)
        centre = lower + np.repeat(share, np.diff(model.entries.begin)) * (upper - lower)
        self._take(model, sets, centre, optimistic, "intervals")

    @classmethod
    def credible(
        cls,
        model: UncertainMDP,
        posterior: DirichletPosterior | ArrayLike,
        coverage: float = 0.9,
        *,
        joint: bool = True,
        optimistic: bool = False,
    ) -> IntervalMDP:
        """Return the intervals that hold the truth with a given posterior probability, from Beta marginals.

        Parameters
        ----------
        model : UncertainMDP
            The known part of the problem.
        posterior : DirichletPosterior or array_like of shape (B, K)
            The posterior, or its counts.
        coverage : float, default=0.9
            Posterior probability in (0, 1) that all probabilities lie in their intervals.
        joint : bool, default=True
            Whether this is about all sources at once; otherwise it is about each of them.
        optimistic : bool, default=False
            As for the class.

        Returns
        -------
        IntervalMDP
            The problem. The coverage is at least what was asked for: within a source by Bonferroni's inequality,
            between sources by their independence.

        Examples
        --------
        >>> from prudent import IntervalMDP, UncertainMDP
        >>> model = UncertainMDP.direct([[0.0], [1.0]], discount=0.9)
        >>> IntervalMDP.credible(model, [[30, 10], [3, 1]], 0.9).lower().round(2).tolist()
        [[0.61, 0.13], [0.29, 0.01]]
        """
        instance_of(model, "model", UncertainMDP, error=ModelError)
        given = posterior if isinstance(posterior, DirichletPosterior) else DirichletPosterior(posterior)
        counts = model.with_end(given.counts)
        require_shape(counts, "posterior", model.outcome_mask.shape, "[B, K]", error=PosteriorError)
        stray, absent = (counts > 0.0) & ~model.outcome_mask, "0, as this source has no such outcome"
        refuse(stray, counts, "counts", absent, error=PosteriorError, code="unknown-outcome")
        lower, upper = marginal_intervals(counts, coverage, flag(joint, "joint"))
        self = cls.__new__(cls)
        self._of_slots(model, model.entries.pack(lower), model.entries.pack(upper), optimistic)
        return self

    def lower(self) -> FloatArray:
        """Return the lower bounds on outcome probabilities.

        Returns
        -------
        ndarray of shape (B, K)
            By source and outcome.
        """
        return self._spread(self.sets.low)

    def upper(self) -> FloatArray:
        """Return the upper bounds on outcome probabilities.

        Returns
        -------
        ndarray of shape (B, K)
            By source and outcome.
        """
        return self._spread(self.sets.high)

    @classmethod
    def from_bmdp(
        cls,
        path: PathLike,
        discount: float | None = None,
        *,
        reward: ArrayLike | None = None,
        optimistic: bool = False,
    ) -> IntervalMDP:
        """Return the model of a file of bmdp-tool: bounds on transition probabilities, and accepting states.

        Parameters
        ----------
        path : str or PathLike
            The file.
        discount : float, optional
            Discount factor in [0, 1]. It may be left out for a file that ``to_bmdp`` wrote.
        reward : array_like of shape (S,), (S, A) or (S, A, S), optional
            Rewards. By default those of a file that ``to_bmdp`` wrote. Other files have none: there to arrive in an
            accepting state is worth 1 and ends the process, so that at discount 1 values are probabilities to get
            there. With rewards that are given, accepting states are states like others.
        optimistic : bool, default=False
            As for the class.

        Returns
        -------
        IntervalMDP
            The model. Pairs without a line are not admissible.

        Raises
        ------
        ModelError
            If the file is missing or damaged; the message has the line.
        ParameterError
            If the discount has to be given.

        See Also
        --------
        to_bmdp : Write such a file.

        Examples
        --------
        >>> import tempfile
        >>> from prudent import IntervalMDP
        >>> machine = IntervalMDP([[[0.8, 0.05]], [[1.0, 0.0]]], [[[0.95, 0.2]], [[1.0, 0.0]]], [5.0, -3.0], 0.9)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     machine.to_bmdp(folder + "/machine.txt")
        ...     IntervalMDP.from_bmdp(folder + "/machine.txt") == machine
        True
        """
        file = read_bmdp(path)
        (S, A), known = file.shape, file.described
        admissible = np.bincount(file.lines.pair, minlength=S * A).reshape(S, A) > 0
        terminal: Any = None
        if reward is None:
            values = known.get("terminal", np.ones(file.accepting.size))
            names = known.get("states") or tuple(range(S))
            if values is not None:
                terminal = {names[s]: float(v) for s, v in zip(file.accepting.tolist(), values, strict=True)}
        earned = known.get("reward", np.zeros((S, A)))
        if reward is not None:
            earned = number_array(reward, "reward", error=ModelError)
        if reward is not None and earned.ndim == 1:
            earned = np.repeat(earned[:, np.newaxis], A, axis=1)
        self = cls.__new__(cls)
        own = chosen_discount(discount, known, str(path))
        parts = (optimistic, admissible, terminal, known.get("states"), known.get("actions"))
        self._of_lines(file.lines, file.shape, earned, own, *parts)
        return self

    def to_bmdp(self, path: PathLike, *, accepting: Iterable[Label] | None = None) -> None:
        """Write the model as a file of bmdp-tool; rewards, names and discount into PATH.json beside it.

        Terminal states loop and are accepting.

        Parameters
        ----------
        path : str or PathLike
            The file; an older one is replaced when the new one is whole.
        accepting : iterable of hashable, optional
            Accepting states of a model without terminal states. By default none.

        Raises
        ------
        ParameterError
            If a pair shares its source, or steps that are not in terminal states can end the process.

        See Also
        --------
        from_bmdp : Read such a file.
        """
        model, of = self.model, self.model.entries
        pair, target, slots = of.pairs(), of.next_state.astype(np.int64), of.slots()
        ending = model.terminal[pair // model.n_actions]
        if ((target == END) & ~ending).any() or model.duration is not None:
            message = "path: steps that end the process, or take longer, have no place in a file of bmdp-tool"
            raise ParameterError(message, code="unwritable-step", argument="path")
        listed = np.flatnonzero(model.terminal)
        if accepting is not None:
            if listed.size:
                message = "accepting states are the terminal ones of this model; omit accepting"
                raise ParameterError(message, code="conflicting-arguments", argument="accepting")
            listed = np.array([model.state_labels.index(state, "accepting") for state in accepting], dtype=np.int64)
        lines = IntervalLines(
            pair,
            np.where(ending, pair // model.n_actions, target),
            np.where(ending, 1.0, self.sets.low[slots]),
            np.where(ending, 1.0, self.sets.high[slots]),
        )
        values = model.terminal_value[listed] if model.terminal.any() or not listed.size else None
        write_bmdp(path, model, lines, listed, of.reward, values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalMDP):
            return NotImplemented
        same = np.array_equal(self.sets.low, other.sets.low) and np.array_equal(self.sets.high, other.sets.high)
        return same and self.optimistic == other.optimistic and self.model == other.model

    __hash__ = None  # type: ignore[assignment]


def _check_bounds(
    pair: IntArray,
    target: IntArray,
    lower: FloatArray,
    upper: FloatArray,
    allowed: BoolArray,
    labels: tuple[Labels, Labels],
) -> None:
    """Raise for bounds that are no bounds, and for pairs between whose bounds there are no probabilities."""
    A = allowed.shape[1]

    def called(p: int) -> tuple[str, dict[str, Any]]:
        s, a = p // A, p % A
        return f"{labels[0].show(s)}, {labels[1].show(a)}", {"state": labels[0].names[s], "action": labels[1].names[a]}

    bad = ~((lower >= 0.0) & (lower <= upper) & (upper <= 1.0))
    if bad.any():
        at = int(np.argmax(bad))
        where, fields = called(int(pair[at]))
        message = (
            f"bounds on the probability from {where} to {labels[0].show(int(target[at]))} are {float(lower[at])!r} and "
            f"{float(upper[at])!r}, expected 0 <= lower <= upper <= 1"
        )
        raise ModelError(message, code="probability-range", value=float(lower[at]), **fields)
    least = np.bincount(pair, weights=lower, minlength=allowed.size)
    most = np.bincount(pair, weights=upper, minlength=allowed.size)
    empty = allowed.reshape(-1) & ((least > 1.0 + SUM_SLACK) | (most < 1.0 - SUM_SLACK))
    if empty.any():
        p = int(np.argmax(empty))
        where, fields = called(p)
        message = f"the bounds of {where} sum to {least[p]:.12g} and {most[p]:.12g}: no probabilities lie between them"
        raise ModelError(message, code="sum-not-one", value=float(most[p]), **fields)
