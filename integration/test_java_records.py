"""Record batches between Kafka's own classes and ours, in every codec."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from aioprod.records import parse_batches
from integration.support.java import JavaOracle
from integration.support.random_batches import CODECS, control_batch, empty_batch, random_batch, sent_batch
from tests.support.golden import batch_to_json, build_batch, from_base64, to_base64
from tests.support.length import by_length

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]  # the first run fetches the jars

BATCHES_PER_CODEC = by_length(15, 60)
LEVELS = {
    "none": (None,),
    "gzip": (None, -1, 1, 9),
    "snappy": (None,),
    "lz4": (None, 1, 9, 17),
    "zstd": (None, -5, 1, 19),
}


@pytest.mark.parametrize("codec", CODECS)
def test_batches_that_java_writes(oracle: JavaOracle, codec: str, cases: Counter[str]) -> None:
    source = random.Random(codec)
    for _ in range(BATCHES_PER_CODEC):
        batches = [random_batch(source, codec) for _ in range(source.randint(1, 3))]
        data = from_base64(oracle.call("write_batches", batches=batches))
        java = oracle.call("read_batches", bytes=to_base64(data))
        assert [batch_to_json(batch) for batch in parse_batches(data)] == java
        cases[f"record batches Java -> aioprod, {codec}"] += len(batches)
        cases["records Java -> aioprod"] += sum(len(batch["records"]) for batch in java)


def test_markers_and_empty_batches_that_java_writes(oracle: JavaOracle, cases: Counter[str]) -> None:
    source = random.Random("control")
    batches = [control_batch(source, marker) for marker in ("COMMIT", "ABORT") * 10]
    batches += [empty_batch(source) for _ in range(10)]
    data = from_base64(oracle.call("write_batches", batches=batches))
    java = oracle.call("read_batches", bytes=to_base64(data))
    assert [batch_to_json(batch) for batch in parse_batches(data)] == java
    assert [batch["marker"] for batch in java] == ["COMMIT", "ABORT"] * 10 + [None] * 10
    cases["control and empty batches Java -> aioprod"] += len(batches)


@pytest.mark.parametrize("codec", CODECS)
def test_batches_that_we_write(oracle: JavaOracle, codec: str, cases: Counter[str]) -> None:
    source = random.Random(f"{codec} of ours")
    compressed = 0
    for _ in range(BATCHES_PER_CODEC):
        batch = sent_batch(source, codec)
        for level in LEVELS[codec]:
            data = build_batch(batch, level)
            [read] = oracle.call("read_batches", bytes=to_base64(data))
            assert {name: read[name] for name in batch} | {"codec": codec} == batch
            assert read["codec"] in (codec, "none")
            assert read["max_timestamp"] == max(record["timestamp"] for record in batch["records"])
            compressed += read["codec"] == codec
            cases[f"record batches aioprod -> Java, {codec}"] += 1
            cases["records aioprod -> Java"] += len(read["records"])
    assert compressed > BATCHES_PER_CODEC / 2


def test_without_compression_we_write_javas_bytes(oracle: JavaOracle, cases: Counter[str]) -> None:
    source = random.Random("bytes")
    for _ in range(BATCHES_PER_CODEC):
        batch = sent_batch(source, "none")
        assert to_base64(build_batch(batch)) == oracle.call("write_batches", batches=[batch])
        cases["record batches equal to Java's bytes"] += 1
