"""The README's examples run as they are printed, at a smaller scale where they would take long."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np

README = Path(__file__).parents[2] / "README.md"
SMALLER = {"episodes=400, replications=500": "episodes=10, replications=3"}


def test_examples_run(tmp_path, monkeypatch):
    mpl.use("agg")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    names = {"reward": 1.0, "x": rng.random(5)}
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        for long, short in SMALLER.items():
            block = block.replace(long, short)
        exec(block, names)
    assert names["careful"].converged
    assert 0.0 < names["decision"].propensity < 1.0
    assert (tmp_path / "bandit.state").exists()
