"""Members that come, go and crash at random while brokers fail, in made-up time."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import Any, Final
from unittest import mock

import pytest

from aioprod.errors import AioprodError
from aioprod.group import Member
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.log import FakePartition
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import TopicPartition
from tests.support.group_faults import break_something
from tests.support.sessions import keep_loop_time
from tests.support.stored_batches import fill

PROTOCOLS: Final[dict[str, dict[str, Any]]] = {
    "eager": {"assignors": ["range"]},
    "sticky": {"assignors": ["sticky", "roundrobin"]},
    "cooperative": {"assignors": ["cooperative-sticky"]},
    "both": {"assignors": ["cooperative-sticky", "range"]},
    "consumer": {"group_protocol": "consumer"},
}
CLASSIC: Final[dict[str, Any]] = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 500}
SUBSCRIPTIONS: Final = (["t"], ["later"], ["t", "later"])
"""The second topic does not exist at first."""
PARTITIONS, RECORDS, EVENTS = 7, 20, 30
STABLE_WITHIN_S: Final = 120.0
"""Simulated seconds after the last fault in which the group has to be stable."""


class Reading:
    """A member that reads and commits now and then, and reports to the play."""

    def __init__(self, play: Play, name: str, topics: list[str]) -> None:
        self.play = play
        self.member = Member(
            play.cluster.bootstrap,
            group_id="g",
            topics=topics,
            auto_offset_reset="earliest",
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._revoked,
            max_poll_interval_ms=20_000,
            metadata_max_age_ms=15_000,
            **play.options,
        )
        self.name = name
        self.held: set[TopicPartition] = set()
        self.is_started = False
        self.generation = -1
        loop = asyncio.get_running_loop()
        keep_loop_time(self.member._session, self.member._reading, random=Random(play.random.random()))
        self.task = loop.create_task(self._read())

    @property
    def is_known(self) -> bool:
        """Whether the coordinator and the member both think that it is one."""
        joined = self.play.cluster.state.groups["g"].membership
        return joined is not None and self.member.group_metadata.member_id in joined.members

    def _assigned(self, partitions: Iterable[TopicPartition]) -> None:
        self.generation = self.member.group_metadata.generation_id
        self.held.update(partitions)
        for other in self.play.readings:
            shared = self.held & other.held if other is not self and other.is_known else None
            assert not shared, f"{other.name} still has {shared}, which {self.name} was given"

    def _revoked(self, partitions: Iterable[TopicPartition]) -> None:
        assert self.held.issuperset(partitions), (self.name, self.held, partitions)
        self.held.difference_update(partitions)

    async def _read(self) -> None:
        random = Random(self.play.random.random())
        await self.member.start()
        self.is_started = True
        async for record in self.member:
            tp = TopicPartition(record.topic, record.partition)
            assert tp in self.held, f"{self.name} was not assigned {tp}"
            self.play.note(self, tp, record.offset)
            await asyncio.sleep(random.random() * 0.2)
            if random.random() < 0.3:
                with contextlib.suppress(AioprodError):
                    await self.member.commit()

    async def end(self, *, crashes: bool) -> None:
        """Leave, or be gone from one moment to the next."""
        await self.member.close(timeout=0.0 if crashes else 30.0)
        with contextlib.suppress(asyncio.CancelledError):
            await self.task


class Play:
    """One run of a seed."""

    def __init__(self, cluster: FakeCluster, options: dict[str, Any], random: Random) -> None:
        self.cluster = cluster
        self.options = options
        self.random = random
        self.readings: list[Reading] = []
        self.owners: dict[tuple[TopicPartition, int], str] = {}
        self.handed: set[tuple[TopicPartition, int]] = set()
        self._count = 0

    def note(self, reading: Reading, tp: TopicPartition, offset: int) -> None:
        """A record was handed out: in this generation the partition is that member's alone.

        What counts is the generation that the member was assigned in: a coordinator that fails before all have their
        shares forgets the next one, and its successor gives another one the same number.
        """
        owner = self.owners.setdefault((tp, reading.generation), reading.name)
        assert owner == reading.name, f"{tp} of {owner} and {reading.name} in {reading.generation}"
        self.handed.add((tp, offset))

    async def run(self) -> None:
        """WaitCause first; then all has to come right."""
        random, cluster = self.random, self.cluster
        await self.enter()
        for _ in range(EVENTS):
            await asyncio.sleep(random.random() * 4)
            await random.choice(
                [*[self.enter, self.leave, self.break_something] * 2, self.add, self.grow, self.subscribe]
            )()
        for fault in cluster._faults:
            fault.times = fault.hits
        for node_id in cluster.brokers:
            if node_id not in cluster.state.nodes:
                await cluster.restart(node_id)
        await self.enter(*SUBSCRIPTIONS[-1])
        await self.wait_until_stable()
        for reading in self.readings:
            await reading.member.commit()
        for reading in list(self.readings):
            await self.end(reading, crashes=False)
        ends = self.ends
        assert self.handed == {(tp, offset) for tp, end in ends.items() for offset in range(end)}
        assert {tp: cluster.committed_offset("g", tp) for tp in ends} == ends

    async def enter(self, *topics: str) -> None:
        """One more member."""
        if len(self.readings) < 6 or topics:
            self._count += 1
            self.readings.append(Reading(self, f"m{self._count}", [*topics] or self.random.choice(SUBSCRIPTIONS)))

    async def leave(self) -> None:
        """One less, in good order or by a crash."""
        if len(self.readings) > 1:
            reading = self.random.choice(self.readings)
            await self.end(reading, crashes=self.random.random() < 0.5)

    async def end(self, reading: Reading, *, crashes: bool) -> None:
        self.readings.remove(reading)
        await reading.end(crashes=crashes)

    async def subscribe(self) -> None:
        """A member wants something else."""
        started = [reading for reading in self.readings if reading.is_started]
        if started:
            self.random.choice(started).member.subscribe(self.random.choice(SUBSCRIPTIONS))

    async def add(self) -> None:
        """More records."""
        for topic in self.cluster.topics.values():
            for partition in topic.partitions:
                fill(partition, self.random.randrange(RECORDS))
        self.cluster.state.wake_fetches()

    async def grow(self) -> None:
        """A topic comes, or one gets a partition more."""
        if "later" not in self.cluster.topics:
            self.cluster.create_topic("later", 2)
        else:
            topic = self.random.choice(list(self.cluster.topics.values()))
            topic.partitions.append(FakePartition(self.random.choice(sorted(self.cluster.state.nodes))))

    async def break_something(self) -> None:
        """Something that brokers do."""
        await break_something(self.cluster, self.random)

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """Where each partition ends."""
        return {
            TopicPartition(name, index): partition.next_offset
            for name, topic in self.cluster.topics.items()
            for index, partition in enumerate(topic.partitions)
        }

    async def wait_until_stable(self) -> None:
        """Wait until the members share all partitions, and have read all there is."""
        async with asyncio.timeout(STABLE_WITHIN_S):
            while True:
                for reading in self.readings:
                    if reading.task.done():
                        reading.task.result()
                shares = [reading.member.assignment for reading in self.readings]
                is_shared = sorted(tp for share in shares for tp in share) == sorted(self.ends)
                is_one = len({reading.member.group_metadata.generation_id for reading in self.readings}) == 1
                reached = {tp: at for reading in self.readings for tp, at in reading.member.positions.items()}
                if is_shared and is_one and reached == self.ends:
                    return
                await asyncio.sleep(0.1)


async def play_and_check(protocol: str, random: Random) -> None:
    options = PROTOCOLS[protocol] if protocol == "consumer" else {**PROTOCOLS[protocol], **CLASSIC}
    async with FakeCluster(3, seed=random.getrandbits(32)) as cluster:
        settings = cluster.state.groups.settings
        settings.session_timeout_s, settings.heartbeat_interval_s = 6.0, 0.5
        for partition in cluster.create_topic("t", PARTITIONS).partitions:
            fill(partition, RECORDS)
        await Play(cluster, options, random).run()


def _name(random: Random) -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_at_random(protocol: str, seed: int) -> None:
    random = Random(f"{protocol} {seed}")
    names = mock.patch.object(uuid, "uuid4", partial(_name, random))
    with SimulatedLoop(seed) as loop, names:
        loop.run(play_and_check(protocol, random))
