"""The modes of a run: the settings of the clients, and the faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["CLIENTS", "DOOMED", "LATE_S", "MAIN", "MODES", "SOLO", "TOPICS", "Mode"]

MAIN: Final = "main"
"""Replication 3, min.insync.replicas 2."""
SOLO: Final = "solo"
"""Replication 1, one partition per broker: no other broker can hold it up."""
DOOMED: Final = "doomed"
"""Replication 3; deleted in the course of a run."""
TOPICS: Final = {MAIN: 12, SOLO: 3, DOOMED: 2}
"""Partitions of each topic."""

CLIENTS: Final = ("aioprod", "aiokafka", "confluent")
LATE_S: Final = 1.5
"""How much later than the delivery deadline a record may end."""


@dataclass(frozen=True, slots=True)
class Mode:
    """`deadline_s` is `delivery_timeout_ms` in seconds; `settings` are what each client is given beside its address."""

    name: str
    title: str
    deadline_s: float
    settings: dict[str, dict[str, Any]]
    faults: tuple[str, ...]


_FAULTS: Final = (
    "topic deleted",  # first: its records may take until their deadline to end
    "leader killed",
    "leader frozen",
    "connections cut mid-frame",
    "leaders moved by reassignment",
    "200 ms latency",
    "slow link",
    "rolling restart",
    "disk full",
)
_FREEZES: Final = ("two of three frozen", "two of three frozen, connections cut")
_IDEMPOTENT: Final[dict[str, dict[str, Any]]] = {
    "aioprod": {"enable_idempotence": True, "delivery_timeout_ms": 60_000},
    # It has no deadline of delivery, and with idempotence it retries for ever.
    "aiokafka": {"enable_idempotence": True, "acks": "all"},
    "confluent": {"enable.idempotence": True, "delivery.timeout.ms": 60_000},
}
_HARD: Final[dict[str, dict[str, Any]]] = {
    "aioprod": {"enable_idempotence": True, "delivery_timeout_ms": 6000, "request_timeout_ms": 2000},
    "aiokafka": {"enable_idempotence": True, "acks": "all", "request_timeout_ms": 2000},
    "confluent": {
        "enable.idempotence": True,
        "delivery.timeout.ms": 6000,
        "request.timeout.ms": 2000,
        "socket.timeout.ms": 2000,
    },
}

MODES: Final = {
    mode.name: mode
    for mode in (
        Mode("normal", "kills and pauses within the delivery deadline, 60 s", 60.0, _IDEMPOTENT, _FAULTS),
        Mode("hard", "two of three brokers frozen for 10 s, deadline 6 s", 6.0, _HARD, _FREEZES),
        Mode("frozen", "one broker frozen for 12 s, deadline 6 s", 6.0, _HARD, ("one frozen",)),
    )
}
