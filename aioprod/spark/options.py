"""What users write as options: Spark's own, and settings of Kafka clients behind `kafka.`."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

from aioprod.config import ClientConfig, ProducerConfig, SessionConfig
from aioprod.config._base import settings_of
from aioprod.errors import ConfigError

__all__ = ["AT_LEAST_ONCE", "EXACTLY_ONCE", "KafkaSettings", "SinkOptions", "split_options", "truth"]

_logger = logging.getLogger(__name__)

_PREFIX: Final = "kafka."
AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"

_BATCH_SIZE: Final = 256 * 1024
"""In place of Java's 16 KB where nothing is said: rows come by the ten thousand, so that batches fill up at once."""

_SPARK_ADDS: Final = frozenset({"checkpointlocation", "queryname"})
"""Options of Spark itself, which it hands on to every data source."""

_NOT_HERE: Final = {
    "key.serializer": "columns are bytes or text already.",
    "value.serializer": "columns are bytes or text already.",
    "interceptor.classes": "rows go from Spark to Kafka as whole columns.",
    "enable.idempotence": "it is always on.",
    "transactional.id": 'write with option("delivery", "exactly-once") and option("transactional.id", ...).',
}
"""Producer settings that make no sense in a sink, with the reason for the error."""


class KafkaSettings(Mapping[str, str]):
    """Settings of a Kafka client by their Java names. Shows the names only: a value may be a secret."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)
        if not self._settings.get("bootstrap.servers"):
            raise ConfigError(
                "The option kafka.bootstrap.servers is missing.", hint='Give it, as in "broker-1:9092,broker-2:9092".'
            )

    def __getitem__(self, name: str) -> str:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __hash__(self) -> int:
        return hash(frozenset(self._settings.items()))

    def __repr__(self) -> str:
        return f"KafkaSettings({', '.join(self._settings)})"

    @classmethod
    def named(cls, given: Mapping[str, Any]) -> Self:
        """Of settings by Java's names or ours, with or without `kafka.` before them; raises ConfigError."""
        return cls({name.removeprefix(_PREFIX).replace("_", "."): _text(value) for name, value in given.items()})

    def forbid(self, reasons: Mapping[str, str]) -> None:
        """Raise ConfigError for a setting that makes no sense, with the reason."""
        for name, reason in reasons.items():
            if name in self:
                raise ConfigError(f"The option kafka.{name} can't be set: {reason}")

    def part_of(self, config: type[ClientConfig]) -> dict[str, str]:
        """Those that a config class knows."""
        known = settings_of(config)
        return {name: value for name, value in self.items() if name.replace(".", "_") in known}

    def for_client(self, config: type[ClientConfig], pointless: Mapping[str, str] = MappingProxyType({})) -> Self:
        """Without the settings of other kinds of clients, as jobs share their settings, and without `pointless` ones.

        These have the reason with each name. The log (INFO) names what is left out.
        """
        left_out = config.left_out([name for name in self if name not in pointless])
        left_out |= {name: reason for name, reason in pointless.items() if name in self}
        if left_out:
            _logger.info("Left out: %s.", "; ".join(f"kafka.{name}, {reason}" for name, reason in left_out.items()))
        return type(self)({name: value for name, value in self.items() if name not in left_out})

    def producer(self) -> dict[str, Any]:
        """As options of a Producer; raises ConfigError for what can't be used."""
        self.forbid(_NOT_HERE)
        config = ProducerConfig.from_dict(self.for_client(ProducerConfig))
        given = {name: getattr(config, name) for name in config.explicit}
        return {"batch_size": _BATCH_SIZE, **given}

    def session(self) -> SessionConfig:
        """The part of a producer's settings that a look at the cluster needs."""
        return SessionConfig.from_dict(self.part_of(ClientConfig))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def split_options(given: Mapping[str, str], known: Collection[str]) -> tuple[dict[str, str], KafkaSettings]:
    """The options of a data source, by their names in lower case, and the settings of Kafka among them.

    Spark takes the case from all names. `known` are the source's own, as users write them. Raises ConfigError for
    one that is not known, which suggests the nearest, and where kafka.bootstrap.servers is missing.
    """
    spelling = {name.lower(): name for name in known}
    own: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower.startswith(_PREFIX):
            kafka[lower.removeprefix(_PREFIX)] = value
        elif lower in spelling:
            own[lower] = value
        elif lower not in _SPARK_ADDS:
            raise ConfigError(f"{name!r} is not an option of aioprod.", hint=_suggestion(lower, known))
    return own, KafkaSettings(kafka)


def _suggestion(name: str, known: Iterable[str]) -> str:
    settings = (_PREFIX + setting.replace("_", ".") for setting in settings_of(ProducerConfig))
    names = {option.lower(): option for option in (*known, *settings)}
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"Did you mean {names[near[0]]!r}?"
    return "docs/spark.md lists the options; settings of Kafka begin with 'kafka.'."


def truth(name: str, value: str) -> bool:
    """An option that is true or false; raises ConfigError for another value."""
    if value.lower() not in ("true", "false"):
        raise ConfigError(f"The option {name} is {value!r}: it must be true or false.")
    return value.lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """How rows are to be written."""

    kafka: KafkaSettings
    topic: str | None = None
    """None: each row names its own, in a column."""
    include_headers: bool = True
    delivery: str = AT_LEAST_ONCE
    own: tuple[tuple[str, str], ...] = ()
    """The options that only exactly-once delivery has, by their names in lower case."""

    KNOWN = ("topic", "includeHeaders", "delivery")
    EXACTLY_ONCE = ("transactional.id", "marker.topic", "run.id", "whenMarkerIsMissing")

    @classmethod
    def from_spark(cls, given: Mapping[str, str]) -> Self:
        """Of the options that a user gave to `df.write` or `df.writeStream`; raises ConfigError."""
        own, kafka = split_options(given, (*cls.KNOWN, *cls.EXACTLY_ONCE))
        delivery = own.get("delivery", AT_LEAST_ONCE)
        if delivery not in (AT_LEAST_ONCE, EXACTLY_ONCE):
            raise ConfigError(f"The option delivery is {delivery!r}: it must be {AT_LEAST_ONCE} or {EXACTLY_ONCE}.")
        once = [name for name in cls.EXACTLY_ONCE if name.lower() in own]
        if once and delivery == AT_LEAST_ONCE:
            raise ConfigError(
                f"The option {once[0]} belongs to exactly-once delivery.", hint=f"delivery={EXACTLY_ONCE}"
            )
        kafka.producer()
        return cls(
            kafka=kafka,
            topic=own.get("topic"),
            include_headers=truth("includeHeaders", own.get("includeheaders", "true")),
            delivery=delivery,
            own=tuple((name.lower(), own[name.lower()]) for name in once),
        )
