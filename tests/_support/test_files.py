"""Files appear whole or not at all, and no draft outlives the next write: real kills, real full disks, two writers."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from prudent._support.files import write_atomically

WRITER = """
import sys
from pathlib import Path
from prudent._support.files import write_atomically
path, byte = Path(sys.argv[1]), sys.argv[2].encode()
print("ready", flush=True)
while True:
    write_atomically(path, *[byte * 1000] * 1000)
"""


def drafts(folder):
    return sorted(path.name for path in folder.glob(".*.tmp"))


@contextmanager
def writer(path, byte):
    """A process that writes a million ``byte``s to ``path``, again and again."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), byte], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_killed_writer_leaves_the_old_file_and_its_draft_goes_with_the_next_write(tmp_path):
    path = tmp_path / "state"
    for trial in range(12):
        write_atomically(path, b"old")
        assert drafts(tmp_path) == []
        with writer(path, "n") as process:
            time.sleep(0.003 * trial)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert path.read_bytes() in (b"old", b"n" * 10**6)
    write_atomically(path, b"new")
    assert drafts(tmp_path) == []
    assert path.read_bytes() == b"new"
    (tmp_path / ".state.abcdefgh.tmp").write_bytes(b"a draft of a killed process, however lucky the kills were")
    (tmp_path / ".state.a note of mine.tmp").write_bytes(b"no draft of ours")
    (tmp_path / ".other.abcdefgh.tmp").write_bytes(b"a draft of another name")
    write_atomically(path, b"newer")
    assert drafts(tmp_path) == [".other.abcdefgh.tmp", ".state.a note of mine.tmp"]


def test_two_writers_at_once_both_survive(tmp_path):
    path = tmp_path / "state"
    with writer(path, "a") as one, writer(path, "b") as other:
        for _ in range(60):
            write_atomically(path, b"c" * 10**6)
            content = path.read_bytes()
            assert len(content) == 10**6
            assert len(set(content)) == 1
        assert one.poll() is None
        assert other.poll() is None


FULL = """
import os, sys
from pathlib import Path
from prudent._support.files import write_atomically
path = Path(sys.argv[1])
try:
    write_atomically(path, *[bytes(1000)] * 1000)
except OSError as error:
    print(error.errno, sorted(os.listdir(path.parent)), path.read_bytes())
"""


def test_a_full_disk_leaves_the_old_file_and_no_draft(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    command = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here; the limit on the size of files is tested below")
    try:
        (folder / "state").write_bytes(b"old")
        done = subprocess.run(
            [sys.executable, "-c", FULL, str(folder / "state")], capture_output=True, text=True, check=True
        )
        assert done.stdout == "28 ['state'] b'old'\n"
        write_atomically(folder / "state", b"x" * 30_000)  # what fits is written as ever
        assert len((folder / "state").read_bytes()) == 30_000
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_limit_on_file_sizes_leaves_the_old_file_and_no_draft(tmp_path):
    (tmp_path / "state").write_bytes(b"old")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # an error instead of a signal
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    done = subprocess.run(
        [sys.executable, "-B", "-c", FULL, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=limit,
    )
    assert done.stdout == "27 ['state'] b'old'\n"


def test_the_mode_is_that_of_the_file_before(tmp_path):
    path = tmp_path / "state"
    write_atomically(path, b"one")
    mask = os.umask(0)
    os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask
    path.chmod(0o640)
    write_atomically(Path(path), b"two")
    assert path.stat().st_mode & 0o777 == 0o640
