"""The public names: all of them can be had, documented, and from one room only."""

import importlib

import pytest

import prudent as pr

ROOMS = ("agents", "analysis", "bandits", "evaluation", "models", "planning", "posteriors", "simulation")


@pytest.mark.parametrize("name", pr.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(pr, name).__doc__


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_exports_is_public_at_the_top(room):
    module = importlib.import_module(f"prudent.{room}")
    for name in module.__all__:
        assert getattr(pr, name) is getattr(module, name)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'prudent' has no attribute 'nonsense'"):
        pr.nonsense  # noqa: B018
