"""TLS contexts made of settings, and connections to a server that speaks TLS: what is agreed upon, and what is said."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aioprod.config import ClientConfig, SecurityConfig
from aioprod.errors import ConfigError, TlsError
from aioprod.net.happy_eyeballs import open_connection
from aioprod.net.security import security_of
from aioprod.net.settings import ClientSettings
from aioprod.net.tls.certificates import Validity, certificates_in, has_private_key, tidy_pem, validity
from aioprod.net.tls.contexts import Tls, TlsContexts
from aioprod.net.tls.failures import tls_failure
from aioprod.testing import Security
from aioprod.testing.certificates import LOCAL_HOSTS, Authority, Identity

ADDRESS = "localhost:9093"
SETTINGS = ClientSettings(bootstrap=())
PASSWORD = "open sesame"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


def config(**options: Any) -> SecurityConfig:
    return ClientConfig.from_options(bootstrap_servers="localhost:9093", security_protocol="SSL", **options)


async def made(**options: Any) -> Tls:
    return await TlsContexts(config(**options)).current()


# -- contexts --------------------------------------------------------------------------------------------------------


async def test_without_settings_the_systems_cas_are_trusted_and_everything_is_checked() -> None:
    tls = await made()
    assert tls.context.verify_mode is ssl.CERT_REQUIRED
    assert tls.context.check_hostname
    assert tls.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert tls.context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert "CAs of this system" in tls.trusted
    assert not tls.has_certificate


async def test_settings_of_tls_itself() -> None:
    tls = await made(
        ssl_protocol="TLSv1.2",
        ssl_cipher_suites="ECDHE-RSA-AES128-GCM-SHA256",
        ssl_endpoint_identification_algorithm="none",
    )
    assert tls.context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert "ECDHE-RSA-AES128-GCM-SHA256" in {cipher["name"] for cipher in tls.context.get_ciphers()}
    assert not tls.context.check_hostname
    assert tls.context.verify_mode is ssl.CERT_REQUIRED
    with pytest.raises(ConfigError, match=r"OpenSSL knows none of ssl\.cipher\.suites"):
        await made(ssl_cipher_suites="NO-SUCH")


async def test_cas_and_our_own_certificate_as_files_and_as_text(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = authority.issue("alice", ends_days=10.0)
    trust, store, turned = tmp_path / "ca.pem", tmp_path / "own.pem", tmp_path / "turned.pem"
    trust.write_text(authority.certificate * 2)
    store.write_text(own.store)
    turned.write_text(own.chain + own.key)
    (tmp_path / "locked").write_text(own.encrypted_key(PASSWORD))
    monkeypatch.setenv("AIOPROD_TEST_PASSWORD", PASSWORD)
    one_line = own.key.replace("\n", " ")
    for options in (
        {"ssl_truststore_location": str(trust), "ssl_keystore_location": str(store)},
        {"ssl_truststore_certificates": authority.certificate, "ssl_keystore_location": str(turned)},
        {"ssl_keystore_key": own.key, "ssl_keystore_certificate_chain": own.chain},
        {"ssl_keystore_key": one_line, "ssl_keystore_certificate_chain": own.chain},
        {
            "ssl_keystore_key": own.encrypted_key(PASSWORD),
            "ssl_keystore_certificate_chain": own.chain,
            "ssl_key_password": PASSWORD,
        },
        {
            "ssl_keystore_key": f"file:{tmp_path / 'locked'}",
            "ssl_keystore_certificate_chain": own.chain,
            "ssl_key_password": "env:AIOPROD_TEST_PASSWORD",
        },
    ):
        tls = await made(**options)
        assert tls.has_certificate
        assert tls.validity is not None
        assert 10.9 < (tls.validity.ends - tls.validity.begins) / 86400 < 11.1


async def test_stores_that_cannot_be_used(authority: Authority, tmp_path: Path) -> None:
    own, other = authority.issue("alice"), authority.issue("bob")
    files = {
        "text": b"hello",
        "key": own.key.encode(),
        "chain": own.chain.encode(),
        "mixed": (own.key + other.chain).encode(),
        "locked": (own.encrypted_key(PASSWORD) + own.chain).encode(),
        "foreign": b"-----BEGIN CERTIFICATE-----\n\xe9AAA\n-----END CERTIFICATE-----\n",
        "broken": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "huge": b"x" * ((8 << 20) + 1),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)

    for store, name, message in (
        ("trust", "none", r"ssl\.truststore\.location='.*none' can't be read: No such file"),
        ("trust", "text", "has no certificate in PEM"),
        ("trust", "foreign", "has no certificate in PEM"),
        ("trust", "broken", "has a certificate that can't be read"),
        ("trust", "huge", "is larger than"),
        ("key", "text", "has no private key in PEM"),
        ("key", "chain", "has no private key in PEM"),
        ("key", "key", "has no certificate in PEM"),
        ("key", "mixed", "a private key that does not belong to its certificate"),
        ("key", "locked", r"is encrypted\. Hint: Set ssl\.key\.password"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            await made(**{f"ssl_{store}store_location": str(tmp_path / name)})
        assert "BEGIN" not in caught.value.message
    with pytest.raises(ConfigError, match=r"ssl\.key\.password does not open the private key") as caught:
        await made(ssl_keystore_location=str(tmp_path / "locked"), ssl_key_password="wrong")
    assert "wrong" not in str(caught.value)
    with pytest.raises(ConfigError, match=r"ssl\.key\.password is longer than the 1024 bytes"):
        await made(ssl_keystore_location=str(tmp_path / "locked"), ssl_key_password="x" * 1025)
    garbage = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.key can't be used"):
        await made(ssl_keystore_key=garbage, ssl_keystore_certificate_chain=own.chain)


async def test_a_context_is_kept_until_a_file_changes(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = authority.issue("first", ends_days=20), authority.issue("second", ends_days=50)
    for name, identity in (("1", first), ("2", second)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.pem").write_text(identity.store)
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "1")
    contexts = TlsContexts(config(ssl_keystore_location=str(link / "own.pem")))
    before = await contexts.current()
    assert await contexts.current() is before
    # As Kubernetes does it.
    (tmp_path / "next").symlink_to(tmp_path / "2")
    os.replace(tmp_path / "next", link)
    after = await contexts.current()
    assert after.validity is not None
    assert before.validity is not None
    assert after.validity.ends > before.validity.ends
    # Half written: a warning, once, and the old one goes on.
    (tmp_path / "2" / "own.pem").write_text(first.key + second.chain)
    with caplog.at_level(logging.WARNING, "aioprod"):
        assert await contexts.current() is after
        assert await contexts.current() is after
    (said,) = caplog.messages
    assert said.startswith("The TLS files have changed and can't be used, so the old ones stay in use: ssl.keystore.lo")
    assert said.endswith("has a private key that does not belong to its certificate.")
    (tmp_path / "2" / "own.pem").write_text(first.store)
    again = await contexts.current()
    assert again.validity == before.validity
    (tmp_path / "2" / "own.pem").unlink()
    assert await contexts.current() is again


async def test_a_context_of_the_users_own() -> None:
    context = ssl.create_default_context()
    assert (await made(ssl_context=context)).context is context
    assert (await made(ssl_context=lambda: context)).context is context

    def broken() -> ssl.SSLContext:
        raise ValueError("password: hunter2")

    def refused() -> ssl.SSLContext:
        raise ConfigError("No context today.")

    for function, message in (
        (broken, "raised ValueError"),
        (lambda: 3, "returned a int, no ssl.SSLContext"),
        (refused, "No context today"),
    ):
        with pytest.raises(ConfigError, match=message) as caught:
            await made(ssl_context=function)
        assert "hunter2" not in str(caught.value)


async def test_a_function_that_hangs_times_out_and_runs_once_at_a_time() -> None:
    context, calls = ssl.create_default_context(), []
    entered, release = threading.Event(), threading.Event()

    def hanging() -> ssl.SSLContext:
        calls.append(1)
        if len(calls) == 1:
            entered.set()
            release.wait(60)
            raise ValueError("nobody waits for this")
        return context

    contexts = TlsContexts(config(ssl_context=hanging), timeout_s=0.01)
    with pytest.raises(ConfigError, match=r"function given as ssl_context did not return within 0\.0 s\."):
        await contexts.current()
    await asyncio.to_thread(entered.wait)
    for found in await asyncio.gather(contexts.current(), contexts.current(), return_exceptions=True):
        assert isinstance(found, ConfigError)
    assert len(calls) == 1
    release.set()
    while True:
        with suppress(ConfigError):
            assert (await contexts.current()).context is context
            break


async def test_a_client_lets_the_function_run_as_long_as_a_connection_may_take() -> None:
    release = threading.Event()
    given = ClientConfig.from_options(
        bootstrap_servers="localhost:9093",
        security_protocol="SSL",
        ssl_context=lambda: release.wait(60),
        socket_connection_setup_timeout_ms=10,
    )
    contexts, _ = security_of(ClientSettings.from_config(given), Random(1))
    assert contexts is not None
    with pytest.raises(ConfigError, match="function given as ssl_context did not return"):
        await contexts.current()
    release.set()


async def test_a_path_that_no_file_can_have() -> None:
    for store in ("trust", "key"):
        with pytest.raises(ConfigError, match=rf"ssl\.{store}store\.location='a\\x00b' can't be read: embedded null"):
            await made(**{f"ssl_{store}store_location": "a\0b"})


def test_without_memory_files_a_key_is_in_a_file_for_its_owner_only(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    own = authority.issue("alice")
    tls = asyncio.run(made(ssl_keystore_key=own.key, ssl_keystore_certificate_chain=own.chain))
    assert tls.has_certificate


# -- PEM and certificates ----------------------------------------------------------------------------------------------


def test_pem_in_one_line_is_wrapped_and_headers_are_left_alone(authority: Authority) -> None:
    assert tidy_pem(authority.certificate.replace("\n", "")) == authority.certificate
    old = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    assert tidy_pem(old) == old
    assert has_private_key(old)
    assert tidy_pem("nothing") == "\n"


def test_many_beginnings_without_an_end_are_read_at_once() -> None:
    for text in ("-----BEGIN CERTIFICATE-----\n" * 40_000, "-----BEGIN A-----" + "- " * 500_000):
        assert certificates_in(text) == []
        assert not has_private_key(text)
        assert tidy_pem(text) == "\n"


def test_a_block_that_does_not_end_hides_none_behind_it(authority: Authority) -> None:
    assert certificates_in("-----BEGIN CERTIFICATE-----\nAAAA\n" + authority.certificate) == certificates_in(
        authority.certificate
    )


def test_a_certificate_says_how_long_it_is_valid(authority: Authority) -> None:
    (leaf, ca) = certificates_in(authority.issue("x", begins_days=0.0, ends_days=1.0).chain)
    found, of_ca = validity(leaf), validity(ca)
    assert found is not None
    assert found.ends - found.begins == 86400
    assert of_ca is not None
    for end in range(len(leaf) - 200):
        assert validity(leaf[:end]) in (None, found)
    assert certificates_in("-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----") == []


# -- connections -------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def tls_server(identity: Identity, prepare: Callable[[ssl.SSLContext], object] = id) -> AsyncIterator[int]:
    """A server in a thread that answers each line; not one of asyncio, as these send no alerts."""
    context = Security(protocol="SSL", identity=identity).server_context()
    assert context is not None
    prepare(context)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    accepted, _ = listener.accept()
                    with suppress(OSError), context.wrap_socket(accepted, server_side=True) as connection:
                        while data := connection.recv(65536):
                            connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            # Not in the loop's thread: the client's side of a handshake that failed is closed by the loop.
            await asyncio.to_thread(thread.join)


class Echo(asyncio.Protocol):
    """Hears what comes back."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[bytes] = asyncio.Queue()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard.put_nowait(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def connect(port: int, host: str = "127.0.0.1", **options: Any) -> Echo:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        return await open_connection(loop, (host, port), Echo, SETTINGS, await made(**options))


