"""A rule to remember: short lists of rules that lose least of the return of a policy.

A list of k rules has k - 1 conditions with an action each, tried in order, and an action for all other states. A rule
applies where its condition holds and its action is admissible. Where no rule applies the policy itself is followed.

**What is minimised** is the loss of return from the start, in the model at the posterior mean, not the number of states
that differ. Let d be the visits of a list and A(s, a) what action a gains in one step over it. Inserting a rule that
changes the states M gains about the sum over M of d(s) A(s, a), which one matrix product gives for all conditions,
actions and places. The most promising ones are evaluated exactly.

**Search.** Where all lists of k rules are few they are all evaluated: the list is the best of its length. Longer lists
grow from the best ``BEAM`` of one rule less, and the best is improved by exchanging its rules one at a time. Such a
list may not be the best; no list can be better by more than its own loss, which is the ``bound`` of the table.

**Horizons.** A policy of T steps is one of the T S pairs of step and state, and rules may speak of the step. Values and
visits of all pairs are one pass back and one pass forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy

from .._numerics.compile import default_threads
from .._support.checks import generator, whole_number
from .._support.progress import Progress
from ..errors import ParameterError
from ..types import FloatArray, IntArray, Label, RngLike, StartLike
from .base import PlanningProblem
from .chain import DENSE, Chain
from .conditions import Condition, both, conditions_of, read_columns, read_timed_columns
from .drawn_policies import Belief, DrawnPolicies, NamedPolicy
from .ends import find_over

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure as Canvas

    from ..display.figures.base import Figure

MOST_RULES = 12
EXACT_LISTS = 4_000  # up to so many lists of a length, all are evaluated
BEAM = 3  # lists that are kept of each length
EXCHANGES = 2  # rounds in which rules of a list are exchanged
TRIED = 12  # lists that are evaluated for each list that grows
MAX_CONDITIONS = 1_500  # conditions and pairs of them
DENSE_NUMBERS = 10_000_000  # entries of a transition matrix that is kept dense
TAIL = 0.1  # share of the posterior in the worst tenth
SETTLED = 1e-12  # of the return: smaller improvements do not count


class Rule(NamedTuple):
    """One rule: a condition in words (None for all other states) and the action.

    Attributes
    ----------
    condition : str or None
        When the rule applies; None for the last rule.
    action : hashable
        Name of the action.
    states : int
        Number of states in which it decides; with a horizon, of pairs of step and state.
    """

    condition: str | None
    action: Label
    states: int


class RuleList(NamedTuple):
    """A list of rules, the policy that it stands for, and what it loses.

    Attributes
    ----------
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
        Whether no list of so many rules loses less.
    bound : float
        By how much another list of so many rules could be better, at most.
    """

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
                lines.append(f"{'If' if i == 0 else 'Else if'} {rule.condition}: {rule.action}.")
        return lines


@dataclass(frozen=True, eq=False, repr=False)
class Simplified:
    """Short lists of rules in place of a policy: the result of ``Solution.simplify``.

    Attributes
    ----------
    lists : tuple of RuleList
        The best list found of each number of rules, from 1 on. A longer list that is no better is left out.
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
            lines.append(f"In {self.fallback} states where no rule is admissible: as in the whole policy.")
        over = (
            f" on average over {self.draws:,} posterior draws, {best.worst_loss:.3g} in the worst tenth"
            if self.draws
            else ""
        )
        lines.append(
            f"It loses {best.mean_loss:.3g}{over}, of {self.value:.5g} from {self.start}; it differs in "
            f"{best.states_differ} states and {best.time_differs:.0%} of the time."
        )
        for each in self.lists[:-1]:
            count = len(each.rules)
            lines.append(f"With {count} rule{'s' * (count > 1)}: loses {each.mean_loss:.3g}.")
        return "\n".join(lines)


class _List(NamedTuple):
    """A list in the search: conditions by number, their actions, and the action of all other states."""

    rules: tuple[tuple[int, int], ...]
    other: int


