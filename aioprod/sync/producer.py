"""The producer for threads: its arguments, its calls, and which session they go to."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from aioprod._process_bound import ProcessBound
from aioprod._short_reprs import client_repr
from aioprod._words import counted
from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, ConfigError, InvalidRecordError, ProducerClosedError, UnknownOutcomeError
from aioprod.net.settings import client_id_of
from aioprod.producer.callbacks import DeliveryCallbacks, error_callback
from aioprod.producer.preparation import record_of, seconds
from aioprod.producer.producer import all_options
from aioprod.sync import processes
from aioprod.sync.entry import Entry
from aioprod.sync.inbox import Inbox
from aioprod.sync.loop_producer import LoopProducer
from aioprod.sync.record_future import RecordFuture
from aioprod.sync.session import NAME, Session
from aioprod.types import (
    NO_VALUE,
    Buffered,
    DeliveryCallback,
    DeliveryReport,
    ErrorCallback,
    Headers,
    ProducerRecord,
    RecordMetadata,
    SendResult,
    Timestamp,
)

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.metrics import Family
    from aioprod.options import InterceptorsOption, PartitionerOption, ProducerOptions, SerializerOption

__all__ = ["Producer"]

T = TypeVar("T")


class Producer(ProcessBound):
    """Sends records to Kafka from any thread of a program without asyncio; one of them serves a whole process.

    An `aioprod.Producer` runs in an event loop in a thread of its own. Arguments, settings and errors are the same, but
    for `transactional_id`, which is a ConfigError. Making it starts nothing: the thread and the connections begin with
    the first call, or with `with`, so that a web server or a pool of workers may make it before it forks. A forked
    child begins empty, with a thread of its own; the records of the parent stay the parent's, and their futures raise
    UsageError in the child.

    The records of each thread are sent in the order of its calls. Serializers and the `on_send` of interceptors run in
    the thread of `submit` and `send_nowait`; all other callbacks, and the serializers of `send` and `send_many`, in the
    producer's, which they must not block. When a start fails, what waits for it fails, and the next call starts again.
    At the end of the interpreter a producer that is not closed delivers what it can within 10 s (or
    `close.timeout.ms`), and logs a warning. Raises ConfigError, and UsageError in processes that gevent or eventlet
    has patched.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: ProducerConfig | Mapping[str, Any] | None = None,
        key_serializer: SerializerOption | None = None,
        value_serializer: SerializerOption | None = None,
        partitioner: PartitionerOption | None = None,
        interceptors: InterceptorsOption = (),
        on_error: ErrorCallback | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        """The class says what the arguments are."""
        given = all_options(options, key_serializer, value_serializer, partitioner, interceptors)
        self.config = ProducerConfig.given(config, bootstrap_servers, given)
        if self.config.transactional_id is not None:
            raise ConfigError(
                f"transactional.id={self.config.transactional_id!r} is not a setting of {NAME}: a transaction has one "
                "owner, not all threads of a process.",
                hint="Use aioprod.Producer in an event loop.",
            )
        self._on_error = error_callback(on_error)
        self._callbacks = DeliveryCallbacks()
        self._checked: object = None
        self._lock = RLock()
        self._is_closed = False
        self._session: Session | None = Session(self.config, self._on_error)
        self._inbox: Inbox | None = self._session.inbox
        self._is_plain = self._session.preparation.plain
        processes.at_fork(self, Producer._begin_empty)

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{counted(self.buffered.records, 'record')} waiting"
        return client_repr(NAME, self.config.client_id, self.config.bootstrap_servers, state)

    # --- one record

    def send(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is acknowledged; as `await producer.send()` of `aioprod.Producer`.

        Waits up to `max.block.ms` for the start, then as long for memory and the topic, and up to
        `delivery.timeout.ms` for the outcome. Interrupted by a signal, the record is withdrawn if it was not sent yet.
        Raises InvalidRecordError and its subclasses, BufferFullError, MetadataTimeoutError, AuthenticationError,
        AuthorizationError, ProducerClosedError or UsageError while the record is not accepted, and a DeliveryError
        after that.
        """
        return self._run(
            "send",
            lambda producer: producer.send(
                topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp
            ),
        )

    def submit(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
    ) -> Future[RecordMetadata]:
        """Accept one record; the future has its outcome, and raises what `send` raises.

        Waits for room in `buffer.memory` up to `max.block.ms`, as Java's `send` does, and raises BufferFullError then;
        in a callback, which runs in the producer's thread, it doesn't wait. What is wrong with the record itself raises
        InvalidRecordError or one of its subclasses here, or through the future where the topic has to be known for it.
        `cancel()` of the future takes the record back until the producer's thread has it, some moments later.
        """
        if type(topic) is str and self._is_plain:
            return self._submitted(
                lambda session, waiter: session.inbox.entry(topic, value, key, partition, headers, timestamp, waiter)
            )
        record = record_of(topic, value, key, partition, headers, timestamp)
        return self._submitted(
            lambda session, waiter: session.inbox.prepared_entry(session.preparation.accept(record), waiter)
        )

    def send_nowait(
        self,
        topic: str | ProducerRecord,
        value: Any = NO_VALUE,
        *,
        key: Any = None,
        partition: int | None = None,
        headers: Headers | None = None,
        timestamp: Timestamp | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Accept one record without waiting for anything, and call `on_delivery(metadata, error)` with its outcome.

        One of the two is None. It is called in the producer's thread, which it must not block; what it raises is
        logged. Without it, `on_error` gets the failures. Raises BufferFullError when `buffer.memory` is used up
        (`drain()` waits for room), InvalidRecordError and its subclasses, ProducerClosedError, and UsageError for an
        `on_delivery` that can't be called so.
        """
        if on_delivery is not self._checked and on_delivery is not None:
            self._callbacks.check(on_delivery)
            self._checked = on_delivery
        if self._is_plain and type(topic) is str:
            while (inbox := self._inbox) is None or not inbox.put(
                topic, value, key, partition, headers, timestamp, on_delivery
            ):
                self._open_session()
            return
        record = record_of(topic, value, key, partition, headers, timestamp)
        while True:
            session = self._open_session()
            if session.inbox.enter(session.inbox.prepared_entry(session.preparation.accept(record), on_delivery)):
                return

    def _submitted(self, entry_of: Callable[[Session, RecordFuture], Entry]) -> Future[RecordMetadata]:
        while True:
            session = self._open_session()
            future = session.submit(partial(entry_of, session))
            if future is not None:
                return future

    # --- many records

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        keys: Iterable[Any] | None = None,
        partition: int | None = None,
        headers: Headers | Iterable[Headers | None] | None = None,
        timestamps: Timestamp | Iterable[Timestamp | None] | None = None,
    ) -> SendResult:
        """Send all `values`, waiting for room as needed, and wait until each has its outcome.

        One hop to the loop for all of them. Iterables that are no lists or tuples are read to their end first, in this
        thread: split what memory does not hold. `keys` has one per value; `headers` and `timestamps` are one for all or
        one per value. What concerns the call raises as `send` does; faults of single records are in `failures` of the
        result: `result.raise_for_failures()` raises them.
        """
        if not isinstance(values, Iterable):
            raise InvalidRecordError(
                f"send_many got values of type {type(values).__name__}: give an iterable of values."
            )
        given, own_keys = _read(values), _read(keys)
        own_headers, own_timestamps = _read(headers), _read(timestamps)
        return self._run(
            "send_many",
            lambda producer: producer.send_many(
                topic, given, keys=own_keys, partition=partition, headers=own_headers, timestamps=own_timestamps
            ),
        )

    # --- waiting

    def drain(self) -> None:
        """Wait until half of `buffer.memory` is free; returns soon when it is.

        Called every few hundred `send_nowait()` calls, or after BufferFullError. Raises UsageError in a callback.
        """
        session = self._session
        entry = None if session is None else session.inbox.last_full()
        self._run("drain", lambda producer: producer.drain_for(entry))

    def flush(self, timeout: float | None = None) -> None:
        """Send everything without lingering, and wait for the outcome of everything accepted before this call.

        Raises FlushTimeoutError after `timeout` seconds; the records stay accepted. Raises UsageError in a callback.
        """
        limit_s = seconds("flush", timeout)
        if self._is_closed:
            raise self._closed()
        session = self._session
        if session is not None and not session.flush(limit_s) and session.was_started:
            self._open_session()  # Which raises why there is none.

    def resolve(self, error: UnknownOutcomeError, timeout: float | None = None) -> RecordMetadata | None:
        """What became of a record that failed with this error, as `aioprod.Producer.resolve` says it.

        Raises what that raises, and UsageError in a callback.
        """
        limit_s = seconds("resolve", timeout)
        return self._run("resolve", lambda producer: producer.resolve(error, limit_s))

    # --- life

    def close(self, timeout: float | None = None) -> DeliveryReport:
        """Deliver what was accepted, for at most `timeout` seconds, fail the rest, and end the thread.

        None is `close.timeout.ms`; without that it waits as long as the delivery timeouts of the records allow. A
        second call waits for the first and returns the same report. Calls after it raise ProducerClosedError. Raises
        UsageError in a callback, and when a callback keeps the thread from ending in time.
        """
        limit_s = seconds("close", timeout)
        with self._lock:
            session = self._session
            if session is not None:
                session.check_may_wait("close")
            self._is_closed = True
        return DeliveryReport() if session is None else session.close(limit_s)

    def __enter__(self) -> Self:
        """Start; raises what `await producer.start()` of `aioprod.Producer` raises."""
        self._run("with", _started)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None and session.dropped():
            name = f"{NAME} {self.config.client_id!r}" if self.config.client_id else NAME
            warnings.warn(
                f"Unclosed {name}: use `with`, or `producer.close()`.", ResourceWarning, stacklevel=2, source=self
            )

    @property
    def buffered(self) -> Buffered:
        """Accepted records whose outcome is not known yet, and the bytes that are counted for them."""
        inbox = self._inbox
        return Buffered(0, 0) if inbox is None else inbox.buffered()

    # --- metrics

    def metrics(self) -> dict[str, float]:
        """The present value of every metric, by name; of a child that has sent nothing yet, none.

        Waits for the thread of the producer, not for calls: for a callback that blocks it, too. So hold no lock that a
        callback takes.
        """
        session = self._session
        return {} if session is None else session.read(LoopProducer.metrics)

    def metric_families(self) -> list[Family]:
        """The same in base units, with labels and whole histograms: what monitoring systems collect."""
        session = self._session
        return [] if session is None else session.read(LoopProducer.metric_families)

    @property
    def client_id(self) -> str:
        """The name of this producer at the brokers: `client.id`, or that of all that have none."""
        return client_id_of(self.config)

    @property
    def event_loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the producer's thread; None before that has started."""
        session = self._session
        return None if session is None else session.event_loop

    # --- sessions

    def _begin_empty(self) -> None:
        """This is a child of the process that made the producer."""
        # Its lock may belong to a thread that is not here.
        self._lock = RLock()
        self._session = self._inbox = None

    def _run(self, name: str, work: Callable[[LoopProducer], Coroutine[Any, Any, T]]) -> T:
        while True:
            call = self._open_session().run(name, work)
            if call is not None:
                return call.result()

    def _open_session(self) -> Session:
        """The session that takes calls, made here if there is none; raises ProducerClosedError."""
        session = self._session
        if session is not None and session.inbox.is_open:
            return session
        with self._lock:
            if self._is_closed:
                raise self._closed()
            session = self._session
            if session is None or (not session.inbox.is_open and not session.was_started):
                session = self._session = Session(self.config, self._on_error)
                self._inbox = session.inbox
            elif not session.inbox.is_open:
                raise self._failed(session.failure)
            return session

    def _closed(self) -> ProducerClosedError:
        return ProducerClosedError("The producer is closed and takes no more records.")

    def _failed(self, cause: BaseException | None) -> AioprodError:
        if isinstance(cause, ProducerClosedError):
            return cause.again()
        error = ProducerClosedError(f"The producer has failed: {cause}", hint="The log has more. Make a new one.")
        error.__cause__ = cause
        return error


async def _started(producer: LoopProducer) -> None:
    """Calls begin when the producer has started."""


def _read(given: Any) -> Any:
    """An iterable as one that the loop may read: what a generator does belongs to the thread of its caller."""
    if isinstance(given, Iterable) and not isinstance(given, (list, tuple, str, bytes, bytearray, memoryview, Mapping)):
        return list(given)
    return given
