"""`SimulatedLoop`: an event loop with simulated time, which jumps to the next timer when nothing is ready."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Final, Self, TypeVar

from aioprod.testing.simulation.network import Network, SimulatedServer, SimulatedTransport
from aioprod.testing.simulation.trace import Trace

__all__ = ["SimulatedLoop", "StalledError"]

_START_S: Final = 1_000.0
"""The start of the simulated time. Not 0.0, which stands for "never" in places."""
_ITERATIONS_MAX: Final = 2_000_000
"""More iterations of the loop than this mean that the program is in an endless loop."""
_READINGS_MAX: Final = 200_000
"""More readings of the time in one iteration of the loop mean that a coroutine never gives it a turn."""
_STILL_MAX: Final = 10_000
"""After so many iterations at one time a nanosecond passes: clocks that round may wait for less than that for ever."""
_SPAN_MAX_S: Final = 24 * 3600.0
"""More simulated seconds than this mean that the program waits for something that never happens."""

ResultT = TypeVar("ResultT")


class StalledError(AssertionError):
    """The coroutine has not ended: no timer is left (a deadlock), it gives the loop no turn, or it exceeds a limit."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop without I/O and without a clock: the same `seed` gives the same run, byte for byte.

    Servers and connections are in memory, see `network`; blocking calls (`run_in_executor`) run in the loop after a
    random delay. `trace` logs what happened and keeps a hash of it. Use it as a context manager, which closes it. The
    order of sets of strings differs between processes: replay a seed with the same PYTHONHASHSEED.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.random = Random(seed)  # not for secrets
        self.trace = Trace(self.time)
        self.network = Network(self, self.random, self.trace)
        self.iterations = self._readings = self._still = 0
        self._now, self._end_s = _START_S, _START_S + _SPAN_MAX_S
        self._clock_resolution = 1e-9
        self._selector = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.iterations, self._end_s = 0, self._now + _SPAN_MAX_S
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.network.close()
        self.run_until_complete(asyncio.wait({self.create_task(asyncio.sleep(0)), *tasks}, timeout=1.0))
        self.close()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run `work` to its end; raises StalledError when it never ends."""
        return self.run_until_complete(work)

    # --- time

    def time(self) -> float:
        """The simulated monotonic time in seconds; raises StalledError when it is read for ever in one iteration."""
        self._readings += 1
        if self._readings > _READINGS_MAX:
            self._readings = 0
            raise StalledError(f"The time was read {_READINGS_MAX} times, and the loop got no turn.")
        return self._now

    def spend(self, seconds: float) -> None:
        """Advance the time, as if a callback had blocked the loop for so long."""
        self._now += seconds

    @property
    def timers(self) -> list[asyncio.TimerHandle]:
        """The scheduled timers."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return [timer for timer in scheduled if not timer.cancelled()]

    # --- the selector's part of asyncio's loop

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the time by `timeout` seconds, as nothing is ready before; raises StalledError without a timer."""
        self.iterations += 1
        self._readings = 0
        if timeout is None:
            raise StalledError("A deadlock: no timer is left, and the coroutine has not ended.")
        self._still = self._still + 1 if timeout <= 0.0 else 0
        if self._still >= _STILL_MAX:
            self._still, timeout = 0, self._clock_resolution
        if timeout > 0.0:
            self._now += timeout
        if self.iterations > _ITERATIONS_MAX or self._now > self._end_s:
            raise StalledError(
                f"No end after {self.iterations} loop iterations and {self._now - _START_S:.0f} simulated seconds."
            )
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no I/O events."""

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads that have to wake the loop."""

    # --- I/O

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Call `func` in the loop after a random delay of up to 10 ms; `executor` is not used."""
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
        """Resolve each name to itself."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def getnameinfo(self, sockaddr: Any, flags: int = 0) -> tuple[str, str]:
        """Resolve each name to itself."""
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
        """Listen at an address in memory; port 0 stands for a free one."""
        return self.network.listen(protocol_factory, host, port)
