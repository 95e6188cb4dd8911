"""Callbacks that can't work are refused by the call that brings them; those that fail don't fill the log."""

from __future__ import annotations

import gc
import inspect
import logging
import weakref
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache, partial
from typing import Any
from unittest.mock import Mock

import pytest

from aioprod import Producer, RecordMetadata
from aioprod._log_rate_limit import LINES_MAX, WINDOW_S
from aioprod.errors import AioprodError, ErrorCode, UsageError
from aioprod.messages import ProduceRequest
from aioprod.producer import callbacks
from aioprod.producer.callbacks import KNOWN_MAX, DeliveryCallbacks
from aioprod.testing import FakeCluster
from tests.support.producers import Outcomes, ShiftedClock, running


def errors_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


class StoppedClock(ShiftedClock):
    """Time passes when the test says so."""

    def now_ns(self) -> int:
        return int((1000.0 + self.offset_s) * 1e9)


# --- what is refused


async def coroutine(metadata: Any, error: Any) -> None:
    """Nobody would await it."""


async def async_generator(metadata: Any, error: Any) -> AsyncIterator[None]:
    """Calling it runs nothing."""
    yield


def generator(metadata: Any, error: Any) -> Iterator[None]:
    """Calling it runs nothing."""
    yield


class Desk:
    """Hears outcomes in all kinds of ways."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def hear(self, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        self.heard.append(error)

    def hear_of(self, number: int, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        self.heard.append(number)

    async def hear_later(self, metadata: RecordMetadata | None, error: AioprodError | None) -> None:
        """Nobody would await it."""

    def hear_first(self, metadata: RecordMetadata | None) -> None:
        """It can't take the error."""


class AsyncCallable:
    async def __call__(self, metadata: Any, error: Any) -> None:
        """Nobody would await it."""


DESK = Desk()
WRONG: list[Any] = [
    5,
    "print",
    coroutine,
    async_generator,
    generator,
    AsyncCallable(),
    DESK.hear_later,
    DESK.hear_first,
    DESK.hear_of,
    Desk.hear,
    partial(coroutine),
    partial(partial(AsyncCallable())),
    partial(DESK.hear, None),
    partial(DESK.hear, metadata=None),
    lambda: None,
    lambda metadata, error, *, must: None,
    DESK.heard.append,
    Desk,
]
REVERSED: list[Any] = [
    lambda err, msg: None,
    lambda error, message: None,
    lambda _exc, metadata: None,
    lambda exception, *rest: None,
    partial(lambda number, err, msg: None, 1),
]
RIGHT: list[Any] = [
    DESK.hear,
    partial(DESK.hear_of, 1),
    partial(Desk.hear, DESK),
    lambda metadata, error: None,
    lambda *outcome: None,
    lambda metadata, error=None, more=None: None,
    lambda error, exc: None,
    Mock(),
    {}.__setitem__,
    print,
]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
async def test_a_wrong_callback_raises_at_its_first_call(brokers: FakeCluster, wrong: Any) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        for _ in range(2):
            with pytest.raises(UsageError, match=r"on_delivery is .* which (is not a plain function|can't be called)"):
                producer.send_nowait("t", b"v", on_delivery=wrong)
        await producer.flush()
    assert topic.records() == []


@pytest.mark.parametrize("wrong", REVERSED)
async def test_a_callback_with_the_error_first_raises(brokers: FakeCluster, wrong: Any) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        with pytest.raises(UsageError, match=r"called as on_delivery\(metadata, error\)") as caught:
            producer.send_nowait("t", b"v", on_delivery=wrong)
        assert "confluent-kafka" in str(caught.value.hint)


@pytest.mark.parametrize("right", RIGHT)
def test_what_can_take_the_outcome_is_a_callback(right: Any) -> None:
    DeliveryCallbacks().check(right)


def test_mypy_reports_a_wrong_callback_too() -> None:
    def typed(producer: Producer) -> None:
        producer.send_nowait("t", b"v", on_delivery=coroutine)  # type: ignore[arg-type]
        producer.send_nowait("t", b"v", on_delivery=DESK.hear_later)  # type: ignore[arg-type]
        producer.send_nowait("t", b"v", on_delivery=DESK.hear_first)  # type: ignore[arg-type]
        producer.send_nowait("t", b"v", on_delivery=DESK.hear)

    assert callable(typed), "it is mypy that reads it: each comment has to be needed"


