"""From a log to a decision on the command line: solve, explain, next-data, and the page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas
import pytest
from _browser import look
from _child import on_a_terminal

import prudent as pr
from prudent.analysis import log_study
from prudent.cli.main import main

HEAD = "state,action,next_state,reward\n"
ROWS = [
    ("ill", "wait", "ill", 0.0, 60),
    ("ill", "wait", "dead", 0.0, 20),
    ("ill", "wait", "well", 1.0, 30),
    ("ill", "drug", "well", 1.0, 3),
    ("ill", "drug", "dead", 0.0, 1),
    ("worse", "drug", "ill", -0.1, 12),
    ("worse", "drug", "dead", -0.1, 12),
    ("worse", "pray", "ill", 0.0, 1),
    ("ill", "wait", "worse", 0.0, 5),
]
TERMINAL = ("--terminal", "well,dead")
WILD = '<script>alert("1")</script>'


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main([str(each) for each in arguments])
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        notes = [line for line in printed.err.splitlines(keepends=True) if "compiling kernels" not in line]
        return code, printed.out, "".join(notes)

    return run


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    rows = [row[:4] for row in ROWS for _ in range(row[4])]
    pandas.DataFrame(rows, columns=["state", "action", "next_state", "reward"]).to_csv(path, index=False)
    return path


class Links(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.links, self.ids, self.tags = [], [], set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name in ("href", "src", "xlink:href"):
                self.links.append(value)
            if name == "id":
                self.ids.append(value)


def test_solve_writes_what_the_library_says(call, log, tmp_path):
    out = tmp_path / "policy"
    code, text, error = call("solve", log, *TERMINAL, "--terminal", "dead=-2", "--discount", 0.9, "--min-count", 2)
    assert (code, error) == (0, "")
    assert "144 rows read, 143 used, 1 dropped" in text
    assert max(map(len, text.splitlines())) <= 120
    table = pandas.read_csv(out / "policy.csv")
    assert list(table.columns[:4]) == ["state", "action", "value", "alpha"]
    model, posterior = pr.from_log(log, 0.9, terminal={"well": 0, "dead": -2}, min_count=2)
    for alpha in (0, 0.5, 0.9):
        solution = pr.BayesianRiskMDP(model, posterior, alpha).solve()
        part = table[table["alpha"] == alpha].set_index("state")
        assert list(part.index) == list(model.states)
        for state, action, value in zip(model.states, solution.policy_names, solution.value, strict=True):
            assert part.loc[state, "value"] == pytest.approx(value, abs=1e-9)
            assert action is None or part.loc[state, "action"] == action
    record = json.loads((out / "policy.json").read_text())
    assert record["rows"] == {
        "read": 144,
        "used": 143,
        "dropped": {"of actions tried too seldom in their state": 1},
    }
    assert [level["alpha"] for level in record["levels"]] == [0, 0.5, 0.9]
    for level in record["levels"]:
        part = table[table["alpha"] == level["alpha"]]
        assert [row["value"] for row in level["policy"]] == pytest.approx(part["value"].tolist())
    # the forecast is that of the library for the same draws
    plans = {a: pr.BayesianRiskMDP(model, posterior, a).solve() for a in (0.0, 0.5, 0.9)}
    returns = pr.posterior_returns(model, posterior, plans, draws=4_000, rng=9)
    for level, mean, se in zip(record["levels"], returns["mean"].values, returns["mean_se"].values, strict=True):
        # two independent samples; seven standard errors of their difference: false alarm below 1e-6 for all three
        assert abs(level["mean"] - mean) < 7.0 * np.hypot(level["mean_se"], se) + 1e-12
    assert sorted(path.name for path in (out / "figures").iterdir()) == [
        f"{name}.{kind}" for name in ("check", "policy", "returns", "risk-profile") for kind in ("png", "svg")
    ]


def test_the_page_is_whole_and_tells_it_in_words(call, log, tmp_path):
    code, _, _ = call("solve", log, *TERMINAL, "--out", "here", "--draws", 200)
    assert code == 0
    page = (tmp_path / "here" / "report.html").read_text()
    found = Links(page)
    assert not found.tags & {"script", "img", "iframe", "object"}
    for link in found.links:
        if link.startswith("#"):
            assert link[1:] in found.ids
        else:  # the page can be sent alone
            assert link.startswith("data:"), link
    assert len(found.ids) == len(set(found.ids))
    words = re.sub(r"<[^>]+>", " ", page)
    for told in (
        "144 rows",
        "What to do",
        "What the policies earn",
        "Rules to remember",
        "Compared with today",
        "How sure this is",
        "What is assumed",
        "how much caution",
        "What to measure next",
        "takes the risk anew at every step",
        "no forecast",
        "the worst 10%",
        "CVaR",
    ):
        assert told in words, told
    again = tmp_path / "again"
    call("solve", log, *TERMINAL, "--out", again, "--draws", 200)
    assert (again / "report.html").read_text() == page  # the same options, the same bytes


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_in_a_browser(call, tmp_path, dark):
    rows = [f"{WILD},x{i % 3},{WILD if i % 2 else 'b'},{i % 5}" for i in range(40)] + ["b,$x$ _nu,b,1", "b,x1,b,0"]
    (tmp_path / "log.csv").write_text(HEAD + "\n".join(row.replace('"', "") for row in rows) + "\n")
    code, _, error = call("solve", "log.csv", "--alpha", "0,0.9", "--draws", 200)
    assert (code, error) == (0, "")
    page = (tmp_path / "policy" / "report.html").read_text()
    assert "<script" not in page
    assert "$x$ _nu" in page
    reports, console = look(tmp_path / "look", page, dark=dark)
    assert console == []
    for report in reports:
        assert report["wrong"] == []
        assert report["figures"] == 5
        sums = [sum(map(int, re.findall(r"\d+", report[key])[:3])) for key in ("ink", "ground")]
        assert (sums[0] > sums[1]) == dark


def test_json_on_the_screen(call, log):
    code, text, _ = call("solve", log, *TERMINAL, "--json", "--draws", 50, "--alpha", "0.5")
    assert code == 0
    assert json.loads(text)["levels"][0]["alpha"] == 0.5
    code, text, _ = call("explain", log, "ill", *TERMINAL, "--json")
    (levels,) = json.loads(text)["levels"].values()
    assert levels[0]["chosen"] is True
    code, text, _ = call("next-data", log, *TERMINAL, "--json")
    assert json.loads(text)["observations"] == 10


def test_explain_says_what_the_library_says(call, log):
    code, text, _ = call("explain", log, "ill", *TERMINAL, "--alpha", "0,0.9", "--discount", 0.95)
    assert code == 0
    model, posterior = pr.from_log(log, 0.95, terminal=["well", "dead"])
    for alpha in (0, 0.9):
        why = str(pr.BayesianRiskMDP(model, posterior, alpha).solve().explain("ill"))
        assert why.splitlines()[0] in text
        assert why.splitlines()[-1] in text


@pytest.mark.parametrize("timed", [(), ("--horizon", 3, "--terminal-value", "ill=1")])
def test_solve_explain_and_next_data_speak_of_one_level(call, log, timed, monkeypatch):
    """The level that solve recommends, wherever that is."""
    found = {}
    for asked in ("0,0.5,0.9", "0.2,0.4"):
        monkeypatch.setattr("prudent.cli.log.COMPARED", asked)
        code, text, _ = call("solve", log, *TERMINAL, *timed, "--json", "--alpha", asked)
        assert code == 0
        record = json.loads(text)
        found[asked] = record["recommended"]
        code, text, _ = call("explain", log, "ill", *TERMINAL, *timed)
        assert code == 0
        assert re.search(rf"Risk level {found[asked]:g}[^:]*, which solve recommends:", text)
        code, text, _ = call("next-data", log, *TERMINAL, *timed, "--json")
        assert json.loads(text)["alpha"] == found[asked]
    assert len(set(found.values())) == 2


def test_next_data_ranks_as_the_library_does(call, log):
    code, text, _ = call("next-data", log, *TERMINAL, "--observations", 3, "--json", "--start", "ill", "--alpha", 0)
    found = json.loads(text)
    assert code == 0
    assert found["left_out"] == 0
    model, posterior = pr.from_log(log, 0.99, terminal=["well", "dead"])
    ours = pr.value_of_data(model, posterior, 0.0, 3, start="ill", rng=1)
    assert [row["gain"] for row in found["ranking"]] == pytest.approx(
        sorted(ours.gain[(ours.gain != 0) | (ours.value_change != 0)], reverse=True)
    )
    best = int(ours.source[np.argmax(ours.gain)])
    s, a = np.argwhere(model.source == best)[0]
    assert (found["ranking"][0]["state"], found["ranking"][0]["action"]) == (model.states[s], model.actions[a])
    code, text, _ = call("next-data", log, *TERMINAL, "--start", "ill")
    assert "gain" in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_large_model_is_screened_and_the_needle_is_found(call, tmp_path, monkeypatch):
    """One state of many has two actions that are hard to tell apart; in all others one is far better."""
    monkeypatch.setattr(log_study, "MANY_SOURCES", 20)
    monkeypatch.setattr(log_study, "EVALUATED_SOURCES", 4)
    rows = []
    for i in range(60):
        close = i == 37
        for action, wins, losses in (("left", 3, 3), ("right", 3, 2) if close else ("right", 0, 40)):
            rows += [(f"room {i}", action, "end", 1.0)] * wins + [(f"room {i}", action, "end", 0.0)] * losses
    pandas.DataFrame(rows, columns=["state", "action", "next_state", "reward"]).to_csv("log.csv", index=False)
    shared = ("--terminal", "end", "--rewards", "outcomes", "--discount", 0.5)
    code, text, _ = call("next-data", "log.csv", *shared, "--json")
    found = json.loads(text)
    assert code == 0
    assert found["left_out"] > 40
    assert {(row["state"], row["action"]) for row in found["ranking"][:2]} == {
        ("room 37", "left"),
        ("room 37", "right"),
    }
    code, text, _ = call("next-data", "log.csv", *shared)
    assert re.search(r"Looked at \d+ of 12\d pairs", text)
    code, text, _ = call("solve", "log.csv", *shared, "--draws", 100)
    assert "and 30 more states" in text


def test_names_as_the_log_has_them(call, tmp_path):
    (tmp_path / "log.csv").write_text(HEAD + '"ward 3, bed 1",x,home=2,1\n"ward 3, bed 1",y,died,0\n')
    code, _, error = call("solve", "log.csv", "--draws", 50)
    assert code == 2
    assert "--terminal died,home=2=0 if the process ends" in error
    given = ["--support", "action", "--terminal", "died,home=2=4", "--start", '"ward 3, bed 1"']
    given += ["--discount", 0.5, "--draws", 50]
    assert call("solve", "log.csv", *given)[0] == 0
    table = pandas.read_csv(tmp_path / "policy" / "policy.csv")
    assert table.loc[table["state"] == "ward 3, bed 1", "value"].tolist() == [3.0] * 3
    (tmp_path / "numbers.csv").write_text(HEAD + "4,0,7,1\n4,1,9,0\n")
    frame = pandas.read_csv(tmp_path / "numbers.csv")
    frame.to_parquet(tmp_path / "numbers.parquet")
    for name in ("numbers.csv", "numbers.parquet"):
        code, text, error = call("explain", name, "4", "--terminal", "7=1", "--terminal", "9", "--start", 4)
        assert (code, error) == (0, "")
        assert "In state 4 the policy takes" in text
    frame.columns = ["from here", "what", "there", "pay"]
    frame.to_csv("other.csv", index=False)
    columns = "state=from here,action=what,next_state=there,reward=pay"
    assert call("explain", "other.csv", 4, "--terminal", "7,9", "--columns", columns)[0] == 0


def test_the_last_row_of_an_episode_may_have_no_reward(call, tmp_path):
    (tmp_path / "log.csv").write_text("episode,state,action,reward\n1,a,x,0\n1,b,x,1\n1,c,,\n2,a,y,0\n2,c,,\n")
    code, text, _ = call("explain", "log.csv", "a", "--terminal", "c")
    assert code == 0
    assert "5 rows read, 3 used, 2 dropped: 2 which only say where an episode ended" in text


def test_without_a_start_it_is_where_episodes_begin(call, tmp_path):
    rows = "".join(f"{i},a,x,b,0\n{i},b,x,c,1\n" for i in range(9)) + "9,b,x,a,1\n"
    (tmp_path / "log.csv").write_text("episode," + HEAD + rows)
    code, text, _ = call("solve", "log.csv", "--terminal", "c", "--draws", 20)
    assert code == 0
    assert "From 2 states, with given chances" in text
    assert "which begin in 'a' 90%, 'b' 10%" in (tmp_path / "policy" / "policy.json").read_text()
    text = call("solve", "log.csv", "--terminal", "c", "--draws", 20, "--start", "b")[1]
    assert "From state 'b', discount 0.99; bad" in text


def test_an_action_that_leads_nowhere_else_and_one_row(call, tmp_path):
    (tmp_path / "log.csv").write_text(HEAD + "a,x,a,1\n")
    code, text, error = call("solve", "log.csv", "--discount", 0.5, "--draws", 20)
    assert (code, error) == (0, "")
    assert "1 row read, 1 used, 0 dropped" in text
    assert pandas.read_csv(tmp_path / "policy" / "policy.csv")["value"].tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (None, [], "there is no file 'log.csv'"),
        ("", [], "log.csv is empty"),
        (HEAD, [], "log.csv has no rows"),
        (HEAD + "a,x,b,1\n", [], "--terminal b if the process ends"),
        (HEAD + "a,x,b,1\nb,x,a,\n", [], "log.csv line 3: reward is nan"),
        (HEAD + "a,x,b,1\nb,x,a,lots\n", [], "log.csv line 3: reward is 'lots'"),
        (HEAD + "a,x,b,1\n\nb,x,a,1,9\n", [], "log.csv line 4 has 5 values"),
        (HEAD + 'a,x,b,1\nb,"x,a,1\n', [], "EOF inside string starting at line 3"),
        ("s t,u\na,b\n", [], "has no column 'state'; its columns are ['s t', 'u']"),
        ("state\taction next\na\tb\n", [], "(on the command line: --columns action=NAME)"),
        ("state,action,next_state\na,x,a\n", [], "(on the command line: --rewards 0, "),
        ("state,action,next_state,margin\na,x,a,1\n", [], "['margin'] holds them"),
        (HEAD + "a,x,a,1\n", ["--alpha", "0,1"], "--alpha must be a risk level in (-1, 1), got 1.0"),
        (HEAD + "a,x,a,1\n", ["--discount", "1"], "at discount 1 the process may go on for ever"),
        (HEAD + "a,x,a,1\n", ["--terminal", "zz"], "--terminal is 'zz', expected one of 'a'"),
        (HEAD + "a,x,a,1\n", ["--start", "zz"], "--start is 'zz', expected one of 'a'"),
        (HEAD + "a,x,a,1\n", ["--prior", "much"], "--prior is 'much', expected a number"),
        (HEAD + "a,x,a,1\n", ["--min-count", "0"], "--min-count must be a positive number"),
        (HEAD + "a,x,a,1\n", ["--support", "some"], "--support must be one of 'action', 'state', 'all', got 'some'"),
        (HEAD + "a,x,a,1\n", ["--columns", "reward=eur"], "(on the command line: --columns reward=NAME)"),
        (HEAD + "a,x,a,1\n", ["--columns", "state"], "--columns is 'state', expected NAME=COLUMN"),
        (
            HEAD + "a,x,a,1\n",
            ["--rewards", "what"],
            "--rewards is 'what', expected 'mean', 'outcomes', a number, ",
        ),
        (HEAD + "a,x,a,1\n", ["--seed", "-1"], "Invalid value for '--seed'"),
        (HEAD + "a,x,a,1\n", ["--threads", "0"], "--threads must be at least 1"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(call, tmp_path, text, options, message):
    if text is not None:
        (tmp_path / "log.csv").write_text(text)
    code, _, error = call("solve", "log.csv", *options, "--out", "out")
    assert code == 2
    assert message in error
    assert error.count("\n") == 1 or "Invalid value" in error
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def test_a_folder_is_no_log_and_a_file_no_folder(call, log, tmp_path):
    code, _, error = call("solve", ".")
    assert (code, error) == (2, "prudent: . is a folder, expected a CSV or Parquet file\n")
    (tmp_path / "file").write_text("")
    code, _, error = call("solve", log, *TERMINAL, "--out", "file/out")
    assert code == 1
    assert error == "prudent: cannot write to the folder file/out: Not a directory\n"


def test_ctrl_c_while_it_works(log, tmp_path):
    program = "import sys; from prudent.cli.main import main; sys.exit(main(sys.argv[1:]))"
    options = [*TERMINAL, "--draws", 10**8, "--out", tmp_path / "out"]
    pressed = []

    def presses(shown):
        if pressed or "returns over the posterior" not in shown:
            return False
        pressed.append(True)
        return True

    code, shown = on_a_terminal(program, ["solve", log, *options], presses)
    assert code == 130, shown
    assert shown.rstrip().endswith("prudent: interrupted")
    assert not (tmp_path / "out" / "policy.csv").exists()


def test_words_claim_no_more_than_was_worked_out(call, tmp_path):
    rows = ["loyal,nothing,loyal,20,310", "loyal,nothing,quiet,20,40", "quiet,nothing,quiet,20,60"]
    rows += ["quiet,nothing,loyal,20,25", "quiet,nothing,gone,0,15", "quiet,discount,loyal,12,16"]
    rows += ["quiet,discount,quiet,12,12", "quiet,discount,gone,0,2", "quiet,call,loyal,5,4", "quiet,call,quiet,5,1"]
    (tmp_path / "log.csv").write_text("\n".join(["state,action,next_state,reward,count", *rows]))
    options = ("log.csv", "--discount", 0.95, "--terminal", "gone", "--support", "state", "--start", "quiet")
    call("solve", *options)
    page = (tmp_path / "policy" / "report.html").read_text()
    assert "risk level 0.9: no lower one makes the bad cases as good. It is the highest that was asked for" in page
    mean = pandas.read_json(tmp_path / "policy" / "policy.json", typ="series")["next_data"]["mean_return"]
    _, text, _ = call("next-data", *options, "--alpha", 0.9)
    _, why, _ = call("explain", *options[:7], "quiet", "--alpha", 0)
    assert "- 1 more observation of 'call' that ends in 'gone', its worst plausible outcome." in why
    assert f"now earns {mean:.5g} if all probabilities are at their posterior means" in text  # no mean of returns


# --- logs of numbers -------------------------------------------------------------------------------------


def test_features_become_states_and_plain_python(call, tmp_path, rng):
    rows = ["episode,step,level,hour,action,reward,done"]
    for e in range(30):
        level = rng.uniform(4, 16)
        for t in range(8):
            fill = level < 10 if rng.random() < 0.7 else rng.random() < 0.5
            after = level + (1.5 if fill else -1.5) + 0.3 * rng.normal()
            rows.append(f"{e},{t},{level},{t % 4},{'fill' if fill else 'drain'},{-abs(after - 10)},{t == 7}")
            level = after
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows))
    given = ["--discount", "0.9", "--features", "level,hour", "--cyclic", "hour=4", "--draws", "50"]
    out = tmp_path / "out"
    code, said, _ = call("solve", path, *given, "--states", "tree:6", "--out", out)
    assert code == 0
    assert "act.py" in said
    record = json.loads((out / "policy.json").read_text())
    states = pr.StateMap.from_dict(record["state_map"])
    level = next(row for row in record["levels"] if row["alpha"] == record["recommended"])
    actions = {row["state"]: row["action"] for row in level["policy"]}
    names: dict = {}
    exec((out / "act.py").read_text(), names)
    for _ in range(100):
        seen = {"level": rng.uniform(0, 20), "hour": int(rng.integers(0, 4))}
        assert names["act"](seen) == actions[states.locate(seen).state]
    again = tmp_path / "again"
    given = ["--discount", "0.9", "--draws", "50", "--states", out / "policy.json"]
    assert call("solve", path, *given, "--out", again)[0] == 0
    assert json.loads((again / "policy.json").read_text())["state_map"] == record["state_map"]


def test_wrong_options_of_features_are_named(call, log):
    for options, word in (
        (["--features", "x"], "'x'"),
        (["--features", "reward", "--states", "forest:3"], "--states"),
        (["--features", "reward", "--cyclic", "reward"], "--cyclic"),
        (["--cyclic", "hour=24"], "--cyclic"),
    ):
        code, _, err = call("solve", log, *TERMINAL, *options)
        assert code == 2
        assert word in err


@pytest.mark.parametrize("discount", ["0.95", "1"])
def test_a_plan_for_three_steps(call, log, tmp_path, discount):
    given = ("--horizon", 3, "--terminal-value", "ill=0.5", "--discount", discount, *TERMINAL, "--draws", 50)
    code, out, _ = call("solve", log, *given, "--out", tmp_path / "plan")
    assert code == 0
    assert "at the first of 3 steps" in out
    table = pandas.read_csv(tmp_path / "plan" / "policy.csv")
    assert sorted(table["time"].unique()) == [0, 1, 2]
    model, posterior = pr.from_log(log, float(discount), terminal=["well", "dead"])
    problem = pr.BayesianRiskMDP(model, posterior, 0.9)
    plan = problem.solve(horizon=3, terminal_value={"ill": 0.5})
    rows = table[table["alpha"] == 0.9].sort_values(["time"], kind="stable")
    np.testing.assert_allclose(rows["value"].to_numpy().reshape(3, -1), plan.value[:3], atol=1e-8)
    record = json.loads((tmp_path / "plan" / "policy.json").read_text())
    assert record["horizon"] == 3
    code, _, err = call("solve", log, *given[:2], "--terminal-value", "ill", *TERMINAL, "--discount", discount)
    assert (code, "--terminal-value" in err) == (2, True)


def test_a_process_that_ends_needs_no_discount(call, log, tmp_path):
    code, _, _ = call("solve", log, "--discount", 1, *TERMINAL, "--draws", 50, "--out", tmp_path / "whole")
    assert code == 0
    table = pandas.read_csv(tmp_path / "whole" / "policy.csv")
    model, posterior = pr.from_log(log, 1.0, terminal=["well", "dead"])
    exact = pr.BayesianRiskMDP(model, posterior, 0.5).solve()
    np.testing.assert_allclose(table[table["alpha"] == 0.5]["value"], exact.value, atol=1e-8)


def test_long_names_of_states_leave_room_for_what_to_do(tmp_path, call):
    """A table on the screen shows actions and values whole, however long the names of states are."""
    names = [
        f"pressure between {i}0 and {i}9, falling, known lactate, ward in the north, hour {i}-{i + 1}" for i in range(3)
    ]
    rows = [(s, a, t, 1.5) for s in names for a in ("nothing at all", "low dose") for t in names for _ in range(3)]
    log = tmp_path / "log.csv"
    pandas.DataFrame(rows, columns=["state", "action", "next_state", "reward"]).to_csv(log, index=False)
    code, out, err = call("solve", log, "--discount", "0.9", "--out", tmp_path / "out", "--draws", "20")
    assert (code, err) == (0, "")
    shown = out.split("where other levels differ:")[1].split("value: the")[0]
    assert "\u2026" not in shown
    assert shown.count("low dose") + shown.count("nothing at all") >= 3
    assert all(len(line) <= 100 for line in shown.splitlines())
    assert shown.count("15") >= 3  # the value, 1.5 / (1 - 0.9)


def test_states_whose_actions_lead_back_are_on_the_screen(call, tmp_path):
    rows = [f"shop,{price},shop,{reward}" for price, reward in (("low", 1), ("high", 3)) for _ in range(20)]
    (tmp_path / "log.csv").write_text("state,action,next_state,reward\n" + "\n".join(rows) + "\n")
    code, text, _ = call("solve", "log.csv", "--alpha", "0", "--draws", 50)
    assert code == 0
    assert re.search(r"^shop +high ", text, flags=re.MULTILINE)


def test_numbers_of_actions_stay_whole_where_the_process_ends(call, tmp_path):
    """Terminal states have no action: the column of the others is 1, not 1.0, in the table and on the screen."""
    rows = ["state,action,next_state,reward,count", "1,0,2,0,5", "1,1,9,1,5", "2,0,9,0,4", "2,1,1,1,4"]
    (tmp_path / "log.csv").write_text("\n".join(rows))
    code, text, _ = call("solve", tmp_path / "log.csv", "--terminal", "9", "--draws", 20, "--out", tmp_path / "out")
    assert code == 0
    table = pandas.read_csv(tmp_path / "out" / "policy.csv", dtype=str)
    assert set(table["action"].dropna()) <= {"0", "1"}
    assert "1.0 " not in text.partition("What to do there")[2].partition("Forecast")[0]
