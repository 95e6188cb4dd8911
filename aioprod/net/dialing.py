"""Opening one connection to a broker, until ApiVersions is sent; the connection continues with the log-in by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from aioprod.cluster import Node
from aioprod.errors import BrokerConnectionError
from aioprod.messages import ApiVersionsRequest
from aioprod.net.addresses import text_of
from aioprod.net.buffered import BufferedConnection
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.happy_eyeballs import open_connection
from aioprod.net.protocol.connection import Connection
from aioprod.net.settings import SOFTWARE_NAME, software_version

if TYPE_CHECKING:
    from aioprod.net.events import ConnectionOwner
    from aioprod.net.protocol.login import Login

__all__ = ["Target", "dial", "hello"]


class Target(Protocol):
    """The broker to connect to.

    Its id and its name may change while connecting, when metadata names the broker at this address.
    """

    @property
    def node(self) -> Node:
        """The broker."""

    @property
    def peer(self) -> str:
        """The broker, as messages name it."""


def hello(identity: tuple[str, int] | None = None) -> ApiVersionsRequest:
    """An ApiVersions request in our name; `identity` is the id of the cluster and the node id that are expected."""
    cluster_id, node_id = identity or (None, -1)
    return ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME,
        client_software_version=software_version(),
        cluster_id=cluster_id,
        node_id=node_id,
    )


async def dial(
    context: ClientContext,
    target: Target,
    owner: ConnectionOwner,
    credentials: Callable[[str], Awaitable[Login]],
    attempts: int = 0,
) -> BrokerConnection:
    """Connect to `target`, with the connection setup timeout that applies after `attempts` failures.

    `credentials(host)` is called where the client logs in, before that timeout starts. Raises BrokerConnectionError,
    AuthenticationError and ConfigError.
    """
    settings = context.settings
    address = target.node.host, target.node.port
    timeout_s = settings.connect_timeout.delay_s(attempts, context.random)
    tls = None if context.tls is None else await context.tls.current()
    login = None if context.logins is None else await credentials(address[0])
    kind = BufferedConnection if tls is None else BrokerConnection
    made: BrokerConnection | None = None

    def make() -> BrokerConnection:
        nonlocal made
        state = Connection(
            target.peer,
            client_id=settings.client_id,
            hello=hello(context.identity(target.node.id)),
            request_timeout_s=settings.request_timeout_s,
            frame_size_max=settings.frame_size_max,
            protocol=settings.protocol,
            login=login,
        )
        made = kind(
            state,
            target.node.id,
            address,
            owner,
            context.loop,
            context.clock,
            context.wake_at,
            context.unforeseen.log,
            tls,
            context.traffic.of(target.node.id),
        )
        return made

    try:
        async with asyncio.timeout(timeout_s):
            try:
                connection = await open_connection(context.loop, address, make, settings, tls)
            except BaseException:
                if made is not None:
                    made.abandon()
                raise
            if connection.closed:
                # It broke in `connection_made`, where uvloop has not taken the socket into its keeping yet.
                connection.abort(BrokerConnectionError(f"The connection to {target.peer} was not made."))
            return connection
    except TimeoutError:
        text = f"{text_of(address)} can't be reached: no connection within {timeout_s:.1f} s."
        raise BrokerConnectionError(text, address=text_of(address)) from None
