"""`audit` on a real broker: it finds and names each kind of error in a topic, and reports no others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from aioprod import Producer
from aioprod.errors import AioprodError
from aioprod.spark import audit, load
from aioprod.spark.__main__ import main
from aioprod.spark.auditing import AuditReport
from aioprod.spark.manifest import FILE, Manifest
from aioprod.testing import KafkaCluster
from integration.spark.topics import consumed, new_topic

ROWS = 9000
PARTITIONS = 3
Row = tuple[bytes | None, bytes | None]
Log = dict[int, list[Row]]


class Loaded(NamedTuple):
    """A topic after a load, with rows of somebody else's before it, and what is in it by partition."""

    topic: str
    manifest: str
    rows: Log


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    topic = new_topic(kafka, PARTITIONS)
    send(kafka, topic, {0: [(b"before", b"1")], 2: [(None, b"2"), (b"", None)]})
    folder = str(tmp_path_factory.mktemp("audit") / "manifest")
    df = spark.range(ROWS).selectExpr("concat('k', id) as key", "md5(cast(id % 4000 as string)) as value")
    load(
        df,
        bootstrap_servers=kafka.bootstrap_servers,
        topic=topic,
        key="if(key like '%77', null, key)",
        value="if(key like '%55', null, value)",
        chunks=2,
        run_id=topic,
        manifest=folder,
        progress=False,
    )
    rows: Log = {partition: [] for partition in range(PARTITIONS)}
    for partition, _, key, value, _, _ in consumed(kafka, topic):
        rows[partition].append((key, value))
    return Loaded(topic, folder, {0: rows[0][1:], 1: rows[1], 2: rows[2][2:]})


def send(cluster: KafkaCluster, topic: str, rows: Log) -> None:
    async def sending() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            for partition, some in rows.items():
                keys, values = [key for key, _ in some], [value for _, value in some]
                result = await producer.send_many(topic, values, keys=keys, partition=partition)
                assert (result.count, result.failures) == (len(some), ())

    asyncio.run(sending())


def copied(cluster: KafkaCluster, loaded: Loaded, change: Callable[[Log], None]) -> str:
    """Another topic with the same rows but for a change."""
    rows = {partition: list(some) for partition, some in loaded.rows.items()}
    change(rows)
    topic = new_topic(cluster, PARTITIONS)
    send(cluster, topic, rows)
    return topic


def audited(spark: SparkSession, cluster: KafkaCluster, loaded: Loaded, topic: str, **arguments: object) -> AuditReport:
    return audit(
        spark,
        manifest=loaded.manifest,
        bootstrap_servers=cluster.bootstrap_servers,
        topic=topic,
        **arguments,  # type: ignore[arg-type]
    )


def found(report: AuditReport) -> list[tuple[str, str | None, int, int]]:
    return [(one.kind, one.key, one.partition, one.offset) for one in report.findings]


def counts(report: AuditReport) -> dict[str, int]:
    return {kind: count for kind, count in report.counts.items() if count}


# --- clean


@pytest.mark.parametrize("isolation", ["read_committed", pytest.param("read_uncommitted", marks=pytest.mark.long)])
def test_a_topic_that_was_loaded_is_clean(
    spark: SparkSession, kafka: KafkaCluster, loaded: Loaded, isolation: str
) -> None:
    """Also with other rows before those of the run."""
    report = audited(spark, kafka, loaded, loaded.topic, isolation=isolation)
    assert (report.is_clean, report.was_full, report.promised, report.found) == (True, False, ROWS, ROWS)
    assert [one.promised for one in report.partitions] == [len(loaded.rows[place]) for place in range(PARTITIONS)]


