"""The authentication of one connection to a fake broker: SaslHandshake, then SaslAuthenticate with one token each.

The handshake chooses the mechanism (KIP-43); errors are answered before the connection closes (KIP-152); the session
ends after a lifetime unless the client authenticates again on the same connection (KIP-368). Each mechanism is a
generator, the server's side of the exchange, that receives the client's tokens and yields the server's.
"""

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

from aioprod.errors import ErrorCode
from aioprod.messages import ApiVersionsRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.messages.sasl_authenticate import SaslAuthenticateResponse
from aioprod.messages.sasl_handshake import SaslHandshakeResponse
from aioprod.net.protocol.sasl.aws_msk_iam import AwsKeys, signed_query
from aioprod.net.protocol.sasl.claims import claims_of
from aioprod.net.protocol.sasl.scram import SCRAM_MECHANISMS
from aioprod.testing.acls import ANONYMOUS
from aioprod.wire.schema import AnyRequest

if TYPE_CHECKING:
    from aioprod.testing.security import Security

__all__ = ["Authenticator", "LoginFailedError"]

_SALT: Final = b"aioprod fake salt"
_ITERATIONS: Final = 4096


class LoginFailedError(Exception):
    """The log-in fails: the broker answers error 58 with this text and closes the connection."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The last token of the exchange, the client's principal, and the longest lifetime of the session."""

    token: bytes
    principal: str
    lifetime_s: float | None = None


Server: TypeAlias = Generator[bytes, bytes, Accepted]
"""Receives the client's tokens, yields the answers and returns at success; raises LoginFailedError otherwise."""


class Authenticator:
    """Decides which requests one connection may send (without `security` all), and knows the client's `principal`.

    `principal` comes from the log-in, else from the common name of the client's `certificate` (as `getpeercert` returns
    it). `now` is the loop's time, `wall` the time that tokens are compared with, both in seconds.
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

    @property
    def is_over(self) -> bool:
        """Whether there is no log-in to wait for: it was accepted, or none is needed."""
        return self._security is None or self._first != ""

    def may_send(self, message: AnyRequest) -> bool:
        """Whether the broker handles this request; otherwise it closes the connection without an answer."""
        if self._security is None or isinstance(message, (SaslHandshakeRequest, SaslAuthenticateRequest)):
            return True
        if self._server is not None:
            return False
        if not self._first:
            return isinstance(message, ApiVersionsRequest)
        return self._ends is None or self._now() < self._ends

    def handshake(self, message: SaslHandshakeRequest) -> SaslHandshakeResponse:
        """Begin the exchange of the mechanism that the client has chosen."""
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
        """Pass the client's token to the exchange. After a response with an error the broker closes the connection."""
        if self._security is None or self._server is None:
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        try:
            return SaslAuthenticateResponse(auth_bytes=self._server.send(message.auth_bytes))
        except StopIteration as ended:
            accepted: Accepted = ended.value
        except LoginFailedError as error:
            return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error))
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
        raise LoginFailedError("Authentication failed: Invalid username or password")
    return Accepted(b"", f"User:{user}")


def _scram(security: Security, mechanism: str) -> Server:
    name = SCRAM_MECHANISMS[mechanism]
    failure = LoginFailedError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    )
    first = (yield b"").decode().removeprefix("n,,")
    fields = dict(part.split("=", 1) for part in first.split(","))
    user = fields["n"].replace("=2C", ",").replace("=3D", "=")
    if user not in security.users:
        raise failure
    salted = hashlib.pbkdf2_hmac(name, security.users[user].encode(), _SALT, _ITERATIONS)
    challenge = f"r={fields['r']}fake,s={base64.b64encode(_SALT).decode()},i={_ITERATIONS}"
    final = (yield challenge.encode()).decode()
    without_proof, _, proof = final.rpartition(",p=")
    message = f"{first},{challenge},{without_proof}".encode()
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), message, name)
    if bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True)) != client_key:
        raise failure
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", name), message, name)
    return Accepted(b"v=" + base64.b64encode(verifier), f"User:{user}")


def _bearer(wall: Callable[[], float]) -> Server:
    token = (yield b"").split(b"\1auth=Bearer ")[1].split(b"\1")[0]
    claims = claims_of(token.decode()) or {}
    left_s, user = claims.get("exp", 0.0) - wall(), claims.get("sub", "")
    if left_s <= 0:
        yield b'{"status":"invalid_token"}'
        raise LoginFailedError('{"status":"invalid_token"}')
    return Accepted(b"", f"User:{user}", left_s)


def _msk(security: Security, wall: Callable[[], float]) -> Server:
    """AWS_MSK_IAM: the users are access keys, and their passwords the secret keys."""
    fields = json.loads((yield b"").decode())
    access, _, region, *_ = fields["x-amz-credential"].split("/")
    signed_at = datetime.strptime(fields["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z").timestamp()
    keys = AwsKeys(access, security.users.get(access, ""), fields.get("x-amz-security-token", ""))
    expected = {name.lower(): value for name, value in signed_query(fields["host"], region, keys, signed_at)}
    expected |= {"version": "2020_10_22", "host": fields["host"], "user-agent": fields["user-agent"]}
    age_s = wall() - signed_at
    if access not in security.users or fields != expected or not -300 <= age_s < int(fields["x-amz-expires"]):
        raise LoginFailedError(f"[{uuid.UUID(int=1)}]: Access denied")
    return Accepted(
        json.dumps({"version": "2020_10_22", "request-id": str(uuid.UUID(int=1))}).encode(), f"User:{access}"
    )
