"""JSON Schema: a check takes a bounded number of steps for each byte, whatever the schema is."""

from __future__ import annotations

import inspect
import json
import random
import re
from typing import Any

import pytest

from aioprod.errors import SerializationError
from aioprod.schema_registry import JsonSchemaDeserializer, JsonSchemaSerializer, Schema, SchemaRegistry, patterns
from aioprod.schema_registry.framing import id_prefix
from aioprod.schema_registry.json_work import STEPS
from aioprod.schema_registry.patterns import Pattern, UnboundedPatternError
from aioprod.schema_registry.work import Steps
from tests.support.registry_scenarios import result

OTHER_DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#", "allOf": [{"$ref": "#/$defs/a0"}]}


def tree(keyword: str, levels: int, **leaf: Any) -> dict[str, Any]:
    """A tree of $ref, each level of which doubles the work."""
    definitions: dict[str, Any] = {f"a{levels}": leaf}
    for level in range(levels):
        inner = {"$ref": f"#/$defs/a{level + 1}"}
        definitions[f"a{level}"] = {keyword: [inner, inner]}
    return {"$ref": "#/$defs/a0", "$defs": definitions}


REFUSED: list[tuple[Any, Any]] = [
    (tree("allOf", 40), 5),
    (tree("anyOf", 40, type="string"), 5),
    (tree("oneOf", 40, type="string"), 5),
    ({"unevaluatedProperties": False, **tree("allOf", 40)}, {"a": 1}),
    ({**tree("allOf", 40), "$ref": "#/$defs/b", "$defs": {**tree("allOf", 40)["$defs"], "b": OTHER_DRAFT}}, 5),
    ({"allOf": [{"items": {}}] * 100}, list(range(500))),
    ({"allOf": [{"items": True}] * 100}, list(range(500))),
    ({"allOf": [{"uniqueItems": True}] * 100}, list(range(500))),
    ({"allOf": [{"enum": [[0]] * 100}] * 100}, [0]),
    ({"pattern": "^(a?){300}a{300}$"}, "a" * 250),
    ({"patternProperties": {f".*{number}x": {} for number in range(100)}}, {"a" * 60: 1}),
]
"""Schemas and values, of which the check takes more steps than its size allows."""


async def deserialized(registry: SchemaRegistry, schema: Any, value: Any) -> Any:
    decode, _ = await JsonSchemaDeserializer(registry)._decoder(Schema(json.dumps(schema), "JSON"))
    return decode(json.dumps(value, separators=(",", ":")).encode())


@pytest.mark.parametrize(("schema", "value"), REFUSED)
async def test_checks_of_too_many_steps(registry: SchemaRegistry, schema: Any, value: Any) -> None:
    with pytest.raises(SerializationError, match=r"takes more than \d+ steps, the limit for its size"):
        await deserialized(registry, schema, value)


async def test_values_that_are_written_have_the_same_limit(registry: SchemaRegistry) -> None:
    schema = json.dumps(tree("allOf", 40))
    with pytest.raises(SerializationError, match="takes more than 10020 steps"):
        await result(JsonSchemaSerializer(registry, schema).serialize("u", [], 5))


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(a*)*b", "^(a|aa)+$", "(x+x+)+y", "a*a*a*a*a*b"])
@pytest.mark.parametrize("keyword", ["pattern", "patternProperties"])
async def test_patterns_that_would_go_back(registry: SchemaRegistry, pattern: str, keyword: str) -> None:
    """They are matched in a time that grows with the text."""
    text = "ax"[pattern.startswith("(x")] * 60 + "!"
    if keyword == "pattern":
        with pytest.raises(SerializationError, match="does not match"):
            await deserialized(registry, {"pattern": pattern}, text)
        return
    schema = {"patternProperties": {pattern: False}}
    assert await deserialized(registry, schema, {text: 1}) == {text: 1}


async def test_an_ordinary_record_is_far_from_the_limit(registry: SchemaRegistry) -> None:
    line = {"type": "object", "required": ["sku", "count"], "additionalProperties": False}
    line["properties"] = {
        "sku": {"type": "string", "pattern": "^[a-z]+(-[a-z]+)*$", "maxLength": 40},
        "count": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["food", "drink"]},
    }
    schema = {"type": "object", "properties": {"lines": {"type": "array", "items": line, "uniqueItems": True}}}
    value = {"lines": [{"sku": "fish-and-chips", "count": each, "kind": "food"} for each in range(1, 11)]}
    serializer = JsonSchemaSerializer(registry, json.dumps(schema))
    spent = []

    class Counted(JsonSchemaDeserializer):
        async def _decoder(self, schema: Schema) -> Any:
            decode, characters = await super()._decoder(schema)

            def counting(payload: bytes) -> Any:
                found = decode(payload)
                spent.append(STEPS.get().spent)
                return found

            return counting, characters

    data = await result(serializer.serialize("t", [], value))
    reader = Counted(registry)
    assert await result(reader.deserialize("t", [], data)) == value
    assert spent[0] < 3 * len(data)


