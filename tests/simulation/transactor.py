"""Transactions one after the other: committed, aborted, cancelled, with the outcome that their caller got."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from random import Random

from aioprod import Producer
from aioprod.errors import (
    AioprodError,
    AuthenticationError,
    FlushTimeoutError,
    ProducerFencedError,
    RequestTimedOutError,
)
from aioprod.producer.transactions.states import TransactionState
from tests.simulation.ledger import Ledger, Transaction
from tests.simulation.work import Work

__all__ = ["Transactor"]

LOOKED_UP_AGAIN_S = 0.1
"""How long it waits after a topic was not found."""
TRIES_MAX = 30
"""How often the end of a transaction is retried after `max.block.ms` has passed."""


class Transactor:
    """Runs transactions around the steps of a `Work`."""

    def __init__(self, work: Work, producer: Producer, ledger: Ledger, random: Random) -> None:
        self.work = work
        self.producer = producer
        self.ledger = ledger
        self.random = random

    async def run(self, records: int) -> None:
        """Run transactions until so many records were sent, or the producer has failed."""
        for topic in self.work.plan.topics:
            # Otherwise a call that waits for its topic may end up in a later transaction than its own.
            while not self.is_over and not await self._succeeds(partial(self.producer.partitions_for, topic)):
                await asyncio.sleep(LOOKED_UP_AGAIN_S)
        while records > 0 and not self.is_over:
            count = self.random.randint(1, 12)
            records -= count
            await self.one(count, wants_commit=self.random.random() < 0.7)

    @property
    def is_over(self) -> bool:
        """Whether the producer has failed or is closed."""
        transactions = self.producer._engine.transactions
        return (
            transactions is None
            or transactions.state is TransactionState.FATAL_ERROR
            or self.producer._engine.guard.state.value != "running"
        )

    @property
    def login_failed(self) -> bool:
        """Whether a log-in at a coordinator failed, which ends the transactional producer, as in Java."""
        transactions = self.producer._engine.transactions
        return transactions is not None and isinstance(transactions.error, AuthenticationError)

    async def one(self, count: int, *, wants_commit: bool) -> Transaction | None:
        """Run one transaction of so many records; None if it could not begin."""
        if not await self._succeeds(self.producer.begin_transaction):
            await self._clear()
            return None
        transaction = self.ledger.begin_transaction()
        body = self.work.spawn(self._body(transaction, count, wants_commit))
        timer = None
        if self.random.random() < self.work.plan.cancels:
            timer = asyncio.get_running_loop().call_later(self.random.random(), body.cancel)
        await asyncio.wait([body])
        if timer is not None:
            timer.cancel()
        if body.cancelled():
            # The task may have been cancelled anywhere; the producer's state decides.
            await self._clear(transaction)
        self.ledger.end_transaction()
        return transaction

    async def _body(self, transaction: Transaction, count: int, wants_commit: bool) -> None:
        while count > 0:
            count -= await self.work.one_step()
            if self.random.random() < 0.3:
                await asyncio.sleep(self.random.random() * self.work.plan.pause_max_s)
        for _ in range(3):
            # Let new tasks make their call.
            await asyncio.sleep(0)
        if wants_commit:
            await self._commit(transaction)
        else:
            await self._abort(transaction)

    async def _commit(self, transaction: Transaction) -> None:
        for _ in range(TRIES_MAX):
            transaction.commit_called = True
            try:
                await self.producer.commit_transaction()
            except (RequestTimedOutError, FlushTimeoutError):
                continue
            except AioprodError as error:
                self._failed(transaction, error)
                await self._clear(transaction)
                return
            transaction.outcome = "committed"
            return

    async def _abort(self, transaction: Transaction) -> None:
        for _ in range(TRIES_MAX):
            try:
                await self.producer.abort_transaction()
            except RequestTimedOutError:
                continue
            except AioprodError as error:
                self._failed(transaction, error)
                return
            transaction.outcome = "aborted"
            return

    def _failed(self, transaction: Transaction, error: AioprodError) -> None:
        transaction.errors.append(error)
        if isinstance(error, ProducerFencedError):
            self.ledger.fenced.append(error)

    async def _clear(self, transaction: Transaction | None = None) -> None:
        """End the open transaction or retry, so that the next one can begin."""
        transactions = self.producer._engine.transactions
        assert transactions is not None
        for _ in range(TRIES_MAX):
            state = transactions.state
            if state in (TransactionState.READY, TransactionState.FATAL_ERROR) or self.is_over:
                return
            if state in (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR, TransactionState.ABORTING):
                if await self._succeeds(self.producer.abort_transaction) and transaction is not None:
                    transaction.outcome = "aborted"
            elif state is TransactionState.UNINITIALIZED:
                await self._succeeds(self.producer.init_transactions)
            elif await self._succeeds(self.producer.commit_transaction) and transaction is not None:
                transaction.outcome = "committed"

    async def _succeeds(self, call: Callable[[], Awaitable[object]]) -> bool:
        """Whether a call succeeds; errors of fencing go to the ledger."""
        try:
            await call()
        except AioprodError as error:
            if isinstance(error, ProducerFencedError):
                self.ledger.fenced.append(error)
            return False
        return True
