"""A producer whose connections are replaced while it sends: nothing fails, nothing is sent twice, the order is kept."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aioprod import OAuthToken, Producer
from aioprod.admin import Admin
from aioprod.errors import UsageError
from aioprod.group import Member
from aioprod.messages import ProduceRequest, SaslHandshakeRequest
from aioprod.producer.transactions.session import TransactionSession
from aioprod.reader import Reader
from aioprod.testing import FakeCluster, Security
from aioprod.testing.security import unsecured_token
from tests.support.producers import new_producer, running, turns, until

pytestmark = pytest.mark.usefixtures("patient")

TOKENS = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"])
RELOADS = 5


class Names:
    """A token provider: each token is another one's."""

    def __init__(self) -> None:
        self.given = 0

    def __call__(self) -> OAuthToken:
        self.given += 1
        return unsecured_token(f"user-{self.given}")


@pytest.mark.parametrize(
    "options",
    [{}, {"enable_idempotence": False}, {"enable_idempotence": False, "acks": 0}],
    ids=["idempotent", "pipelined", "without answers"],
)
async def test_the_order_is_kept_while_connections_are_replaced(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "aioprod.producer")
    async with FakeCluster(2, security=TOKENS) as brokers:
        brokers.create_topic("t", partitions=2)
        log_in = TOKENS.client_options() | {"sasl_token_provider": Names()}
        async with running(brokers, linger_ms=0, batch_size=1, **options, **log_in) as producer:
            await producer.partitions_for("t")
            sent = [0, 0]
            reloading = True

            async def load(partition: int) -> None:
                while reloading or sent[partition] < 20:
                    for _ in range(5):
                        producer.submit("t", b"%d" % sent[partition], partition=partition)
                        sent[partition] += 1
                    await asyncio.sleep(0)
                await producer.flush()

            loads = [asyncio.create_task(load(partition)) for partition in (0, 1)]
            await until(lambda: producer.metrics()["connection_count"] == 2)
            for _ in range(RELOADS):
                await producer.reload_credentials()
            reloading = False
            await asyncio.gather(*loads)
            metrics = producer.metrics()
        for partition in (0, 1):
            found = [int(record.value or b"-1") for record in brokers.records("t", partition)]
            assert found == list(range(sent[partition]))
        assert metrics["record_error_total"] == metrics["record_retry_total"] == 0
        assert metrics["connection_creation_total"] == 2 + 2 * RELOADS
        assert metrics["connection_close_total"] == 2 * RELOADS
        assert metrics["successful_authentication_total"] >= 2 + 2 * RELOADS
        assert metrics["failed_authentication_total"] == 0
    assert len(caplog.records) == 2, "that it is connected and that it is closed: nothing was lost"


async def test_a_batch_that_is_on_the_way_holds_the_next_one_back() -> None:
    async with FakeCluster(security=TOKENS) as brokers:
        brokers.create_topic("t", partitions=2)
        log_in = TOKENS.client_options() | {"sasl_token_provider": Names()}
        async with running(brokers, linger_ms=0, enable_idempotence=False, **log_in) as producer:
            await producer.partitions_for("t")
            held = brokers.fault(ProduceRequest, hold=True)
            first = producer.submit("t", b"1", partition=0)
            await held.reached.wait()
            reloading = asyncio.create_task(producer.reload_credentials())
            await until(lambda: len(brokers.seen_of(SaslHandshakeRequest)) == 2)
            link = producer._engine.parts.client.link(1)
            assert link is not None
            old = link.connection
            assert old is not None
            await until(lambda: not old.can_write)
            second = producer.submit("t", b"2", partition=0)
            other = producer.submit("t", b"3", partition=1)
            await turns()
            assert not other.done()
            assert "takes over when all that was sent on this one is answered" in producer.explain("t", 1)
            held.release()
            await reloading
            await other
            assert (await first).offset < (await second).offset


async def test_what_is_known_of_credentials() -> None:
    async with FakeCluster(security=TOKENS) as brokers:
        brokers.create_topic("t")
        async with running(brokers, **TOKENS.client_options()) as producer:
            await producer.send("t", b"v")
            metrics = producer.metrics()
            assert 3500 < metrics["credentials_expire_s"] <= 3600
            assert metrics["successful_authentication_total"] == metrics["connection_creation_total"] == 1
            assert metrics["successful_reauthentication_total"] == metrics["failed_reauthentication_total"] == 0
            assert metrics["reauthentication_latency_max"] == metrics["reauthentication_latency_avg"] == 0
            assert "The certificate or the token of this client ends in 3" in producer.explain("t", 0)


@pytest.mark.parametrize(
    ("left_s", "said"),
    [(3 * 86400.0, "ends in 3.0 days"), (90.0, "ends in 90.0 s"), (-172_800.0, "ended 2.0 days ago")],
)
async def test_when_credentials_end_is_explained(left_s: float, said: str) -> None:
    async with FakeCluster(security=TOKENS) as brokers:
        brokers.create_topic("t")
        async with running(brokers, **TOKENS.client_options()) as producer:
            rotation = producer._engine.parts.client._rotation
            assert rotation is not None
            assert rotation._context.logins is not None
            ends = rotation._context.logins.ends
            assert ends is not None
            rotation._wall = lambda: ends - left_s
            assert producer.explain("t", 0).endswith(f"The certificate or the token of this client {said}.")


async def test_without_security_there_is_nothing_to_reload(brokers: FakeCluster) -> None:
    brokers.create_topic("t")
    producer = new_producer(brokers.bootstrap)
    with pytest.raises(UsageError):
        await producer.reload_credentials()
    async with running(brokers) as producer:
        await producer.send("t", b"v")
        await producer.reload_credentials()
        metrics = producer.metrics()
        assert "credentials_expire_s" not in metrics
        assert metrics["successful_authentication_total"] == 0
        assert metrics["connection_creation_total"] == 1
        assert "certificate" not in producer.explain("t", 0)


@pytest.mark.parametrize("kind", [Admin, Reader, TransactionSession, Member])
async def test_every_client_takes_up_new_credentials(kind: Any) -> None:
    async with FakeCluster(security=TOKENS) as brokers:
        brokers.create_topic("t")
        names = Names()
        options: dict[str, Any] = TOKENS.client_options() | {"sasl_token_provider": names}
        if kind is TransactionSession:
            options["transactional_id"] = "t"
        if kind is Member:
            options |= {"group_id": "g", "topics": "t", "auto_offset_reset": "earliest"}
        client: AbstractAsyncContextManager[Any] = kind(brokers.bootstrap, **options)
        with pytest.raises(UsageError):
            await client.reload_credentials()  # type: ignore[attr-defined]
        async with client as started:
            before = len(brokers.seen_of(SaslHandshakeRequest))
            fetched = names.given
            await started.reload_credentials()
            assert len(brokers.seen_of(SaslHandshakeRequest)) > before
            assert names.given > fetched
            if kind is Member:
                async with Producer(brokers.bootstrap, **TOKENS.client_options()) as producer:
                    await producer.send("t", b"read")
                assert (await anext(started)).value == b"read"
