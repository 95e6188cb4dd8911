"""A model of the producer's core and one partition of a broker that checks sequence numbers as Kafka's brokers do.

No sockets and no loop: the test decides which request the broker handles, its answer, and which answers are lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from aioprod import ProducerConfig
from aioprod._error_codes import ErrorCode
from aioprod.errors import BrokerConnectionError, DeliveryError, UnknownOutcomeError
from aioprod.messages import ProduceResponse
from aioprod.messages.produce import BatchIndexAndErrorMessage, PartitionProduceResponse, TopicProduceResponse
from aioprod.net.unforeseen import Unforeseen
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.batch_events import BatchEvents
from aioprod.producer.batching.drain import drain
from aioprod.producer.batching.lifecycle import expired, release, set_producer_id
from aioprod.producer.batching.sequences import Sequences
from aioprod.producer.batching.unknown import UnknownBatch, UnknownBatches
from aioprod.producer.failure import Failure
from aioprod.producer.logs.event_log import EventLog
from aioprod.producer.meters import Meters
from aioprod.producer.outcomes import Outcomes
from aioprod.producer.settings import sender_settings
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.records.parser import ParsedBatch, parse_batches
from aioprod.wire.codec import encode
from tests.support.accumulators import Harness

VERSION = 12
REMEMBERED = 5
RETRIES = 1000
"""So many that no batch fails by it."""
RETRIED = 0.87
"""The share of random answers that are retriable."""


@dataclass
class ProducerState:
    """A broker's state of one producer id: its epoch, its last sequence number, its last batches."""

    epoch: int
    last_sequence: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


class SilentExplainer:
    """An explainer without explanations."""

    def why_expired(self, batch: Batch, now: float) -> str:
        return "It waited."

    def last_error(self, batch: Batch) -> None:
        return None


class ModelLog:
    """The log of a partition, as values, and the producers that have written to it."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.batches: list[ParsedBatch] = []
        """Those of the values, where they are stored."""
        self.producers: dict[int, ProducerState] = {}

    def append(self, stored: bytes) -> tuple[ErrorCode, int]:
        """Append a batch if it is the next one of its producer; error and base offset."""
        (batch,) = parse_batches(stored)
        values = [int(record.value or b"") for record in batch.records()]
        first, last = batch.base_sequence, (batch.base_sequence + len(values) - 1) & 0x7FFFFFFF
        state = self.producers.get(batch.producer_id)
        if state is not None:
            for known_first, known_last, offset in state.batches:
                if (state.epoch, known_first, known_last) == (batch.producer_epoch, first, last):
                    return ErrorCode.NONE, offset
            if batch.producer_epoch < state.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            if batch.producer_epoch == state.epoch:
                if first != (state.last_sequence + 1) & 0x7FFFFFFF:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            elif first != 0:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        if state is None or batch.producer_epoch != state.epoch:
            state = self.producers[batch.producer_id] = ProducerState(batch.producer_epoch, last)
        offset = len(self.values)
        state.last_sequence = last
        state.batches.append((first, last, offset))
        self.values += values
        self.batches.append(batch.placed(offset))
        return ErrorCode.NONE, offset

    def by_producer_id(self) -> dict[int, list[int]]:
        """The values of each producer id, as they are stored."""
        found: dict[int, list[int]] = {}
        for batch in self.batches:
            values = self.values[batch.base_offset : batch.next_offset]
            found.setdefault(batch.producer_id, []).extend(values)
        return found

    def restart(self) -> None:
        """Restart the broker: it restores only the last batch of each producer."""
        for state in self.producers.values():
            while len(state.batches) > 1:
                state.batches.popleft()


class RecordedCompletions:
    """Records the outcomes, in place of `Completions`."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self.delivered: dict[int, int] = {}
        self.failed: dict[int, type[DeliveryError]] = {}

    @property
    def is_unsure(self) -> bool:
        """Whether a failed record may be stored: nothing is guaranteed if the broker then loses its state as well."""
        return UnknownOutcomeError in self.failed.values()

    def succeed(self, batch: Batch, base_offset: int, append_time: int) -> None:
        for index, value in enumerate(values_of(batch)):
            assert value not in self.delivered
            assert value not in self.failed
            self.delivered[value] = base_offset + index
        release(self._harness.accumulator, batch)

    def fail(self, batch: Batch, failure: Failure) -> None:
        for value in values_of(batch):
            assert value not in self.delivered
            assert value not in self.failed
            self.failed[value] = failure.family
        release(self._harness.accumulator, batch)


