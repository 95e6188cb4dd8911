from __future__ import annotations

import tracemalloc
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.errors import ProtocolError, UnsupportedVersionError
from aioprod.wire.buffer import Buffer, Writer
from aioprod.wire.codec import decode, encode, encode_into
from aioprod.wire.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    TEXT,
    UUID,
    ZERO_UUID,
    Message,
    Struct,
    array,
    wire,
)


class Single(Message):
    NAME = "Single"
    VERSIONS = (0, 0)
    FLEXIBLE = None

    index: int = wire(INT32)


class Part(Struct):
    index: int = wire(INT32)
    note: str | None = wire(STRING, "1+", nullable="1+", default=None)


class Example(Message):
    """Version 0 has the old lengths, 2 and later are flexible."""

    NAME = "Example"
    VERSIONS = (0, 3)
    FLEXIBLE = 2

    flag: bool = wire(BOOL)
    small: int = wire(INT16)
    name: str | None = wire(STRING, nullable="1+")
    parts: tuple[Part, ...] | None = wire(array(Part), nullable="1+")
    numbers: tuple[int, ...] = wire(array(INT8))
    names: tuple[str, ...] = wire(array(STRING))
    topic_id: uuid.UUID = wire(UUID, "1+", ignorable=True)
    data: bytes = wire(BYTES)
    records: Buffer | None = wire(RECORDS, nullable="0+")
    part: Part | None = wire(Part, "1+", nullable="2+")
    late: int = wire(INT64, "3+", tag=1, default=-1)
    hint: Part = wire(Part, "2+", tag=0, ignorable=True)


ID = uuid.UUID(int=7)
FULL = Example(
    flag=True,
    small=-2,
    name="n",
    parts=(Part(index=1, note="a"),),
    numbers=(1, -1),
    names=("x", "y"),
    topic_id=ID,
    data=b"d",
    records=b"rr",
    part=Part(index=5),
    late=6,
    hint=Part(index=9),
)
FULL_V3 = (
    "01 fffe 026e"
    "02 00000001 0261 00"
    "03 01ff"
    "03 0278 0279"
    "00000000000000000000000000000007"
    "0264 037272"
    "01 00000005 00 00"
    "02 00 06 00000009 00 00  01 08 0000000000000006"
)


def test_every_kind_of_field_in_a_flexible_version() -> None:
    assert encode(FULL, 3).hex() == FULL_V3.replace(" ", "")
    assert decode(Example, 3, bytes.fromhex(FULL_V3)) == FULL


def test_every_kind_of_field_in_an_old_version() -> None:
    message = Example(flag=True, name="n", parts=(Part(index=1),), numbers=(3,), names=("x",), data=b"d")
    body = "01 0000 00016e 00000001 00000001 00000001 03 00000001 000178 00000001 64 ffffffff"
    with pytest.raises(UnsupportedVersionError, match=r"Example.part is set and does not exist in version 0"):
        encode(Example(part=None), 0)
    assert encode(message, 0).hex() == body.replace(" ", "")
    assert decode(Example, 0, bytes.fromhex(body)) == message


def test_a_message_can_be_appended() -> None:
    writer = Writer()
    writer.write(b"head")
    encode_into(writer, Single(index=1), 0)
    assert writer.getvalue() == b"head\x00\x00\x00\x01"


def test_arrays_take_any_sequence_and_come_back_as_tuples() -> None:
    message = Example(parts=[Part(index=1)], numbers=range(2), names=["a"])  # type: ignore[arg-type]
    decoded = decode(Example, 1, encode(message, 1))
    assert (decoded.parts, decoded.numbers, decoded.names) == ((Part(index=1),), (0, 1), ("a",))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_records_are_taken_from_any_buffer_and_given_as_a_view_of_the_data(kind: type[bytes]) -> None:
    body = encode(Example(records=kind(b"batch")), 3)
    records = decode(Example, 3, body).records
    assert isinstance(records, memoryview)
    assert bytes(records) == b"batch"
    assert records.obj is body


def test_bytes_are_copied_so_that_the_frame_can_go() -> None:
    assert type(decode(Example, 3, encode(Example(data=b"d"), 3)).data) is bytes


def test_null_where_the_version_allows_it() -> None:
    for version in (1, 2, 3):
        part = None if version >= 2 else Part()
        message = Example(name=None, parts=None, part=part)
        assert decode(Example, version, encode(message, version)) == message


@pytest.mark.parametrize(
    ("message", "version", "field"),
    [
        (Example(name=None), 0, "Example.name"),
        (Example(parts=None), 0, "Example.parts"),
        (Example(data=None), 3, "Example.data"),  # type: ignore[arg-type]
        (Example(numbers=None), 3, "Example.numbers"),  # type: ignore[arg-type]
        (Example(names=("a", None)), 3, "An element of Example.names"),  # type: ignore[arg-type]
    ],
)
def test_none_where_the_version_has_no_null(message: Example, version: int, field: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"{field} can't be None in version {version}"):
        encode(message, version)


