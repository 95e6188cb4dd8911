"""The keys and values that all contenders send: the same in every process."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import cache
from random import Random

from benchmarks.job import Job

__all__ = ["KEYS", "pairs", "pairs_of", "values"]

KEYS = [b"key-%d" % number for number in range(1000)]
POOL_MAX = 1000
"""The number of different values; there are fewer if they are large."""
POOL_BYTES_MAX = 1_000_000


def values(job: Job) -> Iterator[bytes]:
    """Yield values of the job's size without end: JSON like a service's log, so that they can be compressed."""
    return itertools.cycle(_pool(job.value_size))


def pairs(job: Job) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs (key, value) without end."""
    return pairs_of(job.value_size)


def pairs_of(value_size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs (key, value) of this size without end."""
    return zip(itertools.cycle(KEYS), itertools.cycle(_pool(value_size)))


@cache
def _pool(size: int) -> list[bytes]:
    """Create the values once, in the warm-up."""
    random = Random(7)
    return [_value(random, size) for _ in range(min(POOL_MAX, POOL_BYTES_MAX // size))]


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
