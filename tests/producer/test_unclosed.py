"""A producer, reader, member or admin that nobody closes: it warns, and leaves nothing behind; no record vanishes."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final

import pytest

from aioprod import Producer
from aioprod.admin import Admin
from aioprod.errors import NotSentError, ProducerClosedError, UnknownOutcomeError
from aioprod.group import Member
from aioprod.messages import ProduceRequest
from aioprod.producer.transactions.session import TransactionSession
from aioprod.reader import Reader
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop, start
from tests.support.producers import left_over, new_producer, until

pytestmark = pytest.mark.usefixtures("patient")

OTHERS: Final[dict[str, Callable[[str], Any]]] = {
    "reader": Reader,
    "member": lambda servers: Member(servers, group_id="g", topics="t"),
    "member of a pattern": lambda servers: Member(servers, group_id="g", topics=re.compile("t")),
    "admin client": Admin,
    "transaction session": lambda servers: TransactionSession(servers, transactional_id="load"),
}


def connections(brokers: FakeCluster) -> int:
    return sum(len(broker._connections) for broker in brokers.brokers.values())


def let_go(held: list[Any]) -> None:
    """Refer to these no more."""
    held.clear()
    gc.collect()


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_producer_that_is_dropped_warns_and_is_closed(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    before = asyncio.all_tasks()
    producer = new_producer(brokers.bootstrap, client_id="shop")
    await producer.start()
    await producer.send("t", b"v")
    with pytest.warns(ResourceWarning, match="Unclosed Producer 'shop': use `async with`, or `await producer.close"):
        del producer
    await until(lambda: not left_over(before) and not connections(brokers))
    assert warnings_of(caplog) == []


async def test_a_producer_per_request_leaves_nothing_behind(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    before = asyncio.all_tasks()

    async def handle() -> None:
        producer = new_producer(brokers.bootstrap)
        await producer.start()
        await producer.send("t", b"v")

    for _ in range(5):
        with pytest.warns(ResourceWarning, match="Unclosed Producer: use `async with`"):
            await handle()
    await until(lambda: not left_over(before) and not connections(brokers))


async def test_what_a_dropped_producer_had_accepted_is_delivered(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = brokers.create_topic("t")
    producer = new_producer(brokers.bootstrap, linger_ms=60_000, adaptive_linger=False)
    await producer.start()
    await producer.partitions_for("t")
    future = producer.submit("t", b"0")
    for _ in range(9):
        producer.send_nowait("t", b"v")
    with pytest.warns(ResourceWarning, match="Unclosed Producer"):
        del producer
    await future
    assert len(topic.records()) == 10
    (text,) = warnings_of(caplog)
    assert text.startswith("The producer was dropped without being closed, and is closed when 10 records have their ")


def test_undelivered_records_are_logged_as_by_a_close(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> BaseException | None:
        async with FakeCluster(1) as cluster:
            cluster.create_topic("t")
            producer = Producer(cluster.bootstrap, close_timeout_ms=3000)
            await start(producer, loop)
            await producer.partitions_for("t")
            cluster.fault(ProduceRequest, hold=True, times=None)
            future = producer.submit("t", b"v")
            producer.send_nowait("t", b"w")
            with pytest.warns(ResourceWarning, match="Unclosed Producer"):
                del producer
            await asyncio.wait([future])
            return future.exception()

    with SimulatedLoop() as loop:
        error = loop.run(main())
    assert isinstance(error, UnknownOutcomeError)
    assert "close.timeout.ms=3000 ended first" in error.message
    assert "2 records of t-0 were not delivered, 1 of them without on_delivery or future: " in caplog.text


async def test_a_pending_send_keeps_the_producer(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    before = asyncio.all_tasks()
    producer = new_producer(brokers.bootstrap)
    await producer.start()
    held = brokers.fault(ProduceRequest, hold=True)
    sending = asyncio.create_task(producer.send("t", b"v"))
    del producer
    await held.reached.wait()
    gc.collect()
    held.release()
    with pytest.warns(ResourceWarning, match="Unclosed Producer"):
        await sending
    await until(lambda: not left_over(before))


async def test_a_producer_may_be_dropped_in_another_thread(brokers: FakeCluster) -> None:
    before = asyncio.all_tasks()
    held = [new_producer(brokers.bootstrap)]
    await held[0].start()
    with pytest.warns(ResourceWarning, match="Unclosed Producer"):
        await asyncio.to_thread(held.clear)
    await until(lambda: not left_over(before))


async def test_one_that_was_closed_or_never_started_does_not_warn(brokers: FakeCluster) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for begins in (True, False):
            for make in (new_producer, *OTHERS.values()):
                one = make(brokers.bootstrap)
                if begins:
                    await one.start()
                    await one.close()
                del one
        gc.collect()
    assert [str(one.message) for one in told if "Unclosed" in str(one.message)] == []


@pytest.mark.parametrize("name", OTHERS)
async def test_others_that_are_dropped_warn_and_are_closed(brokers: FakeCluster, name: str) -> None:
    brokers.create_topic("t")
    before = asyncio.all_tasks()
    held = [OTHERS[name](brokers.bootstrap)]
    await held[0].start()
    name = name.partition(" of ")[0]
    if name == "member":
        await until(lambda: held[0].assignment)
    with pytest.warns(ResourceWarning, match=f"Unclosed {name}: use `async with`, or await its close"):
        let_go(held)
    await until(lambda: not left_over(before) and not connections(brokers))


# -- the end of the loop ---------------------------------------------------------------------------------------------


def run_and_leave(held: list[Any], *, stays: bool, waits: bool) -> None:
    """Leave a producer that was not closed when the loop ends; `stays`: somebody still refers to it after that."""

    async def main() -> None:
        cluster = FakeCluster(1)
        await cluster.__aenter__()
        cluster.create_topic("t")
        producer = new_producer(cluster.bootstrap)
        await producer.start()
        await producer.partitions_for("t")
        if waits:
            fault = cluster.fault(ProduceRequest, hold=True, times=None)
            held.append(producer.submit("t", b"v"))
            producer.send_nowait("t", b"w")
            await fault.reached.wait()
        if stays:
            held.append(producer)

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore:Unclosed producer:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stays", [True, False])
def test_the_end_of_the_loop_says_what_to_write_instead(stays: bool, caplog: pytest.LogCaptureFixture) -> None:
    held: list[Any] = []
    run_and_leave(held, stays=stays, waits=True)
    lines = warnings_of(caplog)
    (ended,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ended.startswith("The producer was ")
    assert ended.endswith(
        " its event loop ended, and 2 records have no outcome. Use `async with Producer(...)`, or "
        "`await producer.close()`."
    )
    assert isinstance(held[0].exception(), (UnknownOutcomeError, NotSentError))
    assert any("2 records of t-0 were not delivered, 1 of them without on_delivery" in line for line in lines)
    assert "Traceback" not in caplog.text
    if stays:
        with pytest.raises(ProducerClosedError, match="its event loop ended before the producer was closed"):
            held[1].submit("t", b"v")


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_is_dropped_after_the_end_of_the_loop_warns() -> None:
    held: list[Any] = []
    run_and_leave(held, stays=True, waits=False)
    with pytest.warns(ResourceWarning, match="Unclosed Producer"):
        let_go(held)


def test_one_that_lives_until_the_interpreter_ends_leaves_nothing_on_the_terminal() -> None:
    # sys is emptied after all other modules, those of aioprod included.
    program = "import sys; from aioprod import Producer; sys.kept = Producer('localhost:9092')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (run.stdout, run.stderr) == ("", "")
