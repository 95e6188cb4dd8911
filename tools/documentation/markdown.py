"""Links and headings of a Markdown page, each with its line, outside of code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Link", "anchor_of", "anchors", "links", "prose"]

_FENCE: Final = re.compile(r"^\s*(`{3,}|~{3,})")
_LINK: Final = re.compile(r"\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
_HEADING: Final = re.compile(r"^#{1,6} (.+?)(?: \{[^}]*\})?\s*$")
_CODE: Final = re.compile(r"`[^`]*`")


@dataclass(frozen=True, slots=True)
class Link:
    """A link within the repository: its path, which is empty for the page itself, its anchor, and where it stands."""

    path: str
    anchor: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}#{self.anchor}" if self.anchor else self.path


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a page that are not code, with their numbers from 1."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        if marks := _FENCE.match(line):
            if not fence:
                fence = marks[1]
            elif marks[1].startswith(fence):
                fence = ""
        elif not fence:
            yield number, line


def links(text: str) -> Iterator[Link]:
    """The links of a page to other pages and files of the repository, and to its own headings."""
    for number, line in prose(text):
        for target in _LINK.findall(_CODE.sub("``", line)):
            if "://" not in target and not target.startswith("mailto:"):
                path, _, anchor = target.partition("#")
                yield Link(path, anchor, number)


def anchor_of(title: str, separator: str = "-") -> str:
    """The anchor of a heading: that of the site, and of where the repository is shown."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", separator)


def anchors(text: str) -> set[str]:
    """The anchors of the headings of a page; equal ones are numbered, as the site does."""
    found: set[str] = set()
    for _, line in prose(text):
        if heading := _HEADING.match(line):
            anchor = name = anchor_of(heading[1])
            count = 0
            while anchor in found:
                count += 1
                anchor = f"{name}_{count}"
            found.add(anchor)
    return found
