"""Work that comes in masses is done in slices: the event loop gets its turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aioprod import ProducerConfig
from aioprod.errors import NotSentError
from aioprod.interceptors import Interceptors
from aioprod.metrics import Counter
from aioprod.net.scheduler import Scheduler
from aioprod.producer.backpressure import MemoryWaiters
from aioprod.producer.batching.lifecycle import complete, land
from aioprod.producer.completions import Completions
from aioprod.producer.compressor import INLINE_S
from aioprod.producer.failure_reports import FailureReports
from aioprod.producer.logs.callback_faults import CallbackFaults
from aioprod.producer.meters import Meters
from aioprod.producer.outcomes import FAILED_PER_TURN
from aioprod.producer.sender import RAW_BATCHES, TURN_S, Sender
from aioprod.producer.settings import sender_settings
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.records.compression import Compression, inline_size
from aioprod.testing import FakeCluster
from tests.support.accumulators import Harness
from tests.support.producers import ShiftedClock, new_producer, pass_time, produced, running, turns


async def test_batches_that_expire_together_are_failed_some_in_each_turn(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options: dict[str, Any] = {"batch_size": 0, "delivery_timeout_ms": 60_000, "request_timeout_ms": 50_000}
    async with running(brokers, clock=clock, **options) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        count = 3 * FAILED_PER_TURN - 1
        futures = [producer.submit("t", b"v") for _ in range(count)]
        left: list[int] = []
        pass_time(producer, clock, 61.0)
        while producer.buffered.records:
            await turns(1)
            left.append(len(producer._engine.parts.accumulator.incomplete))
        assert {count - FAILED_PER_TURN, count - 2 * FAILED_PER_TURN, 0} == set(left) - {count}
        assert all(isinstance(future.exception(), NotSentError) for future in futures)
        await brokers[1].start()


async def test_what_is_compressed_on_the_loop_is_spread_over_requests_and_turns(brokers: FakeCluster) -> None:
    size = inline_size(Compression.GZIP, 9, INLINE_S)
    brokers.create_topic("t", partitions=3 * RAW_BATCHES)
    options: dict[str, Any] = {"compression_type": "gzip", "compression_gzip_level": 9, "batch_size": size}
    async with running(brokers, linger_ms=1_000_000, adaptive_linger=False, **options) as producer:
        await producer.partitions_for("t")
        compressor = producer._engine.parts.compressor
        assert compressor is not None
        compressor._timer = lambda: 0.0
        for partition in range(3 * RAW_BATCHES):
            producer.send_nowait("t", b"v" * (size - 200), partition=partition)
        await producer.flush()
    assert [len(request) for request in produced(brokers)] == [RAW_BATCHES] * 3


class Stepping:
    """A clock that runs on by `step_s` with each look at it."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 1000.0
        self.step_s = step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def test_brokers_take_turns_of_the_loop() -> None:
    asked: list[Callable[[], None]] = []
    harness = Harness()
    harness.lead({0: 1, 1: 2, 2: 3})
    queues = [harness.accumulator.queue(node_id) for node_id in (1, 2, 3)]
    nobody = cast(Any, None)
    sender = Sender(
        sender_settings(ProducerConfig.from_options(bootstrap_servers="h:1")),
        client=nobody,
        accumulator=harness.accumulator,
        completions=nobody,
        outcomes=nobody,
        meters=Meters(topics_max=9),
        compressor=None,
        clock=Stepping(TURN_S),
        turn=asked.append,
        wake_at=nobody,
        on_failure=nobody,
    )
    for queue in queues:
        queue.scheduled = True
        sender.drain_soon(queue)
    served: list[int] = []
    while asked:
        asked.pop()()
        served.append(sum(not queue.scheduled for queue in queues))
    assert served == [1, 2, 3]


@pytest.mark.parametrize("by", ["close", "failure"])
async def test_many_batches_fail_some_in_each_iteration(brokers: FakeCluster, by: str) -> None:
    brokers.create_topic("t")
    count = 3 * FAILED_PER_TURN - 1
    async with running(brokers, batch_size=0) as producer:
        await producer.partitions_for("t")
        await brokers[1].kill(stay_in_metadata=True)
        futures = [producer.submit("t", b"v") for _ in range(count)]
        left: list[int] = []
        if by == "failure":
            producer._engine.fail(RuntimeError("on purpose"))
        closing = asyncio.create_task(producer.close(0))
        while producer.buffered.records:
            left.append(len(producer._engine.parts.accumulator.incomplete))
            await turns(1)
        assert {count - FAILED_PER_TURN, count - 2 * FAILED_PER_TURN, 0} >= set(left) - {count}
        assert count - FAILED_PER_TURN in left
        assert all(isinstance(future.exception(), NotSentError) for future in futures)
        assert (await closing).not_sent == count


async def test_a_close_that_is_cancelled_meanwhile_fails_the_rest_at_once(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    count = 5 * FAILED_PER_TURN
    producer = new_producer(brokers.bootstrap, batch_size=0)
    await producer.start()
    await producer.partitions_for("t")
    await brokers[1].kill(stay_in_metadata=True)
    futures = [producer.submit("t", b"v") for _ in range(count)]
    closing = asyncio.create_task(producer.close(0))
    while len(producer._engine.parts.accumulator.incomplete) == count:
        await turns(1)
    task = producer._engine._closing
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert all(isinstance(future.exception(), NotSentError) for future in futures)
    assert producer.buffered == (0, 0)


def test_completions_have_one_time_slice_for_all_calls() -> None:
    asked: list[Callable[[], None]] = []
    harness = Harness()
    harness.lead({0: 1, 1: 1, 2: 1})
    raised: list[BaseException] = []
    loop = cast(Any, SimpleNamespace(call_soon=asked.append, create_future=object))
    clock = Stepping(2 * TURN_S)
    faults = CallbackFaults(clock)
    completions = Completions(
        harness.accumulator,
        loop=loop,
        clock=clock,
        interceptors=Interceptors(()),
        reports=FailureReports(None, clock=clock, scheduler=Scheduler(loop, clock), callback_faults=faults),
        callback_faults=faults,
        rules=TransactionRules(),
        meters=Meters(topics_max=9),
        memory_waiters=MemoryWaiters(
            harness.accumulator.budget, loop, clock, lambda: None, Counter("waits", "How long.")
        ),
        on_failure=raised.append,
    )
    for partition in range(3):
        harness.batch(partition=partition)
    for batch in harness.drain():
        land(harness.accumulator, batch, 0.0)
        complete(harness.accumulator, batch, 0.0)
        completions.succeed(batch, 0, -1)
    left: list[int] = []
    for _ in range(3):
        completions.run()
        completions.run()
        left.append(len(completions.batches()))
        assert len(asked) == 1
        asked.pop()()
    assert left == [2, 1, 0]
    assert completions.is_idle
    assert raised == []
