"""The requests of a transaction to its coordinators: producer id, partitions, offsets and EndTxn, each with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from aioprod._authorization_errors import Right, authorization_error
from aioprod._error_codes import ErrorCode
from aioprod.calls.coordinator import Coordinator
from aioprod.errors import (
    AioprodError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    Operation,
    ProducerFencedError,
    RequestTimedOutError,
)
from aioprod.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from aioprod.messages.add_partitions_to_txn import AddPartitionsToTxnTopic
from aioprod.messages.init_producer_id import check_identity
from aioprod.messages.negotiation import ByVersion
from aioprod.net.client import Client
from aioprod.net.protocol.backoff import Backoff
from aioprod.producer.batching.produce import FIRST_THAT_JOINS
from aioprod.producer.transactions.codes import FATAL_FOR_RECORDS, Meaning, Step, meaning_of
from aioprod.producer.transactions.offset_commit import FIRST_THAT_ADDS, OffsetCommit, Offsets
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import AnyRequest, Request, Response

__all__ = ["CoordinatorRequests", "Offsets", "ProducerIdentity", "Rejected", "transaction_version"]

ResponseT = TypeVar("ResponseT", bound=Response)

_CLIENTS_MAX: Final = {AddPartitionsToTxnRequest: 3, EndTxnRequest: 4}
"""The last versions below transaction.version 2: what comes after adds by itself, or raises the epoch (KIP-890)."""
_FIRST_IMPLICIT_REQUESTS: Final[Mapping[type[AnyRequest], int]] = {
    ProduceRequest: FIRST_THAT_JOINS,
    TxnOffsetCommitRequest: FIRST_THAT_ADDS,
    EndTxnRequest: 5,
}
"""What transaction.version 2 is made of."""
_FIRST_WITH_EPOCH: Final = 3
"""The InitProducerId version that raises the epoch of a living producer (KIP-360)."""
_COMPLETION_BACKOFF: Final = Backoff(initial_s=0.02, max_s=0.1)
"""How long to wait for the transaction before to be completed, which takes some milliseconds."""
_UNKNOWN_ID_TRIES: Final = 5
"""Tries with an unknown topic id, in about two seconds: brokers learn a new one; that of a deleted topic is gone."""
_JOINING_S: Final = 0.02
_JOINING_DOUBLINGS_MAX: Final = 3
"""How long a first batch waits that could not be added to the transaction."""


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """What brokers know a producer by; (-1, -1) before it has one."""

    producer_id: int = -1
    epoch: int = -1

    def __str__(self) -> str:
        return f"epoch {self.epoch} of producer id {self.producer_id}"


def transaction_version(client: Client) -> int:
    """The finalized level of the cluster's feature transaction.version, 0 where it has none.

    It is 1 at most where the requests of level 2 are not offered, as behind a proxy that knows older versions only and
    passes the features on.
    """
    level = client.feature("transaction.version")
    offers = all(client.speaks(kind, at_least=version) for kind, version in _FIRST_IMPLICIT_REQUESTS.items())
    return level if offers else min(level, 1)


class Rejected(Exception):  # noqa: N818  # never leaves the producer
    """A coordinator rejected a request for good."""

    def __init__(self, code: ErrorCode | int, meaning: Meaning, error: AioprodError) -> None:
        super().__init__(error)
        self.code = code
        """The code of the coordinator's answer."""
        self.meaning = meaning
        """What the code says of the producer."""
        self.error = error
        """What the call raises."""


