"""`aioprod read`: the records of a topic as text."""

from __future__ import annotations

from aioprod.cli.read.command import main, make_parser

__all__ = ["main", "make_parser"]
