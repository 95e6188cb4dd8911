"""A client of a cluster: knows its brokers, keeps one connection to each that is used, keeps the metadata fresh."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

from aioprod.cluster import Metadata, MetadataUpdate
from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    BrokerConnectionError,
    MetadataTimeoutError,
    ProtocolError,
    RequestTimedOutError,
    UnsupportedVersionError,
    UsageError,
)
from aioprod.messages.negotiation import ApiVersions, ByVersion
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.link import BrokerLink, LinkState
from aioprod.net.pool import LinkPool
from aioprod.net.refresh import MetadataRefresh
from aioprod.net.security import rotation_of, security_of
from aioprod.net.settings import ClientSettings
from aioprod.net.tasks import Supervisor
from aioprod.net.waiting import told_if_slow
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = ["Client", "ClientListener", "prefer_specific_error"]

ResponseT = TypeVar("ResponseT", bound=Response)

_ADVERTISED: Final = "the brokers name that address themselves (advertised.listeners)"
_ADVERTISED_HINT: Final = "Check that the brokers' advertised.listeners can be reached from here."

_logger = logging.getLogger("aioprod.net")

_LATE_S: Final = 0.0005
"""How late to wake: uvloop rounds delays to milliseconds, and who wakes early turns until something is really due."""


def prefer_specific_error(before: AioprodError | None, error: AioprodError, *, was_cut_off: bool) -> AioprodError:
    """Of two failed tries of a request the one to tell of: `error`, the later one, if it is not just that time was up.

    `was_cut_off`: the later one had less time than a try has by itself, as the caller's deadline was near.
    """
    says_less = was_cut_off and isinstance(error, RequestTimedOutError)
    return error if before is None or not says_less else before


class ClientListener:
    """Who hears of what happens in a `Client`; a subclass overrides what concerns it. All are called in the loop."""

    def link_ready(self, link: BrokerLink) -> None:
        """The broker is connected and its versions are known."""

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """The connection is gone and all its requests were completed, or it could not be made; None: we closed it."""

    def link_data(self, link: BrokerLink) -> None:
        """The answers in one chunk of bytes were completed."""

    def link_writable(self, link: BrokerLink) -> None:
        """The transport takes more again, or a throttle has ended."""

    def metadata_changed(self, update: MetadataUpdate) -> None:
        """The metadata was asked for and came; the links are in step with it."""

    def wake(self) -> None:
        """`poll` is wanted soon."""

    def failed(self, error: BaseException) -> None:
        """A background task or a callback raised what nobody expected."""


class Client:
    """Connections, metadata and what holds them together.

    `poll` does all that is due and has to be called again and again; who has no loop for that calls `keep_running`.
    `metadata` says which brokers and partitions there are, `authentications` how often TLS and log-ins went well.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        random: Random,
        listener: ClientListener,
    ) -> None:
        self.settings = settings
        self._random = random
        self.metadata = Metadata(
            max_age_s=settings.metadata_max_age_s,
            max_idle_s=settings.metadata_max_idle_s,
            backoff=self.backoff_s,
        )
        self._loop = loop
        self._clock = clock
        self._listener = listener
        self._tasks = Supervisor(loop, self.failed)
        tls, logins = security_of(settings, random)
        context = ClientContext(settings, loop, clock, random, self._tasks, self, tls, logins)
        self.authentications = context.authentications
        self._links = LinkPool(context)
        self._rotation = rotation_of(self._links, context)
        self._refresh = MetadataRefresh(self.metadata, self._links, context, self._metadata_changed)
        self._features: ApiVersions = ApiVersions({})
        self._awake = asyncio.Event()
        # In order of arrival, which is the order in which they are woken.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._next_due = math.inf
        self._closed = False
        self._running: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    # -- life --------------------------------------------------------------------------------------------------------

    async def start(self, timeout_s: float) -> None:
        """Connect to the bootstrap servers and learn the cluster's brokers.

        Raises MetadataTimeoutError with the reason for each address if that takes longer than `timeout_s`; without
        waiting ProtocolError if all of them are no Kafka brokers, AuthenticationError, TlsError or ConfigError if none
        of them accepts us, UnsupportedVersionError if they are too old, and UsageError if the client is closed
        meanwhile. AuthenticationError too if it waits for the credentials until the time is over. The log is warned of
        a start that takes more than a second, and of one that is cancelled, with the reason for each address.
        """
        self._refresh.bootstrap()
        scope = asyncio.timeout(timeout_s)
        try:
            with told_if_slow(self._loop, lambda: f"Kafka is not reachable yet: {self.describe()}", timeout_s):
                async with scope:
                    while self.metadata.last_success is None:
                        self._check_start()
                        await self._turn()
        except TimeoutError:
            if not scope.expired():
                raise
            text = f"No broker described the cluster within {timeout_s:g} s: {self.describe()}."
            if any(link.session.waits for link in self._links):
                hint = "Look at what gives the tokens."
                raise AuthenticationError(text, hint=hint) from self._last_error()
            last = self._last_error()
            hint = "Check bootstrap.servers." if last is None or last.hint is None else last.hint
            raise MetadataTimeoutError(text, hint=hint) from last

    def _check_start(self) -> None:
        if self._closed:
            raise UsageError("The client was closed while it started.")
        if self._failure is not None:
            raise self._failure
        if isinstance(self._refresh.error, UnsupportedVersionError):
            raise self._refresh.error
        refusals = [refusal for link in self._links if (refusal := link.refusal) is not None]
        if not refusals or len(refusals) < len(list(self._links)):
            return
        for refusal in refusals:
            if not isinstance(refusal, ProtocolError):
                raise refusal.again()
        raise ProtocolError(f"No Kafka broker was found: {self.describe()}.", hint=refusals[0].hint)

    def _last_error(self) -> AioprodError | None:
        errors = [link.last_error for link in self._links if link.last_error is not None]
        return self._refresh.error or (errors[0] if errors else None)

    def describe(self) -> str:
        """How it stands with each broker and with the metadata, for an error message.

        It names advertised.listeners where a broker was never reached at the address that the cluster tells of it.
        """
        now = self._clock()
        reasons = [link.describe(now) for link in self._links]
        if self._is_led_astray:
            reasons.append(_ADVERTISED)
        if self._refresh.error is not None:
            reasons.append(self._refresh.error.message.rstrip("."))
        return "; ".join(dict.fromkeys(reasons))

    @property
    def _is_led_astray(self) -> bool:
        """Whether a broker was never reached at the address that the cluster tells of it."""
        return any(link.last_error is not None and not (link.was_ready or link.is_bootstrap) for link in self._links)

    def advice(self) -> str | None:
        """The hint where the cluster tells addresses that can't be reached from here; None where it is not that."""
        return _ADVERTISED_HINT if self._is_led_astray else None

    async def run(self) -> None:
        """Poll until the client is closed."""
        while not self._closed:
            await self._turn()

    def keep_running(self) -> None:
        """`run` in the background, for users without a loop of their own; if it fails, `failed` and all requests do."""
        self._running = self._tasks.spawn(self.run(), name="aioprod client")

    @property
    def is_ending(self) -> bool:
        """Whether what `keep_running` began was told to end, as it is when the loop ends."""
        return self._running is None or self._running.done() or self._running.cancelling() > 0

    async def _turn(self) -> None:
        """Poll once, then sleep until something is due or somebody wakes us."""
        self._awake.clear()
        delay_s = self.poll(self._clock()) - self._clock()
        timer = None if math.isinf(delay_s) else self._loop.call_later(max(0.0, delay_s) + _LATE_S, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    async def close(self, *, flush_s: float = 0.05) -> None:
        """End everything: requests fail, tasks end, connections close.

        Takes no longer than `flush_s` seconds, in which the connections write out what they were given. If it is
        cancelled, it drops that at once.
        """
        self._closed = True
        self._notify()
        self.wake()
        try:
            await self._tasks.close()
        finally:
            await self._links.close(flush_s)

    # -- credentials -------------------------------------------------------------------------------------------------

    async def reload_credentials(self) -> None:
        """Read files of certificates and passwords anew, fetch another token, and connect to each broker by these.

        One broker after the other: a second connection takes over when it is accepted and what is on the way on the
        first one is answered; requests wait meanwhile, and none fails. Raises ConfigError, AuthenticationError,
        BrokerConnectionError: the first reason why that can't be done, and what was in use stays in use there.
        UsageError if the client is closed. Without TLS and log-in there is nothing to do.
        """
        self._check_usable()
        if self._rotation is not None:
            await self._rotation.reload()

    @property
    def credentials_expire_s(self) -> float | None:
        """In how many seconds our certificate or token ends, None without both."""
        return None if self._rotation is None else self._rotation.expires_s

    # -- what is due -------------------------------------------------------------------------------------------------

    def poll(self, now: float) -> float:
        """Do all that is due: time-outs, reconnects, the metadata request, closing what is idle.

        Never waits. Returns when something is due next, in monotonic seconds; `wake` is called if that changes.
        """
        if self._closed:
            return math.inf
        # What the work below makes due is noted meanwhile.
        self._next_due = math.inf
        due = min(self._links.poll(now), self._refresh.poll(now))
        if self._rotation is not None:
            due = min(due, self._rotation.poll(now))
        self._next_due = min(due, self._next_due)
        return self._next_due

    def due(self, when: float) -> None:
        """Make sure that `poll` is called at that time."""
        if when < self._next_due and not self._closed:
            self._next_due = when
            self.wake()

    def wake(self) -> None:
        """Have `poll` called soon."""
        self._awake.set()
        self._listener.wake()

    # -- requests ----------------------------------------------------------------------------------------------------

    def link(self, node_id: int) -> BrokerLink | None:
        """The link to a broker, None if the metadata did not name it when `poll` was called last.

        That of a broker which has vanished from the metadata is there for a while, but never ready.
        """
        return self._links.get(node_id)

    async def request(
        self,
        message: Request[ResponseT] | ByVersion[ResponseT],
        *,
        node_id: int | None = None,
        timeout_s: float | None = None,
        connects_once: bool = False,
        avoid: int | None = None,
    ) -> ResponseT:
        """Send `message` to a broker, or to any that is ready but `avoid`, and return its answer; connects if need be.

        `timeout_s` is for all of it, by default `request.timeout.ms`. It goes on connecting to the broker for that
        time; with `connects_once` the first failure ends it. Raises RequestTimedOutError when the time has passed,
        BrokerConnectionError if the connection is lost or the metadata does not name the broker, ProtocolError,
        UnsupportedVersionError, and UsageError if the client is closed.
        """
        limit_s = self.settings.request_timeout_s if timeout_s is None else timeout_s
        scope = asyncio.timeout(limit_s)
        try:
            async with scope:
                connection = await self._ready_connection(node_id, connects_once, avoid)
                return await connection.request(message, timeout_s=max(limit_s, self.settings.request_timeout_s))
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise RequestTimedOutError(
                f"{message.NAME} was not answered within {limit_s:g} s: {self.describe()}."
            ) from (self._last_error() or error)

    async def _ready_connection(self, node_id: int | None, connects_once: bool, avoid: int | None) -> BrokerConnection:
        while True:
            self._check_usable()
            now = self._clock()
            look_again_at = math.inf
            link = self._links.least_loaded(now, avoid) if node_id is None else self.link(node_id)
            if node_id is None and link is not None and link.node.id == avoid:
                link = None
            if link is not None and link.ensure(now) and link.connection is not None:
                return link.connection
            if node_id is None:
                look_again_at = self._links.seek(now)
            elif link is None or link.retired:
                raise BrokerConnectionError(f"The cluster's metadata names no broker {node_id}.")
            elif connects_once and link.state is LinkState.BACKOFF and link.last_error is not None:
                raise link.last_error.again()
            await self._change(look_again_at - now)

    @property
    def is_connected(self) -> bool:
        """Whether any broker can be asked for something."""
        return any(link.state is LinkState.READY for link in self._links)

    def now(self) -> float:
        """The time by the client's clock, in monotonic seconds."""
        return self._clock()

    def backoff_s(self, step: int) -> float:
        """How long to wait before the next try of a request (`retry.backoff.ms`), after `step` tries that failed."""
        return self.settings.retry_backoff.delay_s(step, self._random)

    def feature(self, name: str) -> int:
        """The finalized level of a feature of the cluster, 0 if it has none, as told by the connection that knew last.

        Each new connection tells anew: levels change while the brokers run.
        """
        return self._features.features.get(name, 0)

    def speaks(self, request: type[AnyRequest], *, at_least: int = 0) -> bool:
        """Whether the broker whose connection knew last speaks a version of `request` that is not below `at_least`."""
        return self._features.supports(request, at_least=at_least)

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError("The client is closed.")
        if self._failure is not None:
            raise AioprodError(f"The client has failed: {type(self._failure).__name__}.") from self._failure

    async def _change(self, timeout_s: float) -> None:
        """Wait until a link changes or the time is over."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters[waiter] = None
        try:
            await asyncio.wait([waiter], timeout=None if math.isinf(timeout_s) else max(0.0, timeout_s))
        finally:
            del self._waiters[waiter]

    def _notify(self) -> None:
        """Something changed that a request may wait for, and that makes something due."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.due(self._clock())

    # -- events ------------------------------------------------------------------------------------------------------

    def link_ready(self, link: BrokerLink) -> None:
        if link.connection is not None and _logger.isEnabledFor(logging.DEBUG):
            _logger.debug("%s is connected and speaks %s", link.peer, link.connection.versions.in_words())
        if link.connection is not None and link.connection.versions.features_epoch >= self._features.features_epoch:
            self._features = link.connection.versions
        self._notify()
        if not link.is_bootstrap:
            self._listener.link_ready(link)

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        _logger.debug("The connection to %s %s", link.peer, "was closed" if error is None else f"is lost: {error}")
        if error is not None:
            self.metadata.request_update(self._clock())
        self._notify()
        if not link.is_bootstrap:
            self._listener.link_lost(link, error)

    def link_data(self, link: BrokerLink) -> None:
        if not link.is_bootstrap:
            self._listener.link_data(link)

    def link_writable(self, link: BrokerLink) -> None:
        self._notify()
        if not link.is_bootstrap:
            self._listener.link_writable(link)

    def _metadata_changed(self, update: MetadataUpdate) -> None:
        cluster = self.metadata.cluster
        _logger.debug(
            "Cluster %s told of itself: brokers %s, changed topics: %d",
            cluster.cluster_id,
            [node.id for node in cluster.nodes],
            len(update.changed_topics),
        )
        self._notify()
        self._listener.metadata_changed(update)

    def failed(self, error: BaseException) -> None:
        """A background task or a callback raised."""
        self._failure = error
        self._notify()
        self._listener.failed(error)
