"""Handlers at once, in order for each key: what is handled, what is committed, and what becomes of failures."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import pytest

from aioprod import Producer
from aioprod.errors import AioprodError, ConfigError, ErrorCode, SerializationError, UsageError
from aioprod.group import DeadLetters, Member, Retry
from aioprod.group.work.mark_room import MarkRoom
from aioprod.group.work.marks import decoded
from aioprod.messages import HeartbeatRequest, OffsetCommitRequest
from aioprod.records.parser import ParsedRecord
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import ConsumedRecord, TopicPartition
from tests.support.sessions import keep_loop_time

P0: Final = TopicPartition("t", 0)
KEYS: Final = 20
T = TypeVar("T")


class Kitchen:
    """A handler that takes its time, and notes what it does."""

    def __init__(self, work_s: Callable[[ConsumedRecord], float] = lambda _: 0.1) -> None:
        self.done: list[tuple[int, int]] = []
        self.begun: Counter[tuple[int, int]] = Counter()
        self.at_once = 0
        self.most_at_once = 0
        self.failing: dict[tuple[int, int], int] = {}
        """How often the handler of a record fails yet."""
        self.keys_in_work: set[bytes] = set()
        self.of_key: dict[bytes, list[int]] = defaultdict(list)
        self._work_s = work_s

    async def cook(self, record: ConsumedRecord) -> None:
        """Handle a record."""
        place = record.partition, record.offset
        key = record.key
        assert key not in self.keys_in_work, f"two records of {key} at once"
        self.keys_in_work.add(key)
        self.begun[place] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self._work_s(record))
            if self.failing.get(place, 0):
                self.failing[place] -= 1
                raise ValueError(f"no {record.value!r}")
        finally:
            self.at_once -= 1
            self.keys_in_work.discard(key)
        self.done.append(place)
        self.of_key[key].append(record.offset)


def play(scene: Callable[[FakeCluster], Awaitable[T]], partitions: int = 1) -> T:
    """Play a scene in simulated time, with topic "t" and a topic for letters; returns what the scene returns."""

    async def run() -> T:
        async with FakeCluster() as brokers, asyncio.timeout(10_000):
            brokers.create_topic("t", partitions)
            brokers.create_topic("letters", 1)
            return await scene(brokers)

    with SimulatedLoop(1) as loop:
        return loop.run(run())


async def fill(brokers: FakeCluster, count: int, key: Callable[[int], bytes | None] | None = None) -> None:
    """Records with values of their numbers; by default of `KEYS` keys in turn."""
    key_of = key or (lambda number: b"key %d" % (number % KEYS))
    async with Producer(brokers.bootstrap) as producer:
        keys = [key_of(number) for number in range(count)]
        (await producer.send_many("t", [b"%d" % number for number in range(count)], keys=keys)).raise_for_failures()


def new_member(brokers: FakeCluster, **options: Any) -> Member:
    """A member of group "g" in the time of the loop."""
    given = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 1000, **options}
    member = Member(brokers.bootstrap, group_id="g", topics=["t"], **given)
    keep_loop_time(member._session, member._reading)
    return member


@asynccontextmanager
async def working(
    brokers: FakeCluster, handler: Any, member: Member | None = None, **options: Any
) -> AsyncIterator[tuple[Member, asyncio.Task[None]]]:
    """A member at work, for the time of the block."""
    async with member or new_member(brokers) as one:
        task = asyncio.create_task(one.work(handler, **{"concurrency": 10, **options}))
        yield one, task
        await one.close()
        await asyncio.wait([task])


def committed(brokers: FakeCluster, tp: TopicPartition = P0) -> tuple[int, set[int]]:
    """What group "g" has: the offset, and the unfinished offsets behind it up to the last finished one."""
    found = brokers.state.groups["g"].offsets[tp]
    marks = decoded(found.offset, found.metadata or "")
    return found.offset, set(marks.gaps) - {found.offset}


def now() -> float:
    """The time of the loop."""
    return asyncio.get_running_loop().time()


def letters(brokers: FakeCluster) -> list[ParsedRecord]:
    """The dead letters, also those of aborted transactions."""
    return list(brokers.records("letters"))


async def until(condition: Callable[[], bool]) -> None:
    """Wait until this holds."""
    while not condition():
        await asyncio.sleep(0.05)


# --- in parallel, in order


def test_handlers_run_at_once_and_each_key_in_order() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 400)
        kitchen = Kitchen()
        began = now()
        async with working(brokers, kitchen.cook, concurrency=200):
            await until(lambda: len(kitchen.done) == 400)
        assert kitchen.most_at_once == KEYS
        assert all(offsets == sorted(offsets) for offsets in kitchen.of_key.values())
        assert now() - began < 400 / KEYS * 0.1 + 10
        assert committed(brokers) == (400, set())

    play(scene)


@pytest.mark.parametrize(("order", "most"), [("partition", 1), (None, 7), ("key", 1)])
def test_orders(order: Any, most: int) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 30, key=lambda number: b"one")
        kitchen = Kitchen()
        at_once = kitchen.keys_in_work
        kitchen.keys_in_work = at_once if order else Bag()
        async with working(brokers, kitchen.cook, concurrency=7, order=order):
            await until(lambda: len(kitchen.done) == 30)
        assert kitchen.most_at_once == most

    play(scene)


class Bag(set[bytes]):
    """Has nothing: any number of records of a key may be in work."""

    def __contains__(self, key: object) -> bool:
        return False


def test_records_without_a_key_have_no_order() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 30, key=lambda number: None)
        kitchen = Kitchen()
        kitchen.keys_in_work = Bag()
        async with working(brokers, kitchen.cook, concurrency=30):
            await until(lambda: len(kitchen.done) == 30)
        assert kitchen.most_at_once == 30

    play(scene)


def test_a_slow_key_delays_no_other_and_survives_a_crash_as_a_mark() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 100)
        kitchen = Kitchen(lambda record: 1000.0 if record.key == b"key 3" else 0.1)
        async with working(brokers, kitchen.cook, drain_s=0.0, concurrency=50):
            await until(lambda: len(kitchen.done) == 95)
            await asyncio.sleep(2.0)
            assert committed(brokers) == (3, {23, 43, 63, 83})
        assert kitchen.begun[0, 3] == 1
        assert not kitchen.begun[0, 23]
        again = Kitchen()
        async with working(brokers, again.cook):
            await until(lambda: len(again.done) == 5)
            await asyncio.sleep(5.0)
        assert again.done == [(0, offset) for offset in (3, 23, 43, 63, 83)]
        assert committed(brokers) == (100, set())

    play(scene)


def test_a_crash_repeats_only_what_was_not_committed() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 200)
        kitchen, again = Kitchen(), Kitchen()
        member = new_member(brokers, session_timeout_ms=6000, heartbeat_interval_ms=500)
        await member.start()
        task = asyncio.create_task(member.work(kitchen.cook, concurrency=10, drain_s=0.0))
        await until(lambda: len(kitchen.done) > 120 and bool(brokers.state.groups["g"].offsets))
        brokers.fault(OffsetCommitRequest, drop="before")
        await member.close(timeout=0.0)
        await asyncio.wait([task])
        at, gaps = committed(brokers)
        async with working(brokers, again.cook):
            await until(lambda: len(set(kitchen.done) | set(again.done)) == 200 and committed(brokers)[0] == 200)
        repeated = set(kitchen.done) & set(again.done)
        assert all(offset >= at for _, offset in repeated)
        assert {offset for _, offset in again.done if offset in gaps} == gaps

    play(scene)


def test_memory_is_bounded_by_bytes() -> None:
    async def scene(brokers: FakeCluster) -> None:
        async with Producer(brokers.bootstrap, batch_size=1_000_000) as producer:
            values = [b"x" * 10_000 for _ in range(300)]
            keys = [b"hot" if number % 2 else b"key %d" % number for number in range(300)]
            (await producer.send_many("t", values, keys=keys)).raise_for_failures()
        held: list[int] = []
        kitchen = Kitchen()

        async def cook(record: ConsumedRecord) -> None:
            held.append(member_work(member)._queues.total.bytes)
            await kitchen.cook(record)

        member = new_member(brokers)
        async with working(brokers, cook, member, concurrency=50, buffer_bytes=500_000):
            await until(lambda: len(kitchen.done) == 300)
        assert 250_000 < max(held) <= 500_000 + 10_010
        assert kitchen.of_key[b"hot"] == sorted(kitchen.of_key[b"hot"])

    play(scene)


def test_no_record_starts_whose_mark_would_not_fit_into_a_commit() -> None:
    async def scene(brokers: FakeCluster) -> None:
        room = MarkRoom()
        count = room.bits_max + 2000
        waiting = room.gaps_max + 1
        startable = room.bits_max - waiting + 1
        await fill(brokers, count, key=lambda number: b"slow" if number < waiting else None)
        slow = asyncio.Event()
        begun: list[int] = []

        async def cook(record: ConsumedRecord) -> None:
            begun.append(record.offset)
            if record.offset == 0:
                await slow.wait()

        async with working(brokers, cook, concurrency=100):
            await until(lambda: len(begun) == startable)
            await asyncio.sleep(60.0)
            assert len(begun) == startable
            assert max(begun) == room.bits_max - 1
            assert committed(brokers)[0] == 0
            assert len(brokers.state.groups["g"].offsets[P0].metadata or "") <= 4096
            slow.set()
            await until(lambda: committed(brokers)[0] == count)
        assert sorted(begun) == list(range(count))

    play(scene)


def member_work(member: Member) -> Any:
    """The call of `work` that runs."""
    assert member._parts is not None
    return member._parts.assignment.work


# --- failures


def test_a_record_that_fails_is_handled_again_while_others_go_on() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 100)
        kitchen = Kitchen()
        kitchen.failing = {(0, 3): 3}
        async with working(brokers, kitchen.cook, retry=Retry(times=3, backoff_s=(10.0, 60.0)), concurrency=50):
            await until(lambda: len(kitchen.done) == 95)
            assert kitchen.begun[0, 3] == 1
            began = now()
            await until(lambda: len(kitchen.done) == 100)
            assert 60.0 < now() - began < 80.0
        assert kitchen.begun[0, 3] == 4
        assert kitchen.of_key[b"key 3"] == [3, 23, 43, 63, 83]
        assert committed(brokers) == (100, set())

    play(scene)


def test_an_error_without_dead_letters_ends_the_work_when_others_have_finished() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 100)
        kitchen = Kitchen(lambda record: 0.1 if record.offset == 3 else 2.0)
        kitchen.failing = {(0, 3): 1}
        async with working(brokers, kitchen.cook, concurrency=10) as (member, task):
            with pytest.raises(ValueError, match="no b'3'") as failure:
                await task
            assert failure.value.__notes__ == ["It was raised by the handler of offset 3 of t-0."]
            assert sorted(kitchen.done) == [(0, offset) for offset in range(10) if offset != 3]
            assert committed(brokers) == (3, set())
            # The same member continues with what is not finished.
            task = asyncio.create_task(member.work(kitchen.cook, concurrency=10))
            await until(lambda: len(kitchen.done) == 100)
            assert max(kitchen.begun.values()) == 2
            assert [place for place, count in kitchen.begun.items() if count == 2] == [(0, 3)]
            await member.close()
            await task

    play(scene)


def test_a_record_that_can_not_be_deserialized_ends_the_work_without_letters() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1, key=lambda number: b"k")
        member = new_member(brokers, key_deserializer=json.loads)
        async with working(brokers, Kitchen().cook, member, retry=Retry()) as (_, task):
            with pytest.raises(SerializationError):
                await task

    play(scene)


def test_a_handler_that_cancels_itself_has_failed() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 1)

        async def cook(record: ConsumedRecord) -> None:
            raise asyncio.CancelledError

        async with working(brokers, cook) as (_, task):
            with pytest.raises(AioprodError, match="The handler was cancelled, and not by the member"):
                await task

    play(scene)


# --- rebalances and the end


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_partitions_that_move_are_drained_first(protocol: str) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 400)
        kitchen, other = Kitchen(lambda record: 1.0), Kitchen(lambda record: 1.0)
        options = {"group_protocol": protocol}
        async with working(brokers, kitchen.cook, new_member(brokers, **options)):
            await until(lambda: len(kitchen.done) > 40)
            async with working(brokers, other.cook, new_member(brokers, **options)):
                await until(lambda: len(kitchen.done) + len(other.done) >= 400)
        assert other.done
        places = kitchen.done + other.done
        assert len(places) == len(set(places)) == 400
        assert all(place not in other.begun for place in kitchen.begun)

    play(scene, partitions=4)


def test_a_handler_that_takes_longer_than_the_drain_is_cancelled_and_its_record_comes_again() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen, again = Kitchen(lambda record: 1000.0 if record.offset == 5 else 0.1), Kitchen()
        began = now()
        async with working(brokers, kitchen.cook, drain_s=5.0):
            await until(lambda: len(kitchen.done) == 19)
            began = now()
        assert 5.0 <= now() - began < 7.0
        assert committed(brokers)[0] == 5
        async with working(brokers, again.cook):
            await until(lambda: bool(again.done))
        assert again.done == [(0, 5)]

    play(scene)


def test_lost_partitions_are_not_committed() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen = Kitchen(lambda record: 30.0)
        member = new_member(brokers, session_timeout_ms=6000, heartbeat_interval_ms=1000)
        async with working(brokers, kitchen.cook, member, concurrency=20):
            await until(lambda: len(kitchen.begun) == 20)
            brokers.fault(HeartbeatRequest, error=ErrorCode.UNKNOWN_MEMBER_ID, times=1)
            await until(lambda: max(kitchen.begun.values()) == 2)
            await until(lambda: len(kitchen.done) == 20)
        assert committed(brokers) == (20, set())

    play(scene)


def test_work_that_is_cancelled_cancels_its_handlers_and_commits_what_is_finished() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen = Kitchen(lambda record: 0.1 if record.offset < 10 else 1000.0)
        async with working(brokers, kitchen.cook, concurrency=20) as (_, task):
            await until(lambda: len(kitchen.done) == 10)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert kitchen.at_once == 0
            assert committed(brokers) == (10, set())

    play(scene)


def test_a_handler_that_runs_long_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen = Kitchen(lambda record: 1000.0 if record.offset == 5 else 0.1)
        member = new_member(brokers, max_poll_interval_ms=20_000)
        async with working(brokers, kitchen.cook, member, drain_s=0.0):
            await asyncio.sleep(60.0)
            assert len(kitchen.done) == 19

    play(scene)
    lines = [record.message for record in caplog.records if "longer than max.poll.interval.ms" in record.message]
    assert len(lines) == 1
    assert "has handled offset 5 of t-0 for 2" in lines[0]


def test_callbacks_and_handlers_may_commit_what_is_finished() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)

        async def revoked(partitions: Any) -> None:
            await member.commit()

        async def cook(record: ConsumedRecord) -> None:
            await kitchen.cook(record)
            if record.offset == 7:
                await member.commit()
                with pytest.raises(UsageError, match=r"work\(\) runs, and commits"):
                    await member.commit(record)
                with pytest.raises(UsageError, match=r"work\(\) runs, and has records"):
                    member.seek_to_beginning()
                with pytest.raises(UsageError, match="work"):
                    await member.work(cook, concurrency=1)

        kitchen = Kitchen(lambda record: 0.1 if record.offset < 10 else 1000.0)
        member = new_member(brokers, on_revoked=revoked, auto_commit_interval_ms=1_000_000, enable_auto_commit=True)
        async with working(brokers, cook, member, concurrency=20, drain_s=0.0):
            await until(lambda: len(kitchen.done) == 10)
            await asyncio.sleep(1.0)
            assert committed(brokers)[0] <= 7
        assert committed(brokers) == (10, set())

    play(scene)


def test_what_a_loop_has_left_behind_is_worked_on() -> None:
    async def scene(brokers: FakeCluster) -> None:
        await fill(brokers, 20)
        kitchen = Kitchen()
        async with new_member(brokers) as member:
            async for record in member:
                if record.offset == 4:
                    break
            task = asyncio.create_task(member.work(kitchen.cook, concurrency=3))
            await until(lambda: len(kitchen.done) == 16)
            await member.close()
            await task
        assert min(kitchen.done) == (0, 4)

    play(scene)


# --- what can't be


async def handler(record: ConsumedRecord) -> None:
    """Does nothing."""


def not_async(record: ConsumedRecord) -> None:
    """Is no coroutine function."""


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"handler": not_async}, "give an async function"),
        ({"handler": None}, "give an async function"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"concurrency": True}, "concurrency is True"),
        ({"order": "topic"}, "order is 'topic'"),
        ({"retry": 3}, "retry is 3"),
        ({"dead_letters": "letters"}, "dead_letters is 'letters'"),
        ({"drain_s": -1}, "drain_s is -1"),
        ({"buffer_bytes": 0}, "buffer_bytes is 0"),
    ],
)
async def test_invalid_arguments_raise_at_once(options: dict[str, Any], text: str) -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("t", 1)
        async with new_member(brokers) as member:
            given = {"handler": handler, "concurrency": 1, **options}
            with pytest.raises(ConfigError, match=text):
                await member.work(given.pop("handler"), **given)


async def test_letters_into_the_topic_that_is_read_raise() -> None:
    async with FakeCluster() as brokers, Producer(brokers.bootstrap) as producer:
        brokers.create_topic("t", 1)
        async with new_member(brokers) as member:
            with pytest.raises(ConfigError, match="dead_letters has topic 't', which this member reads"):
                await member.work(handler, concurrency=1, dead_letters=DeadLetters("t", producer))


async def test_the_topic_of_the_letters_can_not_be_subscribed_to_later() -> None:
    async with FakeCluster() as brokers, Producer(brokers.bootstrap) as producer:
        brokers.create_topic("t", 1)
        async with new_member(brokers) as member:
            letters_to = DeadLetters("letters", producer)
            task = asyncio.create_task(member.work(handler, concurrency=1, dead_letters=letters_to))
            await asyncio.sleep(0)
            with pytest.raises(ConfigError, match="dead_letters has topic 'letters', which this member reads"):
                member.subscribe(["t", "letters"])
            await member.close()
            await task


@pytest.mark.parametrize("given", [{"times": -1}, {"times": 1.5}, {"backoff_s": 3}, {"backoff_s": (5.0, 1.0)}])
def test_invalid_retries(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="Retry has"):
        Retry(**given)


def test_letters_need_a_producer() -> None:
    with pytest.raises(ConfigError, match=r"give an aioprod\.Producer"):
        DeadLetters("letters", None)  # type: ignore[arg-type]
