"""Files of TOML that were made to hang or crash whoever reads them."""

import pytest

from prudent._support.toml import LARGEST_FILE, read_toml
from prudent.errors import DataError, ParameterError
from prudent.reproduction.sweep_spec import read_spec
from prudent.service.auth import Keys, read_keys
from prudent.service.server import read_config

BOMBS = {
    "lists": "a = " + "[" * 100_000,
    "tables": "a = " + "{a = " * 100_000,
    "dots": "a" + ".a" * 200_000 + " = 1",
    "header": "[a" + ".a" * 200_000 + "]",
    "quoted": '"="' + ".a" * 200_000 + " = 1",
    "digits": "a = " + "9" * 10_000,
    "bytes": b"a = '\xff'",
    "zero": 'a = "\0"',
    "long": "# " + "x" * LARGEST_FILE,
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_in_one_line(tmp_path, name):
    path, content = tmp_path / "file.toml", BOMBS[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for error, code, read in (
        (ParameterError, "keys-file", read_keys),
        (ParameterError, "config-file", read_config),
        (DataError, "too-large" if name == "long" else "wrong-format", read_spec),
    ):
        with pytest.raises(error) as caught:
            read(path)
        assert caught.value.code == code
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 1000


def test_files_that_are_not_there(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        for error, code, read in (
            (ParameterError, "keys-file", read_keys),
            (ParameterError, "keys-file", Keys),
            (ParameterError, "config-file", read_config),
            (DataError, "unreadable-file", read_spec),
        ):
            with pytest.raises(error) as caught:
                read(path)
            assert caught.value.code == code


def test_what_people_write_is_read(tmp_path):
    path = tmp_path / "file.toml"
    numbers = ", ".join(f"{i / 1000}" for i in range(500))
    path.write_text(f"# {'.' * 300}\nlevels = [{numbers}]\n[a.b.c]\nd.e = 'f.g'\n")
    assert read_toml(path)["levels"][499] == 0.499
