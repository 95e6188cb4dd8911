"""The session of a connection's log-in, and its re-authentication before the broker ends it (KIP-368).

At 85 to 95 % of the session the client fetches credentials while requests continue, and then logs in again on the same
connection, which accepts no requests meanwhile. Brokers reject another principal there, so with other credentials a
second connection takes over instead. An idle connection is not renewed: its session lapses until the next request.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol

from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext

if TYPE_CHECKING:
    from aioprod.net.protocol.login import Login

__all__ = ["LoginSession", "LoginSessionOwner"]

_RENEW_AFTER: Final = 0.85
_RENEW_JITTER: Final = 0.1
"""Re-authentication starts after 85 to 95 % of the session, at random, so that clients spread out (as Java)."""

_IN_PLACE_S: Final = 1.25
"""Brokers reject a re-authentication within a second of the last one: for shorter sessions a second connection takes
over."""

_logger = Logger("aioprod.net")


class LoginSessionOwner(Protocol):
    """The link that the session belongs to."""

    @property
    def connection(self) -> BrokerConnection | None:
        """The connection in use."""

    @property
    def peer(self) -> str:
        """The broker, as messages name it."""

    async def hand_over(self, login: Login | None = None) -> None:
        """Replace the connection by one with this log-in; raises why that failed. `changing` is held."""


class LoginSession:
    """The session of a link's connection."""

    def __init__(self, context: ClientContext, owner: LoginSessionOwner) -> None:
        self.ends = math.inf
        """When the session ends, in monotonic seconds; infinite for one without end."""
        self.changing = asyncio.Lock()
        """Held during a re-authentication or a handover, so that only one runs at a time."""
        self._context = context
        self._owner = owner
        self._renew_at = math.inf
        self._renewing = False
        self._waiting = 0
        self._began_at = 0.0
        self._renewed: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a connection or a re-authentication waits for credentials."""
        return self._waiting > 0

    @property
    def is_renewing(self) -> bool:
        """Whether a re-authentication was sent to the broker and is not answered."""
        return self._renewed is not None

    def begin(self, connection: BrokerConnection) -> None:
        """Start the session of this connection: it is ready, or was re-authenticated."""
        if self._renewed is not None:
            self._context.authentications.renewed(self._context.clock() - self._began_at)
        self._end_renewal()
        lifetime_s = connection.session_lifetime_s
        if lifetime_s > 0.0:
            share = _RENEW_AFTER + _RENEW_JITTER * self._context.random.random()
            self._renew_at = connection.logged_in_at + lifetime_s * share
            self.ends = connection.logged_in_at + lifetime_s
            self._context.wake_at(self._renew_at)
        else:
            self._renew_at = self.ends = math.inf

    def end(self) -> None:
        """The connection was lost."""
        self._end_renewal()
        self._renew_at = self.ends = math.inf

    def _end_renewal(self) -> None:
        self._renewing = False
        renewed, self._renewed = self._renewed, None
        if renewed is not None and not renewed.done():
            renewed.set_result(None)

    def has_lapsed(self, now: float) -> bool:
        """Whether the connection must re-authenticate before the next request, and has not begun to."""
        return self.ends <= now and math.isinf(self._renew_at) and not self._renewing

    def resume(self, now: float) -> None:
        """Re-authenticate a lapsed session: there is a request again."""
        self._renew_at = now
        self._context.wake_at(now)

    def poll(self, connection: BrokerConnection, now: float) -> float:
        """Re-authenticate a connection in use if it is due; the session of an idle one lapses until the next request.

        Returns when that is due next.
        """
        if self._renew_at > now or connection.closed:
            return self._renew_at
        self._renew_at = math.inf
        if self.ends > now and connection.in_flight == 0 and connection.last_used <= connection.logged_in_at:
            self.ends = now
        else:
            self._renewing = True
            self._context.tasks.spawn(self._renew(connection), name=f"log in to {self._owner.peer} again")
        return math.inf

    async def credentials(self, host: str) -> Login:
        """A log-in at the broker on `host`; raises AuthenticationError or ConfigError without credentials."""
        assert self._context.logins is not None
        self._waiting += 1
        try:
            return await self._context.logins.new(host)
        finally:
            self._waiting -= 1

    async def _renew(self, connection: BrokerConnection) -> None:
        """Fetch the credentials, while requests continue, then log in.

        Brokers reject another principal on the same connection, and close it after a failed log-in. So with other
        credentials a second connection takes over, and the old one is kept until the new one is accepted.
        """
        async with self.changing:
            if not self._is_in_use(connection):
                return
            try:
                login = await self.credentials(connection.address[0])
                if not login.is_of_same(connection.login) or connection.session_lifetime_s < _IN_PLACE_S:
                    await self._owner.hand_over(login)
                    return
            except Exception as error:  # of any type: the session lasts until its end, and the client continues
                self._not_renewed(
                    connection, self._context.unforeseen.failure(f"The log-in at {connection.peer}", error)
                )
                return
            if self._is_in_use(connection):
                self._began_at = self._context.clock()
                self._renewed = renewed = self._context.loop.create_future()
                try:
                    connection.renew(login)
                except Exception as error:  # of any type: its log-in is half done
                    connection.abort(self._context.unforeseen.failure(f"The log-in at {connection.peer}", error))
                await renewed

    def _is_in_use(self, connection: BrokerConnection) -> bool:
        return self._owner.connection is connection and not connection.closed

    def _not_renewed(self, connection: BrokerConnection, error: AioprodError) -> None:
        """There are no new credentials: use the session until its end, and retry."""
        now = self._context.clock()
        _logger.warning("The session of %s can't be re-authenticated: %s", self._owner.peer, error)
        if not self._is_in_use(connection):
            return
        self._renewing = False
        if self.ends <= now:
            connection.abort(error)
            return
        self._renew_at = min(self.ends, now + self._context.settings.reconnect_backoff.max_s)
        self._context.wake_at(self._renew_at)
