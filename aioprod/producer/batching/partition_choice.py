"""Which partition a record goes to: the caller's, its key's, the sticky one, or the user's partitioner's choice."""

from __future__ import annotations

from collections.abc import Callable

from aioprod._short_reprs import shown, shown_error
from aioprod.cluster import Metadata
from aioprod.errors import AioprodError, InvalidRecordError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.routing.hashes import murmur2_of
from aioprod.routing.partitioners import Partitioner
from aioprod.wire.buffer import Buffer

__all__ = ["PartitionChoice"]


class PartitionChoice:
    """The built-in choice of Java 4 (murmur2 for keys, adaptive sticky without), or a partitioner object's.

    If a record may not fit into the open batch, a partitioner's `on_new_batch` is called, and then its `partition`
    again. Before that the open batch is treated as full, whatever partition the record goes to: it would linger on
    although the partitioner left it.
    """

    __slots__ = (
        "_full",
        "_metadata",
        "_on_new_batch",
        "_partitioner",
        "_raised",
        "is_built_in",
        "keyed_is_sticky",
    )

    def __init__(
        self,
        partitioner: Partitioner | None,
        *,
        metadata: Metadata,
        ignore_keys: bool,
        full: Callable[[Batch, int, float], object],
        raised: Callable[[BaseException], object],
    ) -> None:
        self._partitioner = partitioner
        self._on_new_batch = getattr(partitioner, "on_new_batch", None)
        self._metadata = metadata
        self._full = full
        """Called with an open batch, the bytes of a record for which it may have no room, and the time."""
        self._raised = raised
        """Takes what a partitioner raises."""
        self.is_built_in = partitioner is None
        """There is no partitioner object: records without key go where the topic's sticky choice points."""
        self.keyed_is_sticky = ignore_keys and partitioner is None
        """So do records with a key."""

    def choose(
        self, topic: Topic, key: bytes | None, value: bytes | None, partition: int, bound: int, now: float
    ) -> int:
        """Index of the partition of a record that is not sticky; raises InvalidRecordError where there is none."""
        if partition >= 0:
            return self.explicit(topic, partition)
        if self.is_built_in and key is not None:
            return self.by_key(topic, key, 0, len(key))
        return self._custom(topic, key, value, bound, now)

    def place(self, topic: Topic, key: bytes | None, partition: int) -> Partition | Topic | None:
        """What a record is for, as far as that is known before it is taken."""
        if topic.parked is not None or topic.stuck_since is not None:
            return topic
        if partition < 0 and key is not None and self.is_built_in and not self.keyed_is_sticky:
            partition = self.by_key(topic, key, 0, len(key))
        return topic.partitions[partition] if 0 <= partition < topic.count else None

    def explicit(self, topic: Topic, partition: int) -> int:
        """The partition that the record names; raises InvalidRecordError when the topic has no such partition."""
        if 0 <= partition < topic.count:
            return partition
        raise InvalidRecordError(
            f"Topic {topic.name!r} has no partition {partition}: it has {topic.count} (0 to {topic.count - 1})."
        )

    def by_key(self, topic: Topic, key: Buffer, start: int, size: int) -> int:
        """Java's choice for a key of `size` bytes at `key[start:]`."""
        return (murmur2_of(key, start, size) & 0x7FFFFFFF) % topic.count

    def _custom(self, topic: Topic, key: bytes | None, value: bytes | None, bound: int, now: float) -> int:
        try:
            chosen = self._call(topic, key, value)
            if self._on_new_batch is not None:
                target = topic.partitions[chosen]
                batch = target.open
                if batch is None or batch.builder.position + bound > batch.full_position:
                    if batch is not None:
                        self._full(batch, bound, now)
                    self._on_new_batch(topic.name, self._metadata.cluster, chosen)
                    chosen = self._call(topic, key, value)
        except AioprodError:
            raise
        except BaseException as error:
            self._raised(error)
            raise InvalidRecordError(
                f"The partitioner {_name(self._partitioner)} failed for a record of topic {topic.name!r}: "
                f"{shown_error(error)}."
            ) from error
        return chosen

    def _call(self, topic: Topic, key: bytes | None, value: bytes | None) -> int:
        partitioner = self._partitioner
        assert partitioner is not None
        chosen = partitioner.partition(topic.name, key, value, self._metadata.cluster)
        if type(chosen) is not int or not 0 <= chosen < topic.count:
            raise InvalidRecordError(
                f"The partitioner {_name(partitioner)} chose partition {shown(chosen)} of topic {topic.name!r}, "
                f"which has {topic.count} (0 to {topic.count - 1})."
            )
        return chosen


def _name(partitioner: object) -> str:
    """How messages call a partitioner: as its class, or as the function that was given in place of one."""
    return str(getattr(partitioner, "__qualname__", None) or type(partitioner).__name__)
