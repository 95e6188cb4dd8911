"""Random requests of correct and incorrect producers, and a broker's answers to them.

The requests depend on the seed and on the answers so far: brokers that answer alike get the same requests.
"""

from __future__ import annotations

import asyncio
from random import Random

from aioprod.errors import ErrorCode
from tests.support.lab import NO_PRODUCER, PATIENCE_S, Lab, Topic, batch

__all__ = ["play"]

Producer = tuple[int, int]


class Play:
    """One run: its transactional ids, topics and groups, and the answer to each step."""

    def __init__(self, lab: Lab, seed: int, topics: list[Topic]) -> None:
        self.answers: list[str] = []
        self._lab = lab
        self._random = Random(seed)
        self._topics = topics
        self._names = [lab.new_name("transactional-id") for _ in range(2)]
        self._group = lab.new_name("group")
        self._known: dict[str, list[Producer]] = {name: [] for name in self._names}
        self._sequences: dict[tuple[Producer, str], int] = {}
        self._ids: dict[int, int] = {-1: -1}
        self._steps = (
            [self.init, self.raise_epoch, self.add, self.add_offsets, self.commit_offset, self.committed]
            + [self.end, self.read] * 2
            + [self.write] * 6
        )

    async def found_the_group(self) -> None:
        """Create the group by a commit: brokers before 4.0 ignore the pending offsets of one without committed ones."""
        await self._lab.commit(self._group, self._topics[0], 0)

    async def step(self) -> None:
        """One more request, and its answer."""
        work = self._random.choice(self._steps)
        self.answers.append(f"{work.__name__} {await work()}")

    # --- requests

    def _someone(self) -> tuple[str, Producer]:
        """A transactional id and one of its producers, most likely the last."""
        name = self._random.choice(self._names)
        known = self._known[name] or [NO_PRODUCER]
        return name, known[-1] if self._random.random() < 0.8 else self._random.choice(known)

    def _version(self, last: int, first: int) -> int:
        """One of these versions, as far as the broker supports it."""
        return self._random.randint(first, last if self._lab.level == 2 else last - 1)

    def _plain(self, producer: Producer) -> Producer:
        producer_id, epoch = producer
        return self._ids.setdefault(producer_id, len(self._ids)), epoch

    def _met(self, name: str, producer: Producer) -> Producer:
        if producer != NO_PRODUCER and producer not in self._known[name]:
            self._known[name].append(producer)
        return self._plain(producer)

    async def init(self) -> object:
        name, _ = self._someone()
        answer = await self._lab.init(name)
        await self._wait_until_complete(name)
        return self._names.index(name), answer.error, self._met(name, answer.producer)

    async def raise_epoch(self) -> object:
        name, producer = self._someone()
        answer = await self._lab.init(name, producer)
        await self._wait_until_complete(name)
        return self._names.index(name), self._plain(producer), answer.error, self._met(name, answer.producer)

    async def add(self) -> object:
        name, producer = self._someone()
        topic = self._random.choice(self._topics)
        errors = await self._lab.add(name, producer, topic.name)
        return self._names.index(name), self._plain(producer), self._topics.index(topic), errors

    async def write(self) -> object:
        name, producer = self._someone()
        topic, version = self._random.choice(self._topics), self._version(12, 10)
        following = self._sequences.get((producer, topic.name), 0)
        sequence = self._random.choice([following] * 6 + [0, max(0, following - 2), following + 1])
        transactional = self._random.random() < 0.9
        data = batch(producer, sequence, 2, transactional=transactional)
        stored = await self._lab.send(topic, data, version=version, transactional_id=name if transactional else None)
        if stored.error == ErrorCode.NONE:
            self._sequences[producer, topic.name] = sequence + 2
        return self._plain(producer), self._topics.index(topic), version, sequence, transactional, stored

    async def end(self) -> object:
        name, producer = self._someone()
        commits, version = self._random.random() < 0.5, self._version(5, 4)
        answer = await self._lab.end(name, producer, commits=commits, version=version)
        await self._wait_until_complete(name)
        return self._plain(producer), commits, version, answer.error, self._met(name, answer.producer)

    async def add_offsets(self) -> object:
        name, producer = self._someone()
        return self._plain(producer), await self._lab.add_offsets(name, producer, self._group)

    async def commit_offset(self) -> object:
        name, producer = self._someone()
        offset, version = self._random.randrange(100), self._version(5, 3)
        error = await self._lab.commit_in(name, producer, self._group, self._topics[0], offset, version=version)
        return self._plain(producer), offset, version, error

    # --- results

    async def committed(self) -> object:
        return [await self._lab.committed(self._group, self._topics[0], stable=stable) for stable in (False, True)]

    async def read(self) -> object:
        topic = self._random.choice(self._topics)
        log = await self._lab.read(topic)
        aborted = [(self._plain((producer_id, 0))[0], offset) for producer_id, offset in log.aborted]
        return self._topics.index(topic), log.end, log.stable_end, sorted(aborted), sorted(log.values)

    async def _wait_until_complete(self, name: str) -> None:
        """Wait until the transaction is complete; before, the answers depend on timing."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self._lab.describe_transaction(name)).transaction_state.startswith("Prepare"):
                await asyncio.sleep(0.002)


async def play(lab: Lab, seed: int, steps: int) -> list[str]:
    """A broker's answers to the requests of a seed."""
    run = Play(lab, seed, [await lab.topic() for _ in range(2)])
    await run.found_the_group()
    for _ in range(steps):
        await run.step()
    return run.answers
