"""Compare a topic three ways: what was sent, what aioprod reads, and what confluent-kafka reads with checksums."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from aioprod.reader import read
from aioprod.types import ConsumedRecord
from integration.brokers.broker import Broker
from integration.support.reading import read_topic

__all__ = ["ISOLATIONS", "WAIT_S", "Record", "check_stored", "same", "until"]

ISOLATIONS: Final = ("read_uncommitted", "read_committed")
WAIT_S: Final = 120.0
_POLL_S: Final = 0.05

T = TypeVar("T")


class Record(NamedTuple):
    """All of a record that is compared, but the topic; `timestamp` in ms since the epoch."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int

    @classmethod
    def of(cls, record: ConsumedRecord) -> Record:
        """One that aioprod has read."""
        headers = tuple((name, value) for name, value in record.headers)
        return cls(record.partition, record.offset, record.key, record.value, headers, record.timestamp)


async def check_stored(broker: Broker, topic: str, committed: Iterable[Record], aborted: Iterable[Record] = ()) -> None:
    """Compare a topic with what was sent to it; raises AssertionError with the first difference.

    `aborted` are the records of aborted transactions, which readers of committed records don't see.
    """
    visible = _in_order(committed)
    expected = {"read_uncommitted": _in_order([*visible, *aborted]), "read_committed": visible}
    for isolation in ISOLATIONS:
        # It waits for transactions that are still ending; ours reads to the end that is there when it begins.
        theirs = await asyncio.to_thread(read_topic, broker.bootstrap_servers, topic, isolation)
        same(
            f"confluent-kafka with {isolation}",
            _in_order(Record(*record[:6]) for record in theirs),
            expected[isolation],
        )
        ours = [
            Record.of(record)
            async for record in read(topic, bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation)
        ]
        same(f"aioprod.reader with {isolation}", _in_order(ours), expected[isolation])


def same(what: str, found: Sequence[T], expected: Sequence[T]) -> None:
    """Raises AssertionError that tells the number of both and the first difference."""
    if list(found) == list(expected):
        return
    index = next(
        (index for index, (one, other) in enumerate(zip(found, expected, strict=False)) if one != other),
        min(len(found), len(expected)),
    )
    raise AssertionError(
        f"{what}: {len(found)} found, {len(expected)} expected; the first difference is at {index}: "
        f"{_shown(found, index)} in place of {_shown(expected, index)}"
    )


async def until(what: str, found: Callable[[], Awaitable[object]], expected: object) -> None:
    """Ask until the answer is the expected one; raises AssertionError with the last one after two minutes."""
    deadline = time.monotonic() + WAIT_S
    while (last := await found()) != expected:
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: {last!r} in place of {expected!r} after {WAIT_S:.0f} s")
        await asyncio.sleep(_POLL_S)


def _in_order(records: Iterable[Record]) -> list[Record]:
    return sorted(records, key=lambda record: (record.partition, record.offset))


def _shown(records: Sequence[object], index: int) -> str:
    return repr(records[index])[:200] if index < len(records) else "nothing"
