"""The pages about reading and administration: their code runs, their tables are those of the code."""

from __future__ import annotations

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from aioprod.group import Member
from aioprod.group.meters import MemberMetrics
from aioprod.testing import FakeCluster
from tests.support.snippets import ROOT, snippets

DOCS = ROOT / "docs"
GROUPS = DOCS / "groups.md"


def calls_named(page: Path, name: str) -> set[str]:
    """What a page calls on an object of that name."""
    return set(re.findall(rf"\b{name}\.(\w+)", page.read_text())) - {"md"}


def own_calls(kind: type[Any]) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize("page", [GROUPS], ids=lambda page: page.name)
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


def test_a_page_names_all_calls_and_no_others() -> None:
    text = GROUPS.read_text()
    assert calls_named(GROUPS, "member") <= own_calls(Member)
    assert {name for name in own_calls(Member) - {"config", "group_id"} if f"{name}" not in text} == set()


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    metrics = MemberMetrics()
    metrics.records_lag_max.read = lambda: 0
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", GROUPS.read_text().partition("<!-- metrics")[2], re.MULTILINE)
    told = metrics.describe()
    assert dict(rows[: len(told)]) == told
