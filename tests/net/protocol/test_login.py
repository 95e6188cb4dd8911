"""The log-in of a connection, with a broker made of bytes: what leaves, when it is ready, what it says when refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aioprod.errors import AuthenticationError, BrokerConnectionError, ErrorCode, ProtocolError
from aioprod.messages import (
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from aioprod.messages.api_versions import ApiVersion
from aioprod.messages.registry import decode_request
from aioprod.messages.sasl_authenticate import SaslAuthenticateResponse
from aioprod.messages.sasl_handshake import SaslHandshakeResponse
from aioprod.net.dialing import hello
from aioprod.net.protocol.connection import Connection, Phase
from aioprod.net.protocol.login import Login
from aioprod.net.protocol.sasl.mechanism import Steps
from aioprod.net.protocol.sasl.oauthbearer import oauthbearer
from aioprod.net.protocol.sasl.plain import plain
from aioprod.net.protocol.sasl.scram import Scram
from aioprod.wire.frame import RequestHeader, encode_response
from aioprod.wire.schema import Message
from tests.support.responses import responses

PEER = "Broker 1 at localhost:9092"
KEYS = {3: 12, 17: 1, 18: 4, 36: 2}

Sent = list[tuple[RequestHeader, Message]]


def new_login(mechanism: str = "PLAIN", steps: Steps | None = None) -> Login:
    return Login(mechanism, steps or plain("alice", "hunter2"), user="user 'alice'", hint="Check sasl.password.")


def sent(connection: Connection) -> Sent:
    """The requests that are to be written."""
    output = connection.take_output()
    found: Sent = []
    while output:
        size = int.from_bytes(output[:4], "big")
        found.append(decode_request(output[4 : 4 + size]))
        output = output[4 + size :]
    return found


def feed(connection: Connection, request: RequestHeader, answer: Any, now: float = 1.0) -> list[int]:
    """Answer a request; the correlation ids of the users' requests that this completes."""
    data = encode_response(answer, request.version, request.correlation_id)
    return [exchange.correlation_id for exchange, _ in responses(connection, data, now)]


def negotiated(login: Login, protocol: str = "SASL_PLAINTEXT") -> Connection:
    """A connection whose versions are known."""
    connection = Connection(
        PEER,
        client_id="test",
        hello=hello(),
        request_timeout_s=30.0,
        protocol=protocol,
        login=login,
    )
    connection.open(0.0)
    ((header, _),) = sent(connection)
    rows = tuple(ApiVersion(api_key=key, min_version=0, max_version=top) for key, top in KEYS.items())
    feed(connection, header, ApiVersionsResponse(api_keys=rows))
    return connection


def logged_in(lifetime_ms: int = 0, now: float = 1.0) -> Connection:
    connection = negotiated(new_login())
    (handshake, _), (token, _) = sent(connection)
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("PLAIN",)))
    feed(connection, token, SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms), now)
    return connection


def phase_of(connection: Connection) -> Phase:
    """Its phase; a call, as a type checker believes that an attribute stays as it is."""
    return connection.phase


def ask(connection: Connection, now: float = 5.0) -> RequestHeader:
    """A user's request is on its way."""
    data = connection.begin(MetadataRequest, 12, True, 0, now, print)
    return RequestHeader(3, 12, int.from_bytes(data[8:12], "big"), "test", memoryview(b""))


def test_handshake_and_first_token_leave_together_and_ready_comes_with_the_last_answer() -> None:
    connection = negotiated(new_login())
    assert phase_of(connection) is Phase.AUTHENTICATING
    (handshake, first), (token, second) = sent(connection)
    assert (handshake.version, first) == (1, SaslHandshakeRequest(mechanism="PLAIN"))
    assert (token.version, second) == (2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"))
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("PLAIN",)))
    assert phase_of(connection) is Phase.AUTHENTICATING
    feed(connection, token, SaslAuthenticateResponse(session_lifetime_ms=5000), 2.0)
    assert phase_of(connection) is Phase.READY
    assert connection.login is not None
    assert (connection.login.session_lifetime_s, connection.logged_in_at) == (5.0, 2.0)
    assert sent(connection) == []


def test_work_is_left_to_the_owner() -> None:
    connection = negotiated(new_login("SCRAM-SHA-256", Scram("SCRAM-SHA-256", "user", "pencil").steps("abc")))
    (handshake, _), (token, message) = sent(connection)
    assert message == SaslAuthenticateRequest(auth_bytes=b"n,,n=user,r=abc")
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)))
    feed(connection, token, SaslAuthenticateResponse(auth_bytes=b"r=abcd,s=AAAA,i=4096"))
    login = connection.login
    assert login is not None
    assert sent(connection) == []
    assert login.work is not None
    connection.worked(login.work.run(), 2.0)
    ((_, message),) = sent(connection)
    assert isinstance(message, SaslAuthenticateRequest)
    assert message.auth_bytes.startswith(b"c=biws,r=abcd,p=")


