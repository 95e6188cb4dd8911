"""Brokers that die, freeze and restart under load, and networks that cut, stall and slow down connections."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import FlushTimeoutError
from aioprod.testing import KafkaCluster, TcpProxy
from integration.support.clusters import MakeTopic, dead, frozen
from integration.support.figures import Figures
from integration.support.load import Load, Verdict
from integration.support.peers import black_hole, closed_port
from integration.support.reading import stored

pytestmark = pytest.mark.timeout(400)


@asynccontextmanager
async def loaded(cluster: KafkaCluster, topic: str, **options: Any) -> AsyncIterator[tuple[Producer, Load]]:
    """A producer that is under load as long as the block lasts."""
    load = Load(topic)
    producer = Producer(cluster.bootstrap_servers, interceptors=[load], **options)
    async with producer, load.running(producer):
        await load.more(100)
        yield producer, load


async def check_judgement(
    cluster: KafkaCluster,
    load: Load,
    topic: str,
    figures: Figures,
    what: str,
    *,
    idempotent: bool = True,
    may_be_forgotten: bool = False,
) -> Verdict:
    """The verdict over a load that has ended; nothing may have failed, and what `idempotent` promises must hold.

    `may_be_forgotten`: nothing may have failed but what the broker stored and did not know again when it was back.
    """
    verdict = load.judge(await stored(cluster, topic))
    figures.add(f"records delivered, {what}", verdict.delivered)
    figures.add(f"duplicates, {what}", verdict.duplicates)
    if idempotent:
        assert verdict.duplicates == 0, verdict
    else:
        # Of two batches on their way the second may be stored, and the first with its second attempt.
        verdict = replace(verdict, out_of_order=0)
    assert verdict.flawless, verdict
    assert verdict.failed == (verdict.forgotten if may_be_forgotten else 0), load.errors[0]
    return verdict


# --- three brokers


@pytest.mark.cluster
async def test_a_frozen_broker_stops_nobody_else(
    kafka_cluster_3: KafkaCluster, make_topic: MakeTopic, figures: Figures
) -> None:
    topic = await make_topic(kafka_cluster_3, 6, 1)
    async with Producer(kafka_cluster_3.bootstrap_servers) as producer:
        leaders = {info.partition: info.leader for info in await producer.partitions_for(topic)}
        for partition in leaders:
            await producer.send(topic, b"warm", partition=partition)
        victim = max(kafka_cluster_3.broker_ids)
        stuck = [index for index, leader in leaders.items() if leader is not None and leader.id == victim]
        healthy = [index for index in leaders if index not in stuck]
        assert stuck
        assert healthy
        async with frozen(kafka_cluster_3, victim):
            waiting = [producer.submit(topic, b"stuck", partition=stuck[0])]
            latencies: list[float] = []
            for number in range(300):
                waiting.append(producer.submit(topic, b"stuck", partition=stuck[number % len(stuck)]))
                started = time.perf_counter()
                await producer.send(topic, b"healthy", partition=healthy[number % len(healthy)])
                latencies.append(time.perf_counter() - started)
                # Longer than the cluster takes to declare the frozen one dead: its partitions have no leader then.
                await asyncio.sleep(0.02)
            assert [future for future in waiting if future.done()] == []
        async with asyncio.timeout(120):
            await producer.flush()
        assert [future.exception() for future in waiting] == [None] * 301
    figures.add("ms for a send beside a frozen broker, p50", f"{statistics.median(latencies) * 1000:.2f}")
    figures.add("ms for a send beside a frozen broker, max", f"{max(latencies) * 1000:.2f}")
    # Waiting for the frozen one would take a request timeout, 30 s.
    assert max(latencies) < 10
    values = [record.value for record in await stored(kafka_cluster_3, topic)]
    assert values.count(b"healthy") == 300
    assert values.count(b"stuck") == 301


async def test_dead_bootstrap_addresses_cost_nothing(
    kafka_cluster: KafkaCluster, kafka_topic: str, figures: Figures
) -> None:
    """To be refused, or never answered: whoever awaited the dead one would need a connection timeout, 10 s or more."""
    living = kafka_cluster.bootstrap_servers
    with black_hole() as silent:
        for name, others in {"none": [], "refusing": [closed_port(), closed_port()], "silent": [silent]}.items():
            first_s, next_s = [], []
            for attempt in range(6):
                servers = [*others, living]
                random.Random(attempt).shuffle(servers)
                started = time.perf_counter()
                async with Producer(servers) as producer:
                    await producer.send(kafka_topic, b"first")
                    first_s.append(time.perf_counter() - started)
                    for _ in range(100):
                        started = time.perf_counter()
                        await producer.send(kafka_topic, b"next")
                        next_s.append(time.perf_counter() - started)
            figures.add(
                f"ms from start() to the first acknowledgement, max of 6, dead addresses: {name}",
                f"{max(first_s) * 1000:.1f}",
            )
            figures.add(
                f"ms for a send after that, p50 of 600, dead addresses: {name}",
                f"{statistics.median(next_s) * 1000:.3f}",
            )
            assert max(first_s) < 5


# --- one broker


async def test_the_only_broker_killed_and_back(
    mortal_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures
) -> None:
    topic = await make_topic(mortal_cluster, 3)
    async with loaded(mortal_cluster, topic) as (_, load):
        for _ in range(2):
            async with dead(mortal_cluster, 1):
                await asyncio.sleep(2)
            await load.more(200)
    what = "the only broker killed twice"
    verdict = await check_judgement(mortal_cluster, load, topic, figures, what, may_be_forgotten=True)
    figures.add(f"records stored and told as unknown, {what}", verdict.forgotten)


# --- the network


@pytest.fixture
def proxy(proxied_cluster: KafkaCluster) -> Any:
    """The proxy before the broker of `proxied_cluster`, without faults; without them again after the test."""
    proxy = proxied_cluster.proxies[1]
    yield proxy
    proxy.drop = False
    proxy.delay_s = 0.0
    proxy.throttle_bytes_per_s = None
    proxy.to_client.cut_after_bytes = proxy.to_target.cut_after_bytes = None


@pytest.mark.parametrize("idempotent", [True, False])
async def test_connections_cut_mid_flight(
    proxied_cluster: KafkaCluster,
    make_topic: MakeTopic,
    proxy: TcpProxy,
    figures: Figures,
    idempotent: bool,
) -> None:
    topic = await make_topic(proxied_cluster, 3)
    source = random.Random(3)
    async with loaded(proxied_cluster, topic, enable_idempotence=idempotent) as (_, load):
        for _ in range(15):
            proxy.cut()
            await asyncio.sleep(0.05)
        await load.more(100)
        for _ in range(15):
            direction = source.choice((proxy.to_client, proxy.to_target))
            direction.cut_after_bytes = source.randint(1, 3000)
            async with asyncio.timeout(30):
                while direction.cut_after_bytes is not None:
                    await asyncio.sleep(0.01)
        await load.more(100)
    what = f"connections cut 30 times, {'with' if idempotent else 'without'} idempotence"
    await check_judgement(proxied_cluster, load, topic, figures, what, idempotent=idempotent)


async def test_latency_of_200_ms(
    proxied_cluster: KafkaCluster, make_topic: MakeTopic, proxy: TcpProxy, figures: Figures
) -> None:
    topic = await make_topic(proxied_cluster, 3)
    async with loaded(proxied_cluster, topic) as (producer, load):
        proxy.delay_s = 0.1
        await load.more(300)
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(producer.send(topic, b"0 " + b"." * 100, key=b"extra %d" % number))
        elapsed_s = time.perf_counter() - started
    figures.add("s for 100 concurrent sends at 200 ms round trip", f"{elapsed_s:.2f}")
    # One after the other they would take 20 s.
    assert elapsed_s < 10
    verdict = load.judge(await stored(proxied_cluster, topic))
    assert (verdict.never_accepted, verdict.outcomes_repeated) == (100, 100)
    assert (verdict.delivered, verdict.duplicates, verdict.out_of_order) == (verdict.accepted, 0, 0)


async def test_a_black_hole_ends_with_the_request_timeout(
    proxied_cluster: KafkaCluster, make_topic: MakeTopic, proxy: TcpProxy, figures: Figures
) -> None:
    topic = await make_topic(proxied_cluster, 3)
    async with loaded(proxied_cluster, topic, request_timeout_ms=1000) as (producer, load):
        proxy.drop = True
        await asyncio.sleep(0.3)
        with pytest.raises(FlushTimeoutError) as failure:
            await producer.flush(0.2)
        assert 0 < failure.value.remaining <= producer.buffered.records
        await asyncio.sleep(3)
        proxy.drop = False
        await load.more(200)
        metrics = producer.metrics()
    assert metrics["connection_close_total"] >= 1
    assert metrics["record_retry_total"] >= 1
    await check_judgement(proxied_cluster, load, topic, figures, "nothing passes for 3.5 s, request timeout 1 s")


async def test_a_crawling_network_holds_back_the_sender(
    proxied_cluster: KafkaCluster, make_topic: MakeTopic, proxy: TcpProxy
) -> None:
    topic = await make_topic(proxied_cluster, 3)
    proxy.throttle_bytes_per_s = 300_000
    async with Producer(proxied_cluster.bootstrap_servers, buffer_memory=200_000) as producer:
        result = await producer.send_many(topic, [b"%04d" % number + b"." * 1000 for number in range(600)])
        assert producer.buffered == (0, 0)
    assert result.failures == ()
    assert sorted(record.value or b"" for record in await stored(proxied_cluster, topic)) == [
        b"%04d" % number + b"." * 1000 for number in range(600)
    ]


async def test_an_idle_connection_closes_and_comes_back(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    async with Producer(kafka_cluster.bootstrap_servers, connections_max_idle_ms=200) as producer:
        assert (await producer.send(kafka_topic, b"value")).offset == 0
        async with asyncio.timeout(40):
            while producer.metrics()["connection_close_total"] == 0:
                await asyncio.sleep(0.05)
        assert (await producer.send(kafka_topic, b"value")).offset == 1