async def test_anchors_are_looked_for_once(registry: SchemaRegistry) -> None:
    schema = {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "items": {"$ref": "#here"}}
    assert await deserialized(registry, schema, [1, 2]) == [1, 2]
    with pytest.raises(SerializationError, match=r"at \$\[1\]: 'x' is not of type 'integer'"):
        await deserialized(registry, schema, [1, "x"])


async def test_a_large_record_is_checked_in_a_thread(registry: SchemaRegistry) -> None:
    known = await registry.register("t-value", Schema("{}", "JSON"))
    reader = JsonSchemaDeserializer(registry)
    for size, is_later in ((2_046, False), (2_047, True)):
        data = id_prefix(known.id) + json.dumps("x" * size).encode()
        await result(reader.deserialize("t", [], data))
        found = reader.deserialize("t", [], data)
        assert inspect.isawaitable(found) is is_later
        assert await result(found) == "x" * size


@pytest.mark.parametrize("name", ["\x1b]0;evil\x07\nERROR", "x" * 100_000])
async def test_names_in_errors_are_printable_and_short(registry: SchemaRegistry, name: str) -> None:
    with pytest.raises(SerializationError, match="does not fit the JSON schema at") as raised:
        await deserialized(registry, {"additionalProperties": {"type": "string"}}, {name: 1})
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 1_000


async def test_patterns_beside_unevaluated_properties(registry: SchemaRegistry) -> None:
    """There jsonschema matches them itself."""
    schema = {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"^x-": {}}}]}
    assert await deserialized(registry, schema, {"x-a": 1}) == {"x-a": 1}
    schema["allOf"] = [{"patternProperties": {"^(a+)+$": {}}}]
    with pytest.raises(SerializationError, match="together they can't be checked in a bounded time"):
        await deserialized(registry, schema, {"a" * 40 + "!": 1})


async def test_patterns_are_compiled_once(registry: SchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many a schema has, and whether they are known to Python or not."""
    texts: list[str] = []

    def counting(text: str, most: int) -> Pattern:
        texts.append(text)
        return Pattern(text, most)

    monkeypatch.setattr(patterns, "Pattern", counting)
    wanted = [f"a{number}" for number in range(1_001)]
    schema = {"items": {"anyOf": [{"pattern": each} for each in wanted]}, "$defs": {"a": {"pattern": "("}}}
    known = patterns.Patterns([schema, {"pattern": 5, "patternProperties": {"b": {"pattern": "c"}}}])
    for text in (*wanted, "b", "c"):
        known.of(text)
    for _ in range(2):
        with pytest.raises(re.error):
            known.of("(")
    assert sorted(texts) == sorted([*wanted, "(", "b", "c"])


def test_patterns_of_a_schema_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "_OF_A_SCHEMA_MAX", 20)
    known = patterns.Patterns([{"pattern": f"{letter}*"} for letter in "abcdef"])
    assert known.instructions == 20
    assert known.of("d*").is_in("d", Steps(10)) is True
    with pytest.raises(UnboundedPatternError, match="or those of all patterns than 20"):
        known.of("a*")


class Drawn:
    """Patterns of all that has a meaning to `Pattern`."""

    ATOMS = (
        *"ab.^$",
        "[ab]",
        "[^a]",
        r"\d",
        r"\b",
        "(?:a|b)",
        "(a|ab)",
        "(?=a)",
        "(?!b)",
        "(?<=a)",
        "(?<!ab)",
        "(?i:A)",
    )
    REPEATS = ("", "", "", "*", "+", "?", "{2}", "{1,3}", "*?", "{0,2}?")

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def pattern(self, depth: int = 2) -> str:
        return "".join(self._part(depth) for _ in range(self._random.randint(1, 4)))

    def _part(self, depth: int) -> str:
        atom = self._random.choice(self.ATOMS)
        if depth and self._random.random() < 0.4:
            other = f"|{self.pattern(depth - 1)}" if self._random.random() < 0.4 else ""
            atom = f"({self.pattern(depth - 1)}{other})"
        return f"{atom}{self._random.choice(self.REPEATS)}"

    def text(self) -> str:
        return "".join(self._random.choice("aab1\n A") for _ in range(self._random.randint(0, 8)))


def test_patterns_match_as_those_of_python() -> None:
    matched = 0
    for seed in range(400):
        drawn = Drawn(seed)
        text = drawn.pattern()
        try:
            expected = re.compile(text)
        except re.error:
            continue
        pattern = Pattern(text)
        for _ in range(4):
            subject = drawn.text()
            found = pattern.is_in(subject, Steps(100_000))
            assert found is bool(expected.search(subject)), (text, subject)
            matched += found
    assert matched > 100


@pytest.mark.parametrize("text", [r"(a)\1", "(?>a+)b", "a++b", "((a{0,99}b){0,99}){0,99}"])
def test_patterns_that_are_refused(text: str) -> None:
    with pytest.raises(UnboundedPatternError):
        Pattern(text)
