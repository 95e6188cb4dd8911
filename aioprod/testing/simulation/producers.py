"""`start` makes a producer deterministic: its clock, random numbers and threads come from the simulated loop."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from aioprod.producer import Producer
from aioprod.producer.clock import Clock
from aioprod.producer.environment import Environment
from aioprod.testing.simulation.loop import SimulatedLoop

__all__ = ["SimulatedClock", "start"]

_EPOCH_MS: Final = 1_700_000_000_000


class SimulatedClock(Clock):
    """The clock of a simulated loop.

    With probability `pauses` a reading takes up to `pause_s` seconds, as on a busy machine.
    """

    def __init__(self, loop: SimulatedLoop, pauses: float = 0.0, pause_s: float = 0.02) -> None:
        super().__init__()
        self._loop = loop
        self._pauses = pauses
        self._pause_s = pause_s

    def seconds(self) -> float:
        return self.now_ns() / 1e9

    def now_ns(self) -> int:
        loop = self._loop
        if self._pauses and loop.random.random() < self._pauses:
            loop.spend(loop.random.random() * self._pause_s)
        return round(loop.time() * 1e9)

    def timestamp_ms(self, now_ns: int) -> int:
        return _EPOCH_MS + now_ns // 1_000_000


class SimulatedThreads:
    """Replaces a pool of threads: runs the work in the loop, after a random delay."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def submit(self, work: Callable[..., object], *args: Any) -> None:
        self._loop.call_later(self._loop.random.random() * 0.02, work, *args)

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Do nothing: submitted work still runs."""


async def start(producer: Producer, loop: SimulatedLoop, *, pauses: float = 0.0, inline_size: int = 0) -> None:
    """Start a producer with the clock, random numbers and threads of `loop`.

    `pauses` is the probability that a reading of the clock takes up to 20 ms. Batches of more than `inline_size` bytes
    are compressed in a simulated thread.
    """
    await producer._start_in(
        Environment(
            clock=SimulatedClock(loop, pauses),
            random=Random(loop.random.random()),
            threads=lambda: SimulatedThreads(loop),
            thread_time=float,
            inline_size=inline_size,
        )
    )
