"""Who breaks things: requests, connections, brokers and leaders, and who mends it all in the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

from aioprod import TopicPartition
from aioprod.errors import ErrorCode
from aioprod.messages import ApiVersionsRequest, MetadataRequest, ProduceRequest
from aioprod.testing.simulation import SimulatedLoop, Wire
from simulation.plan import Plan
from tests.support.fake_broker import Fault, FakeBrokers

__all__ = ["Gremlin"]

NOT_STORED = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.POLICY_VIOLATION,
    ErrorCode.INVALID_RECORD,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
MAYBE_STORED = (
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Gremlin:
    """Draws faults until it is told to stop; `injected` counts them by kind."""

    def __init__(self, plan: Plan, loop: SimulatedLoop, brokers: FakeBrokers, random: Random) -> None:
        self.plan = plan
        self.loop = loop
        self.brokers = brokers
        self.random = random
        self.injected: Counter[str] = Counter()
        self._ordered: list[Fault] = []
        self._mending: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Break something now and then."""
        for _ in range(self.plan.faults_max if self.plan.faults else 0):
            await asyncio.sleep(self.random.random() * 2 * self.plan.fault_every_s)
            kind = self.random.choice(self.plan.faults)
            self.injected[kind] += 1
            self.loop.trace("fault", kind)
            getattr(self, "_" + kind.replace(" ", "_"))()

    async def stop(self) -> None:
        """Mend everything: no fault is left, every broker runs, every partition has a leader."""
        for fault in self._ordered:
            fault.times = fault.hits
            fault.release()
        for task in self._mending:
            await asyncio.wait([task])
        for wire in self.loop.network.wires:
            if self.random.random() < 0.5:
                wire.resume()
        self.loop.network.silent.clear()
        for topic in self.brokers.state.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader is None:
                    self.brokers.state.move_leader(TopicPartition(topic.name, index), self._node())

    # -- requests ----------------------------------------------------------------------------------------------------

    def _order(self, kind: Any = ProduceRequest, **what: Any) -> None:
        self._ordered.append(self.brokers.fault(kind, node=self.random.choice([None, self._node()]), **what))

    def _drop(self) -> None:
        self._order(drop=self.random.choice(["before", "after"]), delay_s=self._delay_s())

    def _error(self) -> None:
        stored = self.random.random() < 0.3
        code = self.random.choice(MAYBE_STORED if stored else NOT_STORED)
        tp = self.random.choice([None, self._partition()])
        self._order(error=code, partition=tp, apply=stored, times=self.random.choice([1, 1, 3]))

    def _delay(self) -> None:
        self._order(delay_s=self.random.random() * self.random.choice([0.05, 3.0]))

    def _silence(self) -> None:
        self._order(silent=True)

    def _garbage(self) -> None:
        reply = self.random.choice([b"\x00\x00\x00\x05hello", b"\xff\xff\xff\xff", b"HTTP/1.1 400\r\n\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x01"])
        self._order(self.random.choice([ProduceRequest, MetadataRequest, ApiVersionsRequest]), reply=reply)

    def _throttle(self) -> None:
        self._order(throttle_ms=self.random.choice([1, 50, 700]))

    def _metadata(self) -> None:
        what = self.random.choice(
            [{"drop": "before"}, {"drop": "after"}, {"silent": True}, {"delay_s": self._delay_s()},
             {"error": ErrorCode.LEADER_NOT_AVAILABLE}, {"error": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
        )
        self._order(MetadataRequest, **what)

    def _delay_s(self) -> float:
        return self.random.choice([0.0, 0.0, self.random.random()])

    # -- connections -------------------------------------------------------------------------------------------------

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
        self._mend(self.brokers[self._node()].cut())

    def _black_hole(self) -> None:
        """A broker's host is gone for a while: nothing comes back from it."""
        address = self.brokers[self._node()].address
        wires = self.loop.network.wires_to(address)
        for wire in wires:
            wire.stall()
        self.loop.network.silent.add(address)

        def back() -> None:
            self.loop.network.silent.discard(address)
            for wire in wires:
                wire.resume()

        self._later(back)

    # -- brokers -----------------------------------------------------------------------------------------------------

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
        """Move the leader, if there is such a partition by now."""
        topic = self.brokers.state.topics.get(tp.topic)
        if topic is not None and tp.partition < len(topic.partitions):
            self.brokers.state.move_leader(tp, node)

    def _kill(self) -> None:
        broker = self.brokers[self._node()]

        async def restart() -> None:
            await broker.kill(stay_in_metadata=self.random.random() < 0.5)
            await asyncio.sleep(self.random.random() * self.random.choice([0.1, 3.0]))
            if broker._server is None:
                await broker.start()

        self._mend(restart())

    # -- mending -----------------------------------------------------------------------------------------------------

    def _later(self, mend: Any) -> None:
        async def wait() -> None:
            await asyncio.sleep(self.random.random() * self.random.choice([0.1, 1.0, 10.0]))
            mend()

        self._mend(wait())

    def _mend(self, work: Any) -> None:
        self._mending.append(self.loop.create_task(work))
