"""State files: exact, atomic, and suspicious of everything that is not theirs."""

import copy
import json
import os
import pickle
import re
import struct
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import _forgery
import numpy as np
import pytest
from _forgery import sealed
from refusals import refused

import prudent as pr
from prudent._support import state as _state
from prudent._support.state import generator_from_state, generator_state, read_state, write_state
from prudent.bandits import (
    BanditSettings,
    Decay,
    LinearBandit,
    brps_cmab,
    brps_cmab_clipped,
    thompson_sampling_inflated,
)
from prudent.errors import PrudentError, StateFileError

FIXED = {"noise_sd": 0.5, "intercept": False}
KINDS = [
    (brps_cmab(0.8), FIXED),
    (brps_cmab(0.7), FIXED),
    (brps_cmab_clipped(0.5), FIXED),
    (thompson_sampling_inflated(delta=0.1), FIXED),
    (brps_cmab(0.7), {"first_pulls": 3, "half_life": 50}),
    (BanditSettings(Decay(0.9, half=50), min_propensity=0.02), {"half_life": timedelta(seconds=20)}),
    (brps_cmab(0.8), {"noise": "by arm"}),
]


def run(bandit, rng, steps, tmp_path=None, chance=0.0):
    """Decisions and rewards; with ``chance``, the bandit is saved, thrown away and loaded before a step."""
    path = tmp_path / "bandit.state" if tmp_path else None
    lives, trace = np.random.default_rng(99), []
    for t in range(steps):
        when = {"time": float(t)}
        if path and lives.random() < chance:
            bandit.save(path)
            bandit = LinearBandit.load(path)
        if t == steps // 3:
            bandit.add_arm(f"new {t}", like=["b", "c"] if t % 2 else None)
        if t == steps // 2:
            bandit.remove_arm("a")
        if t % 10 == 0:
            batch = bandit.select(rng.random((7, 3)), **when)
            trace += [*batch.arm.tolist(), *batch.score.tolist()]
        context = rng.random(3)
        decision = bandit.select(context, arms=None if t % 3 else ["b", "c"], **when)
        trace += [decision.arm, decision.score]
        if rng.random() < 0.8:
            bandit.update(context, decision.arm, rng.normal(), **when)
    return bandit, trace


@pytest.mark.parametrize(("settings", "options"), KINDS, ids=[str(i) for i in range(len(KINDS))])
def test_a_thousand_interruptions_leave_the_trajectory_identical(settings, options, tmp_path):
    steps = 300
    make = lambda: LinearBandit(["a", "b", "c", 4], 3, settings=settings, rng=5, **options)  # noqa: E731
    whole, undisturbed = run(make(), np.random.default_rng(1), steps)
    pieces, interrupted = run(make(), np.random.default_rng(1), steps, tmp_path, chance=0.55)  # 7 x 300 x 0.55 cycles
    assert undisturbed == interrupted
    whole.save(tmp_path / "whole")
    pieces.save(tmp_path / "pieces")
    first, second = ((tmp_path / name).read_bytes() for name in ("whole", "pieces"))
    assert first == second


def test_loading_keeps_everything(tmp_path):
    settings = brps_cmab(0.7, estimator="modified")
    options = {"noise_sd": 2.0, "intercept": False, "settings": settings}
    bandit = LinearBandit(["x", 3], 2, **options, prior_precision=[[2, 1], [1, 3]])
    bandit.update([1.0, 2.0], 3, 1.0)
    bandit.save(tmp_path / "s")
    again = LinearBandit.load(tmp_path / "s")
    assert (again.arms, again.settings, again.noise_sd, again.pulls) == (("x", 3), bandit.settings, 2.0, {"x": 0, 3: 1})
    assert again.posterior(3) == bandit.posterior(3)
    again.update([1.0, 0.0], "x", 1.0)  # what was loaded can be written to
    assert bandit.pulls["x"] == 0


def test_load_on_a_bandit_replaces_its_state(tmp_path):
    old, new = LinearBandit(2, 1, rng=1), LinearBandit(["a"], 4, alpha=0.5, rng=2)
    new.save(tmp_path / "s")
    assert old.load(tmp_path / "s") is old
    assert (old.arms, old.dim, old.alpha) == (("a",), 4, 0.5)


