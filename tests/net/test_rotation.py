"""Certificates and credentials that are replaced while a client runs."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aioprod import OAuthToken
from aioprod.config import ClientConfig
from aioprod.errors import AuthenticationError, ConfigError, TlsError, UsageError
from aioprod.messages import ApiVersionsRequest, MetadataRequest, SaslHandshakeRequest
from aioprod.net import Client
from aioprod.net.tls.contexts import TlsContexts
from aioprod.net.tls.rotation import LOOK_S, STABLE_S, Rotation
from aioprod.testing import FakeCluster, Security
from aioprod.testing.certificates import Authority
from aioprod.testing.security import unsecured_token
from tests.support.clients import Clock, Listener, running_client
from tests.support.links import bench, dead_node

pytestmark = pytest.mark.usefixtures("patient")

NOTHING = MetadataRequest(topics=())
DAY_S = 86400.0


class Running:
    """A client that is connected to all brokers of a cluster, and its time."""

    def __init__(self, brokers: FakeCluster, count: int, client: Client, listener: Listener, clock: Clock) -> None:
        self.brokers = brokers
        self.node_ids = range(1, count + 1)
        self.client = client
        self.listener = listener
        self.clock = clock

    @property
    def rotation(self) -> Rotation:
        assert self.client._rotation is not None
        return self.client._rotation

    @property
    def connections(self) -> list[Any]:
        links = [self.client.link(node_id) for node_id in self.node_ids]
        return [link and link.connection for link in links]

    async def look(self) -> float:
        """Let the client look at its files, and do what follows; after how many seconds it looks again."""
        async with asyncio.timeout(10):
            while math.isinf(self.rotation._look_at):
                await asyncio.sleep(0.001)
            at = self.rotation._look_at
            self.clock.advance(max(0.0, at - self.clock()))
            self.client.wake()
            while self.rotation._look_at in (at, math.inf):
                await asyncio.sleep(0.001)
        return round(self.rotation._look_at - self.clock())

    async def ask_all(self) -> None:
        for node_id in self.node_ids:
            await self.client.request(NOTHING, node_id=node_id)


@asynccontextmanager
async def running(wanted: Security, count: int = 2, **options: Any) -> AsyncIterator[Running]:
    async with FakeCluster(count, security=wanted) as brokers:
        config = ClientConfig.from_options(bootstrap_servers=brokers.bootstrap, **wanted.client_options() | options)
        clock = Clock()
        async with running_client(brokers[1].address, clock=clock, security=config) as (client, listener):
            found = Running(brokers, count, client, listener, clock)
            await found.ask_all()
            yield found


def certified(**options: Any) -> Security:
    return Security(protocol="SSL", client_certificates=True, **options)


def by_files(folder: Path, wanted: Security, ends_days: float = 100.0) -> dict[str, Any]:
    """Settings that name files for CA and certificate, in place of text."""
    (folder / "ca.pem").write_text(wanted.authority.certificate)
    (folder / "own.pem").write_text(wanted.authority.issue("alice", ends_days=ends_days).store)
    return {
        "ssl_truststore_certificates": None,
        "ssl_truststore_location": str(folder / "ca.pem"),
        "ssl_keystore_key": None,
        "ssl_keystore_certificate_chain": None,
        "ssl_keystore_location": str(folder / "own.pem"),
    }


# -- when it is asked for ----------------------------------------------------------------------------------------------


async def test_all_connections_are_replaced_on_request(tmp_path: Path) -> None:
    wanted = certified()
    async with running(wanted, **by_files(tmp_path, wanted)) as r:
        before = r.connections
        (tmp_path / "own.pem").write_text(wanted.authority.issue("alice", ends_days=200.0).store)
        await r.client.reload_credentials()
        after = r.connections
        for old, new in zip(before, after, strict=True):
            assert old.closed
            assert new is not old
            assert new.tls.validity.ends - old.tls.validity.ends == pytest.approx(100 * DAY_S, abs=60)
        await r.ask_all()
        assert r.listener.errors == [None, None]


async def test_one_broker_after_the_other() -> None:
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])
    async with running(wanted) as r:
        before = r.connections
        held = r.brokers.fault(ApiVersionsRequest, hold=True)
        reloading = asyncio.create_task(r.client.reload_credentials())
        await held.reached.wait()
        await r.ask_all()
        assert r.connections == before, "the first one is not ready, and the second one not begun"
        assert len(r.brokers.seen_of(SaslHandshakeRequest)) == 2
        held.release()
        await reloading
        assert not set(r.connections) & set(before)
        assert r.client.credentials_expire_s is None, "a password has no end"


async def test_a_new_token_is_fetched_for_all() -> None:
    names: list[str] = []

    def provider() -> OAuthToken:
        names.append("alice")
        return unsecured_token("alice")

    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"])
    async with running(wanted, sasl_token_provider=provider) as r:
        await r.client.reload_credentials()
        assert len(names) == 2
        assert 3000 < (r.client.credentials_expire_s or 0.0) <= 3600
        assert len(r.brokers.seen_of(SaslHandshakeRequest)) == 4


async def test_without_new_credentials_nothing_is_touched(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = certified()
    async with running(wanted, **by_files(tmp_path, wanted)) as r:
        before = r.connections
        own = (tmp_path / "own.pem").read_text()
        (tmp_path / "own.pem").write_text("half")
        caplog.set_level(logging.WARNING, "aioprod")
        with pytest.raises(ConfigError, match="has no private key in PEM"):
            await r.client.reload_credentials()
        assert caplog.messages[0].startswith("There are no new credentials, so the old ones stay in use: ssl.keystore")
        assert r.connections == before
        (tmp_path / "own.pem").write_text(own)
        await r.client.reload_credentials()
        assert not set(r.connections) & set(before)

    async def away() -> OAuthToken:
        raise OSError("away")

    answers = iter([lambda: unsecured_token("alice"), away])
    wanted = Security(protocol="SASL_PLAINTEXT", mechanisms=["OAUTHBEARER"])
    async with running(wanted, sasl_token_provider=lambda: next(answers)()) as r:
        with pytest.raises(AuthenticationError, match="raised OSError"):
            await r.client.reload_credentials()


async def test_brokers_that_reject_are_named_and_the_others_are_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = certified()
    async with running(wanted, **by_files(tmp_path, wanted)) as r:
        before = r.connections
        # What is trusted here does not come from the brokers' CA any more.
        (tmp_path / "ca.pem").write_text(Authority("another one").certificate)
        caplog.set_level(logging.WARNING, "aioprod")
        with pytest.raises(TlsError, match="is from no CA that is trusted here"):
            await r.client.reload_credentials()
        assert r.connections == before
        assert [message.partition(" at ")[0] for message in caplog.messages] == ["Broker 1", "Broker 2"]
        assert "does not accept a connection with the new credentials, so the old one stays in use" in caplog.text
        await r.ask_all()


async def test_with_nothing_to_reload_and_after_the_end() -> None:
    async with FakeCluster() as brokers, running_client(brokers[1].address) as (client, listener):
        await client.reload_credentials()
        assert client.credentials_expire_s is None
        assert ("lost", 1) not in listener.events
        await client.close()
        with pytest.raises(UsageError, match="is closed"):
            await client.reload_credentials()


async def test_a_client_that_is_closed_meanwhile() -> None:
    async with running(Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])) as r:
        held = r.brokers.fault(ApiVersionsRequest, hold=True)
        reloading = asyncio.create_task(r.client.reload_credentials())
        await held.reached.wait()
        await r.client.close()
        with pytest.raises(UsageError, match="was closed while it reloaded"):
            await reloading
        held.release()


async def test_a_cancelled_waiter_ends_it() -> None:
    async with running(Security(protocol="SASL_PLAINTEXT", mechanisms=["PLAIN"])) as r:
        before = r.connections
        held = r.brokers.fault(ApiVersionsRequest, hold=True)
        reloading = asyncio.create_task(r.client.reload_credentials())
        await held.reached.wait()
        reloading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reloading
        held.release()
        await r.ask_all()
        assert r.connections == before


# -- when files change -------------------------------------------------------------------------------------------------


def written(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)


def swapped(folder: Path, name: str, text: str) -> None:
    """As Kubernetes does it: the name is a link to a file in a folder, which is a link."""
    (folder / "..next").mkdir()
    (folder / "..next" / name).write_text(text)
    (folder / name).unlink()
    (folder / name).symlink_to(folder / "..data" / name)
    (folder / "..link").symlink_to(folder / "..next")
    os.replace(folder / "..link", folder / "..data")


@pytest.mark.parametrize("replace", [written, swapped])
async def test_changed_files_are_read_when_they_are_stable(
    tmp_path: Path, replace: Callable[[Path, str, str], None]
) -> None:
    wanted = certified()
    async with running(wanted, **by_files(tmp_path, wanted)) as r:
        before = r.connections
        assert await r.look() == LOOK_S, "what there is has settled"
        replace(tmp_path, "own.pem", wanted.authority.issue("alice", ends_days=200.0).store)
        assert await r.look() == STABLE_S
        assert r.connections == before
        assert await r.look() == LOOK_S
        for old, new in zip(before, r.connections, strict=True):
            assert old.closed
            assert new.tls.validity.ends > old.tls.validity.ends + 90 * DAY_S
        after = r.connections
        assert await r.look() == LOOK_S
        assert r.connections == after
        await r.ask_all()
        assert r.listener.errors == [None, None]


async def test_half_written_files_are_warned_of_once_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = certified()
    async with running(wanted, **by_files(tmp_path, wanted)) as r:
        before = r.connections
        await r.look()
        first, second = wanted.authority.issue("alice"), wanted.authority.issue("alice")
        (tmp_path / "own.pem").write_text(first.key + second.chain)
        with caplog.at_level(logging.WARNING, "aioprod"):
            for _ in range(4):
                await r.look()
        assert r.connections == before
        (said,) = caplog.messages
        assert "can't be used, so the old ones stay in use: ssl.keystore.location=" in said
        (tmp_path / "own.pem").write_text(second.store)
        await r.look()
        await r.look()
        assert not set(r.connections) & set(before)


async def test_a_broker_that_rejects_is_retried_with_each_check(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = certified()
    async with running(wanted, 1, **by_files(tmp_path, wanted)) as r:
        before = r.connections
        await r.look()
        (tmp_path / "ca.pem").write_text(Authority("another one").certificate)
        with caplog.at_level(logging.WARNING, "aioprod"):
            for _ in range(3):
                await r.look()
        assert r.connections == before
        assert len(caplog.messages) == 2
        (tmp_path / "ca.pem").write_text(wanted.authority.certificate)
        await r.look()
        await r.look()
        assert not set(r.connections) & set(before)


async def test_without_files_connections_stay_and_the_end_of_a_certificate_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(certified()) as r:
        before = r.connections
        tls = r.rotation._context.tls
        assert tls is not None
        looks: list[object] = []
        monkeypatch.setattr(tls, "_warn_of_its_end", looks.append)
        assert await r.look() == LOOK_S
        assert await r.look() == LOOK_S
        assert len(looks) >= 2
        assert r.connections == before


async def test_a_context_of_the_user_s_is_not_looked_at() -> None:
    wanted = certified()
    own = wanted.authority.issue("alice")
    made: list[ssl.SSLContext] = []

    def make() -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=wanted.authority.certificate)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(own.store)
            file.flush()
            context.load_cert_chain(file.name)
        made.append(context)
        return context

    given: dict[str, Any] = {"ssl_truststore_certificates": None, "ssl_keystore_key": None}
    async with running(wanted, 1, **given, ssl_keystore_certificate_chain=None, ssl_context=make) as r:
        count = len(made)
        r.clock.advance(10 * LOOK_S)
        r.client.wake()
        await r.ask_all()
        assert len(made) == count
        assert math.isinf(r.rotation.poll(r.clock()))


async def test_files_that_never_worked_are_left_to_the_next_connection(tmp_path: Path) -> None:
    missing = {"ssl_keystore_location": str(tmp_path / "own.pem")}
    config = ClientConfig.from_options(bootstrap_servers="x:1", security_protocol="SSL", **missing)
    async with bench(dead_node(), security=config) as b:
        rotation = Rotation([b.link], b.context)
        for due_s in (STABLE_S, LOOK_S):
            rotation.poll(b.clock())
            async with asyncio.timeout(10):
                while math.isinf(rotation._look_at):
                    await asyncio.sleep(0.001)
            assert round(rotation._look_at - b.clock()) == due_s
            b.clock.advance(LOOK_S)
        assert b.link.connection is None


# -- when a certificate ends -------------------------------------------------------------------------------------------


async def test_a_certificate_that_ends_soon_is_warned_of_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = Authority().issue("alice", ends_days=20.0)
    (tmp_path / "own.pem").write_text(own.store)
    config = ClientConfig.from_options(
        bootstrap_servers="x:1", security_protocol="SSL", ssl_keystore_location=str(tmp_path / "own.pem")
    )
    contexts = TlsContexts(config, wall=lambda: now_s)
    now_s = 0.0
    with caplog.at_level(logging.WARNING, "aioprod"):
        await contexts.current()
        assert contexts.ends is not None
        for days, told in ((15.0, 0), (13.9, 1), (13.2, 1), (12.8, 2), (0.5, 3), (-1.5, 4)):
            now_s = contexts.ends - days * DAY_S
            await contexts.current()
            await contexts.current()
            assert len(caplog.messages) == told, days
    assert (
        caplog.messages[0] == "Our certificate (ssl.keystore) ends in 13.9 days. New files are picked up automatically."
    )
    assert "ended 1.5 days ago" in caplog.messages[-1]


async def test_the_first_of_certificate_and_token_to_end_is_reported() -> None:
    wanted = Security(protocol="SASL_SSL", mechanisms=["OAUTHBEARER"], client_certificates=True)
    async with running(wanted, 1) as r:
        left_s = r.client.credentials_expire_s
        assert left_s is not None
        assert 3500 < left_s < 3601
    async with running(wanted, 1, sasl_token_provider=lambda: unsecured_token("alice", 400 * DAY_S)) as r:
        left_s = r.client.credentials_expire_s
        assert left_s is not None
        assert 364 * DAY_S < left_s < 366 * DAY_S
