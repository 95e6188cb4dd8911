from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.routing.sticky import PARTITIONS_PER_SURVEY, TRIES_MAX, StickyChoice

BATCH_SIZE = 1000
CHI_SQUARE_PER_DEGREE = 2.5
"""A generous bound: chance exceeds it less than once in 200 times with 5 degrees of freedom; the seeds are fixed."""


def sticky(count: int, available: Sequence[int] | None = None, *, adaptive: bool = True, seed: int = 0) -> StickyChoice:
    choice = StickyChoice(Random(seed), batch_size=BATCH_SIZE, adaptive=adaptive)
    choice.set_partitions(count, range(count) if available is None else available)
    return choice


def draws(
    choice: StickyChoice, times: int, queues: Mapping[int, int], excluded: Callable[[int], bool] | None = None
) -> Counter[int]:
    counts = Counter[int]()
    for _ in range(times):
        choice.switch(queues, excluded)
        counts[choice.partition] += 1
    return counts


def java_weights(candidates: Sequence[int], queues: Mapping[int, int]) -> dict[int, int]:
    longest = max(queues.get(partition, 0) for partition in candidates)
    return {partition: longest + 1 - queues.get(partition, 0) for partition in candidates}


def assert_drawn_by(weights: Mapping[int, int], counts: Counter[int]) -> None:
    assert counts.keys() <= weights.keys()
    expected = {partition: counts.total() * weight / sum(weights.values()) for partition, weight in weights.items()}
    chi_square = sum((counts[partition] - share) ** 2 / share for partition, share in expected.items())
    assert chi_square < CHI_SQUARE_PER_DEGREE * max(5, len(weights) - 1)


def test_javas_worked_example() -> None:
    queues = {0: 0, 1: 3, 2: 1}
    weights = java_weights(range(3), queues)
    assert weights == {0: 4, 1: 1, 2: 3}
    assert_drawn_by(weights, draws(sticky(3), 8000, queues))


@pytest.mark.parametrize(
    "queues",
    [
        {},
        {1: 5, 3: 1},
        {0: 2, 1: 2, 2: 2, 3: 2, 4: 2, 5: 2},
        {0: 9, 1: 9, 2: 9, 3: 9, 4: 9, 5: 8},
        {0: 40, 1: 40, 2: 40, 3: 40, 4: 40},
    ],
)
def test_the_weights_are_javas(queues: dict[int, int]) -> None:
    assert_drawn_by(java_weights(range(6), queues), draws(sticky(6), 6000, queues))


def test_partitions_without_leader_do_not_count() -> None:
    queues = {0: 100, 1: 3, 2: 1}
    available = (1, 2, 4)
    assert_drawn_by(java_weights(available, queues), draws(sticky(6, available), 6000, queues))


def test_excluded_partitions_do_not_count() -> None:
    queues = {0: 100, 1: 3, 2: 1}
    counts = draws(sticky(4), 6000, queues, {0}.__contains__)
    assert_drawn_by(java_weights((1, 2, 3), queues), counts)
    assert_drawn_by({0: 1, 3: 1}, draws(sticky(4), 2000, {}, {1, 2}.__contains__))


def test_excluded_partitions_with_equally_long_queues_on_the_rest() -> None:
    queues = dict.fromkeys(range(4), 500)
    assert_drawn_by({1: 1, 2: 1, 3: 1}, draws(sticky(4), 300, queues, {0}.__contains__))


def test_exclusion_of_all_excludes_none() -> None:
    assert_drawn_by({0: 1, 1: 1, 2: 1}, draws(sticky(3), 300, {0: 5}, lambda partition: True))


def test_exclusion_needs_adaptive() -> None:
    counts = draws(sticky(3, adaptive=False), 3000, {0: 5}, {1}.__contains__)
    assert_drawn_by({0: 1, 1: 1, 2: 1}, counts)


def test_without_any_leader_all_are_drawn_alike() -> None:
    assert_drawn_by({0: 1, 1: 1, 2: 1}, draws(sticky(3, ()), 3000, {0: 50}, {1}.__contains__))


def test_a_single_partition_needs_no_draw() -> None:
    assert draws(sticky(3, (2,)), 10, {2: 7}, {2}.__contains__) == {2: 10}


def test_weights_that_few_draws_hit_are_summed_up() -> None:
    """One empty queue of 200, the others 20,000 long: a draw is kept once in 200 times."""
    queues = dict.fromkeys(range(1, 200), 20_000)
    counts = draws(sticky(200), 1000, queues)
    assert counts[0] > 960


