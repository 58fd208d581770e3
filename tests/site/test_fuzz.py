"""Public calls with arguments that nobody tuned: each ends in a finite and right result or in an error of ours.

The normal suite makes 2,000 of them, `make test-slow` a million. Seeds are printed: ``PRUDENT_TEST_SEED`` repeats a
run, and ``python tests/support/_fuzz.py SEED BEGIN END`` a part of it.
"""

import inspect
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
from _fuzz import faults, one_call
from _fuzz_more import CALLS

import prudent


def judged(seed, begin, end):
    """Make a range of calls; fail with what is wrong."""
    found = faults(CALLS, seed, begin, end)
    assert not found, f"{len(found)} faults with seed {seed}\n" + "\n".join(found[:20])


def test_every_name_at_the_top_is_called():
    called = {name.partition(":")[0] for name in CALLS}
    public = {name for name in prudent.__all__ if not inspect.ismodule(getattr(prudent, name))}
    assert public - called == set()


def test_good_arguments_obey_the_laws(rng):
    """Every entry point takes its good arguments; else the fuzz would only see refusals."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", prudent.errors.PrudentWarning)
        for name, call in CALLS.items():
            given = call.good(rng)
            assert call.law(given, call.function(**given)) == "", name


def test_strange_arguments_end_in_our_exceptions():
    """The same calls every time; other ones are made by the slow test."""
    judged(20261118, 0, 2_000)


def test_strange_arguments_in_threads():
    """Filters of warnings belong to the process, so that only exceptions and results are judged here."""
    seed = 20261118
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ThreadPoolExecutor(4) as pool:
            calls = pool.map(lambda index: one_call(CALLS, seed, index, alone=False), range(600))
            raised = [fault for fault in calls if fault is not None and " raised " in fault]
    assert not raised, f"{len(raised)} faults with seed {seed}\n" + "\n".join(raised[:20])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(100))
def test_a_million_strange_calls(part, seed):
    print(f"calls {part * 10_000} to {(part + 1) * 10_000} with seed {seed}")
    judged(seed, part * 10_000, (part + 1) * 10_000)
