"""AlterConfigs (key 33): replace all settings of topics and brokers; those that are not named get their defaults.

Fake brokers answer it to admin clients that don't have IncrementalAlterConfigs, which aioprod sends. Versions: 2
flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsResource",
    "AlterConfigsResourceResponse",
    "AlterConfigsResponse",
    "AlterableConfig",
]


class AlterConfigsResourceResponse(Struct):
    """Whether the settings of one resource were replaced."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


class AlterConfigsResponse(Response):
    """The resources that were named."""

    API_KEY = 33
    NAME = "AlterConfigs"
    VERSIONS = (0, 2)
    FLEXIBLE = 2

    throttle_time_ms: int = wire(INT32)
    responses: tuple[AlterConfigsResourceResponse, ...] = wire(array(AlterConfigsResourceResponse))


class AlterableConfig(Struct):
    """One setting."""

    name: str = wire(STRING)
    value: str | None = wire(TEXT, nullable="0+")


class AlterConfigsResource(Struct):
    """A topic (type 2) or a broker (type 4), and all settings that it is to have."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: tuple[AlterableConfig, ...] = wire(array(AlterableConfig))


class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """The resources with their settings."""

    API_KEY = 33
    NAME = "AlterConfigs"
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    RESPONSE = AlterConfigsResponse

    resources: tuple[AlterConfigsResource, ...] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)
