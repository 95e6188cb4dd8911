"""How a server of the tests listens, and how it closes while clients still connect to it."""

from __future__ import annotations

import asyncio
import errno
import random
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aioprod.testing.kafka.settings import PORTS
from aioprod.testing.simulation.loop import SimulatedLoop

__all__ = ["close_server", "listen"]

ACCEPT_TURNS: Final = 5
"""Turns of the loop within which asyncio makes a connection out of what it has accepted."""


async def listen(
    accept: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any],
    host: str,
    port: int,
    *,
    context: ssl.SSLContext | None = None,
) -> asyncio.Server:
    """Serve connections at this port, or for 0 at one of `PORTS` that is free. Raises OSError if `port` is taken."""
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
    """Stop listening. What was accepted before is a connection afterwards, and left to the caller: nothing follows it.

    asyncio leaks a connection whose server closes between its accept and its transport, and a client that connects in a
    loop is in that gap sooner or later. So no more is accepted first, then the gap passes, then the server closes.
    """
    loop = asyncio.get_running_loop()
    with suppress(NotImplementedError):  # A simulated loop has no readers, and no such gap.
        for listener in server.sockets:
            loop.remove_reader(listener)
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)
    server.close()
