"""Runs on real clusters on this machine: the same bytes whoever dies, clear errors, and nothing counted twice."""

from __future__ import annotations

import dataclasses
import importlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from _child import PATIENCE, environment
from _loopback import Loopback, go_on, stop
from _tiny import TINY, digests
from refusals import refused

import prudent as pr
from prudent._support import cluster as module
from prudent._support.cluster import on_cluster
from prudent._support.pool import work
from prudent.envs.problem import Problem
from prudent.errors import ClusterError, ParameterError
from prudent.reproduction import run

distributed = pytest.importorskip("distributed")
NAMES = ["lake-long", "limit-law"]
LONG = dataclasses.replace(TINY, name="long", long_episodes=600, long_replications=6)  # some seconds of work


class Notes:
    """Keeps what the runner says."""

    def __init__(self):
        self.said, self.steps = [], 0

    def begin(self, total, done):
        pass

    def advance(self, what, amount):
        self.steps += 1

    def say(self, message):
        self.said.append(message)


def go(out, scale=LONG, **options):
    notes = Notes()
    run(NAMES, scale, out, 1, 3, **{"chunk": 1, "progress": notes} | options)
    return notes


def chunks(out):
    return len(list(out.glob("chunks/*/*.chunk")))


class Meanwhile(threading.Thread):
    """Does things to a cluster while the main thread uses it: each when the folder has so many chunks."""

    def __init__(self, out, *deeds):
        super().__init__(daemon=True)
        self.out, self.deeds, self.done = out, deeds, 0
        self.start()

    def run(self):
        deadline = time.monotonic() + PATIENCE
        for count, deed in self.deeds:
            while chunks(self.out) < count and time.monotonic() < deadline:
                time.sleep(0.005)
            deed()
            self.done += 1


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """The digests of an undisturbed run on this machine."""
    out = tmp_path_factory.mktemp("here")
    go(out, chunk=None)
    return digests(out)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Loopback(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster.address, timeout=60, set_as_default=False) as made:
        made.wait_for_workers(2, timeout=120)
        yield made


# -- the same bytes ----------------------------------------------------------------------------------------


def test_simulations_are_the_same_to_the_last_bit(client):
    lake = pr.envs.frozen_lake(0.2)
    options = {"episodes": 12, "replications": 5, "rng": 4, "br_episodes": [3], "alphas": [0.5, 0.9]}
    agents = [pr.agents.ts_rl(), pr.brps_rl(0.9), pr.agents.optimistic_vi(0.5)]
    options |= {"record": ["states", "rewards", "policies"], "first_replication": 7}
    there = pr.simulate(lake, agents, client=client, **options)
    alone = pr.simulate(lake, agents, **options)
    assert there.identical(alone)
    assert bytes(there.to_netcdf(engine="scipy")) == bytes(alone.to_netcdf(engine="scipy"))


def test_bandits_are_the_same_to_the_last_bit(client):
    env, agents = pr.envs.gaussian_bandit(), [pr.bandits.thompson_sampling(), pr.bandits.brps_cmab(0.8)]
    options = {"horizon": 300, "replications": 7, "rng": 2, "first_replication": 3}
    there = pr.simulation.simulate_bandit(env, agents, client=client, **options)
    assert there.identical(pr.simulation.simulate_bandit(env, agents, **options))


class Shouting:
    """An environment that only this file knows."""

    n_arms, dim = 2, 1

    def context(self, t, rng):
        return rng.random(1)

    def reward(self, t, context, arm, rng):
        return float(arm) + rng.normal()

    def mean_rewards(self, t, context):
        return np.array([0.0, 1.0])


def test_any_bandit_on_any_environment_is_the_same(client):
    importlib.import_module("cloudpickle").register_pickle_by_value(sys.modules[__name__])
    agents = {"own": lambda arms, dim, rng: pr.LinearBandit(arms, dim, rng=rng), "options": {"alpha": 0.5}}
    options = {"horizon": 30, "replications": 3, "rng": 1}
    there = pr.simulation.simulate_bandit(Shouting(), agents, client=client, **options)
    assert there.identical(pr.simulation.simulate_bandit(Shouting(), agents, **options))


def test_a_problem_travels_with_all_it_has():
    model = pr.UncertainMDP(
        [[-1], [0]], [[[-1, -1]], [[0, 1]]], [[0.0], [1.0]], 0.9, states=["end", "go"], terminal=["end"]
    )
    problem = Problem(model, [[0.5, 0.5]], start=1, observed=False, layout=["GS"])
    again = pickle.loads(pickle.dumps(problem))
    assert (again.model, again.start, again.observed, again.layout) == (model, 1, False, ("GS",))
    assert (again.theta == problem.theta).all()