@pytest.fixture
def saved(tmp_path):
    bandit = LinearBandit(2, 1, noise_sd=1.0, intercept=False, rng=1).update([1.0], 0, 2.0)
    bandit.save(tmp_path / "s")
    return bandit, tmp_path / "s"


@contextmanager
def not_loaded(path, reason, code="damaged-file"):
    """Check that a file is refused with this code, for this reason: a pattern, as one check may hide another."""
    with refused(StateFileError, code, path=str(path)) as caught:
        yield
    assert re.search(reason, str(caught.value)), caught.value


def stays(bandit, path, reason, code="damaged-file"):
    """Loading fails for this reason, from the class and in place, and the bandit stays what it was."""
    twin = pickle.dumps(bandit)
    for load in (LinearBandit.load, bandit.load):
        with not_loaded(path, reason, code):
            load(path)
    assert pickle.dumps(bandit) == twin


def test_every_truncation_and_every_flipped_byte_is_noticed(saved, tmp_path):
    bandit, path = saved
    content = path.read_bytes()
    broken = tmp_path / "broken"
    for length in range(len(content)):
        broken.write_bytes(content[:length])
        with refused(StateFileError, "damaged-file" if length else "wrong-format"):
            LinearBandit.load(broken)
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        broken.write_bytes(flipped)
        with refused(StateFileError, "damaged-file" if place >= 8 else "wrong-format"):
            LinearBandit.load(broken)
    broken.write_bytes(content + b"x")
    stays(bandit, broken, "damaged or truncated: the checksum")


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "wrong-format"),
        (b"PRUD", "damaged-file"),
        (pickle.dumps({"a": 1} | {i: i for i in range(99)}), "wrong-format"),
        (b"PK\x03\x04" + bytes(100), "wrong-format"),
    ],
)
def test_foreign_files_are_refused(saved, tmp_path, content, code):
    bandit, _ = saved
    (tmp_path / "foreign").write_bytes(content)
    stays(bandit, tmp_path / "foreign", "", code)


@pytest.mark.parametrize(
    ("content", "reason", "code"),
    [
        (sealed({}, layout=2), "layout version 2", "wrong-version"),
        (sealed(b"{"), "header", "damaged-file"),
        (sealed({}), "fields", "damaged-file"),
        (sealed(b"[" * 200_000 + b"]" * 200_000), "recursion", "damaged-file"),
        (
            sealed({"kind": "Other", "version": 1, "values": {}, "arrays": []}),
            "Other",
            "wrong-kind",
        ),
        (
            sealed({"kind": "LinearBandit", "version": 9, "values": {}, "arrays": []}),
            "version 9",
            "wrong-version",
        ),
        (
            sealed({"kind": "LinearBandit", "version": 1, "values": {}, "arrays": []}),
            "not the state of a LinearBandit",
            "damaged-file",
        ),
        (
            sealed({"kind": "LinearBandit", "version": 1, "values": {}, "arrays": []}, b"more"),
            "4 bytes are left over",
            "damaged-file",
        ),
        (
            sealed(
                {"kind": "x", "version": 1, "values": {}, "arrays": [{"name": "a", "type": "object", "shape": [1]}]}
            ),
            "'object'",
            "damaged-file",
        ),
    ],
)
def test_files_that_are_whole_but_wrong_are_refused(saved, tmp_path, content, reason, code):
    bandit, _ = saved
    (tmp_path / "wrong").write_bytes(content)
    stays(bandit, tmp_path / "wrong", reason, code)


def test_sums_that_do_not_fit_the_arms_are_refused(saved, tmp_path):
    bandit, path = saved
    values, arrays = read_state(path, "LinearBandit", 1)
    write_state(tmp_path / "odd", "LinearBandit", 1, values | {"arms": ["a", "b", "c"]}, arrays)
    stays(bandit, tmp_path / "odd", r"is an array \(2,\) .*, expected int64 \(3,\)")
    values["rng"]["bit_generator"] = "Evil"
    write_state(tmp_path / "odd", "LinearBandit", 1, values, arrays)
    stays(bandit, tmp_path / "odd", "unknown bit generator 'Evil'")


