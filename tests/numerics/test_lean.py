"""Lean kernels must not return arrays, nor call kernels that do: references are not counted there."""

import pkgutil
from importlib import import_module
from typing import NamedTuple

import numpy as np
import pytest

import prudent
from prudent._numerics.compile import kernel, lean
from prudent.risk.draws import lowest_normals


class Bundle(NamedTuple):
    numbers: np.ndarray
    n: int


@kernel
def make(n):
    return np.zeros(n)


@lean
def second(numbers):
    return numbers[1:][0]


@lean
def returns_its_argument(numbers):
    return numbers


@lean
def returns_a_tuple(numbers):
    return 1, numbers


@lean
def returns_a_bundle(numbers):
    return Bundle(numbers, 1)


@lean
def calls_a_maker(numbers):
    return make(3)[0] + numbers[0]


@lean
def calls_an_offender(numbers):
    return returns_its_argument(numbers)[0]


@lean
def calls_a_good_one(numbers):
    return second(numbers) + 1.0


@pytest.mark.parametrize(
    "offender", [returns_its_argument, returns_a_tuple, returns_a_bundle, calls_a_maker, calls_an_offender]
)
def test_offenders_are_refused_every_time(offender):
    for _ in range(2):  # a refused kernel is not kept
        with pytest.raises(TypeError, match="lean kernel"):
            offender(np.arange(3.0))


def test_slices_and_calls_of_other_lean_kernels_are_fine():
    assert calls_a_good_one(np.arange(3.0)) == 2.0


def test_our_own_lean_kernels_are_guarded_and_pass():
    """Those that this process has compiled or loaded return no arrays; the guard saw their calls when they compiled."""
    lake = prudent.envs.frozen_lake(0.1)
    agent = prudent.PosteriorSamplingAgent(lake[0], alpha=0.9, episode_length=2)
    agent.act(0)
    lowest_normals(10, 2, rng=1)  # calls a lean kernel itself: those inside a cached kernel are not loaded
    seen = 0
    for module in pkgutil.walk_packages(prudent.__path__, "prudent."):
        if "cuda" in module.name or module.name.endswith((".gpu", "__main__")):
            continue
        for name, member in vars(import_module(module.name)).items():
            if getattr(member, "targetoptions", {}).get("_nrt", True):
                continue
            assert member.add_overload.__name__ == "add_guarded", name
            for result in member.overloads.values():
                held = result.target_context.data_model_manager[result.signature.return_type]
                assert not held.contains_nrt_meminfo(), name
                seen += 1
    assert seen