async def test_bytes_go_over_tls(authority: Authority, tmp_path: Path) -> None:
    async with tls_server(authority.issue("broker", LOCAL_HOSTS)) as port:
        for host in LOCAL_HOSTS:
            peer = await connect(port, host, ssl_truststore_certificates=authority.certificate)
            peer.transport.write(b"hello")
            assert await peer.heard.get() == b"hello"
            peer.transport.close()
            await peer.lost


@pytest.mark.parametrize(
    ("hosts", "begins", "ends", "trusted", "message"),
    [
        (LOCAL_HOSTS, -1, 1, False, "is from no CA that is trusted here .*trusted: the one of ssl.truststore.certif"),
        (("kafka.example",), -1, 1, True, "is for another host"),
        (LOCAL_HOSTS, -2, -1, True, "has expired; here it is 20"),
        (LOCAL_HOSTS, 1, 2, True, "is not valid yet; here it is 20"),
    ],
)
async def test_a_certificate_that_is_not_accepted(
    authority: Authority,
    tmp_path: Path,
    hosts: tuple[str, ...],
    begins: float,
    ends: float,
    trusted: bool,
    message: str,
) -> None:
    identity = authority.issue("broker", hosts, begins_days=begins, ends_days=ends)
    cas = (authority if trusted else Authority("another one")).certificate
    async with tls_server(identity) as port:
        with pytest.raises(TlsError, match=message) as caught:
            await connect(port, ssl_truststore_certificates=cas)
    assert caught.value.message.startswith(f"The certificate of 127.0.0.1:{port} ")


