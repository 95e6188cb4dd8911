"""Serializers, partitioners, interceptors and reporters by name, as Java configures them.

A name is `"package.module:Class"`, `"package.module.Class"`, one of aioprod's short names, or a well-known Java class
name that has a counterpart here. Nothing is imported before `load_class`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from aioprod._logger import Logger
from aioprod._user_code import raise_later
from aioprod.errors import AioprodError, ConfigError

if TYPE_CHECKING:
    from aioprod.config._client import ClientConfig

Kind: TypeAlias = Literal[
    "serializer", "deserializer", "partitioner", "interceptor", "reporter", "assignor", "token provider"
]

_logger = Logger("aioprod")

_JAVA_SERIALIZATION: Final = "org.apache.kafka.common.serialization."
_JAVA_PRODUCER: Final = "org.apache.kafka.clients.producer."
_JAVA: Final = ("org.apache.kafka.", "io.confluent.", "java.")

# Our class without its "Serializer" or "Deserializer" -> (short names, names of Java's classes without that ending).
_FORMATS: Final = {
    "Bytes": (("bytes",), ("ByteArray", "Bytes", "ByteBuffer")),
    "String": (("str", "string"), ("String",)),
    "Short": (("short",), ("Short",)),
    "Integer": (("int", "integer"), ("Integer",)),
    "Long": (("long",), ("Long",)),
    "Float": (("float",), ("Float",)),
    "Double": (("double",), ("Double",)),
    "Boolean": (("bool", "boolean"), ("Boolean",)),
    "UUID": (("uuid",), ("UUID",)),
    "Void": (("void",), ("Void",)),
    "Json": (("json",), ()),
}

# Our class without its "Partitioner" -> (short names, names of Java's classes).
_PARTITIONERS: Final = {
    "Default": (("default",), (f"{_JAVA_PRODUCER}internals.DefaultPartitioner",)),
    "UniformSticky": (("sticky", "uniform_sticky"), (f"{_JAVA_PRODUCER}UniformStickyPartitioner",)),
    "RoundRobin": (("round_robin",), (f"{_JAVA_PRODUCER}RoundRobinPartitioner",)),
    "Classic": (("classic",), ()),
    "Murmur2": (("murmur2",), ()),
    "Murmur2Random": (("murmur2_random",), ()),
    "Crc32": (("crc32", "consistent"), ()),
    "Crc32Random": (("crc32_random", "consistent_random"), ()),
    "Fnv1a": (("fnv1a", "fnv1a_random"), ()),
    "Murmur3": (("murmur3",), ()),
}

# Our class without its "Assignor", which Java's has, too -> its short name, which is that of the protocol.
_ASSIGNORS: Final = {
    "Range": "range",
    "RoundRobin": "roundrobin",
    "Sticky": "sticky",
    "CooperativeSticky": "cooperative-sticky",
}


def _formats(ending: str) -> Mapping[str, str]:
    known = {}
    for ours, (short, java) in _FORMATS.items():
        target = f"aioprod.serializers:{ours}{ending}"
        names = [*short, ours + ending, *(f"{_JAVA_SERIALIZATION}{name}{ending}" for name in java)]
        known.update(dict.fromkeys(names, target))
    return MappingProxyType(known)


def _partitioners() -> Mapping[str, str]:
    known = {}
    for ours, (short, java) in _PARTITIONERS.items():
        target = f"aioprod.routing:{ours}Partitioner"
        known.update(dict.fromkeys([*short, f"{ours}Partitioner", *java], target))
    return MappingProxyType(known)


def _assignors() -> Mapping[str, str]:
    known = {}
    for ours, short in _ASSIGNORS.items():
        target = f"aioprod.group.assignors:{ours}Assignor"
        names = [short, f"{ours}Assignor", f"org.apache.kafka.clients.consumer.{ours}Assignor"]
        known.update(dict.fromkeys(names, target))
    return MappingProxyType(known)


KNOWN_CLASSES: Final[Mapping[Kind, Mapping[str, str]]] = MappingProxyType(
    {
        "serializer": _formats("Serializer"),
        "deserializer": _formats("Deserializer"),
        "partitioner": _partitioners(),
        "interceptor": MappingProxyType({}),
        "reporter": MappingProxyType({}),
        "assignor": _assignors(),
        "token provider": MappingProxyType({}),
    }
)
"""Per kind: short name or Java class name -> "module:Class" of ours."""

_METHODS: Final[Mapping[Kind, tuple[str, ...]]] = MappingProxyType(
    {
        "serializer": ("serialize", "__call__"),
        "deserializer": ("deserialize", "__call__"),
        "partitioner": ("partition",),
        "interceptor": ("on_send", "on_acknowledgement"),
        "reporter": ("report",),
        "assignor": ("assign",),
        "token provider": ("__call__",),
    }
)
"""Per kind: an object has at least one of these methods."""


def check_name(name: str, kind: Kind) -> str:
    """Return `name` if it can name a class of `kind`, without importing anything; raises ConfigError."""
    known = KNOWN_CLASSES[kind]
    if name in known:
        return name
    if name.startswith(_JAVA):
        raise ConfigError(f"The {kind} {name!r} is a Java class that has no counterpart in aioprod.", hint=_hint(kind))
    module, _, attribute = name.rpartition(":" if ":" in name else ".")
    if not all(part.isidentifier() for part in [*module.split("."), *attribute.split(".")]):
        import difflib  # Imported for errors only.

        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else _hint(kind)
        raise ConfigError(f"{name!r} names no {kind}.", hint=hint)
    return name


def _hint(kind: Kind) -> str:
    short = [name for name in KNOWN_CLASSES[kind] if name.islower() and "." not in name]
    known = f", or one of {', '.join(short)}" if short else ""
    return f'Give an object, a class, "package.module:Class"{known}.'


def load_class(name: str, kind: Kind) -> Any:
    """Import and return what `name` stands for: a class, a function or an object of `kind`.

    Raises ConfigError if the name is none, if its module or attribute is missing, or if importing it fails.
    """
    checked = check_name(name.strip(), kind)
    target = KNOWN_CLASSES[kind].get(checked, checked)
    module_name, _, path = target.rpartition(":" if ":" in target else ".")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"The {kind} {name!r} can't be loaded: there is no module {error.name!r}.") from error
    except Exception as error:
        raise ConfigError(f"The {kind} {name!r} can't be loaded: importing {module_name!r} failed.") from error
    for attribute in path.split("."):
        try:
            found = getattr(found, attribute)
        except AttributeError as error:
            where = f"{module_name!r} has no {path!r}"
            raise ConfigError(f"The {kind} {name!r} can't be loaded: {where}.") from error
    return found


def instantiate(given: Any, kind: Kind, config: ClientConfig, *, is_key: bool | None = None) -> Any:
    """Return the object that `given` (an object, class or name) stands for, configured.

    A class is called without arguments. An object with a method `configure` gets `configure(config)`, a serializer
    or deserializer `configure(config, is_key=...)`. Raises ConfigError, its cause being what the class raised.
    """
    target = made_of = load_class(given, kind) if isinstance(given, str) else given
    name = describe(target)
    if isinstance(target, type):
        target = _attempt(f"The {kind} {name} could not be created", target)
    if not any(callable(getattr(target, method, None)) for method in _METHODS[kind]):
        methods = ", ".join(_METHODS[kind])
        shown = f"The class {name}" if isinstance(made_of, type) else repr(target)
        article = "an" if kind[0] in "aeiou" else "a"
        raise ConfigError(f"{shown} is not {article} {kind}: it has none of the methods {methods}.", hint=_hint(kind))
    configure = getattr(target, "configure", None)
    if configure is not None:
        options = {} if is_key is None else {"is_key": is_key}
        _attempt(f"The {kind} {name} could not be configured", configure, config, **options)
    return target


def _attempt(sentence: str, call: Any, *arguments: object, **options: object) -> Any:
    try:
        return call(*arguments, **options)
    except AioprodError:
        raise
    except Exception as error:
        raise ConfigError(f"{sentence}: {type(error).__name__}: {error}.") from error


def close_instance(instance: Any) -> None:
    """Call `instance.close()` if there is one; a failure is logged, as no caller could act on it."""
    close = getattr(instance, "close", None)
    if close is None:
        return
    try:
        close()
    except BaseException as error:
        raise_later(error)
        _logger.warning("Closing %s failed.", describe(instance), exc_info=error)


def describe(target: Any) -> str:
    """Return the name by which messages call a class, a function or an object of some class."""
    return str(getattr(target, "__qualname__", None) or type(target).__qualname__)
