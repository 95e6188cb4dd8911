"""Members at work on real brokers, killed and restarted again and again, with dead letters in transactions."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from aioprod import Producer, read
from aioprod.admin import Admin
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic
from integration.support.work_program import POISON
from tests.support.length import by_length

KILLS = by_length(2, 120)
RECORDS_EACH = 600
"""Records that are sent between two kills."""
SLOTS = 3


class Workers:
    """Processes that work, each of which writes to a file."""

    def __init__(self, *arguments: str, folder: Path) -> None:
        self.log = folder / "handled"
        self.log.touch()
        self._arguments = arguments
        self._processes: dict[int, asyncio.subprocess.Process] = {}

    async def start(self, slot: int) -> None:
        """Start the process of this slot, or do so again."""
        bootstrap, topic, dead, protocol = self._arguments
        program = [sys.executable, "-m", "integration.support.work_program"]
        arguments = [bootstrap, topic, dead, str(slot), protocol, str(self.log)]
        self._processes[slot] = await asyncio.create_subprocess_exec(
            *program, *arguments, stdout=asyncio.subprocess.PIPE
        )

    async def kill(self, slot: int) -> None:
        """Kill the process, which has to be running."""
        assert self._processes[slot].returncode is None
        self._processes[slot].kill()
        await self._processes[slot].wait()

    async def end(self) -> None:
        """End all in good order, also one that has only just been started again."""
        for process in self._processes.values():
            assert process.stdout is not None
            assert await process.stdout.readline() == b"at work\n"
            process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            assert await process.wait() == 0

    async def kill_rest(self) -> None:
        """Kill those that have not ended: a test that fails leaves none behind."""
        for slot, process in self._processes.items():
            if process.returncode is None:
                await self.kill(slot)

    @property
    def handled(self) -> Counter[int]:
        """How often the handler of each record has returned."""
        return Counter(int(line) for line in self.log.read_bytes().split())


@asynccontextmanager
async def workers(
    kafka_cluster: KafkaCluster, topic: str, dead: str, protocol: str, folder: Path
) -> AsyncIterator[Workers]:
    """Three workers, for the time of the block."""
    found = Workers(kafka_cluster.bootstrap_servers, topic, dead, protocol, folder=folder)
    try:
        for slot in range(SLOTS):
            await found.start(slot)
        yield found
        await found.end()
    finally:
        await found.kill_rest()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.timeout(by_length(240, 4800))
async def test_killed_workers_lose_no_record_and_send_each_letter_once(
    kafka_cluster: KafkaCluster, make_topic: MakeTopic, protocol: str, tmp_path: Path
) -> None:
    topic, dead = await make_topic(kafka_cluster, partitions=4), await make_topic(kafka_cluster)
    random, sent = Random(1), 0
    async with (
        Producer(kafka_cluster.bootstrap_servers) as producer,
        workers(kafka_cluster, topic, dead, protocol, tmp_path) as found,
    ):
        for _ in range(KILLS):
            numbers = range(sent, sent + RECORDS_EACH)
            keys = [b"%d" % (number % 97) for number in numbers]
            (await producer.send_many(topic, [b"%d" % number for number in numbers], keys=keys)).raise_for_failures()
            sent += RECORDS_EACH
            before = found.handled.total()
            while found.handled.total() < before + RECORDS_EACH // 3:
                await asyncio.sleep(0.05)
            slot = random.randrange(SLOTS)
            await found.kill(slot)
            await found.start(slot)
        wanted = {number for number in range(sent) if number % POISON}
        async with Admin(kafka_cluster.bootstrap_servers) as admin:
            while found.handled.keys() < wanted or any((await admin.group_lag(topic)).values()):
                await asyncio.sleep(0.5)
    assert found.handled.keys() == wanted
    letters = [
        record.value
        async for record in read(
            dead, bootstrap_servers=kafka_cluster.bootstrap_servers, isolation_level="read_committed"
        )
    ]
    assert Counter(letters) == Counter(b"%d" % number for number in range(0, sent, POISON))
    repeated = found.handled.total() - len(wanted)
    print(f"{protocol}: {sent} records, {KILLS} kills, {repeated} handled again, {len(letters)} letters, each once")
