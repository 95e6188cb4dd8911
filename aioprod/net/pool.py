"""One link per broker: at most one connection, made when it is wanted, made again after a backoff when it is lost."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Protocol

from aioprod.cluster import Node
from aioprod.core.connection import Connection
from aioprod.errors import AioprodError, BrokerConnectionError
from aioprod.net.addresses import text_of
from aioprod.net.connection import BrokerConnection
from aioprod.net.settings import SOFTWARE_NAME, Address, ClientSettings, software_version
from aioprod.net.tasks import Supervisor
from aioprod.net.transport import open_connection

__all__ = ["BrokerLink", "LinkEvents", "LinkState", "Surroundings"]


class LinkState(Enum):
    """IDLE: nobody wants a connection. CONNECTING: until the versions are negotiated. BACKOFF: the last one failed."""

    IDLE = "idle"
    CONNECTING = "connecting"
    READY = "ready"
    BACKOFF = "backoff"


class LinkEvents(Protocol):
    """Who hears of links."""

    def link_ready(self, link: BrokerLink) -> None:
        """Requests may be sent."""

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """The connection is gone or could not be made; `error` is None if we closed it on purpose."""

    def link_data(self, link: BrokerLink) -> None:
        """The answers in one chunk of bytes were completed."""

    def link_writable(self, link: BrokerLink) -> None:
        """Requests may be sent again."""

    def due(self, when: float) -> None:
        """`poll` is wanted at that time."""

    def failed(self, error: BaseException) -> None:
        """A bug."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all links of one client share."""

    settings: ClientSettings
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    random: Random
    tasks: Supervisor
    events: LinkEvents


