from __future__ import annotations

import math
from typing import Any

import pytest

from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    BrokerError,
    ErrorCode,
    ProtocolError,
    RequestTimedOutError,
)
from aioprod.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeGroupsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.registry import decode_request
from aioprod.net.protocol.connection import START_FRAME_MAX, THROTTLE_MAX_S, Connection, Exchange, Phase
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from aioprod.wire.frame import encode_response
from aioprod.wire.schema import AnyRequest
from tests.support.responses import responses

PEER = "Broker 1 at localhost:9092"


class Answers:
    """Collects what exchanges are completed with."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes | None, AioprodError | None]] = []

    def of(self, name: str) -> Any:
        return lambda body, error: self.got.append((name, None if body is None else bytes(body), error))


def new_connection(**options: Any) -> Connection:
    settings: dict[str, Any] = {
        "client_id": "test",
        "hello": ApiVersionsRequest(client_software_name="aioprod", client_software_version="0.1.0"),
        "request_timeout_s": 30.0,
    }
    return Connection(PEER, **(settings | options))


def sent_versions_request(connection: Connection) -> tuple[int, int, ApiVersionsRequest]:
    """Version, correlation id and message of the ApiVersions request that is to be written."""
    output = connection.take_output()
    assert int.from_bytes(output[:4], "big") == len(output) - 4
    header, message = decode_request(output[4:])
    assert isinstance(message, ApiVersionsRequest)
    assert header.client_id == "test"
    return header.version, header.correlation_id, message


def versions_answer(correlation_id: int, version: int = 4, error: int = 0, **fields: Any) -> bytes:
    rows = (
        ApiVersion(api_key=3, min_version=0, max_version=12),
        ApiVersion(api_key=18, min_version=0, max_version=4),
    )
    values: dict[str, Any] = {"error_code": error, "api_keys": rows} | fields
    answer = ApiVersionsResponse(**values)
    return encode_response(answer, version, correlation_id)


def drain(connection: Connection, data: bytes, now: float = 1.0) -> list[tuple[Exchange, bytes]]:
    return [(exchange, bytes(body)) for exchange, body in responses(connection, data, now)]


def ready_connection(now: float = 0.0, **options: Any) -> Connection:
    connection = new_connection(**options)
    connection.open(now)
    _, correlation_id, _ = sent_versions_request(connection)
    assert drain(connection, versions_answer(correlation_id), now) == []
    assert connection.phase is Phase.READY
    return connection


def ask(
    connection: Connection,
    kind: type[AnyRequest] = MetadataRequest,
    version: int = 12,
    now: float = 1.0,
    complete: Any = print,
    **options: Any,
) -> int:
    """Begin a request without a body; returns its correlation id. Nobody calls `complete` here."""
    head = connection.begin(kind, version, kind.is_flexible(version), 0, now, complete, **options)
    return int.from_bytes(head[8:12], "big")


def metadata_answer(correlation_id: int, cluster_id: str = "c", version: int = 12) -> bytes:
    return encode_response(MetadataResponse(cluster_id=cluster_id), version, correlation_id)


# -- start-up --------------------------------------------------------------------------------------------------------


def test_requests_the_versions_first_and_is_ready_with_the_answer() -> None:
    connection = new_connection()
    phases = [connection.phase]
    connection.open(5.0)
    phases.append(connection.phase)
    version, correlation_id, message = sent_versions_request(connection)
    assert version == 4
    assert (message.client_software_name, message.client_software_version) == ("aioprod", "0.1.0")
    assert connection.take_output() == b""
    drain(connection, versions_answer(correlation_id), 6.0)
    assert [*phases, connection.phase] == [Phase.NEW, Phase.NEGOTIATING, Phase.READY]
    assert connection.versions is not None
    assert connection.versions.pick(MetadataRequest) == 12
    assert connection.last_used == 6.0
    assert not connection.exchanges


def test_retries_with_the_version_that_the_broker_names() -> None:
    connection = new_connection()
    connection.open(0.0)
    _, correlation_id, _ = sent_versions_request(connection)
    rows = (ApiVersion(api_key=18, min_version=0, max_version=2),)
    drain(connection, versions_answer(correlation_id, 0, 35, api_keys=rows))
    version, correlation_id, _ = sent_versions_request(connection)
    assert version == 2
    drain(connection, versions_answer(correlation_id, 2))
    assert connection.phase is Phase.READY


def test_falls_back_to_version_0_for_a_broker_that_names_none() -> None:
    connection = new_connection()
    connection.open(0.0)
    _, correlation_id, _ = sent_versions_request(connection)
    drain(connection, versions_answer(correlation_id, 0, 35, api_keys=()))
    version, correlation_id, _ = sent_versions_request(connection)
    assert version == 0
    drain(connection, versions_answer(correlation_id, 0))
    assert connection.phase is Phase.READY


def test_falls_back_to_version_0_when_the_error_can_not_be_read() -> None:
    connection = new_connection()
    connection.open(0.0)
    _, correlation_id, _ = sent_versions_request(connection)
    refusal = correlation_id.to_bytes(4, "big") + b"\x00\x23\x01\x00\x12"
    drain(connection, len(refusal).to_bytes(4, "big") + refusal)
    version, correlation_id, _ = sent_versions_request(connection)
    assert version == 0
    refusal = correlation_id.to_bytes(4, "big") + b"\x00\x23\x01\x00\x12"
    with pytest.raises(ProtocolError, match="is not a Kafka broker"):
        drain(connection, len(refusal).to_bytes(4, "big") + refusal)


def test_a_broker_that_names_the_rejected_version_gets_ever_lower_ones() -> None:
    connection = new_connection()
    connection.open(0.0)
    for expected in (4, 3, 2, 1):
        version, correlation_id, _ = sent_versions_request(connection)
        assert version == expected
        drain(connection, versions_answer(correlation_id, 0, 35))
    version, correlation_id, _ = sent_versions_request(connection)
    assert version == 0
    with pytest.raises(BrokerError) as caught:
        drain(connection, versions_answer(correlation_id, 0, 35))
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("code", "name"), [(42, "INVALID_REQUEST"), (999, "error 999")])
def test_another_error_ends_the_start_up(code: int, name: str) -> None:
    connection = new_connection()
    connection.open(0.0)
    _, correlation_id, _ = sent_versions_request(connection)
    with pytest.raises(BrokerError) as caught:
        drain(connection, versions_answer(correlation_id, error=code))
    assert str(caught.value) == f"{PEER} answered ApiVersions v4 with {name}."
    assert caught.value.code == code


def test_throttle_in_the_answer_to_api_versions_counts() -> None:
    connection = new_connection()
    connection.open(0.0)
    _, correlation_id, _ = sent_versions_request(connection)
    drain(connection, versions_answer(correlation_id, throttle_time_ms=250), 2.0)
    assert connection.throttled_until == 2.25


# -- peers that are no brokers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", f"{PEER} is an HTTP server, no Kafka broker."),
        (b"\x15\x03\x03\x00\x02\x02\x46", f"{PEER} speaks TLS and was spoken to in plaintext."),
        (b"SSH-2.0-OpenSSH", f"{PEER} announces a frame of 1397966893 bytes; 0 to 2000000 are accepted."),
        (b"\0\0\0\x04\0\0\0\x63", f"{PEER} is not a Kafka broker: it answered request 99 where 1 is next."),
        (b"\0\0\0\x05\0\0\0\x01\0", f"{PEER} is not a Kafka broker: This is not a valid ApiVersionsResponse v4"),
        (b"\0\0\0\x01\0", f"{PEER} is not a Kafka broker: "),
    ],
)
def test_the_error_says_that_a_peer_is_no_broker(data: bytes, message: str) -> None:
    connection = new_connection()
    connection.open(0.0)
    with pytest.raises(ProtocolError) as caught:
        drain(connection, data)
    assert caught.value.message.startswith(message)
    assert caught.value.hint is not None


def test_a_frame_over_the_limit_raises_when_its_size_is_known() -> None:
    connection = ready_connection(frame_size_max=1000)
    ask(connection)
    with pytest.raises(ProtocolError, match="announces a frame of 1001 bytes") as caught:
        drain(connection, (1001).to_bytes(4, "big"))
    assert caught.value.hint is None


# -- requests and answers --------------------------------------------------------------------------------------------


def test_answers_are_small_until_requests_may_be_sent() -> None:
    connection = new_connection()
    connection.open(0.0)
    with pytest.raises(ProtocolError, match="announces a frame of 2000001 bytes; 0 to 2000000 are accepted"):
        drain(connection, (START_FRAME_MAX + 1).to_bytes(4, "big"))
    ready = ready_connection()
    assert drain(ready, (START_FRAME_MAX + 1).to_bytes(4, "big")) == []


def test_header_and_size_go_before_the_body() -> None:
    connection = ready_connection()
    message = MetadataRequest(topics=None)
    for version in (1, 9):
        body = encode(message, version)
        flexible = message.is_flexible(version)
        frame = connection.begin(MetadataRequest, version, flexible, len(body), 1.0, None) + body
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header, decoded = decode_request(frame[4:])
        assert (header.version, header.client_id, decoded) == (version, "test", message)


def test_answers_come_back_in_the_order_of_the_requests() -> None:
    connection = ready_connection()
    answers = Answers()
    ids = [ask(connection, complete=answers.of(f"r{n}")) for n in range(3)]
    assert len(set(ids)) == 3
    data = b"".join(metadata_answer(correlation_id, f"cluster-{n}") for n, correlation_id in enumerate(ids))
    for exchange, body in responses(connection, data, 2.0):
        assert exchange.complete is not None
        exchange.complete(body, None)
    assert [name for name, _, _ in answers.got] == ["r0", "r1", "r2"]
    decoded = [decode(MetadataResponse, 12, body or b"") for _, body, _ in answers.got]
    assert [message.cluster_id for message in decoded] == ["cluster-0", "cluster-1", "cluster-2"]
    assert connection.last_used == 2.0
    assert connection.next_deadline() == math.inf


def test_bytes_may_come_one_at_a_time() -> None:
    connection = new_connection()
    connection.open(0.0)
    _, correlation_id, _ = sent_versions_request(connection)
    *before, last = versions_answer(correlation_id)
    for byte in before:
        drain(connection, bytes([byte]))
    assert connection.versions is None
    drain(connection, bytes([last]))
    assert connection.phase is Phase.READY
    data = metadata_answer(ask(connection)) + metadata_answer(ask(connection, version=1), version=1)
    got = [pair for byte in data for pair in drain(connection, bytes([byte]))]
    assert [exchange.version for exchange, _ in got] == [12, 1]


def test_a_truncated_answer_completes_nothing() -> None:
    data = metadata_answer(ask(ready_connection()))
    for end in range(len(data)):
        connection = ready_connection()
        ask(connection)
        assert drain(connection, data[:end]) == []
        assert len(connection.exchanges) == 1


def test_answers_before_the_fault_are_delivered() -> None:
    connection = ready_connection()
    first = ask(connection)
    ask(connection)
    received = responses(connection, metadata_answer(first) + metadata_answer(77), 1.0)
    exchange, _ = next(received)
    assert exchange.correlation_id == first
    with pytest.raises(ProtocolError) as caught:
        next(received)
    assert str(caught.value) == f"{PEER} broke the protocol: it answered request 77 where {first + 1} is next."


def test_bytes_without_a_request_are_a_fault() -> None:
    with pytest.raises(ProtocolError, match="broke the protocol: it sent bytes without a request"):
        drain(ready_connection(), metadata_answer(1))


def test_a_malformed_header_is_a_fault() -> None:
    connection = ready_connection()
    ask(connection)
    with pytest.raises(ProtocolError, match="broke the protocol: "):
        drain(connection, b"\0\0\0\x02\0\0")


def test_a_request_without_an_answer_is_not_waited_for() -> None:
    connection = ready_connection()
    quiet = ask(connection, ProduceRequest, 9, 4.0, expect_response=False)
    assert not connection.exchanges
    assert connection.last_used == 4.0
    assert ask(connection) == quiet + 1


def test_correlation_ids_stay_within_their_type() -> None:
    connection = ready_connection()
    connection._correlation_id = 0x7FFF_FFFE
    assert [ask(connection), ask(connection), ask(connection)] == [0x7FFF_FFFF, 0, 1]


# -- throttling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "version", "until"),
    [(ProduceRequest, 5, 0.0), (ProduceRequest, 6, 11.5), (MetadataRequest, 5, 0.0), (MetadataRequest, 6, 11.5)],
)
def test_only_versions_that_leave_the_wait_to_the_client_throttle(
    kind: type[AnyRequest], version: int, until: float
) -> None:
    connection = ready_connection()
    connection.throttle(kind, version, 1500, 10.0)
    assert connection.throttled_until == until


def test_a_throttle_lasts_a_minute_at_most() -> None:
    connection = ready_connection()
    connection.throttle(ProduceRequest, 9, 2**31 - 1, 5.0)
    assert connection.throttled_until == 5.0 + THROTTLE_MAX_S


def test_throttling_is_never_cut_short() -> None:
    connection = ready_connection()
    connection.throttle(ProduceRequest, 9, 5000, 0.0)
    connection.throttle(ProduceRequest, 9, 100, 1.0)
    connection.throttle(ProduceRequest, 9, 0, 1.0)
    connection.throttle(DescribeGroupsRequest, 1, 60_000, 1.0)
    assert connection.throttled_until == 5.0


# -- deadlines -------------------------------------------------------------------------------------------------------


def test_the_earliest_deadline_counts_whatever_the_order() -> None:
    connection = ready_connection()
    ask(connection, now=10.0)
    ask(connection, ProduceRequest, 9, 11.0, timeout_s=5.0)
    assert connection.next_deadline() == 16.0
    assert connection.overdue(15.9) is None
    error = connection.overdue(16.0)
    assert isinstance(error, RequestTimedOutError)
    assert str(error) == f"{PEER} did not answer Produce within 5 s, so the connection was aborted."


def test_the_error_says_that_a_peer_is_silent() -> None:
    connection = new_connection(request_timeout_s=2.5)
    connection.open(0.0)
    error = connection.overdue(2.5)
    assert error is not None
    assert error.message == f"{PEER} accepted the connection and did not answer ApiVersions within 2.5 s."
    assert error.hint is not None


# -- the end ---------------------------------------------------------------------------------------------------------


RESET = ConnectionResetError(104, "Connection reset by peer")


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (
            None,
            f"{PEER} closed the connection before it answered ApiVersions, as a TLS listener or no Kafka broker does.",
        ),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            f"{PEER} broke the connection (Connection reset by peer)",
        ),
    ],
)
def test_the_end_before_the_versions_are_known(cause: OSError | None, message: str) -> None:
    connection = new_connection()
    connection.open(0.0)
    error, outstanding = connection.close(cause)
    assert isinstance(error, BrokerConnectionError)
    assert error.message.startswith(message)
    assert (error.hint or "").endswith(" For one with TLS set security.protocol to SSL or SASL_SSL.")
    assert error.__cause__ is cause
    assert [exchange.complete for exchange in outstanding] == [None]
    assert connection.phase is Phase.CLOSED


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (None, f"{PEER} closed the connection."),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            f"The connection to {PEER} was lost: Connection reset by peer.",
        ),
        (OSError(), f"The connection to {PEER} was lost: OSError()."),
    ],
)
def test_the_end_later_gives_back_what_is_outstanding(cause: OSError | None, message: str) -> None:
    connection = ready_connection()
    drain(connection, metadata_answer(ask(connection)))
    ids = [ask(connection), ask(connection)]
    error, outstanding = connection.close(cause)
    assert str(error) == message
    assert [exchange.correlation_id for exchange in outstanding] == ids
    assert not connection.exchanges


def test_a_listener_that_wants_a_log_in_closes_at_the_first_request() -> None:
    connection = ready_connection(protocol="SSL")
    ask(connection)
    error, _ = connection.close(None)
    assert error.message == (
        f"{PEER} closed the connection in place of an answer to the first request, as a listener with SASL does."
    )
    assert error.hint == "If it wants a log-in, set security.protocol to SASL_SSL, and sasl.mechanism."


def test_the_first_reason_for_the_end_wins() -> None:
    connection = ready_connection()
    reason = RequestTimedOutError("too late")
    connection.error = reason
    assert connection.close(ConnectionResetError(104, "reset")) == (reason, [])


def test_complete_takes_any_buffer() -> None:
    bodies: list[Buffer | None] = []
    connection = ready_connection()
    correlation_id = ask(connection, complete=lambda body, error: bodies.append(body))
    ((exchange, body),) = responses(connection, metadata_answer(correlation_id), 1.0)
    assert exchange.complete is not None
    exchange.complete(body, None)
    assert isinstance(bodies[0], memoryview)
