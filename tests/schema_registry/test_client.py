"""The client: one look-up for concurrent calls, caches, retries, log-in, TLS, and errors in one sentence."""

from __future__ import annotations

import asyncio
import gzip
import pickle
import traceback
import uuid
from pathlib import Path
from typing import Any

import pytest

from aioprod.config import settings_of
from aioprod.errors import ConfigError, SerializationError, UsageError
from aioprod.schema_registry import (
    RegistryAccessError,
    RegistryAnswerError,
    RegistryConfig,
    RegistryUnreachableError,
    Schema,
    SchemaRegistry,
    SchemaRejectedError,
    UnknownSchemaError,
)
from aioprod.schema_registry.http import RegistryHttp
from aioprod.schema_registry.settings import RegistryOptions
from aioprod.testing import FakeSchemaRegistry
from tests.support.dead_addresses import dead_address
from tests.support.registry_schemas import ORDER, avro_record, json_schema

REGISTER = "POST /subjects/orders-value/versions"
SCHEMA = Schema(ORDER)
DEAD = "http://{}:{}".format(*dead_address())


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def failure(registry: SchemaRegistry, kind: type[SerializationError]) -> Any:
    """The error of registering a schema, whose text is one sentence and a hint."""
    with pytest.raises(kind) as raised:
        await registry.register("orders-value", SCHEMA)
    assert "'orders-value'" in raised.value.message
    assert raised.value.subject == "orders-value"  # type: ignore[attr-defined]
    assert "\n" not in str(raised.value)
    return raised.value


