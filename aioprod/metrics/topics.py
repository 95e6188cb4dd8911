"""What a producer counts for each topic, up to a number of topics."""

from __future__ import annotations

__all__ = ["TopicMeter", "TopicMeters"]


class TopicMeter:
    """The totals of one topic: records and bytes sent, bytes before compression, records retried and failed."""

    __slots__ = ("bytes", "bytes_uncompressed", "errors", "records", "retries")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self.bytes_uncompressed = 0
        self.retries = 0
        self.errors = 0

    def retried(self, records: int) -> None:
        """A batch will be sent again."""
        self.retries += records

    def failed(self, records: int) -> None:
        """A batch failed."""
        self.errors += records


class TopicMeters:
    """The totals by topic. Those of all topics after the first `topics_max` are counted together in `others`."""

    def __init__(self, topics_max: int) -> None:
        self.by_topic: dict[str, TopicMeter] = {}
        self.others = TopicMeter()
        self._topics_max = topics_max

    def of(self, topic: str) -> TopicMeter:
        """The totals that a topic counts in."""
        meter = self.by_topic.get(topic)
        if meter is None:
            if len(self.by_topic) >= self._topics_max:
                return self.others
            self.by_topic[topic] = meter = TopicMeter()
        return meter

    def sent(self, topic: str, records: int, size: int, size_uncompressed: int) -> None:
        """A batch of a topic is in a request."""
        meter = self.by_topic.get(topic)
        if meter is None:
            meter = self.of(topic)
        meter.records += records
        meter.bytes += size
        meter.bytes_uncompressed += size_uncompressed

    def records(self) -> int:
        """The records sent."""
        return sum(meter.records for meter in self._all())

    def bytes(self) -> int:
        """The bytes sent, after compression."""
        return sum(meter.bytes for meter in self._all())

    def record_size(self) -> float | None:
        """The mean size in bytes of all records sent, before compression; None before the first."""
        records = self.records()
        return sum(meter.bytes_uncompressed for meter in self._all()) / records if records else None

    def _all(self) -> list[TopicMeter]:
        return [*self.by_topic.values(), self.others]
