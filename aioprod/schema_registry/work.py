"""How much work a record may be, in steps: a step is what a computer does in about a microsecond."""

from __future__ import annotations

from aioprod.errors import SerializationError

__all__ = ["Steps"]


class Steps:
    """The steps that are left for one task."""

    __slots__ = ("_allowed", "_left")

    def __init__(self, allowed: int) -> None:
        self._allowed = self._left = allowed

    @property
    def spent(self) -> int:
        """How many were taken."""
        return self._allowed - self._left

    def spend(self, steps: int) -> None:
        """Take steps; raises SerializationError when there are none left."""
        self._left -= steps
        if self._left < 0:
            raise SerializationError(
                f"to check it by the JSON schema takes more than {self._allowed} steps, the limit for its size.",
                hint="Simplify the schema (a tree of $ref or allOf, patterns), or use validate=False.",
            )
