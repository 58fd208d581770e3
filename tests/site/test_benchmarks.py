"""The machinery of the benchmarks: tables, fits, the page; nothing here measures anything."""

from __future__ import annotations

import importlib
import math
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("benchmarks", reason="the benchmarks are part of the repository, not of the package")

from benchmarks import _page, _quotes, _run, _table, core
from benchmarks._table import Fit, Limit
from benchmarks._timing import Row, absent, median_times, share_of_processor, tried
from benchmarks.bandit import against_peers
from benchmarks.growth import JOBS, exponent

ROOT = Path(__file__).parents[2]


def table_of(calibration: float = 1.0, **pieces: list) -> dict:
    made = {name: _table.piece_of(items, 1.0, calibration) for name, items in pieces.items()}
    return {"date": "2026-01-01", "machine": {}, "versions": {}, "pieces": made}


def row(name: str, ours: float, other: float, **options) -> Row:
    return Row(name, ours, other, "for the record", True, **options)


# -- comparing tables ---------------------------------------------------------------------------------------


def test_rows_with_a_peer_are_compared_by_their_ratio():
    old = table_of(a=[row("same", 1.0, 10.0), row("slower", 1.0, 10.0), row("busy machine", 1.0, 10.0)])
    new = table_of(a=[row("same", 1.1, 10.0), row("slower", 1.3, 10.0), row("busy machine", 3.0, 30.0)])
    (found,) = _table.slower(old, new)
    assert (found.piece, found.name) == ("a", "slower")
    assert found.factor == pytest.approx(1.3)
    assert "1.30 times as long" in str(found)


@pytest.mark.parametrize("other", [5.0, math.nan])
def test_rows_without_a_peer_are_compared_by_the_calibration(other):
    fixed = not math.isnan(other)
    old = table_of(1.0, a=[row("same", 1.0, other, fixed=fixed), row("slower", 1.0, other, fixed=fixed)])
    new = table_of(2.0, a=[row("same", 2.0, other, fixed=fixed), row("slower", 3.0, other, fixed=fixed)])
    (found,) = _table.slower(old, new)
    assert found.name == "slower"
    assert found.factor == pytest.approx(1.5)
    assert found.reference == "the calibration"


def test_limits_and_memory_are_compared_and_the_worst_comes_first():
    def items(seconds: float, gigabytes: float) -> dict:
        return {
            "limits": [Limit("sweep", seconds, 1.0, "", "")],
            "large": [row("memory", gigabytes, 9.0, unit="GiB")],
        }

    assert _table.slower(table_of(**items(2.0, 1.0)), table_of(**items(2.2, 1.1))) == []
    found = _table.slower(table_of(**items(2.0, 1.0)), table_of(**items(3.0, 2.0)))
    assert [one.name for one in found] == ["memory", "sweep"]
    assert [one.factor for one in found] == pytest.approx([2.0, 1.5])


def test_what_cannot_be_compared_is_not():
    old = table_of(
        a=[
            row("reward", 0.9, 0.8, unit="", higher=True),
            absent("gone", "not installed"),
            row("old", 1.0, 1.0),
            row("disk", 1.0, 1.0),
        ],
        b=[row("elsewhere", 1.0, 1.0)],
    )
    new = table_of(
        a=[
            row("reward", 0.1, 0.8, unit="", higher=True),
            row("gone", 9.0, 1.0),
            row("new", 9.0, 1.0),
            row("disk", 9.0, 1.0, compared=False),
        ],
        c=[row("elsewhere", 9.0, 1.0)],
    )
    assert _table.slower(old, new) == []


def test_a_suspect_is_run_again_and_must_be_slower_twice(monkeypatch):
    old = table_of(a=[row("x", 1.0, 10.0)])
    new = table_of(a=[row("x", 2.0, 10.0)])
    again = table_of(a=[row("x", 1.1, 10.0)])["pieces"]["a"]
    monkeypatch.setattr(_run, "measure", lambda piece: again)
    assert _run.confirmed(old, new, left=100.0) == []
    assert len(_run.confirmed(old, new, left=0.1)) == 1  # no time
    again["items"][0]["ours"] = 1.5
    assert [one.name for one in _run.confirmed(old, new, left=100.0)] == ["x"]


