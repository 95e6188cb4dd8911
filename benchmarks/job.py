"""`Job` and its result: the input and output of one contender process, as one line of JSON each."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from tests.support.process_costs import Beat

__all__ = ["Job", "Measurement"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One measurement: which client, which call, how many records, with which settings.

    Sizes are in bytes. A setting that is None stays at the client's own default. `beat` says how the loop gap is
    measured: by a timer of 1 ms, exactly at each turn of the loop (which keeps the loop busy), or not at all.
    `tuned`: after the warm-up the collector is set as `aioprod.tune` sets it, whichever the client.
    `partitions` is the number of partitions of each of the `topics`. `log_in`: TLS and log-in in aioprod's settings.
    `imported` are the words after `import`, where an import is measured.
    """

    client: str
    call: str
    records: int
    warm_up: int
    bootstrap_servers: str
    topics: tuple[str, ...]
    partitions: int
    keyed: bool = False
    value_size: int = 100
    linger_ms: int | None = 5
    batch_size: int | None = 16 * 1024
    compression: str = "none"
    gzip_level: int | None = None
    buffer_memory: int | None = None
    idempotence: bool | None = None
    loop: Literal["uvloop", "asyncio"] = "uvloop"
    build: Literal["compiled", "interpreted"] = "compiled"
    beat: Beat = "timer"
    tuned: bool = False
    log_in: dict[str, Any] = field(default_factory=dict)
    imported: str = ""

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Parse the job from `to_json`."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields | {"topics": tuple(fields["topics"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of one process, from the end of its warm-up to its last acknowledgement, or to the last record
    that it read. Of a program it is all from its start to its end, without a warm-up.

    `cpu_us` is user and system time of the whole process per record; latencies are from the call to the
    acknowledgement, of a sample of the records; `gap_ms` is the largest thread CPU time between two beats of the loop.
    What a client does not have (a loop) or a call does not show is None. `settings` are those that the client got.
    """

    records: int
    cpu_us: float
    records_per_s: float
    peak_mb: float
    growth_mb: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    gap_ms: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Parse the measurement from `to_json`."""
        return cls(**json.loads(line))
