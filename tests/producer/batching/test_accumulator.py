"""Taking records: where they go, what they cost, what is refused."""

from __future__ import annotations

import pytest

from aioprod.cluster import Cluster
from aioprod.errors import (
    BufferFullError,
    ConfigError,
    InvalidRecordError,
    InvalidTopicError,
    RecordTooLargeError,
)
from aioprod.producer.batching.batch import Batch, ParkedRecord
from aioprod.producer.batching.topic_updates import forget, update_topics
from aioprod.records.builder import RecordBatchBuilder
from aioprod.records.headers import NO_HEADERS
from tests.support.accumulators import Harness, values


def test_records_of_a_partition_share_a_batch_in_order() -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 2})
    first = harness.batch(b"a", waiter="A")
    assert harness.batch(b"b", waiter="B") is first
    assert harness.batch(b"c", partition=1) is not first
    assert values(first) == [b"a", b"b"]
    assert first.waiters == ["A", "B"]


@pytest.mark.parametrize("batch_size", [100, 1000])
def test_encoded_records_are_a_batch_of_their_own(batch_size: int) -> None:
    harness = Harness(batch_size=batch_size)
    harness.lead({0: 1})
    before = harness.batch(b"a", waiter="A")
    encoded = RecordBatchBuilder(bytearray(1000))
    encoded.append(1, None, b"b" * 50)
    encoded.append(2, None, b"c")
    harness.accumulator.put_batch(before.partition, encoded, "BC", 0.0)
    after = harness.batch(b"d", waiter="D")
    first, second, *rest = harness.accumulator.incomplete
    assert (first, second.waiters[:1], values(second)[:2]) == (before, ["BC"], [b"b" * 50, b"c"])
    # Later records join it while it has room.
    assert (after is second, len(rest)) == ((True, 0) if batch_size == 1000 else (False, 1))
    assert (first.serial, second.serial) == (0, 1)
    assert harness.held() == (4, sum(batch.record_bytes for batch in harness.accumulator.incomplete))


def test_bytes_are_counted_as_they_are_encoded() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch(b"12345")
    assert harness.held() == (1, batch.builder.size - 61)
    assert batch.record_bytes == harness.held()[1]


def test_a_full_batch_is_ready_and_the_next_one_opened() -> None:
    harness = Harness(batch_size=300)
    harness.lead({0: 1})
    first = harness.batch(b"x" * 100)
    harness.batch(b"x" * 100)
    third = harness.batch(b"x" * 100)
    assert third is not first
    assert list(harness.accumulator.queue(1).ready) == [first.partition]
    assert harness.drain(unfinished=False) == [first]


def test_a_batch_that_takes_no_further_record_is_finished_at_once() -> None:
    harness = Harness(batch_size=300)
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 500)
    assert batch.partition.open is None
    assert harness.drain(unfinished=False) == [batch]


def test_a_batch_grows_to_its_full_size_at_once() -> None:
    harness = Harness(batch_size=8000)
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 100)
    assert len(batch.builder.buffer) == 1024
    for _ in range(20):
        harness.batch(b"x" * 100)
    assert len(batch.builder.buffer) == harness.accumulator.pool.full_size
    assert len(values(batch)) == 21


def test_drains_are_scheduled_once() -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 1})
    harness.batch(partition=0)
    harness.batch(partition=1)
    assert harness.woken == [harness.accumulator.queue(1)]


def test_keys_choose_the_partition_as_java_does() -> None:
    harness = Harness()
    harness.lead(dict.fromkeys(range(10), 1))
    placed = harness.append(key=b"21")
    assert isinstance(placed, Batch)
    assert placed.partition.index == (-973932308 & 0x7FFFFFFF) % 10


def test_keys_can_be_ignored() -> None:
    harness = Harness(ignore_keys=True)
    harness.lead(dict.fromkeys(range(10), 1))
    placed = [harness.append(key=str(number).encode()) for number in range(20)]
    assert len(set(map(id, placed))) == 1


def test_keyless_records_move_on_when_a_batch_is_full() -> None:
    harness = Harness(batch_size=200, buffer_memory=1_000_000)
    harness.lead(dict.fromkeys(range(4), 1))
    for _ in range(200):
        harness.append(b"x" * 50)
    used = {partition.index for partition in harness.accumulator.topics["t"].partitions if partition.queued}
    assert used == {0, 1, 2, 3}