@pytest.mark.parametrize(
    ("version", "body", "field"),
    [
        (0, "00 0000 ffff", "Example.name"),
        (0, "00 0000 0000 ffffffff", "Example.parts"),
        (3, "00 0000 00 00 00", "Example.numbers"),
        (3, "00 0000 00 00 01 02 00", "An element of Example.names"),
        (3, "00 0000 00 00 01 01" + "00" * 16 + "00", "Example.data"),
    ],
)
def test_null_that_the_version_does_not_allow(version: int, body: str, field: str) -> None:
    with pytest.raises(ProtocolError, match=f"This is not a valid Example v{version}: {field} is null"):
        decode(Example, version, bytes.fromhex(body) + bytes(64))


def test_a_value_without_a_place_in_the_version() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"Example.late is set and does not exist in version 2"):
        encode(Example(late=0, part=None), 2)
    with pytest.raises(UnsupportedVersionError, match=r"Part.note is set and does not exist in version 0"):
        encode(Example(parts=(Part(note="a"),)), 0)


def test_an_ignorable_value_without_a_place_in_the_version_is_dropped() -> None:
    decoded = decode(Example, 0, encode(Example(topic_id=ID, hint=Part(index=1)), 0))
    assert (decoded.topic_id, decoded.hint) == (ZERO_UUID, Part())


@pytest.mark.parametrize("message", [Example(small=1 << 15), Example(numbers=(128,)), Example(small=None)])  # type: ignore[arg-type]
def test_a_value_out_of_its_range(message: Example) -> None:
    with pytest.raises(ValueError, match="Example v3 has a value out of its type's range"):
        encode(message, 3)


@pytest.mark.parametrize(("byte", "flag"), [(0, False), (1, True), (2, True), (255, True)])
def test_each_byte_but_zero_is_true(byte: int, flag: bool) -> None:
    body = bytearray(encode(Example(), 3))
    body[0] = byte
    assert decode(Example, 3, body).flag is flag


EMPTY_V3 = encode(Example(part=None), 3)[:-1]
"""A message without its tag section."""


def test_tagged_fields_are_left_out_at_their_default() -> None:
    assert encode(Example(part=None), 3) == EMPTY_V3 + b"\x00"


def test_unknown_tags_are_skipped() -> None:
    tags = "03  01 08 0000000000000004  05 02 ffff  ffffffff0f 00"
    assert decode(Example, 3, EMPTY_V3 + bytes.fromhex(tags)) == Example(part=None, late=4)


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ("02 01 08 0000000000000004 01 08 0000000000000004", "tag 1 after tag 1"),
        ("02 07 00 06 00", "tag 6 after tag 7"),
        ("01 01 09 000000000000000400", "Tag 1 of Example has 1 bytes left over"),
        ("01 01 07 00000000000000", "8 bytes are announced at byte 0, and 7 are left"),
        ("01 05 03 0000", "3 bytes are announced"),
        ("ffffffff0f", "1 bytes are announced"),
        ("01 ffffffff1f", "more than"),
    ],
)
def test_malformed_tag_sections(tags: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        decode(Example, 3, EMPTY_V3 + bytes.fromhex(tags))


@pytest.mark.parametrize(
    ("version", "head"),
    [
        (0, "00 0000 7fff"),
        (0, "00 0000 0000 7fffffff"),
        (0, "00 0000 0000 00000000 7fffffff"),
        (0, "00 0000 0000 00000000 00000000 7fffffff"),
        (3, "00 0000 ffffffff0f"),
        (3, "00 0000 00 ffffffff0f"),
        (3, "00 0000 00 00 ffffffff0f"),
        (3, "00 0000 00 00 01 ffffffff0f"),
    ],
)
def test_a_hostile_length_takes_no_memory(version: int, head: str) -> None:
    body = bytes.fromhex(head) + bytes(2000)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError):
            decode(Example, version, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@settings(deadline=None)
@given(st.integers(0, 3), st.binary(max_size=64))
def test_garbage_is_refused_or_read(version: int, body: bytes) -> None:
    try:
        message = decode(Example, version, body)
    except ProtocolError:
        return
    assert isinstance(message, Example)


class Told(Message):
    NAME = "Told"
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    said: str | None = wire(TEXT, nullable="0+")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (None, None),
        ("It is the größte.", "It is the größte."),
        ("\x1b]0;x\x07\n2026 ERROR \u202eFAKE", "?]0;x??2026 ERROR ?FAKE"),
        ("x" * 30_000, "x" * 500),
    ],
)
def test_a_text_that_is_only_shown_is_cut_and_has_no_control_characters(
    version: int, said: str | None, shown: str | None
) -> None:
    assert decode(Told, version, encode(Told(said=said), version)).said == shown
