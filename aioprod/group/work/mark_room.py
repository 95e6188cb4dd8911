"""The room for marks: how much a commit can say about what is finished behind its offset."""

from __future__ import annotations

from typing import Final

__all__ = ["MarkRoom"]

_LENGTH_MAX: Final = 4096
"""The default of the brokers' `offset.metadata.max.bytes`."""
_HEAD: Final = 96
"""The characters that are not for the records: more than the form and the offset take."""
_BITS_MIN: Final = 1000
"""So far records start even where no marks fit: else each partition would have one handler."""


class MarkRoom:
    """What the brokers take as metadata of an offset: as much as by default, until they have rejected a commit."""

    def __init__(self) -> None:
        self.length_max = _LENGTH_MAX
        """The characters of a commit's metadata."""
        self.bits_max = self.gaps_max = 0
        """So many offsets fit as bits; so many distances between unfinished records, of up to five bytes each."""
        self.limit(_LENGTH_MAX)

    @property
    def is_limited(self) -> bool:
        """Whether the brokers take less than by default."""
        return self.length_max < _LENGTH_MAX

    def limit(self, length_max: int) -> None:
        """The brokers have rejected more than that."""
        self.length_max = length_max
        room = max(0, length_max - _HEAD)
        self.bits_max = max(_BITS_MIN, room * 6)
        self.gaps_max = room * 3 // 20
