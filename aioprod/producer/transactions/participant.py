"""A producer's part in a transaction that a `TransactionSession` begins and ends, maybe in another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from aioprod.config import ProducerConfig
from aioprod.errors import AioprodError, TransactionAbortedError, UsageError
from aioprod.producer.transactions.manager import TransactionManager
from aioprod.producer.transactions.open_transaction import OpenTransaction
from aioprod.producer.transactions.requests import ProducerIdentity
from aioprod.producer.transactions.states import TransactionEvent, TransactionState
from aioprod.producer.transactions.status import Identified

__all__ = ["Participant", "SharedTransaction"]

_ENDED_BY_THE_SESSION: Final = (
    TransactionEvent.INITIALIZE,
    TransactionEvent.BEGIN,
    TransactionEvent.SEND_OFFSETS,
    TransactionEvent.COMMIT,
    TransactionEvent.ABORT,
)


class SharedTransaction(Identified, Protocol):
    """The transaction of a session, as its `TransactionHandle` names it."""

    @property
    def transactional_id(self) -> str: ...

    @property
    def is_implicit(self) -> bool:
        """Whether partitions and groups are added to it by the requests that write to them (KIP-890)."""
        ...


class Participant(TransactionManager):
    """Sends in one transaction, with its identity; the session begins and ends the transaction."""

    def __init__(
        self, shared: SharedTransaction, config: ProducerConfig, on_failure: Callable[[BaseException], object]
    ) -> None:
        super().__init__(config, on_failure)
        self._shared = shared

    def call_error(self, call: TransactionEvent) -> AioprodError | None:
        """The error that a call raises; the calls that begin and end a transaction are the session's."""
        if call in _ENDED_BY_THE_SESSION:
            return UsageError(
                f"{call.value} can't be called: this producer takes part in a transaction of "
                f"{self._shared.transactional_id!r} that a TransactionSession began.",
                hint="The session sends offsets, commits and aborts.",
            )
        call_error = super().call_error(call)
        if isinstance(call_error, TransactionAbortedError):
            call_error.hint = "Close this producer; the session has to abort the transaction."
        return call_error

    async def initialize(self, timeout_s: float | None = None) -> None:
        """Take the identity of the shared transaction, without a request."""
        if self.state is not TransactionState.UNINITIALIZED:
            raise self.call_error(TransactionEvent.INITIALIZE) or UsageError("The producer was started before.")
        self._set_identity(ProducerIdentity(self._shared.producer_id, self._shared.epoch))
        self._transaction = OpenTransaction(self._shared.is_implicit)
        self._effects.begin(self._shared.is_implicit)
        self.state = TransactionState.IN_TRANSACTION
        self._effects.admit(True)

    async def close(self) -> None:
        """Leave the transaction open: its session ends it."""