async def test_a_thousand_concurrent_calls_share_one_request(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        calls = [asyncio.create_task(registry.register("orders-value", SCHEMA)) for _ in range(1000)]
        await asyncio.sleep(0)
    known = await asyncio.gather(*calls)
    assert {each.id for each in known} == {1}
    assert fake_schema_registry.requests == {REGISTER: 1}
    assert (await registry.register("orders-value", SCHEMA)).id == 1
    assert fake_schema_registry.requests == {REGISTER: 1}, "cached for ever"


async def test_what_fails_is_looked_up_again(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    fake_schema_registry.fail(422, content={"error_code": 42201, "message": "Not today"})
    with fake_schema_registry.paused():
        calls = [asyncio.create_task(registry.register("orders-value", SCHEMA)) for _ in range(3)]
        await asyncio.sleep(0)
    errors = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in errors] == [SchemaRejectedError] * 3
    assert len({id(error) for error in errors}) == 3, "each caller has an error of its own"
    assert (await registry.register("orders-value", SCHEMA)).id == 1


async def test_a_cancelled_call_leaves_the_request_to_the_others(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        first = asyncio.create_task(registry.register("orders-value", SCHEMA))
        second = asyncio.create_task(registry.register("orders-value", SCHEMA))
        await asyncio.sleep(0)
        first.cancel()
    assert (await second).id == 1
    assert first.cancelled()
    assert fake_schema_registry.requests == {REGISTER: 1}


async def test_closing_cancels_what_is_looked_up(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    with fake_schema_registry.paused():
        call = asyncio.create_task(registry.register("orders-value", SCHEMA))
        await asyncio.sleep(0)
        await registry.close()
        with pytest.raises(UsageError, match="was closed while a schema was looked up"):
            await call
    with pytest.raises(UsageError, match="is closed"):
        await registry.subjects()


async def test_schemas_by_id_are_cached_up_to_a_number(fake_schema_registry: FakeSchemaRegistry) -> None:
    ids = [fake_schema_registry.register(f"s{number}", avro_record(f"R{number}", id="int")) for number in range(3)]
    async with SchemaRegistry(fake_schema_registry.url, schemas_cached_max=2) as registry:
        for each in (ids[0], ids[1], ids[0], ids[2], ids[0], ids[1]):
            assert f'"R{each - 1}"' in (await registry.schema(each)).text
    assert fake_schema_registry.requests == {
        f"GET /schemas/ids/{ids[0]}": 1,
        "GET /schemas/ids/2": 2,
        "GET /schemas/ids/3": 1,
    }


async def test_a_schema_by_its_guid(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    known = await registry.register("orders-value", SCHEMA)
    assert isinstance(known.guid, uuid.UUID)
    assert await registry.schema(known.guid) == await registry.schema(known.guid) == SCHEMA
    assert fake_schema_registry.requests[f"GET /schemas/guids/{known.guid}"] == 1


async def test_the_latest_version_is_cached_for_a_time(fake_schema_registry: FakeSchemaRegistry) -> None:
    clock = Clock()
    fake_schema_registry.register("orders-value", ORDER)
    async with SchemaRegistry(fake_schema_registry.url, clock=clock, latest_ttl_ms=5000) as registry:
        assert (await registry.latest("orders-value")).version == 1
        fake_schema_registry.register("orders-value", avro_record("Order", id="int", more=("int", 0)))
        clock.now += 4.9
        assert (await registry.latest("orders-value")).version == 1
        clock.now += 0.2
        assert (await registry.latest("orders-value")).version == 2
    assert fake_schema_registry.requests["GET /subjects/orders-value/versions/latest"] == 2


async def test_normalized_schemas(registry: SchemaRegistry) -> None:
    schema = Schema(json_schema("Order", id={"type": "integer", "title": "Id"}), "JSON")
    turned = Schema(schema.text.replace('"type": "integer", "title": "Id"', '"title": "Id", "type": "integer"'), "JSON")
    assert schema != turned
    await registry.register("orders-value", schema)
    assert (await registry.find("orders-value", turned, normalize=True)).version == 1
    with pytest.raises(UnknownSchemaError):
        await registry.find("orders-value", turned)


async def test_subjects_with_any_letters(registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry) -> None:
    for subject in ("a/b.proto", "with space", "%41?x=1#", "ü"):
        assert (await registry.register(subject, SCHEMA)).id == 1
        assert fake_schema_registry.requests[f"POST /subjects/{subject}/versions"] == 1
    assert set(await registry.subjects()) == {"a/b.proto", "with space", "%41?x=1#", "ü"}


# --- the registry is down


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
    with pytest.raises(UsageError, match="is closed"):
        await registry.subjects()
    await asyncio.gather(*closing)


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
        ("<html>Welcome</html>", "is no schema registry"),
        ([], "it is no JSON object"),
        ({}, "its field 'id' is no int"),
        ({"id": True}, "its field 'id' is no int"),
        ({"id": -1}, "does not fit in 4 bytes"),
        ({"id": 1, "guid": "x"}, "is no GUID"),
        ({"id": 1, "version": "1"}, "its field 'version' is no int"),
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
    with pytest.raises(RegistryAnswerError, match="no list of names"):
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


# --- log-in and TLS


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


async def fetch_token() -> str:
    await asyncio.sleep(0)
    return "t0ken"


@pytest.mark.parametrize("given", ["sekret\n", "sekr\u00e9t", "", None, 5])
async def test_tokens_that_cannot_be_sent(fake_schema_registry: FakeSchemaRegistry, given: Any) -> None:
    async with SchemaRegistry(fake_schema_registry.url, token=lambda: given) as registry:
        with pytest.raises(ConfigError, match="token is no text of printable ASCII") as raised:
            await registry.subjects()
    assert "sekr" not in "".join(traceback.format_exception(raised.value))


async def test_a_token_function_that_raises(fake_schema_registry: FakeSchemaRegistry) -> None:
    def fail() -> str:
        raise RuntimeError("sekret " * 2)

    async with SchemaRegistry(fake_schema_registry.url, token=fail) as registry:
        error = await failure(registry, RegistryAccessError)
    assert "The function token raised RuntimeError" in error.message
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


# --- settings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"username": "ann"}, "username is given without password"),
        ({"password": "s3cret"}, "password is given without username"),
        ({"username": "ann", "password": "s3cret", "token": "t"}, "one log-in"),
        ({"key_file": "key.pem"}, "key_file is given without certificate_file"),
        ({"retries": -1}, "retries"),
        ({"token": 7}, "token"),
        ({"user": "ann"}, "user"),
    ],
)
def test_wrong_settings(options: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as raised:
        SchemaRegistry("http://localhost:8081", **options)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "urls",
    [
        "",
        "localhost:8081",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://u:s3cret@host?x=1",
        [],
        [7],
        "http://[",
        "http://u:s3cret@a,http://v:s3cret@b",
    ],
)
def test_wrong_addresses(urls: Any) -> None:
    with pytest.raises(ConfigError) as raised:
        SchemaRegistry(urls)
    assert "s3cret" not in str(raised.value)


def test_the_keyword_arguments_are_the_settings() -> None:
    table = settings_of(RegistryConfig)
    assert {name: setting.annotation for name, setting in table.items()} == {
        name: annotation.__forward_arg__ for name, annotation in RegistryOptions.__annotations__.items()
    }


async def test_one_event_loop(registry: SchemaRegistry) -> None:
    await registry.subjects()
    with pytest.raises(UsageError, match="another event loop"):
        await asyncio.to_thread(asyncio.run, registry.subjects())
