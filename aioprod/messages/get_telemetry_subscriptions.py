"""GetTelemetrySubscriptions (key 71): which metrics the broker wants from this client (KIP-714).

The first request has the zero id; the broker answers with the id to use from then on.
"""

from __future__ import annotations

import uuid

from aioprod.wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Request, Response, array, wire

__all__ = ["GetTelemetrySubscriptionsRequest", "GetTelemetrySubscriptionsResponse"]


class GetTelemetrySubscriptionsResponse(Response):
    """What to push and how often: prefixes of metric names, none for nothing, one empty for all."""

    API_KEY = 71
    NAME = "GetTelemetrySubscriptions"
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    client_instance_id: uuid.UUID = wire(UUID)
    subscription_id: int = wire(INT32)
    accepted_compression_types: tuple[int, ...] = wire(array(INT8))
    push_interval_ms: int = wire(INT32)
    telemetry_max_bytes: int = wire(INT32)
    delta_temporality: bool = wire(BOOL)
    requested_metrics: tuple[str, ...] = wire(array(STRING))


class GetTelemetrySubscriptionsRequest(Request[GetTelemetrySubscriptionsResponse]):
    """The id of this client instance."""

    API_KEY = 71
    NAME = "GetTelemetrySubscriptions"
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    RESPONSE = GetTelemetrySubscriptionsResponse

    client_instance_id: uuid.UUID = wire(UUID)
