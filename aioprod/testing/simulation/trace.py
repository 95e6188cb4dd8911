"""What happened in a simulation: a hash of all of it, and the words if somebody wants to read them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

__all__ = ["Trace"]


class Trace:
    """Takes notes. `show` is called with each line, if it is set."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.show: Callable[[str], object] | None = None
        self.count = 0
        self._clock = clock
        self._hash = hashlib.sha256()

    def __call__(self, *what: object) -> None:
        """Note what happened just now."""
        line = f"{self._clock():.9f} {' '.join(map(str, what))}"
        self.count += 1
        self._hash.update(line.encode())
        if self.show is not None:
            self.show(line)

    def comment(self, *what: object) -> None:
        """Something to read that is not part of the hash."""
        if self.show is not None:
            self.show(f"{self._clock():.9f}   # {' '.join(map(str, what))}")

    @property
    def digest(self) -> str:
        """The hash of everything so far: equal for equal runs."""
        return self._hash.hexdigest()
