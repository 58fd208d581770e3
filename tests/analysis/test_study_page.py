"""The page of a study: its order, what it holds, its units, and on how many sheets it prints."""

import base64
import json
import re

import numpy as np
import pytest
from _chromium import Page
from refusals import refused

import prudent as pr
from prudent.analysis import study_log
from prudent.analysis.log_study import default_draws
from prudent.display.figures.base import labels
from prudent.errors import ParameterError
from tests.support._browser import printed_pages


def machine(states, rows=1_500, seed=3):
    """Return the log of a machine that wears: a list of (state, action, next state, reward)."""
    rng = np.random.default_rng(seed)
    log = []
    for i in range(rows):
        at, action = i % states, ("slow", "fast", "repair")[int(rng.integers(3))]
        step = {"slow": 1, "fast": 2, "repair": -3}[action] if rng.random() < 0.7 else int(rng.integers(-2, 3))
        to = min(max(at + step, 0), states - 1)
        reward = {"slow": 1.0, "fast": 2.0, "repair": -0.5}[action] - 3.0 * (to > 0.8 * states)
        log.append((f"wear {at}", action, f"wear {to}", reward))
    return log


@pytest.fixture(scope="module")
def study():
    return study_log(*pr.from_log(machine(50), 0.9), (0.0, 0.9), draws=50, observations=5)


@pytest.fixture(scope="module")
def page(study, tmp_path_factory):
    return study.report(tmp_path_factory.mktemp("page") / "page.html", unit="euro per day").read_text()


def test_sections_come_in_the_order_of_questions(page):
    titles = re.findall(r"<h2>([^<]*)</h2>", page)[1:]  # after the contents
    wanted = ["What to do", "Compared with today", "How sure this is", "What is assumed", "What to measure next"]
    assert titles[:5] == wanted
    assert titles.index("Details: values") > 4


def test_rules_are_those_of_simplify(study, page):
    rules = study.profile.solutions[study.profile.recommended].simplify(5, draws=50, rng=1)
    assert study.rules.sentences() == rules.sentences()
    for sentence in rules.sentences():
        assert f"<li>{sentence}</li>" in page


def test_states_are_in_their_own_order(study, page):
    assert study.model.states == tuple(f"wear {i}" for i in range(50))
    shown = re.findall(r'<th scope="row">wear (\d+)</th>', page)[:50]
    assert list(map(int, shown)) == list(range(50))


def test_the_unit_stands_with_returns(page):
    assert re.search(r"it earns [\d.,]+ euro per day on average", page)


def test_the_interval_of_the_difference_is_that_of_paired_draws(study):
    row = next(row for row in study.record()["levels"] if row["recommended"])
    drawn = study.profile.today.returns["returns"].values
    apart = drawn[:, study.profile.alphas.index(row["alpha"])] - drawn[:, -1]
    assert row["difference_low"] == np.quantile(apart, 0.05)
    assert row["difference_high"] == np.quantile(apart, 0.95)
    assert row["difference_low"] <= row["difference"] <= row["difference_high"]


def test_the_page_holds_its_data(study, page):
    files = dict(re.findall(r'download="([^"]+)" href="data:[^;]+;base64,([^"]*)"', page))
    assert set(files) == {"policy.csv", "policy.json"}
    assert base64.b64decode(files["policy.csv"]).decode() == study.to_pandas().to_csv(index=False)
    assert len(json.loads(base64.b64decode(files["policy.json"]))["levels"]) == 2
    assert not [link for link in re.findall(r'(?:href|src)="([^"]+)"', page) if not link.startswith(("#", "data:"))]


def test_a_page_of_50_states_prints_on_six_sheets(page, tmp_path):
    assert 2 <= printed_pages(tmp_path / "a4", page) <= 6


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with Page(tmp_path_factory.mktemp("tab")) as tab:
        yield tab


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["study", "solution", "horizon", "check"])
def test_axe_finds_nothing_serious(kind, study, tab, tmp_path):
    """In light and dark, on a screen and on a phone; a picture without a text must be found."""
    path, careful = tmp_path / "page.html", study.profile.solutions[0.9]
    if kind == "study":
        study.report(path, unit="euro per day")
    elif kind == "solution":
        careful.report(path, rules=careful.simplify(4, form="tree", draws=20))
    elif kind == "horizon":
        careful.problem.solve(horizon=4).report(path)
    else:
        rows = [(f"{i // 4}", *row) for i, row in enumerate(machine(4, 240))]
        log = dict(zip(("episode", "state", "action", "next_state", "reward"), zip(*rows, strict=True), strict=True))
        found = pr.analysis.check(log, 0.9, alphas=(0.0,), rng=1)
        study_log(*pr.from_log(log, 0.9), (0.0,), draws=50, observations=5, check=found).report(path)
    for width, dark in ((1300, False), (400, True)):
        tab.window(width, dark=dark, phone=width < 500)
        tab.go(path.as_uri())
        assert tab.serious() == []
    tab.see("document.querySelector('figure svg[role=img]').removeAttribute('aria-label')")
    assert any(said.startswith("svg-img-alt") for said in tab.serious())


