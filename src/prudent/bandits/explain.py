"""Why this arm: what each feature adds to its score, what speaks for the runner-up, and how sure that is.

The score of an arm in a context s is s'theta, a sum over features of s_j theta_j: what feature j adds is s_j times the
posterior mean of theta_j. Arms are independent, so the lead of one over another is normal, with the difference of the
means and the sum of the variances. Items that share one theta are not: the variance of their lead is that of the
difference of their features times theta, often much smaller. For clicks and counts scores are log odds and log rates;
what an arm pays is told as a chance or a rate, and the parts add up on the scale of scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from .._support.checks import FloatArray, IntArray
from ..display.figures.base import Figure, Panel
from ..display.style import Entry, hex_of
from ..errors import ParameterError
from .decision import Arm
from .law.base import Law
from .settings import BanditSettings

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas


__all__ = [
    "ArmView",
    "Explanation",
    "Parts",
    "arms_dataset",
    "coefficients_figure",
    "explained",
    "feature_names",
    "items_dataset",
]


_SCORES = {"gaussian": "mean reward", "bernoulli": "log odds", "poisson": "log rate"}
_RESPONSES = {"gaussian": "mean reward", "bernoulli": "chance of a 1", "poisson": "rate"}
_SHOWN = 3  # features that are told in words, for and against
_MOST_ARMS, _MOST_FEATURES = 12, 24
_LONGEST = 24  # letters of a name


class ArmView(NamedTuple):
    """What is known of one arm in the context."""

    arm: Arm
    chance: float  # of being chosen
    mean: float  # of the score s'theta
    sd: float
    score: float  # CVaR of s'theta at the level of the bandit: what decisions estimate
    response: float  # posterior mean of the reward; of normal rewards it is the mean
    response_sd: float
    pulls: int  # rewards seen


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why an arm would be chosen in a context, or would not; prints as words.

    Made by ``LinearBandit.explain`` and ``SharedLinearBandit.explain``. ``arms`` holds the arm first, then the
    others, likeliest first.
    """

    arms: tuple[ArmView, ...]
    alpha: float
    kind: str  # of rewards
    features: tuple[str, ...]  # the intercept first, if there is one
    contexts: FloatArray  # [2,D] features of the arm and of the runner-up, with the constant
    coefficients: FloatArray  # [2,D] posterior means of the arm and of the runner-up
    sds: FloatArray  # [2,D]
    lowest: float  # the least chance that the settings give to an arm
    spread: float  # posterior sd of the lead of the arm over the runner-up
    shared: int | None = None  # rewards of all items, if they share their coefficients

    @property
    def context(self) -> FloatArray:
        """The features [D] of the arm, with the constant."""
        return self.contexts[0]

    @property
    def arm(self) -> Arm:
        """The arm that is explained."""
        return self.arms[0].arm

    @property
    def rival(self) -> ArmView | None:
        """The likeliest other arm, or None where there is no choice."""
        return self.arms[1] if len(self.arms) > 1 else None

    @property
    def better(self) -> float:
        """The posterior chance that the score of the arm is above that of the runner-up."""
        from scipy.special import ndtr

        if self.rival is None:
            return 1.0
        lead = self.arms[0].mean - self.rival.mean
        return float(ndtr(lead / self.spread)) if 0.0 < self.spread < math.inf else 0.5

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each feature: its value, coefficient and sd, and what it adds to the score.

        ``rival`` is what it adds to the score of the runner-up, ``lead`` the difference.
        """
        import pandas

        parts = self.contexts * self.coefficients
        table = {
            "value": self.context,
            "coefficient": self.coefficients[0],
            "coefficient_sd": self.sds[0],
            "contribution": parts[0],
            "contribution_sd": np.abs(self.context) * self.sds[0] if np.isfinite(self.sds).all() else np.inf,
        }
        if self.rival is not None:
            table |= {"rival": parts[1], "lead": parts[0] - parts[1]}
        return pandas.DataFrame(table, index=pandas.Index(self.features, name="feature"))

    def arms_to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each eligible arm, this one first."""
        import pandas

        return pandas.DataFrame(self.arms, columns=ArmView._fields).set_index("arm")

    def __repr__(self) -> str:
        return "\n".join(_words(self))


class Parts(NamedTuple):
    """What the scores of an arm and of the runner-up are made of."""

    contexts: FloatArray  # [2,D] features, with the constant
    coefficients: FloatArray  # [2,D]
    sds: FloatArray  # [2,D]
    spread: float | None  # posterior sd of the lead; None if arms are independent


