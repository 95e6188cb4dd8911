"""JSON Schema: what is not a schema, and what its validator raises, are errors in plain words."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import ConfigError, SerializationError
from aioprod.schema_registry import (
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    Reference,
    Schema,
    SchemaRegistry,
    json_work,
)
from aioprod.schema_registry.framing import id_prefix
from aioprod.testing import FakeSchemaRegistry
from tests.support.registry_scenarios import result

WRONG = [
    ("5", "is neither a JSON object nor true or false"),
    ("null", "is neither a JSON object nor true or false"),
    ("[]", "is neither a JSON object nor true or false"),
    ('{"$schema": []}', 'has a "\\$schema" that is not a URI'),
    ('{"$schema": null}', 'has a "\\$schema" that is not a URI'),
    ('{"$schema": "http://["}', "can't be checked: ValueError: Invalid IPv6 URL"),
    ('{"pattern": "("}', "is not valid: '\\(' is not a 'regex'"),
    ('{"not": ' * 400 + "{}" + "}" * 400, "can't be checked: the nesting is too deep"),
    ("[" * 100_000, "is not JSON: maximum recursion depth"),
]
"""Schemas that are none."""

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"

UNCHECKED = [
    ('{"items": {"$ref": "#"}}', "the nesting is too deep"),
    ('{"$ref": "#"}', r"the nesting is too deep, or a \$ref leads back to itself\."),
    ('{"$ref": "#/x/0", "x": [{"minItems": "a"}]}', "TypeError: "),
    ('{"$ref": "#/allOf/a", "allOf": [{}]}', "ValueError: invalid literal for int"),
    ('{"$schema": "http://json-schema.org/draft-03/schema#", "extends": {"type": "x"}}', r"UnknownType\."),
]
"""Schemas that are valid, and by which a deeply nested list can't be checked."""


ON_THE_STACK: list[tuple[str, Any]] = [
    ('{"items": {"$ref": "#"}}', [[[]]]),
    ('{"$ref": "#/$defs/a", "$defs": {"a": {"type": ["null", "integer"]}}}', 1),
    ('{"$ref": "#a", "$defs": {"a": {"$anchor": "a"}}}', 1),
    ('{"$dynamicRef": "#a", "$defs": {"a": {"$dynamicAnchor": "a"}}}', 1),
    (f'{{"$schema": "{DRAFT_2019}", "properties": {{"a": {{"$recursiveRef": "#"}}}}}}', {"a": {}}),
    ('{"unevaluatedProperties": false, "$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {}}}}}', {"a": 1}),
]
"""Schemas by which a value is checked through each kind of compiled code, with values that fit."""


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("text", "words"), WRONG)
async def test_what_is_no_schema(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=f"The JSON schema {words}"):
        JsonSchemaSerializer(registry, text)
    with pytest.raises(ValueError, match="Invalid schema"):
        fake_schema_registry.register("a", text, "JSON")
    fake_schema_registry.fail(200, content={"schema": text, "schemaType": "JSON"})
    with pytest.raises(SerializationError, match=f"the JSON schema {words}") as raised:
        await result(JsonSchemaDeserializer(registry).deserialize("orders", [], b"\0\0\0\0\x011"))
    assert "\n" not in str(raised.value)


def test_a_schema_without_text() -> None:
    registry: Any = SchemaRegistry("http://localhost:8081")
    for text in (7, b"{}", None):
        wrong: Any = Schema(text, "JSON")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="is not a JSON schema"):
            JsonSchemaSerializer(registry, wrong)


@pytest.mark.parametrize(
    ("text", "words"), [("5", "is neither a JSON object"), ("{", "is not JSON"), ('{"$schema": 5}', "is not a URI")]
)
async def test_what_it_refers_to_is_no_schema(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry, text: str, words: str
) -> None:
    schema = Schema('{"$ref": "line"}', "JSON", (Reference("line", "line", 1),))
    fake_schema_registry.register("line", "{}", "JSON")
    known = await registry.register("orders-value", schema)
    serializer = JsonSchemaSerializer(registry, schema)
    fake_schema_registry.fail(200, content={"schema": text, "schemaType": "JSON", "id": known.id, "version": 1})
    with pytest.raises(SerializationError, match=f"the schema 'line', to which the JSON schema refers, .*{words}"):
        await result(serializer.serialize("orders", [], 1))


async def test_a_pattern_of_what_it_refers_to(
    registry: SchemaRegistry, fake_schema_registry: FakeSchemaRegistry
) -> None:
    """A referenced schema is not checked before, and a registry in Java knows other regular expressions."""
    fake_schema_registry.register("line", "{}", "JSON")
    schema = Schema('{"$ref": "line"}', "JSON", (Reference("line", "line", 1),))
    await registry.register("orders-value", schema)
    serializer = JsonSchemaSerializer(registry, schema)
    content = {"schema": '{"pattern": "\\\\p{L}"}', "schemaType": "JSON", "id": 1, "version": 1}
    fake_schema_registry.fail(200, content=content)
    with pytest.raises(SerializationError, match=r"can't be checked by the JSON schema: \w+: bad escape"):
        await result(serializer.serialize("orders", [], "a"))


@pytest.mark.parametrize(("text", "words"), UNCHECKED)
async def test_what_can_not_be_checked(registry: SchemaRegistry, text: str, words: str) -> None:
    with pytest.raises(SerializationError, match=f"the value can't be checked by the JSON schema: {words}") as raised:
        await result(JsonSchemaSerializer(registry, text).serialize("orders", [], nested(400)))
    assert "\n" not in str(raised.value)
    data = await result(JsonSchemaSerializer(registry, text, validate=False).serialize("orders", [], nested(400)))
    with pytest.raises(SerializationError, match=words):
        await result(JsonSchemaDeserializer(registry).deserialize("orders", [], data))


