"""What a handler gets beside the request itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from aioprod._rights import REFUSALS
from aioprod.errors import ErrorCode, Operation, ResourceType
from aioprod.testing.acls import ANONYMOUS
from aioprod.testing.fake.faults import Fault
from aioprod.testing.fake.state.cluster_state import FakeState

if TYPE_CHECKING:
    from aioprod.testing.security import Security

__all__ = ["Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """A request on its way through a broker: what it may touch, who handles it, its version, what goes wrong, the name
    of the client, who that is, and who may do what (`security` None: everybody anything)."""

    state: FakeState
    node_id: int
    version: int
    fault: Fault
    client_id: str = ""
    principal: str = ANONYMOUS
    security: Security | None = None

    def misdirected(self, key: str) -> ErrorCode:
        """Why this broker does not speak for a group or transactional id, NONE if it does."""
        return ErrorCode.NONE if self.state.coordinator(key) == self.node_id else ErrorCode.NOT_COORDINATOR

    def denied(self, operation: Operation, resource_type: ResourceType, name: str | None) -> ErrorCode:
        """The error for what the client may not do, NONE if it may; `name` None: to any one of the type."""
        if self.security is None or self.security.allows(self.principal, operation, resource_type, name):
            return ErrorCode.NONE
        return REFUSALS[resource_type]
