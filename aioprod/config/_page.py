"""The reference page of all settings, made from the table itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
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

Settings have the names, defaults and ranges of Java's producer. Give them in any of these ways:

<!-- not run: it shows the ways only; tests/test_config.py tries each of them. -->
```python
Producer("localhost:9092", linger_ms=20, compression_type="zstd")
Producer(config={"bootstrap.servers": "localhost:9092", "linger.ms": 20})
Producer(config=ProducerConfig.from_properties("producer.properties"))
```

Times are in milliseconds, sizes in bytes.
"""

_FIRST: Final = """\
## What to set first

All settings but `bootstrap.servers` have a default that fits most programs. These are the ones that programs set most
often; links lead to the whole description.
"""

_FIRST_SETTINGS: Final = {
    "bootstrap.servers": "Always: one or several brokers, as `host:port`. The client learns the others from them.",
    "client.id": "Always in production: logs, metrics and quotas name a client by it.",
    "security.protocol": "The cluster requires TLS or a log-in: see [TLS and log-ins](security.md).",
    "sasl.mechanism": "The cluster requires a log-in, with `sasl.username` and `sasl.password` for example.",
    "delivery.timeout.ms": "A user waits for the result: 5,000 in a web service, with a `request.timeout.ms` of 3,000.",
    "max.block.ms": "A start without Kafka has to fail soon: 5,000 in a service.",
    "close.timeout.ms": "A shutdown has a limit: 8,000 in a pod of Kubernetes.",
    "compression.type": "Traffic or disks cost money, or throughput matters: `zstd` or `lz4`.",
    "linger.ms": "Batches stay small under load: 20 to 50. See [Tuning](guides/tuning.md).",
    "batch.size": "Throughput matters: 131,072 or more.",
    "buffer.memory": "`BufferFullError` is raised, or a longer pause of the brokers has to be bridged.",
    "value.serializer": "Values are not bytes: `JsonSerializer()`, or one for a [registry](schema-registry.md).",
    "transactional.id": "Records have to be stored together or not at all: see [Transactions](transactions.md).",
}
"""A setting of which a newcomer thinks -> when to set it, and to what."""

_REFERENCE: Final = """\
## Names and values

A name is spelled with dots, as in Java, or with underscores. An unknown name, an invalid value, or a setting that
aioprod does not support raises `ConfigError`; one error says all that is wrong. Strings that look like the type are
accepted, as they come from properties files.

Clients share properties files, so a file may have settings of other Kafka clients and of the Schema Registry. They are
left out, and the log names them. `python -m aioprod.config --check FILE` shows how a file is understood, without its
secrets.

Type checkers know each option with its type, for all clients: `Producer("localhost:9092", linger=5)` and
`linger_ms="abc"` are errors to mypy. If a program reads a value from elsewhere, put it into `config=`, which takes any
string and checks it at run time. A function that passes options on declares them as
`**options: Unpack[ProducerOptions]`, from `aioprod.options`.

The tables below have the settings of a producer, and those of all clients. Members have [more](groups.md#settings), and
so have [readers](reader.md#settings) and [`Admin`](admin.md#settings).
"""

_RULES: Final = """\
## Settings that depend on each other

If you give a setting that contradicts a default, the default changes. If you give two settings that contradict each
other, they raise `ConfigError`.

- `delivery.timeout.ms` is at least `linger.ms` + `request.timeout.ms`. Its default is raised as needed. If you give a
  lower one, the defaults of the other two are lowered. (Java raises an error instead.)
- `enable.idempotence` needs `acks=all` and `retries` of at least 1. Other values of these switch it off, or contradict
  it if you gave it, too. More than 5 `max.in.flight.requests.per.connection` raise an error in any case, as in Java
  since 4.0: set `enable.idempotence=false` yourself.
- `reconnect.backoff.ms` given alone sets `reconnect.backoff.max.ms` to the same value.
- Each of `reconnect.backoff.ms`, `retry.backoff.ms` and `socket.connection.setup.timeout.ms` is at most its `….max.ms`.
- `batch.size` is at most `buffer.memory`; its default is lowered to `buffer.memory` and `max.request.size` as needed.
"""

_CLASSES: Final = """\
## Classes

Give serializers, partitioners, interceptors and reporters as an object, a class, or a name: `"package.module:Class"`,
`"package.module.Class"`, or one of those below. A class is created without arguments. If the object has a method
`configure`, it is called with the config (and `is_key=…` for a serializer). If it has `close`, that is called when the
producer closes. A serializer and a partitioner may also be a plain function.
"""


_OTHERS: Final = """\
## Names of other clients

Names that librdkafka (confluent-kafka), aiokafka and kafka-python use raise `ConfigError`. Its hint says the same as
this table. Readers and members take them in `config=` and in files: they leave out what is to be left out, and the log
names it.
"""


def reference_page() -> str:
    """Return the page as Markdown, with a line feed at its end."""
    client = settings_of(ClientConfig)
    producer = {name: setting for name, setting in settings_of(ProducerConfig).items() if name not in client}
    parts = [
        _INTRODUCTION,
        _FIRST + "\n" + _table(["setting", "default", "set it when"], _first_settings()),
        _REFERENCE,
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
    others = _other_names(*roles.get(cls._role, (cls._role,)), "any client", known=settings_of(cls))
    return "\n".join([page, _OTHERS, _table(["name", "here"], others)])


def _other_names(*roles: Role, known: Collection[str] = ()) -> Iterator[list[str]]:
    seen = {dotted(name) for name in known}
    for role in roles:
        for name, here in OTHER_NAMES[role].items():
            if name not in seen:
                seen.add(name)
                yield [f"`{name}`", here if " " in here else f"`{here}`"]


def _first_settings() -> Iterator[list[str]]:
    client, every = settings_of(ClientConfig), settings_of(ProducerConfig)
    for name, when in _FIRST_SETTINGS.items():
        key = name.replace(".", "_")
        section = "connections-metadata-metrics" if key in client else "producer"
        yield [f"[`{name}`](#{section})", _shown(every[key].default), when]


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
