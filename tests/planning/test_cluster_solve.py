"""Solves on real clusters: the same certificate and the same answer as one machine, also when workers die."""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import signal
import sys
import threading
import time

import numpy as np
import pytest
from _loopback import Loopback
from refusals import check, refused

import prudent as pr
from prudent._support.cluster import Cluster, on_cluster
from prudent._support.pool import work
from prudent.errors import ClusterError, ModelError, ParameterError, PosteriorError, PrudentError
from prudent.planning import row_risks
from prudent.planning.cluster import _KEPT, read_block
from prudent.planning.execute.blocks import Block, Job, _back_up

distributed = pytest.importorskip("distributed")


def random_rows(seed, n_states=30, n_actions=3, n_outcomes=4):
    """Return next states, rewards and counts of a model with gaps: missing outcomes, missing pairs, ends."""
    rng = np.random.default_rng(seed)
    shape = (n_states, n_actions, n_outcomes)
    next_state = rng.integers(0, n_states, shape)
    next_state[rng.random(shape) < 0.2] = -1
    next_state[rng.random(shape) < 0.05] = -2
    next_state[rng.random(shape[:2]) < 0.1] = -1
    next_state[:, 0, 0] = rng.integers(0, n_states, n_states)  # something to do everywhere
    next_state[0, :, 0] = 1
    counts = np.where(next_state == -1, 0.0, 0.3 + rng.poisson(2.0, shape))
    return next_state, rng.normal(size=shape), counts


def here(next_state, reward, counts, discount, alpha):
    """Return the same problem as one machine has it."""
    admissible = (next_state != -1).any(axis=2)
    source = np.where(admissible, np.cumsum(admissible).reshape(admissible.shape) - 1, -1)
    model = pr.UncertainMDP(source, next_state, reward, discount)
    return pr.BayesianRiskMDP(model, pr.DirichletPosterior(counts[admissible]), alpha)


