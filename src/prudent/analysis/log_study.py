"""Everything that ``prudent solve`` computes from one log: policies by level, their returns, what to measure next.

The value of data is expensive, since it takes many solves for each source. With more than ``FEW_SOURCES`` sources
(``MANY_SOURCES`` where it is all that is asked) or ``MANY_OUTCOMES`` outcomes only the ``EVALUATED_SOURCES`` with the
largest guess of their gain are evaluated (see ``value_of_data``); with more than ``MANY_SOURCES`` at level 0. Returns
over the posterior take time in proportion to the outcomes and to the draws, so that a model of many outcomes has fewer
draws by default (``default_draws``). The standard errors beside the numbers say what that costs.
"""

from __future__ import annotations

import importlib.metadata as metadata
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._support.checks import instance_of
from .._support.output import table_text, write
from ..data.columns import as_column
from ..data.labels import label_array, plain_name
from ..display.figures.base import Figure
from ..display.pages.frame import framed
from ..display.pages.log_study import render
from ..display.words import mixture
from ..models.mdp import MDP
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..planning.simplify import Simplified
from ..planning.solution import Solution
from ..planning.solve import evaluate
from ..posteriors.dirichlet import DirichletPosterior
from ..types import PairsLike, PathLike, PolicyLike, RngLike, StartLike, TerminalValueLike
from .check import CheckReport
from .profile import RiskProfile, risk_profile
from .return_distribution import returns_figure
from .value_of_data import ValueOfData, value_of_data

if TYPE_CHECKING:
    import pandas

FEW_SOURCES = 60
MANY_SOURCES = 300
MANY_OUTCOMES = 1_500  # of all pairs together
EVALUATED_SOURCES = 12  # of a model with many sources
FEWER_REPLICATIONS = 50  # data sets sampled for each source of a model with many sources
DEFAULT_DRAWS = 2_000
LEAST_DRAWS = 200  # by default, in a model of any size
MOST_NUMBERS = 100_000_000  # drawn by default: posterior draws times outcomes
MANY_STATES = 2_000  # more have no rules on the page
MOST_RULES = 5
RULE_DRAWS = 200  # posterior draws of what rules lose
SHOWN_CHANGES = 20  # states in the record where the recommended policy differs most from today's