class _Search:
    """Lists of rules for one policy in one known model."""

    def __init__(self, mdp: Any, policy: IntArray, start: FloatArray, conditions: Sequence[Condition]) -> None:
        self.mdp, self.full, self.start = mdp, policy, start
        self.admissible, self.terminal = mdp.admissible, mdp.terminal
        self.conditions = list(conditions)
        self.holds = np.array([condition.holds for condition in conditions]).reshape(-1, policy.size)
        self.states, self.n_actions = np.arange(mdp.n_states), mdp.n_actions
        self.used = np.flatnonzero(mdp.admissible[~mdp.terminal].any(axis=0))
        size = mdp.n_states
        self.dense = (
            self.mdp.transition.toarray() if size <= DENSE and size * size * self.n_actions <= DENSE_NUMBERS else None
        )
        self.known: dict[bytes, float] = {}
        self.begin(policy, start)

    def begin(self, policy: IntArray, start: FloatArray) -> None:
        """Evaluate the whole policy."""
        self.over = self.mdp.terminal.copy()
        if self.mdp.discount == 1.0:
            self.over |= find_over(self.mdp, self.mdp.outcomes(), None, must_end=False)
        self.guess = np.zeros(policy.size)
        self.guess = self.solved(policy, False)
        self.value = float(start @ self.guess)

    def policy(self, rules: _List) -> IntArray:
        """Return the policy of a list."""
        actions = np.where(self.admissible[:, rules.other], rules.other, self.full)
        for condition, action in reversed(rules.rules):
            where = self.holds[condition] & self.admissible[:, action]
            actions = np.where(where, action, actions)
        return np.asarray(np.where(self.terminal, self.full, actions))

    def worth(self, rules: _List) -> float:
        """Return the return of a list from the start."""
        policy = self.policy(rules)
        key = policy.tobytes()
        if key not in self.known:
            self.known[key] = float(self.start @ self.solved(policy, False))
        return self.known[key]

    def solved(self, policy: IntArray, back: bool) -> FloatArray:
        """Return the values [S] of a policy, or (``back``) its discounted visits from the start."""
        pairs = self.states * self.n_actions + policy
        reward = self.mdp.reward.reshape(-1)[pairs]
        if self.dense is not None:
            rows = np.where(self.over[:, np.newaxis], 0.0, self.dense[pairs])
            system = np.eye(policy.size) - self.mdp.discount * rows
            return np.asarray(np.linalg.solve(system.T if back else system, self.start if back else reward))
        matrix = self.mdp.transition[pairs]
        if self.mdp.discount == 1.0 and self.over.any():
            matrix = (scipy.sparse.diags_array((~self.over).astype(np.float64)) @ matrix).tocsr()
        right = self.start if back else reward
        matrix = matrix.T.tocsr() if back else matrix
        chain = Chain(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data, right)
        target = 1e-10 * float(abs(right).max())
        return chain.values(self.mdp.discount, np.zeros(policy.size) if back else self.guess, target, False)

    def ahead(self, value: FloatArray) -> FloatArray:
        """Return what actions [S A] are worth one step ahead of values [S]."""
        return np.asarray(self.mdp.reward.reshape(-1) + self.mdp.discount * (self.mdp.transition @ value))

    def inserted(self, rules: _List) -> list[_List]:
        """Return the most promising lists with one rule more, by first-order gains."""
        policy = self.policy(rules)
        value, visits = self.solved(policy, False), np.maximum(self.solved(policy, True), 0.0)
        lead = self.ahead(value).reshape(self.admissible.shape) - value[:, np.newaxis]
        gain = np.where(self.admissible & ~self.over[:, np.newaxis], visits[:, np.newaxis] * lead, 0.0)
        free = np.ones(policy.size, dtype=np.bool_)
        found: list[tuple[float, _List]] = []
        for place in range(len(rules.rules) + 1):
            scores = self.holds @ (gain * free[:, np.newaxis])  # [M, A]
            for flat in np.argsort(-scores, axis=None, kind="stable")[:TRIED].tolist():
                condition, action = divmod(flat, self.n_actions)
                longer = (*rules.rules[:place], (condition, action), *rules.rules[place:])
                found.append((float(scores[condition, action]), _List(longer, rules.other)))
            if place < len(rules.rules):
                condition, action = rules.rules[place]
                free = free & ~(self.holds[condition] & self.admissible[:, action])
        found.sort(key=lambda item: -item[0])
        return [candidate for _, candidate in found[: 2 * TRIED]]

    def exchanged(self, rules: _List) -> _List:
        """Return the list improved by exchanging its rules one at a time, and its last action."""
        best, top = rules, self.worth(rules)
        for _ in range(EXCHANGES):
            improved = False
            tried = [_List(best.rules, int(a)) for a in self.used]
            for i in range(len(best.rules)):
                tried += self.inserted(_List((*best.rules[:i], *best.rules[i + 1 :]), best.other))
            for candidate in tried:
                worth = self.worth(candidate)
                if worth > top + SETTLED * abs(self.value):
                    best, top, improved = candidate, worth, True
            if not improved:
                break
        return best

    def every(self, count: int) -> list[_List] | None:
        """Return all lists of ``count`` rules, if they are few."""
        kinds = len(self.conditions) * self.used.size
        if self.used.size * kinds ** (count - 1) > EXACT_LISTS:
            return None
        choices = list(product(range(len(self.conditions)), self.used.tolist()))
        return [_List(rules, int(a)) for rules in product(choices, repeat=count - 1) for a in self.used]

    def run(self, most: int) -> list[tuple[_List, bool]]:
        """Return the best list of each length up to ``most``, and whether it is the best of all."""
        progress, found = Progress("simplifying"), []
        beam: list[_List] = []
        for count in range(1, most + 1):
            lists = self.every(count)
            exact = lists is not None
            if lists is None:
                lists = [longer for each in beam for longer in self.inserted(each)] or beam
            ranked = sorted(dict.fromkeys(lists), key=lambda each: -self.worth(each))
            beam = ranked[:BEAM]
            if not exact:
                beam = [self.exchanged(beam[0]), *beam[1:]]
            progress.show(f"{count} of {most} rules")
            found.append((beam[0], exact))
            if not self.conditions or self.worth(beam[0]) >= self.value - SETTLED * abs(self.value):
                break
        progress.close()
        return found


