"""The callbacks of connections and of links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aioprod.errors import AioprodError

if TYPE_CHECKING:
    from aioprod.net.connection import BrokerConnection
    from aioprod.net.link import BrokerLink

__all__ = ["ConnectionOwner", "LinkEvents"]


class ConnectionOwner(Protocol):
    """The callbacks of a connection. Only `due` is called from within a call of the owner."""

    def connection_made(self, connection: BrokerConnection) -> None:
        """The transport is there; the versions are being negotiated, and the log-in follows."""

    def connection_ready(self, connection: BrokerConnection) -> None:
        """The versions are negotiated and the log-in, if there is one, is accepted: requests may be sent."""

    def connection_renewed(self, connection: BrokerConnection) -> None:
        """The log-in that `renew` began is accepted: requests may be sent again."""

    def connection_data(self, connection: BrokerConnection) -> None:
        """The answers in one chunk of bytes were completed; the connection may be closed because of a later one."""

    def connection_writable(self, connection: BrokerConnection) -> None:
        """The transport takes more again."""

    def connection_lost(self, connection: BrokerConnection, error: AioprodError | None) -> None:
        """The transport is gone and everything outstanding was completed; `error` is None if we closed it."""

    def due(self, when: float) -> None:
        """Something has to be looked after at that time, in monotonic seconds."""

    def failed(self, error: BaseException) -> None:
        """A callback raised: a bug, here or above."""


class LinkEvents(Protocol):
    """The callbacks of links."""

    def link_ready(self, link: BrokerLink) -> None:
        """Requests may be sent."""

    def link_lost(self, link: BrokerLink, error: AioprodError | None) -> None:
        """The connection is gone or could not be made; `error` is None if we closed it on purpose."""

    def link_data(self, link: BrokerLink) -> None:
        """The answers in one chunk of bytes were completed."""

    def link_writable(self, link: BrokerLink) -> None:
        """Requests may be sent again."""

    def due(self, when: float) -> None:
        """`poll` is wanted at that time."""

    def failed(self, error: BaseException) -> None:
        """A bug."""
