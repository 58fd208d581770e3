"""What to measure next: the expected gain from more observations of each source.

Let psi be the Dirichlet counts, and c the counts of m further observations of source b. Before they are made, c is
Dirichlet-multinomial: theta[b] from the posterior, then c from theta[b]. Afterwards the posterior of b is psi[b] + c,
and the policy at level alpha is worked out anew. Write pi and pi(c) for the policy now and then, R(pi; c) for what pi
returns from the start in the model at the posterior mean after c, and V, V(c) for the optimal value from the start.

    gain           E[ R(pi(c); c) - R(pi; c) ]      what deciding anew with the data adds to the mean return
    value_change   E[ V(c) ] - V                    how much the value itself rises: the caution that data removes
    switch         P( pi(c) is not pi )             in a state that pi comes to

**Sources are ranked by gain**, then by value_change. Data that changes no decision changes nothing that happens; it
has no gain, although at alpha > 0 it comforts, which value_change counts too.

- At alpha = 0 the gain is never negative. Where the return is linear in the source it is the classic value of
  sample information, E[max R(c)] - max R, and equals value_change. Where a path meets a source more than once the
  return is not linear in it. Then R at the posterior mean stands for the posterior mean of the return, an
  approximation; and value_change also holds the curvature of the return, which no decision earns and which may have
  either sign.
- At alpha > 0 a policy that is cautious by choice is not the one of largest mean return, so that a gain may be
  negative: data can also make a policy more cautious.

**Expectations.** All c are enumerated if they are few (exact: no standard error). Else c is sampled, half of them from
a posterior that is twice as wide, with weights, because the data that changes a policy may be rare. What value_change
owes to the shift of the posterior mean, whose expectation is zero, is taken off as a control variate. A gain of 0
with a standard error of 0 says that no data set in the sample changed the policy.

**What is skipped**, because neither gain nor value_change can differ from zero:

    one outcome         there is nothing to learn
    out of reach        no policy leads from the start to a pair that draws from it
    same worth          its outcomes are worth the same wherever it is used, so the values now are those after any c
    never attractive    the policy does not use it, and no m observations make a pair that does better than the policy.
                        To give an observation to the outcome that is worth most moves the posterior of the worth
                        upwards (write Dirichlet weights as gammas), so m observations of that outcome are the test.

**Which come first.** ``promise`` is a guess of the gain: to first order in the change of the values, and as if the
posterior mean of what a pair is worth moved like a normal variable. It costs next to nothing and orders the sources;
``limit`` spends the work on the first ones. It is no bound.

**Other sources.** A source that one state draws from changes nothing but what this state is worth: the values of all
others follow it along a curve that is the same for all c (:mod:`prudent.analysis._pinned`), and each c is one equation
with one unknown. At alpha = 0 the curve has straight parts and is exact. At alpha > 0 it is worked out at nine points
of each part, or where the data sets are if they are few. If several states draw from the source, the problem is
solved again for each c. Leads of less than 1e-7 of the range of what outcomes are worth do not change a policy; and at
alpha > 0, with more than 50 states, a change of value is known to about a thousandth of itself, as rows that hardly
bend are taken as straight.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._numerics.compile import default_threads, each_row, over_rows
from .._support.checks import FloatArray, IntArray, generator, risk_level, whole_number
from .._support.progress import Progress
from ..data.labels import Labels
from ..display.frame import drawn
from ..errors import ParameterError
from ..models.uncertain import UncertainMDP
from ..planning.problem import BayesianRiskMDP
from ..planning.solution import Solution
from ..posteriors.dirichlet import DirichletPosterior
from ..posteriors.scalar import BetaPosterior, NormalPosterior
from ._data_study import NOT_LOOKED_AT, SKIPPED, Answer, Study
from .value_of_data_figure import in_words, value_of_data_figure

if TYPE_CHECKING:
    import pandas
    import xarray
    from matplotlib.figure import Figure as Canvas

__all__ = ["ValueOfData", "value_of_data"]

MOST = 10**9  # observations
SHOWN = 10  # sources in a repr


@dataclass(frozen=True, repr=False)
class ValueOfData:
    """What more observations of each source are worth, most valuable first in tables; made by :func:`value_of_data`.

    Arrays run over ``source``. Errors are standard errors, zero where all data sets were enumerated. Sources that were
    not looked at have NaN.
    """

    source: IntArray  # [B'] the sources that were asked for, as numbers; ``names`` has their names
    gain: FloatArray  # [B'] expected gain of the mean return from the start
    gain_error: FloatArray
    value_change: FloatArray  # [B'] expected rise of the Bayesian-risk value from the start
    value_change_error: FloatArray
    switch: FloatArray  # [B'] probability that the policy changes in a state that it comes to
    method: npt.NDArray[Any]  # [B'] "exact", "sampled", "not looked at", or why there was nothing to work out
    promise: FloatArray  # [B'] a quick guess of the gain
    observations: int
    alpha: float
    replications: int
    solution: Solution = field(repr=False)  # now
    value: float  # of the present policy from the start: its Bayesian-risk value
    mean_return: float  # and its return at the posterior mean
    _model: UncertainMDP = field(repr=False)
    _posterior: DirichletPosterior = field(repr=False)

    @property
    def names(self) -> list[Hashable]:
        """What the sources are called: (state, action) where each pair has its own; numbers if they have no names."""
        known = self._model.sources
        return self.source.tolist() if known is None else [known[b] for b in self.source.tolist()]

    @property
    def ranking(self) -> list[Hashable]:
        """The sources by name, most valuable first; what was not looked at comes last."""
        names = self.names
        return [names[i] for i in self._order().tolist()]

    def _order(self) -> IntArray:
        return np.lexsort((self.source, -self.promise, -self.value_change, -self.gain))

    def to_pandas(self) -> pandas.DataFrame:
        """Return a table with one row for each source, most valuable first.

        source : its name, or its number.
        state, action : of the pair that draws from it; None if several do, of which ``pairs`` is the number.
        gain, gain_error, value_change, value_change_error, switch : see :func:`value_of_data`.
        promise : a quick guess of the gain, by which the sources were looked at.
        evidence : observations beyond the prior. A posterior made from counts alone has none; see ``total_count``.
        total_count : the same with the prior.
        method : "exact", "sampled", "not looked at", or why there was nothing to work out.
        """
        import pandas

        model, A = self._model, self._model.n_actions
        users = np.flatnonzero(model.source >= 0)
        order = users[np.argsort(model.source.flat[users], kind="stable")]
        first = np.searchsorted(model.source.flat[order], np.arange(model.n_sources + 1))
        pairs, alone = np.diff(first)[self.source], order[first[self.source]].tolist()
        states, actions = model.states or range(model.n_states), model.actions or range(A)
        single = (pairs == 1).tolist()
        counts = self._posterior.counts[self.source]
        table = pandas.DataFrame(
            {
                "source": _cells(self.names),
                "state": _cells([states[p // A] if one else None for p, one in zip(alone, single, strict=True)]),
                "action": _cells([actions[p % A] if one else None for p, one in zip(alone, single, strict=True)]),
                "pairs": pairs,
                "gain": self.gain,
                "gain_error": self.gain_error,
                "value_change": self.value_change,
                "value_change_error": self.value_change_error,
                "switch": self.switch,
                "promise": self.promise,
                "evidence": (counts - self._posterior.prior[self.source]).sum(axis=1),
                "total_count": counts.sum(axis=1),
                "method": self.method,
            }
        )
        return table.iloc[self._order()].reset_index(drop=True)

    def to_xarray(self) -> xarray.Dataset:
        """Return the numbers as a dataset over ``source`` (its number), in the order of the model.

        ``name`` is what the source is called, as text.
        """
        table = self.to_pandas().drop(columns=["source", "state", "action"])
        table["name"] = [str(name) for name in self.ranking]
        table["source"] = self.source[self._order()]
        settings = ("observations", "alpha", "replications", "value", "mean_return")
        return (
            table.set_index("source")
            .sort_index()
            .to_xarray()
            .assign_attrs({name: getattr(self, name) for name in settings})
        )

    def plot(self) -> Canvas:
        """Return a figure of the most valuable sources: gain, and caution removed, with 95% intervals."""
        return drawn(value_of_data_figure(self))

    def __repr__(self) -> str:
        table = self.to_pandas()
        skipped, unseen = table["method"].isin(list(SKIPPED)), table["method"] == NOT_LOOKED_AT.method
        lines = [
            f"Value of {in_words(self.observations)} of a source, at alpha {self.alpha:g}; the policy now returns "
            f"{self.mean_return:.6g} at the posterior mean, its value is {self.value:.6g}"
        ]
        seen = table[~skipped & ~unseen]
        shown = seen.head(SHOWN)
        if len(shown):
            one_each = (shown["pairs"] == 1).all()
            known = "evidence" if table["evidence"].any() else "total_count"
            numbers = ["gain", "gain_error", "value_change", "value_change_error", "switch", known]
            columns = (["state", "action"] if one_each else ["source", "pairs"]) + numbers
            formats = dict.fromkeys(numbers, "{:.4g}".format)
            lines.append(shown[columns].to_string(index=False, formatters=formats))
        if len(seen) > len(shown):
            lines.append(f"and {len(seen) - len(shown)} more")
        for reason, count in table.loc[skipped, "method"].value_counts().items():
            lines.append(f"{count} of {len(table)} sources {SKIPPED[str(reason)]}: zero")
        if unseen.any():
            lines.append(
                f"{unseen.sum()} of {len(table)} sources were not looked at; by a rough guess "
                f"none of them gains more than {table.loc[unseen, 'promise'].max():.3g}"
            )
        return "\n".join(lines)


def value_of_data(
    model: UncertainMDP,
    posterior: DirichletPosterior | Any,
    alpha: float = 0.0,
    observations: int = 1,
    *,
    start: Any = None,
    sources: Any = None,
    indices: bool = False,
    limit: int | None = None,
    replications: int = 200,
    rng: Any = None,
    threads: int | None = None,
) -> ValueOfData:
    """Return, for each source, the expected gain in the decision's quality from more observations of it.

    Parameters
    ----------
    model, posterior, alpha : the problem, as for :class:`BayesianRiskMDP`. Its rewards count as known.
    observations : how many more of one source, m.
    start : where the process begins: a state, a mapping from states to probabilities, or probabilities [S]. By default
        every state that is not terminal is equally likely.
    sources : which to look at; by default all. A name or a list of names where the model has names for its sources,
        which are pairs (state, action) in models from a log or a reward table; or numbers, also with ``indices=True``.
        The columns state and action of a table will do.
    limit : the most sources to work out: those that promise most, by a quick guess of the gain. Sources that cannot
        matter do not count. The others are reported as not looked at.
    replications : data sets sampled for each source, where there are too many to look at all of them; at least 4.
    rng : a seed or a Generator.
    threads : how many to use, by default all cores.

    The result holds, for each source, ``gain``: by how much re-deciding with the data raises the expected return;
    ``value_change``: by how much it raises the Bayesian-risk value, which counts the caution that data removes;
    ``switch``: how likely the data is to change the policy. It ranks by gain, prints as a table, and has
    ``to_pandas``, ``to_xarray`` and ``plot``. The head of :mod:`prudent.analysis.value_of_data` defines them.

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
    m = whole_number(observations, "observations", 1, MOST)
    count = whole_number(replications, "replications", 4)
    most = None if limit is None else whole_number(limit, "limit", 1)
    workers = default_threads() if threads is None else whole_number(threads, "threads")
    if isinstance(posterior, NormalPosterior | BetaPosterior):
        raise ParameterError(
            f"the value of data is about the outcomes of sources, whose posterior is a DirichletPosterior; "
            f"got a {type(posterior).__name__}, and data on rewards is not looked at"
        )
    problem = BayesianRiskMDP(model, posterior, risk_level(alpha, cautious=True))
    model.require_discounted("the value of data")
    if problem.posterior is None:
        raise ParameterError("the value of data needs a DirichletPosterior or counts: draws cannot learn")
    asked = np.arange(model.n_sources) if sources is None else _sources(sources, model, indices)
    study = Study(problem, m, count, model.start_distribution(start), workers)
    reasons, promise = study.reasons(), study.promise()
    found = {b: Answer(method=reasons[b]) if reasons[b] else NOT_LOOKED_AT for b in asked.tolist()}
    promise[[bool(reason) for reason in reasons]] = 0.0
    open_ones = np.array([b for b in asked.tolist() if not reasons[b]], dtype=np.int64)
    chosen = open_ones[np.argsort(-promise[open_ones], kind="stable")][:most]
    # a stream for each source: the numbers depend neither on threads nor on which others are asked for
    seeds = np.random.SeedSequence(int(generator(rng).integers(2**63))).spawn(model.n_sources)
    progress = Progress("value of data")
    done = 0

    def work(i: int, j: int) -> None:
        nonlocal done
        for row in each_row(i, j):
            b = int(chosen[row])
            found[b] = study.of_source(b, np.random.default_rng(seeds[b]))
            done += 1
            progress.show(f"source {done} of {chosen.size}")

    over_rows(work, chosen.size, workers, long=True)
    progress.close()
    columns = {name: np.array([getattr(found[b], name) for b in asked.tolist()]) for name in Answer._fields}
    return ValueOfData(
        source=asked,
        **columns,
        promise=promise[asked],
        observations=m,
        alpha=study.alpha,
        replications=count,
        solution=study.now,
        value=float(study.whole_start @ study.now.value),
        mean_return=float(study.whole_start @ study.mean_value),
        _model=model,
        _posterior=problem.posterior.copy(),
    )


def _sources(sources: Any, model: UncertainMDP, indices: bool) -> IntArray:
    """Return the numbers of the sources that a caller means, ascending."""
    named = None if indices else model.naming.sources
    labels = named or Labels("source", None, model.n_sources)
    if hasattr(sources, "__array__"):
        sources = np.asarray(sources, dtype=object).tolist()
    elif not isinstance(sources, list | tuple | str):
        sources = list(sources) if hasattr(sources, "__iter__") else [sources]
    if isinstance(sources, list):  # rows of a table are pairs
        sources = [tuple(each) if isinstance(each, list) else each for each in sources]
    if isinstance(sources, list | tuple) and not len(sources):
        raise ParameterError("sources is empty: name at least one")
    return np.unique(np.atleast_1d(labels.indices(sources, "sources", ParameterError)))


def _cells(values: list[Any]) -> npt.NDArray[Any]:
    """Return a column of names: numbers stay numbers, tuples stay whole."""
    if values and all(type(value) is int for value in values):
        return np.array(values)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
