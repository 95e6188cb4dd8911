"""What is known of the largest batch that a topic takes, after its brokers have rejected one as too large."""

from __future__ import annotations

from math import ceil

from aioprod.producer.batching.batch import Batch
from aioprod.records.layout import HEADER

__all__ = ["SizeLimit"]


class SizeLimit:
    """A bound for the batches of one topic, in bytes as they are sent: brokers compare those with `max.message.bytes`.

    It may be lower than what the brokers take, and is forgotten after a while, so that batches may become larger again.
    """

    __slots__ = ("_accepted", "_compressed_max", "_ratio", "until")

    def __init__(self) -> None:
        self._compressed_max = 0
        """The most bytes of a compressed batch; 0 before one was rejected."""
        self._accepted = 0
        """The bytes of the largest compressed batch that a broker has stored since."""
        self._ratio = 1.0
        """The bytes before compression for each one after it, of the last batch with an answer."""
        self.until = 0.0
        """When it is forgotten, in monotonic seconds."""

    @property
    def size_max(self) -> int:
        """The most bytes of a batch before compression, if it compresses as the last one did."""
        return ceil(self._compressed_max * self._ratio)

    def rejected(self, batch: Batch, until: float) -> None:
        """A broker has rejected a batch as too large: its halves are the next to try."""
        size = batch.builder.compressed_size
        half = max(size // 2, self._accepted)
        self._compressed_max = min(half, self._compressed_max) if self._compressed_max else half
        self._ratio = batch.builder.size / size
        self.until = until

    def acknowledged(self, batch: Batch) -> None:
        """A broker has stored a batch."""
        size = batch.builder.compressed_size
        self._accepted = max(size, self._accepted)
        self._ratio = batch.builder.size / size

    def forbids(self, batch: Batch) -> bool:
        """Whether a batch would be rejected, as far as is known."""
        builder = batch.builder
        if builder.count == 1:
            return False
        # The header is extra, as for the parts of a batch.
        if builder.compressed:
            return builder.compressed_size > self._compressed_max + HEADER
        return builder.size > self.size_max + HEADER
