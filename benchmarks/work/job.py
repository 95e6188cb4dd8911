"""`Job` and its result: the input and output of one process, as one line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Self

__all__ = ["Job", "Measurement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Which contender handles how many records of a topic, with how many handlers at once.

    The first `warm_up` of the `records` are not measured. A handler waits `wait_ms`, or does nothing if that is 0.
    """

    contender: str
    bootstrap_servers: str
    topic: str
    group: str
    records: int
    warm_up: int
    wait_ms: int
    concurrency: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Parse the job from `to_json`."""
        return cls(**json.loads(line))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one process took, from the start of the first handler after the warm-up to the end of the last one.

    `cpu_us` is user and system time of the whole process per record, `peak_mb` its peak memory from its start on.
    `overlaps` counts the records whose handler began while that of another record with the same key was running.
    """

    cpu_us: float
    records_per_s: float
    peak_mb: float
    overlaps: int

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Parse the measurement from one line."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))
