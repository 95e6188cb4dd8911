"""The links of a client, updated from the metadata, and the choice of a link where any broker will do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from aioprod.cluster import Node
from aioprod.errors import AioprodError
from aioprod.net.connection import BrokerConnection
from aioprod.net.context import ClientContext
from aioprod.net.link import BrokerLink, LinkState
from aioprod.net.settings import Address

__all__ = ["LinkPool"]

_STAGGER_S: Final = 0.1
"""Where any broker will do: how long one attempt to connect may take before the next broker is tried in parallel."""


class LinkPool:
    """The links by broker id; those of bootstrap servers, which are there until the metadata is, have negative ids.

    `get(node_id)` returns the link to a broker, also a retired one if the metadata had it until recently, or None.
    """

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._links: dict[int, BrokerLink] = {}
        # The dict's own method: each request calls it.
        self.get: Callable[[int], BrokerLink | None] = self._links.get

    def __iter__(self) -> Iterator[BrokerLink]:
        """The links that are not retired."""
        return (link for link in self._links.values() if not link.retired)

    # --- brokers

    def set_nodes(self, nodes: Iterable[Node]) -> list[BrokerLink]:
        """Have a link for each of these brokers of the metadata, and retire the others, bootstrap servers included.

        A bootstrap link with the address of a broker becomes that broker's. Returns the links of this kind that are
        connected.
        """
        by_id = {node.id: node for node in nodes}
        promoted: list[BrokerLink] = []
        bootstrap = {link.address: link for link in self if link.is_bootstrap}
        for node in by_id.values():
            link = self._links.get(node.id)
            if link is None:
                link = bootstrap.pop((node.host, node.port), None)
                if link is None:
                    link = BrokerLink(node, self._context)
                else:
                    del self._links[link.node.id]
                if link.state is LinkState.READY:
                    promoted.append(link)
                self._links[node.id] = link
            link.follow(node)
        for node_id, link in list(self._links.items()):
            if node_id in by_id:
                continue
            if (
                link.retired
                and link.state in (LinkState.IDLE, LinkState.BACKOFF)
                and not link.session.changing.locked()
            ):
                del self._links[node_id]
            elif not link.retired:
                link.retire()
        return promoted

    def set_bootstrap(self, addresses: Iterable[Address]) -> None:
        """Add links for the bootstrap servers, except for addresses of known brokers, which lead to these."""
        known = {link.address for link in self if not link.is_bootstrap and not link.leads_elsewhere}
        for index, (host, port) in enumerate(addresses):
            if (host, port) in known:
                continue
            node = Node(-1 - index, host, port)
            link = self._links.setdefault(node.id, BrokerLink(node, self._context))
            link.follow(node)

    def retire_all(self, error: AioprodError) -> None:
        """Abort all connections: these brokers do not belong to our cluster any more."""
        for link in self:
            link.retire(error)

    # --- any broker

    def least_loaded(
        self, now: float, avoid: int | None = None, without: Collection[BrokerConnection] = ()
    ) -> BrokerLink | None:
        """A ready link with the fewest requests in flight; broker `avoid` only if there is no other.

        Links whose connection is in `without` are left out.
        """
        ready = [link for link in self if link.is_ready(now) and link.connection not in without]
        candidates = [link for link in ready if link.node.id != avoid] or ready
        if not candidates:
            return None
        load = {link: link.connection.in_flight if link.connection else 0 for link in candidates}
        lowest = min(load.values())
        return self._context.random.choice([link for link in candidates if load[link] == lowest])

    def seek(self, now: float) -> float:
        """No link is ready: start one more connection attempt; return when to check again.

        Bootstrap servers are all tried at once: any of them may be silent, and one response is enough.
        """
        for link in self:
            if link.is_bootstrap and link.can_connect(now):
                link.ensure(now)
        since = max((link.connecting_since for link in self if link.state is LinkState.CONNECTING), default=-math.inf)
        if now < since + _STAGGER_S:
            return since + _STAGGER_S
        possible = [link for link in self if link.can_connect(now)]
        if possible:
            self._context.random.choice(possible).ensure(now)
            return now + _STAGGER_S
        return min((link.backoff_until for link in self if link.state is LinkState.BACKOFF), default=math.inf)

    @property
    def all_failing(self) -> bool:
        """Whether no link is ready, connecting or untried."""
        return all(link.state is LinkState.BACKOFF for link in self)

    @property
    def has_bootstrap(self) -> bool:
        """Whether there are links to bootstrap servers."""
        return any(link.is_bootstrap for link in self)

    @property
    def has_brokers(self) -> bool:
        """Whether there are links to brokers of the metadata."""
        return any(not link.is_bootstrap for link in self)

    # --- all of them

    def poll(self, now: float) -> float:
        """Do what is due on each link; returns when something is due next."""
        return min((self._poll_one(link, now) for link in list(self._links.values())), default=math.inf)

    def _poll_one(self, link: BrokerLink, now: float) -> float:
        try:
            return link.poll(now)
        except Exception as error:  # of any type: it is this broker's failure, not that of the client
            link.break_off(error)
            return link.backoff_until

    async def close(self, flush_s: float) -> None:
        """Close all connections; what is not flushed after `flush_s` seconds is dropped."""
        connections = [link.connection for link in self._links.values() if link.connection is not None]
        await asyncio.gather(*(connection.close(flush_s) for connection in connections))
