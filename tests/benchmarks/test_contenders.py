"""The contenders that need no broker but a fake one: what reads, what is imported, and programs."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from aioprod import COMPILED
from aioprod.records import Compression
from aioprod.testing import FakeCluster
from benchmarks import fake
from benchmarks.contenders import imports, programs, reading
from benchmarks.job import Job
from benchmarks.measure import Meter

BUILD: Any = "compiled" if COMPILED else "interpreted"


def job(client: str, call: str, records: int, address: str = "", **settings: Any) -> Job:
    given: dict[str, Any] = {"topics": ("records",), "partitions": 4, "warm_up": 0, "build": BUILD, **settings}
    return Job(client=client, call=call, records=records, bootstrap_servers=address, **given)


@pytest.mark.parametrize("call", [call for call, (_, library) in reading.CALLS.items() if library == "aioprod"])
@pytest.mark.parametrize("codec", ["NONE", "LZ4"])
async def test_each_of_our_calls_reads_all_records(call: str, codec: str) -> None:
    async with FakeCluster() as cluster:
        topic = cluster.create_topic("records", 4)
        records = fake.fill(topic.partitions, 100, Compression[codec], 2000)
        assert records >= 2000
        found = await reading.measure(job("reading", call, records, cluster.bootstrap, beat="none"), Meter())
    assert found.records == records
    assert found.cpu_us > 0
    assert list(found.versions) == ["aioprod"]


async def test_an_import_is_measured() -> None:
    found = await imports.measure(job("imports", "import", 1, imported="asyncio"), None)
    assert found.settings["modules"] > 20
    assert found.peak_mb > 1
    assert found.p50_us is not None
    assert min(found.cpu_us, found.p50_us) > 0


async def test_an_import_that_fails_is_said() -> None:
    with pytest.raises(RuntimeError, match="import nowhere failed: ModuleNotFoundError"):
        await imports.measure(job("imports", "import", 1, imported="nowhere"), None)


PRODUCE = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1]})
for line in sys.stdin.buffer:
    producer.produce("records", line[:-1], partition=0)
    producer.poll(0)
producer.flush()
"""


def use(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the program "one" be this one, which gets the broker's address and lines."""
    monkeypatch.setitem(
        programs.PROGRAMS,
        "one",
        (lambda given: [sys.executable, "-c", code, given.bootstrap_servers], True, lambda: {"one": "1"}),
    )


def measured(records: int, address: str) -> Any:
    """Run the program in a thread of its own, as the fake broker needs the loop."""
    return asyncio.run(programs.measure(job("programs", "one", records, address), None))


async def test_a_program_gets_lines_and_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, PRODUCE)
    async with FakeCluster() as cluster:
        topic = cluster.create_topic("records", 4)
        found = await asyncio.to_thread(measured, 1000, cluster.bootstrap)
        assert [len(record.value or b"") for record in topic.records()] == [100] * 1000
    assert found.records == 1000
    assert min(found.cpu_us, found.peak_mb, found.records_per_s) > 0
    assert found.versions == {"one": "1"}


@pytest.mark.parametrize(
    ("code", "error", "told"),
    [
        ("import sys; sys.stdin.read(); sys.exit('no such topic')", RuntimeError, "exit status 1: no such topic"),
        ("import sys; sys.stdin.read()", AssertionError, "0 of 1000 records were stored"),
    ],
)
async def test_a_program_that_sends_nothing_has_failed(
    monkeypatch: pytest.MonkeyPatch, code: str, error: type[Exception], told: str
) -> None:
    use(monkeypatch, code)
    async with FakeCluster() as cluster:
        cluster.create_topic("records", 4)
        with pytest.raises(error, match=told):
            await asyncio.to_thread(measured, 1000, cluster.bootstrap)
