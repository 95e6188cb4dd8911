"""The options of the source: what they mean, and what is refused."""

from __future__ import annotations

import json
import logging
import pickle

import pytest

from aioprod.errors import ConfigError, InvalidTopicError
from aioprod.reader.offsets import EARLIEST, LATEST
from aioprod.spark.source.options import Limit, SourceOptions, Topics
from aioprod.types import TopicPartition

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def made(**options: str) -> SourceOptions:
    """As Spark gives them: with names in lower case."""
    given = {"subscribe": "orders"} | {name.replace("__", ".").lower(): value for name, value in options.items()}
    return SourceOptions.from_spark(SERVERS | {name: value for name, value in given.items() if value != "-"})


def test_the_defaults() -> None:
    options = made()
    assert options.topics == Topics(names=("orders",))
    assert (options.start, options.end, options.min_partitions) == (None, None, 1)
    assert (options.records_per_partition, options.offsets_per_trigger) == (None, None)
    assert options.fail_on_data_loss
    assert options.error_without_match
    assert not options.include_headers
    assert options.isolation == "read_uncommitted"
    assert options.reader_config().max_partition_fetch_bytes == 4 << 20
    assert options.reader_config().receive_buffer_bytes == -1
    assert made(kafka__receive__buffer__bytes="5000").reader_config().receive_buffer_bytes == 5000
    assert made(kafka__fetch__max__bytes="1000").reader_config().max_partition_fetch_bytes == 1000
    assert made(kafka__max__partition__fetch__bytes="77").reader_config().max_partition_fetch_bytes == 77


def test_all_of_them() -> None:
    options = made(
        subscribe=" a, b,a,,",
        startingOffsets='{"a": {"0": 5, "1": -2}}',
        endingTimestamp="1700000000000",
        minPartitions="8",
        maxRecordsPerPartition="1000",
        failOnDataLoss="FALSE",
        includeHeaders="true",
        isolation__level="read_committed",
        startingOffsetsByTimestampStrategy="LATEST",
        kafka__client__id="me",
        checkpointLocation="/somewhere",
    )
    assert options.topics.names == ("a", "b")
    offsets = {TopicPartition("a", 0): 5, TopicPartition("a", 1): EARLIEST}
    assert options.start == Limit("startingOffsets", offsets)
    assert options.end == Limit("endingTimestamp", 1_700_000_000_000, is_time=True)
    assert (options.min_partitions, options.records_per_partition) == (8, 1000)
    assert not options.fail_on_data_loss
    assert not options.error_without_match
    assert options.include_headers
    assert options.isolation == "read_committed"
    assert options.reader_config().client_id == "me"
    assert pickle.loads(pickle.dumps(options)) == options
    assert made(kafka__isolation__level="read_committed").isolation == "read_committed"


def test_settings_that_change_nothing_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod.spark")
    made(kafka__retries="7", kafka__session__timeout__ms="9000", kafka__fetch__min__bytes="1", kafka__client__id="me")
    (line,) = caplog.messages
    assert line == (
        "Left out: kafka.retries, a setting of producers; kafka.fetch.min.bytes, as brokers answer as soon as there is "
        "a record; kafka.session.timeout.ms, which belongs to consumer groups."
    )


