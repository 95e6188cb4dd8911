"""Errors about the bytes of a partition say which partition it is."""

from __future__ import annotations

from types import TracebackType

from aioprod.errors import ProtocolError
from aioprod.types import TopicPartition

__all__ = ["Naming", "named"]


def named(error: ProtocolError, tp: TopicPartition) -> ProtocolError:
    """The same error with the name of the partition."""
    text = f"Partition {tp.partition} of topic {tp.topic!r} can't be read: {error.message}"
    found = type(error)(text, hint=error.hint)
    found.__cause__ = error
    return found


class Naming:
    """Names the partition in errors about its bytes that are raised in a `with` block."""

    __slots__ = ("_tp",)

    def __init__(self, tp: TopicPartition) -> None:
        self._tp = tp

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ProtocolError):
            raise named(error, self._tp)
