"""Records that wait for a handler, in queues: of each queue one record is handled at a time, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable
from heapq import heapify, heappop, heappush
from itertools import count

from aioprod.group.work.progress import Progress
from aioprod.types import ConsumedRecord, TopicPartition

__all__ = ["Held", "Job", "Queue", "Queues"]


class Job:
    """A record to handle."""

    __slots__ = ("failures", "letter_error", "number", "progress", "queue", "record", "size", "started_at", "warned")

    def __init__(self, number: int, record: ConsumedRecord, progress: Progress, queue: Queue, size: int) -> None:
        self.number = number
        """Records that were received later have a higher one."""
        self.record = record
        """As it is stored."""
        self.progress = progress
        self.queue = queue
        self.size = size
        """The bytes of key, value and headers."""
        self.failures = 0
        """How often its handler has failed."""
        self.letter_error: BaseException | None = None
        """The error that its letter is to be sent with: its handler is not called again."""
        self.started_at = 0.0
        """When its handler began, in monotonic seconds."""
        self.warned = False
        """Whether it was logged that its handler takes long."""

    @property
    def tp(self) -> TopicPartition:
        """The partition."""
        return self.queue.tp

    @property
    def may_start(self) -> bool:
        """Whether it may be handled, or its letter be sent, now: whether its marks fit into a commit then."""
        offset = self.record.offset
        if self.letter_error is None:
            return self.progress.may_start(offset)
        return self.progress.to_commit(offset) is not None

    @property
    def place(self) -> str:
        """Where the record is stored, for a message."""
        return f"offset {self.record.offset} of {self.record.topic}-{self.record.partition}"


class Queue:
    """The records of one key, or of whatever has an order; the first one may be in work."""

    __slots__ = ("jobs", "name", "tp")

    def __init__(self, name: Hashable, tp: TopicPartition) -> None:
        self.name = name
        self.tp = tp
        self.jobs: deque[Job] = deque()


class Held:
    """How much is received and not finished."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.records = 0
        self.bytes = 0

    def add(self, records: int, size: int) -> None:
        """So much more, or less."""
        self.records += records
        self.bytes += size


class Queues:
    """All records that were received and are not finished."""

    def __init__(self) -> None:
        self.total = Held()
        self._of: dict[TopicPartition, Held] = {}
        self._queues: dict[Hashable, Queue] = {}
        self._ready: list[tuple[int, Queue]] = []
        """Queues whose first record waits for a handler: a heap by its number.

        The record that was received first is handled first: in turns, the later records of a key that has many would
        wait for ever more records of others, and what is finished behind them would fill the marks.
        """
        self._unfit: dict[TopicPartition, list[tuple[int, Queue]]] = {}
        """Queues whose first record waits until marks of its partition fit again: a heap by its number."""
        self._numbers = count()
        self._stopped: set[TopicPartition] = set()
        """Partitions of which no more records start."""

    def add(self, name: Hashable, record: ConsumedRecord, tp: TopicPartition, progress: Progress, size: int) -> None:
        """Add a record behind all others of its queue."""
        number = next(self._numbers)
        queue = self._queues.get(name)
        if queue is None:
            self._queues[name] = queue = Queue(name, tp)
            heappush(self._ready, (number, queue))
        queue.jobs.append(Job(number, record, progress, queue, size))
        self._count(tp, 1, size)

    def take(self) -> Job | None:
        """The next record to handle, None if there is none that may start now; its queue waits until `done`."""
        while self._ready:
            number, queue = heappop(self._ready)
            if queue.tp in self._stopped:
                continue
            job = queue.jobs[0]
            if job.may_start:
                return job
            heappush(self._unfit.setdefault(queue.tp, []), (number, queue))
        return None

    def again(self, job: Job) -> None:
        """The record waits for a handler again, as the first of its queue."""
        heappush(self._ready, (job.number, job.queue))

    def done(self, job: Job) -> None:
        """The record is finished: the next one of its queue may start, and those whose marks did not fit."""
        queue = job.queue
        queue.jobs.popleft()
        self._count(job.tp, -1, -job.size)
        if queue.jobs:
            heappush(self._ready, (queue.jobs[0].number, queue))
        else:
            del self._queues[queue.name]
        unfit = self._unfit.get(job.tp)
        while unfit and unfit[0][1].jobs[0].may_start:
            heappush(self._ready, heappop(unfit))

    def stop(self, partitions: Iterable[TopicPartition]) -> None:
        """Start no more records of these partitions."""
        self._stopped.update(partitions)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """Forget all records of these partitions, none of which is in work; others that come may start."""
        for name, queue in list(self._queues.items()):
            if queue.tp in partitions:
                self._count(queue.tp, -len(queue.jobs), -sum(job.size for job in queue.jobs))
                queue.jobs.clear()
                del self._queues[name]
        self._ready = [(number, queue) for number, queue in self._ready if queue.jobs]
        heapify(self._ready)
        for tp in partitions:
            self._unfit.pop(tp, None)
            self._of.pop(tp, None)
        self._stopped.difference_update(partitions)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """Those that records were received of, since they were dropped last."""
        return frozenset(self._of)

    def held(self, tp: TopicPartition) -> Held:
        """How much of this partition is held."""
        return self._of.get(tp) or Held()

    def _count(self, tp: TopicPartition, records: int, size: int) -> None:
        self.total.add(records, size)
        self._of.setdefault(tp, Held()).add(records, size)