@dataclass(frozen=True, eq=False, repr=False)
class LogStudy:
    """Policies for one log at several risk levels, their returns and what to measure next.

    Attributes
    ----------
    model : UncertainMDP
        The model of the log, as ``from_log`` returns it.
    posterior : DirichletPosterior
        Its posterior.
    profile : RiskProfile
        Policies by level and their true returns.
    next_data : ValueOfData
        Value of more observations of each pair.
    warnings : tuple of str
        Messages of the warnings that were issued.
    check : CheckReport or None
        Whether the model holds.
    rules : Simplified or None
        Short lists of rules in place of the recommended policy; None with a horizon, for policies that choose at
        random, and in models of more than 2,000 states.

    See Also
    --------
    study_log : Compute a study.
    """

    model: UncertainMDP
    posterior: DirichletPosterior
    profile: RiskProfile
    next_data: ValueOfData
    warnings: tuple[str, ...]
    check: CheckReport | None = None
    rules: Simplified | None = None

    @property
    def horizon(self) -> int | None:
        """Number of steps of the policies; None if they do not depend on time."""
        return self.profile.neutral.horizon

    @cached_property
    def _policies(self) -> pandas.DataFrame:
        import pandas

        parts = []
        mean = BayesianRiskMDP(self.model, self.posterior, 0.0).mean_mdp()
        for alpha, share in zip(self.profile.alphas, self.profile.occupancy, strict=True):
            solution = self.profile.solutions[alpha]
            if self.horizon is not None:
                parts += self._plan(mean, alpha)
                continue
            at_mean = evaluate(mean, solution.policy, initial_value=solution.value)
            table = solution.to_pandas(neutral=self.profile.neutral, at_mean=at_mean)
            table.insert(3, "alpha", alpha)
            table["time_share"] = share
            self._add_today(table, alpha, solution)
            parts.append(table)
        return pandas.concat(parts, ignore_index=True)

    def _plan(self, mean: MDP, alpha: float) -> list[pandas.DataFrame]:
        """Return a table for each time of the plan of one level."""
        solution, profile = self.profile.solutions[alpha], self.profile
        at_mean = evaluate(mean, solution, horizon=self.horizon, terminal_value=solution.value[-1])
        spent = profile.visits[profile.alphas.index(alpha)]
        tables = []
        for time in range(solution.policy.shape[0]):
            now = replace(solution.at(time), problem=solution.problem)
            table = now.to_pandas(neutral=profile.neutral.at(time), at_mean=at_mean.at(time))
            table.insert(0, "time", time)
            table.insert(4, "alpha", alpha)
            table["time_share"] = spent[time] / spent.sum()
            self._add_today(table, alpha, now)
            tables.append(table)
        return tables

    def _add_today(self, table: pandas.DataFrame, alpha: float, solution: Solution) -> None:
        """Add what is done today to the rows of one level."""
        today = self.profile.today
        if today is None:
            return
        actions = label_array(self.model.actions, self.model.n_actions).tolist()
        done = [
            None if over else mixture(actions, row)
            for over, row in zip(self.model.terminal, today.policy.tolist(), strict=True)
        ]
        table["today"] = as_column(done)
        table["today_share"] = today.policy[np.arange(len(done)), solution.chosen]
        table["contribution"] = today.contributions[self.profile.alphas.index(alpha)]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a row for each state and level.

        Returns
        -------
        DataFrame
            The columns of ``Solution.to_pandas``, alpha, and time_share, the share of time spent in the state. With a
            baseline also today, its action or the shares of several, today_share, how often it takes the action of the
            row, and contribution, what the state adds to the difference of the mean returns (``RiskProfile.changes``).
            With a horizon there is a row for each time as well, with the column time.
        """
        return self._policies.copy()

    def record(self, name: str = "log", unit: str = "") -> dict[str, Any]:
        """Return all results as a dict for JSON.

        Parameters
        ----------
        name : str, default="log"
            Name of the log.
        unit : str, optional
            What returns are measured in, such as "euro per day".

        Returns
        -------
        dict
            Keys log, prudent, numpy (versions), rows, summary, discount, start, draws, tail, alike, recommended, unit,
            rules, said, levels, today (None without a baseline), next_data and check; with features also state_map and
            state_choice.
        """
        profile, summary = self.profile, self.model.summary
        rows = profile.by_level().reset_index().to_dict("records")
        for row in rows:
            row |= json.loads(profile.solutions[row["alpha"]].to_json())
        if profile.today is not None:
            drawn = profile.today.returns["returns"].values
            for i, row in enumerate(rows):
                low, high = np.quantile(drawn[:, i] - drawn[:, -1], (0.05, 0.95))
                row |= {"difference_low": float(low), "difference_high": float(high)}
        return {
            "log": name,
            "prudent": metadata.version("prudent"),
            "numpy": np.__version__,
            "rows": {"read": summary.rows, "used": summary.used, "dropped": dict(summary.dropped)},
            "summary": [list(line) for line in (*summary.lines(), *self._horizon_lines())],
            "horizon": self.horizon,
            "discount": self.model.discount,
            "start": profile.returns.attrs["start"],
            "draws": profile.returns.attrs["draws"],
            "tail": profile.tail_alpha,
            "alike": profile.returns.attrs["same"],
            "recommended": profile.recommended,
            "unit": instance_of(unit, "unit", str),
            "rules": None if self.rules is None else self.rules.record(),
            "said": list(self.warnings),
            "levels": rows,
            "today": self._today(),
            "next_data": self.next_data.record(),
            "check": None if self.check is None else self.check.to_dict(),
        } | self._states()

    def first_step(self) -> pandas.DataFrame:
        """Return the rows of ``to_pandas`` at the first time: all of them without a horizon.

        Returns
        -------
        DataFrame
            A row for each state and level.
        """
        table = self.to_pandas()
        if self.horizon is None:
            return table
        return table[table["time"] == 0].drop(columns="time").reset_index(drop=True)

    def _horizon_lines(self) -> list[tuple[str, str]]:
        if self.horizon is None:
            return []
        return [("horizon", f"{self.horizon:,} steps; tables of actions are those of the first step")]

    def _states(self) -> dict[str, Any]:
        """Return the state map and how it was chosen, for a log of features."""
        summary = self.model.summary
        if summary.state_map is None:
            return {}
        record: dict[str, Any] = {"state_map": summary.state_map.to_dict()}
        choice = summary.state_choice
        if choice is not None:
            table = json.loads(choice.to_pandas().to_json(orient="records"))
            record["state_choice"] = {"sentence": choice.sentence, "improves": choice.improves, "designs": table}
        return record

    def _today(self) -> dict[str, Any] | None:
        """Return what is done today: its returns, its probabilities of actions, and what changes most."""
        profile = self.profile
        if profile.today is None:
            return None
        row = profile.to_pandas().iloc[-1].dropna().drop("recommended").to_dict()
        actions = [plain_name(name) for name in self.model.actions]
        policy = [
            {"state": plain_name(state), "probabilities": dict(zip(map(str, actions), chances, strict=True))}
            for state, chances, over in zip(
                self.model.states, profile.today.policy.tolist(), self.model.terminal, strict=True
            )
            if not over
        ]
        changes = profile.changes()
        shown = changes.head(SHOWN_CHANGES).to_dict("records")
        return row | {"policy": policy, "states_changed": len(changes), "changes": shown}

    def figures(self) -> dict[str, Figure]:
        """Return the figures of the page.

        Returns
        -------
        dict
            The figures policy, returns and levels, check if there is one, and states if they were chosen.
        """
        profile = self.profile
        level = profile.recommended
        title = f"Values and actions at risk level {level:g}"
        choice = self.model.summary.state_choice
        return (
            ({} if choice is None else {"states": choice.figure()})
            | {
                "policy": replace(profile.solutions[level].panels(), name="policy", title=title),
                "returns": returns_figure(profile.returns if profile.today is None else profile.today.returns),
                "levels": profile.figure(),
            }
            | ({} if self.check is None else {"check": self.check.figure()})
        )

    def report(
        self, path: PathLike, *, name: str = "log", unit: str = "", settings: Mapping[str, object] | None = None
    ) -> Path:
        """Write a page for readers without knowledge of the methods: what to do, how certain it is, what to measure.

        Parameters
        ----------
        path : path
            The HTML file to write. The page needs no other file.
        name : str, default="log"
            Name of the log in the headings.
        unit : str, optional
            What returns are measured in, such as "euro per day".
        settings : mapping, optional
            Settings of the study, for the last section of the page.

        Returns
        -------
        Path
            The file.
        """
        write(Path(path), self._page(name, unit, settings or {}).encode())
        return Path(path)

    def _page(self, name: str, unit: str, settings: Mapping[str, object]) -> str:
        table = table_text(self.to_pandas())
        return render(self.record(name, unit), self.first_step(), self.figures(), settings, table)

    def _repr_html_(self) -> str:
        """Return the page for a notebook, in a frame of its own."""
        return framed(self._page("log", "", {}))

    def __repr__(self) -> str:
        return f"LogStudy({self.model.n_states:,} states)\n{self.profile!r}"


def study_log(
    model: UncertainMDP,
    posterior: DirichletPosterior,
    alphas: Sequence[float] = (0.0, 0.5, 0.9),
    *,
    start: StartLike = None,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    draws: int | None = None,
    observations: int = 10,
    check: CheckReport | None = None,
    exclude: PairsLike = None,
    exclude_data: PairsLike = None,
    baseline: PolicyLike | str | None = "log",
    min_visits: float | None = None,
    epsilon: float | None = None,
    rng: RngLike = 1,
    threads: int | None = None,
) -> LogStudy:
    """Compute the policies of several risk levels, their true returns, and what to measure next.

    Parameters
    ----------
    model : UncertainMDP
        The model of a log, as ``from_log`` returns it.
    posterior : DirichletPosterior
        Its posterior.
    alphas : sequence of float, default=(0, 0.5, 0.9)
        Risk levels in (-1, 1).
    start : state, dict or array_like [S], optional
        Where the process begins, as for ``posterior_returns``.
    horizon : int, optional
        Number of steps, as for ``prudent.solve``.
    terminal_value : array_like of shape (S,), float or mapping, optional
        What states are worth after the horizon.
    draws : int, optional
        Number of posterior draws for the returns, by default 2,000, and fewer, down to 200, in a model of more than
        50,000 outcomes.
    observations : int, default=10
        Number of further observations of one pair, for what to measure next.
    check : CheckReport, optional
        The check of the log at the same levels. Its findings come first on the page, and its honest values recommend
        the level. In a log without episodes they do not: single observations are too weak a judge.
    exclude : dict or list of pairs, optional
        What must not be done, as for ``prudent.solve``.
    exclude_data : dict or list of pairs, optional
        What must not be tried for the sake of data, as for ``value_of_data``.
    baseline : "log" or policy, default="log"
        What is done today, as for ``risk_profile``: by default the policy of the log. None for no comparison.
    min_visits, epsilon : float, optional
        How close the policies have to stay to `baseline`, as for ``prudent.solve``. What to measure next is for
        policies that need not, since new data sets them free.
    rng : int, Generator or None, default=1
        Source of randomness.
    threads : int, optional
        Number of threads, by default all cores.

    Returns
    -------
    LogStudy
        All results, with a table, a record for JSON and a page.

    Examples
    --------
    >>> from prudent import from_log
    >>> log = [("ill", "wait", "ill", 0, 60), ("ill", "wait", "dead", 0, 20), ("ill", "drug", "well", 1, 2),
    ...        ("ill", "drug", "dead", 0, 1), ("ill", "wait", "well", 1, 30)]
    >>> study = study_log(*from_log(log, 0.95, terminal=["well", "dead"]), (0, 0.9), draws=100)
    >>> study.to_pandas()[["state", "action", "alpha"]].dropna().values.tolist()
    [['ill', 'drug', 0.0], ['ill', 'wait', 0.9]]
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        close: dict[str, Any] = {"baseline": baseline, "min_visits": min_visits, "epsilon": epsilon}
        timed: dict[str, Any] = {"horizon": horizon, "terminal_value": terminal_value}
        close |= {"exclude": exclude, **timed}
        draws = default_draws(model) if draws is None else draws
        profile = advised_profile(
            model, posterior, alphas, start=start, draws=draws, check=check, rng=rng, threads=threads, **close
        )
        level = level_of_data(model, profile.recommended)
        found = profile.neutral if level == 0.0 else profile.solutions[level]
        value = next_data(
            model,
            posterior,
            level,
            observations,
            start=start,
            solution=found if found.allowed is None else None,
            **timed,
            exclude=exclude,
            exclude_data=exclude_data,
            all_of=FEW_SOURCES,
            rng=rng,
            threads=threads,
        )
        rules = None
        best = profile.solutions[profile.recommended]
        steps = 1 if horizon is None else len(best.policy)
        if best.policy.ndim == best.value.ndim and model.n_states * steps <= MANY_STATES:
            rules = best.simplify(MOST_RULES, start=start, draws=min(draws, RULE_DRAWS), rng=rng)
    messages = dict.fromkeys([*(str(warning.message) for warning in caught), *profile.today_cautions])
    return LogStudy(model, posterior, profile, value, tuple(messages), check, rules)


