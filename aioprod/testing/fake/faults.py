"""`Fault`, which makes requests fail, and `Seen`, a request that arrived."""

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
    """What happens to the next `times` requests of class `kind`. Raises ConfigError for a fault without effect.

    In this order: `half_open`, `drop="lurking"`, `delay_s`, `hold`, `drop="before"`; the handler, with `error` and
    `apply`; `drop="after"`, `silent`, `throttle_ms`, `edit`, `reply`, `cut_after_bytes`.
    """

    kind: type[AnyRequest]
    times: int | None = 1
    """How many requests it hits; None: all."""
    node: int | None = None
    """The broker; None: any."""
    when: Callable[[Any], object] | None = None
    """Which requests: those for which it returns true."""
    partition: TopicPartition | None = None
    """For which partition `error` is answered; None: for all. The partition of a topic's metadata is -1."""
    error: ErrorCode = ErrorCode.NONE
    """What the handler answers; the request then takes effect only with `apply`."""
    apply: bool = False
    """Whether a request with an error takes effect."""
    delay_s: float = 0.0
    """Seconds to wait before the handler."""
    hold: bool = False
    """Whether to wait for `release()` before the handler."""
    drop: Literal["before", "after", "lurking"] | None = None
    """Abort the connection: before the handler; after it, instead of sending the response; or "lurking": before all
    waiting, and handle the request all the same."""
    half_open: bool = False
    """Whether this request and all later ones on its connection are ignored."""
    silent: bool = False
    """Whether no response is sent on this connection from now on."""
    reply: bytes | None = None
    """The frame to send instead of the response."""
    cut_after_bytes: int | None = None
    """How many bytes of the response are sent before the connection is aborted."""
    edit: Callable[[Any], Response] | None = None
    """From the response to the one to send."""
    throttle_ms: int = 0
    """The throttle time in the response."""
    hits: int = field(default=0, init=False)
    reached: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    released: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _was_answered: bool = field(default=False, init=False)
    _is_ended: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        check_fault(self)

    def __repr__(self) -> str:
        """Only the fields that were set: `fault(ProduceRequest, drop='after')`."""
        given = [f"{row.name}={getattr(self, row.name)!r}" for row in fields(self)[1:] if self._is_set(row)]
        return f"fault({', '.join([self.kind.__name__, *given])})"

    def _is_set(self, row: Field[Any]) -> bool:
        return row.init and getattr(self, row.name) != row.default

    @property
    def is_unused(self) -> bool:
        """Whether it was not ended and has not hit a request, or none with its partition."""
        if self._is_ended or self.times == 0:
            return False
        return self.hits == 0 or (self.partition is not None and not self._was_answered)

    def end(self) -> None:
        """Hit no more requests. An ended fault does not count as unused."""
        self.times = self.hits
        self._is_ended = True

    def release(self) -> None:
        """Resume the held requests."""
        self.released.set()

    def try_hit(self, node_id: int, request: AnyRequest) -> bool:
        """Whether the fault hits this request; if so, count the hit."""
        if not isinstance(request, self.kind) or self.node not in (None, node_id) or self.hits == self.times:
            return False
        if self.when is not None and not self.when(request):
            return False
        self.hits += 1
        self.reached.set()
        return True

    def error_for(self, tp: TopicPartition) -> ErrorCode:
        """The error to answer for a partition; NONE if the fault has none for it."""
        if self.partition not in (None, tp):
            return ErrorCode.NONE
        self._was_answered = True
        return self.error


class NoFault(Fault):
    """The fault of requests without one: no effect."""

    def __post_init__(self) -> None:
        pass


NO_FAULT: Final = NoFault(Request)


@dataclass
class Seen:
    """A request that arrived at a broker, with its header."""

    node: int
    header: RequestHeader
    message: Any