class Slices:
    """Builds blocks from arrays, never in the process of the test itself unless it may."""

    def __init__(self, arrays, client=None):
        self.arrays, self.client = arrays, client

    def __call__(self, first, last):
        assert os.getpid() != self.client
        return tuple(array[first:last] for array in self.arrays)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    importlib.import_module("cloudpickle").register_pickle_by_value(sys.modules[__name__])
    with Loopback(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


@pytest.fixture(scope="module")
def client(cluster):
    with distributed.Client(cluster.address, timeout=60, set_as_default=False) as made:
        made.wait_for_workers(2, timeout=120)
        yield made


def agree(one, other):
    assert max(one.error_bound, other.error_bound) < 1e-8
    assert abs(one.value - other.value).max() <= one.error_bound + other.error_bound


@pytest.mark.parametrize("seed", range(12))
def test_blocks_here_are_the_whole(seed):
    arrays = random_rows(seed)
    alpha, discount = (0.0, 0.5, 0.9)[seed % 3], (0.5, 0.9, 0.99)[seed // 4]
    model = pr.planning.ClusterModel(Slices(arrays), 30, 3, discount, blocks=1 + seed % 7)
    problem = here(*arrays, discount, alpha)
    whole, blocks = problem.solve(), model.solve(alpha)
    agree(whole, blocks)
    chosen = np.arange(30), blocks.policy
    assert (blocks.q[chosen] == blocks.value).all()
    gap = whole.q[chosen] - whole.value
    assert abs(gap).max() <= 4.0 * (whole.error_bound + blocks.error_bound)
    agree(problem.evaluate(whole.policy), model.evaluate(whole.policy, alpha))
    mixed = problem.model.admissible / problem.model.admissible.sum(axis=1, keepdims=True)
    agree(problem.evaluate(mixed), model.evaluate(mixed, alpha))


def test_a_problem_that_is_here_is_solved_there(client):
    problem = here(*random_rows(3), 0.95, 0.9)
    whole, there = problem.solve(), problem.solve(client=client)
    agree(whole, there)
    assert (whole.policy == there.policy).all()
    np.testing.assert_allclose(there.q, whole.q, atol=4.0 * (whole.error_bound + there.error_bound))
    agree(problem.evaluate(whole.policy), problem.evaluate(whole.policy, client=client))
    swept = problem.solve(client=client, sweeps=3)
    np.testing.assert_allclose(swept.value, problem.solve(sweeps=3).value, atol=1e-11)
    lake = pr.envs.frozen_lake(0.2)  # sources that states of all blocks share
    shared = pr.BayesianRiskMDP(lake.model, lake.model.prior(), 0.9)
    agree(shared.solve(), shared.solve(client=client))
    agree(pr.BayesianRiskMDP(lake.model, lake.model.prior(), 0.0).solve(client=client), shared_at_zero(lake))


def test_a_model_is_sent_once(client):
    problem = here(*random_rows(4), 0.95, 0.9)
    first = problem.solve(client=client)
    _, blocks = _KEPT[client]
    again = problem.solve(client=client)
    assert _KEPT[client][1] is blocks
    assert first.value.tobytes() == again.value.tobytes()  # nothing is remembered from one solve to the next
    bolder = pr.BayesianRiskMDP(problem.model, problem.posterior, 0.5)
    agree(bolder.solve(), bolder.solve(client=client))
    assert _KEPT[client][1] is blocks
    problem.posterior.update([0], [0])
    agree(problem.solve(), problem.solve(client=client))
    assert _KEPT[client][1] is not blocks


def test_workers_let_a_model_go_when_another_comes(client):
    def blocks():
        found = client.run(lambda dask_worker: [key for key in dask_worker.data if str(key).startswith("Block-")])
        return sorted(key for keys in found.values() for key in keys)

    gc.collect()
    gc.disable()  # no cycle may hold them
    try:
        here(*random_rows(8), 0.95, 0.9).solve(client=client)
        here(*random_rows(9), 0.95, 0.9).solve(client=client)
        expected = sorted(block.future.key for block in _KEPT[client][1])
        deadline = time.monotonic() + 30
        while blocks() != expected and time.monotonic() < deadline:
            time.sleep(0.1)
        assert blocks() == expected
    finally:
        gc.enable()


def test_values_that_are_too_large_to_go_with_each_task(client, monkeypatch):
    monkeypatch.setattr("prudent.planning.execute.blocks.SENT_BYTES", 0)
    problem = here(*random_rows(6), 0.95, 0.9)
    whole, there = problem.solve(), problem.solve(client=client)
    agree(whole, there)
    agree(problem.evaluate(whole.policy), problem.evaluate(whole.policy, client=client))


def test_values_that_dask_made_read_only_compile_nothing_anew():
    block, value = Block(read_block(Slices(random_rows(1)), 10, 20, 30, 3, 0.9)), np.zeros(30)
    before = 0, Job.new(0.9), "exact", 1e-9, np.flatnonzero(block.model.admissible).astype(np.int32)
    _back_up(*before, value, block)
    known = len(row_risks._exact.signatures)
    value.flags.writeable = False
    _back_up(*before, value, block)
    assert len(row_risks._exact.signatures) == known


def test_blocks_that_were_cancelled_are_sent_again(client):
    problem = here(*random_rows(4), 0.95, 0.9)
    problem.solve(client=client)
    blocks = _KEPT[client][1]
    client.cancel([block.future for block in blocks])
    agree(problem.solve(), problem.solve(client=client))
    assert _KEPT[client][1] is not blocks


def shared_at_zero(lake):
    return pr.BayesianRiskMDP(lake.model, lake.model.prior(), 0.0).solve()


def test_terminal_states_are_known_without_solving(client):
    model = pr.UncertainMDP(
        [[0], [1], [-1]], [[[0, 2]], [[0, 1]], [[-1, -1]]], [[1.0], [0.0], [0.0]], 0.9, terminal={2: 5.0}
    )
    assert model.entries.outcome.dtype == np.int32  # as in models without: kernels are compiled once for both
    problem = pr.BayesianRiskMDP(model, model.prior(), 0.5)
    there = problem.solve(client=client)
    agree(problem.solve(), there)
    assert there.value[2] == 5.0


def test_workers_build_and_this_process_never_does(client):
    arrays = random_rows(5)
    model = pr.planning.ClusterModel(Slices(arrays, client=os.getpid()), 30, 3, 0.95)
    agree(here(*arrays, 0.95, 0.9).solve(), model.solve(0.9, client=client))


def test_a_worker_that_dies_in_the_middle_costs_no_digit(cluster, client):
    arrays = random_rows(7, n_states=1500, n_actions=4)
    problem = here(*arrays, 0.99, 0.99)
    whole = problem.solve()
    victim = cluster.workers[0]

    def kill():
        time.sleep(0.3)
        victim.kill()
        cluster.add()

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        there = pr.planning.ClusterModel(Slices(arrays), 1500, 4, 0.99).solve(0.99, client=client)
    finally:
        thread.join()
    agree(whole, there)
    client.wait_for_workers(2, timeout=120)


# -- short pieces ------------------------------------------------------------------------------------------


def once(path):
    """Return whether this is the first call with a path, of all processes."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def whole(number, value):
    return number + value, os.getpid()


def dying(path, value):
    if once(path):
        os.kill(os.getpid(), signal.SIGKILL)
    return whole(0, value)


def stopped(path, value):
    if once(path):
        os.kill(os.getpid(), signal.SIGSTOP)
    return whole(0, value)


def failing(value):
    raise ValueError(f"not with {value}")


def seated(pool, number):
    """Return a number that has a seat on a worker, and wait until it sits."""
    seat = pool.seat(pool.send(int, number, place=0))
    deadline = time.monotonic() + 60
    while not seat.home and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seat.home
    return seat


def test_short_pieces_are_no_tasks(client, monkeypatch):
    with on_cluster(client) as pool:
        seat = seated(pool, 5)
        monkeypatch.setattr(pool, "_ask_dask", None)  # no task could be begun
        found = []
        work(pool, whole, [(i, seat) for i in range(20)], lambda piece, answer: found.append((piece[0], *answer)))
        at = client.run(os.getpid, workers=[seat.home])[seat.home]
        assert sorted(found) == [(i, i + 5, at) for i in range(20)]
        with pytest.raises(ValueError) as caught:
            pool.submit(failing, seat).result(60)
        assert caught.value.args == ("not with 5",)


def test_an_actor_that_came_late_is_found_by_the_next_pool(client):
    with on_cluster(client) as pool:
        seat = seated(pool, 5)
    seat.home = ""
    deadline = time.monotonic() + 60
    with on_cluster(client) as pool:
        while not seat.home and time.monotonic() < deadline:
            assert pool.submit(whole, 1, seat).result(60)[0] == 6
    assert seat.home


def test_a_solve_goes_the_short_way(client, monkeypatch):
    problem = here(*random_rows(3), 0.95, 0.9)
    expected = problem.solve(client=client)
    _, blocks = _KEPT[client]
    deadline = time.monotonic() + 60
    while not all(block.home for block in blocks) and time.monotonic() < deadline:
        problem.solve(client=client)  # a solve may end before the actors are there
    monkeypatch.setattr(Cluster, "_ask_dask", None)
    again, repeated = problem.solve(client=client), problem.solve(client=client)
    assert again.value.tobytes() == repeated.value.tobytes()
    # an actor may take over a block in the middle of the first solve, without the starting points of earlier backups
    assert np.max(np.abs(again.value - expected.value)) <= again.error_bound + expected.error_bound
    assert problem.evaluate(again.policy, client=client).error_bound < 1e-8


@pytest.mark.slow
def test_what_an_actor_takes_down_with_it_is_done_by_others(tmp_path):
    """A worker is killed by the piece that it has, then one is stopped: both pieces are done, elsewhere."""
    settings = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "2s"}
    with (
        Loopback(tmp_path / "cluster", workers=3, **settings) as cluster,
        distributed.Client(cluster.address, timeout=60, set_as_default=False) as client,
    ):
        client.wait_for_workers(3, timeout=120)
        with on_cluster(client) as pool:
            for piece in (dying, stopped):
                seat, found = seated(pool, 7), {}
                victim = client.run(os.getpid, workers=[seat.home])[seat.home]
                work(pool, piece, [(str(tmp_path / piece.__name__), seat)], found.__setitem__)
                ((value, elsewhere),) = found.values()
                assert value == 7
                assert elsewhere != victim
                assert seat.lost  # from now on by tasks


def test_a_copy_of_a_block_remembers_nothing():
    rows = read_block(Slices(random_rows(1)), 10, 20, 30, 3, 0.9)
    block, job = Block(rows), Job.new(0.9)
    value, pairs, q = np.zeros(30), np.flatnonzero(rows.admissible), np.empty(30)
    block.executor(job, "exact").back_up_best(value, pairs, q)
    again = pickle.loads(pickle.dumps(block))
    assert not again._executors
    for mine, theirs in zip(block.model.entries, again.model.entries, strict=True):
        assert np.array_equal(mine, theirs)
    fresh = np.empty(30)
    again.executor(job, "exact").back_up_best(value, pairs, fresh)
    state = pairs // 3
    assert [fresh[pairs][state == s].max() for s in range(10)] == pytest.approx(
        [q[pairs][state == s].max() for s in range(10)], abs=1e-12
    )


@pytest.mark.parametrize(
    ("answer", "error", "code", "facts"),
    [
        (None, ModelError, "wrong-type", {"argument": "build", "value": "NoneType"}),
        ((1, 2), ModelError, "wrong-type", {"argument": "build", "value": "tuple"}),
        (([[[0]]], [[0.0]], [[[1.0]]]), ModelError, "wrong-shape", {"argument": "next_state"}),
        (([[[0]], [[9]]], [[0.0]] * 2, [[[1.0]]] * 2), ModelError, "", {"argument": "next_state", "value": 9}),
        (([[[0]], [[-1]]], [[0.0]] * 2, [[[1.0]]] * 2), ModelError, "no-action", {"state": 1}),
        (([[[0]]] * 2, [[0.0], [np.nan]], [[[1.0]]] * 2), ModelError, "", {"argument": "reward", "index": (1, 0, 0)}),
        (([[[0]]] * 2, [0.0, 0.0], [[[1.0]]] * 2), ModelError, "wrong-shape", {"argument": "reward"}),
        (([[[0]]] * 2, [[0.0]] * 2, [[1.0]] * 2), ModelError, "wrong-shape", {"argument": "counts"}),
        (([[[0, -1]]] * 2, [[0.0]] * 2, [[[1.0, 2.0]]] * 2), ModelError, "", {"argument": "counts", "value": 2.0}),
        (([[[0]]] * 2, [[0.0]] * 2, [[[-1.0]]] * 2), PosteriorError, "", {"argument": "counts"}),
        (([[[0]]] * 2, [[0.0]] * 2, [[[0.0]]] * 2), PosteriorError, "", {}),
    ],
)
def test_what_build_returns_is_checked(answer, error, code, facts):
    model = pr.planning.ClusterModel(lambda first, last: answer, 2, 1, 0.9, blocks=1)
    with pytest.raises(error) as caught:
        model.solve(0.9)
    assert "build(0, 2)" in str(caught.value)
    check(caught.value, code or caught.value.code, facts)


def test_an_error_of_build_comes_from_the_workers_as_it_is(client):
    model = pr.planning.ClusterModel(lambda first, last: None, 2, 1, 0.9, blocks=1)
    with refused(ModelError, "wrong-type", argument="build", value="NoneType"):
        model.solve(0.9, client=client)
    model = pr.planning.ClusterModel(lambda first, last: importlib.import_module("no_such_module"), 2, 1, 0.9, blocks=1)
    with pytest.raises(ClusterError) as caught:
        model.solve(0.9, client=client)
    assert "no_such_module" in str(caught.value)


def test_a_cluster_has_no_gpu():
    with refused(ParameterError, "conflicting-arguments", argument="device", value="gpu"):
        pr.planning.ClusterModel(Slices(random_rows(1)), 30, 3, 0.9).solve(0.9, device="gpu")


@pytest.mark.parametrize(
    ("arguments", "code", "argument"),
    [
        (("no function", 2, 1, 0.9), "wrong-type", "build"),
        ((print, 0, 1, 0.9), "integer-range", "n_states"),
        ((print, 2, 1, 1.0), "discount-range", "discount"),
    ],
)
def test_wrong_arguments(arguments, code, argument):
    with refused(PrudentError, code, argument=argument):
        pr.planning.ClusterModel(*arguments)


def test_a_cluster_is_for_exact_solves(client):
    problem = here(*random_rows(3), 0.95, 0.9)
    with refused(ParameterError, "conflicting-arguments", argument="client"):
        problem.solve(draws=10, rng=1, client=client)
    with refused(ParameterError, "conflicting-arguments", argument="threads"):
        problem.solve(threads=2, client=client)
