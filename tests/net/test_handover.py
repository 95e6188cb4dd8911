"""A second connection that takes over from the one in use: when it does, what waits meanwhile, and when it does not."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioprod.config import ClientConfig
from aioprod.errors import AuthenticationError, BrokerConnectionError
from aioprod.messages import ApiVersionsRequest, MetadataRequest, SaslHandshakeRequest
from aioprod.net.connection import BrokerConnection
from aioprod.net.link import LinkState
from aioprod.net.protocol.backoff import Backoff
from aioprod.testing import FakeCluster, Security
from tests.support.links import ALL, Bench, bench, node_of


@asynccontextmanager
async def secured(**options: Any) -> AsyncIterator[tuple[FakeCluster, Bench]]:
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"], **options.pop("wanted", {}))
    async with FakeCluster(security=wanted) as brokers:
        config = ClientConfig.from_options(bootstrap_servers="localhost:9092", **wanted.client_options() | options)
        async with bench(node_of(brokers), security=config, reconnect_backoff=Backoff(1.0, 10.0)) as b:
            yield brokers, b


async def connected(b: Bench) -> BrokerConnection:
    """The connection of the link, once it is ready."""
    await b.ready()
    assert b.link.connection is not None
    return b.link.connection


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_second_connection_takes_over() -> None:
    async with secured() as (brokers, b):
        old = await connected(b)
        await b.link.use_new_credentials()
        new = b.link.connection
        assert new is not None
        assert new is not old
        assert old.closed
        assert (b.events.events.count("ready"), b.events.errors) == (2, [None])
        assert b.link.is_ready(b.clock())
        await new.request(ALL)
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 2
        assert b.context.authentications.successful == 2
        # The link hears of what becomes of it.
        new.shut()
        await b.events.seen("lost", 2)
        assert b.link.state is LinkState.IDLE


async def test_requests_wait_until_those_on_the_way_are_answered() -> None:
    async with secured() as (brokers, b):
        old = await connected(b)
        held = brokers.fault(MetadataRequest, hold=True)
        outstanding = old.request(ALL)
        await held.reached.wait()
        moving = asyncio.create_task(b.link.use_new_credentials())
        await until(lambda: not old.can_write)
        assert not b.link.ensure(b.clock())
        assert b.link.connection is old
        assert not outstanding.done()
        held.release()
        await moving
        assert outstanding.done()
        assert b.link.connection is not old
        assert b.link.ensure(b.clock())


async def test_requests_that_take_their_time_are_waited_for() -> None:
    async with secured() as (brokers, b):
        old = await connected(b)
        held = brokers.fault(MetadataRequest, hold=True)
        outstanding = old.request(ALL, timeout_s=300.0)
        await held.reached.wait()
        moving = asyncio.create_task(b.link.use_new_credentials())
        await until(lambda: not old.can_write)
        b.clock.advance(200.0)
        b.poll()
        held.release()
        await outstanding
        await moving
        assert b.link.connection is not old
        assert b.events.errors == [None]


async def test_a_failed_connection_leaves_the_old_one_as_it_was(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("alice-secret")
    async with secured(sasl_password=f"file:{secret}") as (_, b):
        await b.ready()
        old = b.link.connection
        secret.write_text("wrong")
        with pytest.raises(AuthenticationError, match="rejected the log-in of user 'alice'"):
            await b.link.use_new_credentials()
        assert b.link.connection is old
        assert b.link.is_ready(b.clock())
        assert b.events.errors == []
        assert b.context.authentications.failed == 1
        assert b.link.last_error is None


async def test_an_old_connection_that_is_lost_meanwhile_is_replaced_as_ever() -> None:
    async with secured() as (brokers, b):
        old = await connected(b)
        held = brokers.fault(MetadataRequest, hold=True)
        outstanding = old.request(ALL)
        await held.reached.wait()
        moving = asyncio.create_task(b.link.use_new_credentials())
        await until(lambda: not old.can_write)
        old.abort(BrokerConnectionError("Lost."))
        await moving
        with pytest.raises(BrokerConnectionError, match="Lost"):
            await outstanding
        assert b.link.connection is None
        assert b.link.state is LinkState.BACKOFF
        held.release()
        b.clock.advance(5.0)
        await b.ready()


async def test_a_new_connection_that_is_lost_before_it_is_used_leaves_the_old_one() -> None:
    async with secured() as (brokers, b):
        old = await connected(b)
        held = brokers.fault(MetadataRequest, hold=True)
        outstanding = old.request(ALL)
        await held.reached.wait()
        moving = asyncio.create_task(b.link.use_new_credentials())
        await until(lambda: not old.can_write)
        assert b.link._handover is not None
        new = b.link._handover._new
        assert new is not None
        new.abort(BrokerConnectionError("Lost."))
        held.release()
        with pytest.raises(BrokerConnectionError, match="closed a second connection before it was used"):
            await moving
        await outstanding
        assert b.link.connection is old
        assert b.link.is_ready(b.clock())
        assert "writable" in b.events.events


async def test_a_silent_second_connection_is_aborted() -> None:
    async with secured() as (brokers, b):
        await b.ready()
        old = b.link.connection
        silent = brokers.fault(ApiVersionsRequest, hold=True)
        moving = asyncio.create_task(b.link.use_new_credentials())
        await silent.reached.wait()
        b.clock.advance(31.0)
        b.poll()
        with pytest.raises(BrokerConnectionError, match="did not answer ApiVersions within 30 s"):
            await moving
        assert b.link.connection is old
        assert b.link.is_ready(b.clock())
        silent.release()


async def test_both_connections_may_be_lost() -> None:
    """The old one is lost while the new one is silent: the host of the broker has died."""
    async with secured() as (brokers, b):
        old = await connected(b)
        silent = brokers.fault(ApiVersionsRequest, hold=True)
        moving = asyncio.create_task(b.link.use_new_credentials())
        await silent.reached.wait()
        old.abort(BrokerConnectionError("The host is dead."))
        await b.events.seen("lost")
        b.clock.advance(31.0)
        b.poll()
        with pytest.raises(BrokerConnectionError, match="did not answer ApiVersions within 30 s"):
            async with asyncio.timeout(10):
                await moving
        assert not b.link.session.changing.locked()
        silent.release()


async def test_a_cancelled_waiter_leaves_the_old_one() -> None:
    async with secured() as (brokers, b):
        old = await connected(b)
        held = brokers.fault(MetadataRequest, hold=True)
        outstanding = old.request(ALL)
        await held.reached.wait()
        moving = asyncio.create_task(b.link.use_new_credentials())
        await until(lambda: not old.can_write)
        moving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await moving
        assert old.can_write
        held.release()
        await outstanding
        assert b.link.connection is old


async def test_a_session_that_is_to_be_renewed_meanwhile_is_not() -> None:
    async with secured(wanted={"session_ms": 20_000}) as (brokers, b):
        old = await connected(b)
        b.clock.advance(0.5)
        held = brokers.fault(MetadataRequest, hold=True)
        outstanding = old.request(ALL)
        await held.reached.wait()
        moving = asyncio.create_task(b.link.use_new_credentials())
        await until(lambda: not old.can_write)
        b.clock.advance(19.2)
        b.poll()
        held.release()
        await moving
        await outstanding
        assert b.link.connection is not old
        assert b.link.is_ready(b.clock())
        assert len(brokers.seen_of(SaslHandshakeRequest)) == 2
        assert b.context.authentications.renewals.count == 0


async def test_a_broker_that_is_gone_is_not_connected_to_again() -> None:
    async with secured() as (brokers, b):
        held = brokers.fault(ApiVersionsRequest, hold=True)
        b.link.ensure(b.clock())
        await held.reached.wait()
        b.link.retire()
        await b.link.use_new_credentials()
        await b.events.seen("lost")
        assert math.isinf(b.poll())
        assert b.link.state is LinkState.IDLE
        held.release()


async def test_a_session_that_ends_soon_takes_no_more_requests(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("alice-secret")
    async with secured(wanted={"session_ms": 60_000}, sasl_password=f"file:{secret}") as (brokers, b):
        old = await connected(b)
        held = brokers.fault(ApiVersionsRequest, hold=True)
        secret.write_text("wrong")
        b.clock.advance(59.5)
        moving = asyncio.create_task(b.link.use_new_credentials())
        await held.reached.wait()
        assert not old.can_write
        held.release()
        with pytest.raises(AuthenticationError):
            await moving
        assert old.can_write


async def test_a_session_that_has_lapsed_is_replaced() -> None:
    async with secured(wanted={"session_ms": 60_000}) as (_, b):
        await b.ready()
        b.clock.advance(58.0)
        b.poll()
        assert not b.link.is_ready(b.clock())
        await b.link.use_new_credentials()
        assert b.link.is_ready(b.clock())
        assert b.events.errors == [None]


async def test_an_attempt_that_is_under_way_starts_again() -> None:
    async with secured() as (brokers, b):
        await b.link.use_new_credentials()
        assert b.link.state is LinkState.IDLE
        held = brokers.fault(ApiVersionsRequest, hold=True)
        b.link.ensure(b.clock())
        await held.reached.wait()
        await b.link.use_new_credentials()
        await b.events.seen("lost")
        b.poll()
        await b.events.seen("ready")
        assert b.events.errors == [None]
        held.release()


async def test_a_backoff_ends_with_new_credentials(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("wrong")
    async with secured(sasl_password=f"file:{secret}") as (_, b):
        b.link.ensure(b.clock())
        await b.events.seen("lost")
        b.link.ensure(b.clock())
        assert b.link.state is LinkState.BACKOFF
        secret.write_text("alice-secret")
        await b.link.use_new_credentials()
        b.poll()
        await b.events.seen("ready")
