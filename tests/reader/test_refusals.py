from __future__ import annotations

import pytest

from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ErrorCode,
    InvalidTopicError,
    UnknownTopicError,
)
from aioprod.reader.refusals import refusal


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UnknownTopicError),
        (ErrorCode.UNKNOWN_TOPIC_ID, UnknownTopicError),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, InvalidTopicError),
        (ErrorCode.TOPIC_ALREADY_EXISTS, BrokerError),
        (9999, BrokerError),
    ],
)
def test_each_code_has_its_class(code: ErrorCode | int, kind: type[AioprodError]) -> None:
    error = refusal("Topic 't' could not be created", "t", code)
    assert type(error) is kind
    if isinstance(error, BrokerError):
        assert error.code == code
    if isinstance(error, AuthorizationError):
        assert (error.resource, error.hint) == ("t", "Allow this client to do that (ACLs).")


def test_the_sentence() -> None:
    code = ErrorCode.INVALID_CONFIG
    assert refusal("It failed", None, code).message == "It failed: the broker answered INVALID_CONFIG."
    assert refusal("It failed", None, 9999).message == "It failed: the broker answered error 9999."
    assert refusal("It failed", None, code, "Bad value.").message == "It failed: Bad value."
