"""What listens at an address: found out by a harmless request, and by a TLS handshake."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final, NamedTuple

from aioprod.net.addresses import Endpoint
from aioprod.net.settings import Address

__all__ = ["Listener", "connect", "listener_at"]

_GREETING_S: Final = 0.3
"""How long to wait for a peer that speaks first, such as SSH."""
_READ_MAX: Final = 4096
# ApiVersions version 0, correlation id 7, with a client id: every Kafka listener without TLS answers it.
_API_VERSIONS: Final = b"\x00\x12\x00\x00\x00\x00\x00\x07\x00\x06doctor"
_REQUEST: Final = len(_API_VERSIONS).to_bytes(4, "big") + _API_VERSIONS
_CORRELATION: Final = b"\x00\x00\x00\x07"
_TLS_RECORDS: Final = (b"\x15\x03", b"\x16\x03")


class Listener(NamedTuple):
    """What speaks there: "kafka", "tls", "http", "ssh", "other" or "nothing"; and the certificate of a TLS one."""

    kind: str
    said: str = ""
    certificate: bytes | None = None


async def connect(endpoint: Endpoint, timeout_s: float) -> None:
    """Connect by TCP, and hang up; raises OSError, or TimeoutError."""
    async with asyncio.timeout(timeout_s):
        _, writer = await asyncio.open_connection(str(endpoint.address[0]), int(endpoint.address[1]))
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def listener_at(address: Address, timeout_s: float) -> Listener:
    """Find out what speaks at an address that takes TCP connections; raises OSError, or TimeoutError."""
    said = await _answer(address, timeout_s)
    if said.startswith(b"SSH-"):
        return Listener("ssh", _shown(said))
    if said[:5] == b"HTTP/" or said.lstrip()[:5].lower() in (b"<html", b"<!doc"):
        return Listener("http", _shown(said))
    if len(said) >= 8 and said[4:8] == _CORRELATION:
        return Listener("kafka")
    if said and not said.startswith(_TLS_RECORDS):
        return Listener("other", _shown(said))
    certificate = await _certificate(address, timeout_s)
    if certificate is not None:
        return Listener("tls", certificate=certificate or None)
    return Listener("tls") if said else Listener("nothing")


async def _answer(address: Address, timeout_s: float) -> bytes:
    """What the peer says first, or to an ApiVersions request; empty if it closes or stays silent."""
    # One address of the name may drop packets, though another has just accepted a connection.
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(*address)
    try:
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(_GREETING_S):
                if greeting := await reader.read(_READ_MAX):
                    return greeting
        with contextlib.suppress(TimeoutError, OSError):
            async with asyncio.timeout(timeout_s):
                writer.write(_REQUEST)
                return await reader.read(_READ_MAX)
        return b""
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _certificate(address: Address, timeout_s: float) -> bytes | None:
    """The certificate of a peer that speaks TLS, empty if it shows none; None if it does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Only looked at: the client's own connection checks it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(timeout_s):
            _, writer = await asyncio.open_connection(*address, ssl=context)
    except ssl.SSLError as error:
        # A handshake that the peer breaks off, as it wants our certificate, is one.
        return b"" if "alert" in str(error).lower() else None
    except (OSError, TimeoutError):
        return None
    peer: ssl.SSLObject = writer.get_extra_info("ssl_object")
    der = peer.getpeercert(binary_form=True)
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(timeout_s):
            await writer.wait_closed()
    return der or b""


def _shown(said: bytes) -> str:
    return repr(said.split(b"\n", 1)[0][:60].decode("latin-1").rstrip())
