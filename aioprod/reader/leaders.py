"""Requests to the leaders of partitions: retried after errors that may pass, and sent elsewhere when leaders move.

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

from aioprod._rights import Right
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
from aioprod.net.broker_errors import broker_error
from aioprod.net.session import Session
from aioprod.types import TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = ["LeaderRequests", "PendingPartition"]

_NAMED_MAX: Final = 3
"""How many partitions an error message names."""

_REFRESH_S: Final = 2.0
"""After so long without a response metadata is refreshed: a leader that hangs does not say that it has moved."""


@dataclass(slots=True, eq=False)
class PendingPartition:
    """A partition whose leader gets requests until `is_done`.

    `is_in_flight` while one is under way. After `failures` in a row, of which the last is `last_error`, the next one is
    sent at `retry_at` (monotonic seconds).
    """

    tp: TopicPartition
    is_in_flight: bool = False
    failures: int = 0
    retry_at: float = -math.inf
    last_error: AioprodError | None = None

    @property
    def is_done(self) -> bool:
        """Whether no further request is needed."""
        raise NotImplementedError


PartitionT = TypeVar("PartitionT", bound=PendingPartition)
ResponseT = TypeVar("ResponseT", bound=Response)


class _InFlight(NamedTuple, Generic[PartitionT, ResponseT]):
    """The request that one broker has not answered yet."""

    task: asyncio.Task[ResponseT]
    partitions: Sequence[PartitionT]


class LeaderRequests(Generic[PartitionT, ResponseT]):
    """Sends each leader one request at a time for all of its partitions; an async context manager.

    `partitions` is iterated in each round; it may change at any time, and `Session.notify` reports that to a call that
    waits. A partition that is done when its response comes is ignored. `build` makes the request for some of them;
    `purpose` completes the sentence "Topic 'x' could not be ...", and `operation` is the right that the request needs.
    A broker gets its next request only by the next call of `next`, so that no more than one response of it is held. The
    caller reports the result of each partition by `succeeded`, `retry_later` or `rejected`. With `patient` there is no
    time limit, and topics that do not exist are waited for.
    """

    def __init__(
        self,
        session: Session,
        partitions: Iterable[PartitionT],
        build: Callable[[Sequence[PartitionT]], Request[ResponseT]],
        *,
        purpose: str,
        operation: Operation,
        patient: bool = False,
    ) -> None:
        self._session = session
        self._partitions = partitions
        self._build = build
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

    async def close(self) -> None:
        """Cancel the requests in flight."""
        for node_id in list(self._in_flight):
            self._forget(node_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self) -> tuple[Sequence[PartitionT], ResponseT] | None:
        """The next response, with the partitions of its request; None when all partitions are done.

        A call that is cancelled loses no response. Raises RequestTimedOutError after `default.api.timeout.ms` without
        progress of any partition, UnknownTopicError or AuthorizationError when a topic was deleted, and what else
        `Client.request` raises.
        """
        while any(not one.is_done for one in self._partitions):
            if (answered := await self.round()) is not None:
                return answered
        return None

    async def round(self) -> tuple[Sequence[PartitionT], ResponseT] | None:
        """As `next`, but None when the session reports a change (`Session.change`) before a response comes."""
        # One time for all: a retry that is not due when requests are sent must still be ahead when the wait is
        # computed.
        now = self._session.clock()
        unfinished = [one for one in self._partitions if not one.is_done]
        self._follow_leaders()
        self._send(unfinished, now)
        node_id = next((node_id for node_id, request in self._in_flight.items() if request.task.done()), None)
        if node_id is None:
            await self._wait(unfinished, now)
            return None
        task, partitions = self._forget(node_id)
        try:
            return partitions, task.result()
        except BrokerConnectionError as error:
            self._refresh_metadata(partitions)
            for one in partitions:
                self.retry_later(one, error)
        return None

    # --- results

    def succeeded(self, one: PartitionT) -> None:
        """The partition has made progress: reset its failures."""
        one.failures = 0
        one.last_error = None
        self._waited_s = 0.0

    def retry_later(self, one: PartitionT, error: AioprodError) -> None:
        """Send another request for the partition after the backoff."""
        one.retry_at = self._session.clock() + self._session.backoff_s(one.failures)
        one.failures += 1
        one.last_error = error

    def rejected(self, one: PartitionT, code: ErrorCode | int) -> None:
        """The leader answered with an error code: raise its error unless a retry may help."""
        self.retry_later(one, BrokerError(f"its leader answered {ErrorCode.said(code)}.", code=code))
        is_waited_out = self._patient and code == ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(code, ErrorCode) or not (code.retriable or is_waited_out):
            what = f"Partition {one.tp.partition} of topic {one.tp.topic!r} could not be {self._purpose}"
            raise broker_error(what, code, [Right(self._operation, "topic", one.tp.topic)])
        if code.refreshes_metadata:
            self._refresh_metadata([one])

    def missing_in_response(self, one: PartitionT) -> None:
        """The response does not contain the partition."""
        self.retry_later(one, ProtocolError("its leader left it out of the response."))

    # --- requests

    def _send(self, unfinished: Sequence[PartitionT], now: float) -> None:
        self._session.track(_topics(unfinished))
        client = self._session.client
        cluster = client.metadata.cluster
        by_leader: dict[int, list[PartitionT]] = {}
        for one in unfinished:
            leader = cluster.leader_for(one.tp)
            if leader is not None and leader.id not in self._in_flight and not one.is_in_flight and one.retry_at <= now:
                by_leader.setdefault(leader.id, []).append(one)
        for node_id, partitions in by_leader.items():
            request = self._build(partitions)
            task = asyncio.get_running_loop().create_task(client.request(request, node_id=node_id))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            self._in_flight[node_id] = _InFlight(task, partitions)
            for one in partitions:
                one.is_in_flight = True

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

    def _follow_leaders(self) -> None:
        """Cancel a request, whose broker may be dead, when all of its partitions have other leaders now."""
        cluster = self._session.client.metadata.cluster
        for node_id, request in list(self._in_flight.items()):
            leaders = [cluster.leader_for(one.tp) for one in request.partitions if not one.is_done]
            if not request.task.done() and all(leader is not None and leader.id != node_id for leader in leaders):
                request.task.cancel()
                self._forget(node_id)

    async def _wait(self, unfinished: Sequence[PartitionT], now: float) -> None:
        for topic in _topics(unfinished):
            error = topic_error(self._session.client.metadata, topic, now, to_write=False)
            if error is not None and not (self._patient and isinstance(error, UnknownTopicError)):
                raise error
        left_s = math.inf if self._patient else self._session.timeout_s - self._waited_s
        if left_s <= 0.0:
            raise self._timeout_error(unfinished)
        due = min((one.retry_at for one in unfinished if one.retry_at > now), default=math.inf)
        tasks = [request.task for request in self._in_flight.values()]
        await self._session.change(min(left_s, due - now, _REFRESH_S), tasks)
        waited_s = self._session.clock() - now
        self._waited_s += waited_s
        if waited_s >= _REFRESH_S:
            self._refresh_metadata(unfinished)

    def _refresh_metadata(self, some: Iterable[PendingPartition]) -> None:
        for topic in _topics(some):
            self._session.client.metadata.request_update(self._session.clock(), topic)

    def _timeout_error(self, unfinished: Sequence[PartitionT]) -> AioprodError:
        cluster = self._session.client.metadata.cluster
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
