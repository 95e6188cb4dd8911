"""Members and readers in a rack: they read from the follower that the leader names (KIP-392)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aioprod.errors import BrokerError, ErrorCode
from aioprod.group.fetcher import Fetcher
from aioprod.group.meters import measured
from aioprod.messages import FetchRequest, ListOffsetsRequest
from aioprod.reader.offsets import EARLIEST
from aioprod.testing import FakeCluster
from aioprod.types import TopicPartition
from tests.support.fetchers import given, places, running_fetcher, take, until
from tests.support.sessions import collect, new_reader, offsets_of
from tests.support.simulated import in_simulated_time
from tests.support.stored_batches import fill

TP = TopicPartition("t", 0)
RACKS = ("a", "b", "c")
HOUR_MS = 3_600_000
OF_ZONES = ("bytes_consumed_within_zone_total", "bytes_consumed_across_zones_total")


def zones() -> FakeCluster:
    return FakeCluster(3, racks=RACKS)


def filled(cluster: FakeCluster, count: int = 5, partitions: int = 1) -> None:
    """Create a topic with so many records in each partition; the brokers lead them in turn."""
    for log in cluster.create_topic("t", partitions).partitions:
        fill(log, count)


def add(cluster: FakeCluster, count: int = 1, partition: int = 0) -> None:
    fill(cluster.topics["t"].partitions[partition], count)
    cluster.state.wake_fetches()


def asked(cluster: FakeCluster) -> list[int]:
    """The broker of each Fetch request."""
    return [seen.node for seen in cluster.seen if isinstance(seen.message, FetchRequest)]


async def read(fetcher: Fetcher, count: int) -> list[int]:
    return [record.offset for record in await take(fetcher, count)]


# --- where it reads


async def test_a_member_reads_from_the_follower_in_its_rack() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b", fetch_max_wait_ms=HOUR_MS) as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
        assert asked(cluster) == [1, 2]
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: len(asked(cluster)) == 3)
        add(cluster)
        assert (await given(waiting)).offset == 5
        # The leader is asked no more.
        assert asked(cluster)[2:] == [2]


@pytest.mark.parametrize("rack", ["a", "nowhere", ""])
async def test_a_member_reads_from_the_leader_where_no_follower_is_nearer(rack: str) -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack=rack) as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
        assert set(asked(cluster)) == {1}


async def test_partitions_of_all_leaders_go_to_one_follower() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="c") as fetcher:
        filled(cluster, partitions=9)
        every = [TopicPartition("t", index) for index in range(9)]
        fetcher.add(dict.fromkeys(every, 0))
        found = await take(fetcher, 45)
        assert places(found) == {tp: [0, 1, 2, 3, 4] for tp in every}
        assert (asked(cluster).count(1), asked(cluster).count(2)) == (1, 1)
        for index in range(9):
            add(cluster, partition=index)
        await take(fetcher, 9)
        assert (asked(cluster).count(1), asked(cluster).count(2)) == (1, 1)


async def test_a_reader_reads_from_the_follower_in_its_rack() -> None:
    async with zones() as cluster, new_reader(cluster, client_rack="b") as reader:
        filled(cluster, 20)
        assert offsets_of(await collect(reader.read("t"))) == list(range(20))
        assert asked(cluster)[0] == 1
        assert set(asked(cluster)[1:]) == {2}
        # Only leaders look offsets up.
        assert {seen.node for seen in cluster.seen if isinstance(seen.message, ListOffsetsRequest)} == {1}


async def test_a_reader_knows_the_follower_of_a_partition_that_it_has_read() -> None:
    async with zones() as cluster, new_reader(cluster, client_rack="b") as reader:
        filled(cluster)
        for _ in range(2):
            batches = [batch async for some in reader.fetch(TP, 0, 5) for batch in some]
            assert sum(batch.batch.count for batch in batches) == 5
        assert asked(cluster).count(1) == 1


async def test_a_partition_that_is_dropped_is_read_from_its_leader_when_it_comes_back() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        for _ in range(2):
            fetcher.add({TP: 0})
            assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
            fetcher.drop([TP])
        assert asked(cluster) == [1, 2, 1, 2]


async def test_batches_of_a_response_lead_no_request_to_the_leader() -> None:
    async with zones() as cluster, new_reader(cluster, client_rack="b", max_partition_fetch_bytes=1) as reader:
        filled(cluster, 10)
        assert offsets_of(await collect(reader.read("t"))) == list(range(10))
        assert asked(cluster) == [1] + [2] * 10


@pytest.mark.parametrize(
    ("racks", "known"), [(RACKS, "they are in a, b, c"), ((), "they have none (broker.rack)")], ids=["others", "none"]
)
async def test_a_rack_in_which_no_broker_is(
    patient: None, caplog: pytest.LogCaptureFixture, racks: tuple[str, ...], known: str
) -> None:
    async with FakeCluster(3, racks=racks) as cluster, running_fetcher(cluster, client_rack="x") as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [f"No broker is in the rack 'x' (client.rack), so all racks are used: {known}"]


async def test_bytes_within_and_across_zones() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster:
        filled(cluster)
        for rack, shares in (("b", (1.0, 0.0)), ("x", (0.0, 1.0)), ("", None)):
            async with running_fetcher(cluster, client_rack=rack) as fetcher:
                fetcher.add({TP: 0})
                await read(fetcher, 5)
                metrics = measured(fetcher)
                found = metrics.snapshot()
                total = found["bytes_consumed_total"]
                assert total > 0
                values = [found.get(name) for name in OF_ZONES]
                assert values == ([None, None] if shares is None else [total * share for share in shares])


# --- back to the leader


@in_simulated_time
async def test_the_leader_is_asked_again_after_a_time() -> None:
    """After `metadata.max.age.ms`, by the next answer of the follower."""
    loop = asyncio.get_running_loop()
    options: dict[str, Any] = {"client_rack": "b", "metadata_max_age_ms": 60_000, "fetch_max_wait_ms": 500}
    async with zones() as cluster, running_fetcher(cluster, clock=loop.time, **options) as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        await take(fetcher, 5)
        start = loop.time()
        waiting = asyncio.ensure_future(fetcher.next())
        await asyncio.sleep(58)
        assert asked(cluster).count(1) == 1
        await asyncio.sleep(5)
        assert asked(cluster).count(1) == 2
        # It names the follower again, and nothing was lost on the way.
        add(cluster)
        assert (await given(waiting)).offset == 5
        assert asked(cluster)[-1] == 2
        assert loop.time() - start < 64


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
    ],
    ids=lambda error: error.name,
)
async def test_after_an_error_of_a_follower_the_leader_is_asked(error: ErrorCode) -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        cluster.fault(FetchRequest, node=2, error=error)
        fetcher.add({TP: 2})
        assert await read(fetcher, 3) == [2, 3, 4]
        assert asked(cluster) == [1, 2, 1]
        add(cluster)
        assert await read(fetcher, 1) == [5]
        assert asked(cluster)[3:] == [1, 2]


async def test_a_follower_that_closes_the_connection() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        cluster.fault(FetchRequest, node=2, drop="before")
        fetcher.add({TP: 0})
        assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
        assert asked(cluster) == [1, 2, 1]


async def test_a_follower_that_is_dead_stops_nobody() -> None:
    """Its leader names it until the brokers notice, and has the records itself after each failure."""
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        await read(fetcher, 5)
        await cluster[2].kill(stay_in_metadata=True)
        for number in range(5, 10):
            add(cluster)
            assert await read(fetcher, 1) == [number]


async def test_a_follower_that_goes_and_comes_back() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        await read(fetcher, 5)
        await cluster.kill(2)
        add(cluster, 5)
        assert await read(fetcher, 5) == [5, 6, 7, 8, 9]
        assert asked(cluster)[-1] == 1
        await cluster.restart(2)
        add(cluster, 5)
        assert await read(fetcher, 5) == [10, 11, 12, 13, 14]
        # The leader names it in its next answer.
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: asked(cluster)[-1] == 2)
        add(cluster)
        assert (await given(waiting)).offset == 15


async def test_a_leader_that_moves_into_the_rack_and_out() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        await read(fetcher, 5)
        for leader in (2, 3, 1):
            cluster.move_leader("t", 0, leader)
            for _ in range(2):
                add(cluster, 5)
                assert len(await read(fetcher, 5)) == 5
            assert asked(cluster)[-1] == 2
        assert fetcher.positions == {TP: 35}


# --- what a follower does not have


@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
async def test_an_offset_that_a_follower_does_not_have_is_no_reason_for_a_reset(reset: str) -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b", auto_offset_reset=reset) as fetcher:
        filled(cluster)
        fetcher.add({TP: 0})
        await read(fetcher, 5)
        add(cluster, 5)
        # It has lost what it had, as after an unclean start: the leader does not know yet, and names it again.
        lost = cluster.fault(FetchRequest, node=2, error=ErrorCode.OFFSET_OUT_OF_RANGE, times=None)
        assert await read(fetcher, 5) == [5, 6, 7, 8, 9]
        add(cluster, 5)
        assert await read(fetcher, 5) == [10, 11, 12, 13, 14]
        assert lost.hits == 2
        cluster.hold_follower(2, "t", 0, log_end=3)
        add(cluster, 5)
        assert await read(fetcher, 5) == [15, 16, 17, 18, 19]
        assert lost.hits == 2
        assert not cluster.seen_of(ListOffsetsRequest)


async def test_an_offset_that_the_leader_does_not_have_is_reset_as_ever() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        fetcher.add({TP: 99})
        assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
        assert len(cluster.seen_of(ListOffsetsRequest, node=1)) == 1


async def test_a_reader_raises_only_what_the_leader_says() -> None:
    async with zones() as cluster, new_reader(cluster, client_rack="b") as reader:
        filled(cluster)
        cluster.fault(FetchRequest, node=2, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        assert offsets_of(await collect(reader.read("t"))) == [0, 1, 2, 3, 4]
        cluster.fault(FetchRequest, node=1, error=ErrorCode.OFFSET_OUT_OF_RANGE)
        with pytest.raises(BrokerError, match="its log goes from 0 to 5 now"):
            await collect(reader.read("t"))


async def test_what_a_follower_does_not_show_yet_comes_later() -> None:
    """Its high watermark is behind: the lag is that of what it shows."""
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        cluster.hold_follower(2, "t", 0, high_watermark=3, log_end=5)
        fetcher.add({TP: 0})
        assert await read(fetcher, 3) == [0, 1, 2]
        waiting = asyncio.ensure_future(fetcher.next())
        await until(lambda: fetcher.lag == {TP: 0})
        cluster.release_follower(2, "t", 0)
        assert (await given(waiting)).offset == 3
        assert fetcher.lag == {TP: 1}
        assert set(asked(cluster)[1:]) == {2}


async def test_a_reader_gets_from_the_leader_what_a_follower_does_not_show_in_time() -> None:
    """Up to the end that the leader has said: a follower may have stopped copying."""
    async with zones() as cluster, new_reader(cluster, client_rack="b", fetch_max_wait_ms=1) as reader:
        filled(cluster)
        cluster.hold_follower(2, "t", 0, high_watermark=3, log_end=5)
        assert offsets_of(await collect(reader.read("t"))) == [0, 1, 2, 3, 4]
        assert asked(cluster) == [1, 2, 2, 1]


async def test_a_lookup_of_a_new_partition_goes_to_the_leader() -> None:
    async with zones() as cluster, running_fetcher(cluster, client_rack="b") as fetcher:
        filled(cluster)
        fetcher.add({TP: EARLIEST})
        assert await read(fetcher, 5) == [0, 1, 2, 3, 4]
        assert len(cluster.seen_of(ListOffsetsRequest, node=1)) == len(cluster.seen_of(ListOffsetsRequest)) == 1
