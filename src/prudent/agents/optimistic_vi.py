"""Online Bayesian risk-averse value iteration with an exploration bonus: the paper's Algorithm 3.

After every step all pairs are refreshed once,

    Q_{t+1}(s, a) = min( Q_t(s, a),  r(s, a) + gamma C_alpha( n draws of theta . V_t ) + bonus_t(s, a) ),
    bonus_t(s, a) = 3 gamma / (1 - gamma) sqrt( S^2 / (2 (N_t(s, a) + 1)) log( 4 (n + 1) S^2 A T / delta ) ),

with draws from the posterior before this step, V_{t+1} the maximum of Q_{t+1}, and Q_0 = V_0 = 1 / (1 - gamma). With
probability 1 - delta/2, Q_t never falls below the optimal Q*. The risk of draws is at least the lowest value, so
a pair whose bonus keeps it at Q_t needs no draws. This holds for nearly all pairs at nearly all times.

The analysis is for direct parametrisation. Where pairs share sources, the posterior has at least the data of the visits
of one pair, and the bonus is conservative.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from .._numerics.compile import kernel
from .._numerics.dirichlet_draws import draw_row
from .._support.checks import FloatArray, IntArray, open_probability, risk_level, whole_number
from .._support.state import LARGEST_COUNT, Arrays, State, require_counts, require_like
from ..errors import ModelError, ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.inner import Known, Work, known_part, work_space
from ..planning.rows import Draws, back_up_pair, greedy
from ..risk import CVaR, sample_size
from ..types import ArrayLike, Label, RngLike
from .tabular import TabularAgent


class OptimisticPlan(NamedTuple):
    """Settings in the form that the kernels need."""

    n: int  # number of draws
    weights: FloatArray  # [M] weights of the lowest draws
    scale: float  # the bonus of a pair is scale / sqrt(visits + 1)


@kernel
def optimistic_update(
    rng: np.random.Generator,
    known: Known,
    work: Work,
    counts: FloatArray,  # [B, K]
    visits: IntArray,  # [P]
    plan: OptimisticPlan,
    value: FloatArray,  # [S]
    policy: IntArray,  # [S]
) -> int:
    """Refresh work.q, ``value`` and ``policy`` once (Algorithm 3); return the number of pairs that needed draws.

    The risk of draws is never below the lowest value: a pair whose bonus keeps it above its Q even then is skipped.
    """
    q, entries = work.q.reshape(-1), known.entries
    draws = Draws(work.theta, 0, work.none, plan.weights, False)
    lowest = min(value.min(), 0.0) if known.leaky else value.min()  # the value after an end is 0
    drawn = 0
    for p in range(q.size):
        b = entries.source[p]
        if b < 0:
            continue
        bonus = plan.scale / math.sqrt(visits[p] + 1.0)
        if entries.reward[entries.first[p]] + entries.discount * lowest + bonus >= q[p]:  # the same for all outcomes
            continue
        drawn += 1
        begin, end = entries.begin[b], entries.begin[b + 1]
        for j in range(end - begin):
            work.counts[j] = counts[b, entries.outcome[begin + j]]
        draw_row(rng, work.counts[: end - begin], work.theta[begin:end], plan.n, work.z)
        risk, _ = back_up_pair(p, entries, draws, plan.n, 0.0, value, work.z, work.order)
        q[p] = min(q[p], risk + bonus)
    if drawn:  # after all Q, so that every pair uses the same values
        greedy(work.q, value, policy)
    return drawn


@kernel
def start_optimistic(known: Known, q: FloatArray, value: FloatArray, policy: IntArray) -> None:
    """Write the largest value of rewards in [0, 1], 1 / (1 - gamma), into Q [S, A] and V [S]."""
    source = known.entries.source
    for p in range(source.size):
        q.reshape(-1)[p] = 1.0 / (1.0 - known.entries.discount) if source[p] >= 0 else -np.inf
    greedy(q, value, policy)


@dataclass(frozen=True)
class OptimisticSettings:
    """Settings of an `OptimisticVIAgent`, the paper's Algorithm 3.

    Parameters
    ----------
    alpha : float, default=0
        Risk level of CVaR in [0, 1).
    delta : float, default=0.05
        Probability in (0, 1) that the guarantee may fail.
    horizon : int, optional
        Number of steps T that the guarantee is for. A simulation uses its own length by default.
    label : str, optional
        Name in results. The default states the settings.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    See Also
    --------
    optimistic_vi : Short form.

    Examples
    --------
    >>> OptimisticSettings(alpha=0.5).label
    'optimistic VI 0.5'
    """

    alpha: float = 0.0
    delta: float = 0.05
    horizon: int | None = None
    label: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", risk_level(self.alpha, cautious=True))
        object.__setattr__(self, "delta", open_probability(self.delta, "delta"))
        if self.horizon is not None:
            object.__setattr__(self, "horizon", whole_number(self.horizon, "horizon", maximum=LARGEST_COUNT))
        object.__setattr__(self, "label", str(self.label) or f"optimistic VI {self.alpha:g}")

    @property
    def most_draws(self) -> int:
        """Largest number of draws taken at once."""
        return sample_size(self.alpha)

    def plan(self, model: UncertainMDP) -> OptimisticPlan:
        """Return the settings in the form that the kernels need.

        Parameters
        ----------
        model : UncertainMDP
            The model to learn.

        Returns
        -------
        OptimisticPlan
            Draws, weights and bonus.

        Raises
        ------
        ModelError
            If rewards are not in [0, 1], or depend on the outcome.
        ParameterError
            If there is no horizon.
        """
        _check_rewards(model)
        if self.horizon is None:
            text = "horizon must be given: the bonus needs the number of steps T"
            raise ParameterError(text, code="missing-argument", argument="horizon")
        n = self.most_draws
        states, pairs = model.n_states, model.n_states * model.n_actions
        evidence = math.log(4.0 * (n + 1) * states * pairs * self.horizon / self.delta)
        scale = 3.0 * model.discount / (1.0 - model.discount) * math.sqrt(0.5 * states**2 * evidence)
        return OptimisticPlan(n, CVaR(self.alpha).lowest_weights(n), scale)


def optimistic_vi(
    alpha: float = 0.0, *, delta: float = 0.05, horizon: int | None = None, label: str = ""
) -> OptimisticSettings:
    """Return the settings of the paper's Algorithm 3, for `prudent.simulate`.

    Parameters
    ----------
    alpha : float, default=0
        Risk level of CVaR in [0, 1).
    delta : float, default=0.05
        Probability in (0, 1) that the guarantee may fail.
    horizon : int, optional
        Number of steps T that the guarantee is for. A simulation uses its own length by default.
    label : str, optional
        Name in results.

    Returns
    -------
    OptimisticSettings
        The settings.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> optimistic_vi(0.9).label
    'optimistic VI 0.9'
    """
    return OptimisticSettings(alpha, delta, horizon, label)


def _check_rewards(model: UncertainMDP) -> None:
    entries = model.entries
    pairs = entries.pairs()
    bad = ~((entries.reward >= 0.0) & (entries.reward <= 1.0))
    if bad.any():
        e = int(np.argmax(bad))
        (s, a), k = divmod(int(pairs[e]), model.n_actions), int(entries.outcome[entries.slots()[e]])
        text = f"reward[{s}, {a}, {k}] is {entries.reward[e]}, but optimism needs rewards in [0, 1]"
        raise ModelError(text, code="reward-range", argument="reward", index=(s, a, k), value=float(entries.reward[e]))
    varied = entries.reward != entries.reward[entries.first[pairs]]
    if varied.any():
        pair = model.pair_name(pairs[np.argmax(varied)])
        text = f"the reward of {pair} depends on the outcome, but optimism needs one reward for each pair"
        raise ModelError(text, code="reward-varies", argument="reward", index=pair)


class OptimisticVIAgent(TabularAgent):
    """Agent with optimistic value iteration under a posterior, the paper's Algorithm 3.

    It explores by a bonus and updates Q after every step. Rewards must lie in [0, 1].

    Parameters
    ----------
    model : UncertainMDP
        What is known about the environment.
    alpha : float, default=0
        Risk level of CVaR in [0, 1).
    horizon : int
        Number of steps T that the guarantee is for.
    delta : float, default=0.05
        Probability in (0, 1) that the guarantee may fail.
    settings : OptimisticSettings, optional
        All of the above at once, instead.
    prior : float or array_like, optional
        As for `PosteriorSamplingAgent`.
    rng : int, Generator or None, optional
        Seed, or a Generator that the agent then owns.
    indices : bool, default=False
        Whether states, actions and outcomes are given by index even if the model has names for them.

    Raises
    ------
    ModelError
        If rewards are not in [0, 1], or depend on the outcome.
    ParameterError
        If a setting is out of range, or there is no horizon.

    Examples
    --------
    >>> model = UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.5)
    >>> agent = OptimisticVIAgent(model, alpha=0.9, horizon=1000, rng=1)
    >>> agent.act(0)
    0
    >>> agent.observe(0, 0, 1)
    >>> agent.q
    array([[2., 2.],
           [2., 2.]])
    """

    def __init__(
        self,
        model: UncertainMDP,
        alpha: float = 0.0,
        *,
        horizon: int | None = None,
        delta: float = 0.05,
        settings: OptimisticSettings | None = None,
        prior: ArrayLike | None = None,
        rng: RngLike = None,
        indices: bool = False,
    ) -> None:
        single = OptimisticSettings(alpha, delta, horizon)
        if settings is not None and single != OptimisticSettings():
            text = "give either settings or single ones such as alpha and horizon, not both"
            raise ParameterError(text, code="conflicting-arguments", argument="settings")
        super().__init__(model, prior, rng, indices)
        self._settings = single if settings is None else settings
        self._plan = self._settings.plan(model)
        self._known = known_part(model)
        self.require_memory(self._plan.n)
        self._work = work_space(model, self._plan.n)
        self._visits = np.zeros(model.n_states * model.n_actions, dtype=np.int64)
        self._value = np.empty(model.n_states)
        self._policy = np.empty(model.n_states, dtype=np.int64)
        start_optimistic(self._known, self._work.q, self._value, self._policy)

    def act(self, state: Label) -> Any:
        """Return the best action by the current Q, the first of ties.

        Parameters
        ----------
        state : hashable
            The current state.

        Returns
        -------
        hashable
            The action.
        """
        return self._actions[self._policy[self._reader.states.index(state)]]

    def reset(self, rng: RngLike = None) -> None:
        """Forget what was learned, and begin with another random stream.

        Parameters
        ----------
        rng : int, Generator or None, optional
            Seed, or a Generator that the agent then owns.
        """
        super().reset(rng)
        self._visits[...] = 0
        start_optimistic(self._known, self._work.q, self._value, self._policy)

    def observe(
        self, state: Label, action: Label, next_state: Label, outcome: Any = None, reward: float | None = None
    ) -> None:
        """Update Q with the posterior before this transition, then count the transition.

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
        row = self.transition(state, action, next_state, outcome)
        optimistic_update(
            self.rng, self._known, self._work, self.counts, self._visits, self._plan, self._value, self._policy
        )
        self.count(row)
        self._visits[row[0, 0] * self._model.n_actions + row[0, 1]] += 1

    @property
    def policy(self) -> IntArray:
        """Index of the current action in every state [S]."""
        return self._policy.copy()

    @property
    def value(self) -> FloatArray:
        """Current upper bound of the optimal values [S]."""
        return self._value.copy()

    @property
    def q(self) -> FloatArray:
        """Current Q [S, A]; minus infinity where an action is not admissible."""
        return self._work.q.copy()

    @property
    def settings(self) -> OptimisticSettings:
        """How the agent explores."""
        return self._settings

    def own_state(self) -> State:
        """Return settings, visits and values.

        Returns
        -------
        values : dict
            The settings.
        arrays : dict of str to ndarray
            Visits, Q, value and policy.
        """
        finite_q = np.where(self._model.admissible, self._work.q, 0.0)
        arrays = {"visits": self._visits, "q": finite_q, "value": self._value, "policy": self._policy}
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
        OptimisticVIAgent
            An agent without data.
        """
        return cls(model, settings=OptimisticSettings(**values["settings"]), rng=0, indices=values["indices"])

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
        require_counts(arrays["visits"], "visits")
        self._visits[...] = arrays["visits"]
        q, admissible = self._work.q, self._model.admissible
        highest = q.max()  # its value before data
        q[...] = np.where(admissible, arrays["q"], -np.inf)
        if not ((q[admissible] >= 0.0) & (q[admissible] <= highest)).all():
            raise ValueError(f"q must be numbers from 0 to {highest}")
        greedy(q, self._value, self._policy)  # these must equal the saved ones, or the file is refused

    def __repr__(self) -> str:
        return f"OptimisticVIAgent({self._settings.label}, {self._model!r}, {int(self._visits.sum())} steps seen)"
