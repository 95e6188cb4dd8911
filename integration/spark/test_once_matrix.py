"""Exactly-once delivery with each fault of the matrix, on real brokers of both transaction versions.

Host A is `exactly_once`, host B the data source. What is in the topics in the end is read by confluent-kafka.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from aioprod.errors import ConfigError, UnknownTopicError, UsageError
from aioprod.spark import exactly_once, worker
from aioprod.spark.transactions.marker import group_of
from aioprod.spark.transactions.settings import OnceSettings
from aioprod.spark.transactions.steps import Steps
from aioprod.testing import KafkaCluster
from integration.spark.faulty import DRIVER_POINTS, Faults, break_driver, state_of, wait_for
from integration.spark.once_stream import CLUSTER, Ended, Life, Topic, begin_life, end_of, numbers, one_life
from integration.support.brokers import STRICT, VERSIONS, SharedClusters

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request: pytest.FixtureRequest, shared_clusters: SharedClusters) -> KafkaCluster:
    """One broker of a version, which looks for transactions that are too old twice a second."""
    return shared_clusters(version=request.param, backend="local", **STRICT)


@dataclass
class Case:
    """A stream, its topic, its checkpoint and its faults; `run` has it live, in this process's session."""

    spark: SparkSession
    topic: Topic
    folder: Path
    faults: Faults

    def life(self, batches: int, **changes: Any) -> Life:
        return replace(
            Life(
                servers=self.topic.servers,
                topic=self.topic.name,
                checkpoint=str(self.folder / "checkpoint"),
                faults=str(self.faults.folder),
                batches=batches,
                rows=self.topic.rows,
            ),
            **changes,
        )

    def run(self, batches: int, **changes: Any) -> Ended:
        return one_life(self.spark, self.life(batches, **changes))


@pytest.fixture
def case(spark: SparkSession, broker: KafkaCluster, tmp_path: Path) -> Iterator[Case]:
    topic = Topic(broker.bootstrap_servers, f"once-{uuid.uuid4().hex[:12]}")
    asyncio.run(topic.create())
    faults = Faults(tmp_path / "faults")

    def die(point: str) -> None:
        raise AssertionError(f"not in this process: {point}")

    put_back = break_driver(faults, die)
    yield Case(spark, topic, tmp_path, faults)
    put_back()
    for left in faults.folder.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(left.read_text()), signal.SIGKILL)


# -- tasks and executors ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["task", pytest.param("kill", marks=pytest.mark.long)])
def test_a_task_that_fails_after_a_part_was_stored(case: Case, fault: str) -> None:
    case.faults.order(1, fault)
    ended = case.run(3)
    assert ended.failure == ""
    assert (ended.tally["rerun"], case.faults.left()) == (1, [])
    steps = case.topic.check(at_least=3)
    assert len(case.topic.values("read_uncommitted")) > steps * case.topic.rows, "a part was stored before"


@pytest.mark.long
def test_an_executor_that_is_killed(case: Case) -> None:
    """On a Spark cluster with speculation, which leaves barriers alone. For a while it has fewer slots than `tasks`."""
    case.faults.order(1, "executor")
    status, last, ended = end_of(begin_life(case.life(3, options={"tasks": 2}, **CLUSTER)))
    assert (status, case.faults.left()) == (0, []), last
    assert ended is not None
    assert ended.tally["rerun"] >= 1, ended
    case.topic.check(at_least=3)


def test_a_zombie_that_thaws_in_the_next_transaction(case: Case) -> None:
    case.faults.order(1, "zombie")
    ended = case.run(2)
    assert (ended.failure, ended.tally["rerun"]) == ("", 1)
    heard = (case.faults.folder / "1.heard").read_text()
    assert heard.startswith(("FencedRejectedError", "ProducerFencedError", "FencedNotSentError")), heard
    assert "stored" not in heard.split()
    case.topic.check(at_least=2)


# -- the driver ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_driver_that_dies_at_each_point(case: Case) -> None:
    """Each life dies at another point of another step, and the next one goes on."""
    for step, point in enumerate(DRIVER_POINTS):
        case.faults.order(step, point)
    for point in DRIVER_POINTS:
        assert end_of(begin_life(case.life(100)))[:2] == (9, f"died: {point}")
    ended = case.run(len(DRIVER_POINTS) + 1)
    assert ended.failure == ""
    assert ended.tally["skipped"] == 1, "the last one died with its step committed"
    case.topic.check(at_least=len(DRIVER_POINTS) + 1)


