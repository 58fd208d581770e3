"""Robust sets: rows against linear programmes and exact fractions, certificates, coverage, corners."""

import warnings
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from refusals import refused
from scipy import stats
from scipy.optimize import linprog

import prudent as pr
from prudent.errors import ConvergenceWarning, ModelError, ParameterError, PosteriorError
from prudent.planning import RobustMDP
from prudent.planning.set_rows import SetRows

# -- one row, exactly --------------------------------------------------------------------------------------


def fill_exactly(y, low, high):
    """Return the worst distribution between bounds, in the arithmetic of its arguments."""
    q, left = list(low), 1 - sum(low)
    for k in sorted(range(len(y)), key=lambda k: y[k]):
        more = min(left, high[k] - low[k])
        q[k] += more
        left -= more
    return q


def ball_exactly(y, p, w, radius):
    """Return the worst distribution of a weighted ball: the exchange with the best rate, again and again."""
    q, budget = list(p), radius
    possible = [k for k in range(len(y)) if w[k] > 0]
    while True:
        best = None
        for i in possible:
            for j in possible:
                if y[i] <= y[j] or q[i] == 0:
                    continue
                # an outcome above its centre gives back what it cost, one below it likewise
                cost = (w[i] if q[i] <= p[i] else -w[i]) + (w[j] if q[j] >= p[j] else -w[j])
                most = min(q[i] if q[i] <= p[i] else q[i] - p[i], q[j] + 2 if q[j] >= p[j] else p[j] - q[j])
                rate = (1, 0, y[i] - y[j]) if cost <= 0 else (0, (y[i] - y[j]) / cost, 0)
                if best is None or rate > best[0]:
                    best = rate, i, j, cost, most
        if best is None or (best[3] > 0 and budget == 0):
            return q
        _, i, j, cost, most = best
        step = min(most, budget / cost) if cost > 0 else most
        q[i], q[j], budget = q[i] - step, q[j] + step, budget - step * cost


