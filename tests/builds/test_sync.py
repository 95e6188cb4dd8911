"""The inbox of the producer for threads: any calls leave both builds with the same records, errors and bytes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.builds import Build, check_same, plain

TOPICS = st.sampled_from(["t", "t", "t", "unknown", "no/name"])
KEYS = st.none() | st.binary(max_size=8) | st.just("text")
VALUES = st.none() | st.binary(max_size=300) | st.sampled_from([bytearray(b"bytes"), memoryview(b"view"), "text", 5])
SIZES = st.integers(0, 6000).map(lambda size: b"v" * size)
HEADERS = st.sampled_from([None, None, [], [("name", b"value"), ("null", None)], [(1, b"bad")]])
PUT = st.tuples(
    st.just("put"),
    TOPICS,
    VALUES | SIZES,
    KEYS,
    st.sampled_from([None, None, 0, 1, 7, -1, True]),
    HEADERS,
    st.integers(-1, 1 << 63),
)
STEPS = st.one_of(PUT, PUT, PUT, PUT, st.tuples(st.just("move"), st.integers(0, 5)), st.tuples(st.just("sleep")))


def parts(entry: Any) -> list[object]:
    """All of an entry but the time of its call."""
    return [
        entry.topic,
        entry.key,
        entry.value,
        entry.headers,
        entry.partition,
        entry.timestamp,
        entry.waiter,
        entry.bound,
    ]


class Threads:
    """One inbox of one build, and what its calls return, raise and call back."""

    def __init__(self, build: Build) -> None:
        self._error = build["aioprod.errors"].AioprodError
        self._harness = build["tests.support.accumulators"].Harness(buffer_memory=9000)
        self._harness.lead({0: 1, 1: 2})
        self.seen: list[object] = []
        self._inbox = build["aioprod.sync.inbox"].Inbox(
            limit=9000,
            request_size_max=5000,
            timestamp_ms=build["aioprod.producer.preparation"].timestamp_ms,
            wake=lambda: self.seen.append("wake"),
            failed=lambda entry, error: self.seen.append((parts(entry), plain(error))),
        )
        self._inbox.share(self._harness.accumulator.budget)
        self._number = 0

    def step(self, name: str, *arguments: Any) -> None:
        try:
            self.seen.append(getattr(self, name)(*arguments))
        except self._error as error:
            self.seen.append(plain(error))
        self.seen.append((plain(self._inbox.buffered()), self._harness.accumulator.budget.used))

    def put(self, *arguments: Any) -> object:
        self._number += 1
        return self._inbox.put(*arguments, self._number)

    def move(self, most: int) -> object:
        stop = self._inbox.move(self._harness.accumulator, most)
        return None if stop is None else parts(stop)

    def sleep(self) -> object:
        return self._inbox.sleep()

    def rest(self) -> object:
        self._inbox.close()
        batches = [
            (batch.partition.index, batch.records, list(batch.waiters))
            for batch in self._harness.accumulator.incomplete
        ]
        return self.seen, batches, [parts(entry) for entry in self._inbox.rest()]


@given(st.lists(STEPS, max_size=60))
def test_any_calls(steps: list[tuple[Any, ...]]) -> None:
    def run(build: Build) -> object:
        threads = Threads(build)
        for step in steps:
            threads.step(*step)
        return threads.rest()

    check_same(run)
