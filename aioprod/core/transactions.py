"""The life of a transactional producer as one table: its states, what may happen in each, and why what else may not.

Nothing here knows a broker: `producer/transactions/runner.py` acts, and looks up here what an event leads to. The
diagram in `docs/transactions.md` is made from the table by `diagram()`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from aioprod.errors import AioprodError, TransactionAbortedError, UsageError

__all__ = [
    "CALLS",
    "REFUSALS",
    "TRANSITIONS",
    "Refusal",
    "TransactionEvent",
    "TransactionState",
    "diagram",
    "refusal_of",
]


class Refusal(NamedTuple):
    """Why a call can't be made, and what to do instead."""

    reason: str
    hint: str


class TransactionState(Enum):
    """Where a transactional producer stands; the value says it in words."""

    UNINITIALIZED = "its transactional.id is not initialized"
    INITIALIZING = "its transactional.id is being initialized"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    FLUSHING = "a commit waits for the records of the transaction"
    COMMITTING = "the coordinator was told to commit"
    COMMITTED = "the transaction is committed, and whoever asked for it has not heard of it"
    ABORTING = "the transaction is being aborted"
    ABORTABLE_ERROR = "the transaction has failed"
    FATAL_ERROR = "the producer has failed"


class TransactionEvent(Enum):
    """What moves it. The first are calls of the user, which may be refused; the others happen."""

    INITIALIZE = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    SEND_OFFSETS = "send_offsets_to_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    INITIALIZED = "producer id and epoch are known"
    NOT_INITIALIZED = "they could not be had"
    FLUSHED = "all records are stored"
    WITHDRAWN = "the call was cancelled or timed out"
    ENDED = "the coordinator has done it"
    HEARD = "the call returns"
    FAILED = "a record failed, or the coordinator refused something"
    BROKEN = "fenced, or no way to go on"


S = TransactionState
E = TransactionEvent

CALLS: Final = (E.INITIALIZE, E.BEGIN, E.SEND, E.SEND_OFFSETS, E.COMMIT, E.ABORT)
"""The events that are calls of the user: each has a transition or a refusal in every state."""

TRANSITIONS: Final[dict[tuple[TransactionState, TransactionEvent], TransactionState]] = {
    (S.UNINITIALIZED, E.INITIALIZE): S.INITIALIZING,
    (S.UNINITIALIZED, E.BROKEN): S.FATAL_ERROR,
    (S.INITIALIZING, E.INITIALIZED): S.READY,
    (S.INITIALIZING, E.NOT_INITIALIZED): S.UNINITIALIZED,
    (S.INITIALIZING, E.BROKEN): S.FATAL_ERROR,
    # A new epoch for the next transaction, where the cluster's transaction.version has gone from 1 to 2.
    (S.READY, E.INITIALIZE): S.INITIALIZING,
    (S.READY, E.BEGIN): S.IN_TRANSACTION,
    (S.READY, E.BROKEN): S.FATAL_ERROR,
    (S.IN_TRANSACTION, E.SEND): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, E.SEND_OFFSETS): S.IN_TRANSACTION,
    (S.IN_TRANSACTION, E.COMMIT): S.FLUSHING,
    (S.IN_TRANSACTION, E.ABORT): S.ABORTING,
    (S.IN_TRANSACTION, E.FAILED): S.ABORTABLE_ERROR,
    (S.IN_TRANSACTION, E.BROKEN): S.FATAL_ERROR,
    # The coordinator knows nothing of the commit yet: a call that ends early has done nothing.
    (S.FLUSHING, E.FLUSHED): S.COMMITTING,
    (S.FLUSHING, E.WITHDRAWN): S.IN_TRANSACTION,
    (S.FLUSHING, E.FAILED): S.ABORTABLE_ERROR,
    (S.FLUSHING, E.BROKEN): S.FATAL_ERROR,
    # From here on the commit goes on without its caller, and calling again joins it.
    (S.COMMITTING, E.COMMIT): S.COMMITTING,
    (S.COMMITTING, E.ENDED): S.COMMITTED,
    (S.COMMITTING, E.FAILED): S.ABORTABLE_ERROR,
    (S.COMMITTING, E.BROKEN): S.FATAL_ERROR,
    (S.COMMITTED, E.COMMIT): S.COMMITTED,
    (S.COMMITTED, E.HEARD): S.READY,
    (S.COMMITTED, E.BROKEN): S.FATAL_ERROR,
    (S.ABORTABLE_ERROR, E.ABORT): S.ABORTING,
    (S.ABORTABLE_ERROR, E.FAILED): S.ABORTABLE_ERROR,
    (S.ABORTABLE_ERROR, E.BROKEN): S.FATAL_ERROR,
    (S.ABORTING, E.ABORT): S.ABORTING,
    (S.ABORTING, E.FAILED): S.ABORTING,
    (S.ABORTING, E.ENDED): S.READY,
    (S.ABORTING, E.BROKEN): S.FATAL_ERROR,
    (S.FATAL_ERROR, E.BROKEN): S.FATAL_ERROR,
    (S.FATAL_ERROR, E.FAILED): S.FATAL_ERROR,
}
"""Where each event leads; what is a call and not here is in `REFUSALS`, any other event in that state is a bug."""

