"""Bandits in several processes: streams of their own, and what they learned brought together."""

import json
import multiprocessing
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from _child import python
from refusals import refused

from prudent.bandits import LinearBandit
from prudent.errors import ParameterError, StateFileError


def fresh(arms=("a", "b", "c"), dim=3, alpha=0.5, seed=8, **options):
    return LinearBandit(arms, dim, alpha=alpha, noise_sd=0.5, rng=seed, **options)


def scores(bandit, n=50):
    return [bandit.select(np.ones(bandit.dim)).score for _ in range(n)]


def data(seed, n=40, arms="abc", dim=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dim)), rng.choice(list(arms), n).tolist(), rng.normal(size=n)


# -- streams ---------------------------------------------------------------------------------------------------


def test_every_worker_has_a_stream_of_its_own(tmp_path):
    bandit = fresh()
    scores(bandit, 7)
    bandit.save(tmp_path / "s")
    content, everything = bandit.to_bytes(), []
    for stream in (0, 0, 1, 2, 10**6, 10**6):
        everything += scores(LinearBandit.load(tmp_path / "s", stream=stream))
        everything += scores(LinearBandit.from_bytes(content, stream=stream))
        everything += scores(bandit.copy(stream))
    assert len(set(everything)) == len(everything)
    # without a number everything goes on as it would have
    assert scores(LinearBandit.load(tmp_path / "s")) == scores(LinearBandit.from_bytes(content)) == scores(bandit)


def test_a_stream_is_another_one_in_another_process(tmp_path):
    bandit = fresh()
    bandit.save(tmp_path / "s")
    program = """
import sys, json
from prudent.bandits import LinearBandit
bandit = LinearBandit.load(sys.argv[1], stream=3)
print(json.dumps([bandit.select([1.0, 1.0, 1.0]).score for _ in range(5)]))
"""
    told = [json.loads(python(program, tmp_path / "s").stdout) for _ in range(2)]
    assert len({*told[0], *told[1], *scores(bandit.copy(stream=3), 5)}) == 15


def test_seven_hundred_reloads_have_the_shares_that_they_log():
    """A worker that loads the published state for each request, as some servers do, decides as it says it does.

    Each of four arms: 700 independent choices, within five standard errors of the sum of its propensities. False
    alarms: at most 4 times 6e-7. With one stream for all reloads the shares were .999, .001, 0 and 0.
    """
    bandit = LinearBandit(["a", "b", "c", "d"], 2, min_propensity=0.1, noise_sd=1.0, rng=5)
    bandit.update([[1.0, 0.0]] * 40, ["a", "b", "c", "d"] * 10, [1.0, 0.0, -1.0, -2.0] * 10)
    content, counts, expected, spread = bandit.to_bytes(), np.zeros(4), np.zeros(4), np.zeros(4)
    for _ in range(700):
        decision = LinearBandit.from_bytes(content, stream=3).select([1.0, 0.0])
        counts[decision.arms.index(decision.arm)] += 1
        chances = decision.propensities
        assert chances.min() >= 0.1 - 1e-12
        expected += chances
        spread += chances * (1.0 - chances)
    assert (np.abs(counts - expected) <= 5.0 * np.sqrt(spread)).all(), (counts, expected)


def test_a_position_of_a_stream_gives_the_same_draws_anywhere():
    bandit, other = fresh().seek(2**62 + 5), fresh(seed=9)
    places, found = [], []
    for _ in range(400):  # across blocks of uniforms
        places.append(bandit.position)
        found.append(bandit.select([1.0, 1.0, 1.0]).score)
    assert len(set(found)) == 400
    for i in (399, 0, 200, 57):
        assert other.seek(2**62 + 5, places[i]).select([1.0, 1.0, 1.0]).score == found[i]


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_streams_of_every_generator(bits, tmp_path):
    bandit = fresh(seed=np.random.Generator(getattr(np.random, bits)(3)))
    worker = bandit.copy(stream=1)
    worker.save(tmp_path / "s")
    assert scores(worker) == scores(LinearBandit.load(tmp_path / "s"))
    assert scores(bandit) != scores(bandit.copy(stream=1))


@pytest.mark.parametrize("stream", [-1, 1.5, "a", True])
def test_what_is_no_worker(stream, tmp_path):
    fresh().save(tmp_path / "s")
    with pytest.raises(ParameterError, match="stream must be"):
        LinearBandit.load(tmp_path / "s", stream=stream)


def forked(work, n):
    """Run ``work`` in so many forked processes; return what each returned."""
    found = []
    for _ in range(n):
        reader, pipe = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.write(pipe, json.dumps(work()).encode())
            finally:
                os._exit(0)
        os.close(pipe)
        with os.fdopen(reader, "rb") as file:
            found.append(json.loads(file.read()))
        os.waitpid(pid, 0)
    return found


