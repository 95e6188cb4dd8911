"""`load` on a real broker: what an independent consumer reads afterwards, and errors before any task runs."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from aioprod.errors import AioprodError, ConfigError, UsageError
from aioprod.routing.hashes import murmur2_partition
from aioprod.spark import load
from aioprod.spark.__main__ import main
from aioprod.spark.folder import HadoopFolder, LocalFolder, folder_at
from aioprod.spark.loading import job
from aioprod.spark.loading.report import LoadReport
from aioprod.spark.manifest import FILE, Manifest, receipts_of
from aioprod.testing import KafkaCluster
from integration.spark.topics import consumed, new_topic

ROWS = 12_000
FILES = 6
PARTITIONS = 4
START_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows in some files, in a folder whose name needs an escape."""
    path = str(tmp_path_factory.mktemp("load") / "a folder")
    rows = spark.range(0, ROWS, 1, FILES).selectExpr(
        "id", "concat('customer-', id % 997) as customer", "md5(cast(id as string)) as text"
    )
    rows.write.parquet(path)
    return spark.read.parquet(path)


def run(df: DataFrame, cluster: KafkaCluster, topic: str, **arguments: Any) -> LoadReport:
    arguments = {"value": "text", "key": "customer", "progress": False, **arguments}
    return load(df, bootstrap_servers=cluster.bootstrap_servers, topic=topic, **arguments)


def values(cluster: KafkaCluster, topic: str) -> list[str]:
    return sorted((row[3] or b"").decode() for row in consumed(cluster, topic))


def texts(df: DataFrame) -> list[str]:
    return sorted(row[0] for row in df.select("text").collect())


# --- what is written


@pytest.mark.parametrize(
    "kind",
    [
        "parquet",
        pytest.param("json", marks=pytest.mark.long),
        pytest.param("csv", marks=pytest.mark.long),
        pytest.param("table", marks=pytest.mark.long),
    ],
)
def test_each_kind_of_input_with_every_expression(
    spark: SparkSession, kafka: KafkaCluster, table: DataFrame, tmp_path: Path, kind: str
) -> None:
    topic = new_topic(kafka, PARTITIONS)
    path = str(tmp_path / "input")
    if kind == "table":
        spark.sql(f"create database if not exists jobs location '{tmp_path / 'jobs'}'")
        table.repartition(3).write.mode("overwrite").option("path", path).saveAsTable("jobs.rows")
    else:
        table.repartition(3).write.format(kind).option("header", "true").save(path)
    report_file = tmp_path / "report.json"
    given = {
        "--from": f"{kind}:{'jobs.rows' if kind == 'table' else path}",
        "--topic": topic,
        "--bootstrap-servers": kafka.bootstrap_servers,
        "--value": "to_json(struct(id, text))",
        "--key": "customer",
        "--header": "source='test'",
        "--timestamp": f"timestamp_millis({START_MS} + cast(id as long))",
        "--order-by": "cast(id as long)",
        "--chunks": "3",
        "--rate": "200MB/s",
        "--run-id": topic,
        "--manifest": str(tmp_path / "manifest"),
        "--set": "compression.type=zstd",
        "--json": str(report_file),
    }
    assert main(["load", *(word for pair in given.items() for word in pair)]) == 0
    rows = consumed(kafka, topic)
    assert sorted(int(json.loads(row[3] or b"")["id"]) for row in rows) == list(range(ROWS))
    for partition, _, key, value, headers, timestamp in rows:
        number = int(json.loads(value or b"")["id"])
        assert key == b"customer-%d" % (number % 997)
        assert partition == murmur2_partition(key, PARTITIONS)
        assert headers == [("source", b"test")]
        assert timestamp == START_MS + number
    report = json.loads(report_file.read_text())
    assert report["rows"] == report["all_rows"] == ROWS
    assert report["bytes"] == sum(len(row[2] or b"") + len(row[3] or b"") for row in rows)
    assert report["chunks"] == {"count": 3, "of": "files", "done": 3, "skipped": 0}
    ends = {row[0]: row[1] for row in rows}
    assert {int(place): one["last"] for place, one in report["offsets"].items()} == ends
    manifest = Manifest.from_json((tmp_path / "manifest" / FILE).read_text())
    for parts in manifest.chunks.values():
        for partition, part in parts.items():
            here = [row[5] for row in rows if row[0] == partition and part.first <= row[1] <= part.last]
            assert here == sorted(here)
            assert len(here) == part.count


