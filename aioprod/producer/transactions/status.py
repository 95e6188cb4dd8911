"""The status of a transaction whose outcome is unknown, as its coordinator describes it (KIP-664)."""

from __future__ import annotations

from enum import Enum
from typing import Final, Protocol

from aioprod.messages.describe_transactions import TransactionState

__all__ = ["Identified", "TransactionStatus", "status_of"]


class Identified(Protocol):
    """The identity of a transaction."""

    @property
    def producer_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class TransactionStatus(Enum):
    """The status of a transaction, as its coordinator describes it."""

    OPEN = "it is open, or nothing was written in it"
    COMMITTED = "it was committed"
    ABORTED = "it was aborted, by its time-out or by its own session"
    TAKEN_OVER = "another session or producer with the same transactional id took over"
    NOT_KNOWN = "its coordinator does not know it"


_OPEN_STATES: Final = frozenset({"Empty", "Ongoing"})
_COMMIT_STATES: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORT_STATES: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


def status_of(handle: Identified, state: TransactionState) -> TransactionStatus:
    """The status of one transaction of a transactional id, from the coordinator's state of that id.

    The end of a transaction keeps the epoch, or raises it by one (a time-out, and any end under transaction.version 2);
    a takeover raises it once more, or once from an epoch in which nothing was written.
    """
    raised = state.producer_epoch - handle.epoch
    if state.producer_id != handle.producer_id or raised > 1:
        return TransactionStatus.TAKEN_OVER
    if raised < 0:
        return TransactionStatus.NOT_KNOWN
    if state.transaction_state in _COMMIT_STATES:
        return TransactionStatus.COMMITTED
    if state.transaction_state in _ABORT_STATES:
        return TransactionStatus.ABORTED
    if state.transaction_state in _OPEN_STATES:
        return TransactionStatus.OPEN if raised == 0 else TransactionStatus.TAKEN_OVER
    return TransactionStatus.NOT_KNOWN
