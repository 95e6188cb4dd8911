"""What `exactly_once` and `Transactions` refuse, and how they choose tasks, without a JVM: sessions are stand-ins."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructType

from aioprod import TransactionHandle
from aioprod.errors import ConfigError, UnknownTopicError, UsageError
from aioprod.messages import InitProducerIdRequest
from aioprod.spark.sink.written import Written
from aioprod.spark.transactions import Transactions, exactly_once, query, slots, transaction
from aioprod.spark.transactions.query import EachBatch, query_of
from aioprod.spark.transactions.slots import check_session, slots_of
from aioprod.spark.transactions.task import WriteTask
from aioprod.testing.fixtures import FakeClusterThread, running_fake_cluster

SCHEMA = StructType().add("value", StringType())


@pytest.fixture
def cluster() -> Iterator[FakeClusterThread]:
    with running_fake_cluster(1) as running:
        running.create_topic("t", 3)
        running.create_topic("u", 2)
        yield running


def session(slots: int = 4, query: str | None = "query 1", **conf: str) -> Any:
    """What is asked of a SparkSession."""

    def max_num_concurrent_tasks(profile: object) -> int:
        if slots < 0:
            raise RuntimeError("py4j")
        return slots

    manager = SimpleNamespace(defaultResourceProfile=object)
    context = SimpleNamespace(
        getConf=lambda: SimpleNamespace(get=lambda name, default: conf.get(name.replace(".", "_"), default)),
        defaultParallelism=2,
        getLocalProperty=lambda name: query,
        _jsc=SimpleNamespace(
            sc=lambda: SimpleNamespace(
                resourceProfileManager=lambda: manager, maxNumConcurrentTasks=max_num_concurrent_tasks
            )
        ),
    )
    return SimpleNamespace(sparkContext=context, _jsparkSession=None)


def frame(spark: Any = None, *, streaming: bool = False) -> Any:
    """What is asked of a data frame."""
    return SimpleNamespace(sparkSession=spark or session(), schema=SCHEMA, isStreaming=streaming, columns=["value"])


def transactions(cluster: FakeClusterThread, **options: Any) -> Transactions:
    given: dict[str, Any] = {"transactional_id": "load", "owner": "me", "topic": "t"} | options
    return Transactions({"bootstrap.servers": cluster.bootstrap}, **given)


def test_sessions_without_barriers_are_refused() -> None:
    check_session(session())
    with pytest.raises(ConfigError, match=r"spark\.dynamicAllocation\.enabled is true.*SPARK-24942"):
        check_session(session(spark_dynamicAllocation_enabled="true"))
    with pytest.raises(UsageError, match="needs a classic Spark session"):
        check_session(SimpleNamespace())  # type: ignore[arg-type]


def test_slots() -> None:
    assert slots_of(session(7)) == 7
    assert slots_of(session(0)) == 1
    assert slots_of(session(-1)) == 2


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, WriteTask]]:
    """Jobs that were run: with how many tasks, and what each of them would be."""
    run: list[tuple[int, WriteTask]] = []
    tasks: list[int] = []

    def co_partitioned(df: Any, *, tasks: int, order_by: str | None) -> Any:
        asked.append(tasks)
        return df

    asked = tasks

    def ran(rows: Any, task: WriteTask) -> tuple[Written, ...]:
        run.append((asked[-1], task))
        return (Written("t", 0, 1, 0, 0),)

    monkeypatch.setattr("aioprod.spark.partitioning.with_partition", lambda df, **_: df)
    monkeypatch.setattr("aioprod.spark.partitioning.co_partitioned", co_partitioned)
    monkeypatch.setattr(transaction, "_run", ran)
    return run


def test_steps_are_written_once(cluster: FakeClusterThread, jobs: list[tuple[int, WriteTask]]) -> None:
    with transactions(cluster) as first:
        assert first.write(frame(), 0, bytes_s=300.0) == (Written("t", 0, 1, 0, 0),)
        assert first.took_ms[0].keys() == {"init", "fetch", "job", "offsets", "end"}
    ((tasks, task),) = jobs
    assert (tasks, task.bytes_s, task.topic) == (3, 100.0, "t"), "no more tasks than partitions"
    with transactions(cluster, tasks=2) as second:
        assert second.write(frame(), 0) is None
        assert second.write(frame(), 1) is not None
        assert (second.tally.committed, second.tally.skipped) == (1, 1)
    assert jobs[-1][0] == 2
    schema = SCHEMA.add("topic", StringType())
    with transactions(cluster, topic=None, marker_topic="u", transactional_id="other") as third:
        rows = frame(session(99))
        rows.schema = schema
        third.write(rows, 0)
    assert jobs[-1][0] == 5


def growing(*slots: int) -> Any:
    """A session that has so many slots when it is asked for the first time, the second, and so on."""
    left = list(slots)
    spark = session()
    spark.sparkContext._jsc = SimpleNamespace(
        sc=lambda: SimpleNamespace(
            resourceProfileManager=lambda: SimpleNamespace(defaultResourceProfile=object),
            maxNumConcurrentTasks=lambda profile: left.pop(0) if len(left) > 1 else left[0],
        )
    )
    return spark


def test_executors_that_are_missing(
    cluster: FakeClusterThread,
    jobs: list[tuple[int, WriteTask]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are waited for before the first step; later there are as many tasks as there are slots."""
    monkeypatch.setattr(slots, "_LOOKS_EVERY_S", 0.001)
    spark = growing(0, 0, 2, 4, 4, 1, 4)
    with transactions(cluster, tasks=3) as given:
        for step in range(3):
            given.write(frame(spark), step, bytes_s=60.0)
    assert [tasks for tasks, _ in jobs] == [3, 1, 3]
    assert [task.bytes_s for _, task in jobs] == [20.0, 60.0, 20.0]
    assert caplog.messages == ["Of 3 tasks only 1 write now: there are no more slots."]
    monkeypatch.setattr(slots, "_WAIT_S", 0.0)
    with transactions(cluster, tasks=3, transactional_id="other") as given:
        given.write(frame(session(2)), 0)
    assert jobs[-1][0] == 2


