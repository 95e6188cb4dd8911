"""ACLs of test clusters: their evaluation, invalid ones, and the requests that create them."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.errors import ConfigError, Operation
from aioprod.testing import Acl, Security
from aioprod.testing.acls import allows
from aioprod.testing.kafka.acl_requests import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
    creation_of,
    described,
)

ALICE, BOB = "User:alice", "User:bob"


def may(acls: list[Acl], operation: Operation, topic: str | None, principal: str = ALICE) -> bool:
    return allows(acls, principal, operation, "topic", topic)


def test_without_permission_an_operation_is_denied() -> None:
    assert not may([], "WRITE", "t")
    acls = [Acl(ALICE, "WRITE", "topic", "t")]
    assert may(acls, "WRITE", "t")
    assert not may(acls, "READ", "t")
    assert not may(acls, "WRITE", "t2")
    assert not may(acls, "WRITE", "t", BOB)
    assert not allows(acls, ALICE, "WRITE", "group", "t")


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_permissions_imply_describe(operation: Operation) -> None:
    assert may([Acl(ALICE, operation, "topic", "t")], "DESCRIBE", "t")
    # The reverse is not so, and what is denied implies nothing.
    assert not may([Acl(ALICE, "DESCRIBE", "topic", "t")], operation, "t")
    denied = [Acl(ALICE, "ALL", "topic", "t"), Acl(ALICE, operation, "topic", "t", permission="deny")]
    assert may(denied, "DESCRIBE", "t")


def test_alter_configs_implies_describe_configs() -> None:
    assert may([Acl(ALICE, "ALTER_CONFIGS", "topic", "t")], "DESCRIBE_CONFIGS", "t")
    assert not may([Acl(ALICE, "ALTER", "topic", "t")], "DESCRIBE_CONFIGS", "t")


def test_patterns() -> None:
    prefixed = [Acl(ALICE, "WRITE", "topic", "orders-", "prefixed")]
    assert [may(prefixed, "WRITE", name) for name in ("orders-1", "orders-", "orders", "x-orders-1")] == [
        True, True, False, False,
    ]  # fmt: skip
    assert may([Acl("User:*", "ALL", "topic", "*")], "CREATE", "whatever", BOB)


def test_a_denial_overrides_permissions() -> None:
    for name, pattern in (("t", "literal"), ("*", "literal"), ("", "prefixed")):
        acls = [Acl(ALICE, "ALL", "topic", "t"), Acl("User:*", "WRITE", "topic", name, pattern, "deny")]  # type: ignore[arg-type]
        assert not may(acls, "WRITE", "t")
        assert may(acls, "READ", "t")


def test_any_of_a_type() -> None:
    """As brokers look for WRITE on any topic (KIP-679): one that is denied in whole does not count."""
    literal = Acl(ALICE, "WRITE", "topic", "orders-1")
    prefixed = Acl(ALICE, "WRITE", "topic", "orders-", "prefixed")
    assert may([literal], "WRITE", None)
    assert may([prefixed], "WRITE", None)
    assert not may([literal, prefixed], "WRITE", None, BOB)
    assert not may([], "WRITE", None)
    for deny, expected in (
        (Acl(ALICE, "ALL", "topic", "*", permission="deny"), (False, False)),
        (Acl(ALICE, "WRITE", "topic", "orders-1", permission="deny"), (False, True)),
        (Acl(ALICE, "WRITE", "topic", "ord", "prefixed", "deny"), (False, False)),
        (Acl(ALICE, "WRITE", "topic", "orders-10", "prefixed", "deny"), (True, True)),
        (Acl(ALICE, "READ", "topic", "*", permission="deny"), (True, True)),
        (Acl(BOB, "WRITE", "topic", "*", permission="deny"), (True, True)),
    ):
        assert (may([literal, deny], "WRITE", None), may([prefixed, deny], "WRITE", None)) == expected


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"principal": "alice"}, "'alice': it must begin with User:"),
        ({"operation": "write"}, "'write': it must be one of ALL, READ, WRITE"),
        ({"resource_type": "table"}, "'table': it must be one of topic, group"),
        ({"pattern": "regex"}, "'regex': it must be one of literal, prefixed"),
        ({"permission": "maybe"}, "'maybe': it must be one of allow, deny"),
        ({"resource_type": "cluster"}, "'t': it must be kafka-cluster"),
    ],
)
def test_acls_that_brokers_would_reject_raise(changes: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"principal": ALICE, "operation": "WRITE", "resource_type": "topic", "name": "t"}
    with pytest.raises(ConfigError, match=said):
        Acl(**given | changes)


def test_super_users_and_clusters_without_acls() -> None:
    assert Security().allows(ALICE, "WRITE", "topic", "t")
    strict = Security(acls=[], super_users=[BOB])
    assert not strict.allows(ALICE, "WRITE", "topic", "t")
    assert strict.allows(BOB, "WRITE", "topic", None)


def test_settings_of_a_broker() -> None:
    assert "authorizer.class.name" not in Security().broker_properties()
    assert Security().brokers_login is None
    settings = Security(protocol="PLAINTEXT", acls=[], super_users=[ALICE]).broker_properties()
    listeners = "CLIENT:PLAINTEXT,INTERNAL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
    assert settings["listener.security.protocol.map"] == listeners
    # Brokers have a name of their own, as there may be ACLs for those that have none.
    assert settings["super.users"] == "User:aioprod-brokers;User:alice"
    assert settings["allow.everyone.if.no.acl.found"] == "false"


def test_created_acls_are_described() -> None:
    acl = Acl(ALICE, "IDEMPOTENT_WRITE", "cluster", "kafka-cluster", permission="deny")
    row = creation_of(acl)
    known = AclDescription(principal=ALICE, host="*", operation=12, permission_type=2)
    resource = DescribeAclsResource(resource_type=4, resource_name="kafka-cluster", pattern_type=3, acls=(known,))
    assert list(described(DescribeAclsResponse(error_message=None, resources=(resource,)))) == [row]
