"""The client behind a reader, a member or an administrator: its life, and waiting for topic metadata."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from types import TracebackType
from typing import Any, Self

from aioprod._authorization_errors import Right, authorization_error
from aioprod._loops import running_loop
from aioprod._process_bound import ProcessBound
from aioprod._short_reprs import client_repr, shown_error
from aioprod.cluster import Cluster, Metadata, MetadataUpdate, PartitionInfo
from aioprod.cluster.names import topic_name_error
from aioprod.cluster.topic_errors import topic_error
from aioprod.config import SessionConfig
from aioprod.errors import (
    AioprodError,
    ErrorCode,
    InvalidTopicError,
    MetadataTimeoutError,
    UsageError,
)
from aioprod.net import Client, ClientListener, ClientSettings
from aioprod.net.waiters import Waiters

__all__ = ["Session", "SessionUser", "Started", "check_topic_name"]


def check_topic_name(topic: object) -> None:
    """Raise InvalidTopicError for an invalid topic name."""
    complaint = topic_name_error(topic) if isinstance(topic, str) else f"A topic's name must be a str, not {topic!r}."
    if complaint is not None:
        raise InvalidTopicError(complaint)


class Session(ClientListener):
    """Connects a reader, a member or an administrator to a cluster; its metadata requests never create topics.

    `settings` are fields of ClientSettings that override `config`. `name` is what messages call the user object.
    `clock` is in monotonic seconds, `random` is for jitter.
    """

    def __init__(
        self,
        config: SessionConfig,
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self.config = config
        self.timeout_s = config.default_api_timeout_ms / 1000
        self.clock = clock
        self._name = name
        self._settings = ClientSettings.from_config(config, allow_auto_topic_creation=False, **settings)
        self._random = Random() if random is None else random  # noqa: S311  # for jitter
        self._client: Client | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiters = Waiters()
        self._failure: BaseException | None = None
        self._process = 0
        self._ending: asyncio.Task[None] | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it was started in, None before."""
        return self._loop

    # --- life

    async def start(self) -> None:
        """Connect to the cluster.

        Raises MetadataTimeoutError when no bootstrap server answers within `default.api.timeout.ms`, ProtocolError or
        UnsupportedVersionError when those that answer can't be used, UsageError when it was started before.
        """
        loop = running_loop()
        if self._client is not None and not loop.is_closed() and loop is self._loop:
            raise UsageError(
                f"This {self._name} is running already: use it as it is.",
                hint="`async with` starts it, so call start() or write `async with`, not both.",
            )
        if self._loop is not None:
            raise UsageError(f"This {self._name} was started before: make a new one.")
        self._loop = loop
        client = Client(self._settings, loop=self._loop, clock=self.clock, random=self._random, listener=self)
        try:
            await client.start(self.timeout_s)
        except BaseException:
            await client.close()
            raise
        client.keep_running()
        self._client = client
        self._process = os.getpid()

    async def close(self) -> None:
        """Close all connections and end all tasks; a second call does nothing."""
        client, self._client = self._client, None
        self.notify()
        if client is not None:
            await client.close()

    def dropped(self, user: object, end: Callable[[], Awaitable[None]] | None = None) -> None:
        """`user` was garbage-collected: if it is not closed, warn, and `end` it, by default by `close`.

        Nothing in the event loop may refer to `user`. May be called in any thread.
        """
        if self._client is None or self._loop is None or os.getpid() != self._process:
            return
        with contextlib.suppress(RuntimeError):  # The event loop is closed.
            self._loop.call_soon_threadsafe(self._end, end or self.close)
        text = f"Unclosed {self._name}: use `async with`, or await its close()."
        warnings.warn(text, ResourceWarning, stacklevel=2, source=user)

    def _end(self, end: Callable[[], Awaitable[None]]) -> None:
        if self._client is not None and not self._client.is_ending:
            self._ending = asyncio.ensure_future(end())

    async def reload_credentials(self) -> None:
        """Use new certificates, passwords and tokens; raises what `Client.reload_credentials` raises."""
        await self.client.reload_credentials()

    @property
    def client(self) -> Client:
        """The running client; raises UsageError before `start()`, after `close()` and in another event loop."""
        if self._client is None:
            state = "closed" if self._loop is not None else "not started: use `async with`, or await start() first"
            raise UsageError(f"This {self._name} is {state}.")
        self.check_loop()
        return self._client

    def cluster(self) -> Cluster:
        """The newest snapshot of the cluster; raises what `client` raises."""
        return self.client.metadata.cluster

    def described(self, kind: str, what: str = "") -> str:
        """The `repr` of the user object, whose state ends with `what` while it runs."""
        state = "not started" if self._loop is None else "closed"
        if self._client is not None:
            state = f"running{what}" if self._failure is None else "failed"
        return client_repr(kind, self.config.client_id, self.config.bootstrap_servers, state)

    def check_loop(self) -> None:
        """Raise UsageError in another event loop than the one in which it was started."""
        if self._loop is None:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self._loop:
            raise UsageError(
                f"This {self._name} belongs to another event loop, the one in which it was started.",
                hint="From another thread use loop.call_soon_threadsafe() or asyncio.run_coroutine_threadsafe().",
            )

    def backoff_s(self, failures: int) -> float:
        """The delay before the next attempt, after `failures` failures before the last one."""
        return self._settings.retry_backoff.delay_s(failures, self._random)

    # --- waiting

    async def change(self, timeout_s: float, futures: Iterable[asyncio.Future[Any]] = ()) -> None:
        """Wait until the metadata changes, or one of `futures` is done, for `timeout_s` at most.

        Raises AioprodError when a background task of the client has failed, UsageError when the session was closed.
        """
        await self._waiters.wait(timeout_s, futures)
        if self._failure is not None:
            reason = shown_error(self._failure)
            raise AioprodError(f"The client of this {self._name} has failed: {reason}.") from self._failure
        _ = self.client

    def notify(self) -> None:
        """Wake all waiters of `change` so that they re-check their condition."""
        self._waiters.notify_all()

    # --- ClientListener

    def metadata_changed(self, update: MetadataUpdate) -> None:
        """Wake all waiters."""
        self.notify()

    def failed(self, error: BaseException) -> None:
        """Fail all waiters, and every later request, with this error."""
        self._failure = error
        self.notify()

    # --- topics

    def track(self, topics: Iterable[str]) -> None:
        """Track the metadata of these topics; one that does not exist is requested until it does."""
        client, now = self.client, self.clock()
        for topic in topics:
            client.metadata.touch(topic, now)
        client.wake()

    async def partitions(self, topic: str) -> tuple[PartitionInfo, ...]:
        """All partitions of a topic by index, by a new response.

        Raises UnknownTopicError, InvalidTopicError, AuthorizationError, or MetadataTimeoutError when that takes longer
        than `default.api.timeout.ms`.
        """
        metadata = self._refresh_topic(topic)
        deadline = self.clock() + self.timeout_s
        while not metadata.cluster.partition_count(topic):
            error = topic_error(metadata, topic, self.clock(), to_write=False)
            if error is not None:
                metadata.forget_topic(topic)
                # Other waiters may need it.
                self.notify()
                raise error
            await self._wait_for_metadata(topic, deadline, "describe")
        return metadata.cluster.partitions_for_topic(topic)

    async def wait_for_leaders(self, topic: str, deadline: float, *, count: int = 1) -> None:
        """Wait until a topic that was just created, or got more partitions, has `count` of them and each has a leader.

        "Unknown topic" is retried here: not every broker knows the topic yet. Raises MetadataTimeoutError at the
        deadline, and AuthorizationError when this client may not describe the topic.
        """
        metadata = self._refresh_topic(topic)
        while True:
            code = metadata.topic_error(topic) or ErrorCode.NONE
            text = f"Topic {topic!r} was created, but this client may not describe it ({ErrorCode.name_of(code)})."
            if denied := authorization_error(text, code, [Right("DESCRIBE", "topic", topic)]):
                metadata.forget_topic(topic)
                raise denied
            partitions = metadata.cluster.partitions_for_topic(topic)
            if partitions and all(partition.leader is not None for partition in partitions):
                if len(partitions) >= count:
                    return
                # A broker that lags behind names fewer partitions; such a response is complete, so request another.
                metadata.request_update(self.clock(), topic)
            await self._wait_for_metadata(topic, deadline, "name the leaders of")

    def _refresh_topic(self, topic: str) -> Metadata:
        """Drop the metadata of a topic and request it again."""
        check_topic_name(topic)
        metadata = self.client.metadata
        metadata.forget_topic(topic)
        self.track([topic])
        return metadata

    async def _wait_for_metadata(self, topic: str, deadline: float, doing: str) -> None:
        left_s = deadline - self.clock()
        if left_s <= 0.0:
            raise MetadataTimeoutError(f"No broker could {doing} topic {topic!r} in time: {self.client.describe()}.")
        await self.change(left_s)


class Started(ProcessBound):
    """An async context manager with `start` and `close`."""

    async def start(self) -> None:
        """Start."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class SessionUser(Started):
    """An object with a `Session` of its own, and the same life."""

    _session: Session

    def __repr__(self) -> str:
        return self._session.described(type(self).__name__)

    async def start(self) -> None:
        """Connect to the cluster; raises what `Session.start` raises."""
        await self._session.start()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    def __del__(self) -> None:
        session = getattr(self, "_session", None)
        if session is not None:
            session.dropped(self)

    async def reload_credentials(self) -> None:
        """Re-read certificates and passwords, fetch a new token, and reconnect to each broker with them.

        One broker at a time; no request fails. Raises ConfigError, AuthenticationError or BrokerConnectionError if
        there are no new credentials, or a broker does not accept them; the old connections stay in use then.
        UsageError before `start()` and after `close()`.
        """
        await self._session.reload_credentials()
