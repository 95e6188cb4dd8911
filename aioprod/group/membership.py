"""The protocol between a membership, which knows the rules of a group protocol, and the runner, which carries them out.

A membership is a state machine without I/O, loop and clock: one for the classic protocol, one for KIP-848. The runner
calls it from three tasks. One does `step` after `step` and reports the result of each. The second sends heartbeats when
they are due, also while a step takes its time. The third reports changes of partition counts. `Member` itself reports
polls, and leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeAlias
from uuid import UUID

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = [
    "Assign",
    "Compute",
    "DescribeTopics",
    "Failed",
    "LeftGroup",
    "Membership",
    "NotJoined",
    "ReadingMember",
    "Revoke",
    "SendRequest",
    "Step",
    "Wait",
]


class NotJoined(GroupMetadata):
    """The metadata of a member that has not joined yet, or has to rejoin: the producer raises UsageError for it.

    Brokers would take it for a commit with the group's name alone, and fence nothing.
    """

    __slots__ = ()

    is_joined = False


class ReadingMember(GroupMetadata):
    """The metadata of a member, with the ids of the topics that it reads."""

    _topic_ids: Mapping[TopicPartition, UUID]

    @classmethod
    def of(cls, metadata: GroupMetadata, topic_ids: Mapping[TopicPartition, UUID]) -> Self:
        """This metadata, with these ids."""
        made = cls(*metadata)
        made._topic_ids = topic_ids
        return made

    @property
    def topic_ids(self) -> Mapping[TopicPartition, UUID]:
        """Of the partitions that it owns, where they are known."""
        return self._topic_ids


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Send `request` to the coordinator and wait up to `timeout_s`; then `response_received` or `request_failed`."""

    request: Request[Any] | ByVersion[Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class DescribeTopics:
    """Fetch the partitions of these topics, of which some may not exist; then `topics_described`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    """Call `work` in a thread, as it takes long; it returns a function to call in the loop then.

    `work` changes nothing, so that its result can be dropped when the next step differs.
    """

    work: Callable[[], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Revoke:
    """Between two polls, stop reading these partitions and run the callback; then `revoked`.

    Without partitions it only waits for the application to poll, and runs no callback.
    """

    partitions: tuple[TopicPartition, ...]
    is_lost: bool = False
    """The partitions may have another owner already, so that nothing can be committed for them."""


@dataclass(frozen=True, slots=True)
class Assign:
    """Start reading these partitions at their committed offsets; run the callback, even for none; then `assigned`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until` (monotonic seconds), or before the next event."""

    until: float


@dataclass(frozen=True, slots=True)
class LeftGroup:
    """The last step: the member has left the group on request."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The last step: the member can't rejoin because of `error`; its partitions were revoked before."""

    error: AioprodError


Step: TypeAlias = SendRequest | DescribeTopics | Compute | Revoke | Assign | Wait | LeftGroup | Failed


class Membership(Protocol):
    """The rules of one group protocol; all times are monotonic seconds."""

    @property
    def metadata(self) -> GroupMetadata:
        """Current group id, generation (or member epoch), member id and instance id."""
        ...

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """The partitions that were assigned and not revoked."""
        ...

    @property
    def is_rebalancing(self) -> bool:
        """Whether the member is rejoining and does not know its generation yet, so that it can't commit."""
        ...

    @property
    def is_stable(self) -> bool:
        """Whether it has its assignment and nothing is pending."""
        ...

    @property
    def description(self) -> str:
        """The state, as a sentence about "it" without its stop."""
        ...

    # --- steps

    def step(self, now: float) -> Step:
        """The step to do now: the same one until its result is reported, or an event changes it.

        The runner cancels a `SendRequest`, a `DescribeTopics`, a `Compute` and an `Assign` whose callback has not begun
        when the next step differs. It does not cancel a `Revoke`, whose result may come when the state is another one
        already.
        """
        ...

    def response_received(self, response: Response, now: float) -> None:
        """Handle the response to `SendRequest`."""
        ...

    def request_failed(self, error: AioprodError, now: float) -> None:
        """`SendRequest` has no response, though the coordinator may have handled it. Errors that no retry mends,
        such as AuthorizationError, are fatal."""
        ...

    def topics_described(self, topics: Mapping[str, Sequence[PartitionInfo]], now: float) -> None:
        """`DescribeTopics` is done: `topics` are those that exist."""
        ...

    def revoked(self, now: float) -> None:
        """`Revoke` is done."""
        ...

    def assigned(self, now: float) -> None:
        """`Assign` is done."""
        ...

    # --- heartbeats

    @property
    def heartbeat_at(self) -> float:
        """The time of the next heartbeat, infinity where none is due."""
        ...

    def heartbeat(self, now: float) -> Request[Any] | ByVersion[Any] | None:
        """The request to send, or None; the runner has one in flight at a time."""
        ...

    def heartbeat_response_received(self, response: Response, now: float) -> None:
        """Handle the response to a heartbeat."""
        ...

    def heartbeat_failed(self, error: AioprodError, now: float) -> None:
        """A heartbeat has no response."""
        ...

    # --- events

    def subscribe(self, topics: frozenset[str], now: float) -> None:
        """Change the subscription."""
        ...

    def topics_changed(self, counts: Mapping[str, int], now: float) -> None:
        """Note the partition counts of the topics: a leader may have to assign again."""
        ...

    def polled(self, now: float) -> None:
        """The application polled: restart the `max.poll.interval.ms` timer."""
        ...

    def leave(self, now: float) -> None:
        """Revoke all partitions, send LeaveGroup and end; a static member (KIP-345) ends without LeaveGroup."""
        ...
