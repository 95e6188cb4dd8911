"""`aioprod produce`: records from files or a pipe."""

from __future__ import annotations

from aioprod.cli.produce.command import main, make_parser

__all__ = ["main", "make_parser"]
