"""How a record names its schema: bytes in and out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.errors import SerializationError
from aioprod.schema_registry.framing import id_prefix, index_bytes, read_frame, read_indexes


@given(st.integers(0, 2**32 - 1), st.binary())
def test_an_id_comes_back(schema_id: int, payload: bytes) -> None:
    assert read_frame(id_prefix(schema_id) + payload, (), "h") == (schema_id, payload, None)


@given(st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=100), st.binary())
def test_indexes_come_back(indexes: list[int], rest: bytes) -> None:
    assert read_indexes(index_bytes(indexes) + rest) == (tuple(indexes), rest)


@pytest.mark.parametrize(
    ("indexes", "expected"),
    [([0], b"\0"), ([1], b"\x02\x02"), ([0, 0], b"\x04\0\0"), ([2, 100], b"\x04\x04\xc8\x01")],
)
def test_the_bytes_of_indexes(indexes: list[int], expected: bytes) -> None:
    assert index_bytes(indexes) == expected


@given(st.binary())
def test_any_bytes_are_indexes_or_an_error(data: bytes) -> None:
    try:
        indexes, rest = read_indexes(data)
    except SerializationError:
        return
    assert 0 < len(indexes) <= 100
    assert data.endswith(rest)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut off"),
        (b"\x02", "cut off"),
        (b"\xff\xff\xff\xff\xff\xff\xff\x00", "too large"),
        (b"\x01", "-1 Protobuf message indexes"),
        (b"\xca\x01", "101 Protobuf message indexes, and 100 is the limit"),
        (b"\x02\x01", "index -1"),
    ],
)
def test_indexes_that_are_wrong(data: bytes, words: str) -> None:
    with pytest.raises(SerializationError, match=words):
        read_indexes(data)
