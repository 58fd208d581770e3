"""The certificate against exact arithmetic: integers for known models, fractions and 40 digits under a posterior.

Models are drawn afresh in every run. A failure prints the model as Python that can be pasted. The checks themselves are
exact, so there are no false alarms.
"""

import math
import warnings
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from refusals import refused
from scipy import sparse
from scipy.special import betaincinv

import prudent as pr
from prudent._numerics.compensated import sums_and_leaks, two_product, two_sum
from prudent.errors import ConvergenceWarning, ModelError

# -- known models, in integers -------------------------------------------------------------------------------


def integers(numbers):
    """Return whole numbers and a power of two: the given floats are their quotients."""
    ratios = [float(x).as_integer_ratio() for x in numbers]
    scale = max(d for _, d in ratios)
    return [n * (scale // d) for n, d in ratios], scale


def solve_integers(rows):
    """Solve a system by elimination without fractions (Bareiss); returns the numerators and their denominator."""
    before = 1
    for k in range(len(rows)):
        pivot = rows[k]
        p = pivot[k]
        for i, row in enumerate(rows):
            if i != k:
                f = row[k]
                rows[i] = [(p * x - f * y) // before for x, y in zip(row, pivot, strict=True)]
        before = p
    return [row[-1] for row in rows], before


class ExactModel:
    """A known model in integers, and its values as fractions."""

    def __init__(self, transition, reward, discount):
        S, A, _ = transition.shape
        p, p_scale = integers(transition.ravel().tolist())
        r, self.r_scale = integers(reward.ravel().tolist())
        self.gamma, gamma_scale = discount.as_integer_ratio()
        self.p = [[p[(s * A + a) * S : (s * A + a + 1) * S] for a in range(A)] for s in range(S)]
        self.r = [r[s * A : (s + 1) * A] for s in range(S)]
        self.scale = p_scale * gamma_scale

    def values(self, policy):
        """Return numerators x [S] and a denominator d > 0: the values are x scale / (d r_scale)."""
        rows = []
        for s, a in enumerate(policy):
            row = [-self.gamma * p for p in self.p[s][a]]
            row[s] += self.scale
            rows.append([*row, self.r[s][a]])
        return solve_integers(rows)

    def optimal_values(self, policy, admissible):
        """Policy iteration: exact, so it ends."""
        policy = list(policy)
        while True:
            x, d = self.values(policy)
            better = False
            for s in range(len(policy)):
                best = self.scale * x[s]
                for a in np.flatnonzero(admissible[s]).tolist():
                    q = self.r[s][a] * d + self.gamma * sum(p * y for p, y in zip(self.p[s][a], x, strict=True))
                    if q > best:
                        best, policy[s], better = q, a, True
            if not better:
                return x, d

    def outside(self, value, bound, x, d):
        """Return the error of the first value that is off by more than ``bound``, or None."""
        bound_n, bound_d = bound.as_integer_ratio()
        for v, y in zip(value.tolist(), x, strict=True):
            v_n, v_d = v.as_integer_ratio()
            if abs(v_n * d * self.r_scale - y * self.scale * v_d) * bound_d > bound_n * v_d * d * self.r_scale:
                return float(abs(Fraction(v) - Fraction(y * self.scale, d * self.r_scale)))
        return None


def random_rows(rng, S, A):
    """Rows that are dense, sparse, nearly deterministic, or of very different sizes."""
    kind = rng.integers(4)
    if kind == 0:
        rows = rng.random((S, A, S)) + 1e-3
    elif kind == 1:
        rows = rng.random((S, A, S)) * (rng.random((S, A, S)) < 0.5)
    elif kind == 2:
        rows = 10.0 ** rng.uniform(-30, 0, (S, A, S))
    else:
        rows = np.zeros((S, A, S))
    rows[..., 0] += rows.sum(axis=2) == 0.0
    if kind == 3:
        rows = np.take_along_axis(np.eye(S)[rng.integers(0, S, (S, A))], np.tile(np.arange(S), (S, A, 1)), axis=2)
        rows = rows + 10.0 ** rng.uniform(-17, -1) * rng.random((S, A, S))
    return rows / rows.sum(axis=2, keepdims=True)


def random_model(rng):
    """Return the arguments of MDP, a policy or None, and the arguments of the solver."""
    S, A = rng.integers(1, 5), rng.integers(1, 4)
    rows = random_rows(rng, S, A)
    model = {}
    ending = rng.integers(3)
    if ending:
        ends = 10.0 ** rng.uniform(-12, 0, (S, A)) if ending == 1 else rng.random((S, A)) * (rng.random((S, A)) < 0.5)
        rows *= (1.0 - ends)[..., None]
        model["termination"] = np.clip(1.0 - rows.sum(axis=2), 0.0, 1.0)
    if rng.random() < 0.5:
        rows *= 1.0 + rng.uniform(-0.99, 0.99, (S, A, 1)) * 10.0 ** rng.uniform(-16, -9)
    reward = rng.normal(size=(S, A)) if rng.random() < 0.6 else np.ones((S, A)) * rng.choice([-1.0, 1.0, 0.1])
    if rng.random() < 0.5:
        reward *= 10.0 ** rng.uniform(-6, 6, (S, A) if rng.random() < 0.3 else (1, 1))
    model["admissible"] = rng.random((S, A)) < rng.choice([0.7, 1.0])
    model["admissible"][:, 0] = True
    model["admissible"][rng.integers(S)] = True
    discount = [1.0 - 10.0 ** rng.uniform(-9, 0), 1.0 - 1e-9, rng.random(), 1.0 - 10.0 ** rng.uniform(-4, -1)]
    model |= {"transition": rows, "reward": reward, "discount": float(discount[rng.choice(4, p=[0.5, 0.1, 0.2, 0.2])])}
    policy = None
    if rng.random() < 0.5:
        policy = [int(rng.choice(np.flatnonzero(ok))) for ok in model["admissible"]]
    scale = float(abs(reward).max()) / (1.0 - model["discount"])
    keywords = {}
    how = rng.integers(5)
    if how == 1:
        keywords["tol"] = max(scale, 1e-200) * 10.0 ** rng.uniform(-18, -1)
    elif how == 2:
        keywords |= {"method": "value_iteration", "max_iterations": int(rng.integers(1, 60))}
    elif how == 3:
        keywords["sweeps"] = int(rng.integers(1, 30))
    if rng.random() < 0.2:
        keywords["initial_value"] = (scale * 10.0 ** rng.uniform(-9, 1) * rng.normal(size=S)).tolist()
    return model, policy, keywords


def pasted(model, policy, keywords):
    """Return the call as Python."""
    arrays = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in model.items()}
    inner = ", ".join(f"{name}={value!r}" for name, value in arrays.items())
    outer = "".join(f", {name}={value!r}" for name, value in keywords.items())
    return f"pr.solve(pr.MDP({inner}){outer})" if policy is None else f"pr.evaluate(pr.MDP({inner}), {policy}{outer})"


def check_known(model, policy, keywords):
    """Solve and compare with exact arithmetic."""
    mdp = pr.MDP(**model)
    solution = pr.solve(mdp, **keywords) if policy is None else pr.evaluate(mdp, policy, **keywords)
    exact = ExactModel(model["transition"], model["reward"], model["discount"])
    truth = exact.optimal_values(solution.policy.tolist(), mdp.admissible) if policy is None else exact.values(policy)
    error = exact.outside(solution.value, solution.error_bound, *truth)
    assert error is None, f"error {error}, bound {solution.error_bound}: {pasted(model, policy, keywords)}"
    if set(keywords) <= {"initial_value"}:  # ten digits of the largest value are always to be had
        assert solution.converged, f"{solution.message}: {pasted(model, policy, keywords)}"


def check_many(count, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # caps are asked for
        for _ in range(count):
            check_known(*random_model(rng))


def test_known_models_against_integers(rng):
    check_many(2_000, rng)


@pytest.mark.slow
def test_many_known_models_against_integers(rng):
    check_many(200_000, rng)


# -- the models that were found to break it ------------------------------------------------------------------

STAY = 0.9999999425465579
BROKEN = {
    "termination": {"transition": [[[STAY]]], "reward": [[1.0]], "discount": 0.999999, "termination": [[1.0 - STAY]]},
    "long rows": {"transition": [[[1.0 + 8.9e-10]]], "reward": [[1.0]], "discount": 1.0 - 1e-9},
    "short": {"transition": [[[0.999]]], "reward": [[1.0]], "discount": 0.99, "termination": [[1.0 - 0.999]]},
    "slow": {
        "transition": [
            [[8.269098119739795e-30, 0.19320161867377325, 0.8067983813262267]],
            [[8.412597909612154e-07, 0.9999991587402091, 0.0]],
            [[0.3081445883432678, 0.17402787310767473, 0.5178275385490574]],
        ],
        "reward": [[-1.0]] * 3,
        "discount": 0.999999,
    },
    "uphill": {  # the first policy is worse than none: a safeguard of Newton's kept it from ever ending
        "transition": [
            [[0.7148227658663856, 0.2841383379596818], [0.711765944647687, 0.2882327137029531]],
            [[0.46844280566462637, 0.5315571941066779], [0.05887311398641028, 0.9411264461221075]],
        ],
        "reward": [[0.40356977137001787, 0.9454934410729738], [-1.663995677353628, -0.23052693057082443]],
        "discount": 0.9999993347064885,
        "termination": [[0.0010388961734644209, 1.341649770836284e-06], [2.279404442973032e-10, 4.39892261949737e-07]],
    },
    "ties": {  # every policy is as good as any other: elimination in 64 bits went round in circles
        "transition": [
            [[1.0 - 1e-12, 1e-13, 3e-13, 6e-13], [1e-13, 1.0 - 1.6e-12, 9e-13, 6e-13]],
            [[8e-13, 1.0 - 1.7e-12, 2e-13, 7e-13], [7e-13, 1.0 - 3e-12, 1.3e-12, 1e-12]],
            [[1.0 - 2.1e-12, 5e-13, 1.2e-12, 4e-13], [2e-13, 1.0 - 2.9e-12, 1.4e-12, 1.3e-12]],
            [[1.0 - 2.7e-12, 4e-13, 1.2e-12, 1.1e-12], [1e-14, 1.1e-12, 2.9e-13, 1.0 - 1.4e-12]],
        ],
        "reward": [[0.1, 0.1]] * 4,
        "discount": 0.9999998886945523,
    },
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("policy", ["given", None])
def test_models_that_broke_it(name, policy):
    model = BROKEN[name] | {key: np.array(BROKEN[name][key]) for key in ("transition", "reward")}
    actions = None if policy is None else [0] * len(model["reward"])
    for keywords in (
        {},
        {"tol": 1e-30},
        {"sweeps": 1},
        {"sweeps": 17},
        {"method": "value_iteration", "max_iterations": 9},
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            check_known(model, actions, keywords)


def test_refinement_leaves_only_the_rounding_of_the_answer():
    """Asked for more than there is, the bound is that of a number in 64 bits."""
    for model in BROKEN.values():
        solution = pr.solve(pr.MDP(**model), tol=1e-30)
        assert not solution.converged
        assert "as small as rounding allows" in solution.message
        assert solution.error_bound <= 1.1 * np.finfo(float).eps * abs(solution.value).max()
        np.testing.assert_array_equal(np.max(solution.q, axis=1), solution.value)


def test_high_discounts_meet_tight_tolerances(rng):
    transition, reward = rng.dirichlet(np.ones(30), (30, 3)), rng.random((30, 3))
    for discount, tol in ((0.9995, 1e-8), (0.9995, 1e-11), (1.0 - 1e-7, None)):
        solution = pr.solve(pr.MDP(transition, reward, discount), tol=tol)
        assert solution.converged, solution.message
        assert solution.iterations <= 20


@pytest.mark.parametrize("n_states", [200, 500])  # by elimination, by BiCGStab
@pytest.mark.parametrize("method", ["newton", "value_iteration"])
def test_larger_models_with_a_known_answer(n_states, method, rng):
    """Eighths as probabilities and whole values: the rewards that lead to them are exact."""
    n_actions, discount = 3, 1.0 - 2.0**-13
    rows = np.repeat(np.arange(n_states * n_actions), 8)
    columns = rng.integers(0, n_states, rows.size)
    matrix = sparse.csr_array((np.full(rows.size, 0.125), (rows, columns)), shape=(n_states * n_actions, n_states))
    value = rng.integers(-(2**20), 2**20, n_states).astype(float)
    reward = np.repeat(value, n_actions) - discount * (matrix @ value)
    reward = reward.reshape(n_states, n_actions) - np.arange(n_actions)  # action 0 is the best
    for tol in (1e-3, 1e-7, 3e-10):
        solution = pr.solve(pr.MDP(matrix, reward, discount), tol=tol, method=method)
        assert solution.converged, solution.message
        assert abs(solution.value - value).max() <= solution.error_bound
        assert not solution.policy.any()


@pytest.mark.parametrize("n_states", [200, 400])
@pytest.mark.parametrize("discount", [0.9999, 1.0 - 1e-6, 1.0 - 1e-8])
def test_rare_ends_do_not_keep_newton_from_its_goal(n_states, discount):
    """Steps that end with very different chances: bounds widen before policy iteration is done."""
    rng = np.random.default_rng(n_states)
    pairs = 3 * n_states
    ends = 10.0 ** rng.uniform(-8, 0, pairs) * (rng.random(pairs) < 0.5)
    rows, columns = np.repeat(np.arange(pairs), 5), rng.integers(0, n_states, 5 * pairs)
    weights = rng.dirichlet(np.ones(5), pairs) * (1.0 - ends)[:, None]
    matrix = sparse.csr_array((weights.ravel(), (rows, columns)), shape=(pairs, n_states))
    reward = rng.normal(size=(n_states, 3))
    solution = pr.solve(pr.MDP(matrix, reward, discount, termination=ends.reshape(n_states, 3)))
    assert solution.converged, solution.message
    assert solution.iterations <= 60


def test_rows_that_leave_no_finite_value_are_refused():
    mdp = pr.MDP([[[1.0 + 8e-10]]], [[1.0]], 1.0 - 5e-10)
    for call in (lambda: pr.solve(mdp), lambda: pr.evaluate(mdp, [0]), lambda: pr.solve(mdp, sweeps=3)):
        with refused(ModelError, "row-sum-above-one"):
            call()


def test_leaks_bound_the_sums_as_given(rng):
    for _ in range(500):
        n = int(rng.integers(1, 40))
        row = rng.random(n) * 10.0 ** rng.uniform(-20, 0, n)
        row *= (1.0 + rng.normal() * 10.0 ** rng.uniform(-17, -1)) / row.sum()
        total = np.empty(1)
        least, greatest = sums_and_leaks(np.array([0, n]), row, np.array([True]), total)
        leak = 1 - sum(map(Fraction, row.tolist()))
        assert Fraction(least) <= leak <= Fraction(greatest)
        assert greatest - least <= 3 * np.finfo(float).eps * abs(leak) + 1e-27
        assert total[0] == math.fsum(row)


def test_two_sums_and_products_are_exact(rng):
    for a, b in rng.normal(size=(500, 2)) * 10.0 ** rng.uniform(-30, 30, (500, 2)):
        for kernel, exact in ((two_sum, Fraction(a) + Fraction(b)), (two_product, Fraction(a) * Fraction(b))):
            high, low = kernel(a, b)
            assert Fraction(high) + Fraction(low) == exact
            assert high == float(exact)


# -- under a posterior: fractions for means and draws, 40 digits for Beta tails -------------------------------


def solve_exactly(rows, right):
    """Gauss without pivots (the matrix is diagonally dominant), in whatever numbers are given."""
    n = len(right)
    rows = [[*row, b] for row, b in zip(rows, right, strict=True)]
    for k in range(n):
        for i in range(n):
            if i != k:
                f = rows[i][k] / rows[k][k]
                rows[i] = [x - f * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [rows[k][n] / rows[k][k] for k in range(n)]


def fixed_point(model, policy, solution, tail, number, close=0):
    """Return the exact values, as numbers of a type that computes exactly or to 45 digits.

    ``tail(s, a, y)`` returns the outcome probabilities at outcome values y. Policies are improved until none is better
    (Hoffman and Karp); the value of each comes by Newton, which ends because the operator of a policy is concave.
    """
    gamma, one = number(model.discount), number(1)
    value, actions = list(map(number, solution.value.tolist())), solution.policy.tolist()

    def ahead(s, a):
        rewards, targets = map(number, model.reward[s, a].tolist()), model.next_state[s, a].tolist()
        y = [r + gamma * value[t] for r, t in zip(rewards, targets, strict=True)]
        weights = tail(s, a, y)
        return sum(w * x for w, x in zip(weights, y, strict=True)), weights

    def differ(x, y):
        return abs(x - y) > close * (abs(x) + abs(y))

    for _ in range(200):
        rows, right = [], []
        for s, a in enumerate(actions):
            _, weights = ahead(s, a)
            row = [one * (t == s) for t in range(model.n_states)]
            for w, t in zip(weights, model.next_state[s, a].tolist(), strict=True):
                row[t] -= gamma * w
            rows.append(row)
            right.append(sum(w * number(r) for w, r in zip(weights, model.reward[s, a].tolist(), strict=True)))
        before, value = value, solve_exactly(rows, right)
        if any(map(differ, before, value)):
            continue
        if policy is not None:
            return value
        settled = True
        for s in range(model.n_states):
            best = max(range(model.n_actions), key=lambda a, s=s: ahead(s, a)[0])
            if ahead(s, best)[0] > value[s] and differ(ahead(s, best)[0], value[s]):
                actions[s], settled = best, False
        if settled:
            return value
    raise AssertionError("no fixed point found")


def random_uncertain(rng, n_outcomes, discount):
    S, A = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    B = int(rng.integers(1, S * A + 1))
    source = np.concatenate((np.arange(B), rng.integers(0, B, S * A - B))).reshape(S, A)
    reward = rng.normal(size=(S, A, n_outcomes)) * 10.0 ** rng.uniform(-3, 3)
    model = pr.UncertainMDP(source, rng.integers(0, S, (S, A, n_outcomes)), reward, discount)
    policy = rng.integers(0, A, S).tolist() if rng.random() < 0.5 else None
    return model, policy


def random_keywords(rng):
    how = rng.integers(4)
    if how == 1:
        return {"tol": 1e-30}
    if how == 2:
        return {"method": "value_iteration", "max_iterations": int(rng.integers(1, 30))}
    return {"sweeps": int(rng.integers(1, 20))} if how == 3 else {}


def solved(problem, policy, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return problem.solve(**keywords) if policy is None else problem.evaluate(policy, **keywords)


def assert_within(solution, truth, *what):
    error = max(abs(type(x)(v) - x) for v, x in zip(solution.value.tolist(), truth, strict=True))
    assert error <= type(error)(solution.error_bound), f"error {float(error)}, {solution!r}: {what}"


def described(model, policy):
    arrays = {name: getattr(model, name).tolist() for name in ("source", "next_state", "reward")}
    return arrays, model.discount, policy


def check_mean(rng):
    model, policy = random_uncertain(rng, int(rng.integers(1, 5)), 1.0 - 10.0 ** rng.uniform(-8, 0))
    counts = rng.choice([1.0, 0.1, 1.0 / 3.0], model.outcome_mask.shape) + rng.poisson(3.0, model.outcome_mask.shape)
    keywords = random_keywords(rng)
    solution = solved(pr.BayesianRiskMDP(model, counts, 0.0), policy, **keywords)
    exact = [list(map(Fraction, row)) for row in counts.tolist()]
    theta = [[x / sum(row) for x in row] for row in exact]
    truth = fixed_point(model, policy, solution, lambda s, a, y: theta[model.source[s, a]], Fraction)
    assert_within(solution, truth, described(model, policy), counts.tolist(), keywords)


def check_draws(rng):
    model, policy = random_uncertain(rng, int(rng.integers(1, 5)), 1.0 - 10.0 ** rng.uniform(-8, 0))
    n = int(rng.integers(1, 7))
    posterior = pr.DirichletPosterior(rng.uniform(0.1, 5.0, model.outcome_mask.shape))
    draws = posterior.sample(n, rng)
    if rng.random() < 0.5:  # sums as far from one as is allowed
        draws = draws * (1.0 + rng.uniform(-0.99e-9, 0.99e-9, (n, model.n_sources, 1)))
    alpha = float(rng.choice([0.0, 0.3, 0.5, 0.75, 0.9]))
    weights = exact_weights(n, alpha)
    keywords = random_keywords(rng)
    solution = solved(pr.BayesianRiskMDP(model, posterior, alpha), policy, draws=draws, **keywords)
    theta = [[[Fraction(x) for x in row] for row in draw] for draw in draws.tolist()]

    def tail(s, a, y):
        rows = [draw[model.source[s, a]] for draw in theta]
        rows.sort(key=lambda row: sum(w * x for w, x in zip(row, y, strict=True)))
        return [sum(w * row[k] for w, row in zip(weights, rows, strict=False)) for k in range(len(y))]

    truth = fixed_point(model, policy, solution, tail, Fraction)
    assert_within(solution, truth, described(model, policy), draws.tolist(), alpha, keywords)


def exact_weights(n, alpha):
    """The weights of CVaR on n sorted draws; 0.3 and 0.9 stand for the decimals that their author had in mind."""
    count = n * (1 - Fraction(alpha))
    if abs(count - round(count)) < Fraction(1, 10**14):
        count = Fraction(round(count))
    whole = math.floor(count)
    return [1 / count] * whole + ([1 - whole / count] if count > whole else [])


def low_mean(a, b, p):
    """E[w | w <= q] for w ~ Beta(a, b) and its p-quantile q."""
    q = mp.mpf(float(betaincinv(float(a), float(b), float(p))))
    for _ in range(4):
        slope = q ** (a - 1) * (1 - q) ** (b - 1) / mp.beta(a, b)
        q -= (mp.betainc(a, b, 0, q, regularized=True) - p) / slope
    assert abs(mp.betainc(a, b, 0, q, regularized=True) - p) < mp.mpf(10) ** -30
    return a / (a + b) * mp.betainc(a + 1, b, 0, q, regularized=True) / p


def check_exact(rng):
    """With two outcomes the tail is that of a Beta: its mean depends only on which outcome is better."""
    model, policy = random_uncertain(rng, 2, 1.0 - 10.0 ** rng.uniform(-7, 0))
    counts = rng.choice([1.0, 0.5, 1.7], model.outcome_mask.shape) + rng.poisson(4.0, model.outcome_mask.shape)
    alpha = float(rng.choice([0.1, 0.5, 0.7, 0.9, 0.99]))
    keywords = random_keywords(rng)
    solution = solved(pr.BayesianRiskMDP(model, counts, alpha), policy, **keywords)
    with mp.workdps(45):
        p = 1 - mp.mpf(alpha)
        tails = []
        for a, b in counts.tolist():
            low, high = low_mean(mp.mpf(a), mp.mpf(b), p), 1 - low_mean(mp.mpf(b), mp.mpf(a), p)
            tails.append(([low, 1 - low], [high, 1 - high]))
        truth = fixed_point(
            model,
            policy,
            solution,
            lambda s, a, y: tails[model.source[s, a]][int(y[0] < y[1])],
            mp.mpf,
            close=mp.mpf(10) ** -33,
        )
        assert_within(solution, truth, described(model, policy), counts.tolist(), alpha, keywords)


CHECKS = {"mean": check_mean, "draws": check_draws, "exact": check_exact}


@pytest.mark.parametrize("kind", CHECKS)
def test_posteriors_against_exact_arithmetic(kind, rng):
    for _ in range(60 if kind == "exact" else 200):
        CHECKS[kind](rng)


@pytest.mark.slow
@pytest.mark.parametrize("kind", CHECKS)
def test_many_posteriors_against_exact_arithmetic(kind, rng):
    for _ in range(2_000 if kind == "exact" else 10_000):
        CHECKS[kind](rng)
