"""Records that wait to be written, in the groups that they will be."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

__all__ = ["LATER", "NOW", "NO_ROOM", "Forming", "Gathering"]

NO_ROOM: Final = 0
LATER: Final = 1
NOW: Final = 2

_GROUP_MAX: Final = 4 << 20
"""The bytes with which a group is full."""
_ENOUGH: Final = 256 << 10
"""The bytes that are worth a sync, although no caller waits."""


class Forming:
    """Records that will be one group."""

    __slots__ = ("parts", "records", "size", "waiters")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        """Encoded records, one or several in each part."""
        self.records = 0
        self.size = 0
        self.waiters: list[tuple[int, int, Any]] = []
        """Each with the index of the first record that it waits for, and how many these are."""


class Gathering:
    """Collects records, as far as there is room for them."""

    __slots__ = ("added", "file_bytes", "groups", "is_open", "max_bytes", "pending_bytes", "pending_max")

    def __init__(self, max_bytes: int, pending_max: int) -> None:
        self.max_bytes = max_bytes
        """What the files and the records that wait may have."""
        self.pending_max = pending_max
        """What the records that wait may have."""
        self.file_bytes = 0
        """The bytes of the files."""
        self.pending_bytes = 0
        """The bytes of records that are not on the disk."""
        self.is_open = True
        """Whether records are taken: not after a failure, and not while others wait for room."""
        self.added = 0
        """How many records were ever added."""
        self.groups: deque[Forming] = deque()

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more may wait. What waits alone may be of any size."""
        pending = self.pending_bytes
        if pending > 0 and pending + size > self.pending_max:
            return False
        return self.file_bytes + pending + size <= self.max_bytes

    def add(self, data: Any, records: int, waiter: Any, is_urgent: bool) -> int:
        """Add encoded records; returns `NO_ROOM`, `LATER` or `NOW`: when they are to be written."""
        if not self.is_open or not self.has_room(len(data)):
            return NO_ROOM
        return self.add_in_turn(data, records, waiter, is_urgent)

    def add_in_turn(self, data: Any, records: int, waiter: Any, is_urgent: bool) -> int:
        """The same for records whose room is known."""
        groups = self.groups
        group = groups[-1] if groups else None
        if group is None or group.size > _GROUP_MAX:
            group = Forming()
            groups.append(group)
        size = len(data)
        if waiter is not None:
            group.waiters.append((group.records, records, waiter))
        group.parts.append(data)
        group.records += records
        group.size += size
        self.added += records
        self.pending_bytes += size
        return NOW if is_urgent or group.size > _ENOUGH else LATER
