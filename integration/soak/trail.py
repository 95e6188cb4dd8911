"""What became of the records of a partition: told by the producer, read back by a member, compared as they come."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from integration.chaos.ledger import Outcome, Place

__all__ = ["Flaws", "Trail"]

_EXAMPLES_MAX: Final = 5
_NEVER_STORED: Final = (Outcome.NOT_SENT, Outcome.REJECTED, Outcome.REFUSED)


class Flaws:
    """Promises that were broken: how often each, with some examples."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: defaultdict[str, list[str]] = defaultdict(list)

    def add(self, name: str, example: str) -> None:
        """Count one."""
        self.counts[name] += 1
        if len(self.examples[name]) < _EXAMPLES_MAX:
            self.examples[name].append(example)


class Trail:
    """The records of one partition. It has one sender, whose records are numbered in the order of the calls.

    Only the records between the sender and the reader are held, so that a run of days needs no more memory than one
    of minutes: a record is forgotten when its outcome is told and it was read. `delivered` and `failed` count
    outcomes, `read` the records that were read, `read_again` those that a member read twice, from one offset.
    """

    def __init__(self, place: Place, flaws: Flaws) -> None:
        self.sent = self.delivered = self.failed = self.read = self.read_again = 0
        self._place = place
        self._flaws = flaws
        self._told: dict[int, Outcome] = {}
        self._read_untold: set[int] = set()
        self._skipped: set[int] = set()
        self._highest = -1
        self._next_offset = 0

    @property
    def untold(self) -> int:
        """Records whose outcome is not told yet."""
        return self.sent - self.delivered - self.failed

    @property
    def held(self) -> int:
        """Records that are not forgotten."""
        return self.untold + len(self._told)

    @property
    def is_read(self) -> bool:
        """Whether everything was told, and everything that was delivered was read."""
        return not self.untold and Outcome.DELIVERED not in self._told.values()

    def new(self) -> int:
        """The number of a record that is about to be sent."""
        self.sent += 1
        return self.sent - 1

    def tell(self, number: int, outcome: Outcome) -> None:
        """Note what the producer says of a record."""
        if outcome is Outcome.DELIVERED:
            self.delivered += 1
        else:
            self.failed += 1
        if number in self._read_untold:
            self._read_untold.discard(number)
            self._check_stored(number, outcome)
        elif number in self._skipped and outcome is not Outcome.DELIVERED:
            self._skipped.discard(number)
        else:
            self._told[number] = outcome

    def note_read(self, offset: int, number: int) -> None:
        """Note what stands at an offset; a member that joined again may begin a little before its last record."""
        if offset < self._next_offset:
            self.read_again += 1
            return
        self._next_offset = offset + 1
        self.read += 1
        if number >= self.sent:
            self._flaw("invented", number, f"at offset {offset} was never sent")
            return
        if number > self._highest:
            self._skip_to(number)
        elif number in self._skipped:
            self._skipped.discard(number)
            self._flaw("out of order", number, f"at offset {offset} is behind {self._highest}")
        else:
            self._flaw("duplicated", number, f"is at offset {offset}, too")
            return
        outcome = self._told.pop(number, None)
        if outcome is None:
            self._read_untold.add(number)
        else:
            self._check_stored(number, outcome)

    def end(self) -> None:
        """Everything that is there was read: what is missing is lost, what was not told never will be."""
        for number, outcome in self._told.items():
            if outcome is Outcome.DELIVERED:
                self._flaw("lost", number, "was delivered, and is not in the log")
        if self.untold:
            self._flaws.add("hung", f"{self._name}: {self.untold} records were never told")

    def _skip_to(self, number: int) -> None:
        for skipped in range(self._highest + 1, number):
            if self._told.get(skipped, Outcome.DELIVERED) is Outcome.DELIVERED:
                self._skipped.add(skipped)  # It may come yet, out of order.
            else:
                del self._told[skipped]
        self._highest = number

    def _check_stored(self, number: int, outcome: Outcome) -> None:
        if outcome in _NEVER_STORED:
            self._flaw(f"{outcome}, but stored", number, "is in the log")

    def _flaw(self, name: str, number: int, what: str) -> None:
        self._flaws.add(name, f"{self._name} #{number} {what}")

    @property
    def _name(self) -> str:
        return f"{self._place.topic}-{self._place.partition}"
