"""The settings of clients that send requests without producing: readers, members, administrators."""

from __future__ import annotations

from aioprod.config._client import ClientConfig
from aioprod.config._setting import MEDIUM, integer

__all__ = ["SessionConfig"]


class SessionConfig(ClientConfig):
    """The settings of clients that do not produce: those of all clients, and how long a request is retried.

    Raises ConfigError, in a sentence that names the setting, for a value that can't be used.
    """

    default_api_timeout_ms: int = integer(
        60_000,
        at_least=1,
        importance=MEDIUM,
        doc="How long to retry while brokers can't be reached or answer with retriable errors. A reader counts the "
        "time in which none of its partitions makes progress.",
    )
