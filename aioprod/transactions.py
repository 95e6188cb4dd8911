"""Transactions that several processes share: begun and ended in one of them, produced in by others.

`TransactionSession` begins and ends, `TransactionHandle` is what the others need to take part, and `TransactionStatus`
is how the coordinator sees one whose end is in doubt. Rules and examples are in docs/transaction-session.md. The
transactions of a single producer are calls of `aioprod.Producer`.
"""

from __future__ import annotations

from aioprod.producer.transactions.handle import TransactionHandle
from aioprod.producer.transactions.session import TransactionSession
from aioprod.producer.transactions.session_settings import TransactionSessionConfig
from aioprod.producer.transactions.status import TransactionStatus

__all__ = ["TransactionHandle", "TransactionSession", "TransactionSessionConfig", "TransactionStatus"]
