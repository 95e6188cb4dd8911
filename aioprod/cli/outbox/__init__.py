"""`aioprod outbox`: records in a table of a database, and the process that brings them to Kafka."""

from __future__ import annotations

from aioprod.cli.outbox.command import main, make_parser

__all__ = ["main", "make_parser"]
