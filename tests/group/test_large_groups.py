"""A leader that divides thousands of partitions does so in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from aioprod.cluster import PartitionInfo
from aioprod.errors import UsageError
from aioprod.group.assignors import RangeAssignor, Subscription
from aioprod.group.classic.leader import encoded_assignment
from aioprod.messages import JoinGroupRequest
from aioprod.types import TopicPartition
from tests.group.test_member import PATIENCE_S, cluster, new_member, reading
from tests.support.fetchers import until


class Observed(RangeAssignor):
    """Notes the thread of each call; `gate`, if there is one, holds it up."""

    def __init__(self, gate: threading.Event | None = None) -> None:
        self.threads: list[threading.Thread] = []
        self.ended = 0
        self._gate = gate

    def assign(self, *args: Any) -> dict[str, list[TopicPartition]]:
        self.threads.append(threading.current_thread())
        if self._gate is not None:
            assert self._gate.wait(PATIENCE_S)
        found = super().assign(*args)
        self.ended += 1
        return found


@pytest.mark.parametrize(("partitions", "in_thread"), [(3, False), (600, True)])
async def test_large_groups_are_divided_in_a_thread(partitions: int, in_thread: bool) -> None:
    assignor = Observed()
    async with cluster(partitions) as brokers, new_member(brokers, assignors=(assignor,)) as one, reading(one):
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: len(one.assignment) == partitions)
    assert [thread is not threading.main_thread() for thread in assignor.threads] == [in_thread]


async def test_an_assignment_that_was_overtaken_is_dropped() -> None:
    gate = threading.Event()
    assignor = Observed(gate)
    try:
        async with cluster(600) as brokers, new_member(brokers, assignors=(assignor,)) as one, reading(one):
            await until(lambda: assignor.threads)
            brokers.create_topic("more", 2)
            one.subscribe(["t", "more"])
            joined = len(brokers.seen_of(JoinGroupRequest))
            gate.set()
            await until(lambda: len(one.assignment) == 602)
            assert len(brokers.seen_of(JoinGroupRequest)) > joined
    finally:
        gate.set()


async def test_a_member_that_leaves_does_not_wait_for_the_assignor() -> None:
    gate = threading.Event()
    assignor = Observed(gate)
    try:
        async with cluster(600) as brokers:
            member = new_member(brokers, assignors=(assignor,))
            async with asyncio.timeout(PATIENCE_S):
                await member.start()
                async with reading(member):
                    await until(lambda: assignor.threads)
                    await member.close()
            assert assignor.ended == 0
    finally:
        gate.set()


async def test_an_assignor_that_fails_in_the_thread() -> None:
    class Broken(RangeAssignor):
        def assign(self, *args: object) -> Any:
            raise RuntimeError("on purpose")

    async with cluster(600) as brokers, new_member(brokers, assignors=(Broken(),)) as one:
        with pytest.raises(UsageError, match="Assignor 'range' failed: RuntimeError"):
            await asyncio.wait_for(anext(aiter(one)), PATIENCE_S)


def test_the_assignment_of_2000_members_is_that_of_few() -> None:
    topics: dict[str, Sequence[PartitionInfo]] = {
        "t": [PartitionInfo("t", index, None, (), ()) for index in range(10_000)]
    }
    members = {f"m{index:04}": Subscription(topics=("t",)) for index in range(2000)}
    encoded = encoded_assignment(RangeAssignor(), members, topics)
    assert len(encoded) == 2000
    assert len(set(map(len, encoded.values()))) == 1, "five partitions each"
