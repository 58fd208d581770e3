"""Bayesian-risk Q-learning from a stream of observations.

After Wang and Zhou, *Bayesian Risk-Averse Q-Learning with Streaming Observations* (NeurIPS 2023). Real data come in
batches. After each batch the posterior is updated, and Q moves towards the Bayesian-risk Bellman operator of that
posterior,

    Q_{k+1}(s, a) = (1 - lambda_k) Q_k(s, a) + lambda_k rho_psi[ sum_k theta_k (r + gamma max_b Q_k(s', b)) ],

several times, with lambda_k = (k + 1)^-power. rho is VaR or CVaR. The paper estimates it by fresh posterior draws
each time; here the exact row can take its place, which has no bias and no variance. Q is off-policy: the agent acts
greedily but for a share epsilon of random actions.

**Which pairs move.** With ``pairs="all"`` all of them at once, as a simulator can do. With ``pairs="visited"`` only
those of the batch, one after the other in the order of the stream, each with the rate of its own number of updates:
asynchronous Q-learning. A row then sees what the pairs before it have just learned. A pair learns only where the agent
goes, and a reward moves back by one pair with each visit. So the agent needs the random choice among ties to find a
first reward, and many visits: on Frozen Lake its regret of an episode falls from 1.9 to 0.32 within some 700 episodes
of ten steps, where updates of all pairs are at 0.31 after 100.

With a posterior that no longer changes, Q tends to the fixed point that ``prudent.BayesianRiskMDP`` certifies: for
exact rows the error shrinks by the factor 1 - (1 - gamma) lambda_k in every update of all pairs. Asynchronous updates
tend to the same point if every pair is visited again and again (Bertsekas and Tsitsiklis 1996, Proposition 4.4: the
operator is a contraction in the largest norm, and the rates sum to infinity for a power of at most 1).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from .._support.checks import FloatArray, one_of, probability, risk_level, whole_number
from .._support.state import LARGEST_COUNT, Arrays, State, require_like
from ..errors import ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..posteriors.dirichlet import DirichletPosterior
from ..risk import CVaR, RiskMeasure, VaR
from ..types import ArrayLike, IntArray, Label, RngLike
from .tabular import TabularAgent

LARGEST_BATCH = 10**6  # whose pairs are remembered
ACCURACY = 1e-9  # of the largest value: error that an exact row may have


@dataclass(frozen=True)
class QLearningSettings:
    """Settings of a `QLearningAgent`: Bayesian-risk Q-learning.

    Called with a model, they make the agent, so that `prudent.simulate` takes them.

    Parameters
    ----------
    alpha : float, default=0
        Risk level; in (-1, 1) for CVaR, in [0, 1) for VaR.
    risk : {"cvar", "var"}, default="cvar"
        The measure over the posterior.
    draws : int, optional
        Posterior draws of each update, as in the paper. By default rows are exact.
    batch : int, default=10
        Real transitions between two updates of the posterior.
    updates : int, default=10
        Updates of Q after each batch; of visited pairs, passes over them.
    power : float, default=0.6
        The k-th update has the learning rate (k + 1)^-power. 0 is value iteration.
    epsilon : float, default=0.1
        Probability of a random action.
    label : str, optional
        Name in results. The default states the settings.
    pairs : {"all", "visited"}, default="all"
        Which pairs an update moves: all at once, or those of the batch, one after the other (asynchronous).

    Raises
    ------
    ParameterError
        If a setting is out of range.

    See Also
    --------
    brql : Short form.

    Examples
    --------
    >>> QLearningSettings(alpha=0.5, draws=50).label
    'BR-QL CVaR 0.5, 50 draws'
    """

    alpha: float = 0.0
    risk: str = "cvar"
    draws: int | None = None
    batch: int = 10
    updates: int = 10
    power: float = 0.6
    epsilon: float = 0.1
    label: str = ""
    pairs: str = "all"

    def __post_init__(self) -> None:
        one_of(self.risk, "risk", ("cvar", "var"))
        one_of(self.pairs, "pairs", ("all", "visited"))
        object.__setattr__(self, "alpha", risk_level(self.alpha, cautious=self.risk == "var"))
        for name in ("batch", "updates") if self.draws is None else ("batch", "updates", "draws"):
            most = LARGEST_BATCH if name == "batch" and self.pairs == "visited" else LARGEST_COUNT
            object.__setattr__(self, name, whole_number(getattr(self, name), name, maximum=most))
        for name in ("power", "epsilon"):
            object.__setattr__(self, name, probability(getattr(self, name), name))
        called = f"BR-QL {'CVaR' if self.risk == 'cvar' else 'VaR'} {self.alpha:g}"
        by = "" if self.draws is None else f", {self.draws} draws"
        which = "" if self.pairs == "all" else ", visited pairs"
        object.__setattr__(self, "label", str(self.label) or called + by + which)

    def __call__(self, model: UncertainMDP) -> QLearningAgent:
        """Return an agent that goes by index.

        Parameters
        ----------
        model : UncertainMDP
            The model to learn.

        Returns
        -------
        QLearningAgent
            The agent.
        """
        return QLearningAgent(model, settings=self, indices=True)

    def measure(self) -> RiskMeasure:
        """Return the risk measure over the posterior.

        Returns
        -------
        RiskMeasure
            VaR or CVaR at the level.
        """
        return CVaR(self.alpha) if self.risk == "cvar" else VaR(self.alpha)


def brql(
    alpha: float = 0.0,
    *,
    risk: str = "cvar",
    draws: int | None = None,
    batch: int = 10,
    updates: int = 10,
    power: float = 0.6,
    epsilon: float = 0.1,
    label: str = "",
    pairs: str = "all",
) -> QLearningSettings:
    """Return the settings of Bayesian-risk Q-learning, for `prudent.simulate`.

    Parameters
    ----------
    alpha : float, default=0
        Risk level; in (-1, 1) for CVaR, in [0, 1) for VaR.
    risk : {"cvar", "var"}, default="cvar"
        The measure over the posterior.
    draws : int, optional
        Posterior draws of each update, as in the paper. By default rows are exact.
    batch : int, default=10
        Real transitions between two updates of the posterior.
    updates : int, default=10
        Updates of Q after each batch; of visited pairs, passes over them.
    power : float, default=0.6
        The k-th update has the learning rate (k + 1)^-power.
    epsilon : float, default=0.1
        Probability of a random action.
    label : str, optional
        Name in results.
    pairs : {"all", "visited"}, default="all"
        Which pairs an update moves: all at once, or those of the batch, one after the other (asynchronous).

    Returns
    -------
    QLearningSettings
        The settings.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> from prudent import envs, simulate
    >>> runs = simulate(envs.river_swim(), [brql(0.5), brql(0.5, draws=20)], episodes=5, replications=2)
    >>> runs.agent.values.tolist()
    ['BR-QL CVaR 0.5', 'BR-QL CVaR 0.5, 20 draws']
    """
    return QLearningSettings(alpha, risk, draws, batch, updates, power, epsilon, label, pairs)


class QLearningAgent(TabularAgent):
    """Agent that learns Q of the Bayesian risk from a stream of observations.

    Parameters
    ----------
    model : UncertainMDP
        What is known about the environment.
    alpha : float, default=0
        Risk level of CVaR over the posterior.
    settings : QLearningSettings, optional
        All settings at once, instead.
    prior : float or array_like, optional
        As for `PosteriorSamplingAgent`.
    rng : int, Generator or None, optional
        Seed, or a Generator that the agent then owns.
    indices : bool, default=False
        Whether states, actions and outcomes are given by index even if the model has names for them.

    Raises
    ------
    ParameterError
        If a setting is out of range, or settings and a level are given.

    References
    ----------
    Wang and Zhou, *Bayesian Risk-Averse Q-Learning with Streaming Observations*, NeurIPS 2023.

    Examples
    --------
    >>> model = UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.5)
    >>> agent = QLearningAgent(model, settings=brql(0.9, batch=1, epsilon=0.0), rng=1)
    >>> agent.act(0)
    0
    >>> agent.observe(0, 0, 1)
    >>> agent.act(0), agent.q.round(2)
    (1, array([[0.2 , 0.22],
           [1.12, 0.12]]))
    """

    def __init__(
        self,
        model: UncertainMDP,
        alpha: float = 0.0,
        *,
        settings: QLearningSettings | None = None,
        prior: ArrayLike | None = None,
        rng: RngLike = None,
        indices: bool = False,
    ) -> None:
        single = QLearningSettings(alpha)
        if settings is not None and single != QLearningSettings():
            text = "give either settings or alpha, not both"
            raise ParameterError(text, code="conflicting-arguments", argument="settings")
        super().__init__(model, prior, rng, indices)
        self._settings = single if settings is None else settings
        if self._settings.draws is not None:
            self.require_memory(self._settings.draws)
        self._measure = self._settings.measure()
        self._pairs = np.flatnonzero(model.admissible)
        self._choices = [np.flatnonzero(row) for row in model.admissible]
        self._start()

    def _start(self) -> None:
        self._q = np.where(self._model.admissible, 0.0, -np.inf)
        self._updates, self._waiting = 0, 0
        # asynchronous: the pairs of this batch, and how often each pair was moved
        self._visited = np.full(self._settings.batch if self._asynchronous else 0, -1, dtype=np.int64)
        self._moves = np.zeros(self._q.size if self._asynchronous else 0, dtype=np.int64)

    @property
    def _asynchronous(self) -> bool:
        return self._settings.pairs == "visited"

    def act(self, state: Label) -> Any:
        """Return the best action by the current Q, a random one of ties, or now and then any action.

        Parameters
        ----------
        state : hashable
            The current state.

        Returns
        -------
        hashable
            The action.
        """
        s = self._reader.states.index(state)
        if self._settings.epsilon > 0.0 and self.rng.random() < self._settings.epsilon:
            return self._actions[int(self.rng.choice(self._choices[s]))]
        best = np.flatnonzero(self._q[s] == self._q[s].max())
        return self._actions[int(best[0] if best.size == 1 else self.rng.choice(best))]

    def reset(self, rng: RngLike = None) -> None:
        """Forget what was learned, and begin with another random stream.

        Parameters
        ----------
        rng : int, Generator or None, optional
            Seed, or a Generator that the agent then owns.
        """
        super().reset(rng)
        self._start()

    def observe(
        self, state: Label, action: Label, next_state: Label, outcome: Label | None = None, reward: float | None = None
    ) -> None:
        """Count the transition; after each batch, update Q under the new posterior.

        Parameters
        ----------
        state, action : hashable
            Where the transition began, and the action taken.
        next_state : hashable
            Where it led; None if the process ended.
        outcome : hashable, optional
            Outcome of the source, if it was seen.
        reward : float, optional
            Not used: the model knows it.

        Raises
        ------
        DataError
            If the transition is impossible. Nothing is changed then.
        """
        seen = self.transition(state, action, next_state, outcome)
        self.count(seen)
        if self._asynchronous:
            self._visited[self._waiting] = seen[0, 0] * self._model.n_actions + seen[0, 1]
        self._waiting += 1
        if self._waiting == self._settings.batch:
            visited = self._visited.copy()
            self._waiting = 0
            self._visited[:] = -1
            self._learn(self._settings.updates, visited)

    def learn(self, updates: int) -> None:
        """Update Q of all pairs, or of those visited in this batch, under the current posterior, without new data.

        Parameters
        ----------
        updates : int
            Number of updates, or of passes over the visited pairs.
        """
        self._learn(updates, self._visited[: self._waiting])

    def _learn(self, updates: int, visited: IntArray) -> None:
        posterior = DirichletPosterior(self.counts)
        problem = BayesianRiskMDP(self._model, posterior, risk=self._measure, reward_posterior="certain")
        draws, flat = self._settings.draws, self._q.reshape(-1)
        operator = problem.operator(threads=1) if draws is None else None
        target = np.empty(flat.size)
        once = [self._pairs]
        if self._asynchronous:
            once = [visited[i : i + 1] for i in range(visited.size)]
        for _ in range(whole_number(updates, "updates", minimum=0)):
            for pairs in once:
                value = self._q.max(axis=1)
                fresh = problem.operator(draws, self.rng, threads=1) if operator is None else operator
                fresh.accuracy = ACCURACY * float(abs(value).max())
                fresh.backup(value, pairs, target)
                done = int(self._moves[pairs[0]]) if self._asynchronous else self._updates
                flat[pairs] += (done + 1.0) ** -self._settings.power * (target[pairs] - flat[pairs])
                if self._asynchronous:
                    self._moves[pairs] += 1
            self._updates += 1

    @property
    def policy(self) -> FloatArray:
        """Probabilities of actions [S, A]: the best ones, and a share epsilon of any."""
        best = self._q == self._q.max(axis=1, keepdims=True)
        usual, greedy = (some / some.sum(axis=1, keepdims=True) for some in (self._model.admissible, best))
        return np.asarray(self._settings.epsilon * usual + (1.0 - self._settings.epsilon) * greedy)

    @property
    def value(self) -> FloatArray:
        """Largest Q of every state [S]."""
        return np.asarray(self._q.max(axis=1))

    @property
    def q(self) -> FloatArray:
        """Current Q [S, A]; minus infinity where an action is not admissible."""
        return self._q.copy()

    @property
    def settings(self) -> QLearningSettings:
        """How the agent learns."""
        return self._settings

    def own_state(self) -> State:
        """Return settings, Q and where the agent is in its batch.

        Returns
        -------
        values : dict
            The settings.
        arrays : dict of str to ndarray
            Q, and the numbers of updates and of transitions since the last batch. With asynchronous updates also the
            pairs of this batch, and how often each pair was moved.
        """
        arrays = {
            "q": np.where(self._model.admissible, self._q, 0.0),
            "progress": np.array([self._updates, self._waiting], dtype=np.int64),
        }
        if self._asynchronous:
            arrays |= {"visited": self._visited.copy(), "moves": self._moves.copy()}
        return {"settings": asdict(self._settings)}, arrays

    @classmethod
    def from_settings(cls, model: UncertainMDP, values: dict[str, Any]) -> Self:
        """Return a new agent with saved settings.

        Parameters
        ----------
        model : UncertainMDP
            The model of the saved agent.
        values : dict
            Saved values.

        Returns
        -------
        QLearningAgent
            An agent without data.
        """
        return cls(model, settings=QLearningSettings(**values["settings"]), rng=0, indices=values["indices"])

    def resume(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Take over a saved state.

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
        super().resume(values, arrays)
        require_like(arrays, self.own_state()[1])
        updates, waiting = arrays["progress"].tolist()
        if not np.isfinite(arrays["q"]).all() or updates < 0 or not 0 <= waiting < self._settings.batch:
            raise ValueError("q must be finite, and progress that of a batch")
        if self._asynchronous:
            visited, moves = arrays["visited"], arrays["moves"]
            here = np.isin(visited[:waiting], self._pairs).all() and (visited[waiting:] == -1).all()
            if not here or (moves < 0).any():
                raise ValueError("visited must be the pairs of a batch, and moves their numbers of updates")
            self._visited, self._moves = visited.copy(), moves.copy()
        self._q = np.where(self._model.admissible, arrays["q"], -np.inf)
        self._updates, self._waiting = updates, waiting

    def __repr__(self) -> str:
        return f"QLearningAgent({self._settings.label}, {self._model!r}, {self._updates} updates)"
