"""An event loop in a thread of its own, and the producer that lives in it, from the first call to the close."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

from aioprod._logger import Logger
from aioprod._loops import call_in_loop
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, BufferFullError, FlushTimeoutError, ProducerClosedError, UsageError
from aioprod.producer.bulk.send_many import RECORDS_PER_TURN
from aioprod.producer.closing import CloseLimit
from aioprod.producer.logs.milestones import named
from aioprod.sync import processes
from aioprod.sync.call import Call
from aioprod.sync.entry import Entry
from aioprod.sync.executor import Executor
from aioprod.sync.inbox import Inbox
from aioprod.sync.loop_producer import LoopProducer
from aioprod.sync.real_threads import check_real_threads
from aioprod.sync.record_future import RecordFuture
from aioprod.sync.unsent import Unsent
from aioprod.types import DeliveryReport, ErrorCallback, ProducerRecord

__all__ = ["Session"]

T = TypeVar("T")

_logger = Logger("aioprod.producer")

_EXIT_S: Final = 10.0
"""How long the end of the interpreter waits for outcomes, unless `close.timeout.ms` says."""
_GRACE_S: Final = 5.0
"""How much longer than it may take a close can take before the thread counts as blocked."""
NAME: Final = "aioprod.sync.Producer"


class Session:
    """One producer in one thread, which starts with the first call.

    The calls of all threads go through `inbox`, in order. `failure` is why the session ended by itself, if it did; when
    its producer could not be started, another session may be made.
    """

    def __init__(self, config: ProducerConfig, on_error: ErrorCallback | None) -> None:
        check_real_threads()
        self._config = config
        self._on_error = on_error
        self._producer = LoopProducer(config, on_error)
        self.preparation = self._producer.preparation
        self._unsent = Unsent(self.preparation, on_error)
        self.inbox = Inbox(
            limit=config.buffer_memory,
            request_size_max=config.max_request_size,
            timestamp_ms=self.preparation.timestamp_ms,
            wake=self._wake,
            failed=self._unsent.fail,
        )
        self.failure: BaseException | None = None
        self.was_started = False
        self._in_flight: set[RecordFuture] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._bell = asyncio.Event()
        self._is_closing = False
        self._ends_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended: Future[DeliveryReport] = Future()
        # From the first call on.
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._life: asyncio.Task[DeliveryReport]

    # --- calls, in any thread

    def submit(self, entry_of: Callable[[RecordFuture], Entry]) -> RecordFuture | None:
        """Take the record that `entry_of` makes of its future, and wait up to `max.block.ms` for room.

        None when the inbox is closed.
        """
        future = RecordFuture(self._in_flight, self._unseen)
        entry = entry_of(future)
        if self._on_error is not None:
            # `on_error` gets the record with the error when the future is dropped.
            future.keep(entry.record())
        try:
            is_taken = self.inbox.enter(entry)
        except BufferFullError:
            if self.is_here:
                raise
            is_taken = self._enter_with_room(entry)
        return future if is_taken else None

    def _enter_with_room(self, entry: Entry) -> bool:
        call = Call(partial(self._reserve_and_enter, entry))
        if not self.inbox.call(call):
            return False
        timeout_s = self._config.max_block_ms / 1000
        if not call.ended_within(timeout_s):
            call.cancel()
        try:
            call.result()
        except CancelledError:
            held = self.inbox.buffered()
            raise BufferFullError(
                f"buffer.memory={self._config.buffer_memory} stayed full for {timeout_s:g} s: {held.records} records "
                f"with {held.bytes} bytes wait for their delivery.",
                hint="The cluster takes less than is sent, or can't be reached; raise buffer.memory or send less.",
            ) from None
        return True

    def run(self, name: str, work: Callable[[LoopProducer], Coroutine[Any, Any, T]]) -> Call[T] | None:
        """Have the loop run `work` of its producer after all earlier calls; None when the inbox is closed.

        Raises UsageError in the thread of the loop, which would wait for itself; `name` is that of the call.
        """
        self.check_may_wait(name)
        call = Call(partial(work, self._producer))
        return call if self.inbox.call(call) else None

    def flush(self, timeout: float | None) -> bool:
        """As `Producer.flush`; False when the inbox is closed."""
        if self._thread is None:
            return True
        ends_at = None if timeout is None else time.monotonic() + timeout

        def work(producer: LoopProducer) -> Coroutine[Any, Any, None]:
            return producer.flush(None if ends_at is None else max(0.0, round(ends_at - time.monotonic(), 3)))

        call = self.run("flush", work)
        if call is None:
            return False
        if not call.ended_within(timeout) and call.withdraw():
            left = self.inbox.buffered().records
            raise FlushTimeoutError(
                f"{left} records have no outcome after flush waited for {timeout:g} s; they stay accepted.",
                remaining=left,
                hint="Their own deadline is delivery.timeout.ms.",
            )
        call.result()
        return True

    def read(self, of: Callable[[LoopProducer], T]) -> T:
        """Call `of` with the producer, at once and in its thread while that runs, and return the result."""
        ended = self._ended  # Before the thread is looked at: one that can't be started ends this one.
        if self._thread is None or self.is_here:
            return of(self._producer)
        try:
            future = call_in_loop(self._loop, partial(of, self._producer))
        except RuntimeError:  # The loop was closed meanwhile.
            return of(self._producer)
        either: list[Future[Any]] = [future, ended]
        wait(either, return_when=FIRST_COMPLETED)
        return future.result() if future.done() else of(self._producer)

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of the thread; None before that has started."""
        return None if self._thread is None else self._loop

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is that of the loop, as in callbacks."""
        return threading.current_thread() is self._thread

    def check_may_wait(self, name: str) -> None:
        """Raise UsageError in the thread of the loop."""
        if self.is_here:
            raise UsageError(
                f"{name}() waits, and was called in the thread of the producer itself, in which callbacks run.",
                hint="Call submit() or send_nowait() there, or let another thread wait.",
            )

    def _wake(self) -> None:
        """Start the thread, or have its loop look into the inbox; the inbox calls it for one thread at a time."""
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._bell.set)
            return
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=NAME, daemon=True)
        processes.started(self)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._thread = None
            processes.ended(self)
            self._loop.close()
            ended, self._ended = self._ended, Future()
            failure = UsageError(f"The thread of {NAME} can't be started: {error}.")
            ended.set_exception(failure)
            raise failure from error

    # --- the end, in any thread

    def begin_close(self, timeout: float | None) -> None:
        """Take no more calls; the thread ends when the records have their outcomes, or after `timeout` seconds."""
        self.inbox.close()
        if self._thread is not None:
            with suppress(RuntimeError):  # The loop has ended.
                self._loop.call_soon_threadsafe(self._begin_close, timeout)

    def close(self, timeout: float | None) -> DeliveryReport:
        """Close, and wait for the end of the thread; a close that was begun before continues unchanged."""
        self.check_may_wait("close")
        self.begin_close(timeout)
        if self._thread is None:
            return DeliveryReport()
        limit_s = CloseLimit(timeout, self._config).seconds
        if not wait([self._ended], None if limit_s is None else limit_s + _GRACE_S).done:
            raise UsageError(
                f"{named(self._config, NAME)} is not closed after {limit_s:g} s: a callback blocks its thread, or an "
                "earlier close() with more time still waits."
            )
        self._thread.join(_GRACE_S)
        return self._ended.result()

    def close_at_exit(self) -> None:
        """The interpreter ends: deliver what can be delivered within some seconds."""
        records = self.inbox.buffered().records
        if self.inbox.is_open and records:
            _logger.warning(
                "%s was not closed before the interpreter ended, and delivers %s first. Hint: Use `with %s(...)`, or "
                "call close(), which also says what became of them.",
                named(self._config, NAME),
                counted(records, "record"),
                NAME,
            )
        try:
            self.close(None if self._config.close_timeout_ms is not None else _EXIT_S)
        except UsageError as error:
            _logger.error("%s", error)

    def dropped(self) -> bool:
        """Nothing refers to the producer any more: close it in the background; False if that was done before."""
        if self._thread is None or not self.inbox.is_open:
            return False
        records = self.inbox.buffered().records
        if records:
            _logger.warning(
                "%s was dropped without being closed, and is closed when %s %s outcome. Hint: Use `with %s(...)`, or "
                "call close().",
                named(self._config, NAME),
                counted(records, "record"),
                "has its" if records == 1 else "have their",
                NAME,
            )
        self.begin_close(None)
        return True

    def after_fork(self) -> None:
        """This is a child of the process with the thread: futures of the parent fail here."""
        for future in [*self._in_flight, *self.inbox.waiters()]:
            if isinstance(future, RecordFuture):
                future.after_fork()

    # --- in the thread of the loop

    def _run(self) -> None:
        loop = self._loop
        executor = Executor(thread_name_prefix=NAME)
        loop.set_default_executor(executor)
        self._life = loop.create_task(self._live(), name=NAME)
        while not self._life.done():
            try:
                loop.run_until_complete(self._life)
            except (KeyboardInterrupt, SystemExit) as error:
                # Out of a callback: it ends a loop, but this one has the records of other threads.
                _logger.error("%s in the thread of %s, which continues.", type(error).__name__, NAME)
            except BaseException as error:
                _logger.error("%s has failed.", named(self._config, NAME), exc_info=error)
        loop.run_until_complete(loop.shutdown_asyncgens())
        executor.shutdown(wait=False)
        loop.close()
        processes.ended(self)
        failure = self._life.exception()
        if failure is None:
            self._ended.set_result(self._life.result())
        else:
            self._ended.set_exception(failure)

    async def _live(self) -> DeliveryReport:
        cause: BaseException = ProducerClosedError("The producer was closed before the record could be accepted.")
        try:
            await self._producer.start()
            self.was_started = True
            self.inbox.share(self._producer.budget)
            await self._serve()
            await asyncio.sleep(0)  # Calls that came before the close take their first step before it.
        except asyncio.CancelledError:
            pass  # The time of the close is over.
        except BaseException as error:
            self.failure = cause = error
        self.inbox.close()
        if self._timer is not None:
            self._timer.cancel()
        self._unsent.collect()
        self._fail_rest(cause)
        report = await self._producer.close(self._left_s())
        if self._tasks:
            await asyncio.wait(self._tasks)
        self._fail_rest(cause)
        self._unsent.close()
        return replace(
            report,
            not_sent=report.not_sent + self._unsent.count,
            undelivered=(*report.undelivered, *self._unsent.errors),
        )

    async def _serve(self) -> None:
        """Take calls until the inbox is closed and empty; raises what the producer has failed with."""
        while True:
            stop = self._producer.move(self.inbox, RECORDS_PER_TURN)
            if isinstance(stop, Call):
                self._begin(stop)
            elif stop is not None:
                await self._append_in_turn(stop)
            elif not self.inbox.sleep():
                await asyncio.sleep(0)
            elif not self.inbox.is_open:
                return
            else:
                await self._bell.wait()
                self._bell.clear()

    def _begin(self, call: Call[Any]) -> None:
        task = call.begin(self._loop)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _append_in_turn(self, entry: Entry) -> None:
        """Append a record that found no room, while all others wait, or one whose memory is reserved."""
        waiter, reservation = entry.waiter, entry.reservation
        try:
            if reservation is None:
                reservation = await self._producer.reserve(entry.bound)
            elif isinstance(waiter, RecordFuture) and not waiter.begin():
                return
            self._producer.append_reserved(entry, reservation)
        except asyncio.CancelledError:
            self._unsent.fail(entry, ProducerClosedError("The producer was closed while it waited for memory."))
            raise
        except BaseException as error:
            self._unsent.fail(entry, error)
        finally:
            if reservation is not None:
                self._producer.give_back(reservation)

    async def _reserve_and_enter(self, entry: Entry) -> None:
        """Wait for room in order of arrival, then take the record, behind those that are here already."""
        reservation = await self._producer.reserve(entry.bound, entry.topic)
        self.inbox.enter_reserved(entry, reservation)
        self._bell.set()

    def _fail_rest(self, cause: BaseException) -> None:
        for entry in self.inbox.rest():
            if isinstance(entry, Call):
                entry.fail(cause.again() if isinstance(cause, AioprodError) else cause)
            else:
                self._unsent.fail(entry, cause)

    def _unseen(self, error: AioprodError, record: ProducerRecord | None) -> None:
        """A future was dropped, in whatever thread, with an error that nothing has looked at."""
        try:
            self._loop.call_soon_threadsafe(self._unsent.report, error, record)
        except RuntimeError:
            _logger.warning("A future of a failed record was never looked at: %s", error)

    def _begin_close(self, timeout: float | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        limit_s = CloseLimit(timeout, self._config).seconds
        if limit_s is not None:
            self._ends_at = self._loop.time() + limit_s
            self._timer = self._loop.call_at(self._ends_at, self._life.cancel)
        self._bell.set()

    def _left_s(self) -> float | None:
        return None if self._ends_at is None else max(0.0, self._ends_at - self._loop.time())
