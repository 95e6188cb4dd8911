"""`MemberPlan`: what the members of a seed read, how they work, and what goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

__all__ = ["MemberPlan"]

_PROTOCOLS: Final[tuple[dict[str, Any], ...]] = (
    {"assignors": ["cooperative-sticky"], "session_timeout_ms": 6000, "heartbeat_interval_ms": 500},
    {"assignors": ["range"], "session_timeout_ms": 6000, "heartbeat_interval_ms": 500},
    {"group_protocol": "consumer"},
)


@dataclass(frozen=True)
class MemberPlan:
    """Drawn from a seed."""

    seed: int
    protocol: dict[str, Any]
    partitions: int
    records: int
    keys: int
    members: int
    """How many there are at first and at the end."""
    events: int
    """How many things go wrong."""
    concurrency: int
    order: Any
    drain_s: float
    buffer_bytes: int
    interval_ms: int
    """Of commits."""
    slow: float
    """The longest time of a handler in seconds."""
    failing: float
    """The share of the calls of handlers that fail."""
    poison: float
    """The share of the records whose handler always fails."""
    is_transactional: bool
    """Whether letters are."""
    metadata_max: int
    """The characters of metadata that the brokers take with an offset."""
    racks: tuple[str, ...]
    """Of the brokers; all members are in the first one, and read from followers there."""

    @staticmethod
    def draw(seed: int) -> MemberPlan:
        """The plan of a seed."""
        random = Random(f"members {seed}")
        return MemberPlan(
            seed=seed,
            protocol=random.choice(_PROTOCOLS),
            partitions=random.randint(1, 4),
            records=random.choice([20, 60, 200]),
            keys=random.choice([1, 3, 20]),
            members=random.randint(1, 3),
            events=random.randint(2, 10),
            concurrency=random.choice([1, 3, 20]),
            order=random.choice(["key", "key", "key", "partition", None]),
            drain_s=random.choice([0.0, 0.5, 5.0]),
            buffer_bytes=random.choice([100, 1000, 1_000_000]),
            interval_ms=random.choice([500, 2000, 5000]),
            slow=random.choice([0.01, 0.3, 2.0]),
            failing=random.choice([0.0, 0.05, 0.2]),
            poison=random.choice([0.0, 0.02, 0.1]),
            is_transactional=random.random() < 0.5,
            metadata_max=random.choice([4096, 4096, 60, 40, 0]),
            racks=random.choice([(), ("a", "b", "c"), ("a", "a", "b")]),
        )
