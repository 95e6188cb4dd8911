"""A pyperf suite of the hot functions, for the build that runs: `python -m benchmarks.micro` compares both builds.

Figures are per call from Python code; if a call has a batch of records, its name says how many.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle, islice

import pyperf

import aioprod
from aioprod.messages import ProduceResponse
from aioprod.messages.produce import PartitionProduceResponse, TopicProduceResponse
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.produce import ProduceEncoder, read_plain
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.compression import Compression
from aioprod.records.cursor import RecordCursor
from aioprod.records.headers import NO_HEADERS
from aioprod.records.layout import PREFIX
from aioprod.records.parser import parse_batches
from aioprod.records.table import RecordTable, TableReader
from aioprod.routing.hashes import murmur2
from aioprod.wire.codec import decode, encode
from tests.support.accumulators import Harness

__all__ = ["SUITE", "main"]

VALUE = b"x" * 100
KEYS = [b"key-%d" % number for number in range(1000)]
RECORDS = 140
"""The records of a batch of 16 KB."""
BATCH_SIZE = 16 * 1024
PARTITIONS = 8
PRODUCE_VERSION = 9
RECORD_BYTES_MAX = 200


def _builder() -> RecordBatchBuilder:
    return RecordBatchBuilder(bytearray(PREFIX + BATCH_SIZE + 1))


def _filled() -> RecordBatchBuilder:
    builder = _builder()
    for key in islice(KEYS, RECORDS):
        assert builder.append(1_700_000_000_000, key, VALUE)
    return builder


def _sealed() -> RecordBatchBuilder:
    builder = _filled()
    builder.seal(Compression.NONE, None)
    return builder


def record_append(loops: int) -> float:
    """Append one record to a batch; a full batch is replaced."""
    keys = list(islice(cycle(KEYS), loops))
    builder = _builder()
    start = time.perf_counter()
    for key in keys:
        if not builder.append(1_700_000_000_000, key, VALUE):
            builder = _builder()
    return time.perf_counter() - start


def murmur2_of_keys(loops: int) -> float:
    """Hash one key of 5 to 7 bytes."""
    keys = list(islice(cycle(KEYS), loops))
    start = time.perf_counter()
    for key in keys:
        murmur2(key)
    return time.perf_counter() - start


def seal(loops: int) -> float:
    """Write header and checksum of a batch of 16 KB; it has one record, which is encoded fast."""
    value = bytes(16_000)
    taken = 0.0
    for _ in range(loops):
        builder = _builder()
        assert builder.append(1_700_000_000_000, None, value)
        start = time.perf_counter()
        builder.seal(Compression.NONE, None)
        taken += time.perf_counter() - start
    return taken


def cursor(loops: int) -> float:
    """Iterate over the records of a batch."""
    builder = _filled()
    start = time.perf_counter()
    for _ in range(loops):
        walk = RecordCursor(builder)
        while walk.next():
            pass
    return time.perf_counter() - start


def parse(loops: int) -> float:
    """Parse a batch and its records."""
    builder = _sealed()
    data = bytes(builder.buffer[PREFIX : PREFIX + builder.compressed_size])
    start = time.perf_counter()
    for _ in range(loops):
        for batch in parse_batches(data):
            for _ in batch.records():
                pass
    return time.perf_counter() - start


def columns(loops: int) -> float:
    """Parse a batch into columns."""
    builder = _sealed()
    data = bytes(builder.buffer[PREFIX : PREFIX + builder.compressed_size])
    table = RecordTable(rows_max=RECORDS, size_max=1 << 20)
    start = time.perf_counter()
    for _ in range(loops):
        for batch in parse_batches(data):
            TableReader(batch, 0, batch.next_offset).read(table)
        table.take()
    return time.perf_counter() - start


def accumulator_append(loops: int) -> float:
    """Append one record without a key, from the accumulator's call to the open batch of a partition."""
    harness = Harness(batch_size=BATCH_SIZE, buffer_memory=max(2**20, loops * RECORD_BYTES_MAX), max_request_size=2**20)
    harness.lead(dict.fromkeys(range(PARTITIONS), 1))
    append = harness.accumulator.append
    start = time.perf_counter()
    for _ in range(loops):
        append("t", None, VALUE, NO_HEADERS, -1, 1_700_000_000_000, None, 0.0)
    return time.perf_counter() - start


def _request() -> list[Batch]:
    """Create a request with one sealed batch per partition."""
    harness = Harness(batch_size=BATCH_SIZE, buffer_memory=2**20, max_request_size=2**20)
    harness.lead(dict.fromkeys(range(PARTITIONS), 1))
    batches = [harness.batch(VALUE, partition=partition) for partition in range(PARTITIONS)]
    for batch in batches:
        batch.builder.seal(Compression.NONE, None)
    return batches


def produce_encode(loops: int) -> float:
    """Encode the body of a request with 8 batches."""
    batches, encoder = _request(), ProduceEncoder(-1, 30_000)
    start = time.perf_counter()
    for _ in range(loops):
        encoder.encode(PRODUCE_VERSION, batches)
    return time.perf_counter() - start


def _answer() -> bytes:
    stored = tuple(
        PartitionProduceResponse(index=index, error_code=0, base_offset=10**6, log_start_offset=0, record_errors=())
        for index in range(PARTITIONS)
    )
    topic = TopicProduceResponse(name="t", partition_responses=stored)
    return encode(ProduceResponse(responses=(topic,), throttle_time_ms=0), PRODUCE_VERSION)


def produce_answer(loops: int) -> float:
    """Decode the response without errors, on the fast path."""
    batches = _request()
    answer = _answer()
    assert read_plain(PRODUCE_VERSION, answer, batches) is not None
    start = time.perf_counter()
    for _ in range(loops):
        read_plain(PRODUCE_VERSION, answer, batches)
    return time.perf_counter() - start


def produce_decode(loops: int) -> float:
    """Decode the same response with the general codec, which also decodes errors."""
    answer = _answer()
    start = time.perf_counter()
    for _ in range(loops):
        decode(ProduceResponse, PRODUCE_VERSION, answer)
    return time.perf_counter() - start


SUITE: dict[str, Callable[[int], float]] = {
    "record append": record_append,
    "murmur2 of a key": murmur2_of_keys,
    "seal, 16 KB": seal,
    f"cursor, {RECORDS} records": cursor,
    f"parse_batches, {RECORDS} records": parse,
    f"columns, {RECORDS} records": columns,
    "accumulator append": accumulator_append,
    f"Produce encode, {PARTITIONS} batches": produce_encode,
    f"Produce answer, {PARTITIONS} batches": produce_answer,
    f"Produce answer by the codec, {PARTITIONS} batches": produce_decode,
}


def main() -> None:
    """Run the suite with pyperf's command line options."""
    runner = pyperf.Runner(program_args=("-m", "benchmarks.hot"))
    runner.metadata["build"] = "compiled" if aioprod.COMPILED else "interpreted"
    for name, function in SUITE.items():
        runner.bench_time_func(name, function)


if __name__ == "__main__":
    main()
