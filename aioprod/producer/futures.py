"""The future of one submitted record."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable
from typing import Any

from aioprod.core.batch import Batch, ParkedRecord
from aioprod.record_metadata import RecordMetadata
from aioprod.types import ProducerRecord

__all__ = ["DeliveryFuture"]


class DeliveryFuture(Future[RecordMetadata]):
    """What `submit()` returns: cancelling it before its batch is sent takes the record out.

    `owner` is the batch, or the parked record, that it belongs to; `unseen` the record, once it has failed and until
    somebody looks at the future.
    """

    __slots__ = ("owner", "unseen", "withdraw")

    owner: Batch | ParkedRecord
    unseen: ProducerRecord | None
    withdraw: Callable[[DeliveryFuture, Batch | ParkedRecord], object]

    def cancel(self, msg: Any = None) -> bool:
        """Cancel, and withdraw the record if it was not sent yet."""
        if not super().cancel(msg):
            return False
        self.withdraw(self, self.owner)
        return True
