"""Where log-ins come from: passwords that are looked up each time, and tokens that are kept until they are due."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aioprod import OAuthToken
from aioprod.config import ClientConfig, SecurityConfig, credentials_of
from aioprod.errors import AuthenticationError, ConfigError, RequestTimedOutError
from aioprod.messages import SaslAuthenticateRequest
from aioprod.net.login.logins import Logins, PasswordLogins, TokenLogins, refresh_at
from aioprod.net.login.token_sources import ProvidedTokens
from aioprod.net.protocol.sasl.claims import describe_token
from aioprod.net.security import security_of
from aioprod.net.settings import ClientSettings
from aioprod.testing.security import unsecured_token
from tests.support.clients import Clock

LOGIN = {"bootstrap_servers": "localhost:9093", "security_protocol": "SASL_PLAINTEXT"}


async def first_token(logins: Logins) -> bytes:
    """What a new log-in says first."""
    _, message = (await logins.new("localhost")).begin(is_renewal=False)
    assert isinstance(message, SaslAuthenticateRequest)
    return message.auth_bytes


# -- passwords -------------------------------------------------------------------------------------------------------


def password_logins(mechanism: str, password: str) -> PasswordLogins:
    given = ClientConfig.from_options(**LOGIN, sasl_mechanism=mechanism, sasl_username="alice", sasl_password=password)
    return PasswordLogins(given, timeout_s=5.0)


async def test_a_password_in_a_file_may_change(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("old\n")
    logins = password_logins("PLAIN", f"file:{path}")
    assert await first_token(logins) == b"\0alice\0old"
    logins.rejected()
    path.write_text("new\n")
    assert await first_token(logins) == b"\0alice\0new"
    path.unlink()
    with pytest.raises(ConfigError, match=r"sasl\.password names the file"):
        await logins.new("localhost")


async def test_a_pipe_is_no_place_for_a_password(tmp_path: Path) -> None:
    """Its reader waits for ever for somebody who writes, and the event loop with it."""
    path = tmp_path / "password"
    path.write_text("old\n")
    logins = password_logins("PLAIN", f"file:{path}")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match=r"sasl\.password names the file .* is no regular file"):
        await logins.new("localhost")
    with pytest.raises(ConfigError, match="is no regular file"):
        password_logins("PLAIN", f"file:{path}")


async def test_a_password_is_read_in_a_thread_only_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system may hang; what needs no file is there at once."""
    path = tmp_path / "password"
    path.write_text("old\n")
    threads: list[threading.Thread] = []

    def noted(config: SecurityConfig) -> object:
        threads.append(threading.current_thread())
        return credentials_of(config)

    monkeypatch.setattr("aioprod.net.login.logins.credentials_of", noted)
    await password_logins("PLAIN", f"file:{path}").new("localhost")
    await password_logins("PLAIN", "secret").new("localhost")
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


@pytest.mark.parametrize(
    ("servers", "protocol", "mechanism", "named"),
    [
        ("localhost:1,127.0.0.7:1,[::1]:1", "SASL_PLAINTEXT", "PLAIN", None),
        ("localhost:1,kafka.example.com:1", "SASL_PLAINTEXT", "PLAIN", "kafka.example.com"),
        ("kafka.example.com:1", "SASL_SSL", "PLAIN", None),
        ("kafka.example.com:1", "SASL_PLAINTEXT", "SCRAM-SHA-256", None),
    ],
)
def test_a_password_in_the_clear_to_another_host_is_warned_of(
    servers: str, protocol: str, mechanism: str, named: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"sasl_mechanism": mechanism, "sasl_username": "alice", "sasl_password": "secret"}
    config = ClientConfig.from_options(bootstrap_servers=servers, security_protocol=protocol, **options)
    security_of(ClientSettings.from_config(config), Random(1))
    assert [f"The password goes to {named} in the clear" in line for line in caplog.messages] == [True] * bool(named)


async def test_each_log_in_by_scram_has_a_nonce_of_its_own() -> None:
    logins = password_logins("SCRAM-SHA-256", "secret")
    tokens = {await first_token(logins) for _ in range(3)}
    assert len(tokens) == 3
    assert all(token.startswith(b"n,,n=alice,r=") for token in tokens)


# -- tokens ----------------------------------------------------------------------------------------------------------


def token_logins(provider: Callable[[], Any] | str, clock: Clock, timeout_s: float = 60.0) -> TokenLogins:
    given = ClientConfig.from_options(**LOGIN, sasl_mechanism="OAUTHBEARER", sasl_token_provider=provider)
    return TokenLogins(given, ProvidedTokens(provider), timeout_s=timeout_s, random=Random(1), wall=clock)


