"""When `Metadata` wants to ask, and for what."""

from __future__ import annotations

import math
from collections.abc import Set as AbstractSet

import pytest

from aioprod.cluster import Metadata
from aioprod.cluster.metadata import PARTITIONS_AT_ONCE, PARTITIONS_GUESSED
from aioprod.errors import BrokerConnectionError, ErrorCode
from tests.support.metadata_answers import (
    MAX_AGE_S,
    MAX_IDLE_S,
    exchange,
    failed,
    names,
    new_metadata,
    partition,
    response,
    topic,
)


def known(*topics: str) -> Metadata:
    """With these topics known and settled at time 0."""
    metadata = new_metadata()
    for name in topics:
        metadata.add_topic(name, 0.0)
    exchange(metadata, 0.0, *(topic(name, [partition(0)]) for name in topics))
    return metadata


def answer_a(metadata: Metadata, now: float) -> AbstractSet[str]:
    """Answer the request on its way with topic "a"; the topics that this changed."""
    return metadata.handle_response(response(topic("a", [partition(0)])), now, version=12).changed_topics


def test_the_first_request_is_due_at_once_and_one_is_on_its_way_at_a_time() -> None:
    metadata = new_metadata()
    assert metadata.next_refresh(7.0) == 7.0
    assert names(metadata.build_request(7.0, True)) == []
    metadata.add_topic("t", 7.5)
    assert metadata.next_refresh(8.0) == math.inf


@pytest.mark.parametrize("allowed", [True, False])
def test_auto_creation_is_the_callers_choice(allowed: bool) -> None:
    assert new_metadata().build_request(0.0, allowed).allow_auto_topic_creation is allowed


def test_an_answer_lasts_for_the_maximum_age() -> None:
    metadata = known("a", "b")
    assert metadata.next_refresh(1.0) == MAX_AGE_S
    metadata.touch("a", MAX_AGE_S)
    metadata.touch("b", MAX_AGE_S)
    assert names(metadata.build_request(MAX_AGE_S, True)) == ["a", "b"]


def test_new_topics_are_asked_for_at_once_in_one_partial_request() -> None:
    metadata = known("a")
    metadata.add_topic("c", 1.0)
    metadata.add_topic("b", 1.0)
    metadata.add_topic("a", 1.0)
    assert metadata.next_refresh(1.0) == 1.0
    assert names(metadata.build_request(1.0, True)) == ["b", "c"]


def test_an_update_that_is_requested_says_when_its_request_is_due() -> None:
    told: list[float] = []
    metadata = Metadata(max_age_s=MAX_AGE_S, max_idle_s=MAX_IDLE_S, backoff=lambda failures: 0.5, due=told.append)
    metadata.request_update(1.0)
    assert told == [1.0]
    metadata.build_request(1.0, True)
    metadata.request_update(1.5)
    assert told == [1.0, math.inf], "the request in flight is answered first"
    metadata.handle_failure(BrokerConnectionError("lost"), 2.0)
    metadata.request_update(2.0)
    assert told[2:] == [2.5], "the backoff comes first"


