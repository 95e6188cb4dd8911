"""The states of a transactional producer as one table: which events may happen in each, and why others may not.

INITIALIZING gets producer id and epoch (InitProducerId). IN_TRANSACTION takes records. A commit waits in FLUSHING until
all records are stored, and sends EndTxn in COMMITTING; from there on it no longer depends on its caller. A record that
fails leads to ABORTABLE_ERROR, from which only an abort leads on; a fenced producer ends in FATAL_ERROR.

Nothing here does I/O: `producer/transactions/manager.py` acts, and looks up here what an event leads to. The
diagram in `docs/transactions.md` is made from the table by `diagram()`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from aioprod.errors import AioprodError, TransactionAbortedError, UsageError

__all__ = [
    "CALLS",
    "FORBIDDEN",
    "TRANSITIONS",
    "Forbidden",
    "TransactionEvent",
    "TransactionState",
    "diagram",
    "error_for",
]


class Forbidden(NamedTuple):
    """Why a call is not allowed, and what to do instead."""

    reason: str
    hint: str


class TransactionState(Enum):
    """The state of a transactional producer; the value says it in words."""

    UNINITIALIZED = "its transactional.id is not initialized"
    INITIALIZING = "its transactional.id is being initialized"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    FLUSHING = "a commit waits for the records of the transaction"
    COMMITTING = "the coordinator is committing"
    COMMITTED = "the transaction is committed, and no call has returned that"
    ABORTING = "the transaction is being aborted"
    ABORTABLE_ERROR = "the transaction has failed"
    FATAL_ERROR = "the producer has failed"


class TransactionEvent(Enum):
    """What changes the state: the calls of the user, which may be forbidden, and events, which may not."""

    INITIALIZE = "init_transactions()"
    BEGIN = "begin_transaction()"
    SEND = "send()"
    SEND_OFFSETS = "send_offsets_to_transaction()"
    COMMIT = "commit_transaction()"
    ABORT = "abort_transaction()"
    INITIALIZED = "producer id and epoch are known"
    NOT_INITIALIZED = "they could not be obtained"
    FLUSHED = "all records are stored"
    WITHDRAWN = "the call was cancelled or timed out"
    ENDED = "the coordinator has done it"
    RETURNED = "the call returns"
    FAILED = "a record failed, or the coordinator answered with an error"
    BROKEN = "fenced, or unable to continue"


S = TransactionState
E = TransactionEvent

CALLS: Final = (E.INITIALIZE, E.BEGIN, E.SEND, E.SEND_OFFSETS, E.COMMIT, E.ABORT)
"""The events that are calls of the user: each has a transition or an entry in `FORBIDDEN` in every state."""

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
    # The coordinator knows nothing of the commit yet: a call that ends early has no effect.
    (S.FLUSHING, E.FLUSHED): S.COMMITTING,
    (S.FLUSHING, E.WITHDRAWN): S.IN_TRANSACTION,
    (S.FLUSHING, E.FAILED): S.ABORTABLE_ERROR,
    (S.FLUSHING, E.BROKEN): S.FATAL_ERROR,
    # From here on the commit continues without its caller, and another call joins it.
    (S.COMMITTING, E.COMMIT): S.COMMITTING,
    (S.COMMITTING, E.ENDED): S.COMMITTED,
    (S.COMMITTING, E.FAILED): S.ABORTABLE_ERROR,
    (S.COMMITTING, E.BROKEN): S.FATAL_ERROR,
    (S.COMMITTED, E.COMMIT): S.COMMITTED,
    (S.COMMITTED, E.RETURNED): S.READY,
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
"""Where each event leads; what is a call and not here is in `FORBIDDEN`, any other event in that state is a bug."""

_NONE_OPEN: Final = Forbidden("no transaction is open", "`async with producer.transaction():` begins and ends one.")
_IS_OPEN: Final = Forbidden("a transaction is open", "Transactions don't nest: commit or abort the open one first.")
_NOT_INITIALIZED: Final = Forbidden("the transactional.id is not initialized", "Await init_transactions() first.")
_INITIALIZING: Final = Forbidden("the transactional.id is being initialized", "Wait for that call first.")
_COMMIT_UNDER_WAY: Final = Forbidden(
    "a commit is under way", "Wait for the commit_transaction() that was called before."
)
_COMMIT_CONTINUES: Final = Forbidden(
    "the commit that was called before continues",
    "Await commit_transaction(), again if that call was cancelled or timed out: it returns how the commit ended.",
)
_ABORTING: Final = Forbidden("the transaction is being aborted", "Await abort_transaction(), then begin a new one.")
_FAILED: Final = Forbidden(
    "the transaction has failed", "Abort it with abort_transaction(), and do the work again in a new one."
)
_BROKEN: Final = Forbidden("the producer has failed for good", "Close it, and make a new one.")


def _forbid(state: TransactionState, why: Forbidden, *but: TransactionEvent) -> dict[tuple[S, E], Forbidden]:
    return {(state, call): why for call in CALLS if call not in but}


FORBIDDEN: Final[dict[tuple[TransactionState, TransactionEvent], Forbidden]] = (
    _forbid(S.UNINITIALIZED, _NOT_INITIALIZED, E.INITIALIZE)
    | _forbid(S.INITIALIZING, _INITIALIZING)
    | _forbid(S.READY, _NONE_OPEN, E.INITIALIZE, E.BEGIN)
    | {(S.IN_TRANSACTION, E.INITIALIZE): _IS_OPEN, (S.IN_TRANSACTION, E.BEGIN): _IS_OPEN}
    | _forbid(S.FLUSHING, _COMMIT_UNDER_WAY)
    | _forbid(S.COMMITTING, _COMMIT_CONTINUES, E.COMMIT)
    | _forbid(S.COMMITTED, _COMMIT_CONTINUES, E.COMMIT)
    | _forbid(S.ABORTABLE_ERROR, _FAILED, E.ABORT)
    | _forbid(S.ABORTING, _ABORTING, E.ABORT)
    | _forbid(S.FATAL_ERROR, _BROKEN)
)
"""Why a call can't be made in a state."""


