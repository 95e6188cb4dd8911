"""Asking the leaders of partitions: again where that may help, elsewhere when they move, with a bound."""

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

__all__ = ["LeaderRequests", "Wanted"]

_NAMED_MAX: Final = 3
"""How many partitions an error message names."""

_DOUBT_S: Final = 2.0
"""When all are silent for so long, the cluster is asked whether they still lead: a broker that hangs tells nobody."""


@dataclass(slots=True, eq=False)
class Wanted:
    """A partition whose leader is to be asked until `is_done`.

    `is_asked` while a request is on its way; not before `retry_at` (monotonic seconds) after `failures` in a row, the
    last of which is `trouble`.
    """

    tp: TopicPartition
    is_asked: bool = False
    failures: int = 0
    retry_at: float = -math.inf
    trouble: AioprodError | None = None

    @property
    def is_done(self) -> bool:
        """Whether nothing more is wanted."""
        raise NotImplementedError


WantedT = TypeVar("WantedT", bound=Wanted)
ResponseT = TypeVar("ResponseT", bound=Response)


class _Ask(NamedTuple, Generic[WantedT, ResponseT]):
    """One request on its way to one broker."""

    task: asyncio.Task[ResponseT]
    wanted: Sequence[WantedT]


class LeaderRequests(Generic[WantedT, ResponseT]):
    """Asks each leader for all of its partitions that are wanted, one request at a time; an async context manager.

    `wanted` is iterated anew each time; it may change between the calls, and while one waits: tell it by
    `Session.notify`. What is done when its
    answer comes is of no interest any more. `build` makes the request for some of them; `purpose` completes the
    sentence "Topic 'x' could not be ...", and `operation` is the right that it takes. A broker is asked again only by
    the next call of `next`, so there is never more than one answer of it. Whoever takes an answer tells for each
    partition what came of it: `advanced`, `again`, `refused`. One that is `patient` goes on for as long as it takes,
    also where a topic does not exist.
    """

    def __init__(
        self,
        session: Session,
        wanted: Iterable[WantedT],
        build: Callable[[Sequence[WantedT]], Request[ResponseT]],
        *,
        purpose: str,
        operation: Operation,
        patient: bool = False,
    ) -> None:
        self._session = session
        self._wanted = wanted
        self._build = build
        self._purpose = purpose
        self._operation = operation
        self._patient = patient
        self._asks: dict[int, _Ask[WantedT, ResponseT]] = {}
        self._tasks: set[asyncio.Task[ResponseT]] = set()
        self._waited_s = 0.0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give up the requests on their way: what they ask for may be asked for by others."""
        for node_id in list(self._asks):
            self._forget(node_id)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self) -> tuple[Sequence[WantedT], ResponseT] | None:
        """The next answer, with the partitions that were asked for; None when nothing is wanted any more.

        A call that is cancelled loses no answer. Raises RequestTimedOutError when `default.api.timeout.ms` was spent
        waiting without any partition getting on, UnknownTopicError or AuthorizationError when a topic is gone, and
        what else `Client.request` raises.
        """
        while any(not one.is_done for one in self._wanted):
            if (answered := await self.round()) is not None:
                return answered
        return None

    async def round(self) -> tuple[Sequence[WantedT], ResponseT] | None:
        """As `next`, but None whenever there may be something new to look at (`Session.change`), and no answer yet."""
        # One time for all: what is not due when requests are made must still be ahead when the wait is measured.
        now = self._session.clock()
        unfinished = [one for one in self._wanted if not one.is_done]
        self._follow_leaders()
        self._ask(unfinished, now)
        node_id = next((node_id for node_id, ask in self._asks.items() if ask.task.done()), None)
        if node_id is None:
            await self._wait(unfinished, now)
            return None
        task, wanted = self._forget(node_id)
        try:
            return wanted, task.result()
        except BrokerConnectionError as error:
            self._describe_anew(wanted)
            for one in wanted:
                self.again(one, error)
        return None

    # --- what came of it

    def advanced(self, one: WantedT) -> None:
        """The partition got on: what was before is forgiven."""
        one.failures = 0
        one.trouble = None
        self._waited_s = 0.0

    def again(self, one: WantedT, trouble: AioprodError) -> None:
        """The answer was of no use: ask again after the backoff."""
        one.retry_at = self._session.clock() + self._session.backoff_s(one.failures)
        one.failures += 1
        one.trouble = trouble

    def refused(self, one: WantedT, code: ErrorCode | int) -> None:
        """The leader answered with an error: raise what it means unless it may pass; to ask again is no harm."""
        self.again(one, BrokerError(f"its leader answered {ErrorCode.said(code)}.", code=code))
        may_pass = self._patient and code == ErrorCode.UNKNOWN_SERVER_ERROR
        if not isinstance(code, ErrorCode) or not (code.retriable or may_pass):
            what = f"Partition {one.tp.partition} of topic {one.tp.topic!r} could not be {self._purpose}"
            raise broker_error(what, code, [Right(self._operation, "topic", one.tp.topic)])
        if code.refreshes_metadata:
            self._describe_anew([one])

    def left_out(self, one: WantedT) -> None:
        """The answer says nothing of the partition."""
        self.again(one, ProtocolError("its leader left it out of the answer."))

    # --- asking

    def _ask(self, unfinished: Sequence[WantedT], now: float) -> None:
        self._session.track(_topics(unfinished))
        client = self._session.client
        cluster = client.metadata.cluster
        by_leader: dict[int, list[WantedT]] = {}
        for one in unfinished:
            leader = cluster.leader_for(one.tp)
            if leader is not None and leader.id not in self._asks and not one.is_asked and one.retry_at <= now:
                by_leader.setdefault(leader.id, []).append(one)
        for node_id, wanted in by_leader.items():
            request = self._build(wanted)
            task = asyncio.get_running_loop().create_task(client.request(request, node_id=node_id))
            self._tasks.add(task)
            task.add_done_callback(self._ended)
            self._asks[node_id] = _Ask(task, wanted)
            for one in wanted:
                one.is_asked = True

    def _ended(self, task: asyncio.Task[ResponseT]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            # Looked at, since nobody may be left who wants to know.
            task.exception()

    def _forget(self, node_id: int) -> _Ask[WantedT, ResponseT]:
        ask = self._asks.pop(node_id)
        for one in ask.wanted:
            one.is_asked = False
        return ask

    def _follow_leaders(self) -> None:
        """Don't wait for a broker that may be dead when all that it was asked for is led by others now."""
        cluster = self._session.client.metadata.cluster
        for node_id, ask in list(self._asks.items()):
            leaders = [cluster.leader_for(one.tp) for one in ask.wanted if not one.is_done]
            if not ask.task.done() and all(leader is not None and leader.id != node_id for leader in leaders):
                ask.task.cancel()
                self._forget(node_id)

    async def _wait(self, unfinished: Sequence[WantedT], now: float) -> None:
        for topic in _topics(unfinished):
            error = topic_error(self._session.client.metadata, topic, now, to_write=False)
            if error is not None and not (self._patient and isinstance(error, UnknownTopicError)):
                raise error
        left_s = math.inf if self._patient else self._session.timeout_s - self._waited_s
        if left_s <= 0.0:
            raise self._gave_up(unfinished)
        due = min((one.retry_at for one in unfinished if one.retry_at > now), default=math.inf)
        asked = [ask.task for ask in self._asks.values()]
        await self._session.change(min(left_s, due - now, _DOUBT_S), asked)
        waited_s = self._session.clock() - now
        self._waited_s += waited_s
        if waited_s >= _DOUBT_S:
            self._describe_anew(unfinished)

    def _describe_anew(self, some: Iterable[Wanted]) -> None:
        for topic in _topics(some):
            self._session.client.metadata.request_update(self._session.clock(), topic)

    def _gave_up(self, unfinished: Sequence[WantedT]) -> AioprodError:
        cluster = self._session.client.metadata.cluster
        topics = sorted(_topics(unfinished))
        reasons = []
        for one in unfinished[:_NAMED_MAX]:
            named = f"{one.tp.topic}-{one.tp.partition}"
            if cluster.leader_for(one.tp) is None:
                reasons.append(f"{named} has no leader")
            elif one.trouble is not None:
                reasons.append(f"{named}: {one.trouble.message.rstrip('.')}")
            else:
                reasons.append(f"{named}: its leader has not answered")
        if len(unfinished) > _NAMED_MAX:
            reasons.append(f"and {len(unfinished) - _NAMED_MAX} partitions more")
        what = f"Topic {topics[0]!r}" if len(topics) == 1 else f"Topics {', '.join(map(repr, topics[:_NAMED_MAX]))}"
        error = RequestTimedOutError(
            f"{what} could not be {self._purpose} within {self._session.timeout_s:g} s (default.api.timeout.ms): "
            f"{'; '.join(reasons)}."
        )
        error.__cause__ = next((one.trouble for one in unfinished if one.trouble is not None), None)
        return error


def _topics(some: Iterable[Wanted]) -> set[str]:
    return {one.tp.topic for one in some}
