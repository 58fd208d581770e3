"""Markov chains by BiCGStab, threads, and the Laplace approximation."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from refusals import refused
from scipy import sparse

from prudent._numerics.compile import default_threads, each_row, over_rows
from prudent._numerics.glm import ODDS, laplace_sums
from prudent.errors import PosteriorError
from prudent.planning.chain import Chain, chain_values

# -- chains --------------------------------------------------------------------------------------------------


def random_chain(n, reach, seed, *, leak=0.0, k=4):
    """Some successors each, anywhere or (slow mixing) within ``reach``; some columns repeat in a row."""
    rng = np.random.default_rng(seed)
    home = np.arange(n)[:, None]
    columns = rng.integers(0, n, (n, k)) if reach is None else (home + rng.integers(-reach, reach + 1, (n, k))) % n
    weights = rng.dirichlet(np.ones(k), n) * (1.0 - leak)
    return Chain(np.arange(0, k * n + 1, k), columns.astype(np.int32).ravel(), weights.ravel(), rng.normal(size=n))


def residual(chain, discount, x):
    return chain.reward + discount * chain.dense() @ x - x


def test_a_dense_chain_adds_up_repeated_columns():
    chain = random_chain(30, 2, seed=0)
    matrix = sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(30, 30)).toarray()
    np.testing.assert_allclose(chain.dense(), matrix, rtol=0, atol=1e-16)


@pytest.mark.parametrize("reach", [None, 3])
@pytest.mark.parametrize("leak", [0.0, 0.1])
@pytest.mark.parametrize("discount", [0.0, 0.5, 0.99, 0.9999])
def test_chain_values_reach_their_target(reach, leak, discount):
    chain = random_chain(400, reach, seed=1, leak=leak)
    truth = np.linalg.solve(np.eye(400) - discount * chain.dense(), chain.reward)
    x = np.random.default_rng(2).normal(size=400)
    products = chain_values(chain, discount, x, 1e-9, False, 10_000)
    assert 1 <= products < 10_000
    assert abs(residual(chain, discount, x)).max() <= 2e-9  # the recurrence knows its residual up to rounding
    assert abs(x - truth).max() <= 2e-9 / (1.0 - discount)


def test_a_constant_residual_is_enough_for_a_conservative_chain():
    chain = random_chain(400, None, seed=3, k=60)
    x, y = np.zeros(400), np.zeros(400)
    quick = chain_values(chain, 0.999, x, 1e-8, True, 10_000)
    slow = chain_values(chain, 0.999, y, 1e-8, False, 10_000)
    off = residual(chain, 0.999, x)
    assert np.ptp(off) <= 2.1e-8
    assert abs(off).max() > 1e-6  # what the caller shifts away
    assert quick < slow
    shifted = x + off.mean() / (1.0 - 0.999)
    assert abs(shifted - y).max() <= 1e-4


def test_the_cap_on_products_holds():
    chain = random_chain(400, 3, seed=4)
    for most in (1, 2, 7, 20):
        x = np.zeros(400)
        assert chain_values(chain, 0.9999, x, 1e-12, False, most) <= most + 1  # a step of BiCGStab takes two
        assert np.isfinite(x).all()


# -- threads -------------------------------------------------------------------------------------------------


def test_the_environment_sets_the_number_of_threads(monkeypatch):
    monkeypatch.delenv("PRUDENT_THREADS", raising=False)
    machine = default_threads()
    assert machine >= 1
    monkeypatch.setenv("PRUDENT_THREADS", str(machine + 3))
    assert default_threads() == machine + 3
    for nonsense in ("", "0", "-2", "many", "1.5"):
        monkeypatch.setenv("PRUDENT_THREADS", nonsense)
        assert default_threads() == machine


@pytest.mark.parametrize(
    ("rows", "threads", "smallest"), [(1, 4, 1), (100, 1, 1), (100, 3, 1), (100, 8, 40), (7, 8, 1)]
)
def test_ranges_cover_the_rows_once_and_in_order(rows, threads, smallest):
    seen = set()

    def work(start, stop):
        seen.add(threading.get_ident())
        return list(range(start, stop))

    found = over_rows(work, rows, threads, smallest)
    assert [i for part in found for i in part] == list(range(rows))
    assert len(seen) <= threads
    if len(found) > 1:
        assert min(map(len, found)) >= min(smallest, rows // threads)


def test_an_error_in_a_range_comes_out_and_the_rest_is_dropped():
    begun = []

    def work(start, stop):
        for row in each_row(start, stop):
            begun.append(row)
            if row == 0:
                raise ZeroDivisionError("in a thread")

    with pytest.raises(ZeroDivisionError, match="in a thread"):
        over_rows(work, 1_000_000, 2)
    assert len(begun) < 1_000_000


@pytest.mark.parametrize("long", [False, True])
def test_one_thread_is_ours_unless_rows_are_long(long):
    (where,) = set(over_rows(lambda *_: threading.current_thread(), 1, 1, long=long))
    assert (where is threading.main_thread()) != long


# -- Laplace approximation -----------------------------------------------------------------------------------


def test_a_mode_beyond_double_precision_is_refused():
    contexts = np.full((3, 1), 1e200)
    with refused(PosteriorError, "no-mode", value=3, steps=1):
        laplace_sums(ODDS, np.eye(1), np.zeros(1), contexts, np.ones(3), np.ones(3), np.zeros(1))
