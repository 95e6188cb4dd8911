"""`SpooledPlan`: cluster, disk, processes and faults of one seed of producers that keep records on disk."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.simulation.plan import FAULTS, TRANSACTION_FAULTS
from tests.simulation.spool_plan import DiskFaults

__all__ = ["MARKER_FAULTS", "STYLES", "SpooledPlan"]

STYLES = ("send", "submit", "nowait", "callback", "many")
MARKER_FAULTS = ("marker lost", "marker late", "marker refused", "end lost")
_NEVER = {"recreate", "upgrade"}
"""A topic that is created again has no marker, and an operator decides. Older Produce requests don't go with
transaction.version 2."""


@dataclass
class SpooledPlan:
    """Everything that is drawn before the run. `Gremlin` reads what it needs for its faults."""

    seed: int
    brokers: int
    topics: dict[str, int]
    options: dict[str, Any]
    transaction_version: int
    lives: int
    """How many processes there are, one after the other, before all is well."""
    life_max_s: float
    senders: int
    records: int
    """Calls of each sender in a life."""
    size_max: int
    keys: int
    pause_max_s: float
    styles: tuple[str, ...]
    closes: float
    power_cuts: float
    crash_steps: int
    slow_s: float
    spool: dict[str, int]
    disk: DiskFaults
    faults: tuple[str, ...]
    faults_max: int
    fault_every_s: float
    network: dict[str, Any]
    message_max_bytes: int | None = None
    calm: str = ""

    @classmethod
    def draw(cls, seed: int) -> SpooledPlan:
        """Draw a plan from a seed; features are left out at random, so that each seed is another mixture."""
        random = Random(seed)
        pick = random.choice
        kinds = sorted({*FAULTS, *TRANSACTION_FAULTS, *MARKER_FAULTS} - _NEVER)
        max_bytes = pick([1 << 16, 1 << 16, 1 << 22])
        return cls(
            seed=seed,
            brokers=random.randint(1, 3),
            topics={f"topic-{number}": random.randint(1, 3) for number in range(random.randint(1, 2))},
            options=_options(random),
            transaction_version=pick([1, 2, 2]),
            lives=random.randint(1, 5),
            life_max_s=pick([0.1, 1.0, 10.0]),
            senders=random.randint(1, 3),
            records=pick([3, 10, 20]),
            size_max=pick([0, 50, 400, 3000]),
            keys=pick([1, 3, 10]),
            pause_max_s=pick([0.0, 0.01, 0.1, 0.5]),
            styles=tuple(sorted(random.sample(STYLES, random.randint(1, len(STYLES))))),
            closes=pick([0.0, 0.2, 0.7]),
            power_cuts=pick([0.0, 0.5, 1.0]),
            crash_steps=pick([20, 60, 200]),
            slow_s=pick([0.0, 0.002, 0.02]),
            spool={"max_bytes": max_bytes, "segment_bytes": pick([1, 200, 1000, max_bytes // 2])},
            disk=DiskFaults.draw(random),
            faults=tuple(sorted(random.sample(kinds, random.randint(0, len(kinds))))),
            faults_max=pick([3, 10, 30]),
            fault_every_s=pick([0.02, 0.1, 0.5]),
            network={"latency_min_s": 0.0, "latency_max_s": pick([0.0001, 0.001, 0.02])},
        )


def _options(random: Random) -> dict[str, Any]:
    pick = random.choice
    return {
        "client_id": "simulated",
        "transactional_id": "simulated",
        "linger_ms": pick([0, 0, 5]),
        "batch_size": pick([150, 2000, 16_384]),
        "compression_type": pick(["none", "lz4"]),
        "request_timeout_ms": pick([500, 2000, 5000]),
        "delivery_timeout_ms": pick([6_000, 30_000]),
        "max_block_ms": pick([1000, 20_000]),
        "transaction_timeout_ms": pick([2_000, 60_000, 60_000]),
        "retry_backoff_ms": pick([1, 20, 100]),
        "retry_backoff_max_ms": pick([100, 1000]),
        "reconnect_backoff_ms": pick([1, 50]),
        "reconnect_backoff_max_ms": pick([50, 1000]),
        "socket_connection_setup_timeout_ms": pick([300, 2000]),
        "socket_connection_setup_timeout_max_ms": 3000,
        "metadata_max_age_ms": pick([500, 300_000]),
    }
