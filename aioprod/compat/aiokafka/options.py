"""The options of aiokafka's producer as settings of aioprod's; docs/migrating-aiokafka.md has them as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import count
from typing import Any, Final

from aioprod._logger import Logger
from aioprod.compat.aiokafka.tokens import TokenAdapter
from aioprod.compat.aiokafka.translation import as_kind
from aioprod.config import ProducerConfig, settings_of
from aioprod.errors import ConfigError

__all__ = ["DEFAULTS", "NO_MEANING", "producer_config", "unknown_option"]

_logger = Logger("aioprod.compat")

DEFAULTS: Final[Mapping[str, Any]] = {
    "loop": None,
    "bootstrap_servers": "localhost",
    "client_id": None,
    "metadata_max_age_ms": 300_000,
    "request_timeout_ms": 40_000,
    "api_version": None,
    "acks": None,
    "key_serializer": None,
    "value_serializer": None,
    "compression_type": None,
    "max_batch_size": 16_384,
    "partitioner": None,
    "max_request_size": 1_048_576,
    "linger_ms": 0,
    "retry_backoff_ms": 100,
    "security_protocol": "PLAINTEXT",
    "ssl_context": None,
    "connections_max_idle_ms": 540_000,
    "enable_idempotence": False,
    "transactional_id": None,
    "transaction_timeout_ms": 60_000,
    "sasl_mechanism": "PLAIN",
    "sasl_plain_password": None,
    "sasl_plain_username": None,
    "sasl_kerberos_service_name": "kafka",
    "sasl_kerberos_domain_name": None,
    "sasl_oauth_token_provider": None,
}
"""Every option of aiokafka 0.14 with its default; None also stands for an option that is left out."""

NO_MEANING: Final[Mapping[str, str]] = {
    "loop": "a producer belongs to the event loop in which it is started",
    "api_version": "versions are negotiated with each broker",
    "sasl_kerberos_domain_name": "tickets are for the host name that a broker is connected to by",
}
"""Options without meaning here -> why. Each is logged once in a process when it is given."""

_PORT: Final = 9092
_BUFFER_MEMORY: Final = 32 * 1024 * 1024
_IDEMPOTENT_DELIVERY_MS: Final = 120_000
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_CODECS: Final = ("gzip", "snappy", "lz4", "zstd")
_SECURITY: Final = frozenset(name for name in DEFAULTS if name.startswith(("sasl_", "ssl_")))

_numbers = count(1)
_said: set[str] = set()


def producer_config(options: Mapping[str, Any]) -> ProducerConfig:
    """The settings that `options` stand for; raises ConfigError, which is a ValueError as with aiokafka.

    `options` are all of `DEFAULTS`. What has no meaning is logged once in a process.
    """
    for name, why in NO_MEANING.items():
        if options[name] != DEFAULTS[name]:
            _say_once(name, f"The option {name} of AIOKafkaProducer has no meaning in aioprod: {why}.")
    given = {
        **_guarantees(options),
        **_sizes(options),
        **_times(options),
        **_security(options),
        "bootstrap_servers": _servers(options["bootstrap_servers"]),
        "client_id": options["client_id"] or f"aiokafka-producer-{next(_numbers)}",
        "transactional_id": options["transactional_id"],
        "transaction_timeout_ms": options["transaction_timeout_ms"],
    }
    if options["compression_type"] is not None:
        given["compression_type"] = _one_of(options, "compression_type", _CODECS)
    return ProducerConfig.from_options(**given)


def unknown_option(name: str) -> Exception:
    """The error for an option that aiokafka 0.14 does not have: a TypeError, as Python raises, and a ConfigError."""
    near = get_close_matches(name, DEFAULTS, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else None
    if name in settings_of(ProducerConfig):
        hint = f"It is a setting of aioprod.Producer: with that one, {name}=... works."
    return as_kind(TypeError, ConfigError(f"aiokafka's producer has no option {name!r}.", hint=hint))


def _guarantees(options: Mapping[str, Any]) -> dict[str, Any]:
    """aiokafka keeps the order also when it retries without idempotence, as one request at a time is on its way."""
    acks = options["acks"]
    is_idempotent = bool(options["enable_idempotence"]) or options["transactional_id"] is not None
    if type(acks) is object:
        acks = None  # How FastStream passes "not given" on.
    if isinstance(acks, bool) or acks not in (0, 1, -1, "all", None):
        raise ConfigError(f"acks={acks!r} is none of 0, 1 and 'all'.")
    if is_idempotent and acks not in (-1, "all", None):
        raise ConfigError(f"acks={acks} contradicts enable_idempotence=True.", hint="Leave acks out: it is 'all' then.")
    if acks is None:
        acks = "all" if is_idempotent else 1
    in_flight = {} if is_idempotent else {"max_in_flight_requests_per_connection": 1}
    return {"acks": acks, "enable_idempotence": is_idempotent, **in_flight}


def _sizes(options: Mapping[str, Any]) -> dict[str, Any]:
    batch_size, request_size = options["max_batch_size"], options["max_request_size"]
    sizes = [size for size in (batch_size, request_size) if isinstance(size, int)]
    return {
        "batch_size": batch_size,
        "max_request_size": request_size,
        "buffer_memory": max(_BUFFER_MEMORY, *(2 * size for size in sizes)),
    }


def _times(options: Mapping[str, Any]) -> dict[str, Any]:
    """`request_timeout_ms` bounds each wait of aiokafka's: for metadata, for room, for an answer, for the outcome."""
    request_ms, idle_ms = _whole(options["request_timeout_ms"]), options["connections_max_idle_ms"]
    linger_ms = options["linger_ms"]
    if isinstance(linger_ms, float) and 0 < linger_ms < math.inf:
        linger_ms = math.ceil(linger_ms)
    linger_ms = _whole(linger_ms)
    given = {
        "request_timeout_ms": request_ms,
        "max_block_ms": request_ms,
        "linger_ms": linger_ms,
        "adaptive_linger": False,
        "retry_backoff_ms": options["retry_backoff_ms"],
        "metadata_max_age_ms": options["metadata_max_age_ms"],
        "connections_max_idle_ms": -1 if idle_ms is None else idle_ms,
    }
    if isinstance(request_ms, int) and isinstance(linger_ms, int):
        lasts_ms = request_ms + linger_ms
        is_idempotent = options["enable_idempotence"] or options["transactional_id"] is not None
        given["delivery_timeout_ms"] = max(lasts_ms, _IDEMPOTENT_DELIVERY_MS) if is_idempotent else lasts_ms
    return given


