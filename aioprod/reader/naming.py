"""Errors about the bytes of a partition say which partition it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from aioprod.errors import ProtocolError
from aioprod.types import TopicPartition

__all__ = ["named", "naming"]


def named(error: ProtocolError, tp: TopicPartition) -> ProtocolError:
    """The same error with the name of the partition."""
    text = f"Partition {tp.partition} of topic {tp.topic!r} can't be read: {error.message}"
    found = type(error)(text, hint=error.hint)
    found.__cause__ = error
    return found


@contextmanager
def naming(tp: TopicPartition) -> Iterator[None]:
    """Name the partition in errors about its bytes."""
    try:
        yield
    except ProtocolError as error:
        raise named(error, tp) from error