def test_input_that_is_no_file_is_divided_by_a_hash(spark: SparkSession, kafka: KafkaCluster) -> None:
    topic = new_topic(kafka, PARTITIONS)
    df = spark.range(5000).selectExpr("md5(cast(id as string)) as text")
    report = run(df, kafka, topic, key=None, chunks=3)
    assert (report.rows, report.done, report.chunks_of, report.bytes) == (5000, 3, "rows", None)
    assert values(kafka, topic) == texts(df)
    assert set(report.offsets) == set(range(PARTITIONS))


def test_more_chunks_than_files(kafka: KafkaCluster, table: DataFrame, tmp_path: Path) -> None:
    topic = new_topic(kafka, 1)
    report = run(table, kafka, topic, chunks=FILES + 1, manifest=str(tmp_path / "m"))
    assert (report.rows, report.chunks_of) == (ROWS, "rows")
    assert values(kafka, topic) == texts(table)


@pytest.mark.parametrize("kind", ["join", "distinct"])
def test_files_of_which_a_row_can_t_tell_its_own(kafka: KafkaCluster, table: DataFrame, kind: str) -> None:
    """A row of a join is of two files, one of several equal rows that is kept may be of any: chunks of rows."""
    topic = new_topic(kafka, 1)
    other = table.selectExpr("id as other")
    df = table.join(other, functions.expr("id = other")) if kind == "join" else table.distinct()
    report = run(df.where("id < 300"), kafka, topic, chunks=2)
    assert (report.rows, report.chunks_of) == (300, "rows")
    assert values(kafka, topic) == texts(table.where("id < 300"))


def test_nothing_is_loaded_too(spark: SparkSession, kafka: KafkaCluster, tmp_path: Path) -> None:
    topic = new_topic(kafka, 2)
    df = spark.createDataFrame([], "customer string, text string")
    assert run(df, kafka, topic, run_id=topic, manifest=str(tmp_path / "m")).rows == 0
    assert run(df, kafka, topic, run_id=topic, manifest=str(tmp_path / "m"), resume=True).skipped == 1
    assert consumed(kafka, topic) == []


@pytest.mark.long
def test_old_brokers(old_kafka: KafkaCluster, table: DataFrame, tmp_path: Path) -> None:
    topic = new_topic(old_kafka, 2)
    assert run(table, old_kafka, topic, manifest=str(tmp_path / "m")).rows == ROWS
    assert values(old_kafka, topic) == texts(table)


