"""One transaction in several processes, on real brokers of both transaction versions."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise

import pytest

from aioprod import OffsetAndMetadata, TopicPartition
from aioprod.errors import AioprodError, ProducerFencedError, TransactionAbortedError, TransactionUnknownError
from aioprod.testing import KafkaCluster
from aioprod.transactions import TransactionHandle, TransactionSession, TransactionStatus
from integration.support.brokers import VERSIONS, SharedClusters, transaction_version
from integration.support.clusters import MakeTopic
from integration.support.figures import Figures
from integration.support.reading import committed, stored
from integration.support.shared_writer import Writer, shared_writer
from tests.support.length import by_length

pytestmark = pytest.mark.timeout(180)

WORKERS = 4
IN_ONE_TRANSACTION = by_length(2, WORKERS)


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker of a version, which nobody kills."""
    return shared_clusters(version=request.param)


@asynccontextmanager
async def writers(
    cluster: KafkaCluster, topic: str, handle: TransactionHandle, count: int = WORKERS
) -> AsyncIterator[Sequence[Writer]]:
    """Processes that write one partition each."""
    async with AsyncExitStack() as stack:
        yield [
            stack.enter_context(shared_writer(cluster.bootstrap_servers, topic, partition, handle))
            for partition in range(count)
        ]


