"""Certificates, CAs and principals that change under a load of sends: no send fails, and records keep their order."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from aioprod import OAuthToken, Producer
from aioprod.admin import Admin
from aioprod.errors import AioprodError
from aioprod.net.tls.certificates import certificates_in
from aioprod.testing import KafkaCluster, Security
from aioprod.testing.certificates import LOCAL_HOSTS, Authority, Identity
from aioprod.testing.fixtures import running_cluster
from aioprod.testing.security import unsecured_token
from integration.security.alter_broker import alter_broker
from integration.security.secured import Secured
from integration.support.brokers import VERSIONS
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.reading import Stored, read_topic
from tests.support.length import PAUSE_S, by_length

PARTITIONS: Final = 2
LOAD_S: Final = by_length(8, 120)


class Load:
    """Sends to each partition, one record after the other and some at once, for as long as it is wanted."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.producer = producer
        self.topic = topic
        self.sent = [0] * PARTITIONS
        self.longest_s = 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Raises what a send fails with, at the end."""
        wanted = asyncio.Event()
        tasks = [asyncio.create_task(self._send(partition, wanted)) for partition in range(PARTITIONS)]
        try:
            yield
        finally:
            wanted.set()
            await asyncio.gather(*tasks)

    async def _send(self, partition: int, ended: asyncio.Event) -> None:
        while not ended.is_set():
            began = time.perf_counter()
            futures = []
            for _ in range(10):
                futures.append(self.producer.submit(self.topic, b"%d" % self.sent[partition], partition=partition))
                self.sent[partition] += 1
            for future in futures:
                await future
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            await asyncio.sleep(PAUSE_S)

    def check(self, found: list[Stored]) -> None:
        for partition, sent in enumerate(self.sent):
            values = [int(record.value or b"-1") for record in found if record.partition == partition]
            assert values == list(range(sent))


# -- certificates ------------------------------------------------------------------------------------------------------


@pytest.fixture(params=VERSIONS)
def mutual(request: pytest.FixtureRequest) -> Iterator[Secured]:
    """A broker of its own that speaks TLS and wants certificates, since a test changes what it trusts and shows."""
    security = Security(protocol="SSL", client_certificates=True)
    with running_cluster(security=security, version=request.param) as cluster:
        yield Secured(cluster, security)


def theirs(own: Identity, cas: str) -> dict[str, str]:
    """The settings of librdkafka for a client with this certificate."""
    return {
        "security.protocol": "ssl",
        "ssl.ca.pem": cas,
        "ssl.key.pem": own.key,
        "ssl.certificate.pem": own.chain,
    }


def shown(cluster: KafkaCluster, own: Identity, folder: Path) -> bytes:
    """The certificate that the broker shows."""
    (folder / "probe.pem").write_text(own.store)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(folder / "probe.pem")
    host, port = cluster.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), 10) as plain, context.wrap_socket(plain) as wrapped:
        return wrapped.getpeercert(binary_form=True) or b""


@pytest.mark.timeout(180)
async def test_certificates_and_cas_are_replaced_by_an_overlap_under_load(
    mutual: Secured, tmp_path: Path, figures: Figures
) -> None:
    cluster, old, new = mutual.cluster, mutual.security.authority, Authority("the next CA")
    servers = mutual.servers
    alice, bob = old.issue("alice"), new.issue("alice")
    both = old.certificate + new.certificate
    trust, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    trust.write_text(old.certificate)
    own.write_text(alice.store)
    options: dict[str, Any] = {"security_protocol": "SSL"}
    options |= {"ssl_truststore_location": str(trust), "ssl_keystore_location": str(own)}
    async with Admin(cluster.bootstrap_servers, **options) as admin:
        await admin.create_topic("rotated", partitions=PARTITIONS)
    async with Producer(cluster.bootstrap_servers, linger_ms=0, **options) as producer:
        load = Load(producer, "rotated")
        async with load.running():
            # The brokers trust both, then the client does, and changes its own certificate.
            alter = {"truststore.certificates": both}
            await asyncio.to_thread(alter_broker, servers, theirs(alice, old.certificate), 1, alter)
            trust.write_text(both)
            own.write_text(bob.store)
            refused = await reloaded(producer)
            # The broker changes its certificate, and then nobody trusts the old CA any more.
            identity = new.issue("broker", LOCAL_HOSTS)
            alter = {"keystore.key": identity.key, "keystore.certificate.chain": identity.chain}
            await asyncio.to_thread(alter_broker, servers, theirs(bob, both), 1, alter)
            async with asyncio.timeout(60):
                while await asyncio.to_thread(shown, cluster, bob, tmp_path) != certificates_in(identity.chain)[0]:
                    await asyncio.sleep(0.1)
            alter = {"truststore.certificates": new.certificate}
            await asyncio.to_thread(alter_broker, servers, theirs(bob, both), 1, alter)
            trust.write_text(new.certificate)
            refused += await reloaded(producer)
            for _ in range(3):
                await producer.reload_credentials()
        metrics = producer.metrics()
    tls = theirs(bob, new.certificate)
    load.check(await asyncio.to_thread(read_topic, servers, "rotated", "read_uncommitted", tls))
    assert metrics["record_error_total"] == 0
    assert metrics["record_retry_total"] == 0
    # The files are looked at once a minute, too.
    assert metrics["connection_creation_total"] >= 6
    # And one that looks in between may be refused as well.
    assert metrics["failed_authentication_total"] >= refused
    figures.add("records while a CA and both certificates were replaced, by 5 hand-overs", sum(load.sent))
    figures.add("ms for the slowest ten of them", f"{load.longest_s * 1000:.0f}")


async def reloaded(producer: Producer) -> int:
    """Reload until the broker accepts it, which takes up new settings in its own time; how often it did not."""
    async with asyncio.timeout(60):
        for refused in count():
            try:
                await producer.reload_credentials()
            except AioprodError:
                await asyncio.sleep(0.1)
            else:
                return refused
    raise AssertionError


# -- principals --------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(by_length(120, 400))
async def test_a_principal_that_changes_with_each_token(
    secured: Secured, make_topic: MakeTopic, figures: Figures
) -> None:
    topic = await make_topic(secured.cluster, PARTITIONS)
    numbers = count()

    def provider() -> OAuthToken:
        return unsecured_token(f"user-{next(numbers)}", 3.0)

    options = secured.options("alice", "OAUTHBEARER") | {"sasl_token_provider": provider}
    async with Producer(secured.servers, linger_ms=0, **options) as producer:
        load = Load(producer, topic)
        async with load.running():
            await asyncio.sleep(LOAD_S)
        metrics = producer.metrics()
    load.check(await secured.stored(topic))
    assert metrics["record_error_total"] == 0
    assert metrics["connection_creation_total"] > 1
    figures.add(f"records while the principal changed with each token, {LOAD_S} s of load", sum(load.sent))
    figures.add("connections made for that", int(metrics["connection_creation_total"]))
    figures.add("records that were tried again for that", int(metrics["record_retry_total"]))
    figures.add("ms for the slowest ten of them", f"{load.longest_s * 1000:.0f}")
