"""Java's `.properties` format, as `java.util.Properties.load` documents it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from os import PathLike
from typing import TYPE_CHECKING, Final

from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from typing import Self

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY_AND_VALUE: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


class PropertyName(str):
    """A key with its place in the file, which errors about it name."""

    __slots__ = ("place",)

    def __new__(cls, name: str, place: str) -> Self:
        key = super().__new__(cls, name)
        key.place = place
        return key

    place: str
    """`client.properties, line 3`."""


def parse_properties(content: bytes, file: str | PathLike[str] = "the properties file") -> dict[str, str]:
    """Return the keys (each a `PropertyName`) and values of a file; of a repeated key the last value, as in Java.

    Bytes that are not valid UTF-8 are read as Latin-1. Raises ConfigError for a malformed Unicode escape.
    """
    try:
        decoded = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        decoded = content.decode("latin-1")
    properties: dict[str, str] = {}
    for number, line in _logical_lines(decoded):
        key, value = _KEY_AND_VALUE.findall(line)[0]
        name = PropertyName(_unescape(key, number), f"{os.fspath(file)}, line {number}")
        properties.pop(name, None)  # or the first one's place would be kept
        properties[name] = _unescape(value, number)
    return properties


def _logical_lines(decoded: str) -> Iterator[tuple[int, str]]:
    """Yield the number of its last natural line, from 1, with each logical line that is neither blank nor a comment."""
    pending = ""
    number = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", decoded), 1):
        line = natural.lstrip(_BLANK)
        if not pending and line.startswith(("#", "!")):
            continue
        # An odd number of backslashes at its end continues a line in the next one.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        if pending + line:
            yield number, pending + line
        pending = ""
    if pending:
        yield number, pending


def _unescape(escaped: str, number: int) -> str:
    def replacement(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ConfigError(
                f"Line {number} of the properties file has \\u without four hexadecimal digits after it.",
                hint="Write a backslash itself as two.",
            )
        return chr(int(code[1:], 16)) if len(code) > 1 else _ESCAPES.get(code, code)

    unescaped = _ESCAPE.sub(replacement, escaped)
    # A character outside the basic plane is written as two escapes, the halves of a surrogate pair.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