def test_a_group_and_waits_of_sparks_source_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aioprod.spark")
    options = {"kafkaConsumer.pollTimeoutMs": "5", "fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "5"}
    made(kafka__group__id="g", groupIdPrefix="spark", **options)
    of_spark, of_kafka = caplog.messages
    assert of_spark == (
        "Left out: kafkaConsumer.pollTimeoutMs, as kafka.default.api.timeout.ms says how long to retry; "
        "fetchOffset.numRetries, as kafka.default.api.timeout.ms says how long to retry; fetchOffset.retryIntervalMs, "
        "as kafka.retry.backoff.ms is the wait between two tries; groupIdPrefix, as aioprod reads without a consumer "
        "group."
    )
    assert of_kafka == "Left out: kafka.group.id, as aioprod reads without a consumer group."


def test_what_to_read() -> None:
    assert made(subscribe="-", subscribePattern=" logs-.* ").topics == Topics(pattern="logs-.*")
    assigned = made(subscribe="-", assign='{"a": [3, 0, 3], "b": [1]}').topics
    assert assigned == Topics(partitions={"a": (0, 3), "b": (1,)})


def test_limits() -> None:
    assert made(startingOffsets="Earliest").start == Limit("startingOffsets", EARLIEST)
    assert made(endingOffsets="latest").end == Limit("endingOffsets", LATEST)
    by_time = made(startingOffsetsByTimestamp='{"a": {"2": 0}}').start
    assert by_time == Limit("startingOffsetsByTimestamp", {TopicPartition("a", 2): 0}, is_time=True)
    assert made(endingOffsets="latest").for_batch().end
    assert made(startingOffsets="latest").for_stream().start


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "-"}, "Exactly one of subscribe, subscribePattern, assign .*: none is"),
        ({"assign": '{"a": [0]}'}, "subscribe and assign are given"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": "-", "subscribePattern": "("}, "which is not a pattern"),
        ({"subscribe": "-", "subscribePattern": ""}, "subscribePattern is empty"),
        *[
            ({"subscribe": "-", "assign": value}, "The option assign is .* give partitions by topic")
            for value in ("a", "[]", "{}", '{"a": []}', '{"a": 1}', '{"a": [-1]}', '{"a": [true]}', "[" * 100_000)
        ],
        *[
            ({"startingOffsets": value}, "The option startingOffsets is .* by topic and partition")
            for value in ("first", "{}", "[1]", '{"a": {}}', '{"a": {"x": 1}}', '{"a": {"0": -3}}', '{"a": {"0": "1"}}')
        ],
        ({"endingOffsets": '{"a": {"0": 9223372036854775808}}'}, "The option endingOffsets"),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "startingOffsetsByTimestamp is .* times in ms"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp is 'yesterday': give milliseconds"),
        ({"endingTimestamp": "9223372036854775808"}, "give milliseconds"),
        ({"startingOffsets": "earliest", "startingTimestamp": "1"}, "startingOffsets and startingTimestamp contradict"),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "startingTimestamp is 5, after endingTimestamp"),
        (
            {"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"0": 4}}'},
            "startingOffsets has 5 for a-0, beyond the 4 of endingOffsets",
        ),
        (
            {"startingOffsets": '{"a": {"0": 5}}', "endingOffsets": '{"a": {"1": 9}}'},
            "Only one of startingOffsets and endingOffsets names a-0",
        ),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "it must be error or latest"),
        ({"minPartitions": "0"}, "minPartitions is '0': give a whole number from 1 on"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition is 'many'"),
        ({"maxOffsetsPerTrigger": "-5"}, "maxOffsetsPerTrigger is '-5'"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss is 'yes': it must be true or false"),
        ({"isolation.level": "all"}, "isolation.level is 'all': it must be read_uncommitted or read_committed"),
        ({"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "contradict each other"),
        ({"subscribePatern": "x"}, "'subscribepatern' is not an option .* Did you mean 'subscribePattern'"),
        ({"minOffsetsPerTrigger": "5"}, "does not have the option minOffsetsPerTrigger: set the query's trigger"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset can't be set: startingOffsets says"),
        ({"kafka.fetch.max.byte": "5"}, "fetch.max.bytes"),
        ({"kafka.fetch.max.bytes": "lots"}, "fetch.max.bytes"),
    ],
)  # fmt: skip
def test_what_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        made(**options)


@pytest.mark.parametrize("option", ["subscribe", "assign", "startingOffsets"])
def test_impossible_topics(option: str) -> None:
    value = {"subscribe": "a b", "assign": '{"a b": [0]}', "startingOffsets": '{"a b": {"0": 1}}'}[option]
    with pytest.raises(InvalidTopicError):
        made(**({"subscribe": "-"} if option == "assign" else {}), **{option: value})


def test_what_a_batch_can_not_do(caplog: pytest.LogCaptureFixture) -> None:
    for value in ("latest", '{"a": {"0": 1, "1": -1}}'):
        with pytest.raises(ConfigError, match="A batch can't begin at the latest offset, as startingOffsets says"):
            made(startingOffsets=value).for_batch()
    with pytest.raises(ConfigError, match="A batch can't end at the earliest offset, as endingOffsets says"):
        made(endingOffsets=json.dumps({"a": {"0": -2}})).for_batch()
    caplog.set_level(logging.WARNING, "aioprod.spark")
    assert made(maxOffsetsPerTrigger="5").for_batch().offsets_per_trigger == 5
    assert "maxOffsetsPerTrigger means nothing for a batch" in caplog.text


@pytest.mark.parametrize("option", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_what_a_stream_can_not_do(option: str) -> None:
    value = {"endingOffsets": "latest", "endingTimestamp": "5"}.get(option, '{"a": {"0": 5}}')
    with pytest.raises(ConfigError, match=f"A stream has no end: {option} can be used with spark.read only"):
        made(**{option: value}).for_stream()


def test_secrets_are_not_shown() -> None:
    assert "hunter2" not in repr(made(kafka__client__id="hunter2"))
