"""The transactions of a producer, put together with its parts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aioprod.core.transactions import TransactionEvent
from aioprod.producer.coordination import Coordination
from aioprod.producer.transaction_effects import Effects
from aioprod.producer.transactions import Transactions

if TYPE_CHECKING:
    from aioprod.producer.engine import Engine
    from aioprod.producer.sender import Sender

__all__ = ["end_in_time", "transactions_of"]

log = logging.getLogger("aioprod.producer")


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


def transactions_of(engine: Engine, sender: Sender) -> Transactions | None:
    """The transactions of a producer that is being built, None if it has no `transactional.id`."""
    config = engine.config
    sequences = engine.accumulator.sequences
    if config.transactional_id is None or sequences is None:
        return None
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
    coordination = Coordination(engine.client, config.transactional_id, config.transaction_timeout_ms, engine.random)
    transactions = Transactions(
        effects, coordination, loop=engine.loop, max_block_s=engine.max_block_s, on_failure=engine.fail
    )
    sequences.join = transactions.join
    engine.outcomes.on_failed_batch = transactions.batch_failed
    engine.delivery.on_refused = transactions.failed
    engine.guard.barred = lambda: transactions.refusal(TransactionEvent.SEND)
    engine.guard.admit(False)
    return transactions
