"""GSSAPI: tickets of Kerberos (RFC 4752, KIP-12), without a security layer, as Kafka has none but TLS."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from aioprod.net.protocol.sasl.mechanism import SaslError, Steps, Work

__all__ = ["GssContext", "gssapi"]

_ROUNDS_MAX: Final = 5
_NO_LAYER: Final = 1


class GssContext(Protocol):
    """The client's side of a security context; what it computes is done in a thread."""

    @property
    def is_complete(self) -> bool:
        """Whether both sides know each other."""

    def step(self, token: bytes) -> bytes:
        """What to answer to the broker's token, empty if nothing; raises AuthenticationError."""

    def unwrap(self, message: bytes) -> bytes:
        """What the broker has signed; raises AuthenticationError."""

    def wrap(self, message: bytes) -> bytes:
        """The same, signed by us; raises AuthenticationError."""


def gssapi(first: bytes, context: GssContext) -> Steps:
    """Log in with a context whose first token is made: for that the KDC may have had to issue a ticket."""
    answer = yield first
    for _ in range(_ROUNDS_MAX):
        if context.is_complete:
            break
        answer = yield (yield Work(partial(context.step, answer)))
    else:
        raise SaslError("continues GSSAPI without an end")
    offer = yield Work(partial(context.unwrap, answer))
    if len(offer) != 4:
        raise SaslError("offered no security layers of GSSAPI")
    if not offer[0] & _NO_LAYER:
        raise SaslError("insists on a security layer of GSSAPI, which Kafka's protocol does not have")
    # No layer, so no size of it; and no name to act as but our own.
    reply = yield Work(partial(context.wrap, bytes([_NO_LAYER, 0, 0, 0])))
    if (yield reply):
        raise SaslError("answered the end of GSSAPI with data")
