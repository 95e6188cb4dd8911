"""Counters, gauges and histograms of clients, and how monitoring systems collect them."""

from __future__ import annotations

from aioprod.metrics.families import Buckets, Family, Point
from aioprod.metrics.instruments import Counter, Gauge, Histogram, Instrument
from aioprod.metrics.producer import ProducerMetrics
from aioprod.metrics.registry import Metrics, Reporter

__all__ = [
    "Buckets",
    "Counter",
    "Family",
    "Gauge",
    "Histogram",
    "Instrument",
    "Metrics",
    "Point",
    "ProducerMetrics",
    "Reporter",
]
