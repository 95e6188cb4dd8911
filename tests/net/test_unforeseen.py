"""An unforeseen error, of any type, is one broker's failure: the client tries again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest

from aioprod import Producer
from aioprod.calls.coordinator import Coordinator
from aioprod.config import ClientConfig
from aioprod.errors import AioprodError, AuthenticationError, BrokerConnectionError, ErrorCode
from aioprod.group import Member
from aioprod.group.classic.membership import ClassicMembership
from aioprod.group.kip848.membership import ConsumerMembership
from aioprod.messages import InitProducerIdRequest, MetadataRequest, MetadataResponse
from aioprod.net import Client, ClientSettings, addresses, connection, happy_eyeballs, link
from aioprod.net.handover import Handover
from aioprod.net.login.reauthentication import LoginSession
from aioprod.net.unforeseen import Unforeseen
from aioprod.producer import producer_id
from aioprod.testing import FakeCluster, Security
from tests.support.clients import running_client
from tests.support.links import bench, node_of

NOTHING = MetadataRequest(topics=())


class Calls(list[int]):
    """How often a function was called; it raises in the first call."""


def once(instead_of: Callable[..., Any], calls: Calls) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            raise TypeError("nobody foresaw this")
        return instead_of(*arguments, **named)

    return call


def broken(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> Calls:
    calls = Calls()
    monkeypatch.setattr(owner, name, once(getattr(owner, name), calls))
    return calls


async def works(client: Client, broker: int = 1) -> None:
    assert (await client.request(NOTHING, node_id=broker)).cluster_id == "fake-cluster"


async def test_the_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    unforeseen = Unforeseen()
    first = unforeseen.failure("Connecting", TypeError("nobody foresaw this"))
    assert isinstance(first, BrokerConnectionError)
    assert isinstance(first.__cause__, TypeError)
    unforeseen.failure("Connecting", TypeError("nobody foresaw this"))
    ours = AuthenticationError("foreseen")
    assert unforeseen.failure("Connecting", ours) is ours
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.text.count("TypeError: nobody foresaw this") == 1


async def test_while_a_client_connects(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, _):
        calls = broken(monkeypatch, link, "dial")
        await works(client, 2)
        assert len(calls) == 2
        await works(client)
    assert caplog.text.count("TypeError: nobody foresaw this") == 1
    assert "Connecting to Broker 2 at" in caplog.text


async def test_in_tls_it_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []

    async def connected(*_: object) -> socket.socket:
        made.append(socket.socket())
        return made[0]

    async def create_connection(*_: object, **__: object) -> None:
        raise TypeError("argument must be encoded string without null bytes")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(happy_eyeballs, "_first_connected", connected)
    # The loop of uvloop has no attributes that can be set.
    fake: Any = type(
        "Loop", (), {"create_connection": staticmethod(create_connection), "getaddrinfo": loop.getaddrinfo}
    )
    with pytest.raises(TypeError):
        await happy_eyeballs.open_connection(fake, ("127.0.0.1", 1), object, ClientSettings(bootstrap=()))
    assert made[0].fileno() == -1


async def test_where_a_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, _):
        calls = broken(monkeypatch, connection, "text_of")
        await works(client, 2)
        assert len(calls) == 2


async def test_in_what_a_transport_raises() -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, listener):
        await works(client, 2)
        target = client.link(2)
        assert target is not None
        assert target.connection is not None
        told: list[AioprodError | None] = []
        no_bytes: Any = ["text"]
        target.connection.send_parts(MetadataRequest, 9, True, no_bytes, 4, lambda body, error: told.append(error))
        await listener.seen("lost", 2)
        assert [str(error).partition("after ")[2] for error in told] == ["an internal error: TypeError."]
        await works(client, 2)


async def test_where_a_link_is_polled(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeCluster(2) as brokers, running_client(brokers[1].address) as (client, listener):
        await works(client, 2)
        calls = broken(monkeypatch, LoginSession, "poll")
        client.wake()
        await listener.until(lambda: any(event == "lost" for event, _ in listener.events))
        assert calls
        await works(client)
        await works(client, 2)


async def test_in_the_renewal_of_a_log_in(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster() as brokers, bench(node_of(brokers)) as b:
        await b.ready()

        async def credentials(host: str) -> Any:
            raise TypeError("nobody foresaw this")

        monkeypatch.setattr(b.link.session, "credentials", credentials)
        b.link.session.resume(b.clock())
        b.poll()
        async with asyncio.timeout(10):
            while "can't be re-authenticated" not in caplog.text:
                await asyncio.sleep(0)
        assert b.link.is_ready(b.clock())


async def test_in_the_answer_of_a_coordinator() -> None:
    async with FakeCluster() as brokers, running_client(*brokers.addresses) as (client, _):
        coordinator = Coordinator(client, "transaction", "orders")
        message = InitProducerIdRequest(transactional_id="orders", transaction_timeout_ms=1000)
        calls = Calls()
        error_of = once(lambda answer: answer.error_code, calls)
        answer = await coordinator.request(message, deadline=client.now() + 10.0, error_of=error_of)
        assert (answer.error_code, len(calls)) == (ErrorCode.NONE, 2)


async def test_in_the_answer_with_a_producer_id(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = broken(monkeypatch, producer_id, "set_producer_id")
    async with FakeCluster() as brokers, Producer(brokers.bootstrap, retry_backoff_ms=1) as producer:
        brokers.create_topic("t")
        assert (await producer.send("t", b"x")).offset == 0
        assert len(calls) == 2


@pytest.mark.parametrize(
    ("settings", "membership", "name"),
    [
        ({"heartbeat_interval_ms": 20}, ClassicMembership, "response_received"),
        ({"heartbeat_interval_ms": 20}, ClassicMembership, "heartbeat_response_received"),
        ({"group_protocol": "consumer"}, ConsumerMembership, "heartbeat_response_received"),
    ],
)
async def test_in_what_a_member_is_told(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], membership: type, name: str
) -> None:
    calls = broken(monkeypatch, membership, name)
    async with FakeCluster() as brokers:
        brokers.create_topic("t")
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        async with Member(
            brokers.bootstrap,
            group_id="g",
            topics=["t"],
            auto_offset_reset="earliest",
            **settings,
        ) as member:
            async with Producer(brokers.bootstrap) as producer:
                for offset in range(3):
                    await producer.send("t", b"x")
                    async with asyncio.timeout(20):
                        assert (await anext(member)).offset == offset
            async with asyncio.timeout(20):
                while len(calls) < 2:
                    await asyncio.sleep(0.005)


async def test_while_new_credentials_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])
    async with FakeCluster(2, security=wanted) as brokers:
        config = ClientConfig.from_options(bootstrap_servers=brokers.bootstrap, **wanted.client_options())
        async with running_client(brokers[1].address, security=config) as (client, _):
            await works(client, 1)
            await works(client, 2)
            calls = broken(monkeypatch, Handover, "run")
            with pytest.raises(BrokerConnectionError, match=r"The new connection to .* internal error: TypeError"):
                await client.reload_credentials()
            assert len(calls) == 2
            await client.reload_credentials()
            await works(client, 1)
            await works(client, 2)


async def test_in_the_look_up_of_canonical_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(*_: object) -> None:
        raise UnicodeError("label too long")

    monkeypatch.setattr(addresses, "resolve", resolve)
    given = (("a", 1), ("b", 2))
    assert await addresses.canonical_addresses(asyncio.get_running_loop(), given) == given


@pytest.mark.parametrize(
    ("host", "port"),
    [("127.0.0.1\0x", 1), ("evil\n\x1b[31mERROR\x07", 1), ("", 1), ("a" * 64 + ".example", 1), ("a.example", 70_000)],
)
async def test_a_broker_with_an_address_that_can_not_be_used_is_left_out(
    host: str, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    def edit(answer: MetadataResponse) -> MetadataResponse:
        first, *others = answer.brokers
        wrong = [type(one)(node_id=one.node_id, host=host, port=port, rack=None) for one in others]
        return type(answer)(
            brokers=(first, *wrong),
            topics=answer.topics,
            cluster_id=answer.cluster_id,
            controller_id=answer.controller_id,
        )

    async with FakeCluster(2) as brokers:
        fault = brokers.fault(MetadataRequest, edit=edit, times=None)
        async with running_client(brokers[1].address) as (client, listener):
            await works(client)
            assert [node.id for node in client.metadata.cluster.nodes] == [1]
            with pytest.raises(AioprodError, match="no broker 2"):
                await works(client, 2)
            fault.end()
            client.metadata.request_update(client.now())
            client.wake()
            await listener.until(lambda: client.link(2) is not None)
            await works(client, 2)
    assert [record.message for record in caplog.records if "is left out" in record.message] == [
        one for one in caplog.messages if one.startswith("Broker 2 is left out: the metadata gives it ")
    ]
    assert "\x1b" not in caplog.text
    assert "\0" not in caplog.text
