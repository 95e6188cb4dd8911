"""TCP connections: all addresses of a name are tried, slow ones side by side, and the first that answers is taken."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from aioprod.errors import BrokerConnectionError
from aioprod.net.addresses import Endpoint, resolve, text_of
from aioprod.net.settings import Address, ClientSettings

__all__ = ["open_connection"]

_ATTEMPT_DELAY_S: Final = 0.25
"""How long an attempt may take before the next IP address is tried beside it (RFC 8305, section 5)."""

ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)


async def open_connection(
    loop: asyncio.AbstractEventLoop, address: Address, make_protocol: Callable[[], ProtocolT], settings: ClientSettings
) -> ProtocolT:
    """Connect to `address` and attach the protocol; only the socket buffer sizes of `settings` are used.

    Raises BrokerConnectionError with the reason for each IP address that was tried.
    """
    try:
        endpoints = await resolve(loop, address)
    except (OSError, UnicodeError) as error:
        raise BrokerConnectionError(
            f"The host name {address[0]!r} can't be looked up: {_reason(error)}.", address=text_of(address)
        ) from error
    connected = await _first_connected(loop, address, endpoints, settings)
    try:
        _, protocol = await loop.create_connection(make_protocol, sock=connected)
    except OSError as error:
        # The peer reset the connection in the moment in which it was made.
        connected.close()
        raise BrokerConnectionError(
            f"{text_of(address)} broke the connection: {_reason(error)}.", address=text_of(address)
        ) from error
    return protocol


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
                    running.pop(task)
                    return task.result()
                if not isinstance(error, OSError):
                    raise error
                failures.append(f"{running.pop(task)}: {_reason(error)}")
    finally:
        await _give_up(running)
    raise BrokerConnectionError(
        f"{text_of(address)} can't be reached ({'; '.join(failures)}).", address=text_of(address)
    )


async def _give_up(running: dict[asyncio.Task[socket.socket], Endpoint]) -> None:
    for task in running:
        task.cancel()
    for outcome in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(outcome, socket.socket):
            outcome.close()


async def _connect(loop: asyncio.AbstractEventLoop, endpoint: Endpoint, settings: ClientSettings) -> socket.socket:
    connecting = socket.socket(endpoint.family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Before connecting, since the window scale is agreed upon in the handshake.
        if settings.send_buffer_bytes >= 0:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, settings.send_buffer_bytes)
        if settings.receive_buffer_bytes >= 0:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, settings.receive_buffer_bytes)
        await loop.sock_connect(connecting, endpoint.address)
    except BaseException:
        connecting.close()
        raise
    return connecting


def _reason(error: Exception) -> str:
    """What the system says, without number and address, which the sentence around it names."""
    # asyncio puts a text of its own in place of the system's; look-ups have numbers and texts of their own.
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, socket.gaierror):
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
