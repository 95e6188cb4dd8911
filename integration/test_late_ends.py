"""The end of a transaction that reaches the coordinator late, in the next one, on real brokers of both versions.

Jepsen found this case: https://jepsen.io/analyses/bufstream-0.1.0.
"""

from __future__ import annotations

import pytest

from aioprod import Producer
from aioprod.errors import ErrorCode
from aioprod.messages import DescribeTransactionsRequest, EndTxnRequest
from aioprod.messages.describe_transactions import TransactionState
from aioprod.reader import read
from aioprod.testing import KafkaCluster
from integration.support.brokers import VERSIONS, SharedClusters
from integration.support.clusters import MakeTopic
from integration.support.held_requests import holding
from integration.support.reading import committed

pytestmark = pytest.mark.timeout(180)

FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker of a version behind a proxy."""
    return shared_clusters(version=request.param, proxied=True, auto_create_topics_enable=False)


async def transaction_of(cluster: KafkaCluster, transactional_id: str) -> TransactionState:
    """The present transaction as its coordinator describes it."""
    answer = await cluster.call(DescribeTransactionsRequest(transactional_ids=(transactional_id,)))
    return answer.transaction_states[0]


async def end(producer: Producer, commits: bool) -> None:
    await (producer.commit_transaction() if commits else producer.abort_transaction())


async def visible(cluster: KafkaCluster, topic: str) -> list[bytes | None]:
    """What readers of committed records see now, while a transaction is open."""
    records = read(topic, bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed")
    return [record.value async for record in records]


@pytest.mark.parametrize("second", [True, False], ids=["second commits", "second aborts"])
@pytest.mark.parametrize("first", [True, False], ids=["first commits", "first aborts"])
async def test_an_end_that_arrives_late_does_not_end_the_next_transaction(
    cluster: KafkaCluster, make_topic: MakeTopic, first: bool, second: bool
) -> None:
    topic = await make_topic(cluster)
    async with holding(cluster) as proxy, Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        late = proxy.hold(EndTxnRequest)
        await producer.begin_transaction()
        await producer.send(topic, b"first")
        await end(producer, first)
        await producer.begin_transaction()
        await producer.send(topic, b"second")
        present = await transaction_of(cluster, topic)
        assert present.transaction_state == "Ongoing"
        assert late.request.committed is first
        assert late.request.producer_id == present.producer_id
        assert (await late.release()).error_code in FENCED
        assert await transaction_of(cluster, topic) == present
        assert await visible(cluster, topic) == [b"first"] * first
        await end(producer, second)
    assert [record.value for record in await committed(cluster, topic)] == [b"first"] * first + [b"second"] * second


@pytest.mark.parametrize("commits", [True, False])
async def test_an_end_of_the_present_epoch_does(cluster: KafkaCluster, make_topic: MakeTopic, commits: bool) -> None:
    """Without a new epoch the late request would be this one: brokers tell transactions apart by nothing else."""
    topic = await make_topic(cluster)
    async with Producer(cluster.bootstrap_servers, transactional_id=topic) as producer:
        await producer.begin_transaction()
        await producer.send(topic, b"open")
        present = await transaction_of(cluster, topic)
        assert await visible(cluster, topic) == []
        forged = EndTxnRequest(
            transactional_id=topic,
            producer_id=present.producer_id,
            producer_epoch=present.producer_epoch,
            committed=commits,
        )
        assert (await cluster.call(forged)).error_code == 0
        assert [record.value for record in await committed(cluster, topic)] == [b"open"] * commits
