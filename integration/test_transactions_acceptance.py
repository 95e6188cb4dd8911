"""Transactions on real brokers that die: consumers with read_committed see all that was committed, once.

The short form runs by default. The long form, 1,000 transactions with ten kills of their coordinator, and programs
that are killed twenty times, is `make transactions`, or AIOPROD_LONG=1. AIOPROD_CLIENT=confluent runs the same with
librdkafka's producer, which shows whether a failure is the producer's or the test's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from aioprod.errors import AioprodError
from aioprod.messages import FindCoordinatorRequest
from aioprod.testing import KafkaCluster
from aioprod.testing.kafka import rpc
from integration.support.brokers import VERSIONS, SharedClusters
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.java import JavaOracle, PartitionDigest, TopicDigest
from integration.support.life import Life
from integration.support.reading import Stored, committed
from integration.support.shared_batches import PRODUCERS, rows_of
from integration.support.transactional import CLIENTS, FATAL_ERRORS, Ended, Record
from tests.support.length import by_length

CLIENT: Final = os.environ.get("AIOPROD_CLIENT", "aioprod")
TRANSACTIONS: Final = by_length(60, 1000)
COORDINATOR_KILLS: Final = by_length(1, 10)
PROCESS_KILLS: Final = by_length(2, 20)
INPUT_RECORDS: Final = by_length(3_000, 20_000)
BATCHES: Final = by_length(30, 400)
PARTITIONS: Final = 4

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(by_length(600, 1800))]


@pytest.fixture(scope="module", params=VERSIONS)
def trio(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """Three brokers of a version; a single broker of 4.x that is killed may forget the markers of a transaction."""
    return shared_clusters(3, version=request.param)


async def coordinator_of(cluster: KafkaCluster, transactional_id: str) -> int:
    """Which broker looks after a transactional id, as soon as there is one."""
    request = FindCoordinatorRequest(coordinator_keys=(transactional_id,), key_type=1)
    while True:
        for address in cluster.bootstrap_servers.split(","):
            host, _, port = address.rpartition(":")
            try:
                answer = await rpc.call(rpc.Address(host, int(port)), request)
            except (OSError, AioprodError):
                continue
            if not answer.coordinators[0].error_code:
                return answer.coordinators[0].node_id
        await asyncio.sleep(0.1)


async def read_by_java(oracle: JavaOracle, cluster: KafkaCluster, topic: str, seen: Sequence[Stored]) -> None:
    """Kafka's own consumer sees the same records, at the same places."""
    digests = {index: PartitionDigest() for index in range(PARTITIONS)}
    for record in seen:
        digests[record.partition].add(record.offset, record.timestamp, record.key, record.value, record.headers)
    expected: dict[int, TopicDigest] = {index: digest.result() for index, digest in digests.items()}
    found = await asyncio.to_thread(oracle.consume, cluster.bootstrap_servers, topic, "read_committed")
    assert found == expected


# -- random transactions ---------------------------------------------------------------------------------------------


class Executioner:
    """Kills the coordinator again and again, each time while transactions go on, and brings it back."""

    def __init__(self, cluster: KafkaCluster, transactional_id: str, chance: random.Random) -> None:
        self.killed: list[int] = []
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._chance = chance
        self._killing: asyncio.Task[None] | None = None

    async def strike(self) -> None:
        """Kill it in a moment; the last one that was killed is back by then."""
        await self.wait()
        self._killing = asyncio.create_task(self._kill(self._chance.random() * 0.05))

    async def _kill(self, delay_s: float) -> None:
        victim = await coordinator_of(self._cluster, self._transactional_id)
        await asyncio.sleep(delay_s)
        await self._cluster.kill(victim)
        self.killed.append(victim)
        await asyncio.sleep(self._chance.random() * 3.0)
        await self._cluster.restart(victim)

    async def wait(self) -> None:
        """Until all that were killed are back."""
        if self._killing is not None:
            await self._killing


