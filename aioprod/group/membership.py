"""What a membership wants done: the words between the rules of a group protocol and whoever carries them out.

A membership is a state machine without I/O, loop and clock: one for the classic protocol, one for that of KIP-848. Its
runner works in two lanes. The main lane does `step` after `step`, each until it was told what came of it. The other
lane sends heartbeats when they are due, also while a step of the main lane takes its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from aioprod.cluster.model import PartitionInfo
from aioprod.errors import AioprodError
from aioprod.messages.negotiation import ByVersion
from aioprod.types import GroupMetadata, TopicPartition
from aioprod.wire.schema import Request, Response

__all__ = [
    "Ask",
    "Describe",
    "Failed",
    "GiveUp",
    "Left",
    "Membership",
    "NotJoined",
    "Step",
    "Take",
    "Wait",
]


class NotJoined(GroupMetadata):
    """The metadata of a member that has not joined yet, or has to rejoin: the producer raises UsageError for it.

    Brokers could not tell it from a commit with the group's name alone, and would fence nothing.
    """

    __slots__ = ()

    is_joined = False


@dataclass(frozen=True, slots=True)
class Ask:
    """Send `request` to the group's coordinator, wait `timeout_s` at most; then `answered` or `unanswered`."""

    request: Request[Any] | ByVersion[Any]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Describe:
    """Find out the partitions of these topics, of which some may not exist; then `described`."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Stop reading these partitions, between two records, and call the user back; then `gave_up`.

    Without partitions it only waits for that moment, and nobody is called. `is_lost`: they may have another owner
    already, and nothing can be committed any more.
    """

    partitions: tuple[TopicPartition, ...]
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """Begin to read these partitions where the group has got to, and call the user back, even if there are none; then
    `took`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until` (monotonic seconds), or until the membership is told something."""

    until: float


@dataclass(frozen=True, slots=True)
class Left:
    """It is over as it was wanted."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It is over, and can't begin again; a `GiveUp` of what it held came before."""

    error: AioprodError


Step: TypeAlias = Ask | Describe | GiveUp | Take | Wait | Left | Failed


class Membership(Protocol):
    """The rules of one group protocol; all times are monotonic seconds."""

    @property
    def metadata(self) -> GroupMetadata:
        """Who it is now."""
        ...

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What was taken and not given up."""
        ...

    @property
    def is_rebalancing(self) -> bool:
        """Whether offsets can't be committed just now: it has joined anew and does not know its generation yet."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether it reads its share, and has nothing to wait for."""
        ...

    @property
    def standing(self) -> str:
        """Where it stands, in words: a sentence about "it" without its stop."""
        ...

    # -- the main lane

    def step(self, now: float) -> Step:
        """What to do now: the same until what came of it was told, or something else has happened.

        An `Ask`, a `Describe` or a `Take` whose callback has not begun is broken off when the next step differs, a
        `GiveUp` is not: what came of it may be told when the membership is elsewhere already.
        """
        ...

    def answered(self, response: Response, now: float) -> None:
        """The answer to `Ask`."""
        ...

    def unanswered(self, error: AioprodError, now: float) -> None:
        """No answer to `Ask`: it may have been carried out all the same. AuthorizationError and the like end it."""
        ...

    def described(self, topics: Mapping[str, Sequence[PartitionInfo]], now: float) -> None:
        """The topics of `Describe` that exist."""
        ...

    def gave_up(self, now: float) -> None:
        """`GiveUp` is done."""
        ...

    def took(self, now: float) -> None:
        """`Take` is done."""
        ...

    # -- the lane of heartbeats

    @property
    def heartbeat_at(self) -> float:
        """When the next heartbeat is due, infinity while there is nothing to tell."""
        ...

    def heartbeat(self, now: float) -> Request[Any] | ByVersion[Any] | None:
        """What to send, None if nothing after all; one is on its way at a time."""
        ...

    def heartbeat_answered(self, response: Response, now: float) -> None:
        """The answer to it."""
        ...

    def heartbeat_unanswered(self, error: AioprodError, now: float) -> None:
        """No answer to it."""
        ...

    # -- what else happens

    def subscribe(self, topics: frozenset[str], now: float) -> None:
        """Read these topics from now on."""
        ...

    def topics_changed(self, counts: Mapping[str, int], now: float) -> None:
        """Topics it reads have so many partitions now: who leads a group may have to have them divided anew."""
        ...

    def polled(self, now: float) -> None:
        """The user is at hand, between two records or waiting for one: it leaves when that was too long ago
        (`max.poll.interval.ms`)."""
        ...

    def leave(self, now: float) -> None:
        """Give up all, tell the coordinator and end; a static member (KIP-345) goes without telling."""
        ...
