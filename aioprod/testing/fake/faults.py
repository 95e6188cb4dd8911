"""What a test orders to go wrong, and what it may look at afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, Literal

from aioprod.errors import ErrorCode
from aioprod.testing.fake.checks import check_fault
from aioprod.types import TopicPartition
from aioprod.wire.frame import RequestHeader
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = ["NO_FAULT", "Fault", "NoFault", "Seen"]


@dataclass(repr=False)
class Fault:
    """What happens to the next `times` requests of a kind (None: to all) on one node (None: on any), of those that
    `when` is true of.

    In this order: `half_open` leaves the request and all that follow on its connection alone; `drop="lurking"` cuts
    the connection, and what follows happens without it; `delay_s` passes; a hold waits for `release`; `drop="before"`
    cuts the connection. Then the request is carried out, where `error` is answered for `partition` (None: for all; a
    topic's metadata has partition -1) and the request takes effect only if `apply`.

    Of the answer: `drop="after"` cuts in its place; `silent` sends nothing, ever again on this connection;
    `throttle_ms` goes into it; `edit` changes it; `reply` sends other bytes in its place; `cut_after_bytes` sends so
    much of it and cuts. Raises ConfigError for arguments with which it would do nothing.
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
    hits: int = field(default=0, init=False)
    reached: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    released: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _was_answered: bool = field(default=False, init=False)
    _is_ended: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        check_fault(self)

    def __repr__(self) -> str:
        """Only what was said: `fault(ProduceRequest, drop='after')`."""
        said = [f"{row.name}={getattr(self, row.name)!r}" for row in fields(self)[1:] if self._says(row)]
        return f"fault({', '.join([self.kind.__name__, *said])})"

    def _says(self, row: Field[Any]) -> bool:
        return row.init and getattr(self, row.name) != row.default

    @property
    def is_unused(self) -> bool:
        """Whether no request was hit, or none with the partition that was to fail, though it was not ended."""
        if self._is_ended or self.times == 0:
            return False
        return self.hits == 0 or (self.partition is not None and not self._was_answered)

    def end(self) -> None:
        """Hit nothing more. A fault that was ended may be one that never hit."""
        self.times = self.hits
        self._is_ended = True

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
        if self.partition not in (None, tp):
            return ErrorCode.NONE
        self._was_answered = True
        return self.error


class NoFault(Fault):
    """What a request gets for which nothing was ordered."""

    def __post_init__(self) -> None:
        pass


NO_FAULT: Final = NoFault(Request)


@dataclass
class Seen:
    """A request that arrived."""

    node: int
    header: RequestHeader
    message: Any
