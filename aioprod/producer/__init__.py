"""The producer: facade, sender, and what becomes of each record."""

from __future__ import annotations

from aioprod.producer.handle import TransactionHandle
from aioprod.producer.producer import Producer
from aioprod.producer.transaction_session import TransactionSession

__all__ = ["Producer", "TransactionHandle", "TransactionSession"]
