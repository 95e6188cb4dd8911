from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aioprod.calls.leaders import Answer, LeaderRequests
from aioprod.cluster import Cluster, Node, PartitionInfo
from aioprod.errors import AioprodError, CorruptRecordError, ErrorCode, ProtocolError
from aioprod.messages import FetchResponse
from aioprod.messages.fetch import AbortedTransaction, FetchableTopicResponse, PartitionData
from aioprod.reader.config import ReaderConfig
from aioprod.reader.fetching import FetchByName, FetchedBatch, Fetching, decompressed
from aioprod.reader.position import ENDLESS, Position
from aioprod.reader.read_replicas import ReadReplicas
from aioprod.records import Compression, ControlType, decompress
from aioprod.types import TopicPartition
from aioprod.wire.schema import ZERO_UUID
from tests.records.test_parser import make_batch, plain_record, varints
from tests.support.stored_batches import CONTROL_FLAG, marker, parsed, stored_batch

TOPIC = "orders"
TOPIC_ID = UUID(int=5)
NODE = Node(1, "h", 9092)
HELD_S = 0.5
"""The time for which a broker waits for records."""
NEXT_TRY = 100.0


class Leaders(LeaderRequests[Position, FetchResponse]):
    """Notes the result of each partition."""

    def __init__(self) -> None:
        self._failing = set()
        self.results: list[tuple[str, int]] = []
        self.errors: list[str] = []

    def succeeded(self, one: Position) -> None:
        self.results.append(("succeeded", one.tp.partition))

    def retry_later(self, one: Position, error: AioprodError, *, refresh: bool = False) -> None:
        self.results.append(("retry", one.tp.partition))
        self.errors.append(error.message)
        one.retry_at = NEXT_TRY

    def rejected(self, one: Position, code: ErrorCode | int, peer: str = "its leader") -> None:
        self.results.append((f"rejected {int(code)}", one.tp.partition))
        one.retry_at = NEXT_TRY


def cluster_with(*, topic_id: UUID = TOPIC_ID, epoch: int = 3) -> Cluster:
    tp = TopicPartition(TOPIC, 0)
    infos = [PartitionInfo(TOPIC, 0, NODE, (NODE,), (NODE,))]
    return Cluster([NODE], infos, topic_ids={TOPIC: topic_id}, leader_epochs={tp: epoch})


def fetching(**options: Any) -> Fetching:
    return Fetching(ReaderConfig.from_options(bootstrap_servers="h:1", **options), ReadReplicas(cluster_with, 300.0))


def position(
    partition: int = 0,
    offset: int = 0,
    end: int = 1000,
    *,
    turn: int = 0,
    topic: str = TOPIC,
    topic_id: UUID | None = TOPIC_ID,
) -> Position:
    return Position(tp=TopicPartition(topic, partition), offset=offset, end=end, turn=turn, topic_id=topic_id)


def answer(*rows: PartitionData, error_code: int = 0) -> FetchResponse:
    return FetchResponse(error_code=error_code, responses=(FetchableTopicResponse(topic_id=TOPIC_ID, partitions=rows),))


def row(*batches: bytes, partition: int = 0, error_code: int = 0, aborted: Sequence[tuple[int, int]] = ()) -> Any:
    transactions = tuple(AbortedTransaction(producer_id=one, first_offset=at) for one, at in aborted)
    return PartitionData(
        partition_index=partition,
        error_code=error_code,
        high_watermark=900,
        last_stable_offset=800,
        aborted_transactions=transactions or None,
        records=b"".join(batches) or None,
    )


def batches_of(
    part: Fetching, leaders: Leaders, positions: Sequence[Position], response: FetchResponse, took_s: float = HELD_S
) -> list[FetchedBatch]:
    """What the response to a request for these positions gives."""
    return list(part.batches_of(leaders, Answer(positions, response, 1, 0.0, took_s), positions))


def values(batches: Sequence[FetchedBatch]) -> list[bytes | None]:
    return [record.value for fetched in batches for record in fetched.records()]


def take(one: Position, *batches: bytes, aborted: Sequence[tuple[int, int]] = (), **options: Any) -> list[bytes | None]:
    """The values that one partition gives."""
    return values(batches_of(fetching(**options), Leaders(), [one], answer(row(*batches, aborted=aborted))))


# --- requests


