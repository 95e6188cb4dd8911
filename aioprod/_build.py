"""Which of the two builds runs: the hot modules compiled, or in pure Python, from the same sources.

Importing this module decides it for all modules of aioprod that are imported afterwards: AIOPROD_NO_EXT=1 selects pure
Python, and an import that finds no extension modules, such as one from a zip file, falls back to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    PathFinder,
    SourceFileLoader,
)
from types import ModuleType
from typing import Final

__all__ = ["COMPILED", "SourceFinder"]


class SourceFinder:
    """Finds the modules of aioprod as source files, never as compiled ones."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module from its .py file; with None the import system tries its other finders."""
        if not name.startswith("aioprod."):
            return None
        for entry in path or ():
            spec = FileFinder(entry, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None and spec.loader is not None:
                return spec
        return None


def _choose() -> bool:
    # A program that imports aioprod again may have chosen the other build before.
    sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__module__", "") != __name__]
    if os.environ.get("AIOPROD_NO_EXT", "") not in ("", "0"):
        # Just before the finder that would find the compiled ones: hooks of tools that measure coverage stay in front.
        sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, SourceFinder)
        return False
    records = os.path.join(os.path.dirname(__file__), "records")
    built = FileFinder(records, (ExtensionFileLoader, EXTENSION_SUFFIXES)).find_spec("aioprod.records.builder")
    return built is not None


COMPILED: Final[bool] = _choose()
"""Whether the compiled modules are in use."""
