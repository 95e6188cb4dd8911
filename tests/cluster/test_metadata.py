"""What `Metadata` makes of the brokers' answers."""

from __future__ import annotations

import math
from uuid import UUID

import pytest

from aioprod.cluster import Node, topic_name_error
from aioprod.cluster.metadata import PARTITIONS_AT_ONCE
from aioprod.errors import BrokerError, ErrorCode, ProtocolError
from aioprod.types import TopicPartition
from tests.support.metadata_answers import broker, exchange, failed, new_metadata, partition, response, topic

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def test_the_first_answer_becomes_the_snapshot() -> None:
    metadata = new_metadata()
    assert metadata.cluster.nodes == ()
    assert metadata.age(5.0) == math.inf
    metadata.add_topic("t", 1.0)
    assert metadata.unknown_since("t") == 1.0
    t_id = UUID(int=5)
    update = exchange(
        metadata, 2.0, topic("t", [partition(1, leader=2), partition(0)], topic_id=t_id, is_internal=True)
    )
    assert (update.changed_topics, update.recreated, update.errors, update.error) == ({"t"}, set(), {}, None)
    cluster = metadata.cluster
    assert metadata.cluster is cluster
    assert (cluster.cluster_id, cluster.controller) == ("cluster", Node(1, "host1", 9092, "rack1"))
    first = cluster.partitions_for_topic("t")[0]
    assert first.leader == cluster.node(1)
    assert first.replicas == cluster.nodes
    assert first.in_sync_replicas == (cluster.node(1),)
    assert first.offline_replicas == (Node(9, "", -1),)
    assert cluster.leader_for(T1) == cluster.node(2)
    assert cluster.leader_epoch(T0) == 1
    assert cluster.topic_ids == {"t": t_id}
    assert cluster.internal_topics == {"t"}
    assert (metadata.version, metadata.last_success, metadata.age(5.0)) == (1, 2.0, 3.0)
    assert metadata.unknown_since("t") is None
    assert metadata.topic_error("t") is None


def test_an_equal_answer_keeps_the_snapshot() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0)]))
    cluster = metadata.cluster
    update = exchange(metadata, 1.0, topic("t", [partition(0)]))
    assert update.changed_topics == set()
    assert metadata.cluster is cluster
    assert metadata.version == 2


def test_topics_of_a_partial_answer_join_the_others() -> None:
    metadata = new_metadata()
    metadata.add_topic("a", 0.0)
    exchange(metadata, 0.0, topic("a", [partition(0)]))
    before = metadata.cluster
    metadata.add_topic("b", 1.0)
    update = exchange(metadata, 1.0, topic("b", [partition(0)]), topic("not wanted", [partition(0)]), topic(None))
    assert update.changed_topics == {"b"}
    assert metadata.cluster.topics == {"a", "b"}
    assert metadata.cluster.partitions_for_topic("a") is before.partitions_for_topic("a")
    assert metadata.tracked == {"a", "b"}


def test_older_leader_epochs_are_refused_per_partition() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 5), partition(1, 1, 5)]))
    update = exchange(metadata, 1.0, topic("t", [partition(0, 2, 4), partition(1, 2, 6)]))
    assert update.changed_topics == {"t"}
    cluster = metadata.cluster
    assert (cluster.leader_for(T0), cluster.leader_epoch(T0)) == (cluster.node(1), 5)
    assert (cluster.leader_for(T1), cluster.leader_epoch(T1)) == (cluster.node(2), 6)


def test_the_same_leader_epoch_is_accepted() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 5)]))
    exchange(metadata, 1.0, topic("t", [partition(0, -1, 5)]))
    assert metadata.cluster.leader_for(T0) is None


@pytest.mark.parametrize(("version", "epoch"), [(8, 4), (9, -1)])
def test_answers_without_trusted_epochs_are_accepted(version: int, epoch: int) -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 5)]))
    exchange(metadata, 1.0, topic("t", [partition(0, 2, epoch)]), version=version)
    cluster = metadata.cluster
    assert (cluster.leader_for(T0), cluster.leader_epoch(T0)) == (cluster.node(2), -1)


def test_a_topic_with_another_id_is_another_topic() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 9), partition(1, 1, 9)], topic_id=UUID(int=1)))
    update = exchange(metadata, 1.0, topic("t", [partition(0, 2, 0)], topic_id=UUID(int=2)))
    assert update.recreated == {"t"}
    assert update.changed_topics == {"t"}
    cluster = metadata.cluster
    assert cluster.partition_count("t") == 1
    assert (cluster.leader_for(T0), cluster.leader_epoch(T0)) == (cluster.node(2), 0)
    assert cluster.topic_ids == {"t": UUID(int=2)}


def test_a_recreated_topic_is_told_even_if_it_looks_the_same() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0)], topic_id=UUID(int=1)))
    update = exchange(metadata, 1.0, topic("t", [partition(0)], topic_id=UUID(int=2)))
    assert (update.recreated, update.changed_topics) == ({"t"}, {"t"})
    assert metadata.cluster.topic_ids == {"t": UUID(int=2)}


