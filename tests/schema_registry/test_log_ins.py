"""Log-ins and TLS; no secret is shown, or sent to another address."""

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any

import pytest

from aioprod.errors import ConfigError
from aioprod.schema_registry import (
    RegistryAccessError,
    RegistryUnreachableError,
    SchemaRegistry,
)
from aioprod.schema_registry.addresses import addresses_of
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_calls import REGISTER, SCHEMA, failure


@pytest.mark.parametrize("way", ["options", "url", "token", "function", "coroutine function"])
async def test_log_ins(way: str) -> None:
    with FakeSchemaRegistry(username="ann", password="p:@/w") as basic, FakeSchemaRegistry(token="t0ken") as bearer:
        options: Any = {
            "options": {"username": "ann", "password": "p:@/w"},
            "url": {},
            "token": {"token": "t0ken"},
            "function": {"token": lambda: "t0ken"},
            "coroutine function": {"token": fetch_token},
        }[way]
        url = bearer.url if "token" in options else basic.url
        if way == "url":
            url = basic.url.replace("//", "//ann:p%3A%40%2Fw@")
        async with SchemaRegistry(url, **options) as registry:
            assert (await registry.register("orders-value", SCHEMA)).id == 1
            assert "p:@" not in repr(registry) + repr(registry.config)
            assert "t0ken" not in repr(registry) + repr(registry.config)
            assert "%3A" not in repr(registry)


def with_log_in(url: str, log_in: str) -> str:
    return url.replace("//", f"//{log_in}@")


async def test_a_log_in_is_for_its_own_address() -> None:
    """The second registry would accept that of the first, and does not get it."""
    wanted: Any = {"username": "ann", "password": "pw"}
    with FakeSchemaRegistry(**wanted) as first, FakeSchemaRegistry(**wanted) as second:
        urls = [with_log_in(first.url, "ann:pw"), second.url]
        async with SchemaRegistry(urls, retry_backoff_ms=1) as registry:
            assert (await registry.register("orders-value", SCHEMA)).id == 1
            first.down()
            with pytest.raises(RegistryAccessError, match=f"{second.url} does not accept the log-in"):
                await registry.subjects()


async def test_each_address_has_its_log_in() -> None:
    with (
        FakeSchemaRegistry(username="ann", password="pw") as first,
        FakeSchemaRegistry(username="bob", password="pw") as second,
        FakeSchemaRegistry(token="t0ken") as third,
    ):
        urls = f"{with_log_in(first.url, 'ann:pw')},{with_log_in(second.url, 'bob:pw')}, {third.url}"
        async with SchemaRegistry(urls, token="t0ken", retry_backoff_ms=1) as registry:
            for fake in (first, second, third):
                assert await registry.subjects() == []
                assert fake.requests == {"GET /subjects": 1}
                fake.down()
            assert "pw" not in repr(registry)
        assert "pw" not in repr(addresses_of(urls).in_order())


@pytest.mark.parametrize("options", [{"username": "ann", "password": "s3cret"}, {"token": "s3cret"}])
def test_a_log_in_is_not_sent_with_and_without_tls(options: Any) -> None:
    mixed = ["https://a", "http://b"]
    with pytest.raises(ConfigError, match="http:// and of https://, and the log-in would be sent to both") as raised:
        SchemaRegistry(mixed, **options)
    assert "s3cret" not in str(raised.value)
    for urls in (mixed[:1], mixed[1:], ["https://a", "http://bob:pw@b"]):
        SchemaRegistry(urls, **options)
    SchemaRegistry(mixed)


async def fetch_token() -> str:
    await asyncio.sleep(0)
    return "t0ken"


@pytest.mark.parametrize("given", ["sekret\n", "sekr\u00e9t", "", None, 5])
async def test_tokens_that_cannot_be_sent(fake_schema_registry: FakeSchemaRegistry, given: Any) -> None:
    async with SchemaRegistry(fake_schema_registry.url, token=lambda: given) as registry:
        with pytest.raises(ConfigError, match="token is not text of printable ASCII") as raised:
            await registry.subjects()
    assert "sekr" not in "".join(traceback.format_exception(raised.value))


