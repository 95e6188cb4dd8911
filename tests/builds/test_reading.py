"""Records on their way to a user: both builds give the same ones, and stop at the same place."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builds.test_records import DAMAGE, RECORDS, Record, filled
from tests.support.builds import Build, check_same, plain

CALLS = st.lists(st.sampled_from(["next", "step"]) | st.integers(1, 40), max_size=40)
"""Calls of one by one, and how many to take at once."""
TURNS = st.lists(st.sampled_from(["take", "take", "take", "offer", "withdraw", "late"]), max_size=40)


def fetched(build: Build, data: bytes, start: int, end: int) -> Iterator[Any]:
    tp = build["aioprod.types"].TopicPartition("t", 3)
    batches = build["aioprod.records.parser"].parse_batches(data, verify_crc=False, decompressed_max=1 << 20)
    return (build["aioprod.reader.fetching"].FetchedBatch(tp, batch, start, end) for batch in batches)


def stored(records: list[Record], codec: int = 0) -> bytearray:
    def call(build: Build) -> bytes:
        builder, _ = filled(build, records, 120_000)
        builder.seal(codec=codec, level=None)
        return bytes(builder.wire(0, False))[8:]

    return bytearray(check_same(call))


def taken(records: Any, call: str | int) -> Any:
    if isinstance(call, int):
        return records.some(call)
    return getattr(records, call)()


@given(RECORDS, st.integers(0, 4), DAMAGE, st.integers(0, 12), st.integers(0, 14), CALLS)
@settings(max_examples=150)
def test_consumed_records(
    records: list[Record],
    codec: int,
    damage: list[tuple[int, int]],
    start: int,
    end: int,
    calls: list[str | int],
) -> None:
    data = stored(records, codec)
    for at, byte in damage:
        data[61 + at % (len(data) - 61)] = byte

    def call(build: Build) -> object:
        said: list[object] = []
        for one in fetched(build, bytes(data), start, end):
            try:
                consumed = one.consumed()
                said.extend(plain(taken(consumed, each)) for each in calls)
            except build["aioprod.errors"].CorruptRecordError as error:
                said.append(str(error))
        return said

    check_same(call)


@given(RECORDS, TURNS)
def test_records_available(records: list[Record], turns: list[str]) -> None:
    data = bytes(stored(records))

    def call(build: Build) -> object:
        (one,) = fetched(build, data, 0, 1 << 40)
        batch = build["aioprod.group.open_batch"].OpenBatch(one)
        available = build["aioprod.group.available_records"].AvailableRecords()
        said = []
        for turn in turns:
            match turn:
                case "take":
                    said.append(plain(available.take()))
                case "withdraw":
                    available.withdraw()
                case _:
                    batch.records = batch.records or batch.to_read.consumed()
                    available.offer(batch, lambda: 1.0, math.inf if turn == "offer" else 1.0)
            said.append((batch.offset, available.returned))
        return said

    check_same(call)
