"""How a record names its schema: an id before its bytes, or a GUID in a header.

Prefix: `00`, the id in 4 bytes, big-endian. Header `__key_schema_id` or `__value_schema_id`: `01` and the 16 bytes of
the schema's GUID. A Protobuf schema may define many messages, so the place of the message in it follows the id or the
GUID: its indexes as zigzag varints, their count first, and the single byte `00` for the frequent [0].
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from aioprod.errors import SerializationError
from aioprod.schema_registry.subjects import Role

__all__ = ["Frame", "SchemaKey", "guid_header", "header_name", "id_prefix", "index_bytes", "read_frame", "read_indexes"]

SchemaKey: TypeAlias = int | uuid.UUID
"""By what a record names its schema: the id, or the GUID."""

_PREFIX: Final = struct.Struct(">bI")
_GUID_BYTES: Final = 17
_INDEXES_MAX: Final = 100
"""Protobuf's own limit of nested messages."""
_VARINT_BYTES_MAX: Final = 5


class Frame(NamedTuple):
    """A record's schema, and its bytes without prefix. `header` has what follows the GUID, None without a header."""

    schema: SchemaKey
    payload: bytes
    header: bytes | None


def header_name(role: Role) -> str:
    """The name of the header that has the GUID."""
    return f"__{role}_schema_id"


def id_prefix(schema_id: int) -> bytes:
    """The prefix of a schema id."""
    return _PREFIX.pack(0, schema_id)


def guid_header(guid: uuid.UUID) -> bytes:
    """The value of the header."""
    return b"\x01" + guid.bytes


def read_frame(data: bytes, headers: Sequence[tuple[str, bytes | None]], name: str) -> Frame:
    """The schema that a record names in the header `name`, or else in its prefix; raises SerializationError."""
    for header, value in headers:
        if header == name:
            if value is None or len(value) < _GUID_BYTES or value[0] != 1:
                raise SerializationError(f"the header {name} does not have 01 and the 16 bytes of a schema's GUID.")
            return Frame(uuid.UUID(bytes=value[1:_GUID_BYTES]), data, value[_GUID_BYTES:])
    if len(data) < _PREFIX.size or data[0] != 0:
        raise SerializationError(
            f"its {len(data)} bytes do not begin with 00 and a schema id, and there is no header {name}.",
            hint="The record was not written by a serializer that uses a schema registry.",
        )
    return Frame(_PREFIX.unpack_from(data)[1], data[_PREFIX.size :], None)


def index_bytes(indexes: Sequence[int]) -> bytes:
    """The indexes of a Protobuf message: its place in the file, or in the message around it, outermost first."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, [len(indexes), *indexes]))


def read_indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The indexes that `data` begins with, and what follows; raises SerializationError."""
    count, place = _read_varint(data, 0)
    if count == 0:
        return (0,), data[place:]
    if not 0 < count <= _INDEXES_MAX:
        raise SerializationError(f"it has {count} Protobuf message indexes, and {_INDEXES_MAX} is the limit.")
    indexes = []
    for _ in range(count):
        index, place = _read_varint(data, place)
        if index < 0:
            raise SerializationError(f"it has the Protobuf message index {index}, which is below 0.")
        indexes.append(index)
    return tuple(indexes), data[place:]


def _varint(number: int) -> bytes:
    rest = number << 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    number = 0
    for count, byte in enumerate(data[place : place + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), place + count + 1
    raise SerializationError("its Protobuf message indexes are cut off or too large.")
