"""What users write as options of the source, which are those of Spark's own Kafka source."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from aioprod.calls.session import check_topic_name
from aioprod.errors import ConfigError
from aioprod.reader.config import ISOLATION_LEVELS, ReaderConfig
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.spark.options import KafkaSettings, split_options, truth
from aioprod.types import TopicPartition

__all__ = ["Limit", "SourceOptions", "Topics"]

_logger = logging.getLogger(__name__)

_NOT_HERE: Final = {
    "auto.offset.reset": "startingOffsets says where a query begins, and its checkpoint where it continues.",
    "enable.auto.commit": "a query's checkpoint holds its offsets.",
    "key.deserializer": "keys are bytes: make of them what you want with functions of Spark.",
    "value.deserializer": "values are bytes: make of them what you want with functions of Spark.",
    "interceptor.classes": "records go from Kafka to Spark as whole columns.",
}
"""Consumer settings that make no sense in a source, with the reason for the error."""

_WITHOUT_GROUP: Final = "as aioprod reads without a consumer group"
_GROUPS: Final = "which belongs to consumer groups"
_POINTLESS: Final = {
    "allow.auto.create.topics": "as reading never creates a topic",
    "auto.commit.interval.ms": _GROUPS,
    "exclude.internal.topics": "as the topics to read are named",
    "fetch.min.bytes": "as brokers answer as soon as there is a record",
    "group.id": _WITHOUT_GROUP,
    "group.instance.id": _GROUPS,
    "heartbeat.interval.ms": _GROUPS,
    "max.poll.interval.ms": _GROUPS,
    "max.poll.records": "as a task reads all of its range",
    "partition.assignment.strategy": _GROUPS,
    "session.timeout.ms": _GROUPS,
}
"""Consumer settings that change nothing here, with the reason for the log: jobs share a dict of settings."""

_MISSING: Final = {
    "minOffsetsPerTrigger": "set the query's trigger to an interval that gathers enough records.",
    "maxTriggerDelay": "set the query's trigger to an interval that gathers enough records.",
}
"""Options of Spark's own source that say when it reads, and are not here, with what to do in their place."""

_LEFT_OUT: Final = {
    "kafkaConsumer.pollTimeoutMs": "as kafka.default.api.timeout.ms says how long to retry",
    "fetchOffset.numRetries": "as kafka.default.api.timeout.ms says how long to retry",
    "fetchOffset.retryIntervalMs": "as kafka.retry.backoff.ms is the wait between two tries",
    "groupIdPrefix": _WITHOUT_GROUP,
}
"""Options of Spark's own source that change nothing here, with the reason for the log."""

_FETCH_BYTES: Final = 4 << 20
"""A task reads one partition: its answers may be larger than where many share one."""

