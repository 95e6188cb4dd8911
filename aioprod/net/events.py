"""The events of a client, each declared once.

A `BrokerConnection` reports to its owner: the `BrokerLink` that uses it, or the `Handover` that prepares it. A link
reports to its `Client`, which wakes the waiting requests and calls the `ClientListener` of its user. Responses take the
short way, from the link to the listener. Two things are no events. A timer: `ClientContext.wake_at` has the client
polled at a time. And a bug: `Unforeseen` takes an error that a callback raised, which costs one connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod.errors import AioprodError

if TYPE_CHECKING:
    from aioprod.cluster import MetadataUpdate
    from aioprod.net.connection import BrokerConnection
    from aioprod.net.link import BrokerLink

__all__ = ["ClientListener", "ConnectionOwner"]


class ConnectionOwner:
    """Callbacks of one connection; a subclass overrides those it needs."""

    def connection_made(self, connection: BrokerConnection) -> None:
        """The transport is connected; ApiVersions and the log-in follow."""

    def connection_ready(self, connection: BrokerConnection) -> None:
        """The versions are negotiated and the log-in, if there is one, is accepted: requests may be sent."""

    def connection_renewed(self, connection: BrokerConnection) -> None:
        """The broker accepted the re-authentication that `renew` began: requests may be sent again."""

    def connection_data(self, connection: BrokerConnection, now: float) -> None:
        """All responses in the bytes that came at `now` were completed; the last may have closed the connection."""

    def connection_writable(self, connection: BrokerConnection) -> None:
        """The transport accepts data again."""

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        """The transport is closed and all requests in flight were completed; `error` is None if we closed it."""


class ClientListener:
    """Callbacks of a `Client`, all called in the event loop; a subclass overrides those it needs.

    Links to bootstrap servers, whose broker id is not known, are not reported.
    """

    def link_ready(self, link: BrokerLink) -> None:
        """The broker is connected and its versions are known."""

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """The connection is closed and all its requests were completed, or connecting failed.

        `error` is None if we closed it.
        """

    def link_data(self, link: BrokerLink, now: float) -> None:
        """All responses in the bytes that came at `now`, in monotonic seconds, were completed."""

    def link_writable(self, link: BrokerLink) -> None:
        """The transport accepts data again, or a throttle has ended."""

    def metadata_changed(self, update: MetadataUpdate) -> None:
        """New metadata was applied and the connections updated."""

    def wake(self) -> None:
        """Call `poll` soon."""

    def failed(self, error: BaseException) -> None:
        """The client has ended by an exception that no broker is to blame for."""