class CoordinatorRequests:
    """The requests of one transactional id; the caller makes one at a time.

    Each call retries until `deadline`, in monotonic seconds, and then raises RequestTimedOutError; the request may
    still be carried out. Raises Rejected for a code that no retry can change, and the errors of `Coordinator`.
    """

    def __init__(self, client: Client, transactional_id: str, timeout_ms: int, random: Random) -> None:
        self.transactional_id = transactional_id
        self.is_old = False
        """Whether the coordinator that gave the last epoch is older than 2.5 (KIP-360)."""
        self._timeout_ms = timeout_ms
        self._client = client
        self._random = random
        self._coordinator = Coordinator(client, "transaction", transactional_id)
        self._groups: dict[str, Coordinator] = {}
        self._own_right = Right("WRITE", "transactional_id", transactional_id)

    @property
    def may_be_known(self) -> bool:
        """Whether a request of the present epoch may still reach the coordinator, though a retry was answered."""
        return self._coordinator.lost > 0

    def join_pause_s(self, failures: int) -> float:
        """Seconds until a batch is retried that could not be added to the transaction, `failures` times before.

        Much of the pause is random, as another process that produces in the same transaction may retry too.
        """
        return _JOINING_S * 2.0 ** min(failures, _JOINING_DOUBLINGS_MAX) * self._random.uniform(0.5, 1.5)

    async def initialize(
        self, before: ProducerIdentity, deadline: float, *, is_open: bool = False, has_ended: bool = False
    ) -> ProducerIdentity:
        """Get a producer id and epoch; older producers of this id are fenced, and an open transaction aborted.

        With the identity `before` the coordinator raises the epoch of this producer, unless another one took over
        (KIP-360). `before` is left out where the coordinator `is_old`, and where a transaction that `is_open` is to be
        aborted. The coordinator takes this for a new producer then, and the epoch that it returns shows whether another
        one was there in between. `has_ended`: the last transaction has ended, and no request for the next epoch was
        sent since.
        """
        named, is_first = before, before.producer_id < 0
        if (self.is_old and not (is_first or is_open)) or (has_ended and self.may_be_known):
            # An old coordinator rejects this if another producer took over, and does not fence that one in turn. And if
            # a late request to add something has begun a transaction, InitProducerId would fence its own sender.
            await self.end(before, deadline, committed=False, raises_epoch=False, is_known=False)

        def build(version: int) -> InitProducerIdRequest:
            nonlocal named
            self.is_old = version < _FIRST_WITH_EPOCH
            named = ProducerIdentity() if self.is_old or is_open else before
            return InitProducerIdRequest(
                transactional_id=self.transactional_id,
                transaction_timeout_ms=self._timeout_ms,
                producer_id=named.producer_id,
                producer_epoch=named.epoch,
            )

        message = ByVersion(InitProducerIdRequest, build)
        answer = await self._request(Step.INITIALIZE, message, deadline, self._coordinator, _code_of_identity)
        identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        if named != before:
            # The abort of an open transaction raises the epoch as well.
            self._check_next(identity, ProducerIdentity(before.producer_id, before.epoch + (2 if is_open else 1)))
        self._coordinator.lost = 0
        return identity

    def _check_next(self, identity: ProducerIdentity, expected: ProducerIdentity) -> None:
        """Raise Rejected if another producer has got an epoch in between, or seems to have."""
        if identity != expected:
            # An epoch that was given to this producer in an answer that was lost looks the same.
            said = f"The coordinator, which is older than 2.5, gave {identity} where {expected} was the next"
            raise Rejected(ErrorCode.INVALID_PRODUCER_EPOCH, Meaning.FENCED, self.fenced(said))

    async def add_partitions(
        self, identity: ProducerIdentity, partitions: Iterable[TopicPartition], deadline: float
    ) -> None:
        """Add partitions to the transaction, below transaction.version 2."""
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes)) for name, indexes in topics.items()
            ),
        )
        await self._request(
            Step.ADD_PARTITIONS,
            self._limited(request),
            deadline,
            self._coordinator,
            lambda answer: _worst(code for _, code in _added(answer)),
            lambda answer: _denied("WRITE", _added(answer)),
        )

    async def add_offsets(self, identity: ProducerIdentity, group_id: str, deadline: float) -> None:
        """Add the offsets of a group to the transaction, below transaction.version 2."""
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group_id,
        )
        await self._request(
            Step.ADD_OFFSETS,
            request,
            deadline,
            self._coordinator,
            lambda answer: answer.error_code,
            lambda _: [Right("READ", "group", group_id)],
        )

    async def commit_offsets(
        self,
        identity: ProducerIdentity,
        offsets: Offsets,
        group: GroupMetadata,
        deadline: float,
        *,
        adds: bool,
    ) -> None:
        """Send the offsets of a group, to be committed with the transaction; `adds` the group by the same request.

        Raises UnsupportedVersionError as `OffsetCommit.message` says.
        """
        coordinator = self._groups.get(group.group_id)
        if coordinator is None:
            coordinator = self._groups[group.group_id] = Coordinator(self._client, "group", group.group_id)
        commit = OffsetCommit(offsets, group)
        await self._request(
            Step.COMMIT_OFFSETS,
            commit.message(self.transactional_id, identity.producer_id, identity.epoch, adds=adds),
            deadline,
            coordinator,
            lambda answer: _worst(code for _, code in commit.codes(answer)),
            lambda answer: [Right("READ", "group", group.group_id), *_denied("READ", commit.codes(answer))],
            commit.why,
        )

    async def end(
        self,
        identity: ProducerIdentity,
        deadline: float,
        *,
        committed: bool,
        raises_epoch: bool,
        is_known: bool = True,
    ) -> ProducerIdentity:
        """Commit or abort; returns the identity for the next transaction. Repeating it is safe.

        Without `is_known` the coordinator may know of no transaction: then there is nothing to end, and no error.
        """
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=committed,
        )
        step = Step.COMMIT if committed else Step.ABORT
        message = request if raises_epoch else self._limited(request)
        try:
            answer = await self._request(step, message, deadline, self._coordinator, _code_of_end)
        except Rejected as rejected:
            if is_known or rejected.code != ErrorCode.INVALID_TXN_STATE:
                raise
            return identity
        if answer.producer_id < 0:
            return identity
        return ProducerIdentity(answer.producer_id, answer.producer_epoch)

    # --- retries

    def _limited(self, request: Request[ResponseT]) -> ByVersion[ResponseT]:
        kind = type(request)
        return ByVersion(kind, lambda _version: request, _CLIENTS_MAX[kind])

    async def _request(
        self,
        step: Step,
        message: Request[ResponseT] | ByVersion[ResponseT],
        deadline: float,
        coordinator: Coordinator,
        code_of: Callable[[ResponseT], int],
        rights_of: Callable[[ResponseT], Iterable[Right]] = lambda _: (),
        why_of: Callable[[ResponseT], str] = lambda _: "",
    ) -> ResponseT:
        attempt = 0
        last = ""
        while True:
            delay_s = self._client.backoff_s(attempt)
            attempt += 1
            try:
                answer = await coordinator.request(message, deadline=deadline, error_of=code_of)
            except RequestTimedOutError as late:
                if not last:
                    raise
                raise RequestTimedOutError(f"{last}, and to each retry until the timeout.") from late
            code = ErrorCode.of(code_of(answer))
            meaning = meaning_of(step, code)
            if meaning is Meaning.DONE:
                return answer
            if code == ErrorCode.UNKNOWN_TOPIC_ID and attempt == _UNKNOWN_ID_TRIES:
                meaning = Meaning.FAILED
            if meaning not in (Meaning.WAIT, Meaning.AGAIN):
                error = self._error(step, code, meaning, rights_of(answer), why_of(answer))
                error.may_be_stored = _is_open(step, code)
                raise Rejected(code, meaning, error)
            if meaning is Meaning.WAIT:
                delay_s = min(delay_s, _COMPLETION_BACKOFF.delay_s(attempt - 1, self._random))
            last = _said(step, code)
            await asyncio.sleep(min(delay_s, max(0.0, deadline - self._client.now())))

    def _error(
        self, step: Step, code: ErrorCode | int, meaning: Meaning, rights: Iterable[Right], why: str
    ) -> AioprodError:
        """The error to raise for a code."""
        said = _said(step, code) + why
        if _is_open(step, code):
            said += "; it may be committed or not"
        if meaning is Meaning.FENCED:
            return self.fenced(said)
        if denied := self._denied(said, code, rights):
            return denied
        if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            return ConfigError(
                f"transaction.timeout.ms={self._timeout_ms} is more than the cluster allows.",
                hint="Lower it, or raise the brokers' transaction.max.timeout.ms.",
            )
        return BrokerError(f"{said}.", code=code)

    def cause_of(self, code: ErrorCode | int, said: str) -> AioprodError | None:
        """The error of a rejected record if it concerns the transactional id; `said` is the broker's answer."""
        if FATAL_FOR_RECORDS.get(code) is Meaning.FENCED:
            return self.fenced(said)
        if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return self._denied(said, code)
        return None

    def _denied(self, said: str, code: int, rights: Iterable[Right] = ()) -> AuthorizationError | None:
        return authorization_error(f"{said}.", code, [self._own_right, *rights])

    def fenced(self, said: str) -> ProducerFencedError:
        """The error for a producer whose epoch is no longer the newest; `said` is the broker's answer."""
        return ProducerFencedError(
            f"{said}: another producer with transactional.id {self.transactional_id!r} took over, or the transaction "
            f"was open for longer than transaction.timeout.ms={self._timeout_ms}.",
            hint="Close this producer. Make a new one if no other is meant to have this transactional.id.",
        )


