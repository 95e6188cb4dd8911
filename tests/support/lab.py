"""`Lab`: raw requests in chosen versions to one broker, fake or real, for scenarios about producers and groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aioprod.errors import ErrorCode
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from aioprod.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from aioprod.messages.describe_transactions import TransactionState
from aioprod.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from aioprod.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from aioprod.messages.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from tests.support.lab_logs import NO_PRODUCER, PATIENCE_S, LogLab, Stored, Topic, batch

__all__ = ["NO_PRODUCER", "PATIENCE_S", "Answer", "Lab", "Stored", "Topic", "batch", "connected_lab", "open_lab"]


class Answer(NamedTuple):
    """The coordinator's error, and the producer's id and epoch."""

    error: ErrorCode | int
    producer_id: int
    epoch: int

    @property
    def producer(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


class Lab(LogLab):
    """A connection to the only broker of a cluster, with requests about producers and groups."""

    # --- producers

    async def init(
        self, transactional_id: str | None = None, producer: tuple[int, int] = NO_PRODUCER, *, timeout_ms: int = 60_000
    ) -> Answer:
        """InitProducerId, once."""
        producer_id, epoch = producer
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        answer = await self.request(request, 5 if self.level == 2 else 4)
        return Answer(ErrorCode.of(answer.error_code), answer.producer_id, answer.producer_epoch)

    async def init_at_last(self, transactional_id: str, **options: Any) -> Answer:
        """InitProducerId, retried until the previous transaction is complete."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.init(transactional_id, **options)).error == ErrorCode.CONCURRENT_TRANSACTIONS:
                await asyncio.sleep(0.01)
        return answer

    async def new_producer(self, **options: Any) -> tuple[str, tuple[int, int]]:
        """A new transactional id, and its producer."""
        transactional_id = self.new_name("transactional-id")
        answer = await self.init(transactional_id, **options)
        assert answer.error == 0
        return transactional_id, answer.producer

    async def describe_transaction(self, transactional_id: str) -> TransactionState:
        """DescribeTransactions."""
        return (
            await self.request(DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0)
        ).transaction_states[0]

    async def add(self, transactional_id: str, producer: tuple[int, int], *names: str) -> Sequence[ErrorCode | int]:
        """AddPartitionsToTxn, the first partition of each topic; the error of each."""
        topics = [AddPartitionsToTxnTopic(name=name, partitions=(0,)) for name in names]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=tuple(topics),
        )
        rows = (await self.request(request, 3)).results_by_topic_v3_and_below
        found = {row.name: row.results_by_partition[0].partition_error_code for row in rows}
        return [ErrorCode.of(found[name]) for name in names]

    async def write(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        topic: Topic,
        sequence: int,
        count: int = 1,
        *,
        added: bool = False,
    ) -> Stored:
        """Write a batch in a transaction; its partition is added first unless it was before."""
        if self.level == 1 and not added:
            (error,) = await self.add(transactional_id, producer, topic.name)
            if error != ErrorCode.NONE:
                return Stored(error, -1)
        data = batch(producer, sequence, count, transactional=True)
        return await self.send(topic, data, transactional_id=transactional_id)

    async def end(self, transactional_id: str, producer: tuple[int, int], *, commits: bool, version: int = 0) -> Answer:
        """EndTxn."""
        producer_id, epoch = producer
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commits
        )
        answer = await self.request(request, version or (5 if self.level == 2 else 4))
        return Answer(ErrorCode.of(answer.error_code), answer.producer_id, answer.producer_epoch)

    # --- groups

    async def add_offsets(self, transactional_id: str, producer: tuple[int, int], group: str) -> ErrorCode | int:
        """AddOffsetsToTxn."""
        request = AddOffsetsToTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
        )
        return ErrorCode.of((await self.request(request, 3)).error_code)

    async def commit_in(
        self,
        transactional_id: str,
        producer: tuple[int, int],
        group: str,
        topic: Topic,
        offset: int,
        *,
        generation: int = -1,
        member: str = "",
        metadata: str = "",
        version: int = 0,
    ) -> ErrorCode | int:
        """TxnOffsetCommit."""
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        request = TxnOffsetCommitRequest(
            transactional_id=transactional_id,
            group_id=group,
            producer_id=producer[0],
            producer_epoch=producer[1],
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=(TxnOffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=(row,)),),
        )
        answer = await self.request(request, version or (5 if self.level == 2 else 4))
        return ErrorCode.of(answer.topics[0].partitions[0].error_code)

    async def commit(
        self, group: str, topic: Topic, offset: int, *, generation: int = -1, member: str = "", metadata: str = ""
    ) -> ErrorCode | int:
        """OffsetCommit."""
        row = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=metadata)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=(OffsetCommitRequestTopic(name=topic.name, partitions=(row,)),),
        )
        return ErrorCode.of((await self.request(request, 8)).topics[0].partitions[0].error_code)

    async def committed(self, group: str, topic: Topic, *, stable: bool = False) -> tuple[ErrorCode | int, int]:
        """OffsetFetch: error and offset."""
        wanted = OffsetFetchRequestTopics(name=topic.name, partition_indexes=(0,))
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=group, topics=(wanted,)),), require_stable=stable
        )
        (answer,) = (await self.request(request, 8)).groups
        assert answer.error_code == 0, answer
        row = answer.topics[0].partitions[0]
        return ErrorCode.of(row.error_code), row.committed_offset

    async def committed_at_last(self, group: str, topic: Topic) -> int:
        """The committed offset of a group once no open transaction has one for it."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.committed(group, topic, stable=True))[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                await asyncio.sleep(0.01)
        assert found[0] == 0
        return found[1]

    async def make_ready(self) -> None:
        """Wait until there are coordinators: a real broker creates their topics at the first FindCoordinator."""
        transactional_id, group = self.new_name("first"), self.new_name("group")
        async with asyncio.timeout(PATIENCE_S):
            for key_type, key in ((1, transactional_id), (0, group)):
                request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=(key,))
                while (await self.request(request, 4)).coordinators[0].error_code:
                    await asyncio.sleep(0.1)
            while (await self.init(transactional_id)).error:
                await asyncio.sleep(0.1)
            topic = await self.topic()
            while await self.commit(group, topic, 0):
                await asyncio.sleep(0.1)


@asynccontextmanager
async def connected_lab(address: tuple[str, int], level: int = 2) -> AsyncIterator[Lab]:
    """A lab at one broker of several, which makes no requests by itself."""
    reader, writer = await asyncio.open_connection(*address)
    try:
        yield Lab(reader, writer, level)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def open_lab(address: str, level: int) -> AsyncIterator[Lab]:
    """A lab at the only broker of a cluster, at `host:port`."""
    host, _, port = address.rpartition(":")
    async with connected_lab((host, int(port)), level) as lab:
        await lab.make_ready()
        yield lab
