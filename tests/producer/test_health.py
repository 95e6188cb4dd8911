"""What a producer says of its health."""

from __future__ import annotations

import asyncio

import pytest

from aioprod import Producer
from aioprod.errors import ProducerFencedError
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster


async def test_through_its_life() -> None:
    async with FakeCluster() as brokers:
        producer = Producer(brokers.bootstrap)
        new = producer.health()
        assert (new.state, new.connected, new.is_alive, new.is_ready()) == ("new", (), True, False)
        async with producer:
            await producer.send("orders", b"x")
            health = producer.health()
            assert (health.state, health.records, health.oldest_age_s, health.error) == ("running", 0, 0.0, None)
            assert health.connected
            assert health.away == {}
            assert health.is_alive
            assert health.is_ready()
        closed = producer.health()
        assert (closed.state, closed.is_alive, closed.is_ready()) == ("closed", True, False)


async def test_a_record_that_does_not_move() -> None:
    async with FakeCluster() as brokers, Producer(brokers.bootstrap) as producer:
        await producer.send("orders", b"x")
        held = brokers.fault(ProduceRequest, hold=True)
        future = producer.submit("orders", b"x" * 100)
        async with asyncio.timeout(30):
            await held.reached.wait()
        health = producer.health()
        assert health.records == 1
        assert health.buffer_used >= 100
        assert health.oldest_age_s > 0.0
        assert health.is_ready(age_max_s=600)
        assert not health.is_ready(age_max_s=0)
        assert not health.is_ready(age_max_s=600, buffer_share_max=0.0)
        held.release()
        await future
        assert producer.health().oldest_age_s == 0.0


async def test_a_cluster_that_is_gone() -> None:
    brokers = FakeCluster(brokers=1)
    async with brokers:
        producer = Producer(brokers.bootstrap, close_timeout_ms=0)
        await producer.start()
        await producer.send("orders", b"x")
        address = brokers.bootstrap
    producer.send_nowait("orders", b"y", on_delivery=lambda metadata, error: None)
    async with asyncio.timeout(30):
        while not (health := producer.health()).away:
            await asyncio.sleep(0)
    assert health.connected == ()
    assert set(health.away) == {1}
    assert address in health.away[1]
    assert health.is_alive
    assert not health.is_ready()
    await producer.close()


async def test_a_fenced_producer_is_not_alive() -> None:
    async with FakeCluster() as brokers:
        old = Producer(brokers.bootstrap, transactional_id="t")
        await old.start()
        async with Producer(brokers.bootstrap, transactional_id="t"):
            with pytest.raises(ProducerFencedError):
                async with old.transaction():
                    await old.send("orders", b"x")
        health = old.health()
        assert health.state == "failed"
        assert isinstance(health.error, ProducerFencedError)
        assert not health.is_alive
        assert not health.is_ready()
        await old.close()


async def test_a_bug_is_not_survived() -> None:
    async with FakeCluster() as brokers:
        producer = Producer(brokers.bootstrap)
        await producer.start()
        producer._engine.fail(ZeroDivisionError("on purpose"))
        assert isinstance(producer.health().error, ZeroDivisionError)
        assert producer.health().state == "failed"
        await producer.close()
