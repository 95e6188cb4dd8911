"""SaslHandshake (key 17): choose the SASL mechanism.

Versions: 1 the tokens that follow travel in SaslAuthenticate requests (0: bare, behind their length). Never flexible.
"""

from __future__ import annotations

from aioprod.wire.schema import INT16, STRING, TEXT, Request, Response, array, wire

__all__ = ["SaslHandshakeRequest", "SaslHandshakeResponse"]


class SaslHandshakeResponse(Response):
    """The mechanisms that the broker would take."""

    API_KEY = 17
    NAME = "SaslHandshake"
    VERSIONS = (0, 1)
    FLEXIBLE = None

    error_code: int = wire(INT16)
    mechanisms: tuple[str, ...] = wire(array(TEXT))


class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """The mechanism to use."""

    API_KEY = 17
    NAME = "SaslHandshake"
    VERSIONS = (0, 1)
    FLEXIBLE = None
    RESPONSE = SaslHandshakeResponse

    mechanism: str = wire(STRING)
