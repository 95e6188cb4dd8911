"""Failures of a bulk call that nobody fetches are told; a call that is wrong as a whole raises."""

from __future__ import annotations

import copy
import gc
import logging
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from aioprod import SendResult, TopicPartition
from aioprod.errors import (
    AioprodError,
    ErrorCode,
    InvalidRecordError,
    NotSentError,
    RecordTooLargeError,
    RejectedError,
    SendFailuresError,
    SerializationError,
)
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import Spy, running

TP = TopicPartition("t", 0)
FAILED = ((1, NotSentError("It was not sent.", topic="t", partition=0, hint="Send it again.")),)

pytestmark = pytest.mark.usefixtures("patient")


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def failures(count: int) -> tuple[tuple[int, AioprodError], ...]:
    return tuple((index, RejectedError(f"no {index}", topic="t", partition=0)) for index in range(count))


def raised(result: SendResult) -> None:
    with pytest.raises(SendFailuresError):
        result.raise_for_failures()


# --- who reads the failures


def test_unread_failures_are_logged_when_the_result_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    SendResult(3, {}, FAILED)
    (message,) = told(caplog)
    assert message == (
        "1 of 3 records was not sent or not delivered, and the failures of the SendResult were never read, the first "
        "at index 1: It was not sent. Hint: Send it again. (`raise_for_failures()` raises them)"
    )


