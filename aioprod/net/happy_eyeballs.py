"""Opens TCP connections, and TLS on them, by "happy eyeballs" (RFC 8305).

All IP addresses of a name are tried, the next one while a slow one still connects. The first that connects is used.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from aioprod._short_reprs import printable
from aioprod.errors import BrokerConnectionError
from aioprod.net.addresses import Endpoint, resolve, text_of
from aioprod.net.settings import Address, ClientSettings

if TYPE_CHECKING:
    from aioprod.net.tls.contexts import Tls

__all__ = ["open_connection", "reason_of"]

_ATTEMPT_DELAY_S: Final = 0.25
"""How long an attempt may take before the next IP address is tried in parallel (RFC 8305, section 5)."""

_SHUTDOWN_S: Final = 1.0
"""How long a TLS connection that we close waits for the peer's close_notify."""

ProtocolT = TypeVar("ProtocolT")
"""What asyncio calls as a protocol, without being derived from one."""


async def open_connection(
    loop: asyncio.AbstractEventLoop,
    address: Address,
    make_protocol: Callable[[], ProtocolT],
    settings: ClientSettings,
    tls: Tls | None = None,
) -> ProtocolT:
    """Connect to `address`, with `tls` if there is one, and attach the protocol; the caller sets the timeout.

    Of `settings` only the socket buffer sizes and the time to connect are used. Raises BrokerConnectionError with the
    reason for each IP address that was tried, and TlsError if the handshake fails.
    """
    try:
        endpoints = await resolve(loop, address)
    except (OSError, UnicodeError) as error:
        raise BrokerConnectionError(
            f"The host name {printable(address[0])!r} can't be looked up: {reason_of(error)}.", address=text_of(address)
        ) from error
    connected = await _first_connected(loop, address, endpoints, settings)
    try:
        _, protocol = await loop.create_connection(
            cast(Any, make_protocol), sock=connected, **_tls_options(address, settings, tls)
        )
    except Exception as error:
        connected.close()
        if not isinstance(error, OSError):
            raise
        if tls is not None:
            raise tls.failure(error, text_of(address)) from error
        # The peer reset the connection just after it was accepted.
        raise BrokerConnectionError(
            f"{text_of(address)} broke the connection: {reason_of(error)}.", address=text_of(address)
        ) from error
    return cast(ProtocolT, protocol)


def _tls_options(address: Address, settings: ClientSettings, tls: Tls | None) -> dict[str, Any]:
    if tls is None:
        return {}
    return {
        "ssl": tls.context,
        # A trailing dot makes a name absolute; certificates have none.
        "server_hostname": address[0].rstrip("."),
        # Longer than the caller allows for the whole connection.
        "ssl_handshake_timeout": settings.connect_timeout.max_s * 2.0 + 1.0,
        "ssl_shutdown_timeout": _SHUTDOWN_S,
    }


async def _first_connected(
    loop: asyncio.AbstractEventLoop, address: Address, endpoints: list[Endpoint], settings: ClientSettings
) -> socket.socket:
    """Try the endpoints in order, the next one after a failure or a short while, until one is connected."""
    untried = deque(endpoints)
    running: dict[asyncio.Task[socket.socket], Endpoint] = {}
    failures: list[str] = []
    try:
        while untried or running:
            if untried:
                endpoint = untried.popleft()
                running[loop.create_task(_connect(loop, endpoint, settings))] = endpoint
            delay = _ATTEMPT_DELAY_S if untried else None
            done, _ = await asyncio.wait(running, timeout=delay, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is None:
                    # It stays in `running`: a cancellation that comes while the others end closes it, too.
                    await _cancel([other for other in running if other is not task])
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failures.append(f"{running.pop(task)}: {reason_of(error)}")
    except BaseException:
        await _cancel(running)
        raise
    raise BrokerConnectionError(
        f"{text_of(address)} can't be reached ({'; '.join(failures)}).", address=text_of(address)
    )


async def _cancel(running: Iterable[asyncio.Task[socket.socket]]) -> None:
    """Cancel attempts, close what they have connected all the same, and wait until they have ended."""
    for task in running:
        task.cancel()
        # Not after the wait, which may be cancelled in turn: a link is retired, and then the client is closed.
        task.add_done_callback(_close)
    await asyncio.gather(*running, return_exceptions=True)


def _close(ended: asyncio.Task[socket.socket]) -> None:
    if not ended.cancelled() and ended.exception() is None:
        ended.result().close()


async def _connect(loop: asyncio.AbstractEventLoop, endpoint: Endpoint, settings: ClientSettings) -> socket.socket:
    connecting = socket.socket(endpoint.family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Before connecting: the window scale is negotiated in the TCP handshake.
        if settings.send_buffer_bytes >= 0:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes >= 0:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        await loop.sock_connect(connecting, endpoint.address)
    except BaseException:
        connecting.close()
        raise
    return connecting


def reason_of(error: Exception) -> str:
    """The system's text for an error, without number and address, which the caller's message has."""
    # asyncio replaces the system's text by its own; name look-ups have other numbers and texts.
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
