"""A cluster with the settings for its clients, and an independent client that reads with its own log-in."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NamedTuple

from aioprod.cli.peer_settings import librdkafka_settings
from aioprod.testing import KafkaCluster, Security
from integration.support.reading import Stored, read_topic

__all__ = ["CERTIFIED", "SECURED", "Secured"]

SECURED: Final = Security(session_ms=3000)
CERTIFIED: Final = Security(mechanisms=["SCRAM-SHA-512"], client_certificates=True)


class Secured(NamedTuple):
    """A cluster, and what it wants of its clients."""

    cluster: KafkaCluster
    security: Security

    @property
    def servers(self) -> str:
        """As `bootstrap.servers` wants it."""
        return self.cluster.bootstrap_servers

    def options(self, user: str | None = None, mechanism: str | None = None) -> dict[str, Any]:
        """The settings of a client of ours."""
        return self.security.client_options(user, mechanism)

    async def stored(self, topic: str, isolation: str = "read_uncommitted") -> list[Stored]:
        """All that is in a topic, read by librdkafka, which logs in as bob."""
        theirs = librdkafka_settings(self.options("bob", "SCRAM-SHA-512"))
        return await asyncio.to_thread(read_topic, self.servers, topic, isolation, theirs)
