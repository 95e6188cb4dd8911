"""The relay: each row of the outbox is in Kafka once and in order, wherever a relay is killed."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from aioprod import OffsetAndMetadata, Producer, TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest
from aioprod.spark.transactions import marker as spark_marker
from aioprod.testing.fixtures import FakeClusterThread
from examples.orders import relay as relay_module
from examples.orders.database import Database, OutboxRow, OutboxState
from examples.orders.marker import MarkerError, Position, group_of, marker_of, next_row, rows_after
from examples.orders.order import Order
from examples.orders.processes import ServiceProcess
from examples.orders.relay import Relay, ReplacedError
from examples.orders.relay_app import make_app
from examples.orders.settings import Settings, open_database
from tests.support.tasks import running_task

MARKER = TopicPartition("orders", 0)
GROUP = "aioprod-eos.orders-relay"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay of this process starts again at once."""
    monkeypatch.setattr(relay_module, "RETRY_S", 0.01)
    monkeypatch.setattr(relay_module, "POLL_S", 0.01)


@pytest.fixture
def settings(fake_cluster: FakeClusterThread, dsn: str) -> Settings:
    fake_cluster.create_topic("orders", partitions=3)
    return Settings(dsn, fake_cluster.bootstrap)


def running(relay: Relay) -> AbstractAsyncContextManager[asyncio.Task[None]]:
    return running_task(relay.run())


async def place(database: Database, count: int) -> None:
    for number in range(count):
        assert await database.add(Order(customer=f"customer {number % 4}", item=f"{number}", quantity=1))


async def until_sent(database: Database) -> None:
    while await database.outbox(0, 1):
        await asyncio.sleep(0.01)


def sent(cluster: FakeClusterThread) -> list[list[int]]:
    """The numbers of the rows in each partition, in the order in which a reader with read_committed gets them."""
    return [[int(one.headers[0][1] or b"") for one in cluster.records("orders", index)] for index in range(3)]


def check(cluster: FakeClusterThread, count: int) -> None:
    """Each row is there once, and those of a partition are in order."""
    found = sent(cluster)
    assert sorted(number for partition in found for number in partition) == list(range(count))
    assert found == [sorted(partition) for partition in found]


# --- killed


@pytest.mark.parametrize(
    ("request_kind", "takes_effect"),
    [
        pytest.param(InitProducerIdRequest, True, marks=pytest.mark.long),
        pytest.param(ProduceRequest, False, marks=pytest.mark.long),
        pytest.param(ProduceRequest, True, marks=pytest.mark.long),
        (TxnOffsetCommitRequest, False),
        pytest.param(TxnOffsetCommitRequest, True, marks=pytest.mark.long),
        pytest.param(EndTxnRequest, False, marks=pytest.mark.long),
        (EndTxnRequest, True),
    ],
)
async def test_a_relay_that_is_killed_loses_and_repeats_nothing(
    fake_cluster: FakeClusterThread, tmp_path: Path, request_kind: Any, takes_effect: bool
) -> None:
    """The process gets SIGKILL while the brokers hold a request; they handle it then, or lose it.

    What it asks for when it starts is a request of its second life.
    """
    fake_cluster.create_topic("orders", partitions=3)
    settings = Settings(str(tmp_path / "orders.db"), fake_cluster.bootstrap)
    async with (
        ServiceProcess("examples.orders.relay_app", tmp_path, settings) as process,
        open_database(settings.database) as database,
    ):
        await place(database, 5)
        process.start()
        await until_sent(database)
        fault = fake_cluster.fault(request_kind, hold=True, drop=None if takes_effect else "before")
        if request_kind is InitProducerIdRequest:
            process.kill()
            process.start()
        await place(database, 5)
        await asyncio.to_thread(fake_cluster.call, fault.reached.wait)
        process.kill()
        fake_cluster.call(fault.release)
        process.start()
        await place(database, 5)
        await until_sent(database)
        await process.stop()
    check(fake_cluster, 15)
    assert fake_cluster.committed_offset(GROUP, MARKER) == 15


