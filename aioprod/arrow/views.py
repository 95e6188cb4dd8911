"""From an exported array to views of it: which types can be read as what, and where their buffers are."""

from __future__ import annotations

from typing import Final

from aioprod.arrow.columns import BytesColumn, NumberColumn, PairsColumn, Span, TimestampColumn
from aioprod.arrow.interface import ArrowArray, Field
from aioprod.arrow.memory import FIXED, INDEXED, NULLS, OFFSETS, VIEW_SIZE, VIEWS, at
from aioprod.errors import InvalidRecordError

__all__ = [
    "bytes_column",
    "has_null_rows",
    "is_bytes",
    "is_integer",
    "is_pairs",
    "is_text",
    "is_timestamp",
    "number_column",
    "pairs_column",
    "takes_bytes",
    "timestamp_column",
    "type_name",
    "whole_bytes_column",
    "whole_number_column",
]

_INTEGERS: Final = {"c": (1, False), "C": (1, True), "s": (2, False), "S": (2, True)} | {
    "i": (4, False), "I": (4, True), "l": (8, False), "L": (8, True)
}  # fmt: skip
"""Width in bytes and whether it is unsigned, by format."""

_PER_SECOND: Final = {"tss": 1, "tsm": 1000, "tsu": 1_000_000, "tsn": 1_000_000_000, "l": 1000}
"""Units in a second, by the start of the format; a time zone follows, and does not change what the numbers mean."""

_OFFSET_WIDTHS: Final = {"u": 4, "z": 4, "U": 8, "Z": 8, "+l": 4, "+m": 4, "+L": 8}

_TEXT: Final = {"u", "U", "vu"}
_BINARY: Final = {"z", "Z", "vz"}

_NAMES: Final = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32", "I": "uint32",
    "l": "int64", "L": "uint64", "e": "float16", "f": "float32", "g": "float64", "z": "binary", "Z": "large_binary",
    "vz": "binary_view", "u": "string", "U": "large_string", "vu": "string_view", "tdD": "date32", "tdm": "date64",
    "+s": "struct", "+l": "list", "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view", "+m": "map",
    "+r": "run_end_encoded",
}  # fmt: skip
_PREFIXES: Final = {
    "w:": "fixed_size_binary", "d:": "decimal", "ts": "timestamp", "tt": "time", "tD": "duration", "ti": "interval",
    "+w:": "fixed_size_list", "+ud:": "dense_union", "+us:": "sparse_union",
}  # fmt: skip


_ROWS_MAX: Final = 1 << 48
_BYTES_MAX: Final = 1 << 56
"""No memory has so many. Below them, C computes places in a buffer without an overflow."""

_BLOCKS_MAX: Final = 100_000
"""A column of views into more buffers than this counts as broken."""


def type_name(field: Field) -> str:
    """The type of a column as Arrow users know it."""
    if field.dictionary is not None:
        return f"dictionary of {type_name(field.dictionary)}"
    name = _NAMES.get(field.format)
    if name is None:
        name = next((name for prefix, name in _PREFIXES.items() if field.format.startswith(prefix)), field.format)
    inner = ", ".join(f"{child.name}: {type_name(child)}" for child in field.children)
    return f"{name}<{inner}>" if inner else name


# --- what a type can be read as


def is_text(field: Field) -> bool:
    """Whether the values are strings, dictionary-encoded ones included."""
    field = field.dictionary or field
    return field.format in _TEXT or field.format == "n"


def is_bytes(field: Field) -> bool:
    """Whether the values are strings or byte strings."""
    field = field.dictionary or field
    return is_text(field) or field.format in _BINARY or field.format.startswith("w:")


def is_pairs(field: Field) -> bool:
    """Whether the values are maps from string to bytes, or lists of structs of a name, or key, and a value."""
    return pair_fields(field) is not None


def pair_fields(field: Field) -> tuple[int, int] | None:
    """Which children of the pairs of a column are name and value, None for a type that has no pairs."""
    if field.format not in ("+l", "+L", "+m") or len(field.children) != 1 or len(field.children[0].children) != 2:
        return None
    if field.children[0].format != "+s":
        return None
    first, second = field.children[0].children
    name, value = (1, 0) if field.format != "+m" and first.name == "value" else (0, 1)
    named = (first, second)[name].name, (first, second)[value].name
    if field.format != "+m" and named not in (("name", "value"), ("key", "value")):
        return None
    return (name, value) if is_text((first, second)[name]) and is_bytes((first, second)[value]) else None


def is_integer(field: Field) -> bool:
    """Whether the values are integers of any width."""
    return field.format in _INTEGERS and field.dictionary is None


def is_timestamp(field: Field) -> bool:
    """Whether the values are times of any unit, with or without time zone, or int64, taken for milliseconds."""
    return field.format[:3] in _PER_SECOND and field.dictionary is None


def takes_bytes(field: Field) -> bool:
    """Whether each row takes memory in the buffers, beside a bit that says if it is null."""
    return field.format != "n" and field.format.rstrip("0") != "w:"


# --- the memory


