"""The byte counter and its line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.producer.batching.buffer_memory import MemoryBudget, Reservation


def test_takes_and_releases() -> None:
    budget = MemoryBudget(100)
    assert budget.fits(100)
    budget.take(60)
    assert budget.fits(40)
    assert not budget.fits(41)
    budget.release(60, 1)
    assert (budget.used, budget.records) == (0, 0)


def test_releasing_twice_is_noticed() -> None:
    budget = MemoryBudget(100)
    budget.take(10)
    budget.release(10, 1)
    with pytest.raises(AssertionError, match="bytes were released twice"):
        budget.release(1, 0)
    budget = MemoryBudget(100)
    with pytest.raises(AssertionError, match="records were released twice"):
        budget.release(0, 1)


def test_no_record_overtakes_a_waiter() -> None:
    budget = MemoryBudget(100)
    budget.take(90)
    first = budget.wait(50, "first")
    second = budget.wait(5, "second")
    assert not budget.fits(1), "there are 10 bytes, but others came first"
    assert budget.grant() == []
    budget.release(60, 1)
    assert budget.grant() == [first, second]
    assert budget.reserved == 55
    assert not budget.fits(15), "who was granted room comes before"
    budget.end(first)
    budget.end(second)
    assert budget.fits(15)


def test_a_grant_is_given_back_once() -> None:
    budget = MemoryBudget(100)
    request = budget.wait(80, "waiter")
    assert budget.grant() == [request]
    budget.end(request)
    budget.end(request)
    assert budget.reserved == 0
    assert budget.fits(100)


def test_leaving_the_line_lets_the_next_one_in() -> None:
    budget = MemoryBudget(100)
    budget.take(90)
    large = budget.wait(50, "large")
    small = budget.wait(10, "small")
    budget.end(large)
    assert budget.grant() == [small]


def test_a_dissolved_line_blocks_no_later_record() -> None:
    budget = MemoryBudget(100)
    budget.take(90)
    line = [budget.wait(50, "first"), budget.wait(5, "second")]
    assert not budget.fits(1)
    assert budget.dissolve() == line
    assert budget.fits(10)
    assert budget.dissolve() == []
    assert budget.wait(5, "third") not in line
    (third,) = budget.grant()
    assert budget.dissolve() == []
    assert not budget.fits(1), "granted room stays reserved"
    budget.end(third)
    assert budget.fits(10)


def test_records_are_taken_one_by_one_or_several_at_a_time() -> None:
    budget = MemoryBudget(100)
    budget.take(10)
    budget.take(60, 3)
    assert (budget.used, budget.records) == (70, 4)


@given(
    st.lists(
        st.tuples(st.sampled_from(["take", "release", "wait", "grant", "leave", "dissolve"]), st.integers(1, 60)),
        max_size=60,
    )
)
def test_the_limit_always_holds(steps: list[tuple[str, int]]) -> None:
    budget = MemoryBudget(100)
    taken: list[int] = []
    waiting: list[Reservation] = []
    granted: list[Reservation] = []
    for step, size in steps:
        if step == "take" and budget.fits(size):
            budget.take(size)
            taken.append(size)
        elif step == "release" and taken:
            budget.release(taken.pop(), 1)
        elif step == "wait":
            waiting.append(budget.wait(size, None))
        elif step == "grant":
            served = budget.grant()
            assert served == waiting[: len(served)], "in order"
            del waiting[: len(served)]
            granted += served
        elif step == "leave" and granted:
            budget.end(granted.pop())
        elif step == "dissolve":
            assert budget.dissolve() == waiting
            waiting.clear()
        assert budget.fits(1) == (not waiting and not granted and budget.used < budget.limit)
        assert budget.used == sum(taken)
        assert budget.records == len(taken)
        assert budget.used + budget.reserved <= budget.limit


def test_a_waiter_without_keep_reserves_nothing() -> None:
    budget = MemoryBudget(100)
    budget.take(60)
    drain = budget.wait(50, "drain", keep=False)
    after = budget.wait(90, "after")
    assert budget.grant() == []
    budget.release(60, 1)
    assert budget.grant() == [drain, after]
    assert budget.reserved == 90
    budget.end(drain)
    assert budget.reserved == 90
