"""`SpoolModel`: what a spool has to have, as its callers know it.

A record that was acknowledged or read keeps its number and its place for ever, whatever happens to processes. One whose
call was not answered may be there, once. One that was refused is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aioprod.spool.reading import Position
from aioprod.types import ProducerRecord

__all__ = ["Call", "SpoolModel"]


@dataclass
class Call:
    """One call with some records, and what was answered."""

    values: list[bytes]
    is_in_order: bool
    """Whether its records have their place by the call; others wait for their turn."""
    is_refused: bool = False
    first: int = 0
    """The number of its first record, once it is acknowledged."""


class SpoolModel:
    """Collects `problems`."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        self.calls: list[Call] = []
        self.marker: bytes | None = None
        """Up to here records were trimmed, as a relay's marker in Kafka says."""
        self.acknowledged = 0
        """The highest number that was acknowledged."""
        self._known: dict[int, tuple[bytes, bytes]] = {}
        """The value and the group of each number that was acknowledged or read."""
        self._numbers: dict[bytes, int] = {}
        self._calls: dict[bytes, Call] = {}
        self._last = 0
        """The highest number that was acknowledged or read."""

    def call(self, values: Sequence[bytes], *, is_in_order: bool) -> Call:
        """Some records are appended; their place is that of the call if `is_in_order`."""
        call = Call(list(values), is_in_order)
        self.calls.append(call)
        self._calls.update(dict.fromkeys(values, call))
        return call

    def kept(self, call: Call, first: Position) -> None:
        """A call was acknowledged."""
        call.first = first.number
        for number, value in enumerate(call.values, first.number):
            self._note(number, first.name, value)
        self.acknowledged = max(self.acknowledged, first.number + len(call.values) - 1)

    def read(self, after: bytes | None, rows: Sequence[tuple[ProducerRecord, bytes]], acknowledged: int) -> None:
        """Records were read; up to the number `acknowledged` they had been acknowledged before."""
        last = Position.of(after).number if after is not None else 0
        for record, position in rows:
            number, name = Position.of(position)
            if number != last + 1:
                self.problems.append(f"number {number} was read after {last}")
            last = number
            self._note(number, name, record.value if isinstance(record.value, bytes) else b"")
        if not rows and last < acknowledged:
            self.problems.append(f"nothing was read after {last}, and number {acknowledged} was acknowledged")

    def _note(self, number: int, name: bytes, value: bytes) -> None:
        what, call = value.partition(b":")[0].decode(errors="replace"), self._calls.get(value)
        if call is None:
            self.problems.append(f"number {number} is {what!r}, which was never appended")
        elif call.is_refused:
            self.problems.append(f"number {number} is {what}, which was refused")
        if self._known.setdefault(number, (value, name)) != (value, name):
            self.problems.append(f"number {number} was another record before it was {what}")
        if self._numbers.setdefault(value, number) != number:
            self.problems.append(f"{what} is number {number} and {self._numbers[value]}")
        self._last = max(self._last, number)

    def check_end(self, last: int) -> None:
        """All was read up to this number."""
        if last < self._last:
            self.problems.append(f"the last record is number {last}, and number {self._last} was on the disk")

    def check_order(self) -> None:
        """The order of the calls is that of the numbers."""
        numbers = [call.first for call in self.calls if call.first and call.is_in_order]
        if numbers != sorted(numbers):
            self.problems.append(f"out of order: {numbers}")
