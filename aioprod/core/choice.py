"""Which partition a record goes to: asked for, by its key, the sticky one, or what the user's partitioner says."""

from __future__ import annotations

from aioprod.cluster import Metadata
from aioprod.core.partition import Topic
from aioprod.errors import AioprodError, InvalidRecordError
from aioprod.routing.hashes import murmur2
from aioprod.routing.partitioners import Partitioner

__all__ = ["PartitionChoice"]


class PartitionChoice:
    """The built-in choice of Java 4 (murmur2 for keys, adaptive sticky without), or a partitioner object's.

    `full_position` is the end of a batch buffer at its full size: a partitioner that has `on_new_batch` hears of a
    record that does not fit before it, and is asked again.
    """

    __slots__ = ("_ignore_keys", "_metadata", "_on_new_batch", "_partitioner", "full_position")

    def __init__(
        self, partitioner: Partitioner | None, *, metadata: Metadata, ignore_keys: bool, full_position: int
    ) -> None:
        self._partitioner = partitioner
        self._on_new_batch = getattr(partitioner, "on_new_batch", None)
        self._metadata = metadata
        self._ignore_keys = ignore_keys
        self.full_position = full_position

    def is_sticky(self, key: bytes | None, partition: int) -> bool:
        """Whether the record goes wherever the topic's sticky choice points."""
        return partition < 0 and self._partitioner is None and (key is None or self._ignore_keys)

    def choose(self, topic: Topic, key: bytes | None, value: bytes | None, partition: int, bound: int) -> int:
        """Index of the partition; raises InvalidRecordError when there is no such partition."""
        count = topic.count
        if partition >= 0:
            if partition >= count:
                raise InvalidRecordError(
                    f"Topic {topic.name!r} has no partition {partition}: it has {count} (0 to {count - 1})."
                )
            return partition
        if self._partitioner is None:
            if key is None or self._ignore_keys:
                return topic.sticky.partition
            return (murmur2(key) & 0x7FFFFFFF) % count
        try:
            chosen = self._ask(self._partitioner, topic, key, value)
            if self._on_new_batch is not None:
                batch = topic.partitions[chosen].open
                if batch is None or batch.builder.position + bound > self.full_position:
                    self._on_new_batch(topic.name, self._metadata.cluster, chosen)
                    chosen = self._ask(self._partitioner, topic, key, value)
        except AioprodError:
            raise
        except Exception as error:
            raise InvalidRecordError(
                f"The partitioner {type(self._partitioner).__name__} failed for a record of topic {topic.name!r}: "
                f"{error!r}."
            ) from error
        return chosen

    def _ask(self, partitioner: Partitioner, topic: Topic, key: bytes | None, value: bytes | None) -> int:
        chosen = partitioner.partition(topic.name, key, value, self._metadata.cluster)
        if type(chosen) is not int or not 0 <= chosen < topic.count:
            raise InvalidRecordError(
                f"The partitioner {type(partitioner).__name__} chose partition {chosen!r} of topic {topic.name!r}, "
                f"which has {topic.count} (0 to {topic.count - 1})."
            )
        return chosen
