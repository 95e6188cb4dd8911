"""The pictures of states in the documentation are those of the tables."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pytest

from aioprod.group.classic import states as classic_states
from aioprod.producer.transactions import states as transactions
from tests.support.snippets import ROOT

DIAGRAMS: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "transactions.md": (transactions.__name__, transactions.diagram),
    "groups.md": (classic_states.__name__, classic_states.diagram),
}


def block(module: str) -> re.Pattern[str]:
    """Where the picture of a module is in its page."""
    return re.compile(rf"(?<=<!-- diagram: made from {module} -->\n```mermaid\n).*?(?=```\n)", re.DOTALL)


@pytest.mark.parametrize("page", DIAGRAMS)
def test_the_diagram_is_up_to_date(page: str) -> None:
    module, diagram = DIAGRAMS[page]
    found = block(module).search((ROOT / "docs" / page).read_text())
    assert found is not None
    assert found[0] == diagram() + "\n", "run: python -m tests.examples.test_diagrams"


def update() -> None:
    """Draw them anew."""
    for name, (module, diagram) in DIAGRAMS.items():
        page = ROOT / "docs" / name
        before, after = block(module).split(page.read_text())
        page.write_text(f"{before}{diagram()}\n{after}")


if __name__ == "__main__":
    update()