def test_the_first_id_of_a_topic_is_no_recreation_but_counts_over_the_epoch() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 9)]))
    update = exchange(metadata, 1.0, topic("t", [partition(0, 2, 0)], topic_id=UUID(int=1)))
    assert update.recreated == set()
    assert metadata.cluster.leader_epoch(T0) == 0
    exchange(metadata, 2.0, topic("t", [partition(0, 1, 3)]))
    assert metadata.cluster.topic_ids == {"t": UUID(int=1)}, "a broker that tells no ids does not take them away"


def test_partitions_do_not_vanish_while_the_id_stays() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0), partition(1)], topic_id=UUID(int=1)))
    assert exchange(metadata, 1.0, topic("t", [partition(0)], topic_id=UUID(int=1))).changed_topics == set()
    assert metadata.cluster.partition_count("t") == 2
    exchange(metadata, 2.0, topic("t", [partition(0)]))
    assert metadata.cluster.partition_count("t") == 1, "without ids it may be another topic"


@pytest.mark.parametrize("indexes", [(), (0, 2), (1,), (0, 0), (-1, 0)])
def test_an_answer_with_holes_is_not_usable_yet(indexes: tuple[int, ...]) -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    assert exchange(metadata, 0.0, topic("t", [partition(i) for i in indexes])).changed_topics == set()
    assert metadata.cluster.topics == set()
    assert metadata.next_refresh(0.0) == 1.0
    exchange(metadata, 1.0, topic("t", [partition(0), partition(1)]))
    exchange(metadata, 2.0, topic("t", [partition(i) for i in indexes]))
    assert metadata.cluster.partition_count("t") == 2


@pytest.mark.parametrize("error", [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_transient_error_keeps_the_old_partitions(error: ErrorCode) -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0)]))
    update = exchange(metadata, 1.0, failed("t", error))
    assert update.errors == {"t": error}
    assert update.changed_topics == set()
    assert metadata.topic_error("t") is error
    assert metadata.cluster.partition_count("t") == 1
    assert metadata.unknown_since("t") == 1.0
    exchange(metadata, 2.0, topic("t", [partition(0)]))
    assert metadata.unknown_since("t") is None


def test_unauthorized_and_invalid_topics_are_told_apart() -> None:
    metadata = new_metadata()
    metadata.add_topic("secret", 0.0)
    metadata.add_topic("bad", 0.0)
    exchange(metadata, 0.0, topic("secret", [partition(0)]), topic("bad", [partition(0)]))
    update = exchange(
        metadata,
        1.0,
        failed("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        failed("bad", ErrorCode.INVALID_TOPIC_EXCEPTION),
    )
    assert update.changed_topics == {"secret", "bad"}
    cluster = metadata.cluster
    assert (cluster.unauthorized_topics, cluster.invalid_topics) == (frozenset(["secret"]), frozenset(["bad"]))
    assert cluster.topics == set()
    assert metadata.unknown_since("secret") == 1.0
    exchange(metadata, 2.0, failed("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED), topic("bad", [partition(0)]))
    assert metadata.unknown_since("secret") == 1.0
    assert metadata.cluster.invalid_topics == set()
    assert metadata.cluster.unauthorized_topics == {"secret"}


def test_a_code_that_nobody_knows_yet_comes_through_as_a_number() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    assert exchange(metadata, 0.0, topic("t", error=999)).errors == {"t": 999}
    assert metadata.topic_error("t") == 999


def test_auto_creation_counts_only_the_answers_that_say_unknown() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    assert metadata.unknown_attempts("t") == 0
    for attempt in (1, 2):
        exchange(metadata, 0.0, failed("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        assert metadata.unknown_attempts("t") == attempt
    assert metadata.topic_error("t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    exchange(metadata, 1.0, failed("t", ErrorCode.LEADER_NOT_AVAILABLE))
    assert metadata.unknown_attempts("t") == 0
    exchange(metadata, 2.0, topic("t", [partition(0)]))
    assert (metadata.unknown_attempts("t"), metadata.topic_error("t")) == (0, None)
    assert metadata.cluster.partition_count("t") == 1


def test_nothing_is_known_of_a_topic_that_nobody_wants() -> None:
    metadata = new_metadata()
    assert metadata.topic_error("t") is None
    assert metadata.unknown_since("t") is None
    assert metadata.unknown_attempts("t") == 0


def test_a_topic_that_is_given_up_is_dropped() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0)]))
    metadata.forget_topic("t")
    metadata.forget_topic("t")
    assert metadata.cluster.topics == set()
    assert metadata.tracked == set()


def test_leaders_follow_the_brokers_that_are_alive() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    metadata.add_topic("u", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1), partition(1, 2)]), topic("u", [partition(0, 1)]))
    u_before = metadata.cluster.partitions_for_topic("u")
    metadata.add_topic("v", 1.0)
    metadata.build_request(1.0, True)
    update = metadata.handle_response(response(topic("v"), brokers=[broker(1)]), 1.0, version=12)
    assert update.changed_topics == {"t", "u"}, "a replica of u is gone, too"
    assert metadata.cluster.leader_for(T1) is None
    metadata.build_request(2.0, True)
    metadata.handle_response(response(topic("v"), brokers=[broker(1), broker(2, "moved")]), 2.0, version=12)
    assert metadata.cluster.leader_for(T1) == Node(2, "moved", 9092, "rack2")
    metadata.build_request(3.0, True)
    metadata.handle_response(response(topic("v")), 3.0, version=12)
    assert metadata.cluster.partitions_for_topic("u") == u_before


