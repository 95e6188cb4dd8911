"""All Python of the documentation is run: as it stands, as a file beside others, or there is a reason why not."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aioprod import Producer
from tests.support.snippets import DOCS, PAGES, ROOT, Snippet, snippets

ADDRESS = "localhost:9092"
ELSEWHERE = {"groups.md", "reader.md", "admin.md", "metrics.md", "routing.md", "schema-registry.md"}
"""Pages whose code their own tests run beside fake brokers."""

BESIDE_REAL_BROKERS = {
    "README.md",
    "producer.md",
    "security.md",
    "testing.md",
    "transaction-session.md",
    "transactions.md",
}
"""Pages whose code needs more than a fake broker has, or that are about real ones: integration/test_examples.py."""


def page_ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def not_accounted_for(page: Path) -> list[str]:
    return [
        f"{snippet}: mark the block `runnable`, give it a title, or put <!-- not run: why --> before it."
        for snippet in snippets(page)
        if not (snippet.runnable or snippet.title or snippet.reason)
    ]


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_each_block_is_run_or_says_why_not(page: Path) -> None:
    assert not_accounted_for(page) == []


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_what_a_reason_names_is_there(page: Path) -> None:
    for snippet in snippets(page):
        for path in re.findall(r"\b(?:tests|integration|examples|docs)/[\w/]+(?:\.py|\.md)?", snippet.reason):
            assert (ROOT / path).exists(), f"{snippet}: {path} is not there."


def test_a_block_that_is_not_accounted_for_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python\nx = 1\n```\n\n<!-- not run: it never ends. -->\n```python\nx = 2\n```\n")
    (sentence,) = not_accounted_for(page)
    assert sentence.startswith("page.md:4: mark the block")


# --- files: each page's are put into one folder, and its tests are run there


def files_of(page: Path) -> list[Snippet]:
    return [snippet for snippet in snippets(page) if snippet.title and not snippet.reason]


def write(files: list[Snippet], folder: Path, servers: str) -> None:
    for file in files:
        path = folder / file.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text.replace(ADDRESS, servers))
        for package in set(path.parents) - {folder, *folder.parents}:
            (package / "__init__.py").touch()


def is_program(file: Snippet) -> bool:
    return not file.title.startswith("test_") and "\nasyncio.run(" in file.text


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(each for each in (str(ROOT), os.environ.get("PYTHONPATH", "")) if each)
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": path},
    )


WITH_FILES = [page for page in PAGES if files_of(page)]


@pytest.mark.parametrize("page", WITH_FILES, ids=page_ids)
def test_the_files_of_a_page_work_together(page: Path, tmp_path: Path, fake_cluster: Any) -> None:
    files = files_of(page)
    write(files, tmp_path, fake_cluster.bootstrap)
    tests = [file for file in files if file.title.startswith("test_")]
    if tests:
        (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
        ended = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(file.title for file in tests))
        assert ended.returncode == 0, f"{page_ids(page)}: its tests fail: {ended.stdout}{ended.stderr}"
    for file in filter(is_program, files):
        ended = run(tmp_path, "-W", "error", file.title)
        assert (ended.returncode, ended.stderr) == (0, ""), f"{file}: {file.title} fails: {ended.stderr}"
        if f"$ python {file.title}\n" in page.read_text():
            told = page.read_text().split(f"$ python {file.title}\n")[1].split("```")[0]
            assert ended.stdout == told, file


@pytest.mark.parametrize("page", WITH_FILES, ids=page_ids)
def test_each_file_is_run_or_imported(page: Path) -> None:
    files = files_of(page)
    everything = "\n".join(file.text for file in files)
    for file in files:
        path = Path(file.title)
        module = ".".join(path.with_suffix("").parts)
        used = file.title.startswith("test_") or is_program(file) or f"from {module} import" in everything
        used = used or f"import {module}\n" in everything or f'"{module}"' in everything
        assert used or path.parent.name == "migrations", f"{file}: nothing on its page runs {file.title}."


# --- the rest, beside fake brokers


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


def run_block(snippet: Snippet, runner: asyncio.Runner, namespace: dict[str, Any]) -> None:
    try:
        snippet.run(runner, namespace)
    except Exception as error:
        pytest.fail(snippet.failure(error), pytrace=False)


def test_a_block_that_fails_is_one_sentence(tmp_path: Path, runner: asyncio.Runner) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```python runnable\nx = 1\n\ny = x / 0\n```\n")
    (snippet,) = snippets(page)
    with pytest.raises(pytest.fail.Exception) as caught:
        run_block(snippet, runner, {})
    assert str(caught.value) == "page.md:6: the block fails with ZeroDivisionError: division by zero"


HERE = [
    page
    for page in PAGES
    if page.name not in ELSEWHERE | BESIDE_REAL_BROKERS and any(snippet.runnable for snippet in snippets(page))
]


@pytest.mark.parametrize("page", HERE, ids=page_ids)
def test_the_code_of_a_page_runs(page: Path, runner: asyncio.Runner, fake_cluster: Any) -> None:
    servers = fake_cluster.bootstrap
    producer = Producer(servers)
    runner.run(producer.start())
    namespace: dict[str, Any] = {"__name__": "snippet"}
    try:
        for snippet in snippets(page):
            if snippet.runnable:
                namespace["producer"] = producer
                run_block(snippet.at(ADDRESS, servers), runner, namespace)
    finally:
        runner.run(producer.close())


def test_pages_of_other_tests_are_there() -> None:
    assert {name for name in ELSEWHERE | BESIDE_REAL_BROKERS if not {DOCS / name, ROOT / name} & set(PAGES)} == set()
