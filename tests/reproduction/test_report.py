"""The report: what it reads, what it draws, and the page as a browser shows it."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from _browser import WIDTHS, look
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused
from scipy import stats

import prudent
from prudent._support.intervals import mean_and_half_width
from prudent.display.pages.frame import PAGE_COLOURS
from prudent.display.style import COLOURS, agent_styles
from prudent.display.words import number, plus_minus
from prudent.errors import DataError
from prudent.reproduction import STUDIES, load_datasets
from prudent.reproduction.report import build
from prudent.reproduction.report.figures import KINDS
from prudent.reproduction.report.page import VERDICTS
from prudent.reproduction.report.results import Section, make, read
from prudent.reproduction.report.tables import KINDS as TABLES
from prudent.reproduction.runner import conclude

CLAIMS = [
    {
        "id": "made-br-beats-ts",
        "statement": "BRPS-CMAB has less BR-regret than TS-CMAB at 0.5, 0.8 and 0.9",
        "source": "BR-regret by risk level",
        "verdict": "reproduced",
        "test": "paired t intervals, 95%",
        "evidence": [
            {"quantity": "TS-CMAB minus BRPS-CMAB 0.8", "estimate": 12.25, "low": 9.5, "high": 15.0},
            {"quantity": "TS-CMAB minus BRPS-CMAB 0.9", "estimate": 20.0, "low": 14.0, "high": 26.0},
        ],
    },
    {
        "id": "made-high-level-pays-early",
        "statement": "A high risk level helps in the short term",
        "source": "result 3 of the Frozen Lake study",
        "verdict": "inconclusive at this scale",
        "test": "paired t interval, 95%",
        "evidence": [{"quantity": "after 20 episodes", "estimate": 0.25, "low": -0.5, "high": 1.0}],
    },
    {
        "id": "made-best-level",
        "statement": "The best level falls",
        "verdict": "reproduced when each hole has its own <p>",
        "as_written": "not reproduced",
        "evidence": [
            {"quantity": "0.5 minus 0.8", "estimate": 1.0, "low": 0.5, "high": 1.5, "decisive": False},
            {"quantity": "0.99 minus 0.8", "estimate": -1.0, "low": -1.5, "high": -0.5, "decisive": True},
        ],
        "readings": [
            {
                "reading": "each hole has its own <p>",
                "verdict": "reproduced",
                "evidence": [
                    {"quantity": "0.99 minus 0.8", "estimate": 2.0, "low": 1.5, "high": 2.5, "decisive": True}
                ],
            },
            {"reading": "it snows", "verdict": "inconclusive at this scale", "evidence": []},
        ],
    },
    {
        "id": "made-policy-table",
        "statement": "The printed policy is optimal in all cells",
        "source": "optimal-policy table",
        "verdict": "not reproduced",
        "test": "exact comparison",
        "evidence": [
            {"quantity": "cells that agree, <left>", "estimate": 14, "low": None, "high": None},
            *({"quantity": f"number {i}", "estimate": float(i), "low": i - 0.5, "high": i + 0.5} for i in range(5)),
        ],
    },
]


def change(file: Path, edit: Any) -> None:
    """Read a dataset, edit it and write it again; ``edit`` changes it in place or returns another."""
    data = xarray.load_dataset(file, engine="scipy")
    (edit(data) or data).to_netcdf(file, engine="scipy")


def many_replications(data: xarray.Dataset) -> xarray.Dataset:
    """Give the limit law a sample that is near it."""
    mean, sd = float(data.limit_mean), float(data.limit_sd)
    rng = np.random.default_rng(3)
    exact = rng.normal(mean, sd, (data.sizes["size"], 50)) + sd / np.arange(1, data.sizes["size"] + 1)[:, np.newaxis]
    sampled = exact + rng.normal(0.0, 0.1 * sd, exact.shape)
    data = data.drop_dims("replication")
    data["scaled_error"] = (("method", "size", "replication"), np.stack([sampled, exact]))
    return data


def known_times(data: xarray.Dataset) -> None:
    means = np.array([[0.02, 0.025, 0.03, 0.05, 0.3], [0.01, 0.011, 0.013, 0.016, 0.05], [0.1, 0.125, 0.21, 0.35, 2.6]])
    data["seconds"] = (data.seconds.dims, means[..., np.newaxis] * [0.9, 1.1])


def hostile_spec(data: xarray.Dataset) -> None:
    data.attrs["spec"] = json.dumps({"a < b & c": "<script>"})


@pytest.fixture
def copy(tiny_run: Path, tmp_path: Path) -> Any:
    """Copies some datasets of the tiny run to a folder of the test, and returns the folder."""

    def put(*names: str) -> Path:
        for name in names:
            shutil.copy(tiny_run / f"{name}.nc", tmp_path)
        return tmp_path

    return put


@pytest.fixture(scope="module")
def out(tiny_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of all studies, judged and reported; some numbers and some claims are made to order."""
    folder = tmp_path_factory.mktemp("report")
    for file in (*tiny_run.glob("*.nc"), tiny_run / "timings.json"):
        shutil.copy(file, folder)
    change(folder / "limit-law.nc", many_replications)
    change(folder / "computing-time.nc", known_times)
    change(folder / "lake-long.nc", hostile_spec)
    conclude(folder)
    real = json.loads((folder / "claims.json").read_text())
    (folder / "claims.json").write_text(json.dumps([*CLAIMS, *real]))
    assert build(folder) == folder / "report.html"
    return folder


