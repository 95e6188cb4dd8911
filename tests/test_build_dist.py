"""What is packed: the same bytes from the same sources, and an SBOM that says what pyproject.toml says."""

from __future__ import annotations

import os
import tarfile
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from setuptools import Distribution

from tools.build_dist import FIRST_ZIP_DATE, ReproducibleSdist, sbom
from tools.release_notes import notes

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]


def packed(folder: Path, *, rights: int, seconds: int, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The archive of a folder whose files have these rights and times."""
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("aioprod-1/b.py", "aioprod-1/a/c.py", "aioprod-1/run"):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(rights | (0o100 if path.name == "run" else 0))
        os.utime(path, (seconds, seconds))
    command = ReproducibleSdist(Distribution({"name": "aioprod", "version": "1"}))
    return Path(command.make_archive(str(folder / "out" / "aioprod-1"), "gztar", base_dir="aioprod-1")).read_bytes()


def test_the_sdist_does_not_depend_on_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first = packed(tmp_path / "1", rights=0o644, seconds=1_000_000_000, monkeypatch=monkeypatch)
    assert first == packed(tmp_path / "2", rights=0o600, seconds=1_700_000_000, monkeypatch=monkeypatch)
    with tarfile.open(tmp_path / "1" / "out" / "aioprod-1.tar.gz") as archive:
        assert {entry.mtime for entry in archive} == {FIRST_ZIP_DATE}
        assert {entry.name: entry.mode for entry in archive if entry.isfile()} == {
            "aioprod-1/b.py": 0o644,
            "aioprod-1/a/c.py": 0o644,
            "aioprod-1/run": 0o755,
        }


def test_a_release_names_its_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    packed(tmp_path / "1", rights=0o644, seconds=1, monkeypatch=monkeypatch)
    with tarfile.open(tmp_path / "1" / "out" / "aioprod-1.tar.gz") as archive:
        assert {entry.mtime for entry in archive} == {1_800_000_000}


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_sbom_has_what_is_needed_and_what_is_inside(is_compiled: bool) -> None:
    document = sbom(is_compiled=is_compiled)
    own = document["metadata"]["component"]
    assert (own["name"], own["version"], own["licenses"]) == (
        "aioprod",
        PROJECT["version"],
        [{"license": {"id": PROJECT["license"]}}],
    )
    needed = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert {one["name"] for one in document["components"]} == needed | ({"cython"} if is_compiled else set())
    assert len(document["dependencies"][0]["dependsOn"]) == len(needed)
    assert document == sbom(is_compiled=is_compiled)


def test_each_version_has_notes() -> None:
    changelog = Path("CHANGELOG.md").read_text()
    assert notes(changelog, PROJECT["version"])
    assert "The first version" in notes(changelog, "0.1.0")
    with pytest.raises(LookupError, match="no section with text for 9"):
        notes(changelog, "9.9")
