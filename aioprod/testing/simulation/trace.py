"""`Trace`: the event log of a simulation and its hash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

__all__ = ["Trace"]


class Trace:
    """Logs events. `show`, if set, is called with each line."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.show: Callable[[str], object] | None = None
        self.count = 0
        self._clock = clock
        self._hash = hashlib.sha256()

    def __call__(self, *what: object) -> None:
        """Log an event at the current time."""
        line = f"{self._clock():.9f} {' '.join(map(str, what))}"
        self.count += 1
        self._hash.update(line.encode())
        if self.show is not None:
            self.show(line)

    def comment(self, *what: object) -> None:
        """Show a line that is not part of the hash."""
        if self.show is not None:
            self.show(f"{self._clock():.9f}   # {' '.join(map(str, what))}")

    @property
    def digest(self) -> str:
        """The hash of all events so far: equal runs have equal hashes."""
        return self._hash.hexdigest()
