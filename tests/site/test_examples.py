"""Every script of the gallery runs as it stands, without a warning, and draws something."""

import ast
import runpy
from pathlib import Path

import matplotlib as mpl
import matplotlib.figure
import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


def title(example):
    """Return the first line of its docstring, a heading."""
    return (ast.get_docstring(ast.parse(example.read_text())) or "").partition("\n")[0]


@pytest.fixture
def drawn(monkeypatch):
    """Every figure that is made, by pyplot or without it."""
    made, init = [], mpl.figure.Figure.__init__

    def remember(figure, *given, **named):
        made.append(figure)
        init(figure, *given, **named)

    mpl.use("agg")
    monkeypatch.setattr(mpl.figure.Figure, "__init__", remember)
    with mpl.rc_context():
        yield made
    plt.close("all")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_draws(example, drawn, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert title(example).startswith("# ")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()
    assert drawn
    for figure in drawn:
        assert any(axes.has_data() or axes.texts for axes in figure.axes)
        figure.savefig(tmp_path / "figure.png")  # what cannot be laid out warns


def test_there_are_enough_examples():
    assert len(EXAMPLES) >= 13
    assert len({title(example) for example in EXAMPLES}) == len(EXAMPLES)
