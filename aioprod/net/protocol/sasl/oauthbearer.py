"""OAUTHBEARER: a token in place of a password (RFC 7628, KIP-255, KIP-342)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from aioprod.net.protocol.sasl.mechanism import SaslError, Steps

__all__ = ["check_extensions", "oauthbearer"]

_KEY: Final = re.compile("[A-Za-z]+")
_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")
_REASON_MAX: Final = 200


def oauthbearer(token: str, extensions: Mapping[str, str]) -> Steps:
    """Log in with a token; `extensions` are those of KIP-342, as checked by `check_extensions`."""
    pairs = "".join(f"\1{key}={value}" for key, value in extensions.items())
    answer = yield f"n,,\1auth=Bearer {token}{pairs}\1\1".encode()
    if answer:
        # JSON that says no more than "invalid_token". The broker ends the exchange when it has had this byte.
        yield b"\1"
        raise SaslError(f"rejected the token: {answer.decode(errors='replace')[:_REASON_MAX]!r}")


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise ValueError, with a sentence, for an extension that can't be sent."""
    for key, value in extensions.items():
        if key == "auth" or not _KEY.fullmatch(key):
            raise ValueError(f"An extension can't be named {key!r}: only letters, and not 'auth'.")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"The extension {key!r} has characters that can't be sent.")
