"""When a lower leader epoch replaces the remembered one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import pytest

from aioprod.types import TopicPartition
from tests.support.metadata_answers import exchange, new_metadata, partition, topic

T0 = TopicPartition("t", 0)


def named(epochs: Iterable[tuple[float, int]], *, hints: Mapping[float, int] = MappingProxyType({})) -> list[int]:
    """The remembered epoch after each answer, given with its time; `hints` are applied right before an answer."""
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    found: list[int] = []
    for at, epoch in epochs:
        if at in hints:
            metadata.apply_leader_hint(T0, 2, hints[at], None, at)
        exchange(metadata, at, topic("t", [partition(0, 1, epoch)]))
        found.append(metadata.cluster.leader_epoch(T0))
    return found


@pytest.mark.parametrize("lie", [6, 2**31 - 1])
def test_a_lower_epoch_is_believed_when_three_successive_answers_name_it(lie: int) -> None:
    assert named([(0, 5), (1, lie), (2, 5), (3, 5), (4, 5), (5, 5)]) == [5, lie, lie, lie, 5, 5]


def test_answers_within_a_second_count_as_one() -> None:
    assert named([(0, 9), (1, 5), (1.5, 5), (1.9, 5), (2, 5), (2.9, 5), (3, 5)]) == [9, 9, 9, 9, 9, 9, 5]


def test_an_answer_with_the_higher_epoch_in_between_begins_the_count_again() -> None:
    epochs = [9, 5, 5, 9, 5, 5, 9, 5, 5, 5]
    assert named((float(at), epoch) for at, epoch in enumerate(epochs)) == [9] * 9 + [5]


def test_stale_answers_between_true_ones_change_nothing() -> None:
    epochs = [9, 8, 9, 8, 9, 8, 9, 8, 9]
    assert named((float(at), epoch) for at, epoch in enumerate(epochs)) == [9] * 9
    after_a_lie = [9, 99, 9, 8, 9, 8, 9, 8, 8, 8]
    assert named((float(at), epoch) for at, epoch in enumerate(after_a_lie)) == [9, 99, 99, 99, 99, 99, 9, 9, 9, 8]


def test_a_second_lie_below_the_first_one_is_outlasted_too() -> None:
    epochs = [9, 2**31 - 1, 2**30, 9, 9, 9]
    assert named((float(at), epoch) for at, epoch in enumerate(epochs))[-1] == 9
    falling = [2**31 - 1, *range(1000, 950, -1), 9, 9, 9]
    assert named((float(at), epoch) for at, epoch in enumerate(falling))[-1] == 9


def test_hints_alone_never_raise_the_epoch_for_good() -> None:
    lies = {1.0: 100, 2.0: 200, 3.0: 2**31 - 1}
    answers = [(float(at), 5) for at in range(8)]
    assert named(answers, hints=lies) == [5, 100, 200, 5, 5, 5, 5, 5]