def solve_exactly(matrix, right):
    """Return the solution of a linear system in fractions, by elimination."""
    n = len(right)
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if rows[r][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(n):
            if r != i and rows[r][i] != 0:
                rows[r] = [x - rows[r][i] * z for x, z in zip(rows[r], rows[i], strict=True)]
    return [row[n] for row in rows]


def value_exactly(problem, value):
    """Return the fixed point of a robust problem in fractions, by Newton's method from values close to it."""
    model, sets, sign = problem.model, problem.sets, int(problem.sets.sign)
    of, gamma = model.entries, Fraction(model.discount)
    here = [Fraction(x) for x in value.tolist()]
    for _ in range(60):
        matrix, right, after = [], [], []
        for s in range(model.n_states):
            found = None
            for a in np.flatnonzero(model.admissible[s]):
                p = s * model.n_actions + int(a)
                b = int(of.source[p])
                mine, slots = slice(of.first[p], of.first[p + 1]), slice(of.begin[b], of.begin[b + 1])
                targets, earned = of.next_state[mine].tolist(), [Fraction(r) for r in of.reward[mine].tolist()]
                y = [sign * (r + (gamma * here[t] if t >= 0 else 0)) for r, t in zip(earned, targets, strict=True)]
                low, high = ([Fraction(x) for x in part[slots].tolist()] for part in (sets.low, sets.high))
                if sets.radius.size:
                    q = ball_exactly(y, low, high, Fraction(float(sets.radius[b])))
                else:
                    q = fill_exactly(y, low, high)
                worth = sign * sum(x * z for x, z in zip(q, y, strict=True))
                if found is None or worth > found[0]:
                    found = worth, q, targets, earned
            worth, q, targets, earned = found
            row = [Fraction(int(i == s)) for i in range(model.n_states)]
            for x, t in zip(q, targets, strict=True):
                if t >= 0:
                    row[t] -= gamma * x
            matrix.append(row)
            right.append(sum(x * r for x, r in zip(q, earned, strict=True)))
            after.append(worth)
        if after == here:
            return here
        here = solve_exactly(matrix, right)
    raise AssertionError("Newton's method does not end")


def random_problem(rng):
    """A small robust problem of any kind; numbers with few digits, so that fractions stay short."""
    S, A = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    shares = rng.integers(0, 6, (S, A, S)) * (rng.random((S, A, S)) < 0.8)
    shares[..., 0] += shares.sum(axis=2) == 0
    chances = shares / 64.0
    chances[..., 0] += 1.0 - chances.sum(axis=2)  # exact
    reward = rng.integers(-8, 9, (S, A, S) if rng.random() < 0.5 else (S, A)) / 4.0
    if rng.random() < 0.3:
        reward = reward + 1e6
    discount, optimistic = float(rng.choice([0.0, 0.5, 0.9, 0.99])), bool(rng.random() < 0.5)
    terminal = {0: 2.5} if S > 1 and rng.random() < 0.3 else None
    if rng.random() < 0.5:
        lower = np.floor(64.0 * chances * rng.random(chances.shape)) / 64.0
        upper = np.minimum(1.0, np.ceil(64.0 * (chances + 0.3 * rng.random(chances.shape))) / 64.0)
        upper[chances == 0.0] *= rng.random(np.count_nonzero(chances == 0.0)) < 0.5
        return pr.IntervalMDP(lower, upper, reward, discount, terminal=terminal, optimistic=optimistic)
    model = pr.UncertainMDP.direct(reward, discount, terminal=terminal)
    centre = chances.reshape(S * A, S) if terminal is None else chances[1:].reshape((S - 1) * A, S)
    weights = None
    if rng.random() < 0.5:
        weights = rng.integers(1, 9, S) / 4.0 if rng.random() < 0.5 else rng.integers(1, 9, centre.shape) / 4.0
    ball = pr.L1Ball(rng.integers(0, 80) / 64.0, weights, centre)
    return RobustMDP(model, ball, optimistic=optimistic)


def certified(rng, models):
    for _ in range(models):
        problem = random_problem(rng)
        largest = max(1.0, abs(problem.model.entries.reward).max()) / (1.0 - problem.model.discount)
        for tol in (float(rng.choice([1e-3, 1e-8])) * largest, None):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # values that cancel to 0 have no ten digits
                solution = problem.solve(tol=tol)
            truth = value_exactly(problem, solution.value)
            gap = max(abs(Fraction(x) - z) for x, z in zip(solution.value.tolist(), truth, strict=True))
            assert gap <= Fraction(solution.error_bound)
            assert solution.converged or solution.error_bound <= 1e-12 * largest, solution.message


def test_the_certificate_holds_against_exact_fractions(rng):
    certified(rng, 60)


@pytest.mark.slow
def test_the_certificate_is_never_false(rng):
    certified(rng, 2_000)


def test_rows_are_linear_programmes(rng):
    for _ in range(20):
        n = int(rng.integers(2, 40))
        p, y = rng.dirichlet(np.ones(n)), rng.normal(size=n)
        model = pr.UncertainMDP([[0]], [[[0] * n]], [[y]], 0.0)
        w, radius = rng.random(n) + 0.1, float(rng.random())
        for weights in (None, w[np.newaxis]):
            own = np.ones(n) if weights is None else w
            distance = np.block([[np.eye(n), -np.eye(n)], [-np.eye(n), -np.eye(n)], [np.zeros((1, n)), own]])
            wanted = linprog(
                np.append(y, np.zeros(n)),
                A_ub=distance,
                b_ub=np.concatenate((p, -p, [radius])),
                A_eq=np.append(np.ones(n), np.zeros(n))[np.newaxis],
                b_eq=[1.0],
            ).fun
            found = RobustMDP(model, pr.L1Ball(radius, weights, p[np.newaxis])).solve().value[0]
            assert found == pytest.approx(wanted, abs=1e-7)


def test_a_row_takes_n_log_n(rng):
    """Twice as many outcomes take less than three times as long: the median of several sizes."""
    from time import perf_counter

    times = []
    for n in (20_000, 40_000, 80_000, 160_000):
        y = rng.normal(size=n)
        model = pr.UncertainMDP.from_entries(
            np.array([[0]]), np.zeros(n, int), np.arange(n), np.zeros(n, int), y, discount=0.0
        )
        weights = rng.random((1, n)) + 0.1
        ball = pr.L1Ball(0.5, weights, rng.dirichlet(np.ones(n))[np.newaxis])
        rows = SetRows(model, RobustMDP(model, ball).sets)
        taken = []
        for _ in range(3):
            began = perf_counter()
            rows.chosen(np.zeros(1), np.array([0]))
            taken.append(perf_counter() - began)
        times.append(min(taken))
    assert np.median([after / before for before, after in pairwise(times)]) < 3.5


# -- corners -----------------------------------------------------------------------------------------------


@pytest.fixture
def mdp(rng):
    return pr.envs.random_model(8, 3, branching=4, rng=rng).mdp()


def test_without_doubt_it_is_the_known_model(mdp):
    wanted = pr.solve(mdp).value
    exact = mdp.dense()
    for problem in (
        RobustMDP(mdp, pr.L1Ball(0.0)),
        RobustMDP(mdp, pr.L1Ball(0.0), optimistic=True),
        pr.IntervalMDP(exact, exact, mdp.reward, mdp.discount),
    ):
        np.testing.assert_allclose(problem.solve().value, wanted, rtol=1e-9)
        np.testing.assert_allclose(pr.solve(problem.mean_mdp()).value, wanted, rtol=1e-9)


def test_with_all_doubt_it_is_the_worst_case(mdp):
    possible = (mdp.dense() > 0.0).astype(float)
    value = np.zeros(mdp.n_states)
    for _ in range(2_000):
        later = np.where(possible > 0.0, value, np.inf).min(axis=2)
        value = (mdp.reward + mdp.discount * later).max(axis=1)
    for problem in (
        RobustMDP(mdp, pr.L1Ball(2.0)),
        pr.IntervalMDP(np.zeros(possible.shape), possible, mdp.reward, mdp.discount),
    ):
        np.testing.assert_allclose(problem.solve().value, value, atol=1e-7)


def test_caution_grows_with_the_sets(mdp):
    solutions = [RobustMDP(mdp, pr.L1Ball(r)).solve().value for r in (0.0, 0.1, 0.5, 1.0)]
    hopes = [RobustMDP(mdp, pr.L1Ball(r), optimistic=True).solve().value for r in (0.0, 0.1, 0.5, 1.0)]
    assert all((after <= before + 1e-9).all() for before, after in pairwise(solutions))
    assert all((after >= before - 1e-9).all() for before, after in pairwise(hopes))


def test_a_policy_a_horizon_and_an_average(mdp):
    problem = RobustMDP(mdp, pr.L1Ball(0.3))
    best = problem.solve()
    np.testing.assert_allclose(problem.evaluate(best.policy).value, best.value, rtol=1e-8)
    long = problem.solve(horizon=400).value[0]
    np.testing.assert_allclose(long, best.value, rtol=1e-6)
    gain = problem.solve(objective="average")
    assert gain.gain <= pr.solve(mdp, objective="average").gain + 1e-9
    mixed = problem.evaluate(np.full(mdp.admissible.shape, 1.0 / mdp.n_actions))
    assert (mixed.value <= best.value + 1e-9).all()
    assert "worst case of L1Ball(0.3)" in repr(best.explain(0))


def test_a_process_that_ends_without_a_discount():
    """A race to one of two ends: the chance to win is that of the worst odds."""
    lower, upper = np.zeros((3, 1, 3)), np.zeros((3, 1, 3))
    lower[0, 0], upper[0, 0] = [0.2, 0.1, 0.3], [0.5, 0.4, 0.6]
    race = pr.IntervalMDP(lower, upper, np.zeros((3, 1)), 1.0, terminal={1: 1.0, 2: 0.0})
    # q0 + q1 + q2 = 1: win by q1 / (q1 + q2)
    assert race.solve().value[0] == pytest.approx(0.1 / 0.7, rel=1e-9)
    assert race.optimist().solve().value[0] == pytest.approx(0.4 / 0.7, rel=1e-9)


# -- credible sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True])
def test_credible_sets_cover(rng, joint):
    model = pr.UncertainMDP.direct(np.zeros((3, 2)), 0.9)
    posterior = pr.DirichletPosterior(rng.gamma(1.0, 5.0, (6, 3)) + 0.5)
    n, coverage = 4_000, 0.8
    theta = posterior.sample(n, rng)
    ball = RobustMDP(model, pr.L1Ball.credible(posterior, coverage, joint=joint, rng=rng))
    box = pr.IntervalMDP.credible(model, posterior, coverage, joint=joint)
    for problem in (ball, box):
        if joint:
            held = int(problem.covers(theta).sum())
        else:  # one source: the others at the centre
            alone = np.broadcast_to(problem._theta(), theta.shape).copy()
            alone[:, 2] = theta[:, 2]
            held = int(problem.covers(alone).sum())
        assert stats.binom.cdf(held, n, coverage) > 1e-8  # false alarms: 1e-8 for each
        assert held < n  # it is not everything
    assert (ball.solve().value <= pr.solve(ball.mean_mdp()).value + 1e-9).all()


def test_tail_bound_of_the_distance(rng):
    """Without draws the radius is that of the sub-Gaussian bound, and wider."""
    posterior = pr.DirichletPosterior(rng.gamma(2.0, 5.0, (4, 5)) + 0.5)
    drawn = pr.L1Ball.credible(posterior, 0.9, rng=rng).radius
    bound = pr.L1Ball.credible(posterior, 0.9, draws=1, rng=rng).radius
    assert (drawn < bound).all()
    far = abs(posterior.sample(2_000, rng) - posterior.mean()).sum(axis=2)
    held = int((far <= bound).all(axis=1).sum())
    assert stats.binom.cdf(held, 2_000, 0.9) > 1e-8  # false alarm: 1e-8


# -- refusals ----------------------------------------------------------------------------------------------


def test_what_is_refused(mdp):
    with refused(ParameterError, "negative", argument="radius"):
        pr.L1Ball(-0.1)
    with refused(ParameterError, "value-range", argument="weights"):
        pr.L1Ball(0.1, [1.0, 0.0])
    with refused(ParameterError, "missing-argument", argument="centre"):
        RobustMDP(pr.UncertainMDP.from_mdp(mdp), pr.L1Ball(0.1))
    with refused(PosteriorError, "sum-not-one", source=0):
        RobustMDP(pr.UncertainMDP.direct([[0.0]], 0.9), pr.L1Ball(0.1, centre=[[0.5]]))
    with refused(ParameterError, "conflicting-arguments", argument="draws"):
        RobustMDP(mdp, pr.L1Ball(0.1)).solve(10)
    with refused(ModelError, "probability-range", state=0, action=0):
        pr.IntervalMDP([[[0.5]]], [[[0.4]]], [0.0], 0.9)
    with refused(ModelError, "probability-range", state=0, action=0):
        pr.IntervalMDP([[[0.5]]], [[[0.0]]], [0.0], 0.9)
    with refused(ModelError, "sum-not-one", state=0, action=0, value=0.9):
        pr.IntervalMDP([[[0.5]]], [[[0.9]]], [0.0], 0.9)
    with refused(ModelError, "sum-not-one", state=1, action=0):
        pr.IntervalMDP([[[1.0, 0.0]], [[0.0, 0.0]]], [[[1.0, 0.0]], [[0.0, 0.0]]], [0.0, 0.0], 0.9)


def test_radii_are_as_many_as_sources():
    """One too many was cut off; the source of terminal states may be there or not."""
    model = pr.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], 0.9)
    for wrong in ([0.1], [0.1, 0.2, 0.3]):
        with refused(ParameterError, "wrong-shape", argument="radius", expected=(2,)):
            RobustMDP(model, pr.L1Ball(wrong))
    ended = pr.UncertainMDP([[0], [-1]], [[[0, 1]], [[0, 1]]], [[1.0], [0.0]], 0.9, terminal={1: 2.0})
    values = [
        RobustMDP(ended, pr.L1Ball(radius, centre=[[0.5, 0.5], [1.0, 0.0]])).solve().value[0]
        for radius in (0.2, [0.2], [0.2, 7.0])
    ]
    assert values[0] == values[1] == values[2]
    with refused(ParameterError, "wrong-shape", argument="radius", expected=(1,)):
        RobustMDP(ended, pr.L1Ball([0.2, 0.2, 0.2], centre=[[0.5, 0.5], [1.0, 0.0]]))


def test_bounds_are_named_as_plain_numbers():
    with pytest.raises(ModelError) as refusal:
        pr.IntervalMDP([[[0.5]]], [[[0.4]]], [0.0], 0.9)
    assert "np.float64" not in str(refusal.value)


def test_a_reward_that_is_text_is_refused():
    for reward in ("\x00", "?", [["a", "b"]]):
        with pytest.raises(ModelError) as refusal:
            pr.IntervalMDP(np.full((1, 2, 1), 0.5), np.ones((1, 2, 1)), reward, 0.9)
        assert refusal.value.fields["argument"] == "reward"
