"""Racks of a fake cluster: the scenarios that real brokers go through, and followers that are held back."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod.errors import ConfigError, ErrorCode, UsageError
from aioprod.testing import FakeCluster
from tests.support.zone_scenarios import RACKS, SCENARIOS, Scenario, ZoneBench, values


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_scenario(scenario: Scenario) -> None:
    async with FakeCluster(3, racks=RACKS) as cluster:
        cluster.create_topic("t")
        bench = await ZoneBench.open(cluster.bootstrap, "t")
        await scenario(bench)
        assert values(await bench.fetch(bench.leader)) == [b"0", b"1", b"2"]


async def test_a_follower_that_is_held_back() -> None:
    """It shows what is before its high watermark, and does not know offsets after the end of its log."""
    async with FakeCluster(3, racks=RACKS) as cluster:
        cluster.create_topic("t")
        bench = await ZoneBench.open(cluster.bootstrap, "t")
        assert (bench.leader, bench.follower) == (1, 2)
        cluster.hold_follower(2, "t", 0, high_watermark=1, log_end=2)
        found = [await bench.fetch(2, offset) for offset in range(4)]
        assert [row.error_code for row in found] == [0, 0, 0, ErrorCode.OFFSET_OUT_OF_RANGE]
        assert [values(row) for row in found] == [[b"0"], [], [], []]
        assert {row.high_watermark for row in found[:3]} == {1}
        named = [(await bench.fetch(1, offset, "b")).preferred_read_replica for offset in range(4)]
        assert named == [2, 2, 2, -1]
        cluster.release_follower(2, "t", 0)
        assert values(await bench.fetch(2)) == [b"0", b"1", b"2"]


async def test_a_follower_is_held_where_the_log_ends_now() -> None:
    async with FakeCluster(3, racks=RACKS) as cluster:
        cluster.create_topic("t")
        cluster.hold_follower(2, "t", 0)
        bench = await ZoneBench.open(cluster.bootstrap, "t")
        assert (await bench.fetch(2)).high_watermark == 0
        # Whoever leads has the whole log.
        cluster.move_leader("t", 0, 2)
        assert (await bench.fetch(2)).high_watermark == 3


async def test_of_two_followers_in_a_rack_the_one_with_more_of_the_log_is_named() -> None:
    async with FakeCluster(3, racks=("a", "b", "b")) as cluster:
        cluster.create_topic("t")
        bench = await ZoneBench.open(cluster.bootstrap, "t")
        assert (await bench.fetch(1, rack="b")).preferred_read_replica == 3
        cluster.hold_follower(3, "t", 0, log_end=2)
        assert (await bench.fetch(1, rack="b")).preferred_read_replica == 2
        await cluster.kill(2)
        assert (await bench.fetch(1, rack="b")).preferred_read_replica == 3
        await cluster.kill(3)
        assert (await bench.fetch(1, rack="b")).preferred_read_replica == -1


@pytest.mark.parametrize("racks", [("a",), "abc", ("a", "b", 3)])
def test_racks_that_are_none(racks: Any) -> None:
    with pytest.raises(ConfigError, match="give the rack of each of the 3 brokers, None for none"):
        FakeCluster(3, racks=racks)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ({"log_end": 1}, "log_end is 1: give an offset from 0 to 0"),
        ({"high_watermark": 1}, "high_watermark is 1: give an offset from 0 to 0"),
        ({"log_end": "0"}, "log_end is '0'"),
    ],
)
async def test_offsets_that_a_log_does_not_have(held: dict[str, Any], text: str) -> None:
    async with FakeCluster(2) as cluster:
        cluster.create_topic("t")
        with pytest.raises(ConfigError, match=text):
            cluster.hold_follower(2, "t", 0, **held)
        with pytest.raises(UsageError, match="There is no broker 3"):
            cluster.hold_follower(3, "t", 0)
        with pytest.raises(UsageError, match="There is no partition 1"):
            cluster.release_follower(2, "t", 1)
