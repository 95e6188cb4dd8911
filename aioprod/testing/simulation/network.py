"""A network in memory: latency, segments, full buffers, silence, resets; all random choices come from one seed."""

from __future__ import annotations

import asyncio
import contextvars
import socket
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final

from aioprod.testing.simulation.trace import Trace
from aioprod.testing.simulation.transport import SimulatedTransport

if TYPE_CHECKING:
    from aioprod.testing.simulation.loop import SimulatedLoop

__all__ = ["Conditions", "Network", "SimulatedServer", "SimulatedTransport", "Wire"]

_FIRST_PORT: Final = 20_000

Address = tuple[str, int]


@dataclass
class Conditions:
    """The properties of new connections."""

    latency_min_s: float = 0.0001
    """The least that a segment takes."""
    latency_max_s: float = 0.001
    """The most that it takes."""
    segment_max: int = 65_536
    """Bytes of a segment."""
    window: int = 262_144
    """Bytes of one direction in flight; the rest waits in the sender's transport."""


class Wire:
    """One connection: a transport on each side."""

    def __init__(self, number: int, client: SimulatedTransport, server: SimulatedTransport) -> None:
        self.number = number
        self.client = client
        self.server = server
        client.peer, server.peer = server, client

    @property
    def is_open(self) -> bool:
        """Whether one of the sides still uses it."""
        return not (self.client.lost and self.server.lost)

    def stall(self) -> None:
        """From now on nothing arrives on either side, without an error: a half-open connection."""
        self.client.stall()
        self.server.stall()

    def resume(self) -> None:
        """Deliver what was held back."""
        self.client.resume()
        self.server.resume()

    def reset(self, *, late: bool = False) -> None:
        """Both sides lose the connection; with `late` the server does so after it has read what is in flight to it."""
        error = ConnectionResetError(104, "Connection reset by peer")
        self.client.drop_arrivals()
        self.client.lose(error)
        if not late:
            self.server.drop_arrivals()
            self.server.lose(error)


class SimulatedServer(asyncio.AbstractServer):
    """Accepts the connections to one address."""

    def __init__(self, network: Network, factory: Callable[[], asyncio.Protocol], address: Address) -> None:
        self.factory = factory
        self.address = address
        self.context: Final = contextvars.copy_context()
        """In which its connections live."""
        self._network = network

    @property
    def sockets(self) -> tuple[_Listening, ...]:
        """One socket, which knows only its address, as for asyncio's servers."""
        return (_Listening(self.address),)

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._network.servers.get(self.address) is self

    def close(self) -> None:
        """Stop accepting connections."""
        if self.is_serving():
            del self._network.servers[self.address]

    async def wait_closed(self) -> None:
        """Return at once."""

    async def start_serving(self) -> None:
        """Do nothing: it has been serving since `listen`."""

    async def serve_forever(self) -> None:
        """Wait until cancelled."""
        await self._network.loop.create_future()

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The simulated loop."""
        return self._network.loop


class _Listening:
    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address


class Network:
    """All servers and connections of one loop.

    `conditions` apply to new connections. At the addresses in `silent` connecting never ends, as with a host that is
    down.
    """

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.random = random
        self.trace = trace
        self.conditions = Conditions()
        self.servers: dict[Address, SimulatedServer] = {}
        self.silent: set[Address] = set()
        self.wires: list[Wire] = []
        self._connected: dict[socket.socket, SimulatedTransport] = {}
        self._count = 0
        self._next_port = _FIRST_PORT

    def listen(self, factory: Callable[[], asyncio.Protocol], host: str, port: int) -> SimulatedServer:
        """Accept connections to an address; port 0 stands for a free one."""
        if port == 0:
            self._next_port += 1
            port = self._next_port
        address = (host, port)
        if address in self.servers:
            raise OSError(98, "Address already in use")
        server = self.servers[address] = SimulatedServer(self, factory, address)
        return server

    async def connect(self, sock: socket.socket, address: Any) -> None:
        """Make a connection that `sock` stands for; raises ConnectionRefusedError where no server listens."""
        target: Address = (address[0], address[1])
        while True:
            await asyncio.sleep(2 * self.latency_s())
            if target not in self.silent:
                break
            # As TCP retries a SYN: the connection succeeds if the host is back by then.
            await asyncio.sleep(1.0)
        server = self.servers.get(target)
        if server is None:
            self.trace("refused", target[1])
            raise ConnectionRefusedError(111, "Connection refused")
        self._abort_unattached()
        self._count += 1
        self.trace("connected", self._count, target[1])
        here = ("127.0.0.1", 60_000 + self._count)
        client = SimulatedTransport(self, self._count, "client", {"sockname": here, "peername": target}, sock)
        extra = {"sockname": target, "peername": here}
        accepted = server.context.copy().run(SimulatedTransport, self, self._count, "server", extra, None)
        self.wires = [wire for wire in self.wires if wire.is_open]
        self.wires.append(Wire(self._count, client, accepted))
        self._connected[sock] = client
        accepted.attach(server.factory())

    async def attach(self, sock: socket.socket, protocol: asyncio.Protocol) -> SimulatedTransport:
        """The transport of a connection from `connect`, with the protocol attached."""
        transport = self._connected.pop(sock)
        transport.attach(protocol)
        made = self.loop.create_future()
        self.loop.call_soon(_finish, made)
        try:
            await made
        except BaseException:
            transport.close()
            raise
        return transport

    def wires_to(self, address: Address) -> list[Wire]:
        """The open connections to an address."""
        return [wire for wire in self.wires if wire.is_open and wire.server.address == address]

    def latency_s(self) -> float:
        """The latency of the next segment in seconds."""
        return self.random.uniform(self.conditions.latency_min_s, self.conditions.latency_max_s)

    def close(self) -> None:
        """End all connections."""
        for wire in self.wires:
            wire.client.abort()
            wire.server.abort()

    def _abort_unattached(self) -> None:
        """Abort the connections whose sockets were closed before they got a protocol."""
        for sock, transport in list(self._connected.items()):
            if sock.fileno() < 0:
                del self._connected[sock]
                transport.abort()


def _finish(made: asyncio.Future[None]) -> None:
    if not made.done():
        made.set_result(None)