def test_forked_processes_do_not_repeat_each_other():
    """Scores are drawn from a continuum: two equal ones in a thousand have a chance of about 1e-10."""
    bandit, twin = fresh(), fresh()
    scores(bandit, 3), scores(twin, 3)
    copies = [bandit, pickle.loads(pickle.dumps(bandit)), bandit.copy()]  # whatever a process holds
    children = forked(lambda: [score for each in copies for score in scores(each)], 4)
    grandchildren = forked(lambda: forked(lambda: scores(bandit), 2), 1)[0]
    mine = scores(bandit)
    assert mine == scores(twin)  # the parent goes on undisturbed
    everything = [score for each in (*children, *grandchildren, mine) for score in each]
    assert len(set(everything)) == len(everything) == 4 * 150 + 2 * 50 + 50


def _scores_of_worker(_):
    return scores(_BANDIT, 5)


_BANDIT = fresh()


def test_a_pool_of_forked_workers():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        found = pool.map(_scores_of_worker, range(12), chunksize=1)
    everything = [score for each in found for score in each]
    assert len(set(everything)) == len(everything) == 60


# -- copies and bytes ------------------------------------------------------------------------------------------


def test_a_copy_is_the_same_and_its_own(tmp_path):
    bandit = fresh().update(*data(1))
    scores(bandit, 3)
    twin = bandit.copy()
    assert twin.to_bytes() == bandit.to_bytes()
    bandit.save(tmp_path / "s")
    assert (tmp_path / "s").read_bytes() == bandit.to_bytes()
    assert LinearBandit.from_bytes(bandit.to_bytes()).to_bytes() == bandit.to_bytes()
    before = bandit.to_bytes()
    twin.update([1.0, 0.0, 0.0], "a", 3.0).add_arm("d")
    scores(twin)
    assert bandit.to_bytes() == before
    assert scores(bandit.copy()) == scores(bandit)


@pytest.mark.parametrize("content", [b"", b"junk", b"PRUDENT\x1a", fresh().to_bytes()[:-1]])
def test_bytes_that_are_no_bandit_are_refused(content):
    with pytest.raises(StateFileError, match=r"^content is "):
        LinearBandit.from_bytes(content)


# -- merging ---------------------------------------------------------------------------------------------------


