"""Random appends, waits, answers, leaders that go and come: nothing leaks, nobody overtakes, and all end."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from random import Random
from typing import Final

import pytest

from aioprod.errors import BufferFullError
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.buffer_memory import Reservation
from aioprod.producer.batching.drain import end_backoffs
from aioprod.producer.batching.lifecycle import complete, expired, land, release, requeue, withdraw
from aioprod.producer.batching.parking import evict_overdue, withdraw_parked
from aioprod.producer.batching.partition import Partition, Topic
from aioprod.producer.batching.states import COMPLETED
from tests.support.accumulators import Harness

LIMIT: Final = 20_000
STEPS: Final = 150
BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = {"t": 5, "u": 2}


class Caller:
    """A call of `send` for one record, which may wait for room."""

    def __init__(self, serial: int, name: str, partition: int, value: bytes) -> None:
        self.serial = serial
        self.name = name
        self.partition = partition
        self.value = value
        self.reservation: Reservation | None = None
        self.owner: Batch | ParkedRecord | None = None


class Producer:
    """What a producer does around its accumulator, a step at a time and in the test's time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.share = self.random.choice([2_000, 10_000, 10_000, LIMIT])
        self.built = Harness(buffer_memory=LIMIT, stuck_memory=self.share, in_flight_max=3)
        self.accumulator = self.built.accumulator
        self.budget = self.accumulator.budget
        self.stuck = self.budget.stuck
        self.now = 0.0
        self.epoch = 0
        self.poll_at = math.inf
        self.leaders: dict[str, dict[int, int]] = {}
        self.callers = 0
        self.waiting: list[Caller] = []
        self.granted: deque[Reservation] = deque()
        self.accepted: dict[tuple[str, int], list[int]] = defaultdict(list)
        self.on_wire: list[Batch] = []
        self.all_topics: set[Topic] = set()

    # --- callers

    def begin(self, name: str, partition: int, size: int, *, waits: bool) -> None:
        caller = Caller(self.callers, name, partition, b"x" * size)
        self.callers += 1
        try:
            self.append(caller, 0)
        except BufferFullError:
            if waits:
                self.wait(caller)

    def append(self, caller: Caller, granted: int) -> None:
        caller.owner = self.accumulator.append(
            caller.name, None, caller.value, b"\0", caller.partition, 1, caller, self.now, granted
        )
        if caller.partition >= 0:
            self.accepted[caller.name, caller.partition].append(caller.serial)

    def wait(self, caller: Caller) -> None:
        """As `MemoryWaiters._wait`."""
        place = self.stuck.last_full().place
        size = len(caller.value) + 40
        caller.reservation = self.budget.wait(size, caller, place=place, earlier=caller.reservation)
        self.waiting.append(caller)
        self.serve()

    def serve(self) -> None:
        """As `MemoryWaiters.freed`: the callers run later."""
        self.granted += self.budget.grant()

    def run(self) -> None:
        """As `ProducerCalls._append_in_turn`, for those that were granted room."""
        while self.granted:
            reservation = self.granted.popleft()
            caller = reservation.waiter
            assert isinstance(caller, Caller)
            self.waiting.remove(caller)
            granted = -1 if reservation.shares else reservation.arrived
            self.budget.end(reservation)
            try:
                self.append(caller, granted)
            except BufferFullError:
                self.wait(caller)
            self.serve()

    # --- what happens

    def send(self) -> None:
        name = self.random.choice(["t", "t", "u"])
        partition = self.random.randrange(-1, PARTITIONS[name])
        if len(self.leaders.get(name, {})) <= partition:
            partition = -1
        size = self.random.choice([0, 10, 300, 900, 900, 900, 3_000])
        for _ in range(self.random.choice([1, 1, 5, 30])):
            self.begin(name, partition, size, waits=self.random.random() < 0.7)

    def give_up(self) -> None:
        if self.waiting:
            caller = self.waiting.pop(self.random.randrange(len(self.waiting)))
            assert caller.reservation is not None
            self.budget.end(caller.reservation)
            if caller.reservation in self.granted:
                self.granted.remove(caller.reservation)
            self.serve()

    def lead(self) -> None:
        name = self.random.choice(list(PARTITIONS))
        leaders = self.leaders.setdefault(name, dict.fromkeys(range(PARTITIONS[name]), 1))
        for index in leaders:
            if self.random.random() < 0.5:
                leaders[index] = self.random.choice([-1, 1, 2, 3])
        self.update(name)

    def update(self, name: str) -> None:
        self.epoch += 1
        self.built.lead(self.leaders[name], name=name, epoch=self.epoch, now=self.now)
        topic = self.accumulator.topics.get(name)
        if topic is not None:
            self.built.move_on(topic, 1000)

    def take(self) -> None:
        node_id = self.random.choice(BROKERS)
        queue = self.accumulator.queue(node_id)
        batches = self.built.drain(node_id, now=self.now, size_max=10**6, raw_max=10**6)
        if batches and not queue.in_flight:
            queue.left(self.now, 5)
        self.on_wire += batches

    def answer(self) -> None:
        self.random.shuffle(self.on_wire)
        self.on_wire.sort(key=lambda batch: batch.serial)
        for batch in self.on_wire:
            is_live = land(self.accumulator, batch, self.now)
            queue = batch.partition.queue
            if queue is not None:
                queue.in_flight = 0
            if not is_live:
                continue
            if self.random.random() < 0.3:
                requeue(self.accumulator, batch, self.now, self.random.choice([0.0, 0.1, 1.0]))
            else:
                batch.partition.moved_at = self.now
                complete(self.accumulator, batch, self.now)
                release(self.accumulator, batch)
        self.on_wire = []
        self.serve()

    def deliver(self) -> None:
        self.take()
        self.answer()

    def stall(self) -> None:
        queue = self.accumulator.queue(self.random.choice(BROKERS))
        queue.stalled_since = self.now if queue.stalled_since is None else None

    def lose(self) -> None:
        self.accumulator.queue(self.random.choice(BROKERS)).lost_at = self.now

    def withdraw(self) -> None:
        batches = [batch for batch in self.accumulator.incomplete if not batch.attempts]
        if batches:
            batch = self.random.choice(batches)
            withdraw(self.accumulator, batch, self.random.choice(batch.waiters), self.now)
        for topic in self.accumulator.parked_topics.values():
            if topic.parked and self.random.random() < 0.3:
                withdraw_parked(self.accumulator, self.random.choice(topic.parked))
        self.serve()

    def forget(self) -> None:
        """Topics for which nothing is held are dropped, and nobody waits."""
        for name in list(self.accumulator.topics):
            topic = self.accumulator.topics[name]
            is_held = topic.parked or any(p.open or p.queued or p.in_flight for p in topic.partitions)
            is_awaited = topic.stuck_count or any(caller.name == name for caller in self.waiting)
            if not is_held and not is_awaited:
                self.accumulator.drop(topic)

    def sleep(self) -> None:
        self.pass_time(self.random.choice([0.001, 0.05, 0.15, 0.15, 1.0, 40.0, 130.0]))

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        self.run()
        while (due := min(self.poll_at, *self.built.due, math.inf)) <= end:
            self.now = max(self.now, due)
            self.poll()
            self.run()
            self.now += 0.001
        self.now = max(self.now, end)

    def poll(self) -> None:
        """As `Pipeline.poll`."""
        self.built.due.clear()
        self.poll_at = self.accumulator.stuck.poll(self.now)
        assert self.poll_at > self.now, "it keeps the loop to itself"
        end_backoffs(self.accumulator, self.now)
        for batch in expired(self.accumulator, self.now, 1000):
            complete(self.accumulator, batch, self.now)
            release(self.accumulator, batch)
        for topic in self.accumulator.parked_topics.values():
            evict_overdue(self.accumulator, topic, self.now, 1000)
        self.serve()

    # --- what holds

    def check(self) -> None:
        budget, share = self.budget, self.stuck
        self.all_topics.update(self.accumulator.topics.values())
        batches = [batch for batch in self.accumulator.incomplete if batch.state != COMPLETED]
        parked = [r for t in self.accumulator.parked_topics.values() for r in t.parked or () if not r.withdrawn]
        assert budget.used == sum(b.record_bytes for b in batches) + sum(r.size for r in parked)
        assert budget.records == sum(b.records for b in batches) + len(parked)
        for topic in self.all_topics:
            assert topic.parked_bytes == sum(r.size for r in topic.parked or () if not r.withdrawn)
            places: list[Partition | Topic] = [topic, *topic.partitions]
            assert topic.stuck_count == sum(place.stuck_since is not None for place in places)
            assert all((place.stuck_since is not None) == (place in share.held) for place in places)
        held_back = [*budget.waiting, *share.waiting, *self.granted]
        assert {id(r) for r in held_back} == {id(caller.reservation) for caller in self.waiting}
        assert len(held_back) == len(self.waiting)
        assert budget.reserved == sum(r.size for r in self.granted)
        assert share.reserved == sum(r.size for r in held_back if r.shares)
        assert budget.used <= LIMIT + (LIMIT - self.share), "it takes more memory than it may"
        for serials in self.accepted.values():
            assert serials == sorted(serials), "a record overtook another one"

    def end(self) -> None:
        """All partitions have leaders, and all brokers answer."""
        for node_id in BROKERS:
            self.accumulator.queue(node_id).stalled_since = None
        self.answer()
        self.run()
        for name in PARTITIONS:
            self.leaders[name] = dict.fromkeys(range(PARTITIONS[name]), 1)
            self.update(name)
        self.serve()
        for _ in range(2000):
            if not self.waiting and not self.budget.used:
                break
            for node_id in BROKERS:
                end_backoffs(self.accumulator, self.now)
                for batch in self.built.drain(node_id, now=self.now, size_max=10**6, raw_max=10**6):
                    self.built.acknowledge(batch, self.now)
            self.serve()
            self.run()
            self.pass_time(0.2)
        assert not self.waiting, "a caller waits for ever"
        self.pass_time(1.0)
        self.check()
        assert (self.budget.used, self.budget.records, self.stuck.held) == (0, 0, {})
        assert not any(topic.stuck_count for topic in self.all_topics)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_nothing_leaks_and_nobody_overtakes(seed: int) -> None:
    producer = Producer(seed)
    happens = [producer.send] * 12 + [producer.deliver] * 3
    happens += [
        producer.lead,
        producer.lead,
        producer.take,
        producer.answer,
        producer.stall,
        producer.lose,
        producer.withdraw,
        producer.give_up,
        producer.forget,
        producer.sleep,
        producer.sleep,
    ]
    for _ in range(STEPS):
        producer.random.choice(happens)()
        producer.check()
        if producer.random.random() < 0.7:
            producer.run()
            producer.check()
    producer.end()
