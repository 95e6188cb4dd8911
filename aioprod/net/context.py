"""The settings and collaborators that all links of one client share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from aioprod.metrics import Histogram
from aioprod.net.settings import ClientSettings
from aioprod.net.tasks import Supervisor
from aioprod.net.traffic import TrafficOfBrokers
from aioprod.net.unforeseen import Unforeseen

if TYPE_CHECKING:
    from aioprod.net.events import ClientListener
    from aioprod.net.login.logins import Logins
    from aioprod.net.tls.contexts import TlsContexts

__all__ = ["Authentications", "ClientContext"]


class Authentications:
    """Counts of successful and failed TLS handshakes and log-ins, and of re-authentications."""

    def __init__(self) -> None:
        self.successful = 0
        self.failed = 0
        self.renewals = Histogram("reauthentication_latency", "Time that the renewal of a log-in took.")
        """The times of the accepted re-authentications, in ms."""
        self.failed_renewals = 0

    def accepted(self) -> None:
        """A connection is ready."""
        self.successful += 1

    def rejected(self) -> None:
        """A TLS handshake or a log-in failed."""
        self.failed += 1

    def renewed(self, duration_s: float) -> None:
        """A broker accepted a re-authentication."""
        self.renewals.record(duration_s * 1000)

    def not_renewed(self) -> None:
        """A broker rejected a re-authentication."""
        self.failed_renewals += 1


class ClientContext:
    """What all links of one client share."""

    __slots__ = (
        "authentications",
        "clock",
        "events",
        "identity",
        "logins",
        "loop",
        "owner",
        "random",
        "settings",
        "tasks",
        "tls",
        "traffic",
        "unforeseen",
        "wake_at",
    )

    def __init__(
        self,
        settings: ClientSettings,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        random: Random,
        tasks: Supervisor,
        wake_at: Callable[[float], None],
        events: ClientListener,
        owner: ClientListener,
        identity: Callable[[int], tuple[str, int] | None] = lambda node_id: None,
        tls: TlsContexts | None = None,
        logins: Logins | None = None,
    ) -> None:
        self.settings = settings
        self.loop = loop
        self.clock = clock
        self.random = random
        self.tasks = tasks
        self.wake_at = wake_at
        """Has the client polled at a time in monotonic seconds."""
        self.events = events
        """The client itself, which reports on to `owner`."""
        self.owner = owner
        """What uses the client, such as a producer or a reader."""
        self.identity = identity
        """Returns the ids that a connection to a node names, of cluster and broker; None: it names none."""
        self.tls = tls
        self.logins = logins
        self.authentications = Authentications()
        self.traffic = TrafficOfBrokers()
        self.unforeseen = Unforeseen()
        """Takes unforeseen errors of one broker; an exception that leaves a task ends the client."""

    @property
    def is_secured(self) -> bool:
        """Whether connections use TLS or a log-in."""
        return self.tls is not None or self.logins is not None
