"""What a failed record's error says: one of three families, and everything that is known of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import (
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    DeliveryError,
    ErrorCode,
    NotSentError,
    ProtocolError,
    RecordTooLargeError,
    RejectedError,
    RequestTimedOutError,
    UnknownOutcomeError,
)
from aioprod.messages import ProduceRequest, ProduceResponse
from aioprod.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from aioprod.testing import FakeCluster
from tests.support.producers import Outcomes, ShiftedClock, Spy, pass_time, produced, running, until

LINGERING: dict[str, Any] = {"linger_ms": 1_000_000, "adaptive_linger": False}


def edited(**changes: Any) -> Callable[[ProduceResponse], ProduceResponse]:
    """An edit of what a broker answers for its first partition."""

    def edit(answer: ProduceResponse) -> ProduceResponse:
        of_topic = answer.responses[0]
        part: PartitionProduceResponse = replace(of_topic.partition_responses[0], **changes)
        rows = (part, *of_topic.partition_responses[1:])
        return replace(answer, responses=(replace(of_topic, partition_responses=rows), *answer.responses[1:]))

    return edit


async def failed(producer: Producer, value: bytes = b"v") -> DeliveryError:
    with pytest.raises(DeliveryError) as raised:
        await producer.send("t", value)
    return raised.value


async def test_a_broker_rejects_a_batch(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True, error=ErrorCode.POLICY_VIOLATION)
        sending = asyncio.create_task(failed(producer))
        await hold.reached.wait()
        clock.offset_s += 7.0
        hold.release()
        error = await sending
    assert type(error) is RejectedError
    assert (error.topic, error.partition, error.attempts, error.broker) == ("t", 0, 1, 1)
    assert error.code is ErrorCode.POLICY_VIOLATION
    assert 7.0 <= error.age_s < 27.0
    assert isinstance(error.__cause__, BrokerError)
    assert error.__cause__.code is ErrorCode.POLICY_VIOLATION
    assert str(error).startswith("1 record of t-0 was not delivered: Broker 1 answered POLICY_VIOLATION for t-0.")


async def test_what_the_broker_said_is_in_the_message(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION, edit=edited(error_message="too purple."))
        assert "answered POLICY_VIOLATION for t-0: too purple." in str(await failed(producer))


async def test_a_topic_of_an_old_format_says_what_to_do(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
        error = await failed(producer)
    assert type(error) is RejectedError
    assert "enable.idempotence=false" in (error.hint or "")
    assert "message.format.version is 0.11 or later" in (error.hint or "")


async def test_an_unknown_code_is_final(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, edit=edited(error_code=3456))
        error = await failed(producer)
    assert type(error) is RejectedError
    assert error.code == 3456
    assert "3456" in str(error)


async def test_no_permission_to_write(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        error = await failed(producer)
    assert type(error) is RejectedError
    assert isinstance(error.__cause__, AuthorizationError)
    cause = error.__cause__
    assert (cause.resource_type, cause.resource, cause.operation) == ("topic", "t", "WRITE")
    assert error.hint == cause.hint
    assert "--operation Write --topic t`" in str(error.hint)


async def test_a_single_record_too_large_for_the_topic(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    brokers.state.message_max_bytes = 500
    async with running(brokers) as producer:
        error = await failed(producer, b"x" * 600)
        assert producer.metrics()["batch_split_total"] == 0
    assert type(error) is RejectedError
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(error.__cause__, RecordTooLargeError)
    assert "max.message.bytes" in (error.hint or "")


@pytest.mark.parametrize(("size", "is_large"), [(60_000, True), (6_000, False)])
async def test_a_large_request_on_which_brokers_hang_up(brokers: FakeCluster, size: int, is_large: bool) -> None:
    brokers.create_topic("t")
    async with running(brokers, retries=2) as producer:
        brokers.fault(ProduceRequest, drop="before", times=None)
        error = await failed(producer, b"x" * size)
    assert type(error) is UnknownOutcomeError
    assert (error.hint or "").startswith("They may be stored")
    assert ("socket.request.max.bytes: this one had 60" in (error.hint or "")) == is_large


@pytest.mark.parametrize(
    ("code", "family"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, RejectedError),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, UnknownOutcomeError),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, UnknownOutcomeError),
        (ErrorCode.REQUEST_TIMED_OUT, UnknownOutcomeError),
        (ErrorCode.UNKNOWN_SERVER_ERROR, UnknownOutcomeError),
    ],
)
async def test_the_family_says_whether_it_may_be_stored(
    brokers: FakeCluster, code: ErrorCode, family: type[DeliveryError]
) -> None:
    brokers.create_topic("t")
    async with running(brokers, retries=0, acks=1) as producer:
        brokers.fault(ProduceRequest, error=code)
        error = await failed(producer)
    assert type(error) is family
    assert error.code is code
    assert error.attempts == 1


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_retries_are_counted(brokers: FakeCluster, retries: int) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, retries=retries, enable_idempotence=False) as producer:
        if retries:
            brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=retries)
        assert (await producer.send("t", b"v")).offset == 0
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=retries + 1)
        error = await failed(producer)
        assert producer.metrics()["record_retry_total"] == 2 * retries
        assert producer.metrics()["record_error_total"] == 1
    assert error.attempts == retries + 1
    assert len(topic.records()) == 1


async def test_the_connection_is_lost_and_no_retry_is_left(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, retries=1, enable_idempotence=False) as producer:
        brokers.fault(ProduceRequest, drop="before", times=2)
        error = await failed(producer)
    assert type(error) is UnknownOutcomeError
    assert isinstance(error.__cause__, BrokerConnectionError)
    assert (error.attempts, error.broker, error.code) == (2, 1, None)
    assert "retries=1 are used up" in str(error)
    assert "duplicates" in (error.hint or "")


async def test_a_broker_that_does_not_answer_in_time(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    options: dict[str, Any] = {"retries": 0, "request_timeout_ms": 10_000}
    async with running(brokers, clock=clock, **options) as producer:
        silence = brokers.fault(ProduceRequest, hold=True)
        sending = asyncio.create_task(failed(producer))
        await silence.reached.wait()
        pass_time(producer, clock, 11.0)
        error = await sending
        silence.release()
    assert type(error) is UnknownOutcomeError
    assert isinstance(error.__cause__, RequestTimedOutError)


async def test_an_answer_that_can_not_be_read(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, retries=0) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        sending = asyncio.create_task(failed(producer))
        await hold.reached.wait()
        correlation_id = brokers.seen[-1].header.correlation_id
        frame = correlation_id.to_bytes(4, "big") + b"\x00\xff\xff\xff"
        hold.reply = len(frame).to_bytes(4, "big") + frame
        hold.release()
        error = await sending
        assert type(error) is UnknownOutcomeError
        assert isinstance(error.__cause__, ProtocolError)
        assert (await producer.send("t", b"next")).partition == 0


async def test_duplicate_sequence_counts_as_delivered(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    spy = Spy()
    async with running(brokers, interceptors=[spy]) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        metadata = await producer.send("t", b"value", key=b"k")
        brokers.fault(ProduceRequest, error=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, times=None)
        result = await producer.send_many("t", [b"a", b"b"])
    assert (metadata.offset, metadata.serialized_key_size, metadata.serialized_value_size) == (-1, 1, 5)
    assert (result.count, result.offsets, result.failures) == (2, {}, ())
    assert [error for _, error in spy.acknowledged] == [None, None, None]


async def test_the_broker_s_time_where_the_topic_wants_it(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, edit=edited(log_append_time_ms=123_456_789))
        assert (await producer.send("t", b"v", timestamp=5)).timestamp == 123_456_789
        assert (await producer.send("t", b"v", timestamp=5)).timestamp == 5


async def test_a_record_that_is_to_blame_has_its_own_reason_and_the_others_arrive(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    outcomes = Outcomes()
    errors = (
        BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="it has no key."),
        BatchIndexAndErrorMessage(batch_index=5, batch_index_error_message=None),
        BatchIndexAndErrorMessage(batch_index=99, batch_index_error_message="no such record."),
    )
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, edit=edited(record_errors=errors))
        futures = [producer.submit("t", b"%d" % n) for n in range(3)]
        many = asyncio.create_task(producer.send_many("t", [b"3", b"4", b"5", b"6"]))
        await until(lambda: producer.buffered.records == 7)
        producer.send_nowait("t", b"7", on_delivery=outcomes)
        await producer.flush()
        culprit = futures[1].exception()
        assert [(await futures[n]).offset for n in (0, 2)] == [0, 1]
        assert outcomes.offsets == [5]
        result = await many
        report = await producer.close()
    assert isinstance(culprit, RejectedError)
    assert "it has no key." in str(culprit)
    assert str(culprit).startswith("2 records of t-0 were not delivered: Broker 1 answered INVALID_RECORD")
    ((index, blamed),) = result.failures
    assert index == 2
    assert isinstance(blamed, RejectedError)
    assert "no reason given" in str(blamed)
    assert result.offsets == {TopicPartition("t", 0): (range(2, 5),)}
    assert [record.value for record in topic.records()] == [b"0", b"2", b"3", b"4", b"6", b"7"]
    assert (report.delivered, report.rejected) == (6, 2)


async def test_a_batch_that_may_be_stored_is_not_sent_again_without_those_to_blame(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors = (BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="it has no key."),)
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.REQUEST_TIMED_OUT)
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, edit=edited(record_errors=errors))
        futures = [producer.submit("t", b"%d" % n) for n in range(3)]
        await producer.flush()
        for future, reason in zip(
            futures, ["others of its batch", "it has no key", "others of its batch"], strict=True
        ):
            with pytest.raises(UnknownOutcomeError, match=reason):
                await future


async def test_when_all_records_are_to_blame_none_is_sent_again(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    errors = tuple(
        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=f"reason {index}.") for index in (1, 0)
    )
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, edit=edited(record_errors=errors))
        futures = [producer.submit("t", b"%d" % n) for n in range(2)]
        await producer.flush()
        for index, future in enumerate(futures):
            with pytest.raises(RejectedError, match=rf"reason {index}\."):
                await future
    assert len(produced(brokers)) == 1


async def test_invalid_record_without_culprits_fails_the_batch(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD)
        error = await failed(producer)
    assert type(error) is RejectedError
    assert "INVALID_RECORD" in str(error)


async def test_one_partition_of_a_request_fails_alone(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t", partitions=3)
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION, partition=TopicPartition("t", 1))
        futures = [producer.submit("t", b"%d" % n, partition=n) for n in range(3)]
        await producer.flush()
        assert [future.exception() is None for future in futures] == [True, False, True]
    assert [record.value for record in topic.records()] == [b"0", b"2"]


async def test_a_record_that_no_attempt_was_made_for_was_not_sent(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, **LINGERING) as producer:
        await producer.partitions_for("t")
        future = producer.submit("t", b"v")
        await producer.close(0)
        with pytest.raises(NotSentError, match="the producer was closed") as raised:
            await future
    error = raised.value
    assert (error.attempts, error.broker, error.code, error.__cause__) == (0, None, None, None)
    assert "can be sent again" in (error.hint or "")


async def test_a_broker_that_is_too_old_for_us(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    brokers[1].versions[ProduceRequest] = (0, 2)
    async with running(brokers) as producer:
        for _ in range(2):
            error = await failed(producer)
            assert type(error) is NotSentError
            assert "Produce" in str(error)
            await until(lambda: producer.buffered == (0, 0))
    assert not brokers.seen_of(ProduceRequest)
