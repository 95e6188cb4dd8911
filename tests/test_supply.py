"""Which licences aioprod may come with, and how an audit is read."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import PackageMetadata
from typing import cast

import pytest

from tests.support.supply import Audit, installed, is_forbidden, licence, parse_audit


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
