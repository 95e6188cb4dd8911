"""Log-ins by Kerberos with a library that follows a script; `integration/security/test_kerberos.py` has a real one."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Generator
from random import Random
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aioprod.config import ClientConfig
from aioprod.errors import AuthenticationError, ConfigError
from aioprod.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.net.login.kerberos import KerberosLogins
from aioprod.net.login.logins import Logins
from aioprod.net.security import security_of
from aioprod.net.settings import ClientSettings
from aioprod.testing import FakeCluster, Security
from aioprod.testing.fake.authentication import Accepted, LoginFailedError
from tests.support.links import ALL, bench, node_of

JAAS: Final = "com.sun.security.auth.module.Krb5LoginModule required"
KERBEROS: Final = {
    "bootstrap.servers": "localhost:9092",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
}


class GSSError(Exception):
    """As the package gssapi has it."""


class Library:
    """The package, as far as it is used: a broker is believed when its token is `I am` with its name."""

    exceptions = SimpleNamespace(GSSError=GSSError)
    NameType = SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
    MechType = SimpleNamespace(kerberos="krb5")

    def __init__(self) -> None:
        self.credentials: list[dict[str, Any]] = []
        self.threads: set[threading.Thread] = set()
        self.fails: Exception | None = None
        self.is_expired = False
        self.begun = 0
        self.released = threading.Event()
        self.released.set()

    def Name(self, name: str, kind: str) -> str:  # noqa: N802 - the package's name
        return f"{kind}:{name}"

    def Credentials(self, **given: Any) -> str:  # noqa: N802 - the package's name
        self.credentials.append(given)
        return "credentials"

    def SecurityContext(self, *, name: str, creds: Any, usage: str, mech: str) -> Any:  # noqa: N802 - the same
        assert (usage, mech) == ("initiate", "krb5")
        library = self

        class Context:
            def __init__(self) -> None:
                self._knows_broker = False

            @property
            def complete(self) -> bool:
                if library.is_expired:
                    raise GSSError("Ticket expired")
                return self._knows_broker

            def step(self, token: bytes | None) -> bytes | None:
                library.begun += token is None
                library.threads.add(threading.current_thread())
                library.released.wait(60)
                if library.fails is not None:
                    raise library.fails
                if token is None:
                    return f"ticket for {name}".encode()
                if token != f"I am {name}".encode():
                    raise GSSError("Major (851968): Unspecified\nMinor: It is somebody else.")
                self._knows_broker = True
                return None

            def unwrap(self, message: bytes) -> Any:
                return SimpleNamespace(message=message.removeprefix(b"signed:"))

            def wrap(self, message: bytes, encrypt: bool) -> Any:
                assert encrypt is False
                return SimpleNamespace(message=b"signed:" + message)

        return Context()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


def broker(name: str) -> Generator[bytes, bytes, Accepted]:
    """The broker's side of the script."""
    if not (yield b"").startswith(b"ticket for service:kafka@"):
        raise LoginFailedError("That is not a ticket for me")
    assert (yield f"I am {name}".encode()) == b""
    assert (yield b"signed:\x01\x00\xff\xff") == b"signed:\x01\x00\x00\x00"
    return Accepted(b"", "User:alice")


def logins(**options: Any) -> Logins:
    given = {name.replace("_", "."): value for name, value in options.items()}
    _, found = security_of(ClientSettings.from_config(ClientConfig.from_dict(KERBEROS | given)), Random(1))
    assert found is not None
    return found


async def first(source: Logins) -> bytes:
    _, message = (await source.new("broker.example.com.")).begin(is_renewal=False)
    assert isinstance(message, SaslAuthenticateRequest)
    return message.auth_bytes


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> Security:
    """Fake brokers that follow the script."""
    monkeypatch.setattr("aioprod.testing.fake.authentication._server", lambda *_: broker("service:kafka@127.0.0.1"))
    return Security(protocol="SASL_PLAINTEXT", mechanisms=["GSSAPI"], session_ms=60_000)


