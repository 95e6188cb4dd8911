"""What operators read: a line at the start and one at the end, and two for a broker that is lost and comes back."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aioprod import Producer
from aioprod.messages import MetadataRequest, ProduceRequest
from aioprod.producer.lost_brokers import QUIET_S
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, start


class Log:
    """The lines of aioprod's loggers from a level on, as "LEVEL text"."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "aioprod")
        self._caplog = caplog

    def lines(self, level: int = logging.INFO) -> list[str]:
        """The lines, with their levels."""
        records = [each for each in self._caplog.records if each.name.startswith("aioprod.") and each.levelno >= level]
        return [f"{record.levelname} {record.getMessage()}" for record in records]

    def between(self) -> list[str]:
        """Those but the first and the last, which tell of the start and of the end."""
        first, *between, last = self.lines()
        assert first.startswith("INFO The producer is connected to cluster fake-cluster: ")
        assert last.startswith("INFO The producer is closed after ")
        return between


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Log:
    return Log(caplog)


def run(
    work: Callable[[FakeCluster, Producer], Coroutine[Any, Any, None]], *, brokers: int = 1, **options: Any
) -> None:
    """Run something with a producer that knows of the first broker, in made-up time."""

    async def main() -> None:
        async with FakeCluster(brokers) as cluster:
            producer = Producer("{}:{}".format(*cluster[1].address), **options)
            await start(producer, loop)
            await work(cluster, producer)
            await producer.close()

    with SimulatedLoop() as loop:
        loop.run(main())


