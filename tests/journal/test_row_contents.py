"""The bytes of a row from which its checksum and its signature are made."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prudent.journal.store.rows import TYPES, Entry, Report, Taken, content_of, fault_of

_OF = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(max_size=5),
    bytes: st.binary(max_size=9),
    type(None): st.none(),
}


def rows(kind):
    fields = {name: st.one_of([_OF[each] for each in TYPES[name]]) for name in kind._fields}
    return st.builds(kind, **fields)


def _exact(value):
    return struct.pack("<d", value) if isinstance(value, float) else value  # 0.0 and -0.0 are different


@pytest.mark.parametrize("kind", [Taken, Entry, Report])
@settings(max_examples=60)
@given(data=st.data())
def test_different_rows_have_different_contents(kind, data):
    row = data.draw(rows(kind))
    name = data.draw(st.sampled_from(kind._fields))
    other = row._replace(**{name: getattr(data.draw(rows(kind)), name)})
    same = all(type(one) is type(two) and _exact(one) == _exact(two) for one, two in zip(row, other, strict=True))
    assert (content_of(row) == content_of(other)) == same
    assert content_of(kind(*row)) == content_of(row)


def test_contents_are_split_in_one_way():
    first = Taken(1, 2, 3.5, 4, 5, '"a"', None, b"ab", 0.0, None, None, None, b"c")
    assert content_of(first) != content_of(first._replace(context=b"a", note=b"bc"))
    assert content_of(first) != content_of(first._replace(score=None, propensity=0.0))
    assert content_of(first._replace(context=None)) != content_of(first._replace(context=b""))


def test_values_of_a_wrong_type_are_faults():
    row = Entry(1, 2.0, "reward", 3, 4, 5, 0, 1.0)
    for _ in range(2):  # also after such a row was sound
        assert fault_of(row, 0) == "its checksum does not match"
        assert fault_of(row._replace(reward=1), 0) == "its reward is 1"
        assert fault_of(row._replace(seq=True), 0) == "its seq is True"
        assert "its time is nan" not in fault_of(row._replace(time=math.nan), 0)
