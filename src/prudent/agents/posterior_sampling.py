"""Posterior sampling with a dial for risk: the paper's BRPS-RL (Algorithm 1) and its relatives, one engine.

At the start of an episode the agent draws n models from its posterior, values every action by a risk measure of
these draws at every step ahead (the approximate Bayesian-risk operator T-hat), and follows the optimal policy of that
for the episode. The risk is CVaR_alpha by default and n = ceil(1 / (1 - alpha)), the draw rule. Settings of it:

    BRPS-RL                     ``brps_rl(alpha)``
    Thompson sampling for RL    ``ts_rl()``, alpha = 0 and one draw
    certainty equivalence       ``certainty_equivalence()``, the posterior mean in place of draws
    worst case                  ``worst_case(n)``, the lowest of n draws
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from .._support.checks import SUM_TOLERANCE, FloatArray, IntArray, risk_level, whole_number
from .._support.state import LARGEST_COUNT, State
from ..errors import ConvergenceWarning, ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.inner import Plan, grid, known_part, refresh, work_space
from ..risk import CVaR, Mean, MeanCVaR, Mixture, ModifiedCVaR, RiskMeasure, VaR, WorstCase, sample_size
from ..schedules import Schedule, named_schedule, saved_schedule, schedule_of
from .tabular import TabularAgent

__all__ = ["PosteriorSamplingAgent", "SamplingSettings", "brps_rl", "certainty_equivalence", "ts_rl", "worst_case"]


ESTIMATORS = {"cvar": CVaR, "modified": ModifiedCVaR}


@dataclass(frozen=True)
class GivenWeights(RiskMeasure):
    """The weights of the lowest of ``n`` draws: what is left of a measure of the user's own in a state file."""

    n: int
    lowest: tuple[float, ...]

    def __post_init__(self) -> None:
        weights = tuple(float(weight) for weight in self.lowest)
        few = 0 < len(weights) <= whole_number(self.n, "n")
        if not (few and min(weights) >= 0.0 and abs(sum(weights) - 1.0) <= SUM_TOLERANCE):
            raise ParameterError(f"lowest must be weights of at most {self.n} draws, got {self.lowest!r}")
        object.__setattr__(self, "lowest", weights)

    def tail_weights(self, n: int) -> FloatArray:
        if n != self.n:
            raise ParameterError(f"these are weights of {self.n} draws, got {n}")
        return np.array(self.lowest)


# the measures that a state file can name
MEASURES: dict[str, Any] = {
    each.__name__: each for each in (CVaR, GivenWeights, Mean, MeanCVaR, Mixture, ModifiedCVaR, VaR, WorstCase)
}


