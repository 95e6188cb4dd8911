"""Word counts: exact after crashes, failures and rebalances."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import BrokerError, ErrorCode, ProducerFencedError
from aioprod.messages import EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest
from aioprod.testing.fixtures import FakeClusterThread
from examples.word_count.counter import COUNTS, GROUP, LINES, WordCounter
from examples.word_count.processes import CounterProcess
from examples.word_count.state import CountsTopic, words_of
from tests.support.tasks import running_task

PARTITIONS = 3
SHARES = ([0, 0, 3], [0, 1, 2], [1, 1, 1])
"""How many partitions members own, when one, two and three have joined."""
TEXT = [b"%s and %s, or %s" % (b"abcdefg"[n % 7 :][:1], b"vwxyz"[n % 5 :][:1], b"klm"[n % 3 :][:1]) for n in range(60)]


@pytest.fixture
def cluster(fake_cluster: FakeClusterThread) -> FakeClusterThread:
    fake_cluster.create_topic(LINES, partitions=PARTITIONS)
    fake_cluster.create_topic(COUNTS, partitions=PARTITIONS)
    return fake_cluster


async def write(cluster: FakeClusterThread, lines: list[bytes]) -> None:
    async with Producer(cluster.bootstrap) as producer:
        for number, line in enumerate(lines):
            await producer.send(LINES, line, partition=number % PARTITIONS)


def counted(cluster: FakeClusterThread) -> int:
    """How many lines the group has committed."""
    return sum(cluster.committed_offset(GROUP, TopicPartition(LINES, index)) or 0 for index in range(PARTITIONS))


async def until_counted(cluster: FakeClusterThread, lines: int, *tasks: asyncio.Task[None]) -> None:
    while counted(cluster) < lines:
        for task in tasks:
            assert not task.done(), task.exception()
        await asyncio.sleep(0.01)


async def check(cluster: FakeClusterThread, lines: list[bytes]) -> None:
    """The counts are those of the lines, and no count of a partition was written twice."""
    async with CountsTopic(cluster.bootstrap, COUNTS) as topic:
        assert await topic.totals() == Counter(word for line in lines for word in words_of(line))
    for index in range(PARTITIONS):
        seen: dict[bytes | None, int] = {}
        for record in cluster.records(COUNTS, index):
            count = int(bytes(record.value or b""))
            assert count > seen.get(record.key, 0)
            seen[record.key] = count


def running(cluster: FakeClusterThread, name: str) -> AbstractAsyncContextManager[asyncio.Task[None]]:
    return running_counter(WordCounter(cluster.bootstrap, name))


def running_counter(counter: WordCounter) -> AbstractAsyncContextManager[asyncio.Task[None]]:
    return running_task(counter.run())


def test_words() -> None:
    assert words_of("Öl, oil; OIL 2 \xff".encode("latin-1")) == ["l", "oil", "oil", "2"]
    assert words_of("Öl".encode()) == ["öl"]
    assert words_of(b" ,\n") == []


@pytest.mark.parametrize(
    ("request_kind", "takes_effect"),
    [
        pytest.param(InitProducerIdRequest, True, marks=pytest.mark.long),
        (ProduceRequest, True),
        pytest.param(TxnOffsetCommitRequest, False, marks=pytest.mark.long),
        pytest.param(TxnOffsetCommitRequest, True, marks=pytest.mark.long),
        (EndTxnRequest, False),
        pytest.param(EndTxnRequest, True, marks=pytest.mark.long),
    ],
)
async def test_a_member_that_is_killed_counts_each_line_once(
    cluster: FakeClusterThread, request_kind: Any, takes_effect: bool
) -> None:
    """The process gets SIGKILL while the brokers hold a request of its second life; they handle it then, or lose it."""
    with CounterProcess(cluster.bootstrap, "one") as process:
        await write(cluster, TEXT[:20])
        await until_counted(cluster, 20)
        process.kill()
        await write(cluster, TEXT[20:40])
        is_ours = None if request_kind is not ProduceRequest else lambda request: request.transactional_id
        drop = None if takes_effect else "before"
        fault = cluster.fault(request_kind, hold=True, drop=drop, when=is_ours)
        process.start()
        await asyncio.to_thread(cluster.call, fault.reached.wait)
        process.kill()
        cluster.call(fault.release)
        process.start()
        await write(cluster, TEXT[40:])
        await until_counted(cluster, 60)
    await check(cluster, TEXT)


@pytest.mark.parametrize("request_kind", [ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest])
@pytest.mark.parametrize("drop", ["before", "after"])
async def test_lost_connections(cluster: FakeClusterThread, request_kind: Any, drop: str) -> None:
    await write(cluster, TEXT)
    cluster.fault(request_kind, drop=drop, times=2)
    async with running(cluster, "one") as task:
        await until_counted(cluster, 60, task)
    await check(cluster, TEXT)


async def test_lines_of_a_transaction_that_failed_are_counted_again(
    cluster: FakeClusterThread, caplog: pytest.LogCaptureFixture
) -> None:
    await write(cluster, TEXT)
    cluster.fault(TxnOffsetCommitRequest, error=ErrorCode.ILLEGAL_GENERATION, times=2)
    async with running(cluster, "one") as task:
        await until_counted(cluster, 60, task)
    await check(cluster, TEXT)
    assert "are counted once more" in caplog.text


async def test_partitions_that_move_to_other_members(cluster: FakeClusterThread) -> None:
    """Each restores the counts that it gets, before it goes on with them."""
    counters = [WordCounter(cluster.bootstrap, name, heartbeat_interval_ms=50) for name in ("one", "two", "three")]
    async with AsyncExitStack() as stack:
        tasks: list[asyncio.Task[None]] = []
        for number, counter in enumerate(counters):
            tasks.append(await stack.enter_async_context(running_counter(counter)))
            while sorted(len(one.member.assignment) for one in counters) != SHARES[number]:
                await asyncio.sleep(0.01)
            await write(cluster, TEXT[20 * number : 20 * number + 20])
            await until_counted(cluster, 20 * number + 20, *tasks)
    await check(cluster, TEXT)


async def test_a_second_member_with_the_name_takes_over(cluster: FakeClusterThread) -> None:
    await write(cluster, TEXT[:20])
    async with running(cluster, "one") as first:
        await until_counted(cluster, 20, first)
        async with running(cluster, "one") as second:
            while not first.done():
                await write(cluster, [b"more"])
            await write(cluster, TEXT[20:])
            end = sum(len(cluster.records(LINES, index)) for index in range(PARTITIONS))
            await until_counted(cluster, end, second)
        assert isinstance(first.exception(), (ProducerFencedError, BrokerError))
    lines = [bytes(one.value or b"") for index in range(PARTITIONS) for one in cluster.records(LINES, index)]
    await check(cluster, lines)


async def test_a_transaction_that_has_not_ended_is_waited_for(cluster: FakeClusterThread) -> None:
    """Its offsets may be committed already: without its counts the state would be that of another time."""
    async with CountsTopic(cluster.bootstrap, COUNTS) as topic:
        async with Producer(cluster.bootstrap, transactional_id="x") as producer:
            await producer.begin_transaction()
            await producer.send(COUNTS, b"7", key=b"word", partition=1)
            restoring = asyncio.create_task(topic.restore(1))
            # Half a second in which it could return too early; however long it takes, it must not.
            await asyncio.wait([restoring], timeout=0.5)
            assert not restoring.done()
            await producer.commit_transaction()
        assert await restoring == Counter(word=7)
