"""SaslAuthenticate (key 36): one round of a SASL exchange.

Versions: 1 the time that the session lasts before the client must authenticate again (KIP-368); 2 flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import BYTES, INT16, INT64, TEXT, Request, Response, wire

__all__ = ["SaslAuthenticateRequest", "SaslAuthenticateResponse"]


class SaslAuthenticateResponse(Response):
    """The server's token."""

    API_KEY = 36
    NAME = "SaslAuthenticate"
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    SECRETS = frozenset({"auth_bytes"})

    error_code: int = wire(INT16)
    error_message: str | None = wire(TEXT, nullable="0+")
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, "1+", ignorable=True)
    """0 means without end."""


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """The client's token."""

    API_KEY = 36
    NAME = "SaslAuthenticate"
    VERSIONS = (0, 2)
    FLEXIBLE = 2
    RESPONSE = SaslAuthenticateResponse
    SECRETS = frozenset({"auth_bytes"})

    auth_bytes: bytes = wire(BYTES)