def test_many_topics_are_asked_for_in_several_requests_and_new_ones_first() -> None:
    metadata = new_metadata()
    for number in range(250):
        metadata.add_topic(f"t{number:03}", 0.0)
    asked: list[str | None] = []
    for now, count in ((0.0, PARTITIONS_AT_ONCE // PARTITIONS_GUESSED), (1.0, 200), (2.0, 250)):
        assert metadata.next_refresh(now) == now
        asked += answer_with(metadata, now, partitions=60)
        assert len(asked) == len(set(asked)) == count
    assert metadata.next_refresh(3.0) == MAX_AGE_S
    # Now their sizes are known: 16 topics of 60 partitions go into one request.
    metadata.request_update(20.0)
    again = answer_with(metadata, 20.0, partitions=60)
    assert again == asked[:16]
    metadata.add_topic("new", 20.0)
    again += answer_with(metadata, 20.0, partitions=60)
    assert again[16:] == ["new", *asked[16:32]]
    while metadata.next_refresh(20.0) == 20.0:
        again += answer_with(metadata, 20.0, partitions=60)
    assert again == [*asked[:16], "new", *asked[16:]]


def answer_with(metadata: Metadata, now: float, partitions: int) -> list[str | None]:
    """Ask, and answer with all topics that were asked for; their names."""
    asked = names(metadata.build_request(now, True))
    rows = [topic(name, [partition(index) for index in range(partitions)]) for name in asked]
    metadata.handle_response(response(*rows), now, version=12)
    return asked


def test_a_topic_of_very_many_partitions_is_asked_for_alone() -> None:
    metadata = known("a", "b", "c")
    metadata.request_update(10.0)
    rows = [partition(index) for index in range(PARTITIONS_AT_ONCE + 1)]
    exchange(metadata, 10.0, topic("a", [partition(0)]), topic("b", rows), topic("c", [partition(0)]))
    metadata.request_update(20.0)
    assert [answer_with(metadata, 20.0, partitions=1) for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_forgetting_a_topic_leaves_the_others_due() -> None:
    metadata = known("a")
    metadata.add_topic("b", 1.0)
    metadata.add_topic("c", 1.0)
    metadata.forget_topic("b")
    assert metadata.next_refresh(1.0) == 1.0
    metadata.forget_topic("c")
    assert metadata.next_refresh(1.0) == MAX_AGE_S


def test_a_topic_that_is_added_while_a_request_is_on_its_way_is_next() -> None:
    metadata = known("a")
    metadata.add_topic("b", 1.0)
    metadata.build_request(1.0, True)
    metadata.add_topic("c", 1.1)
    metadata.handle_failure(BrokerConnectionError("gone"), 1.2)
    assert metadata.next_refresh(1.2) == 2.2
    assert names(metadata.build_request(2.2, True)) == ["b", "c"]
    metadata.add_topic("d", 2.3)
    metadata.handle_failure(BrokerConnectionError("gone"), 2.4)
    exchange(metadata, 9.0, *(topic(name, [partition(0)]) for name in "bc"))
    assert metadata.next_refresh(9.0) == 10.0, "d was asked for and is missing in the answer"
    assert names(metadata.build_request(10.0, True)) == ["d"]


def test_touching_a_topic_that_was_forgotten_wants_it_again() -> None:
    metadata = known("a")
    metadata.forget_topic("a")
    metadata.touch("a", 1.0)
    assert names(metadata.build_request(1.0, True)) == ["a"]


def test_unknown_topics_are_asked_for_again_with_backoff() -> None:
    metadata = known("a")
    metadata.add_topic("t", 10.0)
    now = 10.0
    for wait in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert names(metadata.build_request(now, True)) == ["t"]
        metadata.handle_response(response(failed("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), now, version=12)
        assert metadata.next_refresh(now) == now + wait
        now += wait
    exchange(metadata, now, topic("t", [partition(0)]))
    assert metadata.next_refresh(now) > now + 100


def test_each_unknown_topic_keeps_its_own_pace() -> None:
    metadata = known("a")
    metadata.add_topic("t", 10.0)
    exchange(metadata, 10.0, failed("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    metadata.add_topic("u", 10.5)
    assert names(metadata.build_request(10.5, True)) == ["u"]
    assert metadata.unknown_attempts("t") == 1


@pytest.mark.parametrize("error", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_topics_without_leaders_are_asked_for_again(error: ErrorCode) -> None:
    metadata = known("a")
    metadata.add_topic("t", 10.0)
    exchange(metadata, 10.0, failed("t", error))
    assert metadata.next_refresh(10.0) == 11.0
    exchange(metadata, 11.0, topic("t", [partition(0), partition(1, leader=-1, error=5)]))
    assert metadata.next_refresh(11.0) == 13.0
    assert names(metadata.build_request(13.0, True)) == ["t"]


@pytest.mark.parametrize("error", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_refused_topics_are_asked_for_again_only_when_wanted_again(error: ErrorCode) -> None:
    metadata = known("a")
    metadata.add_topic("t", 10.0)
    exchange(metadata, 10.0, failed("t", error))
    assert metadata.next_refresh(10.0) == MAX_AGE_S
    metadata.add_topic("t", 10.5)
    assert metadata.next_refresh(10.5) == 11.0
    assert names(metadata.build_request(11.0, True)) == ["t"]


def test_an_error_refreshes_everything_as_soon_as_the_backoff_allows() -> None:
    metadata = known("a", "b")
    metadata.request_update(0.25)
    assert metadata.next_refresh(0.25) == 1.0
    assert names(metadata.build_request(1.0, True)) == ["a", "b"]


def test_an_error_with_a_topic_refreshes_that_topic() -> None:
    metadata = known("a", "b")
    metadata.request_update(20.0, "b")
    metadata.request_update(20.0, "nowhere")
    assert metadata.next_refresh(20.0) == 20.0
    assert names(metadata.build_request(20.0, True)) == ["b"]


def test_answers_that_bring_nothing_new_slow_the_refreshes_down() -> None:
    metadata = known("a")
    now = 10.0
    metadata.request_update(now)
    for wait in (2.0, 4.0, 8.0):
        exchange(metadata, now, topic("a", [partition(0)]))
        metadata.request_update(now)
        assert metadata.next_refresh(now) == now + wait
        now += wait
    exchange(metadata, now, topic("a", [partition(0, leader=2, epoch=2)]))
    metadata.request_update(now)
    assert metadata.next_refresh(now) == now + 1.0


@pytest.mark.parametrize("name", [None, "a"])
def test_an_error_that_comes_while_asking_is_not_answered_by_that_answer(name: str | None) -> None:
    metadata = known("a")
    metadata.request_update(10.0, name)
    metadata.build_request(10.0, True)
    metadata.request_update(10.1, name)
    answer_a(metadata, 10.2)
    assert metadata.next_refresh(10.2) == 10.2 + 2.0
    exchange(metadata, 12.2, topic("a", [partition(0)]))
    assert metadata.next_refresh(12.2) > 100.0


def test_failures_back_off_and_keep_what_was_asked_for() -> None:
    metadata = known("a")
    metadata.request_update(10.0)
    now = 10.0
    for wait in (1.0, 2.0, 4.0):
        assert metadata.next_refresh(now) == now
        assert names(metadata.build_request(now, True)) == ["a"]
        error = BrokerConnectionError("refused")
        metadata.handle_failure(error, now)
        assert metadata.last_failure is error
        assert metadata.next_refresh(now) == now + wait
        metadata.add_topic("a", now)
        now += wait
    exchange(metadata, now, topic("a", [partition(0)]))
    assert metadata.last_failure is None
    assert metadata.next_refresh(now) == now + MAX_AGE_S


def test_a_failure_before_anything_was_asked_counts_too() -> None:
    metadata = new_metadata()
    metadata.handle_failure(BrokerConnectionError("refused"), 3.0)
    assert metadata.next_refresh(3.0) == 4.0


def test_a_full_request_can_be_built_before_it_is_due() -> None:
    metadata = known("a")
    assert names(metadata.build_request(5.0, True)) == ["a"]
    answer_a(metadata, 5.0)
    assert metadata.next_refresh(5.0) == 5.0 + MAX_AGE_S


def test_idle_topics_are_forgotten_by_a_full_refresh() -> None:
    metadata = known("idle", "a")
    metadata.touch("a", 50.0)
    now = MAX_IDLE_S + 1
    metadata.request_update(now)
    assert names(metadata.build_request(now, True)) == ["a"]
    assert answer_a(metadata, now) == {"idle"}
    assert metadata.tracked == {"a"}
    assert metadata.cluster.topics == {"a"}


def test_a_topic_that_is_used_again_meanwhile_is_not_forgotten() -> None:
    metadata = known("idle", "a")
    metadata.touch("a", 50.0)
    now = MAX_IDLE_S + 1
    metadata.request_update(now)
    metadata.build_request(now, True)
    metadata.touch("idle", now)
    assert answer_a(metadata, now) == set()
    assert metadata.cluster.topics == {"a", "idle"}


def test_a_partial_refresh_forgets_nothing() -> None:
    metadata = known("idle")
    metadata.add_topic("a", 200.0)
    exchange(metadata, 200.0, topic("a", [partition(0)]))
    assert metadata.tracked == {"a", "idle"}


def test_a_topic_that_is_forgotten_while_it_is_asked_for_stays_forgotten() -> None:
    metadata = known()
    metadata.add_topic("a", 1.0)
    metadata.build_request(1.0, True)
    metadata.forget_topic("a")
    assert answer_a(metadata, 1.0) == set()
    assert metadata.tracked == set()
    metadata.add_topic("a", 2.0)
    metadata.build_request(2.0, True)
    metadata.forget_topic("a")
    metadata.handle_failure(BrokerConnectionError("gone"), 2.0)
    assert metadata.next_refresh(5.0) == MAX_AGE_S


# -- asking another broker too ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [True, False])
def test_what_has_no_answer_yet_can_be_asked_again_with_what_is_new(full: bool) -> None:
    metadata = known("a", "b")
    metadata.request_update(10.0, None if full else "a")
    assert names(metadata.build_request(10.0, True)) == (["a", "b"] if full else ["a"])
    metadata.add_topic("c", 10.5)
    assert metadata.next_refresh(10.5) == math.inf
    metadata.hedge()
    assert metadata.next_refresh(10.5) == 10.5
    assert names(metadata.build_request(10.5, True)) == (["a", "b", "c"] if full else ["a", "c"])
    answered = response(*(topic(name, [partition(0)]) for name in "abc"))
    metadata.handle_response(answered, 11.0, version=12)
    assert metadata.next_refresh(11.0) >= MAX_AGE_S


def test_a_late_answer_is_taken_while_the_newer_request_goes_on() -> None:
    metadata = known()
    metadata.add_topic("a", 10.0)
    metadata.build_request(10.0, True)
    metadata.hedge()
    metadata.build_request(10.5, True)
    update = metadata.handle_response(response(topic("a", [partition(0)])), 11.0, version=12, late=True)
    assert update.changed_topics == {"a"}
    assert metadata.next_refresh(11.0) == math.inf
    refused = metadata.handle_response(response(error=ErrorCode.UNKNOWN_SERVER_ERROR), 11.0, version=12, late=True)
    assert refused.error is not None
    assert metadata.next_refresh(11.0) == math.inf
    assert answer_a(metadata, 12.0) == set()
    assert metadata.next_refresh(12.0) < math.inf
    assert metadata.last_failure is None


def test_attempts_count_until_the_partitions_are_told() -> None:
    metadata = known()
    assert metadata.attempts("a") == 0
    metadata.add_topic("a", 0.0)
    for attempt in range(1, 4):
        metadata.build_request(10.0 * attempt, True)
        assert metadata.attempts("a") == attempt
        metadata.handle_failure(BrokerConnectionError("gone"), 10.0 * attempt)
    metadata.build_request(100.0, True)
    answer_a(metadata, 100.0)
    assert metadata.attempts("a") == 0