def test_a_commit_whose_answer_is_lost(case: Case) -> None:
    case.faults.order(1, "lost")
    ended = case.run(3)
    assert (ended.failure, ended.tally["rerun"]) == ("", 0)
    case.topic.check(at_least=3)


def test_an_abort_after_a_commit_without_answer_is_harmless(case: Case) -> None:
    settings = OnceSettings.of(
        {"bootstrap.servers": case.topic.servers}, transactional_id=case.topic.name, topic=case.topic.name
    )

    async def commit_and_abort() -> None:
        steps = Steps(settings.session(), marker=settings.marker, owner="me")
        await steps.start()
        begun = await steps.begin(0)
        async with begun.handle.producer(case.topic.servers) as producer:
            for number in range(case.topic.rows):
                await producer.send(case.topic.name, b"%d" % number, partition=1)
        await steps.commit(0)
        await steps.resume(begun.handle)
        await steps.abort()
        assert await steps.is_committed(0)
        await steps.close()

    worker.run(commit_and_abort())
    assert case.topic.check() == 1


def test_somebody_who_takes_over_is_not_fenced_in_turn(case: Case) -> None:
    case.faults.order(1, "rival")
    ended = case.run(3)
    assert "ProducerFencedError" in ended.failure
    assert case.topic.check() == 1
    assert case.run(3).failure == ""
    case.topic.check(at_least=3)


@pytest.mark.long
def test_two_drivers_on_one_checkpoint(case: Case) -> None:
    """One stands still before its commit; the other one goes on with a copy of the checkpoint."""
    case.faults.order(1, "freeze")
    first = begin_life(case.life(100))
    wait_for(lambda: state_of(first.pid) == "T", timeout_s=300)
    copy = case.folder / "copy"
    shutil.copytree(case.folder / "checkpoint", copy)
    assert case.run(3, checkpoint=str(copy)).failure == ""
    os.kill(first.pid, signal.SIGCONT)
    status, last, ended = end_of(first)
    assert status == 3, last
    assert ended is not None
    assert "ProducerFencedError" in ended.failure
    case.topic.check(at_least=3)


@pytest.mark.long
def test_a_batch_that_takes_longer_than_its_transaction_may(case: Case) -> None:
    options = {"transaction_timeout_ms": 2000}
    case.faults.order(1, "slow")
    ended = case.run(2, options=options)
    assert (ended.failure, ended.tally["rerun"]) == ("", 1)
    done = case.topic.check(at_least=2)
    case.faults.order(done, "slow", "slow-again")
    ended = case.run(done + 1, options=options)
    assert "took longer than transaction.timeout.ms=2000 twice" in ended.failure
    assert "maxOffsetsPerTrigger" in ended.failure
    assert case.topic.check() == done


def test_queries_that_are_over_leave_nothing_open(case: Case) -> None:
    async def at_work() -> int:
        return len(asyncio.all_tasks())

    def are_over() -> bool:
        return not any(thread.name == "aioprod.spark.transactions" for thread in threading.enumerate())

    wait_for(are_over)
    before = worker.run(at_work())
    for _ in range(2):
        # They end by themselves: one that is stopped in a micro-batch fails, and closes for that reason.
        assert case.run(100, options={"trigger": {"availableNow": True}}).failure == ""
        wait_for(are_over)
    assert worker.run(at_work()) <= before, "each connection has tasks"
    case.topic.check(at_least=2)


# -- batches and markers ---------------------------------------------------------------------------------------------


def test_a_batch_without_rows(case: Case) -> None:
    none = numbers(case.spark, case.topic.rows).where("value is null")
    query = exactly_once(
        none,
        transactional_id=case.topic.name,
        bootstrap_servers=case.topic.servers,
        topic=case.topic.name,
        checkpoint_location=str(case.folder / "checkpoint"),
    )
    wait_for(lambda: not query.isActive or any(one["batchId"] >= 2 for one in query.recentProgress))
    failure = query.exception()
    query.stop()
    assert failure is None
    assert case.topic.marker() >= 3
    assert case.topic.values() == []


def test_another_checkpoint_with_the_same_id_is_refused(case: Case) -> None:
    case.run(2)
    done = case.topic.check(at_least=2)
    ended = case.run(2, checkpoint=str(case.folder / "another"))
    assert "belongs to another query or run" in ended.failure
    assert case.topic.check() == done


