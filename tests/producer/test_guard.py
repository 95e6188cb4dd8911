"""Where and when a producer can't be used: one clear sentence for each case."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aioprod import DeliveryReport, Producer
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    MetadataTimeoutError,
    ProducerClosedError,
    ProtocolError,
    UsageError,
)
from aioprod.messages import MetadataRequest
from aioprod.producer.guard import Guard, State
from aioprod.producer.guard import _after_fork as after_fork_in_child
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.testing import FakeCluster
from tests.support.producers import Spy, left_over, new_producer, running, turns

PLAIN_CALLS: list[Callable[[Producer], object]] = [
    lambda producer: producer.submit("t", b"v"),
    lambda producer: producer.send_nowait("t", b"v"),
]
AWAITED_CALLS: list[Callable[[Producer], Awaitable[object]]] = [
    lambda producer: producer.send("t", b"v"),
    lambda producer: producer.send_many("t", [b"v"]),
    lambda producer: producer.flush(),
    lambda producer: producer.drain(),
    lambda producer: producer.partitions_for("t"),
]


async def refusals(producer: Producer, kind: type[AioprodError] = UsageError) -> set[str]:
    """What each call of the API is refused with."""
    said: set[str] = set()
    for call in PLAIN_CALLS:
        with pytest.raises(kind) as raised:
            call(producer)
        said.add(str(raised.value))
    for awaited in AWAITED_CALLS:
        with pytest.raises(kind) as raised:
            await awaited(producer)
        said.add(str(raised.value))
    return said


async def test_before_start(brokers: FakeCluster) -> None:
    every: list[dict[str, Any]] = [{}, {"value_serializer": str.encode}]
    for options in every:
        (said,) = await refusals(new_producer(brokers.bootstrap, **options))
        assert "is not started" in said
        assert "async with" in said


async def test_after_close(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        pass
    assert await refusals(producer, ProducerClosedError) == {"The producer is closed and takes no more records."}


async def test_started_twice(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        with pytest.raises(UsageError, match="is running already: use it as it is"):
            await producer.start()
        await producer.close()
        with pytest.raises(UsageError, match="make a new one"):
            await producer.start()


async def test_used_while_it_starts(brokers: FakeCluster) -> None:
    held = brokers.fault(MetadataRequest, hold=True)
    producer = new_producer(brokers.bootstrap)
    starting = asyncio.create_task(producer.start())
    await held.reached.wait()
    with pytest.raises(UsageError, match=r"is still starting\. Hint: Await what starts it first"):
        producer.submit("t", b"v")
    with pytest.raises(UsageError, match="is starting already: use it as it is"):
        await producer.start()
    held.release()
    await starting
    await producer.close()


def from_another_loop(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run it in an event loop of another thread; what it returns or raises."""
    outcome: list[Any] = []

    async def main() -> Any:
        return await work()

    def run() -> None:
        try:
            outcome.append(asyncio.run(main()))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


