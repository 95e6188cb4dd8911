"""How a server of the tests closes while clients still connect to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

__all__ = ["close_server"]

ACCEPT_TURNS: Final = 5
"""Turns of the loop within which asyncio makes a connection out of what it has accepted."""


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
