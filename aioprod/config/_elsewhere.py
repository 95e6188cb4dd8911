"""Settings of other kinds of Kafka clients, which a shared properties file may contain."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

__all__ = ["owner_of"]

_SETTINGS: Final = {
    "producers": "acks retries *.serializer *.serializer.encoding serializer.encoding delivery.timeout.ms max.block.ms "
    "max.in.flight.requests.per.connection enable.idempotence linger.ms adaptive.linger batch.size batch.size.max "
    "buffer.memory buffer.memory.stuck.fraction max.request.size compression.* partitioner.* metadata.max.idle.ms "
    "resolve.* topic.recreation transactional.id transaction.*",
    "consumers": "group.* *.deserializer allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs "
    "default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.* heartbeat.interval.ms isolation.level "
    "max.partition.fetch.bytes max.poll.* partition.assignment.strategy session.timeout.ms share.acknowledgement.mode "
    "share.acquire.mode",
    "the Schema Registry": "schema.registry.* basic.auth.* bearer.auth.* auto.register.schemas use.latest.version "
    "use.schema.id normalize.schemas specific.avro.reader *.subject.name.strategy",
}
"""A kind of client -> names, or patterns of names, of its settings."""


def owner_of(name: str, ours: Iterable[str]) -> str | None:
    """The kind of client that has the setting `name` (in Java's spelling), one of `ours` excepted; None if none has."""
    for owner, names in _SETTINGS.items():
        if owner not in ours and any(fnmatchcase(name, pattern) for pattern in names.split()):
            return owner
    return None
