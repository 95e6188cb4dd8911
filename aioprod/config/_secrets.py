"""Secrets that are not written into a configuration but named there: in the environment, or in a file.

`env:NAME`, `file:PATH`, and the forms of Java's config providers: `${env:NAME}`, `${file:PATH:KEY}` (of properties). A
secret that begins with such a prefix is written behind `raw:`. They are looked up each time they are used, so that
a password in a file may change.
"""

from __future__ import annotations

import os
import re
from typing import Final

from aioprod.config._files import read_file
from aioprod.config._properties import parse_properties
from aioprod.errors import ConfigError

__all__ = ["is_elsewhere", "is_in_file", "secret_of"]

_REFERENCE: Final = re.compile(r"\$\{(env|file):([^${}:]*)(?::([^${}]*))?\}")
_SIZE_MAX: Final = 1 << 20


def is_elsewhere(given: str) -> bool:
    """Whether all of a text is the name of a place where the text itself is."""
    return given.startswith(("env:", "file:")) or _REFERENCE.fullmatch(given) is not None


def is_in_file(given: str) -> bool:
    """Whether a text names a file that has the text itself, or a part of it."""
    return given.startswith("file:") or any(found[1] == "file" for found in _REFERENCE.finditer(given))


def secret_of(setting: str, given: str) -> str:
    """The secret that `given` is or names. Raises ConfigError, naming the `setting`, where there is none."""
    try:
        secret = _looked_up(setting, given)
        secret.encode()
    except UnicodeError:
        # Its own text and its cause contain the secret.
        raise ConfigError(f"{setting} names or is a secret that is not UTF-8.") from None
    return secret


def _looked_up(setting: str, given: str) -> str:
    kind, colon, rest = given.partition(":")
    if colon and kind == "raw":
        return rest
    if colon and kind == "env":
        return _from_environment(setting, rest)
    if colon and kind == "file":
        return _content(setting, rest).decode().rstrip("\r\n")
    return _REFERENCE.sub(lambda found: _referred(setting, found), given)


def _referred(setting: str, found: re.Match[str]) -> str:
    provider, name, key = found.groups()
    if provider == "env":
        return found[0] if key is not None else _from_environment(setting, name)
    if key is None:
        return found[0]
    properties = parse_properties(_content(setting, name))
    if key not in properties:
        raise ConfigError(f"{setting} names the key {key!r}, which is not in the file {name!r}.")
    return properties[key]


def _from_environment(setting: str, name: str) -> str:
    try:
        return os.environ[name]
    except KeyError:
        raise ConfigError(f"{setting} names the environment variable {name!r}, which is not set.") from None


def _content(setting: str, path: str) -> bytes:
    return read_file(path, f"{setting} names the file {path!r}, which", _SIZE_MAX)
