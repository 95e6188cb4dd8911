"""The responses that a connection reads from one chunk of bytes."""

from __future__ import annotations

from collections.abc import Iterator

from aioprod.net.protocol.connection import Connection, Exchange

__all__ = ["responses"]


def responses(connection: Connection, data: bytes, now: float) -> Iterator[tuple[Exchange, memoryview]]:
    """Each exchange that `data` completes, with the body of its response."""
    connection.received(data, len(data), now)
    while (exchange := connection.next_answered()) is not None:
        assert exchange.body is not None
        yield exchange, exchange.body
