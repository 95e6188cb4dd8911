"""Whether each link of the pages leads somewhere: `python -m tools.documentation.links` prints those that don't."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.documentation.markdown import anchors, links

__all__ = ["PAGES", "ROOT", "broken_links"]

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))


def broken_links(page: Path) -> Iterator[str]:
    """A sentence for each link of a page that leads nowhere, with the page and the line."""
    text = page.read_text(encoding="utf-8")
    for link in links(text):
        place = f"{page.relative_to(ROOT) if page.is_relative_to(ROOT) else page.name}:{link.line}"
        linked = (page.parent / link.path).resolve() if link.path else page
        if not linked.exists():
            yield f"{place}: the link to {link} leads nowhere, as there is no such file."
        elif link.anchor and linked.suffix == ".md" and link.anchor not in anchors(linked.read_text(encoding="utf-8")):
            yield f"{place}: the link to {link} leads nowhere, as {linked.name} has no such heading."


if __name__ == "__main__":
    broken = [sentence for page in PAGES for sentence in broken_links(page)]
    print("\n".join(broken), end="\n" if broken else "")
    sys.exit(bool(broken))
