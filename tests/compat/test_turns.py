"""Records that wait for room are accepted in the order of the calls for their topic."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from aioprod.compat.aiokafka.sending import SendingProducer
from aioprod.compat.aiokafka.turns import Turns
from aioprod.errors import BufferFullError


class FakeProducer:
    """Refuses records for the topics in `full`, where True stands for one that is stuck."""

    def __init__(self) -> None:
        self.full = {"stuck": True, "other": False}
        self.is_stuck_full = False
        self.accepted: list[tuple[str, int]] = []
        self.drains: list[asyncio.Future[None]] = []

    def accept(self, topic: str, number: int) -> None:
        if topic in self.full:
            self.is_stuck_full = self.full[topic]
            raise BufferFullError("full")
        self.accepted.append((topic, number))

    async def drain(self) -> None:
        self.drains.append(asyncio.get_running_loop().create_future())
        await self.drains[-1]


async def run_all() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_record_passes_none_for_its_topic_that_waits_in_another_line() -> None:
    producer = FakeProducer()
    turns = Turns(cast("SendingProducer", producer), 60)
    calls = [("stuck", 0), ("other", 0), ("stuck", 1)]
    tasks = []
    for topic, number in calls:
        tasks.append(asyncio.create_task(turns.accepted(producer.accept, topic, number)))
        await run_all()
    of_stuck, of_other = producer.drains
    producer.full.clear()
    of_other.set_result(None)
    await run_all()
    assert producer.accepted == [("other", 0)]
    of_stuck.set_result(None)
    await asyncio.gather(*tasks)
    assert producer.accepted == [("other", 0), ("stuck", 0), ("stuck", 1)]


async def test_a_stuck_topic_holds_up_no_other_and_gives_up_in_time() -> None:
    producer = FakeProducer()
    turns = Turns(cast("SendingProducer", producer), 0.01)
    del producer.full["other"]
    stuck = [asyncio.create_task(turns.accepted(producer.accept, "stuck", number)) for number in range(2)]
    await run_all()
    await turns.accepted(producer.accept, "other", 0)
    for task in stuck:
        with pytest.raises(BufferFullError):
            await task
    producer.full.clear()
    await turns.accepted(producer.accept, "stuck", 2)
    assert producer.accepted == [("other", 0), ("stuck", 2)]
