"""What holds for each request and response in each version."""

from __future__ import annotations

import dataclasses
import random
import types
import typing
import uuid

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aioprod.errors import ProtocolError, UnsupportedVersionError
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode, encode
from aioprod.wire.schema import (
    BOOL,
    BYTES,
    RECORDS,
    STRING,
    TEXT,
    UUID,
    Array,
    Message,
    Primitive,
    Response,
    Struct,
    WireType,
    array,
    fields_of,
)
from tests.support.length import by_length
from tests.support.messages import MESSAGES, VERSIONED, filled, structs, versioned_id

every_message = pytest.mark.parametrize("kind", MESSAGES, ids=versioned_id)
every_version = pytest.mark.parametrize(("kind", "version"), VERSIONED, ids=versioned_id)


@every_message
@settings(max_examples=by_length(8, 50), suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_encoded_is_decoded(kind: type[Message], data: st.DataObject) -> None:
    version = data.draw(st.integers(*kind.VERSIONS))
    message = data.draw(structs(kind, version))
    assert decode(kind, version, encode(message, version)) == message


@every_version
def test_a_message_with_every_field_set_comes_back(kind: type[Message], version: int) -> None:
    message = filled(kind, version)
    assert decode(kind, version, encode(message, version)) == message


@every_version
def test_a_message_of_defaults_comes_back(kind: type[Message], version: int) -> None:
    assert decode(kind, version, encode(kind(), version)) == kind()


@every_version
def test_a_message_cut_short_anywhere_is_refused(kind: type[Message], version: int) -> None:
    body = encode(filled(kind, version), version)
    for end in range(len(body)):
        with pytest.raises(ProtocolError, match=f"This is not a valid {kind.__name__} v{version}: "):
            decode(kind, version, body[:end])


@every_version
def test_bytes_after_the_end_are_skipped(kind: type[Message], version: int) -> None:
    message = filled(kind, version)
    body = encode(message, version) + b"\x00"
    assert decode(kind, version, body) == message


@every_version
def test_damaged_bytes_are_refused_or_read_as_something_else(kind: type[Message], version: int) -> None:
    body = encode(filled(kind, version), version)
    generator = random.Random(f"{kind.__name__} {version}")
    for _ in range(30):
        damaged = bytearray(body)
        for _ in range(min(len(body), generator.randint(1, 4))):
            damaged[generator.randrange(len(body))] = generator.choice((0x00, 0x01, 0x7F, 0x80, 0xFF))
        try:
            message = decode(kind, version, damaged)
        except ProtocolError:
            continue
        assert isinstance(message, kind)


@every_message
def test_versions_outside_of_the_span_are_refused(kind: type[Message]) -> None:
    first, last = kind.VERSIONS
    for version in (first - 1, last + 1):
        with pytest.raises(UnsupportedVersionError, match=f"{kind.__name__} has versions {first} to {last}, not"):
            encode(kind(), version)
        with pytest.raises(UnsupportedVersionError, match=f"not {version}"):
            decode(kind, version, b"")


@every_message
def test_python_types_and_wire_types_agree(kind: type[Message]) -> None:
    for struct in _structs_in(kind):
        hints = typing.get_type_hints(struct)
        for field in fields_of(struct):
            expected = _python_type(field.type)
            nullable = len(field.nullable) > 0 or field.default is None
            assert hints[field.name] == (expected | None if nullable else expected), f"{struct.__name__}.{field.name}"


@every_message
def test_what_a_broker_says_for_people_to_read_is_declared_as_text_that_is_only_shown(kind: type[Message]) -> None:
    if issubclass(kind, Response):
        said = {"error_message", "batch_index_error_message", "client_id", "client_host"}
        said |= {"assignor_name", "protocol_data", "mechanisms", "cluster_id"}
        fields = [field for struct in _structs_in(kind) for field in fields_of(struct) if field.name in said]
        assert [field.name for field in fields if field.type not in (TEXT, array(TEXT))] == []


@every_message
def test_declarations_are_frozen_slotted_and_documented(kind: type[Message]) -> None:
    for struct in _structs_in(kind):
        assert struct.__doc__ is not None
        assert not struct.__doc__.startswith(struct.__name__), "the docstring is dataclass's own"
        assert not hasattr(struct(), "__dict__")
        for field in fields_of(struct):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(struct(), field.name, None)


@every_message
def test_each_declared_span_matters(kind: type[Message]) -> None:
    """A span that no spoken version is in, a tag before the flexible versions or a tag used twice is a slip."""
    spoken = range(kind.VERSIONS[0], kind.VERSIONS[1] + 1)
    for struct in _structs_in(kind):
        tags = [field.tag for field in fields_of(struct) if field.tag is not None]
        assert tags == list(range(len(tags)))
        for field in fields_of(struct):
            present = [version for version in spoken if version in field.versions]
            assert present, f"{struct.__name__}.{field.name}"
            if field.tag is not None:
                assert all(kind.is_flexible(version) for version in present)
            if field.nullable:
                assert any(version in field.nullable for version in present)


def _structs_in(kind: type[Struct]) -> list[type[Struct]]:
    found = [kind]
    for field in fields_of(kind):
        type_ = field.type.element if isinstance(field.type, Array) else field.type
        if not isinstance(type_, Primitive):
            found += _structs_in(type_)
    return found


def _python_type(type_: WireType) -> typing.Any:
    if isinstance(type_, Array):
        return types.GenericAlias(tuple, (_python_type(type_.element), ...))
    if not isinstance(type_, Primitive):
        return type_
    varying = {BOOL: bool, UUID: uuid.UUID, STRING: str, TEXT: str, BYTES: bytes, RECORDS: Buffer}
    return varying.get(type_, int)
