"""What is committed when a record's work fails, is cancelled, or is interrupted by the end of the member."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, Final, TypeAlias

import pytest

from aioprod.errors import ConfigError, ErrorCode, SerializationError, UsageError
from aioprod.group import Member
from aioprod.messages import OffsetCommitRequest
from aioprod.testing import FakeCluster
from aioprod.testing.simulation import SimulatedLoop
from aioprod.types import ConsumedRecord, TopicPartition
from tests.group.test_member import (
    P0,
    P1,
    PATIENCE_S,
    QUICK,
    CallbackLog,
    cluster,
    committed,
    new_member,
    take,
    timed_member,
    until_a_rebalance_waits,
)
from tests.support.sessions import keep_loop_time
from tests.support.simulated import in_simulated_time
from tests.support.stored_batches import store, stored_batch

RECORDS: Final = 9
FAILING: Final = 4
"""The offset of the record whose work does not end."""

Work: TypeAlias = Callable[[], Awaitable[None]]


async def offsets_of(member: Member, form: str) -> AsyncIterator[list[int]]:
    """The offsets of what is returned in one piece: records, lists of two, or Arrow batches of two."""
    if form == "records":
        async for record in member:
            yield [record.offset]
    elif form == "lists":
        async for records in member.batches(max_records=2, max_wait_ms=0):
            yield [record.offset for record in records]
    else:
        async for rows in member.arrow_batches(max_records=2, max_wait_ms=0):
            yield rows.column("offset").to_pylist()


class WorkError(Exception):
    """The work on a record has failed."""


class Count:
    """Reads a topic of one partition, and counts what is processed."""

    def __init__(self, brokers: FakeCluster, form: str, **options: Any) -> None:
        self.form = form
        self.done: list[int] = []
        self.at_work = asyncio.Event()
        self.events: list[str] = []
        self.member = Member(brokers.bootstrap, group_id="g", topics=["t"], on_revoked=self._revoked, **options)

    async def _revoked(self, partitions: Iterable[TopicPartition]) -> None:
        self.events.append("revoked")
        await self.member.commit()

    async def read(self, work: Work) -> None:
        """Process all records; the one at FAILING, or the list that has it, does `work`."""
        try:
            async for offsets in offsets_of(self.member, self.form):
                if FAILING in offsets:
                    self.at_work.set()
                    await work()
                self.done += offsets
                self.events.append(f"done {offsets[-1]}")
                if self.done[-1] == RECORDS - 1:
                    break
        finally:
            self.events.append("loop ended")


async def fails() -> None:
    """The work raises an error."""
    raise WorkError


async def lasts() -> None:
    """The work lasts until it is cancelled."""
    await asyncio.Event().wait()


async def nothing() -> None:
    """The work is done at once."""


async def ended_by_an_exception(one: Count) -> None:
    """The body raises, and the error leaves the block."""
    with pytest.raises(WorkError):
        async with one.member:
            await one.read(fails)


async def ended_by_cancellation(one: Count) -> None:
    """The task is cancelled in the middle of the work, as Ctrl-C does."""

    async def run() -> None:
        async with one.member:
            await one.read(lasts)

    task = asyncio.create_task(run())
    await one.at_work.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def ended_by_a_lifespan(one: Count) -> None:
    """A service cancels the worker, and leaves the block then."""
    async with one.member:
        task = asyncio.create_task(one.read(lasts))
        await one.at_work.wait()
        task.cancel()
        await asyncio.wait([task])


async def ended_by_close_while_the_work_goes_on(one: Count) -> None:
    """Another task closes the member, whose time is over before the work is."""
    async with one.member:
        task = asyncio.create_task(one.read(lasts))
        await one.at_work.wait()
        await one.member.close(timeout=0.2)
        task.cancel()
        await asyncio.wait([task])


SEQUENCES: Final[tuple[Callable[[Count], Awaitable[None]], ...]] = (
    ended_by_an_exception,
    ended_by_cancellation,
    ended_by_a_lifespan,
    ended_by_close_while_the_work_goes_on,
)
FORMS: Final = ("records", "lists", "arrow")
PROTOCOLS: Final = ("classic", "consumer")


def options_of(protocol: str, **more: Any) -> dict[str, Any]:
    """The settings of a member of this protocol."""
    common = {name: value for name, value in QUICK.items() if name != "heartbeat_interval_ms"}
    return {**(QUICK if protocol == "classic" else common), "group_protocol": protocol, **more}


@pytest.mark.parametrize("in_background", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sequence", SEQUENCES)
@in_simulated_time
async def test_what_is_not_finished_is_not_committed(
    sequence: Callable[[Count], Awaitable[None]], form: str, protocol: str, in_background: bool
) -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        one = Count(brokers, form, **options_of(protocol, enable_auto_commit=in_background))
        keep_loop_time(one.member._session, one.member._reading)
        await sequence(one)
        assert committed(brokers).get(P0, 0) == len(one.done)
        assert one.done == list(range(len(one.done)))
        assert FAILING not in one.done
        two = Count(brokers, form, **options_of(protocol))
        keep_loop_time(two.member._session, two.member._reading)
        async with two.member:
            await two.read(nothing)
        assert one.done + two.done == list(range(RECORDS))


# --- loops that are left


async def left_at(records: AsyncIterator[Any], offset: int) -> None:
    """Read records, or lists, up to this offset, whose work fails."""
    async for one in records:
        if (one[0] if isinstance(one, list) else one).offset == offset:
            raise WorkError


@pytest.mark.parametrize("mend", ["nothing", "skip", "commit", "commit the record", "seek"])
async def test_a_loop_that_was_left_has_not_finished_its_record(mend: str, caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        async with new_member(brokers, enable_auto_commit=True) as member:
            with pytest.raises(WorkError):
                await left_at(aiter(member), FAILING)
            async for record in member:
                if mend == "skip" and record.offset == FAILING + 1:
                    member.skip(record)
                elif mend == "commit" and record.offset == FAILING + 1:
                    await member.commit()
                elif mend == "commit the record" and record.offset == FAILING + 1:
                    await member.commit(record)
                elif mend == "seek" and record.offset == FAILING + 1:
                    member.seek(P0, FAILING)
                    mend = "read again"
                if record.offset == RECORDS - 1:
                    break
        assert committed(brokers)[P0] == (FAILING if mend == "nothing" else RECORDS - 1)
        assert f"after one that was left with offset {FAILING} of t-0 in hand" in caplog.text


async def test_a_list_that_was_left_is_finished_record_by_record() -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        async with new_member(brokers, enable_auto_commit=True) as member:
            with pytest.raises(WorkError):
                await left_at(member.batches(max_records=3, max_wait_ms=0), 3)
            async for rest in member.batches(max_records=3, max_wait_ms=0):
                assert [record.offset for record in rest] == [6, 7, 8]
                member.skip(ConsumedRecord("t", 0, 3, None, b"", (), 0))
                break
        assert committed(brokers)[P0] == 4


@pytest.mark.parametrize("way", ["commit", "offsets", "skip"])
@pytest.mark.parametrize("form", FORMS)
async def test_what_was_finished_before_its_loop_was_left_holds_up_no_commit(form: str, way: str) -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        async with new_member(brokers, enable_auto_commit=True) as member:
            async for offsets in offsets_of(member, form):
                if way == "commit":
                    await member.commit()
                elif way == "offsets":
                    await member.commit({P0: offsets[-1] + 1})
                else:
                    member.skip(ConsumedRecord("t", 0, offsets[-1], None, b"", (), 0))
                break
            async for offsets in offsets_of(member, form):
                if 6 in offsets:
                    break
        assert committed(brokers) == {P0: 6}


async def test_a_first_loop_leaves_nothing_behind() -> None:
    async with cluster(partitions=1, records=3) as brokers, asyncio.timeout(PATIENCE_S):
        async with new_member(brokers, enable_auto_commit=True) as member:
            await anext(member)
            async for record in member:
                if record.offset == 2:
                    await member.commit()
                    break
        assert committed(brokers) == {P0: 3}


# --- commits of one record, and in the background


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_a_record_is_committed_with_those_before_it(protocol: str) -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        member = Member(brokers.bootstrap, group_id="g", topics=["t"], **options_of(protocol))
        async with member:
            records = [await anext(member) for _ in range(5)]
            await member.commit(records[2])
            assert committed(brokers) == {P0: 3}
            await member.commit()
            assert committed(brokers) == {P0: 5}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_finished_is_committed_at_intervals(protocol: str) -> None:
    async def run() -> None:
        async with cluster(partitions=2, records=RECORDS) as brokers:
            options: dict[str, Any] = {
                "group_protocol": protocol,
                "enable_auto_commit": True,
                "auto_offset_reset": "earliest",
            }
            member = Member(brokers.bootstrap, group_id="g", topics=["t"], **options)
            keep_loop_time(member._session, member._reading)
            async with member:
                seen = [await anext(member) for _ in range(RECORDS)]
                await asyncio.sleep(6.0)
                last = seen[-1]
                counts = Counter(TopicPartition(record.topic, record.partition) for record in seen)
                counts[TopicPartition(last.topic, last.partition)] -= 1
                assert {tp: offset for tp, offset in committed(brokers).items() if offset} == +counts
                polling = asyncio.ensure_future(anext(member))
                await asyncio.sleep(6.0)
                assert sum(committed(brokers).values()) == RECORDS
                await polling
                requests = len(brokers.seen_of(OffsetCommitRequest))
                await asyncio.sleep(10.0)
                assert len(brokers.seen_of(OffsetCommitRequest)) == requests

    with SimulatedLoop(1) as loop:
        loop.run(run())


async def test_a_background_commit_that_fails_is_logged_and_made_again(caplog: pytest.LogCaptureFixture) -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        fault = brokers.fault(OffsetCommitRequest, error=ErrorCode.GROUP_AUTHORIZATION_FAILED, times=1)
        async with new_member(brokers, enable_auto_commit=True, auto_commit_interval_ms=20) as member:
            await take(member, 3)
            await fault.reached.wait()
            while not committed(brokers):
                await asyncio.sleep(0.01)
            assert committed(brokers) == {P0: 2}
    assert "Member of group 'g' could not commit 1 offset in the background" in caplog.text


@in_simulated_time
async def test_lost_partitions_are_not_committed_in_the_background() -> None:
    async with cluster(partitions=1, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        log = CallbackLog()
        options: dict[str, Any] = {"max_poll_interval_ms": 50, "enable_auto_commit": True, **log.callbacks}
        async with timed_member(brokers, **options) as member:
            await take(member, 3)
            # One interval of the background commits passes after the loss.
            await asyncio.sleep(10.0)
            records = await take(member, 1)
            await log.until("lost", P0)
            assert records[0].offset == 0
            assert committed(brokers) == {}
            await take(member, 4)
        assert committed(brokers) == {P0: 4}


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_work_during_a_rebalance_is_committed_before_its_partition_moves(protocol: str) -> None:
    async with cluster(partitions=2, records=RECORDS) as brokers, asyncio.timeout(PATIENCE_S):
        brokers.state.groups.settings.heartbeat_interval_s = 0.02
        one = Member(brokers.bootstrap, group_id="g", topics=["t"], **options_of(protocol, enable_auto_commit=True))
        other = Member(brokers.bootstrap, group_id="g", topics=["t"], **options_of(protocol, enable_auto_commit=True))
        processed: list[tuple[int, int]] = []
        at_work, goes_on = asyncio.Event(), asyncio.Event()

        async def work(member: Member) -> None:
            async for record in member:
                at_work.set()
                await goes_on.wait()
                await asyncio.sleep(0.01)
                processed.append((record.partition, record.offset))

        async with one, AsyncExitStack() as later:
            tasks = [asyncio.create_task(work(one))]
            await at_work.wait()
            await later.enter_async_context(other)
            tasks.append(asyncio.create_task(work(other)))
            await until_a_rebalance_waits(one)
            goes_on.set()
            while len(processed) < 2 * RECORDS:
                await asyncio.sleep(0.01)
            await asyncio.gather(one.close(), other.close())
            await asyncio.gather(*tasks)
        assert sorted(processed) == [(partition, offset) for partition in range(2) for offset in range(RECORDS)]
        assert committed(brokers) == {P0: RECORDS, P1: RECORDS}


# --- records that can't be deserialized


async def picky(member: Member) -> SerializationError:
    """Read until a record can't be deserialized; the error."""
    with pytest.raises(SerializationError) as failure:
        async for _ in member:
            pass
    return failure.value


