"""What a transaction that is shared by several processes is known by, and how it stands with it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from aioprod.messages.describe_transactions import TransactionState

__all__ = ["FIRST_IMPLICIT", "Standing", "TransactionHandle", "standing_of"]

FIRST_IMPLICIT: Final = 2
"""The transaction.version from which on a partition is added by the first Produce request for it (KIP-890)."""


@dataclass(frozen=True, slots=True)
class TransactionHandle:
    """One transaction of a `TransactionSession`, for the processes that produce in it; may be pickled.

    `epoch` is new with each transaction: brokers refuse whoever comes with an older one. `transaction_version` is the
    same for all who take part, whatever the cluster's is meanwhile; `timeout_ms` that after which brokers abort.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    transaction_version: int
    timeout_ms: int

    @property
    def is_implicit(self) -> bool:
        """Whether partitions and groups are added to the transaction by the requests that write to them."""
        return self.transaction_version >= FIRST_IMPLICIT


class Standing(Enum):
    """How a coordinator sees a transaction of which one has lost track."""

    OPEN = "it is open, or nothing was written in it"
    COMMITTED = "it was committed"
    ABORTED = "it was aborted, by its time-out or by its own session"
    TAKEN_OVER = "another session or producer with the same transactional id took over"
    NOT_KNOWN = "its coordinator can't tell"


_OPEN_STATES: Final = frozenset({"Empty", "Ongoing"})
_COMMIT_STATES: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORT_STATES: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


def standing_of(handle: TransactionHandle, state: TransactionState) -> Standing:
    """Read what the coordinator says of a transactional id, for one of its transactions.

    The end of a transaction leaves the epoch, or raises it by one (a time-out, and any end under transaction.version
    2); who takes over raises it once more, or once from an epoch in which nothing was written.
    """
    raised = state.producer_epoch - handle.epoch
    if state.producer_id != handle.producer_id or raised > 1:
        return Standing.TAKEN_OVER
    if raised < 0:
        return Standing.NOT_KNOWN
    if state.transaction_state in _COMMIT_STATES:
        return Standing.COMMITTED
    if state.transaction_state in _ABORT_STATES:
        return Standing.ABORTED
    if state.transaction_state in _OPEN_STATES:
        return Standing.OPEN if raised == 0 else Standing.TAKEN_OVER
    return Standing.NOT_KNOWN
