"""`SpooledLedger`: the records that spooled producers were given, and where they have to be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from aioprod.types import RecordMetadata

__all__ = ["Record", "SpooledLedger"]


@dataclass
class Record:
    """One record, and what its sender knows."""

    number: int
    topic: str
    key: bytes | None
    partition: int | None
    called_at: int
    """When the call began: a number that grows."""
    kept_at: int | None = None
    """When the call returned that it is on disk."""
    is_refused: bool = False
    places: list[RecordMetadata] = field(default_factory=list)
    """Where it is in Kafka, as the producer has said."""


class SpooledLedger:
    """Collects records, and checks them against the logs."""

    def __init__(self) -> None:
        self.records: dict[int, Record] = {}
        self._times = count(1)

    def begin(self, topic: str, key: bytes | None, partition: int | None) -> Record:
        """A call with a new record begins."""
        number = len(self.records)
        record = self.records[number] = Record(number, topic, key, partition, next(self._times))
        return record

    def keep(self, record: Record) -> None:
        """A call returns: the record is on disk."""
        record.kept_at = next(self._times)

    def check(self, logs: Mapping[tuple[str, int], Mapping[int, int]]) -> Iterable[str]:
        """What is wrong; `logs` has the number of the record at each offset of each partition, as readers see it."""
        found: dict[int, list[tuple[str, int, int]]] = defaultdict(list)
        for (topic, partition), log in logs.items():
            for offset, number in log.items():
                found[number].append((topic, partition, offset))
        for record in self.records.values():
            yield from self._check_record(record, found.get(record.number, []))
        for number in found.keys() - self.records.keys():
            yield f"record {number} was never sent"
        for (topic, partition), log in logs.items():
            yield from self._check_order(f"{topic}-{partition}", [self.records[log[offset]] for offset in sorted(log)])
        yield from self._check_keys(found)

    def _check_record(self, record: Record, places: list[tuple[str, int, int]]) -> Iterable[str]:
        number = record.number
        if len(places) > 1:
            yield f"record {number} is there {len(places)} times: {places}"
        if record.kept_at is not None and not places:
            yield f"record {number} was kept, and is lost"
        if record.is_refused and places:
            yield f"record {number} was refused, and is there"
        for topic, partition, _ in places:
            if topic != record.topic or record.partition not in (None, partition):
                yield f"record {number} is in {topic}-{partition}"
        for place in record.places:
            # Of a batch that a broker has called a duplicate the offset is not known.
            offsets = [place.offset] if place.offset >= 0 else [offset for _, _, offset in places]
            if not any((place.topic, place.partition, offset) in places for offset in offsets):
                yield f"record {number} was said to be at {place}, and is at {places}"
        if len(record.places) > 1:
            yield f"the place of record {number} was reported {len(record.places)} times"

    def _check_order(self, name: str, records: list[Record]) -> Iterable[str]:
        """A record that was kept before another one's call began is before it."""
        first_kept = None
        for record in reversed(records):
            if first_kept is not None and first_kept.kept_at is not None and first_kept.kept_at < record.called_at:
                yield f"in {name} record {record.number} is before {first_kept.number}, which was kept before its call"
            if record.kept_at is not None and (
                first_kept is None or first_kept.kept_at is None or record.kept_at < first_kept.kept_at
            ):
                first_kept = record

    def _check_keys(self, found: Mapping[int, list[tuple[str, int, int]]]) -> Iterable[str]:
        """Records of a key that name no partition are in one."""
        partitions: dict[tuple[str, bytes], set[int]] = defaultdict(set)
        for number, places in found.items():
            record = self.records.get(number)
            if record is not None and record.key is not None and record.partition is None:
                partitions[record.topic, record.key].update(partition for _, partition, _ in places)
        for (topic, key), several in partitions.items():
            if len(several) > 1:
                yield f"records of the key {key!r} are in partitions {sorted(several)} of {topic}"
