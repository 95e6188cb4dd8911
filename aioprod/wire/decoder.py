"""Bytes to messages: a tree of small decoders, made once per (struct, version) from the declarations (`schema`)."""

from __future__ import annotations

import struct
from typing import Any

from aioprod._short_reprs import printable
from aioprod.errors import ProtocolError
from aioprod.wire import memory
from aioprod.wire.buffer import Reader
from aioprod.wire.schema import (
    BOOL,
    BYTES,
    RECORDS,
    STRING,
    TEXT,
    UUID,
    Array,
    Primitive,
    Struct,
    WireField,
    WireType,
    derived_once,
    fields_of,
)

__all__ = ["Decoder", "label_of", "struct_decoder"]


class Decoder:
    """Reads one value of one type."""

    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        """The value at the reader's position; raises ProtocolError if there is none."""
        raise NotImplementedError


class _Boolean(Decoder):
    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        return reader.boolean()


class _Integer(Decoder):
    __slots__ = ("_size",)

    def __init__(self, size: int) -> None:
        self._size = size

    def read(self, reader: Reader) -> Any:
        return reader.integer(self._size)


class _Uuid(Decoder):
    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        return reader.uuid()


class _Sized(Decoder):
    """A value with a length before it, which may say null; `label` names the field in errors."""

    __slots__ = ("_compact", "_label", "_nullable")

    def __init__(self, label: str, compact: bool, nullable: bool) -> None:
        self._label = label
        self._compact = compact
        self._nullable = nullable

    def _null(self) -> None:
        if not self._nullable:
            raise ProtocolError(f"{self._label} is null.")


class _Text(_Sized):
    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        text = reader.compact_string() if self._compact else reader.string()
        if text is None:
            self._null()
        return text


class _Shown(_Text):
    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        text = _Text.read(self, reader)
        return None if text is None else printable(text)


class _View(_Sized):
    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        view = reader.compact_bytes() if self._compact else reader.bytes_()
        if view is None:
            self._null()
        return view


class _Bytes(_View):
    __slots__ = ()

    def read(self, reader: Reader) -> Any:
        view = _View.read(self, reader)
        return None if view is None else bytes(view)


class _Elements(_Sized):
    __slots__ = ("_element",)

    def __init__(self, label: str, compact: bool, nullable: bool, element: Decoder) -> None:
        _Sized.__init__(self, label, compact, nullable)
        self._element = element

    def read(self, reader: Reader) -> Any:
        count = reader.compact_count() if self._compact else reader.count()
        if count < 0:
            self._null()
            return None
        element = self._element
        return tuple([element.read(reader) for _ in range(count)])


class _NullableStruct(Decoder):
    """A struct that may be null has an int8 before it, negative for null (KIP-893)."""

    __slots__ = ("_struct",)

    def __init__(self, struct: Decoder) -> None:
        self._struct = struct

    def read(self, reader: Reader) -> Any:
        return None if reader.int8() < 0 else self._struct.read(reader)


class _Field:
    __slots__ = ("decoder", "name")

    def __init__(self, name: str, decoder: Decoder) -> None:
        self.name = name
        self.decoder = decoder


class _Struct(Decoder):
    """The fields of a struct in their order.

    Tagged fields, and those that the version does not have, begin with their default.
    """

    __slots__ = ("_defaults", "_fields", "_flexible", "_kind", "_tagged")

    def __init__(self, kind: type[Struct], version: int, flexible: bool) -> None:
        self._kind = kind
        self._flexible = flexible
        self._fields: list[_Field] = []
        self._tagged: dict[int, _Field] = {}
        self._defaults: list[tuple[str, Any]] = []
        for spec in fields_of(kind):
            if version in spec.versions:
                field = _Field(spec.name, _field_decoder(kind, spec, version, flexible))
                if spec.tag is None:
                    self._fields.append(field)
                    continue
                self._tagged[spec.tag] = field
            self._defaults.append((spec.name, spec.default))

    def read(self, reader: Reader) -> Any:
        # Not by the constructor: it looks for each field among those that were given, in Python.
        value = memory.instance(self._kind)
        for field in self._fields:
            memory.set_field(value, field.name, field.decoder.read(reader))
        for name, default in self._defaults:
            memory.set_field(value, name, default)
        if self._flexible:
            self._read_tagged(reader, value)
        return value

    def _read_tagged(self, reader: Reader, value: Any) -> None:
        previous = -1
        for _ in range(reader.uvarint()):
            tag = reader.uvarint()
            if tag <= previous:
                raise ProtocolError(f"{self._kind.__name__} has tag {tag} after tag {previous}.")
            previous = tag
            payload = reader.take(reader.uvarint())
            field = self._tagged.get(tag)
            if field is None:
                continue
            inner = Reader(payload)
            memory.set_field(value, field.name, field.decoder.read(inner))
            if inner.remaining:
                raise ProtocolError(f"Tag {tag} of {self._kind.__name__} has {inner.remaining} bytes left over.")


@derived_once
def struct_decoder(kind: type[Struct], version: int, flexible: bool) -> Decoder:
    """The decoder of `kind` as it is in `version`; `flexible`: with compact lengths and tagged fields."""
    return _Struct(kind, version, flexible)


def label_of(kind: type[Struct], field: WireField) -> str:
    """How messages name a field."""
    return f"{kind.__name__}.{field.name}"


def _field_decoder(kind: type[Struct], field: WireField, version: int, flexible: bool) -> Decoder:
    nullable = version in field.nullable
    if nullable and not isinstance(field.type, (Array, Primitive)):
        return _NullableStruct(struct_decoder(field.type, version, flexible))
    return _decoder(label_of(kind, field), field.type, version, flexible, nullable)


def _decoder(label: str, type_: WireType, version: int, flexible: bool, nullable: bool) -> Decoder:
    if isinstance(type_, Array):
        element = _decoder(f"An element of {label}", type_.element, version, flexible, False)
        return _Elements(label, flexible, nullable, element)
    if not isinstance(type_, Primitive):
        return struct_decoder(type_, version, flexible)
    if type_ is BOOL:
        return _Boolean()
    if type_.code:
        return _Integer(struct.calcsize(">" + type_.code))
    if type_ is UUID:
        return _Uuid()
    if type_ is STRING:
        return _Text(label, flexible, nullable)
    if type_ is TEXT:
        return _Shown(label, flexible, nullable)
    if type_ is RECORDS:
        return _View(label, flexible, nullable)
    assert type_ is BYTES
    return _Bytes(label, flexible, nullable)
