"""The file of records that were set aside: another process may read it, and a person remove it."""

from __future__ import annotations

from pathlib import Path

from aioprod import ProducerRecord
from aioprod.errors import InvalidRecordError
from aioprod.relay.columns import ColumnRows
from aioprod.spool.aside import ASIDE, Aside
from aioprod.spool.files import FolderFiles
from aioprod.spool.source import SpoolSource
from aioprod.spool.spool import limits_of
from aioprod.spool.storage import Storage
from aioprod.spool.store import Store
from tests.support.spool_folders import fill

RECORD = ProducerRecord("t", b"v", timestamp=1)
ERROR = InvalidRecordError("It is too large.")


def loaded(folder: Path) -> Aside:
    aside = Aside(FolderFiles(folder))
    aside.load()
    return aside


def test_a_line_that_is_being_written_is_not_cut_by_who_reads(tmp_path: Path) -> None:
    writing = loaded(tmp_path)
    writing.add(RECORD, b"1.a", ERROR)
    with (tmp_path / ASIDE).open("ab") as file:
        file.write(b'{"number":2,"position":"2.a"')
    assert loaded(tmp_path).positions == {b"1.a"}
    assert (tmp_path / ASIDE).read_bytes().endswith(b'"2.a"')


def test_a_line_that_a_crash_has_cut_off_makes_room_for_the_next(tmp_path: Path) -> None:
    loaded(tmp_path).add(RECORD, b"1.a", ERROR)
    with (tmp_path / ASIDE).open("ab") as file:
        file.write(b'{"number":2,"position":"2.a"')
    loaded(tmp_path).add(RECORD, b"3.a", ERROR)
    assert loaded(tmp_path).positions == {b"1.a", b"3.a"}
    assert len((tmp_path / ASIDE).read_bytes().splitlines()) == 2


def test_a_file_that_a_person_has_removed_begins_again(tmp_path: Path) -> None:
    aside = loaded(tmp_path)
    aside.add(RECORD, b"1.a", ERROR)
    (tmp_path / ASIDE).unlink()
    aside.add(RECORD, b"2.a", ERROR)
    assert loaded(tmp_path).positions == {b"2.a"}


async def test_records_behind_one_that_was_set_aside_stay_columns(tmp_path: Path) -> None:
    """An object for each of them would take more time than to send it."""
    await fill(tmp_path, [b"0"], [b"1", b"2"])
    store = await Store.open(await Storage.of_folder(tmp_path), limits_of(1 << 20, None, 1 << 20))
    source = await SpoolSource.of(store, lambda: None)
    (first,) = await source.read(None, 1)
    await source.set_aside(first, ERROR)
    assert [record.value for record, _ in await source.read(None, 10)] == [b"1", b"2"]
    rows = await source.read(first[1], 10)
    assert isinstance(rows, ColumnRows)
    assert rows.values == [b"1", b"2"]
    await store.close()
