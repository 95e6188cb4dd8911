"""`Mutation`: runs the producer with a deliberate bug, by replacing text of its source while it is imported."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import CodeType

__all__ = ["Mutation"]


@dataclass(frozen=True)
class Mutation:
    """Replaces `old`, which has to occur once in the source of `module`, by `new`."""

    name: str
    module: str
    old: str
    new: str
    noticed_by: str = "tests.simulation"
    """The program whose seeds are to notice it."""
    kind: str = "producers"
    """What its seeds are of."""

    def apply(self) -> None:
        """Import aioprod with the change; raises RuntimeError when it was imported before, or is compiled."""
        if "aioprod" in sys.modules:
            raise RuntimeError(f"aioprod is imported already: {self.name!r} can't be applied.")
        applied: list[str] = []
        get_code = SourceFileLoader.get_code

        def mutated_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
            if fullname != self.module:
                return get_code(loader, fullname)
            applied.append(fullname)
            source = self.mutated(loader.get_data(loader.path).decode())
            code: CodeType = compile(source, loader.path, "exec", dont_inherit=True)
            return code

        SourceFileLoader.get_code = mutated_code  # type: ignore[method-assign,assignment]
        try:
            importlib.import_module("aioprod")
            importlib.import_module(self.module)
        finally:
            SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
        if not applied:
            raise RuntimeError(f"{self.module} is compiled here: mutations need AIOPROD_NO_EXT=1.")

    def mutated(self, source: str) -> str:
        """The source with the change; raises ValueError unless `old` occurs in it once."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name!r}: {self.module} has this {source.count(self.old)} times: {self.old!r}")
        return source.replace(self.old, self.new)
