"""Short lists of rules: against enumeration of all lists, and of what they lose."""

import io
from itertools import product

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ParameterError


def random_mdp(rng, S=6, A=2, discount=0.9):
    return pr.MDP(rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A)), discount)


def value_of(mdp, policy):
    return pr.evaluate(mdp, policy).value.mean()


def test_short_lists_are_the_best_of_all(rng):
    """Two rules over the number of the state are a threshold, or an interval: all of them, one by one."""
    for _ in range(5):
        mdp = random_mdp(rng)
        solution = pr.solve(mdp)
        found = solution.simplify(max_rules=2)
        best = max(value_of(mdp, np.full(6, a)) for a in range(2))
        assert found.lists[0].value == pytest.approx(best, abs=1e-9)
        spans = [(i, j) for i in range(6) for j in range(i + 1, 7)]
        lists = [
            np.where((np.arange(6) >= i) & (np.arange(6) < j), a, b)
            for i, j in spans
            for a, b in product(range(2), repeat=2)
        ]
        best = max(value_of(mdp, policy) for policy in lists)
        assert found.best.value == pytest.approx(best, abs=1e-9)
        assert found.best.exact
        assert found.best.loss == pytest.approx(solution.value.mean() - best, abs=1e-8)


def test_a_longer_list_never_loses_more_and_the_words_say_what_it_does(rng):
    mdp = random_mdp(rng, S=20, A=3)
    solution = pr.solve(mdp)
    found = solution.simplify(max_rules=5)
    losses = [each.loss for each in found.lists]
    assert losses == sorted(losses, reverse=True)
    for each in found.lists:
        assert value_of(mdp, each.policy) == pytest.approx(each.value, abs=1e-8)
        assert each.loss <= each.bound + 1e-12 or each.exact
        followed = []
        for state in range(20):
            for rule in each.rules:
                text = "True" if rule.condition is None else rule.condition
                text = (
                    text.replace("state is below", "state <").replace("or more", "").replace("state is ", "state >= ")
                )
                if eval(text, {"state": state}):
                    followed.append(rule.action)
                    break
        assert followed == each.policy.tolist()
    assert len(found.to_pandas()) == len(found.lists)
    assert sum(rule.states for rule in found.rules) == 20
    found.plot().savefig(io.BytesIO())
    assert "loses" in repr(found)


def grown_trees(count, conditions, actions):
    """Yield the policies of all trees with so many leaves."""
    if count == 1:
        yield from (np.full(conditions.shape[1], a) for a in range(actions))
    for left in range(1, count):
        for holds in conditions:
            for yes in grown_trees(left, conditions, actions):
                for no in grown_trees(count - left, conditions, actions):
                    yield np.where(holds, yes, no)


def test_small_trees_are_the_best_of_all(rng):
    """Three leaves over two columns of three values each: all trees, one by one."""
    for _ in range(2):
        mdp = random_mdp(rng, S=9)
        mdp = pr.MDP(mdp.dense(), mdp.reward, 0.9, states=[(i, j) for i in range(3) for j in range(3)])
        found = pr.solve(mdp).simplify(max_rules=3, form="tree")
        first, second = np.indices((3, 3)).reshape(2, 9)
        cuts = np.array([column >= cut for column in (first, second) for cut in (1, 2)])
        for each in found.lists:
            best = max(value_of(mdp, policy) for policy in grown_trees(len(each.rules), cuts, 2))
            assert each.exact
            assert each.bound == 0.0
            assert each.value == pytest.approx(best, abs=1e-9)


