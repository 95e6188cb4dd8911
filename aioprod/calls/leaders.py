"""Requests to the leaders of partitions: retried after errors that may pass, and sent elsewhere when leaders move.

Where records are read, followers take the place of leaders that have named them (KIP-392): `target` returns the broker
that gets the requests.

A round sends each leader one request for all of its partitions that are due, and returns the first response. The caller
reports the result of each partition of a response: `succeeded`, `retry_later` or `rejected`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Generic, NamedTuple, Self, TypeVar

from aioprod._authorization_errors import Right
from aioprod.calls.broker_errors import broker_error
from aioprod.calls.session import Session
from aioprod.cluster import Cluster, Node
from aioprod.cluster.topic_errors import topic_error
from aioprod.errors import (
    AioprodError,
    BrokerConnectionError,
    BrokerError,
    ErrorCode,
    Operation,
    ProtocolError,
    RequestTimedOutError,
    UnknownTopicError,
)
from aioprod.types import TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = ["Answer", "LeaderRequests", "PendingPartition"]

_NAMED_MAX: Final = 3
"""How many partitions an error message names."""

_SLICE_S: Final = 0.003
"""The longest time for which building requests may block the event loop. The request that passes it is still
finished."""

_REFRESH_S: Final = 2.0
"""After so long without a response metadata is refreshed: a leader that hangs does not say that it has moved."""


@dataclass(slots=True, eq=False)
class PendingPartition:
    """A partition whose leader gets requests until `is_done`."""

    tp: TopicPartition
    is_in_flight: bool = False
    """A request for it is under way."""
    failures: int = 0
    """How many requests for it failed in a row."""
    retry_at: float = -math.inf
    """When the next one is sent, in monotonic seconds."""
    last_error: AioprodError | None = None
    """Why the last of them failed."""

    @property
    def is_done(self) -> bool:
        """Whether no further request is needed."""
        raise NotImplementedError


PartitionT = TypeVar("PartitionT", bound=PendingPartition)
ResponseT = TypeVar("ResponseT", bound=Response)


def _ignore(node_id: int) -> None:
    """Do nothing."""


class _InFlight(NamedTuple, Generic[PartitionT, ResponseT]):
    """The request that one broker has not answered yet."""

    task: asyncio.Task[ResponseT]
    partitions: Sequence[PartitionT]
    sent_at: float


class Answer(NamedTuple, Generic[PartitionT, ResponseT]):
    """The response of a broker to a request for these partitions; both times in monotonic seconds."""

    partitions: Sequence[PartitionT]
    response: ResponseT
    node_id: int
    sent_at: float
    received_at: float


class LeaderRequests(Generic[PartitionT, ResponseT]):
    """Sends each leader one request at a time for all of its partitions; an async context manager.

    The caller reports the result of each partition by `succeeded`, `retry_later` or `rejected`. A broker gets its next
    request only by the next call of `next`, so that no more than one of its responses is held. The response of a
    partition that is done by then is ignored.

    `partitions` may change at any time. When they have, `version` returns another value, and the caller wakes a `next`
    that waits by `Session.notify`. Without `version` they are taken to have changed in each round. `build` makes the
    request to a broker for some of them, and `lost` is called when it will have no response. `target` is the broker
    that gets the requests for a partition, None while there is none; by default its leader. `purpose` completes the
    sentence "Topic 'x' could not be ...", and `operation` is the right that the request needs. With `patient` there is
    no time limit, and topics that do not exist are waited for.
    """

    def __init__(
        self,
        session: Session,
        partitions: Iterable[PartitionT],
        build: Callable[[int, Sequence[PartitionT]], Request[ResponseT]],
        *,
        version: Callable[[], object] = object,
        lost: Callable[[int], object] = _ignore,
        target: Callable[[Cluster, TopicPartition], Node | None] = Cluster.leader_for,
        purpose: str,
        operation: Operation,
        patient: bool = False,
    ) -> None:
        self._session = session
        self._partitions = partitions
        self._build = build
        self._version = version
        self._lost = lost
        self._target = target
        self._grouped: tuple[object, int] | None = None
        self._by_node: dict[int, list[PartitionT]] = {}
        # The brokers that get requests for partitions which they do not lead.
        self._followers: set[int] = set()
        self._topics: frozenset[str] = frozenset()
        self._failing: set[PartitionT] = set()
        # When partitions that fail by one answer are due again, by their failures.
        self._retry_times: dict[int, float] = {}
        self._purpose = purpose
        self._operation = operation
        self._patient = patient
        self._in_flight: dict[int, _InFlight[PartitionT, ResponseT]] = {}
        self._tasks: set[asyncio.Task[ResponseT]] = set()
        self._waited_s = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def sent_at(self) -> dict[int, float]:
        """When the request was sent that a broker has not answered yet, in monotonic seconds, by node id."""
        return {node_id: request.sent_at for node_id, request in self._in_flight.items()}

    async def close(self) -> None:
        """Cancel the requests in flight."""
        for node_id in list(self._in_flight):
            self._abandon(node_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self) -> Answer[PartitionT, ResponseT] | None:
        """The next response, with the partitions of its request; None when all partitions are done.

        A call that is cancelled loses no response. Raises RequestTimedOutError after `default.api.timeout.ms` without
        progress of any partition, UnknownTopicError or AuthorizationError when a topic was deleted, and what else
        `Client.request` raises.
        """
        while any(not one.is_done for one in self._partitions):
            if (answered := await self.round()) is not None:
                return answered
        return None

    async def round(self) -> Answer[PartitionT, ResponseT] | None:
        """As `next`, but None when the session reports a change (`Session.change`) before a response comes."""
        # One time for all: a retry that is not due when requests are sent must still be ahead when the wait is
        # computed.
        now = self._session.clock()
        self._retry_times.clear()
        self._group()
        is_slow = self._session.clock() - now >= _SLICE_S
        while is_slow or not self._send(now):
            await asyncio.sleep(0)
            is_slow = False
            now = self._session.clock()
        node_id = next((node_id for node_id, request in self._in_flight.items() if request.task.done()), None)
        if node_id is None:
            await self._wait(now)
            return None
        task, partitions, sent_at = self._forget(node_id)
        try:
            return Answer(partitions, task.result(), node_id, sent_at, now)
        except AioprodError as error:
            self._lost(node_id)
            if not isinstance(error, BrokerConnectionError):
                raise
            self._refresh_metadata(_topics(partitions))
            for one in partitions:
                self.retry_later(one, error)
        return None

    def _group(self) -> None:
        """Group the partitions by the broker that gets requests for them, if they or these brokers have changed.

        Brokers may lead thousands of them: what is done in each round must not take long for each.
        """
        metadata = self._session.client.metadata
        present = (self._version(), metadata.version)
        if present == self._grouped:
            return
        self._grouped = present
        cluster, target = metadata.cluster, self._target
        self._by_node = {}
        self._followers.clear()
        topics: set[str] = set()
        unfinished: set[PartitionT] = set()
        for one in self._partitions:
            if one.is_done:
                continue
            unfinished.add(one)
            topics.add(one.tp.topic)
            node = target(cluster, one.tp)
            if node is not None:
                self._by_node.setdefault(node.id, []).append(one)
                if target is not Cluster.leader_for and node != cluster.leader_for(one.tp):
                    self._followers.add(node.id)
        self._topics = frozenset(topics)
        self._failing = {one for one in unfinished if one.failures}
        self._follow_targets()

    # --- results

    @property
    def has_failures(self) -> bool:
        """Whether the last answer about any partition was a failure."""
        return bool(self._failing)

    def succeeded(self, one: PartitionT) -> None:
        """The partition has made progress: reset its failures."""
        self._waited_s = 0.0
        if one.failures:
            one.failures = 0
            one.last_error = None
            self._failing.discard(one)

    def retry_later(self, one: PartitionT, error: AioprodError, *, refresh: bool = False) -> None:
        """Send another request for the partition after the backoff, together with others that fail by this answer.

        `refresh`: the metadata may be out of date, so request it again.
        """
        now = self._session.clock()
        retry_at = self._retry_times.get(one.failures, now)
        if retry_at <= now:
            retry_at = self._retry_times[one.failures] = now + self._session.backoff_s(one.failures)
        one.retry_at = retry_at
        one.failures += 1
        one.last_error = error
        self._failing.add(one)
        if refresh:
            self._refresh_metadata([one.tp.topic])

    def rejected(self, one: PartitionT, code: ErrorCode | int, peer: str = "its leader") -> None:
        """The leader, or another `peer`, answered with an error code: raise its error unless a retry may help."""
        refresh = isinstance(code, ErrorCode) and code.refreshes_metadata
        self.retry_later(one, BrokerError(f"{peer} answered {ErrorCode.name_of(code)}.", code=code), refresh=refresh)
        may_pass = isinstance(code, ErrorCode) and code.retriable
        if not may_pass and not (self._patient and ErrorCode.is_unclear(code)):
            what = f"Partition {one.tp.partition} of topic {one.tp.topic!r} could not be {self._purpose}"
            raise broker_error(what, code, [Right(self._operation, "topic", one.tp.topic)])

    def missing_in_response(self, one: PartitionT, peer: str = "its leader") -> None:
        """The response does not contain the partition."""
        self.retry_later(one, ProtocolError(f"{peer} left it out of the response."))

    # --- requests

    def _send(self, now: float) -> bool:
        """Send what may be sent.

        False when that has taken long enough for this iteration of the loop, and something is left.
        """
        client = self._session.client
        self._session.track(self._topics)
        has_sent = False
        for node_id, given in self._by_node.items():
            if node_id in self._in_flight:
                continue
            partitions = [one for one in given if one.retry_at <= now and not one.is_in_flight and not one.is_done]
            if not partitions:
                continue
            if has_sent and self._session.clock() - now >= _SLICE_S:
                return False
            has_sent = True
            request = self._build(node_id, partitions)
            # A follower that can't be reached is not waited for: leaders have what it has.
            call = client.request(request, node_id=node_id, connects_once=node_id in self._followers)
            task = asyncio.get_running_loop().create_task(call)
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            self._in_flight[node_id] = _InFlight(task, partitions, now)
            for one in partitions:
                one.is_in_flight = True
        return True

    def _ended(self, task: asyncio.Task[ResponseT]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Retrieve the exception, so that asyncio does not log one that has no waiter.
            task.exception()

    def _forget(self, node_id: int) -> _InFlight[PartitionT, ResponseT]:
        request = self._in_flight.pop(node_id)
        for one in request.partitions:
            one.is_in_flight = False
        return request

    def _abandon(self, node_id: int) -> None:
        """Cancel the request to a broker."""
        self._forget(node_id).task.cancel()
        self._lost(node_id)

    def _follow_targets(self) -> None:
        """Cancel a request, whose broker may be dead, when all of its partitions have other targets now."""
        cluster = self._session.cluster()
        for node_id, request in list(self._in_flight.items()):
            targets = [self._target(cluster, one.tp) for one in request.partitions if not one.is_done]
            if not request.task.done() and all(node is not None and node.id != node_id for node in targets):
                self._abandon(node_id)

    async def _wait(self, now: float) -> None:
        for topic in self._topics:
            error = topic_error(self._session.client.metadata, topic, now, to_write=False)
            if error is not None and not (self._patient and isinstance(error, UnknownTopicError)):
                raise error
        left_s = math.inf if self._patient else self._session.timeout_s - self._waited_s
        if left_s <= 0.0:
            raise self._timeout_error([one for one in self._partitions if not one.is_done])
        due = min((one.retry_at for one in self._failing if one.retry_at > now and not one.is_done), default=math.inf)
        tasks = [request.task for request in self._in_flight.values()]
        await self._session.change(min(left_s, due - now, _REFRESH_S), tasks)
        waited_s = self._session.clock() - now
        self._waited_s += waited_s
        if waited_s >= _REFRESH_S:
            self._refresh_metadata(self._topics)

    def _refresh_metadata(self, topics: Iterable[str]) -> None:
        for topic in topics:
            self._session.client.metadata.request_update(self._session.clock(), topic)

    def _timeout_error(self, unfinished: Sequence[PartitionT]) -> AioprodError:
        cluster = self._session.cluster()
        topics = sorted(_topics(unfinished))
        reasons = []
        for one in unfinished[:_NAMED_MAX]:
            named = f"{one.tp.topic}-{one.tp.partition}"
            if cluster.leader_for(one.tp) is None:
                reasons.append(f"{named} has no leader")
            elif one.last_error is not None:
                reasons.append(f"{named}: {one.last_error.message.rstrip('.')}")
            else:
                reasons.append(f"{named}: its leader has not answered")
        if len(unfinished) > _NAMED_MAX:
            reasons.append(f"and {len(unfinished) - _NAMED_MAX} partitions more")
        what = f"Topic {topics[0]!r}" if len(topics) == 1 else f"Topics {', '.join(map(repr, topics[:_NAMED_MAX]))}"
        error = RequestTimedOutError(
            f"{what} could not be {self._purpose} within {self._session.timeout_s:g} s (default.api.timeout.ms): "
            f"{'; '.join(reasons)}."
        )
        error.__cause__ = next((one.last_error for one in unfinished if one.last_error is not None), None)
        return error


def _topics(some: Iterable[PendingPartition]) -> set[str]:
    return {one.tp.topic for one in some}
