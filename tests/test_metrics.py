"""Counters, gauges, histograms, and the producer's own set of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.metrics import Counter, Gauge, Histogram, Metrics, ProducerMetrics
from aioprod.metrics.families import MILLISECONDS

PERCENTILE_ERROR = 1 / 64


def test_counter() -> None:
    counter = Counter("total", "How many.")
    counter.add()
    counter.add(4)
    assert counter.readings() == {"total": 5}


def test_gauge() -> None:
    values = [1.0]
    gauge = Gauge("age_s", "How old.")
    assert gauge.readings() == {"age_s": 0}
    gauge.observe(lambda: values[-1])
    values.append(2.5)
    assert gauge.readings() == {"age_s": 2.5}


def test_histogram_without_values() -> None:
    empty = Histogram("latency", "How long.", ("avg", "max", "p50", "p99"))
    assert empty.readings() == {"latency_avg": 0, "latency_max": 0, "latency_p50": 0, "latency_p99": 0}


def test_histogram() -> None:
    histogram = Histogram("latency", "How long.", ("avg", "max", "p50", "p99.9"))
    for value in range(1, 1001):
        histogram.record(value)
    readings = histogram.readings()
    assert (readings["latency_avg"], readings["latency_max"], histogram.count) == (500.5, 1000, 1000)
    assert readings["latency_p50"] == pytest.approx(500, rel=PERCENTILE_ERROR)
    assert readings["latency_p99.9"] == pytest.approx(999, rel=PERCENTILE_ERROR)


def test_zero_is_a_value() -> None:
    histogram = Histogram("throttle", "How long.")
    for value in (0, 0, 0, 10):
        histogram.record(value)
    assert (histogram.percentile(50), histogram.percentile(75), histogram.percentile(100)) == (0, 0, 10)
    assert histogram.average == 2.5


def test_a_value_is_recorded_many_times_at_once() -> None:
    histogram = Histogram("latency", "How long.")
    heard: list[float] = []
    histogram.listener = heard.append
    histogram.record(2.0, 3)
    histogram.record(10.0)
    assert (histogram.count, histogram.total, histogram.max) == (4, 16.0, 10.0)
    assert histogram.percentile(75) == pytest.approx(2, rel=PERCENTILE_ERROR)
    assert heard == [2.0, 2.0, 2.0, 10.0]


@given(st.lists(st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e12)), max_size=20), max_size=4))
def test_a_histogram_takes_all_values_of_others(parts: list[list[float]]) -> None:
    together, one = Histogram("latency", "How long."), Histogram("latency", "How long.")
    for values in parts:
        part = Histogram("latency", "How long.")
        for value in values:
            part.record(value)
            one.record(value)
        together.add(part)
    assert (together.count, together.max) == (one.count, one.max)
    assert together.total == pytest.approx(one.total)
    assert together.buckets().counts == one.buckets().counts
    assert [together.percentile(percent) for percent in (1, 50, 99)] == [one.percentile(p) for p in (1, 50, 99)]


def test_buckets_include_their_bounds() -> None:
    histogram = Histogram("size", "How large.", low=0, high=3)
    for value in (0, 0.5, 1, 1.001, 2, 3, 4, 8, 9, 1e9):
        histogram.record(value)
    buckets = histogram.buckets()
    assert buckets.bounds == (1.0, 2.0, 4.0, 8.0)
    assert buckets.counts == (3, 2, 2, 1, 2)
    assert buckets.total == sum((0, 0.5, 1, 1.001, 2, 3, 4, 8, 9, 1e9))


def test_buckets_are_in_base_units() -> None:
    histogram = Histogram("latency", "How long.", unit=MILLISECONDS, low=-1, high=1)
    for value in (0.4, 1, 5):
        histogram.record(value)
    bounds, counts, total = histogram.buckets()
    assert bounds == (0.0005, 0.001, 0.002)
    assert counts == (1, 1, 0, 1)
    assert total == pytest.approx(0.0064)
    assert histogram.family().name == "latency_seconds"


@settings(max_examples=100)
@given(st.lists(st.floats(1e-6, 1e9), max_size=30))
def test_each_value_is_in_its_bucket(values: list[float]) -> None:
    histogram = Histogram("x", "Anything.", low=-4, high=12)
    for value in values:
        histogram.record(value)
    bounds, counts, _ = histogram.buckets()
    # Which of two neighbours has a value that is as near to a bound as rounding is not said.
    for at, bound in enumerate(bounds):
        up_to = sum(counts[: at + 1])
        assert sum(value <= bound * (1 - 1e-9) for value in values) <= up_to
        assert up_to <= sum(value <= bound * (1 + 1e-9) for value in values)


def test_a_listener_gets_each_value() -> None:
    histogram = Histogram("x", "Anything.")
    got: list[float] = []
    histogram.record(1)
    histogram.listener = got.append
    histogram.record(2)
    assert got == [2]


@settings(max_examples=100)
@given(st.lists(st.floats(0, 1e300) | st.floats(5e-324, 1e-3), min_size=1, max_size=30), st.integers(1, 100))
def test_percentiles_are_near_a_recorded_value(values: list[float], percent: int) -> None:
    histogram = Histogram("x", "Anything.")
    for value in values:
        histogram.record(value)
    exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert histogram.percentile(percent) == pytest.approx(exact, rel=PERCENTILE_ERROR, abs=1e-320)
    assert histogram.max == max(values)


def test_registry() -> None:
    metrics = Metrics()
    counter = metrics.counter("total", "How many.")
    metrics.gauge("now", "How many now.", lambda: 3)
    sizes = metrics.histogram("size", "How large.")
    counter.add(2)
    sizes.record(8)
    assert metrics.snapshot() == {"total": 2, "now": 3, "size_avg": 8, "size_max": 8}
    assert metrics.describe() == {
        "total": "How many.",
        "now": "How many now.",
        "size_avg": "How large.",
        "size_max": "How large.",
    }
    with pytest.raises(ValueError, match="There is a metric named 'total' already"):
        metrics.gauge("total", "Again.")


def test_producer_metrics() -> None:
    metrics = ProducerMetrics()
    metrics.request_latency.record(2.0)
    metrics.buffer_available_bytes.observe(lambda: 5)
    snapshot = metrics.snapshot()
    assert set(snapshot.values()) >= {0, 2.0, 5}
    assert set(snapshot) == {
        "record_send_total",
        "byte_total",
        "record_delivery_time_avg",
        "record_delivery_time_max",
        "record_delivery_time_p50",
        "record_delivery_time_p99",
        "loop_hold_avg",
        "loop_hold_max",
        "loop_hold_p50",
        "loop_hold_p99",
        "bufferpool_wait_time_ns_total",
        "flush_time_ns_total",
        "epoch_bumps",
        "resolved_stored_total",
        "resolved_absent_total",
        "unresolved_total",
        "record_retry_total",
        "record_error_total",
        "batch_split_total",
        "batch_size_avg",
        "batch_size_max",
        "records_per_request_avg",
        "compression_rate_avg",
        "record_queue_time_avg",
        "record_queue_time_max",
        "record_queue_time_p50",
        "record_queue_time_p99",
        "request_latency_avg",
        "request_latency_max",
        "request_latency_p50",
        "request_latency_p99",
        "produce_throttle_time_avg",
        "produce_throttle_time_max",
        "buffer_total_bytes",
        "buffer_available_bytes",
        "waiting_senders",
        "requests_in_flight",
        "in_flight_full_ratio",
        "connection_count",
        "connection_creation_total",
        "connection_close_total",
        "metadata_age_s",
        "interceptor_failures",
        "loop_gap_max",
        "successful_authentication_total",
        "failed_authentication_total",
        "successful_reauthentication_total",
        "failed_reauthentication_total",
        "reauthentication_latency_avg",
        "reauthentication_latency_max",
    }
    metrics.credentials_expire_s.observe(lambda: 3.0)
    assert metrics.snapshot()["credentials_expire_s"] == 3.0
    assert all(doc.endswith(".") for doc in metrics.describe().values())