async def test_a_token_function_that_raises(fake_schema_registry: FakeSchemaRegistry) -> None:
    calls: list[int] = []

    def fail() -> str:
        calls.append(1)
        raise RuntimeError("sekret " * 2)

    async with SchemaRegistry(fake_schema_registry.url, token=fail) as registry:
        error = await failure(registry, RegistryAccessError)
    assert "The function token raised RuntimeError" in error.message
    assert len(calls) == 1, "there is no retry"
    assert "sekret sekret" not in "".join(traceback.format_exception(error))


async def test_a_token_function_that_never_returns(fake_schema_registry: FakeSchemaRegistry) -> None:
    async def wait() -> str:
        await asyncio.Event().wait()
        return ""

    async with SchemaRegistry(fake_schema_registry.url, token=wait, request_timeout_ms=50, retries=0) as registry:
        async with asyncio.timeout(20):
            error = await failure(registry, RegistryUnreachableError)
    assert "within request_timeout_ms=50" in error.message


async def test_a_wrong_log_in() -> None:
    with FakeSchemaRegistry(username="ann", password="right") as fake:
        async with SchemaRegistry(fake.url, username="ann", password="wr0ng!") as registry:
            error = await failure(registry, RegistryAccessError)
            assert "Unauthorized" in error.message
            assert "wr0ng!" not in str(error)
        assert fake.requests == {REGISTER: 1}


async def test_tls() -> None:
    with FakeSchemaRegistry(client_certificates=True) as fake:
        async with SchemaRegistry(fake.url, ca_file=fake.ca_file, certificate_file=fake.client_file) as registry:
            assert (await registry.register("orders-value", SCHEMA)).id == 1
        async with SchemaRegistry(fake.url, ca_file=fake.ca_file, retries=0) as registry:
            # Its alert comes with TLS 1.3 after the handshake, and may come after the connection is closed.
            error = await failure(registry, RegistryUnreachableError)
        assert "Operation not permitted" not in str(error)
        assert "give certificate_file" in error.hint


async def test_a_certificate_that_is_not_accepted() -> None:
    with FakeSchemaRegistry(tls=True) as fake:
        async with SchemaRegistry(fake.url) as registry:
            error = await failure(registry, RegistryUnreachableError)
        assert "its certificate is not accepted" in error.message
        assert "ca_file" in error.hint
        assert not error.is_passing
        plain = fake.url.replace("https", "http")
        async with SchemaRegistry(plain, retries=0) as registry:
            assert "If it speaks TLS, use https://." in (await failure(registry, RegistryUnreachableError)).hint


async def test_a_registry_without_tls(fake_schema_registry: FakeSchemaRegistry) -> None:
    async with SchemaRegistry(fake_schema_registry.url.replace("http", "https")) as registry:
        error = await failure(registry, RegistryUnreachableError)
    assert "it does not speak TLS" in error.message
    assert not error.is_passing


async def test_files_that_are_none(tmp_path: Path, fake_schema_registry: FakeSchemaRegistry) -> None:
    (tmp_path / "junk.pem").write_text("junk")
    url = fake_schema_registry.url.replace("http", "https")
    for file, words in (("missing.pem", "No such file or directory"), (str(tmp_path / "junk.pem"), "no .+ found")):
        async with SchemaRegistry(url, ca_file=file) as registry:
            with pytest.raises(
                ConfigError, match=rf"ca_file '.+\.pem' of the schema registry can't be used: {words}\."
            ):
                await registry.subjects()
    async with SchemaRegistry(url, certificate_file=str(tmp_path / "junk.pem")) as registry:
        with pytest.raises(ConfigError, match="certificate_file"):
            await registry.subjects()
