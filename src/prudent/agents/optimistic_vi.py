"""Online Bayesian risk-averse value iteration with an exploration bonus: the paper's Algorithm 3.

After every step all pairs are refreshed once,

    Q_{t+1}(s, a) = min( Q_t(s, a),  r(s, a) + gamma C_alpha( n draws of theta . V_t ) + bonus_t(s, a) ),
    bonus_t(s, a) = 3 gamma / (1 - gamma) sqrt( S^2 / (2 (N_t(s, a) + 1)) log( 4 (n + 1) S^2 A T / delta ) ),

with draws from the posterior before this step, V_{t+1} the maximum of Q_{t+1}, and Q_0 = V_0 = 1 / (1 - gamma). With
probability 1 - delta/2, Q_t never falls below the optimal Q*. The risk of draws is at least the lowest value, so
a pair whose bonus would keep it at Q_t anyway needs no draws: that is nearly all pairs nearly always.

The analysis is for direct parametrisation. Where pairs share sources, a posterior knows at least what the visits of
one pair told it, and the bonus is on the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from .._numerics.compile import kernel
from .._numerics.dirichlet_draws import draw_row
from .._support.checks import FloatArray, IntArray, open_probability, risk_level, whole_number
from .._support.state import LARGEST_COUNT, State, require_counts
from ..errors import ModelError, ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.inner import Known, Work, known_part, work_space
from ..planning.rows import Draws, back_up_pair, greedy
from ..risk import CVaR, sample_size
from .tabular import TabularAgent

__all__ = [
    "OptimisticPlan",
    "OptimisticSettings",
    "OptimisticVIAgent",
    "optimistic_update",
    "optimistic_vi",
    "start_optimistic",
]


class OptimisticPlan(NamedTuple):
    """What the kernels need of the settings."""

    n: int  # draws
    weights: FloatArray  # [M] of the lowest draws
    scale: float  # the bonus of a pair is this over the square root of its visits plus one


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

    The risk of draws is never below the lowest value: a pair whose bonus keeps it above its Q even so is left out.
    """
    q, entries = work.q.reshape(-1), known.entries
    draws = Draws(work.theta, 0, work.none, plan.weights, False)
    lowest = min(value.min(), 0.0) if known.leaky else value.min()  # an end is worth nothing more
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
    if drawn:  # after all Q, so that every pair has seen the same values
        greedy(work.q, value, policy)
    return drawn


@kernel
def start_optimistic(known: Known, q: FloatArray, value: FloatArray, policy: IntArray) -> None:
    """Write the most that rewards in [0, 1] can be worth into Q [S, A] and V [S]."""
    source = known.entries.source
    for p in range(source.size):
        q.reshape(-1)[p] = 1.0 / (1.0 - known.entries.discount) if source[p] >= 0 else -np.inf
    greedy(q, value, policy)


@dataclass(frozen=True)
class OptimisticSettings:
    """How an :class:`OptimisticVIAgent` explores: the settings of the paper's Algorithm 3.

    alpha : risk level of CVaR.
    delta : the probability that the guarantee may fail.
    horizon : the number of steps T that it is for. A simulation puts its own length by default.
    label : its name in results, by default one that says the settings.

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
        """The most draws taken at once."""
        return sample_size(self.alpha)

    def plan(self, model: UncertainMDP) -> OptimisticPlan:
        """Return what the kernels need for ``model``."""
        _check_rewards(model)
        if self.horizon is None:
            raise ParameterError("horizon must be given: the bonus needs the number of steps T")
        n = self.most_draws
        states, pairs = model.n_states, model.n_states * model.n_actions
        evidence = math.log(4.0 * (n + 1) * states * pairs * self.horizon / self.delta)
        scale = 3.0 * model.discount / (1.0 - model.discount) * math.sqrt(0.5 * states**2 * evidence)
        return OptimisticPlan(n, CVaR(self.alpha).lowest_weights(n), scale)


def optimistic_vi(
    alpha: float = 0.0, *, delta: float = 0.05, horizon: int | None = None, label: str = ""
) -> OptimisticSettings:
    """Return the settings of the paper's Algorithm 3, for :func:`prudent.simulate`.

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
        raise ModelError(f"reward[{s}, {a}, {k}] is {entries.reward[e]}, but optimism needs rewards in [0, 1]")
    varied = entries.reward != entries.reward[entries.first[pairs]]
    if varied.any():
        pair = model.pair_name(pairs[np.argmax(varied)])
        raise ModelError(f"the reward of {pair} depends on the outcome, but optimism needs it known for each pair")