def section_of(out: Path, name: str) -> Section:
    (section,) = (section for section in read(out).sections if section.name == name)
    return section


def drawn(section: Section) -> list[Any]:
    return [make(section, KINDS, figure, "name", "title") for figure in section.figures]


def html_of(page: str, name: str) -> str:
    found = re.search(f'<section id="{name}">.*?</section>', page, re.DOTALL)
    assert found is not None
    return found[0]


@pytest.fixture(scope="module")
def page(out: Path) -> str:
    return (out / "report.html").read_text(encoding="utf-8")


def axes_of(panel: Any) -> Any:
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    panel.draw(axes)
    return axes


# -- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 7, 40])
def test_interval_is_student_t(count: int) -> None:
    values = np.random.default_rng(count).normal(3.0, 2.0, (count, 4))
    mean, half = mean_and_half_width(values, 0.95)
    low, high = stats.t.interval(0.95, count - 1, values.mean(axis=0), stats.sem(values, axis=0))
    np.testing.assert_allclose(mean - half, low, rtol=1e-12)
    np.testing.assert_allclose(mean + half, high, rtol=1e-12)


def test_one_replication_has_no_interval() -> None:
    mean, half = mean_and_half_width([[1.0, 2.0]], 0.95)
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(half).all()


def test_empty_folder(tmp_path: Path) -> None:
    with refused(DataError, "missing-file", path=str(tmp_path)):
        build(tmp_path)
    with refused(DataError, "missing-file", path=str(tmp_path / "nowhere")):
        build(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("file", "content", "code"),
    [
        ("claims.json", "[1, ", "wrong-format"),
        ("claims.json", "{}", "wrong-format"),
        ("claims.json", '[{"id": "x", "statement": "y"}]', "missing-field"),
        ("claims.json", '[{"id": "x", "statement": "y", "verdict": "perhaps"}]', "wrong-format"),
        ("timings.json", "[]", "wrong-format"),
        ("limit-law.nc", "no data", "damaged-file"),
        ("limit-law.nc", "", "damaged-file"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, copy: Any, file: str, content: str, code: str) -> None:
    copy("optimal-policy")
    (tmp_path / file).write_text(content)
    with refused(DataError, code) as caught:
        build(tmp_path)
    assert str(tmp_path / file) in str(caught.value)


def test_datasets_that_lack_something_are_named(tmp_path: Path, copy: Any) -> None:
    copy("lake-regret")
    file = tmp_path / "lake-regret.nc"
    whole = xarray.load_dataset(file, engine="scipy")

    def fails(data: xarray.Dataset, code: str, **fields: Any) -> None:
        data.to_netcdf(file, engine="scipy")
        with refused(DataError, code, **fields) as caught:
            build(tmp_path)
        assert file.name in str(caught.value)

    fails(whole.drop_vars("regret"), "missing-field", index="regret")
    fails(whole.isel(p_h=0), "wrong-shape", index="regret", path=str(file))
    fails(whole.sel(p_h=[0.1, 0.2]), "wrong-format", value="curves")
    for attribute in ("report", "studies"):
        bare = whole.copy()
        for value in (None, "[1]", "no JSON"):
            bare.attrs = {**whole.attrs, attribute: value} if value else {}
            fails(bare, "missing-field", index=attribute if value else "report")


@pytest.mark.parametrize(
    ("change", "code", "value"),
    [
        ({"kind": "pie"}, "unknown-option", "pie"),
        ({"name": "../outside"}, "wrong-format", "../outside"),
        ({"options": {"colour": "red"}}, "wrong-format", "curves"),
    ],
)
def test_figures_that_cannot_be_are_named(
    tmp_path: Path, copy: Any, change: dict[str, Any], code: str, value: str
) -> None:
    file = copy("lake-regret") / "lake-regret.nc"
    data = xarray.load_dataset(file, engine="scipy")
    shown = json.loads(data.attrs["report"])
    shown["figures"][0] |= change
    data.attrs["report"] = json.dumps(shown)
    data.to_netcdf(file, engine="scipy")
    with refused(DataError, code, value=value):
        build(tmp_path)


def test_other_datasets_in_the_folder_are_left_alone(tmp_path: Path, copy: Any) -> None:
    copy("optimal-policy")
    xarray.Dataset({"loss": ("time", [1.0])}).to_netcdf(tmp_path / "mine.nc", engine="scipy")
    with refused(DataError, "missing-field", path=str(tmp_path / "mine.nc"), index="report"):
        build(tmp_path)
    assert "mine" not in build(tmp_path, load_datasets(tmp_path)).read_text(encoding="utf-8")


def test_order_of_dimensions_does_not_matter(tmp_path: Path, copy: Any) -> None:
    copy("bandit-conventional")
    straight = section_of(tmp_path, "bandit-conventional").data
    change(tmp_path / "bandit-conventional.nc", lambda data: data.transpose())
    turned = section_of(tmp_path, "bandit-conventional").data
    assert turned.regret.dims == ("reading", "agent", "replication", "time")
    xarray.testing.assert_equal(straight, turned)


def test_imports_no_solver_and_no_matplotlib_until_it_draws(tmp_path: Path, copy: Any) -> None:
    copy("optimal-policy")
    code = f"""
import sys
import prudent.reproduction.report.page, prudent.reproduction.report.figures, prudent.reproduction.report.results
assert "matplotlib" not in sys.modules
prudent.reproduction.report.build({str(tmp_path)!r})
ours = {{name.split(".")[1] for name in sys.modules if name.startswith("prudent.")}}
solvers = {{"agents", "analysis", "bandits", "envs", "evaluation", "exact", "models", "planning", "simulation"}}
assert not ours & solvers, ours & solvers
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# -- styles and numbers ------------------------------------------------------------------------------------

AGENTS = st.sampled_from(
    ["TS-CMAB", "TS-CMAB_nu", "TS-RL", "optimistic VI 0.9", "optimistic VI 0.5", "my agent", "BRPS-RL 0.7"]
    + ["BRPS-RL -0.8", "0.9 halving", "BRPS-RL 0.9, falling", "0.9 falling, 0 unseen"]
    + [f"{kind} {level}" for kind in ("BRPS-RL", "BRPS-CMAB", "BRPS-CMAB_nu") for level in (0.5, 0.8, 0.9, 0.99)]
)


@given(st.lists(AGENTS, unique=True, max_size=6))
def test_one_colour_per_algorithm_whatever_its_company(agents: list[str]) -> None:
    styles = agent_styles(agents)
    assert [style.colour for style in styles] == [agent_styles([agent])[0].colour for agent in agents]
    for i, style in enumerate(styles):
        twins = [other for other in styles[:i] if other.colour == style.colour]
        assert len(twins) > 3 or style.dash not in {other.dash for other in twins}


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_readable_in_both_themes(theme: int) -> None:
    colours = {**COLOURS, **PAGE_COLOURS}
    page = colours["page"][theme]
    for name in ("ink", "neutral", "soft", "link", "bad", "open", "good"):
        for ground in (page, colours["card"][theme]):
            assert contrast(colours[name][theme], ground) >= 4.5, name
    for name in set(COLOURS) - {"grid"}:  # lines; the palette was asked for, and its orange has 2.2 on white
        assert contrast(COLOURS[name][theme], page) >= 2.2, name


@given(st.floats(-1e12, 1e12))
def test_number_keeps_four_digits(value: float) -> None:
    read_back = float(number(value).replace(",", "").replace("−", "-"))
    assert abs(read_back - value) <= 0.5001e-3 * abs(value)


@given(st.floats(-1e6, 1e6), st.floats(1e-8, 1e6))
def test_plus_minus_rounds_less_than_the_half_width_allows(mean: float, half: float) -> None:
    texts = plus_minus(mean, half).replace(",", "").replace("−", "-").split(" ± ")
    if half >= 1e-4:
        assert abs(float(texts[0]) - mean) <= max(0.051 * half, 0.5)
    assert abs(float(texts[1]) - half) <= max(0.051 * half, 0.5 if half >= 10 else 0.0)


def test_number_of_odd_things() -> None:
    assert [number(x) for x in (np.nan, np.inf, -np.inf, 0.0, -2.0)] == ["–", "∞", "−∞", "0", "−2"]


# -- figures -----------------------------------------------------------------------------------------------


def test_every_figure_is_written_twice_and_explained(out: Path) -> None:
    told = {figure.name for study in STUDIES.values() for figure in study.figures if figure.says}
    for kind in ("svg", "png"):
        assert {file.stem for file in (out / "figures").glob(f"*.{kind}")} == told
    for name in told:
        root = ElementTree.fromstring((out / "figures" / f"{name}.svg").read_text())
        assert root.tag.endswith("svg")
        assert not [node for node in root.iter() if node.tag.endswith("}date")]
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_same_bytes_in_another_process(tmp_path: Path, out: Path, page: str) -> None:
    names = ["bandit-four", "optimal-policy"]
    for name in names:
        shutil.copy(out / f"{name}.nc", tmp_path)
    code = f"import prudent.reproduction.report; prudent.reproduction.report.build({str(tmp_path)!r})"
    environment = os.environ | {"PYTHONHASHSEED": "1", "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    again = (tmp_path / "report.html").read_text(encoding="utf-8")
    for name in names:
        file = f"figures/{name}.svg"
        assert (tmp_path / file).read_bytes() == (out / file).read_bytes()
        assert html_of(again, name) == html_of(page, name)


def test_curves_are_means_with_bands(out: Path) -> None:
    section = section_of(out, "lake-regret")
    data, (figure,) = section.data, drawn(section)
    words = ("each hole its own chance", "one chance for all holes, as written")
    titles = [f"p_h = {p}: {which}" for p in (0.1, 0.2, 0.6, 0.8) for which in words]
    assert [panel.title for panel in figure.panels] == titles
    for i, panel in enumerate(figure.panels):
        axes = axes_of(panel)
        assert axes.get_ylim() == axes_of(figure.panels[i ^ 1]).get_ylim()  # of the panel beside it
        assert len(axes.lines) == len(axes.collections) == data.sizes["agent"]
        for j, (line, band) in enumerate(zip(axes.lines, axes.collections, strict=True)):
            values = data.regret.values[1 - i % 2, i // 2, j]
            np.testing.assert_allclose(line.get_ydata(), values.mean(axis=0))
            assert line.get_color() == COLOURS[figure.legend[j].colour][0]
            half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values, axis=0)
            corners = band.get_paths()[0].vertices
            for x, low, high in zip(
                data.episode.values, values.mean(axis=0) - half, values.mean(axis=0) + half, strict=True
            ):
                heights = corners[corners[:, 0] == x, 1]
                assert heights.max() == pytest.approx(high)
                assert heights.min() == pytest.approx(max(low, 0.0))
        assert axes.get_xlabel() == "episode (10 steps)"
        assert axes.get_ylabel() == "cumulative regret (reward)"


def test_br_regret_shows_the_pair_of_the_level(out: Path) -> None:
    section = section_of(out, "bandit-br")
    data, (figure,) = section.data, drawn(section)
    for i, level in enumerate((0.5, 0.8, 0.9)):
        lines = axes_of(figure.panels[i]).lines
        expected = data.br_regret.sel(agent=["TS-CMAB", f"BRPS-CMAB {level}"], level=level, reading="as written")
        expected = expected.mean("replication")
        np.testing.assert_allclose([line.get_ydata() for line in lines], expected.values)


def test_agents_without_br_regret_are_left_out_of_its_figure(out: Path) -> None:
    section = section_of(out, "beyond")
    risk, rivals = drawn(section)
    assert not [entry for entry in risk.legend if entry.colour == "optimistic"]
    assert [entry for entry in rivals.legend if entry.colour == "optimistic"]
    lines = axes_of(risk.panels[0]).lines
    assert len(lines) == section.data.sizes["agent"] - 1 == len(axes_of(rivals.panels[0]).lines) - 1
    assert not np.isnan([line.get_ydata() for line in lines]).any()


def test_the_lake_shows_both_values_where_the_printed_action_differs(out: Path, page: str) -> None:
    section = section_of(out, "optimal-policy")
    data, (figure,) = section.data, drawn(section)
    axes = axes_of(figure.panels[0])
    shown = [text.get_text() for text in axes.texts]
    q = data.q.sel(state=7)
    # down leads to the hole's neighbour below, left to the middle; both by p_h and the discount, from the values there
    for action, target in (("down", 11), ("left", 6)):
        stay = 0.9 * float(data.value[7])
        assert float(q.sel(action=action)) == pytest.approx(0.8 * (0.1 * float(data.value[target]) + stay))
        assert f"{float(q.sel(action=action)):.4f}" in shown
        assert f"{action}, {float(q.sel(action=action)):.6f}" in page
    for s, value in enumerate(data.value.values):
        assert f"[{s // 4},{s % 4}]" in shown
        assert f"{value:.4f}" in shown
    assert shown.count("hole") == 4
    assert "The printed policy agrees in 14 of 15 cells" in page
    arrows = [text for text in axes.texts if getattr(text, "arrow_patch", None)]
    assert len(arrows) == 16  # 15 cells, two in one of them


def test_policies_by_name_are_understood(out: Path) -> None:
    section = section_of(out, "optimal-policy")
    data = section.data
    names = [*data.action.values[data.paper_policy.values[:-1]], "*"]
    named = data.assign(paper_policy=("state", np.array(names, dtype=object)))
    same = drawn(section)[0], drawn(dataclasses.replace(section, data=named))[0]
    texts = [[text.get_text() for text in axes_of(figure.panels[0]).texts] for figure in same]
    assert texts[0] == texts[1]


def test_limit_law_figures(out: Path) -> None:
    section = section_of(out, "limit-law")
    data, (density, quantiles) = section.data, drawn(section)
    mean, sd = float(data.limit_mean), float(data.limit_sd)
    for i in range(data.sizes["size"]):
        law, *estimates = axes_of(density.panels[i]).lines
        np.testing.assert_allclose(law.get_ydata(), stats.norm.pdf(law.get_xdata(), mean, sd))
        for j, line in enumerate(estimates):
            assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1.0, abs=0.02)
            sample = data.scaled_error.values[j, i]
            width = 1.06 * sample.std() * sample.size**-0.2
            expected = stats.norm.pdf(law.get_xdata(), sample[:, np.newaxis], width).mean(axis=0)
            np.testing.assert_allclose(line.get_ydata(), expected, atol=1e-12)
        axes = axes_of(quantiles.panels[i])
        diagonal, *dots = axes.lines
        np.testing.assert_allclose(diagonal.get_xdata(), diagonal.get_ydata())
        for j, line in enumerate(dots):
            np.testing.assert_array_equal(line.get_ydata(), np.sort(data.scaled_error.values[j, i]))
            count = len(line.get_ydata())
            np.testing.assert_allclose(line.get_xdata(), stats.norm.ppf((np.arange(count) + 0.5) / count, mean, sd))
        # the band is that of the order statistics: the least of n values lies below x with chance 1 - (1 - F(x))^n
        corners = axes.collections[0].get_paths()[0].vertices
        lowest = corners[np.isclose(corners[:, 0], dots[0].get_xdata()[0]), 1]
        chances = 1 - (1 - stats.norm.cdf([lowest.min(), lowest.max()], mean, sd)) ** count
        np.testing.assert_allclose(chances, [0.025, 0.975], rtol=1e-6)


# -- the page ----------------------------------------------------------------------------------------------


class Outline(HTMLParser):
    """What a page holds: ids, links, headings, text; and whether its tags close."""

    VOID = frozenset({"meta", "link", "br", "hr", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def values(self, *keys: str) -> list[str]:
        return [attrs[key] for _, attrs in self.tags for key in keys if key in attrs]


def test_page_is_well_formed_and_self_contained(out: Path, page: str) -> None:
    outline = Outline(page)
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    for link in outline.values("href", "xlink:href", "src"):
        if link.startswith("#"):
            assert link[1:] in ids, link
        elif link != "data:,":  # the icon that keeps browsers from asking for one
            assert (out / link).is_file(), link
    assert set(re.findall(r"url\(#([^)]*)\)", page)) <= set(ids)
    assert not re.findall(r"@import|url\((?!#)", page)
    assert not [tag for tag, _ in outline.tags if tag in ("script", "iframe", "img", "object")]


def test_contents_lead_to_every_section(page: str) -> None:
    outline = Outline(page)
    sections = [attrs["id"] for tag, attrs in outline.tags if tag == "section"]
    contents = re.search(r"<nav.*?</nav>", page, re.DOTALL)
    assert contents is not None
    assert re.findall(r'href="#([^"]*)"', contents[0]) == sections
    assert sections == ["claims", *STUDIES, "run", "cite"]


def test_figures_take_their_colours_from_the_theme(page: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        assert not re.findall(r"(?:fill|stroke): ?#[0-9a-f]{3,6}", svg)
        assert set(re.findall(r"var\(--([\w-]*)\)", svg)) <= {n.replace(".", "") for n in COLOURS}
    assert "@media screen and (prefers-color-scheme: dark)" in page


def test_what_does_not_reproduce_comes_first(page: str) -> None:
    table = page[page.index('<table class="claims">') :]
    made = re.findall(r'<tr id="claim-(made.*?)">', table)
    assert made == ["made-policy-table", "made-high-level-pays-early", "made-best-level", "made-br-beats-ts"]
    kinds = [kind for kind, _, _ in VERDICTS.values()]
    assert re.findall(r'<span class="badge (\w+)">', page)[: len(kinds)] == kinds  # the counts, before the rows
    for number_shown in ("12.2 [9.5, 15.0]", "20.0 [14.0, 26.0]", "0.25 [−0.50, 1.00]", "<b>14</b>"):
        assert number_shown in table
    assert "paired t intervals, 95%" in table


def test_claims_of_our_own_are_apart(page: str) -> None:
    papers, ours = page[: page.index('id="beyond"')].split('<h3 id="claims-beyond">')
    assert "<small>beyond the paper</small>" not in papers
    rows = re.findall(r'<tr id="claim-.*?</tr>', ours, re.DOTALL)
    assert len(rows) >= 9
    assert all("<small>beyond the paper</small>" in row for row in rows)
    assert "what the paper says" in papers
    assert "what the paper says" not in ours


def test_claims_say_under_which_reading_they_hold(page: str) -> None:
    row = re.search(r'<tr id="claim-made-best-level">.*?</tr>', page, re.DOTALL)
    assert row is not None
    alarms, as_written, holds, details = re.findall(r"<td.*?</td>", row[0], re.DOTALL)
    assert "✗  not reproduced" in as_written
    assert "0.99 minus 0.8: <b>−1.00 [−1.50, −0.50]</b>" in as_written
    assert "0.5 minus 0.8" not in as_written  # which does not decide
    assert "when each hole has its own &lt;p&gt;" in holds
    assert "when it snows" not in holds
    assert "<b>2.00 [1.50, 2.50]</b>" in holds
    assert "promised: at most 1%; not simulated" in alarms  # a claim of this test
    for quantity in ("0.5 minus 0.8", "When it snows", "0.99 minus 0.8"):
        assert quantity in details


def test_text_from_files_is_escaped(page: str) -> None:
    assert "<script>" not in page
    assert "a &lt; b &amp; c: &lt;script&gt;" in page
    assert "cells that agree, &lt;left&gt;" in page


def test_tables_hold_the_numbers_of_the_datasets(out: Path, page: str) -> None:
    data = section_of(out, "lake-regret").data
    section = html_of(page, "lake-regret")
    last = data.regret.isel(episode=-1)
    places = [(reading, i) for reading in data.reading.values for i in range(4)]
    for reading, i in places:
        column = last.sel(reading=reading).isel(p_h=i).dropna("replication").values
        means = column.mean(axis=1)
        for j in range(5):
            values = column[j]
            half = stats.t.ppf(0.975, values.size - 1) * stats.sem(values)
            cell = plus_minus(values.mean(), half)
            assert (f'<span class="best">{cell}</span>' if j == means.argmin() else f"<span>{cell}</span>") in section
    assert f"Regret, each hole its own chance, up to episode {int(data.episode[-1])}" in section
    assert f"{data.sizes['replication']} replications" in section
    assert section.count(", 2 replications; the least in bold") == 2  # of the readings that have fewer


def test_times_stand_beside_the_papers(page: str) -> None:
    section = html_of(page, "computing-time")
    for cell in ("253.4", "10.45", f"{253.43 / 10.45:.2f}×", f"{0.3 / 0.02:.2f}×", f"{0.05 / 0.01:.2f}×"):
        assert f"<span>{cell}</span>" in section
    mean, half = 0.02, stats.t.ppf(0.975, 1) * 0.002  # of 0.018 and 0.022
    assert f"<span>{plus_minus(mean, half)}</span>" in section
    assert 'data: <a href="computing-time.nc">' in section


def test_experiments_that_were_not_run_are_left_out_and_said(tmp_path: Path, copy: Any) -> None:
    copy("optimal-policy")
    page = build(tmp_path).read_text(encoding="utf-8")
    said = re.search(r'<p class="missing">(.*?)</p>', page)
    assert said is not None
    for name, study in STUDIES.items():
        shown = name == "optimal-policy"
        assert (study.title in said[1]) != shown
        assert (f'<section id="{name}">' in page) == shown
    assert "No claims were judged." in page
    assert {file.stem for file in (tmp_path / "figures").iterdir()} == {"optimal-policy"}
    Outline(page)


def test_one_replication_and_no_provenance(tmp_path: Path, copy: Any) -> None:
    def bare(data: xarray.Dataset) -> xarray.Dataset:
        data.attrs = {name: data.attrs[name] for name in ("report", "studies")}
        return data.isel(replication=[0])

    change(copy("bandit-conventional") / "bandit-conventional.nc", bare)
    section = html_of(build(tmp_path).read_text(encoding="utf-8"), "bandit-conventional")
    assert " ± " not in section
    assert "<pre>not recorded</pre>" in section


def test_a_run_of_all_studies_becomes_a_report(out: Path, page: str) -> None:
    outline = Outline(page)
    assert '<p class="missing">' not in page
    ids = set(outline.values("id"))
    for name, study in STUDIES.items():
        section = html_of(page, name)
        assert f"<h2>{escape(study.title)}</h2>" in section
        assert section.count("<blockquote>") == section.count("<figure ") == len(study.figures) > 0
        assert section.count("<table") == len(study.tables) > 0
        for figure in study.figures:
            assert f'<figure id="figure-{figure.name}">' in section
        claims = study.judge(section_of(out, name).data)
        assert claims
        assert {f"claim-{claim.id}" for claim in claims} <= ids


def test_kinds_of_figures_and_tables_are_those_that_studies_use() -> None:
    assert {figure.kind for study in STUDIES.values() for figure in study.figures} == set(KINDS)
    assert {table.kind for study in STUDIES.values() for table in study.tables} == set(TABLES)


def test_page_says_at_which_scale_it_ran(page: str) -> None:
    assert '<p class="meta">scale tiny · seed 5</p>' in page


def test_page_says_how_to_cite(page: str) -> None:
    text = page[page.index('<section id="cite">') :]
    assert "Wang, Yuhao and Zhou, Enlu" in text
    assert f"version = {{{prudent.__version__}}}" in text


# -- in a browser ------------------------------------------------------------------------------------------

# Appended to a copy of a page: opens what is folded, measures, and tells the page around it.


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_in_a_browser(tmp_path: Path, out: Path, page: str, dark: bool) -> None:
    reports, console = look(tmp_path / "look", page, dark=dark)
    assert console == []
    panels = sum(len(figure.panels) for section in read(out).sections for figure in drawn(section))
    for report, width in zip(reports, WIDTHS, strict=True):
        assert report["wrong"] == []
        assert report["figures"] == panels
        assert report["labels"] > 5 * panels
        assert abs(report["width"] - width) <= 20  # less a scroll bar
        sums = [sum(map(int, re.findall(r"\d+", report[key])[:3])) for key in ("ink", "ground")]
        assert (sums[0] > sums[1]) == dark
        assert (report["black"] > 0) != dark


def test_figure_files_in_a_browser(tmp_path: Path, out: Path) -> None:
    files = sorted((out / "figures").glob("*.svg"))
    texts = [file.read_text(encoding="utf-8") for file in files]
    shown = "".join(f'<div class="file">{svg[svg.index("<svg") :]}</div>' for svg in texts)
    page = f'<!DOCTYPE html><meta charset="utf-8"><body>{shown}</body>'
    (report,), console = look(tmp_path / "look", page, (1400,))
    assert console == []
    assert report["wrong"] == []
    assert report["figures"] == len(files)


def test_the_browser_would_see_faults(tmp_path: Path) -> None:
    panel = '<svg viewBox="0 0 300 200" style="width:100%"><g id="{}"><rect x="{}" y="50" width="80" height="20"/></g>'
    bad = (
        '<!DOCTYPE html><body><div style="width:2000px">wide</div><script>console.error("a fault")</script>'
        + '<figure><div class="panel">'
        + panel.format("text_1", 20)
        + '<g id="text_2"><rect x="60" y="55" width="260" height="20"/></g></svg></div></figure>'
        + '<div class="file"><svg width="10" height="10"></svg></div><img src="nowhere.png"></body>'
    )
    reports, console = look(tmp_path / "look", bad)
    assert [line for line in console if "a fault" in line]
    for report in reports:
        faults = "; ".join(report["wrong"])
        for fault in ("scrolls sideways", "DIV#.null is cut off", "text_2 is cut off", "text_2 covers text_1"):
            assert fault in faults
        for fault in ("a figure is 10 by 10", "an image is missing"):
            assert fault in faults