def close(one, two):
    """The posteriors agree to a few units in the last place of what was summed."""
    assert one.pulls == two.pulls
    assert one.arms == two.arms
    assert one.decisions == two.decisions
    for arm in one.arms:
        np.testing.assert_allclose(one.posterior(arm).precision, two.posterior(arm).precision, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(one.posterior(arm).mean(), two.posterior(arm).mean(), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(one.posterior(arm).covariance(), two.posterior(arm).covariance(), rtol=1e-11)


def test_workers_together_know_what_one_would(tmp_path):
    base = fresh().update(*data(0))
    workers = [base.copy(stream=k) for k in range(4)]
    whole = base.copy()
    for k, worker in enumerate(workers):
        for bandit in (worker, whole):
            scores(bandit, k)
            bandit.update(*data(k + 1))
    merged = base.copy()
    for worker in workers:
        before = worker.to_bytes()
        assert merged.merge(worker, since=base) is merged
        assert worker.to_bytes() == before
    close(merged, whole)
    merged.save(tmp_path / "s")
    assert LinearBandit.load(tmp_path / "s").pulls == whole.pulls  # a state that can be loaded
    assert np.isfinite(scores(merged)).all()
    # the same as among themselves: each learns of the others
    mutual = workers[0].copy()
    for worker in workers[1:]:
        mutual.merge(worker, since=base)
    close(mutual, whole)
    assert merged.select([1.0, 1.0, 1.0]).version[1] == 200


def test_merging_again_and_again_counts_once():
    centre, worker = fresh(), fresh().copy(stream=0)
    whole, seen = fresh(), fresh()
    for k in range(10):
        worker.update(*data(k, n=5))
        whole.update(*data(k, n=5))
        centre.merge(worker, since=seen)
        seen = worker.copy()
        centre.merge(worker, since=seen)  # nothing new
    close(centre, whole)
    alone = fresh().merge(worker, since=None)
    close(alone, whole)


def test_many_rewards_do_not_drown_one():
    """A sum of 1e5 large squares and one small: what is new is kept to its own digits, not to those of the sum."""
    base = fresh(dim=1, arms=("a",), intercept=False)
    rng = np.random.default_rng(0)
    base.update(1e3 * rng.random((100_000, 1)), ["a"] * 100_000, 1e3 * rng.random(100_000))
    worker = base.copy(stream=0).update([1e-3], "a", 1e-3)
    merged = base.copy().merge(worker, since=base)
    sums = [sum(Fraction(float(part)) for part in bandit.state()[1]["gram"][0, :, 0, 0]) for bandit in (merged, base)]
    assert float(sums[0] - sums[1]) == pytest.approx(1e-6, rel=1e-9)


def test_arms_that_came_and_went():
    base = fresh().update(*data(0))
    one, two = base.copy(stream=0), base.copy(stream=1)
    one.add_arm("new").update([1.0, 0.0, 0.0], "new", 1.0).remove_arm("b")
    two.add_arm("new").update([0.0, 1.0, 0.0], "new", 2.0).add_arm("own").update(*data(3)).remove_arm("c")
    merged = one.copy().merge(two, since=base)
    assert merged.arms == ("a", "c", "new", "own")  # b was removed here and stays so; c was removed there only
    assert merged.pulls["new"] == 2
    assert merged.pulls["c"] == base.pulls["c"]
    both = fresh(("new",)).update([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], ["new"] * 2, [1.0, 2.0])
    assert merged.posterior("new") == both.posterior("new")


@pytest.mark.parametrize(
    ("other", "since", "code"),
    [
        ("x", None, "wrong-type"),
        (fresh(), "x", "wrong-type"),
        (fresh(dim=2), None, "different-settings"),
        (fresh(alpha=0.6), None, "different-settings"),
        (fresh(prior_precision=2.0), None, "different-settings"),
        (fresh(), fresh(alpha=0.1), "different-settings"),
        (LinearBandit(3, 3, alpha=0.5, noise_sd=2.0), None, "different-settings"),
        (fresh(), fresh().update(*data(1)), "not-an-ancestor"),
        (fresh().update(*data(2)), fresh().update(*data(1)), "not-an-ancestor"),
    ],
)
def test_what_cannot_be_merged_is_refused(other, since, code):
    bandit = fresh().update(*data(5))
    before = bandit.to_bytes()
    with refused(ParameterError, code):
        bandit.merge(other, since=since)
    assert bandit.to_bytes() == before


def test_nobody_merges_with_himself_or_with_an_earlier_self():
    bandit = fresh()
    with refused(ParameterError, "conflicting-arguments", argument="other"):
        bandit.merge(bandit, since=None)
    earlier = bandit.copy()
    bandit.select([1.0, 1.0, 1.0])
    with refused(ParameterError, "not-an-ancestor", argument="since"):
        fresh().merge(earlier, since=bandit)
    with pytest.raises(TypeError, match="since"):
        bandit.merge(earlier)


@pytest.mark.parametrize("options", [{}, {"noise": "by arm"}, {"intercept": False}, {"first_pulls": 3}], ids=str)
def test_learned_noise_is_merged_too(options, tmp_path):
    make = lambda: LinearBandit(["a", "b", "c"], 3, rng=1, **options)  # noqa: E731
    base = make().update(*data(0))
    whole, workers = base.copy(), [base.copy(stream=k) for k in range(2)]
    for k, worker in enumerate(workers):
        for bandit in (worker, whole):
            bandit.update(*data(k + 1))
            scores(bandit, 5)
    merged = base.copy().merge(workers[0], since=base).merge(workers[1], since=base)
    assert merged.noise_sd == pytest.approx(whole.noise_sd, rel=1e-12)
    for found, expected in zip(merged.predict(np.eye(3)), whole.predict(np.eye(3)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    merged.save(tmp_path / "s")
    assert LinearBandit.load(tmp_path / "s").pulls == whole.pulls
    assert len(merged.check()) == 0


def test_an_arm_like_others_is_merged_with_its_prior():
    base = LinearBandit(["a", "b"], 3, noise_sd=1.0, rng=1).update(*data(0, arms="ab"))
    other = base.copy().add_arm("c", like=["a", "b"]).update(*data(1))
    merged = base.copy().merge(other, since=base)
    np.testing.assert_allclose(merged.posterior("c").mean(), other.posterior("c").mean(), rtol=1e-12)
    np.testing.assert_array_equal(merged.posterior("c").prior, other.posterior("c").prior)
    with refused(ParameterError, "not-an-ancestor", argument="since"):
        base.copy().add_arm("c").merge(other, since=base)


def test_evidence_that_fades_is_not_merged():
    for options, factor in (({"half_life": 10.0}, 1.0), ({}, 0.5)):
        one, two = (LinearBandit(["a"], 3, noise_sd=1.0, **options).update(*data(k, arms="a")) for k in (0, 1))
        with refused(ParameterError, "faded-evidence", argument="other"):
            one.merge(two.forget(factor), since=None)