class Provider:
    """Gives numbered tokens that hold for 1000 s, unless it has to fail."""

    def __init__(self, clock: Clock) -> None:
        self.asked = 0
        self.fails: Exception | None = None
        self._clock = clock

    async def __call__(self) -> OAuthToken:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        return OAuthToken(f"token{self.asked}", self._clock() + 1000.0, "alice")


async def test_a_token_is_kept_until_it_is_due() -> None:
    clock = Clock()
    provider = Provider(clock)
    logins = token_logins(provider, clock)
    assert await first_token(logins) == b"n,,\1auth=Bearer token1\1\1"
    clock.advance(600)
    assert b"token1" in await first_token(logins)
    clock.advance(101)
    assert b"token2" in await first_token(logins), "less than 300 s before its end"
    assert provider.asked == 2
    logins.rejected()
    assert b"token3" in await first_token(logins)


async def test_many_connections_look_up_once() -> None:
    clock = Clock()
    provider = Provider(clock)
    logins = token_logins(provider, clock)
    assert {await one for one in [asyncio.create_task(first_token(logins)) for _ in range(5)]} == {
        b"n,,\1auth=Bearer token1\1\1"
    }
    assert provider.asked == 1


async def test_waiters_share_the_failure_of_a_fetch() -> None:
    """Or each of them would wait for its own series of tries, one after the other."""
    clock = Clock()
    asked = asyncio.Event()
    away = asyncio.Event()
    provider = Provider(clock)

    async def slow() -> OAuthToken:
        asked.set()
        await away.wait()
        return await provider()

    provider.fails = OSError("away")
    logins = token_logins(slow, clock)
    waiters = [asyncio.create_task(first_token(logins)) for _ in range(5)]
    await asked.wait()
    late = asyncio.create_task(first_token(logins))
    await asyncio.sleep(0)
    away.set()
    for waiter in (*waiters, late):
        with pytest.raises(AuthenticationError, match=r"raised OSError: away\.$"):
            await waiter
    assert provider.asked == 1
    provider.fails = None
    assert b"token2" in await first_token(logins), "whoever comes later asks again"
    clock.advance(1000)
    assert b"token3" in await first_token(logins)


async def test_a_waiter_that_is_gone_leaves_the_fetch_to_the_next_one() -> None:
    clock = Clock()
    asked = asyncio.Event()
    times = 0

    async def slow_at_first() -> OAuthToken:
        nonlocal times
        times += 1
        asked.set()
        if times == 1:
            await asyncio.Event().wait()
        return OAuthToken("abc", clock() + 1000.0)

    logins = token_logins(slow_at_first, clock)
    gone, other = (asyncio.create_task(first_token(logins)) for _ in range(2))
    await asked.wait()
    gone.cancel()
    assert b"abc" in await other
    with pytest.raises(asyncio.CancelledError):
        await gone


async def test_a_token_that_still_holds_serves_while_no_other_is_to_be_had(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    provider = Provider(clock)
    logins = token_logins(provider, clock)
    await logins.new("localhost")
    provider.fails = OSError("password=hunter2")
    clock.advance(900)
    with caplog.at_level(logging.WARNING, "aioprod"):
        assert b"token1" in await first_token(logins)
    assert caplog.messages == [
        "The cached token stays in use for 100 s: The token provider Provider() raised OSError: password=...."
    ]
    clock.advance(100)
    with pytest.raises(
        AuthenticationError, match=r"^The token provider Provider\(\) raised OSError: password=\.\.\.\.$"
    ) as caught:
        await logins.new("localhost")
    assert isinstance(caught.value.__cause__, OSError)
    provider.fails = None
    assert b"token4" in await first_token(logins)


async def test_a_plain_function_runs_in_a_thread_and_a_name_is_looked_up() -> None:
    clock = Clock()
    threads = []

    def provider() -> OAuthToken:
        threads.append(threading.current_thread())
        return OAuthToken("abc", 4e9, extensions={"logicalCluster": "lkc-1"})

    assert await first_token(token_logins(provider, clock)) == b"n,,\1auth=Bearer abc\1logicalCluster=lkc-1\1\1"
    assert threads != [threading.main_thread()]
    assert b"named" in await first_token(token_logins("tests.net.test_logins:named", clock))


def named() -> OAuthToken:
    return OAuthToken("named", 1e12)


async def forever() -> OAuthToken:
    await asyncio.Event().wait()
    raise AssertionError


def misconfigured() -> OAuthToken:
    raise ConfigError("No client id.")


@pytest.mark.parametrize(
    ("raised", "shown"),
    [
        (RuntimeError("no route to idp.example:443"), "RuntimeError: no route to idp.example:443."),
        (RuntimeError("\x1b[31m" + "x" * 1000), "RuntimeError: ?[31m" + "x" * 495 + "."),
        (RuntimeError("rejected eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"), "RuntimeError: rejected ...."),
        (ValueError("client_secret: hunter2 is wrong"), "ValueError: client_secret: ... is wrong."),
        (ValueError(), "ValueError."),
    ],
)
async def test_what_a_provider_raises_is_shown_without_what_may_be_a_secret(raised: Exception, shown: str) -> None:
    def provider() -> OAuthToken:
        raise raised

    provider.__qualname__ = "provider"
    with pytest.raises(AuthenticationError) as caught:
        await token_logins(provider, Clock()).new("localhost")
    assert caught.value.message == f"The token provider provider() raised {shown}"


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (lambda: "abc", r"returned a str. Hint: It has to return aioprod\.OAuthToken"),
        (lambda: OAuthToken("", 1e12), "a token that is empty or can't be sent"),
        (lambda: OAuthToken("a\1b", 1e12), "a token that is empty or can't be sent"),
        (lambda: OAuthToken("abc", 0.0), r"a token that expired \d+ s ago"),
        (
            lambda: OAuthToken("abc", 1e12, extensions={"auth": "x"}),
            "can't be sent: An extension can't be named 'auth'",
        ),
    ],
)
async def test_providers_that_give_no_good_token(provider: Callable[[], Awaitable[OAuthToken]], message: str) -> None:
    with pytest.raises(AuthenticationError, match=message):
        await token_logins(provider, Clock()).new("localhost")


