"""Replacing the connection of a link by a second one with new credentials."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from aioprod.errors import AioprodError, BrokerConnectionError
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.dialing import dial, hello
from aioprod.net.events import ConnectionOwner

if TYPE_CHECKING:
    from aioprod.net.link import BrokerLink
    from aioprod.net.protocol.login import Login

__all__ = ["Handover"]

_SOON_S: Final = 1.0
"""A session that ends so soon accepts no more requests while connecting: what is in flight at its end is lost with the
old connection."""

_CLOSING_S: Final = 2.0
"""How long the old connection may take to close, which TLS does together with the broker."""


class Handover(ConnectionOwner):
    """Connects, authenticates, drains the old connection, and then gives the new one to the link.

    The old connection accepts no requests while it drains, so requests keep their order. The handover owns the new
    connection before the switch, and the old one after it.
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
        """Replace the connection, with this `login` or a new one; raises why that failed."""
        try:
            if self._left_s < _SOON_S:
                self._old.stop_writing()
            new = await self._connect(login)
            self._old.stop_writing()
            if self._old.in_flight or self._left_s > 0.0:
                await self._drained()
            if self._link.connection is not self._old:
                # It was lost, and its requests have failed. The next connection uses the new credentials too.
                return
            if new.closed:
                raise BrokerConnectionError(f"{self._link.peer} closed a second connection before it was used.")
            self._old.change_owner(self)
            new.change_owner(self._link)
            self._new = None
            self._link.switch_to(new)
        finally:
            if self._link.connection is self._old:
                self._old.allow_writing()
            if self._new is not None:
                await self._new.close(0.0)
        await self._old.close(_CLOSING_S)

    @property
    def _left_s(self) -> float:
        return self._link.session.ends - self._context.clock()

    async def _connect(self, login: Login | None) -> BrokerConnection:
        async def login_for(host: str) -> Login:
            return await self._link.session.credentials(host) if login is None else login

        new = await dial(self._context, self._link, self, login_for)
        error = await self._outcome
        if error is not None:
            raise error.again()
        return new

    async def _drained(self) -> None:
        """Wait until the broker has processed every request, also those with acks=0: it answers in order."""
        # The requests before it may take long: JoinGroup waits for all members.
        left_s = max(0.0, self._old.waits_until - self._context.clock())
        try:
            await self._old.request(hello(), timeout_s=left_s + self._context.settings.request_timeout_s)
        except AioprodError:
            # The connection was lost, which the link handles.
            return

    # --- ConnectionOwner

    def connection_made(self, connection: BrokerConnection) -> None:
        self._new = connection

    def connection_ready(self, connection: BrokerConnection) -> None:
        self._context.authentications.accepted()
        if not self._outcome.done():
            self._outcome.set_result(None)

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(error or BrokerConnectionError(f"{self._link.peer} was not reconnected."))