@pytest.mark.parametrize(
    "policy", ["refuse", pytest.param("assume-committed", marks=pytest.mark.long), "assume-not-committed"]
)
def test_a_marker_that_is_gone(case: Case, policy: str) -> None:
    case.run(2)
    done = case.topic.check(at_least=2)
    admin = AdminClient({"bootstrap.servers": case.topic.servers})
    for future in admin.delete_consumer_groups([group_of(case.topic.name)]).values():
        future.result()
    ended = case.run(done + 2, options={"when_marker_is_missing": policy})
    if policy == "refuse":
        assert "its marker, an offset of the group" in ended.failure
        return
    assert ended.failure == ""
    values = sorted(map(int, case.topic.values()))
    steps, rows = case.topic.marker(), case.topic.rows
    lost = range(done * rows, (done + 1) * rows) if policy == "assume-committed" else range(0)
    assert values == [number for number in range(steps * rows) if number not in lost]


# -- host B ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        "task",
        pytest.param("kill", marks=pytest.mark.long),
        pytest.param("before", marks=pytest.mark.long),
        pytest.param("after", marks=pytest.mark.long),
        pytest.param("lost", marks=pytest.mark.long),
    ],
)
def test_host_b(case: Case, fault: str) -> None:
    """What fails ends the query, but for a lost answer; the next life runs the batch again, or finds its marker."""
    case.faults.order(1, fault)
    ended = case.run(3, host="B")
    assert bool(ended.failure) is (fault != "lost")
    if fault in ("task", "kill"):
        assert "can't be tried again within a transaction" in ended.failure
    assert case.faults.left() == []
    assert case.run(3, host="B").failure == ""
    case.topic.check(at_least=3)


@pytest.mark.long
def test_host_b_another_checkpoint(case: Case) -> None:
    case.run(2, host="B")
    done = case.topic.check(at_least=2)
    ended = case.run(2, host="B", checkpoint=str(case.folder / "another"))
    assert "belongs to another query or run" in ended.failure
    assert case.topic.check() == done


def test_host_b_as_a_batch(case: Case) -> None:
    rows = case.spark.range(case.topic.rows).selectExpr(
        "cast(id % 4 as int) as partition", "cast(cast(id as string) as binary) as value"
    )

    def write(**options: str) -> None:
        given = {
            "kafka.bootstrap.servers": case.topic.servers,
            "topic": case.topic.name,
            "delivery": "exactly-once",
            "transactional.id": case.topic.name,
            **options,
        }
        apart = rows.repartition(2, "partition")
        apart.write.format("aioprod").options(**given).mode("append").save()

    for _ in range(2):
        write(**{"run.id": "june"})
    assert case.topic.check() == 1
    with pytest.raises(Exception, match="belongs to another query or run"):
        write(**{"run.id": "july"})


def test_host_b_refuses_rows_of_one_partition_in_two_tasks(case: Case) -> None:
    """The broker would take the second task's rows for a repetition of the first one's."""
    rows = case.spark.range(100).selectExpr("0 as partition", "cast(cast(id as string) as binary) as value")
    given = {
        "kafka.bootstrap.servers": case.topic.servers,
        "topic": case.topic.name,
        "delivery": "exactly-once",
        "transactional.id": case.topic.name,
        "run.id": "june",
    }
    with pytest.raises(Exception, match=r"Two tasks wrote to|can't be tried again"):
        rows.repartition(2).write.format("aioprod").options(**given).mode("append").save()
    assert case.topic.marker() == 0
    assert case.topic.values() == []


# --- what raises before any task runs


def test_what_can_not_work_is_refused_at_once(case: Case) -> None:
    given: dict[str, Any] = {
        "transactional_id": case.topic.name,
        "bootstrap_servers": case.topic.servers,
        "topic": case.topic.name,
        "checkpoint_location": str(case.folder / "checkpoint"),
    }
    stream = numbers(case.spark, 10)
    with pytest.raises(UnknownTopicError):
        exactly_once(stream, **given | {"topic": "absent"})
    with pytest.raises(ConfigError, match="output mode is 'complete'"):
        exactly_once(stream, **given, output_mode="complete")
    with pytest.raises(ConfigError, match="can't be appended"):
        exactly_once(stream.groupBy("key").agg({"value": "max"}).withColumnRenamed("max(value)", "value"), **given)
    with pytest.raises(UsageError, match="not a stream"):
        exactly_once(case.spark.range(1).selectExpr("cast(id as string) as value"), **given)
    with pytest.raises(ConfigError, match="no column value"):
        exactly_once(stream.drop("value"), **given)
