"""Text from a peer, as far as a message may show it."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, size_max: int) -> str:
    """The first `size_max` characters, with a question mark for each that is not printable."""
    return "".join(char if char.isprintable() else "?" for char in text[:size_max])
