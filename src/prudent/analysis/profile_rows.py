"""Rows of a risk profile beyond its levels: what honest values say, and the best policy for the tail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..errors import ParameterError
from ..estimation.honest import HonestValues
from ..planning.objectives import PosteriorRisk
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.solve import solve
from ..risk import CVaR
from ..types import FloatArray, PairsLike

TIME_LIMIT = 60.0  # seconds of the search for the best policy


class BestTail(NamedTuple):
    """The policy with the best CVaR of the return over the posterior, and whether it makes a level needless.

    Attributes
    ----------
    name : str
        What the row is called.
    solution : Solution
        The policy, with its value, its upper bound and its gap under the draws that it was searched with.
    row : dict
        Columns of its row: mean, cvar, their standard errors, sd and so on.
    sentence : str or None
        A sentence where it is significantly better than the recommended level in mean and in tail.
    """

    name: str
    solution: Solution
    row: dict[str, float]
    sentence: str | None = None

    @property
    def gap(self) -> float:
        """What another policy may be worth more, under the draws of the search."""
        return self.solution.gap


def name_of_tail(alpha: float) -> str:
    """Return what the row of the best policy for a tail is called.

    >>> name_of_tail(0.9), name_of_tail(0.75)
    ('best for the worst tenth', 'best for the worst 25%')
    """
    return "best for the worst tenth" if abs(alpha - 0.9) < 1e-12 else f"best for the worst {100 * (1 - alpha):.3g}%"


def search_tail(
    problem: BayesianRiskMDP, alpha: float, start: FloatArray, exclude: PairsLike, rng: Any, threads: int | None
) -> Solution:
    """Return the policy with the best CVaR at ``alpha`` of the return over the posterior."""
    given = problem.posterior is None
    stream = None if given and problem.reward_posterior is None else rng
    question = PosteriorRisk(CVaR(alpha))
    limits: dict[str, Any] = {"threads": threads, "time_limit": TIME_LIMIT}
    return solve(problem, objective=question, start=start, exclude=exclude, rng=stream, **limits)


def judged_tail(
    solution: Solution, compared: Any, place: int, level: int, exceeds: Callable[[int, int, bool], bool]
) -> BestTail:
    """Return the row ``place`` of the returns, compared with that of the recommended ``level``.

    ``exceeds(i, j, tail)`` says whether policy i is significantly better than j in tail or in mean.
    """
    name = str(compared.policy.values[place])
    row = {column: float(compared[column].values[place]) for column in ("mean", "mean_se", "cvar", "cvar_se", "sd")}
    for q, value in zip(compared.probability.values, compared["quantile"].values[place], strict=True):
        row[f"{100 * q:g}%"] = float(value)
    for column in ("probability_best", "regret", "difference", "difference_se", "probability_better"):
        if column in compared:
            row[column] = float(compared[column].values[place])
    sentence = None
    if exceeds(place, level, True) and exceeds(place, level, False):
        other = {column: float(compared[column].values[level]) for column in ("mean", "cvar")}
        sentence = (
            f"the policy that is {name} is better than the recommended level in mean and in tail: mean return "
            f"{row['mean']:.4g} against {other['mean']:.4g}, CVaR {row['cvar']:.4g} against {other['cvar']:.4g}"
        )
    return BestTail(name, solution, row, sentence)


def honest_level(honest: HonestValues, levels: Sequence[float]) -> float:
    """Return the level that honest values recommend."""
    alpha = honest.cells[honest.best].alpha
    if alpha is None or alpha not in levels:
        message = f"honest recommends the level {alpha}, which is none of alphas: check the same levels"
        raise ParameterError(message, code="unknown-option", argument="honest", value=alpha)
    return alpha


def honest_lines(honest: HonestValues) -> list[str]:
    """Return sentences that compare the recommended level with the others, and with what the log did.

    Parameters
    ----------
    honest : HonestValues
        Honest values.

    Returns
    -------
    list of str
        A sentence for each comparison, with the interval of the paired difference.
    """
    best = honest.best
    cell = honest.cells[best]
    lines = []
    for i, other in enumerate(honest.cells):
        if i != best and other._replace(alpha=None) == cell._replace(alpha=None):
            apart = honest.difference(best, i)
            what = "what the log did" if other.alpha is None else f"level {other.alpha:g}"
            lines.append(f"level {cell.alpha:g} less {what}: {apart.value:.4g} ({apart.low:.4g} to {apart.high:.4g})")
    return lines