def test_a_dry_run_sends_nothing(
    kafka: KafkaCluster, table: DataFrame, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    topic = new_topic(kafka, PARTITIONS)
    value = "if(id = 77, repeat(text, 40000), text)"
    found = run(table, kafka, topic, value=value, dry_run=True, manifest=str(tmp_path / "m")).dry_run
    assert found is not None
    assert (sum(found.rows), found.oversize, found.oversize_keys) == (ROWS, 1, ("'customer-77'",))
    assert found.skew > 1
    assert consumed(kafka, topic) == []
    assert not (tmp_path / "m").exists()
    report = run(table, kafka, topic)
    dry = run(table, kafka, topic, dry_run=True).dry_run
    assert dry is not None
    assert dry.oversize == 0
    held = [0] * PARTITIONS
    for row in consumed(kafka, topic):
        held[row[0]] += 1
    assert dry.rows == tuple(held)
    assert report.rows == sum(held)
    assert "run id" not in capsys.readouterr().err


# --- what goes wrong


def test_a_worker_that_dies_costs_no_row(kafka: KafkaCluster, table: DataFrame, tmp_path: Path) -> None:
    topic = new_topic(kafka, PARTITIONS)
    flag = str(tmp_path / "died")

    def deadly(number: int, text: str) -> str:
        if number == 4321 and not os.path.exists(flag):
            with open(flag, "w"):
                os.kill(os.getpid(), signal.SIGKILL)
        return text

    # PySpark reads annotations as those of another kind of function, and warns.
    function = functions.udf(lambda number, text: deadly(number, text), "string")
    dying = table.select("customer", function("id", "text").alias("text"))
    assert run(dying, kafka, topic, chunks=2, manifest=str(tmp_path / "m")).rows == ROWS
    assert os.path.exists(flag)
    assert values(kafka, topic) == texts(table)


def test_a_row_that_is_too_large(kafka: KafkaCluster, table: DataFrame) -> None:
    topic = new_topic(kafka, PARTITIONS)
    value = "if(id = 77, repeat(text, 40000), text)"
    with pytest.raises(AioprodError, match=r"customer-77.*1280000 bytes.*max\.request\.size=1048576"):
        run(table, kafka, topic, value=value, chunks=1)
    assert consumed(kafka, topic) == []


@pytest.mark.parametrize("with_manifest", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_run_goes_on_where_it_was(kafka: KafkaCluster, table: DataFrame, tmp_path: Path, with_manifest: bool) -> None:
    """What was committed is neither written again nor forgotten in the manifest."""
    topic = new_topic(kafka, PARTITIONS)
    folder = str(tmp_path / "m") if with_manifest else None
    arguments: dict[str, Any] = {"chunks": 3, "run_id": topic, "manifest": folder}
    interrupt(lambda: run(table, kafka, topic, **arguments), chunk=2)
    with pytest.raises(UsageError, match="already" if with_manifest else "has committed 2 chunks"):
        run(table, kafka, topic, **arguments)
    lost = None
    if folder is not None:
        lost = Manifest.from_json(Path(folder, FILE).read_text())
        assert set(lost.chunks) == {0, 1}
        Path(folder, FILE).write_text(replace(lost, chunks={0: lost.chunks[0]}).to_json())
    report = run(table, kafka, topic, **arguments, resume=True)
    assert (report.done, report.skipped) == (1, 2)
    assert 0 < report.rows < ROWS
    assert values(kafka, topic) == texts(table)
    if folder is not None and lost is not None:
        assert report.all_rows == ROWS
        assert Manifest.from_json(Path(folder, FILE).read_text()).chunks[1] == lost.chunks[1]
    again = run(table, kafka, topic, **arguments, resume=True)
    assert (again.done, again.skipped, again.rows) == (0, 3, 0)
    with pytest.raises(UsageError, match="partitioner" if with_manifest else "belongs to another"):
        run(table, kafka, topic, **{**arguments, "partitioner": "crc32"}, resume=True)
    assert len(consumed(kafka, topic)) == ROWS


def interrupt(work: Callable[[], LoadReport], *, chunk: int) -> None:
    """A load that is interrupted, as by Ctrl-C, before it writes a chunk."""
    whole = job._Run._chunk

    def interrupting(self: job._Run, number: int) -> DataFrame:
        if number == chunk:
            raise KeyboardInterrupt
        return whole(self, number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job._Run, "_chunk", interrupting)
        with pytest.raises(KeyboardInterrupt):
            work()


def test_the_manifest_of_another_run_is_refused(kafka: KafkaCluster, table: DataFrame, tmp_path: Path) -> None:
    topic = new_topic(kafka, 1)
    folder = str(tmp_path / "m")
    run(table, kafka, topic, run_id=f"{topic}.1", manifest=folder)
    for resume in (False, True):
        with pytest.raises(UsageError, match=f"holds the manifest of run '{topic}.1', not of '{topic}.2'"):
            run(table, kafka, topic, run_id=f"{topic}.2", manifest=folder, resume=resume)
    with pytest.raises(ConfigError, match="no receipts"):
        run(table, kafka, topic, run_id=f"{topic}.1", manifest=str(tmp_path / "new"), resume=True)
    assert len(consumed(kafka, topic)) == ROWS


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"value": "nothing"}, "The expression for value, nothing, can't be used: .*`nothing`"),
        ({"value": "text ||"}, "The expression for value, text ||, can't be used: "),
        ({"value": "id"}, "The expression for value, id, is of type bigint.*string or binary"),
        ({"value": 7}, "value is 7"),
        ({"key": "id"}, "The expression for key, id, is of type bigint"),
        ({"timestamp": "text"}, "The expression for timestamp, text, is of type string"),
        ({"headers": {"h": "id"}}, "header 'h' is of type bigint"),
        ({"headers": {1: "text"}}, "header's name is text, not 1"),
        ({"headers": "text"}, "The expression for headers, text, is of type string"),
        ({"order_by": "nothing"}, "The expression for order_by"),
        ({"partitioner": "murmur3000"}, "murmur3000"),
        ({"partitioner": "round_robin"}, "round_robin"),
        ({"rate": "fast"}, "rate is 'fast'"),
        ({"chunks": 0}, "chunks is 0"),
        ({"tasks": 0}, "tasks is 0"),
        ({"run_id": "a b"}, "The run id 'a b'"),
        ({"resume": True}, "resume needs the run id"),
        ({"manifest": "nowhere://x/y"}, "The folder 'nowhere://x/y' can't be used"),
        ({"linger": 5}, "linger"),
        ({"when_marker_is_missing": "pray"}, "pray"),
        ({"topic": "no-such-topic"}, "no-such-topic"),
    ],
    ids=str,
)
def test_bad_input_is_told_in_a_sentence_before_any_task_runs(
    spark: SparkSession, kafka: KafkaCluster, table: DataFrame, arguments: dict[str, Any], sentence: str
) -> None:
    group = f"bad-{arguments}"
    spark.sparkContext.setJobGroup(group, "")
    given = {"topic": new_topic(kafka, 1), **arguments}
    with pytest.raises(AioprodError, match=sentence) as raised:
        run(table, kafka, **given)
    assert "\n" not in str(raised.value)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup(group) == []
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda df: df.selectExpr("uuid() as text", "customer"), "gives other rows, as rand"),
        (lambda df: df.limit(3), "what limit"),
        (lambda df: df.sample(0.5), "what sample"),
        (lambda df: df.withColumn("at", functions.current_timestamp()), r"as current_timestamp\(\) makes them"),
        (lambda df: df.where("id < (select year(max(now())) from values (1))"), r"as now\(\) makes them"),
        (lambda df: df.dropDuplicates(["customer"]), r"which of its rows dropDuplicates\(\)"),
        (lambda df: df.groupBy("customer").agg(functions.first("text").alias("text")), r"what first\(\) of a group"),
        (
            lambda df: df.groupBy("customer").agg(functions.expr("to_json(collect_list(text)) text")),
            "what collect_list",
        ),
    ],
)
def test_input_that_can_t_be_repeated(
    kafka: KafkaCluster, table: DataFrame, make: Callable[[DataFrame], DataFrame], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        run(make(table), kafka, new_topic(kafka, 1), chunks=FILES + 1)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"value": f"concat_ws('', {', '.join(['text'] * 40)}, now())"}, r"as now\(\) makes them"),
        ({"value": "concat(text, localtimestamp())"}, r"as localtimestamp\(\) makes them"),
        ({"value": "concat(text, timestamp 'now')"}, "as timestamp 'now' makes them"),
        ({"key": "uuid()"}, "as rand"),
    ],
)
def test_records_that_can_t_be_repeated(
    kafka: KafkaCluster, table: DataFrame, arguments: dict[str, Any], sentence: str
) -> None:
    topic = new_topic(kafka, 1)
    with pytest.raises(ConfigError, match=sentence):
        run(table, kafka, topic, chunks=FILES + 1, **arguments)


