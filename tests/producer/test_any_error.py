"""Errors of every kind, from every place that calls a user's code and from our own: each record has one outcome."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest

from aioprod import Producer, ProducerRecord, RecordMetadata
from aioprod._build import COMPILED
from aioprod._logger import Logger
from aioprod.errors import AioprodError, ErrorCode, ProducerClosedError
from aioprod.messages import ProduceRequest
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.buffer_memory import BufferPool, MemoryBudget
from aioprod.producer.batching.partition import Topic
from aioprod.producer.batching.produce import ProduceEncoder
from aioprod.producer.batching.sequences import Sequences
from aioprod.producer.bulk.call import Bulk
from aioprod.producer.completion import Completion
from aioprod.producer.completions import Completions
from aioprod.producer.failure import Failure
from aioprod.records.builder import RecordBatchBuilder
from aioprod.testing import FakeCluster
from tests.support.producers import new_producer, until


class OwnError(BaseException):
    """What gevent's Timeout and pytest's exits are: no Exception."""


KINDS = [
    ValueError,
    OwnError,
    GeneratorExit,
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    MemoryError,
    RecursionError,
]


class Trap:
    """Raises an error once, in each place that a producer can call."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @property
    def is_set(self) -> bool:
        return self.error is not None

    def spring(self, *_: object) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.spring()
        return record

    def partition(self, *_: object) -> int:
        self.spring()
        return 0

    def serialize(self, topic: str, headers: object, value: bytes) -> bytes:
        self.spring()
        return value

    def values(self) -> Iterator[bytes]:
        for value in (b"3", b"4"):
            self.spring()
            yield value

    async def async_values(self) -> AsyncIterator[bytes]:
        for value in self.values():
            yield value

    def headers(self) -> Iterator[tuple[str, bytes]]:
        self.spring()
        yield "name", b"value"


class Acknowledged(Trap):
    on_send = None  # type: ignore[assignment]

    def on_acknowledgement(self, *_: object) -> None:
        self.spring()


class Sticky(Trap):
    def partition(self, *_: object) -> int:
        return 0

    def on_new_batch(self, *_: object) -> None:
        self.spring()


class Awaited(Trap):
    async def serialize(self, topic: str, headers: object, value: bytes) -> bytes:  # type: ignore[override]
        await asyncio.sleep(0)
        self.spring()
        return value


OPTIONS: dict[str, Callable[[], tuple[Trap, dict[str, Any]]]] = {
    "on_send": lambda: with_trap(Trap(), "interceptors"),
    "on_acknowledgement": lambda: with_trap(Acknowledged(), "interceptors"),
    "on_acknowledgement of a failure": lambda: with_trap(Acknowledged(), "interceptors"),
    "partitioner": lambda: with_trap(Trap(), "partitioner"),
    "partitioner of parked records": lambda: with_trap(Trap(), "partitioner"),
    "on_new_batch": lambda: with_trap(Sticky(), "partitioner"),
    "key_serializer": lambda: with_trap(Trap(), "key_serializer"),
    "value_serializer": lambda: with_trap(Trap(), "value_serializer"),
    "awaited serializer": lambda: with_trap(Awaited(), "value_serializer"),
    "on_delivery": lambda: (Trap(), {}),
    "on_delivery of a failure": lambda: (Trap(), {}),
    "on_error": lambda: with_trap(trap := Trap(), "on_error", lambda *_: trap.spring()),
    "headers": lambda: (Trap(), {}),
    "values": lambda: (Trap(), {}),
    "async values": lambda: (Trap(), {}),
    "metadata listener": lambda: (Trap(), {}),
    "log of retries": lambda: (Trap(), {}),
}
LOGGERS = {"log of retries": "aioprod.producer"}


def with_trap(trap: Trap, option: str, given: Any = None) -> tuple[Trap, dict[str, Any]]:
    return trap, {option: trap if given is None else given}


