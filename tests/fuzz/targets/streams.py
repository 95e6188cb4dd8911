"""Bytes from a socket: frames on a connection, and plain Produce responses."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple
from uuid import UUID

from aioprod.errors import BrokerError, ProtocolError
from aioprod.messages import (
    ApiVersionsResponse,
    FetchRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.produce import PartitionProduceResponse, TopicProduceResponse
from aioprod.messages.registry import REQUESTS
from aioprod.net.dialing import hello
from aioprod.net.protocol.connection import Connection, Phase
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.produce import FIRST_WITH_TOPIC_IDS, read_plain
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import encode_response
from aioprod.wire.schema import AnyRequest
from tests.support.accumulators import Harness
from tests.support.messages import filled

__all__ = ["answer", "answer_seeds", "framing", "framing_seeds"]

FRAME_SIZE_MAX = 1 << 16
REQUESTS_SENT: tuple[tuple[type[AnyRequest], int], ...] = (
    (ProduceRequest, 9),
    (MetadataRequest, 12),
    (ProduceRequest, 7),
    (FetchRequest, 12),
    (InitProducerIdRequest, 4),
)
"""The requests that are sent in turn, class and version: with old headers and new ones."""
AHEAD = 3
CHUNKS_MAX = 100
VERSIONS_ANSWER = ApiVersionsResponse(
    api_keys=tuple(ApiVersion(api_key=kind.API_KEY, min_version=0, max_version=99) for kind in REQUESTS)
)
GREETING = encode_response(ApiVersionsResponse(), 3, 1)


# --- frames on a connection


class Received(NamedTuple):
    """The responses that a connection has read from a stream, with correlation ids, and the error that ended it."""

    answers: list[tuple[int, bytes]]
    error: Exception | None


def framing(data: bytes) -> None:
    """Input: number of sizes, sizes of chunks, the stream. In any chunks it has the same responses.

    With an odd first byte the stream begins a connection, else ApiVersions was answered before.
    """
    if not data:
        return
    count = (data[0] >> 1) % 16
    sizes = [size or 256 for size in data[1 : 1 + count]]
    stream = data[1 + count :]
    is_new = bool(data[0] & 1)
    whole = feed([stream], is_new)
    received = feed(chunks(stream, sizes), is_new)
    # Responses before garbage in the same chunk may be lost with it, and nothing else.
    assert received.answers[: len(whole.answers)] == whole.answers
    assert (received.error is None) == (whole.error is None)
    assert whole.error is not None or received.answers == whole.answers
    if received.error is not None:
        raise received.error


def chunks(stream: bytes, sizes: list[int]) -> list[bytes]:
    """The stream as a socket may deliver it; the rest after the last size is one chunk."""
    found: list[bytes] = []
    position = 0
    while sizes and position < len(stream) and len(found) < CHUNKS_MAX:
        size = sizes[len(found) % len(sizes)]
        found.append(stream[position : position + size])
        position += size
    return [*found, stream[position:]] if position < len(stream) else found


def feed(parts: list[bytes], is_new: bool) -> Received:
    """Feed a connection, which sends one more request for each response."""
    state = Connection(
        "Broker 1",
        client_id="fuzz",
        hello=hello(),
        request_timeout_s=30.0,
        frame_size_max=FRAME_SIZE_MAX,
    )
    state.open(0.0)
    sent_count = 1
    if not is_new:
        state.received(GREETING, len(GREETING), 0.0)
        assert state.next_answered() is None
        assert state.phase is Phase.READY
        for _ in range(AHEAD):
            send(state, sent_count)
            sent_count += 1
    answers: list[tuple[int, bytes]] = []
    error: Exception | None = None
    try:
        for part in parts:
            state.received(part, len(part), 1.0)
            while (exchange := state.next_answered()) is not None:
                assert exchange.correlation_id == len(answers) + 2
                assert exchange.body is not None
                answers.append((exchange.correlation_id, bytes(exchange.body)))
                send(state, sent_count)
                sent_count += 1
    except (ProtocolError, BrokerError) as fault:
        error = fault
    assert state.next_deadline() > 0.0
    reason, outstanding = state.close(None)
    assert str(reason)
    assert state.phase is Phase.CLOSED
    if not is_new:
        assert len(outstanding) + len(answers) + 1 == sent_count
    return Received(answers, error)


def send(state: Connection, number: int) -> None:
    """Send the request of that number."""
    kind, version = REQUESTS_SENT[number % len(REQUESTS_SENT)]
    state.begin(kind, version, kind.is_flexible(version), 10, 0.0, lambda body, error: None)


def framing_seeds() -> Iterator[bytes]:
    """Valid responses, errors of ApiVersions, and other protocols."""
    answers = b""
    for number in range(1, 6):
        kind, version = REQUESTS_SENT[number % len(REQUESTS_SENT)]
        answers += encode_response(filled(kind.RESPONSE, version), version, number + 1)
    for sizes in ((), (1,), (3, 50, 7), (4,), (5, 0)):
        yield bytes([2 * len(sizes), *sizes]) + answers
    for version, code in ((4, 0), (3, 0), (0, 35), (3, 42)):
        message = ApiVersionsResponse(error_code=code, api_keys=VERSIONS_ANSWER.api_keys)
        yield b"\x03\x05" + encode_response(message, version, 1)
    rejected = ApiVersionsResponse(error_code=35, api_keys=(ApiVersion(api_key=18, min_version=0, max_version=2),))
    yield b"\x01" + encode_response(rejected, 0, 1) + encode_response(VERSIONS_ANSWER, 2, 2)
    for garbage in (
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\x15\x03\x03\x00\x02\x02\x28",
        b"\x7f\xff\xff\xff",
        b"\xff" * 9,
    ):
        yield b"\x00" + garbage
        yield b"\x01" + garbage


# --- the plain answer

IDS = {"t": UUID(int=2**127 + 1), "other": UUID(int=2)}
PLACES = (("t", 0), ("other", 1), ("t", 1), ("other", 200))
FIRST_VERSION, LAST_VERSION = ProduceResponse.VERSIONS


@cache
def sent() -> list[Batch]:
    """The batches of the request that the response is for."""
    harness = Harness()
    for name, topic_id in IDS.items():
        harness.lead(dict.fromkeys(range(201), 1), name=name)
        harness.accumulator.topic(name, 0.0).topic_id = topic_id.bytes
    for name, partition in PLACES:
        harness.append(b"v", name=name, partition=partition)
    return harness.drain()


def answer(data: bytes) -> None:
    """Input: version, body. If the fast path reads a response, the codec decodes it to the same, and nothing else."""
    if not data:
        return
    version = FIRST_VERSION + data[0] % (LAST_VERSION - FIRST_VERSION + 1)
    body = data[1:]
    batches = sent()
    plain = read_plain(version, body, batches)
    if plain is None:
        return
    response = decode(ProduceResponse, version, body)
    rows = {
        (topic.name or topic.topic_id, row.index): row
        for topic in response.responses
        for row in topic.partition_responses
    }
    assert len(rows) == len(batches) == sum(len(topic.partition_responses) for topic in response.responses)
    for place, batch in enumerate(batches):
        name = batch.partition.topic.name
        row = rows[IDS[name] if version >= FIRST_WITH_TOPIC_IDS else name, batch.partition.index]
        assert (row.base_offset, row.log_append_time_ms) == (plain.base_offsets[place], plain.append_times[place])
        expected = PartitionProduceResponse(
            index=row.index,
            base_offset=row.base_offset,
            log_append_time_ms=row.log_append_time_ms,
            log_start_offset=row.log_start_offset,
        )
        assert row == expected
    assert plain.throttle_time_ms == response.throttle_time_ms
    assert response.node_endpoints == ()


def answer_seeds() -> Iterator[bytes]:
    """Plain responses in every version, in the order of the request and in another one, and others."""
    for version in range(FIRST_VERSION, LAST_VERSION + 1):
        for names in (("t", "other"), ("other", "t")):
            yield bytes([version - FIRST_VERSION]) + encode(stored(names), version)
        error = PartitionProduceResponse(index=0, error_code=6, base_offset=-1)
        rejected = TopicProduceResponse(name="t", topic_id=IDS["t"], partition_responses=(error,))
        yield bytes([version - FIRST_VERSION]) + encode(ProduceResponse(responses=(rejected,)), version)


def stored(names: tuple[str, ...]) -> ProduceResponse:
    """Every batch is stored."""
    topics = tuple(
        TopicProduceResponse(
            name=name,
            topic_id=IDS[name],
            partition_responses=tuple(
                PartitionProduceResponse(index=index, base_offset=1000 + index, log_start_offset=3)
                for topic, index in PLACES
                if topic == name
            ),
        )
        for name in names
    )
    return ProduceResponse(responses=topics, throttle_time_ms=5)