async def test_a_long_reference_to_an_unknown_schema_is_cut(registry: SchemaRegistry) -> None:
    schema = json.dumps({"$ref": "x" * 100_000})
    with pytest.raises(SerializationError, match=r"the JSON schema refers to 'xxx.* which is not known") as raised:
        await result(JsonSchemaSerializer(registry, schema).serialize("orders", [], 1))
    assert len(str(raised.value)) < 500


def at_the_last_depths(call: Callable[[], object], count: int = 100) -> list[type[BaseException] | None]:
    """What the call raises, made once from each of the last depths of the stack."""
    found: list[type[BaseException] | None] = []

    def room() -> int:
        try:
            return 1 + room()
        except RecursionError:
            return 0

    def descend(calls: int) -> None:
        if calls > 0:
            return descend(calls - 1)
        try:
            call()
            found.append(None)
        except BaseException as error:
            found.append(type(error))
        return descend(0)

    with contextlib.suppress(RecursionError):
        descend(room() - count)
    return found


@pytest.mark.parametrize(("text", "value"), ON_THE_STACK)
async def test_calls_from_any_depth_of_the_stack(registry: SchemaRegistry, text: str, value: Any) -> None:
    """Compiled code that meets the limit of recursion panics, with an error that is no Exception."""
    serializer = JsonSchemaSerializer(registry, text)
    await serializer.prepare("orders")
    found = at_the_last_depths(lambda: serializer.serialize("orders", [], value))
    assert found[0] is None, "there is room"
    assert set(found) == {None, SerializationError, RecursionError}
    assert RecursionError not in found[:-20], "the caller's own, where it can hardly call anything"


def test_serializers_that_are_made_at_any_depth_of_the_stack() -> None:
    registry = SchemaRegistry("http://localhost:8081")
    found = at_the_last_depths(lambda: JsonSchemaSerializer(registry, ON_THE_STACK[1][0]))
    assert set(found) == {None, ConfigError, RecursionError}


async def test_a_type_that_is_unknown(registry: SchemaRegistry) -> None:
    """The errors of jsonschema have several lines."""
    serializer = JsonSchemaSerializer(registry, UNCHECKED[-1][0])
    with pytest.raises(SerializationError, match="UnknownType: Unknown type 'x' for validator with schema: ") as raised:
        await result(serializer.serialize("orders", [], 1))
    assert "\n" not in str(raised.value)


async def test_numbers_that_can_not_be_compared(registry: SchemaRegistry) -> None:
    serializer = JsonSchemaSerializer(registry, '{"multipleOf": 0.5}')
    with pytest.raises(SerializationError, match="OverflowError: int too large"):
        await result(serializer.serialize("orders", [], 10**400))
    assert await result(serializer.serialize("orders", [], 1.5)) == b"\0\0\0\0\x011.5"


@pytest.mark.parametrize(
    "items",
    [
        [{"a": number} for number in range(4_000)],
        [number * (2**61 - 1) for number in range(20_000)],  # They have one hash.
        [[number, "a"] for number in range(20_000)],
    ],
    ids=["objects", "numbers", "mixed"],
)
async def test_many_items_that_have_to_differ(
    registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch, items: list[Any]
) -> None:
    schema = Schema('{"uniqueItems": true}', "JSON")
    known = await registry.register("orders-value", schema)
    data = id_prefix(known.id) + json.dumps(items).encode()
    keys: list[object] = []

    def counting(value: Any) -> Any:
        keys.append(value)
        return key(value)

    key = json_work._key
    monkeypatch.setattr(json_work, "_key", counting)
    assert await result(JsonSchemaDeserializer(registry).deserialize("orders", [], data)) == items
    assert len(items) <= len(keys) <= 3 * len(items), "each is looked at once, and not compared with each other one"
    data = id_prefix(known.id) + json.dumps([*items, items[0]]).encode()
    with pytest.raises(SerializationError, match=r"does not fit the JSON schema at \$: .*"):
        await result(JsonSchemaDeserializer(registry).deserialize("orders", [], data))


@pytest.mark.parametrize(
    ("items", "are_unique"),
    [
        ([1, True, "1", [1], {"1": 1}, None, "None", "True", 0, False], True),
        ([{"a": 1}, {"a": True}, {"b": 1}, {}, [], ""], True),
        ([[{"a": [0]}], [{"a": [False]}], 10**400, 1.5, -0.5], True),
        ([1, 1.0], False),
        ([1e20, 10**20], False),
        ([0, -0.0], False),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], False),
        ([[1, ["x"]], [1, ["x"]]], False),
        (["a", "b", "a"], False),
    ],
)
async def test_items_that_have_to_differ(registry: SchemaRegistry, items: list[Any], are_unique: bool) -> None:
    serializer = JsonSchemaSerializer(registry, '{"properties": {"items": {"uniqueItems": true}}}')
    if are_unique:
        await result(serializer.serialize("orders", [], {"items": items}))
        return
    with pytest.raises(SerializationError, match=r"does not fit the JSON schema at \$\.items: .*non-unique"):
        await result(serializer.serialize("orders", [], {"items": items}))


async def test_schemas_that_are_true_and_false(registry: SchemaRegistry) -> None:
    assert await result(JsonSchemaSerializer(registry, "true").serialize("a", [], 1)) == b"\0\0\0\0\x011"
    with pytest.raises(SerializationError, match="False schema does not allow 1"):
        await result(JsonSchemaSerializer(registry, "false").serialize("b", [], 1))
