# cython: boundscheck=False, wraparound=False
"""The partition of each key of an Arrow column, as the hash partitioners choose it, without an object for a row."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from typing import Any, Final

from aioprod.arrow.columns import BytesColumn, NumberColumn
from aioprod.arrow.interface import ArrowArray, Field, open_source
from aioprod.arrow.views import is_bytes, is_integer, type_name, whole_bytes_column, whole_number_column
from aioprod.config import KNOWN_CLASSES, describe, load_class
from aioprod.errors import ConfigError, InvalidRecordError
from aioprod.routing.hashes import (
    HASHES,
    crc32_partition,
    fnv1a_partition,
    murmur2_partition,
    murmur3_partition,
    partition_of,
)
from aioprod.routing.partitioners import (
    ClassicPartitioner,
    Crc32Partitioner,
    Crc32RandomPartitioner,
    DefaultPartitioner,
    Fnv1aPartitioner,
    HashPartitioner,
    Murmur2Partitioner,
    Murmur2RandomPartitioner,
    Murmur3Partitioner,
)

__all__ = ["HASH_PARTITIONERS", "Filling", "Partitions", "Rule", "arrays", "check_count", "partitions_of", "rule_of"]

_PARTITIONS_MAX: Final = (1 << 31) - 1
"""The most partitions of a topic: the protocol counts them in 32 bits with a sign."""


class Rule:
    """What a hash partitioner does. What is not hashed is spread."""

    __slots__ = ("hashes_empty", "hashes_null", "kind")

    def __init__(self, kind: int, hashes_null: bool, hashes_empty: bool) -> None:
        self.kind = kind
        """The place of its hash in `HASHES`."""
        self.hashes_null = hashes_null
        """No key counts as an empty one."""
        self.hashes_empty = hashes_empty
        """An empty key is hashed."""

    def partition(self, key: bytes | None, count: int) -> int | None:
        """The partition of one key among `count` >= 1 of them; None if it dictates none."""
        is_hashed = self.hashes_null if key is None else self.hashes_empty or len(key) > 0
        if not is_hashed:
            return None
        hashed = key or b""
        return partition_of(self.kind, hashed, 0, len(hashed), count)


_HASH_OF: Final = dict(
    zip((murmur2_partition, crc32_partition, fnv1a_partition, murmur3_partition), HASHES, strict=True)
)

_PARTITIONERS: Final[dict[type, type[HashPartitioner]]] = {
    DefaultPartitioner: Murmur2RandomPartitioner,
    ClassicPartitioner: Murmur2RandomPartitioner,
    Murmur2Partitioner: Murmur2Partitioner,
    Murmur2RandomPartitioner: Murmur2RandomPartitioner,
    Crc32Partitioner: Crc32Partitioner,
    Crc32RandomPartitioner: Crc32RandomPartitioner,
    Fnv1aPartitioner: Fnv1aPartitioner,
    Murmur3Partitioner: Murmur3Partitioner,
}
"""A partitioner that hashes keys -> one that hashes the same keys in the same way."""

_TARGETS: Final = {f"aioprod.routing:{kind.__name__}": same for kind, same in _PARTITIONERS.items()}

HASH_PARTITIONERS: Final = tuple(
    name
    for name, target in KNOWN_CLASSES["partitioner"].items()
    if name.islower() and "." not in name and target in _TARGETS
)
"""The short names of the partitioners that choose by a hash of the key."""


def rule_of(partitioner: object) -> Rule:
    """The rule of a partitioner, given as in the configuration: a name, ours or Java's, a class or an object.

    None is the built-in one, which hashes as `DefaultPartitioner` does. Raises ConfigError for a name that is none, and
    for partitioners that don't choose by a hash of the key.
    """
    same = _same(partitioner)
    if same is None:
        name = partitioner if isinstance(partitioner, str) else describe(partitioner)
        raise ConfigError(
            f"The partitioner {name!r} does not choose by a hash of the key, so that the partition of a "
            "record is not known beforehand.",
            hint=f"Take one of {', '.join(HASH_PARTITIONERS)}.",
        )
    return Rule(HASHES.index(_HASH_OF[same.by_key]), same.hashes_null, same.hashes_empty)


def _same(partitioner: object) -> type[HashPartitioner] | None:
    if partitioner is None:
        return Murmur2RandomPartitioner
    if isinstance(partitioner, str):
        known = KNOWN_CLASSES["partitioner"].get(partitioner)
        return _same(load_class(partitioner, "partitioner")) if known is None else _TARGETS.get(known)
    return _PARTITIONERS.get(partitioner if isinstance(partitioner, type) else type(partitioner))


def check_count(count: object) -> int:
    """Return the number of partitions of a topic if it can be one; raises ConfigError."""
    if type(count) is not int or not 1 <= count <= _PARTITIONS_MAX:
        raise ConfigError(f"A topic can't have {count!r} partitions: give an int from 1 to {_PARTITIONS_MAX}.")
    return count


class Partitions:
    """The partition of each key, in buffers that an Arrow array of int32 can be made of without a copy."""

    __slots__ = ("indexes", "present", "spread")

    def __init__(self, indexes: array[int], present: bytearray | None, spread: int) -> None:
        self.indexes = indexes
        """The partitions (int32), in the order of the keys."""
        self.present = present
        """A bitmap as Arrow has them, None if each key has a partition: a row whose bit is 0 has none and says 0."""
        self.spread = spread
        """How many keys don't dictate a partition."""

    def __len__(self) -> int:
        return len(self.indexes)