class _TimedSearch(_Search):
    """Lists of rules for a policy [T, S] of T steps: states of the search are the T S pairs of step and state."""

    def __init__(
        self,
        mdp: Any,
        policy: IntArray,
        start: FloatArray,
        conditions: Sequence[Condition],
        final: FloatArray,
    ) -> None:
        self.steps, self.final = len(policy), final
        super().__init__(mdp, policy.reshape(-1), start, conditions)

    def begin(self, policy: IntArray, start: FloatArray) -> None:
        """Evaluate the whole policy, with states and start repeated over the steps."""
        self.start = np.concatenate((start, np.zeros(policy.size - start.size)))
        self.admissible = np.tile(self.mdp.admissible, (self.steps, 1))
        self.terminal = self.over = np.tile(self.mdp.terminal, self.steps)
        self.value = float(self.start @ self.solved(policy, False))

    def _rows(self, actions: IntArray) -> Any:
        """Return the matrix [S, S] of a policy [S] of one step."""
        pairs = self.states * self.n_actions + actions
        return self.mdp.transition[pairs] if self.dense is None else self.dense[pairs]

    def solved(self, policy: IntArray, back: bool) -> FloatArray:
        """Return the values [T S] of a policy [T S], or (``back``) its discounted visits from the start."""
        found = np.empty((self.steps, self.states.size))
        plan, discount, ended = policy.reshape(found.shape), self.mdp.discount, self.mdp.terminal
        if back:
            now = self.start[: self.states.size]
            for step, actions in enumerate(plan):
                found[step] = now
                now = discount * (self._rows(actions).T @ np.where(ended, 0.0, now))
            return found.reshape(-1)
        later = self.final
        for step in range(self.steps - 1, -1, -1):
            earned = self.mdp.reward[self.states, plan[step]]
            later = np.where(ended, self.mdp.terminal_value, earned + discount * (self._rows(plan[step]) @ later))
            found[step] = later
        return found.reshape(-1)

    def ahead(self, value: FloatArray) -> FloatArray:
        """Return what actions [T S A] are worth one step ahead of values [T S]."""
        later = np.vstack((value.reshape(self.steps, -1)[1:], self.final))
        return np.asarray(self.mdp.reward.reshape(1, -1) + self.mdp.discount * (self.mdp.transition @ later.T).T)


