"""Coordinators for fake brokers: who looks after which key, and answers that tell which broker gave them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioprod.errors import ErrorCode
from aioprod.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
)
from aioprod.messages.find_coordinator import Coordinator as CoordinatorRow
from aioprod.types import TopicPartition
from tests.support.fake_broker import FakeBrokers

ANYTHING = TopicPartition("", -1)


class Coordinators:
    """Makes fake brokers answer FindCoordinator and InitProducerId; producer ids are the node ids of who answered.

    `node_id` is the coordinator of everything, None while there is none; `found` are the keys asked for.
    """

    def __init__(self, brokers: FakeBrokers, node_id: int | None = 1) -> None:
        self.node_id = node_id
        self.found: list[tuple[int, str]] = []
        self.refusal: tuple[ErrorCode, str | None] | None = None
        self.names_other_keys = False
        self._state = brokers.state
        self._others: Callable[..., Any] = brokers.state.answer
        brokers.state.answer = self._answer  # type: ignore[method-assign]  # on purpose
        for broker in brokers.brokers.values():
            for kind in (FindCoordinatorRequest, InitProducerIdRequest, TxnOffsetCommitRequest):
                broker.versions[kind] = (kind.VERSIONS[0], kind.STABLE_MAX or kind.VERSIONS[1])

    def _answer(self, node_id: int, version: int, request: Any, error_for: Any, *, apply: bool) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return self._find(version, request, error_for(ANYTHING))
        if isinstance(request, InitProducerIdRequest):
            error = ErrorCode.NONE if node_id == self.node_id else ErrorCode.NOT_COORDINATOR
            return InitProducerIdResponse(error_code=error_for(ANYTHING) or error, producer_id=node_id)
        return self._others(node_id, version, request, error_for, apply=apply)

    def _find(self, version: int, request: FindCoordinatorRequest, wanted: ErrorCode) -> FindCoordinatorResponse:
        keys = list(request.coordinator_keys) if version >= 4 else [request.key]
        self.found += [(request.key_type, key) for key in keys]
        code, said = self.refusal or (wanted, None)
        node_id = -1 if self.node_id is None else self.node_id
        if code == ErrorCode.NONE and self.node_id is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        host, port = self._state.nodes.get(node_id, ("127.0.0.1", 1)) if code == ErrorCode.NONE else ("", -1)
        if version < 4:
            return FindCoordinatorResponse(error_code=code, error_message=said, node_id=node_id, host=host, port=port)
        rows = [
            CoordinatorRow(
                key="another" if self.names_other_keys else key,
                node_id=node_id,
                host=host,
                port=port,
                error_code=code,
                error_message=said,
            )
            for key in keys
        ]
        return FindCoordinatorResponse(coordinators=tuple(rows))
