"""`aioprod doctor`: why a client can't work with a cluster."""

from __future__ import annotations

from aioprod.cli.doctor.command import main, make_parser

__all__ = ["main", "make_parser"]
