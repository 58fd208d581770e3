"""Files that claim sizes they have not, unpack to more than they hold, or nest without an end: one line, soon."""

import gzip
import io
import json
import tarfile

import numpy as np
import pytest
from refusals import refused

import prudent as pr
from prudent.errors import ModelError, ParameterError, PrudentError

MODEL = pr.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]], [[1.0, 0.0], [0.0, 2.0]], 0.9)
HUGE = 2**60


class Zeros(io.RawIOBase):
    """As many zeros as are read."""

    def read(self, size=-1):
        return bytes(size)


def unpacked(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def archive(path, files, more=(), mode="w:gz"):
    with tarfile.open(path, mode, compresslevel=9) as out:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
        for member in more:
            out.addfile(member, Zeros())
    return path


@pytest.fixture
def files(tmp_path):
    MODEL.to_umb(tmp_path / "good")
    return unpacked(tmp_path / "good")


def filler(name="filler", size=0, **fields):
    member = tarfile.TarInfo(name)
    member.size = size
    for field, value in fields.items():
        setattr(member, field, value)
    return member


def test_an_archive_that_unpacks_to_far_more_than_it_holds_is_refused(tmp_path, files):
    path = archive(tmp_path / "bomb", files, [filler(size=2**28)])
    assert path.stat().st_size < 2**21
    with refused(ModelError, "wrong-format", path=str(path)):
        pr.MDP.from_umb(path)


def test_what_follows_the_end_of_an_archive_is_bounded(tmp_path, files):
    path = archive(tmp_path / "long", files)

    with path.open("ab") as out, gzip.GzipFile(fileobj=out, mode="wb", compresslevel=9) as more:
        for _ in range(8):
            more.write(bytes(2**25))
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_umb(path)


def test_an_archive_of_very_many_files_is_refused(tmp_path, files):
    path = archive(tmp_path / "many", files, [filler(str(i)) for i in range(10_001)], "w:gz")
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_umb(path)


def test_links_and_paths_in_archives_are_not_followed(tmp_path, files):
    """Nothing is unpacked to the disk, and only regular files are read."""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    links = [
        filler("index.json", type=tarfile.SYMTYPE, linkname=str(secret)),
        filler("../../outside", size=3),
        filler("branch-to-target.bin", type=tarfile.LNKTYPE, linkname="index.json"),
        filler("device", type=tarfile.CHRTYPE),
        filler("loop", type=tarfile.SYMTYPE, linkname="loop"),
    ]
    found = pr.MDP.from_umb(archive(tmp_path / "links", files, links), 0.9)
    np.testing.assert_array_equal(found.dense()[0], MODEL.dense()[0])
    assert sorted(path.name for path in tmp_path.parent.glob("outside")) == []
    del files["index.json"]
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_umb(archive(tmp_path / "only", files, links), 0.9)


@pytest.mark.parametrize("name", ["#states", "#choices", "#branches", "#choice-actions"])
@pytest.mark.parametrize("count", [HUGE, 10**30, -1, 1.5, None])
def test_counts_of_an_archive_are_those_of_its_arrays(tmp_path, files, name, count):
    index = json.loads(files["index.json"])
    index["transition-system"][name] = count
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_umb(archive(tmp_path / "model", files | {"index.json": json.dumps(index).encode()}))


def test_an_index_alone_cannot_ask_for_memory(tmp_path, files):
    index = json.loads(files["index.json"])
    index["transition-system"] |= {"#states": HUGE, "#choices": HUGE, "#branches": HUGE}
    with refused(ParameterError, "memory"):
        pr.MDP.from_umb(archive(tmp_path / "model", {"index.json": json.dumps(index).encode()}))


@pytest.mark.parametrize("index", [b"[" * 100_000, b'{"transition-system":' * 100_000, b"NaN", b"", b"\xff"])
def test_an_index_that_is_none(tmp_path, files, index):
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_umb(archive(tmp_path / "model", files | {"index.json": index}))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    "head", [(HUGE, HUGE, HUGE), (HUGE, 0, -1), (0, HUGE, -1), (0, HUGE, 0), (4, HUGE, 2), (-1, 4, 0)]
)
def test_sizes_of_matrices(tmp_path, which, head):
    paths = tmp_path / "transition", tmp_path / "reward"
    MODEL.to_petsc(*paths)
    body = np.array([2**62, 2**62, 2**62, 2**62 + 2, 0, 0], ">i8").tobytes() + bytes(16) if head[0] == 4 else b""
    paths[which].write_bytes(np.array([1211216, *head], ">i8").tobytes() + body)
    with pytest.raises(PrudentError) as caught:
        pr.MDP.from_petsc(*paths, 0.9)
    assert caught.value.code in ("memory", "wrong-format")


@pytest.mark.parametrize(
    "header", ["1000000000000000000 1 1", "1" + "0" * 30 + " 1 1", "9" * 6000 + " 1 1", "10000000000000 0 0"]
)
def test_sizes_of_texts_of_prism(tmp_path, header):
    (tmp_path / "m.tra").write_text(f"{header}\n0 0 0 1.0\n")
    (tmp_path / "m.srew").write_text(f"{header}\n0 1.0\n")
    with pytest.raises(PrudentError) as caught:
        pr.MDP.from_prism(tmp_path / "m", 0.9)
    assert caught.value.code in ("memory", "wrong-format")


def test_choices_whose_keys_would_wrap_around_are_refused(tmp_path):
    """(state, choice, target) is one number below 2**63; else a reward of one transition would go to another."""
    (tmp_path / "m.tra").write_text("100000 2 2\n0 0 0 1.0\n99999 9007199254740991 0 1.0\n")
    (tmp_path / "m.trew").write_text("100000 2 1\n99999 9007199254740991 0 3.0\n")
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_prism(tmp_path / "m", 0.9)


@pytest.mark.parametrize(
    "header", ["1000000000000000000\n1\n0", "1\n1000000000000000000\n0", "3000000\n3000000\n0", "9" * 5000 + "\n1\n0"]
)
@pytest.mark.parametrize("kind", [pr.MDP, pr.IntervalMDP])
def test_sizes_of_bmdp_files(tmp_path, header, kind):
    (tmp_path / "m").write_text(f"{header}\n0 0 0 1.0 1.0\n")
    with pytest.raises(PrudentError) as caught:
        kind.from_bmdp(tmp_path / "m", 0.9)
    assert caught.value.code in ("memory", "wrong-format")


@pytest.mark.parametrize("side", [b"[" * 100_000, b'{"a":' * 100_000])
def test_files_beside_a_model_that_nest_without_an_end(tmp_path, side):
    (tmp_path / "m.tra").write_text("1 1 1\n0 0 0 1.0\n")
    (tmp_path / "m.json").write_bytes(side)
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_prism(tmp_path / "m", 0.9)
    (tmp_path / "b").write_text("1\n1\n0\n0 0 0 1 1\n")
    (tmp_path / "b.json").write_bytes(side)
    with refused(ModelError, "wrong-format"):
        pr.MDP.from_bmdp(tmp_path / "b", 0.9)
