"""Limits that hold while the cluster fails: memory, deadlines, `close(timeout)`; and what `flush()` waits for."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import (
    BufferFullError,
    DeliveryError,
    FlushTimeoutError,
    MetadataTimeoutError,
    NotSentError,
    UnknownOutcomeError,
)
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic, dead, frozen
from integration.support.figures import Figures
from integration.support.reading import stored

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).parent.parent
MB = 1_000_000


# --- all brokers down


@pytest.mark.parametrize("start", ["known", "parked"])
async def test_memory_and_close_when_all_brokers_are_down(
    mortal_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures, start: str
) -> None:
    told = await outage(mortal_cluster, await make_topic(mortal_cluster, 8), start)
    limit = told["buffer_memory"]
    assert limit == 32 * 1024 * 1024
    assert 0.9 * limit < told["buffered_bytes"] <= limit
    figures.add(f"MB grown with all brokers down, topic {start}", f"{told['growth'] / MB:.1f}")
    figures.add(f"MB grown with all brokers down and close(2), topic {start}", f"{told['growth_after_close'] / MB:.1f}")
    figures.add(f"s for close(2) with all brokers down, topic {start}", f"{told['close_s']:.3f}")
    assert told["growth"] <= told["growth_after_close"] <= limit * 1.2 + 30 * MB
    # The timeout of close() ended it, 2 s, and not that of deliveries, 120 s: how busy the machine is decides nothing.
    assert 1 < told["close_s"] < 60
    assert told["delivered"] + told["not_sent"] + told["unknown"] + told["rejected"] == told["accepted"]
    assert told["not_sent"] == told["buffered_records"] == told["undelivered"]
    assert told["on_error"] == {"NotSentError": told["not_sent"]}
    assert told["left"] == [0, 0]
    assert told["send_errors"] == ["ProducerClosedError"]


async def outage(cluster: KafkaCluster, topic: str, start: str) -> dict[str, Any]:
    """What the program in `support/outage.py` says of itself, once the brokers were killed beneath it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ROOT / "integration/support/outage.py"),
        cluster.bootstrap_servers,
        topic,
        start,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        async with dead(cluster, 1):
            process.stdin.write(b"\n")
            last_words, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0
    told: dict[str, Any] = json.loads(last_words)
    return told


async def test_what_waits_is_told_why_when_the_brokers_are_gone(
    mortal_cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = await make_topic(mortal_cluster)
    servers = mortal_cluster.bootstrap_servers
    async with Producer(servers, buffer_memory=50_000, max_block_ms=1000) as producer:
        await producer.send(topic, b"delivered")
        async with dead(mortal_cluster, 1):
            futures = [producer.submit(topic, b"x" * 1000) for _ in range(49)]
            with pytest.raises(BufferFullError, match=r"buffer\.memory=50000 is used up"):
                producer.submit(topic, b"x" * 1000)
            with pytest.raises(BufferFullError, match="stayed full for 1 s"):
                await producer.send(topic, b"x" * 1000)
            with pytest.raises(FlushTimeoutError, match=f"{len(futures)} records"):
                await producer.flush(0.1)
            with pytest.raises(MetadataTimeoutError, match=r"max\.block\.ms=1000"):
                await producer.partitions_for("another-topic")
            assert producer.buffered.records == len(futures)
        await producer.flush()
        assert [future.exception() for future in futures] == [None] * len(futures)
    assert len(await stored(mortal_cluster, topic)) == 1 + len(futures)


# --- deadlines


async def test_what_was_never_sent_expires_as_not_sent(mortal_cluster: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(mortal_cluster)
    options = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "linger_ms": 0}
    async with Producer(mortal_cluster.bootstrap_servers, **options) as producer:  # type: ignore[arg-type]
        await producer.send(topic, b"delivered")
        async with dead(mortal_cluster, 1):
            future = producer.submit(topic, b"never sent")
            with pytest.raises(NotSentError) as failure:
                await producer.send(topic, b"never sent")
            assert isinstance(future.exception(), NotSentError)
            error = failure.value
            assert (error.topic, error.partition, error.attempts, error.code) == (topic, 0, 0, None)
            assert error.age_s >= 1.5
            assert "delivery.timeout.ms=1500" in str(error)
            assert "Broker 1" in str(error)
        assert (await producer.send(topic, b"afterwards")).offset == 1
        report = await producer.close()
    assert (report.delivered, report.not_sent, report.unknown, report.rejected) == (2, 2, 0, 0)
    assert [record.value for record in await stored(mortal_cluster, topic)] == [b"delivered", b"afterwards"]


async def test_what_was_sent_without_an_answer_has_an_unknown_outcome(
    mortal_cluster: KafkaCluster, make_topic: MakeTopic
) -> None:
    topic = await make_topic(mortal_cluster)
    options = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "linger_ms": 0}
    async with Producer(mortal_cluster.bootstrap_servers, **options) as producer:  # type: ignore[arg-type]
        await producer.send(topic, b"delivered")
        async with frozen(mortal_cluster, 1):
            sent = [producer.submit(topic, b"sent %d" % number) for number in range(3)]
            with pytest.raises(UnknownOutcomeError) as failure:
                await sent[0]
            held = producer.submit(topic, b"behind them")
            with pytest.raises(DeliveryError):
                await held
        assert failure.value.attempts >= 1
        assert failure.value.broker == 1
        assert "duplicates" in str(failure.value)
        assert [type(future.exception()) for future in sent] == [UnknownOutcomeError] * 3
        await producer.send(topic, b"afterwards")
        report = await producer.close()
    assert (report.delivered, report.unknown + report.not_sent, report.rejected) == (2, 4, 0)
    values = [record.value for record in await stored(mortal_cluster, topic)]
    assert values[0] == b"delivered"
    assert values.count(b"afterwards") == 1
    assert isinstance(held.exception(), NotSentError) <= (b"behind them" not in values)