# -- the table ----------------------------------------------------------------------------------------------


def test_a_table_survives_its_file(tmp_path):
    rows = [row("a", 1.23456e-6, math.nan), absent("b", "no"), row("c", np.float64(2.0), 3.0, fixed=np.bool_(True))]
    table = table_of(a=rows, g=[Fit("job", "states", [1, 2], [0.1, 0.2], [1.0, 2.0], "1; 1", 1.0, 0.1, math.nan, 0.0)])
    _table.save(table, tmp_path / "table.json")
    read = _table.load(tmp_path / "table.json")
    first, second, third = _table.items_of(read["pieces"]["a"])
    assert first.ours == 1.235e-6
    assert math.isnan(first.other)
    assert second.missing == "no"
    assert third.fixed is True
    assert math.isnan(_table.items_of(read["pieces"]["g"])[0].memory_exponent)
    assert _table.load(tmp_path / "none.json")["pieces"] == {}


def test_pieces_that_were_not_run_stay_in_the_table():
    old, new = table_of(a=[row("x", 1.0, 1.0)], b=[row("y", 1.0, 1.0)]), table_of(b=[row("y", 2.0, 1.0)])
    merged = _table.merged({**old, "date": "2025-01-01"}, new, whole=False)
    assert merged["date"] == "2025-01-01"
    assert _table.merged(old, {**new, "date": "2027-01-01"}, whole=True)["date"] == "2027-01-01"
    assert list(merged["pieces"]) == ["a", "b"]
    assert merged["pieces"]["b"]["items"][0]["ours"] == 2.0


# -- fits, times, ratios ------------------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-0.5, 0.0, 1.0, 2.0])
def test_the_exponent_of_exact_data(power):
    sizes = np.array([10, 20, 50, 300])
    slope, error = exponent(sizes, 3.0 * sizes**power)
    assert slope == pytest.approx(power, abs=1e-12)
    assert error < 1e-12


def test_the_standard_error_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    sizes = np.array([10, 20, 40, 80, 160])
    values = sizes * np.exp(rng.normal(0.0, 0.1, 5))
    design = np.column_stack([np.ones(5), np.log(sizes)])
    coefficients, rest, *_ = np.linalg.lstsq(design, np.log(values), rcond=None)
    covariance = rest[0] / 3 * np.linalg.inv(design.T @ design)
    assert exponent(sizes, values) == pytest.approx((coefficients[1], math.sqrt(covariance[1, 1])))


def test_every_dimension_has_at_least_four_sizes():
    asked = {"states", "actions", "outcomes", "draws", "arms", "features", "horizon", "replications"}
    assert {job.dimension for job in JOBS} == asked
    assert all(len(set(job.sizes)) >= 4 for job in JOBS)


def test_times_are_medians_of_interleaved_repeats():
    ticks = iter([0.0, 1.0, 10.0, 12.0, 20.0, 29.0, 30.0, 31.0, 40.0, 42.0, 50.0, 52.0])
    order = []
    jobs = [lambda: order.append("a"), lambda: order.append("b")]
    assert median_times(*jobs, repeats=3, clock=lambda: next(ticks)) == [2.0, 2.0]
    assert order == list("ab" * 4)


def test_ratio_and_who_wins():
    assert row("x", 1.0, 3.0).ratio == 3.0
    assert row("x", 0.9, 0.6, higher=True).ratio == pytest.approx(1.5)
    assert row("x", 2.0, 1.0).lost
    assert not row("x", 2.0, 1.0, fixed=True).lost
    assert not row("x", 2.0, 1.0, counts=False).lost
    assert not absent("x", "no").lost


# -- peers that fail ----------------------------------------------------------------------------------------


