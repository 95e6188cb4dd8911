"""`SpooledProducer`: what it has accepted is on disk, and then in Kafka once and in order."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aioprod import ProducerRecord, RecordMetadata, TopicPartition
from aioprod.errors import (
    AioprodError,
    BufferFullError,
    ConfigError,
    DeliveryError,
    ErrorCode,
    FlushTimeoutError,
    InvalidRecordError,
    InvalidTopicError,
    MarkerError,
    ProducerClosedError,
    RecordTooLargeError,
    SerializationError,
    SpoolError,
    UsageError,
)
from aioprod.messages import EndTxnRequest, ProduceRequest
from aioprod.net.protocol.backoff import Backoff
from aioprod.relay import loop as relay_loop
from aioprod.spool import Kept, SpooledProducer
from aioprod.spool.files import FolderFiles
from aioprod.testing import FakeCluster
from tests.support.sources import numbers

SMALL: dict[str, Any] = {"max_bytes": 1 << 16, "segment_bytes": 1 << 12}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_loop, "_BACKOFF", Backoff(0.001, 0.01))
    monkeypatch.setattr(relay_loop, "_FENCED_PAUSE_S", 0.001)


@pytest.fixture
async def brokers() -> AsyncIterator[FakeCluster]:
    async with FakeCluster(1) as cluster:
        cluster.create_topic("t", 3)
        yield cluster


def new_producer(brokers: FakeCluster, folder: Path, **options: Any) -> SpooledProducer:
    given: dict[str, Any] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0}
    return SpooledProducer(brokers.bootstrap, folder=folder, **(given | options))


def stored(brokers: FakeCluster, topic: str = "t") -> list[int]:
    """The numbers that are in a topic; those of each partition are in order."""
    found = [
        numbers([record.value for record in brokers.records(topic, index)])
        for index in range(len(brokers.topics[topic].partitions))
    ]
    assert found == [sorted(partition) for partition in found]
    return sorted(number for partition in found for number in partition)


# --- what it does


async def test_a_record_is_on_disk_and_then_in_kafka(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path) as producer:
        kept = await producer.send("t", b"0", key=b"k", partition=1, headers=[("h", None)], timestamp=7)
        place = await kept.stored()
        assert place == RecordMetadata("t", 1, 0, 7, 1, 1)
        assert await kept.stored() == place
    (record,) = brokers.records("t", 1)
    assert (record.value, record.key, record.headers, record.timestamp) == (b"0", b"k", (("h", None),), 7)


async def test_every_way_to_send_keeps_the_order(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.create_topic("one", 1)
    async with new_producer(brokers, tmp_path) as producer:
        await producer.send("one", b"0")
        future = producer.submit(ProducerRecord("one", b"1"))
        producer.send_nowait("one", b"2")
        result = await producer.send_many("one", [b"%d" % number for number in range(3, 2000)])
        assert (result.count, result.failures, result.offsets) == (1997, (), {})
        assert isinstance(await future, Kept)
        await result.stored()
    assert numbers([record.value for record in brokers.records("one")]) == list(range(2000))


async def test_columns_of_send_many(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path) as producer:
        await producer.send_many(
            "t",
            iter([b"0", b"1"]),
            keys=[b"a", None],
            headers=[[("h", b"x")], None],
            timestamps=[5, 6],
            partition=2,
        )
        await producer.send_many("t", [b"2"], headers=[("same", b"1")], timestamps=9, partition=2)
        await producer.flush()
    found = [(record.value, record.key, record.headers, record.timestamp) for record in brokers.records("t", 2)]
    assert found == [
        (b"0", b"a", (("h", b"x"),), 5),
        (b"1", None, (), 6),
        (b"2", None, (("same", b"1"),), 9),
    ]


async def test_kafka_is_away_when_it_starts_and_for_long(brokers: FakeCluster, tmp_path: Path) -> None:
    """Three lives without Kafka, and a fourth with it."""
    brokers.freeze(1)
    for life in range(3):
        producer = new_producer(brokers, tmp_path)
        await producer.start()
        for number in range(life * 10, life * 10 + 10):
            await producer.send("t", b"%d" % number)
        assert producer.health().is_ready()
        assert (await producer.close(timeout=0)).kept == life * 10 + 10
    brokers.thaw(1)
    async with new_producer(brokers, tmp_path) as producer:
        await producer.flush()
        assert (await producer.close()).delivered == 30
    assert stored(brokers) == list(range(30))


async def test_a_process_that_dies(brokers: FakeCluster, tmp_path: Path) -> None:
    """Its tasks end in the middle of everything, and nothing is closed."""
    for life in range(10):
        producer = new_producer(brokers, tmp_path)
        await producer.start()
        for number in range(life * 20, life * 20 + 20):
            await producer.send("t", b"%d" % number, key=b"%d" % (number % 5))
        await asyncio.sleep(0.002 * life)
        await die(producer)
    async with new_producer(brokers, tmp_path) as producer:
        await producer.flush()
    assert stored(brokers) == list(range(200))


async def test_the_report_counts_what_this_life_has_delivered(brokers: FakeCluster, tmp_path: Path) -> None:
    first = new_producer(brokers, tmp_path)
    await first.start()
    await first.send_many("t", [b"%d" % number for number in range(1000)])
    await first.flush()
    await die(first)
    second = new_producer(brokers, tmp_path)
    await second.start()
    await second.send("t", b"1000")
    await second.flush()
    assert (await second.close()).delivered == 1


async def die(producer: SpooledProducer) -> None:
    """End the tasks of a producer without any of its last steps, but those that free what the test would leak."""
    engine = producer._engine
    tasks = [engine._relaying, engine.store._commit._task if engine.store._commit else None]
    for task in tasks:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError, AioprodError):
                await task
    await engine.store._storage.close()


@pytest.mark.parametrize("drop", ["before", "after"])
@pytest.mark.parametrize("kind", [ProduceRequest, EndTxnRequest])
async def test_lost_answers(brokers: FakeCluster, tmp_path: Path, kind: Any, drop: str) -> None:
    """The place of a record is known, also where it was learned before the answer to the commit was lost."""
    brokers.fault(kind, drop=drop, times=2)
    async with new_producer(brokers, tmp_path) as producer:
        kept = [await producer.send("t", b"%d" % number) for number in range(5)]
        places = [await one.stored() for one in kept]
    assert stored(brokers) == list(range(5))
    found = {(index, record.offset): record.value for index in range(3) for record in brokers.records("t", index)}
    assert [found[place.partition, place.offset] for place in places] == [b"%d" % number for number in range(5)]


async def test_callbacks_and_interceptors_get_the_places_of_records(brokers: FakeCluster, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Spy:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            seen.append(("send", record.value))
            return record

        def on_acknowledgement(self, metadata: RecordMetadata, error: AioprodError | None) -> None:
            seen.append(("acknowledged", metadata.offset, error))

    called: list[Any] = []
    async with new_producer(brokers, tmp_path, interceptors=[Spy()]) as producer:
        producer.send_nowait("t", b"0", partition=0, on_delivery=lambda place, error: called.append((place, error)))
        await producer.send("t", b"1", partition=0)
        await producer.flush()
    (place, error), *_ = called
    assert (place.offset, error) == (0, None)
    assert seen == [("send", b"0"), ("send", b"1"), ("acknowledged", 0, None), ("acknowledged", 1, None)]


async def test_a_callback_that_fails_costs_nothing(
    brokers: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(place: RecordMetadata | None, error: AioprodError | None) -> None:
        raise RuntimeError("a bug")

    async with new_producer(brokers, tmp_path) as producer:
        producer.send_nowait("t", b"0", on_delivery=fail)
        producer.send_nowait("t", b"1")
        await producer.flush()
    assert stored(brokers) == [0, 1]
    assert "failed." in caplog.text


async def test_serializers_run_when_a_record_is_kept(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.freeze(1)
    producer = new_producer(brokers, tmp_path, value_serializer=lambda topic, headers, value: str(value).encode())
    await producer.start()
    await producer.send("t", 0)
    await producer.send_many("t", [1, 2])
    await producer.close(timeout=0)
    brokers.thaw(1)
    async with new_producer(brokers, tmp_path) as other:
        await other.flush()
    assert stored(brokers) == [0, 1, 2]


async def test_health_metrics_and_repr(brokers: FakeCluster, tmp_path: Path) -> None:
    producer = new_producer(brokers, tmp_path, client_id="shop")
    assert producer.health().state == "new"
    assert producer.metrics()["spool_kept_records"] == 0
    async with producer:
        await producer.send("t", b"0")
        await producer.flush()
        health = producer.health()
        assert (health.state, health.kept_records, health.error) == ("running", 0, None)
        assert health.is_alive
        assert health.is_ready()
        assert health.relay is not None
        assert health.relay.is_ready()
        assert producer.metrics()["spool_records_total"] == producer.metrics()["relay_records_total"] == 1
        assert "running, 0 records kept in" in repr(producer)
        names = [family.name for family in producer.metric_families()]
        assert len(names) == len(set(names))
        assert producer.client_id == "shop"
    assert producer.health().state == "closed"


async def test_segments_go_when_their_records_are_delivered(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path, **SMALL) as producer:
        for number in range(200):
            await producer.send("t", b"%d" % number, key=b"k" * 200)
        await producer.flush()
        assert len(list(tmp_path.glob("*.spool"))) == 1
    assert stored(brokers) == list(range(200))


# --- another process relays


async def test_without_a_relay(brokers: FakeCluster, tmp_path: Path) -> None:
    producer = new_producer(brokers, tmp_path, relays=False)
    await producer.start()
    kept = await producer.send("t", b"0")
    with pytest.raises(UsageError, match="another process brings the records"):
        await kept.stored()
    with pytest.raises(UsageError, match="another process brings the records"):
        producer.send_nowait("t", b"1", on_delivery=print)
    assert producer.health().relay is None
    assert (await producer.close()).kept == 1
    assert brokers.records("t") == []


# --- what is not accepted


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"value": "text"}, SerializationError),
        ({"value": b"x" * 2_000_000}, RecordTooLargeError),
        ({"value": b"x", "partition": -1}, InvalidRecordError),
        ({"value": b"x", "topic": "no topic"}, InvalidTopicError),
        ({}, UsageError),
    ],
)
async def test_bad_records_raise_before_anything_is_kept(
    brokers: FakeCluster, tmp_path: Path, given: dict[str, Any], error: type[Exception]
) -> None:
    async with new_producer(brokers, tmp_path) as producer:
        with pytest.raises(error):
            await producer.send(**({"topic": "t"} | given))
        with pytest.raises(error):
            producer.submit(**({"topic": "t"} | given))
        with pytest.raises(error):
            producer.send_nowait(**({"topic": "t"} | given))
    assert producer.metrics()["spool_records_total"] == 0


async def test_bad_records_among_many(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path) as producer:
        result = await producer.send_many("t", [b"0", "text", b"1"])
        assert [index for index, _ in result.failures] == [1]
        with pytest.raises(SerializationError):
            await producer.send_many("t", ["a", "b"])
        several: list[dict[str, Any]] = [{"keys": [b"k"]}, {"timestamps": iter([])}]
        for wrong in several:
            with pytest.raises(InvalidRecordError):
                await producer.send_many("t", [b"2", b"3"], **wrong)
        with pytest.raises(InvalidRecordError, match="give an iterable"):
            await producer.send_many("t", b"bytes")
        await producer.flush()
    assert stored(brokers) == [0, 1]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"poison": "skip"}, "poison is 'skip'"),
        ({"delivery": "twice"}, "delivery is 'twice'"),
        ({"max_bytes": 5}, "max_bytes is 5"),
        ({"segment_bytes": 1 << 40}, "segment_bytes is"),
        ({"acks": "some"}, "acks"),
    ],
)
def test_bad_settings(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SpooledProducer("localhost:1", folder=tmp_path / "never", **given)
    assert not (tmp_path / "never").exists()


async def test_states(brokers: FakeCluster, tmp_path: Path) -> None:
    producer = new_producer(brokers, tmp_path)
    with pytest.raises(UsageError, match="not started"):
        await producer.send("t", b"0")
    async with producer:
        with pytest.raises(UsageError, match="already"):
            await producer.start()
        with pytest.raises(SpoolError, match="Another process has the spool"):
            await new_producer(brokers, tmp_path).start()
        kept = await producer.send("t", b"0")
        brokers.freeze(1)
        late = await producer.send("t", b"1")
        await producer.close(timeout=0.01)
    with pytest.raises(ProducerClosedError):
        await producer.send("t", b"2")
    for one in (late, kept):
        with suppress(ProducerClosedError):
            await one.stored()
    assert await producer.close() == await producer.close()


async def test_waiters_fail_at_the_close(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.freeze(1)
    producer = new_producer(brokers, tmp_path)
    await producer.start()
    kept = await producer.send("t", b"0")
    waiting = asyncio.create_task(kept.stored())
    await asyncio.sleep(0)
    report = await producer.close(timeout=0)
    with pytest.raises(ProducerClosedError, match="on disk, and leaves with the next start"):
        await waiting
    assert (report.kept, report.delivered) == (1, 0)


async def test_flush_that_takes_too_long(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.freeze(1)
    producer = new_producer(brokers, tmp_path)
    await producer.start()
    await producer.send("t", b"0")
    with pytest.raises(FlushTimeoutError, match="on disk nothing is lost") as raised:
        await producer.flush(0.01)
    assert raised.value.remaining == 1
    await producer.close(timeout=0)


# --- no room


async def test_a_full_spool_waits_for_room(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.freeze(1)
    async with new_producer(brokers, tmp_path, **SMALL, max_block_ms=60_000) as producer:
        accepted = 0
        with suppress(BufferFullError):
            while accepted < 1000:
                producer.send_nowait("t", b"%d" % accepted, key=b"k" * 500)
                await producer.drain()
                accepted += 1
        with pytest.raises(BufferFullError, match=r"holds .* bytes, and a record of"):
            producer.send_nowait("t", b"x", key=b"k" * 500)
        waiting = asyncio.create_task(producer.send("t", b"%d" % accepted, key=b"k" * 500))
        await asyncio.sleep(0.01)
        with pytest.raises(BufferFullError):  # One that was called later does not overtake it.
            producer.submit("t", b"x")
        brokers.thaw(1)
        await waiting
        await producer.flush()
    assert stored(brokers) == list(range(accepted + 1))


async def test_send_waits_for_room_until_max_block(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.freeze(1)
    producer = new_producer(brokers, tmp_path, **SMALL, max_block_ms=20)
    await producer.start()
    with pytest.raises(BufferFullError, match="is Kafka away"):
        await asyncio.gather(*(producer.send("t", b"x" * 1000) for _ in range(100)))
    with pytest.raises(BufferFullError):
        await producer.send_many("t", [b"x" * 1000] * 100)
    await producer.close(timeout=0)


class FullDisk(FolderFiles):
    """Has no room while `is_full`; `fails` lets a sync fail."""

    is_full = False
    fails = False

    def write(self, name: str, at: int, data: bytes) -> None:
        if FullDisk.is_full and name.endswith(".spool"):
            super().write(name, at, data[: len(data) // 2])
            raise OSError(28, "No space left on device")
        super().write(name, at, data)

    def sync(self, name: str) -> None:
        if FullDisk.fails:
            raise OSError(5, "Input/output error")
        super().sync(name)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> type[FullDisk]:
    monkeypatch.setattr("aioprod.spool.storage.FolderFiles", FullDisk)
    monkeypatch.setattr(FullDisk, "is_full", False)
    monkeypatch.setattr(FullDisk, "fails", False)
    return FullDisk


async def test_a_full_disk(brokers: FakeCluster, tmp_path: Path, disk: type[FullDisk]) -> None:
    failed: list[Any] = []
    async with new_producer(
        brokers, tmp_path, on_error=lambda error, record: failed.append((error, record))
    ) as producer:
        await producer.send("t", b"0")
        disk.is_full = True
        with pytest.raises(BufferFullError, match=r"has no room for .* No space left"):
            await producer.send("t", b"x")
        called: list[Any] = []
        producer.send_nowait("t", b"y", on_delivery=lambda place, error: called.append(error))
        producer.send_nowait("t", b"z", key=b"k")
        await producer.drain()
        disk.is_full = False
        await producer.send("t", b"1")
        await producer.flush()
    assert stored(brokers) == [0, 1]
    assert [type(error) for error in called] == [BufferFullError]
    ((error, record),) = failed
    assert (type(error), record.value, record.key) == (BufferFullError, b"z", b"k")
    assert producer.metrics()["spool_failed_records_total"] == 3


async def test_a_disk_that_fails(brokers: FakeCluster, tmp_path: Path, disk: type[FullDisk]) -> None:
    producer = new_producer(brokers, tmp_path)
    await producer.start()
    await producer.send("t", b"0")
    disk.fails = True
    with pytest.raises(SpoolError, match=r"could not bring .* to the disk: Input/output error") as raised:
        await producer.send("t", b"1")
    assert raised.value.may_be_stored
    disk.fails = False
    with pytest.raises(SpoolError):  # A later sync that says all is well is not believed.
        await producer.send("t", b"2")
    health = producer.health()
    assert (health.state, health.is_alive, health.is_ready()) == ("failed", False, False)
    await producer.close()
    async with new_producer(brokers, tmp_path) as again:
        await again.send("t", b"3")
        await again.flush()
    assert stored(brokers) in ([0, 3], [0, 1, 3])


# --- records that brokers will never take


async def test_poison_stops_the_relay_and_everything_stays(
    brokers: FakeCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=None)
    producer = new_producer(brokers, tmp_path)
    await producer.start()
    kept = await producer.send("t", b"0")
    with pytest.raises(AioprodError):
        await kept.stored()
    with pytest.raises(AioprodError):
        await kept.stored()
    with pytest.raises(AioprodError):
        await producer.flush()
    await producer.send("t", b"1")
    health = producer.health()
    assert health.relay is not None
    assert (health.relay.state, health.is_ready(), health.kept_records) == ("ended", True, 2)
    assert "Records stay in the spool" in caplog.text
    assert (await producer.close()).kept == 2


async def test_poison_is_set_aside(brokers: FakeCluster, tmp_path: Path) -> None:
    failed: list[Any] = []
    brokers.create_topic("strict", 1, max_message_bytes=1000)
    producer = new_producer(
        brokers, tmp_path, poison="set-aside", on_error=lambda error, record: failed.append((error, record.value))
    )
    async with producer:
        await producer.send_many("t", [b"%d" % number for number in range(50)])
        poison = await producer.send("strict", b"y" * 5000, key=b"k")
        await producer.send_many("t", [b"%d" % number for number in range(50, 100)])
        await producer.send("strict", b"z" * 5000)
        gc.collect()
        await producer.send("t", b"100")
        await producer.flush()
        with pytest.raises(AioprodError):
            await poison.stored()
        assert producer.metrics()["spool_set_aside_records"] == 2
        assert producer.health().kept_records == 0
    assert stored(brokers) == list(range(101))
    lines = (tmp_path / "set-aside.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert '"key":"k"' in lines[0]
    assert '"reason":' in lines[0]
    assert [value[:1] for _, value in failed] == [b"z"]
    async with new_producer(brokers, tmp_path, poison="set-aside") as again:
        await again.send("t", b"101")
        await again.flush()
        assert again.metrics()["spool_set_aside_records"] == 2
    assert stored(brokers) == list(range(102))


# --- markers and copies


async def test_a_marker_that_is_gone(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path) as producer:
        await producer.send("t", b"0")
        await producer.flush()
        group = next(name for name in brokers.state.groups if name.startswith("aioprod-eos.aioprod-spool."))
    del brokers.state.groups[group].offsets[TopicPartition("t", 0)]
    async with new_producer(brokers, tmp_path) as producer:
        await producer.send("t", b"1")
        with pytest.raises(MarkerError, match="up to number 1 were delivered, and the marker in Kafka"):
            await producer.flush()
    assert stored(brokers) == [0]


async def test_delivery_at_least_once(brokers: FakeCluster, tmp_path: Path) -> None:
    async with new_producer(brokers, tmp_path, delivery="at-least-once") as producer:
        await (await producer.send("t", b"0", partition=0)).stored()
    (record,) = brokers.records("t", 0)
    assert [name for name, _ in record.headers] == ["aioprod-source", "aioprod-position"]


async def test_a_delivery_error_names_what_happened(brokers: FakeCluster, tmp_path: Path) -> None:
    brokers.fault(ProduceRequest, error=ErrorCode.INVALID_RECORD, times=None)
    producer = new_producer(brokers, tmp_path)
    await producer.start()
    kept = await producer.send("t", b"0")
    with pytest.raises(DeliveryError):
        await kept.stored()
    await producer.close(timeout=0)


@pytest.mark.parametrize("wrong", [None, "text"])
async def test_many_values_with_keys_and_one_that_is_wrong(
    brokers: FakeCluster, tmp_path: Path, wrong: str | None
) -> None:
    values: list[Any] = [b"%d" % number for number in range(1200)]
    keys = [b"%d" % (number % 7) for number in range(1200)]
    if wrong is not None:
        values[700] = wrong
    async with new_producer(brokers, tmp_path) as producer:
        result = await producer.send_many("t", values, keys=iter(keys))
        assert [index for index, _ in result.failures] == ([] if wrong is None else [700])
        with pytest.raises(InvalidRecordError, match="fewer keys than values"):
            await producer.send_many("t", iter([b"1"] * 3), keys=iter([b"k"]))
        await producer.flush()
    found = sorted((int(record.value or b""), record.key) for record in brokers.records("t"))
    expected = [(number, keys[number]) for number in range(1200) if wrong is None or number != 700]
    assert [one for one in found if one[1] != b"k"] == expected
