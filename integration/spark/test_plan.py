"""Plans over real data frames, compared with the partitioners record by record, and with what a broker holds."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from aioprod import Producer
from aioprod.cluster import Cluster, PartitionInfo
from aioprod.config import load_class
from aioprod.errors import ConfigError
from aioprod.routing import Partitioner
from aioprod.spark import plan
from aioprod.spark.__main__ import main
from aioprod.spark.inputs import read_input
from aioprod.testing import KafkaCluster
from integration.spark.topics import consumed, new_topic

COMMITS = 6000


def commits(count: int = COMMITS) -> list[dict[str, Any]]:
    """As a project's history is: few authors write most, and one commit in fifty has none."""
    chance = random.Random(17)
    return [
        {
            "sha": f"{chance.getrandbits(48):012x}",
            "author": None if number % 50 == 0 else f"{int(700 * chance.random() ** 4):010x}",
            "files": chance.randint(1, 40),
        }
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commits as lines of JSON, packed."""
    path = tmp_path_factory.mktemp("history") / "commits.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(commit) + "\n" for commit in commits())
    return path


@pytest.fixture(scope="module")
def df(spark: SparkSession, history: Path) -> DataFrame:
    return read_input(spark, f"json:{history}").repartition(3)


def keys() -> list[bytes | None]:
    return [None if commit["author"] is None else commit["author"].encode() for commit in commits()]


def one_by_one(name: str, count: int, rows: Sequence[bytes | None]) -> list[int]:
    cluster = Cluster([], [PartitionInfo("t", index, None, (), ()) for index in range(count)])
    partitioner: Partitioner = load_class(name, "partitioner")()
    held = Counter(partitioner.partition("t", key, None, cluster) for key in rows)
    return [held[index] for index in range(count)]


def test_every_record_is_where_its_partitioner_puts_it(df: DataFrame) -> None:
    names = ["murmur2", "crc32", "fnv1a", "murmur3", "murmur2_random"]
    report = plan(df, key="author", partitioners=names, counts=[12, 5, 24], consumers=4)
    with_key = [key for key in keys() if key is not None]
    assert (report.rows, report.keyless_rows, report.keys) == (COMMITS, COMMITS // 50, len(set(with_key)))
    for layout in report.results:
        if layout.partitioner in ("murmur2", "crc32"):
            assert list(layout.rows) == one_by_one(layout.partitioner, layout.count, keys())
        else:
            assert layout.spread_rows == COMMITS // 50
            dictated = one_by_one(layout.partitioner, layout.count, with_key)
            extra = [rows - least for rows, least in zip(layout.rows, dictated, strict=True)]
            assert max(extra) - min(extra) <= 1
        assert sum(layout.rows) == COMMITS
    held = Counter(keys()).most_common(1)[0]
    assert (report.hot_keys[0].key, report.hot_keys[0].rows) == held


def test_what_moves_when_growing(df: DataFrame) -> None:
    report = plan(df.where("author is not null"), key="author", counts=[12, 18])
    placed = {key: [one_by_one("murmur2", count, [key]).index(1) for count in (12, 18)] for key in set(keys()) if key}
    moved = [key for key in keys() if key is not None and placed[key][0] != placed[key][1]]
    (growth,) = report.growth
    assert (growth.rows, growth.keys) == (len(moved), len(set(moved)))


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_the_broker_holds_what_was_predicted(df: DataFrame, kafka: KafkaCluster, partitioner: str) -> None:
    topic = new_topic(kafka, 12)
    records = df.selectExpr("author as key", "to_json(struct(*)) as value")
    report = plan(records, key="key", partitioners=[partitioner], counts=[6, 12])
    rows = records.collect()

    async def send() -> None:
        async with Producer(kafka.bootstrap_servers, partitioner=partitioner) as producer:
            result = await producer.send_many(
                topic,
                [row.value.encode() for row in rows],
                keys=[None if row.key is None else row.key.encode() for row in rows],
            )
            assert not result.failures

    asyncio.run(send())
    stored = consumed(kafka, topic)
    predicted = report.result(partitioner, 12)
    in_partitions = Counter(partition for partition, *_ in stored)
    assert list(predicted.rows) == [in_partitions[index] for index in range(12)]
    sizes: Counter[int] = Counter()
    for partition, _, key, value, *_ in stored:
        sizes[partition] += len(key or b"") + len(value or b"")
    assert list(predicted.bytes) == [sizes[index] for index in range(12)]


def test_the_command(spark: SparkSession, history: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, numbers = tmp_path / "plan.html", tmp_path / "plan.json"
    arguments = ["plan", "--from", f"json:{history}", "--key", "author", "--partitioners", "murmur2, crc32"]
    arguments += ["--counts", "12,24", "--consumers", "8", "--report", str(page), "--json", str(numbers)]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert f"{COMMITS:,} rows" in told
    assert f"The report is in {page}\n" in told
    results = json.loads(numbers.read_text())["results"]
    assert [(one["partitioner"], one["count"], sum(one["rows"])) for one in results] == [
        (name, count, COMMITS) for name in ("murmur2", "crc32") for count in (12, 24)
    ]
    assert results[0]["rows"] == one_by_one("murmur2", 12, keys())
    assert "data:image/png;base64," in page.read_text()
    assert spark.range(1).count() == 1, "the session that was running goes on"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("auther", r"The expression for key, 'auther', can't be used: .*auther.* cannot be resolved"),
        ("upper(", r"The expression for key, 'upper\(', can't be used: Syntax error"),
        ("files", r"The key is of type bigint: a record's key is string or binary\."),
    ],
)
def test_keys_that_can_not_be(df: DataFrame, key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        plan(df, key=key, counts=[4])
    assert "\n" not in caught.value.message


def test_other_bad_input(spark: SparkSession, df: DataFrame, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rows"):
        plan(df.where("files < 0"), key="author", counts=[4])
    with pytest.raises(ConfigError, match="The value is of type bigint"):
        plan(df, key="author", value="files", counts=[4])
    with pytest.raises(ConfigError, match=r"can't be read: Path does not exist: .*nothing-here"):
        read_input(spark, f"parquet:{tmp_path}/nothing-here")
    with pytest.raises(ConfigError, match=r"can't be read: The table or view `nobody_made_it` cannot be found\."):
        read_input(spark, "table:nobody_made_it")
    (tmp_path / "broken.json").write_text('{"a": 1}\nno JSON\n')
    with pytest.raises(ConfigError, match=r"can't be read: Malformed records are detected"):
        read_input(spark, f"json:{tmp_path}/broken.json")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ConfigError, match="has no columns: it is empty"):
        read_input(spark, f"csv:{tmp_path}/empty.csv")


def test_every_kind_of_input_gives_the_same_plan(spark: SparkSession, df: DataFrame, tmp_path: Path) -> None:
    some = df.select("sha", "author")
    some.write.parquet(f"{tmp_path}/parquet")
    some.write.csv(f"{tmp_path}/csv", header=True)
    some.createOrReplaceTempView("plan_commits")
    sources = [f"parquet:{tmp_path}/parquet", f"csv:{tmp_path}/csv", "table:plan_commits"]
    found = {tuple(plan(read_input(spark, source), key="author", counts=[12]).results[0].rows) for source in sources}
    assert found == {tuple(one_by_one("murmur2", 12, keys()))}
