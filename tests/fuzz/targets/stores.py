"""Trust stores and key stores: JKS and PEM; PKCS12 is parsed by the package cryptography."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from aioprod.net.tls.certificates import certificates_in, validity
from aioprod.net.tls.stores import TrustStore, key_store_of, trust_store_of
from aioprod.testing.certificates import Authority
from tests.support.java_stores import jks

__all__ = ["store_seeds", "stores"]

PKCS12 = b"\x30"


def stores(data: bytes) -> None:
    """Read a store as both kinds; what is found can be encoded as PEM."""
    if data.startswith(PKCS12):
        validity(data)
        return
    trusted = trust_store_of("The store", data)
    check(data, trusted)
    key_store_of("The store", data)


def check(data: bytes, trusted: TrustStore) -> None:
    assert trusted.certificates
    assert certificates_in(trusted.pem) == trusted.certificates
    assert sum(map(len, trusted.certificates)) <= len(data)
    for certificate in trusted.certificates:
        validity(certificate)


@cache
def authority() -> Authority:
    return Authority()


def store_seeds() -> Iterator[bytes]:
    """Stores of both formats, and a certificate."""
    own = authority().issue("alice")
    chain = certificates_in(own.chain)
    yield own.store.encode()
    yield authority().certificate.encode()
    yield own.encrypted_key("secret").encode() + own.chain.encode()
    yield jks(chain[1:])
    yield jks(chain, version=1)
    yield jks(chain, keys=1)
    yield chain[0]
