"""Pictures of states as tables: Mermaid would be a program that the reader's browser fetches, and of which search knows
nothing."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["as_tables"]

_DIAGRAM: Final = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ARROW: Final = re.compile(r"^\s*(\S+) --> (\S+?)(?:\s*: (.+))?$")


def as_tables(markdown: str) -> str:
    """The page with a table of transitions in place of each diagram of states."""
    return _DIAGRAM.sub(lambda found: f"\n{_table(found[1])}\n", markdown)


def _table(diagram: str) -> str:
    rows = ["| in the state | when | it goes to |", "|---|---|---|"]
    for line in diagram.splitlines():
        if arrow := _ARROW.match(line):
            start, end, events = arrow.groups()
            rows.append(f"| {_state(start, 'the beginning')} | {events or ''} | {_state(end, 'the end')} |")
    return "\n".join(rows)


def _state(name: str, outside: str) -> str:
    return outside if name == "[*]" else f"`{name}`"
