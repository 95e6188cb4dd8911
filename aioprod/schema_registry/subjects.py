"""Subject strategies: the subject that a record's schema belongs to.

https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from aioprod.errors import ConfigError

__all__ = ["Role", "SubjectStrategy", "record_name", "strategy_of", "topic_name", "topic_record_name"]

Role: TypeAlias = Literal["key", "value"]

SubjectStrategy: TypeAlias = Callable[[str, Role, str | None], str]
"""A function of topic, role and the schema's record name that returns the subject.

The record name is that of Avro's outermost record, the `title` of a JSON schema, a Protobuf message's full name, or
None.
"""


def topic_name(topic: str, role: Role, record: str | None) -> str:
    """`orders-value`: one schema with its versions for each topic."""
    return f"{topic}-{role}"


def record_name(topic: str, role: Role, record: str | None) -> str:
    """`shop.Order`: one schema with its versions for each kind of record, in any topic."""
    return _named(record, "record")


def topic_record_name(topic: str, role: Role, record: str | None) -> str:
    """`orders-shop.Order`: several kinds of records in one topic, each with its versions there."""
    return f"{topic}-{_named(record, 'topic_record')}"


def strategy_of(given: str | SubjectStrategy) -> SubjectStrategy:
    """The function that "topic", "record" or "topic_record" stands for, or the function that was given."""
    if isinstance(given, str):
        if given not in _NAMES:
            raise ConfigError(f"{given!r} is not a subject strategy: give one of {', '.join(_NAMES)}, or a function.")
        return _NAMES[given]
    if not callable(given):
        raise ConfigError(f"{given!r} is not a subject strategy: give one of {', '.join(_NAMES)}, or a function.")
    return given


def _named(record: str | None, strategy: str) -> str:
    if record is None:
        raise ConfigError(
            f"The subject strategy {strategy!r} needs a record name, and the serializer's schema has none.",
            hint="Give a schema: an Avro record, a JSON schema with a title, a Protobuf message.",
        )
    return record


_NAMES: Final[Mapping[str, SubjectStrategy]] = MappingProxyType(
    {"topic": topic_name, "record": record_name, "topic_record": topic_record_name}
)
