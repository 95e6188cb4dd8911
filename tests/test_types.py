"""The values of the public API."""

from __future__ import annotations

from typing import Any

import pytest

from aioprod import ProducerRecord, RecordMetadata, SendResult, TopicPartition
from aioprod.errors import UsageError
from aioprod.messages.produce import PartitionProduceData
from aioprod.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aioprod.records.cursor import EncodedRecord
from aioprod.records.parser import ParsedRecord
from aioprod.types import ConsumedRecord


def test_metadata_is_a_value() -> None:
    metadata = RecordMetadata("t", 1, 2, 3, 4, 5)
    assert metadata == RecordMetadata("t", 1, 2, 3, 4, 5)
    assert metadata != RecordMetadata("t", 1, 2, 3, 4, 6)
    assert metadata != "t"
    assert hash(metadata) == hash(RecordMetadata("t", 1, 2, 3, 4, 5))
    assert repr(metadata) == (
        "RecordMetadata(topic='t', partition=1, offset=2, timestamp=3, serialized_key_size=4, serialized_value_size=5)"
    )


def test_a_record_needs_a_topic_and_a_value() -> None:
    record = ProducerRecord("t", None)
    assert (record.value, record.key, record.partition, record.headers, record.timestamp) == (None,) * 5
    with pytest.raises(UsageError, match="no value") as caught:
        ProducerRecord("t", key=b"k")  # type: ignore[call-arg]
    assert "tombstone" in str(caught.value.hint)


def test_a_result_without_failures() -> None:
    result = SendResult(2, {TopicPartition("t", 0): (range(2),)})
    assert result.failures == ()
    assert result.offsets["t", 0] == (range(2),)  # type: ignore[index]  # a TopicPartition is a plain tuple too


@pytest.mark.parametrize(
    ("value", "shows"),
    [
        (None, "None"),
        (b"16 bytes are so!", "b'16 bytes are so!'"),
        (b"x" * 2_000_000, "<2000000 bytes: b'xxxxxxxxxxxxxxxx'...>"),
        (bytearray(b"x" * 17), "<17 bytes: b'xxxxxxxxxxxxxxxx'...>"),
        (memoryview(b"x" * 17), "<17 bytes: b'xxxxxxxxxxxxxxxx'...>"),
        (memoryview(b"x" * 40)[::2], "<20 bytes: ......>"),
        ("y" * 17, "<17 characters: 'yyyyyyyyyyyyyyyy'...>"),
        (5, "5"),
        (1.5, "1.5"),
        (2**70, "<int>"),
        ({"card": "4111"}, "<dict of 1>"),
        (object(), "<object>"),
        (dict, "<type>"),
    ],
)
def test_a_record_shows_no_more_than_the_beginning_of_its_value(value: Any, shows: str) -> None:
    assert repr(ProducerRecord("t", value)) == (
        f"ProducerRecord(topic='t', value={shows}, key=None, partition=None, headers=None, timestamp=None)"
    )
    record = ConsumedRecord("t", 1, 2, value, value, (), 3)
    assert repr(record) == (
        f"ConsumedRecord(topic='t', partition=1, offset=2, key={shows}, value={shows}, headers=[], timestamp=3)"
    )
    assert repr(ParsedRecord(2, 3, value, value, ())) == (
        f"ParsedRecord(offset=2, timestamp=3, key={shows}, value={shows}, headers=[])"
    )


class Hostile:
    """Nothing can be asked of it."""

    def __len__(self) -> int:
        raise RuntimeError


def released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


@pytest.mark.parametrize(
    ("value", "shows"), [(released(), "<memoryview>"), (Hostile(), "<Hostile>")], ids=["view", "len"]
)
def test_a_record_is_shown_whatever_its_value_does(value: Any, shows: str) -> None:
    assert f"value={shows}, key={shows}, " in repr(ProducerRecord("t", value, key=value))


@pytest.mark.parametrize(
    ("headers", "shows"),
    [
        ([("password", b"secret"), ("trace", None)], "['password', 'trace']"),
        ((("n" * 17, b"secret"),), "[<17 characters: 'nnnnnnnnnnnnnnnn'...>]"),
        ([("a", b"secret")] * 17, f"[{', '.join([repr('a')] * 16)}, ...]"),
        ({"password": b"secret"}, "<dict>"),
        ([b"secret"], "[?]"),
        (b"secret", "<bytes>"),
    ],
)
def test_a_record_shows_the_names_of_its_headers_only(headers: Any, shows: str) -> None:
    assert f" headers={shows}, " in repr(ProducerRecord("t", b"v", headers=headers))
    encoded = EncodedRecord(1, None, b"v", b"secret")
    assert repr(encoded) == "EncodedRecord(timestamp=1, key=None, value=b'v', headers=<bytes>)"


def test_messages_show_sizes_and_beginnings() -> None:
    data = PartitionProduceData(index=0, records=b"x" * 100)
    assert "records=<100 bytes: b'xxxxxxxxxxxxxxxx'...>" in repr(data)
    for message in (SaslAuthenticateRequest, SaslAuthenticateResponse):
        assert "auth_bytes=<6 bytes>" in repr(message(auth_bytes=b"secret"))
