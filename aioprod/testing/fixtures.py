"""The pytest plugin's fixtures. Their clusters run in the loop of their own thread, beside the tests' loops."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import re
import threading
import uuid
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

import pytest

from aioprod.testing.errors import KafkaUnavailableError
from aioprod.testing.fake import FakeCluster
from aioprod.testing.fake.broker import FakeBroker
from aioprod.testing.kafka.cluster import KafkaCluster
from aioprod.testing.proxy import TcpProxy

__all__ = ["FakeClusterThread", "LoopThread", "fresh_topic", "proxies", "running_cluster", "running_fake_cluster"]

T = TypeVar("T")

_CLOSING_S: Final = 0.01
"""How long the loop runs on, so that closed connections end before it does."""


class LoopThread:
    """An event loop in its own thread, which runs as long as the `with` block."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="aioprod.testing", daemon=True)
        self._thread.start()
        return self

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(asyncio.sleep(_CLOSING_S))
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


@contextmanager
def running_cluster(brokers: int = 1, **options: Any) -> Iterator[KafkaCluster]:
    """A cluster from `KafkaCluster.start(brokers, **options)`; its proxies run in their own thread.

    Skips the test where this machine cannot run Kafka, unless AIOPROD_KAFKA names a backend.
    """
    with LoopThread() as loop:
        try:
            cluster = loop.run(KafkaCluster.start(brokers, **options))
        except KafkaUnavailableError as error:
            if os.environ.get("AIOPROD_KAFKA", "auto") != "auto":
                raise
            pytest.skip(f"no Kafka on this machine: {error}")
        try:
            yield cluster
        finally:
            loop.run(cluster.close())


class Finished(Generic[T]):
    """The result of a finished call, which may be awaited or not."""

    def __init__(self, result: T) -> None:
        self._result = result

    def __await__(self) -> Generator[None, None, T]:
        yield from ()
        return self._result


class FakeClusterThread:
    """A `FakeCluster` that runs in its own thread, so that a test may use any event loop or none.

    It has the attributes and methods of a `FakeCluster`. Each call runs in that thread and has ended when it returns;
    the result of a coroutine method may be awaited or not: `cluster.kill(1)` or `await cluster.kill(1)`. `call` runs
    anything else in the cluster's loop.
    """

    def __init__(self, cluster: FakeCluster, thread: LoopThread) -> None:
        self._cluster = cluster
        self._thread = thread

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if inspect.iscoroutinefunction(found):
            return lambda *arguments, **options: Finished(self.call(found, *arguments, **options))
        return functools.partial(self.call, found) if callable(found) else found

    def __getitem__(self, node_id: int) -> FakeBroker:
        return self._cluster[node_id]

    def __repr__(self) -> str:
        return repr(self._cluster)

    def call(self, work: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call `work` in the cluster's thread, and return its result: `cluster.call(fault.release)`."""

        async def inside() -> Any:
            result = work(*arguments, **options)
            return await result if inspect.isawaitable(result) else result

        return self._thread.run(inside())


@contextmanager
def running_fake_cluster(brokers: int = 3, **options: Any) -> Iterator[FakeClusterThread]:
    """A `FakeCluster(brokers, **options)` in its own thread."""
    with LoopThread() as thread:
        cluster = FakeCluster(brokers, **options)
        thread.run(cluster.__aenter__())
        try:
            yield FakeClusterThread(cluster, thread)
        finally:
            thread.run(cluster.__aexit__(None, None, None))


@contextmanager
def fresh_topic(cluster: KafkaCluster, test: str) -> Iterator[str]:
    """A new topic, named after the test; it is deleted at the end."""
    name = f"{re.sub('[^A-Za-z0-9_]+', '-', test)[:80]}-{uuid.uuid4().hex[:8]}"
    with LoopThread() as loop:
        loop.run(cluster.create_topic(name))
        yield name
        loop.run(cluster.delete_topic(name))


@contextmanager
def proxies() -> Iterator[Callable[[str], TcpProxy]]:
    """A function that starts proxies; all are closed at the end."""
    started: list[TcpProxy] = []

    def start(target: str) -> TcpProxy:
        started.append(loop.run(TcpProxy(target).start()))
        return started[-1]

    with LoopThread() as loop:
        yield start
        for proxy in started:
            loop.run(proxy.close())
