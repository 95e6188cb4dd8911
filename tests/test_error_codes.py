from __future__ import annotations

import pytest

from aioprod.errors import ErrorCode


def test_the_codes_are_dense_and_each_has_a_name() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 137))


@pytest.mark.parametrize(
    ("code", "name", "retriable", "refreshes_metadata"),
    [
        (-1, "UNKNOWN_SERVER_ERROR", False, False),
        (0, "NONE", False, False),
        (2, "CORRUPT_MESSAGE", True, False),
        (3, "UNKNOWN_TOPIC_OR_PARTITION", True, True),
        (6, "NOT_LEADER_OR_FOLLOWER", True, True),
        (7, "REQUEST_TIMED_OUT", True, False),
        (10, "MESSAGE_TOO_LARGE", False, False),
        (29, "TOPIC_AUTHORIZATION_FAILED", False, False),
        (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False, False),
        (51, "CONCURRENT_TRANSACTIONS", True, False),
        (74, "FENCED_LEADER_EPOCH", True, True),
        (87, "INVALID_RECORD", False, False),
        (89, "THROTTLING_QUOTA_EXCEEDED", True, False),
        (100, "UNKNOWN_TOPIC_ID", True, True),
        (120, "TRANSACTION_ABORTABLE", False, False),
        (136, "CONTROLLER_ID_NOT_REGISTERED", False, False),
    ],
)
def test_rows(code: int, name: str, retriable: bool, refreshes_metadata: bool) -> None:
    row = ErrorCode.of(code)
    assert isinstance(row, ErrorCode)
    assert (row, row.name) == (code, name)
    assert (row.retriable, row.refreshes_metadata) == (retriable, refreshes_metadata)


def test_what_refreshes_metadata_is_retriable() -> None:
    assert all(code.retriable for code in ErrorCode if code.refreshes_metadata)
    assert sum(code.retriable for code in ErrorCode) > sum(code.refreshes_metadata for code in ErrorCode) > 0


@pytest.mark.parametrize("code", [137, -2, 32767])
def test_a_code_of_a_newer_broker_stays_a_number(code: int) -> None:
    assert ErrorCode.of(code) == code
    assert not isinstance(ErrorCode.of(code), ErrorCode)
