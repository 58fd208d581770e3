"""The figures of the site: each one on a page is made by docs/figures.py and shows what another computation says."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta, norm

DOCS = Path(__file__).parents[2] / "docs"
MADE = runpy.run_path(str(DOCS / "figures.py"), run_name="figures")
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*\.svg)\)")


def shown():
    """Return (page, alternative text, name) of every figure of docs/figures/ on a page."""
    found = []
    for page in sorted(DOCS.rglob("*.md")):
        if "gallery" not in page.relative_to(DOCS).parts:
            for words, target in IMAGE.findall(page.read_text()):
                path = (page.parent / target).resolve()
                if path.parent == DOCS / "figures":
                    found.append((page.name, words, path.stem))
    return found


def axes_of(name):
    return MADE["drawn"](MADE[name]).axes


def test_every_figure_on_a_page_is_made_here_and_none_is_unused():
    made = [draw.__name__ for draw in MADE["FIGURES"]]
    assert len(set(made)) == len(made)
    assert {name for _, _, name in shown()} == set(made)


def test_every_figure_says_in_words_what_it_shows():
    assert [each for each in shown() if len(each[1]) < 60] == []


def worst_tenth_of_beta(good, bad):
    """Return the mean of the worst tenth of Beta(good, bad) by its closed form."""
    edge = beta.ppf(0.1, good, bad)
    return good / (good + bad) * beta.cdf(edge, good + 1, bad) / 0.1, edge


def test_the_tails_of_a_posterior_are_those_of_the_beta_law():
    (axes,) = axes_of("tails")
    low, edge = worst_tenth_of_beta(4, 2)
    high = 1.0 - worst_tenth_of_beta(2, 4)[0]
    marks = [line.get_xdata()[0] for line in axes.lines[1:]]
    assert marks == pytest.approx([low, 4 / 6, high], abs=1e-9)
    shaded = axes.collections[0].get_paths()[0].vertices[:, 0]
    assert shaded.max() == pytest.approx(edge, abs=2 / 800)
    assert [text.get_text().split("\n")[-1] for text in axes.texts] == ["33%", "67%", "93%"]


def test_the_price_of_caution_falls_as_the_limit_law_says():
    price, law = axes_of("melting")[1].lines[2:]  # at 0.9
    n = law.get_xdata()
    # by hand: V = (I - gamma P)^-1 r, the sd of V after a step, and shares 0.8 and 0.2 of the data
    chain = np.array([[0.9, 0.1], [0.4, 0.6]])
    inverse = np.linalg.inv(np.eye(2) - 0.95 * chain)
    spread = np.sqrt(chain[:, 0] * chain[:, 1]) * np.ptp(inverse @ [1.0, 0.0]) / np.sqrt([0.8, 0.2])
    by_hand = (inverse @ (0.95 * spread))[0] * norm.pdf(norm.ppf(0.9)) / 0.1
    np.testing.assert_allclose(law.get_ydata() * np.sqrt(n), by_hand)
    np.testing.assert_allclose(price.get_ydata()[-1], law.get_ydata()[-1], rtol=0.02)


def test_propensities_are_the_chances_of_the_lowest_of_n_draws_to_be_best():
    axes = axes_of("propensities")[0]
    heights = np.reshape([bar.get_height() for bar in axes.patches], (3, -1))
    np.testing.assert_allclose(heights.sum(axis=0), 1.0, atol=1e-9)
    rng = np.random.default_rng(5)
    for place, draws in ((4, 1), (7, 10)):  # levels 0 and 0.9
        scores = [rng.beta(1 + good, 1 + bad, (20_000, draws)).min(axis=1) for good, bad in ((30, 20), (3, 1), (0, 0))]
        chosen = np.bincount(np.argmax(scores, axis=0), minlength=3) / 20_000
        # six standard errors of a share: a false alarm in a billion
        assert abs(chosen - heights[:, place]).max() < 6 * 0.5 / np.sqrt(20_000)


def test_figures_are_drawn_once(tmp_path, monkeypatch, capfd):
    drawn = []

    def dot():
        drawn.append(1)
        return MADE["canvas"]()[0]

    monkeypatch.setitem(MADE["main"].__globals__, "FIGURES", (dot,))
    MADE["main"](tmp_path)
    MADE["main"](tmp_path)
    assert len(drawn) == 1
    assert (tmp_path / "dot.svg").read_text().count("<svg") == 1
    assert capfd.readouterr() == ("", "")


def test_the_picture_of_the_readme_is_the_dial_of_the_site():
    kept = re.findall(r"<!-- (.*?) -->", (DOCS / "dial.svg").read_text())
    (axes,) = axes_of("dial")
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert set(legend) | {axes.get_title(), axes.get_xlabel(), axes.get_ylabel()} <= set(kept)
