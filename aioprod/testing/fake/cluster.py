"""`FakeCluster`: Kafka brokers inside a test."""

from __future__ import annotations

import ssl
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aioprod.errors import UsageError
from aioprod.records.parser import ParsedRecord
from aioprod.testing.fake.broker import FakeBroker
from aioprod.testing.fake.faults import Fault, Seen
from aioprod.testing.fake.groups import FakeGroup
from aioprod.testing.fake.log import Isolation
from aioprod.testing.fake.state import FakeState
from aioprod.testing.fake.timers import Timers
from aioprod.testing.fake.topics import FakeTopic, Topics
from aioprod.types import TopicPartition
from aioprod.wire.schema import AnyRequest

if TYPE_CHECKING:
    from aioprod.testing.acls import Acl
    from aioprod.testing.security import Security

__all__ = ["FakeCluster"]


class FakeCluster:
    """Brokers with node ids from 1 on, on 127.0.0.1 in this event loop; an async context manager.

        async with FakeCluster(brokers=3) as cluster:
            topic = cluster.create_topic("orders", partitions=3)
            cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
            ...                                             # a client that connects to cluster.bootstrap
            assert [record.value for record in topic.records()] == [b"a", b"b"]

    Nothing but the loop tells the time here, and all that is random comes from `seed`. A broker handles the requests of
    one connection one after the other, as Kafka does: one that is held or delayed holds back those behind it.

    `transaction_version` is the finalized feature: 2, 1, or 0 for brokers that don't have it. `state` holds topics and
    settings, `seen` every request in the order of arrival, `errors` what no broker does: there must be none at the end.
    `security` is what clients have to come with, as for a `KafkaCluster`; it may be changed, for new connections, and
    its ACLs for the next requests.
    """

    def __init__(
        self, brokers: int = 1, *, transaction_version: int = 2, seed: int = 0, security: Security | None = None
    ) -> None:
        self.security = security
        self.errors: list[Exception] = []
        self.state = FakeState(seed, Timers(self.errors))
        self.state.finalize(transaction_version)
        self.brokers = {node_id: FakeBroker(self, node_id) for node_id in range(1, brokers + 1)}
        self.seen: list[Seen] = []
        self._faults: list[Fault] = []

    async def __aenter__(self) -> Self:
        for broker in self.brokers.values():
            await broker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            await broker.kill()
        self.state.timers.close()
        assert not self.errors, self.errors

    def tls_context(self) -> ssl.SSLContext | None:
        """What a broker's server speaks TLS with, None if it does not."""
        return None if self.security is None else self.security.server_context()

    def __getitem__(self, node_id: int) -> FakeBroker:
        return self.brokers[node_id]

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each broker."""
        return tuple(broker.address for broker in self.brokers.values())

    @property
    def bootstrap(self) -> str:
        """The same as `bootstrap.servers` wants it."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    # -- brokers -----------------------------------------------------------------------------------------------------

    async def kill(self, node_id: int) -> None:
        """End a broker, as a crash does. Others take over what it led; its data is not lost."""
        await self.brokers[node_id].kill()
        for name, topic in self.topics.items():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == node_id and self.state.nodes:
                    self.move_leader(name, index)

    async def restart(self, node_id: int) -> None:
        """Start a broker again, at its port; it speaks what its `versions` say now. One that runs is killed first."""
        await self.kill(node_id)
        await self.brokers[node_id].start()

    def freeze(self, node_id: int) -> None:
        """Stop a broker as SIGSTOP does: connections open, nobody answers, and what arrives is kept."""
        self.brokers[node_id].freeze()

    def thaw(self, node_id: int) -> None:
        """Let it go on, with what has arrived meanwhile."""
        self.brokers[node_id].thaw()

    # -- topics ------------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> Topics:
        """All topics by name."""
        return self.state.topics

    def create_topic(self, name: str, partitions: int = 1, **config: object) -> FakeTopic:
        """Create a topic whose leaders are the brokers in turn.

        `config` are its settings with _ for the dots: `max_message_bytes` and `min_insync_replicas` have an effect.
        """
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        return self.state.create_topic(name, partitions, settings)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        del self.topics[name]

    def recreate_topic(self, name: str, partitions: int | None = None) -> FakeTopic:
        """Delete a topic and create it again: empty, with another id, and as many partitions if not said otherwise."""
        old = self.topics.pop(name)
        return self.state.create_topic(name, partitions or len(old.partitions), old.config)

    def move_leader(self, topic: str, partition: int, to: int | None = None) -> int:
        """Make another broker the leader, by default the next one that is up; returns which."""
        if to is None:
            now = self.topics[topic].partitions[partition].leader or 0
            others = [node_id for node_id in sorted(self.state.nodes) if node_id != now]
            to = next((node_id for node_id in others if node_id > now), others[0])
        self.state.move_leader(TopicPartition(topic, partition), to)
        return to

    def records(
        self, topic: str, partition: int | None = None, isolation: Isolation = "read_committed"
    ) -> list[ParsedRecord]:
        """The records that a reader sees, of one partition or of all."""
        found = self.topics[topic]
        return found.records(isolation) if partition is None else found.partitions[partition].records(isolation)

    def expire_producer_state(self, topic: str, partition: int | None = None) -> None:
        """Let leaders forget the producers that have no transaction open: they take any sequence number then."""
        for index, one in enumerate(self.topics[topic].partitions):
            if partition in (None, index):
                one.producers.expire()

    # -- rights ------------------------------------------------------------------------------------------------------

    def add_acls(self, *acls: Acl) -> None:
        """Add ACLs to a cluster that was made with some, from the next request on."""
        if self.security is None or self.security.acls is None:
            raise UsageError("This cluster was made without ACLs.", hint="Give it security=Security(acls=[]).")
        self.security = replace(self.security, acls=(*self.security.acls, *acls))

    # -- transactions and groups -------------------------------------------------------------------------------------

    def move_coordinator(self, key: str, to: int) -> None:
        """Have another broker coordinate a transactional id or a group."""
        self.state.coordinators[key] = to
        self.state.groups.move()

    def finalize(self, transaction_version: int) -> None:
        """Change the finalized feature; clients hear of it on their next connection."""
        self.state.finalize(transaction_version)

    def committed_offset(self, group: str, tp: TopicPartition) -> int | None:
        """The next offset that a group reads, None if it has committed none."""
        known = self.state.groups.get(group, FakeGroup()).offsets.get(tp)
        return None if known is None else known.offset

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def fault(self, kind: type[AnyRequest], **what: Any) -> Fault:
        """Order a `Fault`; earlier ones come first."""
        fault = Fault(kind, **what)
        self._faults.append(fault)
        return fault

    def fault_for(self, node_id: int, message: AnyRequest) -> Fault:
        """The fault that this request gets; one without any fault if none is left."""
        return next((fault for fault in self._faults if fault.takes(node_id, message)), Fault(type(message)))

    def seen_of(self, kind: type[AnyRequest], node: int | None = None) -> list[Any]:
        """The requests of a kind that arrived, at one node or at all."""
        return [one.message for one in self.seen if isinstance(one.message, kind) and node in (None, one.node)]
