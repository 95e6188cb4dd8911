"""TLS settings of a broker that are changed while it runs, by an independent client: confluent-kafka."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

__all__ = ["alter_broker"]

_PREFIX: Final = "listener.name.client.ssl"
_TIMEOUT_S: Final = 60


def alter_broker(
    bootstrap_servers: str, client: Mapping[str, str], broker_id: int, settings: Mapping[str, str]
) -> None:
    """Change settings of the clients' listener, named without their prefix; `client` says how to authenticate.

    Returns when the cluster has accepted them, which may be before the broker uses them.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0, **client})
    entries = [
        ConfigEntry(f"{_PREFIX}.{name}", value, incremental_operation=AlterConfigOpType.SET)
        for name, value in settings.items()
    ]
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker_id), incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=_TIMEOUT_S)
