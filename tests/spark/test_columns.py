"""The columns that rows may have to become records."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType, _parse_datatype_json_string

from aioprod.errors import ConfigError
from aioprod.spark.sink.columns import sink_columns

FULL = {
    "key": "string",
    "value": "binary",
    "topic": "string",
    "partition": "integer",
    "headers": {
        "type": "array",
        "containsNull": True,
        "elementType": {
            "type": "struct",
            "fields": [
                {"name": "key", "type": "string", "nullable": True, "metadata": {}},
                {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
            ],
        },
    },
    "timestamp": "timestamp",
}


def schema(**columns: object) -> StructType:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns.items()]
    made = StructType.fromJson({"type": "struct", "fields": fields})
    assert isinstance(made, StructType)
    return made


def test_all_columns() -> None:
    assert [name for name, _ in sink_columns(schema(**FULL), topic=None).places] == list(FULL)


def test_other_columns_are_left_out_and_names_have_no_case() -> None:
    columns = sink_columns(schema(id="long", VALUE="string", other="double", Key="binary"), topic="t")
    batch = pa.record_batch({"id": [1], "VALUE": ["v"], "other": [0.5], "Key": [b"k"]})
    assert columns.pick(batch).to_pydict() == {"value": ["v"], "key": [b"k"]}
    assert "key" in columns
    assert "id" not in columns


def test_the_topic_for_all_rows_wins_and_headers_may_stay_behind() -> None:
    columns = sink_columns(schema(**FULL), topic="t", include_headers=False)
    assert [name for name, _ in columns.places] == ["key", "value", "partition", "timestamp"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": "string"}, "The data frame has no column value; it has key."),
        ({"value": "string"}, "There is no topic: neither the option topic nor a column topic is given."),
        ({"value": "long", "topic": "string"}, "The column 'value' is of type bigint: a record's value is string or"),
        ({"value": "string", "topic": "binary"}, "The column 'topic' is of type binary: a record's topic is string."),
        ({"value": "string", "topic": "string", "partition": "long"}, "a record's partition is int."),
        ({"value": "string", "topic": "string", "headers": "string"}, "a record's headers is array<struct<key:string"),
        ({"value": "string", "topic": "string", "timestamp": "long"}, "a record's timestamp is timestamp."),
        ({"value": "string", "topic": "string", "Value": "string"}, "The data frame has two columns 'value'"),
    ],
)
def test_what_can_not_be_records_is_refused(columns: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        sink_columns(schema(**columns), topic=None)
    assert message in str(caught.value)


def test_lengths_and_collations_do_not_matter() -> None:
    for kind in ("varchar(7)", "char(3)", "string"):
        parsed = _parse_datatype_json_string(f'"{kind}"')
        assert sink_columns(StructType().add("value", parsed), topic="t").places == (("value", 0),)


@pytest.mark.parametrize(
    ("name", "kind", "hint"),
    [
        ("value", "double", "Cast it: cast({} as string)."),
        ("key", "long", "Cast it: cast({} as string)."),
        ("value", {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}, "to_json({})."),
        ("topic", "binary", "Cast it: cast({} as string)."),
        ("partition", "long", "Cast it: cast({} as int)."),
        ("partition", "date", None),
        ("headers", "string", "array(struct('source' as key, cast('web' as binary) as value))."),
        ("timestamp", "date", "Cast it: cast({} as timestamp)."),
        ("timestamp", "long", "timestamp_millis({}) or timestamp_seconds({})."),
        ("timestamp", "boolean", None),
    ],
)
def test_the_hint_is_what_spark_can_do(name: str, kind: object, hint: str | None) -> None:
    """Spark 4 casts no double and no map to binary, and no date to int."""
    columns = {"topic": "string", "value": "string", name: kind}
    for expressions, shown in (({}, name), ({name: "amount + 1"}, "amount + 1")):
        with pytest.raises(ConfigError) as caught:
            sink_columns(schema(**columns), topic=None, expressions=expressions)
        said = caught.value.hint
        assert said is None if hint is None else said and said.endswith(hint.format(shown, shown))


def test_an_expression_is_named_as_it_was_given() -> None:
    with pytest.raises(ConfigError) as caught:
        sink_columns(schema(value="double"), topic="t", expressions={"value": "amount"})
    assert caught.value.message == (
        "The expression for value, amount, is of type double: a record's value is string or binary."
    )
