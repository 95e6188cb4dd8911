"""`KafkaCluster`: real brokers that a test can kill, freeze and restart.

`choose_backend` decides what runs the brokers. `start()` chooses free ports, starts a `Node` per broker and waits until
each of them serves and sees all the others; its own requests go to the brokers' internal listeners (`rpc.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from aioprod.errors import AioprodError, ConfigError, UsageError
from aioprod.testing.acls import Acl
from aioprod.testing.errors import KafkaStartError, KafkaUnavailableError
from aioprod.testing.fake.checks import check_racks
from aioprod.testing.kafka import rpc
from aioprod.testing.kafka.backends import Backend, BackendName, Node, Plan, choose_backend
from aioprod.testing.kafka.broker_properties import HOST, free_ports, java_names
from aioprod.testing.kafka.cache import Progress
from aioprod.testing.kafka.jars import DEFAULT_VERSION
from aioprod.testing.kafka.local import LocalNode
from aioprod.testing.proxy import TcpProxy
from aioprod.wire.schema import Request, Response

if TYPE_CHECKING:
    from aioprod.testing.security import Security

__all__ = ["KafkaCluster"]

ResponseT = TypeVar("ResponseT", bound=Response)

_START_TIMEOUT_S: Final = 90.0
_START_TRIES: Final = 3
_POLL_S: Final = 0.1


class KafkaCluster:
    """A Kafka cluster on loopback: combined KRaft nodes with the ids 1, 2, …; made by `start()`.

        async with await KafkaCluster.start(brokers=3) as cluster:
            await cluster.create_topic("orders", partitions=6)
            await cluster.kill(2)

    It is not bound to an event loop: each call may come from another one, except for `proxied` clusters, whose proxies
    run in the loop of `start()`. When this process ends without `close()`, even by SIGKILL, the brokers end too.

    `bootstrap_servers` is `host:port[,host:port]`, `version` Kafka's (`"unknown"` for an external cluster), `backend`
    docker, local or external; `proxies` has the `TcpProxy` in front of each broker of a proxied cluster; `security`
    says how clients have to authenticate, None for plaintext without log-in.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        version: str,
        backend: str,
        broker_ids: tuple[int, ...],
        security: Security | None = None,
    ) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.version = version
        self.backend = backend
        self.broker_ids = broker_ids
        self.security = security
        self.proxies: dict[int, TcpProxy] = {}
        self._addresses: dict[int, rpc.Address] = {}
        self._controllers: dict[int, rpc.Address] = {}
        self._nodes: dict[int, Node] = {}
        self._serving: set[int] = set(broker_ids)
        self._backend: Backend | None = None

    @classmethod
    async def start(
        cls,
        brokers: int = 1,
        version: str = DEFAULT_VERSION,
        backend: BackendName = "auto",
        *,
        proxied: bool = False,
        security: Security | None = None,
        progress: Progress | None = None,
        racks: Sequence[str | None] = (),
        **properties: object,
    ) -> KafkaCluster:
        """Start `brokers` brokers of `version` and wait until each serves and knows all the others.

        With `backend="auto"` the environment variable AIOPROD_KAFKA decides (auto, docker, local, or the host:port[,…]
        of a running cluster); its default auto chooses Docker if it has the image, else local processes. `proxied`:
        a `TcpProxy` in front of each broker, at the advertised address. `security` requires TLS or a log-in of clients;
        its `client_options` are the settings for that, and its ACLs are in force when this returns. `progress` is
        called with a line for each thing that is fetched. `racks` has the rack of each broker, None for none; leaders
        then name a follower in the client's rack (RackAwareReplicaSelector). `properties` are broker settings,
        `min_insync_replicas=2` or `**{"min.insync.replicas": 2}`.

        Raises KafkaUnavailableError when this machine cannot run Kafka, KafkaStartError (with the end of the broker's
        log) when a broker does not start, ConfigError for invalid arguments.
        """
        if type(brokers) is not int or brokers < 1:
            raise ConfigError(f"A cluster needs at least one broker, not {brokers!r}.")
        check_racks(racks, brokers)
        tries = 0
        while True:
            tries += 1
            chosen = await asyncio.to_thread(choose_backend, backend, version, progress)
            if isinstance(chosen, tuple):
                for name, is_given in (("security", security is not None), ("racks", any(racks))):
                    if is_given:
                        raise KafkaUnavailableError(
                            f"The cluster at {chosen[0]} (AIOPROD_KAFKA) was not started with `{name}`."
                        )
                return await cls._external(chosen, brokers, proxied)
            try:
                return await cls._start(chosen, brokers, version, proxied, security, racks, java_names(properties))
            except KafkaStartError as error:
                # Another process may bind a port between our choice of it and the broker's start.
                if tries == _START_TRIES or "BindException" not in error.message:
                    raise

    @classmethod
    async def _start(
        cls,
        backend: Backend,
        brokers: int,
        version: str,
        proxied: bool,
        security: Security | None,
        racks: Sequence[str | None],
        properties: Mapping[str, str],
    ) -> KafkaCluster:
        ports = dict(enumerate(free_ports(brokers), start=1))
        cluster = cls(
            bootstrap_servers="", version=version, backend=backend.name, broker_ids=tuple(ports), security=security
        )
        cluster._backend = backend
        try:
            advertised = {}
            login = None if security is None else security.brokers_login
            for node_id, own in ports.items():
                cluster._addresses[node_id] = rpc.Address(HOST, own.internal, login)
                cluster._controllers[node_id] = rpc.Address(HOST, own.controller, login)
                advertised[node_id] = own.client
                if proxied:
                    proxy = await TcpProxy(f"{HOST}:{own.client}").start()
                    cluster.proxies[node_id] = proxy
                    advertised[node_id] = proxy.port
            cluster.bootstrap_servers = ",".join(f"{HOST}:{port}" for port in advertised.values())
            if security is None:
                plan = Plan(ports, advertised, properties, racks=racks)
            else:
                plan = Plan(
                    ports,
                    advertised,
                    {**security.broker_properties(), **properties},
                    security.format_options(),
                    security.java_options(),
                    racks,
                )
            cluster._nodes = {node_id: backend.node(node_id, plan) for node_id in ports}
            await _in_threads(*(node.start for node in cluster._nodes.values()))
            await cluster._wait_until_serving()
            if security is not None and security.acls:
                await cluster.add_acls(*security.acls)
        except BaseException:
            await cluster.close()
            raise
        return cluster

    @classmethod
    async def _external(cls, addresses: tuple[str, ...], brokers: int, proxied: bool) -> KafkaCluster:
        host, _, port = addresses[0].rpartition(":")
        address = rpc.Address(host.strip("[]"), int(port))
        try:
            seen = await rpc.brokers_seen(address)
        except OSError as error:
            raise KafkaUnavailableError(f"No broker answers at {addresses[0]} (AIOPROD_KAFKA): {error!r}.") from error
        if len(seen) < brokers or proxied:
            raise KafkaUnavailableError(
                f"The cluster at {addresses[0]} (AIOPROD_KAFKA) has {len(seen)} brokers and no proxies; "
                f"{brokers} {'proxied ' if proxied else ''}brokers were requested."
            )
        cluster = cls(
            bootstrap_servers=",".join(addresses), version="unknown", backend="external", broker_ids=tuple(sorted(seen))
        )
        cluster._addresses = dict.fromkeys(seen, address)
        return cluster

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop the brokers and remove their data; an external cluster keeps running."""
        for proxy in self.proxies.values():
            await proxy.close()
        await _in_threads(*(node.remove for node in self._nodes.values()))
        self._nodes = {}
        if self._backend is not None:
            await _in_threads(self._backend.close)
            self._backend = None

    async def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic and wait until every serving broker knows the leaders of its partitions.

        `replication_factor` None is the cluster's default: 3, or the number of brokers if smaller. `config` has the
        topic's settings. Raises BrokerError when the cluster rejects the request.
        """
        await rpc.create_topic(
            self._address(),
            name,
            partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            config=java_names(config or {}),
        )
        deadline = time.monotonic() + _START_TIMEOUT_S
        for broker_id in sorted(self._serving):
            while not await rpc.topic_ready(self._addresses[broker_id], name, partitions):
                if time.monotonic() > deadline:
                    raise KafkaStartError(f"Broker {broker_id} sees no leader for all partitions of topic {name!r}.")
                await asyncio.sleep(_POLL_S)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises BrokerError when the cluster rejects the request."""
        await rpc.delete_topic(self._address(), name)

    async def add_acls(self, *acls: Acl) -> None:
        """Add ACLs to a cluster that was started with some, and wait until all serving nodes enforce them.

        Raises BrokerError when the cluster rejects the request.
        """
        await rpc.create_acls(self._address(), acls)
        deadline = time.monotonic() + _START_TIMEOUT_S
        # A node is a broker and a controller, each with its own authorizer. The controllers of an external cluster
        # are unknown.
        for addresses in (self._addresses, self._controllers):
            for broker_id in sorted(self._serving & addresses.keys()):
                while not await rpc.acls_known(addresses[broker_id], acls):
                    if time.monotonic() > deadline:
                        raise KafkaStartError(f"Broker {broker_id} does not know its ACLs.")
                    await asyncio.sleep(_POLL_S)

    async def kill(self, broker_id: int) -> None:
        """Kill a broker (SIGKILL), as a crash does."""
        node = self._node(broker_id, "killed")
        self._serving.discard(broker_id)
        await _in_threads(node.kill)

    async def stop_broker(self, broker_id: int) -> None:
        """Shut a broker down; it moves its leaderships to other brokers first."""
        node = self._node(broker_id, "stopped")
        self._serving.discard(broker_id)
        await _in_threads(node.stop)

    async def restart(self, broker_id: int) -> None:
        """Start a killed or stopped broker again, at its ports and with its data; wait until it serves.

        A broker that still runs is stopped first.
        """
        await self.stop_broker(broker_id)
        await _in_threads(self._node(broker_id, "restarted").start)
        self._serving.add(broker_id)
        await self._wait_until_serving()

    async def pause(self, broker_id: int) -> None:
        """Freeze a broker: its connections stay open, and no request is answered."""
        node = self._node(broker_id, "paused")
        self._serving.discard(broker_id)
        await _in_threads(node.pause)

    async def resume(self, broker_id: int) -> None:
        """Resume a frozen broker, and wait until it serves."""
        await _in_threads(self._node(broker_id, "resumed").resume)
        self._serving.add(broker_id)
        await self._wait_until_serving()

    async def call(self, request: Request[ResponseT]) -> ResponseT:
        """Send a request to a serving broker, bypassing the proxies, in the newest version that both support.

        Raises OSError (TimeoutError after 10 s), ProtocolError or UnsupportedVersionError.
        """
        return await rpc.call(self._address(), request)

    def folder(self, broker_id: int) -> Path:
        """The folder of a broker of the local backend; its logs are in `data` there."""
        node = self._node(broker_id, "looked into")
        if not isinstance(node, LocalNode):
            raise UsageError(f"Broker {broker_id} has no folder on this machine: it runs in a container.")
        return node.folder

    async def log(self, broker_id: int) -> str:
        """The end of a broker's log."""
        return await asyncio.to_thread(self._node(broker_id, "read").log)

    def _node(self, broker_id: int, action: str) -> Node:
        """The broker's node; `action` is what can't be done without one, for the error."""
        if self.backend == "external":
            raise UsageError(f"Broker {broker_id} can't be {action}: {self.bootstrap_servers} was not started here.")
        if broker_id not in self._nodes:
            raise UsageError(f"Broker {broker_id} can't be {action}: this cluster's are {sorted(self._nodes)}.")
        return self._nodes[broker_id]

    def _address(self) -> rpc.Address:
        if not self._serving:
            raise UsageError("No broker of this cluster is running.")
        return self._addresses[min(self._serving)]

    async def _wait_until_serving(self) -> None:
        """Wait until all started brokers serve, and each of them knows all of them."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        for broker_id in sorted(self._serving):
            problem: object = "it does not know all brokers"
            while True:
                if not await asyncio.to_thread(self._nodes[broker_id].alive):
                    raise await self._start_error(broker_id, "has ended")
                try:
                    if self._serving <= await rpc.brokers_seen(self._addresses[broker_id]):
                        break
                except (OSError, AioprodError) as error:
                    problem = repr(error)
                if time.monotonic() > deadline:
                    raise await self._start_error(
                        broker_id, f"did not serve within {_START_TIMEOUT_S:.0f} s ({problem})"
                    )
                await asyncio.sleep(_POLL_S)

    async def _start_error(self, broker_id: int, failure: str) -> KafkaStartError:
        return KafkaStartError(f"Broker {broker_id} {failure}; the end of its log:\n{await self.log(broker_id)}")


async def _in_threads(*calls: Callable[[], None]) -> None:
    """Run blocking calls concurrently in threads, and raise the first error when all have ended.

    A cancellation waits for them too: otherwise a cluster could be closed while one of its brokers is still starting.
    """
    running = asyncio.gather(*(asyncio.to_thread(call) for call in calls), return_exceptions=True)
    try:
        results = await asyncio.shield(running)
    except asyncio.CancelledError:
        await running
        raise
    for result in results:
        if isinstance(result, BaseException):
            raise result
