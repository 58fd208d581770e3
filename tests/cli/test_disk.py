"""Disks that are full, folders that cannot be written or are gone, installations without a cache: real ones."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from _child import PATIENCE, environment, python
from _disk import Disk
from _tiny import TINY, digests
from refusals import refused

import prudent
from prudent._numerics import compile as compiling
from prudent._support.files import leave_turn, take_turn
from prudent.cli.main import main
from prudent.errors import StoreError
from prudent.reproduction import SCALES, run
from prudent.reproduction.runner import Silent

PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@pytest.fixture
def disks(tmp_path):
    made = []

    def make():
        made.append(Disk(tmp_path / f"disk{len(made)}"))
        return made[-1]

    yield make
    for disk in made:
        disk.close()


@pytest.fixture
def call(capsys, monkeypatch):
    monkeypatch.setitem(SCALES, "quick", TINY)

    def run(*arguments):
        code = main([str(each) for each in arguments])
        return code, [line for line in capsys.readouterr().err.splitlines() if "compiling kernels" not in line]

    return run


def files_of(out):
    """Return the files of a run in the order in which they were written."""
    return sorted((file for file in out.rglob("*") if file.is_file()), key=lambda file: file.stat().st_mtime_ns)


def check_failure(out, code, lines, whole):
    """One line, exit code 1, no draft, and what is there is complete."""
    assert code == 1, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("prudent: cannot write ")
    assert "No space left on device" in lines[0]
    found = files_of(out) if out.exists() else []
    for file in found:
        assert file.name in whole, file
        if file.suffix in (".nc", ".svg", ".png"):
            assert file.read_bytes() == whole[file.name]


NAME = "optimal-policy"  # it has no chunks, but all other kinds of files


@pytest.fixture
def whole(call, tmp_path):
    """What an undisturbed run writes: bytes by name, in order."""
    out = tmp_path / "whole"
    assert call("reproduce", NAME, "--out", out) == (0, [])
    return {file.name: file.read_bytes() for file in files_of(out)}


def test_no_room_for_one_more_file(call, disks, whole):
    """A disk that holds one more file each time: every file in turn is the one that cannot be begun."""
    failed = []
    for most in range(1, 4 * len(whole)):
        disk = disks()
        disk.remount(f"nr_inodes={most}")
        out = disk.path / "out"
        code, lines = call("reproduce", NAME, "--out", out)
        if code == 0:
            break
        check_failure(out, code, lines, whole)
        failed.append(lines[0])
    text = "\n".join(failed)
    for name in ("to the folder", ".nc:", "timings.json:", "claims.json:", ".svg:", ".png:", "report.html:"):
        assert name in text, name
    assert code == 0
    assert lines == []


def test_no_room_in_the_middle_of_a_file(call, disks, whole):
    """Every file in turn is cut short; then there is room, and the run goes on from there."""
    before = 0
    for name, content in whole.items():
        pages = -(-len(content) // PAGE)
        if name.startswith(".") or before + pages == 1:
            continue  # empty, or the smallest disk there is holds it
        disk = disks()
        disk.remount(f"size={(before + pages - 1) * PAGE}")
        out = disk.path / "out"
        code, lines = call("reproduce", NAME, "--out", out)
        check_failure(out, code, lines, whole)
        assert f"{name}: No space left" in lines[0]
        disk.remount("size=64m")
        assert call("reproduce", NAME, "--out", out) == (0, [])
        assert {file.name for file in files_of(out)} == set(whole)
        assert digests(out)[f"{NAME}.nc"] == digests(out.parents[1] / "whole")[f"{NAME}.nc"]
        before += pages
    assert before > 10


def test_the_report_on_a_full_disk(call, disks, whole):
    out = disks().path / "out"
    assert call("reproduce", NAME, "--out", out) == (0, [])
    disk = Disk.__new__(Disk)
    disk.path = out.parent
    page = (out / "report.html").read_bytes()
    shutil.rmtree(out / "figures")
    disk.room(1)
    code, lines = call("report", out)
    check_failure(out, code, lines, whole)
    assert (out / "report.html").read_bytes() == page
    disk.remount("size=64m")
    assert call("report", out) == (0, [])


def test_no_room_for_chunks(disks, tmp_path):
    """A disk that grows by a few pages at a time: no chunk is lost, none is computed twice."""
    disk = disks()
    out, options = disk.path / "out", {"scale": TINY, "workers": 2, "chunk": 3}
    kept: dict[Path, int] = {}
    failed = []
    for pages in range(1, 1000, 12):
        disk.remount(f"size={pages * PAGE}")
        try:
            run(["bandit-br"], out=out, **options)
            break
        except StoreError as error:
            failed.append(str(error))
        assert not list(out.rglob(".*.tmp"))
        now = {file: file.stat().st_mtime_ns for file in out.glob("chunks/*/*.chunk")}
        assert kept.items() <= now.items()
        kept = now
    assert all("No space left on device" in each for each in failed)
    assert sum(".chunk:" in each for each in failed) > 2
    run(["bandit-br"], out=tmp_path / "whole", **options)
    assert digests(out) == digests(tmp_path / "whole")


class Meddling(Silent):
    """Does something to the disk after so many chunks."""

    def __init__(self, chunks, act):
        self.left, self.act = chunks, act

    def advance(self, what, amount):
        self.left -= 1
        if self.left == 0:
            self.act()


def test_a_read_only_disk(call, disks):
    disk = disks()
    out = disk.path / "out"
    assert call("reproduce", NAME, "--out", out) == (0, [])
    disk.remount("ro")
    for command, what in ((["reproduce", NAME, "--out"], "to the folder"), (["report"], ".*claims.json")):
        code, (line,) = call(*command, out)
        assert code == 1
        assert re.fullmatch(f"prudent: cannot write {what}.*: Read-only file system.*", line)


def test_a_folder_that_disappears(tmp_path):
    out = tmp_path / "out"
    options = {"scale": TINY, "out": out, "workers": 2, "chunk": 1}
    with refused(StoreError, "damaged-file", path=str(out)):
        run(["bandit-br"], progress=Meddling(3, lambda: shutil.rmtree(out)), **options)
    assert run(["bandit-br"], **options)["bandit-br"].exists()


def test_a_folder_that_becomes_a_file(tmp_path):
    out = tmp_path / "out"

    def replace():
        shutil.rmtree(out)
        out.write_text("")

    with refused(StoreError, "not-writable"):
        run(["bandit-br"], TINY, out, 2, chunk=1, progress=Meddling(3, replace))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["--version"], ["list"], ["list", "--json"], ["reproduce", "--help"]])
def test_output_to_a_full_disk(arguments):
    program = "import sys; from prudent.__main__ import main; sys.exit(main(sys.argv[1:]))"
    with open("/dev/full", "w") as full:
        told = python(program, *arguments, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert told.returncode == 1
    assert told.stderr == "prudent: No space left on device\n"


# -- installations without a cache ---------------------------------------------------------------------------


@pytest.fixture
def installation(disks):
    """The options of a process that imports a copy of the library on a read-only disk, and has no home to write to."""
    disk = disks()
    home = disk.path / "prudent"
    shutil.copytree(Path(prudent.__file__).parent, home, ignore=shutil.ignore_patterns("__pycache__"))
    disk.remount("ro")
    nowhere = "/proc/nowhere"  # where not even root can make a folder
    path = os.pathsep.join([str(disk.path), *filter(None, sys.path)])
    env = environment(PYTHONPATH=path, HOME=nowhere, XDG_CACHE_HOME=nowhere)
    env.pop("NUMBA_CACHE_DIR", None)
    return {"env": env}


def test_a_read_only_installation_compiles_in_memory(installation):
    program = (
        "import prudent as pr; print(pr.__file__); draws = pr.risk.lowest_normals(10, 2, size=3, rng=0);"
        "print(draws.shape, pr.risk.lowest_normals(10, 1, rng=0).shape)"
    )
    told = python(program, **installation)
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines()[1:] == ["(3, 2) (1,)"]
    assert told.stdout.startswith(installation["env"]["PYTHONPATH"].split(os.pathsep)[0])
    assert told.stderr == (
        "prudent: compiling kernels, for this process only "
        "(no folder to keep them in can be written; set NUMBA_CACHE_DIR) ...\n"
    )


@pytest.mark.parametrize("place", ["kernels", ""])
def test_kernels_of_a_read_only_image_are_used(disks, place):
    """Compiled when the image is built, beside the package or where ``NUMBA_CACHE_DIR`` says."""
    disk, nowhere = disks(), "/proc/nowhere"
    shutil.copytree(Path(prudent.__file__).parent, disk.path / "prudent", ignore=shutil.ignore_patterns("__pycache__"))
    path = os.pathsep.join([str(disk.path), *filter(None, sys.path)])
    env = environment(PYTHONPATH=path, HOME=nowhere, XDG_CACHE_HOME=nowhere)
    env.pop("NUMBA_CACHE_DIR", None)
    env |= {"NUMBA_CACHE_DIR": str(disk.path / place)} if place else {}
    program = "import prudent as pr; print(pr.__file__, pr.risk.lowest_normals(10, 2, size=3, rng=0))"
    built = python(program, env=env)
    assert built.stderr == "prudent: compiling kernels, once per installation ...\n"
    disk.remount("ro")
    run = python(program, env=env)
    assert (run.returncode, run.stderr, run.stdout) == (0, "", built.stdout)


def test_a_read_only_installation_is_not_called_ready(installation):
    told = python("import sys; from prudent.__main__ import main; sys.exit(main(['compile']))", **installation)
    assert told.returncode == 1
    assert "ready" not in told.stdout
    assert told.stderr.startswith("prudent: compiled kernels cannot be kept: no folder to keep them in can be written")
    assert len(told.stderr.splitlines()) == 1


def test_compiled_ahead_is_all_of_it():
    """After `prudent compile` nothing that users reach is compiled any more."""
    ready = python("import sys; from prudent.__main__ import main; sys.exit(main(['compile']))")
    assert ready.returncode == 0, ready.stderr
    assert "kernels ready after" in ready.stdout
    surface = python((Path(__file__).parents[1] / "support" / "_surface.py").read_text())
    assert surface.returncode == 0, surface.stderr
    assert surface.stdout == ""


@pytest.mark.slow
def test_compiled_ahead_is_what_every_example_needs():
    """The examples of all public names, after `prudent compile`."""
    call = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-s",
        "-p",
        "_compilations",
        str(Path(prudent.__file__).parent),
    ]
    ready = python("import sys; from prudent.__main__ import main; sys.exit(main(['compile']))")
    assert ready.returncode == 0, ready.stderr
    run = subprocess.run(call, env=environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


KILLED = """
import os, signal, sys
from prudent.cli import compile as ahead
from prudent.errors import StoreError

