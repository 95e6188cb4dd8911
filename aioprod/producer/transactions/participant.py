"""A producer's part in a transaction that a `TransactionSession` begins and ends, maybe in another process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aioprod.errors import AioprodError, TransactionAbortedError, UsageError
from aioprod.producer.transactions.effects import Present
from aioprod.producer.transactions.manager import FIRST_IMPLICIT, Transactions
from aioprod.producer.transactions.requests import ProducerIdentity
from aioprod.producer.transactions.states import TransactionEvent, TransactionState

if TYPE_CHECKING:
    from aioprod.producer.transactions.handle import TransactionHandle

__all__ = ["FIRST_IMPLICIT", "Participant"]

_ENDED_BY_THE_SESSION: Final = (
    TransactionEvent.INITIALIZE,
    TransactionEvent.BEGIN,
    TransactionEvent.SEND_OFFSETS,
    TransactionEvent.COMMIT,
    TransactionEvent.ABORT,
)


class Participant(Transactions):
    """Sends in one transaction, with the identity of its handle; the session begins and ends the transaction."""

    def __init__(self, handle: TransactionHandle, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._handle = handle

    def call_error(self, call: TransactionEvent) -> AioprodError | None:
        """The error that a call raises; the calls that begin and end a transaction are the session's."""
        if call in _ENDED_BY_THE_SESSION:
            return UsageError(
                f"{call.value} can't be called: this producer takes part in a transaction of "
                f"{self._handle.transactional_id!r} that a TransactionSession began.",
                hint="The session sends offsets, commits and aborts.",
            )
        call_error = super().call_error(call)
        if isinstance(call_error, TransactionAbortedError):
            call_error.hint = "Close this producer; the session has to abort the transaction."
        return call_error

    async def initialize(self, timeout_s: float | None = None) -> None:
        """Take the handle's identity, without a request."""
        if self.state is not TransactionState.UNINITIALIZED:
            raise self.call_error(TransactionEvent.INITIALIZE) or UsageError("The producer was started before.")
        self._set_identity(ProducerIdentity(self._handle.producer_id, self._handle.epoch))
        self._present = Present(self._handle.is_implicit)
        self._effects.begin(self._handle.is_implicit)
        self.state = TransactionState.IN_TRANSACTION
        self._effects.admit(True)

    async def close(self) -> None:
        """Leave the transaction open: its session ends it."""
