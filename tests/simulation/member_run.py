"""`run_member_seed`: members at work while members crash, partitions move and brokers fail, and what has to hold.

Each record is handled to its end, or becomes a letter. Of records that have an order, none begins before those before
it have ended, whoever has worked on them. A record that is finished and committed does not come again. A letter that is
sent in a transaction is there once.
"""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from random import Random
from typing import Any, Final
from unittest import mock

from aioprod import Producer
from aioprod.errors import AioprodError, BrokerConnectionError
from aioprod.group import DeadLetters, Member, Retry
from aioprod.group.work.marks import decoded
from aioprod.messages import (
    EndTxnRequest,
    FetchRequest,
    OffsetCommitRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.log import Isolation
from aioprod.testing.simulation import SimulatedLoop, start, start_member
from aioprod.types import ConsumedRecord, TopicPartition
from aioprod.wire.schema import AnyRequest
from tests.simulation.member_plan import MemberPlan
from tests.simulation.run import Result
from tests.support.group_faults import GROUP_REQUESTS, break_something
from tests.support.stored_batches import store, stored_batch

__all__ = ["run_member_seed"]

_OF_COORDINATORS: Final[tuple[type[AnyRequest], ...]] = (*GROUP_REQUESTS, TxnOffsetCommitRequest)
_OTHERS: Final[tuple[type[AnyRequest], ...]] = (EndTxnRequest, FetchRequest, ProduceRequest)
_SLOW: Final[tuple[type[AnyRequest], ...]] = (
    EndTxnRequest,
    EndTxnRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)
_TOGETHER_S: Final = 3600.0
"""Simulated seconds after the last fault in which all has to be finished."""


def run_member_seed(seed: int, show: Callable[[str], object] | None = None) -> Result:
    """Run one seed; `show` gets each line of the trace."""
    plan, result = MemberPlan.draw(seed), Result(seed)
    names = Random(f"names {seed}")
    gc.disable()
    try:
        with (
            SimulatedLoop(seed) as loop,
            mock.patch.object(uuid, "uuid4", partial(_name, names)),
            mock.patch("secrets.token_urlsafe", lambda size: loop.random.randbytes(size).hex()),
        ):
            loop.trace.show = show
            loop.set_exception_handler(lambda _, context: result.problems.append(f"asyncio: {context}"))
            try:
                loop.run(_run(plan, loop, result))
            except Exception as error:
                result.problems.append(f"{type(error).__name__}: {error}")
                loop.set_exception_handler(lambda _, context: None)
            result.digest, result.simulated_s = loop.trace.digest, loop.time() - 1000.0
        gc.collect()
    finally:
        gc.enable()
    return result


def _name(random: Random) -> uuid.UUID:
    return uuid.UUID(int=random.getrandbits(128))


async def _run(plan: MemberPlan, loop: SimulatedLoop, result: Result) -> None:
    async with FakeCluster(3, seed=plan.seed, racks=plan.racks) as cluster:
        settings = cluster.state.groups.settings
        settings.session_timeout_s, settings.heartbeat_interval_s = 6.0, 0.5
        cluster.state.offset_metadata_max_bytes = plan.metadata_max
        cluster.create_topic("letters", 1)
        for partition in cluster.create_topic("t", plan.partitions).partitions:
            for number in range(plan.records):
                store(partition, stored_batch([b"v"], key=b"%d" % (number % plan.keys), base_offset=number))
        await Play(plan, loop, cluster, result).run()


class Book:
    """What has happened to each record, and the promises that it checks."""

    def __init__(self, plan: MemberPlan, cluster: FakeCluster, problems: list[str]) -> None:
        self.problems = problems
        self.begun: Counter[tuple[int, int]] = Counter()
        self.ended: set[tuple[int, int]] = set()
        self._plan = plan
        self._cluster = cluster
        self._random = Random(f"poison {plan.seed}")
        self.poison = {
            (partition, offset)
            for partition in range(plan.partitions)
            for offset in range(plan.records)
            if self._random.random() < plan.poison
        }

    @property
    def is_complete(self) -> bool:
        """Whether each record has ended, and all are committed."""
        plan = self._plan
        committed = [
            self._cluster.committed_offset("g", TopicPartition("t", index)) == plan.records
            for index in range(plan.partitions)
        ]
        return len(self.ended) == plan.partitions * plan.records and all(committed)

    def lane(self, record: ConsumedRecord) -> Hashable:
        """What the record shares its order with."""
        if self._plan.order == "key":
            return record.partition, record.key
        return record.partition if self._plan.order == "partition" else (record.partition, record.offset)

    def begin(self, record: ConsumedRecord) -> None:
        """The handler of a record begins."""
        place = record.partition, record.offset
        self.begun[place] += 1
        before = range(record.offset)
        if self._plan.order == "key":
            before = range(record.offset % self._plan.keys, record.offset, self._plan.keys)
        if self._plan.order is not None:
            open_places = {(record.partition, offset) for offset in before} - self.ended
            if open_places and (open_places := open_places - self._letters("read_uncommitted").keys()):
                self.problems.append(f"{place} began before {min(open_places)} of its lane had ended")
        if self._is_committed(place):
            self.problems.append(f"{place} came again, although it was committed as finished")

    def _is_committed(self, place: tuple[int, int]) -> bool:
        group = self._cluster.state.groups["g"]
        found = group.offsets.get(TopicPartition("t", place[0]))
        if found is None:
            return False
        marks = decoded(found.offset, found.metadata or "")
        return place[1] < found.offset or (place[1] < marks.end and place[1] not in marks.gaps)

    def end(self, record: ConsumedRecord) -> None:
        """The handler of a record has returned."""
        self.ended.add((record.partition, record.offset))

    def note_letters(self) -> None:
        """Records that became letters have ended, too."""
        self.ended.update(self._letters("read_committed"))

    def _letters(self, isolation: Isolation) -> Counter[tuple[int, int]]:
        """The places of the records that are letters. What is committed is visible only when its marker is written."""
        return Counter(
            (int(headers["dead.letter.partition"] or b""), int(headers["dead.letter.offset"] or b""))
            for headers in (dict(one.headers) for one in self._cluster.records("letters", isolation=isolation))
        )

    def check(self) -> None:
        """At the end."""
        letters = self._letters("read_committed")
        if missing := self.poison - letters.keys():
            self.problems.append(f"no letters of {sorted(missing)[:5]}")
        if self._plan.is_transactional and (twice := [place for place, count in letters.items() if count > 1]):
            self.problems.append(f"two letters of {sorted(twice)[:5]}")
        for partition in range(self._plan.partitions):
            at = self._cluster.committed_offset("g", TopicPartition("t", partition))
            if at != self._plan.records:
                self.problems.append(f"partition {partition} is committed up to {at} of {self._plan.records}")


class Worker:
    """A member at work."""

    def __init__(self, play: Play, slot: int) -> None:
        self.play = play
        self.slot = slot
        self.lanes: set[Hashable] = set()
        self.random = Random(f"{play.plan.seed} {slot} {play.loop.time()}")
        plan = play.plan
        self.member = Member(
            play.cluster.bootstrap,
            group_id="g",
            topics=["t"],
            auto_offset_reset="earliest",
            auto_commit_interval_ms=plan.interval_ms,
            max_poll_interval_ms=20_000,
            default_api_timeout_ms=10_000,
            client_rack=plan.racks[0] if plan.racks else "",
            **plan.protocol,
        )
        options: dict[str, Any] = {"transactional_id": f"letters {slot}"} if plan.is_transactional else {}
        self.producer = Producer(
            play.cluster.bootstrap, delivery_timeout_ms=20_000, request_timeout_ms=5_000, **options
        )
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        plan = self.play.plan
        letters = DeadLetters("letters", self.producer)
        await start(self.producer, self.play.loop)
        await start_member(self.member, self.play.loop)
        await self.member.work(
            self._handle,
            concurrency=plan.concurrency,
            order=plan.order,
            retry=Retry(times=3, backoff_s=(0.2, 2.0)),
            dead_letters=letters,
            drain_s=plan.drain_s,
            buffer_bytes=plan.buffer_bytes,
        )

    async def _handle(self, record: ConsumedRecord) -> None:
        play, lane = self.play, self.play.book.lane(record)
        play.book.begin(record)
        if lane in self.lanes:
            play.result.problems.append(f"two records of {lane} are in work at once")
        self.lanes.add(lane)
        try:
            await asyncio.sleep(self.random.random() * play.plan.slow)
            is_poison = (record.partition, record.offset) in play.book.poison
            if is_poison or (self.random.random() < play.plan.failing and not play.is_calm):
                raise ValueError("it fails")
        finally:
            self.lanes.discard(lane)
        play.book.end(record)

    async def close(self) -> None:
        """Leave in good order."""
        await self.member.close()
        await self._ended()
        await self.producer.close()

    async def _ended(self) -> None:
        """The task has ended: by then, with the error that the member was closed while it started, or cancelled."""
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()

    async def crash(self) -> None:
        """End from one moment to the next: nothing more is committed."""
        parts = self.member._parts
        if parts is not None:
            parts.assignment.commit = partial(_crashed)  # type: ignore[method-assign]
        self.task.cancel()
        await self.member.close(timeout=0.0)
        await self._ended()
        await self.producer.close(timeout=0.0)


async def _crashed(*args: object, **options: object) -> None:
    raise BrokerConnectionError("The process has crashed.")


class Play:
    """One run of a seed."""

    def __init__(self, plan: MemberPlan, loop: SimulatedLoop, cluster: FakeCluster, result: Result) -> None:
        self.plan = plan
        self.loop = loop
        self.cluster = cluster
        self.result = result
        self.book = Book(plan, cluster, result.problems)
        self.is_calm = False
        """Nothing goes wrong any more."""
        self.random = Random(f"play {plan.seed}")
        self.workers: dict[int, Worker] = {}
        self._closing: list[asyncio.Task[None]] = []
        """The ends of those that were restarted."""

    async def run(self) -> None:
        """Let things go wrong first; then all has to be finished."""
        random = self.random
        self._fill_up()
        for _ in range(self.plan.events):
            await asyncio.sleep(random.random() * 3)
            await random.choice([self._enter, self._leave, self._crash, self._delay, *[self._break] * 3])()
            self._restart_ended()
        self.cluster.end_faults()
        for node_id in self.cluster.brokers:
            if node_id not in self.cluster.state.nodes:
                await self.cluster.restart(node_id)
        self.is_calm = True
        self._fill_up()
        deadline = self.loop.time() + _TOGETHER_S
        while not self.book.is_complete:
            if self.loop.time() > deadline:
                raise TimeoutError(f"{len(self.book.ended)} records have ended: {self._picture()}")
            await asyncio.sleep(1.0)
            self.book.note_letters()
            self._restart_ended()
        for worker in list(self.workers.values()):
            await worker.close()
        await asyncio.gather(*self._closing)
        self.book.check()
        self.result.outcomes.update({"ended": len(self.book.ended), "begun": sum(self.book.begun.values())})

    def _picture(self) -> str:
        """What the members do."""
        return "; ".join(f"{slot}: {worker.member.explain()}" for slot, worker in self.workers.items())

    def _fill_up(self) -> None:
        for slot in range(self.plan.members):
            if slot not in self.workers:
                self.workers[slot] = Worker(self, slot)

    def _restart_ended(self) -> None:
        """A worker whose work has raised an error is restarted by its supervisor."""
        for slot, worker in list(self.workers.items()):
            if worker.task.done():
                error = worker.task.exception()
                self._count(f"error {type(error).__name__}")
                if error is not None and not isinstance(error, AioprodError):
                    self.result.problems.append(f"work raised {type(error).__name__}: {error}")
                self._closing.append(asyncio.ensure_future(worker.crash()))
                self.workers[slot] = Worker(self, slot)

    def _count(self, what: str) -> None:
        self.result.injected[what] += 1

    async def _enter(self) -> None:
        slot = next(slot for slot in range(10) if slot not in self.workers)
        self.workers[slot] = Worker(self, slot)
        self._count("member enters")

    async def _leave(self) -> None:
        if len(self.workers) > 1:
            self._count("member leaves")
            await self.workers.pop(self.random.choice(sorted(self.workers))).close()

    async def _crash(self) -> None:
        if self.workers:
            self._count("member crashes")
            await self.workers.pop(self.random.choice(sorted(self.workers))).crash()

    async def _delay(self) -> None:
        """A coordinator takes long to commit offsets, or to end transactions: other commits may come between."""
        kind: type[AnyRequest] = self.random.choice(_SLOW)
        self.cluster.fault(kind, delay_s=self.random.random() * 4, times=self.random.randint(1, 5))
        self._count("delay")

    async def _break(self) -> None:
        """Something that brokers do."""
        self._count(await break_something(self.cluster, self.random, _OF_COORDINATORS, _OTHERS))