async def test_no_version_in_common(authority: Authority, tmp_path: Path) -> None:
    def prepare(context: ssl.SSLContext) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3

    message = r"accepts none of the TLS versions that are offered: TLSv1\.2"
    identity = authority.issue("broker", LOCAL_HOSTS)
    async with tls_server(identity, prepare) as port:
        with pytest.raises(TlsError, match=message):
            await connect(port, ssl_truststore_certificates=authority.certificate, ssl_protocol="TLSv1.2")


async def test_a_peer_that_answers_in_the_clear() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    with pytest.raises(TlsError, match="does not speak TLS"):
        await connect(server.sockets[0].getsockname()[1])
    server.close()


async def test_a_peer_that_hangs_up_during_the_handshake() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.transport.abort()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    with pytest.raises(TlsError, match="closed the connection during the TLS handshake, as a listener") as caught:
        await connect(server.sockets[0].getsockname()[1])
    assert caught.value.is_mismatch
    server.close()


# -- what is said ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "has_certificate", "message"),
    [
        ("SSLV3_ALERT_BAD_CERTIFICATE", False, "it requires a client certificate, and this client has none."),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", False, "it requires a client certificate, and this client has none."),
        (
            "SSLV3_ALERT_HANDSHAKE_FAILURE",
            False,
            "and this client has none or has no cipher suite in common with this client.",
        ),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", True, "there is no cipher suite in common, or it rejects our certificate."),
        (
            "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
            True,
            "does not accept our certificate, the one of own.pem (sslv3 alert certificate unknown)",
        ),
        (
            "TLSV1_ALERT_UNKNOWN_CA",
            True,
            "does not accept our certificate, the one of own.pem (tlsv1 alert unknown ca); it is valid until",
        ),
        (
            "TLSV1_ALERT_PROTOCOL_VERSION",
            False,
            "accepts none of the TLS versions that are offered: TLSv1.2 and TLSv1.3.",
        ),
        ("TLSV1_ALERT_INTERNAL_ERROR", False, "failed: tlsv1 alert internal error."),
        ("", False, "failed: OpenSSL gives no reason."),
    ],
)
def test_each_alert_is_a_sentence(reason: str, has_certificate: bool, message: str) -> None:
    error = ssl.SSLError(1, "")
    error.reason = reason
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own = Validity(0.0, 4e9) if has_certificate else None
    told = tls_failure(
        error, ADDRESS, Tls(context, "x", "TLSv1.2 and TLSv1.3", has_certificate, own, "the one of own.pem")
    )
    assert ADDRESS in told.message
    assert message in told.message
    assert told.address == ADDRESS


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (Validity(0.0, 1.0), "; it expired on 1970-01-01 00:00 UTC."),
        (Validity(4e9, 5e9), "; it is valid from 2096-10-02 07:06 UTC on."),
        (None, "unknown)."),
    ],
)
def test_when_our_own_certificate_is_valid_is_said(own: Validity | None, message: str) -> None:
    error = ssl.SSLError(1, "")
    error.reason = "SSLV3_ALERT_CERTIFICATE_UNKNOWN"
    told = tls_failure(error, ADDRESS, Tls(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), validity=own))
    assert told.message.endswith(message)


def test_another_reason_not_to_accept_a_certificate() -> None:
    error = ssl.SSLCertVerificationError(1, "")
    error.verify_code, error.verify_message = 26, "unsuitable certificate purpose"
    told = tls_failure(error, ADDRESS, Tls(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)))
    assert told.message == f"The certificate of {ADDRESS} is not accepted: unsuitable certificate purpose."
