"""Addresses where connections are refused, as long as the tests run."""

from __future__ import annotations

import socket

__all__ = ["dead_address"]


def dead_address() -> tuple[str, int]:
    """Host and port without a listener.

    The port stays bound until the process ends. One that was merely free a moment ago may be given to a server, or to
    the very connection that knocks there, which then is connected to itself.
    """
    unused = socket.socket()
    unused.bind(("127.0.0.1", 0))
    host, port = unused.getsockname()
    unused.detach()
    return host, port
