"""The transactions of a producer, put together with its parts."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from aioprod.core.partition import Partition
from aioprod.core.transactions import TransactionEvent, TransactionState
from aioprod.producer.transactions.effects import Effects
from aioprod.producer.transactions.requests import CoordinatorRequests
from aioprod.producer.transactions.runner import Transactions

if TYPE_CHECKING:
    from aioprod.producer.engine import Engine
    from aioprod.producer.scheduler import Scheduler

__all__ = ["end_in_time", "transactions_of"]

log = logging.getLogger("aioprod.producer")

JOINING_S = 0.02
JOINING_DOUBLINGS_MAX = 3


def pause_to_join(random: Random, step: int) -> float:
    """Seconds until a batch goes again that its leader could not get into the transaction, `step` times before.

    It may be another process that produces in the same transaction which was in the way: hence much chance in it.
    """
    return JOINING_S * 2.0 ** min(step, JOINING_DOUBLINGS_MAX) * random.uniform(0.5, 1.5)


def explain(transactions: Transactions, partition: Partition) -> str | None:
    """How the transaction keeps a partition from being sent to, in a sentence; None if it does not."""
    if partition.held and partition.unknown_serial < 0 and partition.gap_from < 0:
        return "It waits until the coordinator has added the partition to the transaction."
    if transactions.state in (TransactionState.READY, TransactionState.IN_TRANSACTION):
        return None
    state = transactions.state.value
    error = "" if transactions.error is None else f": {str(transactions.error).rstrip('.')}"
    return f"{state[0].upper()}{state[1:]}{error}."


async def end_in_time(transactions: Transactions, timeout_s: float | None, hurry: asyncio.Future[None]) -> float | None:
    """Abort what is open as the producer closes, for `timeout_s` at most or until `hurry`; the time that is left."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    ending = loop.create_task(transactions.close(), name="aioprod end of transactions")
    try:
        await asyncio.wait([ending, hurry], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        await asyncio.wait([ending])
    if ending.cancelled():
        log.warning("The open transaction was not ended in time: it is left to transaction.timeout.ms.")
    elif (error := ending.exception()) is not None:
        log.warning("The open transaction was not ended: %s", error)
    return None if timeout_s is None else max(0.0, timeout_s - (loop.time() - start))


def transactions_of(engine: Engine, sender: Scheduler) -> Transactions:
    """The transactions of a producer with a `transactional.id` that is being built."""
    config = engine.config
    sequences = engine.accumulator.sequences
    assert config.transactional_id is not None
    assert sequences is not None
    effects = Effects(
        loop=engine.loop,
        now=engine.clock,
        client=engine.client,
        accumulator=engine.accumulator,
        sequences=sequences,
        outcomes=engine.outcomes,
        delivery=engine.delivery,
        topics=engine.topics,
        sender=sender,
        guard=engine.guard,
        flush=engine.flush,
    )
    coordination = CoordinatorRequests(
        engine.client, config.transactional_id, config.transaction_timeout_ms, engine.random
    )
    transactions = (engine.transactions_as or Transactions)(
        effects, coordination, loop=engine.loop, max_block_s=engine.max_block_s, on_failure=engine.fail
    )
    sequences.join = transactions.join
    engine.outcomes.on_failed_batch = transactions.batch_failed
    engine.outcomes.transactional_cause = coordination.cause_of
    engine.outcomes.explainer.transaction = partial(explain, transactions)
    engine.outcomes.pause_to_join = partial(pause_to_join, engine.random)
    engine.delivery.on_refused = transactions.failed
    engine.guard.barred = lambda: transactions.refusal(TransactionEvent.SEND)
    engine.guard.admit(False)
    return transactions
