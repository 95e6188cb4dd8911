"""What users write as options, and what they are told when it can't be meant."""

from __future__ import annotations

import pickle

import pytest

from aioprod.errors import ConfigError
from aioprod.spark.options import KafkaSettings, SinkOptions

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_are_found_whatever_their_case() -> None:
    options = SinkOptions.from_spark(BROKER | {"includeheaders": "False", "TOPIC": "t"})
    assert (options.topic, options.include_headers, options.delivery) == ("t", False, "at-least-once")


def test_settings_of_kafka_reach_the_producer_by_their_java_names() -> None:
    options = SinkOptions.from_spark(BROKER | {"kafka.linger.ms": "7", "kafka.compression.type": "lz4"})
    made = options.kafka.producer()
    expected = {"bootstrap_servers": ("localhost:9092",), "linger_ms": 7, "compression_type": "lz4"}
    assert made == expected | {"batch_size": 262_144}
    assert KafkaSettings({"bootstrap.servers": "b:1", "batch.size": "7"}).producer()["batch_size"] == 7
    assert options.kafka.session().explicit == {"bootstrap_servers"}


def test_settings_of_other_clients_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "aioprod.spark")
    options = SinkOptions.from_spark(BROKER | {"kafka.session.timeout.ms": "9000", "kafka.retries": "7"})
    assert options.kafka.producer().keys() == {"bootstrap_servers", "batch_size", "retries"}
    assert "Left out: kafka.session.timeout.ms, a setting of consumers." in caplog.messages


def test_what_spark_adds_is_passed_over() -> None:
    assert SinkOptions.from_spark(BROKER | {"checkpointlocation": "/c", "queryName": "q"}).topic is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topik": "t"}, "'topik' is not an option of aioprod. Hint: Did you mean 'topic'?"),
        ({"linger.ms": "1"}, "'linger.ms' is not an option of aioprod. Hint: Did you mean 'kafka.linger.ms'?"),
        ({"zzz": "1"}, "'zzz' is not an option of aioprod. Hint: docs/spark.md lists the options"),
        ({"path": "t"}, "'path' is not an option of aioprod"),
        ({"kafka.lingr.ms": "1"}, "'lingr.ms' is not a setting. Hint: Did you mean 'linger.ms'?"),
        ({"kafka.linger.ms": "soon"}, "linger.ms must be an integer"),
        ({"kafka.key.serializer": "x"}, "kafka.key.serializer can't be set: columns are bytes"),
        ({"kafka.transactional.id": "x"}, 'write with option("delivery", "exactly-once")'),
        ({"kafka.enable.idempotence": "false"}, "it is always on"),
        ({"includeHeaders": "yes"}, "The option includeHeaders is 'yes': it must be true or false."),
        ({"delivery": "maybe"}, "The option delivery is 'maybe': it must be at-least-once or exactly-once."),
        ({"transactional.id": "x"}, "The option transactional.id belongs to exactly-once delivery."),
        ({"kafka.bootstrap.servers": ""}, "The option kafka.bootstrap.servers is missing."),
    ],
)
def test_what_can_not_be_meant_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SinkOptions.from_spark(BROKER | given)
    assert message in str(caught.value)


def test_no_value_is_shown() -> None:
    settings = KafkaSettings({"bootstrap.servers": "b:1", "sasl.jaas.config": "password=hunter2"})
    assert "hunter2" not in f"{settings!r} {settings} {pickle.loads(pickle.dumps(settings))!r}"
    assert "sasl.jaas.config" in repr(settings)
    with pytest.raises(ConfigError) as caught:
        SinkOptions.from_spark(BROKER | {"kafka.sasl.jaas.config": "password=hunter2"})
    assert "hunter2" not in str(caught.value)


def test_settings_are_equal_by_what_they_hold() -> None:
    one, other = (KafkaSettings({"bootstrap.servers": "b:1", "linger.ms": "5"}) for _ in range(2))
    assert (one, hash(one)) == (other, hash(other))
    assert len(one) == 2
