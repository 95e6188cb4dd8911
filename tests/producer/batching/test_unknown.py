"""What a later batch says about one whose outcome is unknown: in the model requests arrive late."""

from __future__ import annotations

from random import Random

import pytest

from aioprod.producer.batching.sequences import EPOCH_MAX
from tests.support.length import by_length
from tests.support.resolving_model import ResolvingModel, judged, judged_run, play


@pytest.mark.parametrize("seed", range(by_length(200, 3000)))
def test_each_verdict_is_what_the_log_says_in_the_end(seed: int) -> None:
    assert judged_run(seed).sent > 0


def behind_a_gap() -> ResolvingModel:
    """A record whose requests were lost after those of an expired one, and that is to be sent again in a new epoch."""
    model = ResolvingModel(Random(1))
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
    model = ResolvingModel(Random(1))
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


def test_the_random_runs_reach_each_kind_of_verdict() -> None:
    kinds: set[object] = set()
    for seed in range(60):
        random = Random(seed)
        model = ResolvingModel(random, retries=random.choice((0, 1)), epoch=random.choice((0, EPOCH_MAX - 2)))
        play(model, random)
        for unknown, _ in judged(model):
            assert unknown.decision is not None
            is_same_epoch = unknown.epoch == unknown.decision.by.epoch
            assert unknown.verdict is not None
            kinds.add((is_same_epoch, unknown.verdict.base_offset >= 0))
        kinds.update(unknown.hopeless[0] for unknown in model.completions.unknown if unknown.hopeless)
        kinds.update("undecided" for unknown in model.completions.unknown if not (unknown.decision or unknown.hopeless))
    assert kinds == {(True, True), (False, True), (False, False), "another producer id", "undecided"}
