"""`Call`: what a handler gets beside the request itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aioprod._authorization_errors import DENIAL_CODES
from aioprod.errors import ErrorCode, Operation, ResourceType
from aioprod.testing.acls import ANONYMOUS
from aioprod.testing.fake.faults import Fault
from aioprod.testing.fake.state.cluster_state import FakeState

if TYPE_CHECKING:
    from aioprod.testing.security import Security

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """The context of one request: the cluster's state, the broker that handles it, its version, its fault, and the
    client with its principal. Without `security` every client is authorized for everything."""

    state: FakeState
    node_id: int
    version: int
    fault: Fault
    client_id: str = ""
    principal: str = ANONYMOUS
    security: Security | None = None

    def misdirected(self, key: str) -> ErrorCode:
        """NOT_COORDINATOR unless this broker coordinates the group or transactional id."""
        return ErrorCode.NONE if self.state.coordinator(key) == self.node_id else ErrorCode.NOT_COORDINATOR

    def denied(self, operation: Operation, resource_type: ResourceType, name: str | None) -> ErrorCode:
        """The error if the client is not authorized, else NONE; `name` None: for at least one resource of the type."""
        if self.security is None or self.security.allows(self.principal, operation, resource_type, name):
            return ErrorCode.NONE
        return DENIAL_CODES[resource_type]
