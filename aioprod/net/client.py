"""A client of a cluster: one connection to each broker in use, up-to-date metadata, requests to any broker.

Everything that is due happens in `poll`, which never waits and returns the time of the next call; events of connections
run in the callbacks of the event loop. A user with a loop of its own (the producer) calls `poll` there, and is woken by
`ClientListener.wake`; others call `keep_running`. A request waits for a ready link, and is woken whenever a link or the
metadata changes.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from random import Random
from typing import Final, TypeVar

from aioprod._logger import Logger
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
from aioprod.messages import ApiVersionsRequest
from aioprod.messages.negotiation import FIRST_WITH_IDENTITY, ApiVersions, ByVersion
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.events import ClientListener
from aioprod.net.link import BrokerLink, LinkState
from aioprod.net.metadata_refresh import MetadataRefresh
from aioprod.net.pool import LinkPool
from aioprod.net.scheduler import Scheduler
from aioprod.net.security import rotation_of, security_of
from aioprod.net.settings import ClientSettings
from aioprod.net.slow_calls import warn_if_start_is_slow
from aioprod.net.tasks import Supervisor
from aioprod.net.waiters import Waiters
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = ["Client"]

ResponseT = TypeVar("ResponseT", bound=Response)

_ADVERTISED: Final = "the brokers name that address themselves (advertised.listeners)"
_ADVERTISED_HINT: Final = "Check that the brokers' advertised.listeners can be reached from here."

_logger = Logger("aioprod.net")

_RACKS_NAMED: Final = 10
"""How many racks a log line names."""

_EARLIEST: Final = 0.9
"""Each client refreshes its metadata after 90 to 100 % of `metadata.max.age.ms`."""


class Client(ClientListener):
    """The connections and the metadata of one cluster."""

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
            # Clients that have started together would all refresh in the same second.
            max_age_s=settings.metadata_max_age_s * random.uniform(_EARLIEST, 1.0),
            max_idle_s=settings.metadata_max_idle_s,
            backoff=self.backoff_s,
            due=self.wake_at,
        )
        """The brokers, topics and partitions."""
        self._loop = loop
        self._clock = clock
        self._listener = listener
        self._tasks = Supervisor(loop, self.failed)
        tls, logins = security_of(settings, random)
        context = ClientContext(
            settings=settings,
            loop=loop,
            clock=clock,
            random=random,
            tasks=self._tasks,
            wake_at=self.wake_at,
            events=self,
            owner=listener,
            identity=self._identity,
            tls=tls,
            logins=logins,
        )
        self.authentications = context.authentications
        """Counts TLS handshakes and log-ins."""
        self.traffic = context.traffic
        """Counts requests and bytes by broker."""
        self.unforeseen = context.unforeseen
        """Takes unforeseen errors of one broker."""
        self._links = LinkPool(context)
        self.link: Callable[[int], BrokerLink | None] = self._links.get
        """Returns the link to a broker by its node id, None if the metadata did not contain it at the last `poll`. The
        link of a broker that has vanished from the metadata is kept for a while, but is never ready."""
        self._rotation = rotation_of(self._links, context)
        self._refresh = MetadataRefresh(self.metadata, self._links, context)
        self._features: ApiVersions = ApiVersions({})
        self._scheduler = Scheduler(loop, clock)
        self._waiters = Waiters()
        self._next_due = math.inf
        self._closed = False
        self._running: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    # --- life

    async def start(self, timeout_s: float) -> None:
        """Connect to the bootstrap servers and learn the cluster's brokers.

        Raises MetadataTimeoutError with the reason for each address if that takes longer than `timeout_s`; at
        once ProtocolError if none of them is a Kafka broker, AuthenticationError, TlsError or ConfigError if none of
        them accepts us, UnsupportedVersionError if they are too old, and UsageError if the client is closed before it
        has started. AuthenticationError too if it still waits for credentials after `timeout_s`. A start that takes
        more than a second, or is cancelled, logs a warning with the reason for each address, and one in a rack where no
        broker is.
        """
        self._refresh.bootstrap()
        scope = asyncio.timeout(timeout_s)
        try:
            with warn_if_start_is_slow(self._loop, lambda: f"Kafka is not reachable yet: {self.describe()}", timeout_s):
                async with scope:
                    while self.metadata.last_success is None:
                        self._check_start()
                        await self._scheduler.run_once(self.poll)
        except TimeoutError:
            if not scope.expired():
                raise
            text = f"No broker described the cluster within {timeout_s:g} s: {self.describe()}."
            if any(link.session.is_waiting for link in self._links):
                hint = "Look at what gives the tokens."
                raise AuthenticationError(text, hint=hint) from self._last_error()
            last = self._last_error()
            hint = "Check bootstrap.servers." if last is None or last.hint is None else last.hint
            raise MetadataTimeoutError(text, hint=hint) from last
        self._warn_of_rack()

    def _warn_of_rack(self) -> None:
        """Log that the client's rack is one in which no broker is; once, as brokers of a rack may all be down later."""
        rack, racks = self.settings.rack, self.metadata.cluster.racks
        if rack and rack not in racks:
            theirs = ", ".join(sorted(racks)[:_RACKS_NAMED])
            known = f"they are in {theirs}" if theirs else "they have none (broker.rack)"
            _logger.warning("No broker is in the rack %r (client.rack), so all racks are used: %s", rack, known)

    def _check_start(self) -> None:
        if self._closed:
            raise UsageError("The client was closed while it started.")
        if self._failure is not None:
            raise self._failure
        if isinstance(self._refresh.error, UnsupportedVersionError):
            raise self._refresh.error
        errors = [error for link in self._links if (error := link.permanent_error) is not None]
        if not errors or len(errors) < len(list(self._links)):
            return
        for error in errors:
            if not isinstance(error, ProtocolError):
                raise error.again()
        raise ProtocolError(f"No Kafka broker was found: {self.describe()}.", hint=errors[0].hint)

    def _last_error(self) -> AioprodError | None:
        errors = [link.last_error for link in self._links if link.last_error is not None]
        return self._refresh.error or (errors[0] if errors else None)

    def describe(self) -> str:
        """The state of each link and of the metadata, for an error message.

        It mentions advertised.listeners where a broker was never reached at the address in the metadata.
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
        """Whether a broker was never reached at the address that the cluster advertises for it."""
        return any(link.last_error is not None and not (link.was_ready or link.is_bootstrap) for link in self._links)

    def advice(self) -> str | None:
        """The hint if the cluster advertises addresses that can't be reached from here, else None."""
        return _ADVERTISED_HINT if self._is_led_astray else None

    async def run(self) -> None:
        """Poll until the client is closed."""
        while not self._closed:
            await self._scheduler.run_once(self.poll)

    def keep_running(self) -> None:
        """Start `run` as a background task. If it fails, `ClientListener.failed` is called and all requests raise."""
        self._running = self._tasks.spawn(self.run(), name="aioprod client")

    @property
    def is_ending(self) -> bool:
        """Whether the task of `keep_running` has ended or was cancelled, as it is when the event loop ends."""
        return self._running is None or self._running.done() or self._running.cancelling() > 0

    async def close(self, *, flush_s: float = 0.05) -> None:
        """Fail all requests, cancel all tasks, close all connections.

        Takes `flush_s` seconds at most, in which the connections flush their write buffers. When it is cancelled, it
        drops those at once.
        """
        self._closed = True
        self._notify()
        self.wake()
        try:
            await self._tasks.close()
        except asyncio.CancelledError:
            flush_s = 0.0
            raise
        finally:
            await self._links.close(flush_s)

    # --- credentials

    async def reload_credentials(self) -> None:
        """Re-read certificates and passwords, fetch a new token, and reconnect to each broker with them.

        One broker at a time: a second connection takes over once it is authenticated and the first one has no request
        in flight. Requests wait during the change, and none fails. Raises the first ConfigError, AuthenticationError or
        BrokerConnectionError; a broker that failed keeps its old connection. UsageError if the client is closed.
        Does nothing without TLS and log-in.
        """
        self._check_usable()
        if self._rotation is not None:
            await self._rotation.reload()

    @property
    def credentials_expire_s(self) -> float | None:
        """Seconds until our certificate or token expires, None without either."""
        return None if self._rotation is None else self._rotation.expires_s

    # --- polling

    def poll(self, now: float) -> float:
        """Do all that is due: timeouts, reconnects, metadata requests, closing idle connections.

        Never waits. Returns when something is due next, in monotonic seconds; `wake` is called if that changes.
        """
        if self._closed:
            return math.inf
        # The work below may call `wake_at`.
        self._next_due = math.inf
        due = min(self._links.poll(now), self._refresh.poll(now))
        if self._rotation is not None:
            due = min(due, self._rotation.poll(now))
        self._next_due = min(due, self._next_due)
        return self._next_due

    def wake_at(self, when: float) -> None:
        """Have `poll` called at that time, in monotonic seconds."""
        if when < self._next_due and not self._closed:
            self._next_due = when
            self.wake()

    def wake(self) -> None:
        """Have `poll` called soon."""
        self._scheduler.wake()
        self._listener.wake()

    # --- requests

    async def request(
        self,
        message: Request[ResponseT] | ByVersion[ResponseT],
        *,
        node_id: int | None = None,
        timeout_s: float | None = None,
        connects_once: bool = False,
        avoid: int | None = None,
    ) -> ResponseT:
        """Send `message` to broker `node_id`, or to any ready one except `avoid`, and return the response.

        It connects first where needed, and retries that until `timeout_s` (for everything, by default
        `request.timeout.ms`); with `connects_once` it raises the first failure to connect. Raises RequestTimedOutError
        after that time, BrokerConnectionError if the connection is lost or the metadata does not contain the broker,
        ProtocolError, UnsupportedVersionError, and UsageError if the client is closed.
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
                raise BrokerConnectionError(f"The cluster's metadata has no broker {node_id}.")
            elif connects_once and link.state is LinkState.BACKOFF and link.last_error is not None:
                raise link.last_error.again()
            await self._waiters.wait(look_again_at - now)

    @property
    def is_connected(self) -> bool:
        """Whether any link is ready."""
        return any(link.state is LinkState.READY for link in self._links)

    @property
    def connected_brokers(self) -> tuple[int, ...]:
        """The ids of the brokers whose links are ready, sorted; -1 and below are bootstrap servers."""
        return tuple(sorted(link.node.id for link in self._links if link.state is LinkState.READY))

    @property
    def failing_brokers(self) -> dict[int, str]:
        """Why the last try to connect to a broker failed, by its id.

        Brokers to which no connection is wanted are left out.
        """
        return {
            link.node.id: link.last_error.message
            for link in self._links
            if link.last_error is not None and link.state in (LinkState.BACKOFF, LinkState.CONNECTING)
        }

    @property
    def api_versions(self) -> ApiVersions | None:
        """The requests and versions of a broker whose link is ready, None without one."""
        connections = (link.connection for link in self._links if link.state is LinkState.READY)
        return next((connection.versions for connection in connections if connection is not None), None)

    def now(self) -> float:
        """The time by the client's clock, in monotonic seconds."""
        return self._clock()

    def backoff_s(self, step: int) -> float:
        """The delay before the next attempt (`retry.backoff.ms`), after `step` attempts that failed."""
        return self.settings.retry_backoff.delay_s(step, self._random)

    def feature(self, name: str) -> int:
        """The finalized level of a cluster feature, 0 if it has none, by the newest ApiVersions response.

        Each new connection updates it: levels change while the brokers run.
        """
        return self._features.features.get(name, 0)

    def speaks(self, request: type[AnyRequest], *, at_least: int = 0) -> bool:
        """Whether the newest ApiVersions response has a version of `request` that is not below `at_least`."""
        return self._features.supports(request, at_least=at_least)

    def _identity(self, node_id: int) -> tuple[str, int] | None:
        """What a broker has to be, where it can say whether it is: bootstrap servers and brokers before 4.4 can't."""
        cluster_id, settings = self.metadata.cluster_id, self.settings
        checks = settings.checks_cluster and settings.rebootstrap and node_id >= 0
        if not checks or cluster_id is None or not self.speaks(ApiVersionsRequest, at_least=FIRST_WITH_IDENTITY):
            return None
        return cluster_id, node_id

    def _check_usable(self) -> None:
        if self._closed:
            raise UsageError("The client is closed.")
        if self._failure is not None:
            raise AioprodError(f"The client has failed: {type(self._failure).__name__}.") from self._failure

    def _notify(self) -> None:
        """A link or the metadata changed: waiting requests re-check, and `poll` follows."""
        self._waiters.notify_all()
        self.wake_at(self._clock())

    # --- ClientListener, called by links, the metadata and the tasks

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
            try:
                self._listener.link_lost(link, error)
            except BaseException as bug:  # of any type: the link is lost already
                self.unforeseen.failure(
                    f"The listener of the client, which was notified that {link.peer} is lost,", bug
                )

    def link_writable(self, link: BrokerLink) -> None:
        self._notify()
        if not link.is_bootstrap:
            self._listener.link_writable(link)

    def metadata_changed(self, update: MetadataUpdate) -> None:
        cluster = self.metadata.cluster
        _logger.debug(
            "Metadata of cluster %s: brokers %s, changed topics: %d",
            cluster.cluster_id,
            [node.id for node in cluster.nodes],
            len(update.changed_topics),
        )
        self._notify()
        self._listener.metadata_changed(update)

    def failed(self, error: BaseException) -> None:
        """Fail all waiting requests, and every later one, with this error."""
        self._failure = error
        self._notify()
        self._listener.failed(error)
