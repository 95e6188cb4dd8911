"""The rows of the table, in the order in which they run and are shown."""

from __future__ import annotations

from typing import Final

from benchmarks.measure import ROUND, SLICE
from benchmarks.rows.compat import COMPAT
from benchmarks.rows.programs import PROGRAMS
from benchmarks.rows.reading import READING
from benchmarks.rows.row import Check, Contender, Row
from benchmarks.rows.sending import SENDING
from benchmarks.rows.spark import SPARK

__all__ = ["ROWS", "Check", "Contender", "Row"]

ROWS: Final[dict[str, Row]] = {row.name: row for row in (*PROGRAMS, *READING, *COMPAT, *SENDING, *SPARK)}
assert ROUND % SLICE == 0