class Explained(Protocol):
    """What is asked of a bandit beside what it believes."""

    @property
    def alpha(self) -> float:
        """Risk level."""

    @property
    def reward_kind(self) -> str:
        """Kind of rewards."""

    @property
    def settings(self) -> BanditSettings:
        """Settings."""

    @property
    def decisions(self) -> int:
        """Number of decisions."""

    @property
    def noise_sd(self) -> float | None:
        """Sd of the noise."""

    @property
    def features(self) -> tuple[str, ...] | None:
        """Names of the features."""

    @property
    def dim(self) -> int:
        """Number of features."""

    @property
    def intercept(self) -> bool:
        """Whether there is an intercept."""


def explained(
    bandit: Explained,
    law: Law,
    eligible: Sequence[Arm],
    pulls: IntArray,
    features: tuple[str, ...],
    arm: Arm | None,
    parts_of: Callable[[list[int]], Parts],
    shared: int | None = None,
) -> Explanation:
    """Return the explanation of an arm by the law of one decision; ``parts_of`` two positions says what adds up."""
    size = len(eligible)
    chances, mean, sd, scores = (
        values.reshape(-1, size)[0] for values in (law.chances(), law.mean, law.sd, law.shortfall(bandit.alpha))
    )
    pays, pays_sd = (values.reshape(-1, size)[0] for values in law.response())
    order = _order(eligible, chances, mean, arm)
    views = _views(order, eligible, chances, mean, sd, scores, pays, pays_sd, pulls)
    parts = parts_of((order * 2)[:2])
    return Explanation(
        arms=views,
        alpha=bandit.alpha,
        kind=bandit.reward_kind,
        features=features,
        contexts=parts.contexts,
        coefficients=parts.coefficients,
        sds=parts.sds,
        lowest=bandit.settings.min_propensity,
        spread=math.hypot(*(view.sd for view in views[:2])) if parts.spread is None else parts.spread,
        shared=shared,
    )


def _order(eligible: Sequence[Arm], chances: FloatArray, mean: FloatArray, arm: Arm | None) -> list[int]:
    """Return the places of the arms, that of ``arm`` first if it is given, then the likeliest first."""
    order = sorted(range(len(eligible)), key=lambda i: (-chances[i], -mean[i]))
    if arm is None:
        return order
    if arm not in eligible:
        raise ParameterError(f"arm is {arm!r}, which is not among the eligible arms")
    first = eligible.index(arm)
    return [first, *(i for i in order if i != first)]


def _views(order: list[int], eligible: Sequence[Arm], *columns: Any) -> tuple[ArmView, ...]:
    """Return what is known of the arms, in this order; ``columns`` [k] are the fields of ``ArmView``."""
    *numbers, pulls = columns
    return tuple(ArmView._make((eligible[i], *(float(each[i]) for each in numbers), int(pulls[i]))) for i in order)


def feature_names(features: Any, dim: int, intercept: bool) -> tuple[str, ...]:
    """Return names of the features, of which there are ``dim``, and of the intercept before them."""
    names = [f"x{i}" for i in range(dim)] if features is None else features
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ParameterError(f"features must be a list of names, got {features!r}")
    told = [str(name) for name in names]
    if len(told) != dim:
        raise ParameterError(f"features has {len(told)} names, expected {dim}")
    whole = ["intercept"] * intercept + told
    for i, name in enumerate(whole):
        if name in whole[:i]:
            raise ParameterError(f"features[{i - intercept}] is {name!r}, a name that is taken")
    return tuple(whole)


# -- words -------------------------------------------------------------------------------------------------


