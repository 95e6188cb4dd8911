"""The facade: one member of a consumer group, an asynchronous iterator over the records of its partitions."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Self, TypeVar

from aioprod.errors import AioprodError, BrokerError, ErrorCode, RequestTimedOutError, UsageError
from aioprod.group.assignment import Callback, Callbacks, Holding
from aioprod.group.batches import Batches
from aioprod.group.classic.membership import ClassicMembership
from aioprod.group.explain import Explainer, Trouble
from aioprod.group.fetcher import Fetcher
from aioprod.group.following import Following
from aioprod.group.gate import Gate
from aioprod.group.kip848.membership import ConsumerMembership
from aioprod.group.lacking import MemberLacks
from aioprod.group.membership import Membership, NotJoined
from aioprod.group.meters import measured
from aioprod.group.navigation import Navigation
from aioprod.group.outlet import Outlet
from aioprod.group.runner import Runner
from aioprod.group.settings import MemberConfig
from aioprod.group.validation import (
    DEFAULT_ASSIGNORS,
    Subscribed,
    checked_assignors,
    checked_group,
    checked_offsets,
    checked_subscription,
)
from aioprod.group.watch import Watch
from aioprod.net import Coordinator
from aioprod.net.session import Session
from aioprod.reader.fetching import answer_size_max
from aioprod.types import ConsumedRecord, GroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["Member"]

GivenT = TypeVar("GivenT")

_POLL_NOTED_S: Final = 0.1
"""How often a user who takes one record after the other is noted to be at hand: a clock costs less than a turn."""


class Member(Navigation, MemberLacks):
    """Joins a consumer group and reads the partitions that it is given; use it as `async with Member(...) as member`.

        async for record in member:
            ...
            await member.commit()

    `topics` are names, or a pattern (`re.compile("orders-.*")`): topics that match are read as they come and go.
    `assignors` are names or objects in order of preference; the group takes one that all members have. The callbacks,
    functions or coroutine functions, get the partitions that are new, that were given up, or that were lost (who has
    no `on_lost` gets those as given up); they run between two records. `auto_offset_reset` says where to begin
    when the group has committed nothing: "earliest", "latest", or "none", which is an error. `isolation` and the
    deserializers are as for `Reader`, `options` are fields of `MemberConfig` (Java's names in snake_case) and win over
    those of `config`. Nothing is committed unless asked for. Touches no network before `start()`. Raises ConfigError
    and InvalidTopicError.
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
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        **options: Any,
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
        self._metrics = measured(self._fetcher)
        self._outlet = Outlet(self._fetcher)
        self._gate = self._outlet.gate
        self._callbacks = Callbacks(on_assigned, on_revoked, on_lost, self._outlet.failed)
        self._polled_at = -math.inf
        self._membership: Membership | None = None
        self._holding: Holding | None = None
        self._runner: Runner | None = None
        self._explainer: Explainer | None = None
        self._following: Following | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        owned = len(self.assignment)
        what = f", {owned} {'partition' if owned == 1 else 'partitions'}"
        return self._session.described(f"Member of group {self.group_id!r}", what)

    # --- life

    async def start(self) -> None:
        """Connect, and begin to join; raises MetadataTimeoutError and what else `Reader.start` raises.

        It does not wait for partitions: `on_assigned` tells of them, also when there are none.
        """
        await self._session.start()
        try:
            await self._reading.start()
        except BaseException:
            await self._disconnect()
            raise
        coordinator = Coordinator(self._session.client, "group", self.group_id)
        self._membership = self._new_membership()
        self._holding = Holding(
            self._fetcher, coordinator, self._session, self._callbacks, self._auto_offset_reset, self._metrics
        )
        self._explainer = Explainer(
            self._membership, coordinator, self._holding, self._fetcher, self._session, self._reading
        )
        watch = Watch(self.group_id, _troubles_of(self._explainer, self._gate), self._session.clock)
        self._runner = Runner(
            self._membership, coordinator, self._session, self._gate, self._holding, watch, self._topics
        )
        self._following = Following(self._session, self.config, self._pattern, self._runner.subscribe)
        self._task = asyncio.create_task(
            self._outlet.run(self._runner, self._following), name=f"aioprod member of {self.group_id}"
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
        """Give all partitions up (`on_revoked`), leave the group, and end the iterator; a static member does not
        leave. Takes no longer than `timeout` seconds, after which the group hears by the session time-out that the
        member is gone. A second call does nothing. Raises what a callback raised.
        """
        self._session.check_loop()
        if self._gate.is_inside:
            raise UsageError("close() was called by a callback of this member.", hint="Call it from another task.")
        self._outlet.close()
        task, self._task = self._task, None
        if task is not None and self._membership is not None and self._runner is not None:
            try:
                # A member in the middle of a rebalance leaves after it, which commits go with; but not if that takes
                # too long.
                for _ in range(2):
                    self._membership.leave(self._session.clock())
                    self._runner.wake()
                    await asyncio.wait([task], timeout=timeout / 2)
            finally:
                task.cancel()
                await asyncio.wait([task])
                await self._disconnect()
        if self._outlet.errors:
            raise self._outlet.errors.popleft()

    async def _disconnect(self) -> None:
        await _disconnected(self._fetcher, self._reading, self._session)

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None:
            self._session.dropped(self, partial(_ended, task, self._fetcher, self._reading, self._session))

    # --- reading

    async def reload_credentials(self) -> None:
        """Read certificates and passwords anew, fetch another token, and have new connections take over.

        One broker after the other, while the member goes on. Raises ConfigError, AuthenticationError or
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

    def __anext__(self) -> Coroutine[Any, Any, ConsumedRecord]:
        """The next record of any partition; waits until there is one. A call that is cancelled loses nothing.

        Raises why the member can't go on (BrokerError, AuthorizationError, ...), what a callback raised, what can't be
        read (CorruptRecordError, SerializationError), and StopAsyncIteration when the member is closed.
        """
        return self._given(self._fetcher.next)

    def batches(self, max_records: int = 500, max_wait_ms: float = 500.0) -> Batches:
        """The records in lists: an asynchronous iterator over `list[ConsumedRecord]`.

            async for batch in member.batches(max_records=1000, max_wait_ms=200):
                ...

        A list comes as soon as it has `max_records`, or `max_wait_ms` after its first record; with 0 it has what is at
        hand. It is never empty, and has the records of each partition in the order of their offsets. For the group a
        list is what a record is to `async for record in member`: positions move to its end when it is given, and
        partitions come and go between two lists only. A call that is cancelled loses nothing: its records come with the
        next one, or one by one. Raises ConfigError at once, and while iterating what `__anext__` raises.
        """
        return Batches(self._next_list, max_records, max_wait_ms)

    def _next_list(self, max_records: int, max_wait_s: float) -> Coroutine[Any, Any, list[ConsumedRecord]]:
        return self._given(lambda: self._fetcher.next_list(max_records, max_wait_s))

    async def _given(self, ask: Callable[[], Awaitable[GivenT | None]]) -> GivenT:
        """What the fetcher gives, between whatever the group does."""
        gate = self._gate
        self._check_can_wait()
        gate.came()
        self._note_poll()
        gate.is_waiting = True
        try:
            while True:
                if gate.is_taken:
                    await gate.free()
                if self._outlet.errors or self._outlet.is_closing:
                    self._end()
                given = await ask()
                if given is not None:
                    # The work at it begins now, however long it was waited for.
                    self._note_poll()
                    gate.is_away = True
                    return given
        finally:
            gate.is_waiting = False

    def _check_can_wait(self) -> None:
        if self._runner is None:
            raise UsageError("This member is not started: use `async with`, or await start() first.")
        self._session.check_loop()
        if self._gate.is_inside:
            raise UsageError("A callback of this member can't wait for its records.")
        if self._gate.is_waiting:
            raise UsageError("Another task waits for a record of this member: one at a time.")

    def _note_poll(self) -> None:
        now = self._session.clock()
        if now - self._polled_at >= _POLL_NOTED_S and self._membership is not None and self._runner is not None:
            self._polled_at = now
            self._membership.polled(now)
            self._runner.wake()

    def _end(self) -> None:
        if self._outlet.errors:
            raise self._outlet.errors.popleft()
        if isinstance(self._outlet.failure, AioprodError):
            raise self._outlet.failure.again() from self._outlet.failure.__cause__
        if self._outlet.failure is not None:
            raise AioprodError(f"The member has failed: {self._outlet.failure!r}.") from self._outlet.failure
        raise StopAsyncIteration

    # --- what it has

    def explain(self) -> str:
        """Why records do not come, in sentences: its coordinator can't be reached, a topic does not exist, and so on.

        The log is told the same once nothing has moved for some seconds. Raises UsageError outside of the loop in
        which the member was started.
        """
        if self._explainer is None or self._runner is None:
            return f"The member of group {self.group_id!r} is not started."
        if self._outlet.failure is not None:
            return f"The member of group {self.group_id!r} has failed: {self._outlet.failure}"
        if self._task is None:
            return f"The member of group {self.group_id!r} is closed."
        return self._explainer.explain(self._runner.topics, is_waited_for=self._gate.is_waiting)

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who it is in the group now, for `producer.send_offsets_to_transaction`.

        Take it when records were given and before more are asked for: a member that is replaced after that is fenced
        (KIP-447). That of a member which is in no generation of the group is refused there.
        """
        known = GroupMetadata(self.group_id) if self._membership is None else self._membership.metadata
        return known if known.generation_id >= 0 else NotJoined(*known)

    # --- committing

    async def commit(self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None) -> None:
        """Commit the positions that the group does not have yet, or `offsets`: those of the next records to read.

        While the group divides its partitions anew, it waits until that is done. Raises BrokerError when the member
        does not own the partitions any more: what was done since the last commit is done again by their new owner.
        Further RequestTimedOutError after `default.api.timeout.ms`, AuthorizationError, ConfigError and UsageError.
        """
        holding, membership, runner = self._running()
        wanted = holding.uncommitted if offsets is None else checked_offsets(offsets)
        owned = self.assignment.intersection(wanted)
        deadline = self._session.clock() + self._session.timeout_s
        while wanted:
            while membership.is_rebalancing and membership.metadata.generation_id >= 0:
                await self._settled(runner, deadline)
            metadata = membership.metadata
            if metadata.generation_id < 0 or not owned <= self.assignment:
                raise self._not_owner(owned - self.assignment)
            try:
                await holding.commit(metadata, wanted, deadline)
                return
            except BrokerError as error:
                is_outdated = error.code == ErrorCode.STALE_MEMBER_EPOCH and metadata != membership.metadata
                may_pass = error.code == ErrorCode.REBALANCE_IN_PROGRESS or is_outdated
                if not may_pass or self._session.clock() >= deadline:
                    raise
            await asyncio.sleep(self._session.backoff_s(0))

    async def _settled(self, runner: Runner, deadline: float) -> None:
        left_s = deadline - self._session.clock()
        if left_s <= 0.0:
            raise RequestTimedOutError(
                f"Group {self.group_id!r} did not finish to divide its partitions anew in time to commit."
            )
        if self._outlet.failure is not None:
            self._end()
        await runner.settled(left_s)

    def _not_owner(self, gone: frozenset[TopicPartition]) -> BrokerError:
        some = f", which does not own {min(gone)} any more" if gone else ""
        return BrokerError(
            f"Nothing was committed: this is no member of group {self.group_id!r} just now{some}.",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
            hint="What was done since the last commit is done again by the new owner of the partitions: undo it if "
            "that matters, and go on reading.",
        )

    def subscribe(self, topics: Subscribed) -> None:
        """Read these topics from now on, in place of those before; raises ConfigError and InvalidTopicError.

        With a pattern those before stay until it is known what matches.
        """
        _, _, runner = self._running()
        pattern, wanted = checked_subscription(topics)
        assert self._following is not None
        self._following.follow(pattern)
        if pattern is None:
            runner.subscribe(wanted)

    def _running(self) -> tuple[Holding, Membership, Runner]:
        if self._holding is None or self._membership is None or self._runner is None:
            raise UsageError("This member is not started: use `async with`, or await start() first.")
        _ = self._session.client
        return self._holding, self._membership, self._runner


async def _disconnected(fetcher: Fetcher, *sessions: Session) -> None:
    await fetcher.close()
    for session in sessions:
        await session.close()


async def _ended(task: asyncio.Task[None], fetcher: Fetcher, *sessions: Session) -> None:
    """End a member that nobody closed: the group hears by the session time-out that it is gone."""
    task.cancel()
    await asyncio.wait([task])
    await _disconnected(fetcher, *sessions)


def _troubles_of(explainer: Explainer, gate: Gate) -> Callable[[frozenset[str]], list[Trouble]]:
    """What to ask for the troubles of a running member; it refers to the member's parts only, see `Outlet`."""
    return lambda topics: explainer.troubles(topics, is_waited_for=gate.is_waiting)