def test_the_request() -> None:
    positions = [position(2, 20, turn=2), position(0, 5, turn=1), position(1, 7, turn=1)]
    part = fetching(
        isolation_level="read_committed",
        fetch_min_bytes=5,
        max_partition_fetch_bytes=11,
        fetch_max_bytes=22,
        fetch_max_wait_ms=33,
    )
    request = part.request(positions, cluster_with())
    assert (request.max_bytes, request.max_wait_ms, request.min_bytes, request.isolation_level) == (22, 33, 5, 1)
    assert (request.session_id, request.session_epoch, request.replica_id, request.rack_id) == (0, -1, -1, "")
    (topic,) = request.topics
    assert (topic.topic, topic.topic_id) == (TOPIC, TOPIC_ID)
    assert [(one.partition, one.fetch_offset, one.current_leader_epoch) for one in topic.partitions] == [
        (0, 5, 3),
        (1, 7, -1),
        (2, 20, -1),
    ]
    assert {one.partition_max_bytes for one in topic.partitions} == {11}


def test_a_topic_without_id_is_named() -> None:
    request = fetching().request([position(topic_id=None), position(1)], cluster_with())
    assert isinstance(request, FetchByName)
    assert FetchByName.VERSIONS == (4, 12)
    assert [topic.topic_id for topic in request.topics] == [ZERO_UUID, TOPIC_ID]


def test_topics_take_turns() -> None:
    positions = [position(index, turn=turn, topic=topic) for topic in "ab" for index, turn in enumerate((1, 2, 4))]
    request = fetching().request(positions, cluster_with())
    assert [(topic.topic, [one.partition for one in topic.partitions]) for topic in request.topics] == [
        ("a", [0]), ("b", [0]), ("a", [1]), ("b", [1]), ("a", [2]), ("b", [2]),
    ]  # fmt: skip


def test_another_topic_of_that_name_is_noticed() -> None:
    assert position().is_replaced(cluster_with(topic_id=UUID(int=6)))
    assert not position().is_replaced(cluster_with())
    # A cluster without metadata of the topic, and a position without an id.
    assert not position().is_replaced(Cluster())
    assert not position(topic_id=None).is_replaced(cluster_with(topic_id=UUID(int=6)))


# --- answers


def test_results_are_reported_by_partition() -> None:
    positions = [position(index) for index in range(4)]
    leaders = Leaders()
    rows = [row(stored_batch([b"a", b"b"])), row(partition=1), row(partition=2, error_code=6)]
    part = fetching()
    assert values(batches_of(part, leaders, positions, answer(*rows))) == [b"a", b"b"]
    assert leaders.results == [("succeeded", 0), ("rejected 6", 2), ("retry", 3)]
    assert [one.offset for one in positions] == [2, 0, 0, 0]
    assert positions[0].turn == 1
    assert [one.partition for one in part.request(positions, cluster_with()).topics[0].partitions] == [1, 2, 3, 0]


def test_an_error_of_the_whole_response_is_reported_for_all() -> None:
    positions = [position(0, 7, end=20), position(1)]
    leaders = Leaders()
    assert not batches_of(fetching(), leaders, positions, answer(row(), row(partition=1)))
    assert leaders.results == [("retry", 0), ("retry", 1)]
    assert leaders.errors[0] == (
        "its leader has nothing from offset 7 to 20, with a high watermark of 900 and a last stable offset of 800."
    )
    leaders = Leaders()
    assert not batches_of(fetching(), leaders, positions, answer(error_code=70))
    assert leaders.results == [("rejected 70", 0), ("rejected 70", 1)]


def test_batches_that_all_lie_before_the_position_are_fetched_again_after_a_backoff() -> None:
    positions = [position(0, 7, end=ENDLESS), position(1, end=ENDLESS)]
    leaders = Leaders()
    old = row(stored_batch([b"old"]))
    assert not batches_of(fetching(), leaders, positions, answer(old, row(partition=1)))
    assert leaders.results == [("retry", 0), ("succeeded", 1)]
    assert leaders.errors[0].startswith("its leader has nothing from offset 7 on, with a high watermark of 900")
    # Another partition may have used up the size limit of the response.
    leaders = Leaders()
    assert batches_of(fetching(), leaders, positions, answer(old, row(stored_batch([b"new"]), partition=1)))
    assert leaders.results == [("succeeded", 1)]


