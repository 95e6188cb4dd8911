"""The error of databases."""

from __future__ import annotations

from aioprod.errors import AioprodError

__all__ = ["DatabaseError"]


class DatabaseError(AioprodError):
    """The database of an outbox can't be used now; its relay tries again."""