_OFFSETS_EXAMPLE: Final = '{"orders": {"0": 23, "1": -2}}'
_ASSIGN_EXAMPLE: Final = '{"orders": [0, 1]}'
_INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Topics:
    """Which partitions to read: all of some topics, all of those that match a pattern, or `partitions` by topic."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Limit:
    """One end of what is to be read, as the option of that name says."""

    option: str
    at: int | Mapping[TopicPartition, int]
    """EARLIEST, LATEST or a time in ms, for all partitions or for each one that is read."""
    is_time: bool = False
    """Whether `at` has times, not offsets."""

    @property
    def partitions(self) -> Mapping[TopicPartition, int] | None:
        """What is said for each partition, None if all have the same."""
        return None if isinstance(self.at, int) else self.at

    def has(self, tp: TopicPartition, special: int) -> bool:
        """Whether EARLIEST or LATEST is given for a partition."""
        return not self.is_time and special == (self.at if isinstance(self.at, int) else self.at.get(tp))

    def says(self, special: int) -> bool:
        """Whether EARLIEST or LATEST is given for any partition."""
        return not self.is_time and special in ([self.at] if isinstance(self.at, int) else self.at.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What is to be read, and how; a limit of None is the default, which is not the same for batches and streams."""

    kafka: KafkaSettings
    topics: Topics
    start: Limit | None = None
    end: Limit | None = None
    error_without_match: bool = True
    min_partitions: int = 1
    records_per_partition: int | None = None
    offsets_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    isolation: str = "read_uncommitted"
    include_headers: bool = False

    KNOWN = (
        *("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp"),
        *("endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "isolation.level"),
        *("startingOffsetsByTimestampStrategy", "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger"),
        *("failOnDataLoss", "includeHeaders"),
    )

    @classmethod
    def from_spark(cls, given: Mapping[str, str]) -> Self:
        """Of the options that a user gave to `spark.read` or `spark.readStream`; raises ConfigError."""
        own, kafka = split_options(given, (*cls.KNOWN, *_MISSING, *_LEFT_OUT))
        for name, reason in _MISSING.items():
            if name.lower() in own:
                raise ConfigError(f"aioprod's source does not have the option {name}: {reason}")
        if left_out := [f"{name}, {reason}" for name, reason in _LEFT_OUT.items() if name.lower() in own]:
            _logger.info("Left out: %s.", "; ".join(left_out))
        kafka.forbid(_NOT_HERE)
        start, end = _limit(own, "starting"), _limit(own, "ending")
        options = cls(
            kafka=kafka,
            topics=_topics(own),
            start=start,
            end=end,
            error_without_match=_strategy(own),
            min_partitions=_positive(own, "minPartitions") or 1,
            records_per_partition=_positive(own, "maxRecordsPerPartition"),
            offsets_per_trigger=_positive(own, "maxOffsetsPerTrigger"),
            fail_on_data_loss=truth("failOnDataLoss", own.get("failondataloss", "true")),
            isolation=_isolation(own, kafka),
            include_headers=truth("includeHeaders", own.get("includeheaders", "false")),
        )
        _check_order(start, end)
        options.reader_config()
        return options

    def reader_config(self) -> ReaderConfig:
        """The settings of a reader; raises ConfigError."""
        usable = self.kafka.for_client(ReaderConfig, _POINTLESS)
        config = ReaderConfig.from_dict({**usable, "isolation.level": self.isolation})
        if "max_partition_fetch_bytes" in config.explicit:
            return config
        return config.replace(max_partition_fetch_bytes=min(_FETCH_BYTES, config.fetch_max_bytes))

    def for_batch(self) -> Self:
        """The same, if it can be read once and for all; raises ConfigError."""
        if self.start is not None and self.start.says(LATEST):
            raise ConfigError(f"A batch can't begin at the latest offset, as {self.start.option} says.")
        if self.end is not None and self.end.says(EARLIEST):
            raise ConfigError(f"A batch can't end at the earliest offset, as {self.end.option} says.")
        if self.offsets_per_trigger is not None:
            _logger.warning("maxOffsetsPerTrigger means nothing for a batch.")
        return self

    def for_stream(self) -> Self:
        """The same, if it can be read without end; raises ConfigError."""
        if self.end is not None:
            raise ConfigError(f"A stream has no end: {self.end.option} can be used with spark.read only.")
        return self


def _topics(own: Mapping[str, str]) -> Topics:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if name.lower() in own]
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "none is"
        raise ConfigError(f"Exactly one of {', '.join(names)} says what to read: {found}.")
    value = own[given[0].lower()].strip()
    if given == ["assign"]:
        return Topics(partitions=_assigned(value))
    if given == ["subscribePattern"]:
        try:
            re.compile(value)
        except re.error as error:
            raise ConfigError(f"The option subscribePattern is {value!r}, which is not a pattern: {error}.") from None
        if not value:
            raise ConfigError("The option subscribePattern is empty.")
        return Topics(pattern=value)
    topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
    if not topics:
        raise ConfigError("The option subscribe names no topic.")
    for topic in topics:
        check_topic_name(topic)
    return Topics(names=topics)


def _assigned(value: str) -> Mapping[str, tuple[int, ...]]:
    complaint = ConfigError(f"The option assign is {value!r}: give partitions by topic, as in {_ASSIGN_EXAMPLE}.")
    read = _json(value)
    if not isinstance(read, dict) or not read:
        raise complaint
    for topic, indexes in read.items():
        if (
            not isinstance(indexes, list)
            or not indexes
            or not all(type(index) is int and index >= 0 for index in indexes)
        ):
            raise complaint
        check_topic_name(topic)
    return {topic: tuple(sorted(set(indexes))) for topic, indexes in read.items()}


