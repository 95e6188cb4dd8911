"""PLAIN: the password as it is (RFC 4616). Only TLS hides it on the network."""

from __future__ import annotations

from aioprod.net.protocol.sasl.mechanism import SaslError, Steps

__all__ = ["plain"]


def plain(username: str, password: str) -> Steps:
    """Log in with a password. Neither of the two may contain NUL."""
    # The first field, the identity to act as, stays empty: brokers reject any but the user's own.
    answer = yield f"\0{username}\0{password}".encode()
    if answer:
        raise SaslError("answered PLAIN with data, which has none to give")
