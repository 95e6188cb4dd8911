"""Java's own format of key stores, JKS: the certificates that such a store trusts.

After magic, version and count come the entries: a tag, an alias, a date, and in a trusted entry one certificate. They
are not encrypted; a digest at the end, over the password and all before it, shows whether the store is intact. Java's
source is `sun.security.provider.JavaKeyStore`.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final, NamedTuple

from aioprod.net.length_prefixed import LengthPrefixedReader

__all__ = ["JKS_MAGIC", "JavaStore", "read_jks"]

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_VERSIONS: Final = (1, 2)
_PRIVATE_KEY: Final = 1
_TRUSTED: Final = 2
_DATE_SIZE: Final = 8
_DIGEST_SIZE: Final = 20
_WHITENER: Final = b"Mighty Aphrodite"


class JavaStore(NamedTuple):
    """The trusted certificates of a store as DER, and how many private keys it has beside them."""

    certificates: list[bytes]
    private_keys: int


def read_jks(store: bytes, password: str | None = None) -> JavaStore:
    """Read a store, and with a password verify its digest. Raises ValueError with the reason, in a few words."""
    body = store[:-_DIGEST_SIZE]
    if password is not None:
        digest = hashlib.sha1(password.encode("utf-16-be", "surrogatepass") + _WHITENER + body, usedforsecurity=False)
        if not hmac.compare_digest(digest.digest(), store[-_DIGEST_SIZE:]):
            raise ValueError("the password is wrong, or the store is damaged")
    if not body.startswith(JKS_MAGIC):
        raise ValueError("it does not begin as a JKS store")
    reader = LengthPrefixedReader(body, len(JKS_MAGIC))
    version = reader.number(4)
    if version not in _VERSIONS:
        raise ValueError(f"it has the unknown version {version}")
    found = JavaStore([], 0)
    for _ in range(reader.number(4)):
        tag = reader.number(4)
        reader.prefixed(2)  # alias
        reader.take(_DATE_SIZE)
        if tag == _TRUSTED:
            found.certificates.append(_certificate(reader, version))
        elif tag == _PRIVATE_KEY:
            reader.prefixed(4)
            for _ in range(reader.number(4)):
                _certificate(reader, version)
            found = found._replace(private_keys=found.private_keys + 1)
        else:
            raise ValueError(f"it has an entry of the unknown kind {tag}")
    if reader.left:
        raise ValueError("there are bytes after its last entry")
    return found


def _certificate(reader: LengthPrefixedReader, version: int) -> bytes:
    if version > 1 and (kind := reader.prefixed(2)) not in (b"X.509", b"X509"):
        raise ValueError(f"it has a certificate of type {kind[:20]!r}")
    return reader.prefixed(4)
