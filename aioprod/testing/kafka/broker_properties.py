"""The ports and settings of a test's brokers: small clusters that start and fail over fast."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Final, NamedTuple

__all__ = ["HOST", "PORTS", "Ports", "broker_properties", "free_ports", "java_names", "properties_text"]

HOST: Final = "127.0.0.1"

# Below the ports that systems give to outgoing connections: a broker that restarts must find its port free, and a
# client that connects to a dead broker's port must not get that very port as its own, which would connect it to itself.
# For the same reason apart from those of `listening.py`: other tests on the machine listen there many times a second.
PORTS: Final = range(18_000, 25_000)


class Ports(NamedTuple):
    """The listeners of one node: for clients, for other brokers (and our own requests), for controllers."""

    client: int
    internal: int
    controller: int


def free_ports(nodes: int, ports: Iterable[int] | None = None) -> list[Ports]:
    """Choose three free ports per node, the first free ones of `ports` (by default a wide range in random order)."""
    candidates = iter(random.sample(PORTS, len(PORTS)) if ports is None else ports)
    free: list[int] = []
    with ExitStack() as held:
        while len(free) < 3 * nodes:
            port = next(candidates)
            listener = held.enter_context(socket.socket())
            try:
                listener.bind((HOST, port))
            except OSError:
                continue
            free.append(port)
    return [Ports(*free[at : at + 3]) for at in range(0, len(free), 3)]


def java_names(properties: Mapping[str, object]) -> dict[str, str]:
    """Broker settings as Kafka writes them: `min_insync_replicas=2` becomes `min.insync.replicas=2`, True `true`."""
    return {
        name.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in properties.items()
    }


def broker_properties(
    node_id: int, ports: Mapping[int, Ports], *, advertised_port: int, data: str, properties: Mapping[str, str]
) -> dict[str, str]:
    """The settings of node `node_id`, broker and controller in one, of the cluster with these `ports`.

    Clients get `advertised_port`; `data` is the folder of the logs; `properties` override the other settings.
    """
    own = ports[node_id]
    replicas = min(3, len(ports))
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller",
        "controller.quorum.voters": ",".join(f"{node}@{HOST}:{each.controller}" for node, each in ports.items()),
        "listeners": f"CLIENT://{HOST}:{own.client},INTERNAL://{HOST}:{own.internal},CONTROLLER://{HOST}:{own.controller}",
        "advertised.listeners": f"CLIENT://{HOST}:{advertised_port},INTERNAL://{HOST}:{own.internal}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data,
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min(2, replicas)),
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # A test may send records with timestamps of years ago, which a broker would soon delete.
        "log.retention.ms": "-1",
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "4000",
        # The controller would write an empty record twice a second, which every idle broker then works at.
        "metadata.max.idle.interval.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": "4194304",
        **properties,
    }


def properties_text(properties: Mapping[str, str]) -> str:
    """The text of a Java properties file."""
    return "".join(f"{name}={_escaped(value)}\n" for name, value in properties.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
