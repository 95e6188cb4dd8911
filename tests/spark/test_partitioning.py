"""Co-partitioning without a JVM: what workers call, the numbers that stand for tasks, and what is refused."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import mmh3
import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

import aioprod.spark
from aioprod.errors import ConfigError
from aioprod.routing import partitions_of
from aioprod.spark.partitioning import (
    _by_arrow,
    _by_pandas,
    _numbers_of_tasks,
    arrow_array,
    co_partitioned,
    with_partition,
)

KEYS = [b"a", None, b"", b"a-little-bit-longer-string"]
COUNTS = [12, 5, 12, 7]


class Frame:
    """A data frame as far as it is looked at before Spark is asked for anything."""

    def __init__(self, schema: StructType, *, is_streaming: bool = False) -> None:
        self.schema = schema
        self.columns = schema.fieldNames()
        self.isStreaming = is_streaming


FRAME: Any = Frame(StructType().add("key", StringType()).add("value", StringType()))


def expected(name: str, counts: list[int]) -> list[int | None]:
    found = arrow_array(partitions_of(pa.array(KEYS), name, pa.array(counts), start=None))
    values: list[int | None] = found.to_pylist()
    return values


@pytest.mark.parametrize("name", ["default", "consistent_random", "murmur3"])
def test_the_functions_that_workers_call(name: str) -> None:
    dumps: Any = cloudpickle.dumps
    arrow = pickle.loads(dumps(_by_arrow(name, 12).func))
    assert arrow(pa.array(KEYS)).to_pylist() == expected(name, [12] * 4)
    arrow = pickle.loads(dumps(_by_arrow(name, None).func))
    assert arrow(pa.array(KEYS), pa.array(COUNTS, pa.int32())).to_pylist() == expected(name, COUNTS)


@pytest.mark.parametrize("name", ["default", "consistent_random", "murmur3"])
def test_the_functions_that_workers_of_an_older_pyspark_call(name: str) -> None:
    series = _by_pandas(name, 12).func(pd.Series(KEYS))
    assert pa.Array.from_pandas(series, type=pa.int32()).to_pylist() == expected(name, [12] * 4)
    series = _by_pandas(name, None).func(pd.Series(KEYS), pd.Series(COUNTS))
    assert pa.Array.from_pandas(series, type=pa.int32()).to_pylist() == expected(name, COUNTS)


@pytest.mark.parametrize("tasks", [1, 2, 7, 200])
def test_numbers_whose_hash_is_the_task(tasks: int) -> None:
    numbers = _numbers_of_tasks(tasks)
    assert [mmh3.hash(struct.pack("<i", number), 42) % tasks for number in numbers] == list(range(tasks))
    assert len(numbers) == tasks


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"partitioner": "murmur"}, "'murmur' names no partitioner"),
        ({"partitioner": "round_robin"}, "does not choose by a hash of the key"),
        ({"counts": {"t": 0}}, "can't have 0 partitions"),
        ({"counts": {}}, "number of partitions of topic 't' is not given"),
        ({"counts": {"other": 1}}, "number of partitions of topic 't' is not given"),
        ({"topic": None}, "There is no topic"),
    ],
)
def test_refused_before_spark_is_asked(arguments: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"partitioner": "murmur2", "counts": {"t": 3}, "topic": "t"}
    with pytest.raises(ConfigError, match=said):
        with_partition(FRAME, **(given | arguments))


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("Key", LongType(), "'Key' is of type bigint: cast it to string or binary"),
        ("partition", LongType(), "'partition' is of type bigint: cast it to int"),
        ("topic", IntegerType(), "'topic' is of type int: cast it to string"),
    ],
)
def test_columns_of_other_types(name: str, kind: Any, said: str) -> None:
    frame: Any = Frame(StructType().add("value", StringType()).add(name, kind))
    with pytest.raises(ConfigError, match=said):
        with_partition(frame, partitioner="murmur2", counts={"t": 3}, topic="t")


def test_what_co_partitioning_refuses() -> None:
    with pytest.raises(ConfigError, match="no column partition"):
        co_partitioned(FRAME, tasks=2)
    placed: Any = Frame(StructType().add("partition", IntegerType()), is_streaming=True)
    for tasks in (0, True, "2"):
        with pytest.raises(ConfigError, match="tasks is"):
            co_partitioned(placed, tasks=tasks)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="does not sort streams"):
        co_partitioned(placed, tasks=2, order_by="partition")


def test_the_names_are_in_the_package() -> None:
    assert aioprod.spark.with_partition is with_partition
    assert aioprod.spark.co_partitioned is co_partitioned