def test_an_early_answer_that_moves_nothing_is_fetched_again_after_a_backoff() -> None:
    leaders, positions = Leaders(), [position(0, 7, end=ENDLESS), position(1, end=ENDLESS)]
    assert not batches_of(fetching(), leaders, positions, answer(row(), row(partition=1)), took_s=0.0)
    assert leaders.results == [("retry", 0), ("retry", 1)]
    # In a session an answer leaves out what it has nothing for.
    left_out = Answer([position(end=ENDLESS)], answer(), 1, 0.0, 0.0)
    assert not list(fetching().batches_of(leaders, left_out, []))
    assert leaders.results[2:] == [("retry", 0)]
    assert leaders.errors[2] == "its leader answered at once, and has nothing for it."
    held = left_out._replace(sent_at=NEXT_TRY, received_at=NEXT_TRY + HELD_S)
    assert not list(fetching().batches_of(leaders, held, []))
    assert leaders.results[3:] == [("succeeded", 0)]


# --- followers


FOLLOWER = Node(2, "h", 9093)
READ_FROM = TopicPartition(TOPIC, 0)


class Replicated:
    """A part whose partition has a follower, and what becomes of one answer."""

    def __init__(self, leader: Node = NODE) -> None:
        infos = [PartitionInfo(TOPIC, index, leader, (NODE, FOLLOWER), (NODE, FOLLOWER)) for index in (0, 1)]
        self.cluster = Cluster([NODE, FOLLOWER], infos, topic_ids={TOPIC: TOPIC_ID})
        self.replicas = ReadReplicas(lambda: self.cluster, 300.0)
        config = ReaderConfig.from_options(bootstrap_servers="h:1", client_rack="b")
        self.part = Fetching(config, self.replicas)
        self.leaders = Leaders()
        self.positions = [position(end=ENDLESS), position(1, end=ENDLESS)]

    def take(self, response: FetchResponse, node_id: int = 1, took_s: float = 0.0) -> list[bytes | None]:
        given = Answer(self.positions, response, node_id, 0.0, took_s)
        return values(list(self.part.batches_of(self.leaders, given, self.positions)))

    @property
    def read_from(self) -> int | None:
        node = self.replicas.node(self.cluster, READ_FROM)
        return None if node is None else node.id


def naming(node_id: int) -> PartitionData:
    found: PartitionData = replace(row(), preferred_read_replica=node_id)
    return found


def test_the_rack_is_in_requests() -> None:
    bench = Replicated()
    assert bench.part.request(bench.positions, bench.cluster).rack_id == "b"
    # After a failure the leader is to have the records itself.
    bench.positions[1].failures = 1
    assert bench.part.request(bench.positions, bench.cluster).rack_id == ""


def test_a_follower_that_the_leader_names_gets_the_next_request_at_once() -> None:
    bench = Replicated()
    assert bench.take(answer(naming(2), row(stored_batch([b"a"]), partition=1))) == [b"a"]
    assert (bench.read_from, bench.leaders.results) == (2, [("succeeded", 1)])
    # As it names one it does not wait: the other partition need not have records.
    bench = Replicated()
    assert bench.take(answer(naming(2), row(partition=1))) == []
    assert (bench.read_from, bench.leaders.results) == (2, [("succeeded", 1)])


@pytest.mark.parametrize(("named", "by"), [(7, 1), (1, 1), (1, 2)])
def test_a_broker_that_can_not_be_read_from_gets_no_requests_without_end(named: int, by: int) -> None:
    """One that is unknown, the leader itself, and one that a follower names."""
    bench = Replicated()
    bench.take(answer(naming(named), row(partition=1)), node_id=by)
    assert (bench.read_from, bench.leaders.results[0]) == (1, ("retry", 0))
    assert bench.leaders.errors == [f"broker {by} names {named}, which is no follower."]


@pytest.mark.parametrize("code", [3, 6, 9, 56, 74, 75, 76, 78, 100, -1])
def test_after_an_error_of_a_follower_the_leader_gets_the_next_request(code: int) -> None:
    bench = Replicated()
    bench.take(answer(naming(2), row(partition=1)))
    bench.take(answer(row(error_code=code), row(partition=1)), node_id=2)
    assert (bench.read_from, bench.leaders.results[1]) == (1, (f"rejected {code}", 0))


