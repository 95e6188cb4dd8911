"""What verify finds, dropping what is damaged, and giving a folder a new id."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

import pytest

from aioprod import ProducerRecord
from aioprod.errors import MarkerError, SpoolError
from aioprod.spool import Spool
from aioprod.spool.files import FolderFiles
from aioprod.spool.inspection import Kind
from aioprod.spool.notes import NEW_ID, read_id
from aioprod.spool.reading import number_of
from aioprod.spool.repair import drop_damaged, give_new_id
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from tests.support.spool_folders import (
    CrashError,
    CrashingFiles,
    damage,
    damaged,
    fill,
    kept_values,
    parts,
    segments,
)


def drop(folder: Path) -> list[tuple[int, int]]:
    """The first and last numbers of what was dropped."""
    found = drop_damaged(FolderFiles(folder), str(folder))
    return [(part.base, part.next - 1) for _, part in found]


async def read_all(folder: Path, after: bytes | None = None) -> list[tuple[int, bytes | None]]:
    """All records as a producer's relay reads them, with their numbers."""
    async with Spool(folder) as spool:
        found = []
        while rows := await spool.read(after, 100):
            found += [(number_of(position), record.value) for record, position in rows]
            after = rows[-1][1]
        return found


# --- what is damaged


async def test_a_whole_folder(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one", b"two"], [b"three"], segment_bytes=1)
    assert damaged(tmp_path) == []
    assert kept_values(tmp_path) == [b"one", b"two", b"three"]
    assert drop(tmp_path) == []
    assert list(tmp_path.glob("*.damaged")) == []


@pytest.mark.parametrize("segment_bytes", [None, 1])
async def test_damaged_records_are_dropped_and_the_others_keep_their_numbers(
    tmp_path: Path, segment_bytes: int | None
) -> None:
    groups = [b"record 1", b"record 2"], [b"record 3", b"record 4", b"record 5"], [b"record 6"], [b"record 7"]
    positions = await fill(tmp_path, *groups, segment_bytes=segment_bytes)
    path = next(path for path in segments(tmp_path) if b"record 4" in path.read_bytes())
    damage(path, b"record 4")
    with pytest.raises(SpoolError, match="damaged"):
        await read_all(tmp_path)
    was = path.read_bytes()
    assert [(part.base, part.records, part.name != bytes(8)) for part in damaged(tmp_path)] == [(4, 1, True)]
    with pytest.raises(SpoolError, match=r"1 record can't be read, number 4; number 5 follows at byte \d+"):
        kept_values(tmp_path)
    assert drop(tmp_path) == [(4, 4)]
    assert path.with_name(path.name + ".damaged").read_bytes() == was
    assert damaged(tmp_path) == []
    left = [(n, b"record %d" % n) for n in (1, 2, 3, 5, 6, 7)]
    assert await read_all(tmp_path) == left
    for index, position in enumerate(positions):
        assert await read_all(tmp_path, position) == [one for one in left if one[0] > number_of(positions[index])]


async def test_a_damaged_length_loses_one_record(tmp_path: Path) -> None:
    await fill(tmp_path, [b"record %d" % number for number in range(1, 10)])
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"record 3") + 8 + 3] ^= 64  # The record behind it begins with its length.
    path.write_bytes(data)
    assert drop(tmp_path) == [(4, 4)]
    assert await read_all(tmp_path) == [(n, b"record %d" % n) for n in (1, 2, 3, 5, 6, 7, 8, 9)]


async def test_of_two_damaged_places_in_a_group_what_is_between_them_has_no_sure_number(tmp_path: Path) -> None:
    await fill(tmp_path, [b"record %d" % number for number in range(1, 10)])
    path = segments(tmp_path)[0]
    damage(path, b"record 4")
    damage(path, b"record 7")
    assert drop(tmp_path) == [(4, 7)]
    assert await read_all(tmp_path) == [(n, b"record %d" % n) for n in (1, 2, 3, 8, 9)]


