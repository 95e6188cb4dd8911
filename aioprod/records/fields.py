# cython: boundscheck=False, wraparound=False
"""Reading the fields of records: lengths and numbers as varints, keys, values and headers. Nothing is trusted."""

from __future__ import annotations

from typing import Final

from aioprod.errors import CorruptRecordError
from aioprod.wire import memory
from aioprod.wire.buffer import Buffer

__all__ = ["FieldReader"]

_HEADERS_MAX: Final = 1 << 20
"""The most headers of one record that are read. Each takes 2 bytes at least, and some 100 once it is read: without a
limit a batch that is allowed to decompress to 128 MiB could fill gigabytes."""


class FieldReader:
    """Reads fields from `data[position:end]` one after the other; every fault is a `CorruptRecordError`.

    `data` must be contiguous and not change meanwhile. The values that are read are copies.
    """

    __slots__ = ("_bytes", "_view", "end", "position")

    def __init__(self, data: Buffer, position: int, end: int) -> None:
        self._view = memoryview(data)
        self._bytes = memory.first_byte(self._view)
        self.position = position
        """Where the next field begins."""
        self.end = end
        """Where the last field ends at the latest."""
        if not 0 <= position <= end <= len(self._view):
            raise ValueError(f"There is no range {position} to {end} in {len(self._view)} bytes.")

    def varint(self, bits: int) -> int:
        """A signed number of 32 or 64 `bits`."""
        zigzag = shift = 0
        at = self.position
        while at < self.end:
            byte = self._bytes[at]
            if bits - shift < 8 and byte >> (bits - shift):
                break
            zigzag |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                self.position = at
                return (zigzag >> 1) ^ -(zigzag & 1)
            shift += 7
        raise CorruptRecordError(
            f"The integer at byte {self.position} of a batch's records is cut off, or has over {bits} bits."
        )

    def nullable(self) -> bytes | None:
        """A key or a value."""
        size = self.nullable_size()
        return None if size < 0 else self._take(size)

    def nullable_size(self) -> int:
        """The size of the key or value that comes next and is there, -1 for null."""
        size = self.varint(32)
        if not -1 <= size <= self.end - self.position:
            raise CorruptRecordError(f"A key or value declares {size} bytes where {self.end - self.position} are left.")
        return size

    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of a record, which are all that is left."""
        count = self.header_count()
        headers = [self._header() for _ in range(count)] if count else []
        self._check_end()
        return tuple(headers)

    def skip_headers(self) -> int:
        """Step over the headers of a record, which are all that is left; how many there are."""
        count = left = self.header_count()
        while left:
            size = self.header_name_size()
            start = self.position
            self.position += size
            size = self.header_value_size(start, size)
            if size > 0:
                self.position += size
            left -= 1
        self._check_end()
        return count

    def header_count(self) -> int:
        """How many headers follow."""
        count = self.varint(32)
        if not 0 <= count <= (self.end - self.position) // 2:
            raise CorruptRecordError(f"A record declares {count} headers in {self.end - self.position} bytes.")
        if count > _HEADERS_MAX:
            raise CorruptRecordError(f"A record has {count} headers, and at most {_HEADERS_MAX} are read.")
        return count

    def header_name_size(self) -> int:
        """The size of the name that comes next, is there and is UTF-8."""
        size = self.varint(32)
        if not 0 <= size <= self.end - self.position:
            raise CorruptRecordError(
                f"The name of a header has {size} bytes where {self.end - self.position} are left."
            )
        if not memory.is_ascii(self._bytes, self.position, size):
            self._text(self.position, size)
        return size

    def header_value_size(self, name_start: int, name_size: int) -> int:
        """The size of the value that comes next and is there, -1 for null; errors name the header."""
        size = self.varint(32)
        if not -1 <= size <= self.end - self.position:
            name = self._text(name_start, name_size)
            raise CorruptRecordError(
                f"The value of header {name!r} has {size} bytes where {self.end - self.position} are left."
            )
        return size

    def _header(self) -> tuple[str, bytes | None]:
        name_size = self.header_name_size()
        start = self.position
        name = self._text(start, name_size)
        self.position += name_size
        size = self.header_value_size(start, name_size)
        return name, None if size < 0 else self._take(size)

    def _text(self, start: int, size: int) -> str:
        try:
            return memory.text(self._bytes, start, size)
        except UnicodeDecodeError as error:
            raise CorruptRecordError("The name of a header is not UTF-8.") from error

    def _check_end(self) -> None:
        if self.position != self.end:
            raise CorruptRecordError(f"A record has {self.end - self.position} bytes after its headers.")

    def _take(self, size: int) -> bytes:
        taken = memory.copied(self._bytes, self.position, size)
        self.position += size
        return taken
