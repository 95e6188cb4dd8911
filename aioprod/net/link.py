"""The link to one broker: at most one connection, opened on demand, and after a failure again with a backoff.

    IDLE --ensure--> CONNECTING --versions and log-in accepted--> READY
    CONNECTING, READY --failure--> BACKOFF --poll after the backoff, if it is still needed--> CONNECTING
    READY --idle, retired or moved--> IDLE

`ensure` requests a connection and `poll` does what is due. New credentials reach a READY link by a `Handover`.
"""

from __future__ import annotations

import asyncio
import math
from enum import Enum
from typing import TYPE_CHECKING, Final

from aioprod._logger import Logger
from aioprod.cluster import Node
from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    BrokerConnectionError,
    BrokerError,
    ConfigError,
    ErrorCode,
    ProtocolError,
    TlsError,
)
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.dialing import dial
from aioprod.net.events import ConnectionOwner
from aioprod.net.login.reauthentication import LoginSession
from aioprod.net.settings import Address

if TYPE_CHECKING:
    from aioprod.net.handover import Handover
    from aioprod.net.protocol.login import Login

__all__ = ["BrokerLink", "LinkState"]


class LinkState(Enum):
    """IDLE: no connection is needed. CONNECTING: until requests may be sent. BACKOFF: the last connection failed."""

    IDLE = "idle"
    CONNECTING = "connecting"
    READY = "ready"
    BACKOFF = "backoff"


_NEEDS_FIXING: Final = (AuthenticationError, TlsError, ConfigError)
_PERMANENT: Final = (ProtocolError, *_NEEDS_FIXING)
_MISMATCHES: Final = 3
"""How many failures in a row must look like a listener of another security.protocol before it counts as one."""

_logger = Logger("aioprod.net")

# Used for each request: looking up an enum member takes a microsecond before Python 3.12.
_READY: Final = LinkState.READY


