"""The hand-laid reading of a plain answer gives what the declaration says, and leaves every other answer alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioprod.messages import ProduceResponse
from aioprod.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    TopicProduceResponse,
)
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.produce import read_plain
from aioprod.wire.codec import encode
from tests.support.accumulators import Harness

IDS = {"t": UUID(int=2**127 + 1), "other": UUID(int=2)}
PLACES = [("t", 0), ("other", 1), ("t", 1), ("other", 200)]
VERSIONS = range(3, 14)
INT64 = st.integers(-1, 2**63 - 1)


def batches_of(places: Sequence[tuple[str, int]]) -> list[Batch]:
    harness = Harness()
    for name in IDS:
        harness.lead(dict.fromkeys(range(201), 1), name=name)
        harness.accumulator.topic(name, 0.0).topic_id = IDS[name].bytes
    for name, partition in places:
        harness.append(b"v", name=name, partition=partition)
    drained = {(batch.partition.topic.name, batch.partition.index): batch for batch in harness.drain()}
    return [drained[place] for place in places]


def response(places: Sequence[tuple[str, int]], **what: Any) -> ProduceResponse:
    """An answer for these partitions in that order: offsets are 1000, 1001, …, the last one says `what` too."""
    answers = [
        (name, PartitionProduceResponse(index=partition, error_code=0, base_offset=1000 + number, log_start_offset=7))
        for number, (name, partition) in enumerate(places)
    ]
    name, last = answers[-1]
    answers[-1] = (name, replace(last, **what))
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic,
                topic_id=IDS[topic],
                partition_responses=tuple(one for name, one in answers if name == topic),
            )
            for topic in dict.fromkeys(name for name, _ in places)
        ),
        throttle_time_ms=12,
    )


def offsets(version: int, places: Sequence[tuple[str, int]], batches: list[Batch], **what: Any) -> list[Any] | None:
    body = encode(response(places, **what), version)
    answer = read_plain(version, memoryview(body), batches)
    if answer is None:
        return None
    assert answer.throttle_time_ms == 12
    return list(answer.base_offsets)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_stored(version: int) -> None:
    batches = batches_of(PLACES)
    assert offsets(version, PLACES, batches) == [1000, 1001, 1002, 1003]
    assert offsets(version, PLACES[:1], batches[:1]) == [1000]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_broker_may_answer_in_another_order(version: int) -> None:
    assert offsets(version, PLACES[::-1], batches_of(PLACES)) == [1003, 1002, 1001, 1000]


@given(version=st.sampled_from(VERSIONS), base_offset=INT64, append_time=INT64)
def test_every_number(version: int, base_offset: int, append_time: int) -> None:
    body = encode(response(PLACES[:1], base_offset=base_offset, log_append_time_ms=append_time), version)
    answer = read_plain(version, body, batches_of(PLACES[:1]))
    assert answer is not None
    assert (answer.base_offsets, answer.append_times) == ([base_offset], [append_time])


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_not_plain(version: int) -> None:
    assert offsets(version, PLACES, batches_of(PLACES), error_code=7) is None


def test_what_else_a_broker_may_say_is_not_plain() -> None:
    batches = batches_of(PLACES)
    assert offsets(8, PLACES, batches, error_message="why") is None
    assert offsets(9, PLACES, batches, error_message="") is None
    assert offsets(8, PLACES, batches, record_errors=(BatchIndexAndErrorMessage(batch_index=0),)) is None
    assert offsets(13, PLACES, batches, current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2)) is None
    endpoints = replace(response(PLACES), node_endpoints=(NodeEndpoint(node_id=1, host="h", port=1, rack=None),))
    assert read_plain(13, encode(endpoints, 13), batches) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_does_not_fit_the_request_is_not_plain(version: int) -> None:
    batches = batches_of(PLACES)
    assert offsets(version, PLACES[:3], batches) is None
    assert offsets(version, PLACES, batches[:3]) is None
    assert offsets(version, [PLACES[0], PLACES[0]], batches_of([PLACES[0], PLACES[2]])) is None
    assert offsets(version, [PLACES[0], PLACES[2]], batches_of(PLACES[:2])) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_cut_off_anywhere_it_is_not_plain(version: int) -> None:
    batches = batches_of(PLACES)
    body = encode(response(PLACES), version)
    assert all(read_plain(version, body[:size], batches) is None for size in range(len(body)))


@given(version=st.sampled_from(VERSIONS), noise=st.binary(max_size=80))
def test_any_bytes_can_come(version: int, noise: bytes) -> None:
    batches = batches_of(PLACES[:1])
    body = encode(response(PLACES[:1]), version)
    for some in (noise, body[: len(noise)] + noise):
        answer = read_plain(version, some, batches)
        assert answer is None or answer.base_offsets[0] >= -1


def test_an_offset_that_no_broker_gives_is_not_plain() -> None:
    """It could stand for "not told yet", and then one partition told twice would speak for another one."""
    for offset in (-2, -(2**31), -(2**63)):
        assert offsets(9, PLACES, batches_of(PLACES), base_offset=offset) is None


def test_a_message_without_an_end_is_not_null() -> None:
    after_it = b"\x00\x00" + (12).to_bytes(4, "big") + b"\x00"
    body = encode(response(PLACES[:1]), 9)
    assert body.endswith(b"\x00" + after_it)
    endless = body[: -len(after_it) - 1] + b"\xff\xff\xff\xff" + after_it
    assert read_plain(9, endless, batches_of(PLACES[:1])) is None


@pytest.mark.parametrize("rows", [b"\x00", b"\x01"])
def test_a_topic_without_partitions_is_not_plain(rows: bytes) -> None:
    batches = batches_of(PLACES[:1])
    body = encode(response(PLACES[:1]), 9)
    assert read_plain(9, body, batches) is not None
    assert read_plain(9, b"\x03" + b"\x02x" + rows + b"\x00" + body[1:], batches) is None
