"""How a record's parts appear in a repr, a log or an error: by their sizes and beginnings, headers by their names."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any

__all__ = ["SHOWN_MAX", "shown", "shown_names", "shown_record"]

SHOWN_MAX = 16
"""Bytes or characters of a key or value, and names of headers: what is no longer is shown whole."""


def shown(data: Any) -> str:
    """A key or value; of what is neither bytes nor text nor a number its type, and its length if it has one.

    It never raises: of a value that can't be looked at, as a released memoryview, it shows the type.
    """
    try:
        return _shown(data)
    except Exception:  # a repr, a log or an error must not fail by what a user's value does
        return f"<{type(data).__qualname__}>"


def _shown(data: Any) -> str:
    if isinstance(data, (bytes, bytearray, memoryview)):
        view = memoryview(data)
        beginning = repr(bytes(view.cast("B")[:SHOWN_MAX])) if view.c_contiguous else "..."
        return beginning if view.nbytes <= SHOWN_MAX else f"<{view.nbytes} bytes: {beginning}...>"
    if isinstance(data, str):
        return repr(data) if len(data) <= SHOWN_MAX else f"<{len(data)} characters: {data[:SHOWN_MAX]!r}...>"
    if data is None or isinstance(data, (bool, float)) or (isinstance(data, int) and data.bit_length() <= 64):
        return repr(data)
    kind = type(data).__qualname__
    return f"<{kind} of {len(data)}>" if isinstance(data, Sized) and not isinstance(data, type) else f"<{kind}>"


def shown_names(headers: Any) -> str:
    """The names of headers, never their values; of what is no list of pairs its type."""
    if headers is None:
        return "None"
    if not isinstance(headers, (tuple, list)):
        return f"<{type(headers).__qualname__}>"
    names = [shown(pair[0]) if isinstance(pair, (tuple, list)) and pair else "?" for pair in headers[:SHOWN_MAX]]
    return f"[{', '.join(names)}{', ...' if len(headers) > SHOWN_MAX else ''}]"


def shown_record(record: object, fields: Iterable[str]) -> str:
    """A record as a repr shows it: what its class is called, and its fields."""
    shows = {"key": shown, "value": shown, "headers": shown_names}
    parts = (f"{name}={shows.get(name, repr)(getattr(record, name))}" for name in fields)
    return f"{type(record).__qualname__}({', '.join(parts)})"
