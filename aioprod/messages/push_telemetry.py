"""PushTelemetry (key 72): the client's metrics for the broker, as OTLP (KIP-714)."""

from __future__ import annotations

import uuid

from aioprod.wire.schema import BOOL, BYTES, INT8, INT16, INT32, UUID, Request, Response, wire

__all__ = ["PushTelemetryRequest", "PushTelemetryResponse"]


class PushTelemetryResponse(Response):
    """Whether the metrics were taken."""

    API_KEY = 72
    NAME = "PushTelemetry"
    VERSIONS = (0, 0)
    FLEXIBLE = 0

    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)


class PushTelemetryRequest(Request[PushTelemetryResponse]):
    """Metrics, compressed as `compression_type` says (the ids of record batches)."""

    API_KEY = 72
    NAME = "PushTelemetry"
    VERSIONS = (0, 0)
    FLEXIBLE = 0
    RESPONSE = PushTelemetryResponse

    client_instance_id: uuid.UUID = wire(UUID)
    subscription_id: int = wire(INT32)
    terminating: bool = wire(BOOL)
    compression_type: int = wire(INT8)
    metrics: bytes = wire(BYTES)
