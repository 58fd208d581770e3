"""Stores that tests run on: an SQLite file, and a schema of a PostgreSQL server that the tests start."""

import contextlib
from itertools import count

import pytest
from _postgres import Server, programs

from prudent.journal import Journal

_names = count()


@pytest.fixture(scope="session")
def server():
    """A PostgreSQL server of this test process."""
    pytest.importorskip("psycopg")
    if programs() is None:
        pytest.skip("no PostgreSQL on this machine: install Debian's package postgresql")
    made = Server()
    yield made
    made.close()


class Place:
    """Where a journal is, and how it is opened; what is open at the end of a test is closed."""

    def __init__(self, path, **options):
        self.path, self.options, self._stack = path, options, contextlib.ExitStack()

    def __call__(self, bandit=None, **options):
        live = Journal(self.path, bandit, **{"synchronous": "NORMAL", **self.options, **options})
        return self._stack.enter_context(contextlib.closing(live))

    def close(self):
        self._stack.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """A place for a journal in each kind of store."""
    if request.param == "sqlite":
        made = Place(tmp_path / "journal.db")
    else:
        made = Place(request.getfixturevalue("server").address, name=f"t{next(_names)}")
    yield made
    made.close()