_NONE_OPEN: Final = Refusal("no transaction is open", "`async with producer.transaction():` begins and ends one.")
_IS_OPEN: Final = Refusal("a transaction is open", "Transactions don't nest: commit or abort the open one first.")
_NOT_INITIALIZED: Final = Refusal("the transactional.id is not initialized", "Await init_transactions() first.")
_INITIALIZING: Final = Refusal("the transactional.id is being initialized", "Wait for that call first.")
_COMMIT_UNDER_WAY: Final = Refusal("a commit is under way", "Wait for the commit_transaction() that was called before.")
_COMMIT_GOES_ON: Final = Refusal(
    "the commit that was called before goes on",
    "Await commit_transaction(), again if that call was cancelled or timed out: it tells how the commit ended.",
)
_ABORTING: Final = Refusal("the transaction is being aborted", "Await abort_transaction(), then begin a new one.")
_FAILED: Final = Refusal(
    "the transaction has failed", "Abort it with abort_transaction(), and do the work again in a new one."
)
_BROKEN: Final = Refusal("the producer has failed for good", "Close it, and make a new one.")


def _refused(state: TransactionState, refusal: Refusal, *but: TransactionEvent) -> dict[tuple[S, E], Refusal]:
    return {(state, call): refusal for call in CALLS if call not in but}


REFUSALS: Final[dict[tuple[TransactionState, TransactionEvent], Refusal]] = (
    _refused(S.UNINITIALIZED, _NOT_INITIALIZED, E.INITIALIZE)
    | _refused(S.INITIALIZING, _INITIALIZING)
    | _refused(S.READY, _NONE_OPEN, E.INITIALIZE, E.BEGIN)
    | {(S.IN_TRANSACTION, E.INITIALIZE): _IS_OPEN, (S.IN_TRANSACTION, E.BEGIN): _IS_OPEN}
    | _refused(S.FLUSHING, _COMMIT_UNDER_WAY)
    | _refused(S.COMMITTING, _COMMIT_GOES_ON, E.COMMIT)
    | _refused(S.COMMITTED, _COMMIT_GOES_ON, E.COMMIT)
    | _refused(S.ABORTABLE_ERROR, _FAILED, E.ABORT)
    | _refused(S.ABORTING, _ABORTING, E.ABORT)
    | _refused(S.FATAL_ERROR, _BROKEN)
)
"""Why a call can't be made in a state."""


def refusal_of(
    state: TransactionState, call: TransactionEvent, cause: AioprodError | None = None
) -> AioprodError | None:
    """The error for a call that can't be made in a state, None if it can; `cause` is why the producer has failed."""
    refusal = REFUSALS.get((state, call))
    if refusal is None:
        return None
    if state is S.FATAL_ERROR and cause is not None:
        error = cause.again()
        # Of a commit that failed: it says nothing of a record that is sent now.
        error.may_be_stored = cause.may_be_stored and call in (E.COMMIT, E.ABORT)
        return error
    if state is S.ABORTABLE_ERROR and cause is not None:
        aborted = TransactionAbortedError(
            f"{call.value} can't be called, as the transaction has failed: {cause.message}", hint=refusal.hint
        )
        aborted.__cause__ = cause
        return aborted
    return UsageError(f"{call.value} can't be called here: {refusal.reason}.", hint=refusal.hint)


def diagram() -> str:
    """The table as a Mermaid state diagram; that every state may break is told beside it and not drawn."""
    edges: dict[tuple[TransactionState, TransactionState], list[str]] = {}
    for (state, event), target in TRANSITIONS.items():
        if event is not E.BROKEN and target is not S.FATAL_ERROR:
            edges.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {S.UNINITIALIZED.name}"]
    lines += [f"    {a.name} --> {b.name}: {', '.join(events)}" for (a, b), events in edges.items()]
    return "\n".join(lines)
