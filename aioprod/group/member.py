"""The consumer: one member of a consumer group, an asynchronous iterator over the records of its partitions."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from aioprod._words import counted
from aioprod.calls.session import Session
from aioprod.errors import SerializationError, UsageError
from aioprod.group.assignment import Callbacks
from aioprod.group.background import BackgroundTask
from aioprod.group.batches import Batches
from aioprod.group.config import MemberConfig
from aioprod.group.fetcher import Fetcher
from aioprod.group.foreign_calls import ForeignCallHints
from aioprod.group.member_log import MemberLog
from aioprod.group.meters import measured
from aioprod.group.parts import Parts, Subscription
from aioprod.group.poll_timer import PollTimer
from aioprod.group.state_calls import StateCalls
from aioprod.group.unfinished import log_left_behind
from aioprod.group.validation import (
    checked_commit,
    checked_subscription,
    created_assignors,
    member_config,
    place_of,
)
from aioprod.group.work.dead_letters import DeadLetters
from aioprod.group.work.plan import checked_plan
from aioprod.group.work.retry import Retry
from aioprod.group.work.work import Work
from aioprod.reader.arrow_rows import ARROW_ROWS, check_arrow
from aioprod.reader.fetching import answer_size_max
from aioprod.types import ConsumedRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from aioprod.options import AssignorName, AssignorOption, DeserializerOption, MemberOptions

__all__ = ["Member"]

ReturnT = TypeVar("ReturnT")


class Member(StateCalls, ForeignCallHints):
    """A consumer: joins a group and reads the partitions assigned to it; use it as `async with Member(...) as member`.

        async for record in member:
            ...
            await member.commit()

    `topics` are names, or a pattern (`re.compile("orders-.*")`): topics that match are read as they are created. The
    callbacks, functions or coroutine functions, get the partitions that are assigned, revoked or lost (without
    `on_lost`, lost ones go to `on_revoked`); they run between two records.

    The other arguments are fields of `MemberConfig` (Java's names in snake_case), and win over those of `config`, which
    may also be a dict with Java's names; but a `group_id` must be the one in `config`, if there is one. `assignors` are
    names or objects in order of preference, by default "cooperative-sticky" and "range"; the group takes one that all
    members have. `auto_offset_reset` says where to start when the group has committed nothing: "latest", the default,
    "earliest", "by_duration:PT1H" (with the records of the last hour), or "none", which raises an error.
    `isolation_level` and the deserializers are as for `Reader`.

    Offsets are committed by `commit()`, and with `enable_auto_commit` in the background. Connects to no broker before
    `start()`. Raises ConfigError and InvalidTopicError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        topics: str | Iterable[str] | re.Pattern[str],
        group_id: str | None = None,
        assignors: AssignorName | Sequence[AssignorOption] | None = None,
        auto_offset_reset: str | None = None,
        on_assigned: Callable[[Iterable[TopicPartition]], object] | None = None,
        on_revoked: Callable[[Iterable[TopicPartition]], object] | None = None,
        on_lost: Callable[[Iterable[TopicPartition]], object] | None = None,
        config: MemberConfig | Mapping[str, Any] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] | None = None,
        key_deserializer: DeserializerOption | None = None,
        value_deserializer: DeserializerOption | None = None,
        **options: Unpack[MemberOptions],
    ) -> None:
        """The class says what the arguments are."""
        named = {
            "assignors": assignors,
            "auto_offset_reset": auto_offset_reset,
            "isolation_level": isolation_level,
            "key_deserializer": key_deserializer,
            "value_deserializer": value_deserializer,
        }
        given = {**options, **{name: value for name, value in named.items() if value is not None}}
        self.config, self.group_id = member_config(config, bootstrap_servers, given, group_id)
        pattern, names = checked_subscription(topics)
        self._subscription = Subscription(self.group_id, names, pattern, created_assignors(self.config))
        self._session = Session(self.config, "member", metadata_max_idle_s=math.inf)
        self._reading = Session(self.config, "member", frame_size_max=answer_size_max(self.config))
        self._fetcher = Fetcher(self._reading, self.config)
        self._available = self._fetcher.available
        self._metrics = measured(self._fetcher)
        self._background = BackgroundTask(self._fetcher)
        self._gate = self._background.gate
        self._callbacks = Callbacks(on_assigned, on_revoked, on_lost, self._background.raise_later)
        self._log = MemberLog(self.group_id, self.config.client_id)
        self._poll_timer = PollTimer(
            self._log,
            self._gate,
            self._fetcher.unfinished,
            self.config.max_poll_interval_ms / 1000,
            self._session,
        )
        self._parts: Parts | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed: asyncio.Future[None] | None = None
        """Done when `close` is; None before it is called."""

    def __repr__(self) -> str:
        owned = counted(len(self.assignment), "partition")
        return self._session.described(f"Member of group {self.group_id!r}", f", {owned}")

    # --- life

    async def start(self) -> None:
        """Connect, and start to join the group; raises MetadataTimeoutError and what else `Reader.start` raises.

        It does not wait for the assignment: `on_assigned` is called with it, also when it is empty.
        """
        await self._session.start()
        try:
            await self._reading.start()
        except BaseException:
            await self._disconnect()
            raise
        if self._closed is not None:
            await self._disconnect()
            raise UsageError("This member was closed while it was started.")
        self._parts = Parts(
            self._log,
            self._subscription,
            self.config,
            self._session,
            self._reading,
            self._fetcher,
            self._callbacks,
            self._background,
            self._poll_timer,
            self._metrics,
        )
        self._task = asyncio.create_task(self._parts.run(), name=f"aioprod member of {self.group_id}")

    async def close(self, timeout: float | None = None) -> None:
        """Return no more records, wait for the one in hand, revoke all partitions (`on_revoked`), and leave the group.

        A record or list that another task works on gets up to half of `timeout` seconds, by default of
        `close.timeout.ms`, until that task polls again, which ends its loop. When the time is over the coordinator
        drops the member as soon as its session times out. A static member does not leave. A second call waits for the
        first one. Raises what a callback raised.
        """
        self._session.check_loop()
        work = None if self._parts is None else self._parts.assignment.work
        if self._gate.is_in_callback or (work is not None and work.is_in_handler):
            caller = "a callback" if self._gate.is_in_callback else "a handler"
            raise UsageError(f"close() was called by {caller} of this member.", hint="Call it from another task.")
        timeout_s = self.config.close_timeout_ms / 1000 if timeout is None else timeout
        if self._closed is not None:
            self._gate.polls_no_more()
            await asyncio.wait([self._closed], timeout=timeout_s)
            return
        self._closed = asyncio.get_running_loop().create_future()
        try:
            await self._leave(timeout_s)
        finally:
            self._closed.set_result(None)
        if self._background.errors:
            raise self._background.errors.popleft()

    async def _leave(self, timeout_s: float) -> None:
        deadline = self._session.clock() + timeout_s
        self._background.end_polls()
        task, parts = self._task, self._parts
        try:
            if task is None or parts is None:
                return
            if parts.assignment.work is not None:
                parts.assignment.work.limit_drain(timeout_s)
            await self._gate.until_finished(timeout_s / 2)
            self._task = None
            self._background.close()
            # During a rebalance the member leaves after its end, so that its last commit is accepted; the second call
            # leaves at once.
            for share in (2, 1):
                parts.membership.leave(self._session.clock())
                parts.runner.wake()
                await asyncio.wait([task], timeout=max(0.0, deadline - self._session.clock()) / share)
        finally:
            self._task = None
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
                await self._disconnect()

    async def _disconnect(self) -> None:
        await _disconnected(self._fetcher, self._reading, self._session)

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None:
            self._session.dropped(self, partial(_ended, task, self._fetcher, self._reading, self._session))

    # --- reading

    async def reload_credentials(self) -> None:
        """Read certificates and passwords again, fetch another token, and have new connections take over.

        One broker after the other, while the member keeps reading. Raises ConfigError, AuthenticationError or
        BrokerConnectionError: why there are no new credentials, or why a broker does not accept them; the old
        connections stay in use then. UsageError before `start()` and after `close()`.
        """
        self._running()
        both = (session.reload_credentials() for session in (self._session, self._reading))
        for outcome in await asyncio.gather(*both, return_exceptions=True):
            if outcome is not None:
                raise outcome

    def __aiter__(self) -> Self:
        self._begin_loop()
        return self

    def _begin_loop(self) -> None:
        left = self._fetcher.unfinished.loop_begins(self.positions)
        if left and self.config.enable_auto_commit:
            log_left_behind(self._log, left)

    async def __anext__(self) -> ConsumedRecord:
        """The next record of any partition; waits until there is one. A call that is cancelled loses nothing.

        Raises the error that has ended the member (BrokerError, AuthorizationError, ...), what a callback raised,
        errors of records (CorruptRecordError, SerializationError), and StopAsyncIteration when the member is closed.
        """
        record = self._available.take()
        if record is not None:
            return record
        record = await self._poll(self._fetcher.next)
        # Most records are decoded with the one before. What `_poll` checks besides is noticed when the fetcher's slice
        # ends, after milliseconds.
        if self._gate.is_quiet and not self._background.errors:
            self._fetcher.offer(self._poll_timer.until)
        return record

    def batches(self, max_records: int = 500, max_wait_ms: float = 0.0) -> AsyncIterator[list[ConsumedRecord]]:
        """The records in lists: an asynchronous iterator over `list[ConsumedRecord]`.

            async for batch in member.batches(max_records=1000, max_wait_ms=200):
                ...

        A list has what was fetched, up to `max_records`. With `max_wait_ms` it waits for more, for that time after its
        first record. It is never empty, and has the records of each partition in the order of their offsets. A list
        counts as one poll: positions move to its end when it is returned, and partitions are assigned and revoked
        between two lists only. A call that is cancelled loses nothing: its records come with the next one, or one by
        one. Raises ConfigError at once, and while iterating what `__anext__` raises.
        """
        return Batches(self._begin_loop, self._next_list, max_records, max_wait_ms)

    def _next_list(self, max_records: int, max_wait_s: float) -> Coroutine[Any, Any, list[ConsumedRecord]]:
        return self._poll(lambda: self._fetcher.next_list(max_records, max_wait_s))

    def arrow_batches(self, max_records: int = ARROW_ROWS, max_wait_ms: float = 0.0) -> AsyncIterator[pa.RecordBatch]:
        """As `batches`, but record batches of pyarrow, with the columns of `Reader.read_arrow`.

            async for batch in member.arrow_batches(max_wait_ms=200):
                ...

        There is no Python object for each record. A batch comes also as soon as it has 4 MiB of keys, values and
        headers. Raises UsageError at once for a member with deserializers, or without pyarrow.
        """
        check_arrow("max_records", max_records, is_plain=self._fetcher.is_plain)
        return Batches(self._begin_loop, self._next_arrow, max_records, max_wait_ms)

    def _next_arrow(self, max_records: int, max_wait_s: float) -> Coroutine[Any, Any, pa.RecordBatch]:
        return self._poll(lambda: self._fetcher.next_arrow(max_records, max_wait_s))

    async def _poll(self, fetch: Callable[[], Awaitable[ReturnT | None]], work: Work | None = None) -> ReturnT:
        """Return what the fetcher has, and let rebalances happen before that; `work` is the one that polls."""
        gate = self._gate
        self._check_can_poll(work)
        gate.begin_poll()
        found: ReturnT | None = None
        try:
            self._note_poll()
            while found is None:
                if gate.is_closed:
                    await gate.wait_until_open()
                if self._background.errors or self._background.is_closing:
                    self._background.raise_error()
                found = await fetch()
            return found
        except SerializationError as error:
            self._fetcher.unfinished.failed(error)
            raise
        finally:
            # The time of max.poll.interval.ms starts when the poll ends, however long it took.
            self._note_poll()
            gate.end_poll(has_record=found is not None)

    def _check_can_poll(self, work: Work | None) -> None:
        if self._parts is None:
            raise UsageError("This member is not started: use `async with`, or await start() first.")
        self._session.check_loop()
        if self._gate.is_in_callback:
            raise UsageError("A callback of this member can't wait for its records.")
        if self._gate.is_polling:
            raise UsageError("Another task waits for a record of this member: one at a time.")
        if self._parts.assignment.work is not work:
            raise UsageError("work() runs, and gives the records to its handler: end it before you iterate the member.")

    def _note_poll(self) -> None:
        now = self._session.clock()
        if self._poll_timer.note(now) and self._parts is not None:
            self._parts.membership.polled(now)
            self._parts.runner.wake()

    # --- committing

    async def commit(
        self,
        offsets: ConsumedRecord | Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit what was returned, this record and those before it, or offsets: those of the next records to read.

        In a callback, and so also while the member is closed, it leaves out what the application has not finished: the
        record or list that it has polled last. During a rebalance it waits for the end of that. Raises BrokerError when
        the member does not own the partitions any more: their new owner reads again what was read since the last
        commit; also when their topic was deleted (UNKNOWN_TOPIC_ID). Further RequestTimedOutError after `timeout`
        seconds, by default `default.api.timeout.ms`, AuthorizationError, ConfigError and UsageError.
        """
        commits = self._running().commits
        timeout_s = self._session.timeout_s if timeout is None else timeout
        await commits.commit(None if offsets is None else checked_commit(offsets), timeout_s)

    def skip(self, what: ConsumedRecord | SerializationError) -> None:
        """Continue behind this record, or behind the one that could not be deserialized: it counts as finished.

        Raises UsageError for a record of a partition that the member does not own.
        """
        tp, offset = place_of(what)
        (tp,) = self._to_move(tp)
        self._running().assignment.skip(tp, offset + 1)

    # --- working

    async def work(
        self,
        handler: Callable[[ConsumedRecord], Awaitable[Any]],
        *,
        concurrency: int,
        order: Literal["key", "partition"] | None = "key",
        retry: Retry | None = None,
        dead_letters: DeadLetters | None = None,
        drain_s: float = 10.0,
        buffer_bytes: int = 67_108_864,
    ) -> None:
        """Handle records in parallel until the member is closed, and commit those that are finished.

            await member.work(cook, concurrency=200, retry=Retry(times=5, backoff_s=(1.0, 60.0)))

        `handler` is an async function of one record. Up to `concurrency` of them run at once, but of the records with
        one key one after the other (`order="key"`), of each partition (`"partition"`), or in no order (None). One that
        raises an error gets its record again as `retry` says; only records of its key wait for that. After the last
        try the record goes to the `dead_letters`; without these the error is raised here, when others have finished.
        `drain_s` is how long handlers may continue when their partition is revoked or the member is closed. Records in
        work and in wait take up to `buffer_bytes`: a partition is not fetched while it holds more than is free.

        It alone commits, every `auto.commit.interval.ms`, when partitions are revoked and at the end: the first offset
        that is not finished, and in the metadata which ones behind it are finished. Raises ConfigError and UsageError
        at once, and what `__anext__` raises. At its end unfinished records are read again.
        """
        parts = self._running()
        topics, pattern = parts.runner.topics, self._subscription.pattern
        plan = checked_plan(
            handler, concurrency, order, retry, dead_letters, drain_s, buffer_bytes, topics=topics, pattern=pattern
        )
        if parts.assignment.work is None:
            self._check_can_poll(None)
        work = parts.new_work(plan)
        with parts.assignment.worked_on_by(work):
            await work.run(partial(self._poll, work=work))

    def subscribe(self, topics: str | Iterable[str] | re.Pattern[str]) -> None:
        """Replace the subscription; raises ConfigError and InvalidTopicError.

        With a pattern the topics before stay subscribed until it is known which ones match.
        """
        parts = self._running()
        pattern, names = checked_subscription(topics)
        if parts.assignment.work is not None:
            parts.assignment.work.check_topics(names, pattern)
        parts.pattern_subscription.set_pattern(pattern)
        if pattern is None:
            parts.runner.subscribe(names)

    def _running(self) -> Parts:
        if self._parts is None:
            raise UsageError("This member is not started: use `async with`, or await start() first.")
        _ = self._session.client
        return self._parts


async def _disconnected(fetcher: Fetcher, *sessions: Session) -> None:
    await fetcher.close()
    for session in sessions:
        await session.close()


async def _ended(task: asyncio.Task[None], fetcher: Fetcher, *sessions: Session) -> None:
    """End a member that was not closed: the coordinator drops it when its session times out."""
    task.cancel()
    await asyncio.wait([task])
    await _disconnected(fetcher, *sessions)
