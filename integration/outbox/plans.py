"""What writers do: transactions, each of which adds rows of one key and puts a record for each of them.

A transaction locks the row of its key in `counters` first, and notes itself in `entries`. So `entries` is the truth
about what was committed, whatever a writer knows of it, and the numbers in it are the order in which the transactions
of a key had the lock.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aioprod.outbox import Outbox

__all__ = ["KEYS", "OUTBOX", "TABLES", "UNDONE", "Entry", "Plan", "Tally", "plans", "value_of", "values_of"]

KEYS: Final = 200
OUTBOX: Final = Outbox("outbox")
TABLES: Final = """
CREATE TABLE counters (key INTEGER PRIMARY KEY, number BIGINT NOT NULL);
CREATE TABLE entries (key INTEGER NOT NULL, first BIGINT NOT NULL, count INTEGER NOT NULL, token TEXT NOT NULL);
CREATE TABLE attempts (token TEXT NOT NULL);
"""
UNDONE: Final = b"put and undone by a savepoint"
_HOT_KEYS: Final = 4
"""These have a fifth of all transactions, so that many wait for each other."""
_PRINT_EVERY: Final = 100


class Plan(NamedTuple):
    """What a transaction does."""

    token: str
    """Its name: no other one has it."""
    key: int
    rows: int
    """How many records it puts."""
    is_early: bool
    """Whether it has its transaction id long before it locks the row of its key."""
    undoes: bool
    """Whether it puts one record more, and rolls back to before that."""
    fails: bool
    """Whether it is rolled back at its end."""


class Entry(NamedTuple):
    """A row of `entries`: a transaction that was committed."""

    key: int
    first: int
    rows: int
    token: str


def plans(seed: str) -> Iterator[Plan]:
    """Transactions without an end."""
    chance = random.Random(seed)
    number = 0
    while True:
        number += 1
        yield Plan(
            f"{seed}-{number}",
            chance.randrange(_HOT_KEYS if chance.random() < 0.2 else KEYS),
            chance.choices((1, chance.randint(2, 5), chance.randint(6, 10)), (60, 30, 10))[0],
            chance.random() < 0.1,
            chance.random() < 0.05,
            chance.random() < 0.1,
        )


def value_of(number: int, token: str) -> bytes:
    """The value of a record: its number within its key, and the transaction that has put it."""
    return f"{number} {token}".encode()


def values_of(entries: Iterable[Entry]) -> dict[bytes, list[bytes]]:
    """What has to be in Kafka, by key."""
    values: dict[bytes, list[bytes]] = {}
    for key, first, rows, token in sorted(entries):
        of_key = values.setdefault(b"%d" % key, [])
        of_key += [value_of(number, token) for number in range(first, first + rows)]
    return values


class Tally:
    """What the writers of a process have done; a line is printed now and then."""

    def __init__(self, rows: int) -> None:
        self._wanted = rows
        self._lock = threading.Lock()
        self._printed = 0
        self.rows = 0
        self.rolled_back = 0
        self.lost = 0
        """Transactions of which a writer was not told whether they were committed."""
        self.found = 0
        """How many of these were."""

    @property
    def is_full(self) -> bool:
        return self.rows >= self._wanted

    def committed(self, plan: Plan) -> None:
        with self._lock:
            self.rows += plan.rows
            if self.rows - self._printed >= _PRINT_EVERY or self.is_full:
                self.print()

    def print(self) -> None:
        self._printed = self.rows
        print(self.rows, self.rolled_back, self.lost, self.found, flush=True)
