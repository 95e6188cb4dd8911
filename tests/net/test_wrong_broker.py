"""Addresses that lead to another broker, or to another cluster: the connection is dropped and named (KIP-1242)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod.config import ClientConfig
from aioprod.errors import BrokerError, ErrorCode
from aioprod.messages import ApiVersionsRequest, MetadataRequest
from aioprod.testing import FakeCluster, Security
from tests.support.clients import running_client

NOTHING = MetadataRequest(topics=())


def asked(brokers: FakeCluster, node: int | None = None) -> list[tuple[str | None, int]]:
    """Which broker each connection has expected."""
    return [(one.cluster_id, one.node_id) for one in brokers.seen_of(ApiVersionsRequest, node)]


async def test_known_brokers_are_told_which_one_is_expected() -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, _):
        await client.request(NOTHING, node_id=2)
        assert asked(brokers, 1) == [(None, -1)], "a bootstrap server may be any broker"
        assert asked(brokers, 2) == [("fake-cluster", 2)]


@pytest.mark.parametrize("off", [{"checks_cluster": False}, {"rebootstrap": False}])
async def test_the_check_can_be_turned_off(off: dict[str, Any]) -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address, **off) as (client, _):
        await client.request(NOTHING, node_id=2)
        assert asked(brokers) == [(None, -1)] * 2


async def test_older_brokers_get_no_request_more() -> None:
    async with FakeCluster(2) as brokers:
        for node in (1, 2):
            brokers[node].versions[ApiVersionsRequest] = (0, 4)
        async with running_client(brokers[1].address) as (client, _):
            await client.request(NOTHING, node_id=2)
            assert asked(brokers) == [(None, -1)] * 2


async def test_a_broker_that_is_older_than_the_others_is_asked_once_more() -> None:
    async with FakeCluster(2) as brokers:
        brokers[2].versions[ApiVersionsRequest] = (0, 4)
        async with running_client(brokers[1].address) as (client, _):
            await client.request(NOTHING, node_id=2)
            assert asked(brokers, 2) == [("fake-cluster", 2), (None, -1)]


@pytest.mark.parametrize("other", ["broker", "cluster"])
async def test_a_connection_to_the_wrong_one_is_dropped_and_looked_up_again(
    other: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(2) as brokers, FakeCluster(2) as stranger:
        stranger.state.cluster_id = "theirs"
        right, wrong = brokers[2].address, (brokers if other == "broker" else stranger)[1].address
        brokers.state.nodes[2] = wrong
        async with running_client(brokers[1].address) as (client, listener):
            with pytest.raises(BrokerError) as no:
                await client.request(NOTHING, node_id=2, connects_once=True)
            assert no.value.message == (
                f"Broker 2 at {wrong[0]}:{wrong[1]} is not broker 2 of cluster 'fake-cluster': the address leads to "
                "another broker, or to another cluster."
            )
            assert no.value.code == ErrorCode.REBOOTSTRAP_REQUIRED
            waiting = asyncio.ensure_future(client.request(NOTHING, node_id=2))
            await listener.seen("lost", 2, times=3)
            brokers.state.nodes[2] = right
            async with asyncio.timeout(10):
                assert (await waiting).cluster_id == "fake-cluster"
            assert ("lost", 1) not in listener.events, "other connections go on"
        assert caplog.text.count("A connection was dropped: Broker 2 at") == 1
        assert {type(one.message) for one in stranger.seen} <= {ApiVersionsRequest}


async def test_ids_are_compared_after_the_log_in() -> None:
    """Brokers with SASL answer each ApiVersions request before it, whatever it expects."""
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])
    config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **wanted.client_options())
    async with FakeCluster(2, security=wanted) as brokers:
        right, brokers.state.nodes[2] = brokers[2].address, brokers[1].address
        async with running_client(brokers[1].address, security=config) as (client, _):
            with pytest.raises(BrokerError, match="is not broker 2 of cluster 'fake-cluster'"):
                await client.request(NOTHING, node_id=2, connects_once=True)
            brokers.state.nodes[2] = right
            async with asyncio.timeout(10):
                assert (await client.request(NOTHING, node_id=2)).cluster_id == "fake-cluster"
            assert asked(brokers, 2) == [("fake-cluster", 2)] * 2


async def test_an_older_broker_with_a_log_in_gets_no_request_more() -> None:
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])
    config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **wanted.client_options())
    async with FakeCluster(2, security=wanted) as brokers:
        for node in (1, 2):
            brokers[node].versions[ApiVersionsRequest] = (0, 4)
        async with running_client(brokers[1].address, security=config) as (client, _):
            await client.request(NOTHING, node_id=2)
            assert asked(brokers) == [(None, -1)] * 2


async def test_a_cluster_that_takes_the_place_of_another_is_found_by_the_same_address(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeCluster(1) as old:
        port = old[1].port
        async with running_client(old[1].address) as (client, _):
            await client.request(NOTHING, node_id=1)
            await old[1].kill()
            async with FakeCluster(1, port=port) as new:
                new.state.cluster_id = "new"
                async with asyncio.timeout(10):
                    while client.metadata.cluster_id != "new":
                        await asyncio.sleep(0.001)
                    assert (await client.request(NOTHING, node_id=1)).cluster_id == "new"
                assert ("fake-cluster", 1) in asked(new)
                assert ("new", 1) in asked(new)
    assert "is of cluster 'new', where 'fake-cluster' was: the client continues with it" in caplog.text


async def test_an_error_that_was_not_asked_for_is_one_like_others() -> None:
    async with FakeCluster() as brokers:
        brokers.fault(ApiVersionsRequest, error=ErrorCode.REBOOTSTRAP_REQUIRED)
        async with running_client(brokers[1].address) as (client, _):
            assert (await client.request(NOTHING)).cluster_id == "fake-cluster"
