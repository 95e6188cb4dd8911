"""Brokers that freeze, a cluster that moves: metadata finds its way (KIP-899, KIP-1102), and records follow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import ErrorCode, MetadataTimeoutError
from aioprod.messages import MetadataRequest, MetadataResponse
from aioprod.net.metadata_refresh import HEDGE_S
from aioprod.testing import FakeCluster
from tests.support.producers import ShiftedClock, pass_time, running, turns, until
from tests.support.simulated import in_simulated_time

PATIENT: dict[str, Any] = {"request_timeout_ms": 600_000, "delivery_timeout_ms": 700_000, "max_block_ms": 600_000}
"""Nothing times out within a test."""


async def test_a_new_topic_does_not_wait_for_a_frozen_broker(three_brokers: FakeCluster) -> None:
    brokers = three_brokers
    brokers.create_topic("t", partitions=3)
    clock = ShiftedClock()
    async with running(brokers, clock=clock, **PATIENT) as producer:
        await producer.partitions_for("t")
        new = brokers.create_topic("new")
        frozen = brokers.fault(MetadataRequest, hold=True)
        waiting = producer.submit("new", b"v")
        await frozen.reached.wait()
        new.partitions[0].leader = 1 + brokers.seen[-1].node % 3
        pass_time(producer, clock, HEDGE_S + 0.1)
        async with asyncio.timeout(10):
            assert (await waiting).offset == 0
        frozen.release()


async def sends_to(producer: Producer, brokers: FakeCluster, value: bytes) -> bool:
    """Whether a record arrives there."""
    async with asyncio.timeout(10):
        await producer.send("t", value)
    return brokers.state.topics["t"].records()[-1].value == value


@pytest.mark.parametrize("told", [True, False], ids=["error 129", "all gone"])
async def test_a_cluster_that_moved_is_found_by_its_bootstrap_servers(told: bool) -> None:
    async with FakeCluster(1) as gateway, FakeCluster(1) as old, FakeCluster(1) as new:
        for brokers in (gateway, old, new):
            brokers.create_topic("t")
        clock = ShiftedClock()
        gateway.state.nodes[1] = old[1].address
        async with running(gateway, clock=clock, metadata_max_age_ms=1000) as producer:
            assert await sends_to(producer, old, b"0")
            gateway.state.nodes[1] = new[1].address
            gateway.state.topics["t"].id = new.state.topics["t"].id = old.state.topics["t"].id
            if told:
                answer = MetadataResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED)
                required = old.fault(MetadataRequest, edit=lambda _: answer)
                pass_time(producer, clock, 2.0)
                await required.reached.wait()
                await until(lambda: len(new.seen) > 0 or producer.metrics()["connection_close_total"] > 0)
            else:
                await old[1].kill(stay_in_metadata=True)
            assert await sends_to(producer, new, b"1")


@in_simulated_time
async def test_without_rebootstrap_the_known_brokers_are_waited_for() -> None:
    async with FakeCluster(1) as gateway, FakeCluster(1) as old:
        for brokers in (gateway, old):
            brokers.create_topic("t")
        gateway.state.nodes[1] = old[1].address
        async with running(gateway, metadata_recovery_strategy="none", max_block_ms=200) as producer:
            assert await sends_to(producer, old, b"0")
            asked = len(gateway.seen)
            await old[1].kill(stay_in_metadata=True)
            waiting = producer.submit("t", b"1")
            with pytest.raises(MetadataTimeoutError):
                await producer.partitions_for("another")
            await turns()
            assert len(gateway.seen) == asked
            await old[1].start()
            async with asyncio.timeout(10):
                assert (await waiting).offset == 1