def broken(*_):
    raise RuntimeError("does not\nstart")


def missing(*_):
    importlib.import_module("there_is_no_such_peer")


def test_a_peer_that_raises_is_reported_and_the_rest_goes_on(monkeypatch):
    monkeypatch.setattr(core, "median_times", lambda *jobs, **_: [float(i + 1) for i, _ in enumerate(jobs)])
    monkeypatch.setattr(core, "random_model", lambda *_: small_mdp())
    peers = {"quantecon": missing, "mdpax": broken, "late": lambda mdp: {"late": broken}, "scipy": core.PEERS["scipy"]}
    rows = core.plain(peers)
    gone = {each.name.split(": ")[1]: each.missing for each in rows if each.missing}
    assert gone == {
        "quantecon": "there_is_no_such_peer is not installed",
        "mdpax": "RuntimeError: does not start",
        "late": "RuntimeError: does not start",
    }
    assert sum(not each.missing for each in rows) == 3  # SciPy, on three models


def small_mdp():
    import prudent as pr

    return pr.MDP(np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.5, 0.5]]]), np.eye(2), 0.95)


def test_bandits_without_any_peer():
    def first_step_fails():
        return broken

    rows = against_peers({"one": missing, "two": first_step_fails})
    assert [each.name.strip() for each in rows] == ["select + update", "against one", "against two"]
    assert all(each.missing for each in rows)


def test_a_piece_that_raises_is_a_row(monkeypatch):
    monkeypatch.setattr(_run, "calibration", lambda: 1.0)
    (found,) = _table.items_of(_run.measure("journal", broken))
    assert found.missing == "RuntimeError: does not start"
    result, rows = tried("fine", lambda: 3)
    assert (result, rows) == (3, [])


# -- what runs ----------------------------------------------------------------------------------------------


def test_the_default_is_within_the_budget():
    assert sum(_run.DEFAULT.values()) <= 0.9 * _run.BUDGET
    assert _run.chosen([]) == list(_run.DEFAULT)
    assert _run.chosen(["rl", "journal"]) == [*(n for n in _run.DEFAULT if n.startswith("rl.")), "journal"]
    with pytest.raises(SystemExit, match="no benchmark is called 'cores'"):
        _run.chosen(["cores"])


def test_every_piece_has_its_function():
    for piece in _run.DEFAULT:
        assert callable(_run.work_of(piece)), piece


def test_results_of_a_run_are_shown_and_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_run, "DEFAULT", {"one": 1.0, "two": 1.0})
    monkeypatch.setattr(_run, "calibration", lambda: 1.0)
    monkeypatch.setattr(_run, "share_of_processor", lambda: 1.0)
    works = {"one": lambda: [row("fast", 1.0, 2.0)], "two": broken}
    monkeypatch.setattr(_run, "work_of", lambda piece: works[piece])
    path = tmp_path / "table.json"
    assert _run.run([], path, write=True) == 0
    works["one"] = lambda: [row("fast", 1.5, 2.0)]
    assert _run.run([], path) == 1
    out, err = capsys.readouterr()
    assert "[2/2] two" in err
    assert "one looks slower: once more" in err
    assert "one: fast: 1.50 times as long as before, relative to what it is compared with" in out
    assert "two (RuntimeError: does not start)" in out


def test_a_busy_machine_measures_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_run, "calibration", lambda: 1.0)
    shares = iter([1.0, 1.0, 1.0, 0.4, 1.0, 1.0, 0.5, 1.0])
    monkeypatch.setattr(_run, "share_of_processor", lambda: next(shares))
    seconds = iter([1.0, 9.0, 9.0, 9.0])
    wrong = []
    monkeypatch.setattr(_run, "work_of", lambda piece: lambda: [row("fast", next(seconds), 2.0), *wrong])
    path = tmp_path / "table.json"
    assert _run.run(["journal"], path, write=True) == 0
    assert _run.run(["journal"], path, write=True) == 0  # busy at the first run
    out, _ = capsys.readouterr()
    assert "processors: \n  journal (40% was left)" in out
    assert "slower by more than 20% than in the table: none" in out
    (kept,) = _table.items_of(_table.load(path)["pieces"]["journal"])
    assert kept.ours == 1.0
    assert _run.run(["journal"], path) == 0  # slower, and busy when it is run again
    assert "processors: \n  journal (50% was left)" in capsys.readouterr().out


