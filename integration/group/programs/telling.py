"""Shared by the member programs in Python: their jobs and their reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from integration.group.reports import Said

__all__ = ["COMMIT_EVERY_S", "POLL_S", "Job", "check", "output_of", "tell", "value_of"]

COMMIT_EVERY_S: Final = 0.2
"""So that there is something uncommitted when one is killed."""
POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Job:
    """What a member is told, as JSON on its command line.

    Without `strategies` the brokers assign, and say what the session timeout and the heartbeats' interval are.
    """

    bootstrap_servers: str
    group: str
    topics: list[str]
    strategies: list[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def tell(
    said: Said,
    member: str,
    generation: int,
    partitions: Iterable[tuple[str, int]] = (),
    offsets: Iterable[int] = (),
    assignment: Mapping[str, Iterable[tuple[str, int]]] | None = None,
    why: str = "",
) -> None:
    """Write one report; it has left this process when this returns."""
    line = {
        "said": said,
        "at": time.monotonic(),
        "member": member,
        "generation": generation,
        "partitions": [[topic, partition] for topic, partition in partitions],
        "offsets": [*offsets],
        "assignment": {name: [[*place] for place in of] for name, of in (assignment or {}).items()},
        "why": why,
    }
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def check(value: bytes | None, offset: int) -> None:
    """Raise AssertionError for a record that is not what was sent there."""
    assert value == value_of(offset), f"offset {offset} holds {value!r}"


def output_of(topic: str) -> str:
    """Where a transformer writes what it reads in `topic`."""
    return f"{topic}-out"


def value_of(offset: int) -> bytes:
    """What the record with this offset holds."""
    return b"%d" % offset