# -- forged files: a valid checksum over contents that nobody saved ------------------------------------------


def forge(path, change):
    """Change the values of a file, its arrays [flat] by name and its table of arrays, and seal it again."""
    header, arrays = _forgery.opened(path.read_bytes())
    change(header["values"], arrays, {entry["name"]: entry for entry in header["arrays"]})
    path.with_name("forged").write_bytes(sealed(header, _forgery.joined(arrays)))
    return path.with_name("forged")


def shaped(name, *sizes):
    return lambda values, arrays, table: table[name].update(shape=list(sizes))


def valued(value, *path):
    def change(values, arrays, table):
        for key in path[:-1]:
            values = values[key]
        values[path[-1]] = copy.deepcopy(value)

    return change


def both(*changes):
    return lambda *parts: [change(*parts) for change in changes]


def entry(value, name, place=0):
    return lambda values, arrays, table: arrays[name].put(place, value)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (valued(10**9, "arms"), "arms must be a list of names"),
        (valued(10**18, "settings", "draws"), "draws must be at most"),
        (valued(10**12, "settings", "draws"), "draws must leave at most"),
        (valued(-1, "decisions"), "decisions must be at least 0"),
        (valued(1e300, "decisions"), "decisions must be a whole number"),
        (valued(10**18, "decisions"), "decisions must be at most"),
        (valued(True, "decisions"), "decisions must be a whole number"),
        (valued("1.0", "belief", "noise_sd"), "noise_sd must be a positive number, got '1.0'"),
        (valued(True, "belief", "noise_sd"), "noise_sd must be a positive number, got True"),
        (valued(1, "belief", "noise_sd"), r"belief is .*'noise_sd': 1, .*, expected .*'noise_sd': 1\.0"),
        (valued(float("inf"), "belief", "noise_sd"), "broken header: Infinity is not a number"),
        (valued(float("nan"), "settings", "alpha"), "broken header: NaN is not a number"),
        (valued(0, "settings", "clip"), "settings is .*expected"),
        (valued("hello", "settings", "new"), "unexpected keyword argument 'new'"),
        (valued(1, "new"), "unknown field 'new'"),
        (lambda values, arrays, table: values.pop("decisions"), "'decisions'"),
        (lambda values, arrays, table: values["settings"].pop("label"), "settings is .*expected"),
        (valued(2**128, "rng", "state", "state"), "is not the state"),
        (valued(-1, "rng", "state", "state"), "is not the state"),
        (valued(4, "rng", "state", "inc"), "inc of the bit generator"),
        (valued(7, "rng", "has_uint32"), "has_uint32 of the bit generator"),
        (valued(2**32, "rng", "uinteger"), "is not the state"),
        (valued("Evil", "rng", "bit_generator"), "unknown bit generator 'Evil'"),
        (entry(-1, "pulls"), "pulls must be numbers of events"),
        (entry(0, "pulls"), "gram.* expected sums of products"),
        (entry(np.nan, "gram"), "not finite"),
        (entry(-1.0, "gram"), "the diagonal of gram"),
        (entry(7.0, "gram", 1), "gram is not symmetric"),
        (entry(1e9, "gram"), "the rank of gram"),
        (entry(7.0, "gram", [1, 2]), "gram.* expected sums of products"),
        (entry(1.0, "gram", 4), "gram.* expected sums of products"),
        (entry(1.0, "uniforms"), r"uniforms must be numbers in \[0, 1\)"),
        (entry(-0.5, "uniforms"), r"uniforms must be numbers in \[0, 1\)"),
        (entry(np.nan, "uniforms"), r"uniforms must be numbers in \[0, 1\)"),
        (entry(-1.0, "prior_precision"), "not positive definite"),
        (entry(1.0, "prior_mean"), "priors that are not those of the arms"),
        (entry(1, "prior"), "priors that are not those of the arms"),
        (entry(0, "tries"), "more rewards than decisions"),
        (entry(np.nan, "weights"), "weights that are not those of the rewards"),
        (entry(2.0, "weights"), "weights that are not those of the rewards"),
        (entry(np.inf, "extra"), "extra holds a number that is not finite"),
        (entry(3.0, "pool", 0), "rewards from 3.0 to 2.0"),
        (entry(0.0, "pool", 2), "the gain is 0.0"),
        (entry(1.5, "pool", 2), "the gain is 1.5"),
        (entry(0.5, "pool", 5), "numbers of rewards that cannot be"),
        (valued("by arm", "belief", "noise"), "give noise_sd or noise='by arm', not both"),
        (valued("loud", "belief", "noise"), "noise must be one of"),
        (valued(1, "intercept"), "is not the state"),
        (valued({"length": -1.0, "unit": "decisions"}, "half_life"), "half_life must be a positive number"),
        (valued({"length": 1.0, "unit": "moons"}, "half_life"), "got 'moons'"),
        (valued(0.5, "tick"), "tick is 0.5, expected None"),
        (both(valued({"length": 5.0, "unit": "decisions"}, "half_life"), valued(0.5, "tick")), "tick must be a whole"),
        (valued({"start": 1.0, "half": 1.0}, "settings", "alpha"), "start must be a risk level"),
        (valued({"start": 0.5}, "settings", "alpha"), "half"),
        (valued(-1, "settings", "first_pulls"), "first_pulls must be at least 0"),
        (valued(1.5, "settings", "min_propensity"), "min_propensity must be a probability"),
        (shaped("gram", 2**63), "array 'gram' has the size 9223372036854775808"),
        (shaped("gram", -1), "array 'gram' has the size -1"),
        (shaped("gram", 2**30, 2**30, 2**30), "is longer than the file"),
        (shaped("gram", True, 2, 2, 2), "array 'gram' has the size True"),
        (shaped("gram", "2", 2, 2, 2), "array 'gram' has the size '2'"),
        (shaped("gram", 16), r"gram is an array \(16,\) of float64, expected float64 \(2, 2, 2, 2\)"),
    ],
)
def test_forged_contents_are_refused(saved, change, reason):
    bandit, path = saved
    bandit.select([1.0])
    bandit.save(path)
    stays(bandit, forge(path, change), reason)


