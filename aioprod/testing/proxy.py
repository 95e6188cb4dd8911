"""`TcpProxy`: a TCP proxy on loopback between a client and a broker, with network faults on demand."""

from __future__ import annotations

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from aioprod.errors import ConfigError
from aioprod.testing.listening import close_server, listen
from aioprod.testing.sni import hello_size, server_name

__all__ = ["Direction", "TcpProxy"]

_CHUNK: Final = 64 * 1024
_CHUNKS_HELD_MAX: Final = 256  # per direction of a connection; then it stops reading from the sender
_DROP_POLL_S: Final = 0.01
_SLICE_S: Final = 0.02  # a throttled direction passes on what fits into this time, then waits as long
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER with timeout 0: the peer gets RST, not FIN


@dataclass(slots=True)
class Direction:
    """The faults of one direction. They take effect at once, for open connections too.

    `delay_s`: each byte arrives that much later, at unchanged throughput. `drop`: nothing arrives, though the
    connection looks open; what was sent meanwhile arrives when it is False again, as after TCP's retransmission,
    or never, if the connection is cut first. `throttle_bytes_per_s`: per connection. `cut_after_bytes`: after that
    many more bytes in this direction the connection that carried the last of them is reset; then it is None again.
    """

    delay_s: float = 0.0
    drop: bool = False
    throttle_bytes_per_s: float | None = None
    cut_after_bytes: int | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FAULTS and not _FAULTS[name](value):
            raise ConfigError(f"{name}={value!r} is not a valid fault of a proxy.", hint=_VALID[name])
        object.__setattr__(self, name, value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


_FAULTS: Final[Mapping[str, Callable[[object], bool]]] = {
    "delay_s": _is_number,
    "drop": lambda value: isinstance(value, bool),
    "throttle_bytes_per_s": lambda value: value is None or (_is_number(value) and value != 0),
    "cut_after_bytes": lambda value: value is None or (type(value) is int and value >= 0),
}
"""Each fault of a direction, and the check of its value."""

_VALID: Final[Mapping[str, str]] = {
    "delay_s": "Give seconds, 0 for no delay.",
    "drop": "Give True or False.",
    "throttle_bytes_per_s": "Give more than 0, or None for no limit; drop=True stops all bytes.",
    "cut_after_bytes": "Give a number of bytes, or None for no cut.",
}


class TcpProxy:
    """Forwards connections to `target` (`"host:port"`), with the faults of `to_target` and `to_client`.

    `delay_s`, `drop` and `throttle_bytes_per_s` of the proxy itself set both directions. With `refuse` new connections
    are reset as soon as they are made. Faults may be set, and `cut()` called, from any thread.

    `by_name` forwards TLS connections by the host name in the client's hello (SNI), as an ingress with one address for
    all brokers does: `{"broker-1.test": "host:port"}`. Connections with another name or none go to `target`.

        async with TcpProxy("127.0.0.1:9092") as proxy:
            proxy.delay_s = 0.05
            client = connect(proxy.address)

    Raises ConfigError for a target that is not an address, and for invalid faults.
    """

    __slots__ = (
        "_by_name",
        "_links",
        "_loop",
        "_port",
        "_server",
        "_target",
        "_tasks",
        "refuse",
        "to_client",
        "to_target",
    )

    def __init__(self, target: str, *, port: int = 0, by_name: Mapping[str, str] | None = None) -> None:
        self._target = _address(target)
        self._by_name = {name.lower(): _address(where) for name, where in (by_name or {}).items()}
        self._port = port
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.to_target = Direction()
        self.to_client = Direction()
        self.refuse = False

    async def start(self) -> Self:
        """Listen; after `close()` on the same port again. Raises OSError if that port is taken."""
        self._loop = asyncio.get_running_loop()
        self._server = await listen(self._accept, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def close(self) -> None:
        """Stop listening and reset all connections. No effect when not started."""
        server, self._server = self._server, None
        if server is not None:
            await close_server(server)
        self._cut()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def port(self) -> int:
        """The port that clients connect to; 0 before the first `start()`."""
        return self._port

    @property
    def address(self) -> str:
        """`host:port` that clients connect to."""
        return f"127.0.0.1:{self._port}"

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._links)

    def cut(self) -> None:
        """Reset all open connections, both sides of each."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._cut)

    @property
    def delay_s(self) -> float:
        """Delay of each direction; reading gives that towards the client."""
        return self.to_client.delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        self.to_target.delay_s = self.to_client.delay_s = seconds

    @property
    def drop(self) -> bool:
        """Whether nothing arrives in either direction; reading gives that towards the client."""
        return self.to_client.drop

    @drop.setter
    def drop(self, dropped: bool) -> None:
        self.to_target.drop = self.to_client.drop = dropped

    @property
    def throttle_bytes_per_s(self) -> float | None:
        """Rate of each direction of each connection; reading gives that towards the client."""
        return self.to_client.throttle_bytes_per_s

    @throttle_bytes_per_s.setter
    def throttle_bytes_per_s(self, rate: float | None) -> None:
        self.to_target.throttle_bytes_per_s = self.to_client.throttle_bytes_per_s = rate

    def _cut(self) -> None:
        for link in list(self._links):
            link.reset()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(writer)
        # asyncio may still accept a connection after the proxy has closed.
        if self.refuse or self._server is None:
            link.reset()
            return
        self._links.add(link)
        task = asyncio.create_task(self._forward(link, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _forward(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            first = await _first_record(reader) if self._by_name else b""
            target = self._by_name.get(server_name(first) or "", self._target)
            far_reader, far_writer = await asyncio.open_connection(*target)
            await link.run(
                far_writer,
                _Pipe(reader, far_writer, self.to_target, link.reset, first),
                _Pipe(far_reader, writer, self.to_client, link.reset),
            )
        except OSError:
            return  # the target does not listen; the client gets a reset
        finally:
            link.reset()
            self._links.discard(link)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not host or "," in host or re.fullmatch("[0-9]{1,5}", port) is None:
        raise ConfigError(
            f"A proxy can't forward to {text!r}, which is not an address.",
            hint='Give "host:port" of one listener: each broker has its own proxy.',
        )
    return host.strip("[]"), int(port)


async def _first_record(reader: asyncio.StreamReader) -> bytes:
    """The client's first TLS record, or the first bytes of anything else."""
    first = await _read(reader, 5)
    return first + await _read(reader, max(0, hello_size(first) - 5))


async def _read(reader: asyncio.StreamReader, size: int) -> bytes:
    try:
        return await reader.readexactly(size)
    except asyncio.IncompleteReadError as ended:
        return ended.partial


class _Link:
    """The connection of a client and the one to the target, which end together."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writers = [writer]
        self._tasks: list[asyncio.Task[None]] = []
        self._is_reset = False

    async def run(self, far_writer: asyncio.StreamWriter, *pipes: _Pipe) -> None:
        """Forward until both directions have ended, or until `reset()`."""
        self._writers.append(far_writer)
        if self._is_reset:
            return
        self._tasks = [asyncio.create_task(work) for pipe in pipes for work in (pipe.read(), pipe.write())]
        await asyncio.wait(self._tasks)

    def reset(self) -> None:
        self._is_reset = True
        for writer in self._writers:
            with suppress(OSError):  # already closed
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()


class _Pipe:
    """One direction of one connection: `read` queues chunks with their arrival time, `write` sends them when due.

    `first` are the bytes that were read before.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        faults: Direction,
        reset: Callable[[], None],
        first: bytes = b"",
    ) -> None:
        self._first = first
        self._reader = reader
        self._writer = writer
        self._faults = faults
        self._reset = reset
        self._arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_CHUNKS_HELD_MAX)

    async def read(self) -> None:
        """Queue chunks until the end of the stream, which is an empty chunk."""
        clock = asyncio.get_running_loop().time
        if self._first:
            await self._arrived.put((clock(), self._first))
        data = b"."
        while data:
            try:
                data = await self._reader.read(_CHUNK)
            except OSError:
                self._reset()
                return
            await self._arrived.put((clock(), data))

    async def write(self) -> None:
        """Send chunks, and finally the end of the stream."""
        clock = asyncio.get_running_loop().time
        try:
            while True:
                at, data = await self._arrived.get()
                await asyncio.sleep(at + self._faults.delay_s - clock())
                while self._faults.drop:  # noqa: ASYNC110 - set from any thread, and an Event is not thread-safe
                    await asyncio.sleep(_DROP_POLL_S)
                if not data:
                    self._writer.write_eof()
                    return
                while data:
                    data = await self._send(data)
        except OSError:
            self._reset()

    async def _send(self, data: bytes) -> bytes:
        """Send as much of `data` as the faults allow now; return the rest."""
        faults, size = self._faults, len(data)
        if (rate := faults.throttle_bytes_per_s) is not None:
            size = min(size, max(1, int(rate * _SLICE_S)))
            await asyncio.sleep(size / rate)
        if faults.cut_after_bytes is None:
            self._writer.write(data[:size])
            await self._writer.drain()
            return data[size:]
        size = min(size, faults.cut_after_bytes)
        self._writer.write(data[:size])
        faults.cut_after_bytes -= size
        if faults.cut_after_bytes == 0:
            faults.cut_after_bytes = None
            # The receiver has to get all bytes up to the limit, so its side closes normally; the sender sees a reset.
            self._writer.close()
            await self._writer.wait_closed()
            self._reset()
            return b""
        return data[size:]