def advised_profile(
    model: UncertainMDP,
    posterior: DirichletPosterior,
    alphas: Sequence[float],
    *,
    draws: int | None = None,
    check: CheckReport | None = None,
    **options: Any,
) -> RiskProfile:
    """Compare risk levels, and recommend one: by held-out episodes where there are any.

    Parameters
    ----------
    model, posterior, alphas
        As for ``study_log``.
    draws : int, optional
        Number of posterior draws, by default as for ``study_log``.
    check : CheckReport, optional
        The check of the same log.
    **options
        Other arguments of ``prudent.risk_profile``.

    Returns
    -------
    RiskProfile
        The profile, whose ``recommended`` level is that of ``prudent solve``.
    """
    honest = None if check is None or check.honest.by_rows else check.honest
    count = default_draws(model) if draws is None else draws
    profile = risk_profile(model, posterior, alphas, draws=count, honest=honest, **options)
    choice = model.summary.state_choice
    if choice is not None and choice.alpha in profile.alphas:
        profile = replace(profile, recommended=choice.alpha)
    return profile


def level_of_data(model: UncertainMDP, recommended: float) -> float:
    """Return the risk level at which the value of data is computed: the recommended one, or 0 in a large model.

    Parameters
    ----------
    model : UncertainMDP
        The model of a log.
    recommended : float
        The recommended level.

    Returns
    -------
    float
        The level.
    """
    return max(recommended, 0.0) if model.n_sources <= MANY_SOURCES else 0.0


