from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.types import TopicPartition

ONE = Node(1, "one", 9092)
TWO = Node(2, "two", 9093, "rack-b")
NODES = {1: ONE, 2: TWO, 3: Node(3, "::1", 9094)}


def info(topic: str, partition: int, leader: int | None = 1) -> PartitionInfo:
    return PartitionInfo(topic, partition, None if leader is None else NODES[leader], (ONE, TWO), (ONE,), (TWO,))


def test_node_has_an_address() -> None:
    assert TWO.address == "two:9093"
    assert NODES[3].address == "[::1]:9094"
    assert ONE.rack is None


def test_partition_info_shows_its_brokers_by_id() -> None:
    assert repr(info("t", 3)) == (
        "PartitionInfo(topic='t', partition=3, leader=1, replicas=[1, 2], in_sync_replicas=[1], offline_replicas=[2])"
    )
    assert "leader=None" in repr(info("t", 3, None))
    assert PartitionInfo("t", 0, None, (), ()).offline_replicas == ()


def test_cluster_answers_every_look_up() -> None:
    orders = UUID(int=7)
    cluster = Cluster(
        [ONE, TWO],
        [info("orders", 2), info("orders", 0, 2), info("orders", 1, None), info("__offsets", 0, 2)],
        cluster_id="c",
        controller=TWO,
        unauthorized_topics=["secret"],
        invalid_topics=["bad name"],
        internal_topics=["__offsets", "unknown"],
        topic_ids={"orders": orders},
        leader_epochs={TopicPartition("orders", 2): 5, TopicPartition("unknown", 0): 1},
    )
    assert (cluster.cluster_id, cluster.controller, cluster.nodes) == ("c", TWO, (ONE, TWO))
    assert cluster.topics == {"orders", "__offsets"}
    assert cluster.internal_topics == {"__offsets"}
    assert cluster.unauthorized_topics == {"secret"}
    assert cluster.invalid_topics == {"bad name"}
    assert cluster.topic_ids == {"orders": orders}
    assert (cluster.topic_id("orders"), cluster.topic_id("unknown")) == (orders, None)
    assert [p.partition for p in cluster.partitions_for_topic("orders")] == [0, 1, 2]
    assert [p.partition for p in cluster.available_partitions_for_topic("orders")] == [0, 2]
    assert cluster.partition_count("orders") == 3
    assert cluster.partitions_for_node(2) == (info("orders", 0, 2), info("__offsets", 0, 2))
    assert cluster.partition(TopicPartition("orders", 1)) == info("orders", 1, None)
    assert cluster.leader_for(TopicPartition("orders", 2)) == ONE
    assert cluster.leader_for(TopicPartition("orders", 1)) is None
    assert cluster.leader_epoch(TopicPartition("orders", 2)) == 5
    assert cluster.leader_epoch(TopicPartition("orders", 0)) == -1
    assert cluster.node(2) is TWO
    assert repr(cluster) == "Cluster(id='c', nodes=[1=one:9092, 2=two:9093], topics=2, partitions=4)"


def test_what_is_not_known_is_empty() -> None:
    cluster = Cluster()
    nowhere = TopicPartition("nowhere", 0)
    assert (cluster.nodes, cluster.topics, cluster.internal_topics) == ((), frozenset(), frozenset())
    assert (cluster.cluster_id, cluster.controller, cluster.node(1)) == (None, None, None)
    assert cluster.partitions_for_topic("nowhere") == ()
    assert cluster.available_partitions_for_topic("nowhere") == ()
    assert cluster.partitions_for_node(1) == ()
    assert cluster.partition_count("nowhere") == 0
    assert (cluster.partition(nowhere), cluster.leader_for(nowhere), cluster.leader_epoch(nowhere)) == (None, None, -1)


def test_cluster_never_changes() -> None:
    cluster = Cluster([ONE], [info("t", 0)], topic_ids={"t": UUID(int=1)})
    with pytest.raises(AttributeError, match="never changes"):
        cluster.nodes = ()
    with pytest.raises(TypeError):
        cluster.topic_ids["t"] = UUID(int=2)  # type: ignore[index]


def test_merged_takes_over_the_newer_and_shares_the_rest() -> None:
    old = Cluster(
        [ONE],
        [info("kept", 0), info("grown", 0), info("gone", 0)],
        cluster_id="c",
        controller=ONE,
        unauthorized_topics=["kept-secret", "opened", "told-again"],
        invalid_topics=["still-bad", "opened"],
        internal_topics=["kept"],
        leader_epochs={TopicPartition("kept", 0): 3},
    )
    newer = Cluster(
        [ONE, TWO],
        [info("grown", 0), info("grown", 1, 2)],
        cluster_id="c2",
        controller=TWO,
        unauthorized_topics=["gone", "told-again"],
        leader_epochs={TopicPartition("grown", 1): 1},
    )
    both = old.merged(newer, without=["gone", "opened", "grown"])
    assert both.topics == {"kept", "grown"}
    assert both.partitions_for_topic("kept") is old.partitions_for_topic("kept")
    assert both.partitions_for_topic("grown") is newer.partitions_for_topic("grown")
    assert both.partitions_for_node(2) == (info("grown", 1, 2),)
    assert both.leader_epoch(TopicPartition("kept", 0)) == 3
    assert both.leader_epoch(TopicPartition("grown", 1)) == 1
    assert (both.nodes, both.cluster_id, both.controller) == ((ONE, TWO), "c2", TWO)
    assert both.unauthorized_topics == {"kept-secret", "told-again", "gone"}
    assert both.invalid_topics == {"still-bad"}
    assert both.internal_topics == {"kept"}
    assert old.topics == {"kept", "grown", "gone"}


PARTITIONS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 6)), st.sampled_from([None, 1, 2, 3]), max_size=12
)


@settings(max_examples=60)
@given(old=PARTITIONS, new=PARTITIONS, without=st.sets(st.sampled_from("abc")))
def test_indexes_agree_with_a_walk_over_all_partitions(
    old: dict[tuple[str, int], int | None], new: dict[tuple[str, int], int | None], without: set[str]
) -> None:
    cluster = Cluster(NODES.values(), [info(*tp, leader) for tp, leader in old.items()]).merged(
        Cluster(NODES.values(), [info(*tp, leader) for tp, leader in new.items()]), without=without
    )
    replaced = {topic for topic, _ in new} | without
    leaders = {tp: leader for tp, leader in old.items() if tp[0] not in replaced} | new
    assert cluster.topics == {topic for topic, _ in leaders}
    for topic in "abc":
        indexes = sorted(partition for name, partition in leaders if name == topic)
        assert [p.partition for p in cluster.partitions_for_topic(topic)] == indexes
        assert [p.partition for p in cluster.available_partitions_for_topic(topic)] == [
            index for index in indexes if leaders[topic, index] is not None
        ]
        assert cluster.partition_count(topic) == len(indexes)
        for index in range(7):
            leader = leaders.get((topic, index))
            assert cluster.leader_for(TopicPartition(topic, index)) == (None if leader is None else NODES[leader])
            assert (cluster.partition(TopicPartition(topic, index)) is None) == ((topic, index) not in leaders)
    for node_id in NODES:
        assert {(p.topic, p.partition) for p in cluster.partitions_for_node(node_id)} == {
            tp for tp, leader in leaders.items() if leader == node_id
        }