@settings(max_examples=25)
@given(
    queues=st.dictionaries(st.integers(0, 5), st.integers(0, 60), max_size=6),
    available=st.sets(st.integers(0, 5), min_size=2),
    seed=st.integers(0, 2**16),
)
def test_no_weight_is_ever_zero(queues: dict[int, int], available: set[int], seed: int) -> None:
    choice = sticky(6, sorted(available), seed=seed)
    for _ in range(50):
        choice.switch(queues)
        assert choice.partition in available


class Watched(dict[int, int]):
    """Counts how often it is asked for a length or walked."""

    looks = 0

    def get(self, key: int, default: int = 0) -> int:  # type: ignore[override]
        self.looks += 1
        return super().get(key, default)

    def items(self):  # type: ignore[no-untyped-def]
        self.looks += len(self)
        return super().items()


@pytest.mark.parametrize("longest", [1, 50])
def test_the_cost_of_a_choice_has_a_bound_whatever_the_number_of_partitions(longest: int) -> None:
    count = 10_000
    queues = Watched({partition: 1 + partition % longest for partition in range(count)})
    choice = sticky(count)
    queues.looks = 0
    draws(choice, 1000, queues)
    assert queues.looks / 1000 < PARTITIONS_PER_SURVEY + TRIES_MAX


def test_queues_that_grow_between_two_surveys_keep_a_chance() -> None:
    choice = sticky(200)
    choice.switch({0: 1})
    counts = draws(choice, 3, dict.fromkeys(range(200), 9))
    assert counts.total() == 3


def test_it_moves_on_after_a_batch_worth_of_bytes() -> None:
    choice = sticky(1000)
    before = choice.partition
    choice.batch_closed(400, {})
    choice.batch_closed(599, {})
    assert choice.partition == before
    choice.batch_closed(1, {})
    after = choice.partition
    assert after != before
    choice.batch_closed(999, {})
    assert choice.partition == after, "the count starts again"
    choice.batch_closed(5000, dict.fromkeys(range(1000), 1))
    assert choice.partition != after


def test_there_is_no_choice_before_the_partitions_are_known() -> None:
    choice = StickyChoice(Random(0), batch_size=BATCH_SIZE, adaptive=True)
    assert choice.partition == -1
    choice.set_partitions(5, (3,))
    assert choice.partition == 3


def test_new_metadata_keeps_a_choice_that_can_still_be_made() -> None:
    choice = sticky(5, (3,))
    choice.set_partitions(10, range(10))
    assert choice.partition == 3
    choice.set_partitions(10, ())
    assert choice.partition == 3, "no other has a leader either"
    choice.set_partitions(10, (1,))
    assert choice.partition == 1
    choice.set_partitions(1, ())
    assert choice.partition == 0


# --- near leaders


def near(*partitions: int, adaptive: bool = True) -> StickyChoice:
    """Partitions 0 to 4 have a leader, and 5 has none."""
    choice = StickyChoice(Random(0), batch_size=BATCH_SIZE, adaptive=adaptive)
    choice.set_partitions(6, range(5), partitions)
    return choice


@pytest.mark.parametrize("adaptive", [True, False])
def test_near_leaders_get_all(adaptive: bool) -> None:
    assert_drawn_by({1: 1, 3: 1}, draws(near(1, 3, adaptive=adaptive), 2000, {}))
    assert draws(near(2, adaptive=adaptive), 10, {2: 9}) == {2: 10}
    assert_drawn_by(dict.fromkeys(range(5), 1), draws(near(adaptive=adaptive), 2000, {}))


def test_near_leaders_are_drawn_by_their_queues() -> None:
    queues = {0: 100, 1: 3, 3: 1}
    assert_drawn_by(java_weights((1, 3, 4), queues), draws(near(1, 3, 4), 6000, queues))


def test_near_leaders_that_are_all_excluded_are_left() -> None:
    assert_drawn_by({3: 1}, draws(near(1, 3), 100, {}, {1}.__contains__))
    assert_drawn_by({0: 1, 2: 1, 4: 1}, draws(near(1, 3), 3000, {}, {1, 3}.__contains__))
    assert_drawn_by({0: 1, 2: 1, 3: 1, 4: 1}, draws(near(1), 3000, {}, {1}.__contains__))
    assert_drawn_by({1: 1, 3: 1}, draws(near(1, 3), 300, {}, lambda partition: True))


def test_a_choice_moves_when_a_near_leader_comes_and_stays_when_it_goes() -> None:
    choice = sticky(5, (4,))
    assert choice.partition == 4
    choice.set_partitions(5, range(5), (2,))
    assert choice.partition == 2
    choice.set_partitions(5, range(5), (1, 2))
    assert choice.partition == 2
    choice.set_partitions(5, range(5))
    assert choice.partition == 2
    choice.set_partitions(5, range(5), (0,))
    assert choice.partition == 0