async def values(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    """What readers of committed records see, by partition and offset."""
    return [record.value for record in await committed(cluster, topic)]


async def test_several_processes_write_one_transaction(
    broker: KafkaCluster, make_topic: MakeTopic, figures: Figures
) -> None:
    topic = await make_topic(broker, IN_ONE_TRANSACTION)
    marker = TopicPartition(topic, 0)
    async with TransactionSession(broker.bootstrap_servers, transactional_id=topic) as session:
        for number, commits in enumerate((True, False, True)):
            handle = await session.begin()
            assert handle.transaction_version == transaction_version(broker)
            async with writers(broker, topic, handle, IN_ONE_TRANSACTION) as processes:
                for round_ in range(3):
                    started = time.monotonic()
                    outcomes = await asyncio.gather(*(one.write(f"{number}:{round_}") for one in processes))
                    assert outcomes == ["stored"] * IN_ONE_TRANSACTION
                    if round_ and not number:
                        figures.add(
                            f"ms, {IN_ONE_TRANSACTION} processes write once more",
                            f"{(time.monotonic() - started) * 1e3:.0f}",
                        )
            await session.send_offsets({marker: OffsetAndMetadata(number + 1, f"attempt {number}")}, topic)
            await (session.commit() if commits else session.abort())
        assert await session.committed_offsets(topic, [marker]) == {marker: OffsetAndMetadata(3, "attempt 2")}
    expected = [f"{number}:{round_}".encode() for number in (0, 2) for round_ in range(3)] * IN_ONE_TRANSACTION
    assert await values(broker, topic) == expected
    assert len(await stored(broker, topic)) == 9 * IN_ONE_TRANSACTION


async def test_stragglers_of_an_older_epoch_are_refused(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(broker, WORKERS)
    refused = "RejectedError INVALID_PRODUCER_EPOCH"
    async with (
        TransactionSession(broker.bootstrap_servers, transactional_id=topic) as session,
        writers(broker, topic, await session.begin()) as old,
    ):
        assert await old[0].write("left behind") == "stored"
        os.kill(old[1].pid, signal.SIGSTOP)
        async with writers(broker, topic, await session.begin(), 2) as new:
            assert await new[0].write("kept") == "stored"
            os.kill(old[1].pid, signal.SIGCONT)
            # A partition that it wrote to; one that it was frozen before, and one that nobody wrote to. Where these
            # have to be added to the transaction first that is refused, and nothing is sent at all.
            assert await old[0].write("late") == refused
            assert {await late.write("late") for late in old[1:3]} <= {refused, "NotSentError"}
            for late in old[:3]:
                assert await late.write("later") == "ProducerFencedError"
            assert await new[1].write("kept") == "stored"
        await session.commit()
        for late in (old[0], old[3]):
            assert await late.write("after the end") != "stored"
    assert await values(broker, topic) == [b"kept", b"kept"]


async def test_who_took_over_is_told_from_a_time_out(broker: KafkaCluster, make_topic: MakeTopic) -> None:
    topic = await make_topic(broker, 1)
    place = TopicPartition(topic, 0)
    servers = broker.bootstrap_servers
    async with TransactionSession(servers, transactional_id=topic, transaction_timeout_ms=1000) as session:
        handle = await session.begin()
        async with writers(broker, topic, handle, 1) as [writer]:
            assert await writer.write("too slow") == "stored"
            assert await session.status(handle) is TransactionStatus.OPEN
            async with asyncio.timeout(60):
                while await session.status(handle) is TransactionStatus.OPEN:
                    await asyncio.sleep(0.2)
            assert await session.status(handle) is TransactionStatus.ABORTED
            assert await writer.write("late") == "RejectedError INVALID_PRODUCER_EPOCH"
        with pytest.raises(TransactionAbortedError):
            await session.send_offsets({place: 1}, topic)
        with pytest.raises(TransactionUnknownError) as unknown:
            await session.commit()
        assert unknown.value.status is TransactionStatus.ABORTED
        handle = await session.begin()
        async with TransactionSession(servers, transactional_id=topic) as rival:
            await session.send_offsets({place: 7}, topic)
            await rival.begin()
            assert await session.status(handle) is TransactionStatus.TAKEN_OVER
            with pytest.raises(ProducerFencedError):
                await session.send_offsets({place: 8}, topic)
            with pytest.raises(TransactionUnknownError) as unknown:
                await session.commit()
            assert unknown.value.status is TransactionStatus.TAKEN_OVER
            assert await rival.committed_offsets(topic, [place]) == {place: None}
    assert await values(broker, topic) == []


@pytest.mark.parametrize("commits", [True, False])
async def test_the_next_session_ends_what_a_dead_one_left(
    broker: KafkaCluster, make_topic: MakeTopic, commits: bool
) -> None:
    """The marker tells whether the last commit was carried out, whoever asks."""
    topic = await make_topic(broker, 1)
    place = TopicPartition(topic, 0)
    async with TransactionSession(broker.bootstrap_servers, transactional_id=topic) as session:
        async with writers(broker, topic, await session.begin(), 1) as [writer]:
            assert await writer.write("value") == "stored"
        await session.send_offsets({place: 1}, topic)
        if commits:
            await session.commit()
    async with TransactionSession(broker.bootstrap_servers, transactional_id=topic) as successor:
        await successor.begin()
        found = (await successor.committed_offsets(topic, [place]))[place]
    assert (found == OffsetAndMetadata(1)) is commits
    assert await values(broker, topic) == ([b"value"] if commits else [])


async def delayed(delay_s: float, work: Awaitable[None]) -> None:
    """Do it a little later."""
    await asyncio.sleep(delay_s)
    await work


async def test_a_commit_races_the_next_session(broker: KafkaCluster, make_topic: MakeTopic, figures: Figures) -> None:
    """Whatever the one that lost the race hears: marker and records agree, and `committed` is never a lie."""
    topic = await make_topic(broker, 1)
    place = TopicPartition(topic, 0)
    told, marks = [], [0]
    for number in range(1, 31):
        async with (
            TransactionSession(broker.bootstrap_servers, transactional_id=topic) as session,
            TransactionSession(broker.bootstrap_servers, transactional_id=topic) as successor,
        ):
            handle = await session.begin()
            async with handle.producer(broker.bootstrap_servers) as producer:
                await producer.send(topic, b"%d" % number, partition=0)
            await session.send_offsets({place: number}, topic)
            assert await successor.status(handle) is TransactionStatus.OPEN
            outcomes = await asyncio.gather(
                delayed(number % 6 * 0.0005, session.commit()), successor.begin(), return_exceptions=True
            )
            assert isinstance(outcomes[1], TransactionHandle), outcomes[1]
            mark = (await successor.committed_offsets(topic, [place]))[place]
            marks.append(mark.offset if mark is not None else 0)
            told.append("committed" if outcomes[0] is None else type(outcomes[0]).__name__)
            if outcomes[0] is None:
                assert marks[-1] == number
            else:
                assert isinstance(outcomes[0], AioprodError)
    expected = [b"%d" % after for before, after in pairwise(marks) if after != before]
    assert await values(broker, topic) == expected
    figures.add(
        f"of 30 commits that raced the next session on Kafka {broker.version} were carried out, "
        f"{told.count('committed')} were told so",
        len(expected),
    )
