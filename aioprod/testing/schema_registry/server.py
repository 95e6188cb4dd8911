"""HTTP for the fake registry: a thread for each connection, as a test's loop may be blocked or end first."""

from __future__ import annotations

import errno
import json
import random
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

from aioprod.testing.listening import PORTS

__all__ = ["Request", "Response", "Server"]

_HOST: Final = "127.0.0.1"
_POLL_S: Final = 0.02
_BODY_MAX: Final = 16 * 1024 * 1024


class Request(NamedTuple):
    """A request: method, target as it was sent, the Authorization header, body.

    `wait` returns when the server is not paused; it raises ConnectionAbortedError once the connection is cut.
    """

    method: str
    target: str
    authorization: str | None
    body: bytes
    wait: Callable[[], None]


class Response(NamedTuple):
    """A response; a str is sent as it is, anything else as JSON."""

    status: int
    content: Any


class Server:
    """Serves at one port of 127.0.0.1, whose connections can all be cut."""

    def __init__(self, respond: Callable[[Request], Response], context: ssl.SSLContext | None) -> None:
        self._respond = respond
        self._context = context
        self._lock = threading.Lock()
        self._is_paused = False
        self._running: tuple[_Listener, threading.Thread] | None = None
        self.port = 0

    def start(self) -> None:
        """Listen, at the same port as before if there was one."""
        with self._lock:
            if self._running is not None:
                return
            listener = self._listener()
            self.port = listener.server_port
            thread = threading.Thread(target=listener.serve_forever, args=(_POLL_S,), name="fake schema registry")
            thread.start()
            self._running = listener, thread

    def stop(self) -> None:
        """Close the port and all connections; requests that wait are dropped."""
        with self._lock:
            if self._running is None:
                return
            listener, thread = self._running
            self._running = None
            listener.shutdown()
            thread.join()
            listener.cut()
            # It waits for the threads of the connections.
            listener.server_close()

    def set_paused(self, paused: bool) -> None:
        """Let requests wait, also after another `start`, or let them be answered."""
        with self._lock:
            self._is_paused = paused
            if self._running is not None:
                self._running[0].set_paused(paused)

    def _listener(self) -> _Listener:
        # Not a port that the system gives to connections: another one might have it when the registry comes back.
        ports = [self.port] if self.port else random.sample(PORTS, len(PORTS))
        for port in ports:
            try:
                return _Listener(port, self._respond, self._context, self._is_paused)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or self.port:
                    raise
        raise OSError(errno.EADDRINUSE, f"None of the ports from {PORTS.start} to {PORTS.stop - 1} is free")


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 1024

    def __init__(
        self, port: int, respond: Callable[[Request], Response], context: ssl.SSLContext | None, paused: bool
    ) -> None:
        self.respond = respond
        self._context = context
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._is_paused = paused
        self._is_cut = False
        super().__init__((_HOST, port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._context is not None:
            # The handshake is done by the connection's thread, when it first reads.
            connection = self._context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that ends its connection, or does not accept our certificate, is not an error of the registry."""

    def cut(self) -> None:
        """Shut all connections down; their threads close them, also those that wait for the end of a pause."""
        with self._changed:
            self._is_cut = True
            self._changed.notify_all()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def set_paused(self, paused: bool) -> None:
        """Let requests wait, or be answered."""
        with self._changed:
            self._is_paused = paused
            self._changed.notify_all()

    def wait(self) -> None:
        """Return when requests are answered; raises ConnectionAbortedError once they are cut."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_cut or not self._is_paused)
            if self._is_cut:
                raise ConnectionAbortedError(errno.ECONNABORTED, "The fake registry is down")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body of a response are two writes.
    disable_nagle_algorithm = True
    server: _Listener

    def _handle(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > _BODY_MAX:
            self.send_error(413)
            return
        body = self.rfile.read(length)
        authorization = self.headers.get("Authorization")
        response = self.server.respond(Request(self.command, self.path, authorization, body, self.server.wait))
        text = response.content if isinstance(response.content, str) else json.dumps(response.content)
        content = text.encode()
        self.send_response(response.status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - http.server's names

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - http.server's name
        """Nothing is written."""
