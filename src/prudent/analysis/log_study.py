"""Everything that `prudent solve` works out from one log: policies by level, what they earn, what to measure next.

What to measure next is dear in large models, where it takes many solves for each source. With more than
:data:`MANY` sources only the :data:`MOST` that promise most are looked at (:func:`value_of_data` says how), at level 0.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..planning.solve import evaluate
from ..posteriors.dirichlet import DirichletPosterior
from .profile import RiskProfile, risk_profile
from .value_of_data import ValueOfData, value_of_data

if TYPE_CHECKING:
    import pandas

__all__ = ["LogStudy", "NextData", "next_data", "study_log"]

MANY = 300  # sources; of more, not all are looked at
MOST = 12
FEWER = 50  # data sets sampled for each source of a large model
DRAWS = 2_000
SHOWN = 20  # sources in a record


@dataclass(frozen=True)
class NextData:
    """What to measure next, and how many sources were not looked at."""

    model: UncertainMDP
    posterior: DirichletPosterior
    result: ValueOfData
    left_out: int

    def table(self) -> pandas.DataFrame:
        """Return the pairs of state and action whose data can matter, most valuable first."""
        import pandas

        found, model = self.result, self.model
        source, pair = np.unique(model.source, return_index=True)
        at = np.minimum(np.searchsorted(source, found.source), source.size - 1)  # nothing draws from the last: ended
        state, action = np.divmod(pair[at], model.n_actions)
        names = ((model.state_labels, state), (model.action_labels, action))
        states, actions = (labels.names_at(index) for labels, index in names)
        table = pandas.DataFrame(
            {
                "state": states,
                "action": actions,
                "gain": found.gain,
                "gain_error": found.gain_error,
                "value_change": found.value_change,
                "switch": found.switch,
                "evidence": (self.posterior.counts - self.posterior.prior)[found.source].sum(axis=1),
            }
        )
        table = table[(table["gain"] != 0.0) | (table["value_change"] != 0.0)]
        return table.sort_values(["gain", "value_change"], ascending=False, kind="stable").reset_index(drop=True)

    def record(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return {
            "observations": self.result.observations,
            "alpha": self.result.alpha,
            "mean_return": self.result.mean_return,
            "sources": self.result.source.size,
            "left_out": self.left_out,
            "ranking": self.table().head(SHOWN).to_dict("records"),
        }


@dataclass(frozen=True)
class LogStudy:
    """The answers to an analyst's questions about one log."""

    model: UncertainMDP
    posterior: DirichletPosterior
    profile: RiskProfile
    next: NextData | None
    said: tuple[str, ...]  # warnings of the solver and of the profile

    def policies(self) -> pandas.DataFrame:
        """Return a row for each state and level: that of :meth:`Solution.to_pandas`, its level, and the time there."""
        import pandas

        parts = []
        mean = BayesianRiskMDP(self.model, self.posterior, 0.0).mean_mdp()
        for alpha, share in zip(self.profile.alphas, self.profile.occupancy, strict=True):
            solution = self.profile.solutions[alpha]
            at_mean = evaluate(mean, solution.policy, initial_value=solution.value)
            table = solution.to_pandas(neutral=self.profile.neutral, at_mean=at_mean)
            table.insert(3, "alpha", alpha)
            table["time_share"] = share
            parts.append(table)
        return pandas.concat(parts, ignore_index=True)

    def record(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        profile, summary = self.profile, self.model.summary
        rows = profile.to_pandas().reset_index().to_dict("records")
        for row in rows:
            row |= json.loads(profile.solutions[row["alpha"]].to_json())
        return {
            "rows": {"read": summary.rows, "used": summary.used, "dropped": dict(summary.dropped)},
            "summary": [list(line) for line in summary.lines()],
            "discount": self.model.discount,
            "start": profile.returns.attrs["start"],
            "draws": profile.returns.attrs["draws"],
            "tail": profile.tail,
            "alike": profile.returns.attrs["same"],
            "recommended": profile.recommended,
            "said": list(self.said),
            "levels": rows,
            "next_data": None if self.next is None else self.next.record(),
        }


def study_log(
    model: UncertainMDP,
    posterior: DirichletPosterior,
    alphas: Sequence[float],
    *,
    start: Any = None,
    draws: int = DRAWS,
    observations: int = 10,
    seed: int = 1,
    threads: int | None = None,
) -> LogStudy:
    """Return the policies of all levels, their returns over the posterior, and what to measure next.

    >>> from prudent.estimation import from_log
    >>> log = [("ill", "wait", "ill", 0, 60), ("ill", "wait", "dead", 0, 20), ("ill", "drug", "well", 1, 2),
    ...        ("ill", "drug", "dead", 0, 1), ("ill", "wait", "well", 1, 30)]
    >>> study = study_log(*from_log(log, 0.95, terminal=["well", "dead"]), (0, 0.9), draws=100)
    >>> study.policies()[["state", "action", "alpha"]].dropna().values.tolist()
    [['ill', 'drug', 0.0], ['ill', 'wait', 0.9]]
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        profile = risk_profile(model, posterior, alphas, start, draws, seed, threads=threads)
        level = max(profile.recommended, 0.0) if model.n_sources <= MANY else 0.0
        found = next_data(model, posterior, level, observations, start=start, seed=seed, threads=threads)
    return LogStudy(model, posterior, profile, found, tuple(dict.fromkeys(str(each.message) for each in caught)))


def next_data(
    model: UncertainMDP,
    posterior: DirichletPosterior,
    alpha: float = 0.0,
    observations: int = 10,
    *,
    start: Any = None,
    seed: int = 1,
    threads: int | None = None,
) -> NextData:
    """Return what more observations of each source are worth; in a large model, of those likeliest to matter."""
    large = model.n_sources > MANY
    few: dict[str, Any] = {"limit": MOST, "replications": FEWER} if large else {}
    result = value_of_data(model, posterior, alpha, observations, start=start, rng=seed, threads=threads, **few)
    return NextData(model, posterior, result, int(np.count_nonzero(result.method == "not looked at")))
