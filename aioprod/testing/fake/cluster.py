"""`FakeCluster`: fake Kafka brokers and the calls by which a test controls them."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aioprod._process_bound import ProcessBound
from aioprod.errors import BrokerError, ConfigError, ErrorCode, UsageError
from aioprod.records.parser import ParsedRecord
from aioprod.testing.errors import UnusedFaultError, UnusedFaultWarning
from aioprod.testing.fake import checks
from aioprod.testing.fake.broker import FakeBroker
from aioprod.testing.fake.faults import NO_FAULT, Fault, Seen
from aioprod.testing.fake.state.cluster_state import FakeState
from aioprod.testing.fake.state.groups import FakeGroup
from aioprod.testing.fake.state.log import Follower, Isolation
from aioprod.testing.fake.state.timers import Timers
from aioprod.testing.fake.state.topics import FakeTopic, Topics
from aioprod.types import TopicPartition
from aioprod.wire.schema import AnyRequest

if TYPE_CHECKING:
    from aioprod.testing.acls import Acl
    from aioprod.testing.security import Security

__all__ = ["FakeCluster"]


class FakeCluster(ProcessBound):
    """Brokers with node ids from 1 on, on 127.0.0.1 in this event loop; an async context manager.

        async with FakeCluster(brokers=3) as cluster:
            topic = cluster.create_topic("orders", partitions=3)
            cluster.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
            ...                                             # a client that connects to cluster.bootstrap
            assert [record.value for record in topic.records()] == [b"a", b"b"]

    The event loop is the only clock, and all random choices come from `seed`. A broker handles the requests of one
    connection in order, as Kafka does: a held or delayed request blocks those behind it.

    `transaction_version` is the finalized feature: 2, 1, or 0 for brokers without it. `state` has topics and settings,
    `seen` every request in the order of arrival, `errors` the exceptions raised inside the brokers: leaving the
    `async with` block fails if there are any. `security` says how clients have to authenticate, as for a
    `KafkaCluster`; a change applies to new connections, and a change of its ACLs to the next requests.

    The brokers listen at free ports, or at `port` and those after it. `keeps_requests=False` leaves `seen` empty, for a
    cluster that runs for long.

    `racks` has the rack of each broker, None for none. Leaders name a follower in the client's rack, if there is one,
    as with RackAwareReplicaSelector (KIP-392); each broker is a replica of all partitions.

    Metadata requests create missing topics with one partition, as brokers do by default;
    `auto_create_topics_enable=False` turns that off. Faults that have hit nothing when the cluster ends cause an
    UnusedFaultWarning, or an UnusedFaultError if `strict`.

    Calls raise ConfigError, InvalidTopicError, UnknownTopicError and UsageError for invalid arguments.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        transaction_version: int = 2,
        seed: int = 0,
        security: Security | None = None,
        auto_create_topics_enable: bool = True,
        strict: bool = False,
        port: int = 0,
        keeps_requests: bool = True,
        racks: Sequence[str | None] = (),
    ) -> None:
        checks.check_count("brokers", brokers)
        checks.check_port(port, brokers)
        checks.check_racks(racks, brokers)
        self.security = security
        self.errors: list[Exception] = []
        self.state = FakeState(seed, Timers(self.errors))
        self.state.auto_create = auto_create_topics_enable
        self.state.racks.update((node_id, rack) for node_id, rack in enumerate(racks, start=1) if rack is not None)
        self.finalize(transaction_version)
        self.brokers = {
            node_id: FakeBroker(self, node_id, port and port + node_id - 1) for node_id in range(1, brokers + 1)
        }
        self.keeps_requests = keeps_requests
        self.seen: list[Seen] = []
        self._faults: list[Fault] = []
        self._strict = strict

    def __repr__(self) -> str:
        up, all_of_them = len(self.state.nodes), len(self.brokers)
        return f"<FakeCluster at {self.bootstrap}: {up} of {all_of_them} brokers up, {len(self.topics)} topics>"

    async def __aenter__(self) -> Self:
        try:
            for broker in self.brokers.values():
                await broker.start()
        except OSError:
            for broker in self.brokers.values():
                await broker.kill()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers.values():
            await broker.kill()
        self.state.timers.close()
        assert not self.errors, self.errors
        if kind is None and self.unused_faults:
            self._report_unused()

    def _report_unused(self) -> None:
        text = f"No request was hit by {', '.join(map(repr, self.unused_faults))}."
        if self._strict:
            raise UnusedFaultError(text, hint="Call end() of a fault that need not hit.")
        warnings.warn(f"{text} Call end() of a fault that need not hit.", UnusedFaultWarning, stacklevel=2)

    def tls_context(self) -> ssl.SSLContext | None:
        """The TLS context of the brokers' listeners, None for plaintext."""
        return None if self.security is None else self.security.server_context()

    def __getitem__(self, node_id: int) -> FakeBroker:
        self._check_node(node_id)
        return self.brokers[node_id]

    def _check_node(self, node_id: object) -> None:
        checks.check_node(node_id, self.brokers)

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """Host and port of each broker."""
        return tuple(broker.address for broker in self.brokers.values())

    @property
    def bootstrap(self) -> str:
        """The addresses as a value of `bootstrap.servers`."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    # --- brokers

    async def kill(self, node_id: int) -> None:
        """Stop a broker as a crash does. Other brokers become leaders of its partitions, whose data is kept."""
        await self[node_id].kill()
        for name, topic in self.topics.items():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == node_id and self.state.nodes:
                    self.move_leader(name, index)

    async def restart(self, node_id: int) -> None:
        """Start a broker again, at the same port and with its current `versions`; a running broker is killed first."""
        await self.kill(node_id)
        await self.brokers[node_id].start()

    def freeze(self, node_id: int) -> None:
        """Stop a broker as SIGSTOP does: connections stay open, no request is answered, and what arrives is kept."""
        self[node_id].freeze()

    def thaw(self, node_id: int) -> None:
        """Resume a frozen broker, which then handles the requests that arrived meanwhile."""
        self[node_id].thaw()

    # --- topics

    @property
    def topics(self) -> Topics:
        """All topics by name."""
        return self.state.topics

    def create_topic(self, name: str, partitions: int = 1, **config: object) -> FakeTopic:
        """Create a topic; the brokers lead its partitions in turn.

        `config` has its settings, with _ for the dots: `max_message_bytes` and `min_insync_replicas` have an effect.
        Raises BrokerError (TOPIC_ALREADY_EXISTS) when the topic exists, and UsageError when no broker is up.
        """
        checks.check_name(name)
        checks.check_count("partitions", partitions)
        if name in self.topics:
            raise BrokerError(
                f"Topic {name!r} exists already.",
                code=ErrorCode.TOPIC_ALREADY_EXISTS,
                hint="recreate_topic() deletes it and creates it again, without its records.",
            )
        if not self.state.nodes:
            raise UsageError(
                f"Topic {name!r} can't be created: no broker is up to lead its partitions.",
                hint="Start the cluster first: async with FakeCluster(...) as cluster.",
            )
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        return self.state.create_topic(name, partitions, settings)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        checks.known_topic(name, self.topics)
        self.state.delete_topic(name)

    def recreate_topic(self, name: str, partitions: int | None = None) -> FakeTopic:
        """Delete a topic and create it again: empty, with another id, by default with the same number of partitions."""
        old = checks.known_topic(name, self.topics)
        if partitions is not None:
            checks.check_count("partitions", partitions)
        self.state.delete_topic(name)
        return self.state.create_topic(name, partitions or len(old.partitions), old.config)

    def move_leader(self, topic: str, partition: int, to: int | None = None) -> int:
        """Make another broker the leader, by default the next one that is up; return its node id."""
        self._check_partition(topic, partition)
        if to is not None:
            self._check_node(to)
        else:
            now = self.topics[topic].partitions[partition].leader or 0
            others = [node_id for node_id in sorted(self.state.nodes) if node_id != now]
            if not others:
                raise UsageError(f"No other broker is up to lead partition {partition} of topic {topic!r}.")
            to = next((node_id for node_id in others if node_id > now), others[0])
        self.state.move_leader(TopicPartition(topic, partition), to)
        return to

    def hold_follower(
        self, node_id: int, topic: str, partition: int, *, high_watermark: int | None = None, log_end: int | None = None
    ) -> None:
        """Let a follower's copy of a log end at `log_end`, by default where the log ends now.

        Clients see what is before its high watermark, by default the same offset. Raises ConfigError for offsets that
        the log does not have.
        """
        self._check_node(node_id)
        self._check_partition(topic, partition)
        log = self.topics[topic].partitions[partition]
        end = log.next_offset if log_end is None else log_end
        follower = Follower(end if high_watermark is None else high_watermark, end)
        checks.check_follower(follower, log.next_offset)
        log.held[node_id] = follower
        self.state.wake_fetches()

    def release_follower(self, node_id: int, topic: str, partition: int) -> None:
        """Let a follower that was held have the whole log."""
        self._check_node(node_id)
        self._check_partition(topic, partition)
        self.topics[topic].partitions[partition].held.pop(node_id, None)
        self.state.wake_fetches()

    def records(
        self, topic: str, partition: int | None = None, isolation: Isolation = "read_committed"
    ) -> list[ParsedRecord]:
        """The records that a consumer sees, of one partition or of all."""
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ConfigError(f"isolation is {isolation!r}: it must be one of read_committed, read_uncommitted.")
        found = self._check_partition(topic, partition)
        return found.records(isolation) if partition is None else found.partitions[partition].records(isolation)

    def _check_partition(self, topic: str, partition: int | None) -> FakeTopic:
        found = checks.known_topic(topic, self.topics)
        if partition is not None:
            checks.check_partition(found, partition)
        return found

    def expire_producer_state(self, topic: str, partition: int | None = None) -> None:
        """Remove the state of producers without an open transaction: leaders then accept any sequence number."""
        for index, one in enumerate(self._check_partition(topic, partition).partitions):
            if partition in (None, index):
                one.producers.expire()

    # --- ACLs

    def add_acls(self, *acls: Acl) -> None:
        """Add ACLs, from the next request on. Raises UsageError for a cluster that was created without ACLs."""
        if self.security is None or self.security.acls is None:
            raise UsageError(
                "This cluster was created without ACLs.", hint="Create it with security=Security(acls=[])."
            )
        self.security = replace(self.security, acls=(*self.security.acls, *acls))

    # --- transactions and groups

    def move_coordinator(self, key: str, to: int) -> None:
        """Make another broker the coordinator of a transactional id or a group."""
        self._check_node(to)
        self.state.coordinators[key] = to
        self.state.groups.update_coordinators()

    def finalize(self, transaction_version: int) -> None:
        """Change the finalized `transaction.version`; clients learn of it on their next connection."""
        if transaction_version not in (0, 1, 2):
            raise ConfigError(f"transaction_version is {transaction_version!r}: it must be 0, 1 or 2.")
        self.state.finalize(transaction_version)

    def committed_offset(self, group: str, tp: TopicPartition) -> int | None:
        """The offset that a group has committed for a partition, None if it has committed none."""
        checks.check_topic_partition(tp, f"committed_offset({group!r}, ...) has {tp!r}")
        known = self.state.groups.get(group, FakeGroup()).offsets.get(tp)
        return None if known is None else known.offset

    # --- faults

    def fault(self, kind: type[AnyRequest], **what: Any) -> Fault:
        """Add a `Fault` with these fields; a request gets the first fault that matches it."""
        checks.check_served(kind, {served for broker in self.brokers.values() for served in broker.versions})
        fault = Fault(kind, **what)
        if fault.node is not None:
            self._check_node(fault.node)
        place = fault.partition
        # A topic's metadata has partition -1, and a topic may be created later.
        if place is not None and place.partition != -1 and place.topic in self.topics:
            checks.check_partition(self.topics[place.topic], place.partition)
        self._faults.append(fault)
        return fault

    @property
    def unused_faults(self) -> list[Fault]:
        """The faults that have not hit any request yet: the test may pass without them."""
        return [fault for fault in self._faults if fault.is_unused]

    def end_faults(self) -> None:
        """End all faults."""
        for fault in self._faults:
            fault.end()

    def fault_for(self, node_id: int, message: AnyRequest) -> Fault:
        """The first fault that hits this request, which counts; `NO_FAULT` if there is none."""
        return next((fault for fault in self._faults if fault.try_hit(node_id, message)), NO_FAULT)

    def seen_of(self, kind: type[AnyRequest], node: int | None = None) -> list[Any]:
        """The requests of one class that arrived, at one node or at all."""
        checks.check_kind(kind)
        if node is not None:
            self._check_node(node)
        return [one.message for one in self.seen if isinstance(one.message, kind) and node in (None, one.node)]
