"""Kafka's partition for each row inside Spark, and all rows of one partition in one task, in order.

    rows = with_partition(df, partitioner="murmur2", counts={"orders": 12}, topic="orders")
    rows = co_partitioned(rows, tasks=4, order_by="at")

The hashes are those of `aioprod.routing`; which of PySpark's ways to call them, and to place rows, is taken depends on
what this PySpark has, not on its version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import mmh3

from aioprod.errors import ConfigError
from aioprod.routing.columns import Partitions, check_count, partitions_of, rule_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["co_partitioned", "partition_of", "spreading", "with_partition"]

_ROW: Final = "_aioprod_row"
_SPARKS_SEED: Final = 42


def partition_of(key: Column, partitioner: str, count: int | Column) -> Column:
    """The partition (int) that Kafka's clients choose for a key (string or binary) among `count` partitions.

    `partitioner` is one that goes by a hash of the key (`aioprod.routing.HASH_PARTITIONERS`). Keys that dictate no
    partition get null: missing ones, unless the partitioner hashes them as empty. `count` may be a column of int, one
    for each row. Raises ConfigError for the other arguments.
    """
    from pyspark.sql import functions

    rule_of(partitioner)
    function = _by_arrow if hasattr(functions, "arrow_udf") else _by_pandas
    called: Column
    if isinstance(count, int):
        called = function(partitioner, check_count(count))(key)
    else:
        called = function(partitioner, None)(key, count)
    return called


# PySpark reads the kind of a function from its annotations, and can't evaluate them where pyarrow is a local name.


def _by_arrow(partitioner: str, count: int | None) -> Any:
    """The function that Spark's workers call with arrays, from PySpark 4.1 on; without `count` it takes counts too."""
    import pyarrow as pa
    from pyspark.sql.pandas import functions
    from pyspark.sql.types import IntegerType

    def kafka_partition(keys: Any) -> Any:
        return arrow_array(partitions_of(keys, partitioner, count, start=None))

    def kafka_partition_by_count(keys: Any, counts: Any) -> Any:
        return arrow_array(partitions_of(keys, partitioner, counts, start=None))

    make: Any = functions.arrow_udf
    return make(_of(pa.Array, kafka_partition if count is not None else kafka_partition_by_count), IntegerType())


def _by_pandas(partitioner: str, count: int | None) -> Any:
    """The same for PySpark 4.0, whose functions get columns as series of pandas."""
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql.pandas import functions
    from pyspark.sql.types import IntegerType

    def series(keys: Any, counts: Any) -> Any:
        found = partitions_of(pa.Array.from_pandas(keys), partitioner, counts, start=None)
        return arrow_array(found).to_pandas(types_mapper={pa.int32(): pd.Int32Dtype()}.get)

    def kafka_partition(keys: Any) -> Any:
        return series(keys, count)

    def kafka_partition_by_count(keys: Any, counts: Any) -> Any:
        return series(keys, pa.Array.from_pandas(counts, type=pa.int32()))

    make: Any = functions.pandas_udf
    return make(_of(pd.Series, kafka_partition if count is not None else kafka_partition_by_count), IntegerType())


