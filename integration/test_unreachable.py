"""Addresses without a server, or with another server than Kafka: the error has the address and the cause."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import AioprodError, MetadataTimeoutError, ProtocolError, UsageError
from aioprod.testing import FakeCluster, KafkaCluster, Security
from aioprod.testing.fixtures import running_cluster
from integration.support.peers import TLS_ALERT, answering, black_hole, closed_port, tls_server


async def start_error(servers: list[str], max_block_ms: int = 1500) -> tuple[AioprodError, float]:
    """What `start()` raises, and after how many seconds."""
    producer = Producer(servers, max_block_ms=max_block_ms)
    started = time.perf_counter()
    with pytest.raises(AioprodError) as failure:
        await producer.start()
    elapsed_s = time.perf_counter() - started
    with pytest.raises(UsageError):
        producer.submit("topic", b"lost")
    await producer.close()
    return failure.value, elapsed_s


async def test_an_unreachable_cluster() -> None:
    refused, unknown = closed_port(), f"{'x' * 70}.invalid:9092"
    with black_hole() as silent:
        error, elapsed_s = await start_error([refused, silent, unknown])
    assert isinstance(error, MetadataTimeoutError)
    assert isinstance(error, TimeoutError)
    assert 1.4 < elapsed_s < 10
    for address in (refused, silent, "x" * 70):
        assert address in str(error)
    assert re.search("refused|Connect call failed", str(error))
    assert "has not answered" in str(error)
    assert error.message.endswith(".")


async def check_another_cluster(
    real: KafkaCluster, gateway: FakeCluster, log: pytest.LogCaptureFixture, **login: Any
) -> None:
    """The gateway gives the address of a real broker, which is in its own cluster, for one of its brokers."""
    host, _, port = real.bootstrap_servers.rpartition(":")
    gateway.create_topic("t", 2)
    right, gateway.state.nodes[2] = gateway[2].address, (host, int(port))
    index = [one.leader for one in gateway.topics["t"].partitions].index(2)
    async with Producer(gateway.bootstrap, **login) as producer:
        sent = producer.submit("t", b"v", partition=index)
        async with asyncio.timeout(30):
            while "A connection was dropped" not in log.text:
                await asyncio.sleep(0.01)
        gateway.state.nodes[2] = right
        assert (await sent).offset == 0
    assert f"Broker 2 at {host}:{port} is not broker 2 of cluster 'fake-cluster': the address leads to" in log.text


async def test_a_broker_of_another_cluster_is_named(
    kafka_cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeCluster(2) as gateway:
        await check_another_cluster(kafka_cluster, gateway, caplog)
        assert len(gateway.records("t")) == 1


async def test_a_broker_of_another_cluster_is_named_after_the_log_in(caplog: pytest.LogCaptureFixture) -> None:
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])
    with running_cluster(security=wanted) as real:
        async with FakeCluster(2, security=wanted) as gateway:
            await check_another_cluster(real, gateway, caplog, **wanted.client_options())
            assert len(gateway.records("t")) == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "HTTP server"),
        (TLS_ALERT, "speaks TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "frame of 1397966893 bytes"),
        (b"\0\0\0\x0a\0\0\0\0nonsense", "."),
    ],
)
async def test_a_peer_that_is_no_broker(answer: bytes, told: str) -> None:
    with answering(answer) as address:
        error, elapsed_s = await start_error([address], max_block_ms=60_000)
    assert isinstance(error, ProtocolError)
    assert address in str(error)
    assert told in str(error)
    assert elapsed_s < 30


@pytest.fixture
def tls_cluster() -> Iterator[KafkaCluster]:
    """A broker whose clients have to speak TLS."""
    with running_cluster(security=Security(protocol="SSL")) as cluster:
        yield cluster


async def test_the_tls_port_of_a_broker_is_told_as_such(tls_cluster: KafkaCluster) -> None:
    error, elapsed_s = await start_error([tls_cluster.bootstrap_servers], max_block_ms=60_000)
    assert isinstance(error, ProtocolError)
    assert tls_cluster.bootstrap_servers in str(error)
    assert "speaks TLS" in str(error)
    assert elapsed_s < 30


async def test_a_tls_server_that_just_hangs_up_is_guessed() -> None:
    """OpenSSL sends no alert to somebody who does not begin with a TLS record."""
    with tls_server() as address:
        error, _ = await start_error([address])
    assert isinstance(error, MetadataTimeoutError)
    assert address in str(error)
    assert "TLS" in str(error)


async def test_a_peer_that_hangs_up() -> None:
    with answering(b"") as address:
        error, _ = await start_error([address])
    assert isinstance(error, MetadataTimeoutError)
    assert address in str(error)
    assert "closed" in str(error)


async def test_one_broker_among_impostors_is_enough(kafka_cluster: KafkaCluster, kafka_topic: str) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as http, answering(TLS_ALERT) as tls:
        servers = [http, tls, closed_port(), *kafka_cluster.bootstrap_servers.split(",")]
        async with Producer(servers) as producer:
            assert (await producer.send(kafka_topic, b"value")).offset == 0
