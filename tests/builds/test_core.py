"""The way of records through the accumulator: any sequence of calls leaves both builds with the same batches."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builds import Build, check_same, plain

KEYS = st.none() | st.binary(max_size=8)
VALUES = st.none() | st.binary(max_size=300) | st.integers(0, 2500).map(lambda size: b"v" * size)
OTHERS = st.sampled_from([memoryview(b"a view"), bytearray(b"bytes"), "text"])
TEXTS = st.lists(st.integers(0, 300), max_size=60).map(lambda sizes: b"\n".join([b"l" * size for size in sizes]))
TOPICS = st.sampled_from(["t", "t", "t", "t", "u", "u", "unknown", "no/name"])
PARTITIONS = st.sampled_from([-1, -1, -1, -1, 0, 1, 2, 3])
TIMESTAMPS = st.integers(0, (1 << 63) - 1) | st.integers(1000, 1010)
LEADERS = st.dictionaries(st.integers(0, 3), st.integers(-1, 3), min_size=1)
APPEND = st.tuples(st.just("append"), TOPICS, KEYS, VALUES, st.booleans(), PARTITIONS, TIMESTAMPS)
STEPS = st.one_of(
    APPEND,
    APPEND,
    APPEND,
    APPEND,
    APPEND,
    st.tuples(st.just("many"), KEYS, st.lists(VALUES | OTHERS, max_size=12), PARTITIONS, st.booleans()),
    st.tuples(st.just("many"), st.none(), st.lists(VALUES | OTHERS, max_size=40), st.just(-1), st.booleans()),
    st.tuples(st.just("lines"), st.binary(max_size=40) | TEXTS, PARTITIONS),
    st.tuples(st.just("withdraw"), st.integers(0, 60)),
    st.tuples(st.just("drain"), st.integers(1, 3), st.integers(1, 5000), st.booleans()),
    st.tuples(st.just("drain"), st.integers(1, 2), st.just(100_000), st.just(True)),
    st.tuples(st.just("acknowledge"), st.integers(0, 5)),
    st.tuples(st.just("again"), st.integers(0, 5), st.sampled_from([0.0, 0.5])),
    st.tuples(st.just("divide"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("leaders"), LEADERS),
    st.tuples(st.just("flush")),
    st.tuples(st.just("wait"), st.integers(1, 5000)),
    st.tuples(st.just("pass"), st.floats(0.0, 2.0)),
)


class Driver:
    """One accumulator of one build, driven by the steps; waiters are numbered."""

    def __init__(self, build: Build, **options: Any) -> None:
        self.build = build
        self.harness = build["tests.support.accumulators"].Harness(**options)
        self.accumulator = self.harness.accumulator
        self.now = 10.0
        self.places: list[tuple[Any, Any]] = []
        self.on_the_way: list[Any] = []
        self.log: list[object] = []
        self.lead = dict.fromkeys(range(3), 1)
        for name in ("t", "u"):
            self.harness.lead(self.lead | {1: 2}, name=name, now=self.now)

    def step(self, name: str, *arguments: Any) -> object:
        """Carry out one step; what it gave, or the error that it raised."""
        try:
            return plain(getattr(self, name)(*arguments))
        except self.build["aioprod.errors"].AioprodError as error:
            return plain(error)

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, with_headers: bool, partition: int, timestamp: int
    ) -> object:
        headers = self.build["aioprod.records.headers"].encode_headers([("name", b"value")] if with_headers else [])
        waiter = object()
        place = self.accumulator.append(topic, key, value, headers, partition, timestamp, waiter, self.now)
        self.places.append((place, waiter))
        return type(place).__name__

    def many(self, key: bytes | None, values: list[Any], partition: int, with_headers: bool) -> object:
        headers = self.build["aioprod.records.headers"].encode_headers([("name", b"value")] if with_headers else [])
        keys = None if key is None else [key] * len(values)
        return self.bulk(values, keys, partition, headers)

    def lines(self, text: bytes, partition: int) -> object:
        headers = self.build["aioprod.records.headers"].NO_HEADERS
        lines = self.build["aioprod.producer.batching.lines"].lines_of(text)
        return list(lines), lines.size, self.bulk(lines, None, partition, headers)

    def bulk(self, values: Any, keys: list[Any] | None, partition: int, headers: bytes) -> object:
        calls = Calls(self.build)
        part = self.build["aioprod.producer.batching.bulk_values"].BulkValues(
            calls, values, keys, headers, 1000, partition, 5
        )
        topic = self.accumulator.topic("t", self.now)
        whole = part.append(self.accumulator, topic, self.now)
        return whole, part.at, part.accepted, part.needed, list(part.places), calls.said

    def withdraw(self, number: int) -> object:
        if not self.places:
            return None
        place, waiter = self.places[number % len(self.places)]
        if not isinstance(place, self.build["aioprod.producer.batching.batch"].Batch):
            return "parked"
        return self.build["aioprod.producer.batching.lifecycle"].withdraw(self.accumulator, place, waiter, self.now)

    def drain(self, node_id: int, size_max: int, unfinished: bool) -> object:
        self.build["aioprod.producer.batching.drain"].end_backoffs(self.accumulator, self.now)
        batches = self.harness.drain(node_id, now=self.now, size_max=size_max, unfinished=unfinished)
        for batch in batches:
            if not batch.sealed:
                batch.builder.seal(codec=0, level=None)
                batch.sealed = True
        self.on_the_way += batches
        return [self.seen(batch) for batch in batches]

    def acknowledge(self, number: int) -> object:
        if number < len(self.on_the_way):
            batch = self.on_the_way.pop(number)
            self.harness.acknowledge(batch, self.now)
        return self.held()

    def again(self, number: int, delay_s: float) -> object:
        lifecycle = self.build["aioprod.producer.batching.lifecycle"]
        if number < len(self.on_the_way):
            batch = self.on_the_way.pop(number)
            assert lifecycle.land(self.accumulator, batch, self.now)
            lifecycle.requeue(self.accumulator, batch, self.now, delay_s)
        return self.held()

    def divide(self, number: int, in_halves: bool) -> object:
        module = self.build["aioprod.producer.batching.splitting"]
        if number < len(self.on_the_way) and self.on_the_way[number].builder.count > 1:
            batch = self.on_the_way.pop(number)
            assert self.build["aioprod.producer.batching.lifecycle"].land(self.accumulator, batch, self.now)
            if in_halves:
                module.split(self.accumulator, batch, self.now)
            else:
                culprits = module.set_apart(self.accumulator, batch, [0], self.now)
                self.build["aioprod.producer.batching.lifecycle"].complete(self.accumulator, culprits, self.now)
                self.build["aioprod.producer.batching.lifecycle"].release(self.accumulator, culprits)
        return self.held()

    def leaders(self, leaders: dict[int, int]) -> object:
        self.lead = {index: leaders.get(index, self.lead.get(index, 1)) for index in range(max([2, *leaders]) + 1)}
        self.harness.lead(self.lead, epoch=len(self.log) + 2, now=self.now)
        return self.held()

    def flush(self) -> object:
        done: list[bool] = []
        barrier = self.build["aioprod.producer.batching.lifecycle"].flush(
            self.accumulator, [], self.now, lambda: done.append(True)
        )
        return done, barrier.pending

    def wait(self, size: int) -> object:
        budget = self.accumulator.budget
        request = budget.wait(size, None)
        granted = budget.grant()
        budget.end(request)
        return len(granted), budget.reserved, budget.fits(size)

    def seen(self, batch: Any) -> object:
        """What is in a batch and what it knows."""
        runs = [(entry.count, entry.first) for entry in batch.waiters if type(entry).__name__ == "Run"]
        wire = bytes(batch.builder.wire(batch.partition.index, True)) if batch.sealed else b""
        own = [batch.serial, batch.record_bytes, batch.records, batch.created, batch.deadline, int(batch.state)]
        return [batch.partition.index, *own, batch.attempts, runs, len(batch.waiters), wire]

    def held(self) -> object:
        accumulator = self.accumulator
        queues = [
            (node, [p.index for p in queue.ready], [p.index for p in queue.unfinished], queue.next_due())
            for node, queue in sorted(accumulator.queues.items())
        ]
        topics = [
            [name, topic.count, dict(topic.queue_lengths), topic.sticky.partition]
            + [partition.muted(self.now) for partition in topic.partitions]
            for name, topic in accumulator.topics.items()
        ]
        pool = accumulator.pool
        return [
            self.harness.held(),
            accumulator.serial,
            [len(buffer) for buffer in pool.free],
            queues,
            topics,
            [batch.serial for batch in accumulator.incomplete],
            len(self.harness.woken),
            self.harness.due,
        ]


def pass_(driver: Driver, seconds: float) -> None:
    driver.now += seconds


setattr(Driver, "pass", pass_)


class Calls:
    """A bulk call that keeps what it hears."""

    def __init__(self, build: Build) -> None:
        self._run = build["aioprod.producer.batching.batch"].Run
        self._error = build["aioprod.errors"].SerializationError
        self.said: list[object] = []

    def begin_run(self, partition: int) -> Any:
        self.said.append(partition)
        return self._run(self, len(self.said), 0)

    def as_bytes(self, what: str, given: Any) -> bytes:
        if isinstance(given, str):
            raise self._error(f"{what} {given!r} is not bytes.")
        return bytes(given)

    def invalid(self, index: int, error: Exception) -> None:
        self.said.append((index, plain(error)))


OPTIONS = st.fixed_dictionaries(
    {
        "batch_size": st.integers(80, 400) | st.just(5000),
        "buffer_memory": st.sampled_from([4000, 100_000]),
        "max_request_size": st.sampled_from([1000, 10_000]),
        "in_flight_max": st.sampled_from([1, 1000]),
        "ignore_keys": st.booleans(),
        "availability_timeout_s": st.sampled_from([0.0, 0.1]),
    }
)


@given(OPTIONS, st.lists(STEPS, min_size=15, max_size=60))
@settings(max_examples=150)
def test_any_sequence_of_calls(options: dict[str, Any], steps: list[tuple[Any, ...]]) -> None:
    def call(build: Build) -> object:
        driver = Driver(build, **options)
        for name, *arguments in steps:
            driver.log.append((name, driver.step(name, *arguments), plain(driver.held())))
        return driver.log

    check_same(call)
