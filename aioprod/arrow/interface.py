"""The C data interface as Python objects: arrays that a library exports, imported and released.

Everything here happens once per call or per batch; the rows are read by `columns`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Protocol

from aioprod.errors import InvalidRecordError

__all__ = ["ArrowArray", "ArrowArrayStream", "ArrowSchema", "Chunk", "Field", "Source", "open_source"]

_CHILDREN_MAX: Final = 10_000
_DEPTH_MAX: Final = 64
"""A schema with more columns than this, or with types nested deeper, counts as broken."""


class ArrowSchema(ctypes.Structure):
    """The type of an array, and of its parts."""

    format: bytes | None
    name: bytes | None
    n_children: int
    children: Any
    dictionary: Any
    release: Any


class ArrowArray(ctypes.Structure):
    """The memory of an array, and of its parts."""

    length: int
    null_count: int
    offset: int
    n_buffers: int
    n_children: int
    buffers: Any
    children: Any
    dictionary: Any
    release: Any


class ArrowArrayStream(ctypes.Structure):
    """A producer of arrays of one type."""

    get_schema: Callable[..., int]
    get_next: Callable[..., int]
    get_last_error: Callable[..., bytes | None]
    release: Any


ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_void_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))),
    ("private_data", ctypes.c_void_p),
]
ArrowArray._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))),
    ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))),
    ("private_data", ctypes.c_void_p),
]
ArrowArrayStream._fields_ = [
    ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowSchema))),
    ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowArray))),
    ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(ArrowArrayStream))),
    ("release", ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArrayStream))),
    ("private_data", ctypes.c_void_p),
]


@dataclass(frozen=True, slots=True)
class Field:
    """A column, or a part of one: its name, its type as a format string of the interface, and the types within."""

    name: str
    format: str
    children: tuple[Field, ...]
    dictionary: Field | None


class Chunk:
    """One array of a source. Its memory is there until `release()`."""

    def __init__(self, array: ArrowArray, capsule: object) -> None:
        self.array = array
        """Not to be touched after `release()`."""
        self._capsule = capsule
        """Owns the array and releases it with its last reference; None for an array of our own."""
        self._is_ours = capsule is None

    def release(self) -> None:
        """Free the memory."""
        if self._is_ours:
            self._is_ours = False
            self.array.release(ctypes.byref(self.array))
        self._capsule = None

    def __del__(self) -> None:
        self.release()


class Source(Protocol):
    """A source of exported arrays of one type."""

    field: Field
    is_lazy: bool
    """The next array may have to be read or computed first."""

    def next(self) -> Chunk | None:
        """The next array, None after the last one; raises InvalidRecordError for an error of the library."""

    def close(self) -> None:
        """Release the stream; may be called while another thread is in `next`."""


class OneArray:
    """An exported array."""

    is_lazy = False

    def __init__(self, schema: object, array: object) -> None:
        self.field = _field(_contents(schema, b"arrow_schema", ArrowSchema))
        self._chunk: Chunk | None = Chunk(_contents(array, b"arrow_array", ArrowArray), array)

    def next(self) -> Chunk | None:
        """The array on the first call, None afterwards."""
        chunk, self._chunk = self._chunk, None
        return chunk

    def close(self) -> None:
        """Release the array unless `next` has returned it."""
        self._chunk = None


class Stream:
    """An exported stream. Its capsule frees the memory with its last reference."""

    is_lazy = True

    def __init__(self, capsule: object) -> None:
        self._stream = _contents(capsule, b"arrow_array_stream", ArrowArrayStream)
        self._capsule: object = capsule
        self._lock = Lock()
        self._is_busy = False
        self._is_closed = False
        schema = ArrowSchema()
        self._check(self._stream.get_schema(ctypes.byref(self._stream), ctypes.byref(schema)))
        try:
            self.field = _field(schema)
        finally:
            if schema.release:
                schema.release(ctypes.byref(schema))

    def next(self) -> Chunk | None:
        """The next array; from one thread at a time."""
        with self._lock:
            if self._is_closed:
                return None
            self._is_busy = True
        array = ArrowArray()
        try:
            self._check(self._stream.get_next(ctypes.byref(self._stream), ctypes.byref(array)))
        finally:
            with self._lock:
                self._is_busy = False
                self._drop_if_closed()
        return Chunk(array, None) if array.release else None

    def close(self) -> None:
        """Release the stream, or have a running `next` do it."""
        with self._lock:
            self._is_closed = True
            self._drop_if_closed()

    def _drop_if_closed(self) -> None:
        if self._is_closed and not self._is_busy:
            self._capsule = None

    def _check(self, code: int) -> None:
        if code:
            text = self._stream.get_last_error(ctypes.byref(self._stream))
            reason = f"error {code}" if text is None else text.decode(errors="replace")
            raise InvalidRecordError(f"The Arrow stream could not be read: {reason}.")


def open_source(data: Any) -> Source:
    """Import what an object exports through the Arrow PyCapsule interface.

    Raises InvalidRecordError for one that exports nothing, or not by the rules of the interface.
    """
    if hasattr(data, "__arrow_c_array__"):
        exported = data.__arrow_c_array__()
        if not isinstance(exported, tuple) or len(exported) != 2:
            raise InvalidRecordError(
                f"__arrow_c_array__ of {type(data).__name__} returned {type(exported).__name__}, not two capsules."
            )
        return OneArray(*exported)
    if hasattr(data, "__arrow_c_stream__"):
        return Stream(data.__arrow_c_stream__())
    raise InvalidRecordError(
        f"{type(data).__name__} is not Arrow data: it has neither __arrow_c_array__ nor __arrow_c_stream__.",
        hint="Give a record batch, a table or a data frame of a library with the Arrow PyCapsule interface.",
    )


_get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_get_pointer.restype = ctypes.c_void_p
_get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _contents(capsule: object, name: bytes, kind: Any) -> Any:
    """The structure that a capsule of this name points to; it is the capsule's own."""
    try:
        structure = kind.from_address(_get_pointer(capsule, name))
    except ValueError as error:
        raise InvalidRecordError(f"{type(capsule).__name__} is not a capsule named {name.decode()}.") from error
    if not structure.release:
        raise InvalidRecordError(f"The {name.decode()} was used before: what is in it is gone.")
    return structure


def _field(schema: ArrowSchema, depth: int = 0) -> Field:
    if depth == _DEPTH_MAX:
        raise InvalidRecordError(f"An Arrow schema nests types deeper than {_DEPTH_MAX} levels.")
    if schema.format is None:
        raise InvalidRecordError("An Arrow schema has a field without a type.")
    if not 0 <= schema.n_children <= _CHILDREN_MAX:
        raise InvalidRecordError(f"An Arrow schema says that it has {schema.n_children} children.")
    return Field(
        (schema.name or b"").decode(errors="replace"),
        schema.format.decode(errors="replace"),
        tuple(_field(schema.children[index].contents, depth + 1) for index in range(schema.n_children)),
        _field(schema.dictionary.contents, depth + 1) if schema.dictionary else None,
    )
