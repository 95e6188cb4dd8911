"""Which licences aioprod may come with, how an audit is read, and that what builds and tests it is pinned."""

from __future__ import annotations

import re
import tomllib
from email.message import Message
from importlib.metadata import PackageMetadata
from pathlib import Path
from typing import cast

import pytest
from packaging.requirements import Requirement

from tools.lock import LAYERS, blocks_of
from tools.supply import Audit, installed, is_forbidden, licence, parse_audit

ROOT = Path(__file__).parents[1]


def metadata(**fields: str | list[str]) -> PackageMetadata:
    message = Message()
    for name, values in fields.items():
        for value in [values] if isinstance(values, str) else values:
            message[name.replace("_", "-")] = value
    return cast("PackageMetadata", message)


def test_the_licences_of_all_that_is_needed_to_run_are_allowed() -> None:
    packages = installed("aioprod", [""])
    assert {"aioprod", "cramjam", "crc32c", "mmh3"} <= packages.keys()
    assert not [name for name, found in packages.items() if is_forbidden(licence(found))]


def test_extras_bring_their_packages() -> None:
    assert "pytest" in installed("aioprod", ["testing"])
    assert "pytest" not in installed("aioprod", [""])


@pytest.mark.parametrize(
    ("fields", "named", "is_refused"),
    [
        ({"License_Expression": "BSD-3-Clause AND MIT"}, "BSD-3-Clause AND MIT", False),
        ({"License_Expression": "(MIT OR Apache-2.0) AND GPL-3.0-only"}, "(MIT OR Apache-2.0) AND GPL-3.0-only", True),
        ({"Classifier": ["Topic :: X", "License :: OSI Approved :: MIT License"]}, "MIT License", False),
        ({"Classifier": ["License :: OSI Approved", "License :: OSI Approved :: MIT License"]}, "MIT License", False),
        ({"Classifier": "License :: OSI Approved :: GNU Affero General Public License v3"}, "GNU Affero", True),
        ({"License": "Proprietary\nAll of it."}, "Proprietary", True),
        ({}, "", True),
    ],
)
def test_licences(fields: dict[str, str | list[str]], named: str, is_refused: bool) -> None:
    found = licence(metadata(**fields))
    assert found.startswith(named)
    assert is_forbidden(found) is is_refused


def test_a_report() -> None:
    advisory = {"id": "GHSA-1", "fix_versions": ["2.1", "3.0"], "aliases": [], "description": ""}
    report = {
        "dependencies": [
            {"name": "a", "version": "2.0", "vulns": [advisory]},
            {"name": "b", "version": "1.0", "vulns": []},
            {"name": "c", "skip_reason": "not found"},
        ],
        "fixes": [],
    }
    assert parse_audit(report) == Audit((("a", "2.0", "GHSA-1", "2.1, 3.0"),), ("c",))


def test_actions_are_pinned_by_the_hash_of_a_commit() -> None:
    """A tag or a branch can be moved to other code, and one job may publish."""
    used = [
        name
        for workflow in (ROOT / ".github" / "workflows").glob("*.yml")
        for name in re.findall(r"uses: (.+)", workflow.read_text())
        if not name.startswith("./")
    ]
    assert len(used) > 10
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[0-9.]+", name)] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_lock_has_exact_versions_with_hashes_and_no_index(layer: str) -> None:
    text = (ROOT / "tools" / f"{layer}.lock").read_text()
    assert "://" not in text
    for line, block in blocks_of(text).items():
        assert re.match(r"[a-z0-9-]+==\S+", line)
        assert "--hash=sha256:" in block


@pytest.mark.parametrize(
    ("extra", "layers"),
    [
        ("demo", {"demo"}),
        ("spark", {"demo", "spark"}),
        ("examples", {"demo", "examples"}),
        ("docs", {"demo", "docs"}),
        ("dev", {"build", "demo", "spark", "examples", "docs", "dev"}),
    ],
)
def test_the_locks_have_what_pyproject_asks_for(extra: str, layers: set[str]) -> None:
    """`make lock` writes them anew."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions: dict[str, set[str]] = {}
    for layer in layers:
        for line in blocks_of((ROOT / "tools" / f"{layer}.lock").read_text()):
            name, _, version = line.partition(";")[0].strip().partition("==")
            versions.setdefault(name, set()).add(version)
    for text in [*project["dependencies"], *project["optional-dependencies"][extra]]:
        wanted = Requirement(text)
        if wanted.name != "aioprod":
            name = re.sub(r"[-_.]+", "-", wanted.name).lower()
            assert all(map(wanted.specifier.contains, versions[name])), wanted