def values_of(batch: Batch) -> list[int]:
    return [int(record.value or b"") for record in batch.builder.records()]


class Model(BatchEvents):
    """One producer, one partition, one connection at a time."""

    def __init__(
        self,
        *,
        in_flight_max: int = 5,
        retries: int = RETRIES,
        epoch: int = 0,
        sequence: int = 0,
        transactional: bool = False,
    ) -> None:
        self.sequences = Sequences(self, TransactionRules(), transactional=transactional)
        self.harness = Harness(batch_size=150, linger_s=0.0, in_flight_max=in_flight_max, sequences=self.sequences)
        self.harness.lead({0: 1})
        self.accumulator = self.harness.accumulator
        self.completions = self.new_completions()
        self.unknown = UnknownBatches(self.decided)
        config = ProducerConfig.from_options(bootstrap_servers="localhost:9092", retries=retries)
        self.outcomes = Outcomes(
            sender_settings(config)._replace(transactional=transactional),
            accumulator=self.accumulator,
            unknown=self.unknown,
            completions=self.completions,  # type: ignore[arg-type]
            meters=Meters(topics_max=9),
            explainer=SilentExplainer(),  # type: ignore[arg-type]
            event_log=EventLog(),
            rules=TransactionRules(),
            backoff=lambda step: 0.0,
            scheduler=SimpleNamespace(wake=lambda: None),  # type: ignore[arg-type]
            unforeseen=Unforeseen(),
        )
        self.log = ModelLog()
        self.wire: deque[tuple[list[Batch], bytes]] = deque()
        self.late: list[bytes] = []
        """Requests on connections that are closed, and may arrive all the same."""
        self.now = 0.0
        self.sent = 0
        self.renewals = 0
        set_producer_id(self.accumulator, 7, epoch, 0.0)
        self._first_sequence = sequence
        self._forgotten: set[int] = set()

    def new_completions(self) -> RecordedCompletions:
        """What records the outcomes."""
        return RecordedCompletions(self.harness)

    def decided(self, batches: Sequence[UnknownBatch]) -> None:
        """It is known more of unknown batches."""

    def retry_unsafe(self, batch: Batch) -> None:
        self.outcomes.fail_unsafe(batch, self.now)

    def producer_id_needed(self) -> None:
        self.renewals += 1

    # --- what a user does

    def send(self) -> None:
        """Accept one more record; its value is its number."""
        self.harness.append(b"%d" % self.sent, partition=0, now=self.now)
        self.sent += 1
        partition = self.accumulator.topics["t"].partitions[0]
        if self._first_sequence and partition.producer_id < 0:
            partition.producer_id, partition.epoch = 7, self.sequences.epoch
            partition.next_sequence = self._first_sequence
            partition.is_established = False

    def finish_batch(self) -> None:
        """What was accepted last is a batch, and takes no more."""
        self.accumulator.end_linger(self.accumulator.topics["t"].partitions[0], self.now)

    def drain(self) -> bool:
        """Send what may be sent; whether there was anything."""
        batches = drain(self.accumulator, self.accumulator.queue(1), self.now, 10_000, 10_000, True)
        for batch in batches:
            if not batch.sealed:
                batch.builder.seal(0, None, batch.producer_id, batch.epoch, batch.base_sequence)
                batch.sealed = True
            elif not batch.stamped:
                batch.builder.restamp(batch.producer_id, batch.epoch, batch.base_sequence)
            batch.stamped = True
            batch.broker = 1
            batch.unanswered = True
            self.wire.append(([batch], bytes(batch.builder.wire(0, False))[8:]))
        return bool(batches)

    def expire(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        for batch in expired(self.accumulator, self.now, 1000):
            self.outcomes.expire(batch, self.now)

    # --- what the broker does

    def answer(self, error: ErrorCode = ErrorCode.NONE, *, is_stored: bool = False, culprit: int | None = None) -> None:
        """Handle the first request on the wire: with an `error` nothing is stored, unless `is_stored`."""
        batches, stored = self.wire.popleft()
        offset = -1
        if error == ErrorCode.NONE or is_stored:
            code, offset = self.log.append(stored)
            if error == ErrorCode.NONE:
                error = code
        errors = () if culprit is None else (BatchIndexAndErrorMessage(batch_index=culprit),)
        row = PartitionProduceResponse(
            index=0,
            error_code=error,
            base_offset=offset if error == ErrorCode.NONE else -1,
            record_errors=errors,
            error_message=None,
        )
        response = ProduceResponse(responses=(TopicProduceResponse(name="t", partition_responses=(row,)),))
        self.outcomes.answered(batches, encode(response, VERSION), VERSION, self.now)

    def cut(self, handled: int) -> list[bytes]:
        """Break the connection after the broker has handled its first requests; their answers are lost.

        Returns the others, which may still arrive.
        """
        wire, self.wire = self.wire, deque()
        for _, stored in list(wire)[:handled]:
            self.log.append(stored)
        for batches, _ in wire:
            self.outcomes.lost(batches, BrokerConnectionError("cut", address="b:1"), self.now)
        return [stored for _, stored in list(wire)[handled:]]

    def renew(self) -> None:
        """Give the producer another id."""
        set_producer_id(self.accumulator, self.sequences.producer_id + 1, 0, self.now)

    def arrive(self, index: int) -> None:
        """One of the late requests arrives."""
        self.log.append(self.late.pop(index))

    def restart(self) -> None:
        """Restart the broker, which loses part of the producers' states."""
        self.log.restart()
        self._forgotten = {value for batch in self.accumulator.incomplete for value in values_of(batch)}

    @property
    def is_forgotten(self) -> bool:
        """Whether a record from before a restart is in flight: nothing is guaranteed if it fails as well and
        records after it are stored already."""
        return not self._forgotten <= self.completions.delivered.keys() | self.completions.failed.keys()

    # --- the end

    def finish(self) -> None:
        """Answer everything; nothing may be left."""
        for _ in range(10 * self.sent + 100):
            if self.sequences.is_exhausted:
                self.renew()
            if not self.drain() and not self.wire:
                break
            while self.wire:
                self.answer()
        assert not self.accumulator.incomplete
        assert self.harness.held() == (0, 0)
        assert not self.sequences.unresolved
        self.check()

    def check(self) -> None:
        """Each record has one outcome, and the log agrees with it: once, in order, at the reported offset."""
        assert len(self.completions.delivered) + len(self.completions.failed) == self.sent
        assert len(self.log.values) == len(set(self.log.values))
        for stored in self.log.by_producer_id().values():
            assert stored == sorted(stored), "brokers distinguish old from new only within one id"
        for value, offset in self.completions.delivered.items():
            assert self.log.values[offset] == value
        for value, family in self.completions.failed.items():
            if family.__name__ != "UnknownOutcomeError":
                assert value not in self.log.values


ModelT = TypeVar("ModelT", bound=Model)


def random_run(random: Random, steps: int, kind: type[ModelT], **options: Any) -> ModelT:
    """Random steps of a model: sends, answers, lost answers, restarts, expiry."""
    model = kind(**options)
    errors = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT)
    final = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CORRUPT_MESSAGE, ErrorCode.POLICY_VIOLATION)
    for _ in range(steps):
        if model.sequences.is_exhausted and random.random() < 0.3:
            model.renew()
        choice = random.random()
        if choice < 0.4:
            for _ in range(random.randrange(1, 8)):
                model.send()
        elif choice < 0.6:
            model.drain()
        elif choice < 0.64:
            model.late += model.cut(random.randrange(len(model.wire) + 1))
            if random.random() < 0.3 and not model.completions.is_unsure and options.get("retries", RETRIES) == RETRIES:
                model.restart()
        elif choice < 0.67:
            seconds = random.choice((30.0, 60.0, 121.0))
            if not model.is_forgotten:
                model.expire(seconds)
        elif model.late and choice < 0.7:
            model.arrive(random.randrange(len(model.late)))
        elif model.wire:
            _random_answer(model, random, errors, final)
    model.finish()
    return model


def _random_answer(model: Model, random: Random, errors: tuple[ErrorCode, ...], final: tuple[ErrorCode, ...]) -> None:
    choice = random.random() * (RETRIED if model.is_forgotten else 1.0)
    batch = model.wire[0][0][0]
    if choice < 0.7:
        model.answer()
    elif choice < 0.8:
        model.answer(random.choice(errors))
    elif choice < RETRIED:
        model.answer(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, is_stored=True)
    elif choice < 0.92:
        model.answer(random.choice(final))
    elif choice < 0.96 and not batch.maybe_stored:
        model.answer(ErrorCode.MESSAGE_TOO_LARGE)
    else:
        model.answer(ErrorCode.INVALID_RECORD, culprit=random.randrange(batch.builder.count))