def test_what_no_chunk_is_chosen_by_may_be_others_each_time(spark: SparkSession, kafka: KafkaCluster) -> None:
    """The time of a record and its headers; and no text that only looks like it."""
    topic = new_topic(kafka, 1)
    value = "concat(text, if(true, '', 'now()'))"
    arguments: dict[str, Any] = {"value": value, "timestamp": "now()", "headers": {"at": "cast(now() as string)"}}
    df = spark.range(500).selectExpr("md5(cast(id as string)) as text", "'k' as customer")
    assert run(df, kafka, topic, chunks=2, **arguments).rows == 500
    assert values(kafka, topic) == texts(df)


def test_a_chunk_of_files_may_tell_the_time(kafka: KafkaCluster, table: DataFrame) -> None:
    topic = new_topic(kafka, 1)
    assert run(table, kafka, topic, chunks=2, value="to_json(struct(id, now() as at))").rows == ROWS
    assert sorted(json.loads(text)["id"] for text in values(kafka, topic)) == list(range(ROWS))


def test_rows_that_are_others_for_each_chunk_are_found_out(
    spark: SparkSession, kafka: KafkaCluster, tmp_path: Path
) -> None:
    made = functions.udf(lambda number: os.urandom(8).hex(), "string")
    df = spark.range(400).select(made("id").alias("text"), functions.lit("k").alias("customer"))
    with pytest.raises(UsageError, match="400 rows were counted before it"):
        run(df, kafka, new_topic(kafka, 1), chunks=3, manifest=str(tmp_path / "m"))


