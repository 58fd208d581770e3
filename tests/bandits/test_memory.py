"""What bandits keep in memory."""

import tracemalloc

import pytest

import prudent as pr


def grown(work):
    """Return by how many bytes a function lets memory grow, and its result, which it keeps."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = work()
        return tracemalloc.get_traced_memory()[0] - before, kept
    finally:
        tracemalloc.stop()


def test_twenty_arms_with_three_hundred_features_take_20_mb(rng):
    def made(arms, dim):
        bandit = pr.LinearBandit(arms, dim, rng=0)
        for arm, context in enumerate(rng.normal(size=(3 * arms, dim))):
            bandit.update(context, arm % arms, float(rng.normal()))
        bandit.select(rng.normal(size=dim))
        return bandit

    made(2, 300)  # compiles
    size, _ = grown(lambda: made(20, 300))
    assert 18e6 < size <= 20e6


@pytest.mark.parametrize("kind", ["arms", "items"])
def test_decisions_leave_memory_as_it_was(kind, rng):
    contexts = rng.normal(size=(50, 4, 3))
    bandit = pr.LinearBandit(4, 3, alpha=0.5, rng=0) if kind == "arms" else pr.SharedLinearBandit(3, rng=0)

    def decide(times):
        for i in range(times):
            points = contexts[i % 50]
            decision = bandit.select(points[0] if kind == "arms" else points)
            decision.propensity  # noqa: B018
            bandit.update(points[0] if kind == "arms" else points[decision.arm], decision.arm, float(i % 7))

    decide(500)
    size, _ = grown(lambda: decide(10_000))
    assert size < 20_000  # two bytes a decision
