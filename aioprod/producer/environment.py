"""What a producer takes from its process; the simulation gives it others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, Final, Protocol

from aioprod.producer.clock import Clock

__all__ = ["Environment", "Threads"]

THREADS_MAX: Final = 4


class Threads(Protocol):
    """The two calls of a `concurrent.futures.Executor` that compression needs."""

    def submit(self, work: Callable[..., object], /, *args: Any) -> object:
        """Run `work(*args)` in a thread."""
        ...

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        """Accept no more work."""
        ...


def _thread_pool() -> Threads:
    return ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1), thread_name_prefix="aioprod compressor")


class Environment:
    """A producer's clock, random numbers (for jitter and sticky partitions) and threads."""

    __slots__ = ("clock", "inline_size", "random", "thread_time", "threads")

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
        threads: Callable[[], Threads] = _thread_pool,
        thread_time: Callable[[], float] = time.thread_time,
        inline_size: int | None = None,
    ) -> None:
        self.clock = Clock() if clock is None else clock
        self.random = Random() if random is None else random  # noqa: S311  # jitter and sticky partitions
        self.threads = threads
        self.thread_time = thread_time
        """The CPU time of the calling thread in seconds."""
        self.inline_size = inline_size
        """How many bytes are compressed on the event loop at most; None for a millisecond's worth."""