def _is_open(step: Step, code: ErrorCode | int) -> bool:
    """Whether the transaction may be committed despite this answer: an earlier try may have done it."""
    return step is Step.COMMIT and code != ErrorCode.INVALID_TXN_STATE


def _said(step: Step, code: ErrorCode | int) -> str:
    return f"The coordinator answered {ErrorCode.name_of(code)} to the request to {step.value}"


def _code_of_identity(answer: InitProducerIdResponse) -> int:
    """The code of an answer with producer id and epoch; raises ProtocolError where these can't be."""
    if answer.error_code == ErrorCode.NONE:
        check_identity(answer.producer_id, answer.producer_epoch)
    return answer.error_code


def _code_of_end(answer: EndTxnResponse) -> int:
    """The code of an answer that may have producer id and epoch of the next transaction; raises ProtocolError."""
    if answer.error_code == ErrorCode.NONE and answer.producer_id >= 0:
        check_identity(answer.producer_id, answer.producer_epoch)
    return answer.error_code


def _worst(codes: Iterable[int]) -> int:
    """The one code to act on: one that no retry can change, else one that is retriable, else none.

    OPERATION_NOT_ATTEMPTED gives no reason: another partition has it.
    """
    worst = int(ErrorCode.NONE)
    for code in codes:
        is_reason = code != ErrorCode.OPERATION_NOT_ATTEMPTED
        known = ErrorCode.of(code)
        ends = is_reason and not (isinstance(known, ErrorCode) and known.retriable)
        if code != ErrorCode.NONE and (worst == ErrorCode.NONE or worst == ErrorCode.OPERATION_NOT_ATTEMPTED or ends):
            worst = code
    return worst


def _added(answer: AddPartitionsToTxnResponse) -> list[tuple[str, int]]:
    """Topic and code of each partition."""
    topics = answer.results_by_topic_v3_and_below
    return [(topic.name, row.partition_error_code) for topic in topics for row in topic.results_by_partition]


def _denied(operation: Operation, codes: Iterable[tuple[str, int]]) -> list[Right]:
    """The missing rights to topics."""
    return [Right(operation, "topic", topic) for topic, code in codes if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
