# cython: boundscheck=False, wraparound=False
"""Reading the fields of records: lengths and numbers as varints, keys, values and headers. Nothing is trusted."""

from __future__ import annotations

from aioprod.errors import CorruptRecordError
from aioprod.wire import memory
from aioprod.wire.buffer import Buffer

__all__ = ["FieldReader"]

HEADERS_MAX = 1 << 20
"""The most headers of one record that are read. Each takes 2 bytes at least, and some 100 once it is read: without a
limit a batch that is allowed to decompress to 128 MiB could fill gigabytes."""


class FieldReader:
    """Reads fields from `data[position:end]` one after the other; every fault is a `CorruptRecordError`.

    `data` must lie in one piece and not change meanwhile. What is read are copies.
    """

    __slots__ = ("_bytes", "_view", "end", "position")

    def __init__(self, data: Buffer, position: int, end: int) -> None:
        self._view = memoryview(data)
        self._bytes = memory.first_byte(self._view)
        self.position = position
        self.end = end
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
        size = self.varint(32)
        if not -1 <= size <= self.end - self.position:
            raise CorruptRecordError(f"A key or value declares {size} bytes where {self.end - self.position} are left.")
        return None if size < 0 else self._take(size)

    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers of a record, which are all that is left."""
        count = self.varint(32)
        if not 0 <= count <= (self.end - self.position) // 2:
            raise CorruptRecordError(f"A record declares {count} headers in {self.end - self.position} bytes.")
        if count > HEADERS_MAX:
            raise CorruptRecordError(f"A record has {count} headers, and at most {HEADERS_MAX} are read.")
        headers = [self._header() for _ in range(count)] if count else []
        if self.position != self.end:
            raise CorruptRecordError(f"A record has {self.end - self.position} bytes after its headers.")
        return tuple(headers)

    def _header(self) -> tuple[str, bytes | None]:
        size = self.varint(32)
        if not 0 <= size <= self.end - self.position:
            raise CorruptRecordError(
                f"The name of a header has {size} bytes where {self.end - self.position} are left."
            )
        try:
            name = memory.text(self._bytes, self.position, size)
        except UnicodeDecodeError as error:
            raise CorruptRecordError("The name of a header is no UTF-8.") from error
        self.position += size
        size = self.varint(32)
        if not -1 <= size <= self.end - self.position:
            raise CorruptRecordError(
                f"The value of header {name!r} has {size} bytes where {self.end - self.position} are left."
            )
        return name, None if size < 0 else self._take(size)

    def _take(self, size: int) -> bytes:
        taken = memory.copied(self._bytes, self.position, size)
        self.position += size
        return taken
