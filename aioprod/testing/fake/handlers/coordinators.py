"""How a fake broker answers FindCoordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioprod.errors import ErrorCode, ResourceType
from aioprod.messages import FindCoordinatorRequest, FindCoordinatorResponse
from aioprod.messages.find_coordinator import Coordinator
from aioprod.testing.fake.handlers.call import Call

__all__ = ["find_coordinator"]

_MANY_KEYS: Final = 4
"""Version of FindCoordinator: many keys in one request."""

_KEY_TYPES: Final[Mapping[int, ResourceType]] = {0: "group", 1: "transactional_id"}
"""The type of a key by its number in FindCoordinator."""


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Answer the coordinators of groups or transactional ids."""
    if call.version >= _MANY_KEYS:
        found = [_coordinator(call, key, request.key_type) for key in request.coordinator_keys]
        return FindCoordinatorResponse(coordinators=tuple(found))
    one = _coordinator(call, request.key, request.key_type)
    return FindCoordinatorResponse(
        error_code=one.error_code, error_message=one.error_message, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(call: Call, key: str, key_type: int) -> Coordinator:
    node_id = call.state.coordinator(key)
    error = call.fault.error
    if error == ErrorCode.NONE and key_type not in _KEY_TYPES:
        error = ErrorCode.INVALID_REQUEST
    if error == ErrorCode.NONE:
        error = call.denied("DESCRIBE", _KEY_TYPES[key_type], key)
    if error == ErrorCode.NONE and node_id not in call.state.nodes:
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error != ErrorCode.NONE or node_id is None:
        return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=error.name)
    host, port = call.state.nodes[node_id]
    return Coordinator(key=key, node_id=node_id, host=host, port=port, error_message="")
