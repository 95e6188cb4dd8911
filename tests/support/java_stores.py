"""Stores as Java writes them, for tests; `keytool` reads those of ours in `integration/security`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    KeySerializationEncryption,
    NoEncryption,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from aioprod.net.tls.certificates import certificates_in
from aioprod.testing.certificates import Identity

__all__ = ["PASSWORD", "jks", "pkcs12", "pkcs12_trust"]

PASSWORD = "changeit"
PRIVATE_KEY = (1).to_bytes(4, "big")
TRUSTED = (2).to_bytes(4, "big")


def counted(content: bytes, width: int) -> bytes:
    return len(content).to_bytes(width, "big") + content


def jks(certificates: Sequence[bytes], password: str = PASSWORD, *, version: int = 2, keys: int = 0) -> bytes:
    """A trust store of these certificates (DER), with so many unusable private keys before them."""
    kind = b"" if version == 1 else counted(b"X.509", 2)
    date = (1_700_000_000_000).to_bytes(8, "big")
    entries = []
    for number in range(keys):
        chain = (1).to_bytes(4, "big") + kind + counted(certificates[0], 4)
        entries.append(PRIVATE_KEY + counted(b"key-%d" % number, 2) + date + counted(b"sealed", 4) + chain)
    for number, certificate in enumerate(certificates):
        entries.append(TRUSTED + counted(b"ca-%d" % number, 2) + date + kind + counted(certificate, 4))
    head = b"\xfe\xed\xfe\xed" + version.to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    body = head + b"".join(entries)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


def pkcs12(own: Identity, password: str | None = PASSWORD, others: Sequence[bytes] = ()) -> bytes:
    """A key store, whose chain stands behind certificates that don't belong to it."""
    key = load_pem_private_key(own.key.encode(), None)
    first, *rest = (x509.load_der_x509_certificate(one) for one in certificates_in(own.chain))
    beside = [x509.load_der_x509_certificate(one) for one in others]
    return serialize_key_and_certificates(b"own", key, first, [*beside, *rest], encryption(password))  # type: ignore[arg-type]


def pkcs12_trust(certificates: Sequence[bytes], password: str | None = PASSWORD) -> bytes:
    entries = [PKCS12Certificate(x509.load_der_x509_certificate(one), b"ca") for one in certificates]
    return serialize_java_truststore(entries, encryption(password))
