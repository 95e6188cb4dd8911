"""Exactly once: each micro-batch, or each step of a job, is one transaction that all tasks share."""

from __future__ import annotations

from aioprod.spark.transactions.query import exactly_once
from aioprod.spark.transactions.transaction import Transactions

__all__ = ["Transactions", "exactly_once"]
