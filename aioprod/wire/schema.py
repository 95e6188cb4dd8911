"""The declaration of messages: a message is a class whose fields say what they are on the wire.

    class Example(Struct):
        name: str | None = wire(STRING, "0-12", nullable="3+", default=None)
        parts: tuple[Part, ...] = wire(array(Part))
        leader: Leader = wire(Leader, "10+", tag=0)

Version spans are written as in Kafka's documents: "3+", "0-12", "6". A span within a struct counts only where the
field that holds the struct exists too. A field without default has the zero value of its type, as in Java's classes.

To its users, mypy and `dataclasses.replace` such a class is a dataclass, frozen, with slots, whose fields are given by
name. It is not made by `dataclass`, which compiles six methods for each class: half a millisecond, and there are 126.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    ParamSpec,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

from aioprod._short_reprs import shown

__all__ = [
    "BOOL",
    "BYTES",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "RECORDS",
    "STRING",
    "TEXT",
    "UUID",
    "ZERO_UUID",
    "AnyRequest",
    "Array",
    "Message",
    "Primitive",
    "Request",
    "Response",
    "Struct",
    "WireField",
    "WireType",
    "array",
    "derived_once",
    "fields_of",
    "span",
    "wire",
]

_VERSION_MAX: Final = 0x7FFF
_UNSET: Final = object()

P = ParamSpec("P")
T = TypeVar("T")

ZERO_UUID: Final = uuid.UUID(int=0)
"""Kafka's "no id"."""


class Primitive(NamedTuple):
    """A type without parts."""

    name: str
    code: str
    """Its letter in `struct` formats, empty for types that `struct` lacks."""
    zero: Any


BOOL: Final = Primitive("bool", "?", False)
INT8: Final = Primitive("int8", "b", 0)
INT16: Final = Primitive("int16", "h", 0)
INT32: Final = Primitive("int32", "i", 0)
INT64: Final = Primitive("int64", "q", 0)
UUID: Final = Primitive("uuid", "", ZERO_UUID)
STRING: Final = Primitive("string", "", "")
TEXT: Final = Primitive("text", "", "")
"""A string that is only shown: decoding cuts it (`_short_reprs.TEXT_MAX`) and replaces its control characters."""
BYTES: Final = Primitive("bytes", "", b"")
RECORDS: Final = Primitive("records", "", None)
"""Record batches: bytes that are not looked into here. Decoding gives a view of the frame."""


class Array(NamedTuple):
    """A counted list; a tuple in Python."""

    element: Primitive | type[Struct]
    """The type of each element."""


WireType: TypeAlias = "Primitive | Array | type[Struct]"


def array(element: Primitive | type[Struct]) -> Array:
    """The type of a field that holds any number of `element`."""
    return Array(element)


class WireField(NamedTuple):
    """One field as `wire()` declared it; its class says the name."""

    name: str
    type: WireType
    versions: range
    nullable: range
    tag: int | None
    """None for a field with a fixed place."""
    default: Any
    ignorable: bool

    def is_default(self, value: Any) -> bool:
        """Whether `value` is the default of the field, which then need not be sent."""
        if isinstance(self.type, Array) and self.default is not None:
            return value is not None and len(value) == 0
        return value is self.default or bool(value == self.default)


@dataclass_transform(frozen_default=True, kw_only_default=True)
class StructType(type):
    """The class of structs: takes what `wire()` declares out of a class's body, and makes slots of it."""

    FIELDS: tuple[WireField, ...]

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], /, **options: Any) -> StructType:
        """A class with a slot for each field that its body declares."""
        declared = {key: value for key, value in namespace.items() if isinstance(value, WireField)}
        body = {key: value for key, value in namespace.items() if key not in declared}
        made = super().__new__(cls, name, bases, body | {"__slots__": tuple(declared)}, **options)
        inherited = bases[0].FIELDS if bases and isinstance(bases[0], StructType) else ()
        made.FIELDS = (*inherited, *(field._replace(name=name) for name, field in declared.items()))
        return made


class _DataclassFields:
    """The attribute that the functions of `dataclasses` read from a class, made on first use."""

    def __get__(self, struct: object, kind: type[Struct]) -> Mapping[str, dataclasses.Field[Any]]:
        return _dataclass_fields(kind)


