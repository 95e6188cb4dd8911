"""The cache folder: whole or not there, built once, and the programs that fill it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from aioprod.testing import KafkaUnavailableError, ToolError
from aioprod.testing.kafka.cache import cache_folder, log_progress, once, run_tool


def silent(line: str) -> None:
    """Ignore progress."""


def test_the_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AIOPROD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "aioprod"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "aioprod"
    monkeypatch.setenv("AIOPROD_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_without_a_home_that_can_be_written_it_is_among_temporary_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AIOPROD_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / f"aioprod-{os.getuid()}"
    for _ in range(2):
        assert cache_folder() == folder
        assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(KafkaUnavailableError, match="is not this user's alone"):
        cache_folder()
    folder.rename(tmp_path / "somebody's")
    folder.symlink_to(tmp_path / "somebody's")
    with pytest.raises(KafkaUnavailableError, match="is not this user's alone"):
        cache_folder()


def test_a_folder_is_built_once(tmp_path: Path) -> None:
    built = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "file").write_text("whole")

    for _ in range(2):
        assert once(tmp_path / "cache" / "thing", build, silent) == tmp_path / "cache" / "thing"
    assert len(built) == 1
    assert (tmp_path / "cache" / "thing" / "file").read_text() == "whole"


def test_a_failed_build_leaves_nothing_and_the_next_one_starts_again(tmp_path: Path) -> None:
    target = tmp_path / "thing"

    def fail(folder: Path) -> None:
        (folder / "half").write_text("")
        raise ToolError("no luck")

    with pytest.raises(ToolError, match="no luck"):
        once(target, fail, silent)
    assert not target.exists()

    left_over = tmp_path / "thing.part"  # as a killed process leaves it
    left_over.mkdir()
    (left_over / "half").write_text("")
    once(target, lambda folder: (folder / "file").touch(), silent)
    assert [entry.name for entry in target.iterdir()] == ["file"]


def test_other_processes_wait_for_the_build(tmp_path: Path) -> None:
    target = tmp_path / "thing"
    building, resume = threading.Event(), threading.Event()
    lines: list[str] = []

    def build(folder: Path) -> None:
        building.set()
        assert resume.wait(10)
        (folder / "file").touch()

    def report(line: str) -> None:
        lines.append(line)
        resume.set()

    first = threading.Thread(target=once, args=(target, build, silent))
    first.start()
    assert building.wait(10)
    once(target, build, report)
    first.join()
    assert lines == ["waiting for another process that prepares thing"]


def test_a_tools_last_lines_are_returned() -> None:
    said = run_tool(
        [sys.executable, "-c", "import os; print('one'); print(os.environ['EXTRA'])"],
        environment={"EXTRA": "two"},
    )
    assert said == "one\ntwo"


def test_a_failing_tool_is_named_with_its_last_lines() -> None:
    with pytest.raises(ToolError, match=r"ended with status 3\. Its last lines:\nout of ink"):
        run_tool([sys.executable, "-c", "print('out of ink'); raise SystemExit(3)"])


def test_a_missing_tool_is_named() -> None:
    with pytest.raises(ToolError, match="/no/such/tool could not be run"):
        run_tool(["/no/such/tool"])


def test_by_default_progress_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="aioprod.testing"):
        log_progress("fetching")
    assert caplog.messages == ["fetching"]


def test_the_package_is_imported_without_its_parts() -> None:
    program = (
        "import sys, aioprod.testing\n"
        "assert not {'aioprod.testing.kafka.cluster', 'aioprod.testing.proxy'} & set(sys.modules)\n"
        "from aioprod.testing import KafkaCluster\n"
        "try:\n    aioprod.testing.Nothing\n"
        "except AttributeError as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout == "module 'aioprod.testing' has no attribute 'Nothing'\n"
