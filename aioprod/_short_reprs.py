"""Short texts of what comes from elsewhere, for reprs, logs and errors.

The parts of a record are shown by their size and beginning, its headers by their names. Text of a peer is cut, and
shown without control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, Final

from aioprod._user_code import raise_later

__all__ = [
    "TEXT_MAX",
    "client_repr",
    "printable",
    "shown",
    "shown_address",
    "shown_error",
    "shown_names",
    "shown_record",
]

_SHOWN_MAX: Final = 16
"""Bytes or characters of a key or value, and names of headers, that are shown; what is longer is cut."""

TEXT_MAX: Final = 500
"""Characters of a peer's text that is only shown."""

_HOST_MAX: Final = 255
"""Characters of a host name; DNS has names of up to 253."""


def printable(text: str, size_max: int = TEXT_MAX) -> str:
    """The first `size_max` characters of a peer's text, with a question mark for each that is not printable."""
    return "".join(char if char.isprintable() else "?" for char in text[:size_max])


def shown_address(host: str, port: int) -> str:
    """`host:port`, with an IPv6 address in brackets; the host may come from a peer."""
    host = printable(host, _HOST_MAX)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shown_error(error: BaseException) -> str:
    """The repr of what a user's code raised, on one line and cut; its type where the repr itself raises."""
    try:
        return printable(repr(error))
    except BaseException as raised:  # An error must be shown whatever its class does.
        raise_later(raised)
        return f"<{type(error).__qualname__}>"


def shown(data: Any) -> str:
    """A key or value; for an object that is neither bytes nor text nor a number, its type and length.

    It never raises: of a value that can't be read, such as a released memoryview, it shows the type.
    """
    try:
        return _shown(data)
    except Exception:  # A repr, a log or an error must not fail because of a user's value.
        return f"<{type(data).__qualname__}>"


def _shown(data: Any) -> str:
    if isinstance(data, (bytes, bytearray, memoryview)):
        view = memoryview(data)
        beginning = repr(bytes(view.cast("B")[:_SHOWN_MAX])) if view.c_contiguous else "..."
        return beginning if view.nbytes <= _SHOWN_MAX else f"<{view.nbytes} bytes: {beginning}...>"
    if isinstance(data, str):
        return repr(data) if len(data) <= _SHOWN_MAX else f"<{len(data)} characters: {data[:_SHOWN_MAX]!r}...>"
    if data is None or isinstance(data, (bool, float)) or (isinstance(data, int) and data.bit_length() <= 64):
        return repr(data)
    kind = type(data).__qualname__
    return f"<{kind} of {len(data)}>" if isinstance(data, Sized) and not isinstance(data, type) else f"<{kind}>"


def shown_names(headers: Any) -> str:
    """The names of headers, never their values; for anything but a list of pairs, its type."""
    if headers is None:
        return "None"
    if not isinstance(headers, (tuple, list)):
        return f"<{type(headers).__qualname__}>"
    names = [shown(pair[0]) if isinstance(pair, (tuple, list)) and pair else "?" for pair in headers[:_SHOWN_MAX]]
    return f"[{', '.join(names)}{', ...' if len(headers) > _SHOWN_MAX else ''}]"


def shown_record(record: object, fields: Iterable[str]) -> str:
    """A record as a repr shows it: the name of its class, and its fields."""
    shows = {"key": shown, "value": shown, "headers": shown_names}
    parts = (f"{name}={shows.get(name, repr)(getattr(record, name))}" for name in fields)
    return f"{type(record).__qualname__}({', '.join(parts)})"


def client_repr(kind: str, name: str, servers: Iterable[str], what: str) -> str:
    """The `repr` of a client, with at most two servers: `<Producer 'shop' at localhost:9092: running>`."""
    addresses = list(servers)
    more = f" and {len(addresses) - 2} more" if len(addresses) > 2 else ""
    named = f" {name!r}" if name else ""
    return f"<{kind}{named} at {', '.join(addresses[:2])}{more}: {what}>"
