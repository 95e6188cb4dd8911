"""Key stores and trust stores: PEM, PKCS12 and JKS, detected by their first bytes, all converted to PEM."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, NamedTuple

from aioprod.config import SecurityConfig, read_file
from aioprod.config._secrets import secret_of
from aioprod.errors import ConfigError
from aioprod.net.tls.certificates import certificates_in, has_private_key, tidy_pem
from aioprod.net.tls.jks import JKS_MAGIC, read_jks

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

__all__ = ["KeyStore", "TrustStore", "key_store", "key_store_of", "trust_store", "trust_store_of"]

_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_DER: Final = b"\x30"
_CHAIN_MAX: Final = 20
_CONVERT: Final = "Convert it: keytool -importkeystore -deststoretype PKCS12."


class TrustStore(NamedTuple):
    """The CAs as PEM and as DER, and their origin for messages."""

    where: str
    pem: str
    certificates: list[bytes]


class KeyStore(NamedTuple):
    """Key and chain as PEM, the chain as DER with our own certificate first, and their origin for messages."""

    where: str
    pem: str
    chain: list[bytes]


def trust_store(config: SecurityConfig) -> TrustStore | None:
    """The CAs that the settings name, None for the system's. Raises ConfigError if they can't be used."""
    path, inline = config.ssl_truststore_location, config.ssl_truststore_certificates
    if path is None:
        if inline is None:
            return None
        return trust_store_of("ssl.truststore.certificates", inline.encode("utf-8", "replace"))
    where = f"ssl.truststore.location={path!r}"
    password = _password("ssl.truststore.password", config.ssl_truststore_password)
    return trust_store_of(where, read_file(path, where), password, config.ssl_truststore_type)


def key_store(config: SecurityConfig) -> KeyStore | None:
    """The key and the certificates that the settings name, None where they name none.

    Raises ConfigError if they can't be used.
    """
    path = config.ssl_keystore_location
    if path is None:
        if config.ssl_keystore_key is None:
            return None
        key = secret_of("ssl.keystore.key", config.ssl_keystore_key)
        text = f"{key}\n{config.ssl_keystore_certificate_chain}"
        return _keys_of_pem("ssl.keystore.key", _text(text.encode("utf-8", "replace")))
    where = f"ssl.keystore.location={path!r}"
    password = _password("ssl.keystore.password", config.ssl_keystore_password)
    key_password = _password("ssl.key.password", config.ssl_key_password)
    return key_store_of(where, read_file(path, where), password, config.ssl_keystore_type, key_password=key_password)


def trust_store_of(where: str, content: bytes, password: str | None = None, kind: str | None = None) -> TrustStore:
    """The CAs in a store. Raises ConfigError, beginning with `where`, if it is not of type `kind`."""
    found = _kind(where, "truststore", content, kind)
    if found == "PEM":
        _check_without(where, "truststore", password)
        text = _text(content)
        certificates = certificates_in(text)
        if not certificates:
            raise ConfigError(f"{where} has no certificate in PEM.", hint="It begins with -----BEGIN CERTIFICATE-----.")
        return TrustStore(where, tidy_pem(text), certificates)
    if found == "JKS":
        certificates = _trusted_in_jks(where, content, password)
    else:
        store = _open(where, "truststore", content, password)
        # keytool puts all trusted entries into additional_certs; `cert` is a certificate without a key.
        loners = [store.cert] if store.cert is not None and store.key is None else []
        certificates = [_der(found.certificate) for found in (*loners, *store.additional_certs)]
    if not certificates:
        raise ConfigError(f"{where} has no trusted certificate.", hint="Import the CA: keytool -importcert.")
    return TrustStore(where, "".join(map(ssl.DER_cert_to_PEM_cert, certificates)), certificates)


def key_store_of(
    where: str,
    content: bytes,
    password: str | None = None,
    kind: str | None = None,
    *,
    key_password: str | None = None,
) -> KeyStore:
    """The key and its certificates in a store. Raises ConfigError, beginning with `where`, if it is no such store.

    A store of type PKCS12 has one password for everything; it may be given as the key password too. A key in PEM is
    returned as it is, encrypted or not.
    """
    found = _kind(where, "keystore", content, kind)
    if found == "PEM":
        _check_without(where, "keystore", password)
        return _keys_of_pem(where, _text(content))
    if found == "JKS":
        raise ConfigError(f"{where} is a store of type JKS, whose keys aioprod does not read.", hint=_CONVERT)
    store = _open(where, "keystore", content, key_password if password is None else password)
    if store.key is None or store.cert is None:
        raise ConfigError(f"{where} has no private key with its certificate.")
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    try:
        chain = _chain(store.cert.certificate, [other.certificate for other in store.additional_certs])
    except (TypeError, ValueError):  # Names are parsed on first access.
        raise ConfigError(f"{where} has a certificate with a malformed name.") from None
    return KeyStore(where, key + "".join(map(ssl.DER_cert_to_PEM_cert, chain)), chain)


def _keys_of_pem(where: str, text: str) -> KeyStore:
    hint = "Key and certificate chain belong in one file."
    if not has_private_key(text):
        raise ConfigError(f"{where} has no private key in PEM.", hint=hint)
    chain = certificates_in(text)
    if not chain:
        raise ConfigError(f"{where} has no certificate in PEM.", hint=hint)
    return KeyStore(where, tidy_pem(text), chain)


def _check_without(where: str, store: str, password: str | None) -> None:
    if password is not None:
        raise ConfigError(
            f"{where} is PEM, which has no password of the store, but ssl.{store}.password is given.",
            hint="That of an encrypted key is ssl.key.password.",
        )


def _text(content: bytes) -> str:
    # OpenSSL accepts ASCII only; other characters inside a block are no base64 anyway.
    return content.decode("ascii", "replace").replace("\ufffd", "?")


def _password(setting: str, given: str | None) -> str | None:
    return None if given is None else secret_of(setting, given)


def _kind(where: str, store: str, content: bytes, wanted: str | None) -> str:
    """The type of a store. Since Java 9 a store called JKS may be PKCS12: each is accepted for the other."""
    if content.startswith(_JCEKS_MAGIC):
        raise ConfigError(f"{where} is a store of type JCEKS, which aioprod does not read.", hint=_CONVERT)
    kind = "JKS" if content.startswith(JKS_MAGIC) else "PKCS12" if content.startswith(_DER) else "PEM"
    if wanted is not None and (wanted == "PEM") != (kind == "PEM"):
        what = f"a store of type {kind}" if kind != "PEM" else "neither a PKCS12 nor a JKS store"
        raise ConfigError(f"{where} is {what}, but ssl.{store}.type={wanted}.", hint=f"Set ssl.{store}.type.")
    return kind


def _trusted_in_jks(where: str, content: bytes, password: str | None) -> list[bytes]:
    try:
        store = read_jks(content, password)
    except ValueError as error:
        raise ConfigError(f"{where} can't be read as a JKS store: {error}.") from None
    if not store.certificates and store.private_keys:
        raise ConfigError(
            f"{where} has private keys, and no trusted certificate.",
            hint="A key store is named by ssl.keystore.location.",
        )
    return store.certificates


def _open(where: str, store: str, content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise ConfigError(
            f"{where} is a store of type PKCS12, which the package cryptography reads.",
            hint="Install it: pip install 'aioprod[p12]'.",
        ) from None
    try:
        return load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        if password is None:
            reason, hint = "it has a password, or it is damaged", f"Set ssl.{store}.password."
        else:
            reason, hint = "the password is wrong, or the store is damaged", None
        raise ConfigError(f"{where} can't be opened: {reason}.", hint=hint) from None
    except (TypeError, UnsupportedAlgorithm):
        text = f"{where} can't be opened: it has a key or an encryption that the package cryptography does not know."
        raise ConfigError(text, hint="Export it again: keytool -importkeystore -deststoretype PKCS12.") from None


def _chain(own: x509.Certificate, others: list[x509.Certificate]) -> list[bytes]:
    """Our own certificate and those that issued it, in order; a store may have others beside them."""
    by_subject = {other.subject: other for other in others}
    chain = [own]
    while len(chain) < _CHAIN_MAX and chain[-1].issuer != chain[-1].subject:
        issuer = by_subject.get(chain[-1].issuer)
        if issuer is None:
            break
        chain.append(issuer)
    return [_der(certificate) for certificate in chain]


def _der(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)
