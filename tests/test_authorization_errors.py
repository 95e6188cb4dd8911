"""What is said of a missing right: what it is, and the command that gives it."""

from __future__ import annotations

import pickle
import shlex

import pytest

from aioprod._authorization_errors import IDEMPOTENT_WRITE, Right, authorization_error
from aioprod.errors import ErrorCode, Operation, ResourceType

COMMAND = "kafka-acls.sh --add --allow-principal User:NAME"
EACH: list[tuple[ErrorCode, ResourceType, Operation, str, str]] = [
    (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic", "WRITE", "topic 'name'", "--operation Write --topic name"),
    (ErrorCode.GROUP_AUTHORIZATION_FAILED, "group", "READ", "group 'name'", "--operation Read --group name"),
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        "cluster",
        "DESCRIBE_CONFIGS",
        "the cluster",
        "--operation DescribeConfigs --cluster",
    ),
    (
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "transactional_id",
        "WRITE",
        "transactional id 'name'",
        "--operation Write --transactional-id name",
    ),
    (
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        "delegation_token",
        "DESCRIBE",
        "delegation token 'name'",
        "--operation Describe --delegation-token name",
    ),
]
RIGHTS = [Right(operation, kind, "name") for _, kind, operation, *_ in EACH]


@pytest.mark.parametrize(("code", "kind", "operation", "said", "flags"), EACH)
def test_each_code_names_its_resource_and_operation(
    code: ErrorCode, kind: ResourceType, operation: Operation, said: str, flags: str
) -> None:
    error = authorization_error("It failed.", code, RIGHTS)
    assert error is not None
    assert (error.resource_type, error.resource, error.operation) == (kind, "name", operation)
    hint = f"Allow the principal of this client {operation} on {said}: `{COMMAND} {flags}`."
    assert str(error) == f"It failed. Hint: {hint}"
    again = pickle.loads(pickle.dumps(error))
    assert again.__dict__ == error.__dict__


def test_no_other_code_speaks_of_rights() -> None:
    denied = {code for code in ErrorCode if authorization_error("It failed.", code, RIGHTS) is not None}
    assert denied == {code for code, *_ in EACH}
    assert all("AUTHORIZATION_FAILED" in code.name for code in denied)
    assert authorization_error("It failed.", 9999, RIGHTS) is None


def test_several_rights_are_one_command() -> None:
    rights = [Right(operation, "topic", name) for name in ("a", "b") for operation in ("DESCRIBE", "WRITE")]
    error = authorization_error("It failed.", ErrorCode.TOPIC_AUTHORIZATION_FAILED, [*rights, IDEMPOTENT_WRITE])
    assert error is not None
    assert (error.resource, error.operation) == ("a", "DESCRIBE")
    assert error.hint is not None
    assert " DESCRIBE and WRITE on topic 'a', 'b': " in error.hint
    assert error.hint.endswith(f"`{COMMAND} --operation Describe --operation Write --topic a --topic b`.")


def test_of_many_resources_the_first_are_named() -> None:
    rights = [Right("READ", "topic", f"t{number}") for number in range(1000)]
    error = authorization_error("It failed.", ErrorCode.TOPIC_AUTHORIZATION_FAILED, rights)
    assert error is not None
    assert str(error.hint).count("--topic") == 5
    assert "'t4' and 995 more: " in str(error.hint)


def test_what_serves_as_well() -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    error = authorization_error("It failed.", code, [IDEMPOTENT_WRITE], instead="WRITE on any topic")
    assert error is not None
    assert (error.resource, error.operation) == ("kafka-cluster", "IDEMPOTENT_WRITE")
    assert "IDEMPOTENT_WRITE on the cluster" in str(error.hint)
    assert str(error.hint).endswith("--operation IdempotentWrite --cluster`, or WRITE on any topic.")


@pytest.mark.parametrize("name", ["it's", "a b", "$(reboot)", "`x`", "*", "ü"])
def test_names_are_quoted_for_a_shell(name: str) -> None:
    """Groups and transactional ids may have any name."""
    error = authorization_error("It failed.", ErrorCode.GROUP_AUTHORIZATION_FAILED, [Right("READ", "group", name)])
    assert error is not None
    assert error.hint is not None
    command = error.hint.partition(f": `{COMMAND} ")[2].removesuffix("`.")
    assert shlex.split(command) == ["--operation", "Read", "--group", name]


def test_a_broker_that_finds_fault_with_what_nobody_asked_for() -> None:
    error = authorization_error("It failed.", ErrorCode.GROUP_AUTHORIZATION_FAILED, [IDEMPOTENT_WRITE])
    assert error is not None
    assert (error.resource_type, error.resource, error.operation) == ("group", None, None)
    assert "kafka.authorizer.logger" in str(error.hint)
