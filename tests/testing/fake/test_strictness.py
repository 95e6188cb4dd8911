"""Invalid arguments and unused faults of a fake cluster, with which a test could pass for the wrong reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.admin import DeleteByName
from aioprod.errors import (
    AioprodError,
    BrokerError,
    ConfigError,
    ErrorCode,
    InvalidTopicError,
    UnknownTopicError,
    UsageError,
)
from aioprod.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
    ProduceRequest,
    SaslHandshakeRequest,
)
from aioprod.messages.create_topics import CreatableTopic
from aioprod.testing import FakeCluster, UnusedFaultError, UnusedFaultWarning
from aioprod.testing.fake import Fault
from aioprod.testing.fixtures import running_fake_cluster
from tests.support.lab import Lab, Topic, batch, connected_lab

ERROR = ErrorCode.POLICY_VIOLATION


@pytest.fixture
def cluster() -> Any:
    """Not started: invalid arguments need no broker."""
    return FakeCluster(2)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({}, r"^fault\(ProduceRequest, \.\.\.\) does nothing\. Hint: Set at least one of error, delay_s"),
        ({"times": 2, "node": 1}, "does nothing"),
        ({"drop": "afterr"}, "has drop='afterr': it must be one of before, after, lurking"),
        ({"drop": "after", "times": 0}, "has times=0, with which it hits nothing"),
        ({"drop": "after", "times": True}, "has times=True"),
        ({"drop": "after", "when": 5}, "has when=5: give a function"),
        ({"error": 3}, r"has error=3: give an ErrorCode\. Hint: Did you mean ErrorCode\.UNKNOWN_TOPIC_OR_PARTITION\?"),
        ({"error": "REQUEST_TIMED_OUT"}, "has error='REQUEST_TIMED_OUT': give an ErrorCode"),
        ({"error": ERROR, "partition": 0}, r"has partition=0: give a TopicPartition\(topic, index\)"),
        ({"drop": "after", "partition": TopicPartition("t", 0)}, "without an error, so it has no effect"),
        ({"hold": True, "apply": True}, "has apply=True without an error, so it has no effect"),
        ({"hold": 1}, "has hold=1: it must be True or False"),
        ({"delay_s": -1}, "has delay_s=-1: give a time of at least 0"),
        ({"throttle_ms": "5"}, "has throttle_ms='5'"),
        ({"cut_after_bytes": -1}, "has cut_after_bytes=-1"),
        ({"reply": "text"}, "has reply='text': give the bytes"),
        ({"edit": 5}, "has edit=5: give a function"),
    ],
)
def test_a_fault_without_effect_raises(cluster: FakeCluster, what: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cluster.fault(ProduceRequest, **what)
    assert cluster.unused_faults == []


def test_each_field_that_selects_no_requests_is_an_effect_and_has_its_type_checked(cluster: FakeCluster) -> None:
    """A new field needs no entry anywhere: without it a fault that does nothing passes, or one of a wrong type."""
    selectors = {"kind", "times", "node", "when", "partition", "apply"}
    effects = [row.name for row in dataclasses.fields(Fault) if row.init and row.name not in selectors]
    with pytest.raises(ConfigError, match=rf"does nothing\. Hint: Set at least one of {', '.join(effects)}\.$"):
        cluster.fault(ProduceRequest)
    for name in effects:
        with pytest.raises(ConfigError, match=f"has {name}=<object"):
            cluster.fault(ProduceRequest, **{name: object()})


@pytest.mark.parametrize("what", [{"cut_after_bytes": 0}, {"reply": b""}, {"throttle_ms": 1}, {"silent": True}])
def test_faults_with_an_effect_are_valid(cluster: FakeCluster, what: dict[str, Any]) -> None:
    fault = cluster.fault(ProduceRequest, **what)
    assert cluster.unused_faults == [fault]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("ProduceRequest", r"is not a class of requests\. Hint: .* from aioprod\.messages import ProduceRequest\."),
        (ProduceRequest(), r"is not a class of requests\. Hint: .* from aioprod\.messages import ProduceRequest\."),
        (5, "is not a class of requests"),
        (DeleteByName, "A fake broker does not serve DeleteByName"),
    ],
)
def test_faults_of_unsupported_requests_raise(cluster: FakeCluster, kind: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cluster.fault(kind, drop="after")


def test_a_log_in_does_not_fail_by_an_error(cluster: FakeCluster) -> None:
    with pytest.raises(ConfigError, match=r"the credentials decide whether a log-in succeeds\. Hint: .*edit="):
        cluster.fault(SaslHandshakeRequest, error=ERROR)


async def test_topics_that_can_not_be_created_or_deleted() -> None:
    async with FakeCluster() as brokers, connected_lab(brokers[1].address) as lab:
        brokers.fault(CreateTopicsRequest, error=ERROR)
        created = await lab.request(CreateTopicsRequest(topics=(wanted("t"),), timeout_ms=1000), 5)
        assert [row.error_code for row in created.topics] == [ERROR]
        brokers.create_topic("t")
        brokers.fault(DeleteTopicsRequest, error=ERROR, partition=TopicPartition("t", -1))
        deleted = await lab.request(DeleteTopicsRequest(topic_names=("t",), timeout_ms=1000), 5)
        assert [row.error_code for row in deleted.responses] == [ERROR]
        assert list(brokers.topics) == ["t"]


def wanted(name: str) -> Any:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())


UNKNOWN: list[tuple[Callable[[FakeCluster], object], type[AioprodError], str]] = [
    (lambda fake: fake.fault(ProduceRequest, drop="after", node=9), UsageError, r"no broker 9: .* are \[1, 2\]"),
    (
        lambda fake: fake.fault(ProduceRequest, error=ERROR, partition=TopicPartition("t", 77)),
        UsageError,
        "no partition 77 of topic 't': it has 0 to 1",
    ),
    (lambda fake: fake.create_topic("a b"), InvalidTopicError, "other characters"),
    (lambda fake: fake.create_topic("u", 0), ConfigError, "partitions is 0: give a number from 1 on"),
    (lambda fake: fake.create_topic("t"), BrokerError, r"^Topic 't' exists already\. Hint: recreate_topic\(\)"),
    (lambda fake: fake.delete_topic("nope"), UnknownTopicError, "^This cluster has no topic 'nope': it has t"),
    (lambda fake: fake.recreate_topic("nope"), UnknownTopicError, "no topic 'nope'"),
    (lambda fake: fake.recreate_topic("t", 0), ConfigError, "partitions is 0"),
    (lambda fake: fake.records("nope"), UnknownTopicError, "no topic 'nope'"),
    (lambda fake: fake.records("t", 2), UsageError, "no partition 2 of topic 't'"),
    (lambda fake: fake.records("t", isolation="none"), ConfigError, "^isolation is 'none'"),  # type: ignore[arg-type]
    (lambda fake: fake.move_leader("t", 5), UsageError, "no partition 5"),
    (lambda fake: fake.move_leader("t", 0, 9), UsageError, "no broker 9"),
    (lambda fake: fake.move_coordinator("g", 9), UsageError, "no broker 9"),
    (lambda fake: fake.expire_producer_state("t", 2), UsageError, "no partition 2"),
    (lambda fake: fake.freeze(9), UsageError, "no broker 9"),
    (lambda fake: fake.thaw("1"), UsageError, "no broker '1'"),  # type: ignore[arg-type]
    (lambda fake: fake[0], UsageError, "no broker 0"),
    (lambda fake: fake.finalize(7), ConfigError, "^transaction_version is 7"),
    (lambda fake: fake.seen_of("Produce"), ConfigError, "not a class of requests"),  # type: ignore[arg-type]
    (lambda fake: fake.seen_of(ProduceRequest, 9), UsageError, "no broker 9"),
    (lambda fake: fake.committed_offset("g", "t"), ConfigError, "give a TopicPartition"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "kind", "message"), UNKNOWN)
async def test_the_errors_of_unknown_topics_brokers_and_partitions(
    call: Callable[[FakeCluster], object], kind: type[AioprodError], message: str
) -> None:
    async with FakeCluster(2) as brokers:
        brokers.create_topic("t", partitions=2)
        with pytest.raises(kind, match=message) as caught:
            call(brokers)
        if isinstance(caught.value, BrokerError):
            assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        for stop in (brokers.kill, brokers.restart):
            with pytest.raises(UsageError, match="There is no broker 9"):
                await stop(9)


def test_a_cluster_has_brokers_and_topics_have_leaders() -> None:
    with pytest.raises(ConfigError, match="brokers is 0"):
        FakeCluster(0)
    with pytest.raises(UsageError, match="no broker is up to lead its partitions"):
        FakeCluster().create_topic("t")


async def test_a_leader_can_not_move_without_another_broker() -> None:
    async with FakeCluster() as brokers:
        brokers.create_topic("t")
        with pytest.raises(UsageError, match="No other broker is up to lead partition 0 of topic 't'"):
            brokers.move_leader("t", 0)


async def test_an_unused_fault_causes_a_warning() -> None:
    brokers = FakeCluster()
    await brokers.__aenter__()
    unused = brokers.fault(ProduceRequest, drop="after", node=1)
    assert brokers.unused_faults == [unused]
    with pytest.warns(UnusedFaultWarning, match=r"fault\(ProduceRequest, node=1, drop='after'\)\. Call end\(\)"):
        await brokers.__aexit__(None, None, None)


async def test_an_unused_fault_raises_in_a_strict_cluster() -> None:
    with pytest.raises(UnusedFaultError, match=r"fault\(MetadataRequest, hold=True\)\. Hint: Call end\(\)"):
        async with FakeCluster(strict=True) as brokers:
            brokers.fault(MetadataRequest, hold=True)


async def test_a_fault_whose_partition_was_not_in_a_request_is_unused() -> None:
    async with FakeCluster() as brokers, connected_lab(brokers[1].address) as lab:
        fault = brokers.fault(ProduceRequest, error=ERROR, partition=TopicPartition("t", 1))
        await one_record(brokers, lab)
        assert fault.hits == 1
        assert brokers.unused_faults == [fault]
        brokers.end_faults()


async def one_record(brokers: FakeCluster, lab: Lab) -> None:
    made = brokers.create_topic("t", 2)
    await lab.send(Topic(made.name, made.id), batch())


async def test_used_and_ended_faults_cause_no_warning() -> None:
    async with FakeCluster(strict=True) as brokers, connected_lab(brokers[1].address) as lab:
        brokers.fault(ProduceRequest, error=ERROR, times=3)
        brokers.fault(MetadataRequest, drop="before").end()
        brokers.fault(ProduceRequest, silent=True, node=1)
        await one_record(brokers, lab)
        brokers.end_faults()
        assert brokers.unused_faults == []
        await lab.request(MetadataRequest(topics=()), 12)


async def test_a_failing_test_gets_no_warning_as_well() -> None:
    brokers = await FakeCluster(strict=True).__aenter__()
    fault = brokers.fault(ProduceRequest, drop="after")
    assert brokers.unused_faults == [fault]
    await brokers.__aexit__(ZeroDivisionError, ZeroDivisionError(), None)


def test_a_cluster_in_a_thread_warns_too() -> None:
    with pytest.warns(UnusedFaultWarning, match="drop='after'"), running_fake_cluster() as brokers:
        brokers.fault(ProduceRequest, drop="after")


async def test_topics_are_not_created_unless_they_may_be() -> None:
    async with FakeCluster(auto_create_topics_enable=False) as brokers:
        async with Producer(brokers.bootstrap, max_block_ms=10_000) as producer:
            with pytest.raises(UnknownTopicError, match="'typo'"):
                await producer.send("typo", b"v")
        assert list(brokers.topics) == []


async def test_faults_of_a_request_that_only_one_broker_supports() -> None:
    async with FakeCluster(2) as brokers:
        del brokers[1].versions[ProduceRequest]
        assert brokers.fault(ProduceRequest, node=2, drop="after").hits == 0
        brokers.end_faults()
        del brokers[2].versions[ProduceRequest]
        with pytest.raises(ConfigError, match="does not serve ProduceRequest"):
            brokers.fault(ProduceRequest, drop="after")
