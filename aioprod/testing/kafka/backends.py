"""What runs the brokers of a `KafkaCluster`: containers, local processes, or a cluster that runs already."""

from __future__ import annotations

import os
import re
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from aioprod.errors import ConfigError
from aioprod.testing.errors import KafkaUnavailableError
from aioprod.testing.kafka import jars
from aioprod.testing.kafka.archive import class_archive
from aioprod.testing.kafka.broker_properties import Ports, broker_properties
from aioprod.testing.kafka.cache import Progress, log_progress
from aioprod.testing.kafka.docker import DATA, DockerNode, docker_problem, image_name
from aioprod.testing.kafka.local import LocalNode
from aioprod.testing.kafka.reaper import Reaper

__all__ = ["Backend", "BackendName", "DockerBackend", "LocalBackend", "Node", "Plan", "choose_backend"]

BackendName = Literal["auto", "docker", "local"]

_NEAREST: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""Leaders name a follower in the client's rack (KIP-392)."""


class Node(Protocol):
    """One broker of either backend; all methods block."""

    def start(self) -> None: ...
    def alive(self) -> bool: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def remove(self) -> None: ...
    def log(self) -> str: ...


class Backend(Protocol):
    """Creates the nodes of one cluster, and removes all of them however this process ends."""

    @property
    def name(self) -> str: ...
    def node(self, node_id: int, plan: Plan) -> Node: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What the nodes of one cluster share: ports, advertised ports, and the caller's broker settings.

    `racks` has the rack of each node, the first one's first, None for none; it may be empty. `format_options` are for
    the tool that formats a node's data folder, `jvm_options` for Java.
    """

    ports: Mapping[int, Ports]
    advertised: Mapping[int, int]
    properties: Mapping[str, str]
    format_options: Sequence[str] = ()
    jvm_options: Sequence[str] = ()
    racks: Sequence[str | None] = ()
    cluster_id: str = field(default_factory=lambda: uuid.uuid4().hex[:22])

    @property
    def java_options(self) -> list[str]:
        """Options for small JVMs that log why they do not start."""
        return [
            "-Xmx512m" if len(self.ports) == 1 else "-Xmx384m",
            "-XX:+UseSerialGC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            *self.jvm_options,
        ]

    def node_properties(self, node_id: int, data: str) -> dict[str, str]:
        """The settings of one node, which keeps its logs in the folder `data`."""
        rack = self.racks[node_id - 1] if self.racks else None
        zone = {} if rack is None else {"broker.rack": rack, "replica.selector.class": _NEAREST}
        return broker_properties(
            node_id,
            self.ports,
            advertised_port=self.advertised[node_id],
            data=data,
            properties=zone | {**self.properties},
        )


class LocalBackend:
    """Brokers as processes, in a temporary folder."""

    name = "local"

    def __init__(self, version: str, progress: Progress | None) -> None:
        self._libs = jars.kafka_libs(version, progress)
        java = jars.java(progress)
        archive = class_archive(java, self._libs, progress or log_progress)
        self._java = [str(java), *([] if archive is None else [f"-XX:SharedArchiveFile={archive}"])]
        self._folder = Path(tempfile.mkdtemp(prefix="aioprod-kafka-"))
        self._nodes: list[LocalNode] = []
        self._reaper = Reaper()
        self._watch()

    def node(self, node_id: int, plan: Plan) -> Node:
        """A new broker, not started."""
        folder = self._folder / f"broker-{node_id}"
        node = LocalNode(
            node_id=node_id,
            folder=folder,
            java=[*self._java, *plan.java_options],
            libs=self._libs,
            properties=plan.node_properties(node_id, str(folder / "data")),
            format_options=plan.format_options,
            cluster_id=plan.cluster_id,
            changed=self._watch,
        )
        self._nodes.append(node)
        return node

    def close(self) -> None:
        """Remove the brokers and their folder."""
        self._reaper.close()

    def _watch(self) -> None:
        pids = [node.pid for node in self._nodes if node.pid is not None]
        self._reaper.watch(pids=pids, folders=[str(self._folder)])


class DockerBackend:
    """Brokers as containers of one image."""

    name = "docker"

    def __init__(self, image: str) -> None:
        self._image = image
        self._nodes: list[DockerNode] = []
        self._reaper = Reaper()

    def node(self, node_id: int, plan: Plan) -> Node:
        """A new broker, not started."""
        node = DockerNode(
            node_id=node_id,
            image=self._image,
            java_options=plan.java_options,
            properties=plan.node_properties(node_id, DATA),
            format_options=plan.format_options,
            cluster_id=plan.cluster_id,
            changed=self._watch,
        )
        self._nodes.append(node)
        return node

    def close(self) -> None:
        """Remove the containers."""
        self._reaper.close()

    def _watch(self) -> None:
        self._reaper.watch(commands=[node.removal for node in self._nodes if node.removal is not None])


def choose_backend(backend: BackendName, version: str, progress: Progress | None) -> Backend | tuple[str, ...]:
    """The backend of this name, or the addresses of a running cluster; for "auto" `$AIOPROD_KAFKA` is the name.

    Blocks, as jars may have to be fetched. `auto` is Docker when an engine answers and has the image, else local
    processes. Raises ConfigError for an unknown name, KafkaUnavailableError when the backend can't be used.
    """
    name = backend if backend != "auto" else os.environ.get("AIOPROD_KAFKA", "auto").strip()
    image = image_name(version)
    if name == "docker":
        if problem := docker_problem(None):
            raise KafkaUnavailableError(f"The backend is docker, but {problem}.")
        return DockerBackend(image)
    if name == "local":
        return LocalBackend(version, progress)
    if name == "auto":
        if (problem := docker_problem(image)) is None:
            return DockerBackend(image)
        try:
            return LocalBackend(version, progress)
        except KafkaUnavailableError as error:
            raise KafkaUnavailableError(f"No Docker: {problem}. No local Kafka: {error.message}") from error
    addresses = tuple(address.strip() for address in name.split(",") if address.strip())
    if not addresses or not all(re.fullmatch(r"\S+:\d+", address) for address in addresses):
        raise ConfigError(f"AIOPROD_KAFKA is {name!r}; it must be auto, docker, local or host:port[,host:port].")
    return addresses