begun = ahead.subprocess.Popen
def beginning(*arguments, **options):
    child = begun(*arguments, **options)
    os.kill(child.pid, signal.SIGKILL)
    return child

ahead.subprocess.Popen = beginning
ahead.default_threads = lambda: 2
try:
    ahead.compile_all(lambda line: None)
except StoreError as error:
    print(error.code, error.fields["value"])
"""


def test_a_killed_compilation_is_an_error_of_ours():
    told = python(KILLED)
    assert told.stdout.split() == ["process-killed", "-9"], told.stderr


# -- the cache of kernels ------------------------------------------------------------------------------------

CALLEE = """
from ._numerics.compile import kernel
@kernel
def inner(x):
    return x + {}
"""
CALLER = """
from ._numerics.compile import kernel
from .callee import inner
@kernel
def outer(x):
    return 2 * inner(x)
"""
ASK = "from house.caller import outer; print(outer(1), len(outer.stats.cache_hits))"


class House:
    """A little library with the cache of ours: ``outer(1)`` is twice one plus what the callee adds."""

    def __init__(self, folder, cache):
        self.folder = folder / "house"
        ours = Path(compiling.__file__).parents[1]
        for each in ("__init__.py", "_numerics/__init__.py", "_support/__init__.py"):
            (self.folder / each).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / each).write_text("")
        ours_too = ("_support/files.py", "_support/locks.py", "errors.py")
        for each in ("_numerics/compile.py", "_numerics/shipped.py", *ours_too):
            shutil.copy(ours / each, self.folder / each)
        (self.folder / "caller.py").write_text(CALLER)
        self.env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(folder)}

    def adds(self, number):
        (self.folder / "callee.py").write_text(CALLEE.format(number))

    def answer(self):
        told = python(ASK, env=self.env)
        assert told.returncode == 0, told.stderr
        return told.stdout.split(), told.stderr


def test_a_changed_callee_in_another_file_recompiles_its_caller(tmp_path):
    house = House(tmp_path, tmp_path / "cache")
    house.adds(1)
    assert house.answer() == (["4", "0"], "")
    assert house.answer() == (["4", "1"], "")  # the second process compiles nothing
    house.adds(10)
    assert house.answer() == (["22", "0"], "")
    assert house.answer() == (["22", "1"], "")
    assert len(list(tmp_path.rglob("*.nbc"))) == 2  # what is of other sources is removed


def test_processes_that_start_together_compile_once(tmp_path):
    house = House(tmp_path, tmp_path / "cache")
    house.adds(1)
    command = [sys.executable, "-c", ASK]
    children = [subprocess.Popen(command, env=house.env, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    try:
        answers = sorted(child.communicate(timeout=PATIENCE)[0].split() for child in children)
    finally:
        for child in children:
            child.kill()
    assert answers == [["4", "0"], ["4", "1"], ["4", "1"]]
    assert not list(tmp_path.rglob("*.compiling"))


def test_a_process_that_is_stopped_while_it_compiles_holds_nobody_up_for_good(tmp_path):
    with (tmp_path / "kernel.compiling").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert take_turn(tmp_path / "kernel.compiling", 0.1) is None
    turn = take_turn(tmp_path / "kernel.compiling", 0.1)
    assert turn is not None
    leave_turn(tmp_path / "kernel.compiling", turn)
    assert not list(tmp_path.iterdir())


def test_a_kernel_that_cannot_be_compiled_leaves_no_lock(tmp_path):
    house = House(tmp_path, tmp_path / "cache")
    house.adds("'a'")
    assert python(ASK, env=house.env).returncode != 0
    assert not list(tmp_path.rglob("*.compiling"))
    house.adds(1)
    assert house.answer() == (["4", "0"], "")


def test_a_damaged_cache_is_no_cache(tmp_path):
    house = House(tmp_path, tmp_path / "cache")
    house.adds(1)
    house.answer()
    for pattern, content in (("*.nbi", b""), ("*.nbc", b"\x80nonsense")):
        for file in tmp_path.rglob(pattern):
            file.write_bytes(content)
        assert house.answer() == (["4", "0"], "")
    assert house.answer() == (["4", "1"], "")


def test_a_full_disk_below_the_cache_never_gives_old_code(tmp_path, disks):
    """Numba's own order of writing would answer 4 after the disk was full: the old code under a new index."""
    disk = disks()
    house = House(tmp_path, disk.path)
    full = 0
    for pages in (1, 6):
        disk.remount("size=64m")
        house.adds(pages)
        assert house.answer() == ([str(2 + 2 * pages), "0"], "")
        house.adds(10 * pages)
        disk.room(pages)
        answer, said = house.answer()
        assert answer == [str(2 + 20 * pages), "0"]
        if said:
            assert said.startswith("prudent: compiled kernels are not kept: cannot write to")
            assert said.endswith("No space left on device\n")
            full += 1
        disk.remount("size=64m")
        assert house.answer()[0][0] == str(2 + 20 * pages)
    assert full
