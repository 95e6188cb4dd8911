"""A connection that receives without a copy. It is not compiled, as a compiled class can't derive from asyncio's."""

from __future__ import annotations

import asyncio

from aioprod.net.connection import BrokerConnection

__all__ = ["BufferedConnection"]


class BufferedConnection(BrokerConnection, asyncio.BufferedProtocol):
    """A `BrokerConnection` without TLS: the transport puts what arrives into the memory in which it stays.

    With TLS this would save no copy: the transport has decrypted the bytes before it wants room.
    """

    __slots__ = ()

    get_buffer = BrokerConnection.room  # type: ignore[assignment]  # asyncio's argument has another name
    buffer_updated = BrokerConnection.received  # type: ignore[assignment]  # asyncio's argument has another name
