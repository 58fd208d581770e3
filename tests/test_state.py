"""State files: exact, atomic, and suspicious of everything that is not theirs."""

import hashlib
import json
import os
import pickle
import struct

import numpy as np
import pytest

from prudent._support import state as _state
from prudent._support.state import generator_from_state, generator_state, read_state, write_state
from prudent.bandits import LinearBandit, brps_cmab, brps_cmab_clipped, thompson_sampling_inflated
from prudent.errors import PrudentError, StateFileError

SETTINGS = [brps_cmab(0.8), brps_cmab(0.7), brps_cmab_clipped(0.5), thompson_sampling_inflated(delta=0.1)]


def run(bandit, rng, steps, tmp_path=None, chance=0.0):
    """Decisions and rewards; with ``chance``, the bandit is saved, thrown away and loaded before a step."""
    path = tmp_path / "bandit.state" if tmp_path else None
    lives, trace = np.random.default_rng(99), []
    for t in range(steps):
        if path and lives.random() < chance:
            bandit.save(path)
            bandit = LinearBandit.load(path)
        if t == steps // 3:
            bandit.add_arm(f"new {t}")
        if t == steps // 2:
            bandit.remove_arm("a")
        if t % 10 == 0:
            batch = bandit.select(rng.random((7, 3)))
            trace += [*batch.arm.tolist(), *batch.score.tolist()]
        context = rng.random(3)
        decision = bandit.select(context, arms=None if t % 3 else ["b", "c"])
        trace += [decision.arm, decision.score]
        if rng.random() < 0.8:
            bandit.update(context, decision.arm, rng.normal())
    return bandit, trace


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: settings.label)
def test_a_thousand_interruptions_leave_the_trajectory_identical(settings, tmp_path):
    steps = 500
    make = lambda: LinearBandit(["a", "b", "c", 4], 3, settings=settings, noise_sd=0.5, seed=5)  # noqa: E731
    whole, undisturbed = run(make(), np.random.default_rng(1), steps)
    pieces, interrupted = run(make(), np.random.default_rng(1), steps, tmp_path, chance=0.55)  # 4 x 500 x 0.55 cycles
    assert undisturbed == interrupted
    whole.save(tmp_path / "whole")
    pieces.save(tmp_path / "pieces")
    first, second = ((tmp_path / name).read_bytes() for name in ("whole", "pieces"))
    assert first == second


def test_loading_keeps_everything(tmp_path):
    bandit = LinearBandit(["x", 3], 2, settings=brps_cmab(0.7, estimator="modified"), prior_precision=[[2, 1], [1, 3]])
    bandit.update([1.0, 2.0], 3, 1.0)
    bandit.save(tmp_path / "s")
    again = LinearBandit.load(tmp_path / "s")
    assert (again.arms, again.settings, again.noise_sd, again.pulls) == (("x", 3), bandit.settings, 1.0, {"x": 0, 3: 1})
    assert again.posterior(3) == bandit.posterior(3)
    again.update([1.0, 0.0], "x", 1.0)  # what was loaded can be written to
    assert bandit.pulls["x"] == 0


def test_load_on_a_bandit_replaces_its_state(tmp_path):
    old, new = LinearBandit(2, 1, seed=1), LinearBandit(["a"], 4, alpha=0.5, seed=2)
    new.save(tmp_path / "s")
    assert old.load(tmp_path / "s") is old
    assert (old.arms, old.dim, old.alpha) == (("a",), 4, 0.5)


@pytest.fixture
def saved(tmp_path):
    bandit = LinearBandit(2, 1, seed=1).update([1.0], 0, 2.0)
    bandit.save(tmp_path / "s")
    return bandit, tmp_path / "s"


def refused(bandit, path, message):
    """Loading fails with ``message``, from the class and in place, and the bandit stays what it was."""
    twin = pickle.dumps(bandit)
    with pytest.raises(StateFileError, match=message):
        LinearBandit.load(path)
    with pytest.raises(StateFileError, match=message):
        bandit.load(path)
    assert pickle.dumps(bandit) == twin


def test_every_truncation_and_every_flipped_byte_is_noticed(saved, tmp_path):
    bandit, path = saved
    content = path.read_bytes()
    broken = tmp_path / "broken"
    for length in range(len(content)):
        broken.write_bytes(content[:length])
        with pytest.raises(StateFileError, match=r"truncated|not a prudent state file"):
            LinearBandit.load(broken)
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << (place % 8)
        broken.write_bytes(flipped)
        with pytest.raises(StateFileError, match=r"damaged|not a prudent state file"):
            LinearBandit.load(broken)
    broken.write_bytes(content + b"x")
    refused(bandit, broken, "damaged or truncated: the checksum")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"is not a prudent state file: it starts with b''"),
        (b"PRUD", "is truncated: it has only 4 bytes"),
        (pickle.dumps({"a": 1} | {i: i for i in range(99)}), r"is not a prudent state file: it starts with b'\\x80"),
        (b"PK\x03\x04" + bytes(100), r"is not a prudent state file: it starts with b'PK"),
    ],
)
def test_foreign_files_are_refused(saved, tmp_path, content, message):
    bandit, _ = saved
    (tmp_path / "foreign").write_bytes(content)
    refused(bandit, tmp_path / "foreign", message)


def sealed(layout, header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    content = struct.pack("<8sIQ", b"PRUDENT\x1a", layout, len(text)) + text + body
    return content + hashlib.sha256(content).digest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (sealed(2, {}), "has layout version 2, this prudent reads version 1"),
        (sealed(1, b"{"), "has a broken header"),
        (sealed(1, {}), "has a broken header: 'kind'"),
        (
            sealed(1, {"kind": "Other", "version": 1, "values": {}, "arrays": []}),
            "holds a Other, expected a LinearBandit",
        ),
        (
            sealed(1, {"kind": "LinearBandit", "version": 9, "values": {}, "arrays": []}),
            "is LinearBandit state version 9, this prudent reads up to 1",
        ),
        (
            sealed(1, {"kind": "LinearBandit", "version": 1, "values": {}, "arrays": []}),
            "is not the state of a LinearBandit: 'settings'",
        ),
        (
            sealed(1, {"kind": "LinearBandit", "version": 1, "values": {}, "arrays": []}, b"more"),
            "has a broken header: 4 bytes are left over",
        ),
        (
            sealed(
                1, {"kind": "x", "version": 1, "values": {}, "arrays": [{"name": "a", "type": "object", "shape": [1]}]}
            ),
            "has a broken header: 'object'",
        ),
    ],
)
def test_files_that_are_whole_but_wrong_are_refused(saved, tmp_path, content, message):
    bandit, _ = saved
    (tmp_path / "wrong").write_bytes(content)
    refused(bandit, tmp_path / "wrong", message)


def test_sums_that_do_not_fit_the_arms_are_refused(saved, tmp_path):
    bandit, path = saved
    values, arrays = read_state(path, "LinearBandit", 1)
    write_state(tmp_path / "odd", "LinearBandit", 1, values | {"arms": ["a", "b", "c"]}, arrays)
    refused(bandit, tmp_path / "odd", "sums of shape .* for 3 arms")
    values["rng"]["bit_generator"] = "Evil"
    write_state(tmp_path / "odd", "LinearBandit", 1, values, arrays)
    refused(bandit, tmp_path / "odd", "unknown bit generator 'Evil'")


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
    values, again = read_state(tmp_path / "s", "thing", 4)
    assert values == {"x": [1, "two", None]}
    for name, array in arrays.items():
        assert again[name].shape == array.shape
        np.testing.assert_array_equal(again[name], array)
