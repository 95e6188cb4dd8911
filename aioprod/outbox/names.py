"""The names of an outbox's tables. They are parts of statements, so they are checked once, here."""

from __future__ import annotations

import re
from typing import Final, Self

from aioprod._short_reprs import shown
from aioprod.errors import ConfigError

__all__ = ["TableNames"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LENGTH_MAX: Final = 50
"""Postgres cuts names after 63 bytes, and adds `_relay` and `_id_seq` to this one."""


class TableNames:
    """The tables of an outbox, quoted for statements."""

    __slots__ = ("name", "relay", "sequence", "table", "text")

    def __init__(self, parts: tuple[str, ...]) -> None:
        *schema, name = parts
        self.text: Final = ".".join(parts)
        """The name as it was given, for messages."""
        self.name: Final = name
        """The same without its schema."""
        self.table: Final = _quoted(*schema, name)
        """The rows that wait."""
        self.relay: Final = _quoted(*schema, f"{name}_relay")
        """What relays have to remember: one row."""
        self.sequence: Final = _quoted(*schema, f"{name}_id_seq")
        """The one of ids in Postgres, as `ddl` creates it."""

    @classmethod
    def of(cls, given: object) -> Self:
        """The names for `table`, or for `schema.table`; raises ConfigError."""
        parts = tuple(given.split(".")) if isinstance(given, str) else ()
        if not 1 <= len(parts) <= 2 or any(_NAME.fullmatch(part) is None or len(part) > _LENGTH_MAX for part in parts):
            raise ConfigError(
                f"{shown(given)} can't be the table of an outbox.",
                hint=f"Give a name of at most {_LENGTH_MAX} ASCII letters, digits and '_', or a schema, a dot and a "
                "name.",
            )
        return cls(parts)


def _quoted(*parts: str) -> str:
    return ".".join(f'"{part}"' for part in parts)