def _words(why: Explanation) -> list[str]:
    chosen, rival = why.arms[0], why.rival
    number = _format([chosen.response_sd] + ([rival.response_sd] if rival else []))
    name = _name(chosen.arm)
    likeliest = all(chosen.chance >= view.chance for view in why.arms)
    if rival is None:
        lines = [f"{name[0].upper()}{name[1:]} is the only eligible arm."]
    elif likeliest:
        lines = [f"The likeliest choice is {name}, with the chance {_percent(chosen.chance)}."]
    else:
        lines = [f"{name} would be chosen with the chance {_percent(chosen.chance)}."]
    lines.append(f"Its {_RESPONSES[why.kind]} is {_told(chosen, number, why.shared)}.")
    if rival is None:
        return lines
    who = "The runner-up is" if likeliest else "The likeliest choice is"
    lines.append(
        f"{who} {_name(rival.arm)}, with the chance {_percent(rival.chance)}: {_told(rival, number, why.shared)}."
    )
    if not math.isfinite(chosen.sd):
        return [*lines, "Choices are uniform until two different rewards have been seen."]
    lead, spread = chosen.mean - rival.mean, why.spread
    apart = _format([spread])
    scale = "" if why.kind == "gaussian" else f" in {_SCORES[why.kind]}"
    verb = "leads" if lead >= 0.0 else "is behind"
    lines.append(
        f"{name} is better with the chance {_percent(why.better)}: it {verb} by {apart(abs(lead))}{scale} "
        f"(sd {apart(spread)})."
    )
    if why.alpha > 0.0 and (chosen.score - rival.score) * lead < 0.0:
        careful, other = (name, _name(rival.arm)) if lead < 0.0 else (_name(rival.arm), name)
        lines.append(f"At the level {why.alpha:g} caution prefers {careful}: of {other} less is known.")
    parts = why.contexts[0] * why.coefficients[0] - why.contexts[1] * why.coefficients[1]
    size = max(float(np.abs(parts).max()), 1e-300)
    order = np.argsort(-np.abs(parts), kind="stable")
    for sign, word in ((1.0, "For"), (-1.0, "Against")):
        clear = [i for i in order if sign * parts[i] > 0.01 * size and apart(abs(parts[i])).strip("0.")]
        listed = clear[:_SHOWN]
        if listed:
            mark = "+" if sign > 0.0 else "-"
            told = ", ".join(f"{why.features[i]} ({mark}{apart(abs(parts[i]))})" for i in listed)
            lines.append(f"{word} {name}: {told}.")
    if why.lowest > 0.0:
        lines.append(f"Every eligible arm has at least the chance {_percent(why.lowest)}.")
    return lines


def _name(arm: Arm) -> str:
    return f"arm {arm}" if isinstance(arm, int) else repr(arm)


def _told(view: ArmView, number: Any, shared: int | None) -> str:
    count = view.pulls if shared is None else shared
    seen = f"{count:,} reward{'s' * (count != 1)}"
    if shared is not None:
        seen += f" of all items, {view.pulls:,} of its own" if view.pulls else " of all items"
    if not math.isfinite(view.response_sd):
        return f"not known yet, after {seen}"
    return f"{number(view.response)} (sd {number(view.response_sd)}), known from {seen}"


def _percent(chance: float) -> str:
    """Return a chance with the digits that tell it from 0 and 1."""
    rest = min(chance, 1.0 - chance)
    if 0.0 < rest < 5e-5:
        return f"{chance:.2g}" if chance < 0.5 else f"1 - {rest:.2g}"
    return f"{chance:.1%}" if rest >= 5e-4 or rest == 0.0 else f"{chance:.2%}"


def _format(sds: Sequence[float]) -> Any:
    """Return how to write numbers: with two digits of the least sd."""
    least = min((sd for sd in sds if 0.0 < sd < math.inf), default=0.01)
    decimals = 1 - math.floor(math.log10(least))
    return lambda x: f"{x:,.{decimals}f}" if 0 <= decimals <= 12 and abs(x) < 1e9 else f"{x:.4g}"


# -- tables and pictures -----------------------------------------------------------------------------------


def arms_dataset(bandit: Explained, arms: tuple[Arm, ...], summary: dict[str, Any]) -> xarray.Dataset:
    """Return what is known of the arms; see ``LinearBandit.to_xarray``."""
    import xarray

    names = list(feature_names(bandit.features, bandit.dim, bandit.intercept))
    covariance = summary["covariance"]
    label = np.empty(len(arms), dtype=object)
    label[:] = arms
    return xarray.Dataset(
        {
            "mean": (("arm", "feature"), summary["mean"]),
            "sd": (("arm", "feature"), np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))),
            "covariance": (("arm", "feature", "feature2"), covariance),
            "pulls": ("arm", summary["pulls"].copy()),
            "tries": ("arm", summary["tries"]),
        },
        coords={
            "arm": np.array(arms) if len({type(arm) for arm in arms}) == 1 else label,
            "feature": names,
            "feature2": names,
        },
        attrs=_attributes(bandit),
    )


