"""The transactions of a producer, put together with its parts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aioprod._error_codes import ErrorCode
from aioprod._logger import Logger
from aioprod.errors import AioprodError
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.partition import Partition
from aioprod.producer.transactions.effects import Effects
from aioprod.producer.transactions.manager import Transactions
from aioprod.producer.transactions.requests import CoordinatorRequests
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.producer.transactions.states import TransactionEvent, TransactionState

if TYPE_CHECKING:
    from aioprod.producer.engine import Engine
    from aioprod.producer.sender import Sender
    from aioprod.producer.transactions.handle import TransactionHandle

__all__ = ["OpenTransactionRules", "end_in_time", "transactions_of"]

_logger = Logger("aioprod.producer")

_JOINING_S: Final = 0.02
_JOINING_DOUBLINGS_MAX: Final = 3


class OpenTransactionRules(TransactionRules):
    """The rules of a producer with a `transactional.id`: the state of its transaction decides.

    The parts of the producer that follow the rules are built before its transactions, which act on these parts; so
    the transactions are looked up when a rule is applied.
    """

    is_transactional = True

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def _transactions(self) -> Transactions:
        transactions = self._engine.transactions
        assert transactions is not None
        return transactions

    def send_error(self) -> AioprodError | None:
        return self._transactions.call_error(TransactionEvent.SEND)

    def join(self, partition: Partition) -> bool:
        return self._transactions.join(partition)

    def explain(self, partition: Partition) -> str | None:
        return explain(self._transactions, partition)

    def join_pause_s(self, failures: int) -> float:
        """Much of the pause is random, as another process that produces in the same transaction may retry too."""
        return _JOINING_S * 2.0 ** min(failures, _JOINING_DOUBLINGS_MAX) * self._engine.random.uniform(0.5, 1.5)

    def error_of(self, code: ErrorCode | int, message: str) -> AioprodError | None:
        return self._transactions.error_of(code, message)

    def batch_failed(self, batch: Batch, message: str) -> None:
        self._transactions.batch_failed(batch, message)

    def records_failed(self, error: AioprodError) -> None:
        self._transactions.fail(error)


def explain(transactions: Transactions, partition: Partition) -> str | None:
    """How the transaction keeps a partition from being sent to, in a sentence; None if it does not."""
    if partition.held and partition.unknown_serial < 0 and partition.gap_from < 0:
        return "It waits until the coordinator has added the partition to the transaction."
    if transactions.state in (TransactionState.READY, TransactionState.IN_TRANSACTION):
        return None
    state = transactions.state.value
    error = "" if transactions.error is None else f": {str(transactions.error).rstrip('.')}"
    return f"{state[0].upper()}{state[1:]}{error}."


async def end_in_time(
    transactions: Transactions, timeout_s: float | None, cancelled: asyncio.Future[None]
) -> float | None:
    """Abort an open transaction as the producer closes; returns the time that is left.

    The abort is left to the brokers after `timeout_s`, or when `cancelled` is done.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    ending = loop.create_task(transactions.close(), name="aioprod end of transactions")
    try:
        await asyncio.wait([ending, cancelled], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        await asyncio.wait([ending])
    if ending.cancelled():
        _logger.warning("The open transaction was not ended in time: it is left to transaction.timeout.ms.")
    elif (error := ending.exception()) is not None:
        _logger.warning("The open transaction was not ended: %s", error)
    return None if timeout_s is None else max(0.0, timeout_s - (loop.time() - start))


def transactions_of(engine: Engine, sender: Sender, handle: TransactionHandle | None) -> Transactions:
    """The transactions of a producer with a `transactional.id`; with a `handle`, its part in that transaction."""
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
        completions=engine.completions,
        topics=engine.topics,
        sender=sender,
        guard=engine.guard,
        flush=engine.flush,
    )
    coordination = CoordinatorRequests(
        engine.client, config.transactional_id, config.transaction_timeout_ms, engine.random
    )
    if handle is None:
        return Transactions(
            effects, coordination, loop=engine.loop, max_block_s=engine.max_block_s, on_failure=engine.fail
        )
    from aioprod.producer.transactions.participant import Participant  # Few producers take part in a session.

    return Participant(
        handle, effects, coordination, loop=engine.loop, max_block_s=engine.max_block_s, on_failure=engine.fail
    )
