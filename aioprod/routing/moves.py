"""What happens to keys when a topic gets more partitions: which of them go elsewhere from then on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType
from typing import Any, NamedTuple

from aioprod.arrow.views import is_bytes, whole_bytes_column
from aioprod.errors import ConfigError, InvalidRecordError
from aioprod.routing.columns import arrays, check_count, rule_of

__all__ = ["Move", "MovedKeys", "moved_keys", "moved_share"]


class Move(NamedTuple):
    """A key's partition before the topic grew, and the one that its records go to afterwards."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """The keys that move when `before` partitions become `after`.

    Keys that the partitioner spreads, having nothing to hash, are not counted: they have no partition to move from.
    """

    before: int
    after: int
    keys: int
    """How many different keys were given."""
    moves: Mapping[bytes | None, Move]
    """The moves; keys that stay are not in there."""

    @property
    def share(self) -> float:
        """The part of the keys that move, 0 to 1."""
        return len(self.moves) / self.keys if self.keys else 0.0

    @property
    def expected_share(self) -> float:
        """The part that moves of many keys; see `moved_share`."""
        return moved_share(self.before, self.after)


def moved_keys(keys: Iterable[bytes | str | None], partitioner: object = None, *, before: int, after: int) -> MovedKeys:
    """Which keys change their partition when a topic's partitions become `after` instead of `before`.

    `keys` are serialized keys, or strings that are sent as UTF-8; an Arrow array or chunked array of strings or byte
    strings will do as well. One that comes more than once counts once. `partitioner` is one that hashes, given as in
    the configuration: a name, a class or an object; without it, the producer's own, which is Java's.

    Raises ConfigError for a partitioner that chooses by anything else than the key and for numbers of partitions that
    can't be, InvalidRecordError for an object that is not a key.
    """
    rule = rule_of(partitioner)
    check_count(before)
    check_count(after)
    count = 0
    moves = {}
    for key in dict.fromkeys(_each(keys)):
        old, new = rule.partition(key, before), rule.partition(key, after)
        if old is None or new is None:
            continue
        count += 1
        if old != new:
            moves[key] = Move(old, new)
    return MovedKeys(before, after, count, MappingProxyType(moves))


def moved_share(before: int, after: int) -> float:
    """The part of many keys that move when `before` partitions become `after`: 1 - gcd(before, after) / the larger one.

    A hash is counted modulo both numbers, so all that matters is its remainder by their least common multiple: that
    many cases, equally frequent. Both partitions are the same one, p, only where that remainder is p itself, less than
    both numbers. So the smaller number of the cases stay: before * after / gcd in all, which leaves gcd / the larger.
    Raises ConfigError for numbers of partitions that can't be.
    """
    larger = max(check_count(before), check_count(after))
    return (larger - gcd(before, after)) / larger


def _each(keys: Any) -> Iterator[bytes | None]:
    if hasattr(keys, "__arrow_c_array__") or hasattr(keys, "__arrow_c_stream__"):
        for field, array in arrays(keys, is_bytes, "keys: give strings or byte strings"):
            column = whole_bytes_column(field, array)
            for row in range(array.length):
                yield column.get() if column.find(row) else None
        return
    if isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise ConfigError(f"{keys!r} is one key: give several.", hint="Put it into a list.")
    for key in keys:
        if isinstance(key, str):
            yield key.encode()
        elif key is None or isinstance(key, bytes):
            yield key
        else:
            raise InvalidRecordError(
                f"A key of type {type(key).__name__} can't be placed.",
                hint="Give keys as they are sent: serialized, as bytes; or str, which becomes UTF-8.",
            )
