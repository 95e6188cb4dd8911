"""A producer and a member in one of three racks: what crosses zones, and that nothing is lost when a rack goes away."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest

from aioprod import Producer
from aioprod.group import Member
from aioprod.testing import KafkaCluster
from integration.support.figures import Figures

pytestmark = pytest.mark.timeout(180)

RACKS: Final = ("a", "b", "c")
OWN: Final = 2
"""The broker in the clients' rack."""
ROUND: Final = 200
"""Records that are sent together."""
PAUSE_S: Final = 0.02
"""After each round: a broker that starts needs the processors that traffic without a pause would take."""
PHASE: Final = 20 * ROUND
LAG_MAX: Final = PHASE // 2
"""Records that may wait for the member: no more are sent meanwhile, so that a slow machine has no backlog to read."""
PATIENCE_S: Final = 90.0

Bytes = Mapping[str, float]


class Traffic:
    """Records that are sent in rounds and read; each value is another one."""

    def __init__(self, producer: Producer, member: Member, topic: str) -> None:
        self._producer = producer
        self._member = member
        self._topic = topic
        self._is_ending = False
        self.sent = 0
        self.read = Counter[bytes]()

    async def send(self) -> None:
        while not self._is_ending:
            values = [b"%0400d" % number for number in range(self.sent, self.sent + ROUND)]
            await asyncio.gather(*(self._producer.send(self._topic, value) for value in values))
            self.sent += ROUND
            await asyncio.sleep(PAUSE_S)
            while self.sent > len(self.read) + LAG_MAX:
                await asyncio.sleep(0.01)

    async def receive(self) -> None:
        async for record in self._member:
            assert record.value is not None
            self.read[record.value] += 1

    async def pass_by(self) -> None:
        """Wait until PHASE more records were sent, and as many were read as were sent by then.

        So bytes of the phase are fetched in it, even if records waited for the member when it began.
        """
        count = self.sent + PHASE
        while min(self.sent, len(self.read)) < count:
            await asyncio.sleep(0.01)

    def end(self) -> None:
        """Send no more."""
        self._is_ending = True

    async def all_read(self) -> None:
        """Wait until all records that were sent were read."""
        while len(self.read) < self.sent:
            await asyncio.sleep(0.01)

    @property
    def bytes(self) -> Bytes:
        return {**self._producer.metrics(), **self._member.metrics()}


def shares(before: Bytes, after: Bytes) -> tuple[float, float]:
    """The part of the bytes that was sent within the zone, and of those that were fetched."""
    within, across = (
        [after[name] - before[name] for name in names]
        for names in (
            ("bytes_sent_within_zone_total", "bytes_consumed_within_zone_total"),
            ("bytes_sent_across_zones_total", "bytes_consumed_across_zones_total"),
        )
    )
    sent, fetched = (near / (near + far) for near, far in zip(within, across, strict=True))
    return sent, fetched


@asynccontextmanager
async def traffic(cluster: KafkaCluster, topic: str) -> AsyncIterator[Traffic]:
    """Traffic of a producer and a member in the rack of OWN; ends with all records read."""
    zone: dict[str, Any] = {"client_rack": RACKS[OWN - 1], "metadata_max_age_ms": 2_000}
    servers = cluster.bootstrap_servers
    member = Member(servers, group_id="g", topics=topic, auto_offset_reset="earliest", **zone)
    async with Producer(servers, partitioner_rack_aware=True, **zone) as producer, member:
        flow = Traffic(producer, member, topic)
        async with asyncio.TaskGroup() as tasks:
            sender = tasks.create_task(flow.send())
            receiver = tasks.create_task(flow.receive())
            yield flow
            flow.end()
            await sender
            await flow.all_read()
            receiver.cancel()


async def test_three_racks(figures: Figures) -> None:
    async with (
        await KafkaCluster.start(
            3,
            racks=RACKS,
            min_insync_replicas=2,
            leader_imbalance_check_interval_seconds=1,
            # No leader moves because a busy machine holds up the heartbeats of its broker.
            broker_session_timeout_ms=30_000,
        ) as cluster,
        asyncio.timeout(PATIENCE_S),
    ):
        await cluster.create_topic("t", 12)
        async with traffic(cluster, "t") as flow:
            await flow.pass_by()
            start = flow.bytes
            await flow.pass_by()
            up = shares(start, flow.bytes)

            await cluster.stop_broker(OWN)
            await flow.pass_by()
            stopped = flow.bytes
            await flow.pass_by()
            away = shares(stopped, flow.bytes)

            await cluster.restart(OWN)
            restarted_at = time.monotonic()
            back = (0.0, 0.0)
            # Its leaders come back, and its followers catch up.
            while back != (1.0, 1.0):
                before = flow.bytes
                await flow.pass_by()
                back = shares(before, flow.bytes)
            back_s = time.monotonic() - restarted_at
            whole = shares(start, flow.bytes)
        assert flow.read == Counter({b"%0400d" % number: 1 for number in range(flow.sent)})
    assert (up, away, back) == ((1.0, 1.0), (0.0, 0.0), (1.0, 1.0))
    for what, share in zip(("sent", "fetched"), up, strict=True):
        figures.add(f"% of the bytes {what} within the zone, three racks", f"{share:.1%}"[:-1])
    for what, share in zip(("sent", "fetched"), whole, strict=True):
        figures.add(f"% of the bytes {what} within it, its broker stopped and started again", f"{share:.1%}"[:-1])
    figures.add("s from its start until all bytes are within the zone again", f"{back_s:.1f}")
    figures.add("records sent and read meanwhile, each once", flow.sent)
