"""Reading what another process writes: what is not complete is not there yet, and what is damaged is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from aioprod import ProducerRecord
from aioprod.errors import MarkerError, SpoolError
from aioprod.spool import Spool
from aioprod.spool.files import FolderFiles
from aioprod.spool.notes import Identity, read_id
from aioprod.spool.reading import SpoolReader
from aioprod.spool.segments import Segments
from aioprod.spool.storage import Storage
from aioprod.spool.store import Limits, Store
from tests.support.spool_folders import damage, fill, parts, segments


def reader_of(folder: Path) -> SpoolReader:
    files = FolderFiles(folder)
    return SpoolReader(files, Segments(files, read_id(files, str(folder)).spool_id), None, lambda: 0)


def values(reader: SpoolReader, after: bytes | None, limit: int = 100) -> list[bytes | None]:
    return [record.value for record, _ in reader.read(after, limit)]


async def test_records_that_are_written_meanwhile_over_many_segments(tmp_path: Path) -> None:
    async with Spool(tmp_path, segment_bytes=400) as spool:
        reader = reader_of(tmp_path)
        assert values(reader, None) == []
        after = None
        for number in range(50):
            position = await spool.append(
                [ProducerRecord("t", b"%d" % number), ProducerRecord("t", b"%d again" % number)]
            )
            rows = reader.read(after, 100)
            assert [record.value for record, _ in rows] == [b"%d" % number, b"%d again" % number]
            after = rows[-1][1]
            assert after == position
            assert not reader.read(after, 100)
        assert len(segments(tmp_path)) > 5
        assert reader.passed == 100
        assert len(values(reader_of(tmp_path), None)) == 100


async def test_a_group_that_is_half_written_is_not_there_yet(tmp_path: Path) -> None:
    (first, _) = await fill(tmp_path, [b"one"], [b"two", b"three"])
    path = segments(tmp_path)[0]
    whole = path.read_bytes()
    _, second, seal = (part.at for part in parts(tmp_path))
    reader = reader_of(tmp_path)
    os.truncate(path, second)
    assert values(reader, None) == [b"one"]
    for end in range(second, seal):
        path.write_bytes(whole[:end])
        assert not reader.read(first, 100)
        assert values(reader_of(tmp_path), None) == [b"one"]
        path.write_bytes(whole[:end] + bytes(seal - end))  # A file may have its size before its bytes.
        assert not reader.read(first, 100)
    path.write_bytes(whole)
    assert values(reader, first) == [b"two", b"three"]


async def test_what_a_crash_has_cut_off_is_written_again_under_its_number(tmp_path: Path) -> None:
    first, _ = await fill(tmp_path, [b"one"], [b"a longer value than the next one"])
    path = segments(tmp_path)[0]
    end = path.read_bytes().index(b"than the")
    os.truncate(path, end)
    (tmp_path / "end").unlink()
    reader = reader_of(tmp_path)
    assert values(reader, None) == [b"one"]
    await fill(tmp_path, [b"x"], [b"y"])
    assert values(reader, first) == [b"x", b"y"]


async def test_a_damaged_group_is_an_error_when_another_one_follows(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], [b"three"])
    whole = segments(tmp_path)[0].read_bytes()
    damage(segments(tmp_path)[0], b"two")
    reader = reader_of(tmp_path)
    ((_, first),) = reader.read(None, 100)
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"in its group at byte .* the checksum of record 0 .* from number 2 on"):
            reader.read(first, 100)
    segments(tmp_path)[0].write_bytes(whole)
    assert values(reader, None) == [b"one", b"two", b"three"]


async def test_a_damaged_header_is_an_error_when_another_group_follows(tmp_path: Path) -> None:
    await fill(tmp_path, [b"one"], [b"two"], [b"three"])
    path = segments(tmp_path)[0]
    data = bytearray(path.read_bytes())
    data[data.index(b"aspG", data.index(b"aspG") + 1)] ^= 1
    path.write_bytes(data)
    reader = reader_of(tmp_path)
    ((_, first),) = reader.read(None, 100)
    with pytest.raises(SpoolError, match=r"its group at byte .* is not whole: the records from number 2 on"):
        reader.read(first, 100)


async def test_a_segment_that_is_followed_has_to_be_whole(tmp_path: Path) -> None:
    first, second, _ = await fill(tmp_path, [b"one"], [b"two"], [b"three"], segment_bytes=1)
    os.truncate(segments(tmp_path)[1], segments(tmp_path)[1].stat().st_size - 1)
    reader = reader_of(tmp_path)
    with pytest.raises(SpoolError, match="damaged"):
        reader.read(first, 100)
    segments(tmp_path)[1].unlink()
    with pytest.raises(SpoolError, match="the next one begins with 3"):
        reader_of(tmp_path).read(first, 100)
    assert values(reader_of(tmp_path), second) == [b"three"]


async def test_a_folder_whose_first_segment_is_not_there_yet(tmp_path: Path) -> None:
    (tmp_path / "id").write_bytes(Identity(bytes(range(16))).to_bytes())
    reader = reader_of(tmp_path)
    assert not reader.read(None, 100)
    with pytest.raises(MarkerError, match="this spool has no segment"):
        reader_of(tmp_path).read(b"3." + b"0" * 16, 100)
    (position,) = await fill(tmp_path, [b"one"])
    assert values(reader, None) == [b"one"]
    assert not reader.read(position, 100)


async def open_to_read(folder: Path) -> Store:
    return await Store.open(await Storage.of_folder(folder), Limits(0, 0, 0), writes=False)


async def test_a_folder_that_is_no_spool_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="has no file 'id'"):
        await open_to_read(tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_one_process_reads_and_one_writes(tmp_path: Path) -> None:
    async with Spool(tmp_path) as spool:
        with pytest.raises(SpoolError, match="Another process"):
            await open_to_read(tmp_path)
        await spool.append(ProducerRecord("t", b"one"))
    writer = await Store.open(await Storage.of_folder(tmp_path), Limits(1 << 20, 1 << 10, 1 << 20), reads=False)
    reading = await open_to_read(tmp_path)
    with pytest.raises(SpoolError, match="Another process"):
        await open_to_read(tmp_path)
    assert len(await reading.read(None, 10)) == 1
    await reading.close()
    await writer.close()
