"""What metrics() tells, and how a configuration becomes the units of the parts."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from aioprod import ProducerConfig
from aioprod.errors import ErrorCode, RejectedError
from aioprod.messages import ProduceRequest
from aioprod.producer.settings import UNLIMITED, accumulator_settings, sender_settings
from aioprod.records.compression import Compression
from aioprod.testing import FakeCluster
from tests.support.producers import ShiftedClock, new_producer, running, until

NAMES = {
    "batch_size_avg",
    "batch_size_max",
    "batch_split_total",
    "buffer_available_bytes",
    "buffer_total_bytes",
    "compression_rate_avg",
    "connection_close_total",
    "connection_count",
    "connection_creation_total",
    "failed_authentication_total",
    "failed_reauthentication_total",
    "interceptor_failures",
    "loop_gap_max",
    "metadata_age_s",
    "produce_throttle_time_avg",
    "produce_throttle_time_max",
    "reauthentication_latency_avg",
    "reauthentication_latency_max",
    "record_error_total",
    "record_queue_time_avg",
    "record_queue_time_max",
    "record_queue_time_p50",
    "record_queue_time_p99",
    "record_retry_total",
    "record_send_total",
    "records_per_request_avg",
    "request_latency_avg",
    "request_latency_max",
    "request_latency_p50",
    "request_latency_p99",
    "requests_in_flight",
    "successful_authentication_total",
    "successful_reauthentication_total",
    "waiting_senders",
}


async def test_before_start_all_are_there_and_nothing_happened() -> None:
    metrics = new_producer("127.0.0.1:9").metrics()
    assert metrics.keys() >= NAMES
    assert set(metrics.values()) == {0}


async def test_the_values_after_some_traffic(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    async with running(brokers, clock=clock, buffer_memory=100_000, enable_idempotence=False) as producer:
        await producer.partitions_for("t")
        brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS)
        await producer.send("t", b"x" * 1000)
        brokers.fault(ProduceRequest, error=ErrorCode.POLICY_VIOLATION)
        with pytest.raises(RejectedError):
            await producer.send("t", b"v")
        hold = brokers.fault(ProduceRequest, hold=True)
        futures = [producer.submit("t", b"%d" % n) for n in range(4)]
        await hold.reached.wait()
        clock.offset_s += 2.0
        metrics = producer.metrics()
        assert metrics["requests_in_flight"] == 1
        assert 0 < metrics["buffer_available_bytes"] == 100_000 - producer.buffered.bytes < 100_000
        assert metrics["buffer_total_bytes"] == 100_000
        assert 2.0 <= metrics["metadata_age_s"] < 100.0
        hold.release()
        for future in futures:
            await future
        metrics = producer.metrics()
    assert metrics.keys() >= NAMES
    assert metrics["record_send_total"] == 1 + 1 + 1 + 4
    assert metrics["record_retry_total"] == 1
    assert metrics["record_error_total"] == 1
    assert metrics["batch_split_total"] == 0
    assert metrics["records_per_request_avg"] == 7 / 4
    assert 1000 < metrics["batch_size_max"] < 1200
    assert metrics["compression_rate_avg"] == 1.0
    assert metrics["request_latency_max"] >= 2000
    assert metrics["connection_count"] == metrics["connection_creation_total"] == 1
    assert metrics["connection_close_total"] == 0
    assert metrics["buffer_available_bytes"] == 100_000
    assert metrics["waiting_senders"] == 0


async def test_the_compression_rate_is_what_was_sent_by_what_was_encoded(brokers: FakeCluster) -> None:
    value = bytes(range(256)) + bytes(256)  # half of it can't be compressed
    async with running(brokers, compression_type="gzip") as producer:
        await producer.send("orders", value)
        rate = producer.metrics()["compression_rate_avg"]
        sent = producer.metrics()["batch_size_avg"]
    encoded = 61 + 1 + len(value) + 8  # a batch's header, and a record's fields beside its value
    assert 0.4 < rate < 0.7
    assert rate == pytest.approx((sent - 61) / (encoded - 61), abs=0.02)


async def test_connections_are_counted(three_brokers: FakeCluster) -> None:
    three_brokers.create_topic("t", partitions=3)
    async with running(three_brokers) as producer:
        for n in range(3):
            await producer.send("t", b"v", partition=n)
        await until(lambda: producer.metrics()["connection_count"] == 3)
        await three_brokers[2].cut()
        await until(lambda: producer.metrics()["connection_close_total"] == 1)
        await producer.send("t", b"v", partition=1)
        metrics = producer.metrics()
        assert (metrics["connection_count"], metrics["connection_creation_total"]) == (3, 4)
    assert producer.metrics()["connection_count"] == 0
    assert producer.metrics()["connection_close_total"] == 4


async def test_waiting_senders_are_counted(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    async with running(brokers, buffer_memory=2000, batch_size=2000, max_request_size=2000) as producer:
        await producer.partitions_for("t")
        hold = brokers.fault(ProduceRequest, hold=True)
        sending = [asyncio.create_task(producer.send("t", b"x" * 1500)) for _ in range(3)]
        await hold.reached.wait()
        await until(lambda: producer.metrics()["waiting_senders"] == 2)
        hold.release()
        await asyncio.gather(*sending)
        assert producer.metrics()["waiting_senders"] == 0


async def test_how_long_the_loop_was_held(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()

    def takes_long(*_: object) -> None:
        clock.offset_s += 3.0

    async with running(brokers, clock=clock) as producer:
        await producer.send("t", b"v")
        assert 0 < producer.metrics()["loop_gap_max"] < 3000
        producer.send_nowait("t", b"v", on_delivery=takes_long)
        await producer.flush()
        await producer.send("t", b"v")
        assert 3000 <= producer.metrics()["loop_gap_max"] < 6000


def config(**options: Any) -> ProducerConfig:
    return ProducerConfig.from_options(bootstrap_servers="h:1", **options)


def test_times_are_in_seconds_and_java_s_defaults_hold() -> None:
    sender = sender_settings(config())
    assert (sender.acks, sender.in_flight_max, sender.max_request_size) == (-1, 5, 1_048_576)
    assert (sender.linger_s, sender.adaptive_linger) == (0.005, True)
    assert (sender.request_timeout_s, sender.request_timeout_ms, sender.delivery_timeout_ms) == (30.0, 30_000, 120_000)
    accumulator = accumulator_settings(config())
    assert (accumulator.batch_size, accumulator.buffer_memory) == (16_384, 33_554_432)
    assert (accumulator.linger_s, accumulator.delivery_timeout_s, accumulator.max_block_s) == (0.005, 120.0, 60.0)
    assert accumulator.availability_timeout_s == 0.0
    assert math.isfinite(accumulator.max_block_s)


@pytest.mark.parametrize(
    ("options", "codec", "level"),
    [
        ({}, Compression.NONE, None),
        ({"compression_type": "snappy"}, Compression.SNAPPY, None),
        ({"compression_type": "gzip", "compression_gzip_level": 3}, Compression.GZIP, 3),
        ({"compression_type": "lz4", "compression_lz4_level": 11}, Compression.LZ4, 11),
        ({"compression_type": "zstd", "compression_zstd_level": -5}, Compression.ZSTD, -5),
    ],
)
def test_codec_and_level(options: dict[str, Any], codec: Compression, level: int | None) -> None:
    sender = sender_settings(config(**options))
    assert (sender.codec, sender.compression_level) == (codec, level)


def test_with_idempotence_a_broker_remembers_all_that_is_in_flight() -> None:
    assert accumulator_settings(config()).partition_in_flight_max == 5
    assert accumulator_settings(config(enable_idempotence=False)).partition_in_flight_max == UNLIMITED
    assert accumulator_settings(config(acks=1)).partition_in_flight_max == UNLIMITED