class BrokerLink(ConnectionOwner):
    """The connection to one broker, and its state while there is none."""

    def __init__(self, node: Node, context: ClientContext) -> None:
        self.node = node
        self.address: Address = (node.host, node.port)
        """The broker's address in the metadata."""
        self.state = LinkState.IDLE
        self.connection: BrokerConnection | None = None
        self.attempts = 0
        """How many attempts failed since the link was last ready."""
        self.last_error: AioprodError | None = None
        """The last of these failures."""
        self.backoff_until = 0.0
        """When it may connect again, in monotonic seconds."""
        self.connecting_since = 0.0
        """When it began to connect, in monotonic seconds."""
        self.retired = False
        """The broker is not in the metadata any more: the connection closes when it has no request in flight."""
        self.was_ready = False
        """This address has worked once."""
        self.session = LoginSession(context, self)
        """The session of the log-in."""
        self._context = context
        self._wanted = False
        self._mismatches = 0
        self._attempt: asyncio.Task[None] | None = None
        self._handover: Handover | None = None

    def __repr__(self) -> str:
        return f"<BrokerLink {self.peer}, {self.state.value}>"

    @property
    def is_bootstrap(self) -> bool:
        """Whether this is a bootstrap server, whose broker id is not known."""
        return self.node.id < 0

    @property
    def peer(self) -> str:
        """The broker, as messages name it."""
        return self.node.address if self.is_bootstrap else f"Broker {self.node.id} at {self.node.address}"

    # --- use

    def is_ready(self, now: float) -> bool:
        """Whether a request may be sent now: connected, not paused, not throttled, not about to close."""
        connection = self.connection
        return (
            self.state is _READY
            and connection is not None
            and connection.accepts_request(now)
            and self.session.ends > now
            # As not `_is_stale`: this is called for each request.
            and not self.retired
            and connection.address == self.address
        )

    def ensure(self, now: float) -> bool:
        """Whether a request may be sent now; if not, connect. `link_ready` or `link_writable` follows when it may."""
        if self.is_ready(now):
            return True
        is_current = self.connection is not None and not self._is_stale(self.connection)
        if is_current and self._has_lapsed(now):
            self.session.resume(now)
        if not self.retired and not is_current:
            self._wanted = True
            self._context.wake_at(self._connect_if_due(now))
        return False

    @property
    def leads_elsewhere(self) -> bool:
        """Whether another broker, or one of another cluster, is at this address, by the last attempt (KIP-1242)."""
        error = self.last_error
        return isinstance(error, BrokerError) and error.code == ErrorCode.REBOOTSTRAP_REQUIRED

    @property
    def permanent_error(self) -> AioprodError | None:
        """The last error if retries can't help until a setting or the broker is changed, else None."""
        error = self.last_error
        if error is None or (_is_mismatch(error) and self._mismatches < _MISMATCHES):
            return None
        return error if isinstance(error, _PERMANENT) or _is_mismatch(error) else None

    def can_connect(self, now: float) -> bool:
        """Whether `ensure` would start to connect, or to re-authenticate."""
        if self._has_lapsed(now):
            return True
        is_backing_off = self.state is LinkState.BACKOFF and now < self.backoff_until
        return self.state in (LinkState.IDLE, LinkState.BACKOFF) and not is_backing_off and not self.retired

    def poll(self, now: float) -> float:
        """Do what is due: timeouts, reconnecting, closing when idle. Returns when something is due next."""
        due = math.inf if self._handover is None else self._handover.poll(now)
        connection = self.connection
        if connection is None:
            return min(due, self._connect_if_due(now)) if self._wanted else due
        due = min(due, connection.expire(now))
        if self.state is not LinkState.READY or connection.closed:
            return due
        if connection.throttled_until:
            if connection.throttled_until > now:
                due = min(due, connection.throttled_until)
            else:
                connection.unthrottle()
                self._context.events.link_writable(self)
        due = min(due, self.session.poll(connection, now))
        if connection.in_flight == 0:
            idle_at = connection.last_used + self._context.settings.connections_max_idle_s
            if self._is_stale(connection) or idle_at <= now:
                connection.shut()
            else:
                due = min(due, idle_at)
        return due

    def describe(self, now: float) -> str:
        """The state of this link, for an error message."""
        if self.last_error is not None:
            return self.last_error.message.rstrip(".")
        if self.session.is_waiting:
            return f"{self.peer} waits for the credentials of this client"
        if self.state is LinkState.CONNECTING:
            stage = "has not taken the connection" if self.connection is None else "has not answered ApiVersions"
            return f"{self.peer} {stage} for {now - self.connecting_since:.1f} s"
        return f"{self.peer} is {self.state.value}"

    def break_off(self, error: Exception) -> None:
        """An unforeseen error happened to this link: reconnect after the backoff."""
        failure = self._context.unforeseen.failure(self.peer, error)
        if self.connection is not None:
            self.connection.abort(failure)
        elif self.state is not LinkState.BACKOFF:
            self._failed(failure)

    # --- changes of the metadata

    def follow(self, node: Node) -> None:
        """Apply the broker's entry in the metadata, which may have a new address."""
        moved = (node.host, node.port) != self.address
        self.node = node
        self.address = node.host, node.port
        self.retired = False
        self.was_ready &= not moved
        if not moved:
            if self.connection is not None:
                self.connection.rename(node.id, self.peer, self._context.traffic.of(node.id))
        elif self.state is not LinkState.READY:
            self._wanted |= self.state is LinkState.CONNECTING
            self._reset()

    def retire(self, error: AioprodError | None = None) -> None:
        """The broker left the metadata: close when no request is in flight, or with an `error` abort now."""
        self.retired = True
        self._wanted = False
        if error is not None and self.connection is not None:
            self.connection.abort(error)
        elif self.state is not LinkState.READY:
            self._reset()

    def _reset(self) -> None:
        """Clear the failures and cancel the attempt in progress; the link is IDLE once that has ended."""
        self.attempts = 0
        if self.connection is not None:
            self.connection.shut()
        elif self.state is LinkState.CONNECTING and self._attempt is not None:
            self._attempt.cancel()
        else:
            self.state = LinkState.IDLE

    def _is_stale(self, connection: BrokerConnection) -> bool:
        return self.retired or connection.address != self.address

    # --- new credentials

    def _has_lapsed(self, now: float) -> bool:
        return self.state is _READY and self.session.has_lapsed(now)

    async def use_new_credentials(self) -> None:
        """Replace the connection of a READY link, else connect again at once; raises why the replacement failed."""
        if self.state is not _READY:
            self._wanted |= self.state is LinkState.CONNECTING and not self.retired
            self._reset()
            self._context.wake_at(self._context.clock())
            return
        async with self.session.changing:
            if self.state is _READY and self.connection is not None and not self.connection.closed:
                await self.hand_over()

    async def hand_over(self, login: Login | None = None) -> None:
        """Replace the connection by one with this log-in, or a new one; the caller holds `session.changing`.

        Raises the error of the new connection, of any kind; the old connection stays in use then.
        """
        from aioprod.net.handover import Handover  # Few clients have credentials that change.

        assert self.connection is not None
        self._handover = Handover(self._context, self, self.connection)
        try:
            await self._handover.run(login)
        except AioprodError as error:
            self._count_rejection(error)
            raise
        finally:
            self._handover = None

    def switch_to(self, connection: BrokerConnection) -> None:
        """Use this connection, which is ready; the old one has no request in flight."""
        connection.rename(self.node.id, self.peer, self._context.traffic.of(self.node.id))
        self.connection = connection
        self.session.begin(connection)
        self._context.events.link_lost(self, None)
        self._context.events.link_ready(self)

    def _count_rejection(self, error: AioprodError) -> None:
        if _is_mismatch(error):
            return
        if isinstance(error, (AuthenticationError, TlsError)):
            self._context.authentications.rejected()
        if isinstance(error, _NEEDS_FIXING) and self._context.logins is not None:
            self._context.logins.rejected()

    # --- connecting

    def _connect_if_due(self, now: float) -> float:
        if self.state is LinkState.BACKOFF and now < self.backoff_until:
            return self.backoff_until
        if self.state in (LinkState.IDLE, LinkState.BACKOFF):
            self._wanted = False
            self.state = LinkState.CONNECTING
            self.connecting_since = now
            _logger.debug("Connecting to %s, attempt %d", self.peer, self.attempts + 1)
            self._attempt = self._context.tasks.spawn(self._connect(), name=f"connect to {self.peer}")
            self._attempt.add_done_callback(self._attempt_ended)
        return math.inf

    async def _connect(self) -> None:
        try:
            await dial(self._context, self, self, self.session.credentials, self.attempts)
        except Exception as error:  # of any type: it is this broker's failure, not that of the client
            self._attempt_failed(self._context.unforeseen.failure(f"Connecting to {self.peer}", error))

    def _attempt_ended(self, attempt: asyncio.Task[None]) -> None:
        # Not in `_connect`: a task that is cancelled before its first step runs none of it.
        if self._attempt is not attempt:
            return
        self._attempt = None
        if attempt.cancelled() and self.connection is None:
            self.state = LinkState.IDLE
            self._context.wake_at(self._context.clock())

    def _attempt_failed(self, error: AioprodError) -> None:
        # A connection that was made and lost while the attempt was still ending has been reported already.
        if self.connection is None and self.state is LinkState.CONNECTING:
            self._failed(error)

    def _failed(self, error: AioprodError) -> None:
        was_elsewhere, self.last_error = self.leads_elsewhere, error
        if self.leads_elsewhere and not was_elsewhere:
            _logger.warning("A connection was dropped: %s", error)
        # A listener with SASL answers ApiVersions first, so the link was ready and `attempts` was reset.
        self._mismatches = self._mismatches + 1 if _is_mismatch(error) else 0
        self.attempts = max(self.attempts, self._mismatches - 1)
        backoff = self._context.settings.reconnect_backoff
        delay_s = backoff.delay_s(self.attempts, self._context.random)
        if isinstance(error, _NEEDS_FIXING) and not _is_mismatch(error):
            # Each attempt fails until a setting, a certificate or a password is changed: make few.
            delay_s = max(delay_s, backoff.max_s)
            self._count_rejection(error)
        self.attempts += 1
        self.backoff_until = self._context.clock() + delay_s
        self.state = LinkState.BACKOFF
        self._context.events.link_lost(self, error)

    # --- ConnectionOwner

    def connection_made(self, connection: BrokerConnection) -> None:
        self.connection = connection

    def connection_ready(self, connection: BrokerConnection) -> None:
        self.state = LinkState.READY
        self.was_ready = True
        self.attempts = 0
        self.last_error = None
        if self._context.is_secured:
            self._context.authentications.accepted()
        self.session.begin(connection)
        self._context.events.link_ready(self)

    def connection_renewed(self, connection: BrokerConnection) -> None:
        self.session.begin(connection)
        self._context.events.link_writable(self)

    def connection_data(self, connection: BrokerConnection, now: float) -> None:
        if self.node.id >= 0:  # As not `is_bootstrap`: this is called for each response.
            self._context.owner.link_data(self, now)

    def connection_writable(self, connection: BrokerConnection) -> None:
        self._context.events.link_writable(self)

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        was_renewing = self.session.is_renewing
        self.connection = None
        self.session.end()
        if error is not None and not (was_renewing and isinstance(error, AuthenticationError)):
            self._failed(error)
            return
        self.state = LinkState.IDLE
        if error is not None:
            self._not_renewed(error)
        self._context.events.link_lost(self, None)

    def _not_renewed(self, error: AioprodError) -> None:
        """The broker rejected the re-authentication; all requests before it have been answered."""
        _logger.warning(
            "The broker rejected the re-authentication of %s, so the client reconnects: %s", self.peer, error
        )
        self._context.authentications.not_renewed()
        if self._context.logins is not None:
            self._context.logins.rejected()
        self._wanted = not self.retired
        self._context.wake_at(self._context.clock())


def _is_mismatch(error: AioprodError) -> bool:
    return isinstance(error, BrokerConnectionError) and error.is_mismatch
