"""What a record that can't be taken is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aioprod._error_codes import ErrorCode
from aioprod.core.budget import MemoryBudget
from aioprod.errors import BufferFullError, RecordTooLargeError
from aioprod.records.builder import HEADER

__all__ = ["HINTS", "buffer_full", "record_too_large"]

HINTS: Final[Mapping[int, str]] = {
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "Send without idempotence (enable.idempotence=false), or to a topic "
    "whose message.format.version is 0.11 or later.",
}
"""What to do where a broker refused records with a code that does not say so itself."""


def record_too_large(topic: str, bound: int, size_max: int, memory: int) -> RecordTooLargeError:
    """A record of up to `bound` bytes fits into no request of `size_max` bytes, or not into the whole memory."""
    if bound + HEADER > size_max:
        return RecordTooLargeError(
            f"A record for topic {topic!r} takes up to {bound + HEADER} bytes with its batch header, more than "
            f"max.request.size={size_max}.",
            hint="Send smaller values, or raise max.request.size together with the topic's max.message.bytes.",
        )
    return RecordTooLargeError(
        f"A record for topic {topic!r} takes up to {bound} bytes, more than buffer.memory={memory}."
    )


def buffer_full(topic: str, bound: int, budget: MemoryBudget) -> BufferFullError:
    """There is no room for a record of up to `bound` bytes now."""
    return BufferFullError(
        f"buffer.memory={budget.limit} is used up: {budget.records} records with {budget.used} bytes wait for "
        f"their delivery, and the next one, for topic {topic!r}, needs up to {bound} bytes.",
        hint="Await producer.drain() or send(), which wait for room, or raise buffer.memory.",
    )
