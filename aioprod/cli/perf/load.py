"""What is to be sent, and when the next record is due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import cycle, islice, repeat
from pathlib import Path
from random import Random
from typing import Any, Final

from aioprod.errors import UsageError

__all__ = ["STYLES", "Load", "Pace", "Payload"]

STYLES: Final = ("send_nowait", "send", "send_many", "send_arrow")
_VALUES: Final = 1009
"""A prime number of values, and another one of keys, so that a key goes with each value in turn."""
_KEYS: Final = 997
_BYTES_MAX: Final = 8 * 2**20
"""Of large values there are fewer: the processor's caches are not what is measured."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is to be sent."""

    topic: str
    records: int | None
    """How many; None: until `seconds` are over."""
    seconds: float | None
    """How long to send; None: until all `records` are sent."""
    size: int
    """Bytes of a value, unless `payload_file` has the values."""
    key_size: int
    """Bytes of a key; 0: no keys."""
    rate: float | None
    """Records a second; None: as fast as possible."""
    style: str
    """One of `STYLES`."""
    seed: int
    """Of the random bytes."""
    chunk: int
    """Records of one call of `send_many` or `send_arrow`."""
    tasks: int
    """Calls of `send` that wait at a time."""
    payload_file: str | None
    """Its lines are the values."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON; `Load(**...)` takes it back."""
        return asdict(self)


class Payload:
    """Values and keys that are made once, and taken in turn for ever. Raises UsageError for a file without lines."""

    def __init__(self, load: Load) -> None:
        source = Random(load.seed)  # noqa: S311  # no secrets
        values = _drawn(source, _VALUES, load.size) if load.payload_file is None else _lines(load.payload_file)
        self._values = cycle(values)
        self._keys = cycle(_drawn(source, _KEYS, load.key_size)) if load.key_size else None

    def values(self, count: int) -> list[bytes]:
        """The next ones."""
        return list(islice(self._values, count))

    def keys(self, count: int) -> list[bytes] | None:
        """The next ones, None without keys."""
        return None if self._keys is None else list(islice(self._keys, count))

    def pairs(self, count: int) -> Iterator[tuple[bytes | None, bytes]]:
        """The next keys and values."""
        return zip(self.keys(count) or repeat(None), self.values(count), strict=False)


def _drawn(source: Random, count: int, size: int) -> list[bytes]:
    return [source.randbytes(size) for _ in range(max(1, min(count, _BYTES_MAX // max(size, 1))))]


def _lines(path: str) -> list[bytes]:
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"The payload file {path!r} can't be read: {error.strerror}.") from error
    if not lines:
        raise UsageError(f"The payload file {path!r} has no line.", hint="Each line of it is the value of a record.")
    return lines


class Pace:
    """Says how many records are due; `now` is in seconds of any clock, and the load begins at `began`."""

    def __init__(self, load: Load, began: float) -> None:
        self._records = load.records
        self._ends = None if load.seconds is None else began + load.seconds
        self._rate = load.rate
        self._began = began
        self._given = 0

    def is_over(self, now: float) -> bool:
        """Whether all records are given, or the time is over."""
        return self._left() == 0 or (self._ends is not None and now >= self._ends)

    def take(self, now: float, at_most: int) -> int:
        """How many records to send now; they are counted as given."""
        if self.is_over(now):
            return 0
        count = at_most if self._rate is None else min(at_most, self._due(now, self._rate))
        left = self._left()
        count = count if left is None else min(count, left)
        self._given += count
        return count

    def wait_s(self, now: float) -> float:
        """How long nothing is due."""
        if self._rate is None:
            return 0.0
        due_at = self._began + self._given / self._rate
        ends = due_at if self._ends is None else min(due_at, self._ends)
        return max(0.0, ends - now)

    def _due(self, now: float, rate: float) -> int:
        # The first record is due at the beginning.
        return max(0, int((now - self._began) * rate + 1e-6) + 1 - self._given)

    def _left(self) -> int | None:
        return None if self._records is None else self._records - self._given