def _limit(own: Mapping[str, str], edge: str) -> Limit | None:
    names = (f"{edge}Offsets", f"{edge}Timestamp", f"{edge}OffsetsByTimestamp")
    given = [name for name in names if name.lower() in own]
    if not given:
        return None
    if len(given) > 1:
        raise ConfigError(f"The options {' and '.join(given)} contradict each other: give one of them.")
    (name,) = given
    value = own[name.lower()].strip()
    if name == f"{edge}Timestamp":
        if not re.fullmatch("[0-9]{1,19}", value) or int(value) > _INT64_MAX:
            raise ConfigError(f"The option {name} is {value!r}: give milliseconds since the epoch, from 0 on.")
        return Limit(name, int(value), is_time=True)
    if name == f"{edge}Offsets" and value.lower() in ("earliest", "latest"):
        return Limit(name, EARLIEST if value.lower() == "earliest" else LATEST)
    is_time = name == f"{edge}OffsetsByTimestamp"
    return Limit(name, _by_partition(name, value, 0 if is_time else EARLIEST), is_time)


def _by_partition(name: str, value: str, lowest: int) -> Mapping[TopicPartition, int]:
    what = "times in ms" if lowest == 0 else "earliest, latest, or offsets (-1 for latest, -2 for earliest)"
    example = '{"orders": {"0": 1700000000000}}' if lowest == 0 else _OFFSETS_EXAMPLE
    complaint = ConfigError(f"The option {name} is {value!r}: give {what} by topic and partition, as in {example}.")
    read = _json(value)
    if not isinstance(read, dict) or not read:
        raise complaint
    found: dict[TopicPartition, int] = {}
    for topic, rows in read.items():
        if not isinstance(rows, dict) or not rows:
            raise complaint
        check_topic_name(topic)
        for index, number in rows.items():
            if not re.fullmatch("[0-9]{1,9}", index) or type(number) is not int or not lowest <= number <= _INT64_MAX:
                raise complaint
            found[TopicPartition(topic, int(index))] = number
    return found


def _json(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _check_order(start: Limit | None, end: Limit | None) -> None:
    """Raise for an end before the beginning, and for ends and beginnings of different partitions."""
    if start is None or end is None or start.is_time != end.is_time:
        return
    if isinstance(start.at, int) and isinstance(end.at, int):
        if end.is_time and start.at > end.at:
            raise ConfigError(f"{start.option} is {start.at}, after {end.option}, which is {end.at}.")
    elif start.partitions is not None and end.partitions is not None:
        for tp in sorted(start.partitions.keys() ^ end.partitions.keys()):
            raise ConfigError(f"Only one of {start.option} and {end.option} names {tp.topic}-{tp.partition}.")
        for tp, first in start.partitions.items():
            if first > end.partitions[tp] >= 0:
                raise ConfigError(
                    f"{start.option} has {first} for {tp.topic}-{tp.partition}, beyond the {end.partitions[tp]} of "
                    f"{end.option}."
                )


def _strategy(own: Mapping[str, str]) -> bool:
    value = own.get("startingoffsetsbytimestampstrategy", "error")
    if value.lower() not in ("error", "latest"):
        raise ConfigError(f"The option startingOffsetsByTimestampStrategy is {value!r}: it must be error or latest.")
    return value.lower() == "error"


def _positive(own: Mapping[str, str], name: str) -> int | None:
    value = own.get(name.lower())
    if value is None:
        return None
    if not re.fullmatch("[0-9]{1,18}", value.strip()) or int(value) == 0:
        raise ConfigError(f"The option {name} is {value!r}: give a whole number from 1 on.")
    return int(value)


def _isolation(own: Mapping[str, str], kafka: KafkaSettings) -> str:
    given = {value for value in (own.get("isolation.level"), kafka.get("isolation.level")) if value is not None}
    if len(given) > 1:
        raise ConfigError("The options isolation.level and kafka.isolation.level contradict each other.")
    value = given.pop().lower() if given else "read_uncommitted"
    if value not in ISOLATION_LEVELS:
        raise ConfigError(f"The option isolation.level is {value!r}: it must be {' or '.join(ISOLATION_LEVELS)}.")
    return value
