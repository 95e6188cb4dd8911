"""Requests to the registry: retries, several addresses, and what it answers, as errors in one sentence."""

from __future__ import annotations

import asyncio
import gzip
import pickle
import ssl
import threading
import traceback
from typing import Any

import pytest

from aioprod.errors import ConfigError, UsageError
from aioprod.schema_registry import (
    RegistryAccessError,
    RegistryAnswerError,
    RegistryConfig,
    RegistryUnreachableError,
    SchemaRegistry,
    SchemaRejectedError,
)
from aioprod.schema_registry.http import RegistryHttp
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_calls import DEAD, REGISTER, SCHEMA, failure


async def test_no_registry_at_start() -> None:
    async with SchemaRegistry(DEAD, retries=2, retry_backoff_ms=1) as registry:
        error = await failure(registry, RegistryUnreachableError)
    assert "Connection refused" in error.message
    assert error.is_passing
    assert error.status is None


async def test_a_registry_that_goes_and_comes_back(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    known = await registry.register("other-value", SCHEMA)
    fake_schema_registry.down()
    await failure(registry, RegistryUnreachableError)
    assert await registry.register("other-value", SCHEMA) == known
    fake_schema_registry.up()
    assert (await registry.register("orders-value", SCHEMA)).id == known.id


async def test_another_address_is_used(fake_schema_registry: FakeSchemaRegistry) -> None:
    urls = [DEAD, fake_schema_registry.url]
    async with SchemaRegistry(urls, retry_backoff_ms=1) as registry:
        assert (await registry.register("orders-value", SCHEMA)).id == 1


async def test_each_address_is_tried(fake_schema_registry: FakeSchemaRegistry) -> None:
    urls = [DEAD, f"{DEAD}/other", fake_schema_registry.url]
    async with SchemaRegistry(urls, retries=0, retry_backoff_ms=1) as registry:
        assert (await registry.register("orders-value", SCHEMA)).id == 1
        fake_schema_registry.fail(503, times=2)
        with pytest.raises(RegistryUnreachableError, match="/other can't be reached"):
            await registry.subjects()
    assert fake_schema_registry.requests == {REGISTER: 1, "GET /subjects": 1}


async def test_each_address_is_tried_by_concurrent_requests(fake_schema_registry: FakeSchemaRegistry) -> None:
    """Each of them moves on from an address that fails, and leaves out none for the others."""
    urls = [DEAD, f"{DEAD}/other", fake_schema_registry.url]
    async with SchemaRegistry(urls, retries=0, retry_backoff_ms=1) as registry:
        versions = await asyncio.gather(*(registry.register(f"s{number}", SCHEMA) for number in range(20)))
    assert [known.id for known in versions] == [1] * 20


async def test_failures_of_the_registry_are_retried(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    fake_schema_registry.fail(500, times=3)
    assert (await registry.register("orders-value", SCHEMA)).id == 1
    assert fake_schema_registry.requests == {REGISTER: 4}
    fake_schema_registry.fail(503, times=4)
    with pytest.raises(RegistryAnswerError, match=r"status 503\): It fails as the test wants\.") as raised:
        await registry.register("more-value", SCHEMA)
    assert raised.value.is_passing


@pytest.mark.parametrize("status", [408, 429])
async def test_what_passes_is_retried(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, status: int
) -> None:
    fake_schema_registry.fail(status)
    assert (await registry.register("orders-value", SCHEMA)).id == 1
    fake_schema_registry.fail(status, times=4)
    with pytest.raises(RegistryAnswerError) as raised:
        await registry.register("more-value", SCHEMA)
    assert raised.value.is_passing


async def test_closing_while_a_request_is_retried(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    closing: list[asyncio.Task[None]] = []

    def pause_s(http: RegistryHttp, attempt: int) -> float:
        closing.append(asyncio.create_task(registry.close()))
        return 0.1

    monkeypatch.setattr(RegistryHttp, "_pause_s", pause_s)
    fake_schema_registry.fail(503)
    with pytest.raises(UsageError, match="was closed"):
        await registry.subjects()
    await asyncio.gather(*closing)


async def test_closing_while_the_cas_are_read(
    fake_schema_registry: FakeSchemaRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, closed = threading.Event(), threading.Event()

    def tls_context(config: RegistryConfig) -> ssl.SSLContext:
        reading.set()
        assert closed.wait(20)
        return ssl.create_default_context()

    monkeypatch.setattr("aioprod.schema_registry.http.tls_context", tls_context)
    registry = SchemaRegistry(fake_schema_registry.url.replace("http", "https"))
    call = asyncio.create_task(registry.subjects())
    assert await asyncio.to_thread(reading.wait, 20)
    await registry.close()
    closed.set()
    with pytest.raises(UsageError, match="was closed"):
        await call


async def test_compressed_answers_are_refused() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        content = gzip.compress(b" " * 100_000)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        await writer.drain()
        writer.close()

    asked: list[bytes] = []
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, SchemaRegistry(f"http://127.0.0.1:{port}") as registry:
        with pytest.raises(RegistryAnswerError, match="with compressed bytes"):
            await registry.subjects()
    assert b"accept-encoding: identity\r\n" in asked[0].lower()


async def test_a_slow_registry(fake_schema_registry: FakeSchemaRegistry) -> None:
    async with SchemaRegistry(fake_schema_registry.url, request_timeout_ms=50, retries=1, retry_backoff_ms=1) as slow:
        with fake_schema_registry.paused():
            error = await failure(slow, RegistryUnreachableError)
    assert "within request_timeout_ms=50" in error.message


# --- what it answers


@pytest.mark.parametrize(
    ("status", "code", "kind", "words"),
    [
        (401, 401, RegistryAccessError, "does not accept the log-in"),
        (403, 40301, RegistryAccessError, "denies access"),
        (409, 409, SchemaRejectedError, "not compatible with an earlier version"),
        (422, 42201, SchemaRejectedError, "does not accept the schema"),
        (404, 404, RegistryAnswerError, "answered with status 404"),
        (302, 302, RegistryAnswerError, "answered with status 302"),
    ],
)
async def test_what_will_not_change_is_not_retried(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, status: int, code: int, kind: Any, words: str
) -> None:
    fake_schema_registry.fail(status, content={"error_code": code, "message": "The registry's words"})
    error = await failure(registry, kind)
    assert (error.status, error.code, error.reason, error.is_passing) == (status, code, "The registry's words", False)
    assert words in error.message
    assert "The registry's words" in error.message
    assert fake_schema_registry.requests == {REGISTER: 1}
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), copied.reason) == (kind, str(error), error.reason)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("<html>Welcome</html>", "is not a schema registry"),
        ([], "it is not a JSON object"),
        ({}, "its field 'id' is not of type int"),
        ({"id": True}, "its field 'id' is not of type int"),
        ({"id": -1}, "does not fit in 4 bytes"),
        ({"id": 1, "guid": "x"}, "is not a GUID"),
        ({"id": 1, "version": "1"}, "its field 'version' is not of type int"),
    ],
)
async def test_strange_answers(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, content: Any, words: str
) -> None:
    fake_schema_registry.fail(200, content=content)
    assert words in (await failure(registry, RegistryAnswerError)).message


