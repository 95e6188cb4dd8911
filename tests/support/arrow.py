"""Arrow data for tests: types that differ only in their layout, and objects that only export the C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from aioprod.arrow.interface import ArrowArray, ArrowArrayStream, ArrowSchema

BYTES_TYPES: dict[str, pa.DataType] = {
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "binary_view": pa.binary_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.binary()),
    "dictionary of large": pa.dictionary(pa.uint32(), pa.large_binary()),
}
"""Types that hold bytes."""

TEXT_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.string()),
}
"""Types that hold text."""


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """An array of any of these types."""
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


class OnlyArray:
    """Exports what another object does as an array, and is nothing else."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        capsules: tuple[object, object] = self._exporter.__arrow_c_array__(requested_schema)
        return capsules


class OnlyStream:
    """Exports what another object does as a stream, and is nothing else."""

    def __init__(self, exporter: Any) -> None:
        self._exporter = exporter

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._exporter.__arrow_c_stream__(requested_schema)


# --- made by hand: what the interface allows and pyarrow never exports, and what it does not allow

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def capsule(structure: Any, name: bytes) -> object:
    """A capsule without destructor around a structure, which the caller keeps."""
    return _new_capsule(ctypes.addressof(structure), name, None)


class _Exporter:
    """Exports capsules as they are, and keeps their owner alive."""

    def __init__(self, owner: HandMade, exported: Any) -> None:
        self._owner = owner
        self._exported = exported

    def __arrow_c_array__(self, requested_schema: object = None) -> Any:
        return self._exported

    __arrow_c_stream__ = __arrow_c_array__


class HandMade:
    """Exports arrays whose structures a test may change first, as one array or as a stream, and counts the releases.

    The parts are real arrays of pyarrow; `schema` and `arrays` are what is exported of them.
    """

    def __init__(self, *batches: pa.RecordBatch, fail_with: bytes | None = None) -> None:
        self.schema = ArrowSchema()
        batches[0].schema._export_to_c(ctypes.addressof(self.schema))
        self.arrays: list[ArrowArray] = []
        for batch in batches:
            self.arrays.append(ArrowArray())
            batch._export_to_c(ctypes.addressof(self.arrays[-1]))
        self.given = 0
        self.released = 0
        self._fail_with = fail_with
        self._owners = [array.release for array in self.arrays]
        release = type(self.arrays[0].release)(self._release)
        for array in self.arrays:
            array.release = release
        self._kept: list[Any] = [release]

    def _release(self, pointer: Any) -> None:
        self.released += 1
        pointer.contents.release = type(pointer.contents.release)()

    def __del__(self) -> None:
        for array, release in zip(self.arrays, self._owners, strict=True):
            array.release = release
            release(ctypes.byref(array))
        if self.schema.release:
            self.schema.release(ctypes.byref(self.schema))

    def as_array(self) -> OnlyArray:
        """The first array. Its capsule has no destructor, so that nothing may release it."""
        pair = capsule(self.schema, b"arrow_schema"), capsule(self.arrays[0], b"arrow_array")
        return OnlyArray(_Exporter(self, pair))

    def as_stream(self) -> OnlyStream:
        """All arrays, and at the end the error to fail with."""
        stream = ArrowArrayStream()
        functions: Any = {field[0]: field[1] for field in ArrowArrayStream._fields_}
        stream.get_schema = functions["get_schema"](self._get_schema)
        stream.get_next = functions["get_next"](self._get_next)
        said = ctypes.create_string_buffer(self._fail_with or b"")
        # A callback of ctypes can return an address, but no text.
        last_error = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: ctypes.addressof(said))
        stream.get_last_error = ctypes.cast(last_error, functions["get_last_error"])
        stream.release = functions["release"](lambda _: None)
        self._kept += [stream, said, last_error]
        return OnlyStream(_Exporter(self, capsule(stream, b"arrow_array_stream")))

    def _get_schema(self, _: object, out: Any) -> int:
        ctypes.memmove(out, ctypes.byref(self.schema), ctypes.sizeof(ArrowSchema))
        out.contents.release = type(out.contents.release)(lambda _: None)
        self._kept.append(out.contents.release)
        return 0

    def _get_next(self, _: object, out: Any) -> int:
        if self.given == len(self.arrays):
            out.contents.release = type(out.contents.release)()
            return 0 if self._fail_with is None else 5
        ctypes.memmove(out, ctypes.byref(self.arrays[self.given]), ctypes.sizeof(ArrowArray))
        self.given += 1
        return 0
