"""How records of a source become runs."""

from __future__ import annotations

import asyncio

import pytest

from aioprod import ProducerRecord
from aioprod.errors import UsageError
from aioprod.relay.columns import Rows
from aioprod.relay.runs import RunReader
from aioprod.relay.sending import Sending
from tests.support.sources import ListSource


class HastySource(ListSource):
    """Its `wait` returns at once, whether there is more or not."""

    waits = 0

    async def wait(self) -> None:
        self.waits += 1
        assert self.waits < 10, "nobody else had a turn"


def prepare(rows: Rows) -> Sending:
    return Sending([], ())


def reader(source: ListSource) -> RunReader:
    return RunReader(source, lambda: 7.0)


async def test_a_source_that_does_not_wait_stops_nobody_else() -> None:
    source = HastySource()
    reading = asyncio.create_task(reader(source).next(None, prepare))
    await asyncio.sleep(0)
    source.put_numbers(1)
    run = await reading
    assert (run.position, run.read_at) == (b"1", 7.0)


async def sizes(source: ListSource, count: int) -> list[int]:
    """Those of the next runs."""
    runs, after, found = reader(source), None, []
    for _ in range(count):
        run = await runs.next(after, prepare)
        after = run.position
        found.append(len(run.rows))
    return found


async def test_full_runs_grow() -> None:
    source = ListSource()
    source.put_numbers(200_000)
    assert await sizes(source, 6) == [500, 2000, 8000, 32_000, 50_000, 50_000]


async def test_runs_of_large_records_stay_small() -> None:
    source = ListSource()
    source.put(*(ProducerRecord("t", b"x" * 100_000) for _ in range(1000)))
    assert await sizes(source, 3) == [500, 83, 83]


async def test_a_source_that_returns_too_many_records() -> None:
    class Generous(ListSource):
        async def read(self, after: bytes | None, limit: int):  # type: ignore[no-untyped-def]
            return await super().read(after, limit + 1)

    source = Generous()
    source.put_numbers(1000)
    with pytest.raises(UsageError, match="'shop' returned 501 records of 500 at most"):
        await reader(source).next(None, prepare)