class Calls:
    """One record, or several, by each way to send; `outcomes` has what each caller was told."""

    def __init__(self, producer: Producer, place: str, trap: Trap, topic: str = "t") -> None:
        self.producer = producer
        self.place = place
        self.trap = trap
        self.topic = topic
        self.outcomes: dict[str, list[object]] = {"send": [], "submit": [], "send_nowait": [], "send_many": []}

    def told(self, way: str, outcome: object) -> None:
        self.outcomes[way].append(outcome)

    def failures(self) -> list[BaseException]:
        """What the callers were told that is an error."""
        told = [said for way in self.outcomes.values() for said in way]
        return [said for said in told if isinstance(said, BaseException)]

    def delivered(self, metadata: object, error: object) -> None:
        self.told("send_nowait", metadata or error)
        if self.place.startswith("on_delivery"):
            self.trap.spring()

    async def ended(self, way: str, call: Coroutine[Any, Any, object]) -> None:
        try:
            self.told(way, await call)
        except BaseException as error:
            self.told(way, error)

    async def all(self) -> None:
        options: dict[str, Any] = {"key": b"key"}
        nowait: dict[str, Any] = {} if self.place == "on_error" else {"on_delivery": self.delivered}
        values: Any = [b"3", b"4"]
        if self.place == "values":
            values = self.trap.values()
        elif self.place == "async values":
            values = self.trap.async_values()

        def headers() -> dict[str, Any]:
            return {"headers": self.trap.headers()} if self.place == "headers" else {}

        send = self.producer.send(self.topic, b"0", **options, **headers())
        tasks = [asyncio.create_task(self.ended("send", send))]
        await asyncio.sleep(0)
        try:
            future = self.producer.submit(self.topic, b"1", **options, **headers())
        except BaseException as error:
            self.told("submit", error)
        else:
            future.add_done_callback(lambda done: self.told("submit", done.exception() or done.result()))
        try:
            self.producer.send_nowait(self.topic, b"2", **options, **headers(), **nowait)
        except BaseException as error:
            self.told("send_nowait", error)
        many = self.producer.send_many(self.topic, values, keys=[b"key"] * 2, **headers())
        tasks.append(asyncio.create_task(self.ended("send_many", many)))
        await asyncio.gather(*tasks)
        with contextlib.suppress(ProducerClosedError):  # It has failed, and so have all records.
            await self.producer.flush()
        await until(lambda: self.place == "on_error" or all(self.outcomes.values()))
        await asyncio.sleep(0)


def run(scenario: Coroutine[Any, Any, None]) -> list[BaseException]:
    """Run to the end, also after a KeyboardInterrupt or SystemExit has left the loop; returns these."""
    left: list[BaseException] = []
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(scenario)
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (KeyboardInterrupt, SystemExit) as error:
                left.append(error)
        task.result()
    finally:
        loop.close()
    return left


class Handler(logging.Handler):
    """A handler of a user that lets its errors out, as those for remote logs do."""

    def __init__(self, trap: Trap) -> None:
        super().__init__()
        self._trap = trap

    def emit(self, record: logging.LogRecord) -> None:
        self._trap.spring()


