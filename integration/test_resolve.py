"""Records whose answer is lost while a real broker is frozen: what `Producer.resolve` says is what the log says."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aioprod import Producer, RecordMetadata
from aioprod.errors import UnknownOutcomeError
from aioprod.testing import KafkaCluster
from integration.support.clusters import MakeTopic, frozen
from integration.support.figures import Figures
from integration.support.reading import stored
from tests.support.length import by_length

pytestmark = pytest.mark.timeout(300)

ROUNDS = by_length(4, 20)


@pytest.mark.cluster
async def test_records_that_a_frozen_broker_may_have_stored(
    mortal_cluster: KafkaCluster, make_topic: MakeTopic, figures: Figures
) -> None:
    cluster = mortal_cluster
    topic = await make_topic(cluster, 1, 1)
    answers: dict[bytes, RecordMetadata | None] = {}
    took_s = []
    quick: dict[str, Any] = {"delivery_timeout_ms": 1500, "request_timeout_ms": 1000, "linger_ms": 0}
    async with Producer(cluster.bootstrap_servers, **quick) as producer:
        await _delivered(producer, topic, b"first")
        for number in range(ROUNDS):
            value = b"lost %d" % number
            async with frozen(cluster, 1):
                with pytest.raises(UnknownOutcomeError) as raised:
                    await producer.send(topic, value)
            await _delivered(producer, topic, b"later %d" % number)
            start = time.monotonic()
            answers[value] = await producer.resolve(raised.value)
            took_s.append(time.monotonic() - start)
    found = {record.value: record.offset for record in await stored(cluster, topic)}
    for value, place in answers.items():
        assert found.get(value) == (None if place is None else place.offset)
    figures.add("records whose answer was lost, stored", sum(place is not None for place in answers.values()))
    figures.add("records whose answer was lost, not stored", sum(place is None for place in answers.values()))
    figures.add("ms to find out, the slowest", round(1000 * max(took_s)))


async def _delivered(producer: Producer, topic: str, value: bytes) -> None:
    """Send a record again until it is delivered: a broker needs a moment after it was frozen."""
    while True:
        try:
            await producer.send(topic, value)
        except UnknownOutcomeError:
            await asyncio.sleep(0.1)
        else:
            return
