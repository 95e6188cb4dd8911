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
from collections.abc import Callable, Coroutine, Hashable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from aioprod.errors import AioprodError

if TYPE_CHECKING:
    from aioprod.producer import Producer

__all__ = ["connected", "forget", "producer", "run", "stop"]

T = TypeVar("T")
_logger = logging.getLogger(__name__)


class Client(Protocol):
    """What is kept connected: a producer, a reader."""

    async def start(self) -> None: ...
    async def close(self) -> object: ...


C = TypeVar("C", bound=Client)


class _Worker:
    """The loop of one process and what runs on it. `lock` is held while a client is looked for or made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clients: dict[Hashable, Any] = {}
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="aioprod.spark", daemon=True)
        self.thread.start()


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


def connected(key: Hashable, make: Callable[[], C]) -> C:
    """The client of this process that was started under `key`, by the first call; raises what its start raises."""
    here = _here()
    with here.lock:
        if key not in here.clients:
            client = make()
            run(client.start())
            here.clients[key] = client
        found: C = here.clients[key]
        return found


def producer(options: Mapping[str, Any]) -> Producer:
    """The connected producer of this process with these options of `Producer`; raises what its `start` raises."""
    from aioprod.producer import Producer  # The workers that read have none.

    return connected((Producer, *sorted(options.items())), lambda: Producer(**options))


def forget(client: Client) -> None:
    """Close a client that failed, with all that is left in it: the next task gets another one."""
    here = _here()
    with here.lock:
        for key in [key for key, value in here.clients.items() if value is client]:
            del here.clients[key]
    try:
        run(_closed(client))
    except AioprodError as error:
        _logger.debug("A client that had failed did not close: %s", error)


async def _closed(client: Client) -> None:
    """Close without waiting: no task leaves records behind that a caller still waits for."""
    from aioprod.producer import Producer

    await (client.close(0) if isinstance(client, Producer) else client.close())


def stop() -> None:
    """Close all clients and end the loop; the next call starts new ones."""
    global _worker
    with _lock:
        here, _worker = _worker, None
    if here is None:
        return

    async def end() -> None:
        for client in here.clients.values():
            await _closed(client)
        await here.loop.shutdown_default_executor()

    asyncio.run_coroutine_threadsafe(end(), here.loop).result()
    here.loop.call_soon_threadsafe(here.loop.stop)
    here.thread.join()
    here.loop.close()