async def test_a_provider_that_hangs() -> None:
    with pytest.raises(AuthenticationError, match=r"The token provider forever\(\) gave no token within 0\.05 s"):
        await token_logins(forever, Clock(), timeout_s=0.05).new("localhost")


async def test_a_plain_function_that_hangs_is_not_called_again_meanwhile() -> None:
    """Or each try would take another thread of the loop's, until files, names and SCRAM have none."""
    released = threading.Event()
    called = []

    def provider() -> OAuthToken:
        called.append(threading.current_thread())
        released.wait(60)
        return OAuthToken(f"token{len(called)}", 4e9)

    clock = Clock()
    logins = token_logins(provider, clock, timeout_s=0.05)
    try:
        for _ in range(3):
            with pytest.raises(AuthenticationError, match=r"gave no token within 0\.05 s"):
                await logins.new("localhost")
    finally:
        released.set()
    assert len(called) <= 1


async def test_other_errors_of_ours_are_no_errors_of_the_log_in() -> None:
    def broken() -> OAuthToken:
        raise RequestTimedOutError("The identity provider is away.")

    with pytest.raises(AuthenticationError, match=r"broken\(\) raised RequestTimedOutError: "):
        await token_logins(broken, Clock()).new("localhost")


async def test_errors_of_ours_come_through() -> None:
    with pytest.raises(ConfigError, match=r"No client id\."):
        await token_logins(misconfigured, Clock()).new("localhost")
    with pytest.raises(ConfigError, match="can't be loaded"):
        await token_logins("no.such:thing", Clock()).new("localhost")


@pytest.mark.parametrize(
    ("lifetime_s", "chance", "after_s"),
    [
        (3600.0, 0.0, 2880.0),
        (3600.0, 1.0, 3060.0),
        (1000.0, 1.0, 700.0),  # 300 s before its end
        (361.0, 0.0, 61.0),
        (300.0, 0.0, 240.0),  # too short for both: the window alone
        (10.0, 1.0, 8.5),
    ],
)
def test_the_window_in_which_a_token_is_replaced(lifetime_s: float, chance: float, after_s: float) -> None:
    settings = ClientConfig.from_options(bootstrap_servers="localhost:9092")
    assert refresh_at(settings, 1000.0, 1000.0 + lifetime_s, chance) == pytest.approx(1000.0 + after_s)


# -- what tokens say -------------------------------------------------------------------------------------------------


def test_a_token_is_described() -> None:
    token = unsecured_token("alice", 100.0)
    now = token.expires_at
    said = describe_token(token.value, now + 5.0)
    assert said.startswith("It says: sub=alice, it expired 5 s before now by this machine's clock")
    assert "it expires 20 s after now" in describe_token(token.value, now - 20.0)


@pytest.mark.parametrize(
    "token", ["abc", "a.b", "a.?.c", "a.e30.c.d", "a.W10.c", "a." + "e" * 100_000 + ".c", "a.AAAA.c", "a.\xff.c"]
)
def test_what_is_no_jwt_is_called_so(token: str) -> None:
    assert describe_token(token, 0.0) == "It is not a JWT, so what it says is not known."


def test_a_token_without_the_usual_claims() -> None:
    assert describe_token("a.e30.c", 0.0) == "It has none of the usual claims."
