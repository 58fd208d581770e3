"""Base class of the agents for tabular models: names, counts, observations, state files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np

from .._support.checks import FloatArray, IntArray, generator, instance_of
from .._support.memory import require_memory
from .._support.state import Arrays, Load, State, generator_from_state, generator_state, restore, write_state
from ..data.naming import names_of_plain, plain_names
from ..errors import ModelError
from ..models.log_reader import LogReader
from ..models.mdp import MDP
from ..models.transitions import add_log
from ..models.uncertain import UncertainMDP
from ..posteriors.dirichlet import DirichletPosterior, prior_counts
from ..types import ArrayLike, Label, PathLike, RngLike


class TabularAgent(ABC):
    """Base class of agents that learn one `prudent.UncertainMDP` while they act, for extension.

    It keeps the model, the Dirichlet counts, the random stream and the state file. A subclass defines `act` and
    `observe`; `reset`, if it learns more than the counts; and, to be saved and loaded, `own_state`, `from_settings` and
    `resume`. With ``indices=True`` it follows the protocol `Agent` and runs in `prudent.simulate`.

    Parameters
    ----------
    model : UncertainMDP
        What is known about the environment. Its discount is below 1.
    prior : float or array_like, optional
        Prior of the unknown probabilities. A number is the mass of a pair of state and action, spread evenly over its
        outcomes; an array [B, K] gives every Dirichlet count. The default is a count of one for every outcome.
    rng : int, Generator or None, optional
        Seed, or a Generator that the agent then owns.
    indices : bool, default=False
        Whether states, actions and outcomes are given by index even if the model has names for them.

    Attributes
    ----------
    rng : Generator
        The random stream of the agent.
    counts : ndarray of float
        Dirichlet counts [B, K] of the posterior, which `count` changes in place.

    Raises
    ------
    ModelError
        If `model` is not an UncertainMDP with a discount below 1.
    PosteriorError
        If `prior` does not fit the model.

    See Also
    --------
    PosteriorSamplingAgent : Plans with draws from the posterior.
    OptimisticVIAgent : Explores by a bonus.
    """

    state_version: ClassVar[int] = 1
    load = Load()
    rng: np.random.Generator
    counts: FloatArray

    def __init__(
        self, model: UncertainMDP, prior: ArrayLike | None = None, rng: RngLike = None, indices: bool = False
    ) -> None:
        hint = "; a known model needs no agent, use prudent.solve" if isinstance(model, MDP) else ""
        self._model = instance_of(model, "model", UncertainMDP, hint, error=ModelError)
        model.require_discounted("agents")
        model.require_unit_durations("agents")
        self._indices = bool(indices)
        self._reader = LogReader(model, self._indices)
        self._set_posterior(DirichletPosterior(prior_counts(model, prior)))  # refuses sources with only zeros
        self.rng = generator(rng)
        self._actions = list(self._reader.actions.names)

    def _set_posterior(self, posterior: DirichletPosterior) -> None:
        posterior.naming = self._model.naming
        self._posterior, self.counts = posterior, posterior.counts

    # -- what subclasses define ----------------------------------------------------------------------------

    @abstractmethod
    def act(self, state: Label) -> Any:
        """Return the action to take.

        Parameters
        ----------
        state : hashable
            Name of the current state, or its index.

        Returns
        -------
        hashable
            Name of the action, or its index.
        """

    @abstractmethod
    def observe(
        self, state: Label, action: Label, next_state: Label, outcome: Any = None, reward: float | None = None
    ) -> None:
        """Learn from one transition.

        Parameters
        ----------
        state, action : hashable
            Where the transition began, and the action taken.
        next_state : hashable
            Where it led; None if the process ended.
        outcome : hashable, optional
            Outcome of the source, if it was seen.
        reward : float, optional
            Reward of the transition. The model knows it already.

        Raises
        ------
        DataError
            If the transition is impossible. Nothing is changed then.
        """

    def reset(self, rng: RngLike = None) -> None:
        """Forget what was learned, and begin with another random stream.

        Subclasses that keep more than the counts override this method and call it.

        Parameters
        ----------
        rng : int, Generator or None, optional
            Seed, or a Generator that the agent then owns.
        """
        self._set_posterior(DirichletPosterior(self._posterior.prior))
        self.rng = generator(rng)

    def own_state(self) -> State:
        """Return what `save` writes beside model, counts and random stream.

        Returns
        -------
        values : dict
            Values that JSON can hold.
        arrays : dict of str to ndarray
            Arrays of float64 or int64.
        """
        raise TypeError(f"{type(self).__name__} has no state")

    @classmethod
    def from_settings(cls, model: UncertainMDP, values: dict[str, Any]) -> Self:
        """Return a new agent with saved settings, for `load`.

        Parameters
        ----------
        model : UncertainMDP
            The model of the saved agent.
        values : dict
            The values of `own_state`, and ``"indices"``.

        Returns
        -------
        TabularAgent
            An agent without data.
        """
        raise TypeError(f"{cls.__name__} has no state")

    def resume(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take over the saved state of an agent with the same model and settings.

        Subclasses call this method and then restore what they wrote in `own_state`.

        Parameters
        ----------
        values : dict
            Saved values.
        arrays : dict of str to ndarray
            Saved arrays.

        Raises
        ------
        ValueError
            If no agent has this state.
        """
        saved = DirichletPosterior(arrays["counts"], prior=arrays["prior"])  # its errors name the array
        counts, prior = (self._model.count([], rows) for rows in (saved.counts, saved.prior))  # require its outcomes
        self._set_posterior(DirichletPosterior(counts, prior=prior))
        self.rng = generator_from_state(values["rng"])

    # -- what subclasses use -------------------------------------------------------------------------------

    @property
    def model(self) -> UncertainMDP:
        """The model that the agent learns."""
        return self._model

    @property
    def indices(self) -> bool:
        """Whether states, actions and outcomes are given by index."""
        return self._indices

    @property
    def posterior(self) -> DirichletPosterior:
        """A copy of the posterior: the prior and everything observed so far."""
        return self._posterior.copy()

    @property
    def prior(self) -> FloatArray:
        """Dirichlet counts [B, K] of the prior."""
        return self._posterior.prior

    def state_index(self, state: Label) -> int:
        """Return the index of a state.

        Parameters
        ----------
        state : hashable
            Name of a state, or its index.

        Returns
        -------
        int
            Its index.

        Raises
        ------
        ParameterError
            If there is no such state.
        """
        return self._reader.states.index(state)

    def action_names(self, actions: IntArray) -> list[Any]:
        """Return actions as `act` returns them.

        Parameters
        ----------
        actions : ndarray of int
            Indices of actions.

        Returns
        -------
        list of hashable
            Their names, or the indices themselves.
        """
        return [self._actions[a] for a in actions.tolist()]

    def transition(self, state: Label, action: Label, next_state: Label, outcome: Any = None) -> IntArray:
        """Return a transition by indices.

        Parameters
        ----------
        state, action, next_state : hashable
            The transition; `next_state` is None if the process ended.
        outcome : hashable, optional
            Outcome of the source, if it was seen.

        Returns
        -------
        ndarray of int
            One row [1, 4]: state, action, next state and outcome (-1 if it was not seen).

        Raises
        ------
        DataError
            If the transition is impossible.
        """
        return self._reader.row(state, action, next_state, outcome, self.counts)

    def count(self, row: IntArray) -> None:
        """Add a transition to the counts.

        Parameters
        ----------
        row : ndarray of int
            A transition, as `transition` returns it.
        """
        add_log(self._model.entries, self.counts, row)

    def require_memory(self, draws: int) -> None:
        """Check that draws of every source fit into the memory of the machine.

        Parameters
        ----------
        draws : int
            Number of draws.

        Raises
        ------
        ParameterError
            If they do not fit.
        """
        needed = 8 * draws * self._model.entries.outcome.size
        require_memory(needed, "draws", draws, "take fewer draws, or a lower alpha")

    # -- state files ---------------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the whole state to a file, model and random stream included.

        The file is replaced atomically. `load` of the same class reads it.

        Parameters
        ----------
        path : path-like
            Where to write.

        Examples
        --------
        >>> import tempfile
        >>> from prudent import PosteriorSamplingAgent
        >>> agent = PosteriorSamplingAgent(UncertainMDP.direct([[0.0, 1.0]], discount=0.9), alpha=0.5, rng=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agent.save(f"{folder}/agent.state")
        ...     again = PosteriorSamplingAgent.load(f"{folder}/agent.state")
        >>> bool((again.value == agent.value).all())
        True
        """
        write_state(path, type(self).__name__, self.state_version, *self.state(), type(self).from_state)

    def state(self) -> State:
        """Return the values and arrays that `save` writes.

        Returns
        -------
        values : dict
            Values that JSON can hold.
        arrays : dict of str to ndarray
            Arrays of float64 or int64.
        """
        values, arrays = self.own_state()
        model = self._model
        shared = {
            "discount": model.discount,
            "names": {axis: plain_names(names, axis) for axis, names in model.names().items()},
            "indices": self._indices,
            "rng": generator_state(self.rng),
        }
        tables = {
            "source": model.source,
            "next_state": model.next_state.astype(np.int64),
            "reward": model.reward,
            "prior": self._posterior.prior,
            "counts": self.counts,
        }
        if model.terminal.any():
            tables["terminal"] = np.flatnonzero(model.terminal)
            tables["terminal_value"] = model.terminal_value[model.terminal]
        return shared | values, tables | arrays

    @classmethod
    def from_state(cls, values: dict[str, Any], arrays: Arrays) -> Self:
        """Return the agent with a given state.

        Parameters
        ----------
        values : dict
            Values of `state`.
        arrays : dict of str to ndarray
            Arrays of `state`.

        Returns
        -------
        TabularAgent
            The agent.

        Raises
        ------
        ValueError
            If no agent has this state.
        """
        names = {axis: names_of_plain(listed) for axis, listed in values["names"].items()}
        tables = (arrays["source"], arrays["next_state"], arrays["reward"], values["discount"])
        model = UncertainMDP(*tables, **names, terminal=_terminal(names["states"], arrays))
        agent = cls.from_settings(model, values)
        agent.resume(values, arrays)
        return agent

    @classmethod
    def read(cls, path: PathLike) -> Self:
        """Return the agent of a state file; the same as `load` of the class.

        Parameters
        ----------
        path : path-like
            File that `save` wrote.

        Returns
        -------
        TabularAgent
            The agent.
        """
        return restore(path, cls.__name__, cls.state_version, cls.from_state)


def _terminal(states: Any, arrays: Arrays) -> dict[Any, float] | None:
    """Return the terminal states of a state file and what they are worth."""
    if "terminal" not in arrays:
        return None
    indices, pay = arrays["terminal"].tolist(), arrays["terminal_value"].tolist()
    size = len(arrays["source"])
    if any(not 0 <= s < size for s in indices):
        raise ValueError(f"terminal must be states from 0 to {size - 1}, got {indices}")
    return {s if states is None else states[s]: value for s, value in zip(indices, pay, strict=True)}
