"""The pages about reading and administration: their code runs, their tables are those of the code."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from aioprod.admin import Admin
from aioprod.group import Member
from aioprod.reader import Reader
from aioprod.testing import FakeCluster
from tests.support.snippets import ROOT, snippets
from tools.settings_tables import filled

DOCS = ROOT / "docs"
GROUPS, READER, ADMIN = (DOCS / f"{name}.md" for name in ("groups", "reader", "admin"))
PAGES = (GROUPS, READER, ADMIN)


def calls_named(page: Path, name: str) -> set[str]:
    """What a page calls on an object of that name."""
    return set(re.findall(rf"\b{name}\.(\w+)", page.read_text())) - {"md"}


def own_calls(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and hasattr(kind, name)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page: Path) -> None:
    found = [snippet for snippet in snippets(page) if snippet.runnable]
    assert found
    with asyncio.Runner() as runner:
        brokers = FakeCluster()
        runner.run(brokers.__aenter__())
        try:
            namespace: dict[str, Any] = {"__name__": "snippet"}
            for snippet in found:
                snippet.at("localhost:9092", brokers.bootstrap).run(runner, namespace)
        finally:
            runner.run(brokers.__aexit__(None, None, None))


@pytest.mark.parametrize(
    ("page", "name", "kind"), [(GROUPS, "member", Member), (READER, "reader", Reader), (ADMIN, "admin", Admin)]
)
def test_a_page_names_all_calls_and_no_others(page: Path, name: str, kind: type[Any]) -> None:
    text = page.read_text()
    assert calls_named(page, name) <= own_calls(kind) | {"settings", "Admin", "ReaderConfig"}
    rows = "".join(re.findall(r"^\|.*\|$", text, re.MULTILINE))
    assert {call for call in own_calls(kind) - {"config", "group_id"} if call not in rows} == set()


def test_a_page_is_filled() -> None:
    text = filled("Before.\n\n<!-- settings: aioprod.reader.config:SessionConfig -->\n| old |\n\nAfter.\n")
    assert text.startswith("Before.\n\n<!-- settings: aioprod.reader.config:SessionConfig -->\n| name |")
    assert "\n| `default.api.timeout.ms` | int | `60000` |" in text
    assert text.endswith(" |\n\nAfter.\n")
    assert "old" not in text
    assert "bootstrap.servers" not in text
