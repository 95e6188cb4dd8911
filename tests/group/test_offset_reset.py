"""`auto.offset.reset=by_duration:...` (KIP-1106): which durations are valid, and where a member begins with one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioprod.errors import ConfigError
from aioprod.group import Member
from aioprod.group.offset_reset import OffsetReset
from aioprod.messages import ListOffsetsRequest
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.log import FakePartition
from aioprod.types import TopicPartition
from tests.support.fetchers import given, places, running_fetcher, take, until
from tests.support.stored_batches import store, stored_batch

ORDERS = TopicPartition("orders", 0)
HOUR = "by_duration:PT1H"
MINUTE_S = 60


def member(**options: Any) -> Member:
    return Member("h:1", group_id="g", topics="t", **options)


def stored(log: FakePartition, *ages_min: int) -> None:
    """Add a record of each age, in minutes."""
    for age in ages_min:
        timestamp = int((time.time() - age * MINUTE_S) * 1000)
        store(log, stored_batch([b"v"], base_offset=log.next_offset, timestamp=timestamp))


# --- the setting


@pytest.mark.parametrize(
    ("duration", "age_ms"),
    [
        ("PT1H", 3_600_000),
        ("P2D", 172_800_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("PT1M30S", 90_000),
        ("PT0.0019S", 1),
        ("PT6H-7M", 21_180_000),
        ("-PT-1H", 3_600_000),
        ("PT1.S", 1_000),
        ("pt1h", 3_600_000),
        ("PT0S", 0),
    ],
)
def test_what_a_duration_means(duration: str, age_ms: int) -> None:
    config = member(config={"auto.offset.reset": f"By_Duration:{duration}"}).config
    assert config.auto_offset_reset == f"by_duration:{duration.upper()}"
    lookup = OffsetReset(config.auto_offset_reset).lookup(ORDERS, 1_000_000.0)
    assert (lookup.timestamp, lookup.since) == (LATEST, 1_000_000_000 - age_ms)


@pytest.mark.parametrize(
    "duration",
    [
        *("", "1h", "P", "PT", "P1DT", "P1Y", "P1W", "PT1", "P1H", "PT1S1M", "PT1.0000000001S", "-PT1H", "PT-0.001S"),
        *("PT\u0661H", "P" + "9" * 5000 + "D"),
    ],
)
def test_what_is_no_duration(duration: str) -> None:
    with pytest.raises(ConfigError) as no:
        member(auto_offset_reset=f"by_duration:{duration}")
    assert str(no.value).startswith(
        "auto.offset.reset must be one of latest, earliest, none, by_duration:PnDTnHnMn.nS, not 'by_duration:"
    )


def test_a_duration_of_more_than_all_time_is_from_the_first_record_on() -> None:
    assert OffsetReset("by_duration:P1000000D").lookup(ORDERS, 1_000_000.0).since == 0


@pytest.mark.parametrize(("setting", "timestamp"), [("earliest", EARLIEST), ("latest", LATEST)])
def test_the_ends_of_a_log(setting: str, timestamp: int) -> None:
    lookup = OffsetReset(setting).lookup(ORDERS, 1_000_000.0)
    assert (lookup.timestamp, lookup.since) == (timestamp, None)


# --- where it begins


async def test_it_begins_at_the_first_record_that_is_not_older() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=HOUR) as fetcher:
        stored(brokers.create_topic("orders").partitions[0], 300, 90, 30, 100, 5)
        fetcher.add({ORDERS: None})
        assert places(await take(fetcher, 3)) == {ORDERS: [2, 3, 4]}


@pytest.mark.parametrize("ages_min", [(), (300, 90)])
async def test_it_begins_at_the_end_where_all_records_are_older(ages_min: tuple[int, ...]) -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=HOUR) as fetcher:
        log = brokers.create_topic("orders").partitions[0]
        stored(log, *ages_min)
        fetcher.add({ORDERS: None})
        await until(lambda: fetcher.positions)
        assert fetcher.positions == {ORDERS: len(ages_min)}
        stored(log, 80)
        assert places(await take(fetcher, 1)) == {ORDERS: [len(ages_min)]}


async def test_no_record_is_left_out_that_is_stored_during_the_look_up() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=HOUR) as fetcher:
        log = brokers.create_topic("orders").partitions[0]
        stored(log, 90)
        turns = iter([False, True])
        second = brokers.fault(ListOffsetsRequest, hold=True, when=lambda _: next(turns))
        fetcher.add({ORDERS: None})
        waiting = asyncio.ensure_future(fetcher.next())
        await second.reached.wait()
        stored(log, 75)
        second.release()
        assert (await given(waiting)).offset == 1


async def test_an_offset_that_the_log_does_not_have_leads_back_by_the_duration() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=HOUR) as fetcher:
        log = brokers.create_topic("orders").partitions[0]
        stored(log, 300, 200, 90, 30, 5)
        log.delete_before(2)
        fetcher.add({ORDERS: 1})
        assert places(await take(fetcher, 2)) == {ORDERS: [3, 4]}


async def test_a_look_up_is_repeated_until_it_is_answered() -> None:
    async with FakeCluster() as brokers, running_fetcher(brokers, auto_offset_reset=HOUR) as fetcher:
        stored(brokers.create_topic("orders").partitions[0], 90, 30)
        brokers.fault(ListOffsetsRequest, drop="before", times=2)
        brokers.fault(
            ListOffsetsRequest, drop="after", when=lambda request: request.topics[0].partitions[0].timestamp > 0
        )
        fetcher.add({ORDERS: None})
        assert places(await take(fetcher, 1)) == {ORDERS: [1]}


async def test_a_member_begins_by_duration_and_goes_back_there() -> None:
    async with FakeCluster() as brokers:
        stored(brokers.create_topic("orders").partitions[0], 300, 90, 30, 5)
        async with Member(brokers.bootstrap, group_id="g", topics="orders", auto_offset_reset=HOUR) as one:
            found = [(await anext(one)).offset for _ in range(2)]
            await one.rewind()
            assert [*found, (await anext(one)).offset] == [2, 3, 2]
