"""What is measured: topics of records, what handlers do with them, and which contenders take part."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Final

__all__ = ["CONCURRENCY", "CONTENDERS", "VALUE", "Contender", "Load", "keys_of", "loads"]

VALUE: Final = b"x" * 100
CONCURRENCY: Final = 200
KEYS: Final = (10_000, 200)


@dataclass(frozen=True, slots=True)
class Contender:
    """`name` is its job's; what it promises stands in the table.

    `is_sequential`: it handles one record of a partition at a time; `commits_each`: it commits after each record.
    """

    name: str
    title: str
    order: str
    commits: str
    is_sequential: bool = False
    commits_each: bool = False


_MARKS: Final = "first unfinished, with marks"
CONTENDERS: Final = (
    Contender("work-key", 'aioprod work, order="key"', "keys", _MARKS),
    Contender("java-key", "parallel-consumer, KEY", "keys", _MARKS),
    Contender("work-none", "aioprod work, order=None", "none", _MARKS),
    Contender("java-unordered", "parallel-consumer, UNORDERED", "none", _MARKS),
    Contender("faststream", "FastStream, aiokafka", "none", "what was taken"),
    Contender("faststream-confluent", "FastStream, confluent-kafka", "none", "what was taken"),
    Contender("work-partition", 'aioprod work, order="partition"', "partition", _MARKS, is_sequential=True),
    Contender("loop", "aioprod async for", "partition", "what is handled", is_sequential=True),
    Contender(
        *("faststream-ack", "FastStream, aiokafka, AckPolicy.ACK", "partition", "each record"),
        is_sequential=True,
        commits_each=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Load:
    """A topic of `records`, the first `warm_up` of which are not measured; `hot` is half of them of one key."""

    title: str
    keys: int
    hot: bool
    wait_ms: int
    records: int
    warm_up: int

    @property
    def topic(self) -> str:
        """Its topic's name."""
        return f"work-{self.wait_ms}-{self.keys}{'-hot' if self.hot else ''}"

    @property
    def bound(self) -> str:
        """What the order of keys allows: the last record ends when those of the key that has most have ended."""
        if not self.wait_ms:
            return ""
        fullest = max(Counter(keys_of(self)).values())
        turns = max(self.records / CONCURRENCY, fullest) - self.warm_up / CONCURRENCY
        most = (self.records - self.warm_up) / turns / self.wait_ms * 1000
        return f"In the order of keys at most {most:,.0f} records/s, as one key has {fullest:,} of {self.records:,}"

    def contenders(self) -> list[Contender]:
        """Who takes part: where one key is all that counts, only those that keep its order and nothing more."""
        if self.hot and self.wait_ms:
            return [contender for contender in CONTENDERS if contender.order == "keys"]
        if self.keys != KEYS[0] or self.hot:
            return [contender for contender in CONTENDERS if not contender.is_sequential]
        return list(CONTENDERS)

    def scaled(self, contender: Contender) -> tuple[int, int]:
        """How many records a contender handles, and how many of them are its warm-up: fewer where each one waits."""
        divisor = CONCURRENCY if self.wait_ms and contender.is_sequential else 10 if contender.commits_each else 1
        return self.records // divisor, self.warm_up // divisor


def loads(scale: float = 1.0) -> list[Load]:
    """All loads; `scale` is the share of the usual number of records."""

    def of(records: int) -> int:
        return max(CONCURRENCY, int(records * scale))

    wait, idle = of(48_000), of(60_000)
    return [
        *(Load(f"{keys:,} keys, handlers wait 50 ms", keys, False, 50, wait, wait // 6) for keys in KEYS),
        Load("one key has half, handlers wait 50 ms", KEYS[0], True, 50, of(400), 0),
        *(Load(f"{keys:,} keys, handlers do nothing", keys, False, 0, idle, idle // 3) for keys in KEYS),
        Load("one key has half, handlers do nothing", KEYS[0], True, 0, idle, idle // 3),
    ]


def keys_of(load: Load) -> list[bytes]:
    """The keys of the records, the same at each call; every second one is the hot key's, if there is one."""
    random = Random(7)
    keys = [b"key-%d" % random.randrange(load.keys) for _ in range(load.records)]
    if load.hot:
        keys[::2] = [b"hot"] * len(keys[::2])
    return keys
