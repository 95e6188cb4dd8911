"""What orchestrators and Prometheus request of a relay by HTTP: states and numbers; the log has the reasons."""

from __future__ import annotations

import asyncio
import errno
import json
import sys
from http import HTTPStatus
from typing import Final, NamedTuple, Self

from aioprod.cli.outbox.database import Table
from aioprod.errors import UsageError
from aioprod.relay import Relay

__all__ = ["Probes"]

_REQUEST_S_MAX: Final = 5.0
_REQUEST_BYTES_MAX: Final = 8192
_CONNECTIONS_MAX: Final = 100
"""A connection above these is closed: the relay needs descriptors, too."""
_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"


class _Answer(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


class Probes:
    """Answers GET requests while its block runs, in the loop of the relay: one that hangs does not answer."""

    def __init__(self, relay: Relay, table: Table, address: tuple[str, int]) -> None:
        self._relay = relay
        self._table = table
        self._address = address
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        host, port = self._address
        try:
            self._server = await asyncio.start_server(self._serve, host or None, port, limit=_REQUEST_BYTES_MAX)
        except OSError as error:
            reason = "another program uses it" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
            raise UsageError(f"Port {port} can't be listened at: {reason}.", hint="Give another --listen.") from error
        port = self._server.sockets[0].getsockname()[1]
        sys.stderr.write(f"Port {port} answers /live, /ready and /metrics.\n")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= _CONNECTIONS_MAX:
                async with asyncio.timeout(_REQUEST_S_MAX):
                    status, content_type, body = self._answer(await reader.readuntil(b"\r\n\r\n"))
                    head = (
                        f"HTTP/1.1 {status} {status.phrase}\r\nContent-Type: {content_type}\r\n"
                        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
                    )
                    writer.write(head.encode() + body)
                    await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # The other side is away, or does not speak HTTP.
        finally:
            self._connections -= 1
            writer.close()

    def _answer(self, request: bytes) -> _Answer:
        method, _, rest = request.partition(b" ")
        answer = {b"/live": self._live, b"/ready": self._ready, b"/metrics": self._metrics}.get(rest.split(b" ")[0])
        if answer is None:
            return _Answer(HTTPStatus.NOT_FOUND, _TEXT, b"There are /live, /ready and /metrics.\n")
        if method != b"GET":
            return _Answer(HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"Only GET is known.\n")
        return answer()

    def _live(self) -> _Answer:
        """503: the relay has ended for good. Kafka or the database being away is no reason to restart it."""
        return _detail(self._relay.health().is_alive, {})

    def _ready(self) -> _Answer:
        """503: no rows leave, or one has waited for half a minute.

        One that waits for the end of another relay is ready: a rollout ends the other one after that.
        """
        relay, table = self._relay.health(), self._table.health()
        is_standby = relay.state == "new"
        detail = {
            "state": "standby" if is_standby else relay.state,
            "failures": relay.failures,
            "waiting_rows": table.waiting_rows,
            "oldest_age_s": table.oldest_age_s,
            "held_age_s": table.held_age_s,
        }
        return _detail(is_standby or (relay.is_ready() and table.is_ready()), detail)

    def _metrics(self) -> _Answer:
        try:
            from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        except ImportError:
            return _Answer(HTTPStatus.NOT_IMPLEMENTED, _TEXT, b"pip install 'aioprod[prometheus]'\n")
        from aioprod.observability.prometheus import Collector

        registry = CollectorRegistry()
        registry.register(Collector(self._relay))
        return _Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))


def _detail(is_well: bool, detail: dict[str, object]) -> _Answer:
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return _Answer(status, _JSON, f"{json.dumps(detail)}\n".encode())
