"""Up to which id all rows are decided, by looks at what is drawn and what runs."""

from __future__ import annotations

from aioprod.outbox import horizon
from aioprod.outbox.horizon import Horizon, Look


def test_ids_are_decided_when_nothing_runs() -> None:
    found = Horizon()
    found.add(Look(7, xmin=100, next_xid=100))
    assert (found.id, found.is_waiting) == (7, False)


def test_ids_are_decided_when_all_that_had_begun_has_ended() -> None:
    found = Horizon()
    found.add(Look(7, xmin=95, next_xid=100))
    assert (found.id, found.is_waiting) == (0, True)
    found.add(Look(9, xmin=99, next_xid=105))
    assert found.id == 0
    found.add(Look(9, xmin=100, next_xid=105))
    assert (found.id, found.is_waiting) == (7, True)
    found.add(Look(9, xmin=106, next_xid=106))
    assert (found.id, found.is_waiting) == (9, False)


def test_looks_that_wait_are_bounded() -> None:
    found = Horizon()
    count = 3 * horizon._LOOKS_MAX
    for number in range(1, count):
        found.add(Look(number, xmin=50, next_xid=100 + number))
    assert len(found._looks) == horizon._LOOKS_MAX
    found.add(Look(count, xmin=100 + count, next_xid=100 + count))
    assert (found.id, found.is_waiting) == (count, False)


def test_ids_that_were_reset_are_decided_anew() -> None:
    found = Horizon()
    found.add(Look(10, xmin=100, next_xid=100))
    assert found.id == 10
    found.add(Look(2, xmin=100, next_xid=101))
    assert (found.id, found.is_waiting) == (0, True)
    found.add(Look(2, xmin=101, next_xid=101))
    assert (found.id, found.is_waiting) == (2, False)
