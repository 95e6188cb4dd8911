"""Record batches that Kafka's own classes wrote: read, and written again; `integration/write_golden.py` makes them."""

from __future__ import annotations

import pytest

from aioprod.records import Compression, parse_batches
from tests.support.golden import batch_to_json, build_batch, from_base64, golden_names, read_golden

CODECS = [codec.name.lower() for codec in Compression]


def test_there_is_a_file_for_each_codec() -> None:
    assert set(golden_names("records")) == {*CODECS, "control"}


@pytest.mark.parametrize("name", golden_names("records"))
def test_what_kafka_wrote_is_read(name: str) -> None:
    for sample in read_golden("records", name):
        assert [batch_to_json(batch) for batch in parse_batches(from_base64(sample["bytes"]))] == sample["batches"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_a_producer_of_kafka_sent_is_written_with_the_same_content(codec: str) -> None:
    for sample in read_golden("records", codec):
        if sample["how"] == "sent":
            [batch] = sample["batches"]
            [parsed] = parse_batches(build_batch(batch))
            # Kafka compresses also where that makes a batch larger.
            assert batch_to_json(parsed) | {"codec": codec} == batch
            assert parsed.codec in (Compression.of(codec), Compression.NONE)


def test_without_compression_what_is_written_is_kafkas_bytes() -> None:
    sent = [sample for sample in read_golden("records", "none") if sample["how"] == "sent"]
    assert sent
    for sample in sent:
        assert build_batch(sample["batches"][0]) == from_base64(sample["bytes"])
