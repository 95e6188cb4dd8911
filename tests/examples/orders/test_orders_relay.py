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
from aioprod.errors import DeliveryError, ErrorCode, MarkerError, ProducerFencedError
from aioprod.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest
from aioprod.net.protocol.backoff import Backoff
from aioprod.relay import Relay
from aioprod.relay import loop as relay_module
from aioprod.testing.fixtures import FakeClusterThread
from examples.orders import outbox_source, relay_app
from examples.orders.database import Database
from examples.orders.order import Order
from examples.orders.outbox_source import OutboxSource
from examples.orders.processes import ServiceProcess
from examples.orders.relay_app import make_app, new_relay
from examples.orders.settings import Settings, open_database
from tests.support.tasks import running_task

MARKER = TopicPartition("orders", 0)
GROUP = "aioprod-eos.orders-relay"


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay of this process starts again at once."""
    monkeypatch.setattr(relay_module, "_BACKOFF", Backoff(0.01, 0.01))
    monkeypatch.setattr(relay_module, "_FENCED_PAUSE_S", 0.01)
    monkeypatch.setattr(outbox_source, "POLL_S", 0.01)


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


async def until_running(relay: Relay) -> None:
    """Until it has fenced the one before, and has written its name into the marker."""
    while relay.health().state != "running":
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
            async with running(await new_relay(database, settings)) as task:
                await asyncio.wait([task])
        assert len(await database.outbox(0, 9)) == 5
        await place(database, 2)
        async with running(await new_relay(database, settings)):
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
        async with running(await new_relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 20)


async def test_a_rejected_row_ends_the_relay_and_is_not_skipped_by_the_next_one(
    fake_cluster: FakeClusterThread, settings: Settings
) -> None:
    fault = fake_cluster.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=None)
    async with open_database(settings.database) as database:
        await place(database, 8)
        async with running(await new_relay(database, settings)) as task:
            await asyncio.wait([task])
        assert isinstance(task.exception(), DeliveryError)
        assert len(await database.outbox(0, 9)) == 8
        fake_cluster.call(fault.end)
        async with running(await new_relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 8)


async def test_a_transaction_that_timed_out_is_no_takeover(
    fake_cluster: FakeClusterThread, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """Brokers answer as if another producer had taken over."""
    async with open_database(settings.database) as database:
        await place(database, 4)
        fake_cluster.fault(EndTxnRequest, error=ErrorCode.INVALID_PRODUCER_EPOCH)
        async with running(await new_relay(database, settings)):
            await until_sent(database)
    check(fake_cluster, 4)
    assert "starts again in" in caplog.text


async def test_a_second_relay_takes_over(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    async with open_database(settings.database) as database:
        async with running(await new_relay(database, settings)) as first:
            await place(database, 3)
            await until_sent(database)
            second = await new_relay(database, settings)
            async with running(second):
                await until_running(second)
                while not first.done():
                    await place(database, 1)
                    await asyncio.sleep(0.01)
                await until_sent(database)
            assert isinstance(first.exception(), ProducerFencedError)
        count = (await database.outbox_state()).next
    check(fake_cluster, count)


# --- the marker


async def opened(database: Database, following: int, *, sent: int) -> OutboxSource:
    """The source of an outbox with so many rows, of which some were sent and deleted."""
    await place(database, following)
    await database.delete_outbox(sent)
    return await OutboxSource.open(database, "orders")


async def positions(database: Database) -> list[bytes]:
    return [f"{row.number}:{row.id}".encode() for row in await database.outbox(0, 99)]


@pytest.mark.parametrize(("after", "first"), [(None, 0), (0, 1), (2, 3), (4, 5)])
async def test_where_a_relay_goes_on(dsn: str, after: int | None, first: int) -> None:
    async with open_database(dsn) as database:
        source = await opened(database, 5, sent=0)
        found = await positions(database)
        rows = await source.read(None if after is None else found[after], 3)
        assert [position for _, position in rows] == found[first : first + 3]
        if after is not None:
            assert list(await source.read(b"%d:" % after, 3)) == list(rows)  # Set by hand, without an id.
            await source.delivered(found[after])
            assert list(await source.read(found[after], 3)) == list(rows)


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, "the marker that says how many is gone"),
        (b"1:sent", "Rows from 2 on are missing"),
        (b"3:another", "Row 3 of the outbox is not the one that is in Kafka"),
        (b"5:sent", "Rows up to 5 are in Kafka, and the outbox ends at 4: was the database restored from a copy"),
        (b"9" * 18 + b":sent", "restored from a copy"),
        (b"9" * 19 + b":sent", "written by an earlier version"),
        (b"0f3e", "has the position b'0f3e', and those of an outbox are `number:id`"),
    ],
)
async def test_a_marker_that_cannot_be(dsn: str, after: bytes | None, said: str) -> None:
    async with open_database(dsn) as database:
        source = await opened(database, 5, sent=3)
        with pytest.raises(MarkerError, match=said):
            await source.read(after, 9)


async def test_an_outbox_that_lacks_its_last_rows(dsn: str) -> None:
    async with open_database(dsn) as database:
        source = await opened(database, 5, sent=5)
        assert await source.read(b"4:sent", 9) == []
        with pytest.raises(MarkerError, match="Rows from 4 on are missing"):
            await source.read(b"3:sent", 9)


async def set_marker(settings: Settings, marker: OffsetAndMetadata) -> None:
    """As the page of the example says."""
    async with (
        Producer(settings.bootstrap_servers, transactional_id="orders-relay") as producer,
        producer.transaction(),
    ):
        await producer.send_offsets_to_transaction({MARKER: marker}, GROUP)


async def test_a_marker_that_was_set_by_hand(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    async with open_database(settings.database) as database:
        await opened(database, 8, sent=3)
        owner = (await database.outbox_state()).owner
        await set_marker(settings, OffsetAndMetadata(5, f"{owner}:4:"))
        async with running(await new_relay(database, settings)):
            await until_sent(database)
    assert sorted(number for partition in sent(fake_cluster) for number in partition) == [5, 6, 7]
    assert fake_cluster.committed_offset(GROUP, MARKER) == 8


async def test_a_marker_of_another_outbox_ends_the_relay(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    await set_marker(settings, OffsetAndMetadata(0, "another"))
    async with open_database(settings.database) as database:
        await place(database, 3)
        async with running(await new_relay(database, settings)) as task:
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert len(await database.outbox(0, 9)) == 3
    assert sent(fake_cluster) == [[], [], []]


async def test_rows_that_somebody_deleted_end_the_relay(fake_cluster: FakeClusterThread, settings: Settings) -> None:
    async with open_database(settings.database) as database:
        await place(database, 3)
        await database.delete_outbox(1)
        async with running(await new_relay(database, settings)) as task:
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
        async with running(await new_relay(database, settings)):
            await until_sent(database)
        await restore(database, 5)
        await place(database, 8)
        async with running(await new_relay(database, settings)) as task:
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert [row.number for row in await database.outbox(0, 99)] == list(range(5, 13))
    check(fake_cluster, 10)


async def test_a_restore_under_a_relay_that_runs_ends_it(
    fake_cluster: FakeClusterThread, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if it renews its marker meanwhile, which must delete no row."""
    monkeypatch.setattr(relay_module, "_RENEWED_EVERY_S", 0.001)
    async with open_database(settings.database) as database:
        await place(database, 10)
        async with running(await new_relay(database, settings)) as task:
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
    fake_cluster: FakeClusterThread,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    max_age_ms: int,
) -> None:
    caplog.set_level("INFO", "aioprod.producer")
    monkeypatch.setattr(relay_app, "Relay", partial(Relay, metadata_max_age_ms=max_age_ms))
    async with open_database(settings.database) as database:
        await place(database, 5)
        async with running(await new_relay(database, settings)) as task:
            await until_sent(database)
            fake_cluster.recreate_topic("orders")
            while max_age_ms == 10 and "was deleted and created again" not in caplog.text:
                await asyncio.sleep(0.01)
            await place(database, 3)
            await asyncio.wait([task])
        assert isinstance(task.exception(), MarkerError)
        assert len(await database.outbox(4, 9)) == 3
    assert sent(fake_cluster) == [[], [], []]


async def test_the_marker_is_committed_again_before_brokers_delete_it(
    fake_cluster: FakeClusterThread, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where no row was sent yet."""
    monkeypatch.setattr(relay_module, "_RENEWED_EVERY_S", 0.05)
    async with open_database(settings.database) as database, running(await new_relay(database, settings)):
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
        second = await new_relay(database, settings)
        async with running(second):
            await until_running(second)
            while (live := await client.get("/live")).status_code == 200:
                await place(database, 1)
                await asyncio.sleep(0.01)
        assert live.status_code == 503
        assert live.json() == {"error": "ReplacedError"}
        ready = await client.get("/ready")
        assert (ready.status_code, set(ready.json())) == (503, {"state", "failures", "records", "oldest_age_s"})


async def test_a_relay_without_kafka_lives_and_is_not_ready(dsn: str) -> None:
    app = make_app(Settings(dsn, "127.0.0.1:1"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://relay") as client,
    ):
        assert (await client.get("/live")).status_code == 200
        assert (await client.get("/ready")).status_code == 503
