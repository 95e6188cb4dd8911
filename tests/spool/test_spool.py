"""The queue of records: what it takes, gives back, and refuses."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aioprod import ProducerRecord
from aioprod.errors import (
    BufferFullError,
    ConfigError,
    InvalidTopicError,
    MarkerError,
    RecordTooLargeError,
    SerializationError,
    SpoolError,
    UsageError,
)
from aioprod.spool import Spool
from aioprod.spool import storage as storage_module
from aioprod.spool.layout import SEGMENT_BYTES
from tests.support.simulated_disk import Disk, SimulatedFiles, failing, storage_of
from tests.support.spools import all_rows, all_values, filled, numbered, opened, segments_of

LEAST = 1 << 16
NOW_MS = 1_700_000_000_000


@pytest.fixture
def disk() -> Disk:
    return Disk(Random(1))


# --- on a folder


async def test_records_come_back_in_order(tmp_path: Path) -> None:
    async with Spool(tmp_path / "spool") as spool:
        assert not await spool.read(None, 10)
        positions = [await spool.append(record) for record in numbered(5)]
        assert await all_values(spool) == [b"0", b"1", b"2", b"3", b"4"]
        assert await all_values(spool, positions[2]) == [b"3", b"4"]
        assert [position for _, position in await all_rows(spool)] == positions
    async with Spool(tmp_path / "spool") as spool:
        assert await all_values(spool, positions[1]) == [b"2", b"3", b"4"]
        await spool.append(numbered(1, 5))
        assert await all_values(spool, positions[3]) == [b"4", b"5"]


async def test_all_parts_of_a_record_come_back(tmp_path: Path) -> None:
    given = ProducerRecord("t", None, key=b"k", partition=3, headers=[("h", None), ("h", b"1")], timestamp=NOW_MS)
    async with Spool(tmp_path) as spool:
        await spool.append(given)
        ((found, _),) = await spool.read(None, 1)
    assert (found.topic, found.value, found.key, found.partition) == ("t", None, b"k", 3)
    assert (list(found.headers or ()), found.timestamp) == ([("h", None), ("h", b"1")], NOW_MS)


async def test_a_folder_that_another_process_has(tmp_path: Path) -> None:
    async with Spool(tmp_path):
        with pytest.raises(SpoolError, match=f"Another process has the spool {tmp_path} open"):
            await Spool(tmp_path).start()
    async with Spool(tmp_path):
        pass


async def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SpoolError, match=r"The folder .*file can't be used as a spool: File exists"):
        await Spool(tmp_path / "file").start()


async def test_a_cancelled_start_leaves_the_folder_free(tmp_path: Path) -> None:
    for _ in range(5):
        starting = asyncio.create_task(Spool(tmp_path).start())
        await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
    async with Spool(tmp_path) as spool:
        await spool.append(numbered(1))
        assert await all_values(spool) == [b"0"]


async def test_a_folder_in_memory_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"23 22 0:5 / {tmp_path}/a\\040b rw shared:2 - tmpfs tmpfs rw\n"
    )
    monkeypatch.setattr(storage_module, "_MOUNTS", mounts)
    async with Spool(tmp_path / "a"):
        pass
    assert caplog.messages == []
    async with Spool(tmp_path / "a b" / "c"):
        pass
    (message,) = caplog.messages
    assert "is in memory (tmpfs): what it holds is lost when the machine restarts." in message


async def test_calls_from_many_tasks(tmp_path: Path) -> None:
    async with Spool(tmp_path, segment_bytes=5000) as spool:

        async def append(task: int) -> list[bytes]:
            return [await spool.append(ProducerRecord("t", b"%d %d" % (task, turn))) for turn in range(20)]

        positions = await asyncio.gather(*map(append, range(20)))
        rows = await all_rows(spool)
    found = {position: record.value for record, position in rows}
    assert len(rows) == len(found) == 400
    for task, of_task in enumerate(positions):
        assert [found[position] for position in of_task] == [b"%d %d" % (task, turn) for turn in range(20)]


# --- what it is given


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_bytes": 100}, "max_bytes is 100: give at least 65536 bytes"),
        ({"max_bytes": "1GB"}, "max_bytes is '1GB'"),
        ({"segment_bytes": 0}, "segment_bytes is 0: give a number of bytes up to half of max_bytes"),
        ({"max_bytes": LEAST, "segment_bytes": LEAST}, "segment_bytes is 65536"),
    ],
)
def test_settings_that_can_not_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Spool("folder", **options)


async def test_calls_at_the_wrong_time(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    with pytest.raises(UsageError, match="not open"):
        await spool.append(numbered(1))
    async with spool:
        with pytest.raises(UsageError, match="started before"):
            await spool.start()
        with pytest.raises(UsageError, match="no records"):
            await spool.append([])
    with pytest.raises(UsageError, match="not open"):
        await spool.read(None, 1)
    with pytest.raises(UsageError, match="started before"):
        await spool.start()
    await spool.close()


async def test_records_that_no_spool_takes(disk: Disk) -> None:
    async with opened(disk) as spool:
        with pytest.raises(InvalidTopicError):
            await spool.append(ProducerRecord("a/b", b""))
        with pytest.raises(SerializationError):
            await spool.append([ProducerRecord("t", b"1"), ProducerRecord("t", "text")])
        assert await all_values(spool) == []


# --- positions


async def test_reads_of_any_size(disk: Disk) -> None:
    async with opened(disk, segment_bytes=300) as spool:
        await spool.append(numbered(7))
        for record in numbered(7, 7):
            await spool.append(record)
        values = [b"%d" % number for number in range(14)]
        for limit in (1, 2, 3, 5, 100):
            assert await all_values(spool, limit=limit) == values
        rows = await all_rows(spool)
        for start in (12, 3, 0, 6, 7, 13):
            assert await all_values(spool, rows[start][1], limit=4) == values[start + 1 :]
            assert await all_values(spool, rows[start][1]) == values[start + 1 :]


async def test_a_read_waits_until_there_is_more(disk: Disk) -> None:
    async with opened(disk) as spool:
        assert not await spool.read(None, 1)
        waiting = asyncio.ensure_future(spool.wait())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await spool.append(numbered(1))
        await waiting
        assert await all_values(spool) == [b"0"]


@pytest.mark.parametrize("position", [b"", b"x", b"1", b"1.zz", b".", b"-1.0000000000000000", b"\xff.00", b"1." * 99])
async def test_what_is_no_position(position: bytes) -> None:
    async with opened(await filled(3)) as spool:
        with pytest.raises(MarkerError):
            await spool.read(position, 1)
        with pytest.raises(MarkerError):
            await spool.trim(position)
        assert await all_values(spool) == [b"0", b"1", b"2"]


async def test_positions_of_another_spool() -> None:
    async with opened(await filled(5)) as another:
        foreign = [position for _, position in await all_rows(another)]
    disk = await filled(9, segment_bytes=200)
    async with opened(disk, segment_bytes=200) as spool:
        for position in foreign:
            with pytest.raises(MarkerError, match="is not the one that is in Kafka"):
                await spool.trim(position)
            with pytest.raises(MarkerError):
                await spool.read(position, 1)
        assert len(await all_rows(spool)) == 9


# --- trimming


async def test_trimmed_segments_are_gone() -> None:
    disk = await filled(10, segment_bytes=250)
    names = segments_of(disk)
    assert len(names) > 3
    async with opened(disk, segment_bytes=250) as spool:
        assert not spool.trimmed
        rows = await all_rows(spool)
        await spool.trim(rows[5][1])
        assert spool.trimmed == rows[5][1]
        assert segments_of(disk) == names[2:]
        assert await all_values(spool, spool.trimmed) == [b"6", b"7", b"8", b"9"]
        with pytest.raises(MarkerError, match="those between were removed"):
            await spool.read(rows[1][1], 1)
        with pytest.raises(MarkerError, match="up to number 6 were delivered"):
            await spool.read(None, 1)
        await spool.trim(rows[2][1])
        assert spool.trimmed == rows[5][1]
    async with opened(disk, segment_bytes=250) as spool:
        assert spool.trimmed == rows[5][1]
        assert await all_values(spool, spool.trimmed) == [b"6", b"7", b"8", b"9"]


async def test_the_bytes_are_those_of_the_files(disk: Disk) -> None:
    random = Random(3)
    for _ in range(3):
        async with opened(disk, max_bytes=LEAST, segment_bytes=500) as spool:
            for _ in range(30):
                await spool.append([ProducerRecord("t", bytes(random.randrange(200)))] * random.randint(1, 3))
                if random.random() < 0.5:
                    rows = await spool.read(spool.trimmed, random.randint(1, 9))
                    await spool.trim(rows[-1][1])
                # A segment that has no record yet does not count.
                assert spool._opened.size == sum(
                    size for name in segments_of(disk) if (size := len(disk.content(name))) > SEGMENT_BYTES
                )


# --- room


async def fill(spool: Spool, size: int) -> None:
    for number in range(1000):
        await spool.append(ProducerRecord("t", bytes(size), key=b"%d" % number))


async def test_a_full_spool_drops_nothing_and_takes_records_again(disk: Disk) -> None:
    async with opened(disk, max_bytes=LEAST) as spool:
        with pytest.raises(BufferFullError, match=r"holds \d+ bytes, and a record of 10\d\d would exceed its"):
            await fill(spool, 1000)
        rows = await all_rows(spool)
        assert 50 < len(rows) < 66
        await spool.trim(rows[20][1])
        await spool.append(numbered(1))
        assert sum(len(disk.content(name)) for name in segments_of(disk)) <= LEAST


async def test_calls_that_wait_count_for_the_room(disk: Disk) -> None:
    async with opened(disk, max_bytes=LEAST) as spool:
        calls = [spool.append(ProducerRecord("t", bytes(1000))) for _ in range(100)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        kept = [outcome for outcome in outcomes if isinstance(outcome, bytes)]
        assert 50 < len(kept) < 66
        assert {type(outcome) for outcome in outcomes} == {bytes, BufferFullError}
        assert [position for _, position in await all_rows(spool)] == kept


async def test_there_is_room_again_when_all_is_delivered(disk: Disk) -> None:
    async with opened(disk, max_bytes=LEAST, segment_bytes=LEAST // 2) as spool:
        for size in (32_000, 30_000, 5_000, 32_000, 100, 32_000):
            position = await spool.append(ProducerRecord("t", bytes(size)))
            await asyncio.sleep(0.01)
            await spool.trim(position)
            assert spool.trimmed == position


async def test_a_record_that_never_has_room(disk: Disk) -> None:
    async with opened(disk, max_bytes=LEAST, segment_bytes=20_000) as spool:
        await spool.append(ProducerRecord("t", bytes(19_000)))
        with pytest.raises(RecordTooLargeError, match=r"of 500\d\d bytes may never have room .*: 45\d\d\d is"):
            await spool.append(ProducerRecord("t", bytes(50_000)))
        await spool.append(ProducerRecord("t", bytes(43_000)))


@pytest.mark.parametrize("segment_bytes", [None, 1, 700])
async def test_a_full_disk(disk: Disk, segment_bytes: int | None) -> None:
    disk.capacity = 5000
    async with opened(disk, segment_bytes=segment_bytes) as spool:
        with pytest.raises(BufferFullError, match=r"has no room for \d+ bytes more: No space left on device") as caught:
            await fill(spool, 100)
        assert not caught.value.may_be_stored
        with pytest.raises(BufferFullError):
            await spool.append(ProducerRecord("t", bytes(300)))
        rows = await all_rows(spool)
        half = len(rows) // 2
        assert [record.key for record, _ in rows] == [b"%d" % one for one in range(len(rows))]
        if segment_bytes is not None:
            await spool.trim(rows[half][1])
        else:
            disk.capacity = 6000
        after = await spool.append(ProducerRecord("t", b"after"))
    disk.cut_power()
    disk.capacity = 10_000
    async with opened(disk, segment_bytes=segment_bytes) as spool:
        found = await all_rows(spool, rows[half][1])
        assert [position for _, position in found] == [position for _, position in rows[half + 1 :]] + [after]


async def test_a_folder_without_rights(disk: Disk) -> None:
    files = SimulatedFiles(disk, before=failing("lock", errno.EACCES))
    with pytest.raises(SpoolError, match="The folder folder can't be used as a spool: Permission denied"):
        await Spool("folder")._start_in(storage_of(files))


async def test_a_disk_without_room_for_a_new_spool() -> None:
    disk = Disk(Random(1), capacity=30)
    with pytest.raises(SpoolError, match="can't be used as a spool: No space left on device"):
        await Spool("folder")._start_in(storage_of(SimulatedFiles(disk)))
    disk.capacity = 1000
    async with opened(disk) as spool:
        await spool.append(numbered(1))


async def test_more_than_one_call_takes(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.spool.spool._CALL_MAX", 1000)
    async with opened(disk) as spool:
        with pytest.raises(RecordTooLargeError, match="takes 1000 at a time"):
            await spool.append([ProducerRecord("t", b"x" * 600)] * 2)
        await spool.append(ProducerRecord("t", b"x" * 600))
