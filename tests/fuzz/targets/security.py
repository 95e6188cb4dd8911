"""Log-ins, tokens, `sasl.jaas.config` and certificates."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from typing import Final

from aioprod.config._jaas import parse_jaas
from aioprod.messages import SaslAuthenticateResponse, SaslHandshakeResponse
from aioprod.net.protocol.login import Login
from aioprod.net.protocol.sasl.claims import describe_token
from aioprod.net.protocol.sasl.mechanism import Steps
from aioprod.net.protocol.sasl.oauthbearer import oauthbearer
from aioprod.net.protocol.sasl.plain import plain
from aioprod.net.protocol.sasl.scram import Scram
from aioprod.net.tls.certificates import certificates_in, has_private_key, tidy_pem, validity

__all__ = ["jaas", "jaas_seeds", "login", "login_seeds", "pem", "pem_seeds", "token_seeds", "tokens"]

SECRET: Final = "hunter2"
NONCE: Final = "abc"
SALTED: Final = b"k" * 32
"""Replaces the result of PBKDF2, whose number of iterations may be hostile."""
ANSWERS_MAX: Final = 8


# --- log-ins: a mechanism, an error code, and what the broker sends, each behind its length


def _steps(which: int) -> tuple[str, Steps]:
    if which % 3 == 0:
        return "PLAIN", plain("alice", SECRET)
    if which % 3 == 1:
        return "OAUTHBEARER", oauthbearer(SECRET, {})
    return "SCRAM-SHA-256", Scram("SCRAM-SHA-256", "alice", SECRET).steps(NONCE)


def login(data: bytes) -> None:
    """Any responses of a broker end in a log-in or in an AuthenticationError without secrets."""
    if len(data) < 2:
        return
    mechanism, steps = _steps(data[0])
    attempt = Login(mechanism, steps, user="user 'alice'", hint="Look.")
    attempt.begin(is_renewal=bool(data[0] & 0x80))
    attempt.answered(SaslHandshakeResponse(error_code=data[1], mechanisms=("PLAIN",)), "B")
    at = 2
    for _ in range(ANSWERS_MAX):
        if attempt.is_done or at >= len(data):
            return
        size = data[at]
        sent, at = data[at + 1 : at + 1 + size], at + 1 + size
        for message in attempt.answered(SaslAuthenticateResponse(auth_bytes=sent), "B"):
            assert mechanism == "PLAIN" or SECRET.encode() not in message.auth_bytes
        if attempt.work is not None:
            attempt.worked(SALTED, "B")


def login_seeds() -> Iterator[bytes]:
    """Each mechanism: accepted, rejected, and aborted."""

    def framed(*answers: bytes) -> bytes:
        return b"".join(bytes([len(answer)]) + answer for answer in answers)

    yield b"\0\0" + framed(b"")
    yield b"\x80\x22" + framed(b"")
    yield b"\0\x21"
    yield b"\1\0" + framed(b"")
    yield b"\1\0" + framed(b'{"status":"invalid_token"}', b"")
    challenge = f"r={NONCE}more,s={base64.b64encode(b'salt').decode()},i=4096".encode()
    message = b"n=alice,r=" + NONCE.encode() + b"," + challenge + b",c=biws,r=" + NONCE.encode() + b"more"
    key = hmac.digest(SALTED, b"Server Key", hashlib.sha256)
    proof = base64.b64encode(hmac.digest(key, message, hashlib.sha256))
    yield b"\2\0" + framed(challenge, b"v=" + proof)
    yield b"\2\0" + framed(challenge, b"e=other-error")
    yield b"\2\0" + framed(b"m=ext," + challenge)


# --- tokens


def tokens(data: bytes) -> None:
    """The description of any token is one line."""
    described = describe_token(data.decode("latin-1"), 1e9)
    assert described.isprintable()


def token_seeds() -> Iterator[bytes]:
    """Tokens as providers make them, and odd ones."""

    def made(payload: str) -> bytes:
        return b"e30." + base64.urlsafe_b64encode(payload.encode()).rstrip(b"=") + b".x"

    yield made('{"iss":"https://idp.test","aud":["a","b"],"sub":"s","exp":1e9,"nbf":-5,"iat":true}')
    yield made('{"sub":"alice","iat":1e9,"exp":1000000060}')
    yield made('{"iss":' + "[" * 400 + "]" * 400 + "}")
    yield made('{"exp":' + "9" * 400 + ',"sub":"\\u0000\\ud800"}')
    yield b"opaque"


# --- sasl.jaas.config


def jaas(data: bytes) -> None:
    """Any text is parsed, or raises ConfigError."""
    entry = parse_jaas(data.decode("utf-8", "replace"))
    assert entry.module is not None
    assert all(isinstance(value, str) for value in entry.options.values())


def jaas_seeds() -> Iterator[bytes]:
    """Entries of common modules."""
    package = b"org.apache.kafka.common.security."
    yield package + b'plain.PlainLoginModule required username="alice" password="hun\\"ter";'
    yield package + b"scram.ScramLoginModule required username='id' password='x' tokenauth=true;"
    yield package + b"oauthbearer.OAuthBearerLoginModule required /* none */ ; // end"
    yield b"Module required a=1"


# --- certificates


def pem(data: bytes) -> None:
    """Any file is split into certificates and keys; the validity of a certificate is read, or unknown."""
    text = data.decode("latin-1")
    found = certificates_in(text)
    has_private_key(text)
    assert certificates_in(tidy_pem(text)) == found
    for certificate in found or [data]:
        validity(certificate)


CERTIFICATE: Final = b"""\
-----BEGIN CERTIFICATE-----
MIIBaTCCAQ6gAwIBAgIUCGxZqlD3XvE4qdHFPc/ONp5e1tMwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEZnV6ejAgFw0yNjExMjEyMjQ2MTlaGA8yMTI2MTAyOTIyNDYx
OVowEDEOMAwGA1UEAwwFYWxpY2UwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASE
/wmJXV1Jxu7FrNZjdxSycRNJ21ogLHN4oxAzwLUA2ZqwtSu20Bzkas8XAshAwZxr
oxJaqh3Nf1jPHM7oLhsGo0UwQzAMBgNVHRMBAf8EAjAAMB0GA1UdJQQWMBQGCCsG
AQUFBwMBBggrBgEFBQcDAjAUBgNVHREEDTALgglsb2NhbGhvc3QwCgYIKoZIzj0E
AwIDSQAwRgIhANP+gkCF/eCH0K9pSP3TQux1k0y7TfHyXypWuErPQ+0+AiEAsCoN
mTi8HjrXVPdKcC2XHp4QBiqDCsUK9dSEe5Gwrzw=
-----END CERTIFICATE-----
"""
KEY: Final = b"""\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgiJRKYp+yjpQ+NEIp
YeNZaxKp3E5FwPWWoZ3UEX5SmYKhRANCAASE/wmJXV1Jxu7FrNZjdxSycRNJ21og
LHN4oxAzwLUA2ZqwtSu20Bzkas8XAshAwZxroxJaqh3Nf1jPHM7oLhsG
-----END PRIVATE KEY-----
"""


def pem_seeds() -> Iterator[bytes]:
    """A chain, a store, one certificate, the old form of an encrypted key, and incomplete blocks."""
    yield CERTIFICATE * 2
    yield KEY + CERTIFICATE
    yield certificates_in(CERTIFICATE.decode())[0]
    yield b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    yield b"-----BEGIN CERTIFICATE-----\n" * 40
