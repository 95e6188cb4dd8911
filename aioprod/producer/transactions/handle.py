"""What a transaction that is shared by several processes is known by, and how they produce in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aioprod.config import ProducerConfig
from aioprod.errors import ConfigError
from aioprod.producer.callbacks import error_callback
from aioprod.producer.producer import Producer, all_options
from aioprod.producer.producer_calls import ProducerCalls
from aioprod.producer.transactions.open_transaction import FIRST_IMPLICIT

if TYPE_CHECKING:
    from typing import Unpack

    from aioprod.options import InterceptorsOption, PartitionerOption, ProducerOptions, SerializerOption
    from aioprod.types import ErrorCallback

__all__ = ["TransactionHandle"]

_ITS_OWN: Final = ("transactional_id", "transaction_timeout_ms")


@dataclass(frozen=True, slots=True)
class TransactionHandle:
    """One transaction of a `TransactionSession`, for the processes that produce in it; may be pickled."""

    transactional_id: str
    producer_id: int
    epoch: int
    """It is new with each transaction: brokers fence producers with an older one."""
    transaction_version: int
    """It is the same for all producers of the transaction, also when the cluster's changes meanwhile."""
    timeout_ms: int
    """Brokers abort the transaction after this time."""

    @property
    def is_implicit(self) -> bool:
        """Whether partitions and groups are added to the transaction by the requests that write to them (KIP-890)."""
        return self.transaction_version >= FIRST_IMPLICIT

    def producer(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        config: ProducerConfig | Mapping[str, Any] | None = None,
        key_serializer: SerializerOption | None = None,
        value_serializer: SerializerOption | None = None,
        partitioner: PartitionerOption | None = None,
        interceptors: InterceptorsOption = (),
        on_error: ErrorCallback | None = None,
        **options: Unpack[ProducerOptions],
    ) -> Producer:
        """A producer whose records belong to this transaction, for one process; it neither begins nor ends it.

        Takes what `Producer` takes. `close()` waits for its records; only the session commits them. When one of them
        is not delivered it takes no more, and raises TransactionAbortedError: the session has to abort. A partition
        must be written to by one producer of the transaction only. Raises ConfigError.
        """
        if isinstance(config, Mapping):
            config = ProducerConfig.given(config, bootstrap_servers, {})
        given = [name for name in _ITS_OWN if name in options or (config is not None and name in config.explicit)]
        if given:
            raise ConfigError(f"{given[0].replace('_', '.')} can't be given: the transaction's handle has it.")
        options["transactional_id"] = self.transactional_id
        options["transaction_timeout_ms"] = self.timeout_ms
        wanted = all_options(options, key_serializer, value_serializer, partitioner, interceptors)
        return _Participant(ProducerConfig.given(config, bootstrap_servers, wanted), on_error, self)


class _Participant(Producer):
    """A producer whose transaction is a session's."""

    __slots__ = ()

    def __init__(self, config: ProducerConfig, on_error: ErrorCallback | None, handle: TransactionHandle) -> None:
        ProducerCalls.__init__(self, config, error_callback(on_error), handle)
