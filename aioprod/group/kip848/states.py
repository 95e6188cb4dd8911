"""The states of a member of the broker's own group protocol (KIP-848) as tables: states, events, error codes.

    JOINING               heartbeats with epoch 0 until the coordinator gives an epoch
    MEMBER                heartbeats report the owned partitions; the member reconciles them with its target assignment
    FENCED                the coordinator rejected the epoch: the partitions are lost, then the member joins again
    STALE                 no poll for max.poll.interval.ms: the member leaves, and joins again at the next poll
    PREPARING_TO_LEAVE    close() or a fatal error: all partitions are revoked
    LEAVING               a heartbeat with epoch -1, or -2 from a static member

The tables only say what follows from what; `ConsumerMembership` acts.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode

__all__ = ["TRANSITIONS", "Event", "Meaning", "State", "meaning_of"]


class State(Enum):
    """The state of a member; its value describes it to the user."""

    JOINING = "it is joining the group"
    MEMBER = "it is in the group, and reconciles its partitions with its target assignment"
    FENCED = "the coordinator has fenced it: it revokes its lost partitions"
    STALE = "its application has not polled for max.poll.interval.ms: it leaves the group, and revokes its partitions"
    PREPARING_TO_LEAVE = "it revokes all partitions before it leaves"
    LEAVING = "it is leaving the group"
    LEFT = "it has left the group"


class Event(Enum):
    """An event that changes the state."""

    JOINED = "joined"
    FENCED = "fenced"
    POLL_TIMEOUT = "max.poll.interval.ms is over"
    REVOKED = "partitions revoked"
    CLOSE = "close()"
    LEFT = "leave request answered"
    FAILED = "fatal error"


S: Final = State
E: Final = Event

_MEMBER_STATES: Final = (S.JOINING, S.MEMBER, S.FENCED, S.STALE)
_LEAVING_STATES: Final = (S.PREPARING_TO_LEAVE, S.LEAVING, S.LEFT)

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (S.JOINING, E.JOINED): S.MEMBER,
    (S.MEMBER, E.FENCED): S.FENCED,
    (S.FENCED, E.REVOKED): S.JOINING,
    (S.JOINING, E.POLL_TIMEOUT): S.STALE,
    (S.MEMBER, E.POLL_TIMEOUT): S.STALE,
    (S.STALE, E.REVOKED): S.JOINING,
    (S.PREPARING_TO_LEAVE, E.REVOKED): S.LEAVING,
    (S.LEAVING, E.LEFT): S.LEFT,
    **{(state, event): S.PREPARING_TO_LEAVE for state in _MEMBER_STATES for event in (E.CLOSE, E.FAILED)},
    # A leaving member has nothing left to lose.
    **{(state, event): state for state in _LEAVING_STATES for event in (E.FENCED, E.FAILED, E.CLOSE)},
}
"""The next state for each state and event; an event that a state does not list is a bug."""


class Meaning(Enum):
    """What to do after an error code."""

    DONE = "done"
    RETRY = "send the heartbeat again after retry.backoff.ms"
    FENCED = "the coordinator does not know the member or its epoch: all partitions are lost, join again"
    FATAL = "leave the group with an error"


_C: Final = ErrorCode
_FENCED: Final = frozenset({_C.FENCED_MEMBER_EPOCH, _C.UNKNOWN_MEMBER_ID, _C.GROUP_ID_NOT_FOUND})
"""The coordinator sends the last of them when it has forgotten the group together with its members."""


def meaning_of(code: ErrorCode | int, *, joins: bool) -> Meaning:
    """What to do after `code` in the response to a heartbeat.

    As Java does, but a code that does not say what is wrong (`ErrorCode.is_unclear`) ends no member.
    `joins`: the heartbeat was to join, so that it has no epoch that could be fenced.
    """
    if code == ErrorCode.NONE:
        return Meaning.DONE
    if code == ErrorCode.GROUP_ID_NOT_FOUND and joins:
        # The name is that of a group whose members use the other protocol.
        return Meaning.FATAL
    if code in _FENCED:
        return Meaning.RETRY if joins else Meaning.FENCED
    is_retriable = not isinstance(code, ErrorCode) or code.retriable or ErrorCode.is_unclear(code)
    return Meaning.RETRY if is_retriable else Meaning.FATAL
