"""Sending records of several topics with the calls for many records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

from aioprod.errors import BufferFullError
from aioprod.producer import Producer
from aioprod.relay.columns import ColumnRows
from aioprod.types import ProducerRecord, RecordMetadata

__all__ = ["Part", "Parts", "parts_of", "parts_of_columns", "send_all", "send_each"]


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


async def send_all(producer: Producer, parts: Parts) -> None:
    """Send records, and wait for their outcomes.

    Raises the error of the first record that failed, of a list of parts where several have.
    """
    outcomes = await asyncio.gather(*(_send(producer, in_turn) for in_turn in parts), return_exceptions=True)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


async def send_each(producer: Producer, records: Sequence[ProducerRecord]) -> list[RecordMetadata]:
    """Send records one by one, and return where they are; raises the error of the first that failed."""
    futures = []
    for record in records:
        while True:
            try:
                futures.append(producer.submit(record))
            except BufferFullError:
                await producer.drain()
            else:
                break
    await producer.flush()
    return [await future for future in futures]


async def _send(producer: Producer, in_turn: Sequence[Part]) -> None:
    for topic, partition, values, keys, headers, timestamps in in_turn:
        result = await producer.send_many(
            topic, values, keys=keys, partition=partition, headers=headers, timestamps=timestamps
        )
        for _, error in result.failures:
            raise error


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
