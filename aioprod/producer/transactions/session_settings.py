"""The settings of a `TransactionSession`."""

from __future__ import annotations

from typing import ClassVar

from aioprod.config import SessionConfig
from aioprod.config._setting import HIGH, LOW, integer, optional_text

__all__ = ["TransactionSessionConfig"]


class TransactionSessionConfig(SessionConfig):
    """The settings of the process that begins and ends transactions which others produce in.

    Raises ConfigError, in a sentence that names the setting, for a value that can't be used.
    """

    _home: ClassVar[str | None] = "aioprod.transactions"

    transactional_id: str | None = optional_text(
        importance=HIGH,
        doc="The name of the session: a new one with the same name fences off the old one and ends what it left open.",
    )
    transaction_timeout_ms: int = integer(
        60_000,
        at_least=1,
        importance=LOW,
        doc="The time after which the brokers abort a transaction, from its first record on.",
    )
