"""An event loop whose time is made up: it jumps to the next timer as soon as nothing else is left to do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Self, TypeVar

from aioprod.testing.simulation.network import Network, SimulatedServer, SimulatedTransport
from aioprod.testing.simulation.trace import Trace

__all__ = ["SimulatedLoop", "StalledError"]

START_S: Final = 1_000.0
"""Where the made-up time begins. Not at 0.0, which stands for "never" in places."""
TURNS_MAX: Final = 2_000_000
"""Turns of the loop after which something goes round in circles."""
SPAN_MAX_S: Final = 24 * 3600.0
"""Made-up seconds after which something waits that will never come."""

ResultT = TypeVar("ResultT")


class StalledError(AssertionError):
    """Nothing is left that could happen, or it happens for ever, and what was run has not ended."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop without I/O and without a clock: the same `seed` gives the same run, byte for byte.

    Servers and connections of this loop are in memory, see `network`; blocking calls (`run_in_executor`) run in the
    loop after a random while. `trace` notes what happened and keeps a hash of it. Use it as a context manager, which
    closes it. As sets of strings have another order in each process, replay a seed with the same PYTHONHASHSEED.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.random = Random(seed)  # a simulation, no secret
        self.trace = Trace(self.time)
        self.network = Network(self, self.random, self.trace)
        self.turns = 0
        self._now, self._end_s = START_S, START_S + SPAN_MAX_S
        self._clock_resolution = 1e-9
        self._selector = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.turns, self._end_s = 0, self._now + SPAN_MAX_S
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.network.close()
        self.run_until_complete(asyncio.wait({self.create_task(asyncio.sleep(0)), *tasks}, timeout=1.0))
        self.close()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run `work` to its end; raises StalledError when it never ends."""
        return self.run_until_complete(work)

    # -- time --------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Made-up monotonic seconds."""
        return self._now

    def spend(self, seconds: float) -> None:
        """Let time pass as if something had kept the loop busy for so long."""
        self._now += seconds

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """What is going to happen later."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return [timer for timer in scheduled if not timer.cancelled()]

    # -- what asyncio's loop asks of its selector --------------------------------------------------------------------

    def select(self, timeout: float | None) -> list[Any]:
        """Nothing is ready for `timeout` seconds, so they pass at once."""
        self.turns += 1
        if timeout is None:
            raise StalledError("Nothing is left that could happen, and what was run has not ended.")
        if timeout > 0.0:
            self._now += timeout
        if self.turns > TURNS_MAX or self._now > self._end_s:
            raise StalledError(f"No end after {self.turns} turns of the loop and {self._now - START_S:.0f} s.")
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody else is there who would have to wake the loop."""

    # -- I/O ---------------------------------------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call `func` in the loop, in a while; `executor` is not used."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self.random.random() * 0.01, work)
        return future

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> list[Any]:
        """Each name stands for itself."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Each name stands for itself."""
        return str(sockaddr[0]), str(sockaddr[1])

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect in memory: the socket itself is never used, it only stands for the connection."""
        await self.network.connect(sock, address)

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **options: Any,
    ) -> tuple[SimulatedTransport, asyncio.Protocol]:
        """Attach a protocol to a socket that `sock_connect` connected, or connect to host and port."""
        if sock is None:
            sock = socket.socket()
            try:
                await self.network.connect(sock, (host, port))
            except BaseException:
                sock.close()
                raise
        protocol = protocol_factory()
        return await self.network.attach(sock, protocol), protocol

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.Protocol], host: str = "", port: int = 0, **options: Any
    ) -> SimulatedServer:
        """Listen at an address in memory; port 0 stands for one that is free."""
        return self.network.listen(protocol_factory, host, port)