class Filling:
    """Partitions while they are found, column by column."""

    __slots__ = ("_count", "_filled", "_indexes", "_present", "_rule", "_spreads", "_turn", "spread")

    def __init__(self, rule: Rule, count: int, start: int | None) -> None:
        self._rule = rule
        self._count = count
        self._turn = start or 0
        self._spreads = start is not None
        self._indexes = array("i")
        self._present = bytearray()
        self._filled = 0
        self.spread = 0

    def add(self, keys: BytesColumn, counts: NumberColumn | None, length: int) -> None:
        """Find those of `length` more keys, with a count for each unless one for all was given."""
        at = self._filled
        self._indexes.frombytes(bytes(4 * length))
        self._present.extend(b"\xff" * ((at + length + 7) // 8 - len(self._present)))
        self._filled = at + length
        rule = self._rule
        indexes = self._indexes
        present = self._present
        count = self._count
        for row in range(length):
            if counts is not None:
                count = counts.value if counts.find(row) else 0
                if not 1 <= count <= _PARTITIONS_MAX:
                    raise InvalidRecordError(f"Row {at} has no number of partitions between 1 and {_PARTITIONS_MAX}.")
            is_hashed = rule.hashes_null
            if keys.find(row):
                is_hashed = keys.size > 0 or rule.hashes_empty
            if is_hashed:
                indexes[at] = partition_of(rule.kind, keys.data, keys.start, max(keys.size, 0), count)
            else:
                self.spread += 1
                indexes[at] = self._turn % count
                self._turn += 1
                if not self._spreads:
                    indexes[at] = 0
                    present[at >> 3] ^= 1 << (at & 7)
            at += 1

    def done(self) -> Partitions:
        """What was found."""
        return Partitions(self._indexes, None if self._spreads or not self.spread else self._present, self.spread)


def partitions_of(keys: Any, partitioner: object, count: Any, *, start: int | None = 0) -> Partitions:
    """The partition of each key of an Arrow array, or chunked array, of strings or byte strings of any layout.

    `partitioner` is one that hashes (`HASH_PARTITIONERS` has the names), `count` the number of all partitions: an int,
    or an Arrow array with one for each key. Keys that dictate no partition are spread evenly: the n-th of them goes to
    partition `(start + n) % count`, so continue with `start + spread`. With `start=None` they have none.
    Raises ConfigError for the arguments, InvalidRecordError for Arrow data that can't be keys or counts.
    """
    rule = rule_of(partitioner)
    if start is not None and start < 0:
        raise ConfigError(f"start is {start}, but it counts rows from 0.")
    each = None if isinstance(count, int) else arrays(count, is_integer, "the counts of partitions: give integers")
    filling = Filling(rule, check_count(count) if isinstance(count, int) else 0, start)
    for field, array_ in arrays(keys, is_bytes, "keys: give strings or byte strings"):
        counts = None
        if each is not None:
            found = next(each, None)
            if found is None or found[1].length != array_.length:
                raise InvalidRecordError("The Arrow data has not one count of partitions for each key.")
            counts = whole_number_column(*found)
        filling.add(whole_bytes_column(field, array_), counts, array_.length)
    if each is not None and next(each, None) is not None:
        raise InvalidRecordError("The Arrow data has more counts of partitions than keys.")
    return filling.done()


def arrays(data: Any, fits: Callable[[Field], bool], what: str) -> Iterator[tuple[Field, ArrowArray]]:
    """The arrays that an object exports; each is released when the next one is requested."""
    source = open_source(data)
    if not fits(source.field):
        raise InvalidRecordError(f"Arrow data of type {type_name(source.field)} can't be {what}.")
    while chunk := source.next():
        yield source.field, chunk.array
        chunk.release()
