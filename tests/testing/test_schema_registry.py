"""The fake schema registry: Avro's rules of compatibility, and its faults. Its answers are those of the scenarios."""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import UsageError
from aioprod.testing import FakeSchemaRegistry
from aioprod.testing.schema_registry.avro_rules import unreadable
from aioprod.testing.schema_registry.formats import InvalidSchemaError, canonical, check, differences

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def request(url: str, body: Any = None, method: str | None = None) -> tuple[int, Any]:
    """Status and JSON of a response."""
    made = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), method=method)
    try:
        with OPENER.open(made, timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def record(*fields: Any, name: str = "R", **more: Any) -> Any:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> Any:
    return {"name": name, "type": kind, **more}


NODE = record(field("next", ["null", "Node"]), name="Node")


@pytest.mark.parametrize(
    ("reader", "writer", "reasons"),
    [
        ("int", "int", []),
        ("long", "int", []),
        ("double", "long", []),
        ("bytes", "string", []),
        ("int", "long", ["at its top long can't be read as int"]),
        (["null", "long"], "int", []),
        ("int", ["int", "null"], ["at its top null can't be read as int"]),
        (["null", "string"], "int", ["at its top int is in no branch of the union that reads it"]),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), []),
        (record(field("a", "int"), field("b", "int", default=0)), record(field("a", "int")), []),
        (record(field("a", "int"), field("b", "int")), record(field("a", "int")), ["the new field 'b' has no default"]),
        (record(field("b", "int", aliases=["a"])), record(field("a", "int")), []),
        (record(field("a", "int")), record(field("a", "string")), ["at 'a' string can't be read as int"]),
        (record(name="x.R"), record(name="y.R"), []),
        (record(name="S"), record(name="R"), ["at its top the record R can't be read as S"]),
        (record(name="S", aliases=["R"]), record(name="R"), []),
        (NODE, NODE, []),
        (
            record(field("a", record(field("n", "int"), field("m", "int"), name="I"))),
            record(field("a", record(field("n", "int"), name="I"))),
            ["the new field 'a.m' has no default"],
        ),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, ["at '[]' long can't be read as int"]),
        ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, ["at '{}' long can't be read as int"]),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            ["at its top the enum lacks B"],
        ),
        (
            {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"},
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            [],
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            ["at its top the size 3 can't be read as 2"],
        ),
    ],
)
def test_what_can_be_read(reader: Any, writer: Any, reasons: list[str]) -> None:
    assert unreadable(reader, writer) == reasons


