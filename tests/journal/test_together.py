"""Decisions of one commit are taken together; every one can be taken again, and they are those of one by one."""

import threading

import numpy as np
import pytest

from prudent.bandits import LinearBandit
from prudent.bandits.decision import Decision
from prudent.errors import DataError, ParameterError


def contexts(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).tolist()


@pytest.mark.parametrize("options", [{}, {"min_propensity": 0.1}, {"rewards": "bernoulli"}, {"first_pulls": 2}])
def test_decisions_of_any_number_of_requests_are_verified(place, options):
    with place(LinearBandit(4, 3, rng=1, **options)) as live:
        total = 0
        for size in (1, 2, 3, 5, 16, 17, 40, 300):
            found = live.select_each([{"context": context} for context in contexts(size, size)])
            assert all(isinstance(one, Decision) for one in found)
            total += size
            statuses = live.reward([one.id for one in found], [float(i % 2) for i in range(size)])
            assert statuses == ["ok"] * size
        assert live.counts["decisions"] == total
        assert len({row["id"] for row in live.rows()}) == total
        assert live.verify() == total


def test_plain_requests_among_others_each_have_their_answer(place):
    with place(LinearBandit(["a", "b", "c"], 3, rng=1)) as live:
        plain = [{"context": context} for context in contexts(6)]
        requests = [
            *plain[:2],
            {"context": [1.0, 2.0]},
            {"context": [1.0, float("nan"), 0.0]},
            {"context": [1.0, 2.0, 3.0], "arms": ["b"]},
            {"context": [1.0, 2.0, 3.0], "key": "k", "note": {"user": "u"}},
            {"context": [1.0, 2.0, 3.0], "arms": ["?"]},
            *plain[2:],
            {"context": [1.0, 2.0, 3.0], "key": "k", "note": {"user": "u"}},
        ]
        found = live.select_each(requests)
        kinds = [type(one) for one in found]
        wrong = [DataError, DataError, Decision, Decision, ParameterError]
        assert kinds == [Decision] * 2 + wrong + [Decision] * 5
        assert found[4].arm == "b"
        assert found[5].id == found[-1].id
        rows = {row["id"]: row for row in live.rows()}
        assert len(rows) == 8
        for request, one in zip(requests, found, strict=True):
            if isinstance(one, Decision):
                assert rows[one.id]["context"] == request["context"]
                assert (rows[one.id]["arm"], rows[one.id]["propensity"]) == (one.arm, one.propensity)
        assert rows[found[5].id]["note"] == {"user": "u"}
        assert live.verify() == 8


@pytest.mark.parametrize("names", [["x", "y", "z"], None])
def test_contexts_with_names_are_decided_together_and_as_they_are_meant(place, names):
    size = {"features": names} if names else {"dim": 3}
    with place(LinearBandit(4, **size, rng=1)) as live:
        rows = contexts(20)
        asked = [{"context": dict(zip("zxy", (z, x, y), strict=True))} for x, y, z in rows]
        asked[3] = {"context": {"x": 1, "y": 2.0, "z": 3}}  # whole numbers, as JSON has them
        asked[4] = {"context": {"x": 1.0, "y": 2.0}}
        asked[5] = {"context": {"x": 1.0, "y": 2.0, "w": 3.0}}
        asked[6] = {"context": {"x": 1.0, "y": 2.0, "z": "three"}}
        found = live.select_each(asked)
        assert [i for i, one in enumerate(found) if not isinstance(one, Decision)] == [4, 5, 6]
        written = {row["id"]: dict(zip(live.bandit.features, row["context"], strict=True)) for row in live.rows()}
        for request, one in zip(asked, found, strict=True):
            if isinstance(one, Decision):
                assert written[one.id] == request["context"]
        assert live.verify() == 17


def test_together_and_one_by_one_give_the_same_shares(place):
    """Each arm's count is within 6 standard errors of the sum of propensities (false alarms 1e-8), both ways mixed."""
    with place(LinearBandit(3, 3, rng=1)) as live:
        seen = live.select(np.array(contexts(200)))
        live.reward([one.id for one in seen], [float(i % 5) for i in range(200)])
        chances, chosen = [], []
        for i, context in enumerate(contexts(600, 1)):
            asked = [{"context": context}] * (1 + i % 4)
            for one in live.select_each(asked):
                chances.append(one.propensities)
                chosen.append(one.arm)
        chance, counts = np.array(chances), np.bincount(chosen, minlength=3)
        spread = np.sqrt((chance * (1.0 - chance)).sum(axis=0))
        assert spread.min() > 1.0
        assert (np.abs(counts - chance.sum(axis=0)) < 6.0 * spread).all()
        assert live.verify() == 200 + len(chosen)


def test_threads_that_decide_together_use_no_uniform_twice(place):
    with place(LinearBandit(4, 3, rng=1)) as live:
        failures = []

        def work(number):
            try:
                for i in range(10):
                    found = live.select_each([{"context": context} for context in contexts(1 + 7 * (i % 3), number)])
                    live.reward([one.id for one in found[:2]], [1.0] * len(found[:2]))
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert live.verify() == live.counts["decisions"] == 4 * (4 * 1 + 3 * 8 + 3 * 15)
