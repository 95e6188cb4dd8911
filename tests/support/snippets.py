"""The Python in the documentation: found, and made to run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["PAGES", "ROOT", "Snippet", "snippets"]

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(r"^```python( runnable)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block of code; `line` is where it begins in its page."""

    page: str
    line: int
    text: str
    runnable: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def compiled(self) -> CodeType:
        """Its code, in which `await` may stand outside of functions; raises SyntaxError with its place in the page."""
        padded = "\n" * (self.line - 1) + self.text
        code = compile(padded, self.page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        assert isinstance(code, CodeType)
        return code

    def at(self, address: str, other: str) -> Snippet:
        """The same with another address in it."""
        return replace(self, text=self.text.replace(address, other))

    def run(self, runner: asyncio.Runner, namespace: dict[str, Any]) -> None:
        """Run it: inside the loop of `runner`, unless it starts a loop of its own."""
        code = self.compiled()

        async def inside() -> None:
            result = eval(code, namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                await result

        if "asyncio.run(" in self.text or "SimulatedLoop(" in self.text:
            eval(code, namespace)
        else:
            runner.run(inside())


def snippets(page: Path) -> list[Snippet]:
    """All Python blocks of a page in order."""
    text = page.read_text()
    return [
        Snippet(page.name, text.count("\n", 0, match.start(2)) + 1, match[2], match[1] is not None)
        for match in _BLOCK.finditer(text)
    ]
