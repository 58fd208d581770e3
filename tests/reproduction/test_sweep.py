"""Sweeps: what a file may say, that its numbers are those of the simulations, and that nothing is computed twice."""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from _child import PATIENCE, environment
from refusals import refused
from scipy import stats

import prudent as pr
from prudent.cli.main import main
from prudent.errors import DataError, ParameterError
from prudent.reproduction import compared, sweep
from prudent.reproduction.sweep_spec import PATHS, read_spec

LAKES = {
    "replications": 4,
    "seeds": [3, 5],
    "episodes": 20,
    "points": 4,
    "environment": [{"kind": "frozen_lake", "p_h": [0.1, 0.8]}],
    "agent": [{"kind": "ts_rl"}, {"kind": "brps_rl", "alpha": [0.5, 0.9]}],
}
BANDITS = {
    "replications": 3,
    "horizon": 60,
    "points": 3,
    "levels": [0.5, 0.9],
    "environment": [{"kind": "gaussian_bandit", "n_arms": [2, 4]}],
    "agent": [{"kind": "thompson_sampling"}, {"kind": "brps_cmab", "alpha": 0.8, "label": "careful"}],
}


class Notes:
    def __init__(self):
        self.steps = 0

    def begin(self, total, done):
        pass

    def advance(self, what, amount):
        self.steps += 1

    def say(self, message):
        raise AssertionError(message)


def digest(folder):
    return hashlib.sha256((folder / "sweep.nc").read_bytes()).hexdigest()


# -- numbers -----------------------------------------------------------------------------------------------


def test_the_numbers_are_those_of_the_simulations(tmp_path):
    data = sweep(LAKES, tmp_path, 1)
    assert data.regret.dims == ("environment", "agent", "seed", "replication", "episode")
    agents = [pr.agents.ts_rl(), pr.brps_rl(0.5), pr.brps_rl(0.9)]
    for p_h in (0.1, 0.8):
        for seed in (3, 5):
            runs = pr.simulate(pr.envs.frozen_lake(p_h), agents, episodes=20, replications=4, rng=seed)
            mine = data.sel(environment=f"frozen_lake p_h={p_h}", seed=seed)
            at = [4, 9, 14, 19]
            np.testing.assert_array_equal(mine.regret.values, runs.regret.values[:, :, at])
            np.testing.assert_array_equal(mine.total_reward.values, runs.reward.values.cumsum(axis=2)[:, :, at])
    assert data.episode.values.tolist() == [5, 10, 15, 20]


def test_bandits_and_their_br_regret(tmp_path):
    data = sweep(BANDITS, tmp_path, 1)
    assert data.agent.values.tolist() == ["TS", "careful"]
    for n_arms in (2, 4):
        runs = pr.simulation.simulate_bandit(
            pr.envs.gaussian_bandit(n_arms),
            [pr.bandits.thompson_sampling(), pr.bandits.brps_cmab(0.8)],
            horizon=60,
            replications=3,
            rng=1,
            times=[20, 40, 60],
            alphas=[0.5, 0.9],
        )
        mine = data.sel(environment=f"gaussian_bandit n_arms={n_arms}", seed=1)
        np.testing.assert_array_equal(mine.regret.values, runs.regret.values)
        np.testing.assert_array_equal(mine.br_regret.values, runs.br_regret.values)


def test_br_regret_with_states_and_bandits_step_by_step(tmp_path):
    lakes = LAKES | {"levels": [0.5], "seeds": 1, "points": 2, "episodes": 4, "replications": 2}
    data = sweep(lakes | {"agent": [{"kind": "ts_rl"}]}, tmp_path / "a", 1)
    assert data.br_regret.dims[-2:] == ("level", "episode")
    assert (data.br_regret.values >= -1e-9).all()
    clicks = {"replications": 2, "horizon": 20, "environment": [{"kind": "logistic_bandit", "n_arms": 2, "dim": 1}]}
    data = sweep(clicks | {"agent": [{"kind": "thompson_sampling"}]}, tmp_path / "b", 1)
    assert set(data.data_vars) == {"regret", "total_reward", "regret_replications", "total_reward_replications"}


