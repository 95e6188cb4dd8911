"""The requests by which a test cluster creates its ACLs and checks that its brokers have them.

CreateAcls (key 30) and DescribeAcls (key 29). Versions: 1 patterns (KIP-290); 2 flexible; 3 users as resources.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aioprod.testing.acls import Acl
from aioprod.wire.schema import INT8, INT16, INT32, STRING, Request, Response, Struct, array, wire

__all__ = [
    "AclCreation",
    "AclCreationResult",
    "AclDescription",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResource",
    "DescribeAclsResponse",
    "creation_of",
    "described",
]

_ANY: Final = 1
_TYPES: Final = {"topic": 2, "group": 3, "cluster": 4, "transactional_id": 5, "delegation_token": 6}
_PATTERNS: Final = {"literal": 3, "prefixed": 4}
_PERMISSIONS: Final = {"deny": 2, "allow": 3}
_OPERATIONS: Final = {
    "ALL": 2,
    "READ": 3,
    "WRITE": 4,
    "CREATE": 5,
    "DELETE": 6,
    "ALTER": 7,
    "DESCRIBE": 8,
    "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10,
    "ALTER_CONFIGS": 11,
    "IDEMPOTENT_WRITE": 12,
}
"""Kafka's numbers."""


class AclCreationResult(Struct):
    """The outcome for one ACL."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")


class CreateAclsResponse(Response):
    """The outcome for each ACL, in the order of the request."""

    API_KEY = 30
    NAME = "CreateAcls"
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    results: tuple[AclCreationResult, ...] = wire(array(AclCreationResult))


class AclCreation(Struct):
    """An ACL by Kafka's numbers; `host` is the client's address, "*" for any."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class CreateAclsRequest(Request[CreateAclsResponse]):
    """ACLs to create."""

    API_KEY = 30
    NAME = "CreateAcls"
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    RESPONSE = CreateAclsResponse

    creations: tuple[AclCreation, ...] = wire(array(AclCreation))


class AclDescription(Struct):
    """A principal, an operation, and whether it is allowed or denied."""

    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DescribeAclsResource(Struct):
    """The ACLs of one resource."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    acls: tuple[AclDescription, ...] = wire(array(AclDescription))


class DescribeAclsResponse(Response):
    """The ACLs that match the filter."""

    API_KEY = 29
    NAME = "DescribeAcls"
    VERSIONS = (1, 3)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable="0+")
    resources: tuple[DescribeAclsResource, ...] = wire(array(DescribeAclsResource))


class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """A filter for ACLs; by default it matches all."""

    API_KEY = 29
    NAME = "DescribeAcls"
    VERSIONS = (1, 3)
    FLEXIBLE = 2
    RESPONSE = DescribeAclsResponse

    resource_type_filter: int = wire(INT8, default=_ANY)
    resource_name_filter: str | None = wire(STRING, nullable="0+", default=None)
    pattern_type_filter: int = wire(INT8, default=_ANY)
    principal_filter: str | None = wire(STRING, nullable="0+", default=None)
    host_filter: str | None = wire(STRING, nullable="0+", default=None)
    operation: int = wire(INT8, default=_ANY)
    permission_type: int = wire(INT8, default=_ANY)


def creation_of(acl: Acl) -> AclCreation:
    """The row of CreateAcls for an ACL."""
    return AclCreation(
        resource_type=_TYPES[acl.resource_type],
        resource_name=acl.name,
        resource_pattern_type=_PATTERNS[acl.pattern],
        principal=acl.principal,
        host="*",
        operation=_OPERATIONS[acl.operation],
        permission_type=_PERMISSIONS[acl.permission],
    )


def described(answer: DescribeAclsResponse) -> Iterator[AclCreation]:
    """The ACLs of a broker's response, as rows of CreateAcls."""
    for resource in answer.resources:
        for acl in resource.acls:
            yield AclCreation(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                resource_pattern_type=resource.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
