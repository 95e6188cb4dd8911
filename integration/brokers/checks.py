"""All checks, in the order of the table."""

from __future__ import annotations

from typing import Final

from integration.brokers import administration, member_transactions, members, sending, transactions
from integration.brokers.registry import Check

__all__ = ["CHECKS"]

CHECKS: Final[tuple[Check, ...]] = (
    *administration.CHECKS,
    *sending.CHECKS,
    *transactions.CHECKS,
    *member_transactions.CHECKS,
    *members.CHECKS,
)
