"""The log-in of one connection to a fake broker, as Kafka's brokers do it (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from aioprod.core.sasl.aws_msk_iam import AwsKeys, signed_query
from aioprod.core.sasl.claims import claims_of
from aioprod.core.sasl.scram import SCRAM_MECHANISMS
from aioprod.errors import ErrorCode
from aioprod.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.messages.sasl_authenticate import SaslAuthenticateResponse
from aioprod.messages.sasl_handshake import SaslHandshakeResponse
from aioprod.testing.acls import ANONYMOUS
from aioprod.wire.schema import AnyRequest

if TYPE_CHECKING:
    from aioprod.testing.security import Security

__all__ = ["Gate", "RefusedError"]

SALT: Final = b"aioprod fake salt"
ITERATIONS: Final = 4096


class RefusedError(Exception):
    """The log-in is not accepted: error 58 with this text, then the connection ends."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The last token of the exchange, who logged in, and how long that holds at most."""

    token: bytes
    principal: str
    lifetime_s: float | None = None


Server: TypeAlias = Generator[bytes, bytes, Accepted]
"""Receives the client's tokens, yields the answers, returns when the client is accepted; raises RefusedError."""


class Gate:
    """Which requests one connection may send. `now` is the loop's time, `wall` that of tokens; `security` None: all.

    `principal` is what the broker calls the client: by its log-in, else by the name in its `certificate`, which is as
    `ssl` describes one.
    """

    def __init__(
        self,
        security: Security | None,
        now: Callable[[], float],
        wall: Callable[[], float],
        certificate: Mapping[str, Any] | None = None,
    ) -> None:
        self.principal = _principal_of(certificate)
        self._security = security if security is not None and security.has_login else None
        self._now = now
        self._wall = wall
        self._ends: float | None = None
        self._server: Server | None = None
        self._mechanism = ""
        self._first = ""

    def lets_pass(self, message: AnyRequest) -> bool:
        """Whether the broker reads this request at all; if not, it ends the connection without an answer."""
        if self._security is None or isinstance(message, (SaslHandshakeRequest, SaslAuthenticateRequest)):
            return True
        if self._server is not None:
            return False
        if not self._first:
            return isinstance(message, ApiVersionsRequest)
        return self._ends is None or self._now() < self._ends

    def handshake(self, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """The client names a mechanism."""
        if self._security is None:
            return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        offered = tuple(self._security.mechanisms)
        if message.mechanism not in offered:
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self._mechanism = message.mechanism
        self._server = _server(self._security, message.mechanism, self._wall)
        next(self._server)
        return SaslHandshakeResponse(mechanisms=offered)

    def authenticate(self, message: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        """The client sends a token. An answer with an error is the last one of the connection."""
        if self._security is None or self._server is None:
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        try:
            return SaslAuthenticateResponse(auth_bytes=self._server.send(message.auth_bytes))
        except StopIteration as ended:
            accepted: Accepted = ended.value
        except RefusedError as refused:
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(refused))
        self._server = None
        if self._first and self._first != accepted.principal:
            text = f"Cannot change principals during re-authentication from {self._first} to {accepted.principal}"
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
        self.principal = self._first = accepted.principal
        limits = [self._security.session_ms / 1000.0] if self._security.session_ms else []
        if accepted.lifetime_s is not None:
            limits.append(accepted.lifetime_s)
        self._ends = self._now() + min(limits) if limits else None
        return SaslAuthenticateResponse(
            auth_bytes=accepted.token, session_lifetime_ms=int(min(limits, default=0.0) * 1000)
        )


def _principal_of(certificate: Mapping[str, Any] | None) -> str:
    subject = dict(name for names in (certificate or {}).get("subject", ()) for name in names)
    return f"User:CN={subject['commonName']}" if "commonName" in subject else ANONYMOUS


def _server(security: Security, mechanism: str, wall: Callable[[], float]) -> Server:
    if mechanism == "PLAIN":
        return _plain(security)
    if mechanism == "AWS_MSK_IAM":
        return _msk(security, wall)
    assert mechanism != "GSSAPI", "Fake brokers have no Kerberos."
    return _bearer(wall) if mechanism == "OAUTHBEARER" else _scram(security, mechanism)


def _plain(security: Security) -> Server:
    _, user, password = (yield b"").decode().split("\0")
    if security.users.get(user) != password:
        raise RefusedError("Authentication failed: Invalid username or password")
    return Accepted(b"", f"User:{user}")


def _scram(security: Security, mechanism: str) -> Server:
    name = SCRAM_MECHANISMS[mechanism]
    refused = RefusedError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    first = (yield b"").decode().removeprefix("n,,")
    fields = dict(part.split("=", 1) for part in first.split(","))
    user = fields["n"].replace("=2C", ",").replace("=3D", "=")
    if user not in security.users:
        raise refused
    salted = hashlib.pbkdf2_hmac(name, security.users[user].encode(), SALT, ITERATIONS)
    challenge = f"r={fields['r']}fake,s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
    final = (yield challenge.encode()).decode()
    without_proof, _, proof = final.rpartition(",p=")
    message = f"{first},{challenge},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    if bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) != client_key:
        raise refused
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    return Accepted(b"v=" + base64.b64encode(verifier), f"User:{user}")


def _bearer(wall: Callable[[], float]) -> Server:
    token = (yield b"").split(b"\1auth=Bearer ")[1].split(b"\1")[0]
    claims = claims_of(token.decode()) or {}
    left_s, user = claims.get("exp", 0.0) - wall(), claims.get("sub", "")
    if left_s <= 0:
        yield b'{"status":"invalid_token"}'
        raise RefusedError('{"status":"invalid_token"}')
    return Accepted(b"", f"User:{user}", left_s)


def _msk(security: Security, wall: Callable[[], float]) -> Server:
    """Amazon MSK, where the users are access keys and their passwords the secret ones."""
    fields = json.loads((yield b"").decode())
    access, _, region, *_ = fields["x-amz-credential"].split("/")
    signed_at = datetime.strptime(fields["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    keys = AwsKeys(access, security.users.get(access, ""), fields.get("x-amz-security-token", ""))
    expected = {name.lower(): value for name, value in signed_query(fields["host"], region, keys, signed_at)}
    expected |= {"version": "2020_10_22", "host": fields["host"], "user-agent": fields["user-agent"]}
    age_s = wall() - signed_at
    if access not in security.users or fields != expected or not -300 <= age_s < int(fields["x-amz-expires"]):
        raise RefusedError(f"[{uuid.UUID(int=1)}]: Access denied")
    return Accepted(
        json.dumps({"version": "2020_10_22", "request-id": str(uuid.UUID(int=1))}).encode(), f"User:{access}"
    )
