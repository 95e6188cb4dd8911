"""Records out of a user's columns: each part of a record is a Spark SQL expression or a Column, checked one by one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from aioprod.errors import ConfigError
from aioprod.spark.inputs import quiet, spark_errors
from aioprod.spark.sink.columns import sink_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ORDER", "Expression", "Records"]

Expression: TypeAlias = "str | Column"

ORDER: Final = "aioprod_order"
"""The column that rows of a partition are sorted by; no part of the record."""


@dataclass(frozen=True, slots=True)
class Records:
    """The parts of a record, by the names of the sink's columns, as columns, and as texts that identify them."""

    columns: Mapping[str, Column]
    texts: Mapping[str, str | None]

    @classmethod
    def of(
        cls,
        df: DataFrame,
        *,
        topic: str,
        value: Expression,
        key: Expression | None,
        headers: Mapping[str, Expression] | Expression | None,
        timestamp: Expression | None,
        order_by: Expression | None,
    ) -> Records:
        """Check them against the data frame's columns; raises ConfigError that names the one that is wrong."""
        from pyspark.sql import functions

        columns: dict[str, Column] = {}
        texts: dict[str, str | None] = {}
        for name, given in (("value", value), ("key", key), ("timestamp", timestamp), (ORDER, order_by)):
            said = "order_by" if name == ORDER else name
            texts[said] = None
            if given is not None:
                columns[name], _ = _resolved(df, said, given)
                texts[said] = _text(given)
        texts["headers"] = None
        if isinstance(headers, Mapping):
            made = [_header(df, name, given) for name, given in headers.items()]
            if made:
                columns["headers"] = functions.array(*made)
                texts["headers"] = ", ".join(f"{name}={_text(given)}" for name, given in headers.items())
        elif headers is not None:
            columns["headers"], _ = _resolved(df, "headers", headers)
            texts["headers"] = _text(headers)
        records = cls(columns, texts)
        with spark_errors("The expressions can't be used"), quiet():
            schema = records.select(df).schema
        sink_columns(schema, topic=topic, expressions={name: _sql(text) for name, text in texts.items() if text})
        return records

    def compared(self, df: DataFrame) -> DataFrame:
        """Keys and values alone: by these the rows of a chunk are distinguished, and an audit compares them."""
        return df.select(*(self.columns[name].alias(name) for name in ("key", "value") if name in self.columns))

    def select(self, df: DataFrame) -> DataFrame:
        """The data frame that the sink takes, with `ORDER` if there is an order."""
        return df.select(*(column.alias(name) for name, column in self.columns.items()))


def _header(df: DataFrame, name: str, given: Expression) -> Column:
    from pyspark.sql import functions

    if not isinstance(name, str):
        raise ConfigError(f"A header's name is text, not {name!r}.")
    column, kind = _resolved(df, f"header {name!r}", given)
    if kind.split("(")[0].split(" ")[0] not in ("string", "binary", "varchar", "char"):
        raise ConfigError(
            f"The header {name!r} is of type {kind}: it must be string or binary.",
            hint=f"Cast it: cast({_sql(_text(given))} as string).",
        )
    return functions.struct(functions.lit(name).alias("key"), column.cast("binary").alias("value"))


def _resolved(df: DataFrame, name: str, given: object) -> tuple[Column, str]:
    """A column of `df` and its type; raises ConfigError."""
    from pyspark.sql import Column, functions

    if not isinstance(given, str | Column):
        raise ConfigError(f"{name} is {given!r}: give a Spark SQL expression as text, or a Column.")

    with spark_errors(f"The expression for {name}, {_text(given)}, can't be used"), quiet():
        column = functions.expr(given) if isinstance(given, str) else given
        return column, df.select(column.alias("it")).schema[0].dataType.simpleString()


def _text(given: object) -> str:
    return given if isinstance(given, str) else str(given)


def _sql(text: str) -> str:
    """Of a Column what stands in `Column<'amount'>`."""
    return text.removeprefix("Column<'").removesuffix("'>")
