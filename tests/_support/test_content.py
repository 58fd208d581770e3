"""Digests of values: what they do not depend on. What they depend on is tested with sweeps, whose chunks they name."""

from __future__ import annotations

from prudent._support.content import Content


def fresh():
    """Return a class of its own that was never pickled, and an object of it whose class refers to the object."""

    class Agent:
        def __init__(self):
            self.count = 3

        def act(self):
            return agents[0].count

    agents = [Agent()]
    return Agent, agents[0]


def test_a_digest_does_not_depend_on_what_was_pickled_before():
    """Pickling an object adds an entry to its class, also while the class is digested."""
    before = Content(fresh()[0]).hexdigest()
    kind, agent = fresh()
    agent.__reduce_ex__(4)
    assert "__slotnames__" in vars(kind)
    assert Content(kind).hexdigest() == before
    kind.act = lambda self: 4
    assert Content(kind).hexdigest() != before
