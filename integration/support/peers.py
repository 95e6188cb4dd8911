"""Peers on loopback that are not Kafka brokers, each in its own thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from aioprod.testing import Security
from tests.support.dead_addresses import dead_address

__all__ = ["answering", "black_hole", "closed_port", "tls_server"]

TLS_ALERT = bytes.fromhex("15030300020246")
"""A fatal alert, protocol_version: a TLS server's answer to plaintext."""


def closed_port() -> str:
    """The address of a port without a listener."""
    host, port = dead_address()
    return f"{host}:{port}"


@contextmanager
def black_hole() -> Iterator[str]:
    """The address of a peer that accepts connections and never sends anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of a peer that sends `answer` after the first bytes, and closes the connection."""

    def talk(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(answer)

    with _server(talk) as address:
        yield address


@contextmanager
def tls_server() -> Iterator[str]:
    """The address of a server that accepts TLS only."""
    context = Security(protocol="SSL").server_context()
    assert context is not None

    def talk(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    with _server(talk) as address:
        yield address


@contextmanager
def _server(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
