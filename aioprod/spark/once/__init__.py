"""Exactly once: each micro-batch, or each step of a job, is one transaction that all tasks share."""

from __future__ import annotations

from aioprod.spark.once.query import exactly_once
from aioprod.spark.once.transaction import Transactions

__all__ = ["Transactions", "exactly_once"]