def items_dataset(
    bandit: Explained, coefficients: tuple[FloatArray, FloatArray], covariance: FloatArray, pulls: dict[Arm, int]
) -> xarray.Dataset:
    """Return what is known of the coefficients that items share; see ``SharedLinearBandit.to_xarray``."""
    import xarray

    names = list(feature_names(bandit.features, bandit.dim, bandit.intercept))
    mean, sd = coefficients
    data = xarray.Dataset(
        {"mean": ("feature", mean), "sd": ("feature", sd), "covariance": (("feature", "feature2"), covariance)},
        coords={"feature": names, "feature2": names},
        attrs=_attributes(bandit),
    )
    return data if not pulls else data.assign(pulls=("arm", list(pulls.values()))).assign_coords(arm=list(pulls))


def _attributes(bandit: Explained) -> dict[str, Any]:
    attributes = {"rewards": bandit.reward_kind, "decisions": bandit.decisions, "alpha": bandit.alpha}
    noise = bandit.noise_sd
    return attributes if noise is None else attributes | {"noise_sd": noise}


def coefficients_figure(data: xarray.Dataset, confidence: float, kind: str) -> Canvas:
    """Draw the coefficients [arm, feature] with intervals at ``confidence``; arms with the most rewards first."""
    from scipy.special import ndtri

    if not np.isfinite(data["sd"].values).all():
        raise ParameterError("nothing is known yet: two different rewards must have been seen")
    z = float(ndtri(0.5 + 0.5 * confidence))
    order = np.argsort(-data["pulls"].values, kind="stable")[:_MOST_ARMS] if "pulls" in data else np.arange(1)
    mean, sd = data["mean"].values[order], data["sd"].values[order]
    features = [_short(name) for name in data["feature"].values]
    arms = [_short(name) for name in data["arm"].values[order]]
    first = int(features[:1] == ["intercept"])
    slopes = np.arange(first, len(features))
    if slopes.size > _MOST_FEATURES:
        clear = (np.abs(mean[:, slopes]) / sd[:, slopes]).max(axis=0)
        slopes = np.sort(slopes[np.argsort(-clear, kind="stable")[:_MOST_FEATURES]])
    panels = []
    if first:
        note = {"gaussian": "mean reward at zero", "bernoulli": "log odds at zero", "poisson": "log rate at zero"}[kind]
        panels.append(_panel("Intercept", arms, mean[:, 0], z * sd[:, 0], note, zero=False))
    if slopes.size:
        label = f"coefficient ({_SCORES[kind]})"
        low, high = ((mean + side * z * sd)[:, slopes] for side in (-1, 1))
        limits = min(float(low.min()), 0.0), max(float(high.max()), 0.0)
        for i, arm in enumerate(arms):
            shown = [features[j] for j in slopes]
            panels.append(_panel(arm, shown, mean[i, slopes], z * sd[i, slopes], label, zero=True, limits=limits))
    columns = min(len(panels), 2 if len(panels) == 4 else 3)
    tallest = max(len(arms) if first else 0, int(slopes.size))
    size = (3.6, max(1.7, 0.19 * tallest + 0.9))
    legend = (
        Entry(f"{100 * confidence:g}% interval", "law"),
        Entry("the interval holds zero", "neutral"),
    )
    figure = Figure("coefficients", "", tuple(panels), legend if slopes.size else legend[:1], columns, size)
    return figure.to_matplotlib()


def _panel(
    title: str,
    names: list[str],
    mean: FloatArray,
    reach: FloatArray,
    label: str,
    *,
    zero: bool,
    limits: tuple[float, float] | None = None,
) -> Panel:
    def draw(axes: Axes) -> None:
        rows = np.arange(len(names))
        clear = (np.abs(mean) > reach) | (not zero)
        if zero:
            axes.axvline(0.0, color=hex_of("ink"), linewidth=0.7)
        for at, colour in ((clear, "law"), (~clear, "neutral")):
            axes.hlines(rows[at], (mean - reach)[at], (mean + reach)[at], color=hex_of(colour), linewidth=1.6)
            axes.plot(mean[at], rows[at], "o", markersize=4, color=hex_of(colour), linestyle="none")
        axes.set_yticks(rows, names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(label)
        if limits is not None and limits[1] > limits[0]:
            room = 0.04 * (limits[1] - limits[0])
            axes.set_xlim(limits[0] - room, limits[1] + room)

    return Panel(title, draw)


def _short(name: Any) -> str:
    text = f"arm {name}" if isinstance(name, (int, np.integer)) else str(name)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
