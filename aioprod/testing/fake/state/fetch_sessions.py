"""The fetch sessions of one fake broker (KIP-227)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from uuid import UUID

from aioprod.errors import ErrorCode
from aioprod.messages import FetchRequest
from aioprod.messages.fetch import FetchPartition, PartitionData

__all__ = ["FetchSessions", "FetchedRows", "Key"]

Key = tuple[str, UUID, int]
"""Name, or id, and index of a partition."""

_FULL = 0
_NONE = -1


@dataclass(slots=True)
class _Session:
    """`epoch` is that of the next request; `shown` is what was last said of a partition's log."""

    epoch: int
    rows: dict[Key, FetchPartition]
    by_id: bool
    shown: dict[Key, tuple[int, int, int]]


class FetchedRows:
    """The partitions that one request fetches: its own, or those of its session."""

    def __init__(self, session_id: int, rows: Mapping[Key, FetchPartition], session: _Session | None) -> None:
        self.session_id = session_id
        self.rows = rows
        self._session = session
        self._is_partial = session is not None and session.epoch != _FULL

    def shown(self, rows: Mapping[Key, PartitionData]) -> dict[Key, PartitionData]:
        """The rows that the response has: in an incremental one only those with something new."""
        session = self._session
        if session is None or not self._is_partial:
            return dict(rows)
        return {key: row for key, row in rows.items() if _says_something(row, session.shown.get(key))}

    def answered(self, rows: Mapping[Key, PartitionData]) -> None:
        """The response leaves with these rows: partitions with records go to the end of the session's order."""
        session = self._session
        if session is None:
            return
        session.epoch += 1
        for key, row in rows.items():
            session.shown[key] = _log_of(row)
            if row.records and key in session.rows:
                session.rows[key] = session.rows.pop(key)


class FetchSessions:
    """The sessions of one broker, which keeps `slots` of them (`max.incremental.fetch.session.cache.slots`)."""

    def __init__(self, random: Random, slots: int = 1000) -> None:
        self.slots = slots
        self._random = random
        self._sessions: dict[int, _Session] = {}

    def clear(self) -> None:
        """Forget all sessions, as a restart does."""
        self._sessions.clear()

    def take(self, request: FetchRequest, *, by_id: bool) -> FetchedRows | ErrorCode:
        """What a request fetches, or the error for its session."""
        named: dict[Key, FetchPartition] = {
            (topic.topic, topic.topic_id, row.partition): row for topic in request.topics for row in topic.partitions
        }
        if request.session_epoch in (_FULL, _NONE):
            self._sessions.pop(request.session_id, None)
            if request.session_epoch == _NONE or len(self._sessions) >= self.slots or not named:
                return FetchedRows(0, named, None)
            session_id = self._random.randrange(1, 2**31)
            session = self._sessions[session_id] = _Session(_FULL, named, by_id, {})
            return FetchedRows(session_id, dict(named), session)
        known = self._sessions.get(request.session_id)
        if known is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if known.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if known.by_id != by_id:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                known.rows.pop((topic.topic, topic.topic_id, index), None)
                known.shown.pop((topic.topic, topic.topic_id, index), None)
        known.rows.update(named)
        return FetchedRows(request.session_id, dict(known.rows), known)


def _log_of(row: PartitionData) -> tuple[int, int, int]:
    return row.high_watermark, row.last_stable_offset, row.log_start_offset


def _says_something(row: PartitionData, shown: tuple[int, int, int] | None) -> bool:
    return bool(row.records or row.error_code) or row.preferred_read_replica >= 0 or _log_of(row) != shown
