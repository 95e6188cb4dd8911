"""The notes of a release: its section of CHANGELOG.md. `python -m tools.release_notes 0.2.0` prints it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

__all__ = ["notes"]

_HEADING: Final = re.compile(r"^## \[([^\]]+)\].*$", re.MULTILINE)


def notes(changelog: str, version: str) -> str:
    """What is below the heading of this version; raises LookupError if there is none, or nothing below it."""
    headings = list(_HEADING.finditer(changelog))
    for heading, after in zip(headings, [*headings[1:], None], strict=True):
        if heading[1] == version:
            text = changelog[heading.end() : None if after is None else after.start()].strip()
            if text:
                return text
    raise LookupError(f"CHANGELOG.md has no section with text for {version}: it has {[one[1] for one in headings]}.")


if __name__ == "__main__":
    print(notes(Path("CHANGELOG.md").read_text(), sys.argv[1]))
