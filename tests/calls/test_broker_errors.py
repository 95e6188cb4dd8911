from __future__ import annotations

import pytest

from aioprod._authorization_errors import Right
from aioprod.calls.broker_errors import broker_error
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    InvalidTopicError,
    TopicExistsError,
    UnknownTopicError,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicError),
        (ErrorCode.UNKNOWN_TOPIC_ID, UnknownTopicError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
        (ErrorCode.TOPIC_ALREADY_EXISTS, TopicExistsError),
        (9999, BrokerError),
    ],
)
def test_each_code_has_its_class(code: ErrorCode | int, kind: type[AioprodError]) -> None:
    rights = [Right("CREATE", "topic", "t"), Right("CREATE", "cluster", "kafka-cluster")]
    error = broker_error("Topic 't' could not be created", code, rights, instead="CREATE on the cluster")
    assert type(error) is kind
    if isinstance(error, BrokerError):
        assert error.code == code
    if isinstance(error, AuthorizationError):
        assert (error.resource_type, error.resource) in (("topic", "t"), ("cluster", "kafka-cluster"))
        assert error.operation == "CREATE"
        assert error.hint is not None
        assert "--operation Create --" in error.hint


def test_the_sentence() -> None:
    code = ErrorCode.INVALID_CONFIG
    assert broker_error("It failed", code).message == "It failed: the broker answered INVALID_CONFIG."
    assert broker_error("It failed", 9999).message == "It failed: the broker answered error 9999."
    assert broker_error("It failed", code, message="Bad value.").message == "It failed: Bad value."


def test_the_broker_s_message_about_missing_rights_is_not_repeated() -> None:
    """It may be a page of its internals."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    page = "Request Request(processor=1, connectionId=127.0.0.1:1, header=...) is not authorized."
    assert (
        broker_error("It failed", code, message=page).message
        == "It failed: the broker answered CLUSTER_AUTHORIZATION_FAILED."
    )
