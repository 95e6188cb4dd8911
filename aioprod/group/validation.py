"""Checks of the arguments of a member."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aioprod.calls.session import check_topic_name
from aioprod.config import instantiate
from aioprod.errors import ConfigError, SerializationError
from aioprod.group.assignors import Assignor
from aioprod.group.config import MemberConfig
from aioprod.types import ConsumedRecord, OffsetAndMetadata, TopicPartition

__all__ = [
    "checked_commit",
    "checked_group",
    "checked_offsets",
    "checked_partitions",
    "checked_subscription",
    "created_assignors",
    "member_config",
    "place_of",
]

_TEXT_BYTES_MAX: Final = 32_767
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1


def member_config(
    config: MemberConfig | Mapping[str, Any] | None,
    bootstrap_servers: Any,
    options: Mapping[str, Any],
    group_id: str | None,
) -> tuple[MemberConfig, str]:
    """The settings of a member, and the name of its group, which is given once or twice alike; raises ConfigError."""
    made = MemberConfig.given(config, bootstrap_servers, options)
    if group_id is not None and made.group_id not in (None, checked_group(group_id)):
        raise ConfigError(
            f"group_id is {group_id!r:.60}, and group.id in config is {made.group_id!r:.60}.", hint="Give one of them."
        )
    if group_id is not None:
        made = made.replace(group_id=group_id)
    if made.group_id is None:
        raise ConfigError("No group is given.", hint='Give the member group_id=..., or a config with "group.id".')
    return made, checked_group(made.group_id)


def checked_group(group_id: object) -> str:
    """The name of a group; raises ConfigError for an invalid one."""
    if not isinstance(group_id, str) or not group_id or not _fits(group_id):
        raise ConfigError(f"group_id is {group_id!r:.60}: give the group a name, a str of up to 32767 bytes.")
    return group_id


def checked_subscription(
    topics: str | Iterable[str] | re.Pattern[str],
) -> tuple[re.Pattern[str] | None, frozenset[str]]:
    """The pattern of the topics to read, or their names; raises ConfigError and InvalidTopicError."""
    if isinstance(topics, re.Pattern):
        if not isinstance(topics.pattern, str):
            raise ConfigError(f"topics is {topics!r:.60}, which matches bytes: give a pattern of a str.")
        return topics, frozenset()
    if not isinstance(topics, Iterable):
        raise ConfigError(f"topics is {topics!r:.60}: give the name of a topic, several, or a pattern (re.compile).")
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    for name in names:
        check_topic_name(name)
    if not names:
        raise ConfigError("topics is empty: name at least one topic to read.")
    return None, frozenset(names)


def created_assignors(config: MemberConfig) -> tuple[Assignor, ...]:
    """The assignors of the settings, created from names where they are given so; raises ConfigError."""
    assignors: dict[str, Assignor] = {}
    for one in config.partition_assignment_strategy:
        assignor = instantiate(one, "assignor", config)
        name = getattr(assignor, "name", None)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"Assignor {one!r} has no name, by which the members of a group agree on it.")
        if name in assignors:
            raise ConfigError(f"Assignor {name!r} is given twice.")
        assignors[name] = assignor
    return tuple(assignors.values())


def checked_offsets(offsets: Mapping[TopicPartition, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets to commit as `OffsetAndMetadata`; raises ConfigError and InvalidTopicError."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(
            f"offsets is {offsets!r:.60}: give a record, or a mapping from TopicPartition to the next offset."
        )
    return {_checked_partition(tp): _checked_offset(tp, given) for tp, given in offsets.items()}


def checked_commit(given: ConsumedRecord | Mapping[TopicPartition, Any]) -> dict[TopicPartition, OffsetAndMetadata]:
    """What to commit, from a record or from offsets; raises what `checked_offsets` raises."""
    if isinstance(given, ConsumedRecord):
        return {TopicPartition(given.topic, given.partition): OffsetAndMetadata(given.offset + 1)}
    return checked_offsets(given)


def place_of(given: ConsumedRecord | SerializationError) -> tuple[TopicPartition, int]:
    """The partition and offset of a record, or of the one that could not be deserialized; raises ConfigError."""
    if isinstance(given, ConsumedRecord):
        return TopicPartition(given.topic, given.partition), given.offset
    if isinstance(given, SerializationError) and given.record is not None:
        return TopicPartition(given.record.topic, given.record.partition), given.record.offset
    raise ConfigError(f"{given!r:.60} is nothing to skip: give a record, or the SerializationError of one.")


def checked_partitions(partitions: TopicPartition | Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
    """One partition or several, each once; raises ConfigError and InvalidTopicError."""
    if isinstance(partitions, TopicPartition):
        partitions = (partitions,)
    if not isinstance(partitions, Iterable):
        raise ConfigError(f"partitions is {partitions!r:.60}: give a TopicPartition(topic, partition), or several.")
    return tuple(dict.fromkeys(_checked_partition(tp, "partitions") for tp in partitions))


def _checked_partition(tp: object, name: str = "offsets") -> TopicPartition:
    if isinstance(tp, tuple) and len(tp) == 2:
        topic, partition = tp
        check_topic_name(topic)
        if isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition <= _PARTITION_MAX:
            return TopicPartition(topic, partition)
    raise ConfigError(f"{name} has {tp!r:.60} for a partition: give a TopicPartition(topic, partition).")


def _checked_offset(tp: object, given: object) -> OffsetAndMetadata:
    offset, metadata = given if isinstance(given, OffsetAndMetadata) else (given, "")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset <= _OFFSET_MAX:
        raise ConfigError(f"offsets has {offset!r:.60} for {tp!r}: give the offset of the next record, from 0 on.")
    if not isinstance(metadata, str) or not _fits(metadata):
        raise ConfigError(f"offsets has invalid metadata for {tp!r}: give a str of up to 32767 bytes.")
    return OffsetAndMetadata(offset, metadata)


def _fits(text: str) -> bool:
    """Whether the text can be encoded in a request."""
    try:
        return len(text.encode()) <= _TEXT_BYTES_MAX
    except UnicodeEncodeError:
        return False