def test_the_rules_of_a_tree_hold_one_at_a_time_and_can_be_read_alone(rng):
    mdp = random_mdp(rng, S=24, A=3)
    kinds, sizes = np.array(["red", "green", "blue"])[np.arange(24) % 3], rng.permutation(24) // 3
    found = pr.solve(mdp).simplify(max_rules=6, columns={"kind": kinds, "size": sizes}, form="tree")
    losses = [each.loss for each in found.lists]
    assert losses == sorted(losses, reverse=True)
    assert len(found.rules) > 3
    for each in found.lists:
        assert value_of(mdp, each.policy) == pytest.approx(each.value, abs=1e-8)
        assert each.loss <= each.bound + 1e-9 or each.exact
        assert sum(rule.states for rule in each.rules) == 24
        for state in range(24):
            spoken = [rule.action for rule in each.rules if holds(rule.condition, kinds[state], sizes[state])]
            assert spoken == [each.policy[state]]
    assert all(line.startswith("If ") for line in found.sentences())


def holds(condition, kind, size):
    """Return whether a condition in words holds in a state."""
    terms = [] if condition is None else condition.split(" and ")
    for term in terms:
        column, _, words = term.partition(" is ")
        if column == "size":
            number = float(words.replace("below", "").replace("or more", ""))
            true = size < number if "below" in words else size >= number
        else:
            true = (kind == words.removeprefix("not ")) != words.startswith("not ")
        if not true:
            return False
    return True


def test_no_rules_beat_the_bound_where_the_policy_is_careful(rng):
    """Rules may earn more than a careful policy in the mean model, but never more than its best policy."""
    model = pr.UncertainMDP.direct(rng.normal(size=(12, 3)), 0.9)
    counts = rng.gamma(0.3, size=(36, 12)) + 0.02
    solution = pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts), alpha=0.9).solve()
    mean = model.mdp(counts / counts.sum(axis=1, keepdims=True))
    best = pr.solve(mean).value.mean()
    for form in ("list", "tree"):
        for each in solution.simplify(max_rules=4, form=form, draws=20).lists:
            assert each.exact or each.bound == pytest.approx(best - each.value, abs=1e-6)
            assert each.exact or each.value + each.bound >= best


def test_a_tree_over_time_and_admissible_actions(rng):
    admissible = np.ones((6, 3), dtype=bool)
    admissible[::2, 0] = admissible[3, 1] = False
    mdp = pr.MDP(rng.dirichlet(np.ones(6), (6, 3)), rng.normal(size=(6, 3)), 1.0, admissible=admissible)
    solution = pr.solve(mdp, horizon=3)
    found = solution.simplify(max_rules=4, form="tree")
    for each in found.lists:
        assert each.policy.shape == (3, 6)
        assert np.take_along_axis(admissible[np.newaxis].repeat(3, 0), each.policy[..., np.newaxis], 2).all()
        assert pr.evaluate(mdp, each.policy, horizon=3).value[0].mean() == pytest.approx(each.value, abs=1e-9)
    assert found.best.value <= solution.value[0].mean() + 1e-9
    with refused(ParameterError, "unknown-option", argument="form"):
        solution.simplify(form="forest")


def test_value_counts_and_not_agreement():
    """Nine states hardly matter; the tenth does. One rule follows the tenth."""
    S = 10
    P = np.zeros((S, 2, S))
    P[:, :, 9] = 1.0
    reward = np.zeros((S, 2))
    reward[:9, 0], reward[9, 1] = 0.01, 1.0
    solution = pr.solve(pr.MDP(P, reward, 0.9))
    found = solution.simplify(max_rules=1)
    assert found.policy.tolist() == [1] * S
    assert found.best.states_differ == 9
    assert found.best.time_differs < 0.1
    assert found.best.loss == pytest.approx(0.9 * 0.01, abs=1e-9)


def test_losses_over_the_posterior_are_those_of_the_draws(rng):
    model = pr.UncertainMDP.direct(rng.normal(size=(5, 2)), 0.9)
    theta = rng.dirichlet(np.ones(5), (40, 10))
    solution = pr.BayesianRiskMDP(model, draws=theta, alpha=0.5).solve()
    best = solution.simplify(max_rules=2, start=1).best
    losses = []
    for one in theta:
        full, short = (pr.evaluate(model.mdp(one), policy).value[1] for policy in (solution.policy, best.policy))
        losses.append(full - short)
    assert best.mean_loss == pytest.approx(np.mean(losses), abs=1e-8)
    assert best.worst_loss == pytest.approx(np.mean(np.sort(losses)[-4:]), abs=1e-8)


