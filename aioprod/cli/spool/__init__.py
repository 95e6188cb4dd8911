"""`aioprod spool`: the folders in which records wait for Kafka."""

from __future__ import annotations

from aioprod.cli.spool.command import main, make_parser

__all__ = ["main", "make_parser"]
