"""Search for short lists of rules, and for small trees, that lose least of the return of a policy.

Where all lists (or trees) of k rules are few they are all evaluated. Larger ones grow from the best ``BEAM`` of one
rule less, by the rules that gain most to first order (``prudent.planning.rule_values``): one matrix product gives
that for all conditions, actions and places. The most promising ones are evaluated exactly, and the best is improved
by exchanging its parts one at a time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Generic, NamedTuple, TypeVar, Union

import numpy as np

from .._support.progress import Progress
from ..types import BoolArray, FloatArray, IntArray
from .conditions import Condition, both, said_terms
from .rule_values import PolicyValues

EXACT_FORMS = 4_000  # up to so many lists or trees of a size, all are evaluated
BEAM = 3  # that are kept of each size
EXCHANGES = 2  # rounds in which parts are exchanged
TRIED = 12  # that are evaluated for each place where one grows
MAX_CONDITIONS = 1_500  # conditions, regions and pairs of conditions
MAX_REGIONS = 500
MOST_TERMS = 4  # conditions that make a region
SETTLED = 1e-12  # of the return: smaller improvements do not count

Form = TypeVar("Form")


class Said(NamedTuple):
    """One rule in words (None for a rule without a condition), its action, and where it decides [S]."""

    condition: str | None
    action: int
    states: BoolArray


class Search(ABC, Generic[Form]):
    """Lists or trees for one policy in one known model. A form is a tuple: a value that can be compared and hashed."""

    def __init__(self, values: PolicyValues, conditions: Sequence[Condition]) -> None:
        self.values, self.conditions = values, list(conditions)
        shape = (-1, values.full.size)
        self.holds = np.array([condition.holds for condition in conditions]).reshape(shape)
        self.cuts = np.array([condition.cuts for condition in conditions]).reshape(shape)
        self.used: list[int] = values.used.tolist()

    @abstractmethod
    def actions(self, form: Form) -> IntArray:
        """Return the action of each state [S], minus 1 where no rule applies."""

    @abstractmethod
    def clear(self, form: Form) -> bool:
        """Return whether no condition cuts through a state that it has to decide in."""

    @abstractmethod
    def number(self, count: int) -> int:
        """Return how many forms of ``count`` rules there are."""

    @abstractmethod
    def every(self, count: int) -> Iterator[Form]:
        """Yield them."""

    @abstractmethod
    def grown(self, form: Form) -> list[Form]:
        """Return the most promising larger forms, most of them with one rule more."""

    @abstractmethod
    def varied(self, form: Form) -> list[Form]:
        """Return promising forms that differ in one place; those of other sizes do not count."""

    @abstractmethod
    def size(self, form: Form) -> int:
        """Return the number of rules."""

    @abstractmethod
    def said(self, form: Form) -> list[Said]:
        """Return the rules in the order in which they are said."""

    def policy(self, form: Form) -> IntArray:
        """Return the policy of a form; where no rule applies, the whole policy is followed."""
        actions = self.actions(form)
        return np.where((actions < 0) | self.values.terminal, self.values.full, actions)

    def worth(self, form: Form) -> float:
        """Return the return of a form from the start."""
        return self.values.worth(self.policy(form))

    def run(self, most: int) -> list[tuple[Form, bool]]:
        """Return the best form of each number of rules up to ``most``, and whether no other is better."""
        progress, found = Progress("simplifying"), []
        beam: list[Form] = []
        pool: dict[int, list[Form]] = {}
        for count in range(1, most + 1):
            exact = self.number(count) <= EXACT_FORMS
            if exact:
                pool[count] = list(self.every(count))
            else:
                for more in (more for each in beam for more in self.grown(each)):
                    pool.setdefault(self.size(more), []).append(more)
            forms = [each for each in pool.get(count, []) if self.clear(each)] or beam
            beam = sorted(dict.fromkeys(forms), key=lambda each: -self.worth(each))[:BEAM]
            if not exact:
                beam = [self.exchanged(beam[0]), *beam[1:]]
            progress.show(f"{count} of {most} rules")
            found.append((beam[0], exact))
            if not self.conditions or self.worth(beam[0]) >= self.values.value - SETTLED * abs(self.values.value):
                break
        progress.close()
        return found

    def exchanged(self, form: Form) -> Form:
        """Return a form improved in one place at a time."""
        best, top = form, self.worth(form)
        for _ in range(EXCHANGES):
            improved = False
            for candidate in self.varied(best):
                if self.size(candidate) != self.size(form) or not self.clear(candidate):
                    continue
                worth = self.worth(candidate)
                if worth > top + SETTLED * abs(self.values.value):
                    best, top, improved = candidate, worth, True
            if not improved:
                break
        return best


# -- lists -------------------------------------------------------------------------------------------------


class RuleSequence(NamedTuple):
    """Conditions by number with their actions, tried in order, and the action of all other states."""

    rules: tuple[tuple[int, int], ...]
    other: int


class ListSearch(Search[RuleSequence]):
    """Lists of rules. A rule whose action is not admissible is passed over."""

    def __init__(self, values: PolicyValues, conditions: Sequence[Condition]) -> None:
        super().__init__(values, _conjunctions(conditions))

    def actions(self, form: RuleSequence) -> IntArray:  # noqa: D102
        admissible = self.values.admissible
        actions = np.where(admissible[:, form.other], form.other, -1)
        for condition, action in reversed(form.rules):
            actions = np.where(self.holds[condition] & admissible[:, action], action, actions)
        return actions

    def clear(self, form: RuleSequence) -> bool:  # noqa: D102
        left = np.ones(self.values.full.size, dtype=np.bool_)
        for condition, action in form.rules:
            if (self.cuts[condition] & left).any():
                return False
            left = left & ~(self.holds[condition] & self.values.admissible[:, action])
        return True

    def number(self, count: int) -> int:  # noqa: D102
        return len(self.used) * (len(self.conditions) * len(self.used)) ** (count - 1)

    def every(self, count: int) -> Iterator[RuleSequence]:  # noqa: D102
        choices = list(product(range(len(self.conditions)), self.used))
        return (RuleSequence(rules, a) for rules in product(choices, repeat=count - 1) for a in self.used)

    def grown(self, form: RuleSequence) -> list[RuleSequence]:  # noqa: D102
        gain = self.values.gains(self.policy(form))
        free = np.ones(gain.shape[0], dtype=np.bool_)
        found: list[tuple[float, RuleSequence]] = []
        for place in range(len(form.rules) + 1):
            scores = self.holds @ (gain * free[:, np.newaxis])  # [M, A]
            scores[(self.cuts & free).any(axis=1)] = -np.inf
            for flat in np.argsort(-scores, axis=None, kind="stable")[:TRIED].tolist():
                condition, action = divmod(flat, gain.shape[1])
                if scores[condition, action] == -np.inf:
                    break
                longer = (*form.rules[:place], (condition, action), *form.rules[place:])
                found.append((float(scores[condition, action]), RuleSequence(longer, form.other)))
            if place < len(form.rules):
                condition, action = form.rules[place]
                free = free & ~(self.holds[condition] & self.values.admissible[:, action])
        found.sort(key=lambda item: -item[0])
        return [candidate for _, candidate in found[: 2 * TRIED]]

    def varied(self, form: RuleSequence) -> list[RuleSequence]:  # noqa: D102
        found = [RuleSequence(form.rules, a) for a in self.used]
        for i in range(len(form.rules)):
            found += self.grown(RuleSequence((*form.rules[:i], *form.rules[i + 1 :]), form.other))
        return found

    def size(self, form: RuleSequence) -> int:  # noqa: D102
        return len(form.rules) + 1

    def said(self, form: RuleSequence) -> list[Said]:  # noqa: D102
        left, found = ~self.values.terminal, []
        for condition, action in form.rules:
            where = left & self.holds[condition] & self.values.admissible[:, action]
            found.append(Said(self.conditions[condition].text, action, where))
            left = left & ~where
        return [*found, Said(None, form.other, left & self.values.admissible[:, form.other])]


def _conjunctions(atoms: Sequence[Condition]) -> list[Condition]:
    """Return conditions, regions and pairs of them as far as there is room, each mask once."""
    found = {_key(atom): atom for atom in atoms}
    if any(atom.cuts.any() for atom in atoms):
        found |= {key: region for key, region in _regions(atoms).items() if key not in found}
    for i, first in enumerate(atoms):
        for second in atoms[i + 1 :]:
            if len(found) >= MAX_CONDITIONS:
                return list(found.values())
            pair = both(first, second)
            if pair.holds.any():
                found.setdefault(_key(pair), pair)
    return list(found.values())


def _regions(atoms: Sequence[Condition]) -> dict[bytes, Condition]:
    """Return sets of states that conditions single out one after the other, none of which cuts through what is left."""
    every = np.ones(atoms[0].holds.size, dtype=np.bool_)
    found: dict[bytes, Condition] = {}
    edge: list[tuple[BoolArray, tuple[Condition, ...]]] = [(every, ())]
    for _ in range(MOST_TERMS):
        outer: list[tuple[BoolArray, tuple[Condition, ...]]] = []
        for region, terms in edge:
            for atom in atoms:
                inside = region & atom.holds
                if (atom.cuts & region).any() or not inside.any() or (inside == region).all():
                    continue
                longer = (*terms, atom)
                text = " and ".join(term.text for term in said_terms(longer))
                made = Condition(text, inside, np.zeros_like(inside), "", f"not ({text})")
                if _key(made) not in found:
                    found[_key(made)] = made
                    outer.append((inside, longer))
                if len(found) >= MAX_REGIONS:
                    return found
        edge = outer
    return found


def _key(condition: Condition) -> bytes:
    return condition.holds.tobytes() + condition.cuts.tobytes()


# -- trees -------------------------------------------------------------------------------------------------


class Split(NamedTuple):
    """A node of a tree: a condition by number, and what is done where it holds and where not."""

    condition: int
    yes: Tree
    no: Tree


Tree = Union[int, Split]  # an action, or a node  # noqa: UP007


class TreeSearch(Search[Tree]):
    """Trees of conditions, whose leaves are the rules. A leaf is silent where its action is not admissible."""

    def __init__(self, values: PolicyValues, conditions: Sequence[Condition], acting: BoolArray) -> None:
        """``acting`` [S] says where there is something to choose: conditions that are opposites there are one."""
        kept: dict[bytes, Condition] = {}
        for each in conditions:
            keys = [(way.holds & acting).tobytes() + way.cuts.tobytes() for way in (each, each.opposite)]
            if keys[1] not in kept:
                kept.setdefault(keys[0], each)
        super().__init__(values, list(kept.values()))
        self.counts = [0, len(self.used)]  # trees of each number of leaves

    def actions(self, form: Tree) -> IntArray:  # noqa: D102
        actions = self._follow(form)
        return np.where(self.values.admissible[np.arange(actions.size), actions], actions, -1)

    def clear(self, form: Tree) -> bool:  # noqa: D102
        parts = self._parts(form)
        return not any((self.cuts[part.condition] & reach).any() for _, part, reach in parts if isinstance(part, Split))

    def _follow(self, tree: Tree) -> IntArray:
        """Return the action of the leaf of each state [S]."""
        if isinstance(tree, int):
            return np.full(self.values.full.size, tree)
        return np.where(self.holds[tree.condition], self._follow(tree.yes), self._follow(tree.no))

    def number(self, count: int) -> int:  # noqa: D102
        while len(self.counts) <= count:
            size = len(self.counts)
            pairs = sum(self.counts[i] * self.counts[size - i] for i in range(1, size))
            self.counts.append(len(self.conditions) * pairs)
        return self.counts[count]

    def every(self, count: int) -> Iterator[Tree]:  # noqa: D102
        if count == 1:
            yield from self.used
        for left in range(1, count):
            for condition in range(len(self.conditions)):
                for yes, no in product(self.every(left), list(self.every(count - left))):
                    yield Split(condition, yes, no)

    def grown(self, form: Tree) -> list[Tree]:  # noqa: D102
        gain, rows = self.values.gains(self.policy(form)), np.arange(len(self.conditions))
        found: list[tuple[float, Tree]] = []
        for path, leaf, reach in self._parts(form):
            if not isinstance(leaf, int):
                continue
            inside = gain * reach[:, np.newaxis]
            held = self.holds @ inside  # [M, A]
            free = inside.sum(axis=0) - held
            yes, no, same = held.argmax(axis=1), free.argmax(axis=1), np.full(len(held), leaf)
            blurred = (self.cuts & reach).any(axis=1)
            for a, b in ((yes, no), (yes, same), (same, no)):
                score = np.where((a == b) | blurred, -np.inf, held[rows, a] + free[rows, b])
                for m in np.argsort(-score, kind="stable")[:TRIED].tolist():
                    if score[m] > -np.inf:
                        found.append((float(score[m]), _replaced(form, path, Split(m, int(a[m]), int(b[m])))))
            found += [(worth, _replaced(form, path, part)) for worth, part in self._twice(inside, reach)]
        found.sort(key=lambda item: -item[0])
        sizes, larger = self.size(form) + 1, list(dict.fromkeys(tree for _, tree in found))
        one, two = ([tree for tree in larger if self.size(tree) == sizes + more] for more in (0, 1))
        return [*one[: 2 * TRIED], *two[: 2 * TRIED]]

    def _twice(self, gain: FloatArray, reach: BoolArray) -> list[tuple[float, Tree]]:
        """Return what a leaf gains that is split, and one of its parts again: often only the second split pays."""
        found: list[tuple[float, Tree]] = []
        for first in np.flatnonzero(~(self.cuts & reach).any(axis=1)).tolist():
            for way in (True, False):
                again = reach & (self.holds[first] == way)
                inside = gain * again[:, np.newaxis]
                rest, whole = (gain - inside).sum(axis=0), inside.sum(axis=0)
                held = self.holds @ inside  # [M, A]
                score = held.max(axis=1) + (whole - held).max(axis=1)
                score[(self.cuts & again).any(axis=1)] = -np.inf
                m = int(score.argmax())
                part, other = Split(m, int(held[m].argmax()), int((whole - held[m]).argmax())), int(rest.argmax())
                if score[m] > -np.inf and part.yes != part.no:
                    split = Split(first, part, other) if way else Split(first, other, part)
                    found.append((float(score[m] + rest[other]), split))
        found.sort(key=lambda item: -item[0])
        return found[:TRIED]

    def varied(self, form: Tree) -> list[Tree]:  # noqa: D102
        gain, rows = self.values.gains(self.policy(form)), np.arange(self.values.full.size)
        found: list[Tree] = []
        for path, part, reach in self._parts(form):
            if isinstance(part, int):
                found += [_replaced(form, path, action) for action in self.used if action != part]
                continue
            yes, no = gain[rows, self._follow(part.yes)], gain[rows, self._follow(part.no)]
            scores = self.holds @ np.where(reach, yes - no, 0.0)  # of another condition, less what all have
            scores[(self.cuts & reach).any(axis=1)] = -np.inf
            better = np.argsort(-scores, kind="stable")[:TRIED].tolist()
            found += [_replaced(form, path, part._replace(condition=m)) for m in better if m != part.condition]
            for kept, leaf in ((part.yes, part.no), (part.no, part.yes)):
                if isinstance(leaf, int):
                    found += self.grown(_replaced(form, path, kept))
        return found

    def _parts(
        self, tree: Tree, path: str = "", reach: BoolArray | None = None
    ) -> Iterator[tuple[str, Tree, BoolArray]]:
        """Yield all nodes and leaves with their paths, and the states [S] that reach them."""
        here = ~self.values.terminal if reach is None else reach
        yield path, tree, here
        if not isinstance(tree, int):
            holds = self.holds[tree.condition]
            yield from self._parts(tree.yes, path + "y", here & holds)
            yield from self._parts(tree.no, path + "n", here & ~holds)

    def size(self, form: Tree) -> int:  # noqa: D102
        return 1 if isinstance(form, int) else self.size(form.yes) + self.size(form.no)

    def said(self, form: Tree) -> list[Said]:  # noqa: D102
        found = []
        for path, leaf, reach in self._parts(form):
            if not isinstance(leaf, int):
                continue
            terms, node = [], form
            for turn in path:
                assert isinstance(node, Split)
                condition = self.conditions[node.condition]
                terms.append(condition if turn == "y" else condition.opposite)
                node = node.yes if turn == "y" else node.no
            text = " and ".join(each.text for each in said_terms(terms)) or None
            found.append(Said(text, leaf, reach & self.values.admissible[:, leaf]))
        return found


def _replaced(tree: Tree, path: str, part: Tree) -> Tree:
    """Return a tree with another part at a path."""
    if not path:
        return part
    assert isinstance(tree, Split)
    if path[0] == "y":
        return tree._replace(yes=_replaced(tree.yes, path[1:], part))
    return tree._replace(no=_replaced(tree.no, path[1:], part))
