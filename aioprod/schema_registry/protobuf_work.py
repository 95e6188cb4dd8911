"""How much memory and time Google's parser may need for a Protobuf message, found out before it parses.

Two bytes make a message inside another one, which takes memory for all fields of its type; and the maps of that parser
have a hash that can be computed for keys that are integers, so that each look-up may pass all entries (800 KB of
them: nine seconds, in which no other thread runs). A type is looked at once; of most, no record can be that dear. Of
others, large records are walked through.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any, Final, NamedTuple, TypeAlias

from aioprod.errors import SerializationError

__all__ = ["MessageWork"]

_MEMORY: Final = 16_777_216
_MEMORY_PER_BYTE: Final = 1_000
_OF_A_MESSAGE: Final = 32
_OF_A_FIELD: Final = 16
"""Bytes of memory; a field that is a text takes most."""
_UNCOUNTED_MAX: Final = 65_536
"""Bytes of a record whose keys are not looked at: at worst, their maps take a twentieth of a second."""
_COMPARISONS: Final = 1_000_000
_COMPARISONS_PER_BYTE: Final = 10
"""Of two keys, each some nanoseconds."""
_DEPTH_MAX: Final = 100
"""Where the parser stops."""

_SIZES: Final = {1: 8, 5: 4}
"""Bytes of numbers of a fixed size, by wire type."""
_VARINT, _BYTES, _GROUP, _END = 0, 2, 3, 4

# Each implementation of Protobuf has descriptors of its own.
_Descriptor: TypeAlias = Any


class MessageWork:
    """The work of parsing messages of one type."""

    def __init__(self, descriptor: _Descriptor) -> None:
        kinds: dict[str, _Kind] = {}
        self._root = _kind_of(descriptor, kinds)
        self._has_integer_keys = any(kind.has_integer_keys for kind in kinds.values())
        self._memory_per_byte = max(
            (
                inner.memory // (2 + (number > 15) + (number > 2047))
                for kind in kinds.values()
                for number, inner in kind.fields.items()
            ),
            default=0,
        )

    def check(self, payload: bytes) -> None:
        """Raise SerializationError for bytes that would take more than the limits."""
        size = len(payload)
        if self._memory_per_byte * size > _MEMORY + _MEMORY_PER_BYTE * size or (
            self._has_integer_keys and size > _UNCOUNTED_MAX
        ):
            _Walk(payload).through(self._root)


class _Inner(NamedTuple):
    """A field whose values are messages, each of which takes so much memory."""

    kind: _Kind
    is_repeated: bool
    memory: int


class _Kind:
    """A type of messages: the memory that one takes, and its fields that are messages, by number."""

    def __init__(self, descriptor: _Descriptor) -> None:
        self.is_entry = bool(descriptor.GetOptions().map_entry)
        # An entry without a value has one nevertheless, so that its memory is always that of both.
        value = descriptor.fields_by_number[2].message_type if self.is_entry else None
        self.memory = _memory_of(descriptor) + (0 if value is None else _memory_of(value))
        self.fields: dict[int, _Inner] = {}
        key = descriptor.fields_by_number[1] if self.is_entry else None
        self.has_integer_keys = key is not None and key.type not in (key.TYPE_STRING, key.TYPE_BOOL)
        self.has_zigzag_keys = key is not None and key.type in (key.TYPE_SINT32, key.TYPE_SINT64)
        is_long = key is not None and key.cpp_type in (key.CPPTYPE_INT64, key.CPPTYPE_UINT64)
        self.key_mask = 2**64 - 1 if is_long else 2**32 - 1


def _kind_of(descriptor: _Descriptor, kinds: dict[str, _Kind]) -> _Kind:
    """The type, and in `kinds` those inside it, too, each made once."""
    root = kinds[descriptor.full_name] = _Kind(descriptor)
    waiting = [descriptor]
    while waiting:
        outer = waiting.pop()
        for field in (*outer.fields, *outer.file.pool.FindAllExtensions(outer)):
            inner = field.message_type
            if inner is None:
                continue
            if inner.full_name not in kinds:
                kinds[inner.full_name] = _Kind(inner)
                waiting.append(inner)
            outside, inside = kinds[outer.full_name], kinds[inner.full_name]
            memory = 0 if outside.is_entry else inside.memory
            outside.fields[field.number] = _Inner(inside, _is_repeated(field), memory)
    return root


def _memory_of(descriptor: _Descriptor) -> int:
    return _OF_A_MESSAGE + _OF_A_FIELD * len(descriptor.fields)


def _is_repeated(field: _Descriptor) -> bool:
    known = getattr(field, "is_repeated", None)  # Releases before 6 have the label alone.
    return bool(field.label == field.LABEL_REPEATED if known is None else known)


class _CutError(Exception):
    """The bytes are not a message; the parser stops there, too."""


class _Walk:
    """Through the fields of a record that are messages, in the order in which the parser comes to them."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._memory_left = _MEMORY + _MEMORY_PER_BYTE * len(payload)
        self._keys: dict[tuple[int, int], set[int]] = {}
        self._shared: dict[tuple[int, int], int] = {}
        self._messages = 0

    def through(self, root: _Kind) -> None:
        """Raise SerializationError for more memory or comparisons than the limits."""
        with contextlib.suppress(_CutError, IndexError):
            self._message(root, 0, 0, len(self._payload), 0)
        most = _COMPARISONS + _COMPARISONS_PER_BYTE * len(self._payload)
        if sum(map(_comparisons, self._keys.values())) > most:
            raise SerializationError(f"the keys of its maps need more than {most} comparisons, the limit for its size.")

    def _message(self, kind: _Kind | None, own: int, place: int, end: int, depth: int) -> int:
        """Where the message ends that begins here; `own` is its number, and `kind` None for one that is unknown."""
        if depth > _DEPTH_MAX:
            raise _CutError
        while place < end:
            tag, place = self._varint(place)
            number, wire = tag >> 3, tag & 7
            inner = None if kind is None else kind.fields.get(number)
            if wire == _END:
                return place
            if wire == _GROUP:
                inside = self._entered(inner, own, number)
                place = self._message(inner and inner.kind, inside, place, end, depth + 1)
            elif wire == _BYTES:
                size, place = self._varint(place)
                if place + size > end:
                    raise _CutError
                if inner is not None:
                    inside = self._entered(inner, own, number)
                    self._message(inner.kind, inside, place, place + size, depth + 1)
                    if inner.kind.has_integer_keys:
                        self._keys.setdefault((own, number), set()).add(self._key(inner.kind, place, place + size))
                place += size
            else:
                _, place = self._number(wire, place)
        return place

    def _entered(self, inner: _Inner | None, own: int, number: int) -> int:
        """The number of a message inside another one; what comes several times and is not repeated is one message."""
        if inner is None:
            return 0
        self._memory_left -= inner.memory
        if self._memory_left < 0:
            most = _MEMORY + _MEMORY_PER_BYTE * len(self._payload)
            raise SerializationError(
                f"its messages would take more than {most} bytes of memory, the limit for its size."
            )
        self._messages += 1
        return self._messages if inner.is_repeated else self._shared.setdefault((own, number), self._messages)

    def _key(self, kind: _Kind, place: int, end: int) -> int:
        """The key of an entry of a map, 0 without one."""
        key = 0
        while place < end:
            tag, place = self._varint(place)
            if tag & 7 == _BYTES:
                size, place = self._varint(place)
                place += size
            elif tag & 7 == _GROUP:
                place = self._message(None, 0, place, end, 0)
            else:
                found, place = self._number(tag & 7, place)
                key = found if tag >> 3 == 1 else key
        return ((key >> 1) ^ -(key & 1) if kind.has_zigzag_keys else key) & kind.key_mask

    def _number(self, wire: int, place: int) -> tuple[int, int]:
        if wire == _VARINT:
            return self._varint(place)
        size = _SIZES.get(wire)
        if size is None:
            raise _CutError
        return int.from_bytes(self._payload[place : place + size], "little"), place + size

    def _varint(self, place: int) -> tuple[int, int]:
        number = shift = 0
        while shift < 70:
            byte = self._payload[place]
            place += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, place
            shift += 7
        raise _CutError


def _comparisons(keys: set[int]) -> int:
    """How often keys are compared until each is in the map: those that have one place in its table, with each other."""
    last = (1 << len(keys).bit_length()) - 1
    places = Counter((key ^ (key >> 32)) & last for key in keys)
    return sum(count * count for count in places.values()) // 2