@dataclass(frozen=True)
class SamplingSettings:
    """How a :class:`PosteriorSamplingAgent` turns its posterior into a policy.

    alpha : risk level of CVaR in (-1, 1), below zero optimism; or one level for each episode, of which the last also
        serves all later ones; or a :class:`~prudent.schedules.Schedule`, or a function of (episode, visits), see there.
    draws : posterior draws n; None is the draw rule, ``"mean"`` puts the posterior mean in place of draws.
    risk : another measure of the draws instead of CVaR, e.g. ``MeanCVaR(0.9, weight=0.5)``.
    estimator : of CVaR from draws, ``"cvar"`` or ``"modified"``, the paper's estimator for proofs.
    sweeps : so many sweeps of value iteration, as the paper does (100), instead of Newton.
    label : its name in results, by default one that says the settings.

    >>> SamplingSettings(alpha=[0.9, 0.5]).label
    'BRPS-RL 0.9 to 0.5'
    """

    alpha: float | tuple[float, ...] | Schedule | None = None
    draws: int | str | None = None
    risk: RiskMeasure | None = None
    estimator: str = "cvar"
    sweeps: int | None = None
    label: str = ""

    def __post_init__(self) -> None:
        if self.alpha is not None and self.risk is not None:
            raise ParameterError("give either a risk level alpha or a risk measure, and not both")
        if self.alpha is None and self.risk is None:
            object.__setattr__(self, "alpha", 0.0)
        if self.alpha is not None:
            object.__setattr__(self, "alpha", _levels(self.alpha))
            if self.schedule is not None and (self.draws is not None or self.estimator != "cvar"):
                raise ParameterError("a schedule has draws of its own: leave out draws and estimator")
        elif not isinstance(self.risk, RiskMeasure):
            raise ParameterError(f"risk must be a risk measure such as CVaR(0.9), got {self.risk!r}")
        if isinstance(self.draws, str):
            if self.draws != "mean":
                raise ParameterError(f"draws must be a whole number, 'mean' or None, got {self.draws!r}")
            for name, given in (("risk", self.risk is not None), ("alpha", self.alpha not in (None, 0.0))):
                if given:
                    raise ParameterError(f"give {name} or draws='mean', not both: the mean has no draws to be risked")
        elif self.draws is not None:
            object.__setattr__(self, "draws", whole_number(self.draws, "draws", maximum=2**24))
        if self.estimator not in ESTIMATORS:
            raise ParameterError(f"estimator must be one of {list(ESTIMATORS)}, got {self.estimator!r}")
        if self.estimator != "cvar" and self.alpha is None:
            raise ParameterError(f"estimator {self.estimator!r} is one of CVaR; give a risk level alpha")
        if self.sweeps is not None:
            object.__setattr__(self, "sweeps", whole_number(self.sweeps, "sweeps", maximum=1_000_000))
        self.plan()  # raises if the draws do not suit the risk
        object.__setattr__(self, "label", str(self.label) or self._label())

    @property
    def schedule(self) -> Schedule | None:
        """The schedule that the level follows, if it does."""
        return self.alpha if isinstance(self.alpha, Schedule) else None

    def plan(self, prior: FloatArray | None = None, episodes: Any = 0, visits: int = 0) -> Plan:
        """Return what the kernels need: for each episode the draws and the weights of the lowest.

        A schedule needs the ``prior`` [B, K] of the posterior; it is a table for ``episodes``, a number of them or an
        array of single ones, and up to ``visits`` observations of a source.

        >>> brps_rl(-0.9).plan()[:3]
        (array([-10]), array([[1.]]), array([1]))
        """
        sweeps = self.sweeps or 0
        if self.draws == "mean":
            return Plan(np.zeros(1, np.int64), np.ones((1, 1)), np.ones(1, np.int64), sweeps)
        if self.schedule is not None:
            times: IntArray = grid(max(episodes - 1, 0)) if np.ndim(episodes) == 0 else np.asarray(episodes)
            counted, share = self.schedule.rule(times[:, np.newaxis], grid(visits))
            size = (len(times), grid(visits).size)
            tables = np.array(np.broadcast_to(counted, size)), np.array(np.broadcast_to(share, size))
            before = np.zeros(0) if prior is None else prior.sum(axis=1)
            return Plan(np.ones(1, np.int64), np.ones((1, 1)), np.ones(1, np.int64), sweeps, *tables, before)
        measures: list[RiskMeasure] = []
        if self.risk is not None:
            measures.append(self.risk)
        else:
            measures += [ESTIMATORS[self.estimator](level) for level in self._alphas]
        n = [self._draws(measure) for measure in measures]
        outermost = [measure.outermost(size) for measure, size in zip(measures, n, strict=True)]
        weights = np.zeros((len(n), max(row.weights.size for row in outermost)))
        for i, row in enumerate(outermost):
            weights[i, : row.weights.size] = row.weights
        signed = [size if row.sign > 0.0 else -size for size, row in zip(n, outermost, strict=True)]
        lengths = np.array([row.weights.size for row in outermost], np.int64)
        return Plan(np.array(signed, np.int64), weights, lengths, sweeps)

    @property
    def most_draws(self) -> int:
        """The most draws taken at once."""
        return self.schedule.most_draws if self.schedule is not None else max(1, int(abs(self.plan().n).max()))

    @property
    def _alphas(self) -> tuple[float, ...]:
        if self.alpha is None or isinstance(self.alpha, Schedule):
            return ()
        return self.alpha if isinstance(self.alpha, tuple) else (self.alpha,)

    def _draws(self, measure: RiskMeasure) -> int:
        if isinstance(self.draws, int):
            return self.draws
        level = getattr(measure, "alpha", None)
        if level is None:
            raise ParameterError(f"draws must be given for {measure!r}: the draw rule is for a risk level")
        return sample_size(level)

    def _label(self) -> str:
        if self.draws == "mean":
            return "certainty equivalence"
        if self.risk is not None:
            return f"{self.risk!r} of {self._draws(self.risk)} draws"
        if self.schedule is not None:
            return f"BRPS-RL {self.schedule.label}" + (f", {self.sweeps} sweeps" if self.sweeps else "")
        first, last = f"{self._alphas[0]:g}", f"{self._alphas[-1]:g}"
        label = f"BRPS-RL {first}" if first == last else f"BRPS-RL {first} to {last}"
        if len(self._alphas) == 1:
            label = "TS-RL" if self.alpha == 0.0 and self.draws in (None, 1) else label
        if self.draws is not None and label != "TS-RL":
            label += f", {self.draws} draws"
        if self.estimator != "cvar":
            label += f", {self.estimator}"
        return label + (f", {self.sweeps} sweeps" if self.sweeps else "")

    def _saved(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them; see :meth:`_loaded`."""
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.risk is not None:
            measure: Any = self.risk
            if type(measure) not in MEASURES.values():  # a function, or a class of the user's own: keep its weights
                n = self._draws(measure)
                measure = GivenWeights(n, tuple(measure.lowest_weights(n).tolist()))  # all, if these are the highest
                values["draws"] = self.draws or n
            values["risk"] = {"measure": type(measure).__name__, **asdict(measure)}
        if self.schedule is not None:
            values["alpha"] = saved_schedule(self.schedule)
        return values

    @classmethod
    def _loaded(cls, values: dict[str, Any]) -> Self:
        """Return what :meth:`_saved` wrote."""
        risk = values["risk"]
        if risk is not None:
            parameters = dict(risk)
            risk = MEASURES[parameters.pop("measure")](**parameters)
        alpha = values["alpha"]
        if isinstance(alpha, dict):
            alpha = named_schedule(alpha)
        return cls(**values | {"risk": risk, "alpha": alpha})


def _levels(alpha: Any) -> float | tuple[float, ...] | Schedule:
    schedule = schedule_of(alpha)
    if schedule is not None:
        return schedule
    if np.ndim(alpha) == 0:
        return risk_level(alpha)
    levels = tuple(risk_level(level, f"alpha[{t}]") for t, level in enumerate(alpha))
    if not levels:
        raise ParameterError("alpha must have a level for at least one episode, got none")
    return levels


def brps_rl(
    alpha: float | Sequence[float] | Schedule | Callable[[Any, Any], Any],
    *,
    draws: int | None = None,
    estimator: str = "cvar",
    sweeps: int | None = None,
    label: str = "",
) -> SamplingSettings:
    """Return the settings of BRPS-RL, the paper's Algorithm 1, at risk level ``alpha``; see :class:`SamplingSettings`.

    >>> brps_rl(0.99).label, brps_rl(0).label, brps_rl(-0.5).label
    ('BRPS-RL 0.99', 'TS-RL', 'BRPS-RL -0.5')
    """
    levels: Any = alpha
    return SamplingSettings(alpha=levels, draws=draws, estimator=estimator, sweeps=sweeps, label=label)


def ts_rl(*, sweeps: int | None = None, label: str = "") -> SamplingSettings:
    """Return the settings of Thompson sampling for RL: one draw, no aversion to risk.

    >>> ts_rl() == brps_rl(0.0)
    True
    """
    return SamplingSettings(alpha=0.0, sweeps=sweeps, label=label)


def certainty_equivalence(*, label: str = "") -> SamplingSettings:
    """Return the settings that take the posterior mean for the truth.

    >>> certainty_equivalence().label
    'certainty equivalence'
    """
    return SamplingSettings(draws="mean", label=label)


def worst_case(draws: int, *, label: str = "") -> SamplingSettings:
    """Return the settings that value every action by the lowest of ``draws`` posterior draws.

    >>> worst_case(20).label
    'WorstCase() of 20 draws'
    """
    return SamplingSettings(risk=WorstCase(), draws=draws, label=label)


class PosteriorSamplingAgent(TabularAgent):
    """Learns a model while it acts: BRPS-RL, Thompson sampling, certainty equivalence, worst case.

    Parameters
    ----------
    model : what is known, an :class:`UncertainMDP`.
    alpha, draws, risk, estimator, sweeps : see :class:`SamplingSettings`; or give one as ``settings``.
    episode_length : decisions between refreshes of the policy; None: only when :meth:`refresh` is called.
    prior : Dirichlet counts [B, K] of the prior, or one count for every outcome.
    seed : a seed or a Generator, which the agent then owns.
    indices : states, actions and outcomes go by index even if the model has names for them.

    An observation may come at any time, also after the episode it belongs to, and counts from the next refresh on.

    >>> model = UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)
    >>> agent = PosteriorSamplingAgent(model, alpha=0.9, episode_length=5, seed=1)
    >>> action = agent.act(0)
    >>> agent.observe(0, action, 1)
    >>> float(agent.posterior.counts[action].sum())
    3.0
    """

    def __init__(
        self,
        model: UncertainMDP,
        alpha: float | Sequence[float] | Schedule | Callable[[Any, Any], Any] | None = None,
        *,
        draws: int | str | None = None,
        risk: RiskMeasure | None = None,
        estimator: str = "cvar",
        sweeps: int | None = None,
        settings: SamplingSettings | None = None,
        episode_length: int | None = 10,
        prior: Any = 1.0,
        seed: Any = None,
        indices: bool = False,
    ) -> None:
        levels: Any = alpha
        given = SamplingSettings(levels, draws, risk, estimator, sweeps)
        if settings is not None and given != SamplingSettings():
            raise ParameterError("give either settings or single ones such as alpha and draws, and not both")
        super().__init__(model, prior, seed, indices)
        self._settings = given if settings is None else settings
        self._length = None if episode_length is None else whole_number(episode_length, "episode_length")
        self._plan = self._settings.plan()
        self._known = known_part(model)
        self._require_memory(self._settings.most_draws)
        self._work = work_space(model, self._settings.most_draws)
        self._value = np.zeros(model.n_states)
        self._policy: IntArray = np.argmax(model.admissible, axis=1)  # until the first refresh
        self._choices: list[Any] = []  # the policy by what act returns; empty before the first refresh
        self._episode = -1
        self._steps_left: float = 0

    def act(self, state: Hashable) -> Any:
        """Return the action in ``state``; the first call of every episode refreshes the policy."""
        s = self._reader.states.index(state)
        if self._steps_left <= 0:
            self.refresh()
        self._steps_left -= 1
        return self._choices[s]

    def observe(self, state: Hashable, action: Hashable, next_state: Hashable, outcome: Any = None) -> None:
        """Count one transition; ``outcome`` says which outcome of the source it was, if that was seen.

        An impossible transition is a :class:`DataError`, and is not counted.
        """
        self._count(self._read(state, action, next_state, outcome))

    def observe_log(self, log: Any) -> None:
        """Count a log of transitions, as :meth:`UncertainMDP.count` reads it: all rows or, if one is wrong, none.

        >>> agent = PosteriorSamplingAgent(UncertainMDP.direct([[0.0], [1.0]], discount=0.9), seed=1)
        >>> agent.observe_log([(0, 0, 1), (1, 0, 1)])
        >>> agent.posterior.counts
        array([[1., 2.],
               [1., 2.]])
        """
        self._counts[...] = self._model.count(log, self._counts, indices=self._indices)

    def refresh(self) -> None:
        """Start an episode now: draw from the posterior and solve for a policy."""
        episode = self._episode + 1
        plan = self._plan
        if self._settings.schedule is not None:
            before = self._posterior.prior
            seen = round(float((self._counts - before).sum(axis=1).max()))
            plan = self._settings.plan(before, grid(episode)[-1:], max(seen, 0))
        converged = refresh(self._rng, self._known, self._work, self._counts, plan, episode, self._value, self._policy)
        if not converged:
            warnings.warn(
                f"the policy of episode {episode} stopped at the cap of backups", ConvergenceWarning, stacklevel=2
            )
        self._episode = episode
        self._steps_left = math.inf if self._length is None else self._length
        self._choices = [self._action_of[a] for a in self._policy.tolist()]

    @property
    def settings(self) -> SamplingSettings:
        """How the agent turns its posterior into a policy; an agent from a file remembers it."""
        return self._settings

    @property
    def policy(self) -> IntArray:
        """The index of the current action in every state [S]; refreshes if there is none yet."""
        if self._episode < 0:
            self.refresh()
        return self._policy.copy()

    @property
    def value(self) -> FloatArray:
        """The risk-averse values [S] of the current policy, for the draws it was made from."""
        if self._episode < 0:
            self.refresh()
        return self._value.copy()

    @property
    def episode(self) -> int:
        """The number of the current episode, counting from 0; -1 before the first."""
        return self._episode

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, model and random stream included; the file appears whole or not at all.

        >>> import tempfile
        >>> agent = PosteriorSamplingAgent(UncertainMDP.direct([[0.0, 1.0]], discount=0.9), alpha=0.5, seed=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     agent.save(f"{folder}/agent.state")
        ...     again = PosteriorSamplingAgent.load(f"{folder}/agent.state")
        >>> bool((again.value == agent.value).all())
        True
        """
        super().save(path)

    def _own_state(self) -> State:
        values = {
            "settings": self._settings._saved(),
            "episode_length": self._length,
            "episode": self._episode,
            "steps_left": -1 if math.isinf(self._steps_left) else int(self._steps_left),
        }
        return values, {"value": self._value, "policy": self._policy}

    @classmethod
    def _restored(cls, model: UncertainMDP, values: dict[str, Any], arrays: dict[str, Any]) -> Self:
        settings = SamplingSettings._loaded(values["settings"])
        length, indices = values["episode_length"], values["indices"]
        agent = cls(model, settings=settings, episode_length=length, seed=0, indices=indices)
        agent._filled(agent._value, arrays["value"], "value")
        largest = 2.0 * float(abs(model.entries.reward).max()) / (1.0 - model.discount)
        if not (abs(agent._value) <= largest).all():
            raise ValueError(f"value must be numbers of at most {largest}, twice what rewards can be worth")
        agent._filled(agent._policy, arrays["policy"], "policy")
        agent._model.policy_indices(agent._policy)
        agent._episode = whole_number(values["episode"], "episode", -1, LARGEST_COUNT)
        endless = agent._episode >= 0 and agent._length is None
        most = -1 if endless else 0 if agent._episode < 0 else agent._length
        left = whole_number(values["steps_left"], "steps_left", -1 if endless else 0, most)
        agent._steps_left = math.inf if endless else left
        if agent._episode >= 0:
            agent._choices = [agent._action_of[a] for a in agent._policy.tolist()]
        return agent

    def __repr__(self) -> str:
        return f"PosteriorSamplingAgent({self._settings.label}, {self._model!r}, episode {self._episode})"
