"""An identity provider on loopback: a token endpoint with one client, and failures on demand."""

from __future__ import annotations

import base64
import functools
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

__all__ = [
    "AUDIENCE",
    "CLIENT",
    "ISSUER",
    "SECRET",
    "Answer",
    "IdentityProvider",
    "ReceivedRequest",
    "identity_provider",
]

CLIENT: Final = "orders-service"
SECRET: Final = "orders secret+/=:%"
ISSUER: Final = "test-idp"
AUDIENCE: Final = "kafka"
_KEY_ID: Final = "one"


@dataclass(frozen=True)
class Answer:
    """A response. `hangs`: none, as long as the provider runs; `drops`: it closes the connection instead."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    drops: bool = False

    @classmethod
    def of(cls, fields: Any, status: int = 200) -> Answer:
        return cls(status, json.dumps(fields).encode())


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


@functools.cache
def signing_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


class IdentityProvider:
    """Issues tokens to a client with SECRET, or with an assertion signed by `client_key`.

    `answers` are sent first, one for each request. `wall` is the time in tokens.
    """

    def __init__(self, *, lifetime_s: float = 3600.0, wall: Callable[[], float] = time.time) -> None:
        self.requests: list[ReceivedRequest] = []
        self.answers: list[Answer] = []
        self.closing = threading.Event()
        self.url = ""
        self._lifetime_s = lifetime_s
        self._wall = wall

    @property
    def client_key(self) -> str:
        """The private key by which the client signs, as PEM; the same as the provider's own, to save time."""
        return (
            signing_key()
            .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            .decode()
        )

    @property
    def jwks(self) -> str:
        """The keys that its tokens are checked with (RFC 7517)."""
        numbers = signing_key().public_key().public_numbers()
        parts = {"n": numbers.n, "e": numbers.e}
        encoded = {
            name: _encoded(value.to_bytes((value.bit_length() + 7) // 8, "big")) for name, value in parts.items()
        }
        return json.dumps({"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": _KEY_ID} | encoded]})

    def token(self, subject: str, lifetime_s: float | None = None, **claims: Any) -> str:
        """A signed token."""
        now = self._wall()
        ends = now + (self._lifetime_s if lifetime_s is None else lifetime_s)
        payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": int(now) - 1, "exp": ends, **claims}
        fields: tuple[dict[str, Any], ...] = ({"alg": "RS256", "kid": _KEY_ID}, payload)
        content = ".".join(_encoded(json.dumps(part).encode()) for part in fields)
        return f"{content}.{_encoded(signing_key().sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def answer(self, request: ReceivedRequest) -> Answer:
        """The response to a request."""
        self.requests.append(request)
        if self.answers:
            return self.answers.pop(0)
        subject = self._subject(request)
        if subject is None:
            return Answer.of({"error": "invalid_client", "error_description": "Client authentication failed"}, 401)
        return Answer.of({"access_token": self.token(subject), "token_type": "Bearer", "expires_in": 60})

    def _subject(self, request: ReceivedRequest) -> str | None:
        form = request.form
        assertion = form.get("client_assertion") or form.get("assertion")
        if assertion is not None:
            return self._asserted(assertion)
        given = base64.b64decode(request.headers.get("authorization", "Basic ").removeprefix("Basic ")).decode()
        for known in (given, unquote_plus(given)):
            if known == f"{CLIENT}:{SECRET}" and form.get("grant_type") == "client_credentials":
                return CLIENT
        return None

    def _asserted(self, assertion: str) -> str:
        content, _, signature = assertion.rpartition(".")
        public = signing_key().public_key()
        public.verify(_decoded(signature), content.encode(), padding.PKCS1v15(), hashes.SHA256())
        claims = json.loads(_decoded(content.split(".")[1]))
        assert claims["nbf"] <= self._wall() <= claims["exp"]
        return str(claims["sub"])


@contextmanager
def identity_provider(
    context: ssl.SSLContext | None = None, *, patience_s: float = 15.0, **options: Any
) -> Iterator[IdentityProvider]:
    """A provider that runs in threads; `context` makes its endpoint an https one, at localhost.

    A connection without data for `patience_s` is closed, as its thread is joined at the end.
    """
    provider = IdentityProvider(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = patience_s

        def do_POST(self) -> None:
            self._serve()

        def do_GET(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            form = {name: values[0] for name, values in parse_qs(body, strict_parsing=bool(body)).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = provider.answer(ReceivedRequest(self.command, self.path, headers, form))
            if answer.hangs:
                provider.closing.wait(60)
            # A kept connection would keep its thread.
            self.close_connection = True
            if answer.hangs or answer.drops:
                return
            self.send_response(answer.status)
            self.send_header("Connection", "close")
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Nothing is written to the terminal."""

    class Server(ThreadingHTTPServer):
        daemon_threads = False

        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            if context is not None:
                # The handshake is done by the thread that serves, with its first read.
                connection = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            return connection, address

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client that does not accept the certificate, or that is gone."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=functools.partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    scheme = "http" if context is None else "https"
    provider.url = f"{scheme}://localhost:{server.server_port}/token"
    try:
        yield provider
    finally:
        provider.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
