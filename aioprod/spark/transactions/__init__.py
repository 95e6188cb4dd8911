"""Exactly once: each micro-batch, or each step of a job, is one transaction that all tasks share.

Names are imported when they are used: a task needs `transactions.task` only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioprod._lazy import imported_on_use

if TYPE_CHECKING:
    from aioprod.spark.transactions.query import exactly_once
    from aioprod.spark.transactions.transaction import Transactions

__all__ = ["Transactions", "exactly_once"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = imported_on_use(__name__, {"Transactions": "transaction", "exactly_once": "query"})
