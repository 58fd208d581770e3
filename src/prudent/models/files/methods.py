"""Methods of a known model that read and write files of other programs."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy

from ..._support.memory import require_memory
from ...errors import ParameterError
from ...types import ArrayLike, FloatArray, Label, PathLike
from ..base import TabularModel
from ..builders import canonical
from ..entries import Outcomes
from .bmdp import known_bmdp, write_known_bmdp
from .choices import Choices, choices_of
from .petsc import read_matrix, write_matrix
from .prism import known_prism, write_prism
from .umb import known_umb, write_umb


class ModelFiles(TabularModel):
    """A known model in the formats of other programs; ``MDP`` has these methods."""

    transition: scipy.sparse.csr_array
    reward: FloatArray
    termination: FloatArray | None

    @classmethod
    def from_umb(
        cls, path: PathLike, discount: float | None = None, *, reward: str | None = None, costs: bool = False
    ) -> Self:
        """Return the model of a UMB file, the binary format that PRISM, Storm and Modest share.

        Parameters
        ----------
        path : str or PathLike
            The file.
        discount : float, optional
            Discount factor in [0, 1]. It may be left out for a file that ``to_umb`` wrote.
        reward : str, optional
            Name of the rewards, needed if the file has several. Those of states, choices and branches add up.
        costs : bool, default=False
            Whether the numbers are costs; rewards are minus them.

        Returns
        -------
        MDP
            The model. States are called by the values of their variables, actions by their names; choices without an
            action are numbered within their state. A state without choices ends the process. ``notes`` says so.

        Raises
        ------
        ModelError
            If the file is damaged, or no Markov decision process: a game, continuous time, intervals, observations.
        ParameterError
            If the discount or the rewards have to be named.

        See Also
        --------
        to_umb : Write such a file.

        Examples
        --------
        >>> import tempfile
        >>> from prudent import MDP
        >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], reward=[0.0, 1.0], discount=0.9)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mdp.to_umb(folder + "/two.umb")
        ...     MDP.from_umb(folder + "/two.umb") == mdp
        True
        """
        return cls.of_steps(**known_umb(path, discount, reward, costs))

    def to_umb(self, path: PathLike, *, start: Label | None = None) -> None:
        """Write the model as a UMB file, for PRISM, Storm and Modest.

        A step that ends the process leads to one more state, which has the label "end" and earns nothing. The discount
        and the names of states stand among the parameters in the file's index, where ``from_umb`` finds them.

        Parameters
        ----------
        path : str or PathLike
            The file; an older one is replaced when the new one is whole.
        start : label, optional
            The initial state, which such files must have. By default the first one.

        Raises
        ------
        ParameterError
            If ``start`` is no state, names are no texts or numbers, or transitions have durations.

        See Also
        --------
        from_umb : Read such a file.
        """
        write_umb(path, self, self._choices(self.outcomes()), self._first_state(start))

    @classmethod
    def from_prism(cls, path: PathLike, discount: float | None = None, *, costs: bool = False) -> Self:
        """Return the model of PRISM's explicit files: transitions in NAME.tra, rewards in NAME.srew and NAME.trew.

        Parameters
        ----------
        path : str or PathLike
            NAME, or one of the files.
        discount : float, optional
            Discount factor in [0, 1]. It may be left out for files that ``to_prism`` wrote.
        costs : bool, default=False
            Whether the numbers are costs; rewards are minus them.

        Returns
        -------
        MDP
            The model. Choices without an action are numbered within their state.

        Raises
        ------
        ModelError
            If a file is missing or damaged.
        ParameterError
            If the discount has to be given.

        See Also
        --------
        to_prism : Write such files.
        """
        return cls.of_steps(**known_prism(path, discount, costs))

    def to_prism(self, path: PathLike, *, start: Label | None = None) -> None:
        """Write the model as PRISM's explicit files: NAME.tra, NAME.trew, NAME.lab; and NAME.json with names.

        A step that ends the process leads to one more state, which has the label "end" and earns nothing. PRISM pays by
        next state: where one next state can earn several rewards, their mean is written.

        Parameters
        ----------
        path : str or PathLike
            NAME, or one of the files.
        start : label, optional
            The initial state, which PRISM must have. By default the first one.

        Raises
        ------
        ParameterError
            If ``start`` is no state, names are no texts or numbers, or transitions have durations.

        See Also
        --------
        from_prism : Read such files.
        """
        write_prism(path, self, self._choices(self.merged_outcomes()), self._first_state(start))

    @classmethod
    def from_petsc(cls, transition: PathLike, reward: PathLike, discount: float, *, costs: bool = False) -> Self:
        """Return the model of two matrices in PETSc's binary format, as madupite reads and writes them.

        Parameters
        ----------
        transition : str or PathLike
            File of the probabilities, a matrix (S*A) x S whose row s*A + a belongs to the pair (s, a).
        reward : str or PathLike
            File of the rewards, a matrix S x A.
        discount : float
            Discount factor in [0, 1].
        costs : bool, default=False
            Whether ``reward`` holds costs, as it usually does there; rewards are minus them.

        Returns
        -------
        MDP
            The model.

        Raises
        ------
        ModelError
            If a file is missing or damaged, or the matrices are no model.

        See Also
        --------
        to_petsc : Write such files.
        """
        paid = read_matrix(reward, "reward")
        require_memory(8.0 * paid.shape[0] * paid.shape[1], "reward", f"{reward}, a matrix of {paid.shape},")
        earned = paid.toarray()
        return cls(read_matrix(transition, "transition"), -earned if costs else earned, discount)

    def to_petsc(self, transition: PathLike, reward: PathLike, *, costs: bool = False) -> None:
        """Write the model as two matrices in PETSc's binary format: (S*A) x S probabilities and S x A rewards.

        A step that ends the process leads to one more state that loops and earns nothing. In a terminal state every
        action is the end. Names, the discount and rewards of single transitions have no place there.

        Parameters
        ----------
        transition, reward : str or PathLike
            The files.
        costs : bool, default=False
            Whether to write costs, which are minus the rewards.

        Raises
        ------
        ParameterError
            If some pairs are inadmissible, which the format cannot say, or transitions have durations.

        See Also
        --------
        from_petsc : Read such files.
        """
        self.require_unit_durations("files of models")
        open_pairs = self.admissible | self.terminal[:, np.newaxis]  # in a terminal state every action is the end
        if not open_pairs.all():
            pair = int(np.argmin(open_pairs))
            message = f"PETSc's files have every action in every state; {self.pair_name(pair)} is inadmissible"
            raise ParameterError(message, code="inadmissible-action", **self.pair_fields(pair))
        n = self.n_actions
        first = np.arange(self.n_states)[:, np.newaxis] * n + self.admissible.argmax(axis=1)[:, np.newaxis]
        written = np.where(self.admissible, np.arange(self.admissible.size).reshape(-1, n), first)
        chances, earned = self.transition[written.reshape(-1)], self.reward.reshape(-1)[written]
        if self.termination is not None:
            last = scipy.sparse.csr_array(self.termination.reshape(-1)[written].reshape(-1, 1))
            end = scipy.sparse.csr_array(
                (np.ones(n), (np.arange(n), np.full(n, self.n_states))), shape=(n, self.n_states + 1)
            )
            chances = canonical(
                scipy.sparse.csr_array(scipy.sparse.vstack([scipy.sparse.hstack([chances, last]), end]))
            )
            earned = np.concatenate((earned, np.zeros((1, n))))
        write_matrix(transition, chances)
        write_matrix(reward, scipy.sparse.csr_array(-earned if costs else earned))

    @classmethod
    def from_bmdp(cls, path: PathLike, discount: float | None = None, *, reward: ArrayLike | None = None) -> Self:
        """Return the model of a file of bmdp-tool whose bounds are probabilities: lower and upper ones are equal.

        Parameters
        ----------
        path : str or PathLike
            The file.
        discount : float, optional
            Discount factor in [0, 1]. It may be left out for a file that ``to_bmdp`` wrote.
        reward : array_like of shape (S,) or (S, A), optional
            Rewards. By default those of a file that ``to_bmdp`` wrote. Other files have none: there accepting states
            pay 1 and end the process. With rewards that are given, accepting states are states like others.

        Returns
        -------
        MDP
            The model. Pairs without a line are not admissible.

        Raises
        ------
        ModelError
            If the file is missing or damaged (the message has the line), or has intervals.
        ParameterError
            If the discount has to be given.

        See Also
        --------
        to_bmdp : Write such a file.
        prudent.IntervalMDP.from_bmdp : Read intervals.
        """
        return cls.of_steps(**known_bmdp(path, discount, reward))

    def to_bmdp(self, path: PathLike) -> None:
        """Write the model as a file of bmdp-tool; rewards, names and discount into PATH.json beside it.

        Terminal states loop and are accepting.

        Parameters
        ----------
        path : str or PathLike
            The file; an older one is replaced when the new one is whole.

        Raises
        ------
        ParameterError
            If steps that are not in terminal states can end the process, or transitions have durations.

        See Also
        --------
        from_bmdp : Read such a file.
        """
        self.require_unit_durations("files of models")
        write_known_bmdp(path, self, self.merged_outcomes())

    def _choices(self, outcomes: Outcomes) -> Choices:
        self.require_unit_durations("files of models")
        return choices_of(self, outcomes, self.reward, self.knows_single_rewards)

    def _first_state(self, start: Label | None) -> int:
        return 0 if start is None else self.state_labels.index(start, "start")

    # -- what the model must have --------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def of_steps(cls, *args: Any, **kwargs: Any) -> Self:
        """Return the model of all steps that are possible."""

    @abstractmethod
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    @abstractmethod
    def outcomes(self) -> Outcomes:
        """Return the outcomes of one step."""

    @abstractmethod
    def merged_outcomes(self) -> Outcomes:
        """Return the outcomes of one step with one entry for each next state."""

    @abstractmethod
    def require_unit_durations(self, who: str) -> None:
        """Raise if transitions have durations."""

    @property
    @abstractmethod
    def knows_single_rewards(self) -> bool:
        """Whether outcomes say more than the means of their pairs."""
