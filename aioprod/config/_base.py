"""What every configuration class does: read options by name, fill in defaults, show itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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
    _takes_other_names: ClassVar[bool] = False
    """Whether a mapping or a file may have them, too. A producer's decide what is delivered: there they are errors."""
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
        wrong: list[ConfigError] = []
        defaults = {name: setting.default for name, setting in table.items()}
        vars(self).update(defaults | _accepted(table, given, wrong), explicit=frozenset(given))
        if wrong:
            raise _as_one(wrong)
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

        Readers and members understand librdkafka's names, too (`fetch.wait.max.ms`). They leave out what has no meaning
        here (`queued.min.messages`), and name it in a log line (INFO). Raises ConfigError for a name that is unknown,
        which suggests the nearest known one, or given twice.
        """
        return cls._of(mapping)

    @classmethod
    def from_options(cls, **options: Any) -> Self:
        """Make a configuration of keyword arguments; raises ConfigError where the constructor has a TypeError."""
        return cls._of({}, options)

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
            return cls._of(config, options)
        if not isinstance(config, cls):
            raise ConfigError(
                f"config is a {type(config).__name__}: give a dict of settings, or a {cls.__name__}.",
            )
        return config.replace(**options)

    @classmethod
    def shared_with(cls, other: Settings, **changes: Any) -> Self:
        """Make a configuration of what was given to another kind of client, where this one has it; `changes` win."""
        shared = settings_of(cls).keys() & other.explicit
        return cls(**{name: getattr(other, name) for name in shared} | changes)

    @classmethod
    def from_properties(cls, path: str | PathLike[str]) -> Self:
        """Make a configuration of a Java `.properties` file; raises ConfigError if it can't be read.

        Files are shared between clients: settings of other Kafka clients, and of the Schema Registry, are left out with
        what has no meaning here, and named in one log line (INFO). Any other unknown name raises ConfigError.
        """
        properties = parse_properties(read_file(path, f"The properties file {str(path)!r}", may_wait=True), path)
        left_out = cls.of_others(properties) | cls.pointless(properties)
        _log_left_out(f"{cls.__name__} leaves out in {str(path)!r}", left_out)
        return cls.from_dict({name: value for name, value in properties.items() if name not in left_out})

    @classmethod
    def left_out(cls, names: Collection[str]) -> dict[str, str]:
        """The names among those of a file that are left out -> what they are: "a setting of producers"."""
        of_others = {name: f"a setting of {owner}" for name, owner in cls.of_others(names).items()}
        return of_others | cls.pointless(names)

    @classmethod
    def of_others(cls, names: Iterable[str]) -> dict[str, str]:
        """The names among these that only other clients have -> the kind of client."""
        from aioprod.config._elsewhere import owner_of  # Only with a file.

        owners = {name: owner_of(dotted(name), cls._ours) for name in cls._unknown(names)}
        return {name: owner for name, owner in owners.items() if owner is not None}

    @classmethod
    def pointless(cls, names: Iterable[str]) -> dict[str, str]:
        """The names among these that may be left out without a word, as they have no meaning here -> why."""
        unknown = cls._unknown(names) if cls._takes_other_names else []
        if not unknown:
            return {}
        from aioprod.config._other_clients import pointless_because  # Only with names of other clients.

        reasons = {name: pointless_because(dotted(name), cls._role) for name in unknown}
        return {name: reason for name, reason in reasons.items() if reason is not None}

    @classmethod
    def _unknown(cls, names: Iterable[str]) -> list[str]:
        known = _names(cls)
        return [name for name in names if isinstance(name, str) and name.replace(".", "_") not in known]

    def replace(self, **changes: Any) -> Self:
        """Return a copy with other values; defaults that depend on given settings are computed again."""
        return self._of({}, changes, {name: getattr(self, name) for name in self.explicit})

    def to_dict(self) -> dict[str, Any]:
        """Return every setting in effect under its Java name, secrets as they are; `from_dict` takes it back."""
        return {dotted(name): getattr(self, name) for name in settings_of(type(self))}

    def __repr__(self) -> str:
        table = settings_of(type(self))
        given = (f"{name}={table[name].show(getattr(self, name))}" for name in table if name in self.explicit)
        return f"{type(self).__name__}({', '.join(given)})"

    @classmethod
    def _of(
        cls,
        mapping: Mapping[str, Any],
        keywords: Mapping[str, Any] = MappingProxyType({}),
        before: Mapping[str, Any] = MappingProxyType({}),
    ) -> Self:
        """Of attributes `before`, over which a mapping wins, over which keywords win.

        One ConfigError says all names and values that can't be used.
        """
        left_out = cls.pointless(mapping)
        _log_left_out(f"{cls.__name__} leaves out", left_out)
        wrong: list[ConfigError] = []
        given = cls._by_attribute({name: value for name, value in mapping.items() if name not in left_out}, wrong)
        given = {**before, **given, **cls._by_attribute(keywords, wrong, as_keywords=True)}
        if wrong:
            _accepted(settings_of(cls), given, wrong)
            raise _as_one(wrong)
        return cls(**given)

    @classmethod
    def _by_attribute(
        cls, mapping: Mapping[str, Any], wrong: list[ConfigError], as_keywords: bool = False
    ) -> dict[str, Any]:
        """The values by attribute; adds the errors about names to `wrong`."""
        given: dict[str, Any] = {}
        spellings: dict[str, str] = {}
        names = _names(cls)
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
        return given


def _accepted(table: Mapping[str, Setting], given: Mapping[str, Any], wrong: list[ConfigError]) -> dict[str, object]:
    """The values as they are stored; adds the errors about values to `wrong`."""
    values = {}
    for name, value in given.items():
        try:
            values[name] = table[name].accept(name, value)
        except ConfigError as error:
            wrong.append(error)
    return values


def _log_left_out(sentence: str, left_out: Mapping[str, str]) -> None:
    if left_out:
        _logger.info("%s: %s.", sentence, ", ".join(f"{name} ({reason})" for name, reason in left_out.items()))


def _as_one(errors: Sequence[ConfigError]) -> ConfigError:
    """One error for all that can't be used, so that another client's settings are corrected in one go."""
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
        if cls._takes_other_names and not is_keyword:
            from aioprod.config._other_clients import advice  # Only with names of other clients.

            meant = (advice(dotted(spelling), cls._role) or "").replace(".", "_")
            if meant in names:
                return names[meant]
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
