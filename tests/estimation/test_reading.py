"""What a log says and what it does not: columns, measurements, gaps in time, episodes that were cut off."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from refusals import refused
from typer.testing import CliRunner

import prudent as pr
from prudent.cli.errors import in_options
from prudent.cli.main import app
from prudent.errors import DataError, ParameterError
from prudent.estimation import from_log

PATIENTS = pd.DataFrame(
    {
        "state": ["ill", "ill", "ill", "ill"],
        "action": ["drug", "drug", "wait", "wait"],
        "next_state": ["well", "dead", "well", "dead"],
        "reward": [1.0, 0.0, 1.0, 0.0],
    }
)
ENDS = ["well", "dead"]


def run(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    return result.output


# --- columns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weight", "n", "N", "freq", "weights", "counts", "frequency", "Weight"])
def test_body_weights_are_not_counts(name):
    weighed = PATIENTS.assign(**{name: [81.0, 64.0, 102.0, 71.0]})
    model, posterior = from_log(weighed, 0.9, terminal=ENDS)
    plain, expected = from_log(PATIENTS, 0.9, terminal=ENDS)
    assert model.summary.observations == 4.0
    assert model.summary.ignored == (name,)
    assert posterior == expected
    assert model == plain
    assert f"not used: {name!r}" in str(model.summary)
    told = from_log(weighed, 0.9, terminal=ENDS, columns={"count": name})[0].summary
    assert told.observations == 318.0
    assert f"count is {name!r} (how often a row was seen)" in str(told)


def test_a_count_is_a_count():
    assert from_log(PATIENTS.assign(count=2), 0.9, terminal=ENDS)[0].summary.observations == 8.0


def test_counts_by_position_are_said():
    rows = [("ill", "drug", "well", 1.0, 81.0), ("ill", "wait", "dead", 0.0, 64.0)]
    summary = from_log(rows, 0.9, terminal=ENDS)[0].summary
    assert dict(summary.lines())["columns"].endswith("count (how often a row was seen)")
    assert "columns" not in dict(from_log([row[:4] for row in rows], 0.9, terminal=ENDS)[0].summary.lines())


def test_a_letter_is_a_reward_only_next_to_s_and_a():
    with refused(DataError, "missing-column", column="reward"):  # r: respiration rate
        from_log(PATIENTS.rename(columns={"reward": "r"}), 0.9, terminal=ENDS)
    usual = PATIENTS.rename(columns={"reward": "r", "state": "s", "action": "a", "next_state": "s'"})
    assert from_log(usual, 0.9, terminal=ENDS)[0].summary.columns["reward"] == "r"


def test_a_temperature_does_not_order_an_episode():
    log = pd.DataFrame({"episode": 1, "state": ["a", "b", "c"], "action": "go", "reward": 0.0, "t": [39.0, 37.0, 38.0]})
    model, _ = from_log(log, 0.9, truncated="drop", end="end")
    assert model.summary.ignored == ("t",)
    assert model.summary.starts == {"a": 1.0}


@pytest.mark.parametrize("command", [["solve"], ["explain", "ill"], ["next-data"]])
def test_every_command_says_how_columns_were_read(tmp_path, command):
    log = tmp_path / "log.csv"
    PATIENTS.rename(columns={"state": "s"}).assign(weight=70.5).to_csv(log, index=False)
    arguments = [command[0], log, *command[1:], "--terminal", "well,dead", "--discount", "0.9"]
    out = ["--out", tmp_path / "policy", "--draws", "50"] if command[0] == "solve" else []
    shown = " ".join(run(*arguments, *out).split())
    assert "Columns: state is 's', action, next_state, reward; not used: 'weight'." in shown
    assert "Rewards: by transition" in shown
    record = json.loads(run(*arguments, *out, "--json"))
    assert ["columns", "state is 's', action, next_state, reward; not used: 'weight'"] in record["summary"]
    if out:
        assert "not used: &#x27;weight&#x27;" in (tmp_path / "policy" / "report.html").read_text()


def test_check_says_how_columns_were_read(tmp_path, rng):
    log = tmp_path / "log.csv"
    rows = {"episode": np.repeat(np.arange(8), 4), "state": "on", "action": rng.choice(["a", "b"], 32), "weight": 81.5}
    pd.DataFrame(rows).assign(next_state="on", reward=1.0).to_csv(log, index=False)
    shown = " ".join(run("check", log, "--out", tmp_path / "check").split())
    assert "Rows: 32 read, 32 used." in shown
    assert "not used: 'weight'." in shown
    record = json.loads((tmp_path / "check" / "check.json").read_text())
    assert ["rows", "32 read, 32 used"] in record["reading"]
    assert "not used: &#x27;weight&#x27;" in (tmp_path / "check" / "check.html").read_text()


@pytest.mark.parametrize(
    ("table", "option"),
    [
        (pd.DataFrame({"episode": [1, 1], "glucose": [5.0, 6.0], "action": "a", "reward": 0.0}), "--features"),
        (pd.DataFrame({"episode": 1, "step": [0, 1, 5], "state": "a", "action": "a", "reward": 0.0}), "--gaps"),
        (
            pd.DataFrame({"state": np.arange(30) / 7, "action": 0, "next_state": np.arange(30) / 7, "reward": 0}),
            "as they",
        ),
        (pd.DataFrame({"state": ["a"], "action": "a", "next_state": "b", "reward": 0.0}), "--truncated"),
    ],
    ids=["no state", "a gap", "measurements", "cut off"],
)
def test_errors_name_the_option_that_helps(tmp_path, table, option):
    table.to_csv(tmp_path / "log.csv", index=False)
    result = CliRunner().invoke(app, ["solve", str(tmp_path / "log.csv")])
    assert option in in_options(result.exception)


def test_noisy_rewards_on_the_page(tmp_path, rng):
    """Never "between 87.73 and 87.73 with 90% probability"."""
    log = tmp_path / "log.csv"
    rewards = 87.73 + 10.0 * rng.normal(size=30)
    rows = pd.DataFrame({"state": "on", "action": "go", "next_state": "off", "reward": rewards.round(2)})
    rows.to_csv(log, index=False)
    shown = run("solve", log, "--terminal", "off", "--draws", "400", "--out", tmp_path / "policy")
    assert "which are uncertain" in shown
    record = json.loads((tmp_path / "policy" / "policy.json").read_text())
    (level,) = (row for row in record["levels"] if row["alpha"] == 0.9)
    assert level["sd"] == pytest.approx(np.std(rewards, ddof=1) / np.sqrt(30), rel=0.25)
    page = (tmp_path / "policy" / "report.html").read_text()
    low, high = re.search(r"between ([\d.]+) and ([\d.]+) with 90% probability", re.sub("<[^>]*>", "", page)).groups()
    assert float(high) - float(low) > 2.0


# --- measurements ----------------------------------------------------------------------------------------


def walk(rng, size, digits):
    """Return a log of pressures, rounded to some digits."""
    pressure = np.clip(100.0 + np.cumsum(rng.normal(0.0, 8.0, size)) % 150.0, 0.0, 400.0).round(digits)
    pressure = pressure.astype(np.int64) if digits == 0 else pressure
    return pd.DataFrame(
        {"state": pressure[:-1], "action": rng.integers(5, size=size - 1), "next_state": pressure[1:], "reward": 0.0}
    )


@pytest.mark.parametrize(("size", "digits"), [(300, 3), (2_000, 1), (200, 0), (600, 0)])
def test_measurements_are_not_states(rng, size, digits):
    log = walk(rng, size, digits)
    with refused(DataError, "measured-states", argument="states"):
        from_log(log, 0.9, truncated="drop")
    ends = sorted(set(log["next_state"]) - set(log["state"]))
    assert from_log(log, 0.9, terminal=ends, states="as they are")[0].n_states > 20


def test_measurements_in_tuples_are_not_states(rng):
    log = walk(rng, 300, 1)
    rows = [((s, -s), a, (t, -t), r) for s, a, t, r in log.itertuples(index=False)]
    with refused(DataError, "measured-states", argument="states"):
        from_log(rows, 0.9, truncated="drop")


def test_row_names_are_not_states():
    rows = [(f"visit {i}", "go", f"visit {i + 1}", 1.0) for i in range(40)]
    with refused(DataError, "measured-states", argument="states"):
        from_log(rows, 0.9, terminal=["visit 40"])
    assert from_log(rows, 0.9, terminal=["visit 40"], states="as they are")[0].n_states == 41
    with refused(ParameterError, "unknown-option", argument="states"):
        from_log(rows, 0.9, terminal=["visit 40"], states="as they were")


def test_numbers_that_are_labels_are_states(rng):
    """Clusters that have numbers, such as those of ICU-Sepsis, with few data for each pair."""
    cluster = rng.integers(300, size=3_001)
    log = pd.DataFrame({"state": cluster[:-1], "action": rng.integers(8, size=3_000), "next_state": cluster[1:]})
    model, _ = from_log(log.assign(reward=0.0), 0.9, truncated="drop")
    assert np.mean(model.summary.visits <= 1.0) > 1 / 3


def test_few_data_and_fine_grids_are_states(rng):
    names = [f"page {i}" for i in range(60)]
    few = [(rng.choice(names), rng.choice(["a", "b"]), rng.choice(names), 1.0) for _ in range(200)]
    assert from_log(few, 0.9, truncated="drop")[0].summary.rows == 200  # names that come back, most pairs seen once
    grid = [(i / 50, a, (i + 1) % 50 / 50, 1.0) for i in range(50) for a in "ab" for _ in range(6)]
    assert from_log(grid, 0.9)[0].n_states == 50  # each left twelve times
    small = [(i, a, (i + 1) % 20, 1.0) for i in range(20) for a in "ab"]
    assert from_log(small, 0.9)[0].n_states == 20
    said = [(i, a, (i + 1) % 90, 1.0) for i in range(90) for a in "ab"]
    assert from_log(said, 0.9, states=range(90))[0].n_states == 90  # the caller named them


# --- gaps in time ----------------------------------------------------------------------------------------

GAP = pd.DataFrame(
    {
        "episode": ["p", "p", "p", "p", "q", "q", "q"],
        "step": [0, 1, 4, 5, 0, 1, 2],
        "state": ["a", "b", "c", "a", "a", "b", "a"],
        "action": ["x", "y", "x", None, "x", "y", None],
        "reward": [1.0, 2.0, 3.0, np.nan, 1.0, 2.0, np.nan],
    }
)


def transitions(log, **options):
    """Return the transitions of a log with their counts, durations or None."""
    model, posterior = from_log(log, 0.9, support="action", states="as they are", **options)
    found, e, seen = {}, model.entries, posterior.counts - posterior.prior
    for p in range(e.source.size):
        for j in range(e.first[p], e.first[p + 1]):
            b = e.source[p]
            times = seen[b, e.outcome[e.begin[b] + j - e.first[p]]]
            s, a = divmod(p, model.n_actions)
            length = None if model.duration is None else model.duration[j]
            key = model.states[s], model.actions[a], model.states[e.next_state[j]], length
            found[key] = (round(float(times), 9), float(e.reward[j]))
    return found


def test_gaps_are_not_bridged():
    with refused(DataError, "gap", column="step", row=1, value=3.0, expected=1.0):
        from_log(GAP, 0.9)
    for column in ("time", "step"):
        uneven = GAP.assign(step=[0, 1, 2.5, 3.5, 0, 1, 2]).rename(columns={"step": column})
        with refused(DataError, "gap", column="step", row=1):
            from_log(uneven, 0.9)
    even = GAP.assign(step=[0, 5, 10, 15, 2, 7, 12])  # evenly spaced, whatever the unit
    assert from_log(even, 0.9)[0].summary.used == 5
    shuffled = GAP.sample(frac=1.0, random_state=3)
    with refused(DataError, "gap", column="step"):
        from_log(shuffled, 0.9)


@pytest.mark.parametrize(
    "written",
    ["%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%Y-%m-%dT%H:%M:%S+02:00", None],
    ids=["ISO", "dots", "zone", "objects"],
)
def test_dates_order_episodes_and_show_gaps(written):
    """A time column of dates is read as times: in any order of the rows, and with the same gaps as numbers."""
    dates = pd.Timestamp("2024-01-31 22:00") + pd.to_timedelta(GAP["step"], unit="h")
    cells = dates if written is None else dates.dt.strftime(written)
    dated = GAP.drop(columns="step").assign(time=cells).sample(frac=1.0, random_state=3)
    with refused(DataError, "gap", column="step", value=3.0 * 3600, expected=3600.0) as caught:
        from_log(dated, 0.9)
    assert "which is 3 hours, and elsewhere 1 hour," in str(caught.value)
    for gaps in ("cut", "fill", "duration"):
        assert transitions(dated, gaps=gaps) == transitions(GAP, gaps=gaps)


def test_what_is_no_date_among_dates_is_refused():
    dates = ["2024-01-01", "2024-01-02", "1/3/2024", "2024-01-04", "2024-01-01", "2024-01-02", "2024-01-03"]
    with refused(DataError, "not-finite", column="step", row=2):
        from_log(GAP.assign(step=dates), 0.9)
    with refused(DataError, "not-finite", column="step"):
        from_log(GAP.assign(step=["one", "two", "three", "four", "one", "two", "three"]), 0.9)


def test_rows_that_are_there_twice_are_refused():
    with refused(DataError, "duplicate-row", column="step", row=7):
        from_log(pd.concat([GAP, GAP.iloc[[4]]], ignore_index=True), 0.9, gaps="cut")


def test_a_gap_cuts_the_episode():
    assert transitions(GAP, gaps="cut") == {
        ("a", "x", "b", None): (2.0, 1.0),
        ("b", "y", "a", None): (1.0, 2.0),
        ("c", "x", "a", None): (1.0, 3.0),
    }
    summary = from_log(GAP, 0.9, gaps="cut")[0].summary
    assert summary.dropped["before a gap in step"] == 1
    assert summary.starts == {"a": 1.0}  # a cut is no new beginning
    ended = from_log(GAP.assign(action="x", reward=1.0), 0.9, gaps="cut", end="over")[0].summary
    assert ended.dropped["before a gap in step"] == 1  # nor an end


def test_a_gap_is_filled():
    assert transitions(GAP, gaps="fill") == {
        ("a", "x", "b", None): (2.0, 1.0),
        ("b", "y", "a", None): (1.0, 2.0),
        ("b", "y", "b", None): (2.0, 2.0),
        ("b", "y", "c", None): (1.0, 2.0),
        ("c", "x", "a", None): (1.0, 3.0),
    }
    summary = from_log(GAP, 0.9, gaps="fill")[0].summary
    assert (summary.used, summary.observations) == (5, 7.0)
    with refused(DataError, "gap", column="step", row=2):
        from_log(GAP.assign(step=[0, 1, 2.5, 3.5, 0, 1, 2]), 0.9, gaps="fill")


def test_a_gap_is_a_duration():
    assert transitions(GAP, gaps="duration") == {
        ("a", "x", "b", 1.0): (2.0, 1.0),
        ("b", "y", "a", 1.0): (1.0, 2.0),
        ("b", "y", "c", 3.0): (1.0, 2.0),
        ("c", "x", "a", 1.0): (1.0, 3.0),
    }
    notes = from_log(GAP, 0.9, gaps="duration")[0].summary.notes
    assert notes[0] == "durations by step: 1 to 3 steps"
    with refused(DataError, "gap", column="step", row=2):  # shorter than the unit
        from_log(GAP.assign(step=[0, 1, 1.5, 2.5, 0, 1, 2]), 0.9, gaps="duration")
    with refused(DataError, "missing-column", argument="gaps"):
        from_log(GAP.drop(columns="step"), 0.9, gaps="cut")
    with refused(ParameterError, "unknown-option", argument="gaps"):
        from_log(GAP, 0.9, gaps="bridge")


def test_next_states_of_the_log_are_kept_and_uneven_times_noted():
    log = PATIENTS.assign(episode=1, time=[0, 1, 3, 4])
    assert any("not even" in note for note in from_log(log, 0.9, terminal=ENDS)[0].summary.notes)
    assert from_log(log, 0.9, terminal=ENDS)[0] == from_log(PATIENTS, 0.9, terminal=ENDS)[0]


def test_the_command_line_reads_time(tmp_path):
    log = tmp_path / "log.csv"
    GAP.to_csv(log, index=False)
    refusal = CliRunner().invoke(app, ["next-data", str(log)]).exception
    assert isinstance(refusal, DataError)
    assert refusal.code == "gap"
    shown = run("next-data", log, "--gaps", "cut")
    assert "1 before a gap in step" in shown


# --- durations -------------------------------------------------------------------------------------------


def test_a_duration_is_never_guessed_and_explains_a_gap():
    log = GAP.assign(duration=[1, 3, 1, 0, 1, 1, 0])
    with refused(DataError, "gap", column="step"):
        from_log(log, 0.9)
    assert transitions(log, duration="duration") == transitions(GAP, gaps="duration")
    with refused(DataError, "gap", column="step", row=1):  # it says 2 where 3 passed
        from_log(log.assign(duration=[1, 2, 1, 0, 1, 1, 0]), 0.9, duration="duration")
    for bad, code in ((0.0, "value-range"), (-1.0, "value-range"), (0.5, "value-range"), (np.nan, "not-finite")):
        with refused(DataError, code, column="duration", row=4):
            from_log(log.assign(duration=[1, 3, 1, 0, bad, 1, 0]), 0.9, duration="duration")
    with refused(DataError, "missing-column", column="took"):
        from_log(log, 0.9, duration="took")
    with refused(ParameterError, "conflicting-arguments", argument="support"):
        from_log(log, 0.9, duration="duration", support="all")


def test_durations_of_one_change_nothing():
    log = GAP.assign(step=range(7), took=1.0)
    assert from_log(log, 0.9, duration="took")[0] == from_log(log, 0.9)[0]
    assert from_log(log, 0.9, duration="took")[0].duration is None


# --- episodes that were cut off --------------------------------------------------------------------------

CUT = [
    ("a", "x", "b", 1.0),
    ("a", "x", "b", 1.0),
    ("a", "x", "a", 1.0),
    ("a", "y", "z", 5.0),  # z is never left
    ("b", "x", "a", 2.0),
    ("b", "y", "z", 3.0),
    ("c", "x", "z", 0.0),  # c has nothing else, so it is never left either
    ("b", "y", "c", 3.0),
]


def test_truncated_episodes_are_named():
    with refused(DataError, "dead-end", states=("z",)):
        from_log(CUT, 0.9)


def test_truncated_rows_are_dropped():
    assert transitions(CUT, truncated="drop") == {
        ("a", "x", "a", None): (1.0, 1.0),
        ("a", "x", "b", None): (2.0, 1.0),
        ("b", "x", "a", None): (1.0, 2.0),
    }
    summary = from_log(CUT, 0.9, truncated="drop")[0].summary
    assert summary.dropped == {"that lead to a state that is never left": 4}


def test_truncated_rows_are_closed_by_the_mean_of_their_state():
    found = transitions(CUT, truncated="mean")
    third = round(1 / 3, 9)
    assert found == {
        ("a", "x", "a", None): (1.0, 1.0),
        ("a", "x", "b", None): (2.0, 1.0),
        ("a", "y", "a", None): (third, 5.0),
        ("a", "y", "b", None): (round(2 / 3, 9), 5.0),
        ("b", "x", "a", None): (1.0, 2.0),
        ("b", "y", "a", None): (2.0, 3.0),
    }
    summary = from_log(CUT, 0.9, truncated="mean")[0].summary
    assert any("truncated='mean'" in note for note in summary.notes)
    assert summary.observations == 7.0
    with refused(DataError, "no-rows"):
        from_log([("a", "x", "b", 1.0)], 0.9, truncated="mean")


def test_truncated_on_the_command_line(tmp_path):
    log = tmp_path / "log.csv"
    pd.DataFrame(CUT, columns=["state", "action", "next_state", "reward"]).to_csv(log, index=False)
    assert "4 that lead to a state that is never left" in run("next-data", log, "--truncated", "drop")
    assert "truncated='mean'" in run("next-data", log, "--truncated", "mean")


def test_terminal_states_are_not_truncated():
    model, _ = from_log(CUT, 0.9, truncated="drop", terminal={"z": 1.0})
    assert model == from_log(CUT, 0.9, terminal={"z": 1.0})[0]
    assert pr.BayesianRiskMDP(model, model.prior(), 0.5).solve().converged


def test_a_flag_of_the_end_beside_states_says_what_to_do():
    log = GAP.assign(over=[0, 0, 0, 1, 0, 0, 1], step=[0, 1, 2, 3, 0, 1, 2])
    with refused(ParameterError, "unknown-option", argument="columns", value="done") as caught:
        from_log(log, 0.9, columns={"done": "over"})
    assert "next_state" in str(caught.value)
