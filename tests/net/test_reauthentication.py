"""Log-ins of a link, and their renewal on the connection that is there (KIP-368)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioprod import OAuthToken
from aioprod.config import ClientConfig
from aioprod.errors import AuthenticationError, BrokerConnectionError, TlsError
from aioprod.messages import ApiVersionsRequest, MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from aioprod.net.link import LinkState
from aioprod.net.protocol.backoff import Backoff
from aioprod.testing import FakeCluster, Security
from aioprod.testing.security import MECHANISMS, unsecured_token
from tests.support.clients import Clock, running_client
from tests.support.links import ALL, Bench, bench, node_of


def security(**options: Any) -> Security:
    settings: dict[str, Any] = {"protocol": "SASL_PLAINTEXT", "session_ms": 60_000}
    return Security(**settings | options)


@asynccontextmanager
async def secured(wanted: Security, **options: Any) -> AsyncIterator[tuple[FakeCluster, Bench]]:
    """A broker and a link to it, whose clock stands still; `options` are further settings of the client."""
    async with FakeCluster(security=wanted) as brokers:
        config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **wanted.client_options() | options)
        async with bench(node_of(brokers), security=config, reconnect_backoff=Backoff(1.0, 10.0)) as b:
            yield brokers, b


async def ask(b: Bench) -> None:
    # uvloop's time stands still in a turn of the loop: a use in the turn of the log-in would be none.
    b.clock.advance(0.5)
    assert b.link.connection is not None
    await b.link.connection.request(ALL)


async def renewed(b: Bench) -> None:
    """Poll, and wait until the log-in is renewed."""
    times = b.events.events.count("writable") + 1
    b.poll()
    await b.events.seen("writable", times)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_link_logs_in_and_renews_in_time(mechanism: str, protocol: str) -> None:
    wanted = security(mechanisms=[mechanism], protocol=protocol)
    async with secured(wanted) as (brokers, b):
        await b.ready()
        for times in (1, 2, 3):
            await ask(b)
            b.clock.advance(50.0)
            assert b.link.is_ready(b.clock())
            assert 1.0 <= b.poll() - b.clock() <= 7.0, "after 85 to 95 % of the session"
            assert len(brokers.seen_of(SaslHandshakeRequest)) == times
            b.clock.advance(7.0)
            await renewed(b)
            assert len(brokers.seen_of(SaslHandshakeRequest)) == times + 1
            assert b.link.is_ready(b.clock())
        assert b.events.events.count("ready") == 1
        assert b.events.events.count("lost") == 0


async def test_a_session_too_short_to_be_renewed_is_followed_by_another_connection() -> None:
    """Brokers refuse to renew a log-in within a second of the last one."""
    async with secured(security(session_ms=1000)) as (brokers, b):
        await b.ready()
        old = b.link.connection
        await ask(b)
        b.clock.advance(0.46)
        b.poll()
        await b.events.seen("ready", 2)
        assert b.link.connection is not old
        assert b.events.errors == [None]
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 2


async def test_metadata_is_not_requested_in_the_middle_of_a_renewal() -> None:
    """Both are due in the same turn of the loop; by SCRAM a renewal takes two round trips."""
    wanted = security(mechanisms=["SCRAM-SHA-256"])
    async with FakeCluster(security=wanted) as brokers:
        config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **wanted.client_options())
        clock = Clock()
        async with running_client(brokers[1].address, clock=clock, security=config) as (client, listener):
            for times in (2, 3, 4):
                clock.advance(0.5)
                await client.request(ALL, node_id=1)
                asked = len(brokers.seen_of(MetadataRequest))
                clock.advance(57.5)
                client.metadata.request_update(clock())
                client.wake()
                async with asyncio.timeout(10):
                    while len(brokers.seen_of(SaslHandshakeRequest)) < times:
                        await asyncio.sleep(0.001)
                    while len(brokers.seen_of(MetadataRequest)) <= asked:
                        await asyncio.sleep(0.001)
                await client.request(ALL, node_id=1)
            assert listener.errors == []


async def test_an_idle_link_renews_before_its_next_request() -> None:
    async with secured(security()) as (brokers, b):
        await b.ready()
        b.clock.advance(58.0)
        assert b.poll() > b.clock() + 100, "nothing is due but the end of idle connections"
        assert not b.link.is_ready(b.clock())
        assert b.link.can_connect(b.clock())
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 1
        assert not b.link.ensure(b.clock())
        assert not b.link.ensure(b.clock())
        await renewed(b)
        assert b.link.ensure(b.clock())
        await ask(b)
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 2


async def test_requests_continue_while_credentials_are_fetched_and_answers_come_during_the_renewal() -> None:
    released = asyncio.Event()

    async def slow() -> OAuthToken:
        await released.wait()
        return unsecured_token("alice")

    wanted = security(mechanisms=["OAUTHBEARER"])
    async with secured(wanted, sasl_token_provider=slow) as (brokers, b):
        released.set()
        await b.ready()
        await ask(b)
        released.clear()
        assert b.logins is not None
        b.logins.rejected()
        b.clock.advance(58.0)
        b.poll()
        await ask(b)
        assert b.link.is_ready(b.clock())
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 1
        fault = brokers.fault(MetadataRequest, hold=True)
        assert b.link.connection is not None
        outstanding = b.link.connection.request(ALL)
        released.set()
        async with asyncio.timeout(10):
            while b.link.connection.can_write:
                await asyncio.sleep(0)
        assert not b.link.is_ready(b.clock())
        assert not outstanding.done()
        fault.release()
        await b.events.seen("writable")
        assert outstanding.done()
        assert b.link.is_ready(b.clock())


async def test_without_new_credentials_the_session_is_used_to_its_end(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[OAuthToken | Exception] = [unsecured_token("alice"), OSError("away"), OSError("away")]

    def provider() -> OAuthToken:
        answer = answers.pop(0) if answers else OSError("still away")
        if isinstance(answer, Exception):
            raise answer
        return answer

    wanted = security(mechanisms=["OAUTHBEARER"])
    async with secured(wanted, sasl_token_provider=provider, sasl_login_refresh_window_factor=0.5) as (_, b):
        await b.ready()
        await ask(b)
        assert b.logins is not None
        b.logins._token = None  # type: ignore[attr-defined]  # as if it had expired
        b.clock.advance(58.0)
        with caplog.at_level(logging.WARNING, "aioprod"):
            due = b.poll()
            assert due > b.clock()
            async with asyncio.timeout(10):
                while not caplog.messages:
                    await asyncio.sleep(0.001)
        assert "can't be re-authenticated: The token provider" in caplog.messages[0]
        assert b.link.is_ready(b.clock()), "it holds for two more seconds"
        b.clock.advance(2.0)
        assert not b.link.is_ready(b.clock())
        b.poll()
        await b.events.seen("lost")
        assert isinstance(b.link.last_error, AuthenticationError)


async def test_another_principal_comes_by_another_connection() -> None:
    names = iter(["alice", "bob"])
    wanted = security(mechanisms=["OAUTHBEARER"])
    async with secured(wanted, sasl_token_provider=lambda: unsecured_token(next(names), 1000.0)) as (brokers, b):
        await b.ready()
        await ask(b)
        old = b.link.connection
        assert b.logins is not None
        b.logins.rejected()
        b.clock.advance(58.0)
        b.poll()
        await b.events.seen("ready", 2)
        assert b.link.connection is not old
        assert b.events.errors == [None]
        assert b.link.is_ready(b.clock())
        await ask(b)
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 2
        assert b.link.connection is not None
        due = b.link.session.poll(b.link.connection, b.clock())
        assert 50.0 < due - b.clock() < 58.0, "a session of its own"


async def test_a_second_connection_that_is_answered_garbage_leaves_the_session_its_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = iter(["alice", "bob", "bob"])
    wanted = security(mechanisms=["OAUTHBEARER"])
    async with secured(wanted, sasl_token_provider=lambda: unsecured_token(next(names), 1000.0)) as (brokers, b):
        await b.ready()
        await ask(b)
        old = b.link.connection
        assert b.logins is not None
        b.logins.rejected()
        brokers.fault(ApiVersionsRequest, reply=b"\x00\x00\x00\x05HTTP/")
        b.clock.advance(58.0)
        with caplog.at_level(logging.WARNING, "aioprod"):
            b.poll()
            async with asyncio.timeout(10):
                while not caplog.messages and not b.events.failures:
                    await asyncio.sleep(0.001)
        assert b.events.failures == []
        assert "can't be re-authenticated: Broker 1 at" in caplog.messages[0]
        assert b.link.connection is old
        assert b.link.is_ready(b.clock()), "it holds for two more seconds"


async def test_a_log_in_that_is_rejected_again_costs_a_connection_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = unsecured_token("alice")
    answers = iter([good, OAuthToken(unsecured_token("alice", -10.0).value, good.expires_at), good])
    wanted = security(mechanisms=["OAUTHBEARER"])
    async with secured(wanted, sasl_token_provider=lambda: next(answers)) as (_, b):
        await b.ready()
        await ask(b)
        assert b.logins is not None
        b.logins.rejected()
        b.clock.advance(58.0)
        with caplog.at_level(logging.WARNING, "aioprod"):
            b.poll()
            await b.events.seen("lost")
        assert b.events.errors == [None]
        b.poll()
        await b.events.seen("ready", 2)
        await ask(b)
        (said,) = caplog.messages
        assert "The broker rejected the re-authentication of Broker 1 at" in said
        counted = b.context.authentications
        assert (counted.successful, counted.failed, counted.failed_renewals) == (2, 0, 1)


async def test_a_password_that_is_wrong_now_leaves_the_session_its_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("alice-secret")
    wanted = security(mechanisms=["SCRAM-SHA-256"])
    async with secured(wanted, sasl_password=f"file:{secret}") as (brokers, b):
        await b.ready()
        await ask(b)
        secret.write_text("wrong")
        b.clock.advance(58.0)
        with caplog.at_level(logging.WARNING, "aioprod"):
            b.poll()
            async with asyncio.timeout(10):
                while not caplog.messages:
                    await asyncio.sleep(0.001)
        assert "can't be re-authenticated: Broker 1 at" in caplog.messages[0]
        assert b.link.is_ready(b.clock()), "it holds for two more seconds"
        await b.link.connection.request(ALL)  # type: ignore[union-attr]
        assert b.context.authentications.failed == 1
        b.clock.advance(2.0)
        assert not b.link.ensure(b.clock())
        b.poll()
        await b.events.seen("lost")
        assert isinstance(b.link.last_error, AuthenticationError)
        assert b.link.backoff_until - b.clock() > 9.0
        secret.write_text("alice-secret")
        b.clock.advance(20.0)
        await b.ready()
        await ask(b)
        assert brokers.seen_of(MetadataRequest)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_rejected_log_in_is_retried_rarely(mechanism: str) -> None:
    wrong: dict[str, Any] = {"sasl_password": "wrong"}
    if mechanism == "OAUTHBEARER":
        wrong = {"sasl_token_provider": lambda: OAuthToken("a.e30.c", 4e9)}
    async with secured(security(mechanisms=[mechanism]), **wrong) as (_, b):
        for times in (1, 2, 3):
            b.link.ensure(b.clock())
            await b.events.seen("lost", times)
            assert isinstance(b.link.last_error, AuthenticationError)
            assert b.link.permanent_error is b.link.last_error
            assert b.link.backoff_until - b.clock() > 9.0, "not before reconnect.backoff.max.ms"
            b.clock.advance(20.0)


async def test_missing_credentials_are_logged_while_they_are_waited_for() -> None:
    async def never() -> OAuthToken:
        await asyncio.Event().wait()
        raise AssertionError

    async with secured(security(mechanisms=["OAUTHBEARER"]), sasl_token_provider=never) as (_, b):
        b.link.ensure(b.clock())
        async with asyncio.timeout(10):
            while not b.link.session.is_waiting:
                await asyncio.sleep(0)
        assert b.link.describe(b.clock()).endswith("waits for the credentials of this client")
        b.link.retire()
        async with asyncio.timeout(10):
            while b.link.state is not LinkState.IDLE:
                await asyncio.sleep(0)
        assert not b.link.session.is_waiting


async def test_a_listener_without_tls_is_taken_for_one_after_some_tries() -> None:
    plain = security()
    async with FakeCluster(security=plain) as brokers:
        config = ClientConfig.from_options(bootstrap_servers="localhost:9092", security_protocol="SSL")
        async with bench(node_of(brokers), security=config) as b:
            refusals = []
            for times in (1, 2, 3):
                b.link.ensure(b.clock())
                await b.events.seen("lost", times)
                refusals.append(b.link.permanent_error is not None)
                b.clock.advance(1.0)
            assert isinstance(b.link.last_error, TlsError)
            assert refusals == [False, False, True]


async def test_a_listener_with_a_log_in_is_taken_for_one_after_some_tries() -> None:
    async with FakeCluster(security=security()) as brokers, bench(node_of(brokers)) as b:
        refusals = []
        for times in (1, 2, 3):
            await b.ready()
            with pytest.raises(BrokerConnectionError, match="as a listener with SASL does"):
                await ask(b)
            await b.events.seen("lost", times)
            refusals.append(b.link.permanent_error is not None)
            b.clock.advance(1.0)
        assert refusals == [False, False, True]


async def test_a_log_in_where_none_is_wanted_and_a_mechanism_that_is_not_taken() -> None:
    async with FakeCluster() as brokers:
        config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **security().client_options())
        async with bench(node_of(brokers), security=config) as b:
            b.link.ensure(b.clock())
            await b.events.seen("lost")
            assert "takes no log-in at this port" in str(b.link.last_error)
    async with secured(security(mechanisms=["PLAIN"]), sasl_mechanism="SCRAM-SHA-256") as (_, b):
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        assert "does not take sasl.mechanism=SCRAM-SHA-256; it takes PLAIN." in str(b.link.last_error)


async def test_a_session_without_end_is_not_renewed() -> None:
    async with secured(security(session_ms=0)) as (brokers, b):
        await b.ready()
        await ask(b)
        assert b.poll() < math.inf
        b.clock.advance(400.0)
        assert b.link.is_ready(b.clock())
        assert len(brokers.seen_of(SaslAuthenticateRequest)) == 1
