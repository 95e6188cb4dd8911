"""Messages to bytes and back, derived from their declarations (`schema`).

An encoder is made once per (struct, version) out of closures: neighbouring fixed-width fields become one
`struct.Struct`, everything else one closure a field. What a version does not have costs a check and no bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

from aioprod.errors import ProtocolError, UnsupportedVersionError
from aioprod.wire.buffer import Buffer, Reader, Writer
from aioprod.wire.decoder import label_of, struct_decoder
from aioprod.wire.schema import (
    STRING,
    TEXT,
    UUID,
    Array,
    Message,
    Primitive,
    Struct,
    WireField,
    WireType,
    derived_once,
    fields_of,
)

__all__ = ["decode", "encode", "encode_into"]

MessageT = TypeVar("MessageT", bound=Message)

_Write: TypeAlias = Callable[[Writer, Any], None]
"""Appends one value, or the fields of one struct."""


def encode(message: Message, version: int) -> bytes:
    """The body of `message` in `version`.

    Raises UnsupportedVersionError for a version that is not declared, a value that has no place in the version or a
    None that it does not allow; ValueError for a value out of its type's range.
    """
    writer = Writer()
    encode_into(writer, message, version)
    return writer.getvalue()


def encode_into(writer: Writer, message: Message, version: int) -> None:
    """Append the body of `message` in `version` to `writer`; raises as `encode` does."""
    kind = type(message)
    _check_version(kind, version)
    try:
        _struct_writer(kind, version, kind.is_flexible(version))(writer, message)
    except struct.error as fault:
        raise ValueError(f"{kind.__name__} v{version} has a value out of its type's range: {fault}.") from fault


def decode(kind: type[MessageT], version: int, data: Buffer) -> MessageT:
    """The message of type `kind` whose body in `version` is `data`.

    Bytes after its end are skipped, as Kafka's brokers and clients do: librdkafka sends some (its Metadata request for
    all topics, the Metadata response of its mock broker). Raises ProtocolError if `data` is malformed or too short,
    UnsupportedVersionError as `encode` does. Fields of type RECORDS are views of `data`, which must not change while
    they are used.
    """
    _check_version(kind, version)
    decoder = struct_decoder(kind, version, kind.is_flexible(version))
    reader = Reader(data)
    try:
        message: MessageT = decoder.read(reader)
    except ProtocolError as fault:
        raise ProtocolError(f"This is not a valid {kind.__name__} v{version}: {fault.message}") from fault
    return message


def _check_version(kind: type[Message], version: int) -> None:
    first, last = kind.VERSIONS
    if not first <= version <= last:
        raise UnsupportedVersionError(f"{kind.__name__} has versions {first} to {last}, not {version}.")


def _fixed_width(field: WireField) -> bool:
    return isinstance(field.type, Primitive) and field.type.code != ""


def _layout(run: Sequence[WireField]) -> struct.Struct:
    return struct.Struct(">" + "".join(field.type.code for field in run if isinstance(field.type, Primitive)))


def _runs(fields: Sequence[WireField]) -> list[tuple[bool, list[WireField]]]:
    """Runs of neighbouring `fields`, in order: whether they have a fixed width, and the fields."""
    return [(fixed, list(run)) for fixed, run in groupby(fields, _fixed_width)]


@derived_once
def _struct_writer(kind: type[Struct], version: int, flexible: bool) -> _Write:
    fields = fields_of(kind)
    present = [field for field in fields if version in field.versions]
    steps = [_absent_check(kind, field, version) for field in fields if field not in present and not field.ignorable]
    for fixed, run in _runs([field for field in present if field.tag is None]):
        if fixed:
            steps.append(_run_writer(run))
        else:
            steps += [_field_writer(kind, field, version, flexible) for field in run]
    if flexible:
        steps.append(_tags_writer(kind, [field for field in present if field.tag is not None], version))

    def write(writer: Writer, value: Any) -> None:
        for step in steps:
            step(writer, value)

    return write


def _absent_check(kind: type[Struct], field: WireField, version: int) -> _Write:
    get = attrgetter(field.name)
    is_default = field.is_default

    def check(writer: Writer, value: Any) -> None:
        if not is_default(get(value)):
            raise UnsupportedVersionError(f"{label_of(kind, field)} is set and does not exist in version {version}.")

    return check


def _run_writer(run: Sequence[WireField]) -> _Write:
    layout = _layout(run)
    get = attrgetter(*(field.name for field in run))
    if len(run) == 1:
        return lambda writer, value: writer.pack(layout, get(value))
    return lambda writer, value: writer.pack(layout, *get(value))


def _field_writer(kind: type[Struct], field: WireField, version: int, flexible: bool) -> _Write:
    get = attrgetter(field.name)
    write_value = _value_writer(label_of(kind, field), field.type, version, flexible, version in field.nullable)
    return lambda writer, value: write_value(writer, get(value))


def _tags_writer(kind: type[Struct], fields: Sequence[WireField], version: int) -> _Write:
    writers = [
        (field.tag, field, _value_writer(label_of(kind, field), field.type, version, True, version in field.nullable))
        for field in sorted(fields, key=attrgetter("tag"))
        if field.tag is not None
    ]
    if not writers:
        return lambda writer, value: writer.uvarint(0)

    def write(writer: Writer, value: Any) -> None:
        payloads = []
        for tag, field, write_value in writers:
            tagged = getattr(value, field.name)
            if not field.is_default(tagged):
                payload = Writer()
                write_value(payload, tagged)
                payloads.append((tag, payload.getvalue()))
        writer.uvarint(len(payloads))
        for tag, data in payloads:
            writer.uvarint(tag)
            writer.uvarint(len(data))
            writer.write(data)

    return write


def _value_writer(label: str, type_: WireType, version: int, flexible: bool, nullable: bool) -> _Write:
    if isinstance(type_, Array):
        return _unless_none(label, _array_writer(label, type_, version, flexible), version, nullable)
    if isinstance(type_, Primitive):
        write = _primitive_writer(type_, flexible)
        return write if type_.code or type_ is UUID else _unless_none(label, write, version, nullable)
    write_struct = _struct_writer(type_, version, flexible)
    return _nullable_struct_writer(write_struct) if nullable else write_struct


def _primitive_writer(type_: Primitive, flexible: bool) -> _Write:
    if type_.code:
        layout = struct.Struct(">" + type_.code)
        return lambda writer, value: writer.pack(layout, value)
    if type_ is UUID:
        return Writer.uuid
    if type_ is STRING or type_ is TEXT:
        return Writer.compact_string if flexible else Writer.string
    return Writer.compact_bytes if flexible else Writer.bytes_


def _unless_none(label: str, write: _Write, version: int, nullable: bool) -> _Write:
    if nullable:
        return write

    def write_value(writer: Writer, value: Any) -> None:
        if value is None:
            raise UnsupportedVersionError(f"{label} can't be None in version {version}.")
        write(writer, value)

    return write_value


def _nullable_struct_writer(write_struct: _Write) -> _Write:
    """A struct that may be null has an int8 before it: -1 for null, 1 for present (KIP-893)."""

    def write(writer: Writer, value: Any) -> None:
        writer.int8(-1 if value is None else 1)
        if value is not None:
            write_struct(writer, value)

    return write


def _array_writer(label: str, type_: Array, version: int, flexible: bool) -> _Write:
    write_count = Writer.compact_count if flexible else Writer.count
    element = type_.element
    if isinstance(element, Primitive) and element.code:
        code = element.code

        def write_packed(writer: Writer, values: Sequence[Any] | None) -> None:
            write_count(writer, None if values is None else len(values))
            if values:
                writer.write(struct.pack(f">{len(values)}{code}", *values))

        return write_packed

    write_element = _value_writer(f"An element of {label}", element, version, flexible, nullable=False)

    def write(writer: Writer, values: Sequence[Any] | None) -> None:
        write_count(writer, None if values is None else len(values))
        for value in values or ():
            write_element(writer, value)

    return write
