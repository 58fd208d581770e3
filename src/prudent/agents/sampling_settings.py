"""Settings of posterior sampling agents: risk level, draws, estimator and solver, and their short forms.

BRPS-RL                     ``brps_rl(alpha)``
Thompson sampling for RL    ``ts_rl()``, alpha = 0 and one draw
certainty equivalence       ``certainty_equivalence()``, the posterior mean in place of draws
worst case                  ``worst_case(n)``, the lowest of n draws
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from .._support.checks import SUM_TOLERANCE, FloatArray, IntArray, one_of, risk_level, whole_number
from ..errors import ParameterError
from ..planning.inner import Plan, grid
from ..risk import CVaR, Mean, MeanCVaR, Mixture, ModifiedCVaR, RiskMeasure, VaR, WorstCase, measure_of, sample_size
from ..schedules import Schedule, named_schedule, saved_schedule, schedule_of

ESTIMATORS = {"cvar": CVaR, "modified": ModifiedCVaR}


@dataclass(frozen=True)
class GivenWeights(RiskMeasure):
    """Weights of the lowest of ``n`` draws: how a state file keeps a user-defined measure."""

    n: int
    lowest: tuple[float, ...]

    def __post_init__(self) -> None:
        weights = tuple(float(weight) for weight in self.lowest)
        few = 0 < len(weights) <= whole_number(self.n, "n", memory=16.0)
        if not (few and min(weights) >= 0.0 and abs(sum(weights) - 1.0) <= SUM_TOLERANCE):
            text = f"lowest must be weights of at most {self.n} draws, got {self.lowest!r}"
            raise ParameterError(text, code="sum-not-one", argument="lowest", value=self.lowest)
        object.__setattr__(self, "lowest", weights)

    def tail_weights(self, n: int) -> FloatArray:
        """Return the weights; ``n`` must be the number of draws that they are for."""
        if n != self.n:
            text = f"these are weights of {self.n} draws, got {n}"
            raise ParameterError(text, code="wrong-shape", argument="n", value=n, expected=self.n)
        return np.array(self.lowest)


# the measures that a state file can name
MEASURES: dict[str, Any] = {
    measure.__name__: measure for measure in (CVaR, GivenWeights, Mean, MeanCVaR, Mixture, ModifiedCVaR, VaR, WorstCase)
}


Levels = float | Sequence[float] | Schedule | Callable[[Any, Any], Any]


@dataclass(frozen=True)
class SamplingSettings:
    """Settings of a `PosteriorSamplingAgent`: how it turns its posterior into a policy.

    Parameters
    ----------
    alpha : float, sequence of float, Schedule or callable, default=0
        Risk level of CVaR in (-1, 1); negative levels are optimistic. A sequence has one level for each episode, of
        which the last also serves all later ones. Or a `prudent.schedules.Schedule`, or a function of
        (episode, visits).
    draws : int or "mean", optional
        Posterior draws n. The default is the draw rule n = ceil(1 / (1 - alpha)); ``"mean"`` uses the posterior mean
        instead of draws.
    risk : RiskMeasure, optional
        Another measure of the draws instead of CVaR, e.g. ``MeanCVaR(0.9, weight=0.5)``.
    estimator : {"cvar", "modified"}, default="cvar"
        Estimator of CVaR from draws; ``"modified"`` is the paper's estimator for proofs.
    sweeps : int, optional
        Number of sweeps of value iteration, as in the paper (100), instead of Newton's method.
    label : str, optional
        Name in results. The default states the settings.

    Raises
    ------
    ParameterError
        If a setting is out of range, or two of them exclude each other.

    See Also
    --------
    brps_rl : BRPS-RL at a risk level.
    ts_rl : Thompson sampling.
    certainty_equivalence : The posterior mean in place of draws.
    worst_case : The lowest of several draws.

    Examples
    --------
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
            text = "give either a risk level alpha or a risk measure, not both"
            raise ParameterError(text, code="conflicting-arguments", argument="risk")
        if self.risk is None:
            object.__setattr__(self, "alpha", _levels(0.0 if self.alpha is None else self.alpha))
        else:
            measure_of(None, self.risk)
        if self.schedule is not None and (self.draws is not None or self.estimator != "cvar"):
            text = "draws and estimator cannot be set when alpha is a Schedule"
            raise ParameterError(text, code="conflicting-arguments", argument="alpha")
        if isinstance(self.draws, str):
            one_of(self.draws, "draws", ("mean",))
            if self.risk is not None or self.alpha != 0.0:
                name = "alpha" if self.risk is None else "risk"
                text = f"give {name} or draws='mean', not both: the mean has no draws"
                raise ParameterError(text, code="conflicting-arguments", argument=name)
        elif self.draws is not None:
            object.__setattr__(self, "draws", whole_number(self.draws, "draws", maximum=2**24))
        one_of(self.estimator, "estimator", ESTIMATORS)
        if self.estimator != "cvar" and self.alpha is None:
            text = f"estimator {self.estimator!r} is one of CVaR; give a risk level alpha"
            raise ParameterError(text, code="conflicting-arguments", argument="estimator")
        if self.sweeps is not None:
            object.__setattr__(self, "sweeps", whole_number(self.sweeps, "sweeps", maximum=1_000_000))
        self.plan()  # raises if the draws do not fit the risk
        object.__setattr__(self, "label", str(self.label) or self._label())

    @property
    def schedule(self) -> Schedule | None:
        """Schedule of the level, or None."""
        return self.alpha if isinstance(self.alpha, Schedule) else None

    def plan(self, prior: FloatArray | None = None, episodes: Any = 0, visits: int = 0) -> Plan:
        """Return the settings in the form that the kernels need: draws and weights for each episode.

        Parameters
        ----------
        prior : ndarray of float, optional
            Dirichlet counts [B, K] of the prior, which a schedule needs.
        episodes : int or array_like, default=0
            Number of episodes, or an array of single ones, for a schedule.
        visits : int, default=0
            Largest number of observations of a source, for a schedule.

        Returns
        -------
        Plan
            Number of draws, weights of the lowest draws, and tables of the schedule.

        Examples
        --------
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
        estimators = [ESTIMATORS[self.estimator](level) for level in self._alphas]
        measures = estimators if self.risk is None else [self.risk]
        n = np.array([self._draws(measure) for measure in measures], np.int64)
        outermost = [measure.outermost(size) for measure, size in zip(measures, n.tolist(), strict=True)]
        lengths = np.array([row.weights.size for row in outermost], np.int64)
        weights = np.zeros((n.size, lengths.max()))
        for i, row in enumerate(outermost):
            weights[i, : lengths[i]] = row.weights
            n[i] *= int(row.sign)
        return Plan(n, weights, lengths, sweeps)

    @property
    def most_draws(self) -> int:
        """Largest number of draws taken at once."""
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
            text = f"draws must be given for {measure!r}: the draw rule is for a risk level"
            raise ParameterError(text, code="missing-argument", argument="draws")
        return sample_size(level)

    def _label(self) -> str:
        if self.draws == "mean":
            return "certainty equivalence"
        if self.risk is not None:
            return f"{self.risk!r} of {self._draws(self.risk)} draws"
        if self.schedule is not None:
            label = f"BRPS-RL {self.schedule.label}"
        elif self.alpha == 0.0 and self.draws in (None, 1):
            label = "TS-RL"
        else:
            ends = dict.fromkeys(f"{level:g}" for level in (self._alphas[0], self._alphas[-1]))
            label = f"BRPS-RL {' to '.join(ends)}" + ("" if self.draws is None else f", {self.draws} draws")
        if self.estimator != "cvar":
            label += f", {self.estimator}"
        return label + (f", {self.sweeps} sweeps" if self.sweeps else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as values that JSON can hold; `from_dict` reads them.

        Returns
        -------
        dict of str to object
            The settings. A risk measure of another class is kept by its weights.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.risk is not None:
            measure: Any = self.risk
            if type(measure) not in MEASURES.values():  # a function or a class of the user: keep its weights
                n = self._draws(measure)
                measure = GivenWeights(n, tuple(measure.lowest_weights(n).tolist()))
                values["draws"] = self.draws or n
            values["risk"] = {"measure": type(measure).__name__, **asdict(measure)}
        if self.schedule is not None:
            values["alpha"] = saved_schedule(self.schedule)
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """Return the settings of `to_dict`.

        Parameters
        ----------
        values : dict of str to object
            What `to_dict` returned.

        Returns
        -------
        SamplingSettings
            The settings.
        """
        risk, alpha = values["risk"], values["alpha"]
        if risk is not None:
            parameters = dict(risk)
            risk = MEASURES[parameters.pop("measure")](**parameters)
        if isinstance(alpha, dict):
            alpha = named_schedule(alpha)
        return cls(**values | {"risk": risk, "alpha": alpha})


def _levels(alpha: Any) -> float | tuple[float, ...] | Schedule:
    schedule = schedule_of(alpha)
    if schedule is not None:
        return schedule
    if not isinstance(alpha, (list, tuple, range, np.ndarray)) or (isinstance(alpha, np.ndarray) and alpha.ndim == 0):
        return risk_level(alpha)
    levels = tuple(risk_level(level, f"alpha[{t}]") for t, level in enumerate(alpha))
    if not levels:
        text = "alpha must have a level for at least one episode, got none"
        raise ParameterError(text, code="empty", argument="alpha")
    return levels


def brps_rl(
    alpha: Levels,
    *,
    draws: int | None = None,
    estimator: str = "cvar",
    sweeps: int | None = None,
    label: str = "",
) -> SamplingSettings:
    """Return the settings of BRPS-RL, the paper's Algorithm 1.

    Parameters
    ----------
    alpha : float, sequence of float, Schedule or callable
        Risk level, as in `SamplingSettings`.
    draws : int, optional
        Posterior draws. The default is the draw rule.
    estimator : {"cvar", "modified"}, default="cvar"
        Estimator of CVaR from draws.
    sweeps : int, optional
        Number of sweeps of value iteration instead of Newton's method.
    label : str, optional
        Name in results.

    Returns
    -------
    SamplingSettings
        The settings.

    Raises
    ------
    ParameterError
        If a setting is out of range.

    Examples
    --------
    >>> brps_rl(0.99).label, brps_rl(0).label, brps_rl(-0.5).label
    ('BRPS-RL 0.99', 'TS-RL', 'BRPS-RL -0.5')
    """
    levels: Any = alpha
    return SamplingSettings(alpha=levels, draws=draws, estimator=estimator, sweeps=sweeps, label=label)


def ts_rl(*, sweeps: int | None = None, label: str = "") -> SamplingSettings:
    """Return the settings of Thompson sampling for RL: one draw, risk level 0.

    Parameters
    ----------
    sweeps : int, optional
        Number of sweeps of value iteration instead of Newton's method.
    label : str, optional
        Name in results.

    Returns
    -------
    SamplingSettings
        The settings.

    Examples
    --------
    >>> ts_rl() == brps_rl(0.0)
    True
    """
    return SamplingSettings(alpha=0.0, sweeps=sweeps, label=label)


def certainty_equivalence(*, label: str = "") -> SamplingSettings:
    """Return the settings of an agent that plans with the posterior mean.

    Parameters
    ----------
    label : str, optional
        Name in results.

    Returns
    -------
    SamplingSettings
        The settings.

    Examples
    --------
    >>> certainty_equivalence().label
    'certainty equivalence'
    """
    return SamplingSettings(draws="mean", label=label)


def worst_case(draws: int, *, label: str = "") -> SamplingSettings:
    """Return the settings of an agent that values actions by the lowest of several posterior draws.

    Parameters
    ----------
    draws : int
        Number of posterior draws.
    label : str, optional
        Name in results.

    Returns
    -------
    SamplingSettings
        The settings.

    Examples
    --------
    >>> worst_case(20).label
    'WorstCase() of 20 draws'
    """
    return SamplingSettings(risk=WorstCase(), draws=draws, label=label)