@pytest.mark.parametrize("read", ["", "kept[0].failures"])
def test_unread_failures_are_logged_when_the_interpreter_ends(read: str) -> None:
    program = f"""
from aioprod import SendResult
from aioprod.errors import AioprodError
kept = [SendResult(3, {{}}, ((1, AioprodError("It was not sent.")),))]
{read}
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr.count("1 of 3 records was not sent or not delivered") == (not read)


def test_they_are_logged_for_a_result_in_a_reference_cycle_too(caplog: pytest.LogCaptureFixture) -> None:
    circle: list[Any] = [SendResult(3, {}, FAILED)]
    circle.append(circle)
    del circle
    assert len(told(caplog)) == 1


@pytest.mark.parametrize(
    "read",
    [
        lambda result: result.failures,
        raised,
        repr,
        lambda result: result == SendResult(0, {}),
        lambda result: copy.copy(result).failures,
        lambda result: pickle.loads(pickle.dumps(result)).failures,
    ],
)
def test_failures_that_were_read_are_not_logged(
    caplog: pytest.LogCaptureFixture, read: Callable[[SendResult], object]
) -> None:
    read(SendResult(3, {}, FAILED))
    assert told(caplog) == []


def test_a_result_without_failures_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    result = SendResult(2, {TP: (range(2),)})
    assert result.raise_for_failures() is result
    del result
    with pytest.raises(TypeError):
        SendResult()  # type: ignore[call-arg]
    assert told(caplog) == []


def test_a_copy_has_to_be_read_in_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    there = pickle.loads(pickle.dumps(SendResult(3, {TP: (range(2),)}, FAILED)))
    assert told(caplog) == []
    assert (there.count, there.offsets) == (3, {TP: (range(2),)})
    del there
    assert len(told(caplog)) == 1


def test_a_repr_shows_the_first_failures() -> None:
    assert (
        repr(SendResult(1, {}, FAILED))
        == "SendResult(count=1, offsets={}, failures=((1, NotSentError('It was not sent.'))))"
    )
    assert repr(SendResult(500, {}, failures(500))).endswith("(2, RejectedError('no 2')), and 497 more))")


# --- what is raised


def test_the_failures_are_raised_as_a_group() -> None:
    result = SendResult(1000, {}, failures(250))
    with pytest.raises(SendFailuresError, match="250 of 1000 records were not sent or not delivered") as caught:
        result.raise_for_failures()
    error = caught.value
    assert isinstance(error, AioprodError)
    assert isinstance(error, ExceptionGroup)
    assert (error.count, error.indexes) == (250, tuple(range(100)))
    assert error.exceptions == tuple(failure for _, failure in result.failures[:100])
    assert error.message.endswith("the first at index 0: no 0")


def test_the_group_has_the_hint_of_the_first_and_can_be_pickled_and_taken_apart() -> None:
    mixed = (*FAILED, *((index + 2, error) for index, error in failures(3)))
    with pytest.raises(SendFailuresError) as caught:
        SendResult(9, {}, mixed).raise_for_failures()
    there = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, there, caught.value.again()):
        assert str(error).endswith("Hint: Send it again.")
        assert (error.count, error.indexes, len(error.exceptions)) == (4, (1, 2, 3, 4), 4)
    matched, rest = there.split(NotSentError)
    assert (type(matched), matched.count, matched.indexes) == (SendFailuresError, 1, (1,))
    assert (type(rest), rest.count, rest.indexes) == (SendFailuresError, 3, (2, 3, 4))


def test_a_part_of_the_group_holds_nothing_else() -> None:
    with pytest.raises(SendFailuresError) as caught:
        SendResult(9, {}, FAILED).raise_for_failures()
    with pytest.raises(ValueError, match=r"RejectedError\('no 0'\) is none of the errors of this group"):
        caught.value.derive([failures(1)[0][1]])


async def test_invalid_and_failed_records_are_raised_together(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_REQUIRED_ACKS)
        values: list[Any] = [b"a", "b", b"c"]
        with pytest.raises(SendFailuresError) as caught:
            (await producer.send_many("t", values)).raise_for_failures()
    kinds = [type(error) for error in caught.value.exceptions]
    assert kinds == [RejectedError, SerializationError, RejectedError]
    assert caught.value.indexes == (0, 1, 2)


async def test_an_unread_result_of_a_bulk_call_is_logged(
    brokers: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.create_topic("t")
    values: list[Any] = [b"a", {"b": 1}]
    async with running(brokers) as producer:
        await producer.send_many("t", values)
        assert "1 of 2 records was not sent or not delivered" in told(caplog)[0]
        await producer.send_arrow(pa.table({"value": ["a", "b"], "partition": [0, 7]}), topic="t")
        assert "at index 1" in told(caplog)[1]


# --- calls that are wrong as a whole

WHOLE: list[tuple[dict[str, Any], type[AioprodError], str]] = [
    ({"values": [{"id": 1}, {"id": 2}]}, SerializationError, "is of type dict, and no serializer is set"),
    ({"values": ["text", 5]}, SerializationError, "is of type str, and no serializer is set"),
    ({"values": [(b"key", b"value")]}, SerializationError, "keys= of send_many"),
    ({"values": [b"x" * 3000, b"x" * 4000]}, RecordTooLargeError, "max.request.size"),
    ({"values": [b"v"] * 2, "keys": ["a", "b"]}, SerializationError, "The key of a record"),
    ({"values": [b"v"], "headers": {"a": b"b"}}, SerializationError, "Headers are of type dict"),
    ({"values": [b"v"], "headers": [{"a": b"b"}]}, SerializationError, "Headers are of type dict"),
    ({"values": [b"v"] * 2, "timestamps": [-1, -2]}, InvalidRecordError, "timestamp"),
]


@pytest.mark.parametrize("interceptors", [(), (Spy(),)], ids=["plain", "intercepted"])
@pytest.mark.parametrize(("call", "kind", "said"), WHOLE, ids=[str(call)[:30] for call, _, _ in WHOLE])
async def test_an_error_that_all_records_have_is_raised(
    brokers: FakeCluster, interceptors: Any, call: dict[str, Any], kind: type[AioprodError], said: str
) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, interceptors=interceptors, max_request_size=2000) as producer:
        with pytest.raises(kind, match=said) as caught:
            await producer.send_many("t", **call)
        notes = [f"No record of this call was accepted: all {len(call['values'])} failed for this reason."]
        assert getattr(caught.value, "__notes__", notes) == notes
        assert producer.buffered == (0, 0)
    assert topic.records() == []


async def test_an_error_that_all_rows_have_is_raised(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        with pytest.raises(InvalidRecordError, match="no partition 7"):
            await producer.send_arrow(pa.table({"value": ["a", "b"], "partition": [7, 7]}), topic="t")


async def test_failures_of_several_reasons_are_a_result(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    values: list[Any] = ["text", b"x" * 3000]
    async with running(brokers, max_request_size=2000) as producer:
        result = await producer.send_many("t", values)
        assert [type(error) for _, error in result.failures] == [SerializationError, RecordTooLargeError]
        for nothing in (
            await producer.send_many("t", []),
            await producer.send_arrow(pa.table({"value": pa.array([], pa.binary())}), topic="t"),
        ):
            assert nothing.raise_for_failures() == SendResult(0, {})
