"""Producers for threads in tests: closed at the end, and nothing of them is left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from aioprod.errors import AioprodError
from aioprod.sync import Producer
from tests.support.producers import PATIENCE_S, QUICK

__all__ = ["in_threads", "leaves_no_thread", "new_sync_producer", "sent_until", "sync_producer", "until"]

NAME: Final = "aioprod.sync.Producer"


def new_sync_producer(servers: str, **options: Any) -> Producer:
    """A producer for threads, with short backoffs."""
    return Producer(servers, **(QUICK | options))


@contextmanager
def sync_producer(servers: str, **options: Any) -> Iterator[Producer]:
    """The same, closed at the end; it has not started."""
    producer = new_sync_producer(servers, **options)
    with leaves_no_thread():
        try:
            yield producer
        finally:
            producer.close(PATIENCE_S)
    assert producer.buffered == (0, 0)


@contextmanager
def leaves_no_thread() -> Iterator[None]:
    """Threads of such producers that are begun within the block end, at the latest soon after it."""
    before = threading.enumerate()
    yield
    for thread in threading.enumerate():
        if thread not in before and thread.name.startswith(NAME):
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def in_threads(work: Iterable[Callable[[], object]]) -> None:
    """Run each of these in a thread of its own, all at once; raises the first error."""
    errors: list[BaseException] = []

    def run(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def sent_until(producer: Producer, error: type[AioprodError], value: bytes, **more: Any) -> int:
    """Call `send_nowait` until it raises such an error; how many records were taken."""
    count = 0
    while True:
        try:
            producer.send_nowait("t", value, **more)
        except error:
            return count
        count += 1