def test_the_table_is_students(tmp_path):
    data = sweep(LAKES | {"replications": 10, "confidence": 0.9, "baseline": "BRPS-RL 0.5"}, tmp_path, 1)
    table = compared(data)
    ends = data.regret.isel(episode=-1)
    for row in table.to_dict("records"):
        values = ends.sel(environment=row["environment"], agent=row["agent"]).values.ravel()
        low, high = stats.t.interval(0.9, values.size - 1, values.mean(), stats.sem(values))
        assert (row["mean"], row["low"], row["high"]) == pytest.approx((values.mean(), low, high))
        assert row["runs"] == 20
        if row["agent"] == "BRPS-RL 0.5":
            assert np.isnan(row["difference"])
            continue
        apart = values - ends.sel(environment=row["environment"], agent="BRPS-RL 0.5").values.ravel()
        low, high = stats.t.interval(1 - 0.1 / 4, apart.size - 1, apart.mean(), stats.sem(apart))
        assert (row["difference_low"], row["difference_high"]) == pytest.approx((low, high))


# -- what is used again ------------------------------------------------------------------------------------


def test_more_replications_and_more_agents_keep_the_old_ones(tmp_path):
    notes = Notes()
    sweep(LAKES, tmp_path, 1, chunk=2, progress=notes)
    assert notes.steps == 2 * 3 * 2 * 2
    more = LAKES | {"replications": 6, "agent": [*LAKES["agent"], {"kind": "certainty_equivalence"}]}
    notes = Notes()
    sweep(more, tmp_path, 1, chunk=2, progress=notes)
    assert notes.steps == 2 * 2 * (3 + 3)
    sweep(more, tmp_path / "fresh", 1)
    assert digest(tmp_path) == digest(tmp_path / "fresh")
    renamed = LAKES | {"agent": [{"kind": "ts_rl", "label": "Thompson"}]}
    notes = Notes()
    assert sweep(renamed, tmp_path, 1, progress=notes).agent.values.tolist() == ["Thompson"]
    assert notes.steps == 0


def test_killed_and_resumed(tmp_path):
    spec = LAKES | {"episodes": 700, "replications": 6}
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec))
    program = (
        "import json, sys; from prudent.reproduction import sweep; "
        "sweep(json.load(open(sys.argv[1])), sys.argv[2], 1, chunk=1)"
    )
    out = tmp_path / "out"
    process = subprocess.Popen([sys.executable, "-c", program, str(file), str(out)], env=environment())
    deadline = time.monotonic() + PATIENCE
    try:
        while len(list(out.glob("chunks/*/*.chunk"))) < 5 and time.monotonic() < deadline:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait(30)
    kept = len(list(out.glob("chunks/*/*.chunk")))
    notes = Notes()
    sweep(spec, out, 1, chunk=1, progress=notes)
    assert notes.steps == 2 * 3 * 2 * 6 - kept > 0
    sweep(spec, tmp_path / "fresh", 2)
    assert digest(out) == digest(tmp_path / "fresh")


def fresh_module(tmp_path, monkeypatch, name, text):
    """Write a module of the user, to be imported anew."""
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    shutil.rmtree(tmp_path / "__pycache__", ignore_errors=True)  # its times may be too coarse


def steps_of(spec, out, modules):
    notes = Notes()
    sweep(spec, out, 1, progress=notes, allow_modules=modules)
    return notes.steps


