from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import CorruptRecordError, SerializationError
from aioprod.records.headers import NO_HEADERS, decode_headers, encode_headers

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
HEADERS = st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=80)), max_size=5)


def test_no_headers_are_one_zero_byte() -> None:
    assert encode_headers([]) == NO_HEADERS
    assert decode_headers(NO_HEADERS, 0, 1) == ()


def test_known_bytes() -> None:
    assert encode_headers([("h", b"1"), ("n", None), ("é", b"")]).hex() == "0602680231026e0104c3a900"


@given(HEADERS)
@settings(max_examples=60)
def test_round_trip(headers: list[tuple[str, bytes | None]]) -> None:
    blob = encode_headers(headers)
    for data in (blob, bytearray(blob), memoryview(blob)):
        assert decode_headers(data, 0, len(data)) == tuple(headers)


def test_more_than_63_headers_take_a_longer_count() -> None:
    headers = tuple((f"name-{index}", None) for index in range(200))
    blob = encode_headers(headers)
    assert decode_headers(b"??" + blob, 2, len(blob) + 2) == headers


def test_bytes_like_values_are_copied() -> None:
    value = bytearray(b"abcd")
    headers: Any = [("a", value), ("b", memoryview(value)[1:3])]
    blob = encode_headers(headers)
    value[:] = b"____"
    assert decode_headers(blob, 0, len(blob)) == (("a", b"abcd"), ("b", b"bc"))


def test_values_of_wide_items_count_bytes() -> None:
    headers: Any = [("a", memoryview(bytes(range(8))).cast("i"))]
    blob = encode_headers(headers)
    assert decode_headers(blob, 0, len(blob)) == (("a", bytes(range(8))),)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([("ok", b""), (b"name", b"")], "name of header 1 is of type bytes"),
        ([("trace", "text")], "value of header 'trace' is of type str"),
        ([("count", 1)], "value of header 'count' is of type int"),
        (["ab"], "Header 0 is 'ab'"),
        ([("a",)], "Header 0 is <tuple of 1>"),
        ([("\ud800", b"")], "header 0 has no UTF-8 form"),
    ],
)
def test_wrong_types_are_named(headers: Any, message: str) -> None:
    with pytest.raises(SerializationError, match=message):
        encode_headers(headers)


def test_a_mapping_is_refused() -> None:
    headers: Any = {"name": b"value"}
    with pytest.raises(SerializationError, match="Headers are of type dict"):
        encode_headers(headers)


def test_cut_off_at_every_byte() -> None:
    blob = encode_headers([("name", b"value"), ("other", None)])
    for end in range(len(blob)):
        with pytest.raises(CorruptRecordError):
            decode_headers(blob, 0, end)


@pytest.mark.parametrize(
    ("hexadecimal", "message"),
    [
        ("01", "declares -1 headers"),
        ("fe0f", "declares 1023 headers in 0 bytes"),
        ("020101", "name of a header has -1 bytes"),
        ("02026103", "value of header 'a' has -2 bytes"),
        ("0202ff00", "not UTF-8"),
        ("02026100ff", "1 bytes after its headers"),
        ("0000", "1 bytes after its headers"),
    ],
)
def test_malformed(hexadecimal: str, message: str) -> None:
    data = bytes.fromhex(hexadecimal)
    with pytest.raises(CorruptRecordError, match=message):
        decode_headers(data, 0, len(data))


@given(st.binary(max_size=30))
@settings(max_examples=200)
def test_any_bytes_decode_or_are_corrupt(data: bytes) -> None:
    try:
        headers = decode_headers(data, 0, len(data))
    except CorruptRecordError:
        return
    assert decode_headers(encode_headers(headers), 0, len(encode_headers(headers))) == headers


def test_what_is_no_sequence_is_refused() -> None:
    headers: Any = 5
    with pytest.raises(SerializationError, match="Headers are of type int"):
        encode_headers(headers)
