"""Work in many threads at once, as in a server that has one for each request."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["THREADS", "in_threads"]

THREADS: Final = 32


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Call `work(share)` in each of 32 threads, and wait for them; the shares are `count` together."""
    shares = [count // THREADS + (number < count % THREADS) for number in range(THREADS)]
    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
