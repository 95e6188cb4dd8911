"""What a `Client` needs of the configuration that a user wrote, in the units in which it uses it."""

from __future__ import annotations

import math
import re
from functools import cache
from typing import Any, Final, NamedTuple, Self, TypeAlias

from aioprod.config import ClientConfig, ProducerConfig, SecurityConfig, parse_address
from aioprod.net.protocol.backoff import Backoff
from aioprod.wire.frame import FRAME_SIZE_MAX

__all__ = ["SOFTWARE_NAME", "Address", "ClientSettings", "client_id_of", "software_version"]

Address: TypeAlias = tuple[str, int]
"""Host name or IP address, and port."""

SOFTWARE_NAME: Final = "aioprod"
_CONNECT_TIMEOUT: Final = Backoff(10.0, 30.0)
RECONNECT_BACKOFF: Final = Backoff(0.05, 1.0)
_RETRY_BACKOFF: Final = Backoff(0.1, 1.0)


@cache
def software_version() -> str:
    """Our version, in the characters that brokers accept (KIP-511): without the "+" of local versions."""
    from importlib.metadata import PackageNotFoundError, version  # Takes 10 ms, with zipfile, csv and email.

    try:
        installed = version(SOFTWARE_NAME)
    except PackageNotFoundError:
        return "unknown"
    return re.sub(r"[^a-zA-Z0-9.-]", "-", installed).strip("-.")


def client_id_of(config: ClientConfig) -> str:
    """The name of a client at the brokers: its `client.id`, or that of all that have none."""
    return config.client_id or SOFTWARE_NAME


class ClientSettings(NamedTuple):
    """Settings of a `Client`, with the defaults of Java's producer. Times are seconds; -1 is the OS's buffer size."""

    bootstrap: tuple[Address, ...]
    """The bootstrap servers."""
    client_id: str = SOFTWARE_NAME
    request_timeout_s: float = 30.0
    connect_timeout: Backoff = _CONNECT_TIMEOUT
    reconnect_backoff: Backoff = RECONNECT_BACKOFF
    retry_backoff: Backoff = _RETRY_BACKOFF
    metadata_max_age_s: float = 300.0
    metadata_max_idle_s: float = 300.0
    connections_max_idle_s: float = 540.0
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    canonical_names: bool = False
    """Resolve the canonical names of the bootstrap servers' IP addresses and connect to those (KIP-235)."""
    rebootstrap: bool = True
    """Return to the bootstrap servers when no known broker can be reached, or none has answered a metadata request for
    `rebootstrap_trigger_s` (KIP-899, KIP-1102)."""
    rebootstrap_trigger_s: float = 300.0
    checks_cluster: bool = True
    """Have brokers compare their ids with those that are expected, and return to the bootstrap servers when all differ
    (KIP-1242)."""
    allow_auto_topic_creation: bool = True
    frame_size_max: int = FRAME_SIZE_MAX
    rack: str = ""
    """The `client.rack`, empty for none."""
    security: SecurityConfig | None = None
    """None for PLAINTEXT."""

    @property
    def protocol(self) -> str:
        """The `security.protocol`."""
        return "PLAINTEXT" if self.security is None else self.security.security_protocol

    @classmethod
    def from_config(cls, config: ClientConfig, **others: Any) -> Self:
        """The settings of `config`; `others` are fields of this class that override them."""
        idle_ms = config.connections_max_idle_ms
        fields: dict[str, Any] = {
            "bootstrap": tuple(parse_address(server) for server in config.bootstrap_servers),
            "client_id": client_id_of(config),
            "request_timeout_s": config.request_timeout_ms / 1000.0,
            "connect_timeout": _backoff(
                config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms
            ),
            "reconnect_backoff": _backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            "retry_backoff": _backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            "metadata_max_age_s": config.metadata_max_age_ms / 1000.0,
            "connections_max_idle_s": math.inf if idle_ms < 0 else idle_ms / 1000.0,
            "send_buffer_bytes": config.send_buffer_bytes,
            "receive_buffer_bytes": config.receive_buffer_bytes,
            "canonical_names": config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only",
            "rebootstrap": config.metadata_recovery_strategy == "rebootstrap",
            "checks_cluster": config.metadata_cluster_check_enable,
            "rebootstrap_trigger_s": config.metadata_recovery_rebootstrap_trigger_ms / 1000.0,
            "rack": config.client_rack,
        }
        if config.security_protocol != "PLAINTEXT":
            fields["security"] = config
        if isinstance(config, ProducerConfig):
            fields["metadata_max_idle_s"] = config.metadata_max_idle_ms / 1000.0
        return cls(**(fields | others))


def _backoff(initial_ms: int, max_ms: int) -> Backoff:
    return Backoff(initial_ms / 1000.0, max_ms / 1000.0)
