"""Bringing the records of anything that has positions to Kafka, each exactly once: `Relay(source, ...)`."""

from __future__ import annotations

from aioprod.errors import MarkerError
from aioprod.relay.health import Lag, RelayHealth
from aioprod.relay.relay import Relay
from aioprod.relay.source import ExclusiveSource, MeasuredSource, NotedSource, Source

__all__ = ["ExclusiveSource", "Lag", "MarkerError", "MeasuredSource", "NotedSource", "Relay", "RelayHealth", "Source"]
