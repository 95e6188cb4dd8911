"""Building the compiled modules: what is built again when, and which leftovers the tests refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tools.build_ext import SHARED, SUFFIX, build_fault, declarations_of, extensions, hot_modules

HINT = "run `make compiled` (setup.py build_ext --inplace)."


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two hot modules, `room.user` and `room.used`, compiled after their sources."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AIOPROD_NO_EXT", raising=False)
    monkeypatch.delenv("AIOPROD_REQUIRE_EXT", raising=False)
    room = tmp_path / "aioprod" / "room"
    room.mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    (room / "user.pxd").write_text("cimport cython\n\nfrom aioprod.room.used cimport Used\n")
    (room / "used.pxd").write_text("from aioprod.room cimport memory\nfrom libc.string cimport memcpy\n")
    for name in ("user.py", "used.py", "memory.pxd", "memory.py", "plain.py", "../../tools/build_ext.py"):
        (room / name).touch()
    for path in [*room.iterdir(), tmp_path / "tools" / "build_ext.py"]:
        os.utime(path, (1000, 1000))
    for name in ("user", "used", "../_cython"):
        compile_at(room / f"{name}{SUFFIX}", 2000)
    return room


def compile_at(path: Path, seconds: int) -> None:
    path.touch()
    os.utime(path, (seconds, seconds))


def test_a_module_is_built_again_for_all_that_it_cimports(tree: Path) -> None:
    used, user = hot_modules()
    assert (used.name, user.name) == ("aioprod.room.used", "aioprod.room.user")
    assert [Path(path).name for path in used.depends] == ["used.py", "memory.pxd", "used.pxd", "build_ext.py"]
    assert [Path(path).name for path in user.depends] == [
        "user.py",
        "memory.pxd",
        "used.pxd",
        "user.pxd",
        "build_ext.py",
    ]


def test_declarations_may_cimport_each_other_in_a_circle(tree: Path) -> None:
    (tree / "used.pxd").write_text("from aioprod.room.user cimport User\n")
    assert {path.name for path in declarations_of(Path("aioprod/room/used.pxd"))} == {"used.pxd", "user.pxd"}


def test_modules_compiled_after_their_sources_are_fine(tree: Path) -> None:
    assert build_fault(compiled=True) is None


@pytest.mark.parametrize("changed", ["user.py", "user.pxd", "memory.pxd", "../../tools/build_ext.py"])
def test_a_module_older_than_what_it_is_compiled_from_is_refused(tree: Path, changed: str) -> None:
    os.utime(tree / changed, (3000, 3000))
    for name in ("used", "../_cython"):
        compile_at(tree / f"{name}{SUFFIX}", 4000)
    fault = build_fault(compiled=True)
    assert fault == f"aioprod/room/user{SUFFIX} is missing or older than what it is compiled from: {HINT}"


def test_half_a_set_is_refused(tree: Path) -> None:
    (tree / f"used{SUFFIX}").unlink()
    fault = build_fault(compiled=True)
    assert fault == f"aioprod/room/used{SUFFIX} is missing or older than what it is compiled from: {HINT}"


def test_the_module_that_the_others_share_is_one_of_the_set(tree: Path) -> None:
    assert [extension.name for extension in extensions()] == [SHARED, *(module.name for module in hot_modules())]
    (tree.parent / f"_cython{SUFFIX}").unlink()
    fault = build_fault(compiled=True)
    assert fault == f"aioprod/_cython{SUFFIX} is missing or older than what it is compiled from: {HINT}"


def test_a_module_that_is_not_declared_any_more_is_refused(tree: Path) -> None:
    compile_at(tree / f"plain{SUFFIX}", 2000)
    fault = build_fault(compiled=True)
    assert fault == f"aioprod/room/plain{SUFFIX} was compiled from declarations that are gone: {HINT}"


def test_nothing_compiled_is_fine_unless_it_is_required(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for built in tree.parent.rglob(f"*{SUFFIX}"):
        built.unlink()
    assert build_fault(compiled=False) is None
    monkeypatch.setenv("AIOPROD_REQUIRE_EXT", "1")
    assert build_fault(compiled=False) == f"The compiled modules are missing: {HINT}"


def test_the_interpreted_build_does_not_mind_what_is_compiled(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.utime(tree / "user.py", (3000, 3000))
    monkeypatch.setenv("AIOPROD_NO_EXT", "1")
    monkeypatch.setenv("AIOPROD_REQUIRE_EXT", "1")
    assert build_fault(compiled=False) is None


def test_an_installed_wheel_is_tested_without_sources_beside_its_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    monkeypatch.chdir(alone)
    assert build_fault(compiled=True) is None