def test_a_stalled_broker_gets_no_keyless_records() -> None:
    harness = Harness(batch_size=200, buffer_memory=1_000_000, availability_timeout_s=1.0)
    harness.lead({0: 1, 1: 2})
    harness.append(partition=0)
    harness.accumulator.queue(1).stalled_since = 0.0
    for _ in range(100):
        harness.append(b"x" * 50, now=5.0)
    topic = harness.accumulator.topics["t"]
    assert len(topic.partitions[0].queued) <= 1, "only what came before the first choice"
    assert len(topic.partitions[1].queued) > 10


class Scripted:
    """Chooses what the test says, and hears of new batches."""

    def __init__(self, *choices: object) -> None:
        self.choices = list(choices)
        self.new_batches: list[int] = []

    def partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: Cluster) -> int:
        choice = self.choices.pop(0)
        if isinstance(choice, Exception):
            raise choice
        return choice  # type: ignore[return-value]  # a user's partitioner may return anything


class Sticky(Scripted):
    def on_new_batch(self, topic: str, cluster: Cluster, previous: int) -> None:
        self.new_batches.append(previous)


def test_a_partitioner_that_is_notified_of_new_batches_is_called_again() -> None:
    partitioner = Sticky(0, 1, 1, 1)
    harness = Harness(partitioner=partitioner)
    harness.lead({0: 1, 1: 1})
    first = harness.append()
    assert isinstance(first, Batch)
    assert (first.partition.index, partitioner.new_batches) == (1, [0])
    assert harness.append() is first
    assert partitioner.new_batches == [0]


def test_the_batch_that_a_partitioner_moves_on_from_is_closed() -> None:
    partitioner = Sticky(0, 0, 0, 0, 1, 0, 0, 9)
    harness = Harness(partitioner=partitioner, batch_size=1000)
    harness.lead({0: 1, 1: 1})
    full = harness.append(b"x" * 400)
    assert harness.append(b"x" * 400) is full
    assert partitioner.new_batches == [0]
    assert harness.drain(unfinished=False) == []
    moved = harness.append(b"x" * 400)
    assert isinstance(moved, Batch)
    assert (moved.partition.index, partitioner.new_batches) == (1, [0, 0])
    # It leaves at once, and what is chosen for its partition later gets a batch of its own.
    assert harness.drain(unfinished=False) == [full]
    later = harness.append(b"small")
    assert isinstance(later, Batch)
    assert later is not full
    assert (later.partition.index, partitioner.choices) == (0, [9])


def test_a_partitioner_that_stays_gets_the_next_batch() -> None:
    partitioner = Sticky(*[0] * 8)
    harness = Harness(partitioner=partitioner, batch_size=1000)
    harness.lead({0: 1, 1: 1})
    placed = [harness.append(b"x" * 400) for _ in range(3)]
    assert placed[0] is placed[1] is not placed[2]
    assert partitioner.new_batches == [0, 0]
    assert harness.drain(unfinished=False) == placed[:1]


def test_a_partitioner_without_it_is_called_once() -> None:
    partitioner = Scripted(1)
    harness = Harness(partitioner=partitioner)
    harness.lead({0: 1, 1: 1})
    harness.append()
    assert partitioner.choices == []


@pytest.mark.parametrize("choice", [2, -1, True, "0", None, ValueError("no idea")])
def test_a_bad_choice_raises(choice: object) -> None:
    harness = Harness(partitioner=Scripted(choice))
    harness.lead({0: 1, 1: 1})
    with pytest.raises(InvalidRecordError, match="The partitioner Scripted"):
        harness.append()
    assert harness.held() == (0, 0)


def test_an_error_of_ours_comes_out_as_it_is() -> None:
    harness = Harness(partitioner=Scripted(ConfigError("mine")))
    harness.lead({0: 1})
    with pytest.raises(ConfigError, match="mine"):
        harness.append()


def test_a_partition_that_does_not_exist_raises() -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 1})
    with pytest.raises(InvalidRecordError, match=r"no partition 2: it has 2 \(0 to 1\)"):
        harness.append(partition=2)


def test_an_illegal_topic_raises_before_any_request() -> None:
    harness = Harness()
    with pytest.raises(InvalidTopicError):
        harness.append(name="no/slash")
    assert harness.due == []