class BrokerLink:
    """The way to one broker for as long as the client knows it.

    `attempts` counts failures since the link was last ready, `last_error` is the last of them. `backoff_until` and
    `connecting_since` are monotonic seconds. `queue` is a place for whatever its user keeps for each broker. A link
    that is `retired` belongs to a broker that is not in the metadata any more: it closes when nothing is outstanding.
    """

    def __init__(self, node: Node, around: Surroundings) -> None:
        self.node = node
        self.state = LinkState.IDLE
        self.connection: BrokerConnection | None = None
        self.attempts = 0
        self.last_error: AioprodError | None = None
        self.backoff_until = 0.0
        self.connecting_since = 0.0
        self.retired = False
        self.queue: Any = None
        self._around = around
        self._wanted = False
        self._attempt: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<BrokerLink {self.peer}, {self.state.value}>"

    @property
    def is_bootstrap(self) -> bool:
        """Whether this is one of the addresses to begin with, of which no broker id is known."""
        return self.node.id < 0

    @property
    def address(self) -> Address:
        """Where the broker listens, as far as we know."""
        return self.node.host, self.node.port

    @property
    def peer(self) -> str:
        """The broker, as messages name it."""
        return self.node.address if self.is_bootstrap else f"Broker {self.node.id} at {self.node.address}"

    # -- use ---------------------------------------------------------------------------------------------------------

    def is_ready(self, now: float) -> bool:
        """Whether a request may be sent now: connected, not paused, not throttled, not about to be closed."""
        connection = self.connection
        return (
            self.state is LinkState.READY
            and connection is not None
            and not connection.closed
            and connection.can_write
            and connection.throttled_until <= now
            and not self._is_stale(connection)
        )

    def ensure(self, now: float) -> bool:
        """Whether a request may be sent now; if not, see that it soon can be: `link_ready` or `link_writable` tells."""
        if self.is_ready(now):
            return True
        stays = self.connection is not None and not self._is_stale(self.connection)
        if not self.retired and not stays:
            self._wanted = True
            self._around.events.due(self._connect_if_due(now))
        return False

    def can_connect(self, now: float) -> bool:
        """Whether `ensure` would begin to connect."""
        waits = self.state is LinkState.BACKOFF and now < self.backoff_until
        return self.state in (LinkState.IDLE, LinkState.BACKOFF) and not waits and not self.retired

    def poll(self, now: float) -> float:
        """Do what is due: time out, connect again, close what is idle. Returns when something is due next."""
        connection = self.connection
        if connection is None:
            return self._connect_if_due(now) if self._wanted else math.inf
        due = connection.expire(now)
        if self.state is not LinkState.READY or connection.closed:
            return due
        if connection.throttled_until:
            if connection.throttled_until > now:
                due = min(due, connection.throttled_until)
            else:
                connection.unthrottle()
                self._around.events.link_writable(self)
        if connection.in_flight == 0:
            idle_at = connection.last_used + self._around.settings.connections_max_idle_s
            if self._is_stale(connection) or idle_at <= now:
                connection.shut()
            else:
                due = min(due, idle_at)
        return due

    def describe(self, now: float) -> str:
        """How it stands with this link, for an error message."""
        if self.last_error is not None:
            return self.last_error.message.rstrip(".")
        if self.state is LinkState.CONNECTING:
            stage = "has not taken the connection" if self.connection is None else "has not answered ApiVersions"
            return f"{self.peer} {stage} for {now - self.connecting_since:.1f} s"
        return f"{self.peer} is {self.state.value}"

    # -- the broker moves, goes and comes back -----------------------------------------------------------------------

    def follow(self, node: Node) -> None:
        """The metadata tells of the broker: it may have moved, and it is not gone."""
        moved = (node.host, node.port) != self.address
        self.node = node
        self.retired = False
        if not moved:
            if self.connection is not None:
                self.connection.rename(node.id, self.peer)
        elif self.state is not LinkState.READY:
            self._wanted |= self.state is LinkState.CONNECTING
            self._begin_anew()

    def retire(self, error: AioprodError | None = None) -> None:
        """The broker is not in the metadata any more: close when nothing is outstanding, or at once with an `error`."""
        self.retired = True
        self._wanted = False
        if error is not None and self.connection is not None:
            self.connection.abort(error)
        elif self.state is not LinkState.READY:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Forget failures and end the attempt that is under way; the link is idle when it has ended."""
        self.attempts = 0
        if self.connection is not None:
            self.connection.shut()
        elif self.state is LinkState.CONNECTING and self._attempt is not None:
            self._attempt.cancel()
        else:
            self.state = LinkState.IDLE

    def _is_stale(self, connection: BrokerConnection) -> bool:
        return self.retired or connection.address != self.address

    # -- connecting --------------------------------------------------------------------------------------------------

    def _connect_if_due(self, now: float) -> float:
        if self.state is LinkState.BACKOFF and now < self.backoff_until:
            return self.backoff_until
        if self.state in (LinkState.IDLE, LinkState.BACKOFF):
            self._wanted = False
            self.state = LinkState.CONNECTING
            self.connecting_since = now
            self._attempt = self._around.tasks.spawn(self._connect(), name=f"connect to {self.peer}")
            self._attempt.add_done_callback(self._attempt_ended)
        return math.inf

    async def _connect(self) -> None:
        around, address = self._around, self.address
        timeout_s = around.settings.connect_timeout.delay_s(self.attempts, around.random)
        try:
            async with asyncio.timeout(timeout_s):
                await open_connection(around.loop, address, lambda: self._new_connection(address), around.settings)
        except BrokerConnectionError as error:
            self._attempt_failed(error)
        except TimeoutError:
            text = f"{text_of(address)} can't be reached: no connection within {timeout_s:.1f} s."
            self._attempt_failed(BrokerConnectionError(text, address=text_of(address)))

    def _attempt_ended(self, attempt: asyncio.Task[None]) -> None:
        # Here and not in `_connect`: a task that is cancelled before its first step runs no line of it.
        if self._attempt is not attempt:
            return
        self._attempt = None
        if attempt.cancelled() and self.connection is None:
            self.state = LinkState.IDLE
            self._around.events.due(self._around.clock())

    def _attempt_failed(self, error: BrokerConnectionError) -> None:
        # A connection that was made and lost while the attempt was still ending has been reported already.
        if self.connection is None and self.state is LinkState.CONNECTING:
            self._failed(error)

    def _new_connection(self, address: Address) -> BrokerConnection:
        settings = self._around.settings
        state = Connection(
            self.peer,
            client_id=settings.client_id,
            software_name=SOFTWARE_NAME,
            software_version=software_version(),
            request_timeout_s=settings.request_timeout_s,
            frame_size_max=settings.frame_size_max,
        )
        return BrokerConnection(state, self.node.id, address, self, self._around.loop, self._around.clock)

    def _failed(self, error: AioprodError) -> None:
        self.last_error = error
        delay_s = self._around.settings.reconnect_backoff.delay_s(self.attempts, self._around.random)
        self.attempts += 1
        self.backoff_until = self._around.clock() + delay_s
        self.state = LinkState.BACKOFF
        self._around.events.link_lost(self, error)

    # -- ConnectionOwner ---------------------------------------------------------------------------------------------

    def connection_made(self, connection: BrokerConnection) -> None:
        self.connection = connection

    def connection_ready(self, connection: BrokerConnection) -> None:
        self.state = LinkState.READY
        self.attempts = 0
        self.last_error = None
        self._around.events.link_ready(self)

    def connection_data(self, connection: BrokerConnection) -> None:
        self._around.events.link_data(self)

    def connection_writable(self, connection: BrokerConnection) -> None:
        self._around.events.link_writable(self)

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        self.connection = None
        if error is not None:
            self._failed(error)
        else:
            self.state = LinkState.IDLE
            self._around.events.link_lost(self, None)

    def due(self, when: float) -> None:
        self._around.events.due(when)

    def failed(self, error: BaseException) -> None:
        self._around.events.failed(error)
