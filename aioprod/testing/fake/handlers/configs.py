"""How a fake broker answers DescribeConfigs and IncrementalAlterConfigs: topics have the settings of `_DEFAULTS`."""

from __future__ import annotations

from typing import Final

from aioprod.errors import ErrorCode, Operation
from aioprod.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
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
from aioprod.types import TopicPartition

__all__ = ["describe_configs", "incremental_alter_configs"]

_DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
}
"""Some of a topic's settings, with the values that Kafka has."""
_OF_BROKER: Final = {"log.dirs": "/var/lib/kafka", "num.partitions": "1"}

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
        return [_row(name, value, _STATIC_BROKER, read_only=True) for name, value in _OF_BROKER.items()]
    given = call.state.topics[resource.resource_name].config
    return [
        _row(name, given.get(name, value), _DYNAMIC_TOPIC if name in given else _DEFAULT)
        for name, value in ({**_DEFAULTS, **given}).items()
    ]


def _row(name: str, value: str, source: int, *, read_only: bool = False) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=value, read_only=read_only, config_source=source, documentation=None
    )


def incremental_alter_configs(call: Call, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change the settings of topics, or only check the request (`validate_only`)."""
    rows = [_altered(call, resource, validate_only=request.validate_only) for resource in request.resources]
    return IncrementalAlterConfigsResponse(responses=tuple(rows))


def _altered(call: Call, resource: AlterConfigsResource, *, validate_only: bool) -> AlterConfigsResourceResponse:
    error, said = _error(call, resource.resource_type, resource.resource_name, "ALTER_CONFIGS"), None
    if error == ErrorCode.NONE and resource.resource_type == _BROKER:
        error, said = ErrorCode.INVALID_REQUEST, "A fake broker's settings can't be changed."
    if error == ErrorCode.NONE:
        topic = call.state.topics[resource.resource_name]
        config = dict(topic.config)
        for change in resource.configs:
            if change.name not in _DEFAULTS:
                error, said = ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {change.name}"
            else:
                _change(config, change)
        if error == ErrorCode.NONE and not validate_only:
            topic.config = config
    return AlterConfigsResourceResponse(
        error_code=error,
        error_message=said,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _change(config: dict[str, str], change: AlterableConfig) -> None:
    value = change.value or ""
    present = config.get(change.name, _DEFAULTS[change.name]).split(",")
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