def test_a_wrong_figure_is_wrong_on_a_busy_machine_too(tmp_path, monkeypatch):
    monkeypatch.setattr(_run, "calibration", lambda: 1.0)
    monkeypatch.setattr(_run, "share_of_processor", lambda: 0.1)
    for unit, code in (("s", 0), ("", 1)):
        late = Row("late", 2.0, 1.0, "at most 1", False, unit=unit)
        monkeypatch.setattr(_run, "work_of", lambda piece, late=late: lambda: [late])
        assert _run.run(["journal"], tmp_path / "table.json") == code


def test_the_share_of_a_processor():
    assert 0.0 < share_of_processor(0.02) < 1.1


# -- the page -----------------------------------------------------------------------------------------------


def test_lost_and_missing_rows_on_the_page():
    rows = [
        row("won", 1.0, 3.0),
        row("lost", 3.0, 1.0, why="it does more"),
        absent("gone", "not installed"),
        row("within", 1.0, 5.0, fixed=True),
    ]
    table = {**table_of(core=rows), "machine": dict.fromkeys(("processor", "cores", "cache", "system", "python"), "?")}
    page = _page.page(table)
    assert "| won | 1 s | 3 s | 3 |  |" in page
    assert "| **lost** | **3 s** | **1 s** | **0.33** | **it does more** |" in page
    assert "| gone | | | | not available: not installed |" in page
    assert "limit 5 s" in page
    assert "2 comparisons, 1 of them lost, 1 not available." in page


def test_the_committed_page_is_what_the_table_gives():
    table = _table.load(_table.COMMITTED)
    if not table["pieces"]:
        pytest.skip("nothing has been measured yet")
    assert (ROOT / "docs" / "benchmarks.md").read_text() == _page.page(table)
    for piece in table["pieces"].values():
        for item in _table.items_of(piece):
            assert not isinstance(item, Row) or not item.lost or item.why, f"{item.name}: lost, and nobody says why"


def test_pages_quote_the_table():
    table = _table.load(_table.COMMITTED)
    for page in sorted({quote.page for quote in _quotes.QUOTES}):
        text = (ROOT / page).read_text()
        assert text == _quotes.quoted(text, page, table), f"{page}: run python -m benchmarks --page docs/benchmarks.md"


def test_pages_quote_the_gpu():
    """Times on a GPU stand on its page, where they were measured, and other pages say the same."""
    found = re.findall(
        r"^\| exact, ([\d,]+) x 10 x 5 \| (\S+) \|", (ROOT / "docs" / "gpu.md").read_text(), re.MULTILINE
    )
    assert len(found) == 2
    large = (ROOT / "docs" / "howto" / "large-models.md").read_text()
    for size, seconds in found:
        assert f"| {size} x 10 x 5 | an H200 | {seconds} s |" in large
    size, seconds = found[-1]
    assert f"on an H200, {size} states (`make bench-gpu`) | {seconds} s |" in (ROOT / "README.md").read_text()


def test_figures_follow_the_table():
    fit = Fit("job", "states", [1, 2, 4, 8], [0.1, 0.2, 0.4, 0.8], [5.0, 10.0, 20.0, 40.0], "1; 1", 1.0, 0.0, 1.0, 0.0)
    table = table_of(growth=[fit])
    figures = _page.figures(table)
    assert set(figures) == {"growth-time", "growth-memory"}
    assert all(len(content) > 5000 for content in figures.values())
    assert _page.figures(table_of(a=[row("x", 1.0, 1.0)])) == {}
