"""How a linear bandit decides: the algorithms of the paper as settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from .._support.checks import FloatArray, one_of, positive, probability, risk_level, whole_number
from .._support.state import LARGEST_COUNT
from ..errors import ParameterError
from ..risk import CVaR, ModifiedCVaR, sample_size
from ..risk.draw_rule import MOST_DRAWS
from ..schedules import Schedule, schedule_of
from .kernels.layout import Rule, rule_of
from .kernels.step import LARGEST, LEAST_SCALE, LONG, inflated_sd

_LEAST_DELTA = 1e-290  # 4t / delta is finite at every decision
SHARE = 0.15  # of the width, for an arm that is known as well as others
_STEPS, _OPEN = 4, 0.5  # of the width of items: for each doubling of decisions to come, and at least without a horizon
_ESTIMATORS = {"cvar": CVaR, "modified": ModifiedCVaR}


def _is_auto(exploration: Any) -> bool:
    return isinstance(exploration, str) and exploration == "auto"


@dataclass(frozen=True)
class BanditSettings:
    """How a linear bandit turns its posterior into a decision.

    The draws have sd nu sqrt(s'V^-1 s), where nu is the sd of the noise times `exploration`, or `sampling_sd`, or the
    schedule nu_t = (3/4) sqrt(d ln(4t/delta)) over decisions t = 1, 2, ... (times the sd of the noise, if that is
    learned). Both `first_pulls` and `min_propensity` cure lock-in: a high alpha avoids what it knows little of, and so
    never learns that it is good. Online, alphas from 0 to 0.5 are a good choice.

    Parameters
    ----------
    alpha : float or Schedule, default=0
        Risk level in (-1, 1), below zero optimism, or a schedule of it over the decisions, such as ``Decay``.
    draws : int, optional
        Number n of posterior draws. The default is the draw rule.
    estimator : {"cvar", "modified"}, default="cvar"
        Estimator of CVaR; ``"modified"`` is the paper's estimator for proofs.
    clip : bool, default=False
        Clip draws to [0, 1].
    sampling_sd : float, optional
        Factor nu.
    delta : float, optional
        Probability in (0, 1] of the schedule nu_t.
    label : str, optional
        Name in a plot.
    first_pulls : int, default=0
        Number of decisions (or rewards, if a log brought more) that every eligible arm gets before scores count,
        uniformly among those that lack some.
    min_propensity : float, default=0
        Smallest probability of an eligible arm: with k of them, k times this probability goes to a uniform choice.
    exploration : float or "auto", default=1
        Sd of a draw over the sd of the posterior; 1 is Thompson sampling. Narrower draws earn more where decisions are
        few, but a bandit that always draws narrowly may lock in to a poor arm. With ``"auto"`` each arm of a
        ``LinearBandit`` has its own: 0.15 if it is known as well as the others in the context, more in proportion to
        the variance of its score, and 1 if it is neglected (see Notes). For items it goes by the number of decisions.
    horizon : int, optional
        Number of decisions in all, for ``exploration="auto"``: with m to come all draws are narrower by sqrt(m / 2000),
        at most 1 and at least 0.3.

    Raises
    ------
    ParameterError
        If an argument is out of range, or two exclude each other.

    Notes
    -----
    With ``exploration="auto"``, evidence of an arm in a context is the inverse p of the variance of its score. The
    width of its draws is 0.15 sum(p^2) / (sum(p) p), at least 0.15 and at most 1: sums are over the eligible arms, and
    their ratio is the evidence of the arm that a piece of evidence, taken at random, is of. It depends on nothing else,
    neither on units nor on the number of decisions. Without contexts evidence is the number of rewards: an arm that had
    less than about a seventh of what the leading arm had is drawn as in Thompson sampling.

    Examples
    --------
    >>> BanditSettings(alpha=0.7).weights
    array([0.8333, 0.1667])
    """

    alpha: float | Schedule = 0.0
    draws: int | None = None
    estimator: str = "cvar"
    clip: bool = False
    sampling_sd: float | None = None
    delta: float | None = None
    label: str = ""
    first_pulls: int = 0
    min_propensity: float = 0.0
    exploration: float | str = 1.0
    horizon: int | None = None

    def __post_init__(self) -> None:
        schedule = schedule_of(self.alpha)
        checked: dict[str, Any] = {
            "alpha": schedule or risk_level(self.alpha),
            "clip": bool(self.clip),
            "first_pulls": whole_number(self.first_pulls, "first_pulls", 0, LARGEST_COUNT),
            "min_propensity": probability(self.min_propensity, "min_propensity"),
            "exploration": self.exploration
            if _is_auto(self.exploration)
            else checked_sd(self.exploration, "exploration"),
        }
        if self.draws is not None:
            checked["draws"] = whole_number(self.draws, "draws", maximum=MOST_DRAWS)
        if self.horizon is not None:
            checked["horizon"] = whole_number(self.horizon, "horizon", 1, LARGEST_COUNT)
        if self.sampling_sd is not None:
            checked["sampling_sd"] = checked_sd(self.sampling_sd, "sampling_sd")
        if self.delta is not None:
            checked["delta"] = positive(self.delta, "delta")
            if not _LEAST_DELTA <= checked["delta"] <= 1.0:
                message = f"delta must be a probability from {_LEAST_DELTA} to 1, got {checked['delta']}"
                raise ParameterError(message, code="probability-range", argument="delta", value=checked["delta"])
        one_of(self.estimator, "estimator", _ESTIMATORS)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "label", str(self.label) or self.default_label())
        own_draws, unseen = self.draws is not None or self.estimator != "cvar", getattr(schedule, "unseen", None)
        inflated = [name for name in ("sampling_sd", "delta") if getattr(self, name) is not None]
        for argument, conflict, message in (
            ("draws", schedule and own_draws, "a level that falls has draws of its own: leave out draws and estimator"),
            ("alpha", unseen is not None, "alpha has a level for what is unseen: a bandit has one level for all arms"),
            ("exploration", self.exploration != 1.0 and inflated, f"give exploration or {inflated}, not both"),
            ("horizon", self.horizon is not None and self.exploration != "auto", 'horizon is for exploration="auto"'),
            ("delta", len(inflated) > 1, "give sampling_sd or delta, not both: delta is a schedule of sampling_sd"),
        ):
            if conflict:
                raise ParameterError(message, code="conflicting-arguments", argument=argument)
        counting = 1 if isinstance(self.alpha, Schedule) else math.ceil(self.n * (1.0 - abs(self.alpha)))
        if self.estimator == "cvar" and counting > 2**24:  # before there is an array of them
            message = f"draws must leave at most 2**24 draws that count, got {counting}"
            raise ParameterError(message, code="integer-range", argument="draws", value=counting)
        _ = self.weights  # raises if the draws do not suit the estimator

    def default_label(self) -> str:
        """Return the label that settings without one have.

        Returns
        -------
        str
            Label.
        """
        inflated = self.sampling_sd is not None or self.delta is not None
        if isinstance(self.alpha, Schedule):
            kind = f"BRPS({self.alpha.label})"
        else:
            kind = "TS" if self.alpha == 0.0 and self.draws in (None, 1) else f"BRPS({float(self.alpha):g})"
        plain = self.exploration == "auto" or self.exploration == 1.0
        width = (" auto" if self.exploration == "auto" else "") if plain else f" x {self.exploration:g}"
        return kind + ("+" if self.clip else "") + (" inflated" if inflated else "") + width

    @property
    def n(self) -> int:
        """Number of posterior draws per arm and decision.

        Examples
        --------
        >>> BanditSettings(alpha=0.9).n
        10
        """
        if isinstance(self.alpha, Schedule):
            return self.alpha.draws(1)
        return sample_size(self.alpha) if self.draws is None else self.draws

    @property
    def weights(self) -> FloatArray:
        """Weights [M] of the M lowest draws, or of the M highest if the level is negative."""
        if isinstance(self.alpha, Schedule):
            return np.ones(1)
        return _ESTIMATORS[self.estimator](self.alpha).outermost(self.n).weights

    @property
    def level(self) -> float:
        """Risk level of settings in which it is a number, as ``at`` returns them."""
        assert not isinstance(self.alpha, Schedule)
        return self.alpha

    @property
    def signed_draws(self) -> int:
        """Number of draws as kernels and laws of scores read it: below zero if the highest count.

        Examples
        --------
        >>> BanditSettings(alpha=0.9).signed_draws, BanditSettings(alpha=-0.9).signed_draws
        (10, -10)
        """
        level = self.alpha.at(1) if isinstance(self.alpha, Schedule) else self.alpha
        return -self.n if level < 0.0 else self.n

    def at(self, t: int, *, item: bool = False) -> BanditSettings:
        """Return the settings of one decision, in which a falling level is a number.

        Parameters
        ----------
        t : int
            Number of the decision, from 1.
        item : bool, default=False
            Whether it is between items, of which the width of draws is a number too.

        Returns
        -------
        BanditSettings
            The settings themselves if the level does not fall.

        Examples
        --------
        >>> from prudent.bandits import Decay
        >>> BanditSettings(Decay(0.8, half=100)).at(101).alpha
        0.5
        """
        own = item and self.exploration == "auto"
        if not own and not self.falling:
            return self
        level = self.alpha.at(t) if isinstance(self.alpha, Schedule) else self.alpha
        return _fixed(self, level, self.width(t) if own else None)

    @property
    def falling(self) -> bool:
        """Whether the level of a decision depends on its number."""
        return isinstance(self.alpha, Schedule)

    def width(self, t: int) -> float:
        """Return the sd of a draw of an item over the sd of the posterior; with ``"auto"`` in steps of 9%.

        Parameters
        ----------
        t : int
            Number of the decision, from 1.

        Returns
        -------
        float
            Width.

        Examples
        --------
        >>> settings = BanditSettings(exploration="auto")
        >>> [round(settings.width(t), 2) for t in (1, 1000, 10_000)]
        [0.5, 0.71, 1.0]
        """
        if self.exploration != "auto":
            return float(self.exploration)
        ahead = t if self.horizon is None else max(self.horizon - t, 1)
        step = math.floor(_STEPS * math.log2(ahead / LONG))
        least = _OPEN if self.horizon is None else LEAST_SCALE
        return min(max(2.0 ** (step / _STEPS / 2.0), least), 1.0)

    @property
    def share(self) -> float:
        """Sd of a draw over the sd of the posterior, of an arm that is known as well as others; 0 if it has no say."""
        return SHARE if self.exploration == "auto" else 0.0

    def nu(self, t: float, dim: int, noise_sd: float) -> float:
        """Return the factor nu of the sampling sd at a decision.

        Parameters
        ----------
        t : float
            Number of the decision, from 1.
        dim : int
            Number of features, constant included.
        noise_sd : float
            Sd of the noise of rewards.

        Returns
        -------
        float
            Factor of sqrt(s'V^-1 s).

        Examples
        --------
        >>> round(BanditSettings(delta=0.1).nu(1, dim=3, noise_sd=1.0), 4)
        2.4951
        """
        if self.delta is not None:
            return float(inflated_sd(float(t), dim, self.delta))
        return self.width(int(t)) * noise_sd if self.sampling_sd is None else self.sampling_sd

    def rule(self, dim: int, noise_sd: float | None) -> Rule:
        """Return the settings as kernels read them.

        Parameters
        ----------
        dim : int
            Number of features, constant included.
        noise_sd : float or None
            Sd of the noise of rewards; None if it is learned.

        Returns
        -------
        Rule
            Numbers and arrays.
        """
        full = 1.0 if self.exploration == "auto" else float(self.exploration)
        own = noise_sd is None or self.exploration == "auto"
        scale = full if noise_sd is None or own else self.nu(1, dim, noise_sd) / noise_sd
        mixing = (self.min_propensity, self.first_pulls, self.share, self.horizon or 0)
        return rule_of(self.signed_draws, self.weights, self.clip, scale, self.delta, *mixing)


@lru_cache(256)
def _fixed(settings: BanditSettings, level: float, width: float | None) -> BanditSettings:
    """Return settings of one decision."""
    if width is None:
        return replace(settings, alpha=level)
    return replace(settings, alpha=level, exploration=width, horizon=None)


def checked_sd(value: Any, name: str) -> float:
    """Return a standard deviation whose square is a number above zero."""
    sd = positive(value, name)
    if not 1.0 / LARGEST <= sd <= LARGEST:
        message = f"{name} is {sd}, expected a number from {1.0 / LARGEST} to {LARGEST}"
        raise ParameterError(message, code="value-range", argument=name, value=sd)
    return sd


def brps_cmab(alpha: float, *, draws: int | None = None, estimator: str = "cvar", label: str = "") -> BanditSettings:
    """Return Algorithm 2, BRPS-CMAB.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).
    draws : int, optional
        Number of posterior draws. The default is the draw rule.
    estimator : {"cvar", "modified"}, default="cvar"
        Estimator of CVaR.
    label : str, optional
        Name in a plot.

    Returns
    -------
    BanditSettings
        Settings of a bandit.

    Examples
    --------
    >>> brps_cmab(0.8).label
    'BRPS(0.8)'
    """
    return BanditSettings(alpha, draws, estimator, label=label)


def brps_cmab_clipped(
    alpha: float, *, draws: int | None = None, estimator: str = "modified", label: str = ""
) -> BanditSettings:
    """Return Algorithm 2', BRPS-CMAB with draws clipped to [0, 1], for rewards in [0, 1].

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).
    draws : int, optional
        Number of posterior draws. The default is the draw rule.
    estimator : {"cvar", "modified"}, default="modified"
        Estimator of CVaR. For the modified one the BR-regret theorem is proved.
    label : str, optional
        Name in a plot.

    Returns
    -------
    BanditSettings
        Settings of a bandit.

    Examples
    --------
    >>> brps_cmab_clipped(0.8).clip
    True
    """
    return BanditSettings(alpha, draws, estimator, clip=True, label=label)


def brps_cmab_inflated(
    alpha: float,
    *,
    delta: float | None = None,
    sampling_sd: float | None = None,
    draws: int | None = None,
    estimator: str = "cvar",
    label: str = "",
) -> BanditSettings:
    """Return Algorithm 2'', BRPS-CMAB with inflated sampling.

    The paper's numerical study fixes (3/4) sqrt(6 ln 2T): the schedule at d = 3, delta = 1/T, t = T.

    Parameters
    ----------
    alpha : float
        Risk level in (-1, 1).
    delta : float, optional
        Probability in (0, 1] of the schedule nu_t.
    sampling_sd : float, optional
        Fixed factor nu, in place of `delta`.
    draws : int, optional
        Number of posterior draws. The default is the draw rule.
    estimator : {"cvar", "modified"}, default="cvar"
        Estimator of CVaR.
    label : str, optional
        Name in a plot.

    Returns
    -------
    BanditSettings
        Settings of a bandit.

    Raises
    ------
    ParameterError
        If neither `delta` nor `sampling_sd` is given.

    Examples
    --------
    >>> brps_cmab_inflated(0.8, delta=0.01).delta
    0.01
    """
    if delta is None and sampling_sd is None:
        message = "an inflated algorithm needs delta or sampling_sd"
        raise ParameterError(message, code="missing-argument", argument="delta")
    return BanditSettings(alpha, draws, estimator, sampling_sd=sampling_sd, delta=delta, label=label)


def thompson_sampling(*, label: str = "") -> BanditSettings:
    """Return Thompson sampling: the engine at alpha = 0 with one draw.

    Parameters
    ----------
    label : str, optional
        Name in a plot.

    Returns
    -------
    BanditSettings
        Settings of a bandit.

    Examples
    --------
    >>> thompson_sampling() == brps_cmab(0.0)
    True
    """
    return BanditSettings(label=label)


def thompson_sampling_inflated(
    *, sampling_sd: float | None = None, delta: float | None = None, label: str = ""
) -> BanditSettings:
    """Return Thompson sampling with inflated sampling; the paper's numerical study fixes (3/4) sqrt(6 ln T).

    Parameters
    ----------
    sampling_sd : float, optional
        Fixed factor nu.
    delta : float, optional
        Probability in (0, 1] of the schedule nu_t, in place of `sampling_sd`.
    label : str, optional
        Name in a plot.

    Returns
    -------
    BanditSettings
        Settings of a bandit.

    Raises
    ------
    ParameterError
        If neither `sampling_sd` nor `delta` is given.

    Examples
    --------
    >>> thompson_sampling_inflated(sampling_sd=6.4).sampling_sd
    6.4
    """
    return brps_cmab_inflated(0.0, delta=delta, sampling_sd=sampling_sd, label=label)