@pytest.mark.parametrize("wrong", [5, coroutine, AsyncCallable(), partial(coroutine), lambda error: None], ids=repr)
def test_a_wrong_on_error_raises(wrong: Any) -> None:
    with pytest.raises(UsageError, match="on_error"):
        Producer("127.0.0.1:9", on_error=wrong)


# --- what it costs


def test_callbacks_that_are_made_for_each_record_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    check = callbacks._check

    def look_at(given: Any, *rest: Any) -> None:
        looked_at.append(given)
        check(given, *rest)

    monkeypatch.setattr(callbacks, "_check", look_at)
    known = DeliveryCallbacks()
    for number in range(10):
        each: list[Any] = [
            DESK.hear,
            Desk().hear,
            lambda metadata, error, number=number: None,
            partial(DESK.hear_of, number),
            {}.__setitem__,
            Outcomes(),
        ]
        for given in each:
            known.check(given)
    assert len(looked_at) == 5, "two of the six are the same method"


def test_a_callback_that_was_known_does_not_let_others_in() -> None:
    known = DeliveryCallbacks()
    for right, wrong in (
        (DESK.hear, Desk.hear),
        (DESK.hear, partial(DESK.hear, None)),
        (partial(DESK.hear_of, 1), partial(DESK.hear_of, 1, metadata=None)),
        (partial(DESK.hear_of, 1), DESK.hear_of),
    ):
        for _ in range(2):
            known.check(right)
            with pytest.raises(UsageError):
                known.check(wrong)


def in_c(given: Any) -> Any:
    """A callable of one type for all, without a function of Python to call it, that tells its arguments."""
    made: Any = lru_cache(given)
    made.__signature__ = inspect.signature(given)
    return made


class Partial(partial[Any]):
    """It is called as its base class is."""


def test_a_callable_in_c_that_was_known_does_not_let_others_of_its_type_in() -> None:
    known = DeliveryCallbacks()
    lasting = in_c(lambda metadata, error: None)
    for right, wrong in (
        (lasting, in_c(lambda err, msg: None)),
        (lasting, in_c(lambda metadata: None)),
        (Partial(DESK.hear), Partial(coroutine)),
        (Partial(DESK.hear_of, 1), Partial(DESK.hear_of)),
        ({}.__setitem__, {}.__contains__),
        ({}.__setitem__, {}.__len__),
    ):
        for _ in range(2):
            known.check(right)
            with pytest.raises(UsageError):
                known.check(wrong)
    for _ in range(100):  # Another one may get the id of one that is gone.
        known.check(in_c(lambda metadata, error: None))
        with pytest.raises(UsageError):
            known.check(in_c(lambda err, msg: None))


def test_few_callbacks_are_remembered_and_no_object_of_the_user() -> None:
    known = DeliveryCallbacks()
    for _ in range(2 * KNOWN_MAX):
        made: dict[str, Any] = {}
        exec("def heard(metadata, error): pass", made)
        known.check(made["heard"])
        assert len(known._known) <= KNOWN_MAX
    desk: Any = Desk()
    seen = weakref.ref(desk)
    for given in (desk.hear, partial(desk.hear_of, 1), lambda metadata, error: desk.hear(metadata, error)):
        known.check(given)
    given = desk = None
    gc.collect()
    assert seen() is None


