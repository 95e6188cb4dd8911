"""What lives as long as a Python process of Spark: one event loop in a thread of its own, and connected clients.

A task's own thread waits for Spark most of the time; a loop that ran there would stand still as long. Spark uses its
worker processes for many tasks, so that what is connected stays so. It also kills them without a word: a task must
leave nothing behind that is not delivered.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from aioprod.errors import AioprodError
from aioprod.producer import Producer

__all__ = ["forget", "producer", "run"]

T = TypeVar("T")
log = logging.getLogger(__name__)


class _Worker:
    """The loop of one process and what runs on it. `lock` is held while a client is looked for or made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.producers: dict[frozenset[tuple[str, Any]], Producer] = {}
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="aioprod.spark", daemon=True).start()


_lock = threading.Lock()
_worker: _Worker | None = None


def _here() -> _Worker:
    global _worker
    with _lock:
        if _worker is None:
            _worker = _Worker()
        return _worker


def _after_fork() -> None:
    """A child has the memory of its parent's loop, but neither its thread nor the right to its connections."""
    global _worker, _lock
    _worker = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on this process's loop and wait for its result; an interruption of the wait cancels it."""
    future = asyncio.run_coroutine_threadsafe(work, _here().loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def producer(options: Mapping[str, Any]) -> Producer:
    """The connected producer of this process with these options of `Producer`; raises what its `start` raises."""
    here = _here()
    key = frozenset(options.items())
    with here.lock:
        if key not in here.producers:
            here.producers[key] = run(_started(options))
        return here.producers[key]


async def _started(options: Mapping[str, Any]) -> Producer:
    made = Producer(**options)
    await made.start()
    return made


def forget(old: Producer) -> None:
    """Close a producer that failed, with all that is left in it: the next task gets another one."""
    here = _here()
    with here.lock:
        for key in [key for key, value in here.producers.items() if value is old]:
            del here.producers[key]
    try:
        run(old.close(0))
    except AioprodError as error:
        log.debug("A producer that had failed did not close: %s", error)
