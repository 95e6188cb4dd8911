"""DescribeConfigs (key 32): the settings of topics and brokers (KIP-133).

Versions: 1 where each value comes from; 3 types and documentation; 4 flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, TEXT, Request, Response, Struct, array, wire

__all__ = [
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
]


class DescribeConfigsSynonym(Struct):
    """A setting that would apply if those before it were not set."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")
    source: int = wire(INT8)


class DescribeConfigsResourceResult(Struct):
    """One setting; a sensitive one has no value."""

    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable="0+")
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1, ignorable=True)
    is_sensitive: bool = wire(BOOL)
    synonyms: tuple[DescribeConfigsSynonym, ...] = wire(array(DescribeConfigsSynonym), ignorable=True)
    config_type: int = wire(INT8, "3+", default=0, ignorable=True)
    documentation: str | None = wire(STRING, "3+", nullable="0+", ignorable=True)


class DescribeConfigsResult(Struct):
    """The settings of one resource."""

    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+")
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: tuple[DescribeConfigsResourceResult, ...] = wire(array(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Response):
    """The resources that were named."""

    API_KEY = 32
    NAME = "DescribeConfigs"
    VERSIONS = (1, 4)
    FLEXIBLE = 4

    throttle_time_ms: int = wire(INT32)
    results: tuple[DescribeConfigsResult, ...] = wire(array(DescribeConfigsResult))


class DescribeConfigsResource(Struct):
    """A topic (type 2) or a broker (type 4), and the names of settings, None for all."""

    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: tuple[str, ...] | None = wire(array(STRING), nullable="0+")


class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """The resources."""

    API_KEY = 32
    NAME = "DescribeConfigs"
    VERSIONS = (1, 4)
    FLEXIBLE = 4
    RESPONSE = DescribeConfigsResponse

    resources: tuple[DescribeConfigsResource, ...] = wire(array(DescribeConfigsResource))
    include_synonyms: bool = wire(BOOL, default=False)
    include_documentation: bool = wire(BOOL, "3+", default=False)
