"""Logs of numbers: next states, terminal outcomes, the choice of states, and acting on observations."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import DataError, ParameterError
from prudent.estimation import choose_states, from_log
from prudent.estimation.honest import Cell, HonestValues
from prudent.estimation.second_opinion import Opinions
from prudent.estimation.state_choice import pick
from prudent.planning import policy_code

SIMPLE = {
    "episode": [1, 1, 1, 2, 2],
    "step": [0, 1, 2, 0, 1],
    "pressure": [60.0, 80.0, 120.0, 75.0, 64.0],
    "action": ["drug", "wait", "wait", "wait", "drug"],
    "reward": [0.0, 1.0, 1.0, 1.0, -5.0],
    "done": [False, False, True, False, True],
}
CUTS = pr.StateMap(["pressure"], method="cuts", cuts={"pressure": [70, 100]}, min_rows=1)
LOW, MIDDLE, HIGH = "pressure below 70", "pressure 70-99", "pressure 100 or more"


def pairs(log, **options):
    """{(state, action, next state): times} of a log."""
    model, posterior = from_log(log, 0.9, states=CUTS, min_count=1, support="action", prior=1e-9, **options)
    table = {}
    for b, source in enumerate(model.naming.sources.names):
        for k, outcome in enumerate(model.naming.outcomes[b].names):
            if source != "terminal" and posterior.counts[b, k] > 0.5:
                table[(*source, outcome)] = round(float(posterior.counts[b, k]))
    return table


def walk(rng, episodes=50, length=12):
    """Keep a number near zero: pushing towards it is right, the log does so in 7 of 10 cases."""
    rows = []
    for e in range(episodes):
        x = rng.normal() * 2
        for t in range(length):
            right = x < 0 if rng.random() < 0.7 else rng.random() < 0.5
            y = x + (0.7 if right else -0.7) + 0.3 * rng.normal()
            rows.append((e, t, x, rng.normal(), "right" if right else "left", -abs(y)))
            x = y
    return pd.DataFrame(rows, columns=["episode", "step", "x", "noise", "action", "reward"])


# --- reading ---------------------------------------------------------------------------------------------


def test_next_states_come_from_the_next_row_and_the_flag():
    assert pairs(SIMPLE) == {
        (LOW, "drug", MIDDLE): 1,
        (MIDDLE, "wait", HIGH): 1,
        (HIGH, "wait", "end"): 1,
        (MIDDLE, "wait", LOW): 1,
        (LOW, "drug", "end"): 1,
    }


def test_rows_in_another_order_are_the_same_log(rng):
    order = rng.permutation(5)
    assert pairs({name: np.array(column, dtype=object)[order] for name, column in SIMPLE.items()}) == pairs(SIMPLE)


def test_named_outcomes_are_terminal_states():
    log = SIMPLE | {"done": ["", "", "home", "no", "dead"]}
    assert pairs(log)[HIGH, "wait", "home"] == pairs(log)[LOW, "drug", "dead"] == 1
    model, _ = from_log(log, 0.9, states=CUTS, min_count=1, terminal={"dead": -50.0})
    assert model.summary.terminal == ("home", "dead")
    assert model.terminal_value[model.state_index("dead")] == -50.0
    assert model.summary.states == (LOW, MIDDLE, HIGH, "home", "dead")  # in the order of the map


def test_a_last_row_without_an_action_says_where_it_ended():
    log = {name: [*column, column[-1]] for name, column in SIMPLE.items()}
    log["step"][-1], log["done"][4:], log["action"][-1] = 2, [False, True], None
    assert pairs(log)[LOW, "drug", "end"] == 1


def test_columns_of_what_came_next_are_used():
    log = {"pressure": [60, 80], "action": ["a", "b"], "next_pressure": [80, 60], "reward": [0, 0]}
    assert pairs(log) == {(LOW, "a", MIDDLE): 1, (MIDDLE, "b", LOW): 1}


def test_the_last_row_of_a_truncated_episode_is_dropped():
    log = {name: column for name, column in SIMPLE.items() if name != "done"}
    log["pressure"] = [60.0, 80.0, 62.0, 75.0, 64.0]
    model, _ = from_log(log, 0.9, states=CUTS, min_count=1)
    assert model.summary.dropped == {"at the end of an episode, without a next state": 2}
    assert not model.summary.terminal
    assert pairs(log, end="over")[LOW, "wait", "over"] == 1


def test_wrong_arguments_are_refused():
    with refused(ParameterError, "missing-argument", argument="features"):
        from_log(SIMPLE, 0.9, states="auto")
    with refused(ParameterError, "unknown-option", argument="states", value="some"):
        from_log(SIMPLE, 0.9, features=["pressure"], states="some")
    with refused(ParameterError, "conflicting-arguments", argument="features"):
        from_log(SIMPLE, 0.9, features=["reward"], states=CUTS)
    with refused(DataError, "missing-column", column="blood"):
        from_log(SIMPLE, 0.9, features=["blood"])
    with refused(DataError, "missing-column", column="episode"):
        from_log({"pressure": [1, 2], "action": ["a", "b"], "reward": [0, 1]}, 0.9, states=CUTS)
    with refused(DataError, "few-episodes"):
        from_log({name: column[:3] for name, column in SIMPLE.items()}, 0.9, features=["pressure"])
    with refused(ParameterError, "no-state-map"):
        model, posterior = from_log([("a", "go", "a", 1.0)], 0.9)
        pr.BayesianRiskMDP(model, posterior, 0.0).solve().act({"x": 1})


@pytest.mark.parametrize("name", ["reward", "done", "action", "episode", "next_pressure", "hours"])
def test_a_state_never_depends_on_what_followed_its_row(name):
    """The reward, the end, the action, the next row, the time it took: none is known when the action is chosen."""
    log = SIMPLE | {"next_pressure": [80.0, 120.0, 0.0, 64.0, 0.0], "hours": [1.0, 1.0, 1.0, 1.0, 1.0]}
    role = {"next_pressure": "next_state", "hours": "duration"}.get(name, name)
    for states in (None, pr.StateMap(["pressure", name], method="quantiles", bins=2, min_rows=1)):
        with refused(ParameterError, "feature-role", argument="features", value=name, role=role):
            from_log(log, 0.9, features=["pressure", name], states=states, duration="hours")


def test_a_feature_is_its_own_column_whatever_it_is_called(rng):
    """A column "a" beside "action", or "time" beside "step", had been replaced by what its name is usual for."""
    log = walk(rng, 40, 6).rename(columns={"x": "a", "noise": "time"})
    states = pr.StateMap(["a", "time"], method="quantiles", bins=2)
    expected = states.fit(log)
    model, _ = from_log(log, 0.9, states=states)
    assert model.summary.state_map.rules == expected.rules
    assert model.summary.columns["feature a"] == "a"
    alone = from_log(walk(rng, 40, 6), 0.9, states=pr.StateMap(["x", "step"], method="quantiles", bins=2))[0]
    assert alone.summary.columns["step"] == "step"  # which may be both


def test_a_feature_without_values_is_named(rng):
    with refused(DataError, "missing-value", column="noise"):
        from_log(walk(rng, 20, 6).assign(noise=np.nan), 0.9, features=["x", "noise"])


def test_values_as_they_are():
    model, _ = from_log(SIMPLE, 0.9, features=["pressure"], states="as they are", min_count=1)
    assert len(model.summary.states) == 6


# --- features and everything else ------------------------------------------------------------------------


def uneven(rng, episodes=12, done=True):
    """Return a log of pressures with gaps in its steps, two sites and durations of its own."""
    rows = []
    for e in range(episodes):
        step = np.cumsum(rng.choice([1, 1, 1, 3], size=6)) + 5
        for i, t in enumerate(step.tolist()):
            over = done and i == 5
            rows.append((e, t, "north" if e % 2 else "south", float(rng.integers(50, 130)), i == 5, over))
    log = pd.DataFrame(rows, columns=["episode", "step", "site", "pressure", "last", "done"])
    log["action"] = rng.choice(["drug", "wait"], len(log))
    log["reward"] = rng.integers(0, 3, len(log)).astype(float)
    until = log["step"].shift(-1) - log["step"]
    log["took"] = np.where(log["last"], 1.0, until)
    return log.drop(columns="last").sample(frac=1.0, random_state=2)  # rows in any order


def with_states(log):
    """Return the same log with the states of the map as a column, and its end as a row without an action."""
    fitted = CUTS.fit(log)
    plain = log.assign(state=fitted.transform(log)).drop(columns="pressure")
    last = plain[plain["done"]]
    ends = last.assign(step=last["step"] + 1, state="end", action=None, reward=np.nan, took=1.0)
    return pd.concat([plain, ends]).drop(columns="done")


COMBINED = {
    "cut": {"gaps": "cut"},
    "fill": {"gaps": "fill"},
    "duration": {"gaps": "duration"},
    "a column of durations": {"duration": "took"},
    "groups": {"gaps": "cut", "group": "site"},
    "groups and durations": {"gaps": "duration", "group": "site"},
    "groups and filled gaps": {"gaps": "fill", "group": "site"},
}


@pytest.mark.parametrize("options", COMBINED.values(), ids=COMBINED.keys())
@pytest.mark.parametrize("done", [True, False], ids=["ended", "cut off"])
def test_features_are_a_column_of_states(rng, options, done):
    """States by a map and the same states in a column make the same model, whatever else is asked for."""
    log = uneven(rng, done=done)
    ends = {"terminal": ["end"]} if done else {}
    made, by_map = from_log(log, 0.9, states=CUTS, min_count=1, **options)
    names = made.summary.states
    told, by_column = from_log(with_states(log), 0.9, states=names, **ends, **options)
    assert made == told
    assert by_map == by_column
    assert made.summary.starts == told.summary.starts


@pytest.mark.parametrize("gaps", ["cut", "fill", "duration"])
def test_features_of_another_log_are_a_prior(rng, gaps):
    log, other = uneven(rng), uneven(rng, 30)
    made, by_map = from_log(log, 0.9, states=CUTS, min_count=1, gaps=gaps, prior_from=other)
    told, by_column = from_log(
        with_states(log), 0.9, states=made.summary.states, terminal=["end"], gaps=gaps, prior_from=with_states(other)
    )
    assert made == told
    assert by_map == by_column
    assert by_map.prior.sum() > by_map.prior.shape[0] + 1.0  # the other log is in it


def test_gaps_with_features_are_an_error(rng):
    with refused(DataError, "gap", column="step"):
        from_log(uneven(rng), 0.9, states=CUTS)
    with refused(ParameterError, "conflicting-arguments", argument="prior_from"):
        from_log(uneven(rng), 0.9, states=CUTS, gaps="cut", group="site", prior_from=uneven(rng))
    with refused(DataError, "missing-column", column="hospital"):
        from_log(uneven(rng), 0.9, states=CUTS, gaps="cut", group="hospital")


@pytest.mark.parametrize("options", [{"gaps": "fill"}, {"gaps": "duration"}, {"duration": "took"}])
def test_states_are_chosen_with_gaps_and_durations(options):
    log = walk(np.random.default_rng(8), 40, 8)
    log["step"] += 2 * (log["step"] > 4)
    log["took"] = np.where(log["step"] == 4, 3.0, 1.0)
    model, posterior = from_log(log, 0.9, features=["x"], **options)
    assert np.isfinite(model.summary.state_choice.gain).all()
    solution = pr.BayesianRiskMDP(model, posterior, 0.0).solve()
    assert [solution.act({"x": x}) for x in (-2.0, 2.0)] == ["right", "left"]
    choice = model.summary.state_choice
    report = pr.check(log, 0.9, states=choice, repeats=2, **options)
    assert np.isfinite(report.honest.honest).all()
    assert report.recommended.alpha == choice.alpha  # one recommendation, by solve and by check
    assert report.recommended.design == f"{len(choice.chosen.states)} states by {choice.design}"
    assert ("note", choice.sentence) in report.reading


def test_what_the_log_did_is_judged_alike_in_filled_steps_and_in_rows(rng):
    """Steps that are left out and filled in again are the same log: values of what it did agree exactly."""
    log = walk(rng, 20, 8)
    whole = log.loc[log.index.repeat(np.where(log["step"] == 3, 3, 1))].copy()
    whole["step"] = whole.groupby("episode").cumcount()
    gone = log.assign(step=log["step"] + 2 * (log["step"] > 3))
    makers = [pr.StateMap(["x"], method="cuts", cuts={"x": [0.0]})]
    one, other = (
        choose_states(table, ["x"], 0.9, candidates=makers, alphas=[0.0], **options)
        for table, options in ((whole, {}), (gone, {"gaps": "fill"}))
    )
    assert one.opinions.gap["cuts"] == pytest.approx(other.opinions.gap["cuts"], abs=1e-9)
    assert one.opinions.gain["cuts", 0.0]["cuts"] == pytest.approx(other.opinions.gain["cuts", 0.0]["cuts"], abs=1e-9)
    assert one.honest.honest == pytest.approx(other.honest.honest, abs=1e-9)


# --- the choice of states --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chosen():
    log = walk(np.random.default_rng(8))
    model, posterior = from_log(log, 0.9, features=["x", "noise"])
    return log, model, pr.BayesianRiskMDP(model, posterior, model.summary.state_choice.alpha).solve()


def test_the_choice_finds_what_is_right(chosen):
    _, model, solution = chosen
    choice = model.summary.state_choice
    assert choice.improves
    assert choice.gain.low > 0.0
    assert [solution.act({"x": x, "noise": 0.0}) for x in (-3.0, -1.5, 1.5, 3.0)] == ["right", "right", "left", "left"]
    table = choice.to_pandas()
    assert table["chosen"].sum() == 1
    assert table["coverage"].between(0, 1).all()
    assert table["predicts"].max() > 0.3  # of x, of the reward and of the noise, which nothing predicts
    assert choice.sentence in model.summary.notes
    assert len(choice.plot().axes) == 2


def test_the_table_has_what_was_chosen(chosen):
    choice = chosen[1].summary.state_choice
    row = choice.to_pandas().query("chosen").iloc[0]
    at = choice.honest.at(design=choice.design, alpha=choice.alpha)[0]
    assert (row["design"], row["alpha"]) == (choice.design, choice.alpha)
    assert row["honest"] == choice.honest.honest[at]


def test_what_the_log_did_is_calibrated_in_a_markov_world(chosen):
    """The gap is within four standard errors of zero (a false alarm in 16,000) plus the bias of a coarse state."""
    choice = chosen[1].summary.state_choice
    judge = choice.opinions.best_judge
    assert abs(choice.opinions.gap[judge]) < 4 * choice.opinions.gap_error[judge] + 0.3


def hoard(rng, episodes=150, length=20):
    """Let a heap grow by one and earn one, or clear it; at twelve it falls and ends all. The log clears in time."""
    rows = []
    for e in range(episodes):
        heap = rng.integers(0, 6) + 0.0
        for t in range(length):
            clear = rng.random() < (0.9 if heap >= 8 else 0.3)
            after = max(heap - 4.0, 0.0) if clear else heap + 1.0
            fell = after >= 12.0
            rows.append((e, t, heap, "clear" if clear else "grow", -50.0 if fell else 0.0 if clear else 1.0, fell))
            heap = after
            if fell:
                break
    return pd.DataFrame(rows, columns=["episode", "step", "heap", "action", "reward", "done"])


def test_a_map_that_hides_where_its_policy_leads_is_not_chosen(rng):
    """Held-out episodes confirm the open state "8 or more", where growing looks harmless: the log clears the heap soon.
    Finer states know for how few steps it grew. The lowest gain less the dispute is what tells them apart.
    """
    log = hoard(rng)
    cuts = {"open": [4.0, 8.0], "fine": [float(k) for k in range(1, 12)]}
    makers = {name: pr.StateMap(["heap"], method="cuts", cuts={"heap": cut}, min_rows=1) for name, cut in cuts.items()}
    choice = choose_states(log, ["heap"], 0.9, candidates=makers, alphas=[0.0], min_count=1)
    least, dispute = choice.opinions.least, choice.opinions.dispute
    assert least("open", 0.0) > least("fine", 0.0) - 0.1  # which alone would not tell
    assert dispute("open", 0.0) > 0.3 > 0.1 > dispute("fine", 0.0)
    assert choice.design == "fine"
    model, posterior = from_log(log, 0.9, states=choice, min_count=1)
    solution = pr.BayesianRiskMDP(model, posterior, choice.alpha).solve()
    assert "clear" in {solution.act({"heap": heap}) for heap in (8.0, 9.0, 10.0, 11.0)}  # the other one never does


def scored(gains, apart, levels=(0.0, 0.9)):
    """Honest values and opinions of designs: gains {design: [[own, other], ...]} by level, every pair ``apart``."""
    cells, splits, gain = [], [], {}
    for design, pairs_of in gains.items():
        other = next(name for name in gains if name != design)
        for alpha, (own, theirs) in zip(levels, pairs_of, strict=True):
            cells.append(Cell(design, alpha, 1.0, "state"))
            gain[design, alpha] = {design: own, other: theirs}
            splits.append([own - apart * len(splits), own + apart * len(splits)])
        cells.append(Cell(design, None, 1.0, "state"))
        splits.append([0.0, 0.0])
    C = len(cells)
    values = np.array(splits)[:, np.newaxis, :]
    means, nothing = values.mean(axis=(1, 2)), np.zeros(C)
    honest = HonestValues(
        tuple(cells), means, means, nothing, means, means, nothing, nothing, nothing, values, values,
        np.zeros((C, 1)), 2, 1, 0.9, False,
    )  # fmt: skip
    return honest, Opinions(gain, dict.fromkeys(gains, 0.0), dict.fromkeys(gains, 1.0))


def test_maps_are_ranked_by_their_lowest_gain_less_the_dispute():
    scores = {"coarse": 0.5, "fine": 0.5}
    honest, opinions = scored({"coarse": [(5.0, 3.0), (4.0, 3.0)], "fine": [(2.6, 2.5), (2.0, 1.9)]}, 0.0)
    best = honest.cells[pick(honest, opinions, scores)]
    assert (best.design, best.alpha) == ("fine", 0.0)  # 2.4 against 2.0 at most, though 3.0 is the lower gain
    agreed, opinions = scored({"coarse": [(5.0, 3.0), (4.0, 3.9)], "fine": [(2.6, 2.5), (2.0, 1.9)]}, 0.0)
    best = agreed.cells[pick(agreed, opinions, scores)]
    assert (best.design, best.alpha) == ("coarse", 0.9)


def test_of_what_cannot_be_told_apart_the_higher_level_is_chosen():
    gains = {"coarse": [(1.0, 1.0), (0.9, 0.9)], "fine": [(1.2, 1.2), (0.8, 0.8)]}
    scores = {"coarse": 0.5, "fine": 0.5}
    certain, opinions = scored(gains, 0.0)
    assert certain.cells[pick(certain, opinions, scores)][:2] == ("fine", 0.0)
    noisy, opinions = scored(gains, 5.0)
    assert noisy.cells[pick(noisy, opinions, scores)][:2] == ("coarse", 0.9)


def test_a_map_that_predicts_much_worse_is_left_out():
    honest, opinions = scored({"coarse": [(9.0, 9.0), (9.0, 9.0)], "fine": [(1.0, 1.0), (1.0, 1.0)]}, 0.0)
    assert honest.cells[pick(honest, opinions, {"coarse": 0.3, "fine": 0.5})].design == "fine"
    assert honest.cells[pick(honest, opinions, {"coarse": 0.45, "fine": 0.5})].design == "coarse"


def test_a_given_map_overrides(chosen):
    log, model, _ = chosen
    own = model.summary.state_choice.candidates["tree 16"]
    again, _ = from_log(log, 0.9, states=own)
    assert len(again.summary.state_map.states) <= 16
    assert again.summary.state_choice is None
    fitted, _ = from_log(log, 0.9, states=again.summary.state_map)
    assert fitted.summary.state_map == again.summary.state_map


def test_candidates_can_be_given(rng):
    log = walk(rng, 30, 8)
    makers = [pr.StateMap(["x"], method="quantiles", bins=2), pr.StateMap(["x"], method="quantiles", bins=6)]
    choice = choose_states(log, ["x"], 0.9, candidates=makers, alphas=[0.0])
    assert choice.to_pandas()["design"].tolist() == ["quantiles 2", "quantiles 6"]
    with refused(ParameterError, "empty", argument="candidates"):
        choose_states(log, ["x"], 0.9, candidates=[])


# --- acting ----------------------------------------------------------------------------------------------


def test_fallbacks_for_what_nobody_has_seen(chosen):
    _, model, solution = chosen
    far = {"x": 1e6, "noise": 0.0}
    assert solution.act(far) == solution.act({"x": 4.0, "noise": 0.0}) == "left"
    assert solution.act(far, unseen="log") in ("left", "right")
    assert solution.act(far, unseen="log") == model.summary.most_tried(model.summary.state_map.locate(far).state)
    with refused(DataError, "unseen-observation"):
        solution.act(far, unseen="refuse")
    with refused(DataError, "missing-column", column="noise"):
        solution.act({"x": 1.0})


def test_plain_python_agrees_with_the_library(chosen, rng):
    _, model, solution = chosen
    names: dict = {}
    exec(policy_code(solution), names)
    cuts = [node[1] for node in model.summary.state_map.rules["partition"]["nodes"] if len(node) > 1]
    values = [*rng.normal(size=200) * 3, *cuts, None, float("nan"), "", "1.5", 1e9, -1e9, np.float64(0.3)]
    for _ in range(400):
        row = {"x": values[rng.integers(len(values))], "noise": values[rng.integers(len(values))], "other": 1}
        for unseen in ("nearest", "log"):
            assert names["act"](row, unseen) == solution.act(row, unseen=unseen)


def test_plain_python_with_categories_and_missing_values(rng):
    log = walk(rng, 30, 8).assign(kind=lambda t: rng.choice(["a", "b", None], len(t)), ward=rng.integers(0, 3, 240))
    for method in ("tree", "quantiles", "clusters"):
        features = pr.StateMap(["x", "kind", "ward"], method=method, n_states=8, bins=2, categorical=["ward"])
        model, posterior = from_log(log, 0.9, states=features, min_count=1)
        solution = pr.BayesianRiskMDP(model, posterior, 0.0).solve()
        names: dict = {}
        exec(policy_code(solution), names)
        for _ in range(200):
            row = {"x": rng.normal() * 3, "kind": rng.choice(["a", "b", "new", None]), "ward": int(rng.integers(0, 5))}
            assert names["act"](row) == solution.act(row)


def test_the_file_runs_without_the_library(chosen, tmp_path):
    path = tmp_path / "act.py"
    path.write_text(policy_code(chosen[2]))
    done = subprocess.run(
        [sys.executable, "-I", "-S", path, json.dumps({"x": 2.0, "noise": None})], capture_output=True, text=True
    )
    assert (done.stdout.strip(), done.stderr) == ("left", "")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ('{"x": "12,4", "noise": 1}', "x is '12,4', expected a number; write it with a decimal point"),
        ('{"x": "high", "noise": 1}', "x is 'high', expected a number; or None where it is missing"),
        ('{"x": [1], "noise": 1}', "x is [1], expected a number; or None where it is missing"),
        ('{"noise": 1}', "the observation has no column 'x'; give one observation as JSON: "),
        ("12,4", "the observation is no JSON ("),
        ("12.4", "the observation is 12.4, expected an object; give one observation as JSON: "),
    ],
)
def test_the_file_says_in_one_line_what_is_wrong_with_an_observation(chosen, tmp_path, given, said):
    path = tmp_path / "act.py"
    path.write_text(policy_code(chosen[2]))
    done = subprocess.run([sys.executable, "-I", "-S", path, given], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_the_library_says_the_same_of_a_decimal_comma(chosen):
    with pytest.raises(pr.errors.DataError, match="x is '12,4', expected a number; write it with a decimal point"):
        chosen[2].act({"x": "12,4", "noise": 1.0})
