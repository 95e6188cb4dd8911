"""`Job` and its result: the input and output of one process, as one line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

__all__ = ["BUFFER_MEMORY", "Job", "Measurement"]

BUFFER_MEMORY: Final = 32 * 1024 * 1024
"""The default of aioprod and of Java."""
_CALL_BYTES: Final = 1_000_000
_RECORD_OVERHEAD: Final = 12
_FILLED: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Send values of `value_size` bytes to a topic, as many as possible, or `rate` a second one by one.

    `keys` has one for each partition, which take turns; it is empty where there is one partition. `settings` are in the
    client's own names. What happens in the first `warm_up_s` is not measured, and then `seconds` are.
    """

    client: str
    settings: Mapping[str, Any]
    bootstrap_servers: str
    topic: str
    keys: tuple[str, ...]
    value_size: int
    warm_up_s: float
    seconds: float
    rate: int = 0

    @property
    def value(self) -> bytes:
        """The value of each record."""
        return b"x" * self.value_size

    @property
    def records_a_call(self) -> int:
        """Of a call for many records: about 1 MB, and as many for each partition."""
        turns = max(1, len(self.keys))
        records = max(1, _CALL_BYTES // self.value_size)
        return -(-records // turns) * turns

    @property
    def calls_at_once(self) -> int:
        """So many that `buffer.memory` is nearly full, and hardly any call waits for room."""
        call = self.records_a_call * (self.value_size + _RECORD_OVERHEAD)
        return max(2, int(_FILLED * BUFFER_MEMORY / call))

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Parse the job from `to_json`."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields | {"keys": tuple(fields["keys"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """What one process did between the end of the warm-up and the end of its seconds.

    `records_per_s` counts what was acknowledged, `cpu_us` is user and system time of the whole process per such record,
    `peak_mb` its peak memory from its start on. `p50_ms` and `p99_ms`, from a record's call to its acknowledgement, are
    those of records that are sent one by one at a rate; without one, they are None.
    """

    records_per_s: float
    cpu_us: float
    peak_mb: float
    p50_ms: float | None = None
    p99_ms: float | None = None

    @classmethod
    def from_json(cls, line: str) -> Self:
        """Parse the measurement from one line."""
        fields: dict[str, Any] = json.loads(line)
        return cls(**fields)

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))
