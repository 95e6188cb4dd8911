"""Large batches are compressed by threads: nothing overtakes them, and what happens meanwhile happens to them too."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from aioprod import Producer, TopicPartition
from aioprod.errors import DeliveryError, ErrorCode, NotSentError
from aioprod.messages import ProduceRequest
from aioprod.producer.compressor import INLINE_S, Compressor
from aioprod.producer.environment import THREADS_MAX, Environment
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.compression import Compression, inline_size
from aioprod.records.layout import HEADER, PREFIX
from aioprod.testing import FakeCluster
from tests.support.codec_gate import codec_gate
from tests.support.producers import ShiftedClock, pass_time, produced, running, turns, until

OPTIONS: dict[str, Any] = {
    "compression_type": "gzip",
    "compression_gzip_level": 9,
    "enable_idempotence": False,
    "batch_size": 0,
    "linger_ms": 0,
}
"""Each record is a batch."""

INLINE = inline_size(Compression.GZIP, 9, INLINE_S)


def large(text: bytes) -> bytes:
    """A value whose batch a thread compresses."""
    return (text + b" ") * (2 * INLINE // (len(text) + 1))


def sent(brokers: FakeCluster) -> list[bytes]:
    """The first two bytes of each value, request after request."""
    return [(value or b"")[:2] for request in produced(brokers) for _, _, values in request for value in values]


async def settled(producer: Producer) -> None:
    """Let what a thread has just done become known."""
    await until(lambda: producer.buffered == (0, 0))


async def test_what_is_small_is_compressed_on_the_loop_and_what_is_large_by_a_thread(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        gate.open()
        async with running(brokers, **OPTIONS) as producer:
            await producer.send("t", b"small")
            await producer.send("t", large(b"00"))
    assert gate.threads[0] == "MainThread"
    assert gate.threads[1].startswith("aioprod compressor")
    assert len(gate.threads) == 2


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_in_threads(brokers: FakeCluster, codec: str) -> None:
    topic = brokers.create_topic("t", partitions=2)
    values = [b"%d " % n * 100 for n in range(2000)]
    options = OPTIONS | {"compression_type": codec, "batch_size": 100_000}
    async with running(brokers, **options) as producer:
        compressor = producer._engine.parts.compressor
        assert compressor is not None
        compressor._inline_size_max = compressor.inline_size = 0
        result = await producer.send_many("t", values, partition=1)
        assert result.failures == ()
    assert [record.value for record in topic.partitions[1].records()] == values


async def test_nothing_of_its_partition_overtakes_it(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = brokers.create_topic("t", partitions=2)
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            values = [b"00", large(b"01"), b"02", large(b"03"), large(b"04"), b"05"]
            futures = [producer.submit("t", value, partition=0) for value in values]
            other = producer.submit("t", b"10", partition=1)
            assert (await other).offset == 0
            assert (await futures[0]).offset == 0
            await turns()
            assert sorted(sent(brokers)) == [b"00", b"10"]
            gate.open()
            assert [(await future).offset for future in futures] == list(range(6))
    assert [record.value for record in topic.partitions[0].records()] == values


async def test_there_is_a_limit_of_threads(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            futures = [producer.submit("t", large(b"%02d" % n)) for n in range(3 * THREADS_MAX)]
            await until(lambda: gate.active == THREADS_MAX)
            gate.open()
            assert [(await future).offset for future in futures] == list(range(3 * THREADS_MAX))
    assert gate.active_max == THREADS_MAX


async def test_a_retry_does_not_compress_again(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        gate.open()
        async with running(brokers, **OPTIONS) as producer:
            brokers.fault(ProduceRequest, error=ErrorCode.NOT_ENOUGH_REPLICAS, times=3)
            await producer.send("t", large(b"00"))
            await producer.send("t", b"small")
    assert gate.calls == 2
    assert sent(brokers) == [b"00"] * 4 + [b"sm"]


async def test_the_halves_of_a_batch_are_compressed_by_threads_too(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = brokers.create_topic("t")
    values = [large(b"%02d" % n) for n in range(8)]
    options = OPTIONS | {"batch_size": 10 * len(values[0]), "linger_ms": 1_000_000, "adaptive_linger": False}
    with codec_gate(monkeypatch) as gate:
        gate.open()
        async with running(brokers, **options) as producer:
            await producer.partitions_for("t")
            brokers.fault(ProduceRequest, error=ErrorCode.MESSAGE_TOO_LARGE)
            futures = [producer.submit("t", value) for value in values]
            await producer.flush()
            assert [(await future).offset for future in futures] == list(range(8))
    assert gate.calls >= 3
    assert all(name.startswith("aioprod compressor") for name in gate.threads)
    assert [record.value for record in topic.records()] == values


# -- what happens meanwhile ------------------------------------------------------------------------------------------


async def test_the_deadline_passes_and_the_buffer_stays_with_the_thread(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    size = 3 * INLINE
    options = OPTIONS | {"batch_size": size, "delivery_timeout_ms": 60_000, "request_timeout_ms": 50_000}
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, clock=clock, **options) as producer:
            await producer.partitions_for("t")
            future = producer.submit("t", large(b"00"))
            await until(lambda: gate.active == 1)
            pool = producer._engine.parts.accumulator.pool
            pass_time(producer, clock, 61.0)
            with pytest.raises(NotSentError, match="has passed") as raised:
                await future
            assert raised.value.attempts == 0
            assert producer.buffered == (0, 0)
            assert pool.free == []
            gate.open()
            await until(lambda: pool.free)
            await producer.send("t", b"after")
    assert sent(brokers) == [b"af"]


async def test_records_that_are_withdrawn_are_not_sent(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = brokers.create_topic("t")
    values = [large(b"%02d" % n) for n in range(4)]
    options = OPTIONS | {"batch_size": 10 * len(values[0]), "linger_ms": 1_000_000, "adaptive_linger": False}
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **options) as producer:
            await producer.partitions_for("t")
            futures = [producer.submit("t", value) for value in values]
            flushing = asyncio.create_task(producer.flush())
            await until(lambda: gate.active == 1)
            assert futures[1].cancel()
            assert producer.buffered.records == 3
            gate.open()
            await flushing
            assert [(await futures[n]).offset for n in (0, 2, 3)] == [0, 1, 2]
    assert [record.value for record in topic.records()] == [values[n] for n in (0, 2, 3)]
    assert len(produced(brokers)) == 1


async def test_all_of_a_batch_is_withdrawn(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            future = producer.submit("t", large(b"00"))
            await until(lambda: gate.active == 1)
            behind = producer.submit("t", b"01")
            assert future.cancel()
            assert (await behind).offset == 0
            gate.open()
            await producer.send("t", b"02")
    assert sent(brokers) == [b"01", b"02"]


async def test_flush_and_close_wait_for_it(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            producer.send_nowait("t", large(b"00"))
            flushing = asyncio.create_task(producer.flush())
            closing = asyncio.create_task(producer.close())
            await until(lambda: gate.active == 1)
            await turns()
            assert not flushing.done()
            assert not closing.done()
            gate.open()
            await flushing
            report = await closing
    assert report.delivered == 1
    assert len(topic.records()) == 1


async def test_close_does_not_wait_for_it_longer_than_it_may(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            futures = [producer.submit("t", large(b"%02d" % n)) for n in range(2 * THREADS_MAX)]
            await until(lambda: gate.active)
            report = await producer.close(0)
            for future in futures:
                assert isinstance(future.exception(), NotSentError)
        assert report.not_sent == 2 * THREADS_MAX
        gate.open()
        await until(lambda: gate.active == 0)
    assert sent(brokers) == []


async def test_the_connection_is_lost(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.send("t", b"00")
            future = producer.submit("t", large(b"01"))
            await until(lambda: gate.active == 1)
            await brokers[1].cut()
            await until(lambda: producer.metrics()["connection_close_total"] == 1)
            gate.open()
            assert (await future).offset == 1
            assert producer.metrics()["record_retry_total"] == 0
    assert sent(brokers) == [b"00", b"01"]


async def test_the_leader_moves(three_brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = three_brokers
    brokers.create_topic("t")
    clock = ShiftedClock()
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, clock=clock, metadata_max_age_ms=1000, **OPTIONS) as producer:
            await producer.send("t", b"00")
            future = producer.submit("t", large(b"01"))
            await until(lambda: gate.active == 1)
            behind = producer.submit("t", b"02")
            brokers.state.move_leader(TopicPartition("t", 0), 2)
            cluster = producer._engine.parts.client.metadata
            pass_time(producer, clock, 2.0)
            await until(lambda: cluster.cluster.leader_for(TopicPartition("t", 0)) == cluster.cluster.node(2))
            await turns()
            assert sent(brokers) == [b"00"]
            gate.open()
            assert (await future).offset == 1
            assert (await behind).offset == 2
            assert producer.metrics()["record_retry_total"] == 0
    assert len(brokers.seen_of(ProduceRequest, node=2)) == 2


async def test_the_topic_is_created_again(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    clock = ShiftedClock()
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, clock=clock, metadata_max_age_ms=1000, **OPTIONS) as producer:
            await producer.send("t", b"00")
            future = producer.submit("t", large(b"01"))
            await until(lambda: gate.active == 1)
            del brokers.state.topics["t"]
            brokers.create_topic("t")
            pass_time(producer, clock, 2.0)
            with pytest.raises(DeliveryError, match="deleted and created again") as raised:
                await future
            assert type(raised.value) is NotSentError
            gate.open()
            assert (await producer.send("t", b"02")).offset == 0
    assert sent(brokers) == [b"00", b"02"]


async def test_the_producer_fails(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            future = producer.submit("t", large(b"01"))
            await until(lambda: gate.active == 1)
            cause = RuntimeError("on purpose")
            producer._engine.fail(cause)
            with pytest.raises(NotSentError, match="on purpose") as raised:
                await future
            assert raised.value.__cause__ is cause
            gate.open()
            await turns()
    assert sent(brokers) == []


async def test_the_codec_fails_in_a_thread(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        gate.open()
        gate.error = MemoryError("no more")
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            future = producer.submit("t", large(b"00"))
            behind = producer.submit("t", b"01")
            with pytest.raises(NotSentError, match="could not be compressed: no more") as raised:
                await future
            assert raised.value.__cause__ is not None
            assert (await behind).offset == 0
            assert producer.buffered == (0, 0)
    assert sent(brokers) == [b"01"]


async def test_the_codec_fails_on_the_loop(brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            gate.error = MemoryError("no more")
            with pytest.raises(NotSentError, match=r"no request could be made.*no more"):
                await producer.send("t", b"00")
            assert (await producer.send("t", b"01")).offset == 0
    assert sent(brokers) == [b"01"]


# -- where a batch is compressed -------------------------------------------------------------------------------------


class Pace:
    """A timer that runs on by `step_s` with each look at it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.step_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