@contextlib.contextmanager
def handling(name: str | None, trap: Trap) -> Iterator[None]:
    """With a handler that springs the trap at the first line of a logger."""
    logger, handler = logging.getLogger(name or "aioprod.none"), Handler(trap)
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.parametrize("place", OPTIONS)
def test_what_a_users_code_raises(place: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    trap, options = OPTIONS[place]()
    raised: list[BaseException] = []
    told: list[BaseException] = []

    async def scenario() -> None:
        async with FakeCluster(1) as brokers:
            producer = new_producer(brokers.bootstrap, **options)
            producer.add_metadata_listener(lambda _: trap.spring() if place == "metadata listener" else None)
            await producer.start()
            for number, kind in enumerate(KINDS):
                topic = f"t{number}"
                brokers.create_topic(topic)
                if not place.endswith("parked records"):
                    await producer.partitions_for(topic)
                if place.endswith("failure") or place == "on_error":
                    brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
                raised.append(kind())
                trap.error = raised[-1]
                if place == "metadata listener":
                    brokers.create_topic(f"u{number}")
                    await producer.partitions_for(f"u{number}")
                if place in LOGGERS:
                    brokers.fault(ProduceRequest, drop="before")
                calls = Calls(producer, place, trap, topic)
                await calls.all()
                if place in LOGGERS:
                    assert calls.failures() == [], kind
                assert not trap.is_set, (kind, "was not raised")
                expected = 0 if place == "on_error" else 1
                assert {way: len(said) for way, said in calls.outcomes.items()} == {
                    "send": 1,
                    "submit": 1,
                    "send_nowait": expected,
                    "send_many": 1,
                }, kind
                told.extend(calls.failures())
                assert producer.buffered == (0, 0), kind
                assert (await producer.send(topic, b"after")).topic == topic
            report = await producer.close()
            assert report.undelivered == ()
            assert producer.buffered == (0, 0)

    with handling(LOGGERS.get(place), trap):
        left = run(scenario())
    for error in raised:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            # Out of the loop once, unless it has left by the call that ran the user's code.
            assert left.count(error) + told.count(error) == 1


class SpeechlessError(Exception):
    """Its text can't be made."""

    def __str__(self) -> str:
        raise OwnError

    __repr__ = __str__


def test_ctrl_c_out_of_a_handler_where_no_loop_runs() -> None:
    trap = Trap()
    trap.error = KeyboardInterrupt()
    with handling("aioprod.none", trap):
        with pytest.raises(KeyboardInterrupt):
            Logger("aioprod.none").warning("a line")
        trap.error = SpeechlessError()
        Logger("aioprod.none").warning("another")
        assert not trap.is_set


# --- our own code


async def test_a_failure_whose_text_can_not_be_made() -> None:
    async with FakeCluster(1) as brokers:
        brokers.create_topic("t")
        producer = new_producer(brokers.bootstrap)
        await producer.start()
        await producer.partitions_for("t")
        accepted = producer.submit("t", b"v")
        producer._engine.fail(SpeechlessError())
        with pytest.raises(ProducerClosedError, match="The producer has failed: <SpeechlessError>"):
            await producer.send("t", b"v")
        with pytest.raises(AioprodError, match="the producer has failed: <SpeechlessError>"):
            await accepted
        await producer.close()


Place = tuple[object, str, type[BaseException]]
IN_BOTH_BUILDS: list[Place] = [(Bulk, "complete", MemoryError), (Failure, "error", MemoryError)]
PLACES: list[Place] = [
    *IN_BOTH_BUILDS,
    # Methods of compiled classes can't be replaced.
    *(
        []
        if COMPILED
        else [
            (BufferPool, "acquire", MemoryError),
            (BufferPool, "larger", MemoryError),
            (RecordBatchBuilder, "__init__", MemoryError),
            (RecordBatchBuilder, "grow", MemoryError),
            (RecordBatchBuilder, "seal", MemoryError),
            (RecordBatchBuilder, "compress", MemoryError),
            (Batch, "__init__", MemoryError),
            (ProduceEncoder, "encode", MemoryError),
            (Completion, "__init__", MemoryError),
            (Completion, "step", MemoryError),
            (Completion, "metadata", MemoryError),
            (Topic, "count_queued", MemoryError),
            (Topic, "count_queued", OwnError),
            (Sequences, "stamp", OwnError),
            (MemoryBudget, "release", OwnError),
            (Completions, "_close", OwnError),
        ]
    ),
]


OUTCOME_IS_KNOWN = ("larger", "grow", "release", "_close")
"""Where no record fails by the error."""


@pytest.mark.parametrize(("owner", "name", "kind"), PLACES, ids=lambda part: getattr(part, "__name__", part))
async def test_an_error_in_our_own_code(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, kind: type[BaseException]
) -> None:
    original = getattr(owner, name)
    left = hits = 0

    def fails(*given: Any, **named: Any) -> Any:
        nonlocal left, hits
        left -= 1
        if left == 0:
            hits += 1
            raise kind
        return original(*given, **named)

    monkeypatch.setattr(owner, name, fails)
    failed = 0
    async with FakeCluster(1) as brokers:
        brokers.create_topic("t")
        for nth in (1, 2, 3):
            producer = new_producer(brokers.bootstrap, compression_type="gzip", batch_size=20_000)
            await producer.start()
            await producer.partitions_for("t")
            if name == "error":
                brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
            left = nth
            calls = Calls(producer, "memory", Trap())
            await calls.all()
            if name in ("larger", "grow"):
                values = [b"x" * 700] * 9
                await asyncio.gather(*(producer.send("t", value) for value in values), return_exceptions=True)
            assert {len(said) for said in calls.outcomes.values()} == {1}
            failed += bool(calls.failures())
            assert producer.buffered == (0, 0)
            known = [said for (said,) in calls.outcomes.values() if isinstance(said, RecordMetadata)]
            report = await producer.close()
            assert producer.buffered == (0, 0)
            assert report.delivered >= len(known)
            assert report.undelivered == ()
    assert hits, "it was called"
    assert failed or name in OUTCOME_IS_KNOWN
