"""Sending records of several topics with the calls for many records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from aioprod._loops import look_at
from aioprod.errors import BufferFullError
from aioprod.producer import Producer
from aioprod.producer.bulk.call import BulkResult
from aioprod.relay.columns import ColumnRows, Rows
from aioprod.types import ProducerRecord, RecordMetadata, SendResult

__all__ = ["Part", "Parts", "Sending", "parts_of", "send", "sending_of"]


class Part(NamedTuple):
    """What one call of `send_many` takes."""

    topic: str
    partition: int | None
    values: list[Any]
    keys: list[Any] | None
    headers: list[Any] | None
    timestamps: list[Any] | None


Parts: TypeAlias = list[list[Part]]
"""Lists of parts may leave at once; within one, each part waits for the one before it."""


class Sending(NamedTuple):
    """How some rows are sent."""

    parts: Parts
    awaited: Sequence[int]
    """The indexes of the records whose places a caller waits for."""


def parts_of_columns(rows: ColumnRows) -> Parts | None:
    """The same for rows in columns, if they have one topic and no partitions; else None."""
    topics, partitions = rows.topics, rows.partitions
    if topics.count(topics[0]) < len(topics) or partitions.count(None) < len(partitions):
        return None
    columns = rows.values, _column(rows.keys), _column(rows.headers), rows.timestamps
    return [[Part(topics[0], None, *columns)]]


def parts_of(records: Sequence[ProducerRecord]) -> Parts:
    """Records as they are sent, in their order within each partition.

    Where only some of a topic's records name a partition, the others may go to the same one: then their parts wait for
    each other.
    """
    parts: Parts = []
    for of_topic in _grouped(records, [record.topic for record in records]):
        by_partition = _grouped(of_topic, [record.partition for record in of_topic])
        if len(by_partition) > 1 and any(group[0].partition is None for group in by_partition):
            parts.append([_part(list(group)) for _, group in groupby(of_topic, lambda record: record.partition)])
        else:
            parts += [[_part(group)] for group in by_partition]
    return parts


def sending_of(rows: Rows, awaited: Sequence[int], records_of: Callable[[Rows], list[ProducerRecord]]) -> Sending:
    """How rows are sent; `records_of` makes their records where columns will not do."""
    parts = parts_of_columns(rows) if isinstance(rows, ColumnRows) else None
    if parts is None:
        parts = parts_of(records_of(rows))
    return Sending(parts, awaited)


async def send(
    producer: Producer, rows: Rows, sending: Sending, records_of: Callable[[Rows], list[ProducerRecord]]
) -> dict[int, RecordMetadata]:
    """Send records, wait for their outcomes, and return where the awaited ones are, by their indexes.

    Raises the error of the first record that failed, of a list of parts where several have.
    """
    parts, awaited = sending
    is_one_call = len(parts) == 1 and len(parts[0]) == 1
    if awaited and not is_one_call:
        places = await _send_each(producer, records_of(rows))
        return {index: places[index] for index in awaited}
    outcomes = await asyncio.gather(*(_send_in_turn(producer, in_turn) for in_turn in parts), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    if not awaited:
        return {}
    (result,) = [outcome for outcome in outcomes if isinstance(outcome, BulkResult)]
    part = parts[0][0]
    return {index: _metadata(part, index, *place) for index, place in zip(awaited, result.places(awaited), strict=True)}


def _metadata(part: Part, index: int, partition: int, offset: int, append_time: int) -> RecordMetadata:
    key, value = None if part.keys is None else part.keys[index], part.values[index]
    timestamp = append_time
    if timestamp < 0 and part.timestamps is not None:
        timestamp = part.timestamps[index]
    return RecordMetadata(part.topic, partition, offset, timestamp, _size(key), _size(value))


def _size(data: Any) -> int:
    return -1 if data is None else len(data)


async def _send_each(producer: Producer, records: Sequence[ProducerRecord]) -> list[RecordMetadata]:
    futures = []
    for record in records:
        while True:
            try:
                futures.append(producer.submit(record))
            except BufferFullError:
                await producer.drain()
            else:
                break
        futures[-1].add_done_callback(look_at)  # The first error is enough.
    await producer.flush()
    return [await future for future in futures]


async def _send_in_turn(producer: Producer, in_turn: Sequence[Part]) -> SendResult | None:
    """Send parts, each after the one before it; returns the result of the last one."""
    result = None
    for topic, partition, values, keys, headers, timestamps in in_turn:
        result = await producer.send_many(
            topic, values, keys=keys, partition=partition, headers=headers, timestamps=timestamps
        )
        for _, error in result.failures:
            raise error
    return result


def _grouped(records: Sequence[ProducerRecord], names: list[Any]) -> list[Sequence[ProducerRecord]]:
    """The records of each name; `names` has one for each record."""
    if names.count(names[0]) == len(names):  # Nearly always, and this takes a tenth of the time.
        return [records]
    groups: dict[Any, list[ProducerRecord]] = {}
    for record, name in zip(records, names, strict=True):
        groups.setdefault(name, []).append(record)
    return list(groups.values())


def _part(records: Sequence[ProducerRecord]) -> Part:
    first = records[0]
    return Part(
        first.topic,
        first.partition,
        [record.value for record in records],
        _column([record.key for record in records]),
        _column([record.headers for record in records]),
        _column([record.timestamp for record in records]),
    )


def _column(values: list[Any]) -> list[Any] | None:
    """One value for each record, None where none has any."""
    if values[0] is None and values.count(None) == len(values):
        return None
    return values
