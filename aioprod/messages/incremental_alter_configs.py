"""IncrementalAlterConfigs (key 44, KIP-339): change some settings of topics and brokers, and leave the others.

Versions: 1 flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = [
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterableConfig",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
]


class AlterConfigsResourceResponse(Struct):
    """Whether the settings of one resource were changed."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


class IncrementalAlterConfigsResponse(Response):
    """The resources that were named."""

    API_KEY = 44
    NAME = "IncrementalAlterConfigs"
    VERSIONS = (0, 1)
    FLEXIBLE = 1

    throttle_time_ms: int = wire(INT32)
    responses: tuple[AlterConfigsResourceResponse, ...] = wire(array(AlterConfigsResourceResponse))


class AlterableConfig(Struct):
    """One change; the operation is 0 to set, 1 to delete, 2 to append to a list, 3 to subtract from one."""

    name: str = wire(STRING)
    config_operation: int = wire(INT8)
    value: str | None = wire(STRING, nullable="0+")


class AlterConfigsResource(Struct):
    """A topic (type 2) or a broker (type 4), and the changes of its settings."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: tuple[AlterableConfig, ...] = wire(array(AlterableConfig))


class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """The resources with their changes."""

    API_KEY = 44
    NAME = "IncrementalAlterConfigs"
    VERSIONS = (0, 1)
    FLEXIBLE = 1
    RESPONSE = IncrementalAlterConfigsResponse

    resources: tuple[AlterConfigsResource, ...] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)
