"""ApiVersions (key 18): which versions of which requests a broker speaks; the first request on a connection.

Versions: 3 flexible, names the client (KIP-511) and has the cluster's features (KIP-584); 4 a feature's first level
may be 0; 5 says which broker of which cluster is expected, and another one answers REBOOTSTRAP_REQUIRED (KIP-1242). A
broker that does not know the version answers error 35 in the form of version 0, so the response's header is never
flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BOOL, INT16, INT32, INT64, STRING, Request, Response, Struct, array, wire

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SupportedFeatureKey",
]


class ApiVersion(Struct):
    """The versions of one request that the broker supports."""

    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class SupportedFeatureKey(Struct):
    """A feature and its possible levels."""

    name: str = wire(STRING)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class FinalizedFeatureKey(Struct):
    """A feature and its finalized levels, which the whole cluster supports."""

    name: str = wire(STRING)
    max_version_level: int = wire(INT16)
    min_version_level: int = wire(INT16)


class ApiVersionsResponse(Response):
    """Version spans, and the features that the cluster supports and has finalized (epoch -1: not known)."""

    API_KEY = 18
    NAME = "ApiVersions"
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    FLEXIBLE_HEADER = False

    error_code: int = wire(INT16)
    api_keys: tuple[ApiVersion, ...] = wire(array(ApiVersion))
    throttle_time_ms: int = wire(INT32, "1+", ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = wire(array(SupportedFeatureKey), "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = wire(INT64, "3+", tag=1, default=-1, ignorable=True)
    finalized_features: tuple[FinalizedFeatureKey, ...] = wire(array(FinalizedFeatureKey), "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = wire(BOOL, "3+", tag=3, ignorable=True)


class ApiVersionsRequest(Request[ApiVersionsResponse]):
    r"""Name and version of the client must match `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?`.

    `cluster_id` and `node_id` are set both or neither (-1).
    """

    API_KEY = 18
    NAME = "ApiVersions"
    VERSIONS = (0, 5)
    FLEXIBLE = 3
    RESPONSE = ApiVersionsResponse

    client_software_name: str = wire(STRING, "3+", ignorable=True)
    client_software_version: str = wire(STRING, "3+", ignorable=True)
    cluster_id: str | None = wire(STRING, "5+", nullable="5+", default=None, ignorable=True)
    node_id: int = wire(INT32, "5+", default=-1, ignorable=True)
