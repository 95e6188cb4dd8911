"""`Gremlin`: injects faults of requests, connections, brokers and leaders, and repairs everything at the end.

Brokers may answer only what real brokers could; otherwise the fake cluster, and not the producer, would break the
guarantees (see `NEVER_STORED` and `_is_first_try`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from aioprod import TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from aioprod.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.records.parser import parse_batches
from aioprod.testing.fake import FakeCluster, FakeTopic, Fault
from aioprod.testing.fake.state.log import Isolation
from aioprod.testing.simulation import SimulatedLoop, Wire
from tests.simulation.ledger import Log, numbers_of
from tests.simulation.plan import Plan

__all__ = ["Gremlin"]

NOT_STORED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
NEVER_STORED = (
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)
"""No leader answers these for a batch that it has stored or may still receive: after them a client may send the records
in other batches."""
MAYBE_STORED = (
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
COORDINATED = (FindCoordinatorRequest, InitProducerIdRequest, AddPartitionsToTxnRequest, EndTxnRequest)
COORDINATOR_ERRORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
GARBAGE = (
    b"\x00\x00\x00\x05hello",
    b"\xff\xff\xff\xff",
    b"HTTP/1.1 400\r\n\r\n",
    b"\x00\x00\x00\x04\x00\x00\x00\x01",
)


class Gremlin:
    """Injects random faults until `stop`; `injected` counts them by kind, `codes` are the error codes among them."""

    def __init__(
        self, plan: Plan, loop: SimulatedLoop, cluster: FakeCluster, accumulator: Accumulator, random: Random
    ) -> None:
        self.plan = plan
        self.loop = loop
        self.cluster = cluster
        self.accumulator = accumulator
        self.random = random
        self.injected: Counter[str] = Counter()
        self._down: set[int] = set()
        self.deleted_topics: list[FakeTopic] = []
        self.codes: set[ErrorCode] = set()
        self._faults: list[Fault] = []
        self._repairs: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Inject faults at random intervals."""
        for _ in range(self.plan.faults_max if self.plan.faults else 0):
            await asyncio.sleep(self.random.random() * 2 * self.plan.fault_every_s)
            kind = self.random.choice(self.plan.faults)
            self.injected[kind] += 1
            self.loop.trace("fault", kind)
            getattr(self, "_" + kind.replace(" ", "_").replace("-", "_"))()

    async def stop(self) -> None:
        """End all faults: every broker runs, every topic exists, every partition has a leader."""
        for fault in self._faults:
            fault.end()
            fault.release()
        for task in self._repairs:
            await asyncio.wait([task])
        for wire in self.loop.network.wires:
            if self.random.random() < 0.5:
                wire.resume()
        self.loop.network.silent.clear()
        for name in self.plan.topics:
            self.create(name)
        for topic in self.cluster.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader is None:
                    self.cluster.state.move_leader(TopicPartition(topic.name, index), self._node())

    def lose_state(self) -> set[int]:
        """Let leaders lose the producers' states, and maybe the end of their logs; return the lost records' numbers."""
        lost: set[int] = set()
        for topic in self.cluster.topics.values():
            for partition in topic.partitions:
                partition.producers.expire()
                if self.plan.calm == "truncate":
                    for _ in range(min(self.random.randint(0, 3), len(partition.log))):
                        batch = partition.log.pop().batch
                        partition.next_offset = batch.base_offset
                        lost.update(numbers_of(batch.records()).values())
                    for batch, _ in partition.log:
                        if batch.producer_id >= 0:
                            partition.producers.of(batch.producer_id).append(batch, batch.base_offset)
        self.injected[self.plan.calm] += 1
        return lost

    # --- requests

    def _inject(self, kind: Any = ProduceRequest, **what: Any) -> None:
        self._faults.append(self.cluster.fault(kind, node=self.random.choice([None, self._node()]), **what))

    def _drop(self) -> None:
        drop = self.random.choice(["before", "after", "lurking"])
        self._inject(drop=drop, delay_s=self._delay_s())

    def _error(self) -> None:
        codes, times = self.random.choice([NOT_STORED, MAYBE_STORED, NEVER_STORED]), self.random.choice([1, 1, 3, 30])
        code = self.random.choice(codes)
        self.codes.add(code)
        self._inject(
            error=code,
            edit=self._named_culprits if code == ErrorCode.INVALID_RECORD and self.random.random() < 0.7 else None,
            partition=self.random.choice([None, self._partition()]),
            apply=codes is MAYBE_STORED,
            times=times,
            when=self._is_first_try if codes is NEVER_STORED else None,
        )

    def _is_first_try(self, request: ProduceRequest) -> bool:
        """Whether no batch of a request was sent before, so that no copy of it can be stored or in flight."""
        names = {topic.id: topic.name for topic in self.cluster.topics.values()}
        for topic in request.topic_data:
            known = self.accumulator.topics.get(topic.name or names.get(topic.topic_id, ""))
            for data in topic.partition_data:
                (sent,) = parse_batches(bytes(data.records or b""))
                waiting = known.partitions[data.index].unacknowledged if known else ()
                if not any(batch.base_sequence == sent.base_sequence and batch.attempts == 1 for batch in waiting):
                    return False
        return True

    def _named_culprits(self, answer: ProduceResponse) -> ProduceResponse:
        """Report some of the records as invalid (KIP-467)."""

        def named(row: PartitionProduceResponse) -> PartitionProduceResponse:
            if row.error_code != ErrorCode.INVALID_RECORD:
                return row
            indexes = self.random.sample(range(4), self.random.randint(1, 2))
            errors = (BatchIndexAndErrorMessage(batch_index=index) for index in sorted(indexes))
            return replace(row, record_errors=tuple(errors))

        return _each_row(answer, named)

    def _duplicate(self) -> None:
        """Answer a batch that is stored now as a duplicate."""
        self._inject(edit=_as_duplicates)

    def _delay(self) -> None:
        self._inject(delay_s=self.random.random() * self.random.choice([0.05, 3.0]))

    def _silence(self) -> None:
        self._inject(**{self.random.choice(["silent", "half_open"]): True})

    def _cut_answer(self) -> None:
        self._inject(cut_after_bytes=self.random.randrange(40))

    def _garbage(self) -> None:
        kind = self.random.choice([ProduceRequest, MetadataRequest, ApiVersionsRequest])
        self._inject(kind, reply=self.random.choice(GARBAGE))

    def _throttle(self) -> None:
        self._inject(throttle_ms=self.random.choice([1, 50, 700]))

    def _metadata(self) -> None:
        what: dict[str, Any] = self.random.choice(
            [
                {"drop": "before"},
                {"drop": "after"},
                {"silent": True},
                {"delay_s": self._delay_s() or 0.001},
                {"error": ErrorCode.LEADER_NOT_AVAILABLE},
                {"error": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
            ]
        )
        self._inject(MetadataRequest, **what)

    def _delay_s(self) -> float:
        return self.random.choice([0.0, 0.0, self.random.random()])

    # --- transactions

    def _coordinator(self) -> None:
        kind = self.random.choice(COORDINATED)
        if self.random.random() < 0.5:
            self._inject(kind, error=self.random.choice(COORDINATOR_ERRORS), times=self.random.choice([1, 1, 3]))
        else:
            how = self.random.choice(["before", "after", "lurking"])
            self._inject(kind, drop=how, delay_s=self._delay_s())

    def _move_coordinator(self) -> None:
        self.cluster.move_coordinator("simulated", self._node())

    def _finalize(self) -> None:
        self.cluster.finalize(self.random.choice([1, 2]))

    # --- log-ins

    def _password(self) -> None:
        """Change the user's password for a while: sessions continue, but can't be renewed."""
        self.cluster.security = self.plan.security("another")
        self._later(self._restore_password)

    def _restore_password(self) -> None:
        self.cluster.security = self.plan.security()

    def _log_in(self) -> None:
        """Let a step of a log-in fail."""
        kind = self.random.choice([SaslHandshakeRequest, SaslAuthenticateRequest])
        what: list[dict[str, Any]] = [{"drop": "before"}, {"drop": "after"}, {"silent": True}, {"delay_s": 0.5}]
        self._inject(kind, **self.random.choice(what))

    # --- connections

    def _wire(self) -> Wire | None:
        wires = [wire for wire in self.loop.network.wires if wire.is_open]
        return self.random.choice(wires) if wires else None

    def _reset(self) -> None:
        if (wire := self._wire()) is not None:
            wire.reset(late=self.random.random() < 0.5)

    def _stall(self) -> None:
        wire = self._wire()
        if wire is None:
            return
        side = self.random.randrange(3)
        if side != 1:
            wire.client.stall()
        if side != 0:
            wire.server.stall()
        if self.random.random() < 0.7:
            self._later(wire.resume)

    def _cut(self) -> None:
        self._repair(self.cluster.brokers[self._node()].cut())

    def _black_hole(self) -> None:
        """Make a broker's host unreachable for a while: no answers, and no resets."""
        address = self.cluster.brokers[self._node()].address
        wires = self.loop.network.wires_to(address)
        for wire in wires:
            wire.stall()
        self.loop.network.silent.add(address)

        def back() -> None:
            self.loop.network.silent.discard(address)
            for wire in wires:
                wire.resume()

        self._later(back)

    # --- brokers

    def _node(self) -> int:
        return self.random.randint(1, self.plan.brokers)

    def _partition(self) -> TopicPartition:
        topic = self.random.choice(list(self.plan.topics))
        return TopicPartition(topic, self.random.randrange(self.plan.topics[topic]))

    def _leader(self) -> None:
        self._elect(self._partition(), self._node())

    def _leaderless(self) -> None:
        tp = self._partition()
        self._elect(tp, None)
        self._later(lambda: self._elect(tp, self._node()))

    def _elect(self, tp: TopicPartition, node: int | None) -> None:
        """Move the leader, if the partition exists."""
        topic = self.cluster.topics.get(tp.topic)
        if topic is not None and tp.partition < len(topic.partitions):
            self.cluster.state.move_leader(tp, node)

    def _kill(self) -> None:
        node = self._node()
        if node in self._down:
            return
        self._down.add(node)
        broker = self.cluster.brokers[node]

        async def restart() -> None:
            await broker.kill(stay_in_metadata=self.random.random() < 0.5)
            await asyncio.sleep(self.random.random() * self.random.choice([0.1, 3.0]))
            await broker.start()
            self._down.discard(node)

        self._repair(restart())

    def _freeze(self) -> None:
        broker = self.cluster.brokers[self._node()]
        broker.freeze()
        self._later(broker.thaw)

    def _upgrade(self) -> None:
        """Change the broker's Produce versions, which clients learn when they connect again."""
        broker = self.cluster.brokers[self._node()]
        # Brokers without version 12 have no transaction.version 2.
        least = 12 if self.plan.transaction_version else 7
        broker.versions[ProduceRequest] = (3, self.random.randint(least, ProduceRequest.VERSIONS[1]))
        self._repair(broker.cut())

    # --- topics

    def _recreate(self) -> None:
        """Delete a topic, and create it again at once or after a while, unless it was created meanwhile."""
        name = self.random.choice(list(self.plan.topics))
        self._delete(name)
        if self.random.random() < 0.5:
            self.create(name)
        else:
            self._later(lambda: self.create(name))

    def _delete(self, name: str) -> None:
        topic = self.cluster.topics.pop(name, None)
        if topic is not None:
            self.deleted_topics.append(topic)

    def create(self, name: str) -> None:
        """Create a topic unless it exists with all of its partitions."""
        topic = self.cluster.topics.get(name)
        is_complete = topic is not None and len(topic.partitions) >= self.plan.topics[name]
        if self.cluster.state.nodes and not is_complete:
            self._delete(name)
            self.create_new(name)

    def create_new(self, name: str) -> None:
        """Create a topic as planned."""
        limit = self.plan.message_max_bytes
        config = {} if limit is None else {"max_message_bytes": limit}
        self.cluster.create_topic(name, self.plan.topics[name], **config)

    def logs(self, isolation: Isolation = "read_uncommitted") -> Log:
        """The records in all topics, existing and deleted."""
        return {
            (topic.name, which, index): numbers_of(partition.records(isolation))
            for which, topic in enumerate([*self.deleted_topics, *self.cluster.topics.values()])
            for index, partition in enumerate(topic.partitions)
        }

    # --- repairs

    def _later(self, repair: Any) -> None:
        async def wait() -> None:
            await asyncio.sleep(self.random.random() * self.random.choice([0.1, 1.0, 10.0]))
            repair()

        self._repair(wait())

    def _repair(self, work: Any) -> None:
        self._repairs.append(self.loop.create_task(work))


def _as_duplicates(answer: ProduceResponse) -> ProduceResponse:
    def as_duplicate(row: PartitionProduceResponse) -> PartitionProduceResponse:
        if row.error_code != ErrorCode.NONE:
            return row
        return replace(row, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER, base_offset=-1)

    return _each_row(answer, as_duplicate)


def _each_row(
    answer: ProduceResponse, change: Callable[[PartitionProduceResponse], PartitionProduceResponse]
) -> ProduceResponse:
    topics = (
        replace(topic, partition_responses=tuple(change(row) for row in topic.partition_responses))
        for topic in answer.responses
    )
    return replace(answer, responses=tuple(topics))
