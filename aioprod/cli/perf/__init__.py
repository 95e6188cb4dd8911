"""`aioprod perf`: how many records a second a topic takes, and how long each takes."""

from __future__ import annotations

from aioprod.cli.perf.command import main, make_parser

__all__ = ["main", "make_parser"]