def test_a_key_that_occurs_twice_is_refused(saved):
    bandit, path = saved
    header, arrays = _forgery.opened(path.read_bytes())
    text = json.dumps(header).replace('"decisions": 0', '"decisions": 0, "decisions": 1').encode()
    path.write_bytes(sealed(text, _forgery.joined(arrays)))
    stays(bandit, path, "a key occurs twice")


MODEL = pr.UncertainMDP.direct([[0.0, 0.1], [1.0, 0.0]], discount=0.9)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (valued(True, "discount"), "discount must be a discount factor"),
        (valued(1, "indices"), "indices is 1, expected True"),
        (valued(-2, "episode"), "episode must be at least -1"),
        (valued(10**30, "episode"), "episode must be at most"),
        (valued(11, "steps_left"), "steps_left must be at most 10"),
        (valued(-1, "steps_left"), "steps_left must be at least 0"),
        (valued(10**18, "settings", "draws"), "draws must be at most"),
        (valued(10**18, "settings", "sweeps"), "sweeps must be at most"),
        (valued(1.0 - 1e-12, "settings", "alpha"), "GiB are available"),
        (valued(1, "new"), "unknown field 'new'"),
        (entry(np.inf, "value"), "value holds a number that is not finite"),
        (entry(5, "policy"), "policy.* is 5"),
        (entry(-1.0, "counts"), "counts.* is -1.0"),
        (entry(0.5, "counts"), "expected at least that of the prior"),
        (entry(9, "next_state"), "next_state.* is 9"),
        (entry(10**9, "source"), "source 1000000000"),
        (shaped("source", 2**62, 4), "has the size"),
    ],
)
def test_forged_agents_are_refused(tmp_path, change, reason):
    agent = pr.PosteriorSamplingAgent(MODEL, alpha=0.9, rng=1, indices=True)
    agent.observe(0, agent.act(0), 1)
    agent.save(tmp_path / "s")
    forged = forge(tmp_path / "s", change)
    before = agent.state()
    for load in (pr.PosteriorSamplingAgent.load, agent.load):
        with not_loaded(forged, reason):
            load(forged)
    _state.require_same(before[0], agent.state()[0])
    _state.require_same(before[1], agent.state()[1])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (entry(1e9, "q"), "q must be numbers from 0"),
        (entry(np.nan, "q"), "q holds a number that is not finite"),
        (entry(1.0, "q", [0, 1]), "value is .*expected"),
        (entry(1, "policy"), "policy is .*expected"),
        (entry(-1, "visits"), "visits must be numbers of events"),
        (valued(1.0, "settings", "delta"), "delta must be a probability"),
        (valued(10**400, "settings", "horizon"), "horizon must be at most"),
    ],
)
def test_forged_optimists_are_refused(tmp_path, change, reason):
    agent = pr.OptimisticVIAgent(MODEL, alpha=0.9, horizon=100, rng=1)
    agent.observe(0, agent.act(0), 1)
    agent.save(tmp_path / "s")
    forged = forge(tmp_path / "s", change)
    with not_loaded(forged, reason):
        pr.OptimisticVIAgent.load(forged)


