"""Helpers for tests of transactions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from aioprod import Producer
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from aioprod.testing.fake.state.transactions import COMPLETING
from tests.support.producers import running, until

__all__ = ["seen", "state_of", "transacting", "transactional", "values", "work"]

MARKER_DELAY_S = 0.001
"""As with real brokers, the previous transaction may not be complete when the next one begins."""


@contextlib.asynccontextmanager
async def transactional(brokers: int, version: int) -> AsyncIterator[FakeCluster]:
    """Brokers of a transaction version that take a moment to write markers, and a topic "t" of three partitions."""
    async with FakeCluster(brokers, transaction_version=version) as cluster:
        cluster.create_topic("t", 3)
        cluster.state.transactions.marker_delay_s = MARKER_DELAY_S
        yield cluster


def transacting(cluster: FakeCluster, **options: Any) -> AbstractAsyncContextManager[Producer]:
    return running(cluster, transactional_id="id", **options)


async def work(producer: Producer, *values: bytes, error: Exception | None = None, rest_s: float = 0.0) -> None:
    """A transaction of some records; what goes wrong in it if something does, and how long it takes then."""
    async with producer.transaction():
        for value in values:
            await producer.send("t", value, partition=0)
        await asyncio.sleep(rest_s)
        if error is not None:
            raise error


def state_of(producer: Producer) -> TransactionState:
    assert producer._engine.transactions is not None
    return producer._engine.transactions.state


def seen(cluster: FakeCluster, *but: type) -> list[str]:
    """The names of the transactional requests that arrived, in order; retries count once."""
    kinds = (
        InitProducerIdRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        TxnOffsetCommitRequest,
        ProduceRequest,
        EndTxnRequest,
    )
    names = [
        one.message.NAME for one in cluster.seen if isinstance(one.message, kinds) and type(one.message) not in but
    ]
    return [name for name, _ in itertools.groupby(names)]


async def values(cluster: FakeCluster, isolation: Any = "read_committed") -> list[bytes | None]:
    """The values in the topic, by partition, once the coordinator has written its markers."""
    await until(lambda: all(one.state not in COMPLETING for one in cluster.state.transactions.values()))
    return [record.value for record in cluster.records("t", isolation=isolation)]