async def test_hard_data_moves_to_threads_until_they_have_become_easy_again() -> None:
    pace = Pace()
    loop = asyncio.get_running_loop()
    compressor = Compressor(
        Compression.GZIP, 9, Environment(thread_time=pace), loop=loop, ended=lambda batch, error: None
    )
    assert compressor.inline_size == INLINE
    pace.step_s = 50 * INLINE_S
    compressor.compress(builder(INLINE))
    assert 0 < compressor.inline_size <= INLINE // 50 + 1
    pace.step_s = 0.0
    for _ in range(50):
        compressor.compress(builder(INLINE))
    assert compressor.inline_size == INLINE


def builder(size: int) -> RecordBatchBuilder:
    made = RecordBatchBuilder(bytearray(PREFIX + size + 1))
    made.append(0, None, bytes(size - HEADER - 12))
    return made


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec != Compression.NONE])
def test_slower_levels_leave_less_to_the_loop(codec: Compression) -> None:
    assert inline_size(codec, None, 0.001) == inline_size(codec, {1: -1, 3: 9, 4: 3}.get(codec, 0), 0.001)
    assert inline_size(codec, None, 0.002) in range(2 * inline_size(codec, None, 0.001) - 1, 2**22)
    if codec in (Compression.GZIP, Compression.ZSTD):
        assert inline_size(codec, 9, 0.001) < inline_size(codec, 1, 0.001)


async def test_without_threads_batches_are_compressed_on_the_loop(
    brokers: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that a failed start of a thread left in the pool's queue are compressed once."""

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    topic = brokers.create_topic("t")
    with codec_gate(monkeypatch) as gate:
        gate.open()
        async with running(brokers, **OPTIONS) as producer:
            await producer.partitions_for("t")
            with monkeypatch.context() as patched:
                patched.setattr(threading.Thread, "start", start)
                await producer.send_many("t", [large(b"00"), large(b"01")])
            await producer.send("t", large(b"02"))
    assert [thread.partition("_")[0] for thread in gate.threads] == ["MainThread"] * 2 + ["aioprod compressor"]
    assert [record.value[:2] for record in topic.records() if record.value] == [b"00", b"01", b"02"]
