"""A model whose probabilities are known: P(s' | s, a) as one sparse matrix, mean rewards r(s, a), and a discount.

Row s*A + a of the matrix belongs to the pair (s, a). With the probability that the step is the last one, it sums to 1.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy

from .._numerics.compensated import sums_and_leaks
from .._support.checks import SUM_TOLERANCE, number_array, require_shape
from ..errors import ModelError, ParameterError
from ..types import ArrayLike, BoolArray, FloatArray, IntArray, NamesLike, SparseLike, TableLike
from .base import Shape, admissible_mask, plural
from .builders import Indices, Steps, canonical, known_gymnasium, known_table, pair_sums, read_transitions, row_numbers
from .entries import END, Entries, Outcomes, likely_outcomes
from .files.methods import ModelFiles


class MDP(ModelFiles):
    """A Markov decision process with known transition probabilities.

    Parameters
    ----------
    transition : array_like or sparse matrix
        P(s' | s, a) as an array [S, A, S], or [A, S, S] with ``actions_first``; a SciPy sparse matrix (S*A) x S whose
        row s*A + a belongs to the pair (s, a); or a list of A sparse S x S matrices (stored duplicates add up). Each
        row, with ``termination``, must sum to 1 within 1e-9. Rows are used as given and never renormalised: a sum that
        is off by 1e-10 stays off by 1e-10, and where that makes values infinite (sums above 1/discount) the solvers
        refuse the model.
    reward : array_like
        Mean reward [S, A]; [S], the same for every action; or one for each transition, [S, A, S] ([A, S, S] with
        ``actions_first``), which is averaged over the next state and kept as ``transition_reward``.
    discount : float
        Discount factor in [0, 1]. At 1, solvers need a horizon, or a process that ends for certain.
    actions_first : bool, default=False
        Whether dense arrays have the axes [A, S, S].
    termination : array_like [S, A], optional
        Probability that this step is the last one; nothing is earned after it.
    admissible : array_like of bool [S, A], optional
        Admissible pairs, by default all. What is given for the other pairs is ignored.
    states, actions : iterable of hashable, optional
        Names, unique and hashable. By default 0, 1, ..., n-1.

    Attributes
    ----------
    transition : scipy.sparse.csr_array (S*A) x S
        Row s*A + a; sorted, no duplicates, no stored zeros. Rows of inadmissible pairs are empty.
    reward : float64 [S, A]
        Mean rewards, zero for inadmissible pairs.
    termination : float64 [S, A] or None
        Probability of a last step; None if the process never ends.
    admissible : bool [S, A]
        Admissible pairs.
    terminal : bool [S]
        States where every step ends the process and pays the same, so that there is no decision.
    terminal_value : float64 [S]
        What these states pay, 0 elsewhere.
    transition_reward : scipy.sparse.csr_array (S*A) x S or None
        Rewards of single transitions; None where they say no more than ``reward``.
    leaks : tuple of float
        Bounds on 1 - (sum of a row of ``transition``) over the admissible pairs.

    Raises
    ------
    ModelError
        If shapes disagree, a row does not sum to one, or a state has no admissible action.

    See Also
    --------
    UncertainMDP : A model whose probabilities are unknown.

    Notes
    -----
    Certificates of solvers are about these numbers exactly; averaged rewards and added duplicates were rounded once.

    Examples
    --------
    >>> stay, go = [[1, 0], [0, 1]], [[0, 1], [1, 0]]
    >>> mdp = MDP([stay, go], reward=[[0, -1], [1, 0]], discount=0.9, actions_first=True)
    >>> mdp
    MDP(2 states, 2 actions, 4 transitions, discount 0.9)
    >>> mdp.dense()[0, 1]
    array([0., 1.])
    """

    _compared = ("discount", "states", "actions", "admissible", "reward", "termination", "transition")

    transition: scipy.sparse.csr_array
    reward: FloatArray
    termination: FloatArray | None
    transition_reward: scipy.sparse.csr_array | None
    leaks: tuple[float, float]

    def __init__(
        self,
        transition: ArrayLike | SparseLike | Sequence[SparseLike],
        reward: ArrayLike,
        discount: float,
        *,
        actions_first: bool = False,
        termination: ArrayLike | None = None,
        admissible: ArrayLike | None = None,
        states: NamesLike = None,
        actions: NamesLike = None,
    ) -> None:
        self.transition, shape = read_transitions(transition, actions_first)
        self._frame(admissible_mask(admissible, shape), discount, states, actions)
        if not self.admissible.all():
            self.transition.data[~self.admissible.ravel()[self._pairs()]] = 0.0
            canonical(self.transition)
        self.termination = self._checked_termination(termination)
        self._check_rows()
        self.transition_reward = None
        self._last_reward: FloatArray | None = None  # [S, A] of steps that end the process, if they have their own
        self._finer: Callable[[], Outcomes] | None = None  # of which the transitions are sums
        self.has_durations = False  # whether termination is in part what long transitions are discounted by
        self.lost_durations = False  # whether transitions have durations, which do not matter at discount 1
        self.reward = self._mean_reward(reward, actions_first)
        ended = np.zeros(shape, np.bool_) if self.termination is None else self.termination == 1.0
        worth = self.reward[np.arange(shape[0]), self.admissible.argmax(axis=1)]
        self.terminal = ((ended & (self.reward == worth[:, None])) | ~self.admissible).all(axis=1)
        self.terminal_value = np.where(self.terminal, worth, 0.0)

    @classmethod
    def of_steps(
        cls,
        steps: Steps,
        shape: Shape,
        discount: float,
        notes: tuple[str, ...] = (),
        reward: FloatArray | None = None,
        **names: Any,
    ) -> MDP:
        """Return the model that adds up the steps of each pair and keeps their rewards.

        Parameters
        ----------
        steps : Steps
            All steps that are possible, in any order; a pair without a step is inadmissible.
        shape : tuple of int
            Numbers of states and of actions.
        discount : float
            Discount factor in [0, 1].
        notes : tuple of str, default=()
            What a builder did without being asked.
        reward : ndarray of shape (S, A), optional
            Mean rewards, by default those of the steps.
        **names : iterable of hashable
            ``states`` and ``actions``.

        Returns
        -------
        MDP
            The model.
        """
        (S, A), goes_on = shape, ~steps.ends
        pair, earned = steps.state * A + steps.action, steps.probability * steps.reward
        onward, target = pair[goes_on], steps.next_state[goes_on]
        self = cls(
            scipy.sparse.coo_array((steps.probability[goes_on], (onward, target)), shape=(S * A, S)),
            pair_sums(pair, earned, shape) if reward is None else reward,
            discount,
            termination=pair_sums(pair, steps.probability * steps.ends, shape),
            admissible=np.bincount(pair, minlength=S * A).reshape(shape) > 0,
            **names,
        )
        self.notes = notes
        stored = self._pairs() * S + self.transition.indices  # ascending
        wanted = onward * S + target
        at = np.searchsorted(stored, wanted)
        known = np.append(stored, -1)[at] == wanted  # transitions of probability zero are not stored
        total = np.bincount(at[known], weights=earned[goes_on][known], minlength=stored.size)
        self._keep(total / self.transition.data, self.reward)
        finer = steps.one_by_one(pair, S * A)
        if finer is not None:
            self._finer = partial(Outcomes, *finer)
        if self.transition_reward is not None and self.termination is not None:
            ending = np.where(self.termination > 0.0, self.termination, 1.0)
            self._last_reward = pair_sums(pair, earned * steps.ends, shape) / ending
        return self

    def _keep(self, rewards: FloatArray, means: FloatArray) -> None:
        """Keep the rewards of the stored transitions, if they differ from the means of their pairs."""
        # by more than rounding
        if (abs(rewards - means.reshape(-1)[self._pairs()]) > 1e-12 * float(abs(rewards).max(initial=0.0))).any():
            parts = (rewards, self.transition.indices, self.transition.indptr)
            self.transition_reward = scipy.sparse.csr_array(parts, shape=self.transition.shape)

    def steps(self) -> tuple[IntArray, npt.NDArray[np.int32], FloatArray]:
        """Return the steps that are possible.

        Where only the mean reward of a pair is known, each of its steps earns that.

        Returns
        -------
        pair : int64 [M]
            Pair s*A + a, ascending.
        next_state : int32 [M]
            Next state, -2 for the end of the process.
        reward : float64 [M]
            Reward.

        Examples
        --------
        >>> MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9).steps()
        (array([0, 0, 1]), array([0, 1, 1], dtype=int32), array([0., 0., 1.]))
        """
        return self.likely_steps()[:3]

    def likely_steps(self) -> tuple[IntArray, npt.NDArray[np.int32], FloatArray, FloatArray]:
        """Return the steps that are possible and their probabilities.

        Returns
        -------
        pair : int64 [M]
            Pair s*A + a, ascending.
        next_state : int32 [M]
            Next state, -2 for the end of the process.
        reward : float64 [M]
            Reward.
        probability : float64 [M]
            Probability.
        """
        pairs, targets, means = self._pairs(), self.transition.indices, self.reward.reshape(-1)
        rewards = means[pairs] if self.transition_reward is None else self.transition_reward.data
        chances = self.transition.data
        if self.termination is not None:
            ending = np.flatnonzero(self.termination)
            last = (self.reward if self._last_reward is None else self._last_reward).reshape(-1)[ending]
            order = np.argsort(np.concatenate((pairs, ending)), kind="stable")
            pairs, rewards = np.concatenate((pairs, ending))[order], np.concatenate((rewards, last))[order]
            targets = np.concatenate((targets, np.full(ending.size, END)))[order]
            chances = np.concatenate((chances, self.termination.reshape(-1)[ending]))[order]
        return pairs.astype(np.int64), targets.astype(np.int32), rewards, chances

    def require_unit_durations(self, who: str) -> None:
        """Raise if transitions have durations.

        Parameters
        ----------
        who : str
            What cannot handle them, for the message: "simulated returns".

        Raises
        ------
        ParameterError
            If they have.
        """
        if self.has_durations:
            message = f"{who} need transitions that all take one unit of time; those of mdp have durations"
            raise ParameterError(message, code="durations", argument="mdp")

    def with_rewards(self, reward: FloatArray, terminal_value: FloatArray) -> MDP:
        """Return the model with other rewards.

        Parameters
        ----------
        reward : ndarray of shape (S, A)
            Mean rewards.
        terminal_value : ndarray of shape (S,)
            What terminal states pay.

        Returns
        -------
        MDP
            A copy that shares the transitions; rewards of single transitions are gone.
        """
        twin = copy.copy(self)
        twin.reward, twin.terminal_value = reward, terminal_value
        twin.transition_reward, twin._last_reward, twin._finer = None, None, None
        return twin

    def keep_outcomes(self, entries: Entries, theta: FloatArray) -> None:
        """Keep the outcomes of which the transitions are sums.

        Parameters
        ----------
        entries : Entries
            Outcomes of an uncertain model.
        theta : float64 [B, K]
            Their probabilities.
        """
        self._finer = partial(likely_outcomes, entries, theta)

    def outcomes(self) -> Outcomes:
        """Return the outcomes of one step, finer than ``steps`` where the model knows more.

        Returns
        -------
        Outcomes
            Next states, rewards and probabilities of each pair.

        Examples
        --------
        >>> MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9).outcomes().chance
        array([0.5, 0.5, 1. ])
        """
        if self._finer is not None:
            return self._finer()
        return self.merged_outcomes()

    def merged_outcomes(self) -> Outcomes:
        """Return the outcomes of one step with one entry for each next state.

        Returns
        -------
        Outcomes
            Next states, mean rewards and probabilities of each pair.
        """
        pairs, targets, rewards, chances = self.likely_steps()
        sizes = np.bincount(pairs, minlength=self.admissible.size)
        return Outcomes(np.concatenate(([0], np.cumsum(sizes))), targets, rewards, chances)

    @property
    def knows_single_rewards(self) -> bool:
        """Whether ``outcomes`` has rewards of single steps that say more than the means of their pairs."""
        return self.transition_reward is not None or self._finer is not None

    def _pairs(self) -> Indices:
        """Return the pair s*A + a of each stored transition."""
        return row_numbers(self.transition)

    def _checked_termination(self, termination: Any) -> FloatArray | None:
        if termination is None:
            return None
        ending = self._of_pairs(termination, "termination")
        ending[(ending < 0.0) & (ending > -1e-12)] = 0.0  # what 1 minus the sum of a row leaves
        bad = (ending < 0.0) | (ending > 1.0)
        self._refuse_pairs(bad, ending, "termination", "a number in [0, 1]", "probability-range")
        return ending if ending.any() else None

    def _of_pairs(self, values: Any, what: str) -> FloatArray:
        """Return finite numbers [S, A], zero for inadmissible pairs."""
        given = number_array(values, what, error=ModelError)
        require_shape(given, what, self.admissible.shape, "[S, A]", error=ModelError)
        numbers = np.ascontiguousarray(np.where(self.admissible, given, 0.0))
        self._refuse_pairs(~np.isfinite(numbers), numbers, what, "a finite number", "not-finite")
        return numbers

    def _refuse_pairs(self, bad: BoolArray, numbers: FloatArray, what: str, expected: str, code: str) -> None:
        """Raise for the first pair for which ``bad`` [S, A] is True."""
        if bad.any():
            pair, value = np.argmax(bad), numbers[bad][0]
            message = f"the {what} of {self.pair_name(pair)} is {value}, expected {expected}"
            raise ModelError(
                message, code=code, argument=what, value=value, expected=expected, **self.pair_fields(pair)
            )

    def _check_rows(self) -> None:
        probabilities = self.transition.data
        bad = ~((probabilities >= 0.0) & (probabilities < np.inf))  # written so that NaN is bad
        if bad.any():
            i = int(np.argmax(bad))
            pair, value, target = self._pairs()[i], probabilities[i], int(self.transition.indices[i])
            to = f"{self.pair_name(pair)} to {self.state_labels.show(target)}"
            message = f"the transition probability of {to} is {value}, expected one in [0, 1]"
            fields = self.pair_fields(pair) | {"next_state": self.states[target]}
            raise ModelError(message, code="probability-range", argument="transition", value=value, **fields)
        total = np.empty(self.admissible.shape)
        counted = np.ascontiguousarray(self.admissible).reshape(-1)
        self.leaks = sums_and_leaks(self.transition.indptr, probabilities, counted, total.reshape(-1))
        what = "transition probabilities"
        if self.termination is not None:
            total += self.termination
            what += " and termination"
        off = self.admissible & (np.abs(total - 1.0) > SUM_TOLERANCE)
        if off.any():
            value, pair = float(total[off][0]), np.argmax(off)
            hint = "; is the pair admissible?" if value == 0.0 else ""
            message = f"the {what} of {self.pair_name(pair)} sum to {value!r}, expected 1{hint}"
            where = self.pair_fields(pair)
            raise ModelError(message, code="sum-not-one", argument="transition", value=value, **where)

    def _mean_reward(self, reward: Any, actions_first: bool) -> FloatArray:
        given, earned = number_array(reward, "reward", error=ModelError), None
        S, A = self.admissible.shape
        if given.ndim == 1:
            require_shape(given, "reward", (S,), "[S]", error=ModelError)
            given = np.broadcast_to(given[:, None], (S, A))
        if given.ndim == 3:
            if self.termination is not None:
                message = "reward [S, A, S] has no rewards of steps that end the process; give means [S, A]"
                raise ModelError(message, code="conflicting-arguments", argument="reward")
            given = given.swapaxes(0, 1) if actions_first else given
            require_shape(given, "reward", (S, A, S), "[S, A, S]", error=ModelError)
            pairs = self._pairs()
            earned = given[pairs // A, pairs % A, self.transition.indices]
            given = pair_sums(pairs, earned * self.transition.data, (S, A))
        means = self._of_pairs(given, "reward")
        if earned is not None:
            self._keep(earned, means)
        return means

    @classmethod
    def from_table(
        cls,
        table: TableLike,
        discount: float,
        *,
        states: NamesLike = None,
        actions: NamesLike = None,
        columns: Mapping[str, Any] | None = None,
    ) -> MDP:
        """Return the model of a table of transitions.

        Rows with the same (state, action, next_state) add up their probability; the reward of a pair is the mean over
        its rows. Pairs that are not listed are inadmissible.

        Parameters
        ----------
        table : TableLike
            A table with the columns state, action, next_state, probability, reward, or rows of five values in that
            order. Columns may have other usual names, such as ``idstatefrom``, ``idaction`` and ``idstateto``.
        discount : float
            Discount factor in [0, 1].
        states, actions : iterable of hashable, optional
            Labels in the order of their indices; an action that no row has is dropped, which ``notes`` says. By
            default the labels that occur, sorted (or in the order of their occurrence if they cannot be compared).
        columns : mapping, optional
            Names of columns: ``{"state": "where"}``.

        Returns
        -------
        MDP
            The model.

        Raises
        ------
        ModelError
            If the table cannot be read, or is no model.

        Examples
        --------
        >>> rows = [("dry", "wait", "dry", 0.8, 0.0), ("dry", "wait", "wet", 0.2, -1.0),
        ...         ("wet", "wait", "dry", 1.0, 0.0)]
        >>> mdp = MDP.from_table(rows, discount=0.9)
        >>> mdp.states
        ('dry', 'wet')
        >>> mdp.reward.ravel()
        array([-0.2, 0. ])
        """
        return cls.of_steps(**known_table(table, states, actions, columns), discount=discount)

    @classmethod
    def from_gymnasium(cls, env: Any, discount: float) -> MDP:
        """Return the model of a Gymnasium environment that has a table ``env.unwrapped.P``, as FrozenLake-v1.

        Transitions flagged as terminated go into ``termination``; values have one entry for each observation.

        Parameters
        ----------
        env : gymnasium.Env or str
            The environment, or the id of a registered one.
        discount : float
            Discount factor in [0, 1].

        Returns
        -------
        MDP
            The model.

        Raises
        ------
        ModelError
            If the environment has no such table.

        Examples
        --------
        >>> MDP.from_gymnasium("FrozenLake-v1", discount=0.99).n_states
        16
        """
        return cls.of_steps(**known_gymnasium(env), discount=discount)

    def dense(self) -> FloatArray:
        """Return the transition probabilities as an array.

        Returns
        -------
        float64 [S, A, S]
            P(s' | s, a).

        Examples
        --------
        >>> MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9).dense()[0]
        array([[0.5, 0.5]])
        """
        return self.transition.toarray().reshape(self.n_states, self.n_actions, self.n_states)

    def __repr__(self) -> str:
        parts = [*self._sizes(), plural(self.transition.nnz, "transition")]
        if self.termination is not None:
            parts.append("steps that end")
        return f"MDP({', '.join(parts)}, discount {self.discount})"
