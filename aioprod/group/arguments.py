"""What a user gives to a member, checked: whatever is wrong is a sentence, and is said at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from aioprod.config import instantiate
from aioprod.errors import ConfigError
from aioprod.group.assignors import Assignor
from aioprod.group.settings import MemberConfig
from aioprod.reader.session import check_topic_name
from aioprod.types import OffsetAndMetadata, TopicPartition

__all__ = ["checked_assignors", "checked_group", "checked_offsets", "checked_topics"]

_INT16_MAX: Final = 2**15 - 1
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def checked_group(given: Any) -> str:
    """The name of a group; raises ConfigError."""
    if not isinstance(given, str) or not given or not _is_sendable(given):
        raise ConfigError(f"group_id is {given!r}: give the group a name.")
    return given


def _is_sendable(text: str) -> bool:
    try:
        return len(text.encode()) <= _INT16_MAX
    except UnicodeEncodeError:
        return False


def checked_topics(given: Any) -> frozenset[str]:
    """The names of topics; raises ConfigError and InvalidTopicError."""
    names = (given,) if isinstance(given, str) else _several("topics", given)
    for name in names:
        check_topic_name(name)
    if not names:
        raise ConfigError("topics is empty: name at least one topic to read.")
    return frozenset(names)


def _several(what: str, given: Any) -> tuple[Any, ...]:
    if not isinstance(given, Iterable) or isinstance(given, Mapping):
        raise ConfigError(f"{what} is {given!r}: give a list.")
    return tuple(given)


def checked_assignors(given: Any, config: MemberConfig) -> tuple[Assignor, ...]:
    """Assignors by names or as objects, in their order; raises ConfigError."""
    assignors: dict[str, Assignor] = {}
    for one in (given,) if isinstance(given, str) else _several("assignors", given):
        assignor = instantiate(one, "assignor", config)
        name = getattr(assignor, "name", None)
        if not isinstance(name, str) or not name:
            raise ConfigError(f"Assignor {one!r} has no name, by which the members of a group agree on it.")
        if name in assignors:
            raise ConfigError(f"Assignor {name!r} is given twice.")
        assignors[name] = assignor
    if not assignors:
        raise ConfigError("assignors is empty: give at least one.")
    return tuple(assignors.values())


def checked_offsets(given: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by partition, each an int or an OffsetAndMetadata; raises ConfigError and InvalidTopicError."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"offsets is {given!r}: give a mapping from TopicPartition to the offset of its next record.")
    return dict(_checked_offset(place, offset) for place, offset in given.items())


def _checked_offset(place: Any, given: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    match place:
        case (str(topic), int(partition)) if 0 <= partition <= _INT32_MAX:
            check_topic_name(topic)
        case _:
            raise ConfigError(f"offsets names {place!r}: give a TopicPartition.")
    found = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    if isinstance(found.offset, bool) or not isinstance(found.offset, int) or not 0 <= found.offset <= _INT64_MAX:
        raise ConfigError(f"offsets has {given!r} for {place!r}: give the offset of the next record, from 0 on.")
    if not isinstance(found.metadata, str) or not _is_sendable(found.metadata):
        raise ConfigError(f"offsets has {given!r} for {place!r}: its metadata must be a str of at most 32767 bytes.")
    return TopicPartition(topic, partition), found