def test_of_very_many_partitions_only_some_follow_the_brokers_at_once() -> None:
    metadata = new_metadata()
    rows = [partition(index, leader=2) for index in range(PARTITIONS_AT_ONCE // 2)]
    names = [f"t{number}" for number in range(5)]
    for name in names:
        metadata.add_topic(name, 0.0)
    metadata.build_request(0.0, True)
    metadata.handle_response(response(*(topic(name, rows) for name in names)), 0.0, version=12)
    metadata.add_topic("new", 1.0)
    metadata.build_request(1.0, True)
    metadata.handle_response(response(brokers=[broker(1)]), 1.0, version=12)
    metadata.forget_topic("t0")
    turns = 1
    while metadata.is_behind:
        metadata.rebind()
        turns += 1
    assert turns == 3
    for name in names:
        assert metadata.cluster.available_partitions_for_topic(name) == ()
    assert metadata.rebind() == set()


def test_cluster_id_stays_and_controller_follows() -> None:
    metadata = new_metadata()
    exchange(metadata, 0.0)
    metadata.build_request(1.0, True)
    metadata.handle_response(response(cluster_id=None, controller=2), 1.0, version=1)
    assert metadata.cluster.cluster_id == "cluster"
    assert metadata.cluster.controller == metadata.cluster.node(2)


def test_an_answer_without_brokers_is_refused() -> None:
    metadata = new_metadata()
    metadata.build_request(0.0, True)
    update = metadata.handle_response(response(brokers=[]), 0.0, version=12)
    assert isinstance(update.error, ProtocolError)
    assert metadata.last_failure is update.error
    assert metadata.version == 0
    assert metadata.next_refresh(0.0) == 1.0


@pytest.mark.parametrize(("code", "text"), [(129, "REBOOTSTRAP_REQUIRED"), (999, "error 999")])
def test_an_error_for_the_whole_answer_is_refused(code: int, text: str) -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    metadata.build_request(0.0, True)
    update = metadata.handle_response(response(topic("t", [partition(0)]), error=code), 0.0, version=13)
    assert isinstance(update.error, BrokerError)
    assert update.error.code == code
    assert text in str(update.error)
    assert metadata.cluster.topics == set()


def test_a_leader_hint_is_taken_over() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 5), partition(1, 1, 5)]))
    assert metadata.apply_leader_hint(T0, 2, 6, None, 1.0)
    cluster = metadata.cluster
    assert (cluster.leader_for(T0), cluster.leader_epoch(T0)) == (cluster.node(2), 6)
    assert cluster.leader_for(T1) == cluster.node(1)
    assert metadata.version == 2
    exchange(metadata, 2.0, topic("t", [partition(0, 1, 5), partition(1, 1, 5)]))
    assert metadata.cluster.leader_epoch(T0) == 6


def test_a_leader_hint_brings_its_broker() -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 5), partition(1, 3, 5)]))
    third = Node(3, "third", 9092)
    assert metadata.apply_leader_hint(T0, 3, 6, third, 1.0)
    assert metadata.cluster.nodes[-1] == third
    assert metadata.cluster.leader_for(T0) == third
    assert metadata.cluster.leader_for(T1) == third, "it leads what it was said to lead before, too"
    moved = Node(3, "moved", 9092)
    assert metadata.apply_leader_hint(T0, 3, 7, moved, 1.0)
    assert metadata.cluster.leader_for(T1) == moved


@pytest.mark.parametrize(
    ("tp", "leader", "epoch"),
    [
        (T0, 2, 5),
        (T0, -1, 6),
        (T0, 2, -1),
        (T0, 3, 6),
        (TopicPartition("t", 7), 2, 6),
        (TopicPartition("nowhere", 0), 2, 6),
    ],
)
def test_a_leader_hint_that_is_no_news_or_not_usable_is_refused(tp: TopicPartition, leader: int, epoch: int) -> None:
    metadata = new_metadata()
    metadata.add_topic("t", 0.0)
    exchange(metadata, 0.0, topic("t", [partition(0, 1, 5)]))
    before = metadata.cluster
    assert not metadata.apply_leader_hint(tp, leader, epoch, None, 1.0)
    assert metadata.cluster is before
    assert metadata.version == 1


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 249, "...", "__consumer_offsets"])
def test_legal_topic_names(name: str) -> None:
    assert topic_name_error(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a\n", "Ünicode", "a/b", "x" * 250, b"bytes" * 50, None])
def test_illegal_topic_names(name: object) -> None:
    reason = topic_name_error(name)
    assert reason is not None
    assert reason.endswith(".")
    assert len(reason) < 150
