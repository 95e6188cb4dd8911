"""The module `aioprod.options`, made from the tables of settings.

`tools.generate` writes it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from aioprod.config import ClientConfig, ProducerConfig, SessionConfig, Setting, Settings, settings_of
from aioprod.group import MemberConfig
from aioprod.reader import ReaderConfig
from aioprod.transactions import TransactionSessionConfig

__all__ = ["SHAPES", "Shape", "keywords", "module_text"]

WIDTH: Final = 120

_HEAD: Final = '''\
# Made by `make generate`. Edit the tables of settings.
"""The keyword options of each client, for type checkers and editors: `**options: Unpack[ProducerOptions]`.

Names, meanings and defaults are those of the settings (`python -m aioprod.config`). The types are those of the values
that are written in programs. Strings that look like a number, or that are spelled in other letters, are values of
properties files: give them as `config=`. No client loads this module at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Literal, TypedDict

from aioprod._option_types import (
    AssignorName,
    AssignorOption,
    DeserializerOption,
    InterceptorOption,
    InterceptorsOption,
    PartitionerOption,
    ReporterOption,
    SerializerOption,
    TokenProviderOption,
)

__all__ = [
    "AdminOptions",
    "AssignorName",
    "AssignorOption",
    "ClientOptions",
    "DeserializerOption",
    "InterceptorOption",
    "InterceptorsOption",
    "MemberOptions",
    "PartitionerOption",
    "ProducerOptions",
    "ReaderOptions",
    "RelayOptions",
    "ReporterOption",
    "SerializerOption",
    "TokenProviderOption",
    "TransactionSessionOptions",
]
'''


class Shape(NamedTuple):
    """One TypedDict: its name, the one it extends, the settings it has, and what it is for."""

    name: str
    base: str
    config: type[Settings]
    doc: str
    without: frozenset[str] = frozenset()
    """Settings that are arguments of their own there."""


SHAPES: Final = (
    Shape("ClientOptions", "TypedDict", ClientConfig, "The options that all clients have."),
    Shape(
        "RelayOptions", "ClientOptions", ProducerConfig, "The options of a `Relay`.", frozenset({"transactional_id"})
    ),
    Shape("ProducerOptions", "RelayOptions", ProducerConfig, "The options of a `Producer`."),
    Shape("AdminOptions", "ClientOptions", SessionConfig, "The options of an `Admin`."),
    Shape("ReaderOptions", "AdminOptions", ReaderConfig, "The options of a `Reader`, and of `read`."),
    Shape("MemberOptions", "ReaderOptions", MemberConfig, "The options of a `Member`."),
    Shape(
        "TransactionSessionOptions",
        "AdminOptions",
        TransactionSessionConfig,
        "The options of a `TransactionSession`.",
    ),
)
"""The TypedDicts, each after the one that it extends."""

NAMED: Final = {
    *("bootstrap_servers", "key_serializer", "value_serializer", "partitioner"),
    *("isolation_level", "key_deserializer", "value_deserializer"),
    *("group_id", "auto_offset_reset", "assignors"),
}
"""Settings that are arguments of their own."""


def keywords(config: type[Settings]) -> dict[str, Setting]:
    """The settings that are given as options, each under all of its spellings."""
    found: dict[str, Setting] = {}
    for name, setting in settings_of(config).items():
        found[name] = setting
        if setting.alias is not None:
            found[setting.alias] = setting
    return {name: setting for name, setting in found.items() if name not in NAMED}


def module_text() -> str:
    """The source of the module, formatted."""
    made: dict[str, Mapping[str, Setting]] = {"TypedDict": {}}
    parts = [_HEAD]
    for shape in SHAPES:
        options = {name: one for name, one in keywords(shape.config).items() if name not in shape.without}
        made[shape.name] = options
        inherited = made[shape.base]
        parts.append("\n".join(_class(shape, {name: options[name] for name in options if name not in inherited})))
    return "\n\n".join(parts)


def _class(shape: Shape, options: Mapping[str, Setting]) -> Iterator[str]:
    yield f"class {shape.name}({shape.base}, total=False):"
    yield f'    """{shape.doc}"""\n'
    for name, setting in options.items():
        yield _annotated(name, setting.annotation)
        if name == setting.alias:
            meaning = "The same by another name."
        else:
            meaning = setting.doc + ("" if setting.default in (None, "", ()) else f" By default {_shown(setting)}.")
        yield from _docstring(meaning)
    yield ""


def _shown(setting: Setting) -> str:
    default = setting.default
    return ", ".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _annotated(name: str, annotation: str) -> str:
    line = f"    {name}: {annotation}"
    # Choices that do not fit into a line are names of Java's classes: no editor needs to complete them.
    return line if len(line) <= WIDTH else f"    {name}: {re.sub(r'Literal.*]', 'str', annotation)}"


def _docstring(text: str) -> list[str]:
    quoted = f'"""{text}"""' if not text.endswith('"') else f'"""{text} """'
    return textwrap.wrap(quoted, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False)
