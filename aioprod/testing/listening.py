"""`listen` and `close_server` for the tests' servers, which close while clients still connect."""

from __future__ import annotations

import asyncio
import errno
import random
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aioprod.testing.simulation.loop import SimulatedLoop

__all__ = ["PORTS", "close_server", "listen"]

# Below the ports that systems give to outgoing connections, and apart from those of real brokers.
PORTS: Final = range(25_000, 32_000)

_ACCEPT_ITERATIONS: Final = 5
"""Iterations of the loop within which asyncio creates the transport of an accepted socket."""


async def listen(
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
    host: str,
    port: int,
    *,
    context: ssl.SSLContext | None = None,
) -> asyncio.Server:
    """Listen at this port, or for 0 at a free one of `PORTS`. Raises OSError if `port` is in use."""
    if port or isinstance(asyncio.get_running_loop(), SimulatedLoop):
        return await asyncio.start_server(accept, host, port, ssl=context)
    for candidate in random.sample(PORTS, len(PORTS)):
        try:
            return await asyncio.start_server(accept, host, candidate, ssl=context)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"None of the ports from {PORTS.start} to {PORTS.stop - 1} is free")


async def close_server(server: asyncio.Server) -> None:
    """Stop listening. Sockets that were accepted before are connections afterwards, for the caller to close.

    asyncio leaks a connection whose server closes after `accept()` and before its transport exists; a client that
    connects in a loop hits that gap sooner or later. So this first stops accepting, then waits for the transports of
    the accepted sockets, then closes the server.
    """
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # A simulated loop has no readers, and accepts and connects in one step.
        for listener in server.sockets:
            loop.remove_reader(listener)
    for _ in range(_ACCEPT_ITERATIONS):
        await asyncio.sleep(0)
    server.close()
