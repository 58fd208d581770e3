"""Why this arm: what each feature adds to its score, what speaks for the runner-up, and how sure that is.

The score of an arm in a context s is s'theta, a sum over features of s_j theta_j: what feature j adds is s_j times the
posterior mean of theta_j. Arms are independent, so the lead of one over another is normal, with the difference of the
means and the sum of the variances. Items that share one theta are not: the variance of their lead is that of the
difference of their features times theta, often much smaller. For clicks and counts scores are log odds and log rates;
the reward of an arm is then given as a chance or a rate, and the parts add up on the scale of scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._support.checks import FloatArray, IntArray
from ..display.words import chance, name_of, number_format, plural, visible
from ..errors import ParameterError
from .decision import Arm, name_array
from .law.base import Law

if TYPE_CHECKING:
    import pandas
    import xarray

Parts = tuple[FloatArray, FloatArray, FloatArray, float | None]
"""Features, coefficients and their sds [2, D] of two arms, and the sd of the lead; None if arms are independent."""
PartsOf = Callable[[list[int]], Parts]
"""Function that returns what the scores at two positions are made of."""


SCORES = {"gaussian": "mean reward", "bernoulli": "log odds", "poisson": "log rate", "hurdle": "log odds of a purchase"}
_RESPONSES = {"gaussian": "mean reward", "bernoulli": "chance of a 1", "poisson": "rate", "hurdle": "mean reward"}
_SCALES = {"hurdle": "log revenue"}  # of scores, where they are not linear in the features
_SHOWN = 3  # features that are listed, for and against


class ArmView(NamedTuple):
    """What is known of one arm in the context.

    Attributes
    ----------
    arm : str or int
        Name of the arm.
    chance : float
        Probability that it is chosen.
    mean, sd : float
        Posterior mean and standard deviation of the score s'theta.
    score : float
        CVaR of s'theta at the level of the bandit, which decisions estimate.
    response, response_sd : float
        Posterior mean and standard deviation of the expected reward; for normal rewards those of the score.
    pulls : int
        Number of rewards seen.
    """

    arm: Arm
    chance: float
    mean: float
    sd: float
    score: float
    response: float
    response_sd: float
    pulls: int


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
        return visible("\n".join(_words(self)))


def explained(
    law: Law,
    eligible: Sequence[Arm],
    pulls: IntArray,
    arm: Arm | None,
    parts_of: PartsOf,
    *,
    alpha: float,
    **facts: Any,
) -> Explanation:
    """Return the explanation of an arm, or of the likeliest, by the law of one decision.

    ``parts_of`` returns what the scores at two positions are made of; ``facts`` are further fields of the result.
    """
    size = len(eligible)
    numbers = (law.chances(), law.mean, law.sd, law.shortfall(alpha), *law.response())
    columns = np.array([values.reshape(-1, size)[0] for values in numbers])
    order = sorted(range(size), key=lambda i: (-columns[0, i], -columns[1, i]))
    if arm is not None:
        if arm not in eligible:
            message = f"arm is {arm!r}, which is not among the eligible arms"
            raise ParameterError(message, code="unknown-arm", argument="arm", arm=arm)
        order.sort(key=lambda i: eligible[i] != arm)  # puts it first
    views = tuple(ArmView._make((eligible[i], *columns[:, i].tolist(), int(pulls[i]))) for i in order)
    contexts, coefficients, sds, spread = parts_of((order * 2)[:2])
    if spread is None:
        spread = math.hypot(*(view.sd for view in views[:2]))
    return Explanation(
        arms=views, alpha=alpha, contexts=contexts, coefficients=coefficients, sds=sds, spread=spread, **facts
    )


# -- words -------------------------------------------------------------------------------------------------


def _words(why: Explanation) -> list[str]:
    chosen, rival = why.arms[0], why.rival
    number = number_format([view.response_sd for view in why.arms[:2]])
    name = name_of("arm", chosen.arm)
    reward = f"Its {_RESPONSES[why.kind]} is {_moments(why, chosen, number)}."
    if rival is None:
        return [f"{name[0].upper()}{name[1:]} is the only eligible arm.", reward]
    likeliest = all(chosen.chance >= view.chance for view in why.arms)
    first, second = (
        (f"The likeliest choice is {name},", "The runner-up is")
        if likeliest
        else (f"{name} would be chosen", "The likeliest choice is")
    )
    other = name_of("arm", rival.arm)
    lines = [
        f"{first} with the chance {chance(chosen.chance)}.",
        reward,
        f"{second} {other}, with the chance {chance(rival.chance)}: {_moments(why, rival, number)}.",
    ]
    if not math.isfinite(chosen.sd):
        return [*lines, "Choices are uniform until two different rewards have been seen."]
    lead, apart = chosen.mean - rival.mean, number_format([why.spread])
    scale = "" if why.kind == "gaussian" else f" in {_SCALES.get(why.kind, SCORES[why.kind])}"
    verb = "leads" if lead >= 0.0 else "is behind"
    lines.append(
        f"{name} is better with the chance {chance(why.better)}: it {verb} by {apart(abs(lead))}{scale} "
        f"(sd {apart(why.spread)})."
    )
    if why.alpha > 0.0 and (chosen.score - rival.score) * lead < 0.0:
        careful, less_known = (name, other) if lead < 0.0 else (other, name)
        lines.append(f"At the level {why.alpha:g} caution prefers {careful}: of {less_known} less is known.")
    parts = why.contexts[0] * why.coefficients[0] - why.contexts[1] * why.coefficients[1]
    size = max(float(np.abs(parts).max()), 1e-300)
    order = np.argsort(-np.abs(parts), kind="stable")
    for sign, mark, word in ((1.0, "+", "For"), (-1.0, "-", "Against")):
        clear = [i for i in order if sign * parts[i] > 0.01 * size and apart(abs(parts[i])).strip("0.")]
        if clear:
            listed = ", ".join(f"{why.features[i]} ({mark}{apart(abs(parts[i]))})" for i in clear[:_SHOWN])
            lines.append(f"{word} {name}: {listed}.")
    if why.lowest > 0.0:
        lines.append(f"Every eligible arm has at least the chance {chance(why.lowest)}.")
    return lines


def _moments(why: Explanation, view: ArmView, number: Callable[[float], str]) -> str:
    seen = plural(view.pulls if why.shared is None else why.shared, "reward")
    if why.shared is not None:
        seen += f" of all items, {view.pulls:,} of its own" if view.pulls else " of all items"
    if not math.isfinite(view.response_sd):
        return f"not known yet, after {seen}"
    return f"{number(view.response)} (sd {number(view.response_sd)}), known from {seen}"


# -- tables ------------------------------------------------------------------------------------------------


def dataset(
    features: Sequence[str],
    mean: FloatArray,
    sd: FloatArray,
    covariance: FloatArray,
    arms: Sequence[Arm],
    counts: dict[str, Any],
    attributes: dict[str, Any],
) -> xarray.Dataset:
    """Return means, sds and covariances of coefficients [feature], or [arm, feature], and counts [arm]."""
    import xarray

    axes = ("arm",) * (mean.ndim - 1) + ("feature",)
    return xarray.Dataset(
        {
            "mean": (axes, mean),
            "sd": (axes, sd),
            "covariance": ((*axes, "feature2"), covariance),
            **{name: ("arm", values) for name, values in counts.items()},
        },
        coords=({"arm": name_array(arms)} if arms else {}) | {"feature": list(features), "feature2": list(features)},
        attrs={name: value for name, value in attributes.items() if value is not None},
    )