@pytest.mark.parametrize(("bits", "path"), [("MT19937", ("state", "pos")), ("Philox", ("buffer_pos",))])
def test_a_generator_that_would_read_beyond_its_end_is_refused(bits, path):
    state = generator_state(np.random.Generator(getattr(np.random, bits)(3)))
    valued(10**6, *path)(state, None, None)
    with pytest.raises(ValueError) as caught:
        generator_from_state(state)
    assert path[-1] in str(caught.value)


def forge_many(folder, cases, seed):
    """Forge files in a process of its own, whose memory is watched; see _forgery.py."""
    script = [sys.executable, str(Path(_forgery.__file__)), str(folder), str(seed), str(cases)]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{cases} cases" in done.stdout


def test_forged_files_are_refused_or_work(tmp_path, seed):
    forge_many(tmp_path, 2_000, seed)


@pytest.mark.slow
def test_a_hundred_thousand_forged_files_are_refused_or_work(tmp_path, seed):
    forge_many(tmp_path, 100_000, seed)


def test_a_missing_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        LinearBandit.load(tmp_path / "nothing")
    assert issubclass(StateFileError, PrudentError)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_save_leaves_the_old_file(saved, monkeypatch, step):
    bandit, path = saved
    before = path.read_bytes()
    bandit.update([1.0], 1, 5.0)

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(_state.os, step, fail)
    with pytest.raises(OSError, match="disk full"):
        bandit.save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]  # and no draft


def test_there_is_nothing_to_execute(saved):
    _, path = saved
    content = path.read_bytes()
    length = struct.unpack_from("<Q", content, 12)[0]
    header = json.loads(content[20 : 20 + length])
    assert {entry["type"] for entry in header["arrays"]} <= {"float64", "int64"}


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"])
def test_every_generator_goes_on_where_it_was(bits):
    rng = np.random.Generator(getattr(np.random, bits)(3))
    rng.random(5)
    rng.integers(0, 10, dtype=np.uint32)  # leaves half a word behind
    again = generator_from_state(json.loads(json.dumps(generator_state(rng))))
    np.testing.assert_array_equal(rng.random(700), again.random(700))
    assert rng.integers(0, 2**31) == again.integers(0, 2**31)


def test_arrays_of_any_shape_survive(tmp_path):
    arrays = {
        "a": np.empty((0, 3)),
        "b": np.array(2.5),
        "c": np.arange(6).reshape(2, 3).T,
        "d": np.array([np.nan, -0.0]),
    }
    write_state(tmp_path / "s", "thing", 3, {"x": [1, "two", None]}, arrays)
    values, again = read_state(tmp_path / "s", "thing", 3)
    assert values == {"x": [1, "two", None]}
    for name, array in arrays.items():
        assert again[name].shape == array.shape
        np.testing.assert_array_equal(again[name], array)
