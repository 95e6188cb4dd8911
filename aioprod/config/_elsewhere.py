"""Settings of other Kafka clients, which a properties file may have beside ours: clients share such files."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

__all__ = ["owner_of"]

_SETTINGS: Final = {
    "producers": "acks retries *.serializer delivery.timeout.ms max.block.ms max.in.flight.requests.per.connection "
    "enable.idempotence linger.ms batch.size buffer.memory max.request.size compression.* partitioner.* "
    "metadata.max.idle.ms transactional.id transaction.*",
    "consumers": "group.* *.deserializer allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs "
    "default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.* heartbeat.interval.ms isolation.level "
    "max.partition.fetch.bytes max.poll.* partition.assignment.strategy session.timeout.ms share.acknowledgement.mode "
    "share.acquire.mode",
    "the Schema Registry": "schema.registry.* basic.auth.* bearer.auth.* auto.register.schemas use.latest.version "
    "use.schema.id normalize.schemas specific.avro.reader *.subject.name.strategy",
}
"""Whose a setting is -> the names, or patterns of names."""


def owner_of(name: str, ours: Iterable[str]) -> str | None:
    """Whose setting `name` (in Java's spelling) is, None if it is nobody's or one of `ours` that is not known."""
    for owner, names in _SETTINGS.items():
        if owner not in ours and any(fnmatchcase(name, pattern) for pattern in names.split()):
            return owner
    return None