def _of(kind: type, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes and returns only this kind."""
    function.__annotations__ = dict.fromkeys(function.__annotations__, kind)
    return function


def arrow_array(found: Partitions) -> pa.Array:
    """The int32 array of pyarrow over the same memory, null where a key dictates no partition."""
    import pyarrow as pa

    present = None if found.present is None else pa.py_buffer(found.present)
    return pa.Array.from_buffers(pa.int32(), len(found), [present, pa.py_buffer(found.indexes)])


_SPREADING: Final = {"murmur2": "default", "crc32": "crc32_random"}


def spreading(partitioner: str) -> str:
    """The partitioner that places keys as this one does, and spreads rows without a key; itself where it does that.

    For rows none of which has a key: murmur2 and crc32 would hash each as the empty one, all to one partition.
    """
    return _SPREADING.get(partitioner, partitioner)


def with_partition(df: DataFrame, *, partitioner: str, counts: Mapping[str, int], topic: str | None) -> DataFrame:
    """Fill the column `partition` (int), adding it if there is none: the partition that each row's record goes to.

    `counts` says how many partitions each topic has. `topic` is that of all rows, and a column of that name is
    dropped; None takes the column. A row's own partition stays. Rows with a key go where aioprod's producer sends them
    with that partitioner. Rows whose key dictates nothing are spread by a hash of value and timestamp, not by chance:
    a task that Spark runs again must not send them elsewhere.

    Raises ConfigError for arguments and columns that don't fit. While the rows are read, the job fails for a topic
    that is null or not in `counts`, and for a partition that its topic does not have.
    """
    from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation calls it

    names = _names(df, "key", "value", "topic", "timestamp", "partition")
    _check(df, names, partitioner, counts, topic)
    if topic is not None and "topic" in names:
        df = df.drop(names["topic"])
    count = _count(F, counts, topic, names)
    several = topic is None and len(set(counts.values())) > 1
    counted: int | Column = count if several else next(iter(counts.values()))
    hashed = [F.col(names[name]) for name in ("value", "timestamp") if name in names]
    chosen = F.pmod(F.xxhash64(*hashed), count) if hashed else F.lit(0)
    if "key" in names or rule_of(partitioner).hashes_null:
        key = F.col(names["key"]) if "key" in names else F.lit(b"")
        chosen = F.coalesce(partition_of(key, partitioner, counted), chosen)
    if "partition" in names:
        own = F.col(names["partition"])
        said = F.lit(topic) if topic is not None else F.col(names["topic"])
        text = [F.lit("A row has partition "), own, F.lit(", but topic "), said, F.lit(" has "), count]
        out_of_range = F.raise_error(F.concat(*text, F.lit(" partitions, counted from 0.")))
        chosen = F.when(own.isNull(), chosen).when((own >= 0) & (own < count), own).otherwise(out_of_range.cast("int"))
    return df.withColumn(names.get("partition", "partition"), chosen.cast("int"))


def _check(
    df: DataFrame, names: Mapping[str, str], partitioner: str, counts: Mapping[str, int], topic: str | None
) -> None:
    rule_of(partitioner)
    for count in counts.values():
        check_count(count)
    if topic is None and "topic" not in names:
        raise ConfigError(
            "There is no topic: neither is one given for all rows nor is there a column topic.", hint="Give topic=..."
        )
    if not counts or (topic is not None and topic not in counts):
        missing = "of any topic" if topic is None else f"of topic {topic!r}"
        raise ConfigError(f"The number of partitions {missing} is not given.", hint="Add it to counts.")
    types = {name.lower(): kind.simpleString() for name, kind in ((one.name, one.dataType) for one in df.schema)}
    for name, known in (("key", ("string", "binary")), ("topic", ("string",)), ("partition", ("int",))):
        if name in names and types[name].split(" ")[0] not in known:
            raise ConfigError(f"The column {names[name]!r} is of type {types[name]}: cast it to {' or '.join(known)}.")


def _names(df: DataFrame, *wanted: str) -> dict[str, str]:
    """How a data frame writes the names of columns, which count whatever their case."""
    return {name.lower(): name for name in df.columns if name.lower() in wanted}


def _count(F: Any, counts: Mapping[str, int], topic: str | None, names: Mapping[str, str]) -> Column:  # noqa: N803
    """How many partitions the topic of a row has."""
    found: Column
    if topic is not None:
        found = F.lit(counts[topic])
        return found
    name = F.col(names["topic"])
    unknown = F.raise_error(
        F.when(name.isNull(), F.lit("The topic of a row is null.")).otherwise(
            F.concat(F.lit("The topic "), name, F.lit(" of a row is none of those whose partitions are known."))
        )
    )
    # Not a map: Spark looks through the keys of a map one by one, but has a set of the values of `in`.
    found = F
    for count in sorted(set(counts.values())):
        found = found.when(name.isin([one for one in counts if counts[one] == count]), count)
    return found.otherwise(unknown.cast("int"))


def co_partitioned(
    df: DataFrame, *, tasks: int, order_by: str | Column | Sequence[str | Column] | None = None
) -> DataFrame:
    """Shuffle the rows so that all rows of one partition of a topic are in one of `tasks` tasks.

    The columns are `partition`, and `topic` if there is one. Partition p of one topic is in task `p % tasks`; each
    further topic begins at a task of its own. With `order_by` the rows of a partition are neighbours in the order of
    these columns, and rows that are equal there stay in the order in which the data frame has them. Not for streams,
    which Spark does not sort: sort the data frame of each micro-batch. Raises ConfigError for arguments and columns
    that don't fit; the job fails for a row without partition.
    """
    from pyspark.sql import functions as F  # noqa: N812

    names = _names(df, "topic", "partition")
    if "partition" not in names:
        raise ConfigError("The data frame has no column partition.", hint="with_partition() adds it.")
    if type(tasks) is not int or tasks < 1:
        raise ConfigError(f"tasks is {tasks!r}, but it has to be an int from 1 on.")
    if order_by is not None and df.isStreaming:
        raise ConfigError("Spark does not sort streams.", hint="Order the data frame that foreachBatch gets.")
    unplaced = F.raise_error(F.lit("A row has no partition: with_partition() chooses one for each.")).cast("int")
    place = F.coalesce(F.col(names["partition"]), unplaced)
    if "topic" in names:
        place = (place + F.pmod(F.xxhash64(names["topic"]), F.lit(tasks))).cast("int")
    keys = [names[name] for name in ("topic", "partition") if name in names]
    if order_by is None:
        return _placed(df, tasks, place)
    columns = [order_by] if not isinstance(order_by, Sequence) or isinstance(order_by, str) else list(order_by)
    rows = _placed(df.withColumn(_ROW, F.monotonically_increasing_id()), tasks, place)
    return rows.sortWithinPartitions(*keys, *columns, _ROW).drop(_ROW)


def _placed(df: DataFrame, tasks: int, place: Column) -> DataFrame:
    """A shuffle that puts each row into task `place % tasks`."""
    if hasattr(df, "repartitionById"):
        return df.repartitionById(tasks, place)
    return _placed_by_hash(df, tasks, place)


def _placed_by_hash(df: DataFrame, tasks: int, place: Column) -> DataFrame:
    """The same for PySpark 4.0, whose shuffles go by a hash: of numbers with the hashes that are wanted."""
    from pyspark.sql import functions as F  # noqa: N812

    numbers = F.array(*map(F.lit, _numbers_of_tasks(tasks)))
    return df.repartition(tasks, numbers[F.pmod(place, F.lit(tasks))])


def _numbers_of_tasks(tasks: int) -> list[int]:
    """For each task a number that Spark's hash partitioning sends there: murmur3 of its four bytes, modulo tasks."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(mmh3.hash(struct.pack("<i", number), _SPARKS_SEED) % tasks, number)
        number += 1
    return [found[task] for task in range(tasks)]
