"""Fields behind their lengths in network order, as Java's key stores and TLS have them."""

from __future__ import annotations

__all__ = ["CountedReader"]


class CountedReader:
    """Takes pieces of `data` one after the other, none that is not there. Raises ValueError where it is cut off."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    @property
    def left(self) -> int:
        """How many bytes are behind the last piece."""
        return len(self._data) - self.at

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.left:
            raise ValueError("it is cut off")
        piece = self._data[self.at : self.at + size]
        self.at += size
        return piece

    def number(self, size: int) -> int:
        """An unsigned number of `size` bytes."""
        return int.from_bytes(self.take(size), "big")

    def counted(self, size: int) -> bytes:
        """Bytes behind their number, which has `size` bytes."""
        return self.take(self.number(size))
