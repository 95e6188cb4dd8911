"""`Fault`, which makes requests fail, and `Seen`, a request that arrived.

To add a kind of fault: a field of `Fault` whose default has no effect, a check in `checks.py` for values without
effect, and the place in `broker.py` where it acts.
"""

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
    """What happens to the next `times` requests of class `kind` (None: to all of them) on `node` (None: on any) for
    which `when` returns true.

    In this order: `half_open` ignores the request and all later ones on its connection; `drop="lurking"` aborts the
    connection but still handles the request; `delay_s` waits; `hold` waits for `release()`; `drop="before"` aborts the
    connection. Then the handler runs: it answers `error` for `partition` (None: for all; the partition of a topic's
    metadata is -1), and the request takes effect only if `apply`.

    With the response: `drop="after"` aborts the connection instead of sending it; `silent` sends no response on this
    connection from now on; `throttle_ms` is its throttle time; `edit` returns another one; `reply` is the frame to send
    instead; `cut_after_bytes` sends only so many bytes and aborts. Raises ConfigError for a fault without effect.
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