def test_a_healthy_producer_logs_two_lines(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        for number in range(3000):
            producer.send_nowait(f"t{number % 7}", b"v")
        await producer.flush()
        await asyncio.sleep(3600.0)
        for number in range(1000):
            await producer.send(f"t{number % 9}", b"v")

    run(work, brokers=3, client_id="shop")
    first, last = log.lines()
    assert re.fullmatch(
        r"INFO Producer 'shop' is connected to cluster fake-cluster: 3 brokers, acks=all, idempotent, "
        r"(compiled|interpreted)",
        first,
    )
    assert re.fullmatch(
        r"INFO Producer 'shop' is closed after 36\d\d\.\d s \(closing took \d+ ms\): 4000 records delivered, "
        r"0 not sent, 0 unknown, 0 rejected",
        last,
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"acks": 1}, "1 broker, acks=1, not idempotent, "),
        ({"transactional_id": "till"}, "1 broker, acks=all, transactional.id=till, "),
    ],
)
def test_the_first_line_says_as_what_it_writes(options: dict[str, Any], said: str, log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        pass

    run(work, **options)
    assert said in log.lines()[0]


def test_connects_versions_and_metadata_are_logged_as_debug(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        await producer.send("t", b"v")

    run(work)
    text = "\n".join(log.lines(logging.DEBUG))
    for part in (
        r"DEBUG Connecting to 127.0.0.1:\d+, attempt 1$",
        r"DEBUG 127.0.0.1:\d+ is connected and speaks Produce \d+, .*Metadata \d+",
        r"DEBUG Metadata of cluster fake-cluster: brokers \[1\], changed topics: 1$",
        r"DEBUG The connection to Broker 1 at 127.0.0.1:\d+ was closed$",
    ):
        assert re.search(part, text, re.MULTILINE), part


def test_a_broker_that_is_lost_and_comes_back_takes_two_lines(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        cluster.create_topic("t", partitions=50)
        await producer.send("t", b"v")
        await cluster[1].kill(stay_in_metadata=True)
        await asyncio.sleep(0.1)
        sending = [asyncio.ensure_future(producer.send("t", b"v", partition=index)) for index in range(50)]
        await asyncio.sleep(20.0)
        await cluster[1].start()
        await asyncio.gather(*sending)

    run(work)
    lost, back = log.between()
    where = r"Broker 1 at (127\.0\.0\.1:\d+)"
    assert re.fullmatch(
        rf"WARNING {where} is lost, and 50 records wait for it: \1 can't be reached \(.*refused\)", lost
    )
    assert re.fullmatch(rf"INFO {where} is back after 2\d\.\d s", back)


def test_the_return_of_a_broker_whose_partitions_have_moved_is_logged(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        cluster.create_topic("t", partitions=3)
        for index in range(3):
            await producer.send("t", b"v", partition=index)
        held = cluster.fault(ProduceRequest, hold=True)
        sending = asyncio.ensure_future(producer.send("t", b"v", partition=1))
        await held.reached.wait()
        await cluster.kill(2)
        held.release()
        await sending
        await asyncio.sleep(20.0)
        await cluster.restart(2)
        await asyncio.sleep(60.0)

    run(work, brokers=3)
    lost, back = [line for line in log.between() if "is led by" not in line]
    assert re.search(r"WARNING Broker 2 at \S+ is lost, and 1 record waits for it: ", lost)
    assert re.search(r"INFO Broker 2 at \S+ is back after 2\d\.\d s", back)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_broker_that_stays_away_is_looked_for_less_and_less(is_named: bool, log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        cluster.create_topic("t")
        await producer.send("t", b"v", partition=0)
        held = cluster.fault(ProduceRequest, hold=True)
        sending = asyncio.ensure_future(producer.send("t", b"v", partition=0))
        await held.reached.wait()
        await cluster[1].kill(stay_in_metadata=is_named)
        cluster.move_leader("t", 0, 2)
        held.release()
        await sending
        before = len(cluster.seen_of(MetadataRequest))
        await asyncio.sleep(7200.0)
        asked.append(len(cluster.seen_of(MetadataRequest)) - before)

    asked: list[int] = []
    run(work, brokers=2)
    assert 24 <= asked[0] <= 66, "after a quarter of the time, then each five minutes as in any case"
    assert len([line for line in log.between() if line.startswith("WARNING Broker 1 at ")]) == 1


def test_a_broker_that_is_lost_with_records_on_the_way(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        cluster.create_topic("t")
        await producer.send("t", b"v")
        cluster.fault(ProduceRequest, drop="before")
        await producer.send("t", b"v")

    run(work)
    lost, back = log.between()
    assert re.search(r"is lost, and 1 record waits for it: The connection to Broker 1 at \S+ was lost|closed", lost)
    assert "is back after " in back


def test_a_broker_that_was_never_reached_is_not_called_lost(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        cluster.create_topic("t", partitions=2)
        await producer.partitions_for("t")
        await cluster[2].kill(stay_in_metadata=True)
        sending = asyncio.ensure_future(producer.send("t", b"v", partition=1))
        await asyncio.sleep(20.0)
        await cluster[2].start()
        await sending

    run(work, brokers=2)
    lost, back = log.between()
    assert re.search(r"WARNING Broker 2 at \S+ can't be reached, and 1 record waits for it: ", lost)
    assert re.search(r"INFO Broker 2 at \S+ is connected after 2\d\.\d s", back)


def test_records_for_a_topic_that_is_not_known_wait_for_any_broker(log: Log) -> None:
    async def work(cluster: FakeCluster, producer: Producer) -> None:
        await cluster[1].kill(stay_in_metadata=True)
        await asyncio.sleep(0.1)
        sending = asyncio.ensure_future(producer.send("t", b"v"))
        await asyncio.sleep(20.0)
        await cluster[1].start()
        await sending

    run(work)
    lost, back = log.between()
    assert "is lost, and 1 record waits for it: " in lost
    assert "is back after " in back


def test_a_broker_that_comes_and_goes_does_not_fill_the_log(log: Log) -> None:

    async def work(cluster: FakeCluster, producer: Producer) -> None:
        cluster.create_topic("t")
        cluster.fault(ProduceRequest, drop="before", times=30)
        begun = asyncio.get_running_loop().time()
        await producer.send("t", b"v")
        took_s.append(asyncio.get_running_loop().time() - begun)

    took_s: list[float] = []
    run(work)
    assert took_s[0] > 2 * QUIET_S, "in made-up time"
    assert 4 <= len(log.between()) <= 2 + 2 * took_s[0] / QUIET_S


def test_an_idle_connection_is_no_loss(log: Log) -> None:
    """Idle connections that are closed, by us or by the broker, and a broker that restarts meanwhile."""

    async def work(cluster: FakeCluster, producer: Producer) -> None:
        await producer.send("t", b"v")
        await asyncio.sleep(120.0)
        await producer.send("t", b"v")
        await cluster[1].cut()
        await asyncio.sleep(1.0)
        await producer.send("t", b"v")
        await cluster[1].kill(stay_in_metadata=True)
        await asyncio.sleep(30.0)
        await cluster[1].start()
        await producer.send("t", b"v")

    run(work, connections_max_idle_ms=10_000)
    assert "was closed" in "\n".join(log.lines(logging.DEBUG))
    assert log.between() == []
