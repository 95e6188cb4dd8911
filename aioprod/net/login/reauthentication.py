"""How long the log-in of a connection holds, and its renewal (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final, Protocol

from aioprod.errors import AioprodError
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext

if TYPE_CHECKING:
    from aioprod.core.login import Login

__all__ = ["LoginSession", "LoginSessionOwner"]

_RENEW_AFTER: Final = 0.85
_RENEW_JITTER: Final = 0.1
"""A log-in is renewed after 85 to 95 % of its session, by chance, so that clients don't all come at once (as Java)."""

_IN_PLACE_S: Final = 1.25
"""Brokers refuse to renew a log-in within a second of the last one: of so short a session a second connection takes
over."""

_logger = logging.getLogger("aioprod.net")


class LoginSessionOwner(Protocol):
    """Whose connection it is that has a session."""

    @property
    def connection(self) -> BrokerConnection | None:
        """The connection that is in use."""

    @property
    def peer(self) -> str:
        """The broker, as messages name it."""

    async def hand_over(self, login: Login | None = None) -> None:
        """Have a connection with this log-in take over; raises why there is none. `changing` is held."""


class LoginSession:
    """The session of a link's connection: when it ends, and that it is renewed in time.

    `ends` is in monotonic seconds, infinite for one without end. `changing` is held while a log-in is renewed or a
    connection takes over from another one: only one of that at a time. `waits` says that credentials are waited for.
    """

    def __init__(self, context: ClientContext, owner: LoginSessionOwner) -> None:
        self.ends = math.inf
        self.changing = asyncio.Lock()
        self._context = context
        self._owner = owner
        self._renew_at = math.inf
        self._renewing = False
        self._waiting = 0
        self._began_at = 0.0
        self._settled: asyncio.Future[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether a connection or a renewal waits for the credentials."""
        return self._waiting > 0

    @property
    def is_at_the_broker(self) -> bool:
        """Whether the broker has been asked to renew the log-in, and has not answered."""
        return self._settled is not None

    def begin(self, connection: BrokerConnection) -> None:
        """The broker has accepted a log-in on this connection, or there is none."""
        if self._settled is not None:
            self._context.authentications.renewed(self._context.clock() - self._began_at)
        self._settle()
        lifetime_s = connection.session_lifetime_s
        if lifetime_s > 0.0:
            share = _RENEW_AFTER + _RENEW_JITTER * self._context.random.random()
            self._renew_at = connection.logged_in_at + lifetime_s * share
            self.ends = connection.logged_in_at + lifetime_s
            self._context.wake_at(self._renew_at)
        else:
            self._renew_at = self.ends = math.inf

    def end(self) -> None:
        """The connection is gone."""
        self._settle()
        self._renew_at = self.ends = math.inf

    def _settle(self) -> None:
        self._renewing = False
        settled, self._settled = self._settled, None
        if settled is not None and not settled.done():
            settled.set_result(None)

    def has_lapsed(self, now: float) -> bool:
        """Whether the log-in has to be renewed before the next request, and no renewal is under way."""
        return self.ends <= now and math.isinf(self._renew_at) and not self._renewing

    def resume(self, now: float) -> None:
        """Renew the log-in, which has lapsed: there is a request."""
        self._renew_at = now
        self._context.wake_at(now)

    def poll(self, connection: BrokerConnection, now: float) -> float:
        """Renew the log-in of a connection that is in use; that of an idle one lapses until the next request.

        Returns when that is due.
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
        """Fetch the credentials, while the connection takes requests, then log in.

        Brokers take no other principal on the same connection, and close one that was refused: with credentials that
        are not those of before a second connection is made, and the old one kept until the new one is accepted.
        """
        async with self.changing:
            if not self._is_in_use(connection):
                return
            try:
                login = await self.credentials(connection.address[0])
                if not login.is_of_same(connection.login) or connection.session_lifetime_s < _IN_PLACE_S:
                    await self._owner.hand_over(login)
                    return
            except AioprodError as error:
                self._not_renewed(connection, error)
                return
            if self._is_in_use(connection):
                self._began_at = self._context.clock()
                self._settled = settled = self._context.loop.create_future()
                connection.renew(login)
                await settled

    def _is_in_use(self, connection: BrokerConnection) -> bool:
        return self._owner.connection is connection and not connection.closed

    def _not_renewed(self, connection: BrokerConnection, error: AioprodError) -> None:
        """Without new credentials use the session to its end, and try again."""
        now = self._context.clock()
        _logger.warning("The log-in to %s can't be renewed: %s", self._owner.peer, error)
        if not self._is_in_use(connection):
            return
        self._renewing = False
        if self.ends <= now:
            connection.abort(error)
            return
        self._renew_at = min(self.ends, now + self._context.settings.reconnect_backoff.max_s)
        self._context.wake_at(self._renew_at)
