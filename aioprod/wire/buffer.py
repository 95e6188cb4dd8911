# cython: boundscheck=False, wraparound=False
"""Bytes to primitives and back: the only place that knows how Kafka writes a number, a string or a length.

A null string, byte string or array is None here; the schema says whether null is allowed (`codec`).
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any, Final, TypeAlias
from uuid import UUID

from aioprod.errors import ProtocolError
from aioprod.wire import memory

__all__ = ["Buffer", "Reader", "Writer"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Anything whose bytes can be read without a copy."""

_pack_int8 = struct.Struct(">b").pack
_pack_int16 = struct.Struct(">h").pack
_pack_int32 = struct.Struct(">i").pack
_pack_int64 = struct.Struct(">q").pack

_STRING_LENGTH_MAX: Final = 0x7FFF
_UINT32_MAX: Final = 0xFFFF_FFFF
_UVARINT_BITS: Final = 32


@lru_cache(maxsize=1024)
def _uuid_of(data: bytes) -> UUID:
    """UUIDs are cached: each answer names its topics by id, and making one takes longer than reading all else."""
    return UUID(bytes=data)


class Writer:
    """Appends primitives in network order. A number out of its type's range raises `struct.error` or ValueError."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = bytearray()

    def __len__(self) -> int:
        return len(self._data)

    def getvalue(self) -> bytes:
        """Everything written so far, as a copy."""
        return bytes(self._data)

    def pack(self, layout: struct.Struct, *values: Any) -> None:
        """Append several fixed-width values at once."""
        self._data += layout.pack(*values)

    def write(self, data: Buffer) -> None:
        """Append bytes as they are."""
        self._data += data

    def int8(self, value: int) -> None:
        self._data += _pack_int8(value)

    def int16(self, value: int) -> None:
        self._data += _pack_int16(value)

    def int32(self, value: int) -> None:
        self._data += _pack_int32(value)

    def int64(self, value: int) -> None:
        self._data += _pack_int64(value)

    def uuid(self, value: UUID) -> None:
        self._data += value.bytes

    def uvarint(self, value: int) -> None:
        """Append an unsigned number of up to 32 bits, 7 bits to a byte, low bits first."""
        if not 0 <= value <= _UINT32_MAX:
            raise ValueError(f"{value} does not fit into an unsigned varint of 32 bits.")
        self._uvarint(value)

    def varint(self, value: int) -> None:
        """Append a signed number of 32 bits as zigzag varint (0, -1, 1, -2 … become 0, 1, 2, 3 …)."""
        if not -0x8000_0000 <= value <= 0x7FFF_FFFF:
            raise ValueError(f"{value} does not fit into a varint of 32 bits.")
        self._uvarint((value << 1) ^ (value >> 31))

    def _uvarint(self, value: int) -> None:
        data = self._data
        while value > 0x7F:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        data.append(value)

    def string(self, value: str | None) -> None:
        """Append utf-8 after its length as int16, -1 for None."""
        if value is None:
            self._data += b"\xff\xff"
            return
        encoded = value.encode()
        if len(encoded) > _STRING_LENGTH_MAX:
            raise ValueError(f"A string of {len(encoded)} bytes is longer than the {_STRING_LENGTH_MAX} of its length.")
        self._data += _pack_int16(len(encoded)) + encoded

    def compact_string(self, value: str | None) -> None:
        """Append utf-8 after its length + 1 as uvarint, 0 for None."""
        self.compact_bytes(None if value is None else value.encode())

    def bytes_(self, value: Buffer | None) -> None:
        """Append bytes after their length as int32, -1 for None."""
        self.count(None if value is None else len(value))
        self._data += value or b""

    def compact_bytes(self, value: Buffer | None) -> None:
        """Append bytes after their length + 1 as uvarint, 0 for None."""
        self.compact_count(None if value is None else len(value))
        self._data += value or b""

    def count(self, value: int | None) -> None:
        """Append the number of an array's elements as int32, -1 for None."""
        self._data += _pack_int32(-1 if value is None else value)

    def compact_count(self, value: int | None) -> None:
        """Append the number of an array's elements + 1 as uvarint, 0 for None."""
        self.uvarint(0 if value is None else value + 1)


