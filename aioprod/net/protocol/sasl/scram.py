"""SCRAM-SHA-256 and SCRAM-SHA-512: both sides prove that they know the password (RFC 5802, RFC 7677, KIP-84).

As in Java's client there is no channel binding, and the password is not normalised (no SASLprep).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from functools import partial
from typing import Final

from aioprod.net.protocol.sasl.mechanism import SaslError, Steps, Work

__all__ = ["SCRAM_MECHANISMS", "Scram"]

SCRAM_MECHANISMS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Name of the mechanism -> name of its hash."""

_ITERATIONS_MIN: Final = 4096
"""Java's client rejects fewer, which would make the password easy to guess."""

_ITERATIONS_MAX: Final = 1_000_000
"""A hostile peer must not be able to keep our processor busy; brokers allow at most 16,384."""

_SALTS_MAX: Final = 16
"""For so many salts the keys are kept: a password has one salt on all brokers until it is changed."""

_GS2_HEADER: Final = "n,,"


class Scram:
    """Log-ins with one password, for any number of connections; the keys made of it are kept.

    With `is_token` the user name is the id of a delegation token and the password its HMAC in base64 (KIP-48).
    """

    def __init__(self, mechanism: str, username: str, password: str, *, is_token: bool = False) -> None:
        self._hash = SCRAM_MECHANISMS[mechanism]
        self._username = username.replace("=", "=3D").replace(",", "=2C")
        self._password = password.encode()
        self._is_token = is_token
        self._salted: dict[tuple[bytes, int], bytes] = {}

    def steps(self, nonce: str) -> Steps:
        """One log-in; `nonce` is random, printable and without comma."""
        bare = f"n={self._username},r={nonce}" + (",tokenauth=true" if self._is_token else "")
        challenge = yield (_GS2_HEADER + bare).encode()
        server_nonce, salt, iterations = _read_challenge(challenge, nonce)
        salted = self._salted.get((salt, iterations))
        if salted is None:
            salted = yield Work(partial(hashlib.pbkdf2_hmac, self._hash, self._password, salt, iterations))
            if len(self._salted) >= _SALTS_MAX:
                self._salted.clear()
            self._salted[salt, iterations] = salted
        client_key = self._mac(salted, b"Client Key")
        without_proof = f"c={_base64(_GS2_HEADER.encode())},r={server_nonce}"
        message = b",".join((bare.encode(), challenge, without_proof.encode()))
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), message)
        proof = bytes(key ^ sign for key, sign in zip(client_key, signature, strict=True))
        final = yield f"{without_proof},p={_base64(proof)}".encode()
        fields = _fields(final)
        if "e" in fields:
            raise SaslError(f"ended SCRAM with the error {fields['e'][:100]!r}")
        verifier = self._mac(self._mac(salted, b"Server Key"), message)
        if not hmac.compare_digest(_bytes(fields.get("v", ""), "proof"), verifier):
            raise SaslError("does not know the password itself: its proof is wrong")

    def _mac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)


def _read_challenge(challenge: bytes, nonce: str) -> tuple[str, bytes, int]:
    """The whole nonce, the salt and the number of iterations."""
    fields = _fields(challenge)
    if "m" in fields:
        raise SaslError("needs an extension of SCRAM that this client does not have")
    server_nonce = fields.get("r", "")
    if not server_nonce.startswith(nonce) or len(server_nonce) <= len(nonce):
        raise SaslError("sent a SCRAM nonce that does not continue ours")
    count = fields.get("i", "")
    if not (count.isascii() and count.isdigit() and len(count) < 10):
        raise SaslError("sent no number of SCRAM iterations")
    if not _ITERATIONS_MIN <= int(count) <= _ITERATIONS_MAX:
        raise SaslError(f"wants {count} SCRAM iterations, not {_ITERATIONS_MIN} to {_ITERATIONS_MAX}")
    salt = _bytes(fields.get("s", ""), "salt")
    if not salt:
        raise SaslError("sent no SCRAM salt")
    return server_nonce, salt, int(count)


def _fields(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise SaslError("sent a SCRAM message that is not UTF-8") from None
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SaslError(f"sent a SCRAM {what} that is not base64") from None