def default_draws(model: UncertainMDP) -> int:
    """Return how many posterior draws returns are computed for by default.

    Parameters
    ----------
    model : UncertainMDP
        The model of a log.

    Returns
    -------
    int
        2,000, or fewer for a model of more than 50,000 outcomes; at least 200.
    """
    return max(LEAST_DRAWS, min(DEFAULT_DRAWS, MOST_NUMBERS // max(model.entries.next_state.size, 1)))


def next_data(
    model: UncertainMDP,
    posterior: DirichletPosterior,
    alpha: float = 0.0,
    observations: int = 10,
    *,
    start: StartLike = None,
    solution: Solution | None = None,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    exclude: PairsLike = None,
    exclude_data: PairsLike = None,
    all_of: int | None = None,
    rng: RngLike = 1,
    threads: int | None = None,
) -> ValueOfData:
    """Compute the value of more observations of each source; in a large model, of the most promising ones.

    Parameters
    ----------
    model, posterior, alpha, observations, start, solution, horizon, terminal_value, exclude, exclude_data, rng, threads
        As for ``value_of_data``.
    all_of : int, optional
        Largest number of sources of which all are evaluated, by default 300.

    Returns
    -------
    ValueOfData
        The result of ``value_of_data``.
    """
    many: dict[str, Any] = {}
    if model.n_sources > (MANY_SOURCES if all_of is None else all_of) or model.entries.next_state.size > MANY_OUTCOMES:
        many = {"limit": EVALUATED_SOURCES, "replications": FEWER_REPLICATIONS}
    many |= {"exclude": exclude, "exclude_data": exclude_data, "horizon": horizon, "terminal_value": terminal_value}
    return value_of_data(
        model, posterior, alpha, observations, start=start, solution=solution, rng=rng, threads=threads, **many
    )
