"""The consumer: one member of a consumer group, an asynchronous iterator over the records of its partitions."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from aioprod._short_reprs import shown_error
from aioprod._words import counted
from aioprod.calls.coordinator import Coordinator
from aioprod.calls.session import Session
from aioprod.errors import AioprodError, BrokerError, ErrorCode, RequestTimedOutError, UsageError
from aioprod.group.assignment import AssignmentState, Callback, Callbacks
from aioprod.group.background import BackgroundTask
from aioprod.group.batches import Batches
from aioprod.group.classic.membership import ClassicMembership
from aioprod.group.config import MemberConfig
from aioprod.group.explain import Explainer, WaitCause
from aioprod.group.fetcher import Fetcher
from aioprod.group.foreign_calls import ForeignCallHints
from aioprod.group.kip848.membership import ConsumerMembership
from aioprod.group.membership import Membership, NotJoined
from aioprod.group.meters import measured
from aioprod.group.partition_calls import PartitionCalls
from aioprod.group.pattern_subscription import PatternSubscription
from aioprod.group.poll_gate import PollGate
from aioprod.group.rebalance_log import RebalanceLog
from aioprod.group.runner import Runner
from aioprod.group.stall_monitor import StallMonitor
from aioprod.group.validation import (
    DEFAULT_ASSIGNORS,
    Subscribed,
    checked_assignors,
    checked_group,
    checked_offsets,
    checked_subscription,
)
from aioprod.reader.arrow_rows import ARROW_ROWS, check_arrow
from aioprod.reader.fetching import answer_size_max
from aioprod.types import ConsumedRecord, GroupMetadata, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    import pyarrow as pa

    from aioprod.options import DeserializerOption, MemberOptions

__all__ = ["Member"]

ReturnT = TypeVar("ReturnT")

_POLL_NOTED_S: Final = 0.1
"""The poll timer is restarted once in that time, not with each record: that would wake the background task."""


class Member(PartitionCalls, ForeignCallHints):
    """A consumer: joins a group and reads the partitions assigned to it; use it as `async with Member(...) as member`.

        async for record in member:
            ...
            await member.commit()

    `topics` are names, or a pattern (`re.compile("orders-.*")`): topics that match are read as they are created.
    `assignors` are names or objects in order of preference; the group takes one that all members have. The callbacks,
    functions or coroutine functions, get the partitions that are assigned, revoked or lost (without `on_lost`, lost
    ones go to `on_revoked`); they run between two records. `auto_offset_reset` says where to start when the group has
    committed nothing: "earliest", "latest", or "none", which raises an error. `isolation` and the deserializers are as
    for `Reader`, `options` are fields of `MemberConfig` (Java's names in snake_case) and win over those of `config`.
    Offsets are committed by `commit()` only. Connects to no broker before `start()`. Raises ConfigError and
    InvalidTopicError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        group_id: str,
        topics: Subscribed,
        assignors: Sequence[Any] = DEFAULT_ASSIGNORS,
        auto_offset_reset: str = "latest",
        on_assigned: Callback = None,
        on_revoked: Callback = None,
        on_lost: Callback = None,
        config: MemberConfig | Mapping[str, Any] | None = None,
        isolation: str = "read_uncommitted",
        key_deserializer: DeserializerOption | None = None,
        value_deserializer: DeserializerOption | None = None,
        **options: Unpack[MemberOptions],
    ) -> None:
        self.config = MemberConfig.given(config, bootstrap_servers, options)
        self.group_id = checked_group(group_id)
        self._pattern, self._topics = checked_subscription(topics)
        self._assignors = checked_assignors(assignors, self.config)
        self._session = Session(self.config, "member", metadata_max_idle_s=math.inf)
        self._reading = Session(self.config, "member", frame_size_max=answer_size_max(self.config))
        self._auto_offset_reset = auto_offset_reset
        self._isolation = isolation
        self._fetcher = Fetcher(
            self._reading,
            self.config,
            isolation=isolation,
            auto_offset_reset=auto_offset_reset,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )
        self._available = self._fetcher.available
        self._metrics = measured(self._fetcher)
        self._background = BackgroundTask(self._fetcher)
        self._gate = self._background.gate
        self._callbacks = Callbacks(on_assigned, on_revoked, on_lost, self._background.raise_later)
        self._polled_at = -math.inf
        self._membership: Membership | None = None
        self._assignment: AssignmentState | None = None
        self._runner: Runner | None = None
        self._explainer: Explainer | None = None
        self._pattern_subscription: PatternSubscription | None = None
        self._task: asyncio.Task[None] | None = None

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
        coordinator = Coordinator(self._session.client, "group", self.group_id)
        self._membership = self._new_membership()
        self._assignment = AssignmentState(
            self._fetcher,
            coordinator,
            self._session,
            self._callbacks,
            self._auto_offset_reset,
            self._metrics,
            RebalanceLog(self.group_id, self._session.clock),
        )
        self._explainer = Explainer(
            self._membership, coordinator, self._assignment, self._fetcher, self._session, self._reading
        )
        stall_monitor = StallMonitor(self.group_id, _causes_of(self._explainer, self._gate), self._session.clock)
        self._runner = Runner(
            self._membership, coordinator, self._session, self._gate, self._assignment, stall_monitor, self._topics
        )
        self._pattern_subscription = PatternSubscription(
            self._session, self.config, self._pattern, self._runner.subscribe
        )
        self._task = asyncio.create_task(
            self._background.run(self._runner, self._pattern_subscription), name=f"aioprod member of {self.group_id}"
        )

    def _new_membership(self) -> Membership:
        session, config, topics = self._session, self.config, self._topics
        if config.group_protocol == "classic":
            return ClassicMembership(self.group_id, topics, self._assignors, config, session.backoff_s, session.clock())
        metadata = session.client.metadata
        return ConsumerMembership(
            self.group_id,
            topics,
            str(uuid.uuid4()),
            config,
            lambda name: metadata.cluster.topic_id(name),
            session.backoff_s,
            session.clock(),
        )

    async def close(self, timeout: float = 30.0) -> None:
        """Revoke all partitions (`on_revoked`), leave the group, and end the iterator; a static member does not leave.

        Takes up to `timeout` seconds, after which the coordinator drops the member when its session times out. A second
        call does nothing. Raises what a callback raised.
        """
        self._session.check_loop()
        if self._gate.is_in_callback:
            raise UsageError("close() was called by a callback of this member.", hint="Call it from another task.")
        self._background.close()
        task, self._task = self._task, None
        if task is not None and self._membership is not None and self._runner is not None:
            try:
                # During a rebalance the member leaves after its end, so that its last commit is accepted; the second
                # call leaves at once.
                for _ in range(2):
                    self._membership.leave(self._session.clock())
                    self._runner.wake()
                    await asyncio.wait([task], timeout=timeout / 2)
            finally:
                task.cancel()
                await asyncio.wait([task])
                await self._disconnect()
        if self._background.errors:
            raise self._background.errors.popleft()

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
        return self

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
            self._fetcher.offer(self._polled_at + _POLL_NOTED_S)
        return record

    def batches(self, max_records: int = 500, max_wait_ms: float = 500.0) -> Batches[list[ConsumedRecord]]:
        """The records in lists: an asynchronous iterator over `list[ConsumedRecord]`.

            async for batch in member.batches(max_records=1000, max_wait_ms=200):
                ...

        A list comes as soon as it has `max_records`, or `max_wait_ms` after its first record; with 0 it has what
        was fetched. It is never empty, and has the records of each partition in the order of their offsets. A list
        counts as one poll: positions move to its end when it is returned, and partitions are assigned and revoked
        between two lists only. A call that is cancelled loses nothing: its records come with the
        next one, or one by one. Raises ConfigError at once, and while iterating what `__anext__` raises.
        """
        return Batches(self._next_list, max_records, max_wait_ms)

    def _next_list(self, max_records: int, max_wait_s: float) -> Coroutine[Any, Any, list[ConsumedRecord]]:
        return self._poll(lambda: self._fetcher.next_list(max_records, max_wait_s))

    def arrow_batches(self, max_records: int = ARROW_ROWS, max_wait_ms: float = 500.0) -> Batches[pa.RecordBatch]:
        """As `batches`, but record batches of pyarrow, with the columns of `Reader.read_arrow`.

            async for batch in member.arrow_batches(max_wait_ms=200):
                ...

        There is no Python object for each record. A batch comes also as soon as it has 4 MiB of keys, values and
        headers. Raises UsageError at once for a member with deserializers, or without pyarrow.
        """
        check_arrow("max_records", max_records, is_plain=self._fetcher.is_plain)
        return Batches(self._next_arrow, max_records, max_wait_ms)

    def _next_arrow(self, max_records: int, max_wait_s: float) -> Coroutine[Any, Any, pa.RecordBatch]:
        return self._poll(lambda: self._fetcher.next_arrow(max_records, max_wait_s))

    async def _poll(self, fetch: Callable[[], Awaitable[ReturnT | None]]) -> ReturnT:
        """Return what the fetcher has, and let rebalances happen before that."""
        gate = self._gate
        self._check_can_poll()
        gate.begin_poll()
        found: ReturnT | None = None
        try:
            self._note_poll()
            while found is None:
                if gate.is_closed:
                    await gate.wait_until_open()
                if self._background.errors or self._background.is_closing:
                    self._end()
                found = await fetch()
            # The time of max.poll.interval.ms starts when the record is returned, however long the poll took.
            self._note_poll()
            return found
        finally:
            gate.end_poll(has_record=found is not None)

    def _check_can_poll(self) -> None:
        if self._runner is None:
            raise UsageError("This member is not started: use `async with`, or await start() first.")
        self._session.check_loop()
        if self._gate.is_in_callback:
            raise UsageError("A callback of this member can't wait for its records.")
        if self._gate.is_polling:
            raise UsageError("Another task waits for a record of this member: one at a time.")

    def _note_poll(self) -> None:
        now = self._session.clock()
        if now - self._polled_at >= _POLL_NOTED_S and self._membership is not None and self._runner is not None:
            self._polled_at = now
            self._membership.polled(now)
            self._runner.wake()

    def _end(self) -> None:
        if self._background.errors:
            raise self._background.errors.popleft()
        if isinstance(self._background.failure, AioprodError):
            raise self._background.failure.again() from self._background.failure.__cause__
        if self._background.failure is not None:
            reason = shown_error(self._background.failure)
            raise AioprodError(f"The member has failed: {reason}.") from self._background.failure
        raise StopAsyncIteration

    # --- state

    def explain(self) -> str:
        """Why no records come, in sentences: its coordinator can't be reached, a topic does not exist, and so on.

        The same is logged when there was no progress for some seconds. Raises UsageError outside of the event loop in
        which the member was started.
        """
        if self._explainer is None or self._runner is None:
            return f"The member of group {self.group_id!r} is not started."
        if self._background.failure is not None:
            return f"The member of group {self.group_id!r} has failed: {self._background.failure}"
        if self._task is None:
            return f"The member of group {self.group_id!r} is closed."
        return self._explainer.explain(self._runner.topics, is_polling=self._gate.is_polling)

    @property
    def group_metadata(self) -> GroupMetadata:
        """The current group id, generation and member id, for `producer.send_offsets_to_transaction`.

        Take it after the records that are processed, and before the next poll: when the partitions are assigned to
        another member after that, the coordinator fences this one (KIP-447). The producer raises UsageError for a
        member that has not joined.
        """
        known = GroupMetadata(self.group_id) if self._membership is None else self._membership.metadata
        return known if known.generation_id >= 0 else NotJoined(*known)

    # --- committing

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit the positions that are not committed yet, or `offsets`: those of the next records to read.

        During a rebalance it waits for the end of that. Raises BrokerError when the member does not own the partitions
        any more: their new owner reads again what was read since the last commit. Further RequestTimedOutError after
        `default.api.timeout.ms`, AuthorizationError, ConfigError and UsageError.
        """
        assignment, membership, runner = self._running()
        to_commit = assignment.uncommitted if offsets is None else checked_offsets(offsets)
        owned = self.assignment.intersection(to_commit)
        deadline = self._session.clock() + self._session.timeout_s
        while to_commit:
            while membership.is_rebalancing and membership.metadata.generation_id >= 0:
                await self._wait_for_rebalance(runner, deadline)
            metadata = membership.metadata
            if metadata.generation_id < 0 or not owned <= self.assignment:
                raise self._not_owner(owned - self.assignment)
            try:
                await assignment.commit(metadata, to_commit, deadline)
                return
            except BrokerError as error:
                is_outdated = error.code == ErrorCode.STALE_MEMBER_EPOCH and metadata != membership.metadata
                is_retriable = error.code == ErrorCode.REBALANCE_IN_PROGRESS or is_outdated
                if not is_retriable or self._session.clock() >= deadline:
                    raise
            await asyncio.sleep(self._session.backoff_s(0))

    async def _wait_for_rebalance(self, runner: Runner, deadline: float) -> None:
        left_s = deadline - self._session.clock()
        if left_s <= 0.0:
            raise RequestTimedOutError(f"The rebalance of group {self.group_id!r} did not end in time to commit.")
        if self._background.failure is not None:
            self._end()
        await runner.wait_for_progress(left_s)

    def _not_owner(self, revoked: frozenset[TopicPartition]) -> BrokerError:
        some = f", which does not own {min(revoked)} any more" if revoked else ""
        return BrokerError(
            f"Nothing was committed: this consumer is not a member of group {self.group_id!r} now{some}.",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
            hint="The new owner of the partitions reads again what was read since the last commit: undo what was done "
            "since then if it counts twice, and continue to read.",
        )

    def subscribe(self, topics: Subscribed) -> None:
        """Replace the subscription; raises ConfigError and InvalidTopicError.

        With a pattern the topics before stay subscribed until it is known which ones match.
        """
        _, _, runner = self._running()
        pattern, names = checked_subscription(topics)
        assert self._pattern_subscription is not None
        self._pattern_subscription.set_pattern(pattern)
        if pattern is None:
            runner.subscribe(names)

    def _running(self) -> tuple[AssignmentState, Membership, Runner]:
        if self._assignment is None or self._membership is None or self._runner is None:
            raise UsageError("This member is not started: use `async with`, or await start() first.")
        _ = self._session.client
        return self._assignment, self._membership, self._runner


async def _disconnected(fetcher: Fetcher, *sessions: Session) -> None:
    await fetcher.close()
    for session in sessions:
        await session.close()


async def _ended(task: asyncio.Task[None], fetcher: Fetcher, *sessions: Session) -> None:
    """End a member that was not closed: the coordinator drops it when its session times out."""
    task.cancel()
    await asyncio.wait([task])
    await _disconnected(fetcher, *sessions)


def _causes_of(explainer: Explainer, gate: PollGate) -> Callable[[frozenset[str]], list[WaitCause]]:
    """The causes for the stall monitor; without a reference to the member, see `BackgroundTask`."""
    return lambda topics: explainer.causes(topics, is_polling=gate.is_polling)
