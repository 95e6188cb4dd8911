"""What a producer keeps of one transaction: what its coordinator knows of it, and its end in the background."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from aioprod.errors import AioprodError
from aioprod.producer.transactions.states import TransactionEvent

__all__ = ["FIRST_IMPLICIT", "OpenTransaction", "TransactionEnd"]

FIRST_IMPLICIT: Final = 2
"""The transaction.version from which a Produce request adds its partitions, and EndTxn raises the epoch (KIP-890)."""


@dataclass(slots=True)
class OpenTransaction:
    """A transaction, as far as its coordinator knows of it."""

    implicit: bool
    """Whether Produce and TxnOffsetCommit add to it by themselves (KIP-890)."""
    is_known: bool = False
    """Whether the coordinator knows of it, so that it has to be ended."""
    may_be_known: bool = False
    """Whether the coordinator may know of it: an answer was lost."""
    is_replaced: bool = False
    """Whether InitProducerId aborts it, sent without a producer id as by a new producer."""


@dataclass(slots=True)
class TransactionEnd:
    """A commit or an abort that runs in the background."""

    call: TransactionEvent
    task: asyncio.Task[None]
    error: AioprodError | None = None
    """Why it failed."""
    is_acknowledged: bool = False
    """Whether the coordinator has answered."""

    def with_outcome_unknown(self, error: AioprodError) -> AioprodError:
        """The same error, which says of a commit that the coordinator may have carried it out."""
        error.may_be_stored = self.call is TransactionEvent.COMMIT
        return error
