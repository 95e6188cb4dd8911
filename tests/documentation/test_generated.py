"""All that is generated is up to date, and each check of `make lint` says what mends what it finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from aioprod.group.classic import states as classic_states
from aioprod.producer.transactions import states as transaction_states
from tests.support.snippets import DOCS, ROOT
from tools import generate
from tools.generate import GENERATED, Generated, main, out_of_date


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_file_is_up_to_date(name: str) -> None:
    found = list(out_of_date(name))
    is_up_to_date = not found  # A name of its own: pytest would print the differences once more.
    assert is_up_to_date, "\n".join(found)


@pytest.mark.parametrize(("page", "states"), [("groups.md", classic_states), ("transactions.md", transaction_states)])
def test_a_page_has_the_diagram_of_its_states(page: str, states: Any) -> None:
    diagram = f"<!-- diagram: made from {states.__name__} -->\n```mermaid\n{states.diagram()}\n```\n"
    assert diagram in (DOCS / page).read_text()


def test_a_file_that_is_out_of_date_is_named_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Generated("the code", ("page.md", "new.md"), lambda name, text: f"{name}\n")
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "GENERATED", {"pages": made})
    (tmp_path / "page.md").write_text("old\n")
    assert main(["--check"]) == 1
    printed = capsys.readouterr().out
    assert "page.md is out of date: it is made from the code; run: make generate\n" in printed
    assert "\n-old\n+page.md\n" in printed
    assert "new.md is out of date" in printed
    assert main([]) == 0
    assert (tmp_path / "page.md").read_text() == "page.md\n"
    assert main(["--check"]) == 0


def test_each_check_of_lint_says_what_mends_what_it_finds() -> None:
    recipe = (ROOT / "Makefile").read_text().partition("\nlint: ")[2].partition("\n\n")[0].splitlines()[1:]
    without = [line for line in recipe if not re.match(r"\t(@\$\(call checked,.+,.+\)|\$\(if \$\(LONG\))", line)]
    assert without == ["\t@AIOPROD_NO_EXT=1 $(BIN)/python -m tools.generate --check"]
