"""The marks of a commit, and what a partition's progress commits."""

from __future__ import annotations

import base64
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.group.work.mark_room import MarkRoom
from aioprod.group.work.marks import NOTHING, Marks, decoded, encoded, fitting, length_of
from aioprod.group.work.progress import Progress
from aioprod.types import OffsetAndMetadata

METADATA_MAX = 4096
BITS_MAX, GAPS_MAX = 24_000, 600
"""What fits into that, as docs/work.md says."""
LOWS = st.integers(0, 2**62)


def finished(low: int, marks: Marks) -> set[int]:
    """The offsets that are finished, counted from `low`."""
    return {at - low for at in range(low, marks.end)} - {gap - low for gap in marks.gaps}


@given(LOWS, st.sets(st.integers(1, 300)))
def test_marks_say_what_is_finished(low: int, done: set[int]) -> None:
    end = max(done, default=0) + 1
    gaps = tuple(low + at for at in range(end) if at not in done)
    text = encoded(low, Marks(low + end, gaps))
    assert finished(low, decoded(low, text)) == done
    assert bool(text) is bool(done)


@pytest.mark.parametrize("low", [0, 2**62])
@pytest.mark.parametrize("distance", [1, 2, 9, 40, 3000])
def test_marks_that_fit(distance: int, low: int) -> None:
    """Whatever `may_start` lets begin."""
    count = GAPS_MAX if distance > BITS_MAX // GAPS_MAX else BITS_MAX // distance
    gaps = [low + at * distance for at in range(count)]
    end = max(gaps) + (1 if distance == 1 else distance)
    text = encoded(low, Marks(end, tuple(gaps)))
    assert len(text) <= METADATA_MAX
    if distance > 1:
        assert decoded(low, text) == Marks(end, tuple(gaps))


@given(LOWS, st.sets(st.integers(1, 3000)), st.integers(0, 200))
def test_marks_are_cut_to_what_fits(low: int, done: set[int], length_max: int) -> None:
    end = max(done, default=0) + 1
    cut = fitting(low, Marks(low + end, tuple(low + at for at in range(end) if at not in done)), length_max)
    text = encoded(low, cut)
    assert length_of(text) <= length_max
    assert len(text) <= length_max + 31
    assert finished(low, decoded(low, text)) == {at for at in done if low + at < cut.end}


@pytest.mark.parametrize("distance", [1, 2, 9, 40, 3000])
def test_nothing_is_cut_that_fits(distance: int) -> None:
    gaps = tuple(range(7, 7 + 100 * distance, distance))
    text = encoded(7, Marks(gaps[-1] + 2, gaps))
    assert fitting(7, Marks(gaps[-1] + 2, gaps), length_of(text)) == Marks(gaps[-1] + 2, gaps)


def test_letters_of_the_former_owner_stay_marked_where_brokers_take_little() -> None:
    room = MarkRoom()
    room.limit(4)
    marks = Marks(60, (4, 24, 29, 48, 56))
    room.stored(length_of(encoded(4, marks)))
    progress = Progress(4, marks, room)
    assert progress.to_commit() == OffsetAndMetadata(4, encoded(4, marks))
    assert progress.to_commit(4) is not None


@given(st.sets(st.integers(95, 300), min_size=1))
def test_what_a_broker_has_taken_becomes_no_longer(unfinished: set[int]) -> None:
    gaps = sorted(unfinished)
    end = gaps[-1] + 2
    sizes = [len(encoded(gaps[at], Marks(end, tuple(gaps[at:])))) for at in range(len(gaps))]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a text of another program",
        "aioprod1:g0000000000000000007:",
        "aioprod1:g0000000000000000007:====",
        "aioprod1:g0000000000000000007:" + base64.b64encode(b"\x05\x00\x09").decode(),
        "aioprod1:g0000000000000000007:" + base64.b64encode(b"\x05\x00\x00").decode(),
        "aioprod1:g0000000000000000007:" + base64.b64encode(b"\x80").decode(),
        "aioprod1:g0000000000000000007:" + base64.b64encode(b"\xff" * 40).decode(),
        "aioprod1:b0000000000000000007:!",
        "aioprod1:x0000000000000000007:AAAA",
        "aioprod1:b0000000000000000007:" + "A" * 40_000,
        # The offset itself is finished, says this:
        "aioprod1:g0000000000000000007:" + base64.b64encode(b"\x05").decode(),
        "aioprod1:g0000000000000000007:" + base64.b64encode(b"\x05\x01").decode(),
        "aioprod1:b0000000000000000007:" + base64.b64encode(b"\xff").decode(),
        # The marks are of another offset:
        encoded(6, Marks(12, (6, 8))),
        encoded(8, Marks(12, (8, 9))),
        encoded(77, Marks(90, (77,))),
    ],
)
def test_metadata_that_make_no_sense(text: str) -> None:
    assert decoded(7, text) == NOTHING


@given(st.text(max_size=60))
def test_any_metadata(text: str) -> None:
    for form in ("aioprod1:g0000000000000000003:", "aioprod1:b0000000000000000003:", ""):
        marks = decoded(3, form + text)
        assert marks == NOTHING or marks.gaps[0] == 3
        assert all(3 <= gap < marks.end for gap in marks.gaps)


# --- progress


