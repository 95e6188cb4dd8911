"""What C does in one instruction; the compiled build has it in native.pxd."""

from __future__ import annotations

__all__ = ["whole"]

whole = int
"""The whole number that a float is."""
