"""The words in which a message is declared: a frozen dataclass whose fields say what they are on the wire.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Example(Struct):
        name: str | None = wire(STRING, "0-12", nullable="3+", default=None)
        parts: tuple[Part, ...] = wire(array(Part))
        leader: Leader = wire(Leader, "10+", tag=0)

Version spans are written as in Kafka's documents: "3+", "0-12", "6". A span within a struct counts only where the
field that holds the struct exists too. A field without default has the zero value of its type, as in Java's classes.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Final, Generic, ParamSpec, TypeAlias, TypeVar, cast

__all__ = [
    "BOOL",
    "BYTES",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "RECORDS",
    "STRING",
    "UUID",
    "ZERO_UUID",
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

_VERSION_MAX = 0x7FFF
_UNSET: Final = object()

P = ParamSpec("P")
T = TypeVar("T")

ZERO_UUID: Final = uuid.UUID(int=0)
"""Kafka's "no id"."""


@dataclass(frozen=True, slots=True)
class Primitive:
    """A type without parts. `code` is its letter in `struct` formats, empty for what `struct` can't do."""

    name: str
    code: str
    zero: Any


BOOL: Final = Primitive("bool", "?", False)
INT8: Final = Primitive("int8", "b", 0)
INT16: Final = Primitive("int16", "h", 0)
INT32: Final = Primitive("int32", "i", 0)
INT64: Final = Primitive("int64", "q", 0)
UUID: Final = Primitive("uuid", "", ZERO_UUID)
STRING: Final = Primitive("string", "", "")
BYTES: Final = Primitive("bytes", "", b"")
RECORDS: Final = Primitive("records", "", None)
"""Record batches: bytes that are not looked into here. Decoding gives a view of the frame."""


class Struct:
    """Fields in wire order; the base of everything that is declared."""

    __slots__ = ()


class Message(Struct):
    """A struct that travels by itself, with the versions that we speak of it.

    `VERSIONS` are the first and the last version, `FLEXIBLE` is the first one with compact lengths and tagged fields
    (KIP-482), None if there is none. `MAY_GO_ON`: bytes after its end are passed over.
    """

    __slots__ = ()

    NAME: ClassVar[str]
    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int | None]
    MAY_GO_ON: ClassVar[bool] = False

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Whether `version` has compact lengths and tagged fields."""
        return cls.FLEXIBLE is not None and version >= cls.FLEXIBLE


class Response(Message):
    """What a broker answers. `FLEXIBLE_HEADER` is False where the header stays the old one in flexible versions too."""

    __slots__ = ()

    API_KEY: ClassVar[int]
    FLEXIBLE_HEADER: ClassVar[bool] = True
    MAY_GO_ON: ClassVar[bool] = True


ResponseT_co = TypeVar("ResponseT_co", bound=Response, covariant=True)


class Request(Message, Generic[ResponseT_co]):
    """What a broker is asked, with the type of the answer.

    `STABLE_MAX` is the last version that Kafka calls stable, where `VERSIONS` goes further; later ones are declared
    but never negotiated.
    """

    __slots__ = ()

    API_KEY: ClassVar[int]
    RESPONSE: ClassVar[type[Response]]
    STABLE_MAX: ClassVar[int | None] = None


@dataclass(frozen=True, slots=True)
class Array:
    """A counted list of `element`; a tuple in Python."""

    element: Primitive | type[Struct]


WireType: TypeAlias = Primitive | Array | type[Struct]


def array(element: Primitive | type[Struct]) -> Array:
    """The type of a field that holds any number of `element`."""
    return Array(element)


@dataclass(frozen=True, slots=True)
class WireField:
    """One field as `wire()` declared it. `tag` is None for a field with a fixed place."""

    name: str
    type: WireType
    versions: range
    nullable: range
    tag: int | None
    default: Any
    ignorable: bool

    def is_default(self, value: Any) -> bool:
        """Whether `value` says no more than leaving the field out would."""
        if isinstance(self.type, Array) and self.default is not None:
            return value is not None and len(value) == 0
        return value is self.default or bool(value == self.default)


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
    spec = (type_, span(versions), span(nullable) if nullable else range(0), tag, ignorable)
    return dataclasses.field(default=default, metadata={"wire": spec})


def _zero(type_: WireType) -> Any:
    if isinstance(type_, Array):
        return ()
    return type_.zero if isinstance(type_, Primitive) else type_()


def derived_once(derive: Callable[P, T]) -> Callable[P, T]:
    """`functools.cache` that keeps the signature, for what is derived from declarations."""
    return cast("Callable[P, T]", cache(derive))


@derived_once
def fields_of(struct: type[Struct]) -> tuple[WireField, ...]:
    """The declared fields of `struct` in wire order."""
    found = []
    for field in dataclasses.fields(struct):  # type: ignore[arg-type]  # every declared struct is a dataclass
        type_, versions, nullable, tag, ignorable = field.metadata["wire"]
        found.append(WireField(field.name, type_, versions, nullable, tag, field.default, ignorable))
    return tuple(found)
