"""Key stores and trust stores of the formats that there are: what is read of them, and what is said of the others."""

from __future__ import annotations

import builtins
import ssl
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from aioprod.config import ClientConfig
from aioprod.errors import ConfigError
from aioprod.net.tls.certificates import certificates_in
from aioprod.net.tls.contexts import Tls, TlsContexts
from aioprod.net.tls.jks import read_jks
from aioprod.net.tls.stores import key_store_of, trust_store, trust_store_of
from aioprod.testing.certificates import Authority
from tests.support.java_stores import PASSWORD, jks, pkcs12, pkcs12_trust


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def der(authority: Authority) -> list[bytes]:
    return certificates_in(authority.certificate)


async def made(tmp_path: Path, **options: Any) -> Tls:
    """The context of settings in which bytes stand for a file that contains them."""
    for name, given in options.items():
        if isinstance(given, bytes):
            (tmp_path / name).write_bytes(given)
            options[name] = str(tmp_path / name)
    config = ClientConfig.from_options(bootstrap_servers="localhost:9093", security_protocol="SSL", **options)
    return await TlsContexts(config).current()


# -- what is read ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [None, "JKS", "pkcs12"])
async def test_stores_of_java_are_read_as_what_they_are(authority: Authority, tmp_path: Path, kind: str | None) -> None:
    (ca,) = der(authority)
    for store in (jks([ca]), jks([ca], version=1), jks([ca], keys=1), pkcs12_trust([ca])):
        for password in [PASSWORD] if store.startswith(b"\x30") else [None, PASSWORD]:
            tls = await made(
                tmp_path,
                ssl_truststore_location=store,
                ssl_truststore_password=password,
                ssl_truststore_type=kind,
                ssl_keystore_location=pkcs12(authority.issue("alice")),
                ssl_keystore_password=PASSWORD,
                ssl_keystore_type=kind,
            )
            assert tls.context.get_ca_certs(binary_form=True) == [ca]
            assert tls.trusted.startswith("the one of ssl.truststore.location=")
            assert tls.has_certificate
            assert tls.validity is not None


async def test_several_cas_and_a_store_without_password(authority: Authority, tmp_path: Path) -> None:
    cas = [*der(authority), *der(Authority("the next"))]
    for store in (jks(cas), pkcs12_trust(cas, None)):
        tls = await made(tmp_path, ssl_truststore_location=store)
        assert sorted(tls.context.get_ca_certs(binary_form=True)) == sorted(cas)
        assert tls.trusted.startswith("the 2 of ")


@pytest.mark.parametrize("name", [b"\x16\x05\xff\xff\xff\xff\xff", b"\x03\x05\x00lice"])
def test_a_certificate_with_a_malformed_name(authority: Authority, name: bytes) -> None:
    own = authority.issue("alice")
    leaf = certificates_in(own.chain)[0].replace(b"\x0c\x05alice", name)
    odd = replace(own, chain=ssl.DER_cert_to_PEM_cert(leaf))
    with pytest.raises(ConfigError, match=r"^S has a certificate with a malformed name\.$"):
        key_store_of("S", pkcs12(odd), PASSWORD)


