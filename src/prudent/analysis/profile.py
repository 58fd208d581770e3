"""Policies at several risk levels, and the true returns of each over the posterior.

The value of a Bayesian risk MDP is not a forecast (see ``prudent.analysis.posterior_returns``). Risk levels are
therefore compared by the true returns of their policies: the mean, and the tail, which is the CVaR of the return at one
level ``tail_alpha`` for all policies. The policies face the same draws, so differences have paired standard errors.

**Recommended level.** Level a protects as well as a higher level b unless the tail of b is significantly better: the
difference of the two CVaRs, b minus a, exceeds t times its standard error. t is the quantile of Student's law with one
degree of freedom less than there are draws in the tail, at 1 - ``FALSE_ALARM`` / M for the M pairs of levels. So,
for many draws, the probability that Monte Carlo error alone makes any comparison significant is at most
``FALSE_ALARM``. The recommended level is the lowest that protects as well as every higher one. With few draws
nothing is significant, and the lowest level is recommended: more draws resolve smaller differences. Small models,
where a draw is cheap, therefore have 20,000 by default.

With the honest values of the log (``prudent.analysis.check``) the level is recommended by these instead: returns over
the posterior judge a policy by the model that chose it. It is then the lowest level whose honest value is not lower
than the highest one by more than a standard error of their paired difference.

**Worse level.** Level b is worse than a lower level a if both its mean and its tail are lower, significantly in the
same sense.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from .._support.checks import flag, generator, risk_level, whole_number
from .._support.intervals import estimate_mean
from ..data.labels import label_array
from ..display.figures import profile as figures
from ..display.figures.base import Figure
from ..errors import CautionWarning, ParameterError
from ..estimation.honest import HonestValues
from ..models.uncertain import UncertainMDP
from ..planning.solution import Solution
from ..planning.stay_close import read_baseline
from ..planning.unknown_rewards import RewardsLike, unknown_rewards
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior
from ..risk import CVaR
from ..types import ArrayLike, BoolArray, FloatArray, PairsLike, PolicyLike, RngLike, StartLike, TerminalValueLike
from .posterior_returns import TODAY, posterior_returns
from .profile_rows import BestTail, honest_level, honest_lines, judged_tail, name_of_tail, search_tail
from .reading import problem_of, read_belief
from .return_distribution import QUANTILES, TAIL_ALPHA, cvar_terms
from .today import SAME, Today, contributions, mean_policy, mean_visits

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure as Canvas

FALSE_ALARM = 0.01
DEFAULT_DRAWS = 2_000
SMALL_DRAWS = 20_000  # by default in small models: at most some 2 s of one core
SMALL_WORK, SMALL_ENTRIES = 50**3, 20_000  # operations of the return of a policy in a draw; outcomes of all pairs


@dataclass(frozen=True, eq=False, repr=False)
class RiskProfile:
    """Policies at several risk levels and their true returns: the result of ``risk_profile``.

    Attributes
    ----------
    alphas : tuple of float
        The L risk levels, ascending.
    solutions : dict
        The ``Solution`` of each level. Where the action of level 0 is as good, it is kept.
    neutral : Solution
        The solution at level 0, also if 0 is none of the levels.
    returns : xarray.Dataset
        Result of ``posterior_returns`` with the levels as policies.
    differs : ndarray [L, S]
        Where the policy of a level differs from the neutral one.
    occupancy : ndarray [L, S]
        Share of the discounted time that each policy spends in each state, in the model at the posterior mean.
    time_differs : ndarray [L]
        Share of that time in which the policy differs from the neutral one.
    visits : tuple of ndarray [S] or [T, S]
        Discounted numbers of visits of each level to the states, at each time of a horizon.
    recommended : float
        The lowest level that protects as well as every higher one; with honest values, that which they recommend.
    worse : tuple of pairs
        Pairs (level, lower level) where the lower level is significantly better in mean and in tail.
    today : Today or None
        What is done today, if a baseline was given: its returns on the same draws, and where the levels differ from it.
    honest : HonestValues or None
        The honest values that the level was recommended by.
    best_tail : BestTail or None
        The policy with the best CVaR of the return over the posterior, if it was asked for.

    See Also
    --------
    risk_profile : Compute a risk profile.
    """

    alphas: tuple[float, ...]
    solutions: dict[float, Solution]
    neutral: Solution
    returns: xarray.Dataset
    differs: BoolArray
    occupancy: FloatArray
    recommended: float
    worse: tuple[tuple[float, float], ...]
    time_differs: FloatArray
    visits: tuple[FloatArray, ...]
    today: Today | None = None
    honest: HonestValues | None = None
    best_tail: BestTail | None = None

    @property
    def tail_alpha(self) -> float:
        """Level of the CVaR of the true return."""
        return float(self.returns.attrs["tail_alpha"])

    @property
    def cautions(self) -> list[str]:
        """Sentences about the levels in ``worse``, and about a recommended level that earns less than today."""
        return [*_cautions(self.worse, self.returns), *self.today_cautions]

    @property
    def today_cautions(self) -> list[str]:
        """A sentence where what is done today earns more on average than the recommended level."""
        if self.today is None:
            return []
        i = self.alphas.index(self.recommended)
        better = float(self.returns["probability_better"].values[i])
        if float(self.returns["difference"].values[i]) >= 0.0:
            return []
        means = f"{self.today.row('mean'):.4g} against {self.returns['mean'].values[i]:.4g}"
        return [
            f"what is done today earns more on average than level {self.recommended:g}, {means}; the chance that it "
            f"is better than today is {better:.0%}"
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each level, one for the best tail and one for today, if they were asked for.

        Returns
        -------
        DataFrame
            Indexed by the level; the row of the baseline, the last, is called ``"today"``. Columns
            mean, cvar, their standard errors, sd and quantiles (such as ``5%``) of the true return;
            probability_best and, if it was computed, regret; states_differ, the number of states with another action
            than at level 0, and time_differs, the share of time spent in them; risk_value, the Bayesian-risk value,
            which is not a forecast; and recommended. With a baseline also difference, the mean return minus that of
            today, its standard error, and probability_better, the probability that it is positive.
        """
        import pandas

        table = self.by_level()
        if self.best_tail is not None:
            other: dict[str, Any] = {**self.best_tail.row, "recommended": False}
            more = pandas.DataFrame([other], index=[self.best_tail.name])
            table = pandas.concat([table.astype({"states_differ": object}), more]).rename_axis("alpha")
        if self.today is None:
            return table
        row = {name: self.today.row(name) for name in table if name in self.today.returns}
        for q, value in zip(self.returns.probability.values, self.today.returns["quantile"].values[-1], strict=True):
            row[f"{100 * q:g}%"] = float(value)
        row |= {"probability_better": np.nan, "recommended": False}
        return pandas.concat(
            [table.astype({"states_differ": object}), pandas.DataFrame([row], index=[TODAY])]
        ).rename_axis("alpha")

    def by_level(self) -> pandas.DataFrame:
        """Return the table of ``to_pandas`` without the row of today.

        Returns
        -------
        DataFrame
            A row for each level.
        """
        import pandas

        returns = self.returns
        columns: dict[str, Any] = {name: returns[name].values for name in ("mean", "mean_se", "cvar", "cvar_se", "sd")}
        for q in returns.probability.values:
            columns[f"{100 * q:g}%"] = returns["quantile"].sel(probability=q).values
        columns |= {name: returns[name].values for name in ("probability_best", "regret") if name in returns}
        paired = ("difference", "difference_se", "probability_better")
        columns |= {name: returns[name].values for name in paired if name in returns}
        columns["states_differ"] = self.differs.sum(axis=1)
        columns["time_differs"] = self.time_differs
        columns["risk_value"] = returns["risk_value"].values
        columns["recommended"] = [alpha == self.recommended for alpha in self.alphas]
        return pandas.DataFrame(columns, index=pandas.Index(self.alphas, name="alpha"))

    def changes(self, alpha: float | None = None) -> pandas.DataFrame:
        """Return the states where a policy differs from what is done today, those that matter most first.

        Parameters
        ----------
        alpha : float, optional
            Risk level, by default the recommended one.

        Returns
        -------
        DataFrame
            Columns state, action (of the level; the likeliest), probability, today (the action of today, or the shares
            of several), today_share (how often today's policy takes the new action), time_share and contribution,
            which is what the state adds to the difference of the mean returns at the posterior mean, by which rows are
            ordered.

        Raises
        ------
        ParameterError
            If no baseline was given, or the level is not one of the profile.
        """
        level = self.recommended if alpha is None else alpha
        if self.today is None:
            message = "the profile has no baseline to compare with; give risk_profile(..., baseline='log') or a policy"
            raise ParameterError(message, code="missing-argument", argument="baseline")
        if level not in self.solutions:
            message = f"alpha is {alpha!r}, expected one of {', '.join(f'{a:g}' for a in self.alphas)}"
            raise ParameterError(message, code="unknown-option", argument="alpha", value=alpha)
        i, solution = self.alphas.index(level), self.solutions[level]
        weights = _weights(solution)
        if weights.ndim == 3:
            weights = mean_policy(self.visits[i], weights)
        return self.today.changes(i, weights, solution.states, solution.actions, self.occupancy[i])

    def to_xarray(self) -> xarray.Dataset:
        """Return the returns by level, and the policies by level and state.

        Returns
        -------
        xarray.Dataset
            ``returns`` with the dimension alpha in place of policy, and action, differs and occupancy [alpha, state].
        """
        chosen = [self.solutions[alpha] for alpha in self.alphas]
        names = label_array(self.neutral.actions, len(self.neutral.actions))
        actions = np.stack([names[_first(solution.chosen)] for solution in chosen])
        by_state = {"action": actions, "differs": self.differs, "occupancy": self.occupancy}
        data = self.returns.rename(policy="alpha").assign_coords(
            state=label_array(self.neutral.states, len(self.neutral.states))
        )
        data = data.assign({name: (("alpha", "state"), values) for name, values in by_state.items()})
        return data.assign_attrs(recommended=self.recommended)

    def figure(self) -> Figure:
        """Return the figure of ``plot`` as panels for a page.

        Returns
        -------
        prudent.display.figures.base.Figure
            Figure with two panels.
        """
        changed = np.flatnonzero(self.differs.any(axis=0))
        weight = self.occupancy.max(axis=0)
        shown = changed[np.argsort(-weight[changed], kind="stable")][: figures.MAX_STATES].tolist()
        states = self.neutral.states or range(self.differs.shape[1])
        names = [
            [
                None if over else policy.actions[a]
                for a, over in zip(_first(policy.chosen), policy.terminal, strict=True)
            ]
            for policy in self.solutions.values()
        ]
        return figures.draw(
            self.by_level(),
            today=None if self.today is None else self.to_pandas().iloc[-1],
            tail_alpha=self.tail_alpha,
            states=[states[s] for s in shown],
            actions=[[policy[s] for s in shown] for policy in names],
            differs=self.differs[:, shown],
            changed=changed.size,
        )

    def plot(self) -> Canvas:
        """Plot the mean against the tail of the return by level, and the actions that change with the level.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return self.figure().to_matplotlib()

    def __repr__(self) -> str:
        returns, attrs = self.returns, self.returns.attrs
        lines = [
            f"RiskProfile: true returns over {attrs['draws']:,} draws from {attrs['start']}; "
            f"CVaR at {self.tail_alpha:g}",
            f"{'alpha':>8}{'mean':>12}{'cvar':>12}{'states that differ':>20}",
        ]
        columns = (self.alphas, returns["mean"].values, returns["cvar"].values, self.differs.sum(axis=1))
        for alpha, mean, cvar, states in zip(*columns, strict=True):
            mark = "  <- recommended" if alpha == self.recommended else ""
            lines.append(f"{alpha:>8g}{mean:>12.4g}{cvar:>12.4g}{states:>20,}{mark}")
        if self.today is not None:
            i = self.alphas.index(self.recommended)
            lines.append(f"{TODAY:>8}{self.today.row('mean'):>12.4g}{self.today.row('cvar'):>12.4g}")
            lines.append(
                f"level {self.recommended:g} earns {returns['difference'].values[i]:.4g} ± "
                f"{1.96 * returns['difference_se'].values[i]:.2g} more than {TODAY}; it is better with probability "
                f"{returns['probability_better'].values[i]:.3g}"
            )
        if self.best_tail is not None:
            row, gap = self.best_tail.row, self.best_tail.gap
            lines.append(f"{self.best_tail.name}: mean {row['mean']:.4g}, CVaR {row['cvar']:.4g}; gap {gap:.2g}")
            lines += [] if self.best_tail.sentence is None else [self.best_tail.sentence]
        if self.honest is not None:
            lines += [f"by honest values: {line}" for line in honest_lines(self.honest)]
        return "\n".join([*lines, *(f"caution: {sentence}" for sentence in self.cautions)])


def risk_profile(
    model: UncertainMDP,
    posterior: DirichletPosterior | ArrayLike,
    alphas: Sequence[float] | float = (0.0, 0.5, 0.8, 0.9, 0.99),
    start: StartLike = None,
    draws: int | None = None,
    rng: RngLike = None,
    *,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    tail_alpha: float = TAIL_ALPHA,
    quantiles: Sequence[float] = QUANTILES,
    regret: bool = False,
    solver_draws: int | None = None,
    reward_posterior: RewardsLike = None,
    exclude: PairsLike = None,
    baseline: PolicyLike | str | None = None,
    min_visits: float | None = None,
    epsilon: float | None = None,
    honest: HonestValues | None = None,
    best_tail: bool = False,
    threads: int | None = None,
) -> RiskProfile:
    """Solve a problem at several risk levels, compare the true returns of the policies and recommend a level.

    Every level is solved once, warm-started from the one below, and its policy is judged by its true returns over
    common posterior draws (``posterior_returns``). The recommended level is the lowest that protects as well as all
    higher ones: none of them has a significantly better CVaR of the true return, by paired standard errors. Monte Carlo
    error alone makes any difference significant with probability at most 0.01.

    Parameters
    ----------
    model : UncertainMDP
        The known part of the model.
    posterior : DirichletPosterior or array_like
        The posterior, its counts [B, K], or draws [N, B, K].
    alphas : float or sequence of float, default=(0, 0.5, 0.8, 0.9, 0.99)
        Risk levels in (-1, 1) to compare.
    start : state, dict or array_like [S], optional
        Where the process begins, as for ``posterior_returns``.
    draws : int, optional
        Number of posterior draws for the returns, by default all draws if the posterior is given by draws. Otherwise it
        is 20,000 in small models (up to 50 states) without `regret`, so that the recommendation hardly depends on the
        seed, and 2,000 in others.
    rng : int or Generator, optional
        Source of randomness.
    horizon : int, optional
        Number of steps, as for ``prudent.solve``: policies and their returns are those of so many steps. Without it a
        process at discount 1 must end whatever is done.
    terminal_value : array_like of shape (S,), float or mapping, optional
        What states are worth after the horizon.

    Returns
    -------
    RiskProfile
        Solutions, returns and the recommended level.

    Other Parameters
    ----------------
    tail_alpha : float, default=0.9
        Level of the CVaR of the true return, the same for all policies.
    quantiles : sequence of float, default=(0.05, 0.5, 0.95)
        Probabilities of the quantiles of the true return.
    regret : bool, default=False
        Whether to solve every drawn model for its best policy, which takes most of the time in large models.
    solver_draws : int, optional
        Solve with this many posterior draws, the same for every level, instead of exactly. Not allowed if the
        posterior is given by draws, which are then all used.
    reward_posterior : NormalPosterior, BetaPosterior or "certain", optional
        Unknown mean rewards [S, A], by default those of the model, as for ``BayesianRiskMDP``; a BetaPosterior needs
        `solver_draws`.
    exclude : dict or list of pairs, optional
        What must not be done, as for ``prudent.solve``.
    baseline : "log" or policy, optional
        What is done today, which every level is compared with: a policy, or ``"log"`` for the one that produced the
        data (``prudent.planning.log_policy``).
    min_visits, epsilon : float, optional
        How close the policies have to stay to `baseline`, as for ``prudent.solve``. By default they need not.
    honest : HonestValues, optional
        Honest values of the log that the model was made from, ``prudent.check(...).honest``, to recommend the level by.
    best_tail : bool, default=False
        Whether to search for the policy with the best CVaR at `tail_alpha` of the return over the posterior
        (``PosteriorRisk``), for up to a minute: a row with its gap, which says whether it is better than the
        recommended level in mean and in tail. Not with a horizon, nor with `min_visits` or `epsilon`.
    threads : int, optional
        Number of threads, by default all cores.

    Raises
    ------
    ParameterError
        If `alphas` is empty or a level is out of range, `honest` is about other levels, or arguments cannot be
        combined.

    Warns
    -----
    CautionWarning
        If a level is significantly worse than a lower one both in mean and in tail.

    See Also
    --------
    posterior_returns : True returns of any policies.
    value_of_data : What to measure next.

    Examples
    --------
    In state 0, action 0 is well known and nothing is known of action 1. Risk-averse policies prefer action 0:

    >>> import prudent as pr
    >>> model = pr.UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], discount=0.9)
    >>> posterior = pr.DirichletPosterior([[60, 40], [1, 1], [50, 50], [60, 40]])
    >>> profile = risk_profile(model, posterior, alphas=(0, 0.5, 0.9), start=0, rng=1)
    >>> profile.recommended, profile.solutions[0.5].policy.tolist()
    (0.5, [0, 0])
    >>> profile.to_pandas()[["mean", "cvar", "states_differ", "risk_value"]].round(1)
           mean  cvar  states_differ  risk_value
    alpha
    0.0     4.1   0.8              0         4.5
    0.5     4.0   3.3              1         3.6
    0.9     4.0   3.3              1         3.1
    """
    levels = sorted({risk_level(alpha, "alphas") for alpha in np.atleast_1d(np.asarray(alphas, dtype=object)).tolist()})
    if not levels:
        raise ParameterError("alphas is empty: give at least one risk level", code="empty", argument="alphas")
    flag(best_tail, "best_tail")
    flag(regret, "regret")
    belief = read_belief(model, posterior, reward_posterior)
    first = model.start_distribution(start)
    random = generator(rng)
    given = belief.theta is not None
    if given and solver_draws is not None:
        message = "solver_draws cannot be set: the posterior is given by its draws"
        raise ParameterError(message, code="conflicting-arguments", argument="solver_draws", value=solver_draws)
    unknown = unknown_rewards(model, reward_posterior)
    if isinstance(unknown, BetaPosterior) and not given and solver_draws is None:
        message = "reward_posterior needs solver_draws, e.g. solver_draws=1000: rewards that are not normal are drawn"
        raise ParameterError(message, code="missing-argument", argument="solver_draws")
    drawn = solver_draws is not None or (unknown is not None and given)
    seed = int(random.integers(2**63)) if drawn else None  # the same draws for every level
    count = None if solver_draws is None else whole_number(solver_draws, "solver_draws", memory=64.0)
    solutions: dict[float, Solution] = {}
    value = None
    close: dict[str, Any] = {"exclude": exclude, "horizon": horizon, "terminal_value": terminal_value}
    if min_visits is not None or epsilon is not None:
        close |= {"baseline": baseline, "min_visits": min_visits, "epsilon": epsilon}
    for alpha in sorted({0.0, *levels}, key=abs):  # each warm-started from the one before; level 0 is the first
        problem = problem_of(model, posterior, alpha, reward_posterior)
        warm: dict[str, Any] = {} if horizon is not None else {"initial_value": value}
        solution = problem.solve(count, seed, threads=threads, **warm, **close)
        solutions[alpha] = _keep_neutral(solution, solutions.get(0.0, solution))
        value = solution.value
    neutral, chosen = solutions[0.0], {alpha: solutions[alpha] for alpha in levels}
    shown: dict[Any, Solution] = dict(chosen)
    if best_tail:
        if horizon is not None or min_visits is not None or epsilon is not None:
            name = "horizon" if horizon is not None else "min_visits" if min_visits is not None else "epsilon"
            message = f"{name} cannot be combined with best_tail, which searches among all stationary policies"
            raise ParameterError(message, code="conflicting-arguments", argument=name)
        neutral_problem = problem_of(model, posterior, 0.0, reward_posterior)
        shown[name_of_tail(tail_alpha)] = search_tail(neutral_problem, tail_alpha, first, exclude, random, threads)
    returns = posterior_returns(
        model,
        posterior,
        shown,
        first,
        draws if given or draws is not None else _usual_draws(model, horizon, regret),
        None if given and unknown is None else random,
        horizon=horizon,
        terminal_value=terminal_value,
        quantiles=quantiles,
        tail_alpha=tail_alpha,
        regret=regret,
        reward_posterior=reward_posterior,
        baseline=baseline,
        threads=threads,
    )
    compared = returns
    if baseline is not None or best_tail:
        returns = compared.isel(policy=slice(len(levels))).assign_coords(policy=np.array(levels))
    recommended, worse = _verdict(returns)
    if honest is not None:
        recommended = honest_level(honest, levels)
    found = None
    if best_tail:
        tells = _comparison(compared, len(levels))
        place = len(levels)
        found = judged_tail(shown[name_of_tail(tail_alpha)], compared, place, levels.index(recommended), tells)
    if worse:
        sentences = "; ".join(_cautions(worse, returns))
        message = f"higher risk levels earn less, on average and in the tail: {sentences}"
        warnings.warn(CautionWarning(message, code="caution", value=worse), stacklevel=2)
    weights = [_weights(solution) for solution in chosen.values()]  # [S, A] or [T, S, A]
    mean = problem_of(model, posterior, 0.0, reward_posterior)
    known = mean.mean_mdp()
    spent = [mean_visits(model, belief, policy, first, known) for policy in weights]  # [S] or [T, S]
    today = None
    if baseline is not None:
        done, final = read_baseline(baseline, mean), None if horizon is None else model.final_values(terminal_value)
        parts = np.stack(
            [contributions(known, policy, done, visited, final) for policy, visited in zip(weights, spent, strict=True)]
        )
        today = Today(done, compared, parts, parts.sum(axis=1))
    other = _weights(neutral)
    where = [abs(policy - other).max(axis=-1) > SAME for policy in weights]
    share = np.array(
        [float((visited * there).sum() / visited.sum()) for visited, there in zip(spent, where, strict=True)]
    )
    differs = np.stack([there.reshape(-1, model.n_states).any(axis=0) for there in where])
    shares = np.stack([visited.reshape(-1, model.n_states).sum(axis=0) / visited.sum() for visited in spent])
    return RiskProfile(
        tuple(levels),
        chosen,
        neutral,
        returns,
        differs,
        shares,
        recommended,
        worse,
        share,
        tuple(spent),
        today,
        honest,
        found,
    )


def _usual_draws(model: UncertainMDP, horizon: int | None, regret: bool) -> int:
    """Return the number of draws for the returns where none is given."""
    work = model.n_states**2 * (model.n_states if horizon is None else horizon)
    small = work <= SMALL_WORK and model.entries.next_state.size <= SMALL_ENTRIES and not regret
    return SMALL_DRAWS if small else DEFAULT_DRAWS


def _first(actions: Any) -> Any:
    """Return the actions [S] at the first time of a policy [S] or [T, S]."""
    return actions if actions.ndim == 1 else actions[0]


def _weights(solution: Solution) -> FloatArray:
    """Return the policy of a solution as probabilities [S, A], or [T, S, A] with a horizon."""
    random = solution.policy.ndim > solution.value.ndim
    return solution.policy if random else np.eye(len(solution.actions))[solution.policy]


def _keep_neutral(solution: Solution, neutral: Solution) -> Solution:
    """Return the solution with the neutral action, or mixture of actions, wherever that is as good."""
    if solution.horizon is not None and solution.policy.ndim == 2:
        rows = (..., np.newaxis)
        best, other = (
            np.take_along_axis(solution.q, policy[rows], -1)[..., 0] for policy in (solution.policy, neutral.policy)
        )
        as_good = other >= best - 2.0 * solution.error_bound
    elif solution.policy.ndim > solution.value.ndim:
        best, other = (
            (policy * np.where(policy > 0.0, solution.q, 0.0)).sum(axis=-1)
            for policy in (solution.policy, neutral.policy)
        )
        as_good = (other >= best - 2.0 * solution.error_bound)[..., np.newaxis]
    else:
        best, other = solution.q_of(solution.policy), solution.q_of(neutral.policy)
        as_good = other >= best - 2.0 * solution.error_bound
    return solution.with_policy(np.where(as_good, neutral.policy, solution.policy))


class _Verdict(NamedTuple):
    """The recommended level, and pairs (higher, lower) where the lower level is better."""

    recommended: float
    worse: tuple[tuple[float, float], ...]


def _verdict(returns: xarray.Dataset) -> _Verdict:
    alphas, draws = returns.policy.values.tolist(), returns.returns.values
    tail = float(returns.attrs["tail_alpha"])
    freedom = CVaR(tail).outermost(draws.shape[0]).weights.size - 1
    pairs = list(combinations(range(len(alphas)), 2))
    if freedom < 1 or not pairs:
        return _Verdict(alphas[0], ())
    exceeds = _comparison(returns, len(pairs))
    beaten = {low for low, high in pairs if exceeds(high, low, True)}
    worse = tuple(
        (alphas[high], alphas[low]) for low, high in pairs if exceeds(low, high, True) and exceeds(low, high, False)
    )
    return _Verdict(next(alpha for i, alpha in enumerate(alphas) if i not in beaten), worse)


def _comparison(returns: xarray.Dataset, pairs: int) -> Callable[[int, int, bool], bool]:
    """Return a function that says whether policy i is significantly better than j, in tail or in mean."""
    draws, tail = returns.returns.values, float(returns.attrs["tail_alpha"])
    freedom = CVaR(tail).outermost(draws.shape[0]).weights.size - 1
    terms = cvar_terms(draws, tail)
    width = float(stdtrit(freedom, 1.0 - FALSE_ALARM / pairs)) if freedom > 0 else np.inf
    rounding = 2.0 * float(returns.attrs["error_bound"])

    def exceeds(higher: int, lower: int, in_tail: bool) -> bool:
        used = terms if in_tail else draws
        gain = estimate_mean(used[:, higher] - used[:, lower])
        return bool(gain.value > rounding and gain.value > width * gain.error)

    return exceeds


def _cautions(worse: Sequence[tuple[float, float]], returns: xarray.Dataset) -> list[str]:
    """Return a sentence for every level that is worse than a lower one, which compares it with the best of these."""
    levels = returns.policy.values.tolist()
    mean, cvar = (dict(zip(levels, returns[name].values, strict=True)) for name in ("mean", "cvar"))
    best = {high: max((low for other, low in worse if other == high), key=lambda low: cvar[low]) for high, _ in worse}
    return [
        f"level {high:g} is worse than {low:g}: mean return {mean[high]:.4g} against {mean[low]:.4g}, "
        f"CVaR {cvar[high]:.4g} against {cvar[low]:.4g}"
        for high, low in sorted(best.items())
    ]
