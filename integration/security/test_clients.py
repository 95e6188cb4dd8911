"""Every client, and every mechanism, with a broker that requires TLS and a log-in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import uvloop

from aioprod import Producer, ProducerConfig, TransactionSession
from aioprod.admin import Admin
from aioprod.group import Member
from aioprod.reader import read
from aioprod.testing.security import MECHANISMS
from integration.security.secured import Secured
from integration.support.clusters import MakeTopic

pytestmark = pytest.mark.timeout(120)


def values(records: Any) -> list[bytes]:
    return sorted(record.value for record in records)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_each_mechanism(secured: Secured, make_topic: MakeTopic, mechanism: str) -> None:
    topic = await make_topic(secured.cluster, 3)
    async with Producer(secured.servers, **secured.options("alice", mechanism)) as producer:
        for number in range(20):
            await producer.send(topic, b"%02d" % number)
    assert values(await secured.stored(topic)) == [b"%02d" % number for number in range(20)]


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_each_call_of_the_producer(
    secured: Secured, make_topic: MakeTopic, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """The parts of a request are joined or handed over as they are, by their sizes."""
    large = b"x" * 100_000

    async def work() -> str:
        topic = await make_topic(secured.cluster, 3)
        async with Producer(secured.servers, **secured.options()) as producer:
            await producer.send(topic, b"1")
            await producer.submit(topic, b"2")
            producer.send_nowait(topic, b"3")
            await producer.send_many(topic, [b"4", b"5", large])
            await producer.send_many(topic, [large] * 20)
        return topic

    with asyncio.Runner(loop_factory=make_loop) as runner:
        topic = runner.run(work())
        assert values(runner.run(secured.stored(topic))) == [b"1", b"2", b"3", b"4", b"5", *[large] * 21]


async def test_transactions(secured: Secured, make_topic: MakeTopic) -> None:
    topic = await make_topic(secured.cluster)
    options = secured.options("alice", "SCRAM-SHA-256")
    async with Producer(secured.servers, transactional_id=topic, **options) as producer:
        async with producer.transaction():
            await producer.send(topic, b"kept")
        await producer.begin_transaction()
        await producer.send(topic, b"dropped")
        await producer.abort_transaction()
    async with TransactionSession(secured.servers, transactional_id=f"{topic}-shared", **options) as session:
        handle = await session.begin()
        async with handle.producer(secured.servers, **options) as producer:
            await producer.send(topic, b"shared")
        await session.commit()
    assert values(await secured.stored(topic, "read_committed")) == [b"kept", b"shared"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_reader_member_and_admin(
    secured: Secured, unused_topic: str, protocol: Literal["classic", "consumer"]
) -> None:
    options = secured.options("bob", "OAUTHBEARER")
    if protocol == "consumer" and secured.cluster.version < "4":
        protocol = "classic"
    async with Admin(secured.servers, **options) as admin:
        await admin.create_topic(unused_topic, partitions=2)
    async with Producer(secured.servers, **options) as producer:
        await producer.send_many(unused_topic, [b"a", b"b", b"c"])
    found = [record async for record in read(unused_topic, bootstrap_servers=secured.servers, **options)]
    assert values(found) == [b"a", b"b", b"c"]
    group: dict[str, Any] = {"group_id": unused_topic, "topics": unused_topic, "auto_offset_reset": "earliest"}
    async with Member(secured.servers, **group, group_protocol=protocol, **options) as member:
        taken = [await anext(member) for _ in range(3)]
        await member.commit()
    assert values(taken) == [b"a", b"b", b"c"]


async def test_certificate_and_log_in_together(certified: Secured, make_topic: MakeTopic, tmp_path: Path) -> None:
    """By files, by text, by a properties file, and by a context of the user's own."""
    topic = await make_topic(certified.cluster)
    own = certified.security.authority.issue("alice")
    (tmp_path / "ca.pem").write_text(certified.security.authority.certificate)
    (tmp_path / "own.pem").write_text(own.encrypted_key("open sesame") + own.chain)
    (tmp_path / "plain.pem").write_text(own.store)
    (tmp_path / "client.properties").write_text(
        f"bootstrap.servers={certified.servers}\n"
        "security.protocol=SASL_SSL\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        '    username="alice" password="alice-secret";\n'
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={tmp_path / 'ca.pem'}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={tmp_path / 'own.pem'}\n"
        "ssl.key.password=open sesame\n"
    )
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    context.load_cert_chain(tmp_path / "plain.pem")
    log_in: dict[str, Any] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}
    log_in |= {"sasl_username": "alice", "sasl_password": "alice-secret"}
    for number, producer in enumerate(
        (
            Producer(certified.servers, **certified.options("alice")),
            Producer(config=ProducerConfig.from_properties(tmp_path / "client.properties")),
            Producer(certified.servers, **log_in, ssl_context=context),
            Producer(certified.servers, **log_in, ssl_context=lambda: context),
        )
    ):
        async with producer:
            await producer.send(topic, b"%d" % number)
    assert values(await certified.stored(topic)) == [b"0", b"1", b"2", b"3"]
