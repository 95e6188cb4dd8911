"""What becomes of batches that were sent, or that can't be: delivered, queued again, split, or failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from aioprod._authorization_errors import IDEMPOTENT_WRITE, Right, authorization_error
from aioprod._error_codes import ErrorCode
from aioprod._user_code import raise_later
from aioprod._words import counted
from aioprod.cluster import Node
from aioprod.cluster.topic_errors import deletion
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    BrokerError,
    DeliveryError,
    NotSentError,
    ProtocolError,
    RecordTooLargeError,
    UnknownOutcomeError,
)
from aioprod.messages import ProduceResponse
from aioprod.messages.produce import PartitionProduceResponse
from aioprod.net.scheduler import Scheduler
from aioprod.net.unforeseen import Unforeseen
from aioprod.producer.batching.accumulator import Accumulator
from aioprod.producer.batching.batch import Batch
from aioprod.producer.batching.lifecycle import complete, land, reevaluate, requeue
from aioprod.producer.batching.partition import Topic
from aioprod.producer.batching.produce import FIRST_WITH_TOPIC_IDS
from aioprod.producer.batching.retry import AMBIGUOUS, Verdict, failure_family, judge, waits_to_join
from aioprod.producer.batching.splitting import set_apart, split
from aioprod.producer.batching.states import IN_FLIGHT
from aioprod.producer.batching.topic_updates import update_topics
from aioprod.producer.batching.unknown import UnknownBatches
from aioprod.producer.completions import Completions
from aioprod.producer.explain import Explainer
from aioprod.producer.failure import Failure
from aioprod.producer.logs.event_log import EventLog
from aioprod.producer.mass_failure import MassFailure
from aioprod.producer.meters import Meters
from aioprod.producer.settings import SenderSettings
from aioprod.producer.transactions.rules import TransactionRules
from aioprod.types import TopicPartition
from aioprod.wire.buffer import Buffer
from aioprod.wire.codec import decode

if TYPE_CHECKING:
    from aioprod.producer.held_outcomes import HeldOutcomes

__all__ = ["FAILED_PER_TURN", "Outcomes"]

_COMPLETION_SHARE: Final = 0.2
"""The share of the usual backoff for a retry while the transaction before is being completed."""

FAILED_PER_TURN: Final = 100
"""How many batches fail in one iteration of the loop when many fail at once: some milliseconds' worth."""

_HINTS: Final[dict[int, str]] = {
    ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT: "Send without idempotence (enable.idempotence=false), or to a topic "
    "whose message.format.version is 0.11 or later.",
}
"""What to do about a code that does not say so itself."""

_DUPLICATES_OF: Final = {
    UnknownOutcomeError: "They may be stored: sending them again may make duplicates.",
    NotSentError: "They never left this process: they can be sent again without making duplicates.",
}


_LARGE: Final = 32 * 1024
"""More bytes than a batch has by default: brokers hang up on a request that is larger than they are set to read."""


def _hint(family: type[DeliveryError], batch: Batch) -> str | None:
    """What to do about the cause; but first of all that records may be stored, which the cause does not know."""
    known: str | None = getattr(batch.cause, "hint", None)
    if known is not None and family is not UnknownOutcomeError:
        return known
    duplicates = _DUPLICATES_OF.get(family)
    if type(batch.cause) is BrokerConnectionError and batch.attempts > 1 and batch.record_bytes > _LARGE:
        return (
            f"{duplicates} A broker hangs up when a request is larger than its socket.request.max.bytes: this one had "
            f"{batch.record_bytes} bytes of records."
        )
    return duplicates