def test_only_admissible_actions(rng):
    admissible = np.ones((6, 3), dtype=bool)
    admissible[::2, 0] = admissible[3, 1] = False
    mdp = pr.MDP(rng.dirichlet(np.ones(6), (6, 3)), rng.normal(size=(6, 3)), 0.9, admissible=admissible)
    for each in pr.solve(mdp).simplify(max_rules=3).lists:
        assert admissible[np.arange(6), each.policy].all()


def test_with_a_horizon_lists_of_two_rules_are_the_best_of_all(rng):
    """Rules of two steps and three states: a condition is a range of states, of steps, or one of both."""
    mdp, T = random_mdp(rng, S=3), 2
    worth = rng.normal(size=3)
    solution = pr.solve(mdp, horizon=T, terminal_value=worth)
    found = solution.simplify(max_rules=2)

    def value(policy):
        return pr.evaluate(mdp, policy, horizon=T, terminal_value=worth).value[0].mean()

    step, state = np.indices((T, 3))
    spans = {n: [(i, j) for i in range(n) for j in range(i + 1, n + 1)] for n in (T, 3)}
    best = -np.inf
    for (i, j), (k, m) in product(spans[T], spans[3]):  # products of ranges hold every condition, and two more
        if (i, j) != (0, T) and (k, m) != (0, 3) and m - k < 2 and 0 < k < 2:
            continue  # three conditions at once
        inside = (step >= i) & (step < j) & (state >= k) & (state < m)
        best = max(best, *(value(np.where(inside, a, b)) for a, b in product(range(2), repeat=2)))
    assert found.best.exact
    assert found.best.value == pytest.approx(best, abs=1e-9)
    assert found.value == pytest.approx(solution.value[0].mean(), abs=1e-9)
    assert found.best.policy.shape == (T, 3)


def test_with_a_horizon_the_loss_is_that_of_the_policy_and_of_its_draws(rng):
    admissible = np.ones((5, 3), dtype=bool)
    admissible[::2, 0] = False
    reward, T = rng.normal(size=(5, 3)), 4
    model = pr.UncertainMDP.direct(reward, 1.0, terminal={4: 2.0}, admissible=admissible)
    theta = pr.DirichletPosterior(model.prior()).sample(20, rng)
    solution = pr.BayesianRiskMDP(model, draws=theta, alpha=0.5).solve(horizon=T)
    found = solution.simplify(max_rules=4, start=1)
    for each in found.lists:
        assert admissible[np.arange(4), each.policy[:, :4]].all()
        mean = pr.evaluate(model.mdp(theta.mean(axis=0)), each.policy, horizon=T).value[0, 1]
        assert each.value == pytest.approx(mean, abs=1e-9)
        losses = [
            np.subtract(*(pr.evaluate(model.mdp(one), policy, horizon=T).value[0, 1] for policy in pair))
            for one in theta
            for pair in [(solution.policy, each.policy)]
        ]
        assert each.mean_loss == pytest.approx(np.mean(losses), abs=1e-8)
        assert each.worst_loss == pytest.approx(np.mean(np.sort(losses)[-2:]), abs=1e-8)
    timed = solution.simplify(max_rules=3, start=1, columns=["step"])
    assert all(rule.condition is None or "state" not in rule.condition for rule in timed.rules)
    free = admissible.all(axis=1) & ~np.isin(np.arange(5), 4)
    assert (timed.policy[:, free] == timed.policy[:, free][:, :1]).all()  # the same in all states
    still = solution.simplify(max_rules=3, start=1, columns=["state"])
    assert (still.policy[:, free] == still.policy[:1, free]).all()  # the same at all steps