@pytest.mark.parametrize(
    ("level", "backward", "forward"),
    [("NONE", 0, 0), ("BACKWARD", 1, 0), ("FORWARD", 0, 1), ("FULL", 1, 1), ("FULL_TRANSITIVE", 1, 1)],
)
def test_levels(level: str, backward: int, forward: int) -> None:
    narrow, wide = (json.dumps(record(field("a", "int"), *more)) for more in ((), (field("b", "int"),)))
    assert len(differences("AVRO", level, (wide, {}), (narrow, {}))) == backward
    assert len(differences("AVRO", level, (narrow, {}), (wide, {}))) == forward
    assert differences("JSON", level, ("{}", {}), ("{}", {})) == []


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", "{"),
        ("AVRO", '"nothing"'),
        ("AVRO", '{"type": "record"}'),
        ("JSON", '{"type": 7}'),
        ("PROTOBUF", " "),
        ("PROTOBUF", "=?"),
    ],
)
def test_what_is_not_valid(kind: str, text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        check(kind, text, {})


def test_what_is_the_same() -> None:
    assert canonical("AVRO", '{"type": "int"}', normalize=False) == canonical("AVRO", '"int"', normalize=False)
    one, other = '{"a": 1, "b": 2}', '{"b": 2, "a": 1}'
    assert canonical("JSON", one, normalize=True) == canonical("JSON", other, normalize=True)
    assert canonical("JSON", one, normalize=False) != canonical("JSON", other, normalize=False)
    nested = '{"type": "array", "items": [{"type": "string"}, "null"]}'
    assert canonical("AVRO", nested, normalize=False) == '{"items":["string","null"],"type":"array"}'


def test_levels_by_request(fake_schema_registry: FakeSchemaRegistry) -> None:
    url = fake_schema_registry.url
    assert request(f"{url}/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert request(f"{url}/config/a", {"compatibility": "NONE"}, "PUT") == (200, {"compatibility": "NONE"})
    assert request(f"{url}/config/a")[1] == {"compatibilityLevel": "NONE"}
    assert request(f"{url}/config/b")[1] == {"compatibilityLevel": "BACKWARD"}
    assert request(f"{url}/config", {"compatibility": "FULL_TRANSITIVE"}, "PUT")[0] == 200
    assert request(f"{url}/config/b")[1] == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert request(f"{url}/config", {"compatibility": "SOME"}, "PUT")[1]["error_code"] == 42203
    first = json.dumps(record(field("a", "int"), field("b", "int")))
    fake_schema_registry.register("b", first)
    with pytest.raises(ValueError, match="'b': the new field 'b' has no default"):
        fake_schema_registry.register("b", json.dumps(record(field("a", "int"))))
    with pytest.raises(ValueError, match="it is of type JSON, not AVRO"):
        fake_schema_registry.register("b", "{}", "JSON")
    assert request(f"{url}/subjects/b/versions") == (200, [1])


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/nothing", None, 404, 404),
        ("PUT", "/subjects", {}, 405, 405),
        ("GET", "/subjects/a/versions", None, 404, 40401),
        ("POST", "/subjects/a/versions", {}, 422, 42201),
        ("POST", "/subjects/a/versions", [], 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": "{}", "schemaType": "XML"}, 422, 42201),
        ("POST", "/subjects/a/versions", {"schema": '"int"', "references": [{}]}, 422, 42201),
        (
            "POST",
            "/subjects/a/versions",
            {"schema": '"int"', "references": [{"name": "n", "subject": "gone", "version": 1}]},
            422,
            42201,
        ),
        ("GET", "/schemas/types", None, 200, None),
    ],
)
def test_requests_that_are_wrong(
    fake_schema_registry: FakeSchemaRegistry, method: str, path: str, body: Any, status: int, code: int | None
) -> None:
    found, answer = request(fake_schema_registry.url + path, body, method)
    assert found == status
    if code is not None:
        assert answer["error_code"] == code


def test_it_goes_and_comes_back_at_its_port(fake_schema_registry: FakeSchemaRegistry) -> None:
    fake_schema_registry.register("a", '"int"')
    url = fake_schema_registry.url
    fake_schema_registry.down()
    fake_schema_registry.down()
    with pytest.raises(urllib.error.URLError):
        request(f"{url}/subjects")
    fake_schema_registry.up()
    fake_schema_registry.up()
    assert fake_schema_registry.url == url
    assert request(f"{url}/subjects") == (200, ["a"])
    assert "FakeSchemaRegistry('http://127.0.0.1:" in repr(fake_schema_registry)


def test_a_connection_that_is_idle_does_not_keep_it_up(fake_schema_registry: FakeSchemaRegistry) -> None:
    host, port = fake_schema_registry.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as idle:
        request(f"{fake_schema_registry.url}/subjects")
        fake_schema_registry.down()
        idle.settimeout(20)
        assert idle.recv(1) == b""


def test_it_goes_while_it_is_paused() -> None:
    """A request that waits is dropped; one that comes after `up` waits for the end of the block."""
    fake = FakeSchemaRegistry()

    def ended(call: Callable[[], Any]) -> threading.Thread:
        def run() -> None:
            try:
                ends.append(call())
            except OSError as error:
                ends.append(type(error))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def wait_for(count: int) -> None:
        end = time.monotonic() + 20
        while sum(fake.requests.values()) < count:
            assert time.monotonic() < end
            time.sleep(0.001)

    ends: list[Any] = []
    with fake:
        with fake.paused():
            first = ended(lambda: request(f"{fake.url}/subjects/a/versions", {"schema": '"int"'}))
            wait_for(1)
            down = ended(fake.down)
            down.join(20)
            assert not down.is_alive(), "down does not wait for the end of the block"
            first.join(20)
            fake.up()
            second = ended(lambda: request(f"{fake.url}/subjects"))
            wait_for(2)
            assert second.is_alive()
        second.join(20)
    assert ends[-1] == (200, []), "what was dropped was not done"
    assert len(ends) == 3


def test_certificates_are_for_tls_only(fake_schema_registry: FakeSchemaRegistry) -> None:
    with pytest.raises(ValueError, match="without tls=True"):
        print(fake_schema_registry.ca_file)


@pytest.mark.parametrize(
    "given",
    [{"status": 99}, {"status": "500"}, {"status": True}, {"times": 0}, {"times": None}, {"content": b"{}"}],
)
def test_what_can_not_be_an_answer(fake_schema_registry: FakeSchemaRegistry, given: dict[str, Any]) -> None:
    """It would close the connection, as a registry does that is down."""
    with pytest.raises(UsageError, match=r"fail\("):
        fake_schema_registry.fail(**given)
    assert request(f"{fake_schema_registry.url}/subjects") == (200, [])


def test_a_level_that_does_not_exist(fake_schema_registry: FakeSchemaRegistry) -> None:
    with pytest.raises(ValueError, match="Valid values are NONE and BACKWARD"):
        fake_schema_registry.set_compatibility("BACKWARDS")
