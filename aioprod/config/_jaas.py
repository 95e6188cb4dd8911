"""Java's log-in configuration in one line, `sasl.jaas.config`, for the modules that Kafka's clients have.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";

What is in it is never repeated in an error: it is a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aioprod.errors import ConfigError

__all__ = ["JaasEntry", "parse_jaas"]

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | "((?:\\.|[^"\\])*)" | '((?:\\.|[^'\\])*)' | ([^\s="';]+) | ([=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_SHAPE: Final = 'Write it as Java does: MODULE required name="value" ...;'


@dataclass(frozen=True, slots=True, repr=False)
class JaasEntry:
    """The class of a log-in module, without its package, and its options."""

    module: str
    options: Mapping[str, str]


def parse_jaas(text: str) -> JaasEntry:
    """Read the one entry of a JAAS configuration. Raises ConfigError, without its content, if it is malformed."""
    words = _words(text)
    if len(words) < 3 or words[-1] != ";" or words[1].lower() not in _FLAGS:
        raise ConfigError("sasl.jaas.config is malformed.", hint=_SHAPE)
    if ";" in words[:-1]:
        raise ConfigError("sasl.jaas.config has more than one log-in module.", hint="Give one.")
    rest = words[2:-1]
    if len(rest) % 3 or any(sign != "=" for sign in rest[1::3]):
        raise ConfigError("sasl.jaas.config has an option without a value, or a value without quotes.", hint=_SHAPE)
    names, values = rest[0::3], rest[2::3]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ConfigError(f"sasl.jaas.config has the option {min(twice)!r} twice.")
    return JaasEntry(words[0].rpartition(".")[2], dict(zip(names, (value[1:] for value in values), strict=True)))


def _words(text: str) -> list[str]:
    """Names and signs as they are, quoted and bare values behind an `=` with a mark before them."""
    words: list[str] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError("sasl.jaas.config has a quote that does not end.", hint=_SHAPE)
        position = match.end()
        double, single, bare, sign = match.groups()
        quoted = double if double is not None else single
        is_value = bool(words) and words[-1] == "="
        if quoted is not None:
            if not is_value:
                raise ConfigError("sasl.jaas.config has a text in quotes that is not a value.", hint=_SHAPE)
            words.append("v" + _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), quoted))
        elif bare is not None:
            words.append(("v" if is_value else "") + bare)
        elif sign is not None:
            words.append(sign)
    return words