class Struct(metaclass=StructType):
    """Fields in wire order; the base of everything that is declared.

    A repr shows sizes and beginnings of bytes, and of `SECRETS` the sizes only.
    """

    SECRETS: ClassVar[frozenset[str]] = frozenset()

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    else:
        __dataclass_fields__ = _DataclassFields()

    if not TYPE_CHECKING:  # where it would allow any attribute

        def __setattr__(self, name: str, value: object) -> None:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __init__(self, **given: Any) -> None:
        for field in type(self).FIELDS:
            object.__setattr__(self, field.name, given.pop(field.name, field.default))
        if given:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(map(repr, given))}.")

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        given = (f"{field.name}={self._shown(field.name)}" for field in type(self).FIELDS)
        return f"{type(self).__qualname__}({', '.join(given)})"

    def _shown(self, name: str) -> str:
        value = getattr(self, name)
        if not isinstance(value, (bytes, bytearray, memoryview)):
            return repr(value)
        return f"<{len(value)} bytes>" if name in self.SECRETS else shown(value)

    def __getstate__(self) -> tuple[Any, ...]:
        return self._values()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for field, value in zip(type(self).FIELDS, state, strict=True):
            object.__setattr__(self, field.name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, field.name) for field in type(self).FIELDS])


class Message(Struct):
    """A struct that is sent by itself."""

    NAME: ClassVar[str]
    VERSIONS: ClassVar[tuple[int, int]]
    """The first and the last version that aioprod speaks."""
    FLEXIBLE: ClassVar[int | None]
    """The first version with compact lengths and tagged fields (KIP-482); None if there is none."""

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields."""
        return cls.FLEXIBLE is not None and version >= cls.FLEXIBLE


class Response(Message):
    """An answer of a broker."""

    API_KEY: ClassVar[int]
    FLEXIBLE_HEADER: ClassVar[bool] = True
    """False where the header stays the old one in flexible versions too."""


ResponseT_co = TypeVar("ResponseT_co", bound=Response, covariant=True)


class Request(Message, Generic[ResponseT_co]):
    """A request to a broker, with the type of its answer."""

    API_KEY: ClassVar[int]
    RESPONSE: ClassVar[type[Response]]
    STABLE_MAX: ClassVar[int | None] = None
    """The last version that Kafka calls stable, where `VERSIONS` goes further; later ones are declared but never
    negotiated."""


AnyRequest: TypeAlias = Request[Any]
"""A request with any type of answer."""


@cache
def span(text: str) -> range:
    """The versions of a span: "3+", "0-12" or "6"."""
    first, plus, _ = text.partition("+")
    if plus:
        return range(int(first), _VERSION_MAX + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def wire(
    type_: WireType,
    versions: str = "0+",
    *,
    nullable: str | None = None,
    tag: int | None = None,
    default: Any = _UNSET,
    ignorable: bool = False,
) -> Any:
    """Declare a field of a `Struct`.

    `versions`: where the field exists; `nullable`: where None is allowed; `tag`: its number, if it is a tagged field;
    `ignorable`: a value is dropped in versions without the field, where it is an error otherwise.
    """
    if default is _UNSET:
        default = _zero(type_)
    return WireField("", type_, span(versions), span(nullable) if nullable else range(0), tag, default, ignorable)


def _zero(type_: WireType) -> Any:
    if isinstance(type_, Array):
        return ()
    return type_.zero if isinstance(type_, Primitive) else type_()


def derived_once(derive: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache` that keeps the signature, for values derived from declarations."""
    return cast("Callable[P, T]", cache(derive))


def fields_of(struct: type[Struct]) -> tuple[WireField, ...]:
    """The declared fields of `struct` in wire order."""
    return struct.FIELDS


@derived_once
def _dataclass_fields(struct: type[Struct]) -> Mapping[str, dataclasses.Field[Any]]:
    columns = [(field.name, Any, dataclasses.field(default=field.default)) for field in struct.FIELDS]
    twin: Any = dataclasses.make_dataclass(struct.__name__, columns)
    return cast("Mapping[str, dataclasses.Field[Any]]", twin.__dataclass_fields__)