@pytest.mark.parametrize(
    "empty", [answer(row(partition=1)), answer(row(), row(partition=1))], ids=["left out", "empty"]
)
def test_what_a_follower_does_not_have_is_requested_from_the_leader(empty: FetchResponse) -> None:
    bench = Replicated()
    bench.positions[0].end = 1000
    bench.take(answer(naming(2), row(partition=1)))
    bench.take(empty, node_id=2, took_s=HELD_S)
    assert (bench.read_from, bench.leaders.results[1]) == (1, ("retry", 0))
    assert bench.leaders.errors[0].startswith("broker 2 ")


def test_only_the_leader_knows_that_an_offset_does_not_exist() -> None:
    bench = Replicated()
    bench.take(answer(naming(2), row(partition=1)))
    response = answer(row(error_code=ErrorCode.OFFSET_OUT_OF_RANGE), row(partition=1))
    assert bench.part.out_of_range(Answer(bench.positions, response, 2, 0.0, 0.0), bench.positions) == []
    bench.take(response, node_id=2)
    assert (bench.read_from, bench.leaders.results[1]) == (1, ("retry", 0))
    assert bench.leaders.errors[0] == "broker 2 answered OFFSET_OUT_OF_RANGE."
    by_leader = Answer(bench.positions, response, 1, 0.0, 0.0)
    assert bench.part.out_of_range(by_leader, bench.positions) == bench.positions[:1]


def test_a_truncated_batch_is_fetched_again() -> None:
    one = position()
    first, second = stored_batch([b"a"]), stored_batch([b"b"], base_offset=1)
    assert take(one, first, second[:-1]) == [b"a"]
    assert one.offset == 1
    assert take(one, second) == [b"b"]


def test_a_batch_may_begin_before_and_end_after_the_bounds() -> None:
    one = position(offset=2, end=4)
    batches = [stored_batch([b"%d" % index for index in range(6)]), stored_batch([b"6"], base_offset=6)]
    assert take(one, *batches) == [b"2", b"3"]
    assert one.is_done
    one = position(offset=2, end=4)
    assert take(one, stored_batch([b"old"]), stored_batch([b"new"], base_offset=9)) == []
    assert one.is_done


def test_gaps_and_empty_batches_are_passed() -> None:
    one = position()
    batches = [
        stored_batch([b"a"], base_offset=3, last_offset_delta=6),
        stored_batch([b"b"], base_offset=20),
        stored_batch([b"c"], base_offset=21, last_offset_delta=9),
    ]
    assert take(one, *batches) == [b"a", b"b", b"c"]
    assert one.offset == 31


def test_batches_are_not_looked_at_after_the_end() -> None:
    corrupt = bytearray(stored_batch([b"b"], base_offset=1))
    corrupt[-2] ^= 1
    assert take(position(end=1), stored_batch([b"a"]), bytes(corrupt)) == [b"a"]
    with pytest.raises(CorruptRecordError, match=r"^Partition 0 of topic 'orders' can't be read: The checksum"):
        take(position(), stored_batch([b"a"]), bytes(corrupt))
    assert len(take(position(), stored_batch([b"a"]), bytes(corrupt), check_crcs=False)) == 2


def test_what_is_wrong_within_a_batch_names_the_partition() -> None:
    batch = stored_batch([b"a"], attributes=7)
    with pytest.raises(CorruptRecordError, match=r"^Partition 0 of topic 'orders' can't be read: .*codec 7"):
        take(position(), batch)
    old = bytearray(stored_batch([b"a"]))
    old[16] = 1
    with pytest.raises(ProtocolError, match=r"Partition 0 .* format version 1") as failure:
        take(position(), bytes(old))
    assert failure.value.hint is not None


# --- transactions


def transaction(producer_id: int, base_offset: int, *data: bytes) -> bytes:
    return stored_batch(data, base_offset=base_offset, producer_id=producer_id, transactional=True)


LOG = [
    transaction(7, 0, b"7 aborted"),
    transaction(8, 1, b"8 committed"),
    stored_batch([b"plain"], base_offset=2),
    transaction(7, 3, b"7 aborted too"),
    marker(ControlType.ABORT, 7, base_offset=4),
    marker(ControlType.COMMIT, 8, base_offset=5),
    transaction(7, 6, b"7 committed"),
    transaction(8, 7, b"8 aborted"),
    stored_batch([b"idempotent"], base_offset=8, producer_id=8),
    marker(ControlType.COMMIT, 7, base_offset=9),
    marker(ControlType.ABORT, 8, base_offset=10),
]
ABORTED = [(8, 7), (7, 0)]


