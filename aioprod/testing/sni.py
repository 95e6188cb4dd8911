"""The host name in a TLS client's hello, the server name indication (RFC 8446, 4.1.2; RFC 6066, section 3)."""

from __future__ import annotations

from typing import Final

from aioprod.net.length_prefixed import LengthPrefixedReader

__all__ = ["HELLO_SIZE_MAX", "hello_size", "server_name"]

HELLO_SIZE_MAX: Final = 5 + (1 << 14)
"""The size of a TLS record with its header: no more is read to find the name."""

_HEADER: Final = 5
_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 0x01
_VERSION_AND_RANDOM: Final = 2 + 32
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0


def hello_size(header: bytes) -> int:
    """The size of the first record in bytes, with its header of five; 0 if it is not a TLS handshake record."""
    if len(header) < _HEADER or header[0] != _HANDSHAKE:
        return 0
    return min(_HEADER + int.from_bytes(header[3:5], "big"), HELLO_SIZE_MAX)


def server_name(hello: bytes) -> str | None:
    """The name in a first record, in lower case; None if it has none, is incomplete, or is not TLS."""
    if not hello_size(hello) or hello[_HEADER : _HEADER + 1] != bytes([_CLIENT_HELLO]):
        return None
    try:
        return _name_in(LengthPrefixedReader(hello, _HEADER + 4))
    except ValueError:
        return None


def _name_in(body: LengthPrefixedReader) -> str | None:
    body.take(_VERSION_AND_RANDOM)
    body.prefixed(1)  # session id
    body.prefixed(2)  # cipher suites
    body.prefixed(1)  # compression methods
    extensions = LengthPrefixedReader(body.prefixed(2))
    while extensions.left:
        kind, content = extensions.number(2), extensions.prefixed(2)
        if kind != _SERVER_NAME:
            continue
        names = LengthPrefixedReader(LengthPrefixedReader(content).prefixed(2))
        while names.left:
            kind, name = names.number(1), names.prefixed(2)
            if kind == _HOST_NAME and name and name.isascii():
                return name.decode().lower()
    return None
