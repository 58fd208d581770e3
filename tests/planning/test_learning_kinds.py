"""Plans that learn, of any kind of model: two or three outcomes, masks, ends, impossible outcomes, shared sources.

The recursion is over counts, in many digits; its rows are integrals over polygons and incomplete Beta functions of
mpmath (``benchmarks._luck_reference``), which share nothing with the library.
"""

import mpmath as mp
import numpy as np
import pytest

import prudent as pr
from benchmarks._luck_reference import reference

LEVELS = (-0.9, -0.5, -0.1, 0.0, 0.3, 0.5, 0.9, 0.99)


class Kind:
    """A random model with up to three states, actions, sources and outcomes."""

    def __init__(self, rng):
        S, A, K = (int(n) for n in rng.integers(1, 4, 3))
        self.horizon = int(rng.integers(1, 4 if K < 3 else 3))
        admissible = rng.random((S, A)) < 0.75
        admissible[np.arange(S), rng.integers(0, A, S)] = True
        self.final, self.terminal = rng.normal(size=S) * rng.choice([0.0, 1.0]), None
        if S > 1 and rng.random() < 0.3:
            admissible[0] = False
            self.terminal = {0: float(rng.normal())}
            self.final[0] = self.terminal[0]
        admissible[-1, ~admissible.any(axis=0)] = True  # every action is somewhere
        source = np.where(admissible, rng.integers(0, int(rng.integers(1, 4)), (S, A)), -1)
        used, places = np.unique(source[admissible], return_inverse=True)
        source[admissible] = places
        self.follows = rng.integers(0, S, (S, A, K))
        if rng.random() < 0.4:
            self.follows[rng.random((S, A, K)) < 0.3] = -2
        self.counts = rng.choice([1.0, 2.0, 5.0], (used.size, K))
        rare = [0.1, 0.5, 1.7, 30.0, 1000.0]
        self.counts[np.arange(used.size), rng.integers(0, K, used.size)] = rng.choice(rare, used.size)
        if K > 1 and rng.random() < 0.5:  # an outcome that is not there, or that is known to be impossible
            b, k = int(rng.integers(used.size)), int(rng.integers(K))
            self.counts[b, k] = 0.0
            if rng.random() < 0.5:
                self.follows[..., k][source == b] = -1
        self.reward = rng.normal(size=(S, A, K)).round(2) * float(rng.choice([1.0, 1e6, 1e-7]))
        self.discount, self.alpha = float(rng.choice([0.0, 0.5, 0.9, 1.0])), float(rng.choice(LEVELS))
        self.source, self.admissible, self.known = source, admissible, {}

    def plan(self):
        """Return the plan of the library."""
        model = pr.UncertainMDP(self.source, self.follows, self.reward, discount=self.discount, terminal=self.terminal)
        problem = pr.BayesianRiskMDP(model, self.counts, self.alpha)
        return problem.solve(horizon=self.horizon, learning=True, terminal_value=self.final)

    def value(self, time, state, seen):
        """Return the value of a node, and keep what its actions are worth."""
        if self.terminal is not None and state == 0:
            return mp.mpf(self.terminal[0])
        if time == self.horizon:
            return mp.mpf(float(self.final[state]))
        node = time, state, seen
        if node not in self.known:
            actions = np.flatnonzero(self.admissible[state]).tolist()
            self.known[node] = {action: self.worth(time, state, action, seen) for action in actions}
        return max(self.known[node].values())

    def worth(self, time, state, action, seen):
        """Return what an action is worth at a node."""
        b, y, psi = int(self.source[state, action]), [], []
        possible = np.flatnonzero(self.counts[b] > 0.0).tolist()
        for k in possible:
            place, later = b * self.counts.shape[1] + k, mp.mpf(0)
            more = seen if len(possible) == 1 else (*seen[:place], seen[place] + 1, *seen[place + 1 :])
            after = int(self.follows[state, action, k])
            if after >= 0:
                later = self.value(time + 1, after, more)
            y.append(mp.mpf(float(self.reward[state, action, k])) + mp.mpf(self.discount) * later)
            psi.append(float(self.counts[b, k] + seen[place]))
        return reference(y, psi, [(self.alpha, 1.0)], [(0.0, 1.0)]).value


@pytest.mark.parametrize("part", [range(8), pytest.param(range(8, 400), marks=pytest.mark.slow)], ids=["few", "many"])
def test_plans_of_any_kind_equal_the_recursion(part):
    """Values within the error bound, in the first states and wherever the plan may come; the best actions there."""
    for case in part:
        kind = Kind(np.random.default_rng([24, case]))
        plan = kind.plan()
        with mp.workdps(40):
            for state in range(len(kind.final)):
                if kind.terminal is None or state > 0:
                    truth = kind.value(0, state, (0,) * kind.counts.size)
                    assert abs(mp.mpf(plan.value[state]) - truth) <= plan.error_bound, case
            for (time, state, seen), worth in kind.known.items():
                now, best = kind.counts + np.reshape(seen, kind.counts.shape), max(worth.values())
                assert abs(mp.mpf(plan.value_at(state, now, time)) - best) <= plan.error_bound, case
                assert worth[plan.act(state, now, time)] >= best - 2.0 * plan.error_bound, case