def test_markers_are_never_returned() -> None:
    one = position()
    assert take(one, *LOG) == [
        b"7 aborted",
        b"8 committed",
        b"plain",
        b"7 aborted too",
        b"7 committed",
        b"8 aborted",
        b"idempotent",
    ]
    assert one.offset == 11
    assert take(position(offset=9), *LOG[9:]) == []


def test_aborted_transactions_are_left_out() -> None:
    one = position()
    assert take(one, *LOG, aborted=ABORTED) == [b"8 committed", b"plain", b"7 committed", b"idempotent"]
    assert one.offset == 11


@pytest.mark.parametrize("offset", range(11))
def test_an_answer_may_begin_within_a_transaction(offset: int) -> None:
    # A broker lists all transactions whose end is not before the offset, however early they began.
    aborted = [(producer_id, first) for producer_id, first in ABORTED if offset <= {7: 4, 8: 10}[producer_id]]
    kept = {1: b"8 committed", 2: b"plain", 6: b"7 committed", 8: b"idempotent"}
    assert take(position(offset=offset), *LOG[offset:], aborted=aborted) == [
        value for at, value in kept.items() if at >= offset
    ]


@dataclass
class Log:
    """A log with transactions as a broker writes it, and the records that each isolation level sees."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)
    committed: dict[int, bytes] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    open: dict[int, tuple[int, dict[int, bytes]]] = field(default_factory=dict)
    next_offset: int = 0

    def append(self, batch: bytes) -> None:
        self.next_offset = parsed(batch).next_offset
        self.batches.append((self.next_offset, batch))

    def data(self, producer_id: int, count: int, gap: int) -> None:
        base = self.next_offset
        records = {base + index: b"%d" % (base + index) for index in range(count)}
        if producer_id < 0:
            self.committed |= records
        else:
            self.open.setdefault(producer_id, (base, {}))[1].update(records)
        self.append(
            stored_batch(
                list(records.values()),
                base_offset=base,
                last_offset_delta=count - 1 + gap,
                producer_id=producer_id,
                transactional=producer_id >= 0,
            )
        )

    def end(self, producer_id: int, kind: ControlType) -> None:
        first, records = self.open.pop(producer_id, (0, {}))
        if not records:
            return
        if kind == ControlType.COMMIT:
            self.committed |= records
        else:
            self.aborted.append((producer_id, first, self.next_offset))
        self.append(marker(kind, producer_id, base_offset=self.next_offset))

    def answer(self, offset: int, max_bytes: int) -> PartitionData:
        """Whole batches, at least one, and one that is cut off; with the transactions that concern them."""
        rest = [(after, batch) for after, batch in self.batches if after > offset]
        size, upper = 0, 0
        for after, batch in rest:
            if size and size + len(batch) > max_bytes:
                break
            size, upper = size + len(batch), after
        found = b"".join(batch for _, batch in rest)[: max(size, max_bytes)]
        aborted = [(one, first) for one, first, last in self.aborted if last >= offset and first < upper]
        return cast(PartitionData, row(found, aborted=aborted))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("data"), st.integers(-1, 2), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("end"), st.integers(0, 2), st.sampled_from(ControlType)),
    ),
    max_size=30,
)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS, begin=st.integers(0, 40), max_bytes=st.integers(1, 600))
def test_any_log_in_any_chunks(steps: list[tuple[Any, ...]], begin: int, max_bytes: int) -> None:
    log = Log()
    for name, *arguments in steps:
        getattr(log, name)(*arguments)
    for producer_id in list(log.open):
        log.end(producer_id, ControlType.ABORT)
    one = position(offset=begin, end=log.next_offset)
    part, leaders = fetching(isolation_level="read_committed"), Leaders()
    found: list[bytes | None] = []
    while not one.is_done:
        found += values(batches_of(part, leaders, [one], answer(log.answer(one.offset, max_bytes))))
    assert found == [value for offset, value in sorted(log.committed.items()) if offset >= begin]
    assert {told for told, _ in leaders.results} <= {"succeeded"}


def test_a_marker_that_is_malformed() -> None:
    malformed = stored_batch([b""], base_offset=1, producer_id=7, transactional=True, attributes=CONTROL_FLAG)
    with pytest.raises(CorruptRecordError, match=r"Partition 0 .* no type in its key"):
        take(position(), transaction(7, 0, b"a"), malformed, aborted=[(7, 0)])


# --- large batches


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("size", [10, 300_000])
async def test_large_batches_are_unpacked_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, codec: Compression, size: int
) -> None:
    threads: list[threading.Thread] = []

    def noted(*arguments: Any) -> bytes | bytearray:
        threads.append(threading.current_thread())
        return decompress(*arguments)

    monkeypatch.setattr("aioprod.reader.fetching.decompress", noted)
    value = random.Random(3).randbytes(size) + b"0" * 1000
    batch = stored_batch([value], codec=codec)
    fetched = FetchedBatch(TopicPartition(TOPIC, 0), parsed(batch), 0, 1)
    plain = await decompressed(fetched)
    assert values([plain]) == [value]
    if codec == Compression.NONE or size == 10:
        assert plain is fetched
        assert not threads
    else:
        assert plain.batch.codec == Compression.NONE
        assert threads
        assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
@pytest.mark.parametrize(("size", "is_large"), [(100_000, False), (6_000_000, True)])
def test_a_batch_is_large_by_what_its_records_may_take(codec: Compression, size: int, is_large: bool) -> None:
    batch = parsed(stored_batch([bytes(size)], codec=codec))
    assert batch.size < 400_000
    assert FetchedBatch(TopicPartition(TOPIC, 0), batch, 0, 1).is_large == is_large


async def test_a_large_batch_that_is_corrupt_names_the_partition() -> None:
    batch = bytearray(stored_batch([bytes(300_000)], codec=Compression.NONE, attributes=int(Compression.GZIP)))
    fetched = FetchedBatch(TopicPartition(TOPIC, 0), parsed(bytes(batch)), 0, 1)
    with pytest.raises(CorruptRecordError, match=r"^Partition 0 of topic 'orders' can't be read: The gzip"):
        await decompressed(fetched)


def test_consumed_records_are_those_of_the_batch() -> None:
    values = [b"v" * (3000 if number % 7 == 0 else number) for number in range(200)]
    fetched = FetchedBatch(TopicPartition(TOPIC, 2), parsed(stored_batch(values, base_offset=10)), 13, 190)
    found = list(iter(fetched.consumed().next, None))
    assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in found] == list(fetched.records())
    assert [one.offset for one in found] == list(range(13, 190))
    assert {(one.topic, one.partition) for one in found} == {(TOPIC, 2)}


def test_consumed_records_before_a_corrupt_one_come_first() -> None:
    batch = parsed(make_batch(plain_record(0) + plain_record(1) + varints(90) + bytes(40), 3))
    records = FetchedBatch(TopicPartition(TOPIC, 2), batch, 0, 10).consumed()
    assert [one.offset for one in (records.next(), records.next()) if one is not None] == [0, 1]
    with pytest.raises(CorruptRecordError, match="Partition 2 of topic 'orders' can't be read: A record declares"):
        records.next()


def test_consumed_records_are_taken_some_at_a_time() -> None:
    fetched = FetchedBatch(TopicPartition(TOPIC, 2), parsed(stored_batch([b"%d" % one for one in range(80)])), 3, 70)
    records = fetched.consumed()
    first = records.next()
    assert first is not None
    sizes, found = [], [first.offset]
    while some := records.some(20):
        sizes.append(len(some))
        found += [one.offset for one in some]
    assert found == list(range(3, 70))
    # 32 are decoded at a time, of which three are left out, and one was taken.
    assert sizes == [20, 8, 20, 12, 6]
    assert records.next() is None
    assert records.next() is None


def test_some_consumed_records_before_a_corrupt_one_come_first() -> None:
    batch = parsed(make_batch(plain_record(0) + plain_record(1) + varints(90) + bytes(40), 3))
    records = FetchedBatch(TopicPartition(TOPIC, 2), batch, 0, 10).consumed()
    assert [one.offset for one in records.some(9)] == [0, 1]
    assert records.step() is None
    for call in (records.next, lambda: records.some(9)):
        with pytest.raises(CorruptRecordError, match="Partition 2 of topic 'orders' can't be read: A record declares"):
            call()
