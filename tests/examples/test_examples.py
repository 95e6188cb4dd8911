"""The parts of the examples that need no broker."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from aioprod import Producer
from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    MetadataTimeoutError,
    NotSentError,
    RecordTooLargeError,
    RejectedError,
    UnknownOutcomeError,
    UnknownTopicError,
)
from aioprod.testing import FakeCluster
from examples import group_worker
from examples.asgi_service import make_app
from examples.custom_partitioner import PriorityPartitioner


def cluster(partitions: int) -> Cluster:
    node = Node(1, "localhost", 9092, None)
    return Cluster([node], [PartitionInfo("t", index, node, (node,), (node,), ()) for index in range(partitions)])


def test_the_priority_lane_keeps_its_partition_free_of_others() -> None:
    partitioner = PriorityPartitioner({b"hospital"})
    assert partitioner.partition("t", b"hospital", b"", cluster(4)) == 0
    chosen = {partitioner.partition("t", b"%d" % number, b"", cluster(4)) for number in range(200)}
    assert chosen == {1, 2, 3}
    assert partitioner.partition("t", None, b"", cluster(1)) == 0


class Failing:
    """A producer whose every record fails in the same way."""

    def __init__(self, error: AioprodError) -> None:
        self._error = error

    async def send(self, topic: str, value: bytes, *, key: bytes) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotSentError("never left", topic="orders", partition=0), 503),
        (RejectedError("refused", topic="orders", partition=0), 503),
        (BufferFullError("full"), 503),
        (MetadataTimeoutError("no broker"), 503),
        (UnknownTopicError("no topic"), 503),
        (RecordTooLargeError("too large"), 503),
        (UnknownOutcomeError("no answer", topic="orders", partition=0), 504),
    ],
)
async def test_the_service_tells_whether_the_order_may_be_stored(error: AioprodError, status: int) -> None:
    app = make_app("localhost:1")
    failing: Any = Failing(error)
    app.state.producer = failing
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        response = await client.post("/orders/42", content=b"{}")
    assert response.status_code == status
    assert response.json()["error"] == error.message


class Interrupted(group_worker.Worker):
    """A worker whose work on the third job fails."""

    def do(self, job: bytes) -> None:
        if job == b"2":
            raise RuntimeError("the work has failed")
        super().do(job)


async def test_a_job_whose_work_failed_is_done_by_the_next_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_worker, "JOBS", 3)
    async with FakeCluster() as brokers:
        brokers.create_topic(group_worker.TOPIC, partitions=1)
        async with Producer(brokers.bootstrap) as producer:
            await producer.send_many(group_worker.TOPIC, [b"%d" % job for job in range(6)])
        with pytest.raises(RuntimeError, match="the work has failed"):
            await Interrupted(brokers.bootstrap, "one", set()).work()
        second = group_worker.Worker(brokers.bootstrap, "two", set())
        await second.work()
    assert second.done == {b"2", b"3", b"4"}
