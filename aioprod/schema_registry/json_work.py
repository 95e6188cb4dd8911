"""JSON Schema by jsonschema, in a bounded number of steps.

jsonschema gives a schema as much time as it takes: a tree of `$ref` 40 deep is a year, a pattern that goes back longer.
The classes of `counted` take steps from `Steps` for each schema that a value is compared with, for each keyword, and
for what a keyword walks through; their patterns are those of `patterns.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any, Final

from aioprod.schema_registry._extra import missing
from aioprod.schema_registry.patterns import Patterns
from aioprod.schema_registry.stack import check_stack
from aioprod.schema_registry.work import Steps

try:
    from jsonschema.exceptions import UndefinedTypeCheck, ValidationError
    from jsonschema.protocols import Validator
    from jsonschema.validators import extend, validator_for
except ImportError as error:
    raise missing("aioprod.schema_registry.json_schema", error) from error

__all__ = ["PATTERNS", "STEPS", "counted"]

STEPS: ContextVar[Steps] = ContextVar("aioprod_json_schema_steps")
"""The steps of the check that runs; a variable of the context, as jsonschema hands nothing of ours on."""
PATTERNS: ContextVar[Patterns] = ContextVar("aioprod_json_schema_patterns")
"""The patterns of the schema of that check."""

_TEXT_OF_STEP: Final = 16
"""Characters of an error's text, which has the value in it, for a step."""
_WALKS: Final = frozenset(
    {"items", "additionalItems", "contains", "propertyNames", "additionalProperties"}
    | {"unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that look at each item or property, also by a schema that is true, which takes no step."""
_REFERS: Final = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_COMPARES: Final = frozenset({"const", "enum", "uniqueItems"})

_Keyword = Callable[[Any, Any, Any, Any], Any]
_extended: Callable[..., type[Validator]] = extend
_named: Callable[[Any], type[Validator] | None] = partial(validator_for, default=None)  # type: ignore[arg-type]


@cache
def counted(kind: type[Validator]) -> type[Validator]:
    """The class of validators that counts its steps."""
    own: dict[str, _Keyword] = {
        "uniqueItems": _unique_items,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
    }
    known: Mapping[str, _Keyword] = kind.VALIDATORS
    keywords = {name: partial(_keyword, name, own.get(name, does)) for name, does in known.items()}
    made: Any = _extended(kind, keywords, type_checker=_Types(kind.TYPE_CHECKER))
    made.evolve = _evolve  # jsonschema has no other way, and a sub-class of its own is deprecated.
    return made  # type: ignore[no-any-return]


class _Types:
    """The types that a schema can name, in a dict: jsonschema has them in a map of compiled code (`stack.py`)."""

    def __init__(self, known: Any) -> None:
        self._tests = dict(known._type_checkers.items())

    def is_type(self, value: Any, name: str) -> bool:
        """Whether the value is of this type; raises UndefinedTypeCheck, as jsonschema's own."""
        test = self._tests.get(name)
        if test is None:
            raise UndefinedTypeCheck(name)
        return bool(test(self, value))


def _evolve(validator: Any, **changes: Any) -> Any:
    """The validator for another schema: jsonschema makes one for each schema that it compares a value with."""
    schema = changes.get("schema", validator.schema)
    kind = type(validator)
    if isinstance(schema, dict):
        STEPS.get().spend(1 + len(schema))
        if "$schema" in schema:
            check_stack()
            named = _named(schema)
            kind = kind if named is None else counted(named)
    return kind(
        schema,
        format_checker=validator.format_checker,
        registry=validator._registry,
        _resolver=changes.get("_resolver", validator._resolver),
    )


def _keyword(
    name: str, does: _Keyword, validator: Validator, wanted: Any, value: Any, schema: Any
) -> Iterator[ValidationError]:
    steps = STEPS.get()
    steps.spend(
        1 + (len(wanted) // _TEXT_OF_STEP if isinstance(wanted, str) else len(wanted) if _has_size(wanted) else 0)
    )
    if name in _REFERS:
        check_stack()
    if name in _WALKS and _has_size(value):
        steps.spend(len(value))
        if name.startswith("unevaluated"):
            check_stack()
            steps.spend(len(value) ** 2 // _TEXT_OF_STEP)
    elif name in _COMPARES:
        steps.spend(_count(value) * (len(wanted) if name == "enum" and not isinstance(value, str) else 1))
    for error in does(validator, wanted, value, schema) or ():
        steps.spend(len(error.message) // _TEXT_OF_STEP)
        yield error


def _has_size(value: Any) -> bool:
    return isinstance(value, (str, list, tuple, dict))


def _count(value: Any) -> int:
    """The values in a value."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return 1 + sum(map(_count, inner))


def _pattern(validator: Validator, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "string") and not PATTERNS.get().of(wanted).is_in(value, STEPS.get()):
        yield ValidationError(f"{value!r} does not match {wanted!r}")


def _pattern_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if validator.is_type(value, "object"):
        patterns = PATTERNS.get()
        for pattern, inner in wanted.items():
            for name, each in value.items():
                if patterns.of(pattern).is_in(name, STEPS.get()):
                    yield from validator.descend(each, inner, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not validator.is_type(value, "object"):
        return
    steps, properties = STEPS.get(), schema.get("properties", {})
    patterns = [PATTERNS.get().of(each) for each in schema.get("patternProperties", ())]
    others = [
        name for name in value if name not in properties and not any(each.is_in(name, steps) for each in patterns)
    ]
    if validator.is_type(wanted, "object"):
        for name in others:
            yield from validator.descend(value[name], wanted, path=name)
    elif not wanted and others:
        names = ", ".join(map(repr, others))
        verb = "was" if len(others) == 1 else "were"
        yield ValidationError(f"Additional properties are not allowed ({names} {verb} unexpected)")


def _unique_items(validator: Validator, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword uniqueItems. jsonschema compares each two objects of an array: of 50 kB, for ten seconds."""
    if wanted and validator.is_type(value, "array") and len({_key(item) for item in value}) < len(value):
        yield ValidationError(f"{value!r} has non-unique elements")


def _key(value: Any) -> Hashable:
    """The same for values that are equal in JSON, where 1 is 1.0 and not true."""
    if isinstance(value, Mapping):
        return "object", frozenset((name, _key(inner)) for name, inner in value.items())
    if isinstance(value, (list, tuple)):
        return "array", tuple(map(_key, value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    # Not the number itself: many that have the same hash can be chosen.
    return ("text", value) if isinstance(value, str) else ("", str(value))
