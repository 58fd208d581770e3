"""Memory in proportion to the outcomes that exist; draws by blocks; ragged and dense are the same model."""

import os
import subprocess
import sys

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused
from scipy import sparse

import prudent as pr
from prudent import BayesianRiskMDP, DirichletPosterior, UncertainMDP
from prudent.errors import ModelError
from prudent.planning import draw_blocks
from prudent.planning.draw_blocks import GivenDraws, SlotDraws
from prudent.planning.execute.threads import Threads
from prudent.planning.row_risks import DrawRows

WIDE = """
import resource
import numpy as np
import prudent as pr

base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
S, A, K = 10_000, 2, 5_000  # dense arrays [S, A, K] would take 1.2 GB; with draws [N, B, K] of 100 more
rng = np.random.default_rng(1)
pairs = np.arange(S * A)
state = np.concatenate((np.repeat(pairs // A, 2), np.zeros(K - 2, dtype=int)))
action = np.concatenate((np.repeat(pairs % A, 2), np.zeros(K - 2, dtype=int)))
outcome = np.concatenate((np.tile([0, 1], S * A), np.arange(2, K)))
table = {
    "state": state,
    "action": action,
    "outcome": outcome,
    "next_state": rng.integers(0, S, state.size),
    "reward": rng.random(state.size),
    "source": np.concatenate((np.repeat([0, *[1] * (S * A - 1)], 2), np.zeros(K - 2, dtype=int))),
}
model = pr.UncertainMDP.from_table(table, 0.9)
assert (model.n_sources, model.n_outcomes, model.entries.next_state.size) == (2, K, 2 * S * A + K - 2)
problem = pr.BayesianRiskMDP(model, model.prior(), alpha=0.9)
mean = pr.BayesianRiskMDP(model, model.prior(), alpha=0)
mean.solve()
problem.solve(draws=100, rng=1)
problem.solve(tol=1e-3)
model.mdp(model.prior() / model.prior().sum(axis=1, keepdims=True))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""


def test_one_pair_with_many_outcomes_takes_no_memory_for_the_others():
    """Dense arrays would take 1,200 MB, and twice that while they are checked."""
    environment = os.environ | {"PRUDENT_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", WIDE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 400, f"{done.stdout} MB"


def ragged(rng):
    """A random model with gaps in its outcomes, ends, terminal states and inadmissible pairs."""
    S, A, K = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    B = int(rng.integers(1, S * A + 1))
    source = rng.integers(0, B, (S, A))
    source[rng.random((S, A)) < 0.2] = -1
    source[:, 0] = np.where((source < 0).all(axis=1), 0, source[:, 0])
    source[0] = np.maximum(source[0], 0)
    _, packed = np.unique(source[source >= 0], return_inverse=True)
    source[source >= 0] = packed
    mask = rng.random((B, K)) < 0.6
    mask[np.arange(B), rng.integers(0, K, B)] = True
    targets = rng.integers(0, S, (S, A, K))
    targets[rng.random(targets.shape) < 0.1] = -2
    next_state = np.where(mask[source], targets, -1)
    return source, next_state, rng.normal(size=(S, A, K))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_ragged_and_dense_input_give_the_same_model(seed):
    rng = np.random.default_rng(seed)
    source, next_state, reward = ragged(rng)
    dense = UncertainMDP(source, next_state, reward, 0.9)
    there = (next_state != -1) & (source >= 0)[:, :, None]
    s, a, k = np.nonzero(there)
    order = rng.permutation(s.size)
    flat = (s * source.shape[1] + a, k, next_state[there], reward[there])
    of_entries = UncertainMDP.from_entries(source, *(each[order] for each in flat), 0.9)
    np.testing.assert_array_equal(dense.next_state, np.where(source[:, :, None] >= 0, next_state, -1))
    np.testing.assert_array_equal(dense.reward, np.where(there, reward, 0.0))
    n = of_entries.n_outcomes  # trailing outcomes that nobody has are not in a list
    np.testing.assert_array_equal(of_entries.next_state, dense.next_state[:, :, :n])
    np.testing.assert_array_equal(of_entries.reward, dense.reward[:, :, :n])
    np.testing.assert_array_equal(of_entries.outcome_mask, dense.outcome_mask[:, :n])
    for pair in np.flatnonzero(dense.admissible):
        np.testing.assert_array_equal(dense.leads(pair), dense.next_state.reshape(-1, dense.n_outcomes)[pair])
    assert not dense.reward.flags.writeable
    # one step ahead, against NumPy
    counts = dense.prior() * rng.integers(1, 5, dense.outcome_mask.shape)
    theta = DirichletPosterior(counts).sample(7, seed)
    value = rng.normal(size=dense.n_states)
    later = np.where(dense.next_state >= 0, value[dense.next_state], 0.0)
    z = np.einsum("nsak,sak->nsa", theta[:, dense.source], dense.reward + 0.9 * later)
    operator = Threads(DrawRows(dense, GivenDraws(dense, theta), pr.CVaR(0.7)))
    q = np.full(dense.source.size, -np.inf)
    pairs = np.flatnonzero(dense.admissible)
    operator.backup(value, pairs, q)
    np.testing.assert_allclose(q[pairs], pr.cvar(z, 0.7).reshape(-1)[pairs], atol=1e-12)
    chain = operator.linearise(value, pairs)
    per_row = np.add.reduceat(chain.data * value[chain.indices], chain.indptr[:-1])
    np.testing.assert_allclose(chain.reward + 0.9 * per_row, q[pairs], atol=1e-12)


def test_bad_entries_are_named():
    rest = {"action": [0, 0, 0], "next_state": [0, 1, 1], "reward": [0, 0, 0]}
    with refused(ModelError, "unequal-outcomes", source=0, outcome=1, state=1, action=0):
        UncertainMDP.from_table(rest | {"state": [0, 0, 1], "outcome": list("aba")}, 0.9)
    with refused(ModelError, "unequal-outcomes", source=0, outcome=1, state=0, action=0):
        UncertainMDP.from_table(rest | {"state": [1, 1, 0], "outcome": list("aba")}, 0.9)


def test_sparse_support_is_the_dense_one():
    rng = np.random.default_rng(3)
    S, A = 6, 3
    support = rng.random((S, A, S)) < 0.4
    support[:, :, 0] = True
    reward = rng.random((S, A, S))
    matrix = sparse.csr_array(support.reshape(S * A, S))
    for earned in (reward, reward[:, :, 0]):
        dense = UncertainMDP.direct(earned, 0.9, support=support, terminal=[4])
        assert UncertainMDP.direct(earned, 0.9, support=matrix, terminal=[4]) == dense
        assert UncertainMDP.direct(earned, 0.9, support=sparse.coo_array(matrix), terminal=[4]) == dense
    with refused(ModelError, "wrong-shape", argument="support", value=(6, 18)):
        UncertainMDP.direct(reward, 0.9, support=matrix.T)
    reward[2, 1, 0] = np.nan
    with refused(ModelError, "not-finite", argument="reward", index=(2, 1, 0)):
        UncertainMDP.direct(reward, 0.9, support=support)
    support[3, 1] = False
    with refused(ModelError, "no-outcome", state=3, action=1):
        UncertainMDP.direct(reward[:, :, 1], 0.9, support=support)


def test_draws_by_blocks_are_the_draws_of_the_posterior(monkeypatch):
    """However little is kept, the numbers are those of ``sample`` with the same generator, and so is the answer."""
    support = np.random.default_rng(11).random((5, 2, 5)) < 0.5
    support[:, :, 0] = True
    model = UncertainMDP.direct(support.sum(axis=2), 0.9, support=support, terminal=[3])
    assert model.n_sources == 9
    counts = model.prior(0.7)
    posterior = DirichletPosterior(counts)
    theta = posterior.sample(30, np.random.default_rng(5))
    packed = model.entries.pack(theta).T
    whole = BayesianRiskMDP(model, posterior, 0.8).solve(draws=30, rng=5)
    for most, block in ((2**29, 2**25), (0, 1), (500, 600), (4_000, 2_000)):
        monkeypatch.setattr(draw_blocks, "BLOCK_BYTES", block)
        monkeypatch.setattr("prudent.planning.problem.KEPT_BYTES", most)
        draws = SlotDraws(model.entries, model.entries.pack(counts), 30, np.random.default_rng(5), most)
        for _ in range(2):
            blocks = np.concatenate([draws.block(i) for i in range(len(draws.edges))])
            np.testing.assert_array_equal(blocks, packed)
        assert len(draws.edges) == {2**25: 1, 1: model.n_sources}.get(block, len(draws.edges))
        assert [edge[0] for edge in draws.edges] == [0, *(edge[1] for edge in draws.edges[:-1])]
        again = BayesianRiskMDP(model, posterior, 0.8).solve(draws=30, rng=5)
        np.testing.assert_array_equal(again.value, whole.value)
        generator = np.random.default_rng(5)
        BayesianRiskMDP(model, posterior, 0.8).solve(draws=30, rng=generator)
        once = np.random.default_rng(5)
        posterior.sample(30, once)
        assert generator.random() == once.random()  # a generator is where it would be after one pass
