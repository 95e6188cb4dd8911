"""One setting: its default, which values it takes, and how a value that was given becomes the stored one.

The functions here declare the fields of a configuration class. Each returns the `Setting`, typed as the value that the
field will hold; `**columns` are further columns of `Setting`.
"""

from __future__ import annotations

import codecs
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar, cast

from aioprod.config._addresses import addresses_of
from aioprod.config._classes import Kind, check_name
from aioprod.errors import ConfigError

T = TypeVar("T")
TextT = TypeVar("TextT", str, "str | None")

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Importance(Enum):
    """How likely it is that a user should think about a setting; the same three steps as in Java's reference."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW


class Setting(NamedTuple):
    """One row of the table that drives defaults, validation and the reference page."""

    default: object
    convert: Callable[[Any], object]
    """Turns a given value into the stored one, or raises ValueError."""
    type_name: str
    annotation: str
    """The type that `aioprod.options` declares: of values as programs write them, not of strings that stand for numbers
    in files."""
    valid: str
    """Ends the sentence "must be ..."."""
    importance: Importance
    doc: str
    built: tuple[object, ...] | None = None
    """The only values that work in this version; None: all do."""
    later: str = ""
    """The sentence for the values that do not work yet."""
    alias: str | None = None
    """A second spelling of the name."""
    secret: bool = False
    """Whether messages and `repr` hide the value."""
    shown: Callable[[object], str] = repr
    """Makes the text that is shown, where only a part of the value is secret."""

    def __repr__(self) -> str:
        return repr(self.default)

    def show(self, value: object) -> str:
        """Return `value` as it may be printed."""
        return "[hidden]" if self.secret else self.shown(value)

    def accept(self, name: str, given: object) -> object:
        """Return the value to store for `given`; raises ConfigError that names the setting as Java spells it."""
        try:
            value = self.convert(given)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"{dotted(name)} must be {self.valid}, not {self.show(given)}.") from error
        if self.built is not None and value not in self.built:
            raise ConfigError(f"{dotted(name)}={self.show(value)} can't be used: {self.later}")
        return value


def dotted(name: str) -> str:
    """Return the name that Java gives to the setting stored as attribute `name`."""
    return name.replace("_", ".")


def _declare(default: T, **columns: Any) -> T:
    return cast(T, Setting(default=default, **columns))


def integer(
    default: int, *, at_least: int = 0, at_most: int = INT32_MAX, also: int | None = None, **columns: Any
) -> int:
    """Declare a whole number from `at_least` to `at_most`, or the single value `also`."""
    valid = f"an integer of at least {at_least}" if at_most == INT64_MAX else f"an integer from {at_least} to {at_most}"
    if also is not None:
        valid += f", or {also}"
    return _declare(
        default,
        convert=_whole_number(at_least, at_most, also),
        type_name="int",
        annotation="int",
        valid=valid,
        **columns,
    )


def optional_integer(*, at_least: int = 0, at_most: int = INT32_MAX, **columns: Any) -> int | None:
    """Declare a whole number from `at_least` to `at_most` that may be None, which is its default."""
    valid = f"an integer from {at_least} to {at_most}"
    convert = _or_none(_whole_number(at_least, at_most))
    return _declare(None, convert=convert, type_name="int", annotation="int | None", valid=valid, **columns)


def _whole_number(at_least: int, at_most: int, also: int | None = None) -> Callable[[Any], int]:
    def convert(given: Any) -> int:
        value = _integer(given)
        if not (at_least <= value <= at_most or value == also):
            raise ValueError("out of range")
        return value

    return convert


def _integer(given: Any) -> int:
    if isinstance(given, str) and _INTEGER.fullmatch(given.strip()):
        return int(given)
    if isinstance(given, float) and given.is_integer():
        return int(given)
    try:
        if not isinstance(given, bool):
            return operator.index(given)
    except TypeError as error:
        raise ValueError("not an integer") from error
    raise ValueError("not an integer")


def decimal(default: float, at_least: float, at_most: float, **columns: Any) -> float:
    """Declare a number from `at_least` to `at_most`."""

    def convert(given: Any) -> float:
        if isinstance(given, bool):
            raise ValueError("not a number")
        try:
            value = float(given)
        except TypeError as error:
            raise ValueError("not a number") from error
        if not at_least <= value <= at_most:
            raise ValueError("out of range")
        return value

    valid = f"a number from {at_least:g} to {at_most:g}"
    return _declare(default, convert=convert, type_name="float", annotation="float", valid=valid, **columns)


def boolean(default: bool, **columns: Any) -> bool:
    """Declare a bool; "true" and "false" are taken too."""

    def convert(given: Any) -> bool:
        words = {"true": True, "false": False}
        value = words.get(given.strip().lower()) if isinstance(given, str) else given
        if not isinstance(value, bool):
            raise ValueError("not a bool")
        return value

    return _declare(default, convert=convert, type_name="bool", annotation="bool", valid="true or false", **columns)


def text(default: str, **columns: Any) -> str:
    """Declare a string; white space around it is dropped, as in Java."""
    return _declare(default, convert=_text, type_name="str", annotation="str", valid="a string", **columns)


def optional_text(**columns: Any) -> str | None:
    """Declare a string that may be None, which is its default."""
    return _declare(
        None, convert=_or_none(_text), type_name="str", annotation="str | None", valid="a string", **columns
    )


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("not a string")
    return given.strip()


def _or_none(convert: Callable[[Any], object]) -> Callable[[Any], object]:
    return lambda given: None if given is None else convert(given)


def choice(
    default: TextT,
    choices: Iterable[str],
    absent: str | None = None,
    also: Mapping[str, str] = MappingProxyType({}),
    form: tuple[str, Callable[[str], str]] | None = None,
    **columns: Any,
) -> TextT:
    """Declare one of a few words, in any case of letters, stored as spelled in `choices`.

    None stands for the word `absent`, if given, and is valid where it is the default. `also` has the words of other
    clients for some of them. `form` is another form that values may have, and what makes the stored value of one, or
    raises ValueError.
    """
    known = {word.lower(): word for word in choices}
    understood = {**known, **also}

    def convert(given: Any) -> str:
        word = _text(absent if given is None else given)
        if word.lower() in understood:
            return understood[word.lower()]
        if form is None:
            raise ValueError("not one of them")
        return form[1](word)

    listed: list[str] = [word or '""' for word in known.values()]
    valid = "one of " + ", ".join(listed if form is None else [*listed, form[0]])
    converter = _or_none(convert) if default is None else convert
    annotation = _literal(known.values()) if form is None else "str"
    annotation += " | None" if default is None or absent is not None else ""
    return _declare(default, convert=converter, type_name="str", annotation=annotation, valid=valid, **columns)


def words(default: tuple[str, ...], choices: Iterable[str] = (), **columns: Any) -> tuple[str, ...]:
    """Declare a list of words, comma separated or as a list, stored as a tuple; `choices` are the only valid ones."""
    known = {word.lower(): word for word in choices}

    def convert(given: Any) -> tuple[str, ...]:
        members = given.split(",") if isinstance(given, str) else given
        if not isinstance(members, (list, tuple)):
            raise ValueError("not a list")
        found = [word for member in members if (word := _text(member))]
        if known and (not found or not {word.lower() for word in found} <= known.keys()):
            raise ValueError("not of them")
        return tuple(known.get(word.lower(), word) for word in found)

    valid = f"a list of {', '.join(known.values())}" if known else "a list of words"
    annotation = "str | Sequence[str]"
    return _declare(default, convert=convert, type_name="list", annotation=annotation, valid=valid, **columns)


def acknowledgements(default: int, **columns: Any) -> int:
    """Declare `acks`: "all" or -1, 0, 1, stored as the int of the wire format."""

    def convert(given: Any) -> int:
        value = -1 if isinstance(given, str) and given.strip().lower() == "all" else _integer(given)
        if value not in (-1, 0, 1):
            raise ValueError("not one of them")
        return value

    valid, annotation = "one of all, -1, 0, 1", _literal(("all", "-1", "0", "1", -1, 0, 1))
    return _declare(default, convert=convert, type_name="int or str", annotation=annotation, valid=valid, **columns)


def optional_encoding(**columns: Any) -> str | None:
    """Declare the name of a character set that Python knows, or None, which is its default."""

    def convert(given: Any) -> str:
        try:
            return codecs.lookup(_text(given)).name
        except LookupError as error:
            raise ValueError("unknown") from error

    valid = "the name of a character set"
    converter, annotation = _or_none(convert), "str | None"
    return _declare(None, convert=converter, type_name="str", annotation=annotation, valid=valid, **columns)


def addresses(**columns: Any) -> tuple[str, ...]:
    """Declare a list of `host:port`, stored as a tuple; the default names none."""
    valid = "host:port, comma separated or as a list"
    annotation = "str | Iterable[str]"
    return _declare((), convert=addresses_of, type_name="list", annotation=annotation, valid=valid, **columns)


def given_object(convert: Callable[[Any], object], valid: str, annotation: str, **columns: Any) -> Any:
    """Declare an object that `convert` accepts, or for which it raises ValueError; the default is None."""
    converter = _or_none(convert)
    return _declare(None, convert=converter, type_name="object", annotation=annotation, valid=valid, **columns)


def instance(kind: Kind, **columns: Any) -> Any:
    """Declare an object, class or class name of `kind`, kept as given; the default is None."""

    def convert(given: Any) -> object:
        return _class(kind, given)

    valid = f"a {kind}: an object, a class or a name"
    converter, annotation = _or_none(convert), f"{_option_type(kind)} | None"
    return _declare(None, convert=converter, type_name="class", annotation=annotation, valid=valid, **columns)


def instances(
    kind: Kind, default: tuple[str, ...] = (), annotation: str | None = None, **columns: Any
) -> tuple[Any, ...]:
    """Declare a list of what `instance` takes, or a comma separated string of names."""

    def convert(given: Any) -> tuple[object, ...]:
        members = [name for name in given.split(",") if name.strip()] if isinstance(given, str) else given
        if not isinstance(members, (list, tuple)) or None in members:
            raise ValueError("not a list")
        return tuple(_class(kind, member) for member in members)

    valid = f"a list of {kind}s, each an object, a class or a name"
    typed = annotation or f"str | Sequence[{_option_type(kind)}]"
    return _declare(default, convert=convert, type_name="list", annotation=typed, valid=valid, **columns)


def _class(kind: Kind, given: Any) -> object:
    return check_name(given.strip(), kind) if isinstance(given, str) else given


def _option_type(kind: Kind) -> str:
    """The name in `aioprod._option_types` of what may be given for a class of `kind`: `token provider` is a
    `TokenProviderOption`."""
    return f"{kind.title().replace(' ', '')}Option"


def _literal(words: Iterable[object]) -> str:
    shown = (f'"{word}"' if isinstance(word, str) else f"{word}" for word in words)
    return f"Literal[{', '.join(shown)}]"
