"""Records for brokers whose addresses lead elsewhere for a while: each is stored once, and by the right one."""

from __future__ import annotations

import pytest

from aioprod.messages import ProduceRequest
from aioprod.testing import FakeCluster
from tests.support.producers import running, until

COUNT = 50


def values_of(brokers: FakeCluster) -> list[bytes]:
    return sorted(record.value or b"" for record in brokers.records("t"))


async def test_ports_that_are_swapped_lose_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async with FakeCluster(2) as brokers:
        brokers.create_topic("t", 2)
        async with running(brokers) as producer:
            for partition in (0, 1):
                await producer.send("t", b"first", partition=partition)
            for node in (1, 2):
                await brokers[node].kill(stay_in_metadata=True)
            brokers[1].port, brokers[2].port = brokers[2].port, brokers[1].port
            sent = [producer.submit("t", b"%d" % index, partition=index % 2) for index in range(COUNT)]
            for node in (1, 2):
                await brokers[node].start()
            for one in sent:
                await one
        assert values_of(brokers) == sorted([b"first", b"first", *(b"%d" % index for index in range(COUNT))])
        assert "is not broker" in caplog.text


async def test_another_cluster_gets_no_record() -> None:
    async with FakeCluster(2) as brokers, FakeCluster(2) as stranger:
        stranger.state.cluster_id = "theirs"
        for cluster in (brokers, stranger):
            cluster.create_topic("t", 2)
        stranger.state.topics["t"].id = brokers.state.topics["t"].id
        right = brokers[2].address
        brokers.state.nodes[2] = stranger[2].address
        led = [one.leader for one in brokers.topics["t"].partitions].index(2)
        async with running(brokers) as producer:
            sent = [producer.submit("t", b"%d" % index, partition=led) for index in range(COUNT)]
            await until(lambda: len(stranger.seen) >= 3)
            brokers.state.nodes[2] = right
            for one in sent:
                await one
        assert stranger.seen_of(ProduceRequest) == []
        assert values_of(brokers) == sorted(b"%d" % index for index in range(COUNT))