@pytest.mark.parametrize(
    "content",
    [
        {"schema": 1},
        {"schema": "{}", "schemaType": "XML"},
        {"schema": "{}", "references": {}},
        {"schema": "{}", "references": [1]},
        {"schema": "{}", "references": [{"name": "a", "subject": "b"}]},
    ],
)
async def test_strange_schemas(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, content: Any
) -> None:
    fake_schema_registry.fail(200, content=content)
    with pytest.raises(RegistryAnswerError, match="schema id 1"):
        await registry.schema(1)


async def test_a_strange_list_of_subjects(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    fake_schema_registry.fail(200, content=[1])
    with pytest.raises(RegistryAnswerError, match="not a list of names"):
        await registry.subjects()


async def test_an_error_without_words(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    fake_schema_registry.fail(409, content="[]")
    error = await failure(registry, SchemaRejectedError)
    assert (error.code, error.reason) == (None, None)


async def test_a_response_without_end(fake_schema_registry: FakeSchemaRegistry) -> None:
    fake_schema_registry.fail(200, content=" " * 5000)
    async with SchemaRegistry(fake_schema_registry.url, response_bytes_max=4096) as registry:
        error = await failure(registry, RegistryAnswerError)
    assert "more than 4096 bytes" in error.message


@pytest.mark.parametrize("proxy", ["http://u:s3cret@host:port", "http://[u:s3cret", "ftp://u:s3cret@host"])
async def test_a_proxy_of_the_environment_that_is_none(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    async with SchemaRegistry("http://registry.invalid:8081") as registry:
        with pytest.raises(ConfigError, match="The proxy that the environment names") as raised:
            await registry.subjects()
    assert "s3cret" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("encoding", ["Identity", "identity ", ""])
async def test_answers_that_say_that_they_are_not_compressed(encoding: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 2\r\n\r\n[]".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, SchemaRegistry(f"http://127.0.0.1:{port}") as registry:
        assert await registry.subjects() == []
