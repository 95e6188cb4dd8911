"""The settings of topics and brokers (DescribeConfigs, IncrementalAlterConfigs)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from aioprod._authorization_errors import Right
from aioprod.calls.any_broker import FailureWording, ItemResult, request_any_broker
from aioprod.calls.session import Session, check_topic_name
from aioprod.errors import ConfigError, ErrorCode, ProtocolError, UsageError
from aioprod.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aioprod.messages.describe_configs import DescribeConfigsResource
from aioprod.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource

__all__ = ["ConfigEntry", "ConfigKind", "alter_configs", "describe_configs", "kafka_text"]

ConfigKind: TypeAlias = Literal["topic", "broker"]

_NUMBERS: Final = {"topic": 2, "broker": 4}
_SOURCES: Final = {
    1: "dynamic_topic",
    2: "dynamic_broker",
    3: "dynamic_default_broker",
    4: "static_broker",
    5: "default",
    6: "dynamic_broker_logger",
    7: "dynamic_client_metrics",
    8: "dynamic_group",
}
_DEFAULT: Final = "default"
_SET: Final = 0
_DELETE: Final = 1
_APPEND: Final = 2
_SUBTRACT: Final = 3


class ConfigEntry(NamedTuple):
    """One setting."""

    name: str
    value: str | None
    """None where the setting has no value, or a sensitive one."""
    source: str
    """Where the value comes from, in Kafka's words: "dynamic_topic", "dynamic_broker", "dynamic_default_broker",
    "static_broker", "default" or "unknown"."""
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    doc: str | None
    """What the setting means; None before Kafka 2.6."""


async def describe_configs(session: Session, kind: ConfigKind, name: str, deadline: float) -> dict[str, ConfigEntry]:
    """The settings of a topic or a broker, by name; those of a broker are answered by itself."""
    node_id = _node_of(kind, name)
    resource = DescribeConfigsResource(resource_type=_NUMBERS[kind], resource_name=name, configuration_keys=None)

    def result(response: DescribeConfigsResponse) -> ItemResult:
        row = response.results[0] if response.results else None
        return _missing(kind, name) if row is None else ItemResult(ErrorCode.of(row.error_code), row.error_message)

    response = await request_any_broker(
        session,
        DescribeConfigsRequest(resources=(resource,), include_documentation=False),
        result,
        _wording(kind, name, "described", "DESCRIBE_CONFIGS"),
        deadline,
        node_id=node_id,
    )
    return {
        row.name: ConfigEntry(
            row.name,
            None if row.is_sensitive else row.value,
            _SOURCES.get(row.config_source, "unknown"),
            _SOURCES.get(row.config_source) == _DEFAULT,
            row.read_only,
            row.is_sensitive,
            row.documentation,
        )
        for row in sorted(response.results[0].configs, key=lambda row: row.name)
    }


async def alter_configs(
    session: Session,
    kind: ConfigKind,
    name: str,
    *,
    to_set: Mapping[str, object],
    reset: Iterable[str],
    append: Mapping[str, object],
    subtract: Mapping[str, object],
    validate_only: bool,
    deadline: float,
) -> None:
    """Change some settings of a topic or a broker; raises ConfigError for one that is named twice, or none at all."""
    node_id = _node_of(kind, name)
    rows: list[AlterableConfig] = []
    for operation, values in ((_SET, to_set), (_APPEND, append), (_SUBTRACT, subtract)):
        rows += [
            AlterableConfig(name=_dotted(key), config_operation=operation, value=kafka_text(value))
            for key, value in values.items()
        ]
    rows += [AlterableConfig(name=_dotted(key), config_operation=_DELETE, value=None) for key in reset]
    names = [row.name for row in rows]
    twice = sorted({each for each in names if names.count(each) > 1})
    if twice:
        raise ConfigError(f"{twice[0]} of {kind} {name!r} is to be changed in two ways.", hint="Name it once.")
    if not rows:
        raise ConfigError(f"No setting of {kind} {name!r} is named.", hint="Give some to set, or to reset.")
    resource = AlterConfigsResource(resource_type=_NUMBERS[kind], resource_name=name, configs=tuple(rows))

    def result(response: IncrementalAlterConfigsResponse) -> ItemResult:
        row = response.responses[0] if response.responses else None
        return _missing(kind, name) if row is None else ItemResult(ErrorCode.of(row.error_code), row.error_message)

    await request_any_broker(
        session,
        IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only),
        result,
        _wording(kind, name, "changed", "ALTER_CONFIGS"),
        deadline,
        node_id=node_id,
    )


def kafka_text(value: object) -> str:
    """A setting in Kafka's notation."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _dotted(name: str) -> str:
    return name.replace("_", ".")


def _node_of(kind: ConfigKind, name: str) -> int | None:
    """The broker that has to answer, None for any; raises UsageError for a resource that can't exist."""
    if kind == "topic":
        check_topic_name(name)
        return None
    if kind != "broker":
        raise UsageError(f"{kind!r} has no settings that can be described: give 'topic' or 'broker'.")
    if not name.isdecimal():
        raise UsageError(f"{name!r} is not a broker: give its id, such as '1'.")
    return int(name)


def _wording(
    kind: ConfigKind, name: str, done: str, operation: Literal["DESCRIBE_CONFIGS", "ALTER_CONFIGS"]
) -> FailureWording:
    if kind == "topic":
        right = Right(operation, "topic", name)
        return FailureWording(f"The settings of topic {name!r} could not be {done}", [right])
    return FailureWording(
        f"The settings of broker {name} could not be {done}", [Right(operation, "cluster", "kafka-cluster")]
    )


def _missing(kind: ConfigKind, name: str) -> ItemResult:
    raise ProtocolError(f"The broker's response does not contain {kind} {name!r}.")