class OptimisticVIAgent(TabularAgent):
    """Optimistic value iteration under a posterior, the paper's Algorithm 3: explores by a bonus, learns every step.

    ``horizon`` is the number of steps T that the guarantee is for, ``delta`` the probability that it may fail; see
    :class:`OptimisticSettings`, or give one as ``settings``. Rewards must lie in [0, 1]. ``prior``, ``seed`` and
    ``indices`` as for :class:`PosteriorSamplingAgent`.

    >>> model = UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.5)
    >>> agent = OptimisticVIAgent(model, alpha=0.9, horizon=1000, seed=1)
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
        prior: Any = 1.0,
        seed: Any = None,
        indices: bool = False,
    ) -> None:
        given = OptimisticSettings(alpha, delta, horizon)
        if settings is not None and given != OptimisticSettings():
            raise ParameterError("give either settings or single ones such as alpha and horizon, and not both")
        super().__init__(model, prior, seed, indices)
        self._settings = given if settings is None else settings
        self._plan = self._settings.plan(model)
        self._known = known_part(model)
        self._require_memory(self._plan.n)
        self._work = work_space(model, self._plan.n)
        self._visits = np.zeros(model.n_states * model.n_actions, dtype=np.int64)
        self._value = np.empty(model.n_states)
        self._policy = np.empty(model.n_states, dtype=np.int64)
        start_optimistic(self._known, self._work.q, self._value, self._policy)

    def act(self, state: Hashable) -> Any:
        """Return the best action in ``state`` by the current Q, the first of ties."""
        return self._action_of[self._policy[self._reader.states.index(state)]]

    def observe(self, state: Hashable, action: Hashable, next_state: Hashable, outcome: Any = None) -> None:
        """Refresh Q with the posterior before this transition, then count it; impossible ones change nothing."""
        row = self._read(state, action, next_state, outcome)
        optimistic_update(
            self._rng, self._known, self._work, self._counts, self._visits, self._plan, self._value, self._policy
        )
        self._count(row)
        self._visits[row[0, 0] * self._model.n_actions + row[0, 1]] += 1

    @property
    def policy(self) -> IntArray:
        """The index of the current action in every state [S]."""
        return self._policy.copy()

    @property
    def value(self) -> FloatArray:
        """The current upper bound on the optimal values [S]."""
        return self._value.copy()

    @property
    def q(self) -> FloatArray:
        """The current Q [S, A]; minus infinity where an action is not admissible."""
        return self._work.q.copy()

    @property
    def settings(self) -> OptimisticSettings:
        """How the agent explores."""
        return self._settings

    def _own_state(self) -> State:
        finite_q = np.where(self._model.admissible, self._work.q, 0.0)
        arrays = {"visits": self._visits, "q": finite_q, "value": self._value, "policy": self._policy}
        return {"settings": asdict(self._settings)}, arrays

    @classmethod
    def _restored(cls, model: UncertainMDP, values: dict[str, Any], arrays: dict[str, Any]) -> Self:
        agent = cls(model, settings=OptimisticSettings(**values["settings"]), seed=0, indices=values["indices"])
        require_counts(arrays["visits"], "visits")
        agent._filled(agent._visits, arrays["visits"], "visits")
        q = agent._work.q
        highest = q.max()  # where it starts
        agent._filled(q, np.where(model.admissible, arrays["q"], -np.inf), "q")
        if not ((q[model.admissible] >= 0.0) & (q[model.admissible] <= highest)).all():
            raise ValueError(f"q must be numbers from 0 to {highest}")
        greedy(q, agent._value, agent._policy)  # so they are what was saved, or the file is refused
        return agent

    def __repr__(self) -> str:
        return f"OptimisticVIAgent({self._settings.label}, {self._model!r}, {int(self._visits.sum())} steps seen)"
