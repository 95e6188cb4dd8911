"""Records that wait for a handler, in lanes: of each lane one record is handled at a time, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable

from aioprod.group.work.progress import Progress
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["Job", "Lane", "Lanes"]


class Job:
    """A record to handle."""

    __slots__ = ("failures", "lane", "progress", "record", "size", "started_at", "warned")

    def __init__(self, record: ConsumedRecord, progress: Progress, lane: Lane, size: int) -> None:
        self.record = record
        """As it is stored."""
        self.progress = progress
        self.lane = lane
        self.size = size
        """The bytes of key, value and headers."""
        self.failures = 0
        """How often its handler has failed."""
        self.started_at = 0.0
        """When its handler began, in monotonic seconds."""
        self.warned = False
        """Whether it was logged that its handler takes long."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.lane.tp

    @property
    def place(self) -> str:
        """Where the record is stored, for a message."""
        return f"offset {self.record.offset} of {self.record.topic}-{self.record.partition}"


class Lane:
    """The records of one key, or of whatever has an order; the first one may be in work."""

    __slots__ = ("jobs", "name", "tp")

    def __init__(self, name: Hashable, tp: TopicPartition) -> None:
        self.name = name
        self.tp = tp
        self.jobs: deque[Job] = deque()


class Lanes:
    """All records that were received and are not finished."""

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0
        self._lanes: dict[Hashable, Lane] = {}
        self._ready: deque[Lane] = deque()
        """Lanes whose first record waits for a handler."""
        self._held: deque[Lane] = deque()
        """Lanes whose first record waits until marks of its partition fit again."""
        self._stopped: set[TopicPartition] = set()
        """Partitions of which no more records start."""

    def add(self, name: Hashable, record: ConsumedRecord, tp: TopicPartition, progress: Progress, size: int) -> None:
        """Add a record behind all others of its lane."""
        lane = self._lanes.get(name)
        if lane is None:
            self._lanes[name] = lane = Lane(name, tp)
            self._ready.append(lane)
        lane.jobs.append(Job(record, progress, lane, size))
        self.records += 1
        self.bytes += size

    def take(self) -> Job | None:
        """The next record to handle, None if there is none that may start now; its lane waits until `done`."""
        while self._ready:
            lane = self._ready.popleft()
            if lane.tp in self._stopped:
                continue
            job = lane.jobs[0]
            if job.progress.may_start(job.record.offset):
                return job
            self._held.append(lane)
        return None

    def again(self, job: Job) -> None:
        """The record waits for a handler again, as the first of its lane."""
        self._ready.append(job.lane)

    def done(self, job: Job) -> None:
        """The record is finished: the next one of its lane may start, and those whose marks did not fit."""
        lane = job.lane
        lane.jobs.popleft()
        self.records -= 1
        self.bytes -= job.size
        if lane.jobs:
            self._ready.append(lane)
        else:
            del self._lanes[lane.name]
        self._ready.extend(self._held)
        self._held.clear()

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Start no more records of these partitions."""
        self._stopped.update(partitions)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all records of these partitions, none of which is in work; others that come may start."""
        for name, lane in list(self._lanes.items()):
            if lane.tp in partitions:
                self.records -= len(lane.jobs)
                self.bytes -= sum(job.size for job in lane.jobs)
                lane.jobs.clear()
                del self._lanes[name]
        self._ready = deque(lane for lane in self._ready if lane.jobs)
        self._held = deque(lane for lane in self._held if lane.jobs)
        self._stopped.difference_update(partitions)
