"""Questions about a policy: returns over the posterior against the ways one would write them by hand; a long log."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import prudent as pr
from prudent.analysis import posterior_returns

from ._timing import Row, median_times

DRAWS = 50


def by_splu(model: pr.UncertainMDP, posterior: pr.DirichletPosterior, policy: np.ndarray) -> np.ndarray:
    """Return the mean values of a policy under each draw: NumPy's Dirichlet draws and SciPy's sparse elimination."""
    rng = np.random.default_rng(0)
    states = np.arange(model.n_states)
    source, target, gain = model.source[states, policy], model.next_state[states, policy], model.reward[states, policy]
    rows = np.repeat(states, target.shape[1])
    returns = np.empty(DRAWS)
    for i in range(DRAWS):
        theta = rng.standard_gamma(posterior.counts[source])
        theta /= theta.sum(axis=1, keepdims=True)
        chain = sparse.csc_array((theta.ravel(), (rows, target.ravel())), shape=(states.size, states.size))
        lower = splu(sparse.eye_array(states.size, format="csc") - model.discount * chain)
        returns[i] = lower.solve((theta * gain).sum(axis=1)).mean()
    return returns


def by_solve(model: pr.UncertainMDP, posterior: pr.DirichletPosterior) -> list[float]:
    """Return the best mean values under each draw: one known model after the other."""
    return [float(pr.solve(model.mdp(theta)).value.mean()) for theta in posterior.sample(DRAWS, 0)]


def long_log(path: Path, rows: int = 1_000_000, states: int = 500, actions: int = 10, branching: int = 20) -> None:
    """Write a log of texts: each pair has up to ``branching`` next states; later actions are rarer."""
    import pandas

    rng = np.random.default_rng(0)
    target = rng.integers(states, size=(states, actions, branching))
    chances = rng.dirichlet(np.ones(branching), size=(states, actions)).cumsum(axis=2)
    state, action = rng.integers(states, size=rows), np.minimum(rng.geometric(0.3, size=rows), actions) - 1
    k = np.minimum((chances[state, action] < rng.random(rows)[:, None]).sum(axis=1), branching - 1)
    after, pay = target[state, action, k], rng.integers(0, 5, size=states)
    names = {"state": ("ward", state), "action": ("plan", action), "next_state": ("ward", after)}
    columns = {name: np.char.add(f"{word} ", index.astype(str)) for name, (word, index) in names.items()}
    pandas.DataFrame(columns | {"reward": pay[after]}).to_csv(path, index=False)


def solved_log(support: str, limit: float) -> Row:
    """Return time and peak memory of `prudent solve` on a million rows, in a process of its own.

    The default support "state" has seven times as many transitions here as "action".
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.csv"
        long_log(log)
        command = [sys.executable, "-m", "prudent", "solve", str(log), "--discount", "0.95", "--threads", "1"]
        command += ["--support", support]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--out", f"{folder}/policy"], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime  # of CPU: one thread
    peak = after.ru_maxrss / 1024
    met = seconds <= limit and peak <= 2048
    name = f"prudent solve with its page: a million rows, 500 states, 10 actions, support {support}; limit"
    return Row(name, seconds, limit, f"{limit:g} s and 2 GiB", met, f"peak {peak:.0f} MB", fixed=True)


def returns() -> list[Row]:
    problem = pr.envs.random_model(700, 10, branching=10, rng=0, discount=0.99)
    model, posterior = problem.model, pr.DirichletPosterior(problem.model.prior(1.5))
    policy = pr.solve(problem.mdp()).policy
    shared = {"start": None, "draws": DRAWS, "rng": 0, "threads": 1}
    ours, other = median_times(
        lambda: posterior_returns(model, posterior, policy, regret=False, **shared),
        lambda: by_splu(model, posterior, policy),
        repeats=3,
    )
    rows = [
        Row("returns of a policy, 700 states, 50 draws: SciPy by hand", ours, other, "10 times", other >= 10 * ours)
    ]
    ours, other = median_times(
        lambda: posterior_returns(model, posterior, policy, **shared),
        lambda: by_solve(model, posterior),
        repeats=3,
    )
    rows.append(
        Row("and the best policy of each draw: solve(model.mdp(theta))", ours, other, "1.5 times", other >= 1.5 * ours)
    )
    return rows


PIECES = {"returns": returns, "long_log": lambda: [solved_log("action", 20.0), solved_log("state", 30.0)]}
