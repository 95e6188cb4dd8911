"""Metadata requests: one at a time, to any ready broker, or to the bootstrap servers.

A frozen broker accepts a request and never answers. So a request without a response is hedged, long before
`request.timeout.ms`: the same topics are requested from another broker too, and every response is applied.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Final

from aioprod._logger import Logger
from aioprod._loops import look_at
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
"""How long a response may take before the request is hedged; doubled after each hedge, without jitter or limit."""


_logger = Logger("aioprod.net")


class MetadataRefresh:
    """Sends the requests that `metadata` schedules, and updates the links from it."""

    def __init__(self, metadata: Metadata, links: LinkPool, context: ClientContext) -> None:
        self.error: AioprodError | None = None
        """Why the last request failed; None after a response."""
        self._metadata = metadata
        self._links = links
        self._context = context
        self._version = metadata.version
        self._due_since: float | None = None
        self._avoid: int | None = None
        self._unanswered: set[BrokerConnection] = set()
        self._serial = 0
        self._hedge_at = math.inf
        self._resolving = False
        self._bootstrap_after = -math.inf
        self._unreported: MetadataUpdate | None = None
        self._unusable: Mapping[int, str] = {}

    def poll(self, now: float) -> float:
        """Send the request if it is due and a link is ready, else connect; returns when something is due next."""
        try:
            return self._poll(now)
        except Exception as error:  # of any type: it is tried again after the backoff
            return self._unforeseen("The refresh of the metadata", error)

    def _poll(self, now: float) -> float:
        self.update_links()
        if self._unreported is not None:
            self._report(MetadataUpdate())
        if self._metadata.is_behind:
            self._report(MetadataUpdate(self._metadata.rebind()))
            return now
        due = self._hedge_at if self._metadata.is_refreshing else self._metadata.next_refresh(now)
        if due > now:
            return due
        rebootstrap_at = self._rebootstrap_if_due(now)
        link = self._links.least_loaded(now, self._avoid, self._unanswered)
        if link is not None and link.connection is not None:
            self._send(link, link.connection, now)
            return min(self._hedge_at, rebootstrap_at)
        due = min(self._links.seek(now), rebootstrap_at)
        if self._context.settings.rebootstrap and self._links.all_failing and not self._links.has_bootstrap:
            # All bootstrap servers may be known brokers: then there is nothing else to try after this.
            if now >= self._bootstrap_after:
                self._bootstrap_after = now + self._context.settings.reconnect_backoff.max_s
                self.bootstrap()
            due = min(due, self._bootstrap_after)
        return due

    def update_links(self) -> None:
        """Update the links from the brokers of the metadata."""
        if self._metadata.version == self._version:
            return
        self._version = self._metadata.version
        for link in self._links.set_nodes(self._metadata.cluster.nodes):
            self._context.events.link_ready(link)

    # --- requests

    def _send(self, link: BrokerLink, connection: BrokerConnection, now: float) -> None:
        if self._metadata.is_refreshing:
            self._metadata.hedge()
        message = self._metadata.build_request(now, self._context.settings.allow_auto_topic_creation)
        self._hedge_at = now + HEDGE_S * 2.0 ** len(self._unanswered)
        self._serial += 1
        try:
            version = connection.versions.pick(MetadataRequest)
            # Sent now: in the next loop iteration the connection may be re-authenticating.
            response = connection.request(message)
        except AioprodError as error:
            self._not_answered(link, error, self._serial)
            return
        # A task that is cancelled before its first step does not await it.
        response.add_done_callback(look_at)
        self._unanswered.add(connection)
        exchange = self._exchange(link, connection, version, response, self._serial)
        self._context.tasks.spawn(exchange, name="metadata request")

    async def _exchange(
        self,
        link: BrokerLink,
        connection: BrokerConnection,
        version: int,
        response: asyncio.Future[MetadataResponse],
        serial: int,
    ) -> None:
        """Apply the response.

        If the request was hedged since, which `serial` shows, it is late; it is applied all the same.
        """
        try:
            try:
                answer = await response
            finally:
                self._unanswered.discard(connection)
            self._apply(answer, link, version, serial)
        except AioprodError as error:
            self._not_answered(link, error, serial)
        except Exception as error:  # of any type: it is this broker's failure, and the request goes to another one
            self._unforeseen(f"Applying the metadata of {link.peer}", error)
            self._avoid = link.node.id

    def _apply(self, answer: MetadataResponse, link: BrokerLink, version: int, serial: int) -> None:
        now, before = self._context.clock(), self._metadata.cluster_id
        update = self._metadata.handle_response(answer, now, version=version, late=serial != self._serial)
        if update.error is not None:
            self._failed(link, update.error)
            return
        self.error = self._avoid = self._due_since = None
        self._warn_of(update.unusable)
        if before not in (None, found := self._metadata.cluster_id):
            _logger.warning("%s is of cluster %r, where %r was: the client continues with it", link.peer, found, before)
        self.update_links()
        self._report(update)
        self._context.wake_at(now)

    def _report(self, update: MetadataUpdate) -> None:
        """Report a change, together with the changes whose report has raised: nothing else would report these again."""
        update, self._unreported = update.after(self._unreported), None
        try:
            self._context.events.metadata_changed(update)
        except Exception:
            self._unreported = update
            raise

    def _unforeseen(self, what: str, error: Exception) -> float:
        """Take the unforeseen failure of a refresh: all is requested again; returns when."""
        now = self._context.clock()
        self.error = self._context.unforeseen.failure(what, error)
        self._metadata.handle_failure(self.error, now)
        self._metadata.request_update(now)
        return self._metadata.next_refresh(now)

    def _warn_of(self, unusable: Mapping[int, str]) -> None:
        for node_id in unusable.keys() - self._unusable.keys():
            _logger.warning("Broker %d is left out: the metadata gives it %s", node_id, unusable[node_id])
        self._unusable = unusable

    def _not_answered(self, link: BrokerLink, error: AioprodError, serial: int) -> None:
        if serial == self._serial:
            self._metadata.handle_failure(error, self._context.clock())
        self._failed(link, error)

    def _failed(self, link: BrokerLink, error: AioprodError) -> None:
        self.error = error
        self._avoid = link.node.id
        now = self._context.clock()
        if isinstance(error, BrokerError) and error.code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self.rebootstrap(now, f"{link.peer} requires it")
        self._context.wake_at(now)

    # --- bootstrap

    def _rebootstrap_if_due(self, now: float) -> float:
        """Rebootstrap if no broker has answered for too long (KIP-1102); return when that will be."""
        if self._due_since is None:
            self._due_since = now
        settings = self._context.settings
        if not settings.rebootstrap or not self._links.has_brokers:
            return math.inf
        rebootstrap_at = self._due_since + settings.rebootstrap_trigger_s
        if rebootstrap_at >= now:
            return rebootstrap_at
        self.rebootstrap(now, f"no broker has described the cluster for {settings.rebootstrap_trigger_s:g} s")
        return math.inf

    def bootstrap(self) -> None:
        """Use the bootstrap servers until there is metadata."""
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
        """Abort all connections and start from the bootstrap servers again (KIP-1102)."""
        if not self._context.settings.rebootstrap:
            return
        self._due_since = now
        self._avoid = None
        self._links.retire_all(BrokerConnectionError(f"The client returned to the bootstrap servers: {reason}."))
        self.bootstrap()
