"""The settings of whatever sends requests to a cluster without producing: readers, members, administrators."""

from __future__ import annotations

from dataclasses import dataclass

from aioprod.config._client import ClientConfig
from aioprod.config._setting import MEDIUM, integer

__all__ = ["SessionConfig"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SessionConfig(ClientConfig):
    """The settings of everything that asks a cluster questions, and how long it goes on asking.

    Raises ConfigError, in a sentence that names the setting, for a value that can't be used.
    """

    default_api_timeout_ms: int = integer(
        60_000,
        at_least=1,
        importance=MEDIUM,
        doc="How long to go on trying while brokers can't be reached or answer with errors that may pass. A reader "
        "counts the time that it waits without any partition getting on.",
    )
