"""The room for marks: how much a commit can say about what is finished behind its offset."""

from __future__ import annotations

from typing import Final

__all__ = ["MarkRoom"]

_LENGTH_MAX: Final = 4000
"""Of the 4,096 characters that brokers take by default (`offset.metadata.max.bytes`); form and offset take 30."""
_BITS_MIN: Final = 1000
"""So far records start even where no marks fit: else each partition would have one handler."""


class MarkRoom:
    """What the brokers take as marks: as much as by default, until they have rejected a commit."""

    def __init__(self) -> None:
        self.length_max = _LENGTH_MAX
        """The characters of the marks, without their form and offset."""
        self.bits_max = self.gaps_max = 0
        """So many offsets fit as bits; so many distances between unfinished records, of up to five bytes each."""
        self.limit(_LENGTH_MAX)

    @property
    def is_limited(self) -> bool:
        """Whether the brokers take less than by default."""
        return self.length_max < _LENGTH_MAX

    def stored(self, length: int) -> None:
        """The brokers have stored marks of so many characters, of this member or of another one."""
        if length > self.length_max:
            self.limit(length)

    def limit(self, length_max: int) -> None:
        """The brokers have rejected more than that."""
        self.length_max = length_max
        self.bits_max = max(_BITS_MIN, length_max * 6)
        self.gaps_max = length_max * 3 // 20
