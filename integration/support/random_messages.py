"""Random messages for any declaration: the same seed gives the same message."""

from __future__ import annotations

import random
import uuid
from typing import Any, TypeVar

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
    WireType,
    fields_of,
)

__all__ = ["random_message"]

_BITS = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}
_ALPHABET = "aZ9-. \0\né\u07ff\u0800€\uffff\U0001f600"

MessageT = TypeVar("MessageT", bound=Message)


def random_message(cls: type[MessageT], version: int, seed: int) -> MessageT:
    """A message of a version: nulls, empty and long strings and arrays, extreme numbers, tagged fields."""
    message: MessageT = _Maker(version, random.Random(f"{cls.NAME} {version} {seed}")).struct(cls)
    return message


class _Maker:
    def __init__(self, version: int, source: random.Random) -> None:
        self._version = version
        self._random = source
        self._elements_left = 300  # nested arrays would multiply

    def struct(self, cls: type[Any]) -> Any:
        values: dict[str, Any] = {}
        for field in fields_of(cls):
            if self._version not in field.versions or (field.tag is not None and self._random.random() < 0.4):
                continue
            if self._version in field.nullable and self._random.random() < 0.2:
                values[field.name] = None
            else:
                values[field.name] = self._value(field.type)
        return cls(**values)

    def _value(self, type_: WireType) -> Any:
        if isinstance(type_, Array):
            return self._array(type_)
        if isinstance(type_, type):
            return self.struct(type_)
        return self._primitive(type_)

    def _array(self, type_: Array) -> tuple[Any, ...]:
        size = self._random.randint(0, 3) if self._random.random() < 0.95 else self._random.randint(100, 200)
        size = min(size, self._elements_left)
        self._elements_left -= size
        return tuple(self._value(type_.element) for _ in range(size))

    def _primitive(self, type_: Primitive) -> Any:
        if type_ is BOOL:
            return self._random.random() < 0.5
        if type_ in _BITS:
            bound = 1 << _BITS[type_] - 1
            return self._random.choice([0, 1, -1, 127, bound - 1, -bound, self._random.randrange(-bound, bound)])
        if type_ is UUID:
            return uuid.UUID(int=self._random.getrandbits(128))
        size = self._size()
        if type_ is STRING or type_ is TEXT:
            return "".join(self._random.choices(_ALPHABET, k=size))
        assert type_ in (BYTES, RECORDS)
        return self._random.randbytes(size)

    def _size(self) -> int:
        # A string may not be longer than 32,767 bytes, and a character takes up to four.
        limit = self._random.choices([10, 200, 8000], [0.95, 0.04, 0.01])[0]
        return self._random.randint(0, limit)