async def test_a_group_whose_header_is_damaged_and_a_header_of_a_segment(tmp_path: Path) -> None:
    positions = await fill(tmp_path, [b"one"], [b"two", b"three"], [b"four"])
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[parts(tmp_path)[1].at + 10] ^= 1
    data[8] ^= 1
    path.write_bytes(data)
    with pytest.raises(SpoolError, match=r"header of the segment .* is cut off or damaged"):
        await read_all(tmp_path)
    assert drop(tmp_path) == [(1, 0), (2, 3)]
    assert await read_all(tmp_path) == [(1, b"one"), (4, b"four")]
    # Which name the group had is not known, so a marker in it is taken for what it says.
    assert await read_all(tmp_path, positions[1]) == [(4, b"four")]
    with pytest.raises(MarkerError, match="this is a copy"):
        await read_all(tmp_path, b"4.0011223344556677")


async def test_a_segment_that_is_gone_or_cut(tmp_path: Path) -> None:
    await fill(tmp_path, *([b"record %d" % number] for number in range(1, 6)), segment_bytes=1)
    files = segments(tmp_path)
    files[1].unlink()
    os.truncate(files[3], 50)
    os.truncate(files[-1], files[-1].stat().st_size - 1)  # The seal: nothing is lost, as no call was answered for it.
    assert [(part.base, part.next - 1) for part in damaged(tmp_path)] == [(2, 2), (4, 4)]
    assert [part.kind for part in parts(tmp_path)][-1] is Kind.TORN
    assert drop(tmp_path) == [(2, 2), (4, 4)]
    assert await read_all(tmp_path) == [(n, b"record %d" % n) for n in (1, 3, 5)]


@pytest.mark.parametrize("kept", [0, 60, 110])
async def test_what_is_missing_at_the_end_of_a_closed_spool_is_dropped(tmp_path: Path, kept: int) -> None:
    await fill(tmp_path, *([b"record %d" % number] for number in range(1, 5)), segment_bytes=250)
    path = segments(tmp_path)[-1]
    os.truncate(path, kept) if kept else path.unlink()
    with pytest.raises(SpoolError, match=r"number 4 was on the disk|cut off or damaged"):
        await read_all(tmp_path)
    assert drop(tmp_path) == [(3, 4)]
    assert await read_all(tmp_path) == [(1, b"record 1"), (2, b"record 2")]
    await fill(tmp_path, [b"another"])
    assert (await read_all(tmp_path))[-1] == (5, b"another")


async def test_the_last_record_of_a_closed_spool_is_dropped_and_its_number_is_not_used_again(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"])
    damage(segments(tmp_path)[0], b"two")
    assert drop(tmp_path) == [(2, 2)]
    (position,) = await fill(tmp_path, [b"three"])
    assert number_of(position) == 3
    assert await read_all(tmp_path) == [(1, b"one"), (3, b"three")]


async def test_the_copies_of_two_repairs_stay(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], [b"three"])
    path = segments(tmp_path)[0]
    for value in (b"one", b"two"):
        damage(path, value)
        drop(tmp_path)
    assert {file.name for file in tmp_path.glob("*.damaged*")} == {f"{path.name}.damaged", f"{path.name}.damaged-2"}
    assert await read_all(tmp_path) == [(3, b"three")]


