"""The values of the public API."""

from __future__ import annotations

from aioprod import ProducerRecord, RecordMetadata, SendResult, TopicPartition


def test_metadata_is_a_value() -> None:
    metadata = RecordMetadata("t", 1, 2, 3, 4, 5)
    assert metadata == RecordMetadata("t", 1, 2, 3, 4, 5)
    assert metadata != RecordMetadata("t", 1, 2, 3, 4, 6)
    assert metadata != "t"
    assert hash(metadata) == hash(RecordMetadata("t", 1, 2, 3, 4, 5))
    assert repr(metadata) == (
        "RecordMetadata(topic='t', partition=1, offset=2, timestamp=3, serialized_key_size=4, serialized_value_size=5)"
    )


def test_a_record_needs_a_topic_only() -> None:
    record = ProducerRecord("t")
    assert (record.value, record.key, record.partition, record.headers, record.timestamp) == (None,) * 5


def test_a_result_without_failures() -> None:
    result = SendResult(2, {TopicPartition("t", 0): (range(2),)})
    assert result.failures == ()
    assert result.offsets["t", 0] == (range(2),)  # type: ignore[index]  # a TopicPartition is a plain tuple too