@pytest.mark.parametrize("timeout", [0, 0.5])
async def test_close_in_time_with_a_frozen_broker(
    mortal_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures, timeout: float
) -> None:
    topic = await make_topic(mortal_cluster, 2)
    producer = Producer(mortal_cluster.bootstrap_servers)
    await producer.start()
    await producer.send_many(topic, [b"delivered"] * 10, partition=0)
    async with frozen(mortal_cluster, 1):
        futures = [producer.submit(topic, b"%d" % number * 200, partition=number % 2) for number in range(1000)]
        await asyncio.sleep(0.05)
        started = time.perf_counter()
        report = await producer.close(timeout)
        elapsed_s = time.perf_counter() - started
    figures.add(f"s for close({timeout}) with a frozen broker", f"{elapsed_s:.3f}")
    assert elapsed_s < timeout + 5
    assert report.delivered == 10
    assert report.not_sent + report.unknown == 1000 == len(report.undelivered)
    assert report.unknown > 0
    assert report.rejected == 0
    assert all(isinstance(future.exception(), (NotSentError, UnknownOutcomeError)) for future in futures)
    not_sent = {future.exception() for future in futures if isinstance(future.exception(), NotSentError)}
    assert len(not_sent) == report.not_sent
    values = {record.value for record in await stored(mortal_cluster, topic)}
    assert not values & {b"%d" % n * 200 for n, f in enumerate(futures) if f.exception() in not_sent}


# --- flush


@pytest.mark.parametrize("adaptive", [True, False])
async def test_flush_cuts_the_linger(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures, adaptive: bool
) -> None:
    topic = await make_topic(kafka_cluster, 3)
    times: list[float] = []
    async with Producer(kafka_cluster.bootstrap_servers, linger_ms=3000, adaptive_linger=adaptive) as producer:
        for number in range(30):
            futures = [producer.submit(topic, b"value", partition=partition) for partition in range(3)]
            started = time.perf_counter()
            await producer.flush()
            times.append(time.perf_counter() - started)
            assert [future.result().offset for future in futures] == [number] * 3
        started = time.perf_counter()
        await producer.flush()
        empty_s = time.perf_counter() - started
        many = asyncio.create_task(producer.send_many(topic, [b"value"] * 10, partition=0))
        while producer.buffered.records < 10 and not many.done():
            await asyncio.sleep(0)
        await producer.flush()
        assert (await many).offsets == {TopicPartition(topic, 0): (range(30, 40),)}
    linger = "adaptive" if adaptive else "fixed"
    figures.add(f"ms for flush(), linger.ms=3000 {linger}: median of 30", f"{statistics.median(times) * 1000:.2f}")
    figures.add(f"ms for flush(), linger.ms=3000 {linger}: the first, of a new topic", f"{times[0] * 1000:.2f}")
    # 50 ms are promised; whoever lingers needs 3 s.
    assert statistics.median(times) < 1
    assert max(times) < 2.5
    assert empty_s < 1
