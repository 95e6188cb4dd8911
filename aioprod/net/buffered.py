"""A connection that receives without a copy: in a module of Python, for which asyncio's class can be a base."""

from __future__ import annotations

import asyncio

from aioprod.net.connection import BrokerConnection

__all__ = ["BufferedConnection"]


class BufferedConnection(BrokerConnection, asyncio.BufferedProtocol):
    """A `BrokerConnection` without TLS, whose transport puts what arrives where it stays.

    TLS has decrypted before it needs room, so that it would copy all the same.
    """

    __slots__ = ()

    get_buffer = BrokerConnection.room  # type: ignore[assignment]  # asyncio's argument has another name
    buffer_updated = BrokerConnection.received  # type: ignore[assignment]  # asyncio's argument has another name