@pytest.mark.parametrize(
    ("answer", "message", "hint"),
    [
        (
            SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-256", "OAUTHBEARER")),
            f"{PEER} does not take sasl.mechanism=PLAIN; it takes OAUTHBEARER, SCRAM-SHA-256.",
            "Set sasl.mechanism to one that it takes.",
        ),
        (
            SaslHandshakeResponse(error_code=33),
            f"{PEER} does not take sasl.mechanism=PLAIN; it takes none.",
            "Set sasl",
        ),
        (SaslHandshakeResponse(error_code=34), f"{PEER} takes no log-in at this port.", "Set security.protocol to"),
        (
            SaslHandshakeResponse(error_code=-1),
            f"{PEER} rejected the start of the log-in of user 'alice' by PLAIN: UNKNOWN_SERVER_ERROR.",
            None,
        ),
    ],
)
def test_a_rejected_handshake(answer: SaslHandshakeResponse, message: str, hint: str | None) -> None:
    connection = negotiated(new_login())
    (handshake, _), _ = sent(connection)
    with pytest.raises(AuthenticationError) as caught:
        feed(connection, handshake, answer)
    assert caught.value.message == message
    assert (caught.value.hint or "").startswith(hint or "")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            SaslAuthenticateResponse(
                error_code=58, error_message="Authentication failed: Invalid username or password"
            ),
            "Authentication failed: Invalid username or password.",
        ),
        (SaslAuthenticateResponse(error_code=58, error_message="a\nb\0" + "x" * 10_000), "a?b?" + "x" * 496 + "."),
        (SaslAuthenticateResponse(error_code=58), "SASL_AUTHENTICATION_FAILED."),
        (SaslAuthenticateResponse(error_code=999), "error 999."),
    ],
)
def test_a_rejected_log_in(answer: SaslAuthenticateResponse, message: str) -> None:
    connection = negotiated(new_login())
    (handshake, _), (token, _) = sent(connection)
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("PLAIN",)))
    with pytest.raises(AuthenticationError) as caught:
        feed(connection, token, answer)
    assert caught.value.message == f"{PEER} rejected the log-in of user 'alice' by PLAIN: {message}"
    assert caught.value.hint == "Check sasl.password."
    assert "hunter2" not in str(caught.value)


def test_a_token_that_is_rejected_twice_over() -> None:
    connection = negotiated(new_login("OAUTHBEARER", oauthbearer("token", {})))
    (handshake, _), (token, _) = sent(connection)
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("OAUTHBEARER",)))
    feed(connection, token, SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    ((end, message),) = sent(connection)
    assert message == SaslAuthenticateRequest(auth_bytes=b"\1")
    with pytest.raises(AuthenticationError, match="invalid_token"):
        feed(connection, end, SaslAuthenticateResponse(error_code=58, error_message='{"status":"invalid_token"}'))


def test_a_broker_that_breaks_the_rules_of_the_mechanism() -> None:
    connection = negotiated(new_login())
    (handshake, _), (token, _) = sent(connection)
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("PLAIN",)))
    with pytest.raises(AuthenticationError, match="was aborted: Broker 1 at localhost:9092 answered PLAIN with data"):
        feed(connection, token, SaslAuthenticateResponse(auth_bytes=b"?"))


def test_an_answer_that_cannot_be_read() -> None:
    connection = negotiated(new_login())
    (handshake, _), _ = sent(connection)
    with pytest.raises(ProtocolError, match="broke the protocol"):
        list(responses(connection, b"\0\0\0\x05" + handshake.correlation_id.to_bytes(4, "big") + b"\0", 1.0))


def test_the_end_during_the_log_in() -> None:
    error, _ = negotiated(new_login()).close(None)
    assert isinstance(error, BrokerConnectionError)
    assert error.message == f"{PEER} closed the connection during the log-in by PLAIN."


def test_the_end_after_the_log_in_is_not_for_want_of_one() -> None:
    connection = logged_in()
    ask(connection)
    assert connection.close(None)[0].message == f"{PEER} closed the connection."


# -- again on the same connection ------------------------------------------------------------------------------------


def test_requests_before_a_renewal_are_answered_as_ever() -> None:
    connection = logged_in(lifetime_ms=5000)
    first, second = ask(connection), ask(connection)
    connection.renew(new_login(), 6.0)
    assert phase_of(connection) is Phase.RENEWING
    (handshake, _), (token, _) = sent(connection)
    assert feed(connection, first, MetadataResponse()) == [first.correlation_id]
    assert feed(connection, second, MetadataResponse()) == [second.correlation_id]
    assert feed(connection, handshake, SaslHandshakeResponse(mechanisms=("PLAIN",))) == []
    assert phase_of(connection) is Phase.RENEWING
    assert feed(connection, token, SaslAuthenticateResponse(session_lifetime_ms=7000), 6.1) == []
    assert phase_of(connection) is Phase.READY
    assert connection.login is not None
    assert (connection.login.session_lifetime_s, connection.logged_in_at) == (7.0, 6.1)
    third = ask(connection)
    assert feed(connection, third, MetadataResponse()) == [third.correlation_id]


def test_a_renewal_is_no_use_of_the_connection() -> None:
    connection = logged_in(lifetime_ms=5000)
    feed(connection, ask(connection, 2.0), MetadataResponse(), 2.5)
    connection.renew(new_login(), 6.0)
    assert connection.last_used == 2.5
    (handshake, _), (token, _) = sent(connection)
    feed(connection, handshake, SaslHandshakeResponse(mechanisms=("PLAIN",)), 6.1)
    feed(connection, token, SaslAuthenticateResponse(session_lifetime_ms=5000), 6.2)
    assert connection.last_used == 2.5


def test_a_rejected_renewal() -> None:
    connection = logged_in(lifetime_ms=5000)
    connection.renew(new_login(), 6.0)
    (handshake, _), _ = sent(connection)
    with pytest.raises(AuthenticationError, match=r"rejected the start of the log-in .* by PLAIN: ILLEGAL_SASL_STATE"):
        feed(connection, handshake, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))


def test_a_renewal_that_is_not_answered_in_time() -> None:
    connection = logged_in(lifetime_ms=5000)
    assert connection.next_deadline() == math.inf
    connection.renew(new_login(), 6.0)
    error = connection.overdue(36.0)
    assert error is not None
    assert error.message == f"{PEER} did not answer SaslHandshake within 30 s, so the connection was aborted."
