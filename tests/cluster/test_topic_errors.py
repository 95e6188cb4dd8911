"""When a topic is given up, and what is said then."""

from __future__ import annotations

import pytest

from aioprod.cluster import Metadata
from aioprod.cluster.topic_errors import FRESH_S, UNKNOWN_ATTEMPTS, UNKNOWN_S, deletion, topic_error
from aioprod.errors import AioprodError, AuthorizationError, ErrorCode, InvalidTopicError, UnknownTopicError
from tests.support.metadata_answers import exchange, new_metadata, partition, topic


def told(code: ErrorCode, times: int = 1) -> Metadata:
    """A cluster that has answered with an error for topic "t" so often, each second once."""
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    for now in range(times):
        exchange(metadata, float(now), topic("t", error=code))
    return metadata


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
        (ErrorCode.LEADER_NOT_AVAILABLE, None),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
    ],
)
@pytest.mark.parametrize("to_write", [True, False])
def test_what_one_answer_means(code: ErrorCode, kind: type[AioprodError] | None, to_write: bool) -> None:
    error = topic_error(told(code), "t", 100.0, to_write=to_write)
    assert (None if error is None else type(error)) is kind
    if isinstance(error, AuthorizationError):
        assert (error.resource_type, error.resource, error.operation) == ("topic", "t", "DESCRIBE")
        assert error.message.startswith("Topic 't' does not exist, or this client may not describe it: ")
        operations = f"--operation Describe --operation {'Write' if to_write else 'Read'} --topic t`"
        assert operations in str(error.hint)
        assert ("CREATE" in str(error.hint)) is to_write


def test_several_answers_in_a_row_say_that_a_topic_does_not_exist() -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic_error(told(unknown, UNKNOWN_ATTEMPTS - 1), "t", 100.0, to_write=False) is None
    metadata = told(unknown, UNKNOWN_ATTEMPTS)
    assert isinstance(topic_error(metadata, "t", 0.0, to_write=False), UnknownTopicError)
    # Brokers that create topics go on saying so for a while.
    assert topic_error(metadata, "t", UNKNOWN_S - 0.1, to_write=True) is None
    error = topic_error(metadata, "t", UNKNOWN_S, to_write=True)
    assert isinstance(error, UnknownTopicError)
    assert "does not exist, and the cluster does not create it" in str(error)
    assert topic_error(metadata, "another", 100.0, to_write=True) is None


def test_answers_that_are_old_say_nothing_any_more() -> None:
    metadata = told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_ATTEMPTS)
    last = metadata.answered_at("t")
    assert last == UNKNOWN_ATTEMPTS - 1
    assert isinstance(topic_error(metadata, "t", last + FRESH_S, to_write=True), UnknownTopicError)
    assert topic_error(metadata, "t", last + FRESH_S + 0.1, to_write=True) is None
    assert metadata.answered_at("another") == float("-inf")


def test_a_topic_that_was_there_is_called_deleted_after_several_answers() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0)]))
    now = 10.0
    for _ in range(UNKNOWN_ATTEMPTS):
        assert deletion(metadata, "t", now) is None
        now += 1.0
        exchange(metadata, now, topic("t", error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    error = deletion(metadata, "t", now)
    assert isinstance(error, UnknownTopicError)
    assert error.message == "Topic 't' was deleted: brokers have not known it for 3.0 s."
    assert str(topic_error(metadata, "t", now, to_write=True)) == str(error)
    assert deletion(told(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 9), "t", 9.0) is None, "it never was there"
    # One answer that knows it is enough to begin anew.
    exchange(metadata, now, topic("t", [partition(0)]))
    assert deletion(metadata, "t", now) is None


def test_a_topic_that_is_lost_has_no_partitions_and_is_still_asked_for() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0)]))
    metadata.lose_topic("t")
    metadata.lose_topic("another")
    assert metadata.cluster.partition_count("t") == 0
    assert metadata.tracked == {"t"}
    exchange(metadata, 1.0, topic("t", [partition(0), partition(1)]))
    assert metadata.cluster.partition_count("t") == 2