async def test_from_another_event_loop(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        (said,) = from_another_loop(lambda: refusals(producer))
        assert "this is another event loop" in said
        assert "run_coroutine_threadsafe" in said
        closed = from_another_loop(producer.close)
        assert isinstance(closed, UsageError)
        assert (await producer.send("t", b"v")).offset == 0


async def test_from_a_thread_without_event_loop(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        for call in PLAIN_CALLS:
            with pytest.raises(UsageError, match="no event loop runs here") as raised:
                await asyncio.to_thread(call, producer)
            assert "run_coroutine_threadsafe" in str(raised.value)
        assert producer.buffered == (0, 0)


async def test_run_coroutine_threadsafe_is_the_way(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        loop = asyncio.get_running_loop()

        def send() -> int:
            return asyncio.run_coroutine_threadsafe(producer.send("t", b"v"), loop).result(10).offset

        assert await asyncio.to_thread(send) == 0


async def test_a_closed_producer_in_another_loop(brokers: FakeCluster) -> None:
    async with running(brokers) as producer:
        pass
    assert isinstance(from_another_loop(producer.start), UsageError)


def in_a_forked_child(work: Callable[[], str]) -> str:
    """Run it in a child process; what it says."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            said = work()
        except BaseException as error:
            said = repr(error)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


async def test_a_producer_that_has_failed_gives_the_hint_of_its_cause() -> None:
    guard = Guard(TransactionRules())
    guard.fail(UsageError("The loop ended.", hint="Close it before."))
    assert str(guard.error()) == "The producer has failed: The loop ended. Hint: Close it before."


async def test_in_a_forked_process(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    unstarted = new_producer(brokers.bootstrap)

    def run(awaitable: Any) -> str:
        try:
            awaitable.send(None)
        except StopIteration as stop:
            return repr(stop.value)
        except AioprodError as error:
            return str(error)
        return "waits"

    def child() -> str:
        said = set()
        for call in PLAIN_CALLS:
            try:
                call(producer)
            except UsageError as error:
                said.add(str(error))
        said |= {run(producer.flush()), run(producer.start()), run(producer.close())}
        return "|".join(sorted(said)) + "|" + unstarted._engine.guard.error().message

    async with running(brokers) as producer:
        closed, forked, fresh = in_a_forked_child(child).split("|")
        assert (await producer.send("t", b"v")).offset == 0, "the parent goes on"
    assert closed == repr(DeliveryReport())
    assert "before the process forked" in forked
    assert "start a producer in the child" in forked
    assert fresh == "The producer is not started."
    assert len(topic.records()) == 1


async def test_a_start_that_fails_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    producer = new_producer("127.0.0.1:1", max_block_ms=500)
    with pytest.raises(MetadataTimeoutError, match=r"127\.0\.0\.1:1") as raised:
        await producer.start()
    assert isinstance(raised.value.__cause__, BrokerConnectionError)
    assert left_over(before) == []
    assert await producer.close() == DeliveryReport()
    assert producer.buffered == (0, 0)
    (said,) = await refusals(producer, ProducerClosedError)
    assert "is closed" in said
    with pytest.raises(UsageError):
        await producer.start()


async def test_the_context_manager_raises_what_start_raises() -> None:
    before = asyncio.all_tasks()
    with pytest.raises(MetadataTimeoutError):
        async with new_producer("127.0.0.1:1", max_block_ms=10):
            raise AssertionError("not reached")
    assert left_over(before) == []


async def test_a_peer_that_is_no_broker() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    producer = new_producer(f"{host}:{port}")
    with pytest.raises(ProtocolError, match="HTTP"):
        await producer.start()
    await producer.close()
    server.close()
    await turns()


async def test_a_cancelled_start_leaves_nothing_behind(brokers: FakeCluster) -> None:
    before = asyncio.all_tasks()
    held = brokers.fault(MetadataRequest, hold=True)
    producer = new_producer(brokers.bootstrap)
    starting = asyncio.create_task(producer.start())
    await held.reached.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    held.release()
    assert left_over(before) == []
    assert await producer.close() == DeliveryReport()


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_close_while_it_starts_ends_the_start(brokers: FakeCluster, reachable: bool) -> None:
    before = asyncio.all_tasks()
    held = brokers.fault(MetadataRequest, hold=True)
    producer = new_producer(brokers.bootstrap if reachable else "127.0.0.1:1")
    starting = asyncio.create_task(producer.start())
    if reachable:
        await held.reached.wait()
    await turns()
    assert await producer.close() == DeliveryReport()
    with pytest.raises(ProducerClosedError, match="closed while it started"):
        async with asyncio.timeout(10):
            await starting
    held.release()
    held.end()
    assert left_over(before) == []


async def test_a_close_before_the_start_closes_what_was_given() -> None:
    spy = Spy()
    producer = new_producer("127.0.0.1:1", interceptors=[spy])
    await producer.close()
    await producer.close()
    assert spy.closed == 1


async def test_after_fork_marks_every_producer_that_lives(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        guard = producer._engine.guard
        after_fork_in_child()
        with pytest.raises(UsageError, match="before the process forked"):
            producer.submit("t", b"v")
        guard.forked = False
        guard.enter(State.RUNNING)


def test_a_guard_raises_with_the_cause_of_a_failure() -> None:
    guard = Guard(TransactionRules())
    guard.enter(State.RUNNING)
    cause = RuntimeError("it broke")
    guard.fail(cause)
    with pytest.raises(ProducerClosedError, match="it broke") as raised:
        guard.check()
    assert raised.value.__cause__ is cause
    guard.enter(State.CLOSED)
    with pytest.raises(ProducerClosedError, match="it broke"):
        guard.check()


async def test_a_start_that_could_not_import_its_parts_may_be_tried_again(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For instance with EMFILE; close() has nothing to end then."""
    producer, other = Producer(cluster.bootstrap, transactional_id="x"), Producer(cluster.bootstrap)
    monkeypatch.setattr("aioprod.wire.crc.function", lambda: (_ for _ in ()).throw(OSError("too many open files")))
    for each in (producer, other):
        with pytest.raises(OSError, match="too many"):
            await each.start()
    assert await other.close() == DeliveryReport()
    monkeypatch.undo()
    await producer.start()
    await producer.close()
