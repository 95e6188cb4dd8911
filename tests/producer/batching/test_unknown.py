"""What a later batch says about one whose outcome is unknown: the model of a broker has requests arrive late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from aioprod._error_codes import ErrorCode
from aioprod.errors import UnknownOutcomeError
from aioprod.producer.batching.search import Search
from aioprod.producer.batching.sequences import EPOCH_MAX
from aioprod.producer.batching.unknown import Decision, UnknownBatch
from aioprod.producer.failure import Failure
from tests.support.accumulators import Harness
from tests.support.length import by_length
from tests.support.sequence_model import Model, RecordedCompletions, values_of


class ResolvingModel(Model):
    """A model that finds out about each unknown batch as soon as a later one decides."""

    completions: NotedCompletions

    def new_completions(self) -> NotedCompletions:
        return NotedCompletions(self.harness)

    def decided(self, batches: Sequence[UnknownBatch]) -> None:
        for unknown in self.completions.unknown:
            if unknown.decision is not None and unknown.verdict is None and unknown.hopeless is None:
                self.search(unknown.decision)

    def search(self, decision: Decision) -> None:
        """Read the log from the batch before up to the deciding one."""
        start = 0 if decision.before is None else decision.before.offset
        search = Search(decision, start, is_certain=True)
        for batch in self.log.batches:
            # What is beyond is not read: the deciding batch is being acknowledged.
            if start <= batch.base_offset <= decision.by.offset:
                search.take(batch)
        assert search.conclude({unknown: {} for unknown in decision.batches}) == []


class NotedCompletions(RecordedCompletions):
    """It also keeps the unknown batches, with the values of their records."""

    def __init__(self, harness: Harness) -> None:
        super().__init__(harness)
        self.unknown: dict[UnknownBatch, list[int]] = {}

    def fail(self, batch: Any, failure: Failure) -> None:
        assert (failure.unknown is None) == (failure.family is not UnknownOutcomeError)
        if failure.unknown is not None:
            self.unknown[failure.unknown] = values_of(batch)
        super().fail(batch, failure)


def judged(model: ResolvingModel) -> Iterator[tuple[UnknownBatch, list[int]]]:
    """The unknown batches that something has decided, when all late requests have arrived; the log must agree."""
    while model.late:
        model.arrive(0)
    for unknown, values in model.completions.unknown.items():
        if unknown.verdict is None:
            continue
        base_offset = unknown.verdict.base_offset
        found = [model.log.values.index(value) for value in values if value in model.log.values]
        assert found == ([] if base_offset < 0 else list(range(base_offset, base_offset + len(values))))
        yield unknown, values


@pytest.mark.parametrize("seed", range(by_length(200, 3000)))
def test_each_verdict_is_what_the_log_says_in_the_end(seed: int) -> None:
    random = Random(seed)
    model = ResolvingModel(
        in_flight_max=random.choice((1, 2, 5)),
        retries=random.choice((0, 1, 3, 1000)),
        epoch=random.choice((0, EPOCH_MAX - 2)),
    )
    play(model, random)
    list(judged(model))
    for unknown in model.completions.unknown:
        assert unknown.decision is None or unknown.verdict is not None, "a decision is enough while no state is lost"
        assert unknown.hopeless is None or unknown.hopeless[0] == "another producer id"


def behind_a_gap() -> ResolvingModel:
    """A record whose requests were lost after those of an expired one, and that is to be sent again in a new epoch."""
    model = ResolvingModel()
    send(model)
    model.drain()
    model.answer()
    send(model)
    model.drain()
    model.now = 60.0
    send(model)
    model.drain()
    model.late = model.cut(0)
    model.expire(61.0)
    model.drain()
    model.answer()
    assert model.sequences.bumps == 1, "it was out of sequence"
    return model


def send(model: ResolvingModel) -> None:
    """One record, in a batch of its own."""
    model.send()
    model.finish_batch()


@pytest.mark.parametrize("is_sent_again", [False, True])
@pytest.mark.parametrize("arrives", [False, True])
def test_a_batch_that_expires_behind_a_gap(is_sent_again: bool, arrives: bool) -> None:
    model = behind_a_gap()
    if is_sent_again:
        model.drain()
        model.cut(0)
    if arrives:
        model.arrive(0)
        model.arrive(0)
    model.expire(60.0)
    send(model)
    model.finish()
    found = {values[0]: unknown.verdict.base_offset for unknown, values in judged(model) if unknown.verdict}
    assert found == ({1: 1, 2: 2} if arrives else {1: -1, 2: -1})


def test_a_batch_of_an_older_epoch_is_before_what_was_acknowledged_since() -> None:
    """All late requests arrive just before the first one of the next epoch, whose record is stored twice so."""
    model = ResolvingModel()
    send(model)
    model.drain()
    model.answer()
    for now in (0.0, 60.0, 60.0):
        model.now = now
        send(model)
        model.drain()
    model.late = model.cut(0)
    model.expire(61.0)
    model.drain()
    model.answer()
    while model.late:
        model.arrive(0)
    model.drain()
    model.answer()
    model.expire(60.0)
    send(model)
    model.drain()
    model.answer()
    assert model.log.values == [0, 1, 2, 3, 2, 4]
    assert {values[0]: unknown.verdict.base_offset for unknown, values in judged(model) if unknown.verdict} == {
        1: 1,
        3: 3,
    }


def play(model: ResolvingModel, random: Random) -> None:
    """Many requests are lost, and arrive later or never."""
    for _ in range(200):
        choice = random.random()
        if model.sequences.is_exhausted and choice < 0.1:
            model.renew()
        elif choice < 0.3:
            for _ in range(random.randrange(1, 6)):
                model.send()
        elif choice < 0.5:
            model.drain()
        elif choice < 0.6:
            model.late += model.cut(random.randrange(len(model.wire) + 1))
        elif choice < 0.65:
            model.expire(random.choice((30.0, 60.0, 121.0)))
        elif choice < 0.75 and model.late:
            model.arrive(random.randrange(len(model.late)))
        elif model.wire:
            stored = random.random() < 0.3
            error = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if stored else ErrorCode.NONE
            model.answer(error, is_stored=stored)
    model.finish()


def test_the_random_runs_reach_each_kind_of_verdict() -> None:
    kinds: set[object] = set()
    for seed in range(60):
        random = Random(seed)
        model = ResolvingModel(retries=random.choice((0, 1)), epoch=random.choice((0, EPOCH_MAX - 2)))
        play(model, random)
        for unknown, _ in judged(model):
            assert unknown.decision is not None
            is_same_epoch = unknown.epoch == unknown.decision.by.epoch
            assert unknown.verdict is not None
            kinds.add((is_same_epoch, unknown.verdict.base_offset >= 0))
        kinds.update(unknown.hopeless[0] for unknown in model.completions.unknown if unknown.hopeless)
        kinds.update("undecided" for unknown in model.completions.unknown if not (unknown.decision or unknown.hopeless))
    assert kinds == {(True, True), (False, True), (False, False), "another producer id", "undecided"}