def test_columns_by_name_by_state_and_from_a_state_map(rng):
    n = 800
    level, kind = rng.normal(size=n).round(2), rng.choice(["a", "b"], n)
    action = rng.choice(["up", "down"], n)
    reward = np.where((action == "up") == (level > 0.3), 1.0, 0.0) + 0.1 * rng.normal(size=n)
    log = {
        "episode": np.repeat(np.arange(n // 4), 4),
        "level": level,
        "kind": kind,
        "action": action,
        "reward": reward,
        "done": np.tile([0, 0, 0, 1], n // 4),
    }
    model, posterior = pr.from_log(log, 0.9, features=["level", "kind"], states="auto")
    solution = pr.BayesianRiskMDP(model, posterior, 0.0).solve()
    found = solution.simplify(max_rules=2)
    assert all("level" in rule.condition for rule in found.rules[:-1])
    assert found.best.loss <= 0.2 * found.lists[0].loss
    with refused(ParameterError, "unknown-option", argument="columns", value="pressure"):
        solution.simplify(columns=["pressure"])
    mdp = random_mdp(rng)
    named = pr.solve(mdp).simplify(columns={"odd": ["yes", "no"] * 3})
    assert all(rule.condition in (None, "odd is yes", "odd is no") for rule in named.rules)
    with refused(ParameterError, "wrong-length", argument="columns"):
        pr.solve(mdp).simplify(columns={"odd": [1]})
    with refused(ParameterError, "no-conditions", argument="columns"):
        pr.solve(mdp).simplify(columns={"same": [1] * 6})


@pytest.mark.parametrize("form", ["list", "tree"])
def test_rules_of_a_state_map_say_what_is_done_with_every_row(form, rng):
    """States are ranges of two numbers and a kind; followed by a reader of the sentences, row by row."""
    n = 1_200
    log = {"episode": np.repeat(np.arange(n // 4), 4), "heat": rng.normal(size=n).round(2)}
    log |= {
        "load": rng.normal(size=n).round(2),
        "kind": rng.choice(["a", "b", "c"], n),
        "action": rng.choice(["up", "down"], n),
    }
    good = (log["heat"] > 0.2) == ((log["load"] > 0.1) | (log["kind"] == "b"))
    log |= {"reward": np.where((log["action"] == "up") == good, 1.0, 0.0), "done": np.tile([0, 0, 0, 1], n // 4)}
    model, posterior = pr.from_log(log, 0.9, features=["heat", "load", "kind"], states="auto")
    found = pr.BayesianRiskMDP(model, posterior, 0.0).solve().simplify(max_rules=6, form=form, draws=20)
    assert len(found.rules) >= 2
    place = {state: i for i, state in enumerate(model.states)}
    free = model.admissible.sum(axis=1) > 1
    for heat, load, kind in zip(log["heat"][:200], log["load"][:200], log["kind"][:200], strict=True):
        row = {"heat": heat, "load": load, "kind": kind}
        state = place[model.summary.state_map.locate(row).state]
        spoken = [rule.action for rule in found.rules if in_words(rule.condition, row)]
        assert form == "list" or len(spoken) == 1
        assert not free[state] or spoken[0] == model.actions[found.policy[state]]


def in_words(condition, row):
    """Return whether a condition in words holds for a row of a log."""
    for term in [] if condition is None else condition.split(" and "):
        column, _, words = term.partition(" is ")
        if column == "kind":
            true = (row["kind"] == words.removeprefix("not ")) != words.startswith("not ")
        else:
            number = float(words.replace("below", "").replace("or more", ""))
            true = row[column] < number if "below" in words else row[column] >= number
        if not true:
            return False
    return True


def test_what_cannot_be_simplified_is_refused(rng):
    mdp = random_mdp(rng)
    with refused(ParameterError, "average-reward", method="simplify"):
        pr.solve(mdp, objective="average").simplify()