@pytest.mark.slow
@pytest.mark.parametrize(("states", "size"), [(3, "A4"), (50, "letter"), (500, "A4")])
def test_pages_print_on_few_sheets(states, size, tmp_path):
    study = study_log(*pr.from_log(machine(states, 30 * states), 0.9), draws=50, observations=5)
    text = study.report(tmp_path / "page.html").read_text()
    assert 2 <= printed_pages(tmp_path / "print", text, size) <= 6


@pytest.mark.slow
@pytest.mark.parametrize("size", ["A4", "letter"])
def test_words_of_several_letters_print_on_six_sheets(size, tmp_path):
    """Names of two and three words, with the check and what is done today: what `prudent solve` writes."""
    long = {"slow": "wait for a week", "fast": "treat with drug A", "repair": "operate at once"}
    rows = [(i // 25, i % 25, at, long[action], to, r) for i, (at, action, to, r) in enumerate(machine(50, 5_000))]
    names = ("episode", "step", "state", "action", "next_state", "reward")
    log = dict(zip(names, zip(*rows, strict=True), strict=True))
    found = pr.analysis.check(log, 0.9, rng=1)
    study = study_log(*pr.from_log(log, 0.9), draws=200, observations=5, check=found)
    text = study.report(tmp_path / "page.html", unit="euro per day").read_text()
    assert 2 <= printed_pages(tmp_path / "print", text, size) <= 6


def test_a_solution_has_a_page(study, tmp_path):
    careful = study.profile.solutions[0.9]
    page = careful.report(tmp_path / "page.html", name="wear & tear", unit="euro", rules=study.rules).read_text()
    assert "<h1>What to do: wear &amp; tear</h1>" in page
    for sentence in study.rules.sentences():
        assert f"<li>{sentence}</li>" in page
    shown = re.findall(r'<th scope="row">(wear \d+)</th><td data-label="what to do"><span>(\w+)</span>', page)
    assert shown == list(zip(careful.states, careful.policy_names, strict=True))
    files = dict(re.findall(r'download="([^"]+)" href="data:[^;]+;base64,([^"]*)"', page))
    assert base64.b64decode(files["policy.json"]).decode() == careful.to_json()
    assert not [link for link in re.findall(r'(?:href|src)="([^"]+)"', page) if not link.startswith(("#", "data:"))]
    assert careful._repr_html_().startswith("<iframe srcdoc=")
    with refused(ParameterError, "wrong-type", argument="rules"):
        careful.report(tmp_path / "page.html", rules=["slow"])


@pytest.mark.parametrize("asked", [{"horizon": 3}, {"objective": "average"}, {"costs": {"x": [1.0, 2.0]}}])
def test_pages_of_other_solutions(asked, tmp_path):
    mdp = pr.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]], [[1.0, 0.0], [0.0, 2.0]], 0.9)
    if "costs" in asked:
        asked = asked | {"at_most": {"x": 15.0}, "start": 0}
    page = pr.solve(mdp, **asked).report(tmp_path / "page.html").read_text()
    assert ("Bounds on costs" in page) == ("costs" in asked)
    assert ("average reward of a step" in page) == ("objective" in asked)
    assert ("discount 0.9" in page) == ("objective" not in asked)
    assert ("what the next best action loses" in page) == ("horizon" not in asked and "costs" not in asked)
    assert ('<th scope="col">step</th>' in page) == ("horizon" in asked)


def test_a_notebook_shows_the_page(study):
    html = study._repr_html_()
    assert html.startswith("<iframe srcdoc=")
    assert "&lt;h1&gt;What to do: log&lt;/h1&gt;" in html


def test_labels_never_look_the_same():
    names = [f"ward {i}, a very long name of a room {i % 2}, the same end of all" for i in range(30)]
    assert len(set(labels(names, 12))) == 30
    assert labels(["short", "short"]) == ["short", "short"]


def test_models_of_many_outcomes_have_fewer_draws():
    """A million rows in half a minute: the time of returns is that of draws times outcomes."""
    draws = [default_draws(pr.UncertainMDP.direct(np.zeros((n, 1)), discount=0.9)) for n in (3, 200, 400, 800)]
    assert draws == [2_000, 2_000, 100_000_000 // 160_000, 200]