async def test_a_crash_while_dropping_leaves_each_segment_as_it_was_or_will_be(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    await fill(origin, *([b"record %d" % number] for number in range(1, 4)), segment_bytes=1)
    for path, value in zip(segments(origin)[:2], (b"record 1", b"record 2"), strict=True):
        damage(path, value)
        os.truncate(path, path.stat().st_size)
    for at in itertools.count():
        folder = tmp_path / str(at)
        shutil.copytree(origin, folder)
        try:
            list(drop_damaged(CrashingFiles(FolderFiles(folder), at), str(folder)))
        except CrashError:
            drop(folder)
            assert await read_all(folder) == [(3, b"record 3")]
        else:
            assert at > 10
            return


async def test_what_is_of_another_spool_or_version_is_not_dropped(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    await fill(one, [b"one"], [b"two"], segment_bytes=1)
    await fill(other, [b"one"], [b"two"], segment_bytes=1)
    shutil.copy(segments(other)[1], one)
    with pytest.raises(SpoolError, match="belongs to the spool"):
        drop(one)
    data = bytearray(segments(other)[1].read_bytes())
    data[5] = 2
    segments(other)[1].write_bytes(data)
    with pytest.raises(SpoolError, match="has version 2"):
        drop(other)
    (other / "x.spool").touch()
    with pytest.raises(SpoolError, match="has not the name of a segment"):
        drop(other)


# --- a new id


def renew(folder: Path, files: object = None) -> bytes:
    given = FolderFiles(folder) if files is None else files
    return give_new_id(given, str(folder), lambda size: bytes(range(size))).spool_id  # type: ignore[arg-type]


async def test_a_new_id_keeps_records_numbers_and_names_and_forgets_what_was_delivered(tmp_path: Path) -> None:
    first, *_, last = await fill(tmp_path, [b"one"], [b"two", b"three"], [b"four"], segment_bytes=1)
    async with Spool(tmp_path) as spool:
        await spool.trim(first)
        assert spool.trimmed == first
    assert not segments(tmp_path)[0].name.startswith("0" * 19 + "1")
    with pytest.raises(MarkerError, match="were delivered, and the marker in Kafka that says so is gone"):
        await read_all(tmp_path)
    before = read_id(FolderFiles(tmp_path), str(tmp_path))
    assert renew(tmp_path) != before.spool_id
    after = read_id(FolderFiles(tmp_path), str(tmp_path))
    assert (before.begin, after) == (1, (bytes(range(16)), 2))
    assert damaged(tmp_path) == []
    left = [(2, b"two"), (3, b"three"), (4, b"four")]
    assert await read_all(tmp_path) == left
    assert await read_all(tmp_path, last) == []
    async with Spool(tmp_path) as spool:
        assert spool.trimmed is None
        assert number_of(await spool.append(ProducerRecord("t", b"five"))) == 5
    assert await read_all(tmp_path) == [*left, (5, b"five")]
    async with Spool(tmp_path) as spool:
        await spool.trim(last)
    with pytest.raises(MarkerError, match="up to number 4 were delivered"):
        await read_all(tmp_path)


async def test_a_crash_at_each_step_of_a_new_id_is_completed_by_the_next_call(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    first, *_ = await fill(origin, [b"one"], [b"two", b"three"], [b"four"], segment_bytes=1)
    async with Spool(origin) as spool:
        await spool.trim(first)
    refused = 0
    for at in itertools.count():
        folder = tmp_path / str(at)
        shutil.copytree(origin, folder)
        try:
            renew(folder, CrashingFiles(FolderFiles(folder), at))
        except CrashError:
            if (folder / NEW_ID).exists():
                refused += 1
                for reads in (True, False):
                    with pytest.raises(SpoolError, match="new id, and that was not completed") as raised:
                        await Store.open(
                            await Storage.of_folder(folder), Limits(1 << 20, 1 << 10, 1), writes=not reads, reads=reads
                        )
                    assert "verify" in str(raised.value)
            else:
                spool_id = read_id(FolderFiles(folder), str(folder)).spool_id
                is_old = spool_id == read_id(FolderFiles(origin), str(origin)).spool_id
                assert is_old or spool_id == bytes(range(16))
                assert kept_values(folder) == [b"two", b"three", b"four"]
            renew(folder)
            assert not (folder / NEW_ID).exists()
            assert await read_all(folder) == [(2, b"two"), (3, b"three"), (4, b"four")]
        else:
            assert refused > 10
            return


async def test_a_damaged_folder_gets_no_new_id_before_that_is_dropped(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], [b"three"])
    damage(segments(tmp_path)[0], b"two")
    with pytest.raises(SpoolError, match="can't be read, number 2") as raised:
        renew(tmp_path)
    assert "--give-up-damaged --new-id" in str(raised.value)
    assert not (tmp_path / NEW_ID).exists()
    drop(tmp_path)
    renew(tmp_path)
    assert await read_all(tmp_path) == [(1, b"one"), (3, b"three")]
