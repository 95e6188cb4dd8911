"""The check: is each order in Kafka once, and are those of each customer in the order in which they were placed?"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

__all__ = ["StoredOrder", "differences"]


class StoredOrder(Protocol):
    """A record of the topic, of any reader."""

    @property
    def key(self) -> bytes | None:
        """The customer."""
        ...

    @property
    def value(self) -> bytes | None:
        """The order, as JSON."""
        ...


def differences(placed: Mapping[str, Sequence[str]], records: Iterable[StoredOrder]) -> list[str]:
    """A sentence for each customer whose orders differ; `placed` has the ids of each one's orders."""
    found: dict[str, list[str]] = {}
    for record in records:
        found.setdefault((record.key or b"").decode(), []).append(json.loads(record.value or b"{}").get("id", ""))
    customers = sorted(placed.keys() | found.keys())
    compared = ((customer, list(placed.get(customer, ())), found.get(customer, [])) for customer in customers)
    return [f"{customer}: {difference(sent, read)}" for customer, sent, read in compared if sent != read]


def difference(sent: list[str], read: list[str]) -> str:
    """What is the matter with one customer's orders."""
    lost, added, twice = len({*sent} - {*read}), len({*read} - {*sent}), len(read) - len({*read})
    if lost or added or twice:
        return f"{lost} of {len(sent)} orders are missing, {twice} are there twice, {added} were never placed."
    return f"its {len(sent)} orders are in another order."