def test_a_row_that_is_only_counted_is_found_out_without_a_manifest(
    spark: SparkSession, kafka: KafkaCluster, tmp_path: Path
) -> None:
    seen = str(tmp_path / "seen")

    def is_there(number):  # type: ignore[no-untyped-def]  # Spark would take hints for those of pandas
        if number:
            return True
        first = not os.path.exists(seen)
        Path(seen).touch()
        return first

    kept = functions.udf(is_there, "boolean")
    df = spark.range(400).filter(kept("id")).select(functions.col("id").cast("string").alias("text"))
    with pytest.raises(UsageError, match="400 rows were counted before it, 399 rows were written"):
        run(df, kafka, new_topic(kafka, 1), chunks=3, key=None)


def test_a_stream_can_t_be_loaded(spark: SparkSession, kafka: KafkaCluster) -> None:
    with pytest.raises(UsageError, match="A stream can't be loaded"):
        run(spark.readStream.format("rate").load(), kafka, new_topic(kafka, 1))


def test_the_command_says_it_in_a_line(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ["load", "--topic", new_topic(kafka, 1), "--bootstrap-servers", kafka.bootstrap_servers, "--value", "v"]
    assert main([*given, "--from", f"parquet:{tmp_path / 'none'}"]) == 1
    assert capsys.readouterr().err.count("\n") <= 2
    with pytest.raises(SystemExit, match="2"):
        main(given)


# --- the folder of a manifest


def test_a_folder_of_hadoop_s(spark: SparkSession, tmp_path: Path) -> None:
    """As on a file system that is not a folder of this machine: all through the JVM."""
    local = folder_at(spark, str(tmp_path / "a b"))
    assert local == folder_at(spark, f"file:{tmp_path}/a b") or isinstance(local, LocalFolder)
    assert local.path == str(tmp_path / "a b")
    session: Any = spark
    configuration = session._jsparkSession.sessionState().newHadoopConf()
    folder = HadoopFolder(session._jvm, configuration, f"file:{tmp_path}/c")
    assert folder.read(FILE) is None
    folder.write(FILE, "one \N{SNOWMAN}")
    folder.write(FILE, "two \N{SNOWMAN}")
    assert folder.read(FILE) == "two \N{SNOWMAN}"
    assert (tmp_path / "c" / FILE).read_text() == "two \N{SNOWMAN}"
    assert receipts_of(folder.path, 1).endswith("/c/receipts/chunk=1")
    (tmp_path / "file").write_text("")
    broken = HadoopFolder(session._jvm, configuration, f"file:{tmp_path}/file")
    with pytest.raises(ConfigError, match="can't be written"):
        broken.write(FILE, "text")
