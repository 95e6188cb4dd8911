"""The keys and values that all contenders send: the same in every process."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from random import Random

from benchmarks.job import Job

__all__ = ["KEYS", "pairs", "values"]

KEYS = [b"key-%d" % number for number in range(1000)]
VARIETY = 100
"""Different values in a stream."""


def values(job: Job) -> Iterator[bytes]:
    """Values of the job's size without end: JSON such as services log, of which compression has something to find."""
    random = Random(7)
    return itertools.cycle([_value(random, job.value_size) for _ in range(VARIETY)])


def pairs(job: Job) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) without end."""
    return zip(itertools.cycle(KEYS), values(job))


def _value(random: Random, size: int) -> bytes:
    lines: list[str] = []
    total = 0
    while total < size:
        line = json.dumps(
            {
                "id": f"{random.getrandbits(64):016x}",
                "at": 1_700_000_000_000 + random.randrange(10**9),
                "user": f"user-{random.randrange(10**5)}",
                "path": random.choice(["/cart", "/orders", "/orders/items", "/login", "/search"]),
                "status": random.choice([200, 200, 200, 201, 304, 404, 500]),
                "ms": round(random.expovariate(0.05), 3),
            }
        )
        lines.append(line)
        total += len(line) + 1
    return "\n".join(lines).encode()[:size]
