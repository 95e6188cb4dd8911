"""Which names Kafka allows for topics."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["TOPIC_NAME_LENGTH_MAX", "topic_name_error"]

TOPIC_NAME_LENGTH_MAX: Final = 249

_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_error(name: object) -> str | None:
    """Why Kafka allows no topic of this name, as a sentence; None if it does (`Topic.validate` of the brokers)."""
    if not isinstance(name, str):
        return f"A topic's name is a str, not {type(name).__name__}: {name!r:.50}."
    if not name:
        return "A topic's name can't be empty."
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"Topic {name[:20]!r}... has a name of {len(name)} characters: {TOPIC_NAME_LENGTH_MAX} are allowed."
    if name in {".", ".."}:
        return f"A topic can't be named {name!r}."
    if _TOPIC_NAME.fullmatch(name) is None:
        return f"Topic {name!r} has a name with other characters than ASCII letters, digits, '.', '_' and '-'."
    return None