def test_functions_of_the_user(tmp_path, monkeypatch):
    text = (
        "import prudent as pr\n"
        "def lake(p_h=0.5):\n    return pr.envs.frozen_lake(p_h)\n"
        "def agent(alpha, label=''):\n    return pr.brps_rl(alpha, label=label)\n"
    )
    fresh_module(tmp_path, monkeypatch, "their_own", text)
    spec = LAKES | {
        "environment": [{"kind": "their_own:lake", "p_h": 0.1, "label": "theirs"}],
        "agent": [{"kind": "their_own:agent", "alpha": [0.0, 0.9]}],
    }
    data = sweep(spec, tmp_path / "out", 1, allow_modules=["their_own"])
    own = sweep(LAKES, tmp_path / "own", 1).isel(environment=0)
    assert data.environment.values.tolist() == ["theirs"]
    np.testing.assert_array_equal(data.regret.values[0], own.regret.sel(agent=["TS-RL", "BRPS-RL 0.9"]).values)
    assert steps_of(spec, tmp_path / "out", ["their_own"]) == 0
    fresh_module(tmp_path, monkeypatch, "their_own", text.replace("import", "# another text\nimport"))
    assert steps_of(spec, tmp_path / "out", ["their_own"]) == 0
    fresh_module(tmp_path, monkeypatch, "their_own", text.replace("(p_h)", "(0.5 * p_h)"))
    assert steps_of(spec, tmp_path / "out", ["their_own"]) == 2 * 2


STALE = {
    "helper": (
        "from their_helper import chance\nimport prudent as pr\n"
        "def lake():\n    return pr.envs.frozen_lake(chance())\ndef agent():\n    return pr.brps_rl(0.5)\n",
        ("their_helper.py", "def chance():\n    return 0.1\n", "def chance():\n    return 0.2\n"),
    ),
    "data file": (
        "import pathlib, prudent as pr\n"
        "FILE = pathlib.Path(__file__).parent / 'chance.txt'\n"
        "def lake():\n    return pr.envs.frozen_lake(float(FILE.read_text()))\n"
        "def agent():\n    return pr.brps_rl(0.5)\n",
        ("chance.txt", "0.1", "0.2"),
    ),
    "weights by a lambda": (
        "from their_helper import power\nimport prudent as pr\ndef lake():\n    return pr.envs.frozen_lake(0.1)\n"
        "def agent():\n    measure = pr.Spectral(lambda u: 1.0 - (1.0 - u) ** power)\n"
        "    return pr.agents.SamplingSettings(risk=measure, draws=5, label='theirs')\n",
        ("their_helper.py", "power = 2\n", "power = 3\n"),
    ),
    "schedule by a function": (
        "from their_helper import level\nimport prudent as pr\ndef lake():\n    return pr.envs.frozen_lake(0.1)\n"
        "def agent():\n    return pr.brps_rl(lambda episode, visits: level, label='theirs')\n",
        ("their_helper.py", "level = 0.5\n", "level = 0.9\n"),
    ),
    "a bandit's environment": (
        "import prudent as pr\nfrom their_helper import paid\n"
        "class Coins:\n    n_arms, dim = 2, 1\n    def context(self, t, rng):\n        return [1.0]\n"
        "    def reward(self, t, context, arm, rng):\n        return paid(rng.random(), arm)\n"
        "def lake():\n    return Coins()\ndef agent():\n    return pr.bandits.thompson_sampling()\n",
        ("their_helper.py", "def paid(u, arm):\n    return u\n", "def paid(u, arm):\n    return u + arm\n"),
    ),
}