class Script:
    """Random transactions, and what is to be found of them in the end."""

    def __init__(self, chance: random.Random) -> None:
        self.ends: Counter[Ended] = Counter()
        self._chance = chance
        self._done: list[tuple[Ended, list[Record]]] = []

    def sends(self) -> list[Record]:
        """The records of another transaction; each begins with its number, so that no two are the same."""
        chance, number = self._chance, len(self._done)
        return [
            (chance.randrange(PARTITIONS), b"%d:%d:" % (number, index) + chance.randbytes(chance.choice((0, 50, 2000))))
            for index in range(chance.choice((1, 2, 10, 40)))
        ]

    def note(self, ended: Ended, sends: list[Record]) -> None:
        """How it ended."""
        self.ends[ended] += 1
        self._done.append((ended, sends))

    def expected(self, seen: Sequence[Stored]) -> dict[int, list[bytes]]:
        """The records of each partition in order; one whose commit had no clear answer is there as a whole or not."""
        found = {record.value for record in seen}
        expected: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
        for ended, sends in self._done:
            is_there = ended is Ended.UNKNOWN and any(value in found for _, value in sends)
            if ended is Ended.COMMITTED or is_there:
                for partition, value in sends:
                    expected[partition].append(value)
        return expected


async def test_readers_see_the_committed_records_and_no_others(
    trio: KafkaCluster, make_topic: MakeTopic, oracle: JavaOracle, figures: Figures
) -> None:
    topic = await make_topic(trio, PARTITIONS, min_insync_replicas=2)
    chance = random.Random(20260801)
    client = await CLIENTS[CLIENT](trio.bootstrap_servers, topic).start()
    executioner = Executioner(trio, topic, chance)
    script = Script(chance)
    slowest_s, began = 0.0, time.monotonic()
    for number in range(TRANSACTIONS):
        if number % (TRANSACTIONS // COORDINATOR_KILLS) == TRANSACTIONS // COORDINATOR_KILLS // 2:
            await executioner.strike()
        sends, commit, started = script.sends(), number % 2 == 0, time.monotonic()
        try:
            ended = await client.transact(topic, sends, commit=commit, flush=chance.random() < 0.5)
        except FATAL_ERRORS:
            # librdkafka's does so on 3.9 when a coordinator dies beneath an abort; ours has no reason to.
            assert CLIENT != "aioprod"
            ended = Ended.UNKNOWN if commit else Ended.ABORTED
            client = await CLIENTS[CLIENT](trio.bootstrap_servers, topic).start()
        slowest_s = max(slowest_s, time.monotonic() - started)
        script.note(ended, sends)
    took_s = time.monotonic() - began
    await executioner.wait()
    await client.close()

    seen = await committed(trio, topic)
    assert by_partition(seen) == script.expected(seen)
    await read_by_java(oracle, trio, topic, seen)
    ends = script.ends
    assert ends[Ended.COMMITTED] + ends[Ended.FAILED] + ends[Ended.UNKNOWN] == TRANSACTIONS // 2
    assert len(executioner.killed) == COORDINATOR_KILLS
    what = ", ".join(f"{count} {end.value}" for end, count in ends.items())
    figures.add(
        f"records read back, exactly the committed ones, on Kafka {trio.version} ({CLIENT}): transactions {what}; "
        f"{COORDINATOR_KILLS} kills of the coordinator, the slowest {slowest_s:.1f} s, all {took_s:.0f} s",
        len(seen),
    )


def by_partition(seen: Sequence[Stored]) -> dict[int, list[bytes]]:
    """The values of each partition in the order of their offsets."""
    values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    for record in seen:
        values[record.partition].append(record.value or b"")
    return values


# -- programs that are killed ----------------------------------------------------------------------------------------


async def test_a_loop_that_is_killed_again_and_again_writes_each_record_once(
    trio: KafkaCluster, make_topic: MakeTopic, oracle: JavaOracle, figures: Figures
) -> None:
    source = await make_topic(trio, PARTITIONS)
    target = await make_topic(trio, PARTITIONS, min_insync_replicas=2)
    chance = random.Random(7)
    values: list[Record] = [(chance.randrange(PARTITIONS), b"%d" % number) for number in range(INPUT_RECORDS)]
    writer = await CLIENTS[CLIENT](trio.bootstrap_servers, f"{source}-writer").start()
    assert await writer.transact(source, values, commit=True) is Ended.COMMITTED
    await writer.close()

    began, is_done = time.monotonic(), False
    for number in range(PROCESS_KILLS + 1):
        arguments = (CLIENT, trio.bootstrap_servers, source, target, f"group-{target}", str(number))
        life = await Life.begin("transformer", *arguments)
        try:
            assert not is_done, "killed too rarely"
            is_done = await life.commits(chance.randrange(1, 4) if number < PROCESS_KILLS else None)
            await asyncio.sleep(chance.random() * 0.1)
        finally:
            await life.end()
    assert is_done
    took_s = time.monotonic() - began

    seen = await committed(trio, target)
    wanted = {index: [b"<" + value + b">" for at, value in values if at == index] for index in range(PARTITIONS)}
    assert by_partition(seen) == wanted
    await read_by_java(oracle, trio, target, seen)
    figures.add(
        f"records read, changed and written on Kafka {trio.version} ({CLIENT}), each once; {PROCESS_KILLS} times "
        f"killed, {took_s:.0f} s",
        len(seen),
    )


async def kill_and_thaw(
    servers: str, topic: str, chance: random.Random, executioner: Executioner, stack: contextlib.AsyncExitStack
) -> tuple[int, int]:
    """Let one driver after the other work until all is done; how many were killed or frozen, and how many thawed."""
    frozen: Life | None = None
    is_done, kills, thaws = False, 0, 0
    while not is_done:
        life = await Life.begin("shared_batches", servers, topic, str(BATCHES), str(kills))
        stack.push_async_callback(life.end)
        is_left_alone = kills == PROCESS_KILLS
        is_done = await life.commits(None if is_left_alone else chance.randrange(1, 4))
        if frozen is not None:
            # Two drivers at once: each fences the other until one of them gives up.
            frozen.signal(signal.SIGCONT)
            await asyncio.sleep(chance.random())
            await frozen.end()
            frozen = None
            thaws += 1
        if is_left_alone:
            await life.end()
            continue
        kills += 1
        if kills % (PROCESS_KILLS // COORDINATOR_KILLS) == 0:
            await executioner.strike()
        await asyncio.sleep(chance.random() * 0.1)
        if not is_done and chance.random() < 0.4 and life.process.returncode is None:
            life.signal(signal.SIGSTOP)
            frozen = life
        else:
            await life.end()
    return kills, thaws


@pytest.mark.needs(missing=lambda: None if CLIENT == "aioprod" else f"{CLIENT} has no shared transactions")
async def test_batches_that_producers_share_are_written_once(
    trio: KafkaCluster, make_topic: MakeTopic, oracle: JavaOracle, figures: Figures
) -> None:
    """Drivers are killed, or frozen and thawed beside their successors; the coordinator dies as well."""
    topic = await make_topic(trio, PRODUCERS, min_insync_replicas=2)
    chance = random.Random(11)
    executioner = Executioner(trio, topic, chance)
    began = time.monotonic()
    async with contextlib.AsyncExitStack() as stack:
        kills, thaws = await kill_and_thaw(trio.bootstrap_servers, topic, chance, executioner, stack)
    took_s = time.monotonic() - began
    await executioner.wait()
    assert kills == PROCESS_KILLS, "killed too rarely"

    seen = await committed(trio, topic)
    wanted = {index: [row for batch in range(BATCHES) for row in rows_of(batch, index)] for index in range(PRODUCERS)}
    found = by_partition(seen)
    for index, rows in wanted.items():
        stored, due = Counter(found[index]), Counter(rows)
        assert (due - stored, stored - due) == (Counter(), Counter()), f"lost and unwanted rows of partition {index}"
        assert found[index] == rows, f"rows of partition {index} are out of order"
    await read_by_java(oracle, trio, topic, seen)
    figures.add(
        f"records in {BATCHES} batches that {PRODUCERS} producers shared on Kafka {trio.version}, each once; drivers "
        f"killed {kills} times and thawed {thaws} times, coordinator killed {len(executioner.killed)} times, "
        f"{took_s:.0f} s",
        len(seen),
    )
