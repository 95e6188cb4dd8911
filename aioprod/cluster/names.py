"""Which names Kafka allows for topics, and which addresses a broker may have."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["TOPIC_NAME_LENGTH_MAX", "address_fault", "topic_name_error"]

TOPIC_NAME_LENGTH_MAX: Final = 249

_HOST_LENGTH_MAX: Final = 255
_PORT_MAX: Final = 65_535

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


def address_fault(host: str, port: int) -> str | None:
    """What is wrong with the address that a peer gives for a broker, without repeating it; None if it can be used.

    Anything else than a name that can be looked up reaches the system's resolver, TLS and the log, where a NUL ends it,
    raises, and moves the cursor of a terminal; the system takes a larger port modulo 65,536.
    """
    if not 1 <= port <= _PORT_MAX:
        return f"port {port}, which is not 1 to {_PORT_MAX}"
    if not host or len(host) > _HOST_LENGTH_MAX:
        return f"a host name of {len(host)} characters"
    if not host.isprintable() or " " in host:
        return "a host name with characters that no name has"
    try:
        host.encode("idna")
    except UnicodeError:
        return "a host name that is no internet name"
    return None
