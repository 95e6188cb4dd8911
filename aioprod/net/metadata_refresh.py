"""Keeping the metadata fresh: one question at a time, to any broker that is ready, or to the bootstrap servers.

A broker that is frozen takes a request and never answers. So when an answer does not come for a while another broker is
asked too, long before `request.timeout.ms`, and the first answer counts.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

from aioprod.cluster import Metadata, MetadataUpdate
from aioprod.errors import AioprodError, BrokerConnectionError, BrokerError, ErrorCode
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.net.addresses import canonical_addresses
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.link import BrokerLink
from aioprod.net.pool import LinkPool

__all__ = ["HEDGE_S", "MetadataRefresh"]

HEDGE_S: Final = 0.5
"""How long a broker may take for its answer before another one is asked too; twice as long for each that was asked."""


class MetadataRefresh:
    """Asks when `metadata` wants to be asked for, and keeps the links in step with what it says.

    `error` is why the last request failed, None after a response.
    """

    def __init__(self, metadata: Metadata, links: LinkPool, context: ClientContext) -> None:
        self.error: AioprodError | None = None
        self._metadata = metadata
        self._links = links
        self._context = context
        self._version = metadata.version
        self._wanted_since: float | None = None
        self._avoid: int | None = None
        self._owing: set[BrokerConnection] = set()
        self._serial = 0
        self._hedge_at = math.inf
        self._resolving = False
        self._bootstrap_after = -math.inf

    def poll(self, now: float) -> float:
        """Ask if it is time to, and find somebody to ask; returns when something is due next."""
        self.follow()
        if self._metadata.is_behind:
            self._context.events.metadata_changed(MetadataUpdate(self._metadata.rebind()))
            return now
        due = self._hedge_at if self._metadata.is_refreshing else self._metadata.next_refresh(now)
        if due > now:
            return due
        give_up_at = self._give_up_if_due(now)
        link = self._links.least_loaded(now, self._avoid, self._owing)
        if link is not None and link.connection is not None:
            self._ask(link, link.connection, now)
            return min(self._hedge_at, give_up_at)
        due = min(self._links.seek(now), give_up_at)
        if self._context.settings.rebootstrap and self._links.all_failing and not self._links.has_bootstrap:
            # None of the bootstrap servers need be new, so there may be nothing else to try after this.
            if now >= self._bootstrap_after:
                self._bootstrap_after = now + self._context.settings.reconnect_backoff.max_s
                self.bootstrap()
            due = min(due, self._bootstrap_after)
        return due

    def follow(self) -> None:
        """Bring the links in step with the brokers of the metadata."""
        if self._metadata.version == self._version:
            return
        self._version = self._metadata.version
        for link in self._links.set_nodes(self._metadata.cluster.nodes):
            self._context.events.link_ready(link)

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask(self, link: BrokerLink, connection: BrokerConnection, now: float) -> None:
        if self._metadata.is_refreshing:
            self._metadata.hedge()
        message = self._metadata.build_request(now, self._context.settings.allow_auto_topic_creation)
        self._hedge_at = now + HEDGE_S * 2.0 ** len(self._owing)
        self._serial += 1
        try:
            version = connection.versions.pick(MetadataRequest)
            # At once: in the next turn of the loop the connection may be in the middle of a log-in that is renewed.
            answer = connection.request(message)
        except AioprodError as error:
            self._not_answered(link, error, self._serial)
            return
        self._owing.add(connection)
        exchange = self._exchange(link, connection, version, answer, self._serial)
        self._context.tasks.spawn(exchange, name="metadata request")

    async def _exchange(
        self,
        link: BrokerLink,
        connection: BrokerConnection,
        version: int,
        answer: asyncio.Future[MetadataResponse],
        serial: int,
    ) -> None:
        """Take up an answer. `serial` tells whether another broker was asked since: it is used all the same."""
        clock = self._context.clock
        try:
            response = await answer
        except AioprodError as error:
            self._not_answered(link, error, serial)
            return
        finally:
            self._owing.discard(connection)
        update = self._metadata.handle_response(response, clock(), version=version, late=serial != self._serial)
        if update.error is not None:
            self._failed(link, update.error)
            return
        self.error = self._avoid = self._wanted_since = None
        self.follow()
        self._context.events.metadata_changed(update)
        self._context.wake_at(clock())

    def _not_answered(self, link: BrokerLink, error: AioprodError, serial: int) -> None:
        if serial == self._serial:
            self._metadata.handle_failure(error, self._context.clock())
        self._failed(link, error)

    def _failed(self, link: BrokerLink, error: AioprodError) -> None:
        self.error = error
        self._avoid = link.node.id
        now = self._context.clock()
        if isinstance(error, BrokerError) and error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.rebootstrap(now, f"{link.peer} asked for it")
        self._context.wake_at(now)

    # -- beginning anew ----------------------------------------------------------------------------------------------

    def _give_up_if_due(self, now: float) -> float:
        """When the brokers that we know will have kept us waiting for too long; if that is now, give them up."""
        if self._wanted_since is None:
            self._wanted_since = now
        settings = self._context.settings
        if not settings.rebootstrap or not self._links.has_brokers:
            return math.inf
        give_up_at = self._wanted_since + settings.rebootstrap_trigger_s
        if give_up_at >= now:
            return give_up_at
        self.rebootstrap(now, f"no broker has described the cluster for {settings.rebootstrap_trigger_s:g} s")
        return math.inf

    def bootstrap(self) -> None:
        """Take the bootstrap servers for brokers until there is an answer."""
        if not self._context.settings.canonical_names:
            self._links.set_bootstrap(self._context.settings.bootstrap)
        elif not self._resolving:
            self._resolving = True
            self._context.tasks.spawn(self._bootstrap_canonical(), name="canonical bootstrap names")

    async def _bootstrap_canonical(self) -> None:
        context = self._context
        try:
            self._links.set_bootstrap(await canonical_addresses(context.loop, context.settings.bootstrap))
        finally:
            self._resolving = False
        context.wake_at(context.clock())

    def rebootstrap(self, now: float, reason: str) -> None:
        """Drop all brokers and begin with the bootstrap servers again (KIP-1102)."""
        if not self._context.settings.rebootstrap:
            return
        self._wanted_since = now
        self._avoid = None
        self._links.give_up(BrokerConnectionError(f"The client begins with the bootstrap servers again: {reason}."))
        self.bootstrap()
