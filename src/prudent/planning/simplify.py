"""A rule to remember: short lists of rules, or small trees, that lose least of the return of a policy.

A list of k rules has k - 1 conditions with an action each, tried in order, and an action for all other states. A tree
with k leaves asks one condition after the other, and each leaf is a rule that can be read alone. A rule applies where
its condition holds and its action is admissible. Where no rule applies the policy itself is followed.

**What is minimised** is the loss of return from the start, in the model at the posterior mean, not the number of
states that differ. Small sizes are searched exhaustively, larger ones grow (``prudent.planning.rule_search``). A form
that grew may not be the best. No policy at all earns more than the best one of that model, so that no list or tree
can be better by more than what the best policy is better: the ``bound`` of the table.

**Horizons.** A policy of T steps is one of the T S pairs of step and state, and rules may speak of the step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._numerics.compile import default_threads
from .._support.checks import generator, one_of, whole_number
from ..display.words import plural, visible
from ..errors import ParameterError
from ..types import FloatArray, IntArray, Label, RngLike, StartLike
from .base import PlanningProblem
from .conditions import conditions_of, read_columns, read_timed_columns
from .drawn_policies import Belief, DrawnPolicies, NamedPolicy
from .rule_search import SETTLED, ListSearch, Search, TreeSearch
from .rule_values import PolicyValues, TimedPolicyValues

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Canvas

    from ..display.figures.base import Figure

MOST_RULES = 12
FORMS = ("list", "tree")
TAIL = 0.1  # share of the posterior in the worst tenth


class Rule(NamedTuple):
    """One rule: a condition in words (None for all other states) and the action.

    Attributes
    ----------
    condition : str or None
        When the rule applies; None for the last rule of a list.
    action : hashable
        Name of the action.
    states : int
        Number of states in which it decides; with a horizon, of pairs of step and state.
    """

    condition: str | None
    action: Label
    states: int


class RuleList(NamedTuple):
    """A list of rules or a tree, the policy that it stands for, and what it loses.

    Attributes
    ----------
    form : {"list", "tree"}
        Rules that are tried in order, or the leaves of a tree, of which exactly one holds.
    rules : tuple of Rule
        The rules, in the order in which they are tried.
    policy : ndarray of int of shape (S,) or (T, S)
        Index of the action of each state, with a horizon at each step.
    value : float
        Return from the start in the model at the posterior mean.
    loss : float
        Return of the whole policy less that.
    mean_loss, worst_loss : float
        Mean of the loss over the posterior, and of its worst tenth; ``loss`` itself in a known model.
    time_differs : float
        Share of (discounted) time that the list spends in states where its action is another one.
    states_differ : int
        Number of these states; with a horizon, of pairs of step and state.
    exact : bool
        Whether all of so many rules were tried, so that none loses less.
    bound : float
        By how much another of so many rules could be better, at most.
    """

    form: str
    rules: tuple[Rule, ...]
    policy: IntArray
    value: float
    loss: float
    mean_loss: float
    worst_loss: float
    time_differs: float
    states_differ: int
    exact: bool
    bound: float

    def sentences(self) -> list[str]:
        """Return the rules as sentences.

        Returns
        -------
        list of str
            One for each rule.
        """
        lines = []
        for i, rule in enumerate(self.rules):
            if rule.condition is None:
                where = "Always" if len(self.rules) == 1 else "Otherwise"
                lines.append(f"{where}: {rule.action}.")
            else:
                begin = "If" if i == 0 or self.form == "tree" else "Else if"
                lines.append(f"{begin} {rule.condition}: {rule.action}.")
        return lines


@dataclass(frozen=True, eq=False, repr=False)
class Simplified:
    """Short lists of rules, or small trees, in place of a policy: the result of ``Solution.simplify``.

    Attributes
    ----------
    lists : tuple of RuleList
        The best list or tree found of each number of rules, from 1 on. A longer one that is no better is left out.
    value : float
        Return of the whole policy from the start, in the model at the posterior mean.
    start : str
        Where the process begins, in words.
    draws : int
        Number of posterior draws of the losses; 0 in a known model.
    fallback : int
        Number of states in which no rule of the last list applies, so that the policy itself is followed.

    See Also
    --------
    prudent.planning.Solution.simplify : Simplify a policy.
    """

    lists: tuple[RuleList, ...]
    value: float
    start: str
    draws: int
    fallback: int

    @property
    def best(self) -> RuleList:
        """The list that loses least."""
        return self.lists[-1]

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the list that loses least."""
        return self.best.rules

    @property
    def policy(self) -> IntArray:
        """Its policy: the index of the action of each state."""
        return self.best.policy

    def sentences(self) -> list[str]:
        """Return the rules of the list that loses least, as sentences.

        Returns
        -------
        list of str
            One for each rule.
        """
        return self.best.sentences()

    def to_pandas(self) -> pandas.DataFrame:
        """Return what is lost with each number of rules.

        Returns
        -------
        DataFrame
            A row for each list: rules (how many), value, loss, mean_loss, worst_loss, time_differs, states_differ,
            exact, bound, and text, the sentences.
        """
        import pandas

        names = ("value", "loss", "mean_loss", "worst_loss", "time_differs", "states_differ", "exact", "bound")
        columns: dict[str, Any] = {"rules": [len(each.rules) for each in self.lists]}
        columns |= {name: [getattr(each, name) for each in self.lists] for name in names}
        columns["text"] = [" ".join(each.sentences()) for each in self.lists]
        return pandas.DataFrame(columns)

    def record(self) -> dict[str, Any]:
        """Return the rules and what they lose, as a dict for JSON.

        Returns
        -------
        dict
            Keys sentences, value (of the whole policy), mean_loss, worst_loss, states_differ, time_differs, and curve,
            the rows of ``to_pandas``.
        """
        best = self.best
        names = ("mean_loss", "worst_loss", "states_differ", "time_differs")
        record: dict[str, Any] = {"sentences": self.sentences(), "value": self.value}
        record |= {name: getattr(best, name) for name in names}
        return record | {"curve": self.to_pandas().to_dict("records")}

    def figure(self) -> Figure:
        """Return the figure of ``plot`` as panels for a page.

        Returns
        -------
        prudent.display.figures.base.Figure
            Figure with one panel.
        """
        from ..display.figures import simplify as figures

        table = self.to_pandas()
        worst = table["worst_loss"].to_numpy() if self.draws else None
        return figures.draw(table["rules"].to_numpy(), table["mean_loss"].to_numpy(), worst, self.value, self.start)

    def plot(self) -> Canvas:
        """Plot what is lost against the number of rules.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        return self.figure().to_matplotlib()

    def __repr__(self) -> str:
        best = self.best
        lines = self.sentences()
        if self.fallback:
            where = plural(self.fallback, "state")
            lines.append(f"In {where} where no rule is admissible: as in the whole policy.")
        over = (
            f" on average over {self.draws:,} posterior draws, {best.worst_loss:.3g} in the worst tenth"
            if self.draws
            else ""
        )
        lines.append(
            f"It loses {best.mean_loss:.3g}{over}, of {self.value:.5g} from {self.start}; it differs in "
            f"{plural(best.states_differ, 'state')} and {best.time_differs:.0%} of the time."
        )
        for each in self.lists[:-1]:
            count = len(each.rules)
            lines.append(f"With {count} rule{'s' * (count > 1)}: loses {each.mean_loss:.3g}.")
        return visible("\n".join(lines))


def simplify_policy(
    solution: Any,
    problem: PlanningProblem,
    max_rules: int,
    columns: Any,
    form: str,
    start: StartLike,
    draws: int,
    rng: RngLike,
) -> Simplified:
    """Return short lists of rules, or trees, for the policy of a solution; see ``Solution.simplify``."""
    if solution.bias is not None:
        message = "simplify is for returns; solve with a discount instead of objective='average'"
        raise ParameterError(message, code="average-reward", method="simplify")
    if solution.later is not None:
        message = "simplify is not for a policy that goes on after its horizon; use at(time), or a horizon without risk"
        raise ParameterError(message, code="time-axis", method="simplify")
    policy: IntArray = solution.chosen
    final: FloatArray | None = None if solution.horizon is None else solution.value[-1]  # [S] after the last step
    most = whole_number(max_rules, "max_rules", 1, MOST_RULES)
    one_of(form, "form", FORMS)
    count = whole_number(draws, "draws", 2, memory=64.0)
    model, mdp = problem.model, problem.mean_mdp()
    first = model.start_distribution(start)
    acting = ~model.terminal & (mdp.admissible.sum(axis=1) > 1)
    if final is None:
        described, values = read_columns(columns, model), PolicyValues(mdp, policy, first)
    else:
        described, acting = read_timed_columns(columns, model, len(policy)), np.tile(acting, len(policy))
        values = TimedPolicyValues(mdp, policy, first, final)
    atoms = conditions_of(described, acting)
    if columns is not None and not atoms:
        message = "columns tell no two states apart in which there is something to choose"
        raise ParameterError(message, code="no-conditions", argument="columns")
    search: Search[Any] = ListSearch(values, atoms) if form == "list" else TreeSearch(values, atoms, acting)
    kept: list[tuple[Any, bool]] = []
    for each, exact in search.run(most):
        if not kept or search.worth(each) > search.worth(kept[-1][0]) + SETTLED * abs(values.value):
            kept.append((each, exact))
    policies = [search.policy(each).reshape(policy.shape) for each, _ in kept]
    drawn = _losses(problem, policy, policies, first, count, rng, final)
    top = values.value if all(exact for _, exact in kept) else values.most()
    lists = tuple(
        _described(search, form, each, 0.0 if exact else top - search.worth(each), drawn, i, model.actions)
        for i, (each, exact) in enumerate(kept)
    )
    where = np.flatnonzero(first)
    words = model.state_labels.show(int(where[0])) if where.size == 1 else f"{where.size} states"
    fallback = int((acting & (search.actions(kept[-1][0]) < 0)).sum())
    return Simplified(lists, values.value, words, 0 if drawn is None else count, fallback)


def _described(
    search: Search[Any],
    form: str,
    found: Any,
    bound: float,
    drawn: FloatArray | None,
    column: int,
    actions: Sequence[Label],
) -> RuleList:
    """Return a list or tree with its words and numbers; ``drawn`` [N, J] has the losses of all of them."""
    values, flat = search.values, search.policy(found)
    rules = tuple(Rule(said.condition, actions[said.action], int(said.states.sum())) for said in search.said(found))
    visits, differs = values.visits(flat), (flat != values.full) & ~values.terminal
    worth = search.worth(found)
    mean_loss = worst = loss = values.value - worth
    if drawn is not None:
        losses = drawn[:, column]
        mean_loss = float(losses.mean())
        worst = float(np.sort(losses)[-max(1, round(TAIL * losses.size)) :].mean())
    share = float(visits[differs].sum() / visits.sum()) if visits.sum() > 0.0 else 0.0
    policy = flat.reshape(values.shape)
    return RuleList(
        form,
        rules,
        policy,
        worth,
        loss,
        mean_loss,
        worst,
        share,
        int(differs.sum()),
        bound == 0.0,
        max(bound, 0.0),
    )


def _losses(
    problem: Any,
    policy: IntArray,
    policies: Sequence[IntArray],
    start: FloatArray,
    count: int,
    rng: RngLike,
    final: FloatArray | None,
) -> FloatArray | None:
    """Return the losses [N, J] of policies over posterior draws; None for a known model."""
    counts, draws = getattr(problem, "posterior", None), getattr(problem, "draws", None)
    if counts is None and draws is None:
        return None
    model, pack = problem.model, problem.model.entries.pack
    if draws is not None:
        belief, count = Belief(None, pack(draws), model.entries.begin), draws.shape[0]
    else:
        assert counts is not None
        belief = Belief(pack(counts.counts), None, model.entries.begin)
    eye = np.eye(model.n_actions)
    named = [NamedPolicy(i, eye[each], None) for i, each in enumerate([policy, *policies])]
    horizon = None if final is None else len(policy)
    engine = DrawnPolicies(model, belief, named, start, False, problem.reward_posterior, horizon, final)
    returns = engine.run(count, int(generator(rng).integers(2**63)), default_threads()).policies
    return np.asarray(returns[:, :1] - returns[:, 1:])
