"""Messages of every declared kind and version for tests: one made by rule, any number drawn by Hypothesis."""

from __future__ import annotations

import uuid
from typing import Any

from hypothesis import strategies as st

from aioprod.messages.registry import REQUESTS
from aioprod.wire.schema import (
    BOOL,
    BYTES,
    INT8,
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    TEXT,
    UUID,
    Array,
    Message,
    Primitive,
    Struct,
    WireField,
    WireType,
    fields_of,
)

MESSAGES: tuple[type[Message], ...] = tuple(kind for request in REQUESTS for kind in (request, request.RESPONSE))
"""Every request and response."""

VERSIONED: tuple[tuple[type[Message], int], ...] = tuple(
    (kind, version) for kind in MESSAGES for version in range(kind.VERSIONS[0], kind.VERSIONS[1] + 1)
)
"""Every request and response in every version."""


def versioned_id(value: object) -> str:
    """A readable id for pytest's parametrize over `VERSIONED` or `MESSAGES`."""
    return value.__name__ if isinstance(value, type) else f"v{value}"


_SAMPLES: dict[Primitive, Any] = {
    BOOL: True,
    INT8: 0x12,
    INT16: 0x1234,
    INT32: 0x1234_5678,
    INT64: 0x1234_5678_9ABC_DEF0,
    UUID: uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"),
    STRING: "tøpic",
    TEXT: "tøld",
    BYTES: b"\x00bytes",
    RECORDS: b"\x00records",
}


def filled(kind: type[Struct], version: int) -> Any:
    """A `kind` in which every field of `version` has a value other than its default."""
    present = [field for field in fields_of(kind) if version in field.versions]
    return kind(**{field.name: _filled_value(field, version) for field in present})


def _filled_value(field: WireField, version: int) -> Any:
    if isinstance(field.type, Array):
        return (_sample(field.type.element, version), _sample(field.type.element, version))
    value = _sample(field.type, version)
    return value if value != field.default else not value


def _sample(type_: WireType, version: int) -> Any:
    assert not isinstance(type_, Array)
    return _SAMPLES[type_] if isinstance(type_, Primitive) else filled(type_, version)


_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_PRIMITIVES: dict[Primitive, st.SearchStrategy[Any]] = {
    BOOL: st.booleans(),
    INT8: st.integers(-(1 << 7), (1 << 7) - 1),
    INT16: st.integers(-(1 << 15), (1 << 15) - 1),
    INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    INT64: st.integers(-(1 << 63), (1 << 63) - 1),
    UUID: st.uuids(allow_nil=True),
    STRING: _TEXT,
    TEXT: st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), max_size=12),
    BYTES: st.binary(max_size=12),
    RECORDS: st.binary(max_size=12),
}


def structs(kind: type[Struct], version: int) -> st.SearchStrategy[Any]:
    """Any `kind` that `version` can carry."""
    present = [field for field in fields_of(kind) if version in field.versions]
    return st.builds(kind, **{field.name: _values(field, version) for field in present})


def _values(field: WireField, version: int) -> st.SearchStrategy[Any]:
    if isinstance(field.type, Array):
        values: st.SearchStrategy[Any] = st.lists(_elements(field.type.element, version), max_size=3).map(tuple)
    else:
        values = _elements(field.type, version)
    return st.none() | values if version in field.nullable else values


def _elements(type_: WireType, version: int) -> st.SearchStrategy[Any]:
    assert not isinstance(type_, Array)
    return _PRIMITIVES[type_] if isinstance(type_, Primitive) else structs(type_, version)
