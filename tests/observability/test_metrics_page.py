"""The page about metrics: its tables have all names, its code runs."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from aioprod.group.meters import MemberMetrics
from aioprod.metrics import Metrics, ProducerMetrics
from aioprod.testing import FakeCluster
from tests.support.snippets import ROOT, snippets

PAGE = ROOT / "docs" / "metrics.md"


def test_the_tables_have_every_name_of_a_snapshot() -> None:
    text = PAGE.read_text()
    for metrics in (ProducerMetrics(), MemberMetrics()):
        assert [name for name in metrics.describe() if f"`{name}`" not in text] == []


def test_families_are_named_as_prometheus_wants_it() -> None:
    each: list[Metrics] = [ProducerMetrics(), MemberMetrics()]
    families = [family for metrics in each for family in metrics.families()]
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", family.name), family.name
        assert family.name.endswith("_total") == (family.kind == "counter"), family.name
        assert (family.unit.word in family.name.split("_")) or not family.unit.word, family.name
        assert not re.search(r"\b(ms|milliseconds|nanoseconds)\b", family.doc), family.doc


def test_the_code_runs() -> None:
    with asyncio.Runner() as runner:
        brokers = FakeCluster()
        runner.run(brokers.__aenter__())
        try:
            namespace: dict[str, Any] = {}
            for snippet in snippets(PAGE):
                if snippet.runnable:
                    snippet.at("localhost:9092", brokers.bootstrap).run(runner, namespace)
            assert len(brokers.records("orders")) == 2
        finally:
            runner.run(brokers.__aexit__(None, None, None))
