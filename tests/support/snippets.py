"""The Python in the documentation: found, and made to run."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType
from typing import Any

__all__ = ["DOCS", "PAGES", "ROOT", "Snippet", "snippets"]

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md")))

_BLOCK = re.compile(
    r"""(?:^<!-- not run: (?P<reason>[^\n]+) -->\n)?"""
    r"""^```python(?P<runnable> runnable)?(?: title="(?P<title>[^"\n]+)")?\n(?P<text>.*?)^```$""",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Snippet:
    """One block of code; `line` is where it begins in its page.

    It is run as it stands (`runnable`), or it is a file, named `title`, that the tests of its page need, or `reason` is
    why it is not run.
    """

    page: str
    line: int
    text: str
    runnable: bool
    title: str = ""
    reason: str = ""

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

    def failure(self, error: BaseException) -> str:
        """One sentence about an error of its code: the page, the line and the error."""
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.page]
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return f"{self.page}:{lines[-1] if lines else self.line}: the block fails with {said}"


def snippets(page: Path) -> list[Snippet]:
    """All Python blocks of a page in order."""
    text = page.read_text()
    return [
        Snippet(
            str(page.relative_to(DOCS)) if page.is_relative_to(DOCS) else page.name,
            text.count("\n", 0, match.start("text")) + 1,
            match["text"],
            match["runnable"] is not None,
            match["title"] or "",
            match["reason"] or "",
        )
        for match in _BLOCK.finditer(text)
    ]
