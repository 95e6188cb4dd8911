"""From which broker a partition is read, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.reader.position import ENDLESS, Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.types import TopicPartition

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
NODES = [Node(node_id, "h", 9090 + node_id) for node_id in (1, 2, 3, 4)]
ONE, TWO, THREE, FOUR = NODES


def cluster(
    leader: Node | None = ONE,
    *,
    epoch: int = 5,
    offline: Sequence[Node] = (),
    nodes: Sequence[Node] = NODES,
    replicas: Sequence[Node] = (ONE, TWO, THREE),
) -> Cluster:
    infos = [PartitionInfo("t", at, leader, tuple(replicas), (), tuple(offline)) for at in (0, 1)]
    return Cluster(nodes, infos, leader_epochs={TP: epoch, OTHER: epoch})


class Bench:
    """Replicas of a cluster that a test changes."""

    def __init__(self) -> None:
        self.cluster = cluster()
        self.replicas = ReadReplicas(lambda: self.cluster, 300.0)

    def node(self, tp: TopicPartition = TP) -> Node | None:
        return self.replicas.node(self.cluster, tp)

    def named(self) -> bool:
        return self.replicas.name(TP, 2, by=1, now=1000.0)

    def answered(self, tp: TopicPartition, now: float) -> Node | None:
        self.replicas.answered([Position(tp=tp, offset=0, end=ENDLESS)], now)
        return self.node()


def test_a_named_follower_is_read_from_for_a_time() -> None:
    bench = Bench()
    assert (bench.node(), bench.replicas.version) == (ONE, 0)
    assert bench.named()
    assert (bench.node(), bench.node(OTHER), bench.replicas.version) == (TWO, ONE, 1)
    assert bench.answered(TP, 1299.0) == TWO
    # Only when none of its answers is on its way.
    assert bench.answered(OTHER, 1300.0) == TWO
    assert bench.answered(TP, 1300.0) == ONE
    assert bench.replicas.version == 2


@pytest.mark.parametrize(
    "changed",
    [
        cluster(TWO),
        cluster(None),
        cluster(epoch=6),
        cluster(offline=[TWO]),
        cluster(nodes=[ONE, THREE]),
        cluster(replicas=[ONE, THREE]),
        Cluster(),
    ],
    ids=["leader", "no leader", "epoch", "offline", "gone", "no replica", "no topic"],
)
def test_it_is_not_after_a_change_of_the_cluster(changed: Cluster) -> None:
    bench = Bench()
    bench.named()
    bench.cluster = changed
    assert bench.node() == changed.leader_for(TP)
    bench.cluster = cluster()
    assert bench.node() == ONE


@pytest.mark.parametrize(
    "change",
    [lambda replicas: replicas.clear(TP), lambda replicas: replicas.lost(2)],
    ids=["error", "connection"],
)
def test_it_is_not_after_an_error(change: Callable[[ReadReplicas], None]) -> None:
    bench = Bench()
    bench.named()
    change(bench.replicas)
    assert (bench.node(), bench.replicas.version) == (ONE, 2)
    change(bench.replicas)
    assert bench.replicas.version == 2


def test_another_broker_that_is_lost_changes_nothing() -> None:
    bench = Bench()
    bench.named()
    bench.replicas.lost(3)
    bench.replicas.clear(OTHER)
    assert (bench.node(), bench.replicas.version) == (TWO, 1)


@pytest.mark.parametrize(
    ("node_id", "by"), [(1, 1), (4, 1), (9, 1), (3, 2)], ids=["itself", "no replica", "unknown", "not the leader"]
)
def test_brokers_that_can_not_be_read_from(node_id: int, by: int) -> None:
    bench = Bench()
    assert not bench.replicas.name(TP, node_id, by=by, now=0.0)
    assert (bench.node(), bench.replicas.version) == (ONE, 0)


def test_the_leader() -> None:
    bench = Bench()
    assert bench.replicas.is_leader(TP, 1)
    assert not bench.replicas.is_leader(TP, 2)
    bench.cluster = Cluster()
    assert not bench.replicas.is_leader(TP, 1)
