"""The whole producer against one broker in the process: what is stored and what is told is the same on both builds."""

from __future__ import annotations

import asyncio
import pickle
from itertools import chain
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.builds import Build, builds, check_same, plain

KEYS = st.none() | st.binary(max_size=8)
VALUES = st.sampled_from([None, b"", b"value", b"another value", b"v" * 300, b"v" * 1500, "text"])
HEADERS = st.sampled_from([None, None, None, [], [("name", b"value"), ("null", None)], [(1, b"bad")]])
TIMES = st.integers(1_000, 1 << 40)
FAULTS = ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "TOPIC_AUTHORIZATION_FAILED", "MESSAGE_TOO_LARGE")
# Where the sticky choice would decide, with the times at which batches leave, there is one partition only.
ONE = st.one_of(
    st.tuples(st.just("one"), VALUES, KEYS, st.sampled_from([None, None, 0, 7]), HEADERS, TIMES),
    st.tuples(st.just("three"), VALUES, st.binary(max_size=8), st.none(), HEADERS, TIMES),
    st.tuples(st.just("three"), VALUES, KEYS, st.sampled_from([0, 1, 2, 7]), HEADERS, TIMES),
)
STEPS = st.one_of(
    st.tuples(st.just("nowait"), ONE),
    st.tuples(st.just("submit"), ONE),
    st.tuples(st.just("send"), ONE),
    st.tuples(st.just("many"), st.sampled_from(["one", "three"]), st.lists(VALUES, max_size=20), st.booleans()),
    st.tuples(st.just("fault"), st.sampled_from(FAULTS), ONE),
    st.tuples(st.just("flush")),
)
OPTIONS = st.fixed_dictionaries(
    {
        "batch_size": st.sampled_from([200, 16_384]),
        "linger_ms": st.sampled_from([0, 5]),
        "compression_type": st.sampled_from(["none", "lz4", "gzip"]),
        "enable_idempotence": st.booleans(),
    }
)


class Talk:
    """One producer of one build; what its user does and hears."""

    def __init__(self, build: Build, producer: Any, brokers: Any) -> None:
        self._build = build
        self._producer = producer
        self._brokers = brokers
        self._error = build["aioprod.errors"].AioprodError
        self.heard: list[tuple[int, object]] = []
        self.waiting: list[tuple[int, Any]] = []
        self.number = 0

    async def step(self, name: str, *arguments: Any) -> None:
        self.number += 1
        number = self.number
        try:
            await getattr(self, name)(number, *arguments)
        except self._error as error:
            self.heard.append((number, plain(error)))

    async def nowait(self, number: int, record: tuple[Any, ...]) -> None:
        self._producer.send_nowait(*record[:2], **options(record), on_delivery=lambda *told: self._hear(number, told))

    async def submit(self, number: int, record: tuple[Any, ...]) -> None:
        future = self._producer.submit(*record[:2], **options(record))
        self.waiting.append((number, future))

    async def send(self, number: int, record: tuple[Any, ...]) -> None:
        self._hear(number, (await self._producer.send(*record[:2], **options(record)), None))

    async def many(self, number: int, topic: str, values: list[Any], with_keys: bool) -> None:
        keys = [b"key %d" % (index % 3) for index in range(len(values))] if with_keys else None
        partition = None if with_keys or topic == "one" else 2
        result = await self._producer.send_many(topic, values, keys=keys, partition=partition, timestamps=5_000)
        offsets = [(tuple(tp), [*chain(*ranges)]) for tp, ranges in sorted(result.offsets.items())]
        failed = [(index, type(error).__name__) for index, error in result.failures]
        self.heard.append((number, [offsets, failed]))

    async def fault(self, number: int, name: str, record: tuple[Any, ...]) -> None:
        await self._producer.flush()
        code = self._build["aioprod.errors"].ErrorCode[name]
        fault = self._brokers.fault(self._build["aioprod.messages"].ProduceRequest, error=code)
        try:
            await self.send(number, record)
        finally:
            fault.times = fault.hits

    async def flush(self, number: int) -> None:
        await self._producer.flush()

    async def end(self) -> None:
        for number, future in self.waiting:
            try:
                self._hear(number, (await future, None))
            except self._error as error:
                self._hear(number, (None, error))

    def _hear(self, number: int, told: tuple[Any, Any]) -> None:
        metadata, error = told
        self.heard.append((number, repr(metadata) if error is None else type(error).__name__))


def options(record: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("key", "partition", "headers", "timestamp"), record[2:], strict=True))


async def conversation(build: Build, settings: dict[str, Any], steps: list[tuple[Any, ...]]) -> object:
    async with build["aioprod.testing.fake"].FakeCluster(1) as brokers:
        topics = [brokers.create_topic("one"), brokers.create_topic("three", partitions=3)]
        producer = build["tests.support.producers"].new_producer(brokers.bootstrap, **settings)
        async with producer:
            talk = Talk(build, producer, brokers)
            for topic in topics:
                await producer.partitions_for(topic.name)
            for step in steps:
                await talk.step(*step)
            await producer.flush()
            await talk.end()
            counted = {name: value for name, value in producer.metrics().items() if name in COUNTED}
        stored = [
            [list(record) for record in partition.records()] for topic in topics for partition in topic.partitions
        ]
        return stored, sorted(talk.heard, key=lambda heard: heard[0]), counted


COUNTED = ("record_send_total", "record_error_total")


@given(OPTIONS, st.lists(STEPS, min_size=3, max_size=25))
@settings(max_examples=25)
def test_any_conversation(options: dict[str, Any], steps: list[tuple[Any, ...]]) -> None:
    check_same(lambda build: asyncio.run(conversation(build, options, steps)))


@given(st.tuples(st.text(max_size=5), *[st.integers(-(1 << 31), (1 << 31) - 1)] * 5))
def test_metadata_goes_from_one_build_to_the_other(fields: tuple[Any, ...]) -> None:
    """What one process pickles, another one can read that runs the other build: only public names are in it."""
    compiled, interpreted = (build["aioprod"].RecordMetadata(*fields) for build in builds())
    assert compiled.__reduce__()[1] == interpreted.__reduce__()[1] == fields
    assert repr(pickle.loads(pickle.dumps(compiled))) == repr(interpreted)
