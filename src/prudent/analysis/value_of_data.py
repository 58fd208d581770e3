"""Value of data: the expected gain from more observations of each source.

Let psi be the Dirichlet counts, and c the counts of m further observations of source b. Before they are made, c is
Dirichlet-multinomial: theta[b] from the posterior, then c from theta[b]. Afterwards the posterior of b is psi[b] + c,
and the policy at level alpha is computed again. Write pi and pi(c) for the policy now and then, R(pi; c) for the return
of pi from the start in the model at the posterior mean after c, and V, V(c) for the optimal value from the start.

    gain           E[ R(pi(c); c) - R(pi; c) ]      what deciding again with the data adds to the mean return
    value_change   E[ V(c) ] - V                    rise of the value: the caution that data removes
    switch         P( pi(c) differs from pi )       in a state that pi visits

**Sources are ranked by gain**, then by value_change. Data that changes no decision has no gain; at alpha > 0 it may
still raise the value.

- At alpha = 0 the gain is never negative. Where the return is linear in the source it is the classic value of
  sample information, E[max R(c)] - max R, and equals value_change. Where a path meets a source more than once the
  return is not linear in it. Then R at the posterior mean stands for the posterior mean of the return, an
  approximation; and value_change also contains the curvature of the return, which no decision earns and which may have
  either sign.
- At alpha > 0 the policy is not the one of largest mean return, so a gain may be negative: data can also make a policy
  more cautious.

**Expectations.** All c are enumerated if they are few (exact, no standard error). Otherwise c is sampled, half of them
from a posterior that is twice as wide, with weights, because the data that changes a policy may be rare. The part of
value_change that comes from the shift of the posterior mean, whose expectation is zero, is removed as a control
variate. Standard errors are calibrated for few replications (``prudent.analysis.future_data``): 1.96 of them cover, and
if no data set in the sample changed the policy the error says how much a rare one could.

**Skipped sources**, for which neither gain nor value_change can differ from zero:

    one outcome         there is nothing to learn
    out of reach        no policy leads from the start to a pair that draws from it
    same worth          its outcomes are worth the same wherever it is used, so the values do not change
    never attractive    the policy does not use it, and no m observations make a pair that does better than the policy.
                        Giving an observation to the outcome that is worth most moves the posterior of the worth
                        upwards (write Dirichlet weights as gammas), so m observations of that outcome are the test.

**Order of work.** ``promise`` is a guess of the gain: to first order in the change of the values, and as if the
posterior mean of what a pair is worth moved like a normal variable. It costs little and orders the sources; ``limit``
spends the work on the first ones. It is not a bound.

**Method.** A source that one state draws from changes only what this state is worth: the values of all other states
follow it along a curve that is the same for all c (``prudent.analysis.value_curve``), and each c is one equation
with one unknown. At alpha = 0 the curve is piecewise linear and exact. At alpha > 0 it is computed at nine points of
each piece, or at the data sets if they are few. If several states draw from the source, the problem is solved again for
each c. Differences below 1e-7 of the range of what outcomes are worth do not change a policy; and at alpha > 0, with
more than 50 states, a change of value has a relative error of about a thousandth, as nearly straight rows are taken as
straight.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads
from .._support.checks import generator, require_scale, require_shape, risk_level, whole_number
from ..data.columns import as_column
from ..data.labels import Labels
from ..data.policy import Policy
from ..display.figures import value_of_data as figures
from ..display.words import plural
from ..errors import ParameterError
from ..models.base import read_pairs
from ..models.entries import END
from ..models.uncertain import UncertainMDP
from ..planning.drawn_policies import over_units
from ..planning.ends import find_over
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..planning.unknown_rewards import RewardsLike
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ..types import ArrayLike, FloatArray, IntArray, Label, PairsLike, RngLike, StartLike, TerminalValueLike
from .data_effects import NOT_EVALUATED, SKIPPED, DataEffects, Effect
from .horizon_effects import HorizonEffects

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure as Canvas

MAX_OBSERVATIONS = 10**9
SHOWN = 10  # sources in a repr
RECORDED = 20  # sources in a record


@dataclass(frozen=True, eq=False, repr=False)
class ValueOfData:
    """Value of more observations of each source: the result of ``value_of_data``.

    Arrays [B'] run over the sources that were asked for. Errors are standard errors, zero where all data sets were
    enumerated. Sources that were not evaluated have NaN.

    Attributes
    ----------
    source : ndarray [B']
        Numbers of the sources.
    gain, gain_error : ndarray [B']
        Expected gain of the mean return from the start when the policy is computed again with the data.
    value_change, value_change_error : ndarray [B']
        Expected rise of the Bayesian-risk value from the start.
    switch : ndarray [B']
        Probability that the data changes the policy in a state that it visits.
    method : ndarray [B']
        "exact", "sampled", "not evaluated", or why the source was skipped.
    promise : ndarray [B']
        First-order guess of the gain, by which the sources were ordered.
    names : tuple
        Names of the sources: (state, action) where each pair has its own; numbers if they have no names.
    states, actions : tuple
        State and action of the pair that draws from a source; None if several pairs do.
    pairs : ndarray [B']
        Number of pairs that draw from a source.
    evidence : ndarray [B']
        Observations beyond the prior. It is 0 for a posterior made from counts alone.
    total_count : ndarray [B']
        Observations including the prior.
    observations : int
        Number of further observations of one source.
    alpha : float
        Risk level.
    replications : int
        Number of sampled data sets for each source.
    solution : Solution
        Solution with the present data.
    value : float
        Bayesian-risk value of its policy from the start.
    mean_return : float
        Return of its policy from the start, at the posterior mean.

    See Also
    --------
    value_of_data : Compute the value of data.
    """

    source: IntArray
    gain: FloatArray
    gain_error: FloatArray
    value_change: FloatArray
    value_change_error: FloatArray
    switch: FloatArray
    method: npt.NDArray[Any]
    promise: FloatArray
    names: tuple[Label, ...]
    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    pairs: IntArray
    evidence: FloatArray
    total_count: FloatArray
    observations: int
    alpha: float
    replications: int
    solution: Solution
    value: float
    mean_return: float

    @property
    def ranking(self) -> list[Label]:
        """Names of the sources, most valuable first; those that were not evaluated come last."""
        return [self.names[i] for i in self._order().tolist()]

    @property
    def left_out(self) -> int:
        """Number of sources that were not evaluated."""
        return int(np.count_nonzero(self.method == NOT_EVALUATED.method))

    def _order(self) -> IntArray:
        return np.lexsort((self.source, -self.promise, -self.value_change, -self.gain))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with a row for each source, most valuable first.

        Returns
        -------
        DataFrame
            Columns source (its name or number), state, action, pairs, gain, gain_error, value_change,
            value_change_error, switch, promise, evidence, total_count and method: see the attributes.
        """
        import pandas

        labels = {"source": self.names, "state": self.states, "action": self.actions}
        columns = {name: as_column(values) for name, values in labels.items()}
        numbers = ("pairs", "gain", "gain_error", "value_change", "value_change_error", "switch", "promise")
        columns |= {name: getattr(self, name) for name in (*numbers, "evidence", "total_count", "method")}
        return pandas.DataFrame(columns).iloc[self._order()].reset_index(drop=True)

    def to_xarray(self) -> xarray.Dataset:
        """Return the numbers as a dataset over ``source``, in the order of the model.

        Returns
        -------
        xarray.Dataset
            The numeric columns of ``to_pandas``, method, and name as text; settings as attributes.
        """
        table = self.to_pandas().drop(columns=["source", "state", "action"])
        table["name"] = [str(name) for name in self.ranking]
        table["source"] = self.source[self._order()]
        settings = ("observations", "alpha", "replications", "value", "mean_return")
        data = table.set_index("source").sort_index().to_xarray()
        return data.assign_attrs({name: getattr(self, name) for name in settings})

    def plot(self) -> Canvas:
        """Plot gain and rise of the value of the most valuable sources, with 95% intervals.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return figures.draw(self.to_pandas(), self.observations, self.alpha).to_matplotlib()

    def record(self) -> dict[str, Any]:
        """Return settings and the most valuable sources, for JSON.

        Returns
        -------
        dict
            Keys observations, alpha, mean_return, sources, left_out and ranking.
        """
        table = self.to_pandas()
        columns = ["state", "action", "gain", "gain_error", "value_change", "switch", "evidence"]
        useful = table.loc[(table["gain"] != 0.0) | (table["value_change"] != 0.0), columns]
        return {
            "observations": self.observations,
            "alpha": self.alpha,
            "mean_return": self.mean_return,
            "sources": self.source.size,
            "left_out": self.left_out,
            "ranking": useful.head(RECORDED).to_dict("records"),
        }

    def __repr__(self) -> str:
        lines = [
            f"ValueOfData: {plural(self.observations, 'more observation')} of one source at alpha {self.alpha:g}; "
            f"mean return {self.mean_return:.6g}, value {self.value:.6g}"
        ]
        skipped = np.isin(self.method, list(SKIPPED))
        unseen = self.method == NOT_EVALUATED.method
        evaluated = [i for i in self._order().tolist() if not (skipped[i] or unseen[i])]
        for i in evaluated[:SHOWN]:
            lines.append(
                f"{self.names[i]!s:>24}: gain {self.gain[i]:.4g} ± {self.gain_error[i]:.2g}, value change "
                f"{self.value_change[i]:.4g} ± {self.value_change_error[i]:.2g}, switch {self.switch[i]:.4g}"
            )
        if len(evaluated) > SHOWN:
            lines.append(f"and {len(evaluated) - SHOWN:,} more")
        total = self.source.size
        for reason, words in SKIPPED.items():
            count = int(np.count_nonzero(self.method == reason))
            if count:
                lines.append(f"{count} of {total} sources {words}: zero")
        if unseen.any():
            top = self.promise[unseen].max()
            lines.append(f"{unseen.sum()} of {total} sources were not evaluated; largest guess of their gain {top:.3g}")
        return "\n".join(lines)


def value_of_data(
    model: UncertainMDP,
    posterior: DirichletPosterior | ArrayLike,
    alpha: float = 0.0,
    observations: int = 1,
    *,
    start: StartLike = None,
    solution: Solution | None = None,
    horizon: int | None = None,
    terminal_value: TerminalValueLike = None,
    sources: Label | Iterable[Label] | None = None,
    indices: bool = False,
    limit: int | None = None,
    exclude: PairsLike = None,
    exclude_data: PairsLike = None,
    replications: int = 200,
    reward_posterior: RewardsLike = None,
    rng: RngLike = None,
    threads: int | None = None,
) -> ValueOfData:
    """Compute, for each source, the expected gain from deciding again after more observations of it.

    Parameters
    ----------
    model : UncertainMDP
        The known part of the model. Without a horizon its discount is below 1, or the process ends whatever is done.
    posterior : DirichletPosterior or array_like [B, K]
        The posterior or its counts.
    alpha : float, default=0
        Risk level in [0, 1).
    observations : int, default=1
        Number m of further observations of one source.
    start : state, dict or array_like [S], optional
        Where the process begins: a state, a dict {state: probability} or probabilities. By default every state that is
        not terminal is equally likely.
    solution : Solution, optional
        Solution of this problem at this level, as ``risk_profile`` returns it. By default the problem is solved.
    horizon : int, optional
        Number of steps, as for ``prudent.solve``; by default that of `solution`.
    terminal_value : array_like of shape (S,), float or mapping, optional
        What states are worth after the horizon.

    Returns
    -------
    ValueOfData
        For each source: ``gain``, by how much deciding again with the data raises the expected return;
        ``value_change``, by how much the data raises the Bayesian-risk value; ``switch``, the probability that the
        policy changes. ``prudent.analysis.value_of_data`` has the definitions.

    Other Parameters
    ----------------
    sources : name, or sequence of names, optional
        Sources to evaluate, by default all. Names are pairs (state, action) in models from a log or a reward table;
        the columns state and action of a table are accepted too. Sources without names are numbers.
    indices : bool, default=False
        Whether `sources` are numbers although the sources have names.
    limit : int, optional
        Maximum number of sources to evaluate: those with the largest ``promise``. Skipped sources do not count.
    exclude : dict or list of pairs, optional
        What must not be done, as for ``prudent.solve``: now, and after the data. More data on such a pair has no value,
        so it is not among the sources.
    exclude_data : dict or list of pairs, optional
        Pairs that may be part of a policy but must not be tried for the sake of data: sources that only these (and
        excluded) pairs draw from are not among the sources, whatever their value would be.
    replications : int, default=200
        Number of sampled data sets for each source where not all can be enumerated; at least 4.
    reward_posterior : NormalPosterior or "certain", optional
        Unknown mean rewards [S, A], by default those of the model, as for ``BayesianRiskMDP``. Observations of a pair
        with a source of its own teach its mean reward as well. They are sampled, and what not knowing a reward costs at
        level ``alpha`` is taken as it is at the present values.
    rng : int or Generator, optional
        Source of randomness.
    threads : int, optional
        Number of threads, by default all cores.

    Raises
    ------
    ParameterError
        If `posterior` is not a DirichletPosterior or counts, or an argument is out of range.
    ModelError
        If the discount of `model` is 1.

    See Also
    --------
    risk_profile : Compare risk levels.

    Examples
    --------
    A known action pays 0.5; another one has paid 1 in 2 of 5 cases. One more trial is worth nothing, two are:

    >>> model = UncertainMDP([[0, 1]], next_state=[[[0, -1], [0, 0]]], reward=[[[0.5, 0.0], [1.0, 0.0]]], discount=0.9)
    >>> [float(value_of_data(model, [[1, 0], [2, 3]], observations=m).gain[1]) for m in (1, 2)]
    [0.0, 0.1429]

    By name:

    >>> care = UncertainMDP.direct([[0.0, 0.0], [1.0, 1.0]], 0.9, states=["ill", "well"], actions=["old", "new"])
    >>> asked = [("ill", "new"), ("well", "old")]
    >>> value_of_data(care, care.prior(), observations=5, sources=asked, start="ill").ranking
    [('ill', 'new'), ('well', 'old')]
    """
    m = whole_number(observations, "observations", 1, MAX_OBSERVATIONS)
    count = whole_number(replications, "replications", 4, memory=256.0)
    most = None if limit is None else whole_number(limit, "limit", 1)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    is_scalar = isinstance(posterior, NormalPosterior | BetaPosterior)
    level = risk_level(alpha, cautious=True)
    problem = None if is_scalar else BayesianRiskMDP(model, posterior, level, reward_posterior=reward_posterior)
    if problem is None or problem.posterior is None:
        kind = type(posterior).__name__ if problem is None else "draws"
        message = f"posterior must be a DirichletPosterior or counts, got {kind}"
        raise ParameterError(
            message, code="wrong-type", argument="posterior", value=kind, expected="DirichletPosterior"
        )
    steps = None if solution is None else solution.horizon
    if horizon is not None:
        steps = whole_number(horizon, "horizon", maximum=10**9)
    if steps is None and terminal_value is not None:
        message = "terminal_value says what states are worth after a horizon; give horizon as well"
        raise ParameterError(message, code="missing-argument", argument="horizon")
    final = model.final_values(terminal_value)
    require_scale(np.append(model.entries.reward, final), "the value of data")
    asked = np.arange(model.n_sources) if sources is None else _sources(sources, model, indices)
    known = problem.posterior
    if exclude is not None:
        problem = problem.without(exclude)
    asked = np.setdiff1d(asked, _not_to_measure(problem.model, exclude_data))
    if not asked.size:
        message = "exclude and exclude_data leave nothing to measure"
        raise ParameterError(message, code="empty", argument="exclude")
    if steps is None:
        problem = _ended(problem)
    timed: dict[str, Any] = {} if steps is None else {"horizon": steps, "terminal_value": terminal_value}
    now = problem.solve(threads=threads, **timed) if solution is None else solution
    shape = (model.n_states,) if steps is None else (steps, model.n_states)
    letters = "a policy [S]" if steps is None else "a policy [T, S]"
    require_shape(now.policy, "solution", shape, letters, error=ParameterError)
    if exclude is not None:
        Policy.read(now, problem.model, steps)  # which refuses a solution that does what is excluded
    first = model.start_distribution(start)
    study: DataEffects | HorizonEffects
    if steps is None:
        study = DataEffects(problem, now, m, count, first, workers)
    else:
        study = HorizonEffects(problem, now, m, count, first, final, workers)
    reasons, promise = study.skip_reasons(), study.promise()
    effects = {b: Effect(method=reasons[b]) if reasons[b] else NOT_EVALUATED for b in asked.tolist()}
    promise[[bool(reason) for reason in reasons]] = 0.0
    candidates = np.array([b for b in asked.tolist() if not reasons[b]], dtype=np.int64)
    chosen = candidates[np.argsort(-promise[candidates], kind="stable")][:most]
    # a stream for each source: the numbers depend neither on threads nor on which others are asked for
    seeds = np.random.SeedSequence(int(generator(rng).integers(2**63))).spawn(model.n_sources)

    def work(i: int) -> int:
        b = int(chosen[i])
        effects[b] = study.effect_of(b, np.random.default_rng(seeds[b]))
        return 1

    over_units(work, chosen.size, workers, "value of data", f"source {{}} of {chosen.size}")
    columns: dict[str, Any] = {
        name: np.array([getattr(effects[b], name) for b in asked.tolist()]) for name in Effect._fields
    }
    return ValueOfData(
        source=asked,
        **columns,
        promise=promise[asked],
        **_described(model, known, asked),
        observations=m,
        alpha=study.alpha,
        replications=count,
        solution=now,
        value=float(study.full_start @ (now.value if steps is None else now.value[0])),
        mean_return=float(study.full_start @ study.mean_value),
    )


def _ended(problem: BayesianRiskMDP) -> BayesianRiskMDP:
    """Return a problem at discount 1 in which no step leaves a state where nothing is earned any more."""
    if problem.model.discount < 1.0:
        return problem
    model = problem.model
    over = find_over(model, problem.mean_mdp().outcomes())
    if not over.any():
        return problem
    twin = copy.copy(problem)
    twin.model = copy.copy(model)
    entries = model.entries
    here = np.repeat(over, model.n_actions)[entries.pairs()]
    twin.model.entries = entries._replace(next_state=np.where(here, np.int32(END), entries.next_state))
    for made in ("next_state", "absorbing"):
        twin.model.__dict__.pop(made, None)
    return twin


def _not_to_measure(model: UncertainMDP, pairs: PairsLike) -> IntArray:
    """Return the sources that no pair draws from which is admissible and not among ``pairs``."""
    barred = read_pairs(pairs, model, "exclude_data") & ~model.terminal[:, np.newaxis]
    used = np.unique(model.source[model.admissible & ~barred])
    return np.setdiff1d(np.arange(model.n_sources), used)


def _described(model: UncertainMDP, posterior: DirichletPosterior, sources: IntArray) -> dict[str, Any]:
    """Return names, pairs and counts of sources as columns."""
    users = np.flatnonzero(model.source >= 0)
    order = users[np.argsort(model.source.flat[users], kind="stable")]
    first = np.searchsorted(model.source.flat[order], np.arange(model.n_sources + 1))
    pairs = np.diff(first)[sources]
    unique = [
        (model.states[p // model.n_actions], model.actions[p % model.n_actions]) if n == 1 else (None, None)
        for p, n in zip(order[first[sources]], pairs, strict=True)
    ]
    counts = posterior.counts[sources]
    return {
        "names": tuple(sources.tolist() if model.sources is None else [model.sources[b] for b in sources]),
        "states": tuple(state for state, _ in unique),
        "actions": tuple(action for _, action in unique),
        "pairs": pairs,
        "evidence": (counts - posterior.prior[sources]).sum(axis=1),
        "total_count": counts.sum(axis=1),
    }


def _sources(sources: Any, model: UncertainMDP, indices: bool) -> IntArray:
    """Return the numbers of the given sources, ascending."""
    named = None if indices else model.naming.sources
    labels = named or Labels("source", None, model.n_sources)
    if hasattr(sources, "__array__"):
        sources = np.asarray(sources, dtype=object).tolist()
    elif not isinstance(sources, list | tuple | str):
        sources = list(sources) if hasattr(sources, "__iter__") else [sources]
    if isinstance(sources, list):  # rows of a table are pairs
        sources = [tuple(row) if isinstance(row, list) else row for row in sources]
    if isinstance(sources, list | tuple) and not len(sources):
        raise ParameterError("sources is empty: name at least one", code="empty", argument="sources")
    return np.unique(np.atleast_1d(labels.indices(sources, "sources", ParameterError)))
