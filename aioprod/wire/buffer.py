"""Bytes to primitives and back: the only place that knows how Kafka writes a number, a string or a length.

A null string, byte string or array is None here; whether null is allowed is the schema's business (`codec`).
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias
from uuid import UUID

from aioprod.errors import ProtocolError

__all__ = ["Buffer", "Reader", "Writer"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Anything whose bytes can be read without a copy."""

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_UINT16 = struct.Struct(">H")
_UINT32 = struct.Struct(">I")

_STRING_LENGTH_MAX = 0x7FFF
_UINT32_MAX = 0xFFFF_FFFF
_UINT64_MAX = 0xFFFF_FFFF_FFFF_FFFF


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
        self._data += _INT8.pack(value)

    def int16(self, value: int) -> None:
        self._data += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self._data += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self._data += _INT64.pack(value)

    def uint16(self, value: int) -> None:
        self._data += _UINT16.pack(value)

    def uint32(self, value: int) -> None:
        self._data += _UINT32.pack(value)

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

    def varlong(self, value: int) -> None:
        """Append a signed number of 64 bits as zigzag varint."""
        if not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"{value} does not fit into a varint of 64 bits.")
        self._uvarint((value << 1) ^ (value >> 63))

    def _uvarint(self, value: int) -> None:
        while value > 0x7F:
            self._data.append(value & 0x7F | 0x80)
            value >>= 7
        self._data.append(value)

    def string(self, value: str | None) -> None:
        """Append utf-8 after its length as int16, -1 for None."""
        if value is None:
            self._data += b"\xff\xff"
            return
        encoded = value.encode()
        if len(encoded) > _STRING_LENGTH_MAX:
            raise ValueError(f"A string of {len(encoded)} bytes is longer than the {_STRING_LENGTH_MAX} of its length.")
        self._data += _INT16.pack(len(encoded)) + encoded

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
        self._data += _INT32.pack(-1 if value is None else value)

    def compact_count(self, value: int | None) -> None:
        """Append the number of an array's elements + 1 as uvarint, 0 for None."""
        self.uvarint(0 if value is None else value + 1)


class Reader:
    """Reads primitives from `data[start:end]` without copying it; every fault is a `ProtocolError`.

    A length or a count that is larger than the bytes that are left is refused before anything is made of it.
    """

    __slots__ = ("_data", "_end", "position")

    def __init__(self, data: Buffer, start: int = 0, end: int | None = None) -> None:
        self._data = memoryview(data)
        self._end = len(self._data) if end is None else end
        self.position = start
        if not 0 <= start <= self._end <= len(self._data):
            raise ValueError(f"There is no range {start} to {end} in {len(self._data)} bytes.")

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return self._end - self.position

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read several fixed-width values at once."""
        position = self.position
        end = position + layout.size
        if end > self._end:
            raise self._too_short(layout.size)
        self.position = end
        return layout.unpack_from(self._data, position)

    def take(self, size: int) -> memoryview:
        """The next `size` bytes, as a view of the data."""
        position = self.position
        if not 0 <= size <= self._end - position:
            raise self._too_short(size)
        self.position = end = position + size
        return self._data[position:end]

    def int8(self) -> int:
        return self.unpack(_INT8)[0]  # type: ignore[no-any-return]

    def int16(self) -> int:
        return self.unpack(_INT16)[0]  # type: ignore[no-any-return]

    def int32(self) -> int:
        return self.unpack(_INT32)[0]  # type: ignore[no-any-return]

    def int64(self) -> int:
        return self.unpack(_INT64)[0]  # type: ignore[no-any-return]

    def uint16(self) -> int:
        return self.unpack(_UINT16)[0]  # type: ignore[no-any-return]

    def uint32(self) -> int:
        return self.unpack(_UINT32)[0]  # type: ignore[no-any-return]

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self.take(16)))

    def uvarint(self) -> int:
        """An unsigned number of up to 32 bits."""
        position = self.position
        if position < self._end and (byte := self._data[position]) < 0x80:
            self.position = position + 1
            return byte
        return self._uvarint(_UINT32_MAX)

    def varint(self) -> int:
        """A signed number of 32 bits in zigzag form."""
        value = self._uvarint(_UINT32_MAX)
        return value >> 1 ^ -(value & 1)

    def varlong(self) -> int:
        """A signed number of 64 bits in zigzag form."""
        value = self._uvarint(_UINT64_MAX)
        return value >> 1 ^ -(value & 1)

    def _uvarint(self, largest: int) -> int:
        value = shift = 0
        while self.position < self._end:
            byte = self._data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if value > largest:
                raise ProtocolError(f"The varint that ends at byte {self.position} has more than its 32 or 64 bits.")
            if byte < 0x80:
                return value
            shift += 7
            if 1 << shift > largest:
                raise ProtocolError(f"The varint at byte {self.position} has no end.")
        raise self._too_short(1)

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
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as fault:
            raise ProtocolError(f"The text that ends at byte {self.position} is no utf-8: {fault.reason}.") from fault

    def _too_short(self, size: int) -> ProtocolError:
        return ProtocolError(f"{size} bytes are announced at byte {self.position}, and {self.remaining} are left.")