def test_a_record_over_a_limit_raises() -> None:
    harness = Harness(max_request_size=500, buffer_memory=300)
    harness.lead({0: 1})
    with pytest.raises(RecordTooLargeError, match=r"max\.request\.size=500"):
        harness.append(b"x" * 500)
    with pytest.raises(RecordTooLargeError, match=r"buffer\.memory=300"):
        harness.append(b"x" * 300)
    harness.append(b"x" * 200)


def test_a_full_buffer_raises_and_takes_nothing() -> None:
    harness = Harness(buffer_memory=1000)
    harness.lead({0: 1})
    harness.append(b"x" * 900)
    held = harness.held()
    with pytest.raises(BufferFullError, match="1 records with"):
        harness.append(b"x" * 100)
    assert harness.held() == held
    placed = harness.accumulator.append("t", None, b"x" * 10, NO_HEADERS, 0, 1, None, 0.0, granted=True)
    assert isinstance(placed, Batch), "reserved room is not asked for twice"


def test_a_new_topic_is_looked_up_once_and_its_records_parked() -> None:
    harness = Harness()
    first = harness.append(b"a", name="new", now=1.0)
    second = harness.append(b"b", name="new", now=2.0)
    assert isinstance(first, ParkedRecord)
    assert isinstance(second, ParkedRecord)
    assert (first.deadline, second.deadline) == (61.0, 62.0)
    assert harness.due == [1.0, 1.0], "now for metadata, and to look at the first record"
    assert harness.metadata.next_refresh(1.0) == 1.0
    assert harness.held()[0] == 2


def test_a_moved_leader_takes_its_batches_along() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    harness.lead({0: 2}, epoch=2)
    assert not harness.accumulator.queue(1).has_work()
    assert harness.drain(1) == []
    assert harness.drain(2) == [batch]


def test_a_finished_batch_moves_too() -> None:
    harness = Harness(batch_size=100)
    harness.lead({0: 1})
    batch = harness.batch(b"x" * 100)
    assert harness.accumulator.queue(1).ready
    harness.lead({0: 2}, epoch=2)
    assert not harness.accumulator.queue(1).has_work()
    assert harness.drain(2, unfinished=False) == [batch]


def test_without_a_leader_nothing_leaves() -> None:
    harness = Harness()
    harness.lead({0: 1, 1: 2})
    batch = harness.batch()
    harness.lead({0: -1, 1: 2}, epoch=2)
    assert batch.partition.queue is None
    assert harness.drain(1) == []
    late = harness.batch()
    assert late is batch
    harness.lead({0: 1, 1: 2}, epoch=3)
    assert harness.drain(1) == [batch]


def test_partitions_are_added() -> None:
    harness = Harness()
    harness.lead({0: 1})
    harness.batch()
    harness.lead({0: 1, 1: 2}, epoch=1)
    assert harness.batch(partition=1).partition.queue is harness.accumulator.queue(2)


@pytest.mark.parametrize("epochs", [(1, 2, 3), (-1, -1, -1)])
def test_another_leader_ends_a_backoff_and_a_newer_epoch_does_not(epochs: tuple[int, int, int]) -> None:
    harness = Harness()
    harness.lead({0: 1}, epoch=epochs[0])
    partition = harness.batch().partition
    partition.delist()
    partition.retry_at = 100.0
    for leader in (1, -1):
        harness.lead({0: leader}, epoch=epochs[1])
        assert partition.retry_at == 100.0
        assert harness.drain(1) == []
    harness.lead({0: 2}, epoch=epochs[2])
    assert partition.retry_at == 0.0
    assert len(harness.drain(2)) == 1


def test_leader_changes_are_reported() -> None:
    harness = Harness()
    harness.append(partition=0)
    harness.lead({0: 1, 1: -1})
    assert harness.moves == [], "nothing was known before"
    harness.lead({0: 2, 1: 3}, epoch=2)
    harness.lead({0: -1, 1: 3}, epoch=3)
    assert harness.moves == [(0, 1, 2), (1, None, 3), (0, 2, None)]


def test_a_topic_without_anything_held_is_forgotten() -> None:
    harness = Harness()
    harness.lead({0: 1})
    batch = harness.batch()
    topic = harness.accumulator.topics["t"]
    forget(harness.accumulator, topic, 0.0)
    assert "t" in harness.accumulator.topics, "it still holds a batch"
    harness.drain()
    harness.acknowledge(batch)
    harness.metadata.forget_topic("t")
    update_topics(harness.accumulator, ["t", "never heard of"], 0.0)
    assert "t" not in harness.accumulator.topics
    assert isinstance(harness.append(), ParkedRecord)
