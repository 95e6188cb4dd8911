"""A second connection to a broker, with new credentials, that takes over from the one that is in use."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from aioprod.errors import AioprodError, BrokerConnectionError
from aioprod.messages import ApiVersionsRequest
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.dialing import dial
from aioprod.net.events import ConnectionOwner
from aioprod.net.settings import SOFTWARE_NAME, software_version

if TYPE_CHECKING:
    from aioprod.core.login import Login
    from aioprod.net.link import BrokerLink

__all__ = ["Handover"]

_SOON_S: Final = 1.0
"""Sessions that end so soon take no more requests while the new connection is made: what is not answered at the end is
lost with the old one."""

_CLOSING_S: Final = 2.0
"""How long the old connection may take to close, which TLS does together with the broker."""


class Handover(ConnectionOwner):
    """Connects, and when the broker has accepted the log-in has the new connection take over.

    Before that the old one takes no more requests, and all that were sent on it are answered: so whatever has to keep
    its order keeps it. It owns the new connection until then, and the old one from then on.
    """

    def __init__(self, context: ClientContext, link: BrokerLink, old: BrokerConnection) -> None:
        self._context = context
        self._link = link
        self._old = old
        self._new: BrokerConnection | None = None
        self._outcome: asyncio.Future[AioprodError | None] = context.loop.create_future()

    def poll(self, now: float) -> float:
        """Time out; returns when something is due next."""
        return math.inf if self._new is None else self._new.expire(now)

    async def run(self, login: Login | None) -> None:
        """Have a new connection, by this `login` or another one, take over; raises the reason why it can't."""
        try:
            if self._left_s < _SOON_S:
                self._old.hold()
            new = await self._connect(login)
            self._old.hold()
            if self._old.in_flight or self._left_s > 0.0:
                await self._drained()
            if self._link.connection is not self._old:
                # It was lost, and its requests have failed. The next connection has the new credentials, too.
                return
            if new.closed:
                raise BrokerConnectionError(f"{self._link.peer} closed a second connection before it was used.")
            self._old.change_owner(self)
            new.change_owner(self._link)
            self._new = None
            self._link.take(new)
        finally:
            if self._link.connection is self._old:
                self._old.release()
            if self._new is not None:
                await self._new.close(0.0)
        await self._old.close(_CLOSING_S)

    @property
    def _left_s(self) -> float:
        return self._link.session.ends - self._context.clock()

    async def _connect(self, login: Login | None) -> BrokerConnection:
        async def given(host: str) -> Login:
            return await self._link.session.credentials(host) if login is None else login

        new = await dial(self._context, self._link, self, given)
        error = await self._outcome
        if error is not None:
            raise error.again()
        return new

    async def _drained(self) -> None:
        """Everything that was sent has been carried out: a broker answers in order, what wants no answer included."""
        last = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=software_version())
        # What is before it may take its time: JoinGroup waits for all members.
        left_s = max(0.0, self._old.waits_until - self._context.clock())
        try:
            await self._old.request(last, timeout_s=left_s + self._context.settings.request_timeout_s)
        except AioprodError:
            # The connection was lost, and the link knows.
            return

    # -- ConnectionOwner ---------------------------------------------------------------------------------------------

    def connection_made(self, connection: BrokerConnection) -> None:
        self._new = connection

    def connection_ready(self, connection: BrokerConnection) -> None:
        self._context.authentications.accepted()
        if not self._outcome.done():
            self._outcome.set_result(None)

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(error or BrokerConnectionError(f"{self._link.peer} was not connected to again."))
