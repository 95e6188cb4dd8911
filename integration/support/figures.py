"""Measured figures, which are printed at the end of the output for the acceptance report."""

from __future__ import annotations

__all__ = ["Figures"]


class Figures:
    """A table of what was measured, in the order in which it was."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, str]] = []

    def add(self, name: str, value: object) -> None:
        """Note one figure, with its unit."""
        self._rows.append((name, f"{value:,}" if isinstance(value, int) else str(value)))

    def lines(self) -> list[str]:
        """The table, one line per figure."""
        return [f"{value:>9} {name}" for name, value in self._rows]
