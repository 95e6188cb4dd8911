"""Links: a broken one is one sentence; on the site, those to files of the repository lead to pages with their text."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from mkdocs.config import load_config
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files, get_files
from mkdocs.structure.pages import Page

from aioprod.cli.commands import COMMANDS
from aioprod.cli.pages import parsers
from tests.support.snippets import DOCS, ROOT
from tools.documentation import hooks
from tools.documentation.links import PAGES, broken_links
from tools.documentation.markdown import anchor_of, anchors, links
from tools.documentation.state_tables import as_tables


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_one_sentence_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One\n\n[a](gone.md) and [b](#one)\n\n```\n[c](never.md)\n```\n\n[d](#two) `[e](code.md)`\n")
    assert list(broken_links(page)) == [
        "page.md:3: the link to gone.md leads nowhere, as there is no such file.",
        "page.md:9: the link to #two leads nowhere, as page.md has no such heading.",
    ]


def test_anchors_are_those_of_the_site() -> None:
    assert anchor_of("TLS & log-ins: what `start()` says") == "tls--log-ins-what-start-says"
    assert anchors("# A b\n\n## A b\n\n```\n# not one\n```\n") == {"a-b", "a-b_1"}
    assert [str(link) for link in links("[x](y.md#z), [w](https://w.test)")] == ["y.md#z"]


# --- the hook


@pytest.fixture(scope="module")
def config() -> MkDocsConfig:
    return load_config(str(ROOT / "tools" / "mkdocs.yml"))


@pytest.fixture(scope="module")
def files(config: MkDocsConfig) -> Files:
    config.plugins._current_plugin = "documentation/hooks.py"  # as MkDocs does around each call
    return hooks.on_files(get_files(config), config)


def shown(source: str, config: MkDocsConfig, files: Files) -> str:
    file = files.get_file_from_path(source)
    assert file is not None
    return hooks.on_page_markdown(file.content_string, Page(None, file, config), config, files)


def test_a_link_to_the_repository_leads_to_a_copy(config: MkDocsConfig, files: Files) -> None:
    text = shown("guides/services.md", config, files)
    assert "](../repository/examples/asgi_service.py.md)" in text
    copy = files.get_file_from_path("repository/examples/asgi_service.py.md")
    assert copy is not None
    assert (ROOT / "examples" / "asgi_service.py").read_text() in copy.content_string


def test_a_page_of_the_repository_leads_back_into_the_site(config: MkDocsConfig, files: Files) -> None:
    for page, linked in (("CHANGELOG.md", "schema-registry.md"), ("README.md", "producer.md")):
        text = shown(f"repository/{page}", config, files)
        assert f"](../{linked})" in text
        assert "](docs/" not in text
    folder = files.get_file_from_path("repository/examples.md")
    assert folder is not None
    assert "- `bulk.py`" in folder.content_string


def test_blocks_are_shown_without_what_tests_need(config: MkDocsConfig, files: Files) -> None:
    text = shown("producer.md", config, files)
    assert "```python runnable" not in text
    assert "```python\n" in text


def test_states_are_a_table() -> None:
    diagram = "```mermaid\nstateDiagram-v2\n    [*] --> READY\n    READY --> BUSY: begin(), again\n```\n"
    table = as_tables(diagram)
    assert "| the beginning |  | `READY` |" in table
    assert "| `READY` | begin(), again | `BUSY` |" in table
    assert "mermaid" not in "".join(as_tables((DOCS / name).read_text()) for name in ("groups.md", "transactions.md"))


# --- shell


BLOCK = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINES = [
    (page, line)
    for page in PAGES
    if page.name not in ("cli.md", "design.md")
    for block in BLOCK.findall(page.read_text())
    for line in block.splitlines()
]
COMMAND = re.compile(r"(?:^|[|$] ?)(aioprod [a-z][^|>#]*)")
CALLS = [(page, found) for page, line in LINES for found in COMMAND.findall(line)]


def test_there_are_commands() -> None:
    assert len(CALLS) > 10


@pytest.mark.parametrize(("page", "call"), CALLS, ids=lambda value: getattr(value, "name", value))
def test_a_command_of_a_page_is_accepted_by_its_parser(page: Path, call: str) -> None:
    _, name, *arguments = shlex.split(call)
    assert name in COMMANDS, f"{page.name}: there is no command {name}."
    if name not in ("assign", "completion"):
        parser = parsers()[name]
        parse = parser.parse_intermixed_args if name == "produce" else parser.parse_args
        assert parse(arguments) is not None


def test_each_target_that_a_page_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"(?:^|`)make ([a-z][a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert {(page, target) for page, target in named if target not in targets} == set()
