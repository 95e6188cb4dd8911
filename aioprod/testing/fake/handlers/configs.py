"""How a fake broker answers DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from aioprod.errors import ErrorCode, Operation
from aioprod.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from aioprod.messages import alter_configs as whole
from aioprod.messages.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from aioprod.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
)
from aioprod.testing.acls import CLUSTER
from aioprod.testing.fake.handlers.call import Call
from aioprod.testing.fake.state.topic_settings import TOPIC_SETTINGS, Kind
from aioprod.types import TopicPartition

__all__ = ["alter_configs", "describe_configs", "incremental_alter_configs", "unknown_setting"]

_TOPIC: Final = 2
_BROKER: Final = 4
_DYNAMIC_TOPIC, _STATIC_BROKER, _DEFAULT = 1, 4, 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


def describe_configs(call: Call, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Answer the settings of topics, and of the broker itself."""
    return DescribeConfigsResponse(results=tuple(_described(call, resource) for resource in request.resources))


def _described(call: Call, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    error = _error(call, resource.resource_type, resource.resource_name, "DESCRIBE_CONFIGS")
    rows = [] if error else _settings(call, resource)
    keys = resource.configuration_keys
    return DescribeConfigsResult(
        error_code=error,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(row for row in rows if keys is None or row.name in keys),
    )


def _settings(call: Call, resource: DescribeConfigsResource) -> list[DescribeConfigsResourceResult]:
    if resource.resource_type == _BROKER:
        return [_row(name, value, kind, _STATIC_BROKER, read_only=True) for name, kind, value in _of_broker(call)]
    given = call.state.topics[resource.resource_name].config
    return [
        _row(name, given.get(name, default), kind, _DYNAMIC_TOPIC if name in given else _DEFAULT)
        for name, (kind, default) in TOPIC_SETTINGS.items()
    ]


def _of_broker(call: Call) -> list[tuple[str, Kind, str]]:
    """Some of a broker's settings: what programs read."""
    host, port = call.state.nodes[call.node_id]
    return [
        ("advertised.listeners", Kind.LIST, f"PLAINTEXT://{host}:{port}"),
        ("auto.create.topics.enable", Kind.BOOLEAN, str(call.state.auto_create).lower()),
        ("broker.id", Kind.INT, str(call.node_id)),
        ("log.dirs", Kind.LIST, "/var/lib/kafka"),
        ("node.id", Kind.INT, str(call.node_id)),
        ("num.partitions", Kind.INT, str(call.state.default_partitions)),
    ]


def _row(name: str, value: str, kind: Kind, source: int, *, read_only: bool = False) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=value, read_only=read_only, config_source=source, config_type=kind, documentation=None
    )


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change the settings of topics, or only check the request (`validate_only`)."""
    rows = [_altered(call, resource, validate_only=request.validate_only) for resource in request.resources]
    return IncrementalAlterConfigsResponse(responses=tuple(rows))


def _altered(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    unset = [change.name for change in resource.configs if change.value is None and change.config_operation != _DELETE]
    error, said = _alter_error(call, kind, name, (change.name for change in resource.configs), unset)
    if error == ErrorCode.NONE and not validate_only:
        topic = call.state.topics[name]
        config = dict(topic.config)
        for change in resource.configs:
            _change(config, change)
        topic.config = config
    return AlterConfigsResourceResponse(error_code=error, error_message=said, resource_type=kind, resource_name=name)


def alter_configs(call: Call, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Replace all settings of topics, or only check the request (`validate_only`)."""
    rows = [_replaced(call, resource, validate_only=request.validate_only) for resource in request.resources]
    return AlterConfigsResponse(responses=tuple(rows))


def _replaced(
    call: Call, resource: whole.AlterConfigsResource, *, validate_only: bool
) -> whole.AlterConfigsResourceResponse:
    kind, name = resource.resource_type, resource.resource_name
    given = {one.name: one.value for one in resource.configs}
    error, said = _alter_error(call, kind, name, given, [one for one, value in given.items() if value is None])
    if error == ErrorCode.NONE and not validate_only:
        call.state.topics[name].config = {one: value for one, value in given.items() if value is not None}
    return whole.AlterConfigsResourceResponse(
        error_code=error, error_message=said, resource_type=kind, resource_name=name
    )


def _alter_error(
    call: Call, kind: int, name: str, settings: Iterable[str], unset: Sequence[str]
) -> tuple[ErrorCode, str | None]:
    """The error and message of settings that can't be changed, `unset` without a value; NONE and None if they can."""
    if unset:
        return ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(unset)}"
    if error := _error(call, kind, name, "ALTER_CONFIGS"):
        return error, None
    if kind == _BROKER:
        return ErrorCode.INVALID_REQUEST, "A fake broker's settings can't be changed."
    said = unknown_setting(settings)
    return (ErrorCode.NONE, None) if said is None else (ErrorCode.INVALID_CONFIG, said)


def unknown_setting(names: Iterable[str]) -> str | None:
    """What the controller says of the first of these that is no setting of a topic; None if all are."""
    return next((f"Unknown topic config name: {name}" for name in names if name not in TOPIC_SETTINGS), None)


def _change(config: dict[str, str], change: AlterableConfig) -> None:
    value = change.value or ""
    present = config.get(change.name, TOPIC_SETTINGS[change.name].default).split(",")
    if change.config_operation == _DELETE:
        config.pop(change.name, None)
    elif change.config_operation == _SET:
        config[change.name] = value
    elif change.config_operation == _APPEND:
        config[change.name] = ",".join(dict.fromkeys([*present, value]))
    else:
        config[change.name] = ",".join(one for one in present if one != value)


def _error(call: Call, kind: int, name: str, operation: Operation) -> ErrorCode:
    if kind == _TOPIC:
        if error := call.fault.error_for(TopicPartition(name, -1)) or call.denied(operation, "topic", name):
            return error
        return ErrorCode.NONE if name in call.state.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if kind != _BROKER or name != str(call.node_id):
        return ErrorCode.INVALID_REQUEST
    return call.fault.error or call.denied(operation, "cluster", CLUSTER)
