"""How long a close may take by a setting, what it says while it waits, and what those are told that it gives up."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest

from aioprod import Producer, ProducerConfig
from aioprod.errors import DeliveryError, NotSentError, ProducerClosedError, UnknownOutcomeError
from aioprod.messages import EndTxnRequest, MetadataRequest, ProduceRequest
from aioprod.producer.closing import CloseLimit
from aioprod.producer.mass_failure import MassFailure
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, start


def closed(
    prepare: Callable[[FakeCluster, Producer], Awaitable[None]], close: float | None = None, **options: Any
) -> tuple[float, tuple[DeliveryError, ...]]:
    """Close a producer after `prepare`, in made-up time: how many seconds that took, and what was given up."""

    async def main() -> tuple[float, tuple[DeliveryError, ...]]:
        async with FakeCluster(1) as cluster:
            cluster.create_topic("t")
            producer = Producer(cluster.bootstrap, **options)
            await start(producer, loop)
            await prepare(cluster, producer)
            begun = loop.time()
            report = await producer.close(close)
            return loop.time() - begun, report.undelivered

    with SimulatedLoop() as loop:
        return loop.run(main())


def waits(caplog: pytest.LogCaptureFixture) -> list[str]:
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    return [text for text in texts if text.startswith("Closing: ")]


async def silent(cluster: FakeCluster, producer: Producer) -> None:
    """Ten records are on their way to a broker that does not answer."""
    await producer.partitions_for("t")
    cluster.fault(ProduceRequest, hold=True, times=None)
    for _ in range(10):
        producer.send_nowait("t", b"v")


async def dead(cluster: FakeCluster, producer: Producer) -> None:
    """Ten records wait for a broker that is gone."""
    await producer.send("t", b"v")
    await cluster[1].kill(stay_in_metadata=True)
    await asyncio.sleep(0.1)
    for _ in range(10):
        producer.send_nowait("t", b"v")


async def unknown(cluster: FakeCluster, producer: Producer) -> None:
    """A record waits for a topic that no broker tells of."""
    cluster.fault(MetadataRequest, hold=True, times=None)
    producer.send_nowait("new", b"v")


@pytest.mark.parametrize(
    ("timeout", "options", "seconds", "name"),
    [
        (None, {}, None, "close()"),
        (None, {"close_timeout_ms": 2000}, 2.0, "close.timeout.ms=2000"),
        (5, {"close_timeout_ms": 2000}, 5, "close(timeout=5)"),
        (math.inf, {"close_timeout_ms": 2000}, None, "close(timeout=inf)"),
        (None, {"close_timeout_ms": 0}, 0.0, "close.timeout.ms=0"),
    ],
)
def test_what_limits_a_close(timeout: float | None, options: dict[str, Any], seconds: float | None, name: str) -> None:
    limit = CloseLimit(timeout, ProducerConfig(bootstrap_servers=("localhost:9092",), **options))
    assert (limit.seconds, limit.name) == (seconds, name)


def test_the_setting_limits_a_close_without_a_time() -> None:
    took_s, errors = closed(silent, close_timeout_ms=3000)
    assert 2.9 <= took_s <= 3.2, "in made-up time"
    assert len(errors) == 10
    assert all(isinstance(error, UnknownOutcomeError) for error in errors)
    assert "were not delivered: close.timeout.ms=3000 ended first. Broker 1 has not answered." in errors[0].message


def test_the_end_of_a_block_is_limited_by_the_setting(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> float:
        async with FakeCluster(1) as cluster:
            cluster.create_topic("t")
            async with Producer(cluster.bootstrap, close_timeout_ms=0) as producer:
                await silent(cluster, producer)
                begun = loop.time()
            return loop.time() - begun

    with SimulatedLoop() as loop:
        assert loop.run(main()) < 0.5, "in made-up time"
    assert (
        "10 records of t-0 were not delivered, without on_delivery or future: the producer was closed." in caplog.text
    )


def test_without_the_setting_the_deadlines_of_the_records_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod")
    took_s, errors = closed(silent, request_timeout_ms=60_000, delivery_timeout_ms=65_000)
    assert 64.0 <= took_s <= 66.0, "in made-up time"
    assert "delivery.timeout.ms=65000 has passed" in errors[0].message
    assert len(waits(caplog)) == 7
    assert waits(caplog)[0].startswith(
        "Closing: waiting up to 64 s for 10 records, the oldest of t-0: 1 batch is on the "
    )


def test_failed_records_have_the_reason_in_their_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod")
    _, errors = closed(dead, close=2.2)
    assert len(errors) == 10
    assert isinstance(errors[0], NotSentError)
    assert "were not delivered: close(timeout=2.2) ended first. Broker 1 at " in errors[0].message
    assert "can't be reached (" in errors[0].message
    (text,) = waits(caplog)
    assert text.startswith("Closing: waiting up to 2 s for 10 records, the oldest of t-0: Broker 1 at ")
    assert "can't be reached (" in text


def test_a_close_that_ends_with_its_loop_has_the_reason_and_the_report(caplog: pytest.LogCaptureFixture) -> None:
    """As after Ctrl-C for the second time: the loop cancels all tasks, that of the close among them."""
    caplog.set_level(logging.INFO, "aioprod")

    async def main() -> None:
        async with FakeCluster(1) as cluster:
            cluster.create_topic("t")
            producer = Producer(cluster.bootstrap)
            await start(producer, loop)
            await dead(cluster, producer)
            closing = asyncio.create_task(producer.close())
            await asyncio.sleep(1)
            for task in asyncio.all_tasks():
                if task.get_name() == "aioprod close":
                    task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing

    with SimulatedLoop() as loop:
        loop.run(main())
    assert "without on_delivery or future: close() was cancelled first. Broker 1 at " in caplog.text
    assert "can't be reached (" in caplog.text
    assert ": 1 record delivered, 10 not sent, 0 unknown, 0 rejected" in caplog.text


def test_records_of_a_topic_that_is_not_known_have_the_reason_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod")
    _, (error,) = closed(unknown, close=2)
    assert "The metadata of topic 'new' was requested 1 time within " in error.message
    (text,) = waits(caplog)
    assert "for 1 record, the oldest for topic 'new': The metadata of topic 'new' was requested 1 time" in text


def test_a_close_logs_that_a_transaction_is_being_ended(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod")

    async def prepare(cluster: FakeCluster, producer: Producer) -> None:
        await producer.begin_transaction()
        await producer.send("t", b"v")
        cluster.fault(EndTxnRequest, hold=True, times=None)

    closed(prepare, close=3.2, transactional_id="till")
    assert waits(caplog) == ["Closing: waiting up to 3 s for the transaction to be ended"]


def test_a_close_that_is_soon_done_says_nothing_of_waiting(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod")

    async def prepare(cluster: FakeCluster, producer: Producer) -> None:
        producer.send_nowait("t", b"v")

    took_s, errors = closed(prepare)
    assert took_s < 0.5, "in made-up time"
    assert errors == ()
    assert waits(caplog) == []


def test_a_cancelled_close_says_so_and_why(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> DeliveryError:
        async with FakeCluster(1) as cluster:
            cluster.create_topic("t")
            producer = Producer(cluster.bootstrap)
            await start(producer, loop)
            await dead(cluster, producer)
            closing = asyncio.ensure_future(producer.close())
            await asyncio.sleep(1.0)
            closing.cancel()
            await asyncio.wait([closing])
            return (await producer.close()).undelivered[0]

    with SimulatedLoop() as loop:
        error = loop.run(main())
    assert "were not delivered: close() was cancelled first. Broker 1 at " in error.message


def test_what_a_topic_waited_for_is_in_the_error_with_its_hint() -> None:
    explainer = Mock()
    explainer.topic_unknown.return_value = "No broker could be asked."
    ending = MassFailure("It ended.", ProducerClosedError("It is closed.", hint="Start another."), explainer=explainer)
    error = ending.of_topic(Mock())
    assert (type(error), str(error)) == (
        ProducerClosedError,
        "It is closed. No broker could be asked. Hint: Start another.",
    )
