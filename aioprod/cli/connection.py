"""The options by which a command reaches a cluster: servers, a properties file, single settings."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeVar

from aioprod.config import Settings, read_file, settings_of
from aioprod.config._properties import parse_properties
from aioprod.config._secrets import is_elsewhere
from aioprod.console.frame import Parser
from aioprod.errors import ConfigError

__all__ = ["add_connection_options", "assignment", "config_of"]

SettingsT = TypeVar("SettingsT", bound=Settings)

_NO_SERVERS: Final = "No broker is given."


def add_connection_options(parser: Parser, *, servers_required: bool = True) -> None:
    """Add `-b`, `-F` and `-X` to a command's parser: `config_of` reads them."""
    group = parser.add_argument_group("the cluster")
    group.add_argument(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="brokers to begin with; needed unless the file or -X has bootstrap.servers"
        if servers_required
        else "brokers to begin with",
    )
    group.add_argument(
        "-F",
        "--config-file",
        metavar="FILE",
        help="a Java client.properties; settings of other kinds of clients in it are left out",
    )
    group.add_argument(
        "-X",
        "--setting",
        action="append",
        type=assignment,
        default=[],
        metavar="NAME=VALUE",
        help="a setting, such as linger.ms=20; wins over the file, and may be given many times. For a secret name a "
        "place, such as sasl.password=env:KAFKA_PASSWORD or file:/run/secrets/kafka: arguments can be seen by others",
    )


def config_of(
    given: Namespace,
    kind: type[SettingsT],
    defaults: Mapping[str, Any] | None = None,
    *,
    unused: Collection[str] = (),
) -> SettingsT:
    """The configuration that the options of `add_connection_options` make; `defaults` lose against all of them.

    `unused` are Java's names of settings that the command has no use for: in a file they are left out. Warns on stderr
    of a secret that is on the command line. Raises ConfigError.
    """
    by_attribute: dict[str, tuple[str, Any]] = {}

    def put(name: str, value: Any) -> None:
        by_attribute[_attribute(name)] = name, value

    for name, value in (defaults or {}).items():
        put(name, value)
    if given.config_file is not None:
        content = read_file(given.config_file, f"The properties file {given.config_file!r}", may_wait=True)
        properties = parse_properties(content, given.config_file)
        left_out = {*kind.left_out(properties), *unused}
        for name, value in properties.items():
            if name not in left_out:
                put(name, value)
    warned: set[str] = vars(given).setdefault("warned", set())
    for name, value in given.setting:
        if name not in warned:
            warned.add(name)
            _warn_of_secret(kind, name, value)
        put(name, value)
    if given.bootstrap_servers is not None:
        put("bootstrap_servers", given.bootstrap_servers)
    if not by_attribute.get("bootstrap_servers", ("", ""))[1]:
        raise ConfigError(_NO_SERVERS, hint="Say where the cluster is: -b host:9092.")
    return kind.from_dict(dict(by_attribute.values()))


def assignment(text: str) -> tuple[str, str]:
    """`name=value`; raises ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ArgumentTypeError(f"{text!r} is not a setting: write it as linger.ms=20")
    return name.strip(), value


def _attribute(name: str) -> str:
    return name.replace(".", "_")


def _warn_of_secret(kind: type[Settings], name: str, value: str) -> None:
    setting = settings_of(kind).get(_attribute(name))
    if setting is not None and setting.secret and value and not (is_elsewhere(value) or "${" in value):
        sys.stderr.write(
            f"warning: -X {name} has a secret, which others on this machine can see in the list of processes: "
            f"name a place instead, such as {name}=env:NAME or {name}=file:PATH.\n"
        )
