"""The producer: its calls, batches, sender, and what becomes of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.producer.health import Health
    from aioprod.producer.producer import Producer
    from aioprod.producer.transactions.handle import TransactionHandle
    from aioprod.producer.transactions.session import TransactionSession
    from aioprod.producer.transactions.session_settings import TransactionSessionConfig

__all__ = ["Health", "Producer", "TransactionHandle", "TransactionSession", "TransactionSessionConfig"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(
        __name__,
        {
            "Health": "health",
            "Producer": "producer",
            "TransactionHandle": "transactions.handle",
            "TransactionSession": "transactions.session",
            "TransactionSessionConfig": "transactions.session_settings",
        },
    )