@pytest.mark.parametrize("case", STALE)
def test_nothing_is_stale(tmp_path, monkeypatch, case):
    """The numbers after a change are those of a fresh folder; nothing changed, nothing is computed."""
    text, (file, before, after) = STALE[case]
    length = {"horizon": 20} if "bandit" in case else {"episodes": 20}
    spec = length | {"replications": 3, "environment": [{"kind": "stale_one:lake"}]}
    spec |= {"agent": [{"kind": "stale_one:agent"}]}
    found = []
    for content, steps in ((before, 1), (before, 0), (after, 1), (before, 0)):
        (tmp_path / file).write_text(content)
        for module in (file.removesuffix(".py"), "stale_one"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        fresh_module(tmp_path, monkeypatch, "stale_one", text)
        assert steps_of(spec, tmp_path / "out", ["stale_one"]) == steps
        found.append(digest(tmp_path / "out"))
    sweep(spec, tmp_path / "fresh", 1, allow_modules=["stale_one"])
    assert found[0] == found[1] == found[3] == digest(tmp_path / "fresh") != found[2]


def test_a_spec_runs_only_what_the_caller_allows(tmp_path, monkeypatch):
    ran = tmp_path / "ran"
    command = {"kind": "subprocess:getoutput", "cmd": f"touch {ran}"}
    for key in ("environment", "agent"):
        with refused(ParameterError, "module-not-allowed", argument=f"{key}[0].kind", value="subprocess:getoutput"):
            read_spec(LAKES | {key: [command]})
    fresh_module(tmp_path, monkeypatch, "allowed_one", "import os\nfrom subprocess import getoutput\n")
    for kind in ("allowed_one:getoutput", "allowed_one:os.system", "allowed_oneself:f", "allowed_one.os:system"):
        with refused(ParameterError, "unknown-option" if "one.os" in kind else "module-not-allowed"):
            read_spec(LAKES | {"agent": [{"kind": kind}]}, ["allowed_one"])
    assert not ran.exists()
    fresh_module(
        tmp_path, monkeypatch, "allowed_one", "import prudent as pr\ndef mine():\n    return pr.brps_rl(0.5)\n"
    )
    assert (
        read_spec(LAKES | {"agent": [{"kind": "allowed_one:mine"}]}, ["allowed_one"]).agents[0].label == "BRPS-RL 0.5"
    )


def test_a_dataset_that_no_file_can_hold_is_refused_before_the_run(monkeypatch):
    from prudent.reproduction import sweep_spec

    monkeypatch.setattr(sweep_spec, "has_large_files", lambda: False)
    with refused(ParameterError, "too-large", argument="replications", value=10**9):
        read_spec(LAKES | {"replications": 10**9})
    assert read_spec(LAKES | {"replications": 10**9, "keep": "summary"}).keep == "summary"


def test_a_summary_is_that_of_the_runs(tmp_path):
    data, runs = (sweep(LAKES | {"replications": 40, "keep": keep}, tmp_path, 1) for keep in ("summary", "runs"))
    stacked = runs.regret.stack(run=("seed", "replication"))
    np.testing.assert_allclose(data.regret_mean, stacked.mean("run"))
    np.testing.assert_allclose(data.regret_variance, stacked.var("run", ddof=1))
    exact = np.quantile(stacked, data["quantile"].values, axis=-1, method="inverted_cdf")
    np.testing.assert_allclose(data.regret_quantile, np.moveaxis(exact, 0, 2), rtol=0.0051, atol=1e-9)
    one, two = (compared(each).drop(columns=["environment", "agent", "metric"]) for each in (data, runs))
    np.testing.assert_allclose(one.astype(float), two.astype(float), rtol=1e-9)
    assert (data.replications == 80).all()


def test_a_large_dataset_is_written_run_by_run(tmp_path, monkeypatch):
    pytest.importorskip("h5netcdf")
    from prudent.reproduction import sweeps

    small = sweep(LAKES, tmp_path / "small", 1)
    monkeypatch.setattr(sweeps, "LARGEST_VARIABLE", 100)
    large = sweep(LAKES, tmp_path / "large", 1)
    np.testing.assert_array_equal(large.regret.values, small.regret.values)
    assert large.agent.values.tolist() == small.agent.values.tolist()
    assert large.attrs["spec"] == small.attrs["spec"]
    assert compared(large).equals(compared(small))
    np.testing.assert_array_equal(large.regret_replications, small.regret_replications)
    assert large.regret_replications.dtype == small.regret_replications.dtype == np.int32
    large.close()


def test_the_table_goes_to_latex_and_to_spreadsheets(tmp_path):
    spec = LAKES | {"agent": [{"kind": "ts_rl", "label": "=1+1"}, {"kind": "brps_rl", "alpha": 0.9, "label": "50%_x"}]}
    sweep(spec, tmp_path, 1)
    text = (tmp_path / "sweep.tex").read_text()
    assert r"50\%\_x & $" in text
    assert r"\toprule" in text
    assert "'=1+1" in (tmp_path / "sweep.csv").read_text()


def test_the_attributes_say_where_the_numbers_come_from(tmp_path):
    data = sweep(LAKES, tmp_path, 1)
    assert json.loads(data.attrs["agents"])["BRPS-RL 0.9"]["alpha"] == 0.9
    assert set(json.loads(data.attrs["environments"])) == set(data.environment.values)
    assert {"prudent", "numba"} <= set(json.loads(data.attrs["versions"]))
    assert {"source", "commit", "processor"} <= set(data.attrs)


def test_sweeps_say_how_many_replications_each_cell_has(tmp_path):
    data = sweep(LAKES, tmp_path, 1)
    count = json.loads(data.attrs["spec"])["replications"]
    assert data.regret_replications.dims == ("environment", "agent", "seed")
    assert set(np.unique(data.regret_replications)) == {count}
    runs = [int(row) for row in compared(data).runs]
    assert set(runs) == {count * data.sizes["seed"]}


def test_specs_that_are_too_large_end_at_once(tmp_path):
    many = {"kind": "brps_rl", **{name: list(range(100)) for name in ("alpha", "draws", "sweeps", "label", "x", "y")}}
    with refused(ParameterError, "too-large", argument="agent", value=100**6):
        read_spec(LAKES | {"agent": [many]})
    file = tmp_path / "deep.toml"
    file.write_text("replications = " + "[" * 200_000)
    with refused(DataError, "wrong-format", path=str(file)):
        read_spec(file)
    file.write_text("# " + "x" * 2**21)
    with refused(DataError, "too-large", path=str(file)):
        read_spec(file)


# -- what a file may say -----------------------------------------------------------------------------------


def lacking(key):
    return {name: value for name, value in LAKES.items() if name != key}


def agent(**options):
    return LAKES | {"agent": [options]}


@pytest.mark.parametrize(
    ("spec", "code", "argument"),
    [
        (LAKES | {"episode": 3}, "unknown-key", "episode"),
        (lacking("replications"), "missing-argument", "replications"),
        (LAKES | {"replications": 0}, "integer-range", "replications"),
        (LAKES | {"replications": "many"}, "not-an-integer", "replications"),
        (LAKES | {"seeds": [1, -2]}, "integer-range", "seeds[1]"),
        (LAKES | {"seeds": [1, 1]}, "duplicate", "seeds[1]"),
        (LAKES | {"seeds": []}, "missing-argument", "seeds"),
        (LAKES | {"levels": [1.5]}, "alpha-range", "levels[0]"),
        (LAKES | {"confidence": 95}, "probability-range", "confidence"),
        (LAKES | {"title": 3}, "wrong-type", "title"),
        (LAKES | {"baseline": "nobody"}, "unknown-option", "baseline"),
        (LAKES | {"horizon": 3}, "conflicting-arguments", "horizon"),
        (BANDITS | {"episodes": 3}, "conflicting-arguments", "episodes"),
        (lacking("agent"), "missing-argument", "agent"),
        (LAKES | {"agent": {"kind": "ts_rl"}}, "missing-argument", "agent"),
        (agent(), "missing-argument", "agent[0].kind"),
        (agent(kind="brps"), "unknown-option", "agent[0].kind"),
        (agent(kind="no.such:thing"), "module-not-allowed", "agent[0].kind"),
        (agent(kind="brps_rl", alfa=1), "unknown-key", "agent[0].alfa"),
        (agent(kind="brps_rl", alpha=[0.5, 1.5]), "alpha-range", "agent[0]"),
        (agent(kind="brps_rl"), "wrong-type", "agent[0]"),
        (agent(kind="brps_rl", alpha=[]), "missing-argument", "agent[0].alpha"),
        (LAKES | {"agent": [{"kind": "ts_rl"}] * 2}, "duplicate", "agent"),
        (LAKES | {"agent": BANDITS["agent"]}, "wrong-type", "agent"),
        (BANDITS | {"agent": LAKES["agent"]}, "wrong-type", "agent"),
        (
            LAKES | {"environment": LAKES["environment"] + BANDITS["environment"]},
            "conflicting-arguments",
            "environment",
        ),
        (LAKES | {"environment": [{"kind": "random_model"}]}, "missing-argument", "environment[0].rng"),
        (LAKES | {"environment": [{"kind": "math:sqrt", "x": 1}]}, "module-not-allowed", "environment[0].kind"),
        (LAKES | {"keep": "all"}, "unknown-option", "keep"),
        (LAKES | {"keep": "summary", "levels": [0.5]}, "conflicting-arguments", "levels"),
        (BANDITS | {"pairing": "source"}, "conflicting-arguments", "pairing"),
    ],
)
def test_mistakes_are_named(spec, code, argument):
    with refused(ParameterError, code, argument=argument) as caught:
        read_spec(spec)
    assert str(caught.value).startswith("the spec: ")


def test_files_that_are_no_spec(tmp_path):
    file = tmp_path / "bad.toml"
    with refused(DataError, "unreadable-file", path=str(tmp_path / "nowhere.toml")):
        read_spec(tmp_path / "nowhere.toml")
    for content in (b"replications = \n", b"\xff\xfe"):
        file.write_bytes(content)
        with refused(DataError, "wrong-format", path=str(file)):
            read_spec(file)
    file.write_text(
        'replications = 2\n[[agent]]\nkind = "ts_rl"\n[[environment]]\nkind = "frozen_lake"\np_h = 2026-01-01\n'
    )
    with refused(ParameterError, "wrong-type", argument="environment[0].p_h"):
        read_spec(file)


def test_every_environment_of_ours_has_a_kind():
    others = {"classification", "drifting", "register_gymnasium"}  # these take data, environments, nothing
    assert {name for name in pr.envs.__all__ if name.islower()} - others == set(PATHS["environment"])


def test_a_value_that_is_a_list_stands_in_a_list():
    spec = LAKES | {"environment": [{"kind": "frozen_lake", "slip": [[0.1, 0.3], 0.2]}]}
    assert [member.label for member in read_spec(spec).environments] == [
        "frozen_lake slip=[0.1, 0.3]",
        "frozen_lake slip=0.2",
    ]


# -- the command -------------------------------------------------------------------------------------------


def test_the_command(tmp_path, capsys):
    file = tmp_path / "lakes.toml"
    file.write_text(
        'replications = 3\nepisodes = 6\n[[environment]]\nkind = "frozen_lake"\n'
        '[[agent]]\nkind = "brps_rl"\nalpha = [0.0, 0.9]\n'
    )
    out = tmp_path / "out"
    assert main(["sweep", str(file), "--out", str(out), "--workers", "1"]) == 0
    shown = capsys.readouterr().out
    assert "less TS-RL" in shown
    assert "3 runs each" in shown
    assert {each.name for each in out.iterdir()} == {
        *("chunks", "sweep.nc", "sweep.csv", "sweep.tex", "sweep.png", "sweep.svg")
    }
    assert main(["sweep", str(file), "--out", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["agent"] for row in found["table"]] == ["TS-RL", "BRPS-RL 0.9"]
    file.write_text("replications = 3\n")
    assert main(["sweep", str(file)]) == 2
    assert capsys.readouterr().err == f"prudent: {file}: environment must be there as tables: [[environment]]\n"


# -- agents of one's own -----------------------------------------------------------------------------------

EPSILON = """
import numpy as np, prudent as pr
from their_helper import tries

class Greedy(pr.agents.TabularAgent):
    def __init__(self, model, epsilon=0.1, **options):
        super().__init__(model, **options)
        self.epsilon = epsilon
        self.plan()

    def reset(self, rng=None):
        super().reset(rng)
        self.plan()

    def plan(self):
        self.steps, self.best = 0, pr.solve(self.model.mdp(self.posterior.mean()), tol=1e-6).policy

    def act(self, state):
        return tries(self.rng, self.epsilon, self.best[state], np.flatnonzero(self.model.admissible[state]))

    def observe(self, state, action, next_state, outcome=None, reward=None):
        self.count(self.transition(state, action, next_state, outcome))
        self.steps += 1
        if self.steps % 20 == 0:
            self.best = pr.solve(self.model.mdp(self.posterior.mean()), tol=1e-6).policy

def fixed(action=0):
    class Fixed:
        def __init__(self, model):
            self.policy = np.full(model.n_states, action)
        def reset(self, rng):
            pass
        def act(self, state):
            return action
        def observe(self, *row):
            pass
    return Fixed
"""
TRIES = "def tries(rng, chance, best, others):\n    return {} if rng.random() < chance else best\n"


def test_an_agent_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / "their_helper.py").write_text(TRIES.format("rng.choice(others)"))
    monkeypatch.delitem(sys.modules, "their_helper", raising=False)
    fresh_module(tmp_path, monkeypatch, "their_agents", EPSILON)
    agents = [{"kind": "their_agents:Greedy", "epsilon": [0.1, 0.3]}, {"kind": "their_agents:fixed", "action": 2}]
    spec = LAKES | {"seeds": 3, "episodes": 6, "agent": [*agents, {"kind": "brps_rl", "alpha": 0.9}]}
    data = sweep(spec, tmp_path / "out", 1, allow_modules=["their_agents"])
    assert data.agent.values.tolist() == ["Greedy epsilon=0.1", "Greedy epsilon=0.3", "fixed action=2", "BRPS-RL 0.9"]
    module = sys.modules["their_agents"]
    own = {"greedy": lambda model: module.Greedy(model, 0.3, indices=True), "fixed": module.fixed(2)}
    runs = pr.simulate(pr.envs.frozen_lake(0.8), own, episodes=6, replications=4, rng=3)
    mine = data.isel(environment=1, seed=0)
    assert np.isnan(mine.regret.isel(agent=[0, 1])).all()
    at = mine.episode.values - 1
    np.testing.assert_array_equal(mine.total_reward.values[1:3], runs.reward.values.cumsum(axis=2)[:, :, at])
    np.testing.assert_array_equal(mine.regret.values[2], runs.regret.values[1][:, at])
    assert steps_of(spec, tmp_path / "out", ["their_agents"]) == 0
    (tmp_path / "their_helper.py").write_text(TRIES.format("others[0]"))
    monkeypatch.delitem(sys.modules, "their_helper")
    fresh_module(tmp_path, monkeypatch, "their_agents", EPSILON)
    assert steps_of(spec, tmp_path / "out", ["their_agents"]) == 2 * 2  # the two that use the helper


def test_the_table_of_agents_without_regret(tmp_path, monkeypatch):
    (tmp_path / "their_helper.py").write_text(TRIES.format("others[0]"))
    monkeypatch.delitem(sys.modules, "their_helper", raising=False)
    fresh_module(tmp_path, monkeypatch, "their_agents", EPSILON)
    spec = LAKES | {"episodes": 6, "agent": [{"kind": "ts_rl"}, {"kind": "their_agents:Greedy"}]}
    table = compared(sweep(spec, tmp_path / "out", 1, allow_modules=["their_agents"]))
    assert set(table.metric) == {"total_reward"}  # which all of them have
    assert np.isfinite(table["mean"]).all()
