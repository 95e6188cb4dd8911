"""The reference page of all settings, made from the table itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from aioprod.config._base import Settings, settings_of
from aioprod.config._classes import KNOWN_CLASSES
from aioprod.config._client import ClientConfig
from aioprod.config._other_clients import OTHER_NAMES, Role
from aioprod.config._producer import ProducerConfig
from aioprod.config._setting import Setting, dotted
from aioprod.config._unsupported import UNSUPPORTED_SETTINGS

_INTRODUCTION: Final = """\
<!-- Made by `make generate`. Edit the table in aioprod/config/. -->
# Configuration

Settings have the names, defaults and ranges of Java's producer. They are given in any of these ways:

<!-- not run: it shows the ways only; tests/test_config.py tries each of them. -->
```python
Producer("localhost:9092", linger_ms=20, compression_type="zstd")
Producer(config={"bootstrap.servers": "localhost:9092", "linger.ms": 20})
Producer(config=ProducerConfig.from_properties("producer.properties"))
```

A name is spelled with dots, as in Java, or with underscores. An unknown name, an invalid value, or a setting that this
version does not support yet raises `ConfigError`. A properties file may hold settings of other Kafka clients and of
the Schema Registry, as clients share such files: these are left out, and named in the log. Strings that look like the
type are accepted, as they come from properties files. Times are in milliseconds, sizes in bytes.

Type checkers and editors know each option with its type, for all clients: `Producer("localhost:9092", linger=5)` and
`linger_ms="abc"` are errors to mypy. Values that a program reads from elsewhere go into `config=`, where any string is
checked at run time. A function that hands options on declares them as `**options: Unpack[ProducerOptions]`, from
`aioprod.options`.

`python -m aioprod.config --check FILE` says how a properties file is understood, without its secrets.
"""

_RULES: Final = """\
## Settings that depend on each other

A default changes where it contradicts a given setting; two given settings that contradict each other raise
`ConfigError`.

- `delivery.timeout.ms` is at least `linger.ms` + `request.timeout.ms`: its default is raised as needed, and a lower one
  that was given lowers the defaults of these two. (Java raises an error there.)
- `enable.idempotence` needs `acks=all` and `retries` of at least 1: other values of these switch it off unless it was
  given. More than 5 `max.in.flight.requests.per.connection` raise an error even then, as in Java since 4.0: set
  `enable.idempotence=false` yourself.
- `reconnect.backoff.ms` given alone sets `reconnect.backoff.max.ms` to the same value.
- Each of `reconnect.backoff.ms`, `retry.backoff.ms` and `socket.connection.setup.timeout.ms` is at most its `….max.ms`.
- `batch.size` is at most `buffer.memory`; its default is lowered to `buffer.memory` and `max.request.size` as needed.
"""

_CLASSES: Final = """\
## Classes

Serializers, partitioners, interceptors and reporters are given as an object, a class, or a name:
`"package.module:Class"`, `"package.module.Class"`, or one of those below. A class is created without arguments. An
object that has the method gets `configure(config)`, a serializer `configure(config, is_key=…)`, and `close()` when the
producer closes. A serializer and a partitioner may also be a plain function.
"""


_OTHERS: Final = """\
## Names of other clients

Names that librdkafka (confluent-kafka), aiokafka and kafka-python use raise `ConfigError`. Its hint says the same as
this table.
"""


def reference_page() -> str:
    """Return the page as Markdown, with a line feed at its end."""
    client = settings_of(ClientConfig)
    producer = {name: setting for name, setting in settings_of(ProducerConfig).items() if name not in client}
    parts = [
        _INTRODUCTION,
        "## Producer\n\n" + _settings_table(producer),
        "## Connections, metadata, metrics\n\n" + _settings_table(client),
        _RULES,
        _CLASSES + "\n" + _table(["kind", "name", "class"], _known_classes()),
        _OTHERS + "\n" + _table(["name", "here"], _other_names("producer", "any client")),
        "## Not supported\n\n" + _table(["name", "why"], _unsupported()),
    ]
    return "\n".join(parts)


def settings_page(cls: type[Settings]) -> str:
    """Return the settings of one class as Markdown, with a line feed at its end; of Kafka clients with other names."""
    page = f"# {cls.__name__}\n\n{_settings_table(settings_of(cls))}"
    if not issubclass(cls, ClientConfig):
        return page
    roles: dict[Role, tuple[Role, ...]] = {"member": ("member", "reader")}
    others = _other_names(*roles.get(cls._role, (cls._role,)), "any client")
    return "\n".join([page, _OTHERS, _table(["name", "here"], others)])


def _other_names(*roles: Role) -> Iterator[list[str]]:
    seen: set[str] = set()
    for role in roles:
        for name, here in OTHER_NAMES[role].items():
            if name not in seen:
                seen.add(name)
                yield [f"`{name}`", here if " " in here else f"`{here}`"]


def _settings_table(settings: Mapping[str, Setting]) -> str:
    rows = ([f"`{dotted(name)}`", *_columns(setting)] for name, setting in settings.items())
    return _table(["name", "type", "default", "values", "importance", "meaning"], rows)


def _columns(setting: Setting) -> list[str]:
    spelling = f" Also spelled `{setting.alias}`." if setting.alias else ""
    later = f" Only {_shown(setting.built[0])} is accepted: {setting.later}" if setting.built else ""
    return [
        setting.type_name,
        _shown(setting.default),
        setting.valid,
        setting.importance.value,
        setting.doc + spelling + later,
    ]


def _shown(value: object) -> str:
    if value in ((), "", None):
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _known_classes() -> Iterator[list[str]]:
    for kind, known in KNOWN_CLASSES.items():
        targets: dict[str, list[str]] = {}
        for name, target in known.items():
            targets.setdefault(target, []).append(f"`{name}`")
        yield from ([kind, ", ".join(names), f"`{target}`"] for target, names in targets.items())


def _unsupported() -> Iterator[list[str]]:
    yield from ([f"`{name}`", why] for name, why in UNSUPPORTED_SETTINGS.items())


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
