"""The future of one submitted record."""

from __future__ import annotations

from asyncio import Future
from typing import Any

from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.record_metadata import RecordMetadata

__all__ = ["DeliveryFuture"]


class DeliveryFuture(Future[RecordMetadata]):
    """What `submit()` returns: cancelling it before its batch is sent takes the record out.

    It has one slot of its own: the garbage collector visits each slot of each future again and again.
    """

    __slots__ = ("owner",)

    owner: Batch | ParkedRecord
    """The batch, or the parked record, that it belongs to."""

    def cancel(self, msg: Any = None) -> bool:
        """Cancel, and withdraw the record if it was not sent yet."""
        if not super().cancel(msg):
            return False
        owner = self.owner
        topic = owner.topic if isinstance(owner, ParkedRecord) else owner.partition.topic
        assert topic.withdraw is not None
        topic.withdraw(self, owner)
        return True