def test_an_attempt_after_an_executor_was_lost(
    cluster: FakeClusterThread, jobs: list[tuple[int, WriteTask]], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = transaction._run
    failures = [RuntimeError("ExecutorLostFailure (executor 1 exited)")]

    def lost(rows: Any, task: WriteTask) -> tuple[Written, ...]:
        done = run(rows, task)
        if failures:
            raise failures.pop()
        return done

    monkeypatch.setattr(transaction, "_run", lost)
    with transactions(cluster, tasks=2) as given:
        assert given.write(frame(growing(2, 2, 1)), 0) is not None
        assert (given.tally.committed, given.tally.rerun) == (1, 1)
    assert [tasks for tasks, _ in jobs] == [2, 1]


def test_keys_are_placed_and_rows_without_one_spread_as_by_javas_producer(
    cluster: FakeClusterThread, jobs: list[tuple[int, WriteTask]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key in the schema or without: a row's key may be null."""
    asked: list[str] = []

    def with_partition(df: Any, *, partitioner: str, **_: Any) -> Any:
        asked.append(partitioner)
        return df

    monkeypatch.setattr("aioprod.spark.partitioning.with_partition", with_partition)
    rows = frame()
    rows.schema = StructType().add("key", StringType()).add("value", StringType())
    for number, options in enumerate(({}, {"partitioner": "murmur2"}, {"partitioner": "crc32"})):
        with transactions(cluster, transactional_id=f"load {number}", **options) as given:
            given.write(rows, 0)
            given.write(frame(), 1)
    assert asked == ["default"] * 4 + ["crc32_random"] * 2
    for call in (exactly_once, Transactions):
        assert inspect.signature(call).parameters["partitioner"].default == "murmur2"
    assert len(jobs) == 6


def test_what_can_not_be_written(cluster: FakeClusterThread, jobs: list[tuple[int, WriteTask]]) -> None:
    closed = transactions(cluster)
    with pytest.raises(UsageError, match="not started, or closed"):
        closed.write(frame(), 0)
    with transactions(cluster) as given:
        with pytest.raises(UsageError, match="were started before"):
            given.start()
        with pytest.raises(ConfigError, match="from 0 on, not -1"):
            given.write(frame(), -1)
        with pytest.raises(ConfigError, match=r"spark\.dynamicAllocation"):
            given.write(frame(session(spark_dynamicAllocation_enabled="true")), 0)
        rows = frame()
        rows.schema = StructType().add("key", StringType())
        with pytest.raises(ConfigError, match="no column value"):
            given.write(rows, 0)
    several = transactions(cluster, topic=None, marker_topic="t")
    with several, pytest.raises(ConfigError, match="receipts of rows of one topic only"):
        several.write(frame(), 0, receipts="folder")
    assert not jobs
    with pytest.raises(ConfigError, match="tasks is 0"):
        transactions(cluster, tasks=0)
    with pytest.raises(ConfigError, match="owner"):
        transactions(cluster, owner="")
    with pytest.raises(UnknownTopicError):
        transactions(cluster, topic="absent", marker_topic="t").start()


# -- queries ---------------------------------------------------------------------------------------------------------


def test_a_query_owns_its_transactions(cluster: FakeClusterThread, jobs: list[tuple[int, WriteTask]]) -> None:
    kafka = {"bootstrap_servers": cluster.bootstrap}
    each = EachBatch(kafka, transactional_id="load", topic="t")
    each(frame(), 0)
    each(frame(), 1)
    assert len(jobs) == 2
    assert isinstance(jobs[0][1].handle, TransactionHandle)
    another = frame(session(query="query 2"))
    each.close()
    with pytest.raises(UsageError, match="its marker is of 'query 1', this is 'query 2'"):
        each(another, 2)
    assert each._transactions is None, "nobody else would close them"
    with pytest.raises(UsageError, match="no query here"):
        query_of(frame(session(query=None)))


def started(call: Callable[..., Any], cluster: FakeClusterThread, **options: Any) -> Any:
    given: dict[str, Any] = {
        "transactional_id": "load",
        "bootstrap_servers": cluster.bootstrap,
        "topic": "t",
        "checkpoint_location": "folder",
    }
    return call(options.pop("df", frame(streaming=True)), **given | options)


class Writer:
    """What is asked of a DataStreamWriter, and of the query that it starts."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.failure: Exception | None = None
        self.over = threading.Event()
        self.jvm_is_dead = False

    @property
    def isActive(self) -> bool:  # noqa: N802  # Spark's name
        if self.jvm_is_dead:
            raise ConnectionRefusedError
        return not self.over.is_set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, arguments or options))
            if name == "start" and self.failure is not None:
                raise self.failure
            return self

        return call


def test_how_a_query_is_started(cluster: FakeClusterThread) -> None:
    rows = frame(streaming=True)
    rows.writeStream = writer = Writer()
    writer.over.set()
    started(exactly_once, cluster, df=rows, trigger="3 seconds", query_name="name", linger_ms=3)
    started(exactly_once, cluster, df=rows, trigger={"availableNow": True})
    calls = dict(writer.calls[:5])
    assert isinstance(calls["foreachBatch"][0], EachBatch)
    assert calls["option"] == ("checkpointLocation", "folder")
    assert calls["queryName"] == ("name",)
    assert calls["trigger"] == {"processingTime": "3 seconds"}
    assert ("trigger", {"availableNow": True}) in writer.calls
    assert not cluster.seen_of(InitProducerIdRequest), "nobody is fenced before there is something to write"


def threads_of_queries() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "aioprod.spark.transactions"]


@pytest.mark.parametrize("jvm_dies", [False, True])
def test_a_query_that_is_over_has_nothing_open(
    cluster: FakeClusterThread,
    jobs: list[tuple[int, WriteTask]],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    jvm_dies: bool,
) -> None:
    monkeypatch.setattr(query, "_LOOKS_EVERY_S", 0.001)
    before = set(threads_of_queries())
    rows = frame(streaming=True)
    rows.writeStream = writer = Writer()
    started(exactly_once, cluster, df=rows)
    (thread,) = set(threads_of_queries()) - before
    assert thread.daemon, "a program may end while its query runs"
    each = dict(writer.calls)["foreachBatch"][0]
    each(frame(), 0)
    each(frame(), 1)
    assert each._transactions is not None
    assert thread.is_alive()
    if jvm_dies:
        writer.jvm_is_dead = True
    else:
        writer.over.set()
    thread.join(30)
    assert not thread.is_alive()
    assert each._transactions is None
    assert len(jobs) == 2
    assert not caplog.records
    with pytest.raises(UsageError, match="The query is over"):
        each(frame(), 2)
    assert each._transactions is None


def test_a_micro_batch_is_waited_for(cluster: FakeClusterThread, monkeypatch: pytest.MonkeyPatch) -> None:
    """A close from another thread never takes the connections from under a transaction."""
    each = EachBatch({"bootstrap_servers": cluster.bootstrap}, transactional_id="load", topic="t")
    writing, go_on = threading.Event(), threading.Event()
    happened: list[str] = []

    def write(self: Transactions, df: Any, step: int) -> None:
        writing.set()
        assert go_on.wait(30)
        happened.append("written")

    close = Transactions.close

    def closed(self: Transactions) -> None:
        happened.append("closed")
        close(self)

    monkeypatch.setattr(Transactions, "write", write)
    monkeypatch.setattr(Transactions, "close", closed)
    batch = threading.Thread(target=each, args=(frame(), 0))
    batch.start()
    assert writing.wait(30)
    closer = threading.Thread(target=each.close)
    closer.start()
    go_on.set()
    batch.join(30)
    closer.join(30)
    assert happened == ["written", "closed"]


def test_connections_that_do_not_close_are_said(
    cluster: FakeClusterThread, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def close(self: EachBatch) -> None:
        raise UsageError("no")

    monkeypatch.setattr(EachBatch, "close", close)
    rows = frame(streaming=True)
    rows.writeStream = writer = Writer()
    writer.over.set()
    started(exactly_once, cluster, df=rows)
    for thread in threads_of_queries():
        thread.join(30)
    assert "did not close: no" in caplog.text


def test_what_can_not_be_streamed(cluster: FakeClusterThread, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(UsageError, match="not a stream"):
        started(exactly_once, cluster, df=frame())
    with pytest.raises(ConfigError, match="The output mode is 'update'"):
        started(exactly_once, cluster, output_mode="update")
    with pytest.raises(UnknownTopicError):
        started(exactly_once, cluster, topic="absent")
    with pytest.raises(ConfigError, match="lingerms"):
        started(exactly_once, cluster, lingerms=3)
    monkeypatch.setattr(slots, "_WAIT_S", 0.0)
    with pytest.raises(ConfigError, match="tasks is 5, but the session has 4 slots"):
        started(exactly_once, cluster, tasks=5)
    rows = frame(streaming=True)
    rows.writeStream = writer = Writer()
    for said, expected in (("Append output mode not supported", ConfigError), ("Something else", AnalysisException)):
        writer.failure = AnalysisException(said)
        with pytest.raises(expected):
            started(exactly_once, cluster, df=rows)
    assert query.exactly_once is exactly_once
