"""The settings of a topic, with the types and defaults of Kafka 4.4."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

__all__ = ["TOPIC_SETTINGS", "Kind", "Setting"]


class Kind(enum.IntEnum):
    """The type of a setting, as DescribeConfigs gives it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class Setting(NamedTuple):
    """A setting's type, and what it is where a topic does not set it."""

    kind: Kind
    default: str


TOPIC_SETTINGS: Final = {
    "cleanup.policy": Setting(Kind.LIST, "delete"),
    "compression.gzip.level": Setting(Kind.INT, "-1"),
    "compression.lz4.level": Setting(Kind.INT, "9"),
    "compression.type": Setting(Kind.STRING, "producer"),
    "compression.zstd.level": Setting(Kind.INT, "3"),
    "delete.retention.ms": Setting(Kind.LONG, "86400000"),
    "errors.deadletterqueue.group.enable": Setting(Kind.BOOLEAN, "false"),
    "file.delete.delay.ms": Setting(Kind.LONG, "60000"),
    "flush.messages": Setting(Kind.LONG, "9223372036854775807"),
    "flush.ms": Setting(Kind.LONG, "9223372036854775807"),
    "follower.replication.throttled.replicas": Setting(Kind.LIST, ""),
    "index.interval.bytes": Setting(Kind.INT, "4096"),
    "leader.replication.throttled.replicas": Setting(Kind.LIST, ""),
    "local.retention.bytes": Setting(Kind.LONG, "-2"),
    "local.retention.ms": Setting(Kind.LONG, "-2"),
    "max.compaction.lag.ms": Setting(Kind.LONG, "9223372036854775807"),
    "max.decompressed.message.bytes": Setting(Kind.INT, "2147483639"),
    "max.message.bytes": Setting(Kind.INT, "1048588"),
    "message.timestamp.after.max.ms": Setting(Kind.LONG, "3600000"),
    "message.timestamp.before.max.ms": Setting(Kind.LONG, "9223372036854775807"),
    "message.timestamp.type": Setting(Kind.STRING, "CreateTime"),
    "min.cleanable.dirty.ratio": Setting(Kind.DOUBLE, "0.5"),
    "min.compaction.lag.ms": Setting(Kind.LONG, "0"),
    "min.insync.replicas": Setting(Kind.INT, "1"),
    "preallocate": Setting(Kind.BOOLEAN, "false"),
    "remote.copy.lag.bytes": Setting(Kind.LONG, "-1"),
    "remote.copy.lag.ms": Setting(Kind.LONG, "0"),
    "remote.log.copy.disable": Setting(Kind.BOOLEAN, "false"),
    "remote.log.delete.on.disable": Setting(Kind.BOOLEAN, "false"),
    "remote.storage.enable": Setting(Kind.BOOLEAN, "false"),
    "retention.bytes": Setting(Kind.LONG, "-1"),
    "retention.ms": Setting(Kind.LONG, "604800000"),
    "segment.bytes": Setting(Kind.INT, "1073741824"),
    "segment.index.bytes": Setting(Kind.INT, "10485760"),
    "segment.jitter.ms": Setting(Kind.LONG, "0"),
    "segment.ms": Setting(Kind.LONG, "604800000"),
    "unclean.leader.election.enable": Setting(Kind.BOOLEAN, "false"),
}
"""By name, as a broker of Kafka 4.4 describes them; it knows no others."""
