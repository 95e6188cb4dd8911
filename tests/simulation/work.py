"""The senders: records by every call of the producer, with cancellations and flushes."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

from aioprod import Producer, RecordMetadata
from aioprod.errors import AioprodError, BufferFullError, FlushTimeoutError
from tests.simulation.ledger import Entry, Ledger
from tests.simulation.plan import Plan

__all__ = ["Work"]

ITERATIONS_AFTER_FLUSH = 5
"""Loop iterations until a task resumes after a future is done."""


class Work:
    """The senders of one run. `running` are tasks that wait for an outcome, `failures` their unexpected errors."""

    def __init__(self, plan: Plan, producer: Producer, ledger: Ledger, random: Random) -> None:
        self.plan = plan
        self.producer = producer
        self.ledger = ledger
        self.random = random
        self.running: dict[asyncio.Task[None], None] = {}
        self.failures: list[BaseException] = []

    # --- senders

    async def run(self) -> None:
        """Send as many records as planned; tasks that wait for outcomes may still run afterwards."""
        senders = [self.spawn(self._sender(self.plan.records // self.plan.senders)) for _ in range(self.plan.senders)]
        for sender in senders:
            await asyncio.wait([sender])

    def spawn(self, work: Any) -> asyncio.Task[None]:
        """Start a task whose exception goes to `failures`."""
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self.running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failures.append(error)

    async def wait_for_tasks(self) -> None:
        """Wait until all tasks have ended."""
        while self.running:
            await asyncio.wait(list(self.running))

    async def _sender(self, count: int) -> None:
        random = self.random
        while count > 0:
            count -= await self.one_step()
            if random.random() < 0.5:
                await asyncio.sleep(random.choice([0.0, random.random() * self.plan.pause_max_s]))
            if random.random() < self.plan.flushes:
                await self._flush()

    async def one_step(self) -> int:
        """Send something; return the number of records."""
        style = self.random.choice(self.plan.styles)
        topic = self.random.choice(list(self.plan.topics))
        if style == "many":
            return self._many(topic)
        entry = self.ledger.begin(topic, self._partition(topic), style)
        if style == "send":
            task = self.spawn(self.send(entry))
            self._maybe_cancel(task, [entry])
            if self.random.random() < 0.3:
                await asyncio.wait([task])
        else:
            await self._send_without_waiting(entry)
        return 1

    def _partition(self, topic: str) -> int | None:
        return self.random.randrange(self.plan.topics[topic]) if self.random.random() < 0.7 else None

    def value_of(self, entry: Entry) -> bytes:
        """The value of an entry: its number and padding."""
        size = self.random.randint(0, self.plan.size_max)
        return b"%d:" % entry.number + self.random.choice([b"x", b"ab", b"\x00"]) * (size // 2)

    def _arguments(self, entry: Entry) -> dict[str, Any]:
        key = self.random.choice([None, None, b"k%d" % self.random.randrange(5)])
        headers = [("h", b"1")] if self.random.random() < 0.2 else None
        return {"partition": entry.partition, "key": key, "headers": headers}

    # --- one record

    async def send(self, entry: Entry) -> None:
        """Send one record and wait for its outcome."""
        self.ledger.call(entry)
        if self.plan.has_memory:
            # The call does not wait, so the order of the calls is the order of the records.
            self.ledger.accept(entry)
        try:
            metadata = await self.producer.send(entry.topic, self.value_of(entry), **self._arguments(entry))
        except asyncio.CancelledError:
            entry.cancelled = True
            raise
        except AioprodError as error:
            self.ledger.complete(entry, None, error)
        else:
            self.ledger.complete(entry, metadata, None)

    async def _send_without_waiting(self, entry: Entry) -> None:
        producer, ledger, value, arguments = self.producer, self.ledger, self.value_of(entry), self._arguments(entry)
        while True:
            ledger.call(entry)
            try:
                if entry.style == "submit":
                    future = producer.submit(entry.topic, value, **arguments)
                    ledger.accept(entry)
                    self.spawn(self._await(entry, future))
                    self._maybe_withdraw(entry, future)
                elif entry.style == "callback":
                    producer.send_nowait(entry.topic, value, on_delivery=self._on_delivery(entry), **arguments)
                else:
                    producer.send_nowait(entry.topic, value, **arguments)
                ledger.accept(entry)
            except BufferFullError as error:
                if self.random.random() < 0.2:
                    ledger.reject(entry, error)
                    return
                await producer.drain()
            except AioprodError as error:
                ledger.reject(entry, error)
                return
            else:
                return

    def _on_delivery(self, entry: Entry) -> Any:
        return lambda metadata, error: self.ledger.complete(entry, metadata, error)

    async def _await(self, entry: Entry, future: asyncio.Future[RecordMetadata]) -> None:
        await asyncio.wait([future])
        if future.cancelled():
            entry.cancelled = True
        elif (error := future.exception()) is not None:
            self.ledger.complete(entry, None, error)
        else:
            self.ledger.complete(entry, future.result(), None)

    # --- many records

    def _many(self, topic: str) -> int:
        count = self.random.randint(1, 20)
        partition = self._partition(topic)
        entries = [self.ledger.begin(topic, partition, "many") for _ in range(count)]
        self._maybe_cancel(self.spawn(self._send_many(topic, partition, entries)), entries)
        return count

    async def _send_many(self, topic: str, partition: int | None, entries: list[Entry]) -> None:
        for entry in entries:
            self.ledger.call(entry)
            self.ledger.join(entry)
        values = [self.value_of(entry) for entry in entries]
        try:
            result = await self.producer.send_many(topic, values, partition=partition)
        except asyncio.CancelledError:
            for entry in entries:
                entry.cancelled = entry.maybe_accepted = True
            raise
        except AioprodError as error:
            for entry in entries:
                entry.maybe_accepted = True
                self.ledger.reject(entry, error)
            return
        failures = dict(result.failures)
        for index, entry in enumerate(entries):
            if index in failures:
                self.ledger.complete(entry, None, failures[index])
        offsets = {
            tp.partition: frozenset(offset for stored in ranges for offset in stored)
            for tp, ranges in result.offsets.items()
        }
        is_complete = sum(map(len, offsets.values())) == len(entries) - len(failures)
        for index, entry in enumerate(entries):
            if index not in failures:
                # The result does not say which offset is which record's, and some offsets may be unknown.
                entry.offsets = offsets if is_complete else None
                self.ledger.complete(entry, None, None)

    # --- cancelling and flushing

    def _maybe_cancel(self, task: asyncio.Task[None], entries: list[Entry]) -> None:
        """Cancel a task after a random delay, as a timeout would."""
        if self.random.random() < self.plan.cancels:
            timer = asyncio.get_running_loop().call_later(
                self.random.random() * self.random.choice([0.001, 0.5]), task.cancel
            )
            task.add_done_callback(lambda _: timer.cancel())
            for entry in entries:
                entry.maybe_accepted = True

    def _maybe_withdraw(self, entry: Entry, future: asyncio.Future[RecordMetadata]) -> None:
        """Cancel a future after a random delay; note whether that removed the record from the buffer."""
        if self.random.random() >= self.plan.cancels:
            return

        def cancel() -> None:
            if future.done():
                return
            before = self.producer.buffered.records
            future.cancel()
            entry.cancelled = True
            entry.withdrawn = self.producer.buffered.records < before

        timer = asyncio.get_running_loop().call_later(
            self.random.random() * self.random.choice([0.0, 0.001, 0.5]), cancel
        )
        future.add_done_callback(lambda _: timer.cancel())

    async def _flush(self) -> None:
        """Flush: afterwards every record that was accepted before has an outcome."""
        before = [entry for entry in self.ledger.entries if entry.accepted is not None]
        timeout = self.random.choice([None, None, 0.01, 1.0])
        try:
            await self.producer.flush(timeout)
        except FlushTimeoutError:
            return
        except AioprodError as error:
            self.ledger.problems.append(f"flush raised {error!r}")
            return
        await self.check_flushed(before)

    async def check_flushed(self, before: list[Entry]) -> None:
        """Note a problem unless every record of `before` has an outcome."""
        for _ in range(ITERATIONS_AFTER_FLUSH):
            await asyncio.sleep(0)
        missing = [
            entry.number
            for entry in before
            if not entry.completions and not entry.cancelled and entry.send_error is None and entry.style != "forget"
        ]
        if missing:
            self.ledger.problems.append(f"flush returned, and these have no outcome: {missing}")