def test_a_copy_is_clean(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    report = audited(spark, kafka, loaded, copied(kafka, loaded, lambda rows: None))
    assert (report.is_clean, report.was_full, counts(report)) == (True, False, {})


# --- not clean


def test_a_lost_row(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    key = loaded.rows[1][10][0]
    report = audited(spark, kafka, loaded, copied(kafka, loaded, lambda rows: rows[1].pop(10) and None))
    assert not report.is_clean
    assert counts(report) == {"lost": 1}
    assert found(report) == [("lost", text(key), 1, offset_of(loaded, 1, 10))]


def test_a_duplicated_row(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    """Somewhere else in its partition, and in another one."""

    def change(rows: Log) -> None:
        rows[0].insert(500, rows[0][20])
        rows[2].append(rows[0][30])

    report = audited(spark, kafka, loaded, copied(kafka, loaded, change))
    assert counts(report) == {"duplicated": 2}
    keys = [text(loaded.rows[0][place][0]) for place in (20, 30)]
    assert found(report) == [("duplicated", keys[0], 0, 500), ("duplicated", keys[1], 2, len(loaded.rows[2]))]


def test_a_row_in_the_wrong_partition(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    report = audited(spark, kafka, loaded, copied(kafka, loaded, lambda rows: rows[0].insert(40, rows[1].pop(50))))
    assert counts(report) == {"misplaced": 1}
    assert found(report) == [("misplaced", text(loaded.rows[1][50][0]), 0, 40)]
    assert report.findings[0].promised_partition == 1


@pytest.mark.parametrize("distance", [1, pytest.param(700, marks=pytest.mark.long)])
def test_swapped_rows(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded, distance: int) -> None:
    def change(rows: Log) -> None:
        rows[2][60], rows[2][60 + distance] = rows[2][60 + distance], rows[2][60]

    report = audited(spark, kafka, loaded, copied(kafka, loaded, change))
    assert set(counts(report)) == {"out_of_order"}
    assert 1 <= counts(report)["out_of_order"] <= 2
    last = report.findings[-1]
    assert last.key in (text(loaded.rows[2][60 + distance][0]), text(loaded.rows[2][61][0]))
    assert last.partition == 2
    assert "out of order" in str(report)


def test_a_changed_row(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    """Is lost as what it was, and extra as what it is."""
    key = loaded.rows[0][70][0]

    def change(rows: Log) -> None:
        rows[0][70] = (key, b"changed")

    report = audited(spark, kafka, loaded, copied(kafka, loaded, change))
    assert counts(report) == {"lost": 1, "extra": 1}
    assert found(report) == [("lost", text(key), 0, offset_of(loaded, 0, 70)), ("extra", text(key), 0, 70)]


def test_a_key_that_became_the_value(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    place = next(place for place, (key, _) in enumerate(loaded.rows[0]) if key is None)

    def change(rows: Log) -> None:
        rows[0][place] = rows[0][place][::-1]

    report = audited(spark, kafka, loaded, copied(kafka, loaded, change))
    assert counts(report) == {"lost": 1, "extra": 1}


def test_all_at_once_and_more_than_are_named(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    def change(rows: Log) -> None:
        del rows[0][100:200]
        rows[1] += rows[1][:50]
        rows[2] += [(b"new", b"%d" % number) for number in range(30)]

    report = audited(spark, kafka, loaded, copied(kafka, loaded, change))
    assert counts(report) == {"lost": 100, "duplicated": 50, "extra": 30}
    assert len(report.findings) == 60
    assert "and 120 more" in str(report)


def test_nothing_is_there(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded) -> None:
    report = audited(spark, kafka, loaded, new_topic(kafka, 1))
    assert counts(report) == {"lost": ROWS}


def test_rows_of_others_after_the_run(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded, tmp_path: Path) -> None:
    """Are extra, unless it is known that others write to the topic; a duplicate is one in any case."""
    topic = new_topic(kafka, 1)
    folder = str(tmp_path / "m")
    servers = kafka.bootstrap_servers
    df = spark.range(100).selectExpr("cast(id as string) as value")
    load(df, bootstrap_servers=servers, topic=topic, value="value", run_id=topic, manifest=folder, progress=False)
    own = Loaded(topic, folder, {})
    assert audited(spark, kafka, own, topic).is_clean
    send(kafka, topic, {0: [(b"k", b"other")]})
    report = audited(spark, kafka, own, topic)
    assert (report.is_clean, counts(report)) == (False, {"extra": 1})
    report = audited(spark, kafka, own, topic, others=True)
    assert (report.is_clean, counts(report), report.found) == (True, {"extra": 1}, 101)
    send(kafka, topic, {0: [(None, b"7")]})
    report = audited(spark, kafka, own, topic, others=True)
    assert (report.is_clean, counts(report)) == (False, {"extra": 1, "duplicated": 1})


def text(key: bytes | None) -> str | None:
    return None if key is None else key.decode()


def offset_of(loaded: Loaded, partition: int, index: int) -> int:
    """Where the load wrote a row: after what was there, and after the markers of transactions between."""
    manifest = Manifest.from_json(Path(loaded.manifest, FILE).read_text())
    for number in sorted(manifest.chunks):
        part = manifest.chunks[number].get(partition)
        if part is not None and index < part.count:
            return part.first + index
        index -= 0 if part is None else part.count
    raise AssertionError("no such row")


# --- the command and the page


def test_the_command(
    spark: SparkSession, kafka: KafkaCluster, loaded: Loaded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, report = tmp_path / "audit.html", tmp_path / "audit.json"
    given = ["audit", "--manifest", loaded.manifest, "--bootstrap-servers", kafka.bootstrap_servers]
    given += ["--report", str(page), "--json", str(report), "--topic"]
    assert main([*given, loaded.topic]) == 0
    assert "Clean: all that was promised" in capsys.readouterr().out
    assert json.loads(report.read_text())["clean"] is True
    assert "data:image/png" in page.read_text()
    topic = copied(kafka, loaded, lambda rows: rows[1].pop(11) and None)
    assert main([*given, topic]) == 1
    assert "lost: key" in capsys.readouterr().out
    assert json.loads(report.read_text())["lost"] == 1
    assert "Not clean: 1 lost." in page.read_text()


def test_what_can_t_be_audited(spark: SparkSession, kafka: KafkaCluster, loaded: Loaded, tmp_path: Path) -> None:
    manifest = Manifest.from_json(Path(loaded.manifest, FILE).read_text())
    Path(tmp_path, FILE).write_text(replace(manifest, chunks={0: manifest.chunks[0]}).to_json())
    for folder, topic, isolation, sentence in (
        (str(tmp_path), loaded.topic, "read_committed", "not complete: 1 of 2 chunks"),
        (str(tmp_path / "none"), loaded.topic, "read_committed", "There is no manifest"),
        (loaded.manifest, "no-such-topic", "read_committed", "no-such-topic"),
        (loaded.manifest, loaded.topic, "read_all", "isolation is 'read_all'"),
    ):
        with pytest.raises(AioprodError, match=sentence):
            audited(spark, kafka, Loaded(topic, folder, {}), topic, isolation=isolation)


@pytest.mark.long
def test_receipts_that_were_lost_with_their_rows_do_not_make_a_topic_clean(
    spark: SparkSession, kafka: KafkaCluster, tmp_path: Path
) -> None:
    """What is left of the receipts is all found: that proves nothing about what the manifest promises."""
    topic, folder = new_topic(kafka), str(tmp_path / "m")
    arguments = {"bootstrap_servers": kafka.bootstrap_servers, "progress": False}
    df = spark.range(50).selectExpr("cast(id as string) as value")
    load(df, topic=topic, value="value", chunks=1, run_id=topic, manifest=folder, **arguments)  # type: ignore[arg-type]
    receipts = Path(folder, "receipts", "chunk=0")
    whole = spark.read.parquet(str(receipts))
    spark.createDataFrame(whole.where("offset < 40").collect(), whole.schema).write.mode("overwrite").parquet(
        str(receipts)
    )
    short = new_topic(kafka)
    send(kafka, short, {0: [(None, row[3]) for row in consumed(kafka, topic)[:40]]})
    report = audit(spark, manifest=folder, bootstrap_servers=kafka.bootstrap_servers, topic=short)
    assert (report.is_clean, report.promised, report.found, report.changed) == (False, 50, 40, (0,))
    assert "receipts of partition 0" in report.verdict
