"""A PostgreSQL server for tests: initdb in a temporary folder, a socket there, no network; killed and restarted.

The programs are those of Debian's package ``postgresql`` (or of PATH). PostgreSQL refuses to run as root: then the
server runs as the user ``postgres`` or ``nobody``.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "fsync": "off",  # a killed server loses nothing by it, only a machine does
    "shared_buffers": "16MB",
    "autovacuum_naptime": "600",
    "log_min_messages": "warning",
}


def programs() -> Path | None:
    """Return the folder of initdb and postgres; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return None if path is None else Path(path).resolve().parent


class Server:
    """A server that this process has started."""

    def __init__(self):
        bin = programs()
        assert bin is not None
        self._bin, self.folder = bin, Path(tempfile.mkdtemp(prefix="pg"))
        self._user = None
        if os.geteuid() == 0:
            names = {each.pw_name for each in pwd.getpwall()}
            self._user = "postgres" if "postgres" in names else "nobody"
            shutil.chown(self.folder, self._user)
        self.data, self._log = self.folder / "data", (self.folder / "log").open("ab")
        self._run("initdb", "-D", str(self.data), "-U", "prudent", "-A", "trust", "--no-sync", "-E", "UTF8")
        self._process = None
        self.start()

    def _options(self):
        home = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "LC_ALL": "C"}
        return {"user": self._user, "env": home, "cwd": self.folder, "stdout": self._log, "stderr": self._log}

    def _run(self, program, *words):
        subprocess.run([self._bin / program, *words], check=True, **self._options())

    @property
    def address(self):
        return f"postgresql://prudent@/postgres?host={self.folder}"

    def start(self, wait=True):
        words = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        command = [self._bin / "postgres", "-D", self.data, "-k", self.folder, *words]
        self._process = subprocess.Popen(command, start_new_session=True, **self._options())
        while wait:
            asked = [self._bin / "pg_isready", "-q", "-h", self.folder, "-U", "prudent"]
            if subprocess.run(asked, check=False).returncode == 0:
                return
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.02)

    def kill(self):
        """Kill the server and all of its processes at once, as a crash of the machine would."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        time.sleep(0.05)  # until the last of its processes has gone

    def close(self):
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
