"""Records that are told and read, in any order: each broken promise is found, and nothing is held for long."""

from __future__ import annotations

import pytest

from integration.chaos.ledger import Outcome, Place
from integration.soak.trail import Flaws, Trail

D, N, U = Outcome.DELIVERED, Outcome.NOT_SENT, Outcome.UNKNOWN


def flaws_of(outcomes: tuple[Outcome | None, ...], read: tuple[int, ...], *, read_first: bool) -> dict[str, int]:
    flaws = Flaws()
    trail = Trail(Place("main", 0), flaws)
    numbers = [trail.new() for _ in outcomes]

    def tell() -> None:
        for number, outcome in zip(numbers, outcomes, strict=True):
            if outcome is not None:
                trail.tell(number, outcome)

    def note() -> None:
        for offset, number in enumerate(read):
            trail.note_read(offset, number)

    for step in (note, tell) if read_first else (tell, note):
        step()
    trail.end()
    return dict(flaws.counts)


@pytest.mark.parametrize("read_first", [False, True])
@pytest.mark.parametrize(
    ("outcomes", "read", "flaws"),
    [
        ((D, D, D), (0, 1, 2), {}),
        ((D, N, D), (0, 2), {}),
        ((D, U, D), (0, 1, 2), {}),
        ((D, U, D), (0, 2), {}),
        ((D, D, D), (0, 2), {"lost": 1}),
        ((D, D), (0,), {"lost": 1}),
        ((D, D), (0, 1, 0, 1), {"duplicated": 2}),
        ((D, D, D), (1, 0, 2), {"out of order": 1}),
        ((N,), (0,), {"not sent, but stored": 1}),
        ((None,), (), {"hung": 1}),
        ((D,), (0, 1), {"invented": 1}),
    ],
)
def test_each_broken_promise_is_found(
    outcomes: tuple[Outcome | None, ...], read: tuple[int, ...], flaws: dict[str, int], read_first: bool
) -> None:
    assert flaws_of(outcomes, read, read_first=read_first) == flaws


def test_what_a_member_reads_from_the_same_offsets_again_is_no_duplicate() -> None:
    flaws = Flaws()
    trail = Trail(Place("main", 0), flaws)
    for _ in range(3):
        trail.tell(trail.new(), D)
    for offset in (0, 1, 0, 1, 2):
        trail.note_read(offset, offset)
    trail.end()
    assert not flaws.counts
    assert (trail.read, trail.read_again) == (3, 2)


def test_a_trail_holds_only_what_is_between_sender_and_reader() -> None:
    trail = Trail(Place("main", 0), Flaws())
    held = 0
    for number in range(10_000):
        trail.new()
        trail.tell(number, D)
        if number >= 10:
            trail.note_read(number - 10, number - 10)
        held = max(held, trail.held)
    assert held == 10
    was_read = trail.is_read
    for number in range(9_990, 10_000):
        trail.note_read(number, number)
    assert (was_read, trail.is_read) == (False, True)
    assert trail.held == 0


def test_only_some_examples_of_a_flaw_are_kept() -> None:
    flaws = Flaws()
    for number in range(100):
        flaws.add("lost", f"#{number}")
    assert flaws.counts["lost"] == 100
    assert len(flaws.examples["lost"]) == 5
