"""Futures and the garbage collector: what is freed without it, what only it frees, and why futures stay tracked.

A future that the collector does not track would cost `submit` a third less. The last test shows what that would leak.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import aioprod
from aioprod.errors import ErrorCode, RejectedError
from aioprod.messages import ProduceRequest
from aioprod.producer.delivery_future import DeliveryFuture
from aioprod.testing import FakeCluster
from tests.support.producers import new_producer, running, turns


class Holder:
    """An object of a user that holds a future and is reachable from it."""

    future: asyncio.Future[Any] | None = None

    def on_done(self, future: object) -> None:
        """Be a callback of the future."""


def held() -> int:
    """How many futures of records there are."""
    return sum(type(each) is DeliveryFuture for each in gc.get_objects())


@pytest.fixture
def manual_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.mark.usefixtures("manual_collector")
async def test_acknowledged_records_leave_nothing_for_the_collector(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    before = held()
    async with running(brokers) as producer:
        for future in [producer.submit("t", b"v") for _ in range(1000)]:
            await future
        del future
        # The loop holds the future that it has just completed until its next iteration.
        await turns(1)
        assert held() == before


@pytest.mark.usefixtures("manual_collector")
async def test_the_collector_frees_the_traceback_of_an_error_and_the_future_that_its_frame_holds(
    brokers: FakeCluster,
) -> None:
    brokers.create_topic("t")
    before = held()
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)

        async def caller() -> RejectedError:
            future = producer.submit("t", b"v")
            try:
                await future
            except RejectedError as error:
                return error
            raise AssertionError

        error: RejectedError | None = await asyncio.create_task(caller())
        assert error is not None
        assert error.__traceback__ is not None
        del error
        # Futures with an error are held until it is clear that somebody has looked at them.
        producer._engine.parts.failure_reports.report_unread(closing=False)
        await turns(1)
        gc.collect()
        assert held() == before


@pytest.mark.usefixtures("manual_collector")
def test_the_collector_frees_pending_futures_of_a_producer_that_was_dropped() -> None:
    before = held()
    gone = asyncio.run(drop_a_producer())
    gc.collect()
    assert gone() is None
    assert held() == before


async def drop_a_producer() -> weakref.ref[Any]:
    """Leave a producer whose broker answers nothing, and a task that waits for it; the task, weakly."""
    async with FakeCluster(1) as brokers:
        brokers.create_topic("t")
        producer = new_producer(brokers.bootstrap)
        await producer.start()
        brokers.fault(ProduceRequest, hold=True)
        task = asyncio.create_task(wait_for(producer.submit("t", b"v")))
        await asyncio.sleep(0)
        gone = weakref.ref(task)
        del task
        await producer.close(0)
    return gone


async def wait_for(future: asyncio.Future[Any]) -> None:
    try:
        await future
    except Exception:  # the record was not delivered, which is not what this is about
        return


def cycles() -> list[Callable[[asyncio.AbstractEventLoop, Holder], asyncio.Future[Any]]]:
    def callback(loop: asyncio.AbstractEventLoop, holder: Holder) -> asyncio.Future[Any]:
        holder.future = DeliveryFuture(loop=loop)
        holder.future.add_done_callback(holder.on_done)
        return holder.future

    def result(loop: asyncio.AbstractEventLoop, holder: Holder) -> asyncio.Future[Any]:
        holder.future = DeliveryFuture(loop=loop)
        holder.future.set_result(holder)  # type: ignore[arg-type]  # anything that points back
        return holder.future

    def exception(loop: asyncio.AbstractEventLoop, holder: Holder) -> asyncio.Future[Any]:
        holder.future = DeliveryFuture(loop=loop)
        error = RuntimeError("on purpose")
        error.__dict__["holder"] = holder
        holder.future.set_exception(error)
        holder.future.exception()
        return holder.future

    return [callback, result, exception]


@pytest.mark.usefixtures("manual_collector")
@pytest.mark.parametrize("make", cycles())
@pytest.mark.parametrize("tracked", [True, False])
def test_only_a_tracked_future_in_a_cycle_is_freed(
    make: Callable[[asyncio.AbstractEventLoop, Holder], asyncio.Future[Any]], tracked: bool
) -> None:
    """A callback, a result or an error that leads back to the future: the collector must know the future to see it."""
    loop = asyncio.new_event_loop()
    holder = Holder()
    address = id(make(loop, holder))
    if not tracked:
        ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.c_void_p(address))
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert (gone() is None) == tracked
    left = gone()
    if left is not None:
        left.future = None
    loop.close()


@pytest.mark.parametrize(
    ("before", "after"),
    [((700, 10, 10), (50_000, 20, 50)), ((100_000, 30, 60), (100_000, 30, 60)), ((0, 10, 10), (0, 20, 50))],
)
def test_tune_raises_the_thresholds_of_the_collector_and_freezes_what_there_is(
    before: tuple[int, int, int], after: tuple[int, int, int]
) -> None:
    thresholds = gc.get_threshold()
    try:
        gc.set_threshold(*before)
        aioprod.tune()
        assert gc.get_threshold() == after
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("manual_collector")
async def test_a_tuned_process_frees_what_it_makes_later(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    thresholds = gc.get_threshold()
    try:
        aioprod.tune()
        before = held()
        async with running(brokers) as producer:
            holder = Holder()
            future = producer.submit("t", b"v")
            future.add_done_callback(holder.on_done)
            holder.future = future
            await future
            del future, holder
            await turns(1)
            gc.collect()
            assert held() == before
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
