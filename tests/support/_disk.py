"""A small file system in memory, for tests that fill a disk."""

import os
import subprocess

import pytest


class Disk:
    """A file system in memory, of any size."""

    def __init__(self, path):
        self.path = path
        path.mkdir()
        told = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", path], capture_output=True, text=True, check=False)
        if told.returncode:
            path.rmdir()
            pytest.skip(f"mounting a small disk needs root, no disk was filled: {told.stderr.strip()}")

    def remount(self, *options):
        subprocess.run(["mount", "-o", ",".join(["remount", *options]), self.path], check=True)

    def room(self, pages):
        """Leave so many pages free."""
        used = os.statvfs(self.path)
        self.remount(f"size={(used.f_blocks - used.f_bfree + pages) * used.f_frsize}")

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=True)