def error_for(
    state: TransactionState, call: TransactionEvent, cause: AioprodError | None = None
) -> AioprodError | None:
    """The error for a call that can't be made in a state, None if it can; `cause` is why the producer has failed."""
    forbidden = FORBIDDEN.get((state, call))
    if forbidden is None:
        return None
    if state is S.FATAL_ERROR and cause is not None:
        error = cause.again()
        # Of a commit that failed: it says nothing of a record that is sent now.
        error.may_be_stored = cause.may_be_stored and call in (E.COMMIT, E.ABORT)
        return error
    if state is S.ABORTABLE_ERROR and cause is not None:
        aborted = TransactionAbortedError(
            f"{call.value} can't be called, as the transaction has failed: {cause.message}", hint=forbidden.hint
        )
        aborted.__cause__ = cause
        return aborted
    return UsageError(f"{call.value} can't be called here: {forbidden.reason}.", hint=forbidden.hint)


def obstacle(state: TransactionState, error: AioprodError | None) -> str | None:
    """How a state keeps records from being sent, in a sentence; None if it does not."""
    if state in (S.READY, S.IN_TRANSACTION):
        return None
    why = "" if error is None else f": {str(error).rstrip('.')}"
    return f"{state.value[0].upper()}{state.value[1:]}{why}."


def diagram() -> str:
    """The table as a Mermaid state diagram; that every state may break is said beside it and not drawn."""
    edges: dict[tuple[TransactionState, TransactionState], list[str]] = {}
    for (state, event), target in TRANSITIONS.items():
        if event is not E.BROKEN and target is not S.FATAL_ERROR:
            edges.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {S.UNINITIALIZED.name}"]
    lines += [f"    {a.name} --> {b.name}: {', '.join(events)}" for (a, b), events in edges.items()]
    return "\n".join(lines)