def _whole(given: Any) -> Any:
    """A float without a fraction as an int, anything else as it is."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


def _security(options: Mapping[str, Any]) -> dict[str, Any]:
    protocol = _one_of(options, "security_protocol", _PROTOCOLS)
    given: dict[str, Any] = {"security_protocol": protocol}
    used = set()
    if protocol in ("SSL", "SASL_SSL"):
        if options["ssl_context"] is None:
            raise ConfigError(f"security_protocol={protocol!r} needs ssl_context.", hint="Give an ssl.SSLContext.")
        given["ssl_context"] = options["ssl_context"]
        used.add("ssl_context")
    if protocol.startswith("SASL_"):
        used |= {name for name in _SECURITY if name.startswith("sasl_")}
        given |= _login(options)
    for name in sorted(_SECURITY - used - NO_MEANING.keys()):
        if options[name] != DEFAULTS[name]:
            _say_once(name, f"The option {name} has no effect with security_protocol={protocol}.")
    return given


def _login(options: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = _one_of(options, "sasl_mechanism", _MECHANISMS)
    given: dict[str, Any] = {"sasl_mechanism": mechanism}
    if mechanism == "GSSAPI":
        return {**given, "sasl_kerberos_service_name": options["sasl_kerberos_service_name"]}
    if mechanism == "OAUTHBEARER":
        provider = options["sasl_oauth_token_provider"]
        if provider is None:
            raise ConfigError("sasl_mechanism='OAUTHBEARER' needs sasl_oauth_token_provider.")
        return {**given, "sasl_token_provider": TokenAdapter(provider).token}
    for name in ("username", "password"):
        if options[f"sasl_plain_{name}"] is None:
            raise ConfigError(f"sasl_mechanism={mechanism!r} needs sasl_plain_{name}.")
        value = str(options[f"sasl_plain_{name}"])
        # aioprod looks up what begins with env: or file: or is in ${...}, which aiokafka sends as it is.
        given[f"sasl_{name}"] = f"raw:{value}" if ":" in value or "$" in value else value
    return given


def _servers(given: Any) -> list[str]:
    """Addresses with a port, each once: aiokafka's are 9092 where none is given."""
    several: Iterable[Any] = given.split(",") if isinstance(given, str) else given
    if not isinstance(several, Iterable):
        raise ConfigError(f"bootstrap_servers is of type {type(given).__name__}: give 'host:port' or a list of such.")
    servers: dict[str, None] = {}
    for server in several:
        if not isinstance(server, str):
            raise ConfigError(f"bootstrap_servers names {server!r}, which is no 'host:port'.")
        address = server.strip()
        if not address:
            continue  # Of "a:9092,".
        has_port = ":" in address.rpartition("]")[2] and (address.startswith("[") or address.count(":") == 1)
        if address.count(":") > 1 and not address.startswith("["):
            address = f"[{address}]"
        servers[address if has_port else f"{address}:{_PORT}"] = None
    return list(servers)


def _one_of(options: Mapping[str, Any], name: str, choices: tuple[str, ...]) -> str:
    given = options[name]
    for choice in choices:
        if choice == given:
            return choice  # kstreams gives members of an enumeration.
    raise ConfigError(f"{name}={given!r} is none of {', '.join(choices)}.")


def _say_once(name: str, sentence: str) -> None:
    if name not in _said:
        _said.add(name)
        _logger.warning("%s", sentence)
