"""Which of the records that wait is handled next."""

from __future__ import annotations

from aioprod.group.work.mark_room import MarkRoom
from aioprod.group.work.marks import NOTHING
from aioprod.group.work.progress import Progress
from aioprod.group.work.queues import Job, Queues
from aioprod.types import ConsumedRecord, TopicPartition

TP = TopicPartition("orders", 0)
ROOM = MarkRoom()


def add(queues: Queues, progress: Progress, key: bytes, offset: int) -> None:
    progress.receive(offset)
    queues.add(key, ConsumedRecord("orders", 0, offset, key, b"", (), 0), TP, progress, 1)


def test_the_record_that_was_received_first_is_handled_first() -> None:
    queues, progress = Queues(), Progress(0, NOTHING, ROOM)
    for offset, key in enumerate([b"a", b"a", b"b", b"a", b"c", b"b"]):
        add(queues, progress, key, offset)
    handled = []
    while job := queues.take():
        handled.append(job.record.offset)
        progress.finish(job.record.offset)
        queues.done(job)
        if len(handled) < 5:
            add(queues, progress, b"later %d" % len(handled), 5 + len(handled))
    assert handled == list(range(10))


def test_a_key_with_records_in_work_does_not_hold_up_others() -> None:
    queues, progress = Queues(), Progress(0, NOTHING, ROOM)
    for offset, key in enumerate([b"a", b"a", b"b"]):
        add(queues, progress, key, offset)
    first, second = queues.take(), queues.take()
    assert first is not None
    assert second is not None
    assert (first.record.offset, second.record.offset) == (0, 2)
    assert queues.take() is None
    queues.done(first)
    third = queues.take()
    assert third is not None
    assert third.record.offset == 1


def test_records_whose_marks_did_not_fit_start_in_order() -> None:
    queues, progress = Queues(), Progress(0, NOTHING, ROOM)

    def take() -> Job:
        job = queues.take()
        assert job is not None
        return job

    def finish(job: Job) -> None:
        progress.finish(job.record.offset)
        queues.done(job)

    for offset in range(ROOM.bits_max + 2):
        add(queues, progress, b"%d" % offset, offset)
    first, *_ = [take() for _ in range(ROOM.gaps_max + 1)]
    for _ in range(ROOM.gaps_max + 1, ROOM.bits_max):
        finish(take())
    assert queues.take() is None
    finish(first)
    held = take()
    assert held.record.offset == ROOM.bits_max
    assert queues.take() is None
    finish(held)
    assert take().record.offset == ROOM.bits_max + 1
