"""The files of a spool in a folder of the system."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from aioprod.spool.files import FolderFiles, is_disk_full, replace


@pytest.fixture
def files(tmp_path: Path) -> Iterator[FolderFiles]:
    files = FolderFiles(tmp_path / "spool")
    yield files
    files.close()


def test_bytes_are_written_where_they_belong(files: FolderFiles) -> None:
    files.write("a", 0, b"0123456789")
    files.write("a", 4, b"xy")
    files.sync("a")
    assert files.read("a", 0, 100) == b"0123xy6789"
    assert files.read("a", 3, 4) == b"3xy6"
    assert files.read("a", 10, 5) == b""
    files.truncate("a", 5)
    assert files.sizes() == {"a": 5}


def test_folders_are_no_files(files: FolderFiles, tmp_path: Path) -> None:
    (tmp_path / "spool" / "lost+found").mkdir()
    assert files.sizes() == {}


def test_a_file_is_renamed_in_place_of_another(files: FolderFiles) -> None:
    files.write("old", 0, b"old")
    files.write("new", 0, b"new")
    files.rename("new", "old")
    files.write("old", 3, b"er")
    files.sync_names()
    assert files.read("old", 0, 9) == b"newer"
    assert set(files.sizes()) == {"old"}


def test_a_removed_file_is_gone_and_can_be_created_again(files: FolderFiles) -> None:
    files.write("a", 0, b"12345")
    files.remove("a")
    files.remove("a")
    assert files.sizes() == {}
    with pytest.raises(FileNotFoundError):
        files.read("a", 0, 1)
    files.write("a", 0, b"6")
    files.done("a")
    files.done("a")
    assert files.read("a", 0, 9) == b"6"


def test_a_replaced_file_has_nothing_of_what_a_crash_has_left(files: FolderFiles) -> None:
    files.write("a.tmp", 0, b"a longer text")
    files.write("a", 0, b"before")
    replace(files, "a", b"after")
    assert files.read("a", 0, 99) == b"after"
    assert set(files.sizes()) == {"a"}


def test_others_can_not_read_what_it_has(files: FolderFiles, tmp_path: Path) -> None:
    files.write("a", 0, b"a secret")
    assert (tmp_path / "spool" / "a").stat().st_mode & 0o077 == 0


def test_one_has_the_lock(files: FolderFiles, tmp_path: Path) -> None:
    another = FolderFiles(tmp_path / "spool")
    assert files.lock("lock")
    assert not another.lock("lock")
    assert another.lock("another")
    files.close()
    assert another.lock("lock")
    another.close()


def test_names_of_new_folders_are_brought_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    FolderFiles(tmp_path / "a" / "b").close()
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    FolderFiles(tmp_path / "a" / "b").close()
    assert len(synced) == 2


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError):  # noqa: PT011  # which one is the system's choice
            FolderFiles(folder)


def test_everything_is_closed(files: FolderFiles) -> None:
    before = set(os.listdir("/proc/self/fd"))
    another = FolderFiles(files._folder)
    another.lock("lock")
    for number in range(5):
        another.write(str(number), 0, b"1")
        another.read(str(number), 0, 1)
    another.close()
    another.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_errors_that_say_that_the_disk_is_full() -> None:
    assert is_disk_full(OSError(errno.ENOSPC, "No space left on device"))
    assert is_disk_full(OSError(errno.EDQUOT, "Disk quota exceeded"))
    assert not is_disk_full(OSError(errno.EIO, "Input/output error"))


def test_a_child_process_keeps_no_lock(files: FolderFiles, tmp_path: Path) -> None:
    """Workers of a pool outlive a process that is killed, and the next one has to open the folder all the same."""
    assert files.lock("lock")
    begun, end = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.write(begun[1], b"x")
        os.read(end[0], 1)
        os._exit(0)
    os.read(begun[0], 1)
    files.close()
    other = FolderFiles(tmp_path / "spool")
    try:
        assert other.lock("lock")
    finally:
        os.write(end[1], b"x")
        os.waitpid(child, 0)
        other.close()
        for descriptor in (*begun, *end):
            os.close(descriptor)
