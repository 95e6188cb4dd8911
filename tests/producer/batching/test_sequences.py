"""Sequence numbers: what is stamped when, what a hole does, and that nothing is stored twice, out of order, or lost."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from aioprod._error_codes import ErrorCode
from aioprod.errors import NotSentError, RejectedError, UnknownOutcomeError
from aioprod.producer.batching.batch_events import BatchEvents
from aioprod.producer.batching.lifecycle import set_producer_id
from aioprod.producer.batching.partition import Partition
from aioprod.producer.batching.sequences import EPOCH_MAX, Sequences, sequence_after
from aioprod.producer.transactions.rules import TransactionRules
from tests.support.accumulators import Harness
from tests.support.length import by_length
from tests.support.sequence_model import Model, random_run

STAMP = tuple[int, int, int]


def stamps(model: Model) -> list[STAMP]:
    """(epoch, first sequence, records) of each batch on the wire."""
    return [(batch.epoch, batch.base_sequence, batch.builder.count) for (batch,), _ in model.wire]


def anchored(**options: Any) -> Model:
    """A model whose first record has been acknowledged."""
    model = Model(**options)
    model.send()
    model.drain()
    model.answer()
    return model


def fill(model: Model, batches: int) -> None:
    """Accept full batches, and put as many as may leave on the wire."""
    for _ in range(batches):
        for _ in range(4):
            model.send()
        model.finish_batch()
        while model.drain():
            pass


@pytest.mark.parametrize(
    ("first", "count", "after"), [(0, 3, 3), (2**31 - 3, 2, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 2, 5, 3)]
)
def test_numbers_continue_from_0_after_the_largest_int32(first: int, count: int, after: int) -> None:
    assert sequence_after(first, count) == after


def test_the_first_batch_of_an_epoch_is_alone_on_the_wire_and_then_there_are_five() -> None:
    model = Model()
    fill(model, 8)
    assert stamps(model) == [(0, 0, 4)]
    model.answer()
    while model.drain():
        pass
    assert [first for _, first, _ in stamps(model)] == [4, 8, 12, 16, 20]
    model.finish()


def test_a_batch_that_expires_before_it_was_sent_takes_no_number() -> None:
    model = anchored()
    for _ in range(4):
        model.send()
    model.expire(121.0)
    fill(model, 1)
    assert stamps(model) == [(0, 1, 4)]
    model.finish()
    assert list(model.completions.failed.values()) == [NotSentError] * 4
    assert model.sequences.bumps == 0


def test_a_batch_that_comes_back_keeps_its_number_and_those_behind_it_wait() -> None:
    model = anchored()
    fill(model, 3)
    before = stamps(model)
    model.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not model.drain(), "two are on the wire still"
    model.answer()
    model.answer()
    for one in before:
        assert model.drain()
        assert stamps(model) == [one]
        model.answer()
    model.finish()
    assert model.sequences.bumps == 0


def test_a_lost_answer_is_found_again_by_its_number() -> None:
    model = anchored()
    fill(model, 5)
    model.cut(3)
    model.finish()
    assert model.completions.delivered == {value: value for value in range(21)}


def test_behind_a_batch_that_was_rejected_for_good_a_new_epoch_begins() -> None:
    model = anchored()
    fill(model, 3)
    model.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    fill(model, 1)
    assert len(model.wire) == 2, "nothing new is stamped"
    model.answer()
    model.answer()
    assert model.drain()
    assert stamps(model) == [(1, 0, 4)]
    model.finish()
    assert model.sequences.bumps == 1
    assert set(model.completions.failed.values()) == {RejectedError}
    assert model.log.values == [0, *range(5, 17)]


def test_a_batch_that_expires_in_flight_and_was_stored_leaves_no_gap() -> None:
    model = anchored()
    fill(model, 1)
    model.now += 100.0
    fill(model, 1)
    model.expire(30.0)
    assert list(model.completions.failed.values()) == [UnknownOutcomeError] * 4
    model.answer()
    model.answer()
    model.finish()
    assert model.sequences.bumps == 0
    assert model.log.values == list(range(9))


def test_a_batch_that_expires_on_the_wire_and_was_not_stored_is_noticed_by_the_next() -> None:
    model = anchored()
    fill(model, 1)
    model.now += 100.0
    fill(model, 1)
    model.expire(30.0)
    model.cut(0)
    model.finish()
    assert model.sequences.bumps == 1
    assert model.log.values == [0, *range(5, 9)]


def test_batches_in_flight_are_done_before_an_epoch_begins() -> None:
    model = anchored()
    fill(model, 5)
    model.expire(121.0)
    fill(model, 1)
    for _ in range(5):
        assert stamps(model)[-1][0] == 0, "the new batch waits until all have landed"
        model.answer(ErrorCode.REQUEST_TIMED_OUT, is_stored=True)
        model.drain()
    assert stamps(model) == [(1, 0, 4)]
    model.finish()
    assert model.log.values == list(range(25))


def test_the_others_of_a_batch_with_a_culprit_go_again_in_a_new_epoch() -> None:
    model = anchored()
    fill(model, 2)
    model.answer(ErrorCode.INVALID_RECORD, culprit=1)
    model.finish()
    assert model.log.values == [0, 1, 3, 4, 5, 6, 7, 8]
    assert model.completions.failed == {2: RejectedError}


def test_the_parts_of_a_batch_that_was_too_large_share_its_numbers() -> None:
    model = anchored()
    fill(model, 1)
    model.answer(ErrorCode.MESSAGE_TOO_LARGE)
    following = 1
    while model.drain():
        ((epoch, first, count),) = stamps(model)
        assert (epoch, first) == (0, following)
        following += count
        model.answer()
    assert following == 5
    model.finish()
    assert model.sequences.bumps == 0


def test_a_batch_that_may_be_stored_is_not_split() -> None:
    model = anchored()
    fill(model, 1)
    model.cut(1)
    model.drain()
    model.answer(ErrorCode.MESSAGE_TOO_LARGE)
    model.finish()
    assert model.log.values == list(range(5))
    assert list(model.completions.failed.values()) == [UnknownOutcomeError] * 4


def test_a_broker_that_has_forgotten_the_producer_is_met_with_a_new_epoch() -> None:
    model = anchored()
    fill(model, 2)
    model.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
    model.answer(ErrorCode.UNKNOWN_PRODUCER_ID)
    model.finish()
    assert model.sequences.bumps == 1
    assert model.log.values == list(range(9))


def test_what_a_restarted_broker_does_not_know_again_is_not_stored_twice() -> None:
    model = anchored()
    fill(model, 5)
    model.cut(5)
    model.log.restart()
    model.finish()
    assert model.log.values == list(range(21))
    assert sorted(model.completions.delivered) == [0, 17, 18, 19, 20], "the last batch is all that it remembers"
    assert set(model.completions.failed.values()) == {UnknownOutcomeError}
    assert model.sequences.bumps == 0


def test_a_retry_behind_more_batches_than_brokers_remember_has_an_unknown_outcome() -> None:
    """The former leader has stored the first batch and does not answer, the next one takes those behind it."""
    model = anchored()
    fill(model, 1)
    late, stored = model.wire.popleft()
    model.log.append(stored)
    for _ in range(6):
        fill(model, 1)
        model.answer()
    model.wire.append((late, stored))
    model.cut(0)
    model.finish()
    assert model.completions.failed == dict.fromkeys(range(1, 5), UnknownOutcomeError)
    assert model.log.values == list(range(29))


def test_a_gap_behind_does_not_explain_what_a_restarted_broker_does_not_recognize() -> None:
    model = anchored()
    fill(model, 3)
    model.answer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, is_stored=True)
    model.answer()
    model.answer(ErrorCode.INVALID_RECORD, culprit=0)
    model.log.restart()
    model.finish()
    assert model.log.values == sorted(set(model.log.values))
    assert set(model.completions.failed.values()) == {UnknownOutcomeError, RejectedError}


def test_what_an_unclean_leader_has_lost_has_an_unknown_outcome_and_the_rest_continues() -> None:
    model = anchored()
    fill(model, 3)
    model.cut(2)
    del model.log.values[1:], model.log.batches[1:]
    model.log.producers[7].last_sequence = -5
    model.log.producers[7].batches.clear()
    fill(model, 1)
    model.finish()
    assert set(model.completions.failed.values()) == {UnknownOutcomeError}
    assert model.log.values == [0, *range(13, 17)]


def test_numbers_go_past_the_largest_on_the_wire_too() -> None:
    model = Model(sequence=2**31 - 2)
    fill(model, 3)
    model.answer()
    while model.drain():
        pass
    assert [first for _, first, _ in stamps(model)] == [2, 6]
    model.cut(1)
    model.finish()
    assert model.sequences.bumps == 0
    assert model.log.values == list(range(12))


def test_after_the_last_epoch_a_new_producer_id_is_requested_before_anything_is_sent() -> None:
    model = anchored(epoch=EPOCH_MAX)
    fill(model, 2)
    model.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    model.answer()
    assert model.renewals == 1
    assert not model.drain()
    set_producer_id(model.accumulator, 8, 0, model.now)
    assert model.drain()
    ((batch,), _) = model.wire[0]
    assert (batch.producer_id, batch.epoch, batch.base_sequence) == (8, 0, 0)
    model.finish()


def test_what_may_still_arrive_under_a_producer_id_that_is_used_up_is_not_sent_under_another() -> None:
    """Brokers reject it under a lower epoch, not under another id: it would be stored beside its retry."""
    model = anchored(epoch=EPOCH_MAX)
    fill(model, 4)
    late = model.cut(0)
    model.drain()
    model.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    model.drain()
    model.answer()
    assert (model.renewals, model.drain()) == (1, False)
    model.send()
    set_producer_id(model.accumulator, 8, 0, model.now)
    assert set(model.completions.failed.values()) == {UnknownOutcomeError}
    assert sorted(model.completions.failed) == list(range(1, 17))
    for stored in late:
        model.log.append(stored)
    model.finish()
    assert model.log.values == list(range(18))


def test_a_batch_that_was_rejected_under_a_producer_id_that_is_used_up_is_sent_under_another() -> None:
    model = anchored(epoch=EPOCH_MAX)
    fill(model, 3)
    model.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    model.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    model.answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    set_producer_id(model.accumulator, 8, 0, model.now)
    model.finish()
    assert set(model.completions.failed) == {1, 2, 3, 4}
    assert model.log.values == [0, *range(5, 13)]


def test_partitions_of_a_forgotten_topic_begin_in_an_epoch_that_was_never_used() -> None:
    model = anchored()
    topic = model.accumulator.topics["t"]
    sequences = model.sequences
    assert sequences.forget(topic)
    assert sequences.epoch == 1
    topic.partitions[0].epoch = EPOCH_MAX
    assert not sequences.forget(topic), "its numbers would be taken for duplicates"
    assert model.renewals == 1
    sequences.set_producer_id(8, 0)
    assert sequences.forget(topic)


def test_a_transaction_forgets_no_partition_that_its_epoch_has_used() -> None:
    model = anchored(transactional=True)
    topic = model.accumulator.topics["t"]
    assert not model.sequences.forget(topic)
    model.sequences.set_producer_id(7, 1)
    assert model.sequences.forget(topic)


def test_with_transactions_a_gap_holds_the_partition_until_the_coordinator_gives_an_epoch() -> None:
    model = anchored(transactional=True)
    fill(model, 2)
    model.answer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    model.answer()
    assert set(model.completions.failed.values()) == {RejectedError}
    assert len(model.completions.failed) == 8, "out of sequence behind a hole is final in a transaction"
    fill(model, 1)
    assert not model.wire
    set_producer_id(model.accumulator, 7, 5, model.now)
    model.drain()
    assert stamps(model) == [(5, 0, 4)]
    model.finish()


def test_a_partition_is_held_until_the_transaction_has_it() -> None:
    asked: list[int] = []

    class Rules(TransactionRules):
        def join(self, partition: Partition) -> bool:
            asked.append(partition.index)
            return False

    sequences = Sequences(BatchEvents(), Rules(), transactional=True)
    harness = Harness(sequences=sequences)
    harness.lead({0: 1})
    set_producer_id(harness.accumulator, 7, 0, 0.0)
    sequences.begin_transaction()
    harness.append(partition=0)
    assert not harness.drain(now=1.0)
    assert asked == [0]
    partition = harness.accumulator.topics["t"].partitions[0]
    assert partition.suspended


@pytest.mark.parametrize("seed", range(by_length(100, 300)))
def test_random_faults(seed: int) -> None:
    random = Random(seed)
    options = {"in_flight_max": random.choice((1, 2, 5)), "epoch": random.choice((0, EPOCH_MAX - 1))}
    model = random_run(
        random, 200, Model, retries=random.choice((0, 3, 1000)), sequence=random.choice((0, 2**31 - 50)), **options
    )
    assert len(model.completions.delivered) + len(model.completions.failed) == model.sent
