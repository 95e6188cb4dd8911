"""For how long the round trip holds records back, in metrics()."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aioprod import Producer
from aioprod.metrics import Family
from aioprod.testing import FakeCluster
from tests.support.accumulators import Harness
from tests.support.simulated import far_away

ROUND_TRIP_S = 0.25


def play(scene: Callable[[Producer], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Play a scene with a producer of two brokers, each of which leads a partition."""

    async def after_a_record_of_each(_: FakeCluster, producer: Producer) -> None:
        await producer.send("t", b"first", partition=0)
        await producer.send("t", b"first", partition=1)
        await scene(producer)

    far_away(after_a_record_of_each, ROUND_TRIP_S, brokers=2, partitions=2, **options)


def seconds(families: list[Family], name: str) -> dict[str, float]:
    (points,) = [family.points for family in families if family.name == name]
    return {point.labels["node_id"]: float(point.value) for point in points}  # type: ignore[arg-type]


async def load(producer: Producer, values: int, pause_s: float) -> None:
    for _ in range(values):
        producer.send_nowait("t", b"x" * 1000, partition=0)
        await asyncio.sleep(pause_s)
    await producer.flush()


def test_a_partition_that_has_more_to_send_than_its_places_take() -> None:
    async def scene(producer: Producer) -> None:
        await load(producer, 4000, 0.001)
        assert producer.metrics()["in_flight_full_ratio"] > 0.6
        families = producer.metric_families()
        full = seconds(families, "node_in_flight_full_seconds_total")
        in_flight = seconds(families, "node_in_flight_seconds_total")
        assert sorted(full.values())[:2] == [0.0, 0.0], "the bootstrap server, and the broker that is idle"
        assert 3.0 < max(full.values()) < max(in_flight.values()) < 4.0 + 3 * ROUND_TRIP_S

    play(scene)


def test_records_that_all_find_a_place() -> None:
    async def scene(producer: Producer) -> None:
        await load(producer, 40, ROUND_TRIP_S / 3)
        assert producer.metrics()["in_flight_full_ratio"] == 0.0
        assert max(seconds(producer.metric_families(), "node_in_flight_seconds_total").values()) > 3.0

    play(scene)


def test_places_that_are_taken_while_nothing_waits_do_not_count() -> None:
    async def scene(producer: Producer) -> None:
        for _ in range(20):
            await producer.send("t", b"alone", partition=0)
        assert producer.metrics()["in_flight_full_ratio"] == 0.0

    play(scene, max_in_flight_requests_per_connection=1)


def test_the_time_begins_with_the_batch_that_waits() -> None:
    harness = Harness(in_flight_max=1)
    harness.lead({0: 1})
    queue = harness.accumulator.queue(1)
    harness.batch(b"sent", now=10.0)
    sent = harness.drain(now=10.0)
    queue.left(10.0, 1)
    harness.batch(b"waits", now=13.0)
    queue.landed(sent, 14.0, 1)
    assert queue.full_s == pytest.approx(1.0)
    assert queue.in_flight_s == pytest.approx(4.0)
    assert queue.in_flight == 0


def test_a_batch_that_waited_before_waits_for_a_place_since_the_last_one_was_taken() -> None:
    harness = Harness(in_flight_max=5)
    harness.lead({0: 1, 1: 1})
    queue = harness.accumulator.queue(1)
    harness.batch(b"sent", now=10.0)
    harness.batch(b"waits", partition=1, now=10.0)
    sent = harness.drain(now=12.0, size_max=1)
    assert [batch.partition.index for batch in sent] == [0]
    queue.left(12.0, 1)
    queue.landed(sent, 14.0, 1)
    assert queue.full_s == pytest.approx(2.0), "it is in the list of its broker"
