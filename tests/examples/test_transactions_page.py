"""The picture in docs/transactions.md is that of the table."""

from __future__ import annotations

import re

from aioprod.core.transactions import diagram
from tests.support.snippets import ROOT

PAGE = ROOT / "docs" / "transactions.md"
BLOCK = re.compile(r"(?<=<!-- diagram: made from aioprod.core.transactions -->\n```mermaid\n).*?(?=```\n)", re.DOTALL)


def test_the_diagram_is_up_to_date() -> None:
    found = BLOCK.search(PAGE.read_text())
    assert found is not None
    assert found[0] == diagram() + "\n", "run: python -m tests.examples.test_transactions_page"


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: diagram() + "\n", PAGE.read_text()))
