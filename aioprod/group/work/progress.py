"""Which records of one partition are finished, and what of that a commit can say."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice

from aioprod.group.work.mark_room import MarkRoom
from aioprod.group.work.marks import Marks, encoded, fitting
from aioprod.types import OffsetAndMetadata

__all__ = ["Progress"]


class Progress:
    """The records of one partition that were received: those that are not finished, in the order of their offsets.

    `start` is the offset of the next record, `marks` say what the former owner has finished behind it.
    """

    def __init__(self, start: int, marks: Marks, room: MarkRoom) -> None:
        self._room = room
        self._unfinished: OrderedDict[int, None] = OrderedDict.fromkeys(at for at in marks.gaps if at >= start)
        self._expected = deque(self._unfinished)
        """The gaps of the marks whose records were not received yet."""
        self._end = max(start, marks.end)
        """The offset behind all that was received, or that the marks say is finished."""
        self._marked_end = marks.end
        self.next = start
        """The offset behind all that was received."""
        self._high = marks.end
        """The offset behind the last record that is finished."""
        self._kept_end = marks.end
        """What is finished before this offset is marked in each commit: letters, also those of the former owner."""

    def receive(self, offset: int) -> bool:
        """A record was received, not before `next`; False if it is finished already."""
        self.pass_by(offset)
        self.next = offset + 1
        if offset < self._marked_end:
            if not self._expected or self._expected[0] != offset:
                return False
            self._expected.popleft()
            return True
        self._unfinished[offset] = None
        self._end = offset + 1
        return True

    def pass_by(self, position: int) -> None:
        """All records before this offset were received: others that the marks name are not in the log any more.

        Behind the last record there may be aborted ones, and markers of transactions.
        """
        while self._expected and self._expected[0] < position:
            self.finish(self._expected.popleft())
        self.next = max(self.next, position)
        self._end = max(self._end, position)

    def finish(self, offset: int) -> None:
        """A record is finished; a second time this does nothing."""
        self._unfinished.pop(offset, None)
        if offset >= self._high:
            self._high = offset + 1

    def finish_with_letter(self, offset: int) -> None:
        """A record is finished by a letter, in a transaction that was committed: no commit may leave that out."""
        self.finish(offset)
        self._kept_end = max(self._kept_end, offset + 1)

    @property
    def low(self) -> int:
        """The offset of the first record that is not finished, or of the next one."""
        return next(iter(self._unfinished), self._end)

    @property
    def unfinished(self) -> int:
        """How many records are not finished."""
        return len(self._unfinished)

    def may_start(self, offset: int) -> bool:
        """Whether the marks fit into a commit whenever this record and those started before it are finished."""
        gaps_max = self._room.gaps_max
        if len(self._unfinished) <= gaps_max or offset - self.low < self._room.bits_max:
            return True
        first = islice(self._unfinished, gaps_max + 1)
        return sum(at < offset for at in first) <= gaps_max

    def to_commit(self, finished: int | None = None) -> OffsetAndMetadata | None:
        """The offset to commit, with the marks that fit; as if the record at `finished` were a letter.

        None if the marks of letters don't fit: the next owner would send these letters again.
        """
        high = self._high if finished is None else max(self._high, finished + 1)
        gaps = []
        for at in self._unfinished:
            if at >= high:
                break
            if at != finished:
                gaps.append(at)
        low = next((at for at in self._unfinished if at != finished), self._end)
        marks = fitting(low, Marks(high, tuple(gaps)), self._room.length_max)
        if marks.end < max(self._kept_end, 0 if finished is None else finished + 1):
            return None
        return OffsetAndMetadata(low, encoded(low, marks))
