"""What idempotence promises and where the promise ends, as `docs/guarantees.md` says it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from aioprod.errors import UnknownOutcomeError
from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster
from aioprod.testing.fake import FakeTopic
from tests.support.producers import ShiftedClock, pass_time, running, until

SMALL_BATCHES: dict[str, Any] = {"batch_size": 0, "linger_ms": 0}


def values(topic: FakeTopic) -> list[bytes | None]:
    return [record.value for record in topic.records()]


LOST_ANSWERS: list[dict[str, Any]] = [
    {"drop": "before"},
    {"drop": "after"},
    {"drop": "lurking"},
    {"cut_after_bytes": 1},
    {"cut_after_bytes": 9},
    {"reply": b"\x00\x00\x00\x04\xff\xff\xff\xff"},
]


@pytest.mark.parametrize("fault", LOST_ANSWERS, ids=lambda fault: " ".join(str(part) for part in fault.values()))
@pytest.mark.parametrize("times", [1, 3])
async def test_a_lost_answer_stores_nothing_twice(brokers: FakeCluster, fault: dict[str, Any], times: int) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, **SMALL_BATCHES) as producer:
        await producer.send("t", b"first")
        lost = brokers.fault(ProduceRequest, times=times, **fault)
        futures = [producer.submit("t", b"%d" % number) for number in range(30)]
        offsets = [(await future).offset for future in futures]
        assert lost.hits == times
    assert values(topic) == [b"first", *(b"%d" % number for number in range(30))]
    # Of a batch that a broker has forgotten among later ones it can't tell the offset any more.
    assert all(offset in (-1, number + 1) for number, offset in enumerate(offsets))


@pytest.mark.parametrize("seed", range(8))
async def test_garbage_in_place_of_answers_costs_no_record(three_brokers: FakeCluster, seed: int) -> None:
    brokers, random = three_brokers, Random(seed)
    topic = brokers.create_topic("t", partitions=3)
    # An answer that never ends is given up soon.
    async with running(brokers, **SMALL_BATCHES, request_timeout_ms=1000) as producer:
        await producer.send("t", b"first")
        for _ in range(4):
            size = random.choice([1, 4, 30, 300])
            garbage = random.choice([b"", size.to_bytes(4, "big")]) + random.randbytes(size)
            brokers.fault(ProduceRequest, node=random.choice([1, 2, 3, None]), reply=garbage)
        futures = [producer.submit("t", b"%d" % number, partition=number % 3) for number in range(60)]
        for future in futures:
            await future
    assert sorted(int(value or b"-1") for value in values(topic) if value != b"first") == list(range(60))


async def test_sending_again_after_an_unknown_outcome_may_store_it_twice(brokers: FakeCluster) -> None:
    topic, clock = brokers.create_topic("t"), ShiftedClock()
    async with running(brokers, clock=clock) as producer:
        lost = brokers.fault(ProduceRequest, silent=True)
        sent = producer.submit("t", b"once?")
        await lost.reached.wait()
        await until(lambda: values(topic) == [b"once?"])
        pass_time(producer, clock, 120.0)
        with pytest.raises(UnknownOutcomeError):
            await sent
        await producer.send("t", b"once?")
    assert values(topic) == [b"once?", b"once?"]


async def test_another_producer_is_another_sender(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    for _ in range(2):
        async with running(brokers) as producer:
            await producer.send("t", b"the same")
    assert values(topic) == [b"the same", b"the same"]


async def test_a_retry_at_a_broker_that_has_forgotten_the_producer_may_be_stored_twice(brokers: FakeCluster) -> None:
    """A broker forgets a producer that was silent for `producer.id.expiration.ms`, a day, and then takes any number."""
    topic = brokers.create_topic("t")
    async with running(brokers) as producer:
        brokers.fault(ProduceRequest, drop="after")
        again = brokers.fault(ProduceRequest, hold=True)
        sent = producer.submit("t", b"once?")
        await again.reached.wait()
        assert values(topic) == [b"once?"]
        brokers.expire_producer_state("t")
        again.release()
        await sent
        await producer.send("t", b"next")
    assert values(topic) == [b"once?", b"once?", b"next"]


async def test_without_idempotence_a_lost_answer_may_store_a_batch_twice(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, enable_idempotence=False) as producer:
        brokers.fault(ProduceRequest, drop="after")
        await producer.send("t", b"once?")
    assert values(topic) == [b"once?", b"once?"]


async def test_without_retries_nothing_is_sent_twice(brokers: FakeCluster) -> None:
    topic = brokers.create_topic("t")
    async with running(brokers, retries=0) as producer:
        brokers.fault(ProduceRequest, drop="after")
        with pytest.raises(UnknownOutcomeError):
            await producer.send("t", b"once")
    assert values(topic) == [b"once"]
