"""What a test orders to go wrong, and what it may look at afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from aioprod.errors import ErrorCode
from aioprod.types import TopicPartition
from aioprod.wire.frame import RequestHeader
from aioprod.wire.schema import AnyRequest, Response

__all__ = ["Fault", "Seen"]


@dataclass
class Fault:
    """What happens to the next `times` requests of a kind (None: to all) on one node (None: on any), of those that
    `when` is true of.

    In this order: `half_open` leaves the request and all that follow on its connection alone; `drop="lurking"` cuts
    the connection, and what follows happens without it; `delay_s` passes; a hold waits for `release`; `drop="before"`
    cuts the connection. Then the request is carried out, where `error` is answered for `partition` (None: for all; a
    topic's metadata has partition -1) and the request takes effect only if `apply`.

    Of the answer: `drop="after"` cuts in its place; `silent` sends nothing, ever again on this connection;
    `throttle_ms` goes into it; `edit` changes it; `reply` sends other bytes in its place; `cut_after_bytes` sends so
    much of it and cuts.
    """

    kind: type[AnyRequest]
    times: int | None = 1
    node: int | None = None
    when: Callable[[Any], object] | None = None
    partition: TopicPartition | None = None
    error: ErrorCode = ErrorCode.NONE
    apply: bool = False
    delay_s: float = 0.0
    hold: bool = False
    drop: Literal["before", "after", "lurking"] | None = None
    half_open: bool = False
    silent: bool = False
    reply: bytes | None = None
    cut_after_bytes: int | None = None
    edit: Callable[[Any], Response] | None = None
    throttle_ms: int = 0
    hits: int = 0
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Let held requests go on."""
        self.released.set()

    def takes(self, node_id: int, request: AnyRequest) -> bool:
        """Whether this request is one of those meant; it counts then."""
        if not isinstance(request, self.kind) or self.node not in (None, node_id) or self.hits == self.times:
            return False
        if self.when is not None and not self.when(request):
            return False
        self.hits += 1
        self.reached.set()
        return True

    def error_for(self, tp: TopicPartition) -> ErrorCode:
        """The error to answer for a partition; NONE leaves it to the broker."""
        return self.error if self.partition in (None, tp) else ErrorCode.NONE


@dataclass
class Seen:
    """A request that arrived."""

    node: int
    header: RequestHeader
    message: Any
