"""Random transactions while brokers die, coordinators move, answers are lost and requests refused."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from aioprod import Producer
from aioprod.errors import ErrorCode, ProducerFencedError, TransactionAbortedError
from aioprod.messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from aioprod.producer.transactions.states import TransactionState
from aioprod.testing import FakeCluster
from tests.support.transactions import state_of, transacting, values

KINDS = (FindCoordinatorRequest, InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest, ProduceRequest)
PASSING = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
FORBIDDEN = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_RECORD)
TRANSACTIONS = 12


class TroubleError(Exception):
    """What a user's code raises."""


async def disturb(cluster: FakeCluster, chance: random.Random) -> None:
    """One thing goes wrong, or will."""
    what = chance.randrange(8)
    if what == 0:
        # Who is cancelled meanwhile must not leave it dead.
        await asyncio.shield(asyncio.ensure_future(cluster.restart(chance.randint(1, 3))))
    elif what == 1:
        cluster.move_coordinator("id", chance.randint(1, 3))
    elif what == 2:
        cluster.move_leader("t", chance.randrange(3))
    elif what == 3:
        cluster.fault(ProduceRequest, error=chance.choice(FORBIDDEN))
    elif what == 4:
        cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=chance.randint(1, 3))
    elif what == 5:
        cluster.fault(chance.choice(KINDS[:-1]), error=chance.choice(PASSING), times=chance.randint(1, 3))
    else:
        drop: Any = chance.choice(("before", "after", "lurking"))
        cluster.fault(chance.choice(KINDS), drop=drop)


async def transaction(producer: Producer, cluster: FakeCluster, chance: random.Random, sent: list[bytes]) -> None:
    """One transaction that may meet trouble, be cancelled, or end on its own."""
    async with producer.transaction():
        for value in sent:
            producer.send_nowait("t", value, partition=chance.randrange(3), on_delivery=lambda *_: None)
            if chance.random() < 0.2:
                await disturb(cluster, chance)
            if chance.random() < 0.3:
                await asyncio.sleep(0)
        if chance.random() < 0.3:
            await producer.flush()
        if chance.random() < 0.2:
            raise TroubleError
        if chance.random() < 0.5:
            await disturb(cluster, chance)


async def ended(producer: Producer, cluster: FakeCluster, chance: random.Random, sent: list[bytes]) -> bool:
    """Whether a transaction was committed; asked until that is clear."""
    work = asyncio.create_task(transaction(producer, cluster, chance, sent))
    if chance.random() < 0.2:
        await asyncio.sleep(chance.random() * 0.01)
        work.cancel()
    try:
        await work
    except (TroubleError, TransactionAbortedError):
        return False
    except asyncio.CancelledError:
        if state_of(producer) not in (TransactionState.COMMITTING, TransactionState.COMMITTED):
            return False
        await producer.commit_transaction()
    return True


@pytest.mark.parametrize("seed", range(25))
async def test_exactly_what_was_committed_is_there(cluster: FakeCluster, seed: int) -> None:
    chance = random.Random(seed)
    kept: list[bytes] = []
    async with transacting(cluster, request_timeout_ms=1000, delivery_timeout_ms=20_000) as producer:
        for number in range(TRANSACTIONS):
            sent = [b"%d-%d" % (number, index) for index in range(chance.randrange(8))]
            if await ended(producer, cluster, chance, sent):
                kept += sent
    assert sorted(value or b"" for value in await values(cluster)) == sorted(kept)
    cluster.end_faults()


@pytest.mark.parametrize("seed", range(25))
async def test_it_is_with_old_coordinators_as_well(old: FakeCluster, seed: int) -> None:
    """Who loses the answer to InitProducerId can't be told from one that was replaced there, and has to be."""
    chance = random.Random(seed)
    kept: list[bytes] = []
    number = 0
    while number < TRANSACTIONS:
        async with transacting(old, request_timeout_ms=1000, delivery_timeout_ms=20_000) as producer:
            with contextlib.suppress(ProducerFencedError):
                while number < TRANSACTIONS:
                    number += 1
                    sent = [b"%d-%d" % (number, index) for index in range(chance.randrange(8))]
                    if await ended(producer, old, chance, sent):
                        kept += sent
    assert sorted(value or b"" for value in await values(old)) == sorted(kept)
    old.end_faults()