@pytest.mark.parametrize("in_lists", [False, True])
async def test_a_poison_record_is_skipped(in_lists: bool) -> None:
    async with cluster(partitions=1) as brokers, asyncio.timeout(PATIENCE_S):
        store(brokers.state.topics["t"].partitions[0], stored_batch([b"1", b"{", b"3"]))
        async with new_member(brokers, value_deserializer=json.loads, enable_auto_commit=True) as member:
            error = await picky(member)
            assert error.record is not None
            assert (error.record.value, error.record.offset) == (b"{", 1)
            member.skip(error)
            if in_lists:
                assert [record.value for record in await anext(member.batches(max_wait_ms=0))] == [3]
            else:
                assert (await anext(member)).value == 3
        assert committed(brokers) == {P0: 2}


async def test_a_loop_that_goes_on_without_skip_is_stopped() -> None:
    async with cluster(partitions=1) as brokers, asyncio.timeout(PATIENCE_S):
        store(brokers.state.topics["t"].partitions[0], stored_batch([b"{", b"3"]))
        async with new_member(brokers, value_deserializer=json.loads) as member:
            error = await picky(member)
            with pytest.raises(UsageError, match=r"offset 0 of partition 0 of topic 't' could not be deserialized"):
                await anext(member)
            member.skip(error)
            assert (await anext(member)).value == 3


@pytest.mark.parametrize("what", [None, 5, ("t", 0), SerializationError("a record to send")])
async def test_what_can_not_be_skipped(what: Any) -> None:
    async with cluster(partitions=1, records=1) as brokers, new_member(brokers) as member:
        await take(member, 1)
        with pytest.raises(ConfigError, match="is nothing to skip"):
            member.skip(what)


async def test_a_record_of_another_member_can_not_be_skipped() -> None:
    async with cluster(partitions=1, records=1) as brokers, new_member(brokers) as member:
        await take(member, 1)
        with pytest.raises(UsageError, match="does not own partition 7"):
            member.skip(ConsumedRecord("t", 7, 0, None, b"", (), 0))


@pytest.mark.parametrize(
    ("name", "value"), [("a", b"3"), ("b", None), ("c", None)], ids=["last of two", "no value", "missing"]
)
def test_a_header_by_name(name: str, value: bytes | None) -> None:
    headers = (("a", b"1"), ("b", None), ("a", b"3"))
    assert ConsumedRecord("t", 0, 0, None, b"", headers, 0).header(name) == value