async def test_the_last_callback_is_let_go_when_the_producer_is_closed(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    desk = Desk()
    seen = weakref.ref(desk)
    async with running(brokers) as producer:
        producer.send_nowait("t", b"v", on_delivery=desk.hear)
        await producer.flush()
        assert desk.heard == [None]
    del desk
    gc.collect()
    assert seen() is None


# --- callbacks that fail


def failing(metadata: RecordMetadata | None, error: AioprodError | None) -> None:
    raise KeyError("order 7")


class Failing:
    """Fails in two ways, by turns."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, *outcome: Any) -> None:
        self.calls += 1
        raise (ValueError if self.calls % 2 else KeyError)(self.calls)


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_REQUIRED_ACKS])
async def test_a_callback_that_raises_is_logged_once_and_counted_then(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture, code: ErrorCode
) -> None:
    brokers.create_topic("t")
    clock = StoppedClock()
    async with running(brokers, clock=clock) as producer:
        await producer.partitions_for("t")
        if code:
            brokers.fault(ProduceRequest, error=code)
        for _ in range(100):
            producer.send_nowait("t", b"v", on_delivery=failing)
        await producer.flush()
        (first,) = errors_of(caplog)
        of = "a record of t-0" if code == ErrorCode.NONE else "a failed record of t-0"
        assert first.getMessage() == f"The on_delivery callback failing raised KeyError for {of}"
        assert first.exc_info is not None
        assert "order 7" in str(first.exc_info[1])
        clock.offset_s += WINDOW_S
        for _ in range(3):
            producer.send_nowait("t", b"v", on_delivery=failing)
        await producer.flush()
        _, second = errors_of(caplog)
        assert second.getMessage().startswith("The on_delivery callback failing raised KeyError 100 times more in ")
        assert second.exc_info is None
    assert (
        errors_of(caplog)[-1].getMessage().startswith("The on_delivery callback failing raised KeyError 2 times more")
    )
    assert len(errors_of(caplog)) == 3


async def test_each_kind_of_failure_of_a_callback_is_logged(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    clock = StoppedClock()
    async with running(brokers, clock=clock, on_error=Failing()) as producer:
        await producer.partitions_for("t")
        given = Failing()
        for _ in range(4):
            producer.send_nowait("t", b"v", on_delivery=given)
        await producer.flush()
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_REQUIRED_ACKS)
        producer.send_nowait("t", b"v")
        await producer.flush()
        told = [record.getMessage() for record in errors_of(caplog)]
    assert told == [
        "The on_delivery callback Failing raised ValueError for a record of t-0",
        "The on_delivery callback Failing raised KeyError for a record of t-0",
        "The on_error callback Failing raised ValueError for a record of topic 't'",
    ]


async def test_few_tracebacks_are_logged_whatever_fails(brokers: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    brokers.create_topic("t")
    clock = StoppedClock()
    async with running(brokers, clock=clock) as producer:
        for number in range(LINES_MAX + 5):

            def fails(metadata: Any, error: Any) -> None:
                raise ValueError

            fails.__qualname__ = f"fails_{number}"
            producer.send_nowait("t", b"v", on_delivery=fails)
        await producer.flush()
        assert len(errors_of(caplog)) == LINES_MAX


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_REQUIRED_ACKS])
async def test_a_returned_coroutine_is_closed_and_logged_once(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder, code: ErrorCode
) -> None:
    brokers.create_topic("t")
    given: Any = lambda *outcome: coroutine(*outcome)  # noqa: E731
    clock = StoppedClock()
    async with running(brokers, clock=clock, on_error=given) as producer:
        await producer.partitions_for("t")
        if code:
            brokers.fault(ProduceRequest, error=code)
        for _ in range(5):
            producer.send_nowait("t", b"v", on_delivery=given)
        if code != ErrorCode.NONE:
            producer.send_nowait("t", b"v")
        await producer.flush()
        told = [record.getMessage() for record in errors_of(caplog)]
    gc.collect()
    assert all("returned a coroutine" in text and "start a task" in text for text in told)
    assert [text.split()[1] for text in told] == ["on_delivery"] + ["on_error"] * (code != ErrorCode.NONE)
    assert [str(warning.message) for warning in recwarn.list] == []


async def test_the_hint_for_what_can_not_be_called_at_all_says_how_it_is_called(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    wrong: Any = "x"
    async with running(brokers) as producer:
        with pytest.raises(UsageError, match=r"Hint: It is called as on_delivery\(metadata, error\)\."):
            producer.send_nowait("t", b"v", on_delivery=wrong)
    with pytest.raises(UsageError, match=r"Hint: It is called as on_error\(error, record\)\."):
        Producer("a:1", on_error=wrong)