def to_commit(progress: Progress, finished: int | None = None) -> OffsetAndMetadata:
    """What is committed: something, as all marks fit."""
    found = progress.to_commit(finished)
    assert found is not None
    return found


@given(st.lists(st.integers(1, 3), min_size=1, max_size=60), st.randoms(use_true_random=False), st.integers(0, 100))
def test_the_next_owner_handles_what_is_not_finished(steps: list[int], random: Random, start: int) -> None:
    """Each record is handled again exactly if it was not finished, over several owners; the log has gaps."""
    offsets = [start + sum(steps[: index + 1]) for index in range(len(steps))]
    committed, handled = to_commit(Progress(start, NOTHING, MarkRoom())), set[int]()
    for _ in range(4):
        progress = Progress(committed.offset, decoded(committed.offset, committed.metadata), MarkRoom())
        unfinished = []
        for offset in offsets:
            if offset >= committed.offset:
                if progress.receive(offset):
                    assert offset not in handled
                    unfinished.append(offset)
                else:
                    assert offset in handled
        assert set(offsets) - set(unfinished) <= handled
        for offset in random.sample(unfinished, len(unfinished) // 2):
            progress.finish(offset)
            handled.add(offset)
            assert progress.low <= min(set(offsets) - handled, default=offsets[-1] + 1)
        committed = to_commit(progress)


def test_a_record_in_a_transaction_counts_as_finished() -> None:
    progress = Progress(0, NOTHING, MarkRoom())
    for offset in range(5):
        progress.receive(offset)
    progress.finish(3)
    last = to_commit(progress, 1)
    assert (last.offset, decoded(0, last.metadata)) == (0, Marks(4, (0, 2)))
    assert to_commit(progress, 0).offset == 1
    assert decoded(0, to_commit(progress).metadata) == Marks(4, (0, 1, 2))


def test_marks_of_records_that_were_not_received_yet_are_kept() -> None:
    progress = Progress(0, Marks(9, (0, 4)), MarkRoom())
    assert progress.receive(0)
    assert not progress.receive(1)
    progress.finish(0)
    found = to_commit(progress)
    assert (found.offset, decoded(4, found.metadata)) == (4, Marks(9, (4,)))


def test_a_hole_that_is_not_in_the_log_any_more_is_finished() -> None:
    progress = Progress(0, Marks(9, (0, 4)), MarkRoom())
    progress.receive(0)
    progress.finish(0)
    assert not progress.receive(5)
    assert to_commit(progress).offset == 9


def test_what_is_behind_the_last_record_is_committed_when_it_is_finished() -> None:
    progress = Progress(0, Marks(9, (0, 4, 7)), MarkRoom())
    progress.receive(0)
    progress.pass_by(6)
    assert (progress.low, progress.next) == (0, 6)
    progress.finish(0)
    assert progress.low == 7, "the record at 4 is not in the log any more"
    progress.receive(7)
    progress.finish(7)
    assert to_commit(progress) == (9, "")
    progress.pass_by(12)
    assert to_commit(progress) == (12, "")


def test_no_record_starts_while_marks_would_not_fit() -> None:
    progress = Progress(0, NOTHING, MarkRoom())
    for offset in range(3 * BITS_MAX):
        progress.receive(offset)
    assert progress.may_start(BITS_MAX - 1)
    assert not progress.may_start(BITS_MAX)
    for offset in range(1, 2 * BITS_MAX):
        progress.finish(offset)
    assert progress.may_start(2 * BITS_MAX + GAPS_MAX - 1)
    assert not progress.may_start(2 * BITS_MAX + GAPS_MAX)
    progress.finish(2 * BITS_MAX + GAPS_MAX - 1)
    assert len(to_commit(progress).metadata) <= METADATA_MAX
    progress.finish(0)
    assert progress.may_start(2 * BITS_MAX + GAPS_MAX)


def test_no_commit_leaves_a_letter_out() -> None:
    room = MarkRoom()
    progress = Progress(0, NOTHING, room)
    for offset in range(6000):
        progress.receive(offset)
    for offset in range(1, 6000, 2):
        progress.finish(offset)
    assert decoded(0, to_commit(progress).metadata).end == 6000
    room.limit(200)
    assert decoded(0, to_commit(progress).metadata).end == 1200
    assert progress.to_commit(5998) is None
    assert progress.to_commit(500) is not None
    progress.finish_with_letter(5998)
    assert progress.to_commit() is None
    for offset in range(0, 5998, 2):
        progress.finish(offset)
    assert to_commit(progress) == (6000, "")


def test_no_commit_leaves_out_what_the_former_owner_has_marked() -> None:
    room = MarkRoom()
    room.limit(0)
    progress = Progress(0, Marks(9, (0, 4)), room)
    assert progress.to_commit() is None
    progress.receive(0)
    progress.finish(0)
    assert progress.to_commit() is None
    progress.receive(4)
    progress.finish(4)
    assert to_commit(progress) == (9, "")


def test_records_start_also_where_no_mark_fits() -> None:
    room = MarkRoom()
    room.limit(0)
    progress = Progress(0, NOTHING, room)
    for offset in range(3000):
        progress.receive(offset)
    assert progress.may_start(room.bits_max - 1)
    assert not progress.may_start(room.bits_max)
