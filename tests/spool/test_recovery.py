"""Spools after crashes, on disks that fail, and with files that were damaged, moved or copied."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from random import Random

import pytest

from aioprod import ProducerRecord
from aioprod.errors import MarkerError, SpoolError
from aioprod.spool import Spool
from aioprod.spool.layout import SEGMENT_BYTES
from aioprod.spool.storage import Storage
from tests.support.length import by_length
from tests.support.simulated_disk import Disk, SimulatedFiles, failing, run_process, storage_of
from tests.support.spools import all_rows, all_values, filled, numbered, opened, segments_of

SMALL = 280
"""The bytes of a segment with three records."""
VALUES = [b"%d" % number for number in range(6)]


async def two_segments(*, is_closed: bool) -> Disk:
    """A disk with six records in two segments, of a spool that was closed, or of a process that was killed."""
    disk = await filled(4, segment_bytes=SMALL)
    files = SimulatedFiles(disk)
    spool = Spool("folder", max_bytes=1 << 20, segment_bytes=SMALL)
    await spool._start_in(storage_of(files))
    await spool.append(numbered(2, 4))
    if is_closed:
        await spool.close()
    else:
        files.is_dead = True
        disk.kill()
    assert len(segments_of(disk)) == 2
    return disk


async def readable(disk: Disk) -> tuple[list[object], bool]:
    """What can be read of the disk, and whether an error says that there is something else."""
    values: list[object] = []
    try:
        async with opened(disk, segment_bytes=SMALL) as spool:
            after = None
            while rows := await spool.read(after, 3):
                values += [record.value for record, _ in rows]
                after = rows[-1][1]
            await spool.append(numbered(1, 99))
            assert await all_values(spool, after) == [b"99"]
    except SpoolError:
        return values, True
    return values, False


# --- damage


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_last_segment_that_is_cut_anywhere(is_closed: bool) -> None:
    whole = await two_segments(is_closed=is_closed)
    name = segments_of(whole)[-1]
    data = whole.content(name)
    for size in range(len(data)):
        disk = whole.copy()
        disk.put(name, data[:size])
        values, has_failed = await readable(disk)
        assert values == VALUES[: len(values)]
        # No process that dies leaves this. Where it did not close the spool, the marker alone knows the end, and the
        # folder what was there when it was closed last.
        assert has_failed == (len(values) < (6 if is_closed else 4))
    assert await readable(whole) == (VALUES, False)


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_bit_that_flips_anywhere(is_closed: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    whole = await two_segments(is_closed=is_closed)
    cut = 0
    for name in [name for name in whole.names if not name.endswith(".lock")]:
        for bit in range(0, 8 * len(whole.content(name)), by_length(3, 1)):
            disk = whole.copy()
            disk.flip(name, bit)
            values, has_failed = await readable(disk)
            assert values == VALUES[: len(values)]
            if len(values) < len(VALUES) and not has_failed:
                cut += 1
                assert (is_closed, name, len(values)) == (False, segments_of(whole)[-1], 4)
    assert (cut > 0) == (not is_closed)


async def test_what_is_before_the_damage_is_read() -> None:
    disk = await filled(9, segment_bytes=SMALL)
    name = segments_of(disk)[1]
    disk.flip(name, 8 * (len(disk.content(name)) - 2))
    async with opened(disk, segment_bytes=SMALL) as spool:
        rows = await spool.read(None, 100)
        assert [record.value for record, _ in rows] == [b"%d" % number for number in range(len(rows))]
        assert len(rows) == 5
        for _ in range(2):
            with pytest.raises(SpoolError, match=rf"The segment {name} is damaged, in its group at byte \d+ .* can't"):
                await spool.read(rows[-1][1], 100)


async def test_damage_in_the_middle_of_the_last_segment_changes_nothing() -> None:
    disk = await filled(3)
    (name,) = segments_of(disk)
    disk.flip(name, 8 * (SEGMENT_BYTES + 3))
    before = disk.content(name)
    with pytest.raises(SpoolError, match=rf"is damaged at byte {SEGMENT_BYTES}: .* from number 1 on .* number 2"):
        async with opened(disk):
            pass
    assert disk.content(name) == before


async def test_a_position_behind_the_damage() -> None:
    disk = await filled(9, segment_bytes=SMALL)
    async with opened(disk, segment_bytes=SMALL) as spool:
        rows = await all_rows(spool)
    name = segments_of(disk)[0]
    disk.flip(name, 8 * (SEGMENT_BYTES + 3))
    async with opened(disk, segment_bytes=SMALL) as spool:
        with pytest.raises(SpoolError, match="is damaged"):
            await spool.read(rows[1][1], 1)
        assert await all_values(spool, rows[5][1]) == [b"6", b"7", b"8"]


async def test_a_delivered_record_may_be_damaged() -> None:
    disk = await filled(3)
    async with opened(disk) as spool:
        rows = await all_rows(spool)
    (name,) = segments_of(disk)
    disk.flip(name, 8 * (SEGMENT_BYTES + 45))
    async with opened(disk) as spool:
        assert await all_values(spool, rows[0][1]) == [b"1", b"2"]
        with pytest.raises(SpoolError):
            await spool.read(None, 1)


# --- files that are not what they were


async def test_a_segment_in_the_middle_that_is_gone() -> None:
    disk = await filled(12, segment_bytes=SMALL)
    del disk.names[segments_of(disk)[1]]
    values, has_failed = await readable(disk)
    assert has_failed
    assert values == [b"%d" % number for number in range(len(values))]
    assert 0 < len(values) < 5


@pytest.mark.parametrize("gone", [slice(-1, None), slice(None)])
async def test_last_segments_that_are_gone(gone: slice) -> None:
    disk = await filled(9, segment_bytes=SMALL)
    for name in segments_of(disk)[gone]:
        del disk.names[name]
    left = dict(disk.names)
    with pytest.raises(SpoolError, match="and number 9 was on the disk: a segment was cut or damaged, or is missing"):
        async with opened(disk, segment_bytes=SMALL):
            pass
    assert {*disk.names} == {*left}


async def test_a_first_segment_that_is_gone() -> None:
    disk = await filled(9, segment_bytes=SMALL)
    del disk.names[segments_of(disk)[0]]
    async with opened(disk, segment_bytes=SMALL) as spool:
        with pytest.raises(MarkerError):
            await spool.read(None, 1)


async def test_a_segment_of_another_spool() -> None:
    disk, another = await filled(9, segment_bytes=SMALL), await filled(8, segment_bytes=SMALL)
    name = segments_of(disk)[1]
    disk.put(name, another.content(name))
    with pytest.raises(SpoolError, match="belongs to the spool"):
        async with opened(disk):
            pass


async def test_a_segment_of_a_copy_of_the_folder() -> None:
    copied = await filled(5, segment_bytes=SMALL)
    disks = []
    for first in (5, 25):
        disk = copied.copy()
        async with opened(disk, segment_bytes=SMALL) as spool:
            for record in numbered(9, first):
                await spool.append(record)
        disks.append(disk)
    disk, another = disks
    name = segments_of(disk)[3]
    disk.put(name, another.content(name))
    async with opened(disk, segment_bytes=SMALL) as spool:
        rows = await spool.read(None, 100)
        assert [record.value for record, _ in rows] == [b"%d" % number for number in range(len(rows))]
        with pytest.raises(SpoolError, match=f"or {name}, which was not written after it"):
            await spool.read(rows[-1][1], 100)


async def test_a_segment_of_a_later_version() -> None:
    disk = await filled(1)
    (name,) = segments_of(disk)
    disk.flip(name, 8 * 4 + 1)
    with pytest.raises(SpoolError, match="has version 513 of the format, and this aioprod knows version 1"):
        async with opened(disk):
            pass


async def test_files_that_have_other_names() -> None:
    disk = await filled(3)
    disk.put("5.spool", disk.content(segments_of(disk)[0]))
    with pytest.raises(SpoolError, match=r"5\.spool is cut off or damaged"):
        async with opened(disk):
            pass
    disk = await filled(3)
    disk.put("notes.txt", b"not ours")
    assert (await readable(disk))[0] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "has no file 'id', which says which spool it is"),
        (b"", "is not that of a spool of this version: ''"),
        (b"aioprod spool 2 00", "is not that of a spool of this version"),
        (b"aioprod spool 1 00", "is damaged"),
        (b"aioprod spool 1 " + b"x" * 32, "is damaged"),
        (b"\xff" * 5000, "is not that of a spool of this version"),
    ],
)
async def test_an_id_that_is_none(text: bytes | None, message: str) -> None:
    disk = await filled(1)
    if text is None:
        del disk.names["id"]
    else:
        disk.put("id", text)
    with pytest.raises(SpoolError, match=message) as caught:
        async with opened(disk):
            pass
    assert len(str(caught.value)) < 500


async def test_another_id() -> None:
    disk = await filled(1)
    disk.put("id", b"aioprod spool 1 " + b"0" * 32)
    with pytest.raises(SpoolError, match="belongs to the spool"):
        async with opened(disk):
            pass


async def test_a_damaged_note_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    disk = await filled(5)
    async with opened(disk) as spool:
        rows = await all_rows(spool)
        await spool.trim(rows[2][1])
    text = disk.content("delivered")
    for bit in range(8 * len(text)):
        another = disk.copy()
        another.flip("delivered", bit)
        async with opened(another) as spool:
            assert spool.trimmed is None
            assert len(await all_rows(spool)) == 5
        assert "The file 'delivered' of the spool folder is damaged" in caplog.text
        caplog.clear()


async def test_what_a_crash_has_left_of_other_files() -> None:
    disk = await filled(3)
    disk.put("00000000000000000004.spool.tmp", b"aspS")
    disk.put("delivered.tmp", bytes(100))
    async with opened(disk) as spool:
        rows = await all_rows(spool)
        await spool.trim(rows[1][1])
    async with opened(disk) as spool:
        assert spool.trimmed == rows[1][1]
        assert len(await all_rows(spool, spool.trimmed)) == 1
    assert [name for name in disk.names if name.endswith(".tmp")] == []


# --- copies


async def test_an_older_copy_does_not_know_the_position() -> None:
    disk = await filled(5, segment_bytes=SMALL)
    copy = disk.copy()
    async with opened(disk, segment_bytes=SMALL) as spool:
        positions = [await spool.append(record) for record in numbered(6, 5)]
        await spool.trim(positions[-1])
    async with opened(copy, segment_bytes=SMALL) as spool:
        for call in (spool.read(positions[-1], 1), spool.trim(positions[-1])):
            with pytest.raises(MarkerError, match="number 11 are in Kafka, and this spool ends with number 5"):
                await call
        assert len(await all_rows(spool)) == 5


async def test_two_copies_that_both_went_on() -> None:
    disk = await filled(5, segment_bytes=SMALL)
    copy = disk.copy()
    async with opened(disk, segment_bytes=SMALL) as spool:
        positions = [await spool.append(record) for record in numbered(6, 5)]
    async with opened(copy, segment_bytes=SMALL) as spool:
        for record in numbered(9, 5):
            await spool.append(record)
        for position in positions:
            with pytest.raises(MarkerError, match="this is a copy of a folder, and both were written to"):
                await spool.read(position, 1)


# --- crashes, and disks that fail


async def append_numbers(spool: Spool, kept: list[bytes], first: int) -> None:
    """Append five records, and note those that are kept."""
    for number in range(first, first + 5):
        await spool.append(ProducerRecord("t", b"%d" % number))
        kept.append(b"%d" % number)


async def live(files: SimulatedFiles, kept: list[bytes], first: int) -> None:
    """Open a spool, append records, trim some, and close it, unless the process crashes before."""

    async def work(storage: Storage) -> None:
        spool = Spool("folder", max_bytes=1 << 20, segment_bytes=SMALL)
        await spool._start_in(storage)
        await append_numbers(spool, kept, first)
        rows = await spool.read(spool.trimmed, 2)
        await spool.trim(rows[-1][1])
        await spool.close()

    await run_process(files, work)


@pytest.mark.parametrize("end", [Disk.cut_power, Disk.kill])
async def test_a_crash_at_each_step(end: Callable[[Disk], None]) -> None:
    steps = crash_at = 0
    while crash_at <= steps:
        crash_at += 1
        for seed in range(by_length(3, 20)):
            disk = Disk(Random(seed))
            kept: list[bytes] = []
            for life in range(2):
                files = SimulatedFiles(disk, crash_at=crash_at if life else None)
                await live(files, kept, 5 * life)
                steps = max(steps, files.steps)
                end(disk)
            async with opened(disk, segment_bytes=SMALL) as spool:
                values = await all_values(spool, spool.trimmed)
            # One record may be there that no call was answered for.
            last = [b"%d" % len(kept)] if values[-1] not in kept else []
            assert values == [*kept, *last][-len(values) :]
            assert len(values) - len(last) >= len(kept) - 4


@pytest.mark.parametrize("call", ["write", "sync", "rename", "sync_names", "truncate"])
async def test_after_an_error_nothing_is_accepted_until_the_spool_is_opened_again(call: str) -> None:
    for seed in range(20):
        disk = Disk(Random(seed))
        files = SimulatedFiles(disk)
        kept: list[bytes] = []
        async with opened(files, segment_bytes=SMALL) as spool:
            await append_numbers(spool, kept, 0)
            files.before = failing(call, errno.EIO)
            if call == "truncate":
                disk.capacity = 0
            with pytest.raises(SpoolError, match=r"could not bring .* to the disk: Input/output error") as caught:
                await append_numbers(spool, kept, 5)
            assert caught.value.may_be_stored
            with pytest.raises(SpoolError):
                await spool.append(numbered(1, 99))
            assert await all_values(spool) == kept
        disk.capacity = 1 << 40
        disk.kill()
        async with opened(disk, segment_bytes=SMALL) as spool:
            values = await all_values(spool)
            assert values in (kept, [*kept, b"%d" % len(kept)])
            await spool.append(numbered(1, 99))
        disk.cut_power()
        async with opened(disk, segment_bytes=SMALL) as spool:
            assert await all_values(spool) == [*values, b"99"]


async def test_a_segment_before_one_that_may_not_be_on_the_disk_is_not_removed() -> None:
    for seed in range(20):
        disk = Disk(Random(seed))
        files = SimulatedFiles(disk)
        kept: list[bytes] = []
        async with opened(files, segment_bytes=1) as spool:
            await append_numbers(spool, kept, 0)
            await asyncio.sleep(0.001)  # The next segment is begun.
            files.before = failing("sync_names", errno.EIO)
            await spool.append(numbered(1, 5))
            await asyncio.sleep(0.001)
            with pytest.raises(SpoolError):
                await spool.append(numbered(1, 6))
            rows = await all_rows(spool)
            await spool.trim(rows[-1][1])
        disk.cut_power()
        async with opened(disk, segment_bytes=1) as spool:
            assert await all_values(spool, rows[-1][1]) == []
            await spool.append(numbered(1, 99))
            assert await all_values(spool, rows[-1][1]) == [b"99"]


async def test_a_new_spool_whose_names_did_not_reach_the_disk() -> None:
    for seed in range(20):
        for step in range(2):
            disk = Disk(Random(seed))
            calls = iter(range(9))

            def before(kind: str, _: str) -> None:
                if kind == "sync_names" and next(calls) == step:  # noqa: B023
                    raise OSError(errno.EIO, "Input/output error")

            with pytest.raises(SpoolError):
                async with opened(SimulatedFiles(disk, before=before)):
                    pass
            disk.kill()
            async with opened(disk) as spool:
                await spool.append(numbered(1))
            disk.cut_power()
            async with opened(disk) as spool:
                assert await all_values(spool) == [b"0"]


async def test_a_group_that_was_cut_off_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    disk = await filled(2)
    (name,) = segments_of(disk)
    whole = disk.content(name)
    del disk.names["end"]
    disk.put(name, whole + whole[-20:])
    async with opened(disk) as spool:
        assert await all_values(spool) == [b"0", b"1"]
    (message,) = caplog.messages
    assert message == (
        f"The segment {name} ends within a write that was cut off by a crash: 20 bytes from byte {len(whole)} on are "
        "dropped. No call has been answered for their records; the next one is number 3."
    )


async def test_a_full_disk_does_not_stop_the_trimming() -> None:
    disk = await filled(9, segment_bytes=SMALL)
    async with opened(disk, segment_bytes=SMALL) as spool:
        rows = await all_rows(spool)
        disk.capacity = 0
        await spool.trim(rows[6][1])
        assert len(segments_of(disk)) < 3
    disk.kill()
    assert "delivered" not in disk.names
    disk.capacity = 10_000
    async with opened(disk, segment_bytes=SMALL) as spool:
        assert spool.trimmed is not None
        assert int(spool.trimmed.split(b".")[0]) in range(4, 8)
        assert (await all_values(spool, spool.trimmed))[-2:] == [b"7", b"8"]