def simplify_policy(
    solution: Any,
    problem: PlanningProblem,
    max_rules: int,
    columns: Any,
    start: StartLike,
    draws: int,
    rng: RngLike,
) -> Simplified:
    """Return short lists of rules for the policy of a solution; see ``Solution.simplify``."""
    if solution.later is not None:
        message = "simplify is not for a policy that goes on after its horizon; use at(time), or a horizon without risk"
        raise ParameterError(message, code="time-axis", method="simplify")
    policy: IntArray = solution.chosen
    final: FloatArray | None = None if solution.horizon is None else solution.value[-1]  # [S] after the last step
    most = whole_number(max_rules, "max_rules", 1, MOST_RULES)
    count = whole_number(draws, "draws", 2, memory=64.0)
    model, mdp = problem.model, problem.mean_mdp()
    first = model.start_distribution(start)
    acting = ~model.terminal & (mdp.admissible.sum(axis=1) > 1)
    if final is None:
        described = read_columns(columns, model)
    else:
        described, acting = read_timed_columns(columns, model, len(policy)), np.tile(acting, len(policy))
    atoms = conditions_of(described, acting)
    if columns is not None and not atoms:
        message = "columns tell no two states apart in which there is something to choose"
        raise ParameterError(message, code="no-conditions", argument="columns")
    rules = _with_pairs(atoms)
    search = _Search(mdp, policy, first, rules) if final is None else _TimedSearch(mdp, policy, first, rules, final)
    found = search.run(most)
    kept: list[tuple[_List, bool]] = []
    for each, exact in found:
        if not kept or search.worth(each) > search.worth(kept[-1][0]) + SETTLED * abs(search.value):
            kept.append((each, exact))
    policies = [search.policy(each).reshape(policy.shape) for each, _ in kept]
    drawn = _losses(problem, policy, policies, first, count, rng, final)
    lists = tuple(
        _described(search, each, exact, chosen, model.actions, None if drawn is None else drawn[:, i])
        for i, ((each, exact), chosen) in enumerate(zip(kept, policies, strict=True))
    )
    rest = _covered(search, kept[-1][0])
    where = np.flatnonzero(first)
    words = model.state_labels.show(int(where[0])) if where.size == 1 else f"{where.size} states"
    fallback = int((acting & ~rest).sum())
    return Simplified(lists, search.value, words, 0 if drawn is None else count, fallback)


def _with_pairs(atoms: list[Condition]) -> list[Condition]:
    """Return conditions and, as far as there is room, pairs of them, each mask once."""
    found = {atom.holds.tobytes(): atom for atom in atoms}
    for i, first in enumerate(atoms):
        for second in atoms[i + 1 :]:
            if len(found) >= MAX_CONDITIONS:
                return list(found.values())
            pair = both(first, second)
            if pair.holds.any():
                found.setdefault(pair.holds.tobytes(), pair)
    return list(found.values())


def _covered(search: _Search, rules: _List) -> Any:
    """Return where some rule of a list applies [S]."""
    admissible = search.admissible
    covered = admissible[:, rules.other].copy()
    for condition, action in rules.rules:
        covered |= search.holds[condition] & admissible[:, action]
    return covered


def _described(
    search: _Search, rules: _List, exact: bool, policy: IntArray, actions: Sequence[Label], losses: FloatArray | None
) -> RuleList:
    """Return a list with its words and numbers."""
    left = ~search.terminal
    made = []
    for condition, action in rules.rules:
        applies = left & search.holds[condition] & search.admissible[:, action]
        made.append(Rule(search.conditions[condition].text, actions[action], int(applies.sum())))
        left = left & ~applies
    made.append(Rule(None, actions[rules.other], int((left & search.admissible[:, rules.other]).sum())))
    flat = policy.reshape(-1)
    visits = np.where(search.over, 0.0, np.maximum(search.solved(flat, True), 0.0))
    differs = (flat != search.full) & ~search.terminal
    worth = search.worth(rules)
    loss = search.value - worth
    mean_loss = worst = loss
    if losses is not None:
        mean_loss = float(losses.mean())
        worst = float(np.sort(losses)[-max(1, round(TAIL * losses.size)) :].mean())
    share = float(visits[differs].sum() / visits.sum()) if visits.sum() > 0.0 else 0.0
    bound = 0.0 if exact else max(loss, 0.0)
    return RuleList(tuple(made), policy, worth, loss, mean_loss, worst, share, int(differs.sum()), exact, bound)


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