async def test_a_link_logs_in_and_renews_in_time(library: Library, wanted: Security) -> None:
    config = ClientConfig.from_dict(KERBEROS)
    async with FakeCluster(security=wanted) as brokers, bench(node_of(brokers), security=config) as b:
        await b.ready()
        for times in (1, 2):
            b.clock.advance(0.5)
            assert b.link.connection is not None
            await b.link.connection.request(ALL)
            b.clock.advance(58.0)
            b.poll()
            await b.events.seen("writable", b.events.events.count("writable") + 1)
            assert len(brokers.seen_of(SaslHandshakeRequest)) == times + 1
        assert b.events.events.count("ready") == 1
        assert b.events.events.count("lost") == 0
    assert threading.main_thread() not in library.threads


async def test_a_broker_with_another_id(library: Library, wanted: Security, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aioprod.testing.fake.authentication._server", lambda *_: broker("service:kafka@other"))
    config = ClientConfig.from_dict(KERBEROS)
    async with FakeCluster(security=wanted) as brokers, bench(node_of(brokers), security=config) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        error = b.link.last_error
    assert isinstance(error, AuthenticationError)
    assert error.message == "Kerberos failed: Major (851968): Unspecified Minor: It is somebody else."


async def test_a_ticket_that_expires_within_the_log_in(library: Library, wanted: Security) -> None:
    library.is_expired = True
    config = ClientConfig.from_dict(KERBEROS)
    async with FakeCluster(security=wanted) as brokers, bench(node_of(brokers), security=config) as b:
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        error = b.link.last_error
    assert isinstance(error, AuthenticationError)
    assert error.message == "Kerberos failed: Ticket expired."


async def test_the_broker_is_named_by_its_service_and_host(library: Library) -> None:
    assert await first(logins()) == b"ticket for service:kafka@broker.example.com"
    assert library.credentials == [], "those of the environment"


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (
            'useKeyTab=true storeKey=true keyTab="/etc/alice.keytab" principal="alice@REALM"',
            {
                "name": "principal:alice@REALM",
                "store": {"client_keytab": "/etc/alice.keytab", "ccache": "MEMORY:aioprod-"},
            },
        ),
        ("useTicketCache=true ticketCache='/run/cc' doNotPrompt=true", {"name": None, "store": {"ccache": "/run/cc"}}),
        ("principal=alice", {"name": "principal:alice", "store": None}),
    ],
)
async def test_whose_tickets(library: Library, options: str, given: dict[str, Any]) -> None:
    await first(logins(sasl_jaas_config=f"{JAAS} {options};"))
    (found,) = library.credentials
    if found["store"] is not None:
        found["store"]["ccache"] = found["store"]["ccache"].rstrip("0123456789")
    assert found == {"usage": "initiate"} | given


async def test_options_that_change_nothing_are_named_once(library: Library, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "aioprod"):
        found = logins(sasl_jaas_config=f"{JAAS} refreshKrb5Config=true principal=alice debug=true isInitiator=true;")
        for _ in range(2):
            await first(found)
    assert caplog.messages == [
        "Options of sasl.jaas.config that change nothing in aioprod: refreshKrb5Config, debug, isInitiator."
    ]


async def test_no_ticket(library: Library) -> None:
    library.fails = GSSError("No Kerberos credentials available")
    with pytest.raises(
        AuthenticationError, match=r"^Kerberos failed: No Kerberos credentials available\. Hint: See kl"
    ):
        await first(logins())


async def test_a_kdc_that_does_not_answer(library: Library) -> None:
    found = logins()
    assert isinstance(found, KerberosLogins)
    library.released.clear()
    hurried = KerberosLogins(found._identity, timeout_s=0.05)
    try:
        for host in ("one", "two", "two"):
            with pytest.raises(AuthenticationError, match=r"^Kerberos gave no ticket within 0\.05 s\.$"):
                await hurried.new(host)
    finally:
        library.released.set()
    assert library.begun <= 1, "one thread, for as long as it hangs"


async def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(
        ConfigError, match=r"needs the package gssapi\. Hint: Install it: pip install 'aioprod\[gssapi\]'"
    ):
        await first(logins())