async def test_rows_that_were_sent_but_not_deleted_are_not_sent_again(
    fake_cluster: FakeClusterThread, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_database(settings.database) as database:
        await place(database, 5)

        async def die(end: int) -> None:
            raise RuntimeError(f"killed before it deletes the rows before {end}")

        with monkeypatch.context() as patch:
            patch.setattr(database, "delete_outbox", die)
            async with running(Relay(database, settings)) as task:
                await asyncio.wait([task])
        assert len(await database.outbox(0, 9)) == 5
        await place(database, 2)
        async with running(Relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 7)


# --- failures


@pytest.mark.parametrize("request_kind", [InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest])
@pytest.mark.parametrize("drop", ["before", "after"])
async def test_lost_connections(
    fake_cluster: FakeClusterThread, settings: Settings, request_kind: Any, drop: str
) -> None:
    fake_cluster.fault(request_kind, drop=drop, times=2)
    async with open_database(settings.database) as database:
        await place(database, 20)
        async with running(Relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 20)


async def test_a_rejected_row_is_tried_until_it_is_taken(
    fake_cluster: FakeClusterThread, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    fake_cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=3)
    async with open_database(settings.database) as database:
        await place(database, 8)
        async with running(Relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 8)
    assert "The relay starts again" in caplog.text


async def test_a_transaction_that_timed_out_is_no_takeover(
    fake_cluster: FakeClusterThread, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers answer as if another producer had taken over."""
    async with open_database(settings.database) as database:
        await place(database, 4)
        fake_cluster.fault(EndTxnRequest, error=ErrorCode.INVALID_PRODUCER_EPOCH)
        async with running(Relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 4)
    assert "The relay starts again" in caplog.text


async def test_a_second_relay_takes_over(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    async with open_database(settings.database) as database:
        async with running(Relay(database, settings)) as first:
            await place(database, 3)
            await until_sent(database)
            async with running(Relay(database, settings)):
                while not first.done():
                    await place(database, 1)
                    await asyncio.sleep(0.01)
                await until_sent(database)
            assert isinstance(first.exception(), ReplacedError)
        count = (await database.outbox_state()).next
    check(fake_cluster, count)


# --- the marker


def test_the_marker_is_the_one_of_sparks_exactly_once_delivery() -> None:
    assert group_of("orders-relay") == spark_marker.group_of("orders-relay")
    assert marker_of(Position(8), "owner") == spark_marker.marker_of(7, "owner")


def outbox(following: int, *, has_begun: bool = True) -> OutboxState:
    return OutboxState("mine", following, "relay", has_begun)


@pytest.mark.parametrize(
    ("found", "state", "position"),
    [
        (None, outbox(5, has_begun=False), Position(0)),
        (OffsetAndMetadata(0, "mine"), outbox(0, has_begun=False), Position(0)),
        (OffsetAndMetadata(5, "mine"), outbox(5), Position(5)),
        (OffsetAndMetadata(3, "mine"), outbox(5), Position(3)),
        (OffsetAndMetadata(3, ""), outbox(5), Position(3)),
        (marker_of(Position(3, "last"), "mine"), outbox(5), Position(3, "last")),
    ],
)
def test_where_a_relay_goes_on(found: OffsetAndMetadata | None, state: OutboxState, position: Position) -> None:
    assert next_row(found, state, "id") == position


def test_the_row_before_is_the_one_that_was_sent() -> None:
    rows = [OutboxRow(number, f"id {number}", "Ada", "cake") for number in (4, 5)]
    assert rows_after(Position(5, "id 4"), rows) == rows_after(Position(5), rows) == rows[1:]
    assert rows_after(Position(5, "id 4"), rows[1:]) == rows[1:]
    assert rows_after(Position(5, "id 4"), []) == []
    with pytest.raises(MarkerError, match="Row 4 of the outbox is not the one that is in Kafka"):
        rows_after(Position(5, "another"), rows)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "is gone"),
        (OffsetAndMetadata(3, "another"), "the marker of another outbox"),
        (OffsetAndMetadata(6, "mine"), "restored from a copy"),
        (OffsetAndMetadata(6, "mine:last"), "restored from a copy"),
        (OffsetAndMetadata(3, "another:last"), "the marker of another outbox, 'another'"),
    ],
)
def test_a_marker_that_cannot_be(found: OffsetAndMetadata | None, said: str) -> None:
    with pytest.raises(MarkerError, match=said):
        next_row(found, outbox(5), "id")


async def test_a_marker_of_another_outbox_ends_the_relay(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    other = Producer(settings.bootstrap_servers, transactional_id="orders-relay")
    async with other as producer, producer.transaction():
        await producer.send_offsets_to_transaction({MARKER: OffsetAndMetadata(0, "another")}, GROUP)
    async with open_database(settings.database) as database:
        await place(database, 3)
        async with running(Relay(database, settings)) as task:
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert len(await database.outbox(0, 9)) == 3
    assert sent(fake_cluster) == [[], [], []]


async def test_rows_that_somebody_deleted_end_the_relay(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    async with open_database(settings.database) as database:
        await place(database, 3)
        await database.delete_outbox(1)
        async with running(Relay(database, settings)) as task:
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
    assert sent(fake_cluster) == [[], [], []]


async def restore(database: Database, following: int) -> None:
    """Make the outbox the one of a copy that was made when all rows before this number had been sent."""
    async with database._connector.writing() as execute:
        await execute("DELETE FROM outbox")
        await execute("UPDATE outbox_state SET next = ?", following)


async def test_orders_after_a_restore_are_not_taken_for_sent_ones(
    fake_cluster: FakeClusterThread, settings: Settings
) -> None:
    """The service has taken more orders than the copy lacked before the relay starts."""
    async with open_database(settings.database) as database:
        await place(database, 10)
        async with running(Relay(database, settings)):
            await until_sent(database)
        await restore(database, 5)
        await place(database, 8)
        async with running(Relay(database, settings)) as task:
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert [row.number for row in await database.outbox(0, 99)] == list(range(5, 13))
    check(fake_cluster, 10)


async def test_a_restore_under_a_relay_that_runs_ends_it(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    """Also if it renews its marker meanwhile, which must delete no row."""
    async with open_database(settings.database) as database:
        await place(database, 10)
        async with running(Relay(database, settings, renewed_every_s=0.0)) as task:
            await until_sent(database)
            await restore(database, 5)
            await place(database, 3)
            renewals = len(fake_cluster.seen_of(TxnOffsetCommitRequest))
            while len(fake_cluster.seen_of(TxnOffsetCommitRequest)) < renewals + 3 and not task.done():
                await asyncio.sleep(0.01)
            await place(database, 5)
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert [row.number for row in await database.outbox(0, 99)] == list(range(5, 13))
    check(fake_cluster, 10)


@pytest.mark.parametrize("max_age_ms", [300_000, 10], ids=["by a request", "by metadata"])
async def test_a_topic_that_is_created_again_ends_a_relay_that_runs(
    fake_cluster: FakeClusterThread, settings: Settings, monkeypatch: pytest.MonkeyPatch, max_age_ms: int
) -> None:
    monkeypatch.setattr(relay_module, "Producer", partial(Producer, metadata_max_age_ms=max_age_ms))
    async with open_database(settings.database) as database:
        await place(database, 5)
        relay = Relay(database, settings)
        async with running(relay) as task:
            await until_sent(database)
            fake_cluster.recreate_topic("orders")
            while max_age_ms == 10 and len(relay._topic_ids) < 2:
                await asyncio.sleep(0.01)
            await place(database, 3)
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert len(await database.outbox(4, 9)) == 3
    assert sent(fake_cluster) == [[], [], []]


async def test_the_marker_is_committed_again_before_brokers_delete_it(
    fake_cluster: FakeClusterThread, settings: Settings
) -> None:
    async with open_database(settings.database) as database, running(Relay(database, settings, renewed_every_s=0.05)):
        while len(fake_cluster.seen_of(TxnOffsetCommitRequest)) < 4:
            await asyncio.sleep(0.01)
    assert fake_cluster.committed_offset(GROUP, MARKER) == 0


# --- probes


async def test_the_probes_of_a_relay(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    app = make_app(settings)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://relay") as client,
        open_database(settings.database) as database,
    ):
        while (await client.get("/ready")).status_code != 200:
            await asyncio.sleep(0.01)
        assert (await client.get("/ready")).json()["state"] == "running"
        assert (await client.get("/live")).status_code == 200
        await place(database, 1)
        await until_sent(database)
        async with running(Relay(database, settings)):
            while (live := await client.get("/live")).status_code == 200:
                await place(database, 1)
                await asyncio.sleep(0.01)
        assert live.status_code == 503
        assert live.json() == {"error": "ReplacedError"}
        ready = await client.get("/ready")
        assert (ready.status_code, set(ready.json())) == (503, {"state", "connected", "away", "oldest_age_s"})


async def test_a_relay_without_kafka_lives_and_is_not_ready(dsn: str) -> None:
    app = make_app(Settings(dsn, "127.0.0.1:1"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://relay") as client,
    ):
        assert (await client.get("/live")).status_code == 200
        assert (await client.get("/ready")).status_code == 503
