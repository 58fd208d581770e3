"""The best risk of the return, of any kind of problem: ties, masks, ends, and rewards of any size; by enumeration."""

import itertools

import numpy as np
import pytest

import prudent as pr
from prudent.risk import Mean, Mixture, WorstCase

KINDS = ("plain", "ties", "deterministic", "identical", "large", "small", "nearly equal", "zero", "repeated")


class Kind:
    """A random problem, and the returns of all of its policies by dense solves of NumPy."""

    def __init__(self, rng):
        S, A, K = int(rng.integers(1, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        n, kind = int(rng.choice([1, 2, 3, 10, 37, 100])), str(rng.choice(KINDS))
        self.discount = float(rng.choice([0.0, 0.5, 0.9, 0.99, 0.999]))
        self.admissible = rng.random((S, A)) < 0.8
        self.admissible[np.arange(S), rng.integers(0, A, S)] = True
        self.terminal = {0: float(rng.normal())} if S > 1 and rng.random() < 0.3 else None
        if self.terminal:
            self.admissible[0] = False
        self.admissible[-1, ~self.admissible.any(axis=0)] = True
        source = np.arange(S * A).reshape(S, A) if rng.random() < 0.5 else rng.integers(0, 2, (S, A))
        used, places = np.unique(source[self.admissible], return_inverse=True)
        self.source = np.full((S, A), -1)
        self.source[self.admissible] = places
        self.follows = rng.integers(0, S, (S, A, K))
        if rng.random() < 0.3:
            self.follows[rng.random((S, A, K)) < 0.3] = -2
        self.reward = rng.normal(size=(S, A, K)) * {"large": 1e8, "small": 1e-8, "zero": 0.0}.get(kind, 1.0)
        if kind == "ties":
            self.reward = np.round(self.reward)
        if kind == "nearly equal":
            self.reward = 1e6 + 1e-3 * self.reward
        theta = rng.dirichlet(np.full(K, float(rng.choice([0.05, 0.5, 5.0]))), (n, used.size))
        if kind == "deterministic":
            theta = np.eye(K)[rng.integers(0, K, (n, used.size))]
        elif kind == "identical":
            theta = np.repeat(theta[:1], n, axis=0)
        elif kind == "repeated":
            theta = theta[rng.integers(0, max(1, n // 5), n)]
        self.theta = theta
        start = rng.dirichlet(np.ones(S)) if rng.random() < 0.5 else np.eye(S)[rng.integers(S)]
        if self.terminal:
            start[0] = 0.0
            start = start / start.sum() if start.sum() > 0.0 else np.eye(S)[1]
        self.start = start
        level = float(rng.choice([-0.9, -0.5, 0.0, 0.3, 0.5, 0.9, 0.99]))
        measures = (
            pr.CVaR(level),
            pr.VaR(abs(level)),
            pr.MeanCVaR(level, weight=0.3),
            pr.Spectral(lambda u: u**0.5),
            pr.Spectral(lambda u: u**2),
            Mixture((0.0, 0.5, 0.95), (0.2, 0.3, 0.5)),
            WorstCase(),
            Mean(),
        )
        self.risk = measures[rng.integers(len(measures))]

    def problem(self):
        """Return the problem of the library."""
        model = pr.UncertainMDP(self.source, self.follows, self.reward, self.discount, terminal=self.terminal)
        return pr.BayesianRiskMDP(model, draws=self.theta, alpha=0.5)

    def worths(self):
        """Return all policies [M, S], the risk of each, and the largest return."""
        S, A, K = self.reward.shape
        usable = [np.flatnonzero(row) if row.any() else np.zeros(1, int) for row in self.admissible]
        policies, rows = np.array(list(itertools.product(*usable))), np.arange(S)
        returns = np.empty((len(policies), len(self.theta)))
        for i, theta in enumerate(self.theta):
            chance, gain = np.zeros((S, A, S)), np.zeros((S, A))
            for s, a, k in itertools.product(range(S), range(A), range(K)):
                if self.source[s, a] >= 0:
                    p = theta[self.source[s, a], k]
                    gain[s, a] += p * self.reward[s, a, k]
                    if self.follows[s, a, k] >= 0:
                        chance[s, a, self.follows[s, a, k]] += p
            if self.terminal:
                gain[0] = self.terminal[0]
            for j, policy in enumerate(policies):
                system = np.eye(S) - self.discount * chance[rows, policy]
                returns[j, i] = self.start @ np.linalg.solve(system, gain[rows, policy])
        return policies, np.array([float(self.risk(row)) for row in returns]), abs(returns).max()


@pytest.mark.parametrize(
    "part", [range(20), pytest.param(range(20, 2_000), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_the_best_policy_of_any_kind_of_problem_is_that_of_enumeration(part):
    """Value, bound and gap; a search that is stopped after a node says so, and goes on."""
    for case in part:
        kind = Kind(np.random.default_rng([24, case]))
        policies, worths, scale = kind.worths()
        truth, slack = worths.max(), 1e-9 * scale / np.sqrt(1.0 - kind.discount)
        search = {"objective": pr.PosteriorRisk(kind.risk), "start": kind.start, "threads": 1}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("prudent.planning.posterior_risk.warn_caller", lambda _: None)
            stopped = pr.solve(kind.problem(), max_iterations=1, **search)
        for best in (stopped, stopped if stopped.converged else stopped.resume()):
            assert best.objective_value <= truth + slack, case
            assert best.upper_bound >= truth - slack, case
            (own,) = np.flatnonzero((policies == np.where(kind.source.max(axis=1) < 0, 0, best.policy)).all(axis=1))
            assert worths[own] == pytest.approx(best.objective_value, abs=slack), case
            assert best.gap > 1e-9 * scale or best.converged, case
        assert best.converged, case
        assert truth - best.objective_value <= best.gap + slack, case
        assert best.gap <= 1e-6 * scale + 1e-12, case
