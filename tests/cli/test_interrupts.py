"""Ctrl-C on a real terminal, at random moments: one line or one KeyboardInterrupt, soon, and nothing is lost."""

from __future__ import annotations

import random
import re
import time

import pytest
from _child import on_a_terminal
from _tiny import TINY, digests

from prudent.reproduction import run

COMMAND = """
import sys
from _tiny import TINY
from prudent.reproduction import SCALES, Scale
SCALES["quick"] = TINY if len(sys.argv) < 4 else Scale("quick", bandit_replications=400, horizon=int(sys.argv[3]))
from prudent.__main__ import main
print("begin", flush=True)
sys.exit(main(["reproduce", "bandit-br", "--out", sys.argv[1], "--workers", "2", "--chunk", sys.argv[2]]))
"""
# What would take hours. The first process of a cache compiles in it.
WORK = {
    "simulate": (
        "pr.simulate(pr.envs.frozen_lake(), [pr.brps_rl(0.9), pr.agents.ts_rl()], episodes=10**5, replications=10**3)"
    ),
    "one replication": (
        "pr.simulate(pr.envs.frozen_lake(), pr.agents.ts_rl(), episodes=10**6, replications=1, threads=1)"
    ),
    "simulate_bandit": "pr.simulation.simulate_bandit(arms, pr.bandits.brps_cmab(0.8), horizon=10**9, replications=9)",
    "solve": "while True: problem.solve()",
    "solve, one thread": "while True: problem.solve(threads=1)",
    "solve, sampled": "while True: problem.solve(draws=2000, rng=0)",
    "solve, known": "while True: pr.solve(known)",
}
LIBRARY = """
import prudent as pr
import prudent.simulation
shop = pr.envs.random_model(60, 4, branching=30, rng=0)
problem = pr.BayesianRiskMDP(shop.model, shop.model.prior(), alpha=0.9)
arms = pr.envs.gaussian_bandit()
known = pr.envs.random_model(1000, 4, branching=3, rng=0).mdp()
try:
    print("begin", flush=True)
    {}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class After:
    """Presses Ctrl-C so many seconds after ``word`` is shown, and again every ten seconds."""

    def __init__(self, seconds, word="begin"):
        self.seconds, self.word, self.pressed, self.due = seconds, word, 0, None

    def __call__(self, shown):
        if self.word not in shown:
            return False
        now = time.monotonic()
        if self.due is None:
            self.due = now + self.seconds
        if now < self.due:
            return False
        self.due, self.pressed = now + 10.0, self.pressed + 1
        return True


def interrupt_the_library(what, seconds, cache):
    code, shown = on_a_terminal(LIBRARY.format(WORK[what]), [], After(seconds), **cache)
    assert code == 0, shown
    assert "Traceback" not in shown
    assert shown.rstrip().endswith("interrupted")


def interrupt_the_command(out, dice, cache):
    """Interrupt at random moments until it gets through; the datasets are those of an undisturbed run."""
    for _ in range(10):
        code, shown = on_a_terminal(COMMAND, [out, 1], After(dice.uniform(0.0, 3.0)), **cache)
        if "Report:" in shown:
            break
        assert code == 130, shown
        assert "Traceback" not in shown
        assert "prudent: interrupted" in shown
        assert not list(out.glob("**/.*.tmp"))
    code, shown = on_a_terminal(COMMAND, [out, 1], lambda shown: False, **cache)
    assert code == 0, shown


def seeded():
    seed = random.SystemRandom().randrange(10**6)
    print(f"moments from seed {seed}")
    return random.Random(seed)


@pytest.mark.parametrize("what", ["simulate_bandit", "solve"])
def test_ctrl_c_in_the_library(what):
    interrupt_the_library(what, seeded().uniform(0.0, 2.0), {})


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True], ids=["compiled", "compiling"])
@pytest.mark.parametrize("what", WORK)
@pytest.mark.parametrize("seed", range(2))
def test_ctrl_c_in_the_library_at_random_moments(tmp_path, what, fresh, seed):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)} if fresh else {}
    interrupt_the_library(what, random.Random(seed).uniform(0.0, 10.0 if fresh else 3.0), cache)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_ctrl_c_in_the_command_at_random_moments(tmp_path, seed):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if seed == 0 else {}
    interrupt_the_command(tmp_path / "out", random.Random(seed), cache)
    run(["bandit-br"], TINY, tmp_path / "whole")
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


def test_ctrl_c_ends_the_command_cleanly_and_keeps_chunks(tmp_path):
    def kept():
        return sorted(tmp_path.glob("chunks/*/*.chunk"))

    once = After(0.0, "")
    code, shown = on_a_terminal(COMMAND, [tmp_path, 4, 20000], lambda shown: len(kept()) > 2 and once(shown))
    assert code == 130, shown
    assert "Traceback" not in shown
    assert "prudent: interrupted" in shown
    assert re.search(r"\d+%.*\d:\d\d:\d\d", shown)  # a bar with the time left
    assert len(kept()) > 2
    assert not list(tmp_path.glob("*.nc"))
    assert not list(tmp_path.glob("**/.*.tmp"))


def test_ctrl_c_does_not_wait_for_long_chunks(tmp_path):
    """A chunk of 400 replications takes hours here."""
    code, shown = on_a_terminal(COMMAND, [tmp_path, 400, 10**8], After(1.0, "experiments"))
    assert code == 130, shown
    assert "Traceback" not in shown
    assert not list(tmp_path.glob("chunks/*/*.chunk"))
