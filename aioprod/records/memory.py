"""Raw memory moves, interpreted: the only module here that stays interpreted when its neighbours are compiled."""

from __future__ import annotations

from aioprod.wire.buffer import Buffer

__all__ = ["copy"]


def copy(target: bytearray, at: int, source: Buffer, start: int, size: int) -> None:
    """Copy `size` bytes from `source[start:]` to `target[at:]`; both must have them, `target` is never resized."""
    target[at : at + size] = source[start : start + size]
