"""What becomes of topics when the metadata change: they follow it, or are forgotten."""

from __future__ import annotations

from collections.abc import Iterable

from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.partition import Topic

__all__ = ["forget", "update_topics"]


def update_topics(accumulator: Accumulator, names: Iterable[str], now: float) -> None:
    """Follow the cluster snapshot: partitions that were added, leaders that moved, topics that were forgotten."""
    for name in names:
        topic = accumulator.topics.get(name)
        if topic is None:
            continue
        if accumulator.metadata.cluster.partition_count(name):
            accumulator.update_topic(topic, now)
        else:
            forget(accumulator, topic, now)


def forget(accumulator: Accumulator, topic: Topic, now: float) -> None:
    """Drop a topic for which nothing is held, so that a later record looks it up again; keep the others fresh."""
    is_used = topic.parked or any(p.open or p.queued or p.in_flight for p in topic.partitions)
    if is_used or (accumulator.sequences is not None and not accumulator.sequences.forget(topic)):
        accumulator.metadata.touch(topic.name, now)
        accumulator.due(now)
        return
    accumulator.drop(topic)
