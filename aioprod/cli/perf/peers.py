"""The other clients of a comparison: which there are, and our settings in their words."""

from __future__ import annotations

from argparse import ArgumentTypeError
from importlib.util import find_spec
from typing import Any, Final

from aioprod.cli.peer_settings import aiokafka_settings, librdkafka_settings
from aioprod.config import ProducerConfig
from aioprod.config._secrets import secret_of
from aioprod.errors import ConfigError

__all__ = ["check_settings", "peers_of", "settings_of_peer"]

_MODULES: Final = {"confluent": "confluent_kafka", "aiokafka": "aiokafka"}
_PACKAGES: Final = {"confluent": "confluent-kafka", "aiokafka": "aiokafka"}
_OURS: Final = ("close_timeout_ms",)
"""Not of the load."""

_ALWAYS: Final = ("bootstrap_servers", "client_id", "acks", "linger_ms", "batch_size", "compression_type")
"""Those that all clients get, also where they are defaults: theirs are others."""

_LOG_IN: Final = ("security_protocol", "sasl_mechanism", "sasl_username", "sasl_password")
_KNOWN: Final = (
    *_ALWAYS,
    "enable_idempotence",
    *_LOG_IN,
    "ssl_truststore_location",
    "ssl_truststore_certificates",
)


def peers_of(text: str) -> list[str]:
    """`confluent,aiokafka`: clients that are installed; raises ArgumentTypeError for others."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in _MODULES:
            raise ArgumentTypeError(f"{name!r} is not a client to compare with: take {' or '.join(_MODULES)}")
        if find_spec(_MODULES[name]) is None:
            raise ArgumentTypeError(f"{name} is not installed: pip install {_PACKAGES[name]}")
    return names


def check_settings(peer: str, config: ProducerConfig) -> None:
    """Raises ConfigError for a setting that `settings_of_peer` can't put in words of this client."""
    for name in sorted(config.explicit):
        is_pem = name == "ssl_truststore_type" and config.ssl_truststore_type == "PEM"
        if name not in _KNOWN and name not in _OURS and not is_pem:
            dotted = name.replace("_", ".")
            raise ConfigError(
                f"The comparison can't hand over {dotted} to {peer}.",
                hint=f"Leave it out: it knows {', '.join(known.replace('_', '.') for known in _KNOWN)}.",
            )


def settings_of_peer(peer: str, config: ProducerConfig) -> dict[str, Any]:
    """The settings of the other client that make it do the same; secrets are looked up. Raises ConfigError."""
    check_settings(peer, config)
    chosen = [*_ALWAYS, "enable_idempotence", *(name for name in _KNOWN if name in config.explicit)]
    given: dict[str, Any] = {name: getattr(config, name) for name in chosen}
    given["bootstrap_servers"] = ",".join(config.bootstrap_servers)
    if "sasl_password" in given:
        given["sasl_password"] = secret_of("sasl.password", given["sasl_password"])
    if peer == "aiokafka":
        return aiokafka_settings(given)
    return librdkafka_settings(given) | {"log_level": 0}