@pytest.mark.slow
def test_studies_are_the_same_bytes_while_workers_die_stop_and_join(here, tmp_path):
    """Two workers are killed, one is paused past its heartbeat, one joins; dask itself forgives nothing here."""
    out = tmp_path / "out"
    settings = {
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "2s",
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
    }
    with Loopback(tmp_path / "cluster", **settings) as cluster:
        one, two, three = cluster.workers
        meanwhile = Meanwhile(
            out,
            (3, one.kill),
            (8, lambda: (stop(three), cluster.add())),
            (16, two.kill),
            (40, lambda: go_on(three)),
        )
        notes = go(out, cluster=cluster.address)
        assert meanwhile.done >= 3
        assert one.wait(10) == two.wait(10) == -signal.SIGKILL
    assert digests(out) == here
    assert notes.steps == chunks(out)  # each was kept once


# -- ends --------------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from test_cluster import NAMES, LONG
from prudent.reproduction import run
run(NAMES, LONG, sys.argv[1], 1, 3, chunk=1, cluster=sys.argv[2])
"""


def test_a_killed_client_is_resumed(here, cluster, client, tmp_path):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), cluster.address], env=environment())
    try:
        deadline = time.monotonic() + PATIENCE
        while chunks(tmp_path) < 10 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
    finally:
        process.kill()
        process.wait(30)
    kept = chunks(tmp_path)
    assert kept >= 10
    notes = go(tmp_path, cluster=client)
    assert notes.steps == chunks(tmp_path) - kept > 0
    assert digests(tmp_path) == here


@pytest.mark.slow
def test_a_killed_scheduler_is_a_clear_error_and_nothing_is_lost(here, tmp_path):
    out = tmp_path / "out"
    with Loopback(tmp_path / "cluster", workers=1) as cluster:
        Meanwhile(out, (5, cluster.scheduler.kill))
        with refused(ClusterError, "connection-lost"):
            go(out, cluster=cluster.address)
    kept = chunks(out)
    assert kept >= 5
    assert go(out).steps == chunks(out) - kept > 0
    assert digests(out) == here


def die():
    os._exit(1)


def test_work_that_kills_its_workers_is_not_sent_for_ever(cluster, client, monkeypatch):
    monkeypatch.setattr(module, "RETRIES", 0)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with on_cluster(client) as pool, refused(ClusterError, "worker-died"):
        work(pool, os._exit, [(1,)], print)
    cluster.add()
    client.wait_for_workers(2, timeout=120)


def test_an_error_on_a_worker_is_the_error_here(client):
    with refused(ParameterError, "not-positive", argument="noise_sd", value=-1.0):
        pr.simulation.simulate_bandit(Shouting(), {"a": {}}, horizon=3, noise_sd=-1.0, client=client)


# -- who may work ------------------------------------------------------------------------------------------


def test_a_worker_with_another_version_is_refused_by_name(tmp_path):
    theirs = tmp_path / "theirs"
    shutil.copytree(Path(pr.__file__).parent, theirs / "prudent", ignore=shutil.ignore_patterns("__pycache__"))
    start = theirs / "prudent" / "__init__.py"
    start.write_text(start.read_text().replace(f'__version__ = "{pr.__version__}"', '__version__ = "0.0.7"'))
    with Loopback(tmp_path / "cluster", workers=0) as cluster:
        cluster.add(PYTHONPATH=os.pathsep.join([str(theirs), environment()["PYTHONPATH"]]))
        with distributed.Client(cluster.address, timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=120)
            (name,) = client.ncores()
            with refused(ClusterError, "worker-software", worker=name, value="0.0.7", expected=pr.__version__):
                pr.simulate(pr.envs.frozen_lake(0.2), pr.agents.ts_rl(), episodes=1, replications=1, client=client)
            assert client.cancel([]) is None  # the client of the user is still open


@pytest.mark.parametrize(
    ("theirs", "fields"),
    [
        ({}, {"expected": pr.__version__}),
        ({"prudent": "0.0.1"}, {"value": "0.0.1", "expected": pr.__version__}),
        ({"numpy": "1.0"}, {"value": "1.0", "expected": np.__version__}),
        ({"source": "x"}, {"value": pr.__version__}),
    ],
)
def test_refusals_say_what_differs(client, theirs, fields):
    pool = module.Cluster(client)
    with refused(ClusterError, "worker-software", worker="w", **fields):
        pool._opened((False, ("w", theirs and module.stamp() | theirs)))


@pytest.mark.parametrize(
    ("client", "code"), [("tcp://127.0.0.1:9", "no-cluster"), ("nonsense", "no-cluster"), (3, "wrong-type")]
)
def test_what_is_no_cluster(client, code, monkeypatch):
    monkeypatch.setattr(module, "ANSWER", 1.0)
    with refused(ParameterError, code, value=client):
        pr.simulate(pr.envs.frozen_lake(0.2), pr.agents.ts_rl(), episodes=1, replications=1, client=client)


def test_a_closed_client(cluster):
    client = distributed.Client(cluster.address, timeout=60, set_as_default=False)
    client.close()
    with refused(ParameterError, "no-cluster", argument="client", value="closed"):
        pr.simulate(pr.envs.frozen_lake(0.2), pr.agents.ts_rl(), episodes=1, replications=1, client=client)
