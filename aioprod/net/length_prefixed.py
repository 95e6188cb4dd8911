"""Fields with a length before each, in network byte order, as Java's key stores and TLS have them."""

from __future__ import annotations

__all__ = ["LengthPrefixedReader"]


class LengthPrefixedReader:
    """Reads `data` from position `at` on. Every read raises ValueError if the data ends before the field does."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    @property
    def left(self) -> int:
        """How many bytes are not read yet."""
        return len(self._data) - self.at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.left:
            raise ValueError("it is cut off")
        field = self._data[self.at : self.at + size]
        self.at += size
        return field

    def number(self, size: int) -> int:
        """An unsigned integer of `size` bytes."""
        return int.from_bytes(self.take(size), "big")

    def prefixed(self, size: int) -> bytes:
        """A field whose length is an unsigned integer of `size` bytes before it."""
        return self.take(self.number(size))