class Outcomes:
    """Reads the Produce responses that are not plain, applies the error table, and hands done batches on.

    Failed attempts to add a partition to the transaction are not counted against `retries`.
    """

    def __init__(
        self,
        settings: SenderSettings,
        *,
        accumulator: Accumulator,
        unknown: UnknownBatches,
        completions: Completions | HeldOutcomes,
        meters: Meters,
        explainer: Explainer,
        event_log: EventLog,
        rules: TransactionRules,
        backoff: Callable[[int], float],
        scheduler: Scheduler,
        unforeseen: Unforeseen,
    ) -> None:
        self._settings = settings
        self._accumulator = accumulator
        self._unknown = unknown
        self._completions = completions
        self._meters = meters
        self._rules = rules
        """Notified of each batch that was not delivered."""
        self._backoff = backoff
        """Maps the number of failed attempts to the seconds until the next one."""
        self._scheduler = scheduler
        """Woken when something is due: the end of a backoff, a request for metadata."""
        self._unforeseen = unforeseen
        self.explainer = explainer
        """It says what a batch waits for."""
        self.event_log = event_log
        self._retries_stopped: MassFailure | None = None
        """Why no batch is retried now; None while batches are."""

    # --- answers

    def answered(self, batches: list[Batch], body: Buffer, version: int, now: float) -> int:
        """A broker answered a Produce request with `body`; returns the throttle time in it, in ms.

        For an answer that stores every batch and says no more, `acknowledge` is called instead.
        A batch that the answer leaves out, or an answer that can't be read, counts as a lost answer.
        """
        try:
            response = decode(ProduceResponse, version, body)
        except Exception as error:  # of any type: it is this broker's failure
            what = f"Reading the Produce response of broker {batches[0].broker}"
            self.lost(batches, self._unforeseen.failure(what, error), now)
            return 0
        answers: dict[tuple[object, int], PartitionProduceResponse] = {
            (topic.topic_id.bytes if version >= FIRST_WITH_TOPIC_IDS else topic.name, answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        endpoints = {
            node.node_id: Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
        }
        for batch in batches:
            topic = batch.partition.topic
            key = (batch.topic_id if version >= FIRST_WITH_TOPIC_IDS else topic.name, batch.partition.index)
            answer = answers.get(key)
            if answer is None:
                missing = ProtocolError(
                    f"Broker {batch.broker} left {topic.name}-{batch.partition.index} out of its Produce response."
                )
                self.lost([batch], missing, now)
            elif answer.error_code == ErrorCode.NONE:
                self.acknowledge(batch, answer.base_offset, answer.log_append_time_ms, now)
            elif land(self._accumulator, batch, now):
                self._judge(batch, answer, endpoints, now)
        return response.throttle_time_ms

    def lost(self, batches: list[Batch], error: AioprodError, now: float) -> None:
        """The answer for these batches will never come: they may be stored or not."""
        for batch in batches:
            self._refresh(batch, now)
            if not land(self._accumulator, batch, now):
                continue
            batch.maybe_stored = True
            batch.cause = error
            batch.code = None
            if batch.attempts <= self._settings.retries:
                self._retry(batch, now)
            else:
                self.fail(batch, now, f"retries={self._settings.retries} are used up: {error.message}")

    def _judge(self, batch: Batch, answer: PartitionProduceResponse, endpoints: Mapping[int, Node], now: float) -> None:
        code = ErrorCode.of(answer.error_code)
        verdict = judge(batch, code, self._settings.retries, self._accumulator.sequences)
        if verdict is Verdict.DELIVERED:
            self._deliver(batch, -1, answer.log_append_time_ms, now)
            return
        self._record_error(batch, code, answer.error_message)
        if verdict is Verdict.SPLIT and self._may_split(batch):
            self._meters.split()
            self._accumulator.growth.rejected(batch, now)
            split(self._accumulator, batch, now)
            return
        if isinstance(code, ErrorCode) and code.refreshes_metadata:
            self._refresh(batch, now)
        if verdict is Verdict.RETRY:
            self._follow_hint(batch, answer, endpoints, now)
            self._retry(batch, now)
            return
        self._fail_rejected(batch, answer, now)

    def _may_split(self, batch: Batch) -> bool:
        """Whether its parts can't be duplicates: brokers recognize a batch that they have stored, but not its parts."""
        return batch.base_sequence < 0 or not batch.maybe_stored

    def _fail_rejected(self, batch: Batch, answer: PartitionProduceResponse, now: float) -> None:
        """Fail a batch of which nothing was stored; if it names the invalid records, retry the others (KIP-467)."""
        count = batch.builder.count
        named = {error.batch_index: error.batch_index_error_message for error in answer.record_errors}
        culprits = sorted(index for index in named if 0 <= index < count)
        # The culprits fail the transaction, so that retrying the others is useless.
        reasons = {index: named[index] or "no reason given." for index in culprits}
        if culprits and len(culprits) < count and self._may_split(batch) and not self._settings.transactional:
            batch = set_apart(self._accumulator, batch, culprits, now)
            reasons = dict(enumerate(reasons.values()))
        assert batch.cause is not None
        why = batch.cause.message if isinstance(batch.cause, AioprodError) else str(batch.cause)
        self.fail(batch, now, why, reasons or None)

    def _record_error(self, batch: Batch, code: ErrorCode | int, said: str | None) -> None:
        """Keep the broker's answer as cause of the error that the records may fail with."""
        batch.unanswered = False
        batch.code = code
        if code in AMBIGUOUS:
            batch.maybe_stored = True
        partition = batch.partition
        answered = (
            f"Broker {batch.broker} answered {ErrorCode.name_of(code)} for {partition.topic.name}-{partition.index}"
        )
        rights = (Right("WRITE", "topic", partition.topic.name), IDEMPOTENT_WRITE)
        denied = authorization_error(f"{answered}.", code, rights)
        message = f"{answered}: {said}" if said and denied is None else f"{answered}."
        if denied is not None:
            batch.cause = denied
        elif code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE):
            batch.cause = RecordTooLargeError(
                message, hint="Raise the topic's max.message.bytes, or lower batch.size and the size of the records."
            )
        else:
            batch.cause = BrokerError(message, code=code, hint=_HINTS.get(code))
        if (cause := self._rules.error_of(code, message.rstrip("."))) is not None:
            cause.__cause__ = batch.cause if denied is None else None
            batch.cause = cause

    def _follow_hint(
        self, batch: Batch, answer: PartitionProduceResponse, endpoints: Mapping[int, Node], now: float
    ) -> None:
        """Follow the newer leader, if the answer names one (KIP-951)."""
        partition = TopicPartition(batch.partition.topic.name, batch.partition.index)
        hint = answer.current_leader
        if hint.leader_id == batch.broker:
            # It has just said that it is not the leader: a higher epoch makes that no better, and the backoff holds.
            return
        metadata = self._accumulator.metadata
        if metadata.apply_leader_hint(partition, hint.leader_id, hint.leader_epoch, endpoints.get(hint.leader_id), now):
            update_topics(self._accumulator, [partition.topic], now)

    def recreated(self, names: Iterable[str], now: float) -> None:
        """Fail the batches for topics that were deleted and created again, or send them to the new topics."""
        recreated = {name: 0 for name in names if name in self._accumulator.topics}
        sequences = self._accumulator.sequences
        if sequences is not None:
            for name in recreated:
                for partition in self._accumulator.topics[name].partitions:
                    sequences.unestablish(partition)
                self.topic_deleted(self._accumulator.topics[name])
        for batch in list(self._accumulator.incomplete):
            name = batch.partition.topic.name
            waits = name in recreated and batch.state != IN_FLIGHT
            if waits and self._is_orphan(batch) and self._readdress(batch, now):
                recreated[name] += 1
                batch.partition.retry_at = 0.0
                reevaluate(self._accumulator, batch.partition, now)
        for name, followers in recreated.items():
            self.event_log.recreated(name, followers, now)

    def topic_deleted(self, topic: Topic) -> None:
        """The log of a topic is gone: nothing will be known of its batches with an unknown outcome."""
        self._unknown.topic_deleted(topic)

    def _is_orphan(self, batch: Batch) -> bool:
        known, present = batch.topic_id, batch.partition.topic.topic_id
        return known is not present and known is not None and present is not None and known != present

    def _readdress(self, batch: Batch, now: float) -> bool:
        """Send a batch to the new topic of the same name if it may follow, else fail it; whether it follows.

        It keeps its sequence numbers: a request that named the topic, and not its id, may have brought it there before.
        """
        partition, why = batch.partition, ""
        if not self._settings.follows_recreated:
            why = " (topic.recreation=fail)"
        elif self._settings.transactional:
            why = ", and what belongs to a transaction does not follow"
        elif partition.index >= partition.topic.count:
            why = f" with {partition.topic.count} partitions, so that it can't follow"
        if why:
            last = f" {batch.cause}" if batch.cause is not None else ""
            self.fail(batch, now, f"the topic was deleted and created again{why}.{last}")
            return False
        batch.topic_id = partition.topic.topic_id
        return True

    def _retry(self, batch: Batch, now: float) -> None:
        is_orphan = self._is_orphan(batch)
        if is_orphan and not self._readdress(batch, now):
            return
        if self._retries_stopped is not None:
            self._fail_for(self._retries_stopped, batch, now)
            return
        self._meters.retried(batch)
        leader = batch.partition.queue
        # Once for each batch: brokers that name each other in turn would be sent it for ever without a pause.
        has_moved = leader is not None and leader.node_id != batch.broker and not batch.was_redirected
        batch.was_redirected = batch.was_redirected or has_moved
        delay_s = 0.0 if has_moved or is_orphan else self._backoff(batch.attempts - 1)
        if self._settings.transactional and waits_to_join(batch, batch.code):
            delay_s = self._rules.join_pause_s(batch.attempts - 1)
        elif batch.code == ErrorCode.CONCURRENT_TRANSACTIONS:
            delay_s *= _COMPLETION_SHARE
        self.event_log.retried(batch, delay_s, now)
        requeue(self._accumulator, batch, now, delay_s)
        self._scheduler.wake()

    def _refresh(self, batch: Batch, now: float) -> None:
        """Request metadata: that of the batch's topic is out of date."""
        metadata = self._accumulator.metadata
        metadata.touch(batch.partition.topic.name, now)
        metadata.request_update(now, batch.partition.topic.name)

    # --- retries

    @property
    def retries_stopped_by(self) -> MassFailure | None:
        """The reason for which no batch is retried, None if batches are retried."""
        return self._retries_stopped

    def stop_retries(self, reason: MassFailure) -> None:
        """Retry no batch from now on: the transaction has failed."""
        self._retries_stopped = reason

    def allow_retries(self) -> None:
        """Retry batches again: another transaction begins."""
        self._retries_stopped = None

    # --- the end of a batch

    def acknowledge(self, batch: Batch, base_offset: int, append_time: int, now: float) -> None:
        """Complete a batch that a broker has stored, unless it has expired meanwhile.

        `append_time` is in ms, -1 where the records keep their own.
        """
        if land(self._accumulator, batch, now):
            self._deliver(batch, base_offset, append_time, now)
        elif batch.unknown is not None and base_offset >= 0:
            self._unknown.answered_late(batch.unknown, base_offset, append_time)

    def _deliver(self, batch: Batch, base_offset: int, append_time: int, now: float) -> None:
        sequences = self._accumulator.sequences
        if sequences is not None and batch.base_sequence >= 0 and not self._is_orphan(batch):
            if batch.partition.unknown is not None and base_offset >= 0:
                self._unknown.decide(batch, base_offset)
            sequences.acknowledge(batch, base_offset)
        limit = batch.partition.topic.size_limit
        if limit is not None:
            limit.acknowledged(batch)
        self._meters.delivered(batch, now)
        batch.partition.moved_at = now
        # In this order there is no moment at which the batch is in no place.
        self._completions.succeed(batch, base_offset, append_time)
        complete(self._accumulator, batch, now)

    def unsendable(self, batches: list[Batch], error: Exception, now: float) -> None:
        """Fail batches for which no request could be made: the broker is too old, or compression failed."""
        for batch in batches:
            if land(self._accumulator, batch, now):
                batch.attempts -= 1
                batch.cause = error
                self.fail(batch, now, f"no request could be made for broker {batch.broker}: {error}")

    def expire(self, batch: Batch, now: float) -> None:
        """Fail a batch whose delivery deadline has passed, wherever it is."""
        why = self.explainer.why_expired(batch, now)
        if batch.cause is None:
            batch.cause = self.explainer.last_error(batch)
        deleted = deletion(self._accumulator.metadata, batch.partition.topic.name, now)
        if deleted is not None:
            why = f"{deleted.message} {why}"
            deleted.__cause__, batch.cause = batch.cause, deleted
        self.fail(batch, now, f"delivery.timeout.ms={self._settings.delivery_timeout_ms} has passed. {why}")

    def fail_unsafe(self, batch: Batch, now: float) -> None:
        """Fail a batch that was sent with a producer id that is used up: its retry could be stored beside it."""
        why = "the producer id of its first attempt is used up, and brokers would not recognize a retry with another"
        last = "." if batch.cause is None else f": {batch.cause}"
        self.fail(batch, now, why + last)

    def fail(self, batch: Batch, now: float, why: str, reasons: dict[int, str] | None = None) -> None:
        """Fail a batch, for the reason `why` in a sentence; `reasons` are those of single records by index."""
        family = failure_family(batch)
        partition = batch.partition
        records, were = counted(batch.records, "record"), "was" if batch.records == 1 else "were"
        failure = Failure(
            family=family,
            event=f"{records} of {partition.topic.name}-{partition.index} {were} not delivered",
            why=why,
            topic=partition.topic.name,
            partition=partition.index,
            attempts=batch.attempts,
            broker=batch.broker,
            age_s=now - batch.created,
            code=batch.code,
            cause=batch.cause,
            hint=_hint(family, batch),
            reasons=reasons,
            unknown=self._unknown.add(batch, family, now, is_transactional=self._settings.transactional),
        )
        self._completions.fail(batch, failure)
        sequences = self._accumulator.sequences
        if sequences is not None and batch.base_sequence >= 0:
            sequences.lose(batch, is_missing=family is not UnknownOutcomeError)
        complete(self._accumulator, batch, now)
        self._rules.batch_failed(batch, failure.message)

    def _fail_for(self, reason: MassFailure, batch: Batch, now: float) -> None:
        if reason.cause is not None:
            batch.cause = reason.cause
        self.fail(batch, now, reason.of_batch(batch))

    def fail_batches(self, reason: MassFailure, now: float) -> bool:
        """Fail up to `FAILED_PER_TURN` of the batches without outcome; True if there may be more.

        An error of our own may be the reason. That may have left a batch here although its outcome is known, or its
        partition half changed, so that this ends in another error: nothing is sent any more, and the outcome counts.
        """
        incomplete = self._accumulator.incomplete
        done = set(self._completions.batches())
        concerned = (batch for batch in incomplete if not (reason.spares_in_flight and batch.state == IN_FLIGHT))
        batches = list(islice(concerned, FAILED_PER_TURN))
        for batch in batches:
            if batch not in done and not batch.released:
                try:
                    self._fail_for(reason, batch, now)
                except BaseException as error:
                    if batch not in self._completions.batches():
                        raise
                    raise_later(error)
            incomplete.pop(batch, None)
        return len(batches) == FAILED_PER_TURN
