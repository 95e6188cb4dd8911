"""JSON Schema: of generated schemas and values, a check is a multiple of its steps, which are bounded."""

from __future__ import annotations

import json
import random
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from aioprod.errors import SerializationError
from aioprod.schema_registry import JsonSchemaDeserializer, Schema, SchemaRegistry
from aioprod.schema_registry.json_work import STEPS

KEYWORDS = [
    *("allOf", "anyOf", "oneOf", "not", "if", "items", "prefixItems", "contains", "properties", "patternProperties"),
    *("additionalProperties", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas"),
    *("uniqueItems", "enum", "const", "required", "pattern", "type", "minLength", "$ref"),
]
NAMES = ["a", "b", "ab", "aa"]
PATTERNS = ["^(a+)+$", "a|b", "^a", "(a?){5}b", "[ab]*b"]


class Generated:
    """Draws schemas that refer to each other, and values with the same names."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self) -> dict[str, Any]:
        definitions = {f"d{number}": self._inner(2) for number in range(6)}
        for number in range(5):  # A tree, the work of which doubles at each level.
            several = self._random.choice(["allOf", "anyOf", "anyOf"])
            definitions[f"d{number}"] = {several: [definitions[f"d{number}"], *[self._later(number)] * 2]}
        return {"$ref": "#/$defs/d0", "$defs": definitions}

    def value(self, depth: int = 3) -> Any:
        kind = self._random.random()
        if depth == 0 or kind < 0.3:
            return self._random.choice([1, "ab", "aaaaaaaaaaaa!", None, True, 1.5])
        if kind < 0.6:
            return [self.value(depth - 1) for _ in range(self._random.randint(0, 6))]
        return {name: self.value(depth - 1) for name in self._random.sample(NAMES, self._random.randint(0, 4))}

    def _later(self, number: int) -> dict[str, str]:
        return {"$ref": f"#/$defs/d{number + 1}"}

    def _inner(self, depth: int) -> Any:
        return self._random.choice([True, {}]) if depth == 0 else self._keywords(depth)

    def _keywords(self, depth: int) -> dict[str, Any]:
        names = self._random.sample(KEYWORDS, self._random.randint(1, 4))
        return {name: self._of(name, depth - 1) for name in names if name != "$ref"}

    def _of(self, name: str, depth: int) -> Any:
        if name in ("allOf", "anyOf", "oneOf", "prefixItems"):
            return [self._inner(depth) for _ in range(self._random.randint(1, 3))]
        if name in ("properties", "dependentSchemas"):
            return {each: self._inner(depth) for each in self._random.sample(NAMES, 2)}
        if name == "patternProperties":
            return {"^a": self._inner(depth)}
        simple: dict[str, Any] = {
            "uniqueItems": True,
            "enum": [1, "ab", [1, 2], {"a": 1}],
            "const": {"a": [1, 2, 3]},
            "required": ["a"],
            "pattern": self._random.choice(PATTERNS),
            "type": ["object", "array", "string", "null", "boolean"],
            "minLength": 1,
        }
        return simple[name] if name in simple else self._inner(depth)


def calls_of(call: Callable[[], object]) -> tuple[int, bool]:
    """How many functions are called, of Python and of compiled code, and whether the value fits."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        call()
    except SerializationError:
        return calls, False
    finally:
        sys.setprofile(None)
    return calls, True


async def test_generated_schemas_keep_to_the_rule(registry: SchemaRegistry) -> None:
    fits = misfits = 0
    for seed in range(80):
        generated = Generated(seed)
        schema = Schema(json.dumps(generated.schema()), "JSON")
        decode, _ = await JsonSchemaDeserializer(registry)._decoder(schema)
        for _ in range(3):
            payload = json.dumps(generated.value()).encode()
            calls, is_fit = calls_of(lambda decode=decode, payload=payload: decode(payload))  # type: ignore[misc]
            spent = STEPS.get().spent
            fits += is_fit
            misfits += not is_fit
            assert calls <= 500 + 50 * spent, seed
            assert spent <= 10_000 + 20 * len(payload) + 1_000, seed
    assert fits
    assert misfits


@pytest.mark.parametrize(
    "item", ["[],", "{},", '{"":0},', "1.5,", "-9,", '"é",', '{"é":[0]},', "[[[[[]]]]],"], ids=lambda item: str(item)
)
async def test_a_value_takes_a_multiple_of_its_bytes(registry: SchemaRegistry, item: str) -> None:
    decode, _ = await JsonSchemaDeserializer(registry, validate=False)._decoder(Schema("{}", "JSON"))
    payload = f"[{item * 2_000}0]".encode()
    tracemalloc.start()
    try:
        value = decode(payload)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(value) == 2_001
    assert most <= 50 * len(payload)