def has_null_rows(array: ArrowArray) -> bool:
    """Whether rows of a struct array are null as a whole; raises InvalidRecordError when its lengths make no sense."""
    _check(array.length >= 0 and array.offset >= 0)
    address = _address(array, 0, 0) if array.n_buffers and array.null_count else 0
    if not address:
        return False
    bits = int.from_bytes(at(address, (array.offset + array.length + 7) // 8), "little") >> array.offset
    return (bits & (1 << array.length) - 1).bit_count() < array.length


def bytes_column(field: Field, array: ArrowArray, index: int) -> BytesColumn:
    """A view of child `index` of a struct array, whose type `is_bytes`."""
    child, first = _child(array, index)
    return _bytes(field, child, first, array.length)


def number_column(field: Field, array: ArrowArray, index: int) -> NumberColumn:
    """A view of child `index` of a struct array, of an integer type or of one that is stored as int64."""
    child, first = _child(array, index)
    return _numbers(field.format, child, first, array.length)


def timestamp_column(field: Field, array: ArrowArray, index: int) -> TimestampColumn:
    """A view of child `index` of a struct array, whose type `is_timestamp`."""
    return TimestampColumn(number_column(field, array, index), _PER_SECOND[field.format[:3]])


def pairs_column(field: Field, array: ArrowArray, index: int) -> PairsColumn:
    """A view of child `index` of a struct array, whose type `is_pairs`."""
    child, first = _child(array, index)
    pairs = _part(child, 0)
    _check(child.n_buffers == 2)
    name, value = pair_fields(field) or (0, 1)
    names, first_name = _child(pairs, name)
    values, first_value = _child(pairs, value)
    fields = field.children[0].children
    return PairsColumn(
        _span(child, first, array.length),
        _address(child, 1, array.length),
        _OFFSET_WIDTHS[field.format],
        _span(pairs, pairs.offset, pairs.length),
        _bytes(fields[name], names, first_name, pairs.length),
        _bytes(fields[value], values, first_value, pairs.length),
    )


def whole_bytes_column(field: Field, array: ArrowArray) -> BytesColumn:
    """A view of an array that is not part of a struct, whose type `is_bytes`."""
    return _bytes(field, array, array.offset, array.length)


def whole_number_column(field: Field, array: ArrowArray) -> NumberColumn:
    """A view of an array that is not part of a struct, of an integer type."""
    return _numbers(field.format, array, array.offset, array.length)


def _child(array: ArrowArray, index: int) -> tuple[ArrowArray, int]:
    """A child of a struct array, and which of its rows belongs to the struct's first one."""
    child = _part(array, index)
    _check(child.offset >= 0 and array.offset + array.length <= child.length)
    return child, child.offset + array.offset


def _part(array: ArrowArray, index: int) -> ArrowArray:
    _check(index < array.n_children and bool(array.children) and bool(array.children[index]))
    part: ArrowArray = array.children[index].contents
    return part


def _bytes(field: Field, array: ArrowArray, first: int, length: int) -> BytesColumn:
    span = _span(array, first, length)
    if field.format == "n":
        return BytesColumn(span, NULLS)
    if field.dictionary is not None:
        _check(field.format in _INTEGERS and bool(array.dictionary))
        values = array.dictionary.contents
        return BytesColumn(
            span,
            INDEXED,
            indices=_numbers(field.format, array, first, length),
            values=_bytes(field.dictionary, values, values.offset, values.length),
        )
    if field.format.startswith("w:"):
        _check(array.n_buffers == 2 and field.format[2:].isdecimal())
        width = int(field.format[2:])
        _check(width * (first + length) <= _BYTES_MAX)
        return BytesColumn(span, FIXED, width, _address(array, 1, width * length))
    if field.format.startswith("v"):
        _check(3 <= array.n_buffers <= 3 + _BLOCKS_MAX)
        return BytesColumn(span, VIEWS, VIEW_SIZE, _address(array, 1, length), _view_blocks(array))
    _check(array.n_buffers == 3)
    if not length:
        return BytesColumn(span, NULLS)
    width = _OFFSET_WIDTHS[field.format]
    places = _address(array, 1, length)
    return BytesColumn(span, OFFSETS, width, places, [_block(array, 2, _number(places, width, first + length))])


def _view_blocks(array: ArrowArray) -> list[tuple[int, int]]:
    """Address and size of each buffer that views point into; the last buffer holds the sizes."""
    count = array.n_buffers - 3
    sizes = NumberColumn(Span(0, count, 0), _address(array, array.n_buffers - 1, count), 8, False)
    blocks = []
    for block in range(count):
        sizes.find(block)
        blocks.append(_block(array, 2 + block, sizes.value))
    return blocks


def _block(array: ArrowArray, buffer: int, size: int) -> tuple[int, int]:
    """Address and size of a buffer with the bytes themselves."""
    _check(0 <= size <= _BYTES_MAX)
    return _address(array, buffer, size), size


def _number(numbers: int, width: int, index: int) -> int:
    column = NumberColumn(Span(0, index + 1, 0), numbers, width, False)
    column.find(index)
    return column.value


def _numbers(format_: str, array: ArrowArray, first: int, length: int) -> NumberColumn:
    _check(array.n_buffers == 2)
    width, unsigned = _INTEGERS.get(format_, (8, False))
    return NumberColumn(_span(array, first, length), _address(array, 1, length), width, unsigned)


def _span(array: ArrowArray, first: int, length: int) -> Span:
    _check(first >= 0 and length >= 0 and first + length <= _ROWS_MAX)
    has_nulls = array.n_buffers > 0 and array.null_count != 0
    return Span(first, length, _address(array, 0, 0) if has_nulls else 0)


def _address(array: ArrowArray, buffer: int, needed: int) -> int:
    """Where a buffer is; only one of which nothing is `needed` may be missing, and is 0 then."""
    address: int | None = array.buffers[buffer] if array.buffers else None
    _check(bool(address) or not needed)
    return address or 0


def _check(consistent: bool) -> None:
    if not consistent:
        raise InvalidRecordError("An Arrow array contradicts itself: its lengths or its buffers don't fit its type.")
