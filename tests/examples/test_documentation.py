"""The documentation holds what it says: its code compiles, its links lead somewhere, its names exist."""

from __future__ import annotations

import builtins
import dataclasses
import re
from pathlib import Path

import pytest

import aioprod.compat.aiokafka.errors
import aioprod.testing
from aioprod import Producer, errors, schema_registry
from aioprod.testing import FakeCluster, KafkaCluster, TcpProxy
from aioprod.testing.fake import Fault
from tests.support.snippets import PAGES, ROOT, Snippet, snippets

SNIPPETS = [snippet for page in PAGES for snippet in snippets(page)]


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made from their text."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_there_is_code_in_the_documentation() -> None:
    assert sum(snippet.runnable for snippet in SNIPPETS) > 10


@pytest.mark.parametrize("snippet", SNIPPETS, ids=str)
def test_code_compiles(snippet: Snippet) -> None:
    assert snippet.compiled().co_filename == snippet.page


def test_code_that_does_not_compile_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nawait nothing\n```\n\n```python runnable\nx = = 1\n```\n")
    fine, broken = snippets(page)
    assert (str(fine), fine.runnable, str(broken), broken.runnable) == ("page.md:4", False, "page.md:8", True)
    assert fine.compiled().co_code
    with pytest.raises(SyntaxError, match=r"page\.md, line 8"):
        broken.compiled()


BULK_CALL = re.compile(r"\.send_(?:many|arrow)\(")
EXAMPLES = {path.name: path.read_text() for path in sorted((ROOT / "examples").glob("*.py"))}
TEXTS = {str(snippet): snippet.text for snippet in SNIPPETS} | EXAMPLES


@pytest.mark.parametrize("name", [name for name, text in TEXTS.items() if BULK_CALL.search(text)])
def test_no_example_of_a_bulk_call_passes_over_its_failures(name: str) -> None:
    text = TEXTS[name]
    looked_at = re.findall(r"\.raise_for_failures\(\)|\.failures\b", text)
    assert len(looked_at) >= len(BULK_CALL.findall(re.sub(r'""".*?"""', "", text, flags=re.DOTALL)))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), target
        assert not anchor or anchor in headings(linked), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_errors_that_are_named_exist(page: Path) -> None:
    named = set(re.findall(r"`(\w+Error)\b", page.read_text()))
    homes = (errors, aioprod.testing, aioprod.compat.aiokafka.errors, schema_registry, builtins)
    assert {name for name in named if not any(hasattr(home, name) for home in homes)} == set()


def test_methods_that_are_named_exist() -> None:
    text = (ROOT / "README.md").read_text() + (ROOT / "docs" / "producer.md").read_text()
    named = set(re.findall(r"\bproducer\.(\w+)", text)) - {"md"}
    assert named
    assert {name for name in named if not hasattr(Producer, name)} == set()


def test_testing_tools_that_are_named_exist() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    clusters = set(re.findall(r"\bcluster\.(\w+)", text[text.index("## KafkaCluster") :]))
    clusters -= {"proxies", "bootstrap_servers"}
    proxies = set(re.findall(r"\bproxy\.(\w+)", text))
    assert clusters
    assert proxies
    assert {name for name in clusters if not hasattr(KafkaCluster, name)} == set()
    assert {name for name in proxies if not hasattr(TcpProxy, name)} == set()


def test_calls_of_the_fake_cluster_that_are_named_exist() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    section = text[text.index("## FakeCluster") : text.index("### Faults")]
    rows = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"(\w+)\(", row)} - {"FakeCluster"}
    named |= set(re.findall(r"\bcluster\.(\w+)", section))
    assert len(named) > 12
    assert {name for name in named if not hasattr(FakeCluster, name)} == set()


def test_each_field_of_a_fault_is_in_the_table_of_faults() -> None:
    text = (ROOT / "docs" / "testing.md").read_text()
    faults = re.findall(r"^\| (`.*?) \|", text[text.index("### Faults") : text.index("## KafkaCluster")], re.MULTILINE)
    fields = {name for row in faults for name in re.findall(r"`([a-z_]+)", row)}
    assert fields == {field.name for field in dataclasses.fields(Fault) if field.init} - {"kind"}


def test_partitioners_that_are_named_exist() -> None:
    text = (ROOT / "docs" / "producer.md").read_text()
    section = text[text.index("## Partitioners") : text.index("## Interceptors")]
    names = re.findall(r'`"?([a-z0-9_]+)"?`', section[section.index("|") : section.index("Your own")])
    assert len(names) == 8
    assert all(Producer("localhost:9092", partitioner=name).config.partitioner_class == name for name in names)
