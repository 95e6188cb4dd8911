"""Exceptions that are aiokafka's and aioprod's at once, and those for programs without aiokafka."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from typing import Any

import aiokafka.errors
import pytest

from aioprod.compat.aiokafka import errors, own_errors
from aioprod.compat.aiokafka.translation import kafka_error
from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    BufferFullError,
    ErrorCode,
    InvalidTopicError,
    MetadataTimeoutError,
    NotSentError,
    ProducerClosedError,
    ProducerFencedError,
    ProtocolError,
    RecordTooLargeError,
    RejectedError,
    RequestTimedOutError,
    SerializationError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UnknownTopicError,
    UnsupportedVersionError,
    UsageError,
)


def rejected(code: ErrorCode) -> RejectedError:
    return RejectedError("A sentence.", topic="t", partition=0, code=code)


def caused_by(error: AioprodError, cause: BaseException) -> AioprodError:
    error.__cause__ = cause
    return error


PLACE: Any = {"topic": "t", "partition": 0}

KINDS: list[tuple[AioprodError, str]] = [
    (ProducerFencedError("x"), "ProducerFenced"),
    (RecordTooLargeError("x"), "MessageSizeTooLargeError"),
    (UnknownTopicError("x"), "UnknownTopicOrPartitionError"),
    (InvalidTopicError("x"), "InvalidTopicError"),
    (AuthenticationError("x"), "AuthenticationFailedError"),
    (RequestTimedOutError("x"), "RequestTimedOutError"),
    (BrokerConnectionError("x"), "KafkaConnectionError"),
    (BufferFullError("x"), "KafkaTimeoutError"),
    (MetadataTimeoutError("x"), "KafkaTimeoutError"),
    (ProducerClosedError("x"), "ProducerClosed"),
    (ProtocolError("x"), "KafkaProtocolError"),
    (UnsupportedVersionError("x"), "IncompatibleBrokerVersion"),
    (UsageError("x"), "IllegalStateError"),
    (AuthorizationError("x", resource_type="topic"), "TopicAuthorizationFailedError"),
    (AuthorizationError("x", resource_type="group"), "GroupAuthorizationFailedError"),
    (AuthorizationError("x", resource_type="cluster"), "ClusterAuthorizationFailedError"),
    (AuthorizationError("x", resource_type="transactional_id"), "TransactionalIdAuthorizationFailed"),
    (AuthorizationError("x"), "KafkaError"),
    (BrokerError("x", code=ErrorCode.COORDINATOR_NOT_AVAILABLE), "GroupCoordinatorNotAvailableError"),
    (BrokerError("x", code=12345), "UnknownError"),
    (rejected(ErrorCode.MESSAGE_TOO_LARGE), "MessageSizeTooLargeError"),
    (rejected(ErrorCode.NOT_ENOUGH_REPLICAS), "NotEnoughReplicasError"),
    (rejected(ErrorCode.INVALID_TIMESTAMP), "InvalidTimestampError"),
    (NotSentError("x", **PLACE), "KafkaTimeoutError"),
    (UnknownOutcomeError("x", **PLACE), "KafkaTimeoutError"),
    (caused_by(UnknownOutcomeError("x", **PLACE), RequestTimedOutError("y")), "RequestTimedOutError"),
    (caused_by(NotSentError("x", **PLACE), UnknownTopicError("y")), "UnknownTopicOrPartitionError"),
    (caused_by(NotSentError("x", **PLACE), ProducerClosedError("y")), "ProducerClosed"),
    (caused_by(TransactionAbortedError("x"), rejected(ErrorCode.MESSAGE_TOO_LARGE)), "MessageSizeTooLargeError"),
    (TransactionAbortedError("x"), "KafkaError"),
]


@pytest.mark.parametrize(("error", "name"), KINDS, ids=lambda given: given if isinstance(given, str) else None)
def test_an_error_is_of_both_kinds(error: AioprodError, name: str) -> None:
    made: Any = kafka_error(error)
    assert isinstance(made, getattr(aiokafka.errors, name))
    assert isinstance(made, type(error))
    assert type(made).__name__ == name
    assert str(error) in str(made)
    assert (made.may_be_stored, made.hint, made.__cause__) == (error.may_be_stored, error.hint, error.__cause__)


def test_an_error_without_counterpart_stays_as_it_is() -> None:
    error = SerializationError("x")
    assert kafka_error(error) is error


def test_an_error_is_not_made_one_twice() -> None:
    made = kafka_error(NotSentError("x", **PLACE))
    assert isinstance(made, AioprodError)
    assert kafka_error(made) is made


def test_classes_are_made_once() -> None:
    assert type(kafka_error(UsageError("x"))) is type(kafka_error(UsageError("y")))


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error)), lambda e: e.again()])
def test_copies_keep_everything(again: Any) -> None:
    made: Any = kafka_error(NotSentError("A sentence.", topic="t", partition=3, hint="Wait."))
    copied = again(made)
    assert type(copied) is type(made)
    assert (copied.partition, str(copied)) == (3, str(made))


def test_the_names_are_aiokafkas_own_classes() -> None:
    for name in own_errors.names():
        assert getattr(errors, name) is getattr(aiokafka.errors, name)
    assert set(dir(errors)) == {"for_code", *own_errors.names()}


@pytest.mark.parametrize("module", [errors, own_errors])
def test_a_name_that_does_not_exist(module: Any) -> None:
    with pytest.raises(AttributeError, match="no exception 'NoSuchError'"):
        _ = module.NoSuchError


# --- without aiokafka


def of_aiokafka() -> dict[str, type[Exception]]:
    every = inspect.getmembers(aiokafka.errors, inspect.isclass)
    return {name: kind for name, kind in every if issubclass(kind, Exception)}


def test_every_name_is_there_without_aiokafka() -> None:
    assert set(own_errors.names()) == set(of_aiokafka())


@pytest.mark.parametrize("name", own_errors.names())
def test_own_classes_are_as_aiokafkas(name: str) -> None:
    ours, theirs = getattr(own_errors, name), of_aiokafka()[name]
    assert [kind.__name__ for kind in ours.__mro__] == [kind.__name__ for kind in theirs.__mro__]
    for field in ("errno", "retriable", "invalid_metadata"):
        assert getattr(ours, field, None) == getattr(theirs, field, None)
    # aiokafka has texts for two of these, and of the base there are no objects.
    if name not in ("CommitFailedError", "ProducerFenced", "BrokerResponseError"):
        assert (str(ours()), str(ours("text"))) == (str(theirs()), str(theirs("text")))


def test_own_classes_by_code() -> None:
    for code in range(-2, 120):
        assert own_errors.for_code(code).__name__ == aiokafka.errors.for_code(code).__name__


_WITHOUT = """
import sys
for name in ("aiokafka", "aiokafka.errors", "aiokafka.structs"):
    sys.modules[name] = None
from aioprod.compat.aiokafka import AIOKafkaProducer, TopicPartition, RecordMetadata, errors, install
from aioprod.compat.aiokafka.translation import kafka_error
from aioprod.errors import NotSentError, UsageError
error = kafka_error(NotSentError("A sentence.", topic="t", partition=0))
assert isinstance(error, errors.KafkaTimeoutError) and isinstance(error, NotSentError), type(error)
assert str(error) == "KafkaTimeoutError: A sentence.", str(error)
assert TopicPartition("t", 1) == ("t", 1) and RecordMetadata._fields[2] == "topic_partition"
AIOKafkaProducer(bootstrap_servers="localhost")
try:
    install()
except UsageError as error:
    print(error)
"""


def test_aiokafka_need_not_be_installed() -> None:
    ended = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "aiokafka is not installed, so nothing can use it. Hint: pip install aiokafka\n"