class Reader:
    """Reads primitives from `data[start:end]` without copying it; every fault is a `ProtocolError`.

    A length or a count that exceeds the bytes that are left raises before memory is allocated for it. `data` must be
    contiguous and not change meanwhile.
    """

    __slots__ = ("_bytes", "_end", "_view", "position")

    def __init__(self, data: Buffer, start: int = 0, end: int = -1) -> None:
        self._view = memoryview(data)
        self._bytes = memory.first_byte(self._view)
        size = len(self._view)
        self._end = size if end < 0 else end
        self.position = start
        if not 0 <= start <= self._end <= size:
            raise ValueError(f"There is no range {start} to {end} in {size} bytes.")

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self.position

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, as a view of the data."""
        position = self._advance(size)
        return self._view[position : position + size]

    def rest(self) -> memoryview:
        """All bytes that are left, as a view of the data."""
        return self.take(self._end - self.position)

    def _advance(self, size: int) -> int:
        """Skip `size` bytes; returns where they begin."""
        position = self.position
        if not 0 <= size <= self._end - position:
            raise self._too_short(size)
        self.position = position + size
        return position

    def boolean(self) -> bool:
        """Every byte but 0 is true."""
        return self._bytes[self._advance(1)] != 0

    def int8(self) -> int:
        return memory.number(self._bytes, self._advance(1), 1)

    def int16(self) -> int:
        return memory.number(self._bytes, self._advance(2), 2)

    def int32(self) -> int:
        return memory.number(self._bytes, self._advance(4), 4)

    def integer(self, size: int) -> int:
        """A signed number of `size` bytes, 1 to 8."""
        return memory.number(self._bytes, self._advance(size), size)

    def int64(self) -> int:
        return self.integer(8)

    def uuid(self) -> UUID:
        return _uuid_of(bytes(self.take(16)))

    def uvarint(self) -> int:
        """An unsigned number of up to 32 bits."""
        value = shift = 0
        while shift < _UVARINT_BITS:
            byte = self._bytes[self._advance(1)]
            value |= (byte & 0x7F) << shift
            if value > _UINT32_MAX:
                raise ProtocolError(f"The varint that ends at byte {self.position} has more than its 32 bits.")
            if byte < 0x80:
                return value
            shift += 7
        raise ProtocolError(f"The varint at byte {self.position} has no end.")

    def string(self) -> str | None:
        """Text after its length as int16, None for -1."""
        return self._text(self._length(self.int16()))

    def compact_string(self) -> str | None:
        """Text after its length + 1 as uvarint, None for 0."""
        return self._text(self._length(self.uvarint() - 1))

    def bytes_(self) -> memoryview | None:
        """Bytes after their length as int32, as a view of the data; None for -1."""
        length = self._length(self.int32())
        return None if length < 0 else self.take(length)

    def compact_bytes(self) -> memoryview | None:
        """Bytes after their length + 1 as uvarint, as a view of the data; None for 0."""
        length = self._length(self.uvarint() - 1)
        return None if length < 0 else self.take(length)

    def count(self) -> int:
        """The number of an array's elements, -1 for null; at most one for each byte that is left."""
        return self._length(self.int32())

    def compact_count(self) -> int:
        """The same where the count is a uvarint."""
        return self._length(self.uvarint() - 1)

    def _length(self, value: int) -> int:
        if value < -1:
            raise ProtocolError(f"The length before byte {self.position} is negative ({value}).")
        if value > self._end - self.position:
            raise self._too_short(value)
        return value

    def _text(self, length: int) -> str | None:
        if length < 0:
            return None
        position = self._advance(length)
        try:
            return memory.text(self._bytes, position, length)
        except UnicodeDecodeError as fault:
            raise ProtocolError(f"The text that ends at byte {self.position} is not utf-8: {fault.reason}.") from fault

    def _too_short(self, size: int) -> ProtocolError:
        return ProtocolError(f"{size} bytes are announced at byte {self.position}, and {self.remaining} are left.")
