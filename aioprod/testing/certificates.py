"""Certificates for tests: a CA and the certificates that it issues."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["LOCAL_HOSTS", "Authority", "Identity"]

LOCAL_HOSTS: Final = ("localhost", "127.0.0.1")
_DAY: Final = datetime.timedelta(days=1)
_PEM: Final = serialization.Encoding.PEM


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key (PKCS#8) and its certificate with that of the authority, as PEM."""

    _key: ec.EllipticCurvePrivateKey
    chain: str

    @property
    def key(self) -> str:
        """The private key, not encrypted."""
        return self._pem(serialization.NoEncryption())

    @property
    def store(self) -> str:
        """Key and chain in one PEM text, for the file at `ssl.keystore.location`."""
        return self.key + self.chain

    def encrypted_key(self, password: str) -> str:
        """The private key, encrypted with the password."""
        return self._pem(serialization.BestAvailableEncryption(password.encode()))

    def _pem(self, encryption: serialization.KeySerializationEncryption) -> str:
        return self._key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, encryption).decode()


class Authority:
    """A CA. `certificate` is its own certificate, as PEM, for trust stores."""

    def __init__(self, name: str = "aioprod test CA") -> None:
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self._name, self._key, -1.0, 3650.0)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM).decode()

    def issue(
        self, name: str, hosts: Sequence[str] = (), *, begins_days: float = -1.0, ends_days: float = 365.0
    ) -> Identity:
        """A new key and its certificate, valid from `begins_days` to `ends_days` from now, for these hosts."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(_named(name), key, begins_days, ends_days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
            )
        signed = builder.sign(self._key, hashes.SHA256())
        return Identity(key, signed.public_bytes(_PEM).decode() + self.certificate)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, begins_days: float, ends_days: float
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins_days * _DAY)
            .not_valid_after(now + ends_days * _DAY)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
