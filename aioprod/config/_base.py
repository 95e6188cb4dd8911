"""What every configuration class does: read options by name, fill in defaults, show itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform

from aioprod._logger import Logger
from aioprod.config._files import read_file
from aioprod.config._properties import PropertyName, parse_properties
from aioprod.config._setting import Setting, dotted
from aioprod.config._unsupported import unsupported_because
from aioprod.errors import ConfigError

if TYPE_CHECKING:
    from inspect import Signature
    from os import PathLike
    from typing import Self

    from aioprod.config._other_clients import Role

_logger = Logger("aioprod")


class _SettingsSignature:
    """What `help` shows of the constructor: each setting with its type and its default."""

    def __get__(self, config: object, cls: type[Settings]) -> Signature:
        from inspect import Parameter, Signature, get_annotations  # Only for `help`.

        types = {name: type_ for kind in cls.__mro__[::-1] for name, type_ in get_annotations(kind).items()}
        rows = settings_of(cls).items()
        return Signature(
            [Parameter(name, Parameter.KEYWORD_ONLY, default=row, annotation=types[name]) for name, row in rows]
        )


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Settings:
    """The base of the configuration classes: frozen, every value checked and normalised, whichever way it came.

    A class declares its settings in its body, by the functions of `_setting.py`. To its users and mypy it is a frozen
    dataclass whose fields are given by name. It is not made by `dataclass`, which compiles methods for each class: with
    a hundred fields that was a tenth of the time in which a producer is imported.

    `explicit` holds the attribute names of the settings that were given; the others have defaults, which may
    depend on given settings.
    """

    _ours: ClassVar[tuple[str, ...]] = ()
    """The kinds of clients whose settings this class has. Settings of other kinds are left out of a file; any other
    unknown name is an error."""
    _role: ClassVar[Role] = "any client"
    """The role in which names of librdkafka, aiokafka and kafka-python are translated in hints."""
    _home: ClassVar[str | None] = None
    """The module that users import this class from; by default the package of the one that declares it."""
    _table: ClassVar[Mapping[str, Setting]] = MappingProxyType({})

    explicit: frozenset[str]

    __signature__: ClassVar = _SettingsSignature()

    def __init_subclass__(cls) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, Setting)}
        cls._table = MappingProxyType({**cls._table, **declared})

    def __init__(self, **given: Any) -> None:
        table = settings_of(type(self))
        for name in given:
            if name not in table:
                raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {name!r}")
        values = {
            name: setting.accept(name, given[name]) if name in given else setting.default
            for name, setting in table.items()
        }
        vars(self).update(values, explicit=frozenset(given))
        vars(self).update(self._adjustments())

    if not TYPE_CHECKING:  # where it would allow any attribute

        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError(f"A {type(self).__name__} never changes, so its {name} can't be set: use `replace`.")

        def __delattr__(self, name: str) -> None:
            raise AttributeError(f"A {type(self).__name__} never changes, so its {name} can't be deleted.")

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[object, ...]:
        return tuple([getattr(self, name) for name in settings_of(type(self))])

    def _adjustments(self) -> Mapping[str, object]:
        """Return the defaults that given settings change; raises ConfigError for settings that contradict."""
        raise NotImplementedError

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any]) -> Self:
        """Make a configuration of Java's names (`linger.ms`) or ours (`linger_ms`).

        Raises ConfigError for a name that is unknown, which suggests the nearest known one, or given twice.
        """
        return cls(**cls._by_attribute(mapping))

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Make a configuration of keyword arguments; raises ConfigError where the constructor has a TypeError."""
        return cls(**cls._by_attribute(options, as_keywords=True))

    @classmethod
    def given(cls, config: Self | Mapping[str, Any] | None, bootstrap_servers: Any, options: Mapping[str, Any]) -> Self:
        """Make a configuration of the arguments of a client's constructor; raises ConfigError.

        Servers and options win over those of `config`, which is an object of this class or a mapping for `from_dict`.
        """
        if isinstance(bootstrap_servers, Mapping | Settings):
            raise ConfigError(
                f"The servers are given as a {type(bootstrap_servers).__name__}: settings are not servers.",
                hint="Give it as config=, such as config={'bootstrap.servers': 'localhost:9092', ...}.",
            )
        if bootstrap_servers is not None:
            options = {**options, "bootstrap_servers": bootstrap_servers}
        if config is None:
            return cls.from_options(**options)
        if isinstance(config, Mapping):
            return cls(**cls._by_attribute(config) | cls._by_attribute(options, as_keywords=True))
        if not isinstance(config, cls):
            raise ConfigError(
                f"config is a {type(config).__name__}: give a dict of settings, or a {cls.__name__}.",
            )
        return config.replace(**options)

    @classmethod
    def from_properties(cls, path: str | PathLike[str]) -> Self:
        """Make a configuration of a Java `.properties` file; raises ConfigError if it can't be read.

        Files are shared between clients: settings of other Kafka clients, and of the Schema Registry, are left out,
        and named in a log line (INFO). Any other unknown name raises ConfigError.
        """
        properties = parse_properties(read_file(path, f"The properties file {str(path)!r}", may_wait=True), path)
        left_out = cls.of_others(properties)
        if left_out:
            named = ", ".join(f"{name} ({owner})" for name, owner in left_out.items())
            _logger.info("%s leaves out settings of other clients in %r: %s.", cls.__name__, str(path), named)
        return cls.from_dict({name: value for name, value in properties.items() if name not in left_out})

    @classmethod
    def of_others(cls, names: Iterable[str]) -> dict[str, str]:
        """The names among these that only other clients have -> the kind of client."""
        from aioprod.config._elsewhere import owner_of  # Only with a file.

        known = _names(cls)
        owners = {name: owner_of(dotted(name), cls._ours) for name in names if name.replace(".", "_") not in known}
        return {name: owner for name, owner in owners.items() if owner is not None}

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values; defaults that depend on given settings are computed again."""
        given = {name: getattr(self, name) for name in self.explicit}
        return type(self)(**given | self._by_attribute(changes, as_keywords=True))

    def to_dict(self) -> dict[str, Any]:
        """Return every setting in effect under its Java name, secrets as they are; `from_dict` takes it back."""
        return {dotted(name): getattr(self, name) for name in settings_of(type(self))}

    def __repr__(self) -> str:
        table = settings_of(type(self))
        given = (f"{name}={table[name].show(getattr(self, name))}" for name in table if name in self.explicit)
        return f"{type(self).__name__}({', '.join(given)})"

    @classmethod
    def _by_attribute(cls, mapping: Mapping[str, Any], as_keywords: bool = False) -> dict[str, Any]:
        given: dict[str, Any] = {}
        spellings: dict[str, str] = {}
        names = _names(cls)
        wrong: list[ConfigError] = []
        for spelling, value in mapping.items():
            try:
                name = _attribute(cls, names, spelling, value, as_keywords)
                if name in given:
                    raise ConfigError(
                        f"{dotted(name)} is given twice, as {spellings[name]!r} and as {spelling!r}.",
                        hint="Give it once, under either name.",
                    )
            except ConfigError as error:
                wrong.append(error)
                continue
            if name is not None:
                given[name], spellings[name] = value, spelling
        if wrong:
            raise _as_one(wrong)
        return given


def _as_one(errors: Sequence[ConfigError]) -> ConfigError:
    """One error for all names that can't be used, so that another client's settings are corrected in one go."""
    if len(errors) == 1:
        return errors[0]
    lines = "".join(f"\n  {error.message}{f' {error.hint}' if error.hint else ''}" for error in errors)
    return ConfigError(f"{len(errors)} settings can't be used:{lines}", hint="Correct or leave out each of them.")


def settings_of(cls: type[Settings]) -> Mapping[str, Setting]:
    """Return the table of a configuration class: attribute name -> setting, in the order of declaration."""
    return cls._table


def _names(cls: type[Settings]) -> Mapping[str, str]:
    table = settings_of(cls)
    aliases = {setting.alias: name for name, setting in table.items() if setting.alias is not None}
    return MappingProxyType({name: name for name in table} | aliases)


def _attribute(
    cls: type[Settings], names: Mapping[str, str], spelling: str, value: object, is_keyword: bool
) -> str | None:
    """Return the attribute that `spelling` means, or None for an unsupported setting whose value means "not set"."""
    if not isinstance(spelling, str):
        raise ConfigError(f"The name of a setting must be a string, not {spelling!r}.")
    wanted = spelling.replace(".", "_")
    if wanted in names:
        return names[wanted]
    reason = unsupported_because(dotted(spelling))
    if reason is None:
        is_ours = "_" in spelling or (is_keyword and "." not in spelling)
        place = f" ({spelling.place})" if isinstance(spelling, PropertyName) else ""
        raise ConfigError(f"{str(spelling)!r} is not a setting{place}.", hint=_instead(cls, names, wanted, is_ours))
    if value is not None:
        raise ConfigError(f"{dotted(spelling)} can't be set: {reason}")
    return None


def _instead(cls: type[Settings], names: Mapping[str, str], wanted: str, is_ours: bool) -> str:
    """What to set in place of an unknown name: our name for another client's setting, or the nearest known one.

    In the spelling that the caller uses.
    """
    # Imported for errors only.
    import difflib

    from aioprod.config._elsewhere import owner_of
    from aioprod.config._other_clients import advice

    known = advice(dotted(wanted), cls._role)
    if known is not None and " " in known:
        return known
    owner = owner_of(dotted(wanted), cls._ours) if known is None else None
    near = difflib.get_close_matches(wanted, names, n=1) if known is None else [known.replace(".", "_")]
    if near and owner is None:
        suggested = near[0] if is_ours else dotted(near[0])
        return f"Did you mean {suggested!r}?" if known is None else f"Here it is {suggested!r}."
    # Where users import it from: `aioprod.config._producer` is aioprod.config, `aioprod.group.config` aioprod.group.
    home = cls._home or cls.__module__.rpartition(".")[0]
    listed = f"`python -m aioprod.config --of {home}:{cls.__name__}` lists all of them."
    return listed if owner is None else f"It is a setting of {owner}; {listed}"