async def test_passwords_are_looked_up_where_they_are(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_PASSWORD", PASSWORD)
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
    tls = await made(
        tmp_path,
        ssl_truststore_location=pkcs12_trust(der(authority)),
        ssl_truststore_password="env:STORE_PASSWORD",
        ssl_keystore_location=pkcs12(authority.issue("alice")),
        ssl_keystore_password=f"file:{tmp_path / 'secret'}",
    )
    assert tls.has_certificate
    # A PKCS12 store has one password for all of it.
    tls = await made(tmp_path, ssl_keystore_location=pkcs12(authority.issue("a")), ssl_key_password=PASSWORD)
    assert tls.has_certificate
    assert (await made(tmp_path, ssl_keystore_location=pkcs12(authority.issue("a"), None))).has_certificate


def test_the_chain_has_the_issuers_of_our_certificate_only(authority: Authority) -> None:
    own, other = authority.issue("alice"), der(Authority("another one"))
    store = key_store_of("S", pkcs12(own, others=other), PASSWORD)
    assert store.chain == certificates_in(own.chain)
    assert certificates_in(store.pem) == store.chain
    assert trust_store_of("S", pkcs12(own, others=other), PASSWORD).certificates[0] == other[0]


def test_a_chain_whose_issuer_is_not_there_ends(authority: Authority) -> None:
    own = authority.issue("alice")
    alone = replace(own, chain=own.chain.removesuffix(authority.certificate))
    assert key_store_of("S", pkcs12(alone), PASSWORD).chain == certificates_in(alone.chain)


def test_a_store_that_is_encrypted_in_an_unknown_way(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise UnsupportedAlgorithm("rc2")

    monkeypatch.setattr(serialization.pkcs12, "load_pkcs12", unknown)
    with pytest.raises(ConfigError, match="an encryption that the package cryptography does not know"):
        trust_store_of("S", pkcs12_trust(der(authority)), PASSWORD)


def test_without_a_truststore_there_is_none() -> None:
    assert trust_store(ClientConfig.from_options(bootstrap_servers="localhost:9093", security_protocol="SSL")) is None


# -- what is said of the others ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "password", "message"),
    [
        (lambda jks: jks, "wrong", "the password is wrong, or the store is damaged"),
        (
            lambda jks: jks[:60] + bytes([jks[60] ^ 1]) + jks[61:],
            PASSWORD,
            "the password is wrong, or the store is damaged",
        ),
        (lambda jks: jks[:100], None, "it is cut off"),
        (lambda jks: jks[:8] + b"\xff" * 4 + jks[12:], None, "it is cut off"),
        (lambda jks: jks[:7] + b"\x03" + jks[8:], None, "it has the unknown version 3"),
        (lambda jks: jks[:15] + b"\x09" + jks[16:], None, "it has an entry of the unknown kind 9"),
        (lambda jks: jks.replace(b"X.509", b"X.510"), None, r"it has a certificate of type b'X\.510'"),
        (lambda jks: jks + b"?", None, "there are bytes after its last entry"),
        (lambda jks: jks[:4], None, "it does not begin as a JKS store"),
    ],
)
def test_a_jks_store_that_can_not_be_read(
    authority: Authority, change: Any, password: str | None, message: str
) -> None:
    store = change(jks(der(authority)))
    with pytest.raises(ConfigError, match=f"^S can't be read as a JKS store: {message}.$"):
        trust_store_of("S", store, password)


def test_a_certificate_of_a_length_that_is_not_there_takes_no_memory(authority: Authority) -> None:
    (ca,) = der(authority)
    store = jks([ca])
    at = store.index(ca) - 4
    with pytest.raises(ValueError, match="cut off"):
        read_jks(store[:at] + b"\xff\xff\xff\xff" + ca + bytes(20))


def test_stores_that_can_not_be_used(authority: Authority) -> None:
    own, trusted = authority.issue("alice"), der(authority)
    damaged = bytearray(pkcs12(own))
    damaged[len(damaged) // 2] ^= 0xFF
    for read, store, options, message in (
        (key_store_of, pkcs12(own), ("wrong",), "S can't be opened: the password is wrong, or the store is damaged"),
        (key_store_of, bytes(damaged), (PASSWORD,), "the password is wrong, or the store is damaged"),
        (key_store_of, pkcs12(own), (), r"it has a password, or it is damaged\. Hint: Set ssl\.keystore\.password"),
        (trust_store_of, pkcs12_trust(trusted), (), r"Hint: Set ssl\.truststore\.password"),
        (trust_store_of, b"\x30\x82", (), "it has a password, or it is damaged"),
        (key_store_of, pkcs12_trust(trusted), (PASSWORD,), "S has no private key with its certificate"),
        (
            key_store_of,
            jks(trusted, keys=1),
            (),
            "type JKS, whose keys .*-deststoretype PKCS12",
        ),
        (key_store_of, b"\xce\xce\xce\xce", (), "type JCEKS.*keytool -importkeystore -deststoretype PKCS12"),
        (trust_store_of, authority.certificate.encode(), (PASSWORD,), r"S is PEM, .* but ssl\.truststore\.password is"),
        (key_store_of, own.store.encode(), (PASSWORD,), r"but ssl\.keystore\.password is given\. Hint: That of an enc"),
        (trust_store_of, jks([]), (), "S has no trusted certificate"),
        (trust_store_of, jks(trusted), (None, "PEM"), r"S is a store of type JKS, but ssl\.truststore\.type=PEM"),
        (
            key_store_of,
            own.store.encode(),
            (None, "JKS"),
            r"neither a PKCS12 nor a JKS store, but ssl\.key",
        ),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            read("S", store, *options)
        for secret in ("wrong", PASSWORD):
            assert secret not in str(caught.value).replace("password is wrong", "")


def test_a_key_store_of_java_is_no_trust_store(authority: Authority) -> None:
    (ca,) = der(authority)
    store = jks([ca], keys=1)
    # Without its trusted entry, the last one.
    only_keys = store[:8] + (1).to_bytes(4, "big") + store[12 : store.index(b"ca-0") - 6] + store[-20:]
    with pytest.raises(ConfigError, match="S has private keys, and no trusted certificate"):
        trust_store_of("S", only_keys)


def test_without_the_package_cryptography_its_extra_is_named(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, imported = pkcs12_trust(der(authority)), builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return imported(name, *rest)

    for name in [name for name in sys.modules if name.startswith("cryptography.hazmat.primitives.serialization")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"Hint: Install it: pip install 'aioprod\[p12\]'"):
        trust_store_of("S", store, PASSWORD)
    assert trust_store_of("S", jks(der(authority))).certificates == der(authority)
