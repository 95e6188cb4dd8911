"""The states of a member of a classic group as tables: states, events, and what the error codes of brokers mean.

A member goes round this circle in each rebalance (Java's `AbstractCoordinator` and `MemberState` have the same states):

    PREPARING_REBALANCE   an eager member revokes everything (onPartitionsRevoked), a cooperative one nothing
    JOINING               JoinGroup: the coordinator answers once all members have joined or the time for that is over
    ASSIGNING             the leader only: it runs the assignor over the subscriptions of all members
    COMPLETING_REBALANCE  SyncGroup: the leader sends the assignment, each member gets its part of it
    REVOKING_ALL          only if the group chose an eager assignor while the member kept partitions: before SyncGroup
    REVOKING              cooperative members revoke what they have to give to others; once STABLE they rejoin for that
    ADDING_PARTITIONS     committed offsets are fetched, then onPartitionsAssigned
    STABLE                Heartbeat, until an answer says REBALANCE_IN_PROGRESS

A fenced or expired member loses its partitions (onPartitionsLost) and joins again. The tables only say what follows
from what; `ClassicMembership` acts. `diagram()` makes the picture in `docs/groups.md`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from aioprod._error_codes import ErrorCode

__all__ = ["TRANSITIONS", "Event", "Meaning", "State", "Subject", "diagram", "meaning_of"]


class State(Enum):
    """The state of a member; its value describes it to the user."""

    PREPARING_REBALANCE = "it revokes partitions before it joins, and waits until the application polls"
    JOINING = "it has sent JoinGroup, and waits until all members have joined"
    REVOKING_ALL = "it revokes all partitions, because the group has chosen an eager assignor"
    ASSIGNING = "it leads the group, and fetches the partitions to assign"
    COMPLETING_REBALANCE = "it has sent SyncGroup, and waits for its assignment"
    REVOKING = "it revokes partitions that are not assigned to it any more"
    ADDING_PARTITIONS = "it starts to read its new partitions"
    STABLE = "it reads its partitions"
    PREPARING_TO_LEAVE = "it revokes all partitions before it leaves"
    LEAVING = "it has sent LeaveGroup"
    LEFT = "it has left the group"


class Event(Enum):
    """An event that changes the state; its value labels the edge in the diagram."""

    REVOKED = "partitions revoked"
    JOINED_AS_LEADER = "joined as leader"
    JOINED_AS_FOLLOWER = "joined as follower"
    JOINED_STILL_OWNING = "joined with partitions, eager assignor"
    ASSIGNMENT_MADE = "assignment computed"
    ASSIGNMENT_RECEIVED = "assignment received"
    PARTITIONS_ADDED = "partitions added"
    REJOIN = "rebalance"
    LOST = "membership lost"
    CLOSE = "close()"
    LEFT = "LeaveGroup answered"
    FAILED = "fatal error"


S: Final = State
E: Final = Event

_MEMBER_STATES: Final = (
    S.PREPARING_REBALANCE,
    S.JOINING,
    S.REVOKING_ALL,
    S.ASSIGNING,
    S.COMPLETING_REBALANCE,
    S.REVOKING,
    S.ADDING_PARTITIONS,
    S.STABLE,
)
_LEAVING_STATES: Final = (S.PREPARING_TO_LEAVE, S.LEAVING, S.LEFT)

TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (S.PREPARING_REBALANCE, E.REVOKED): S.JOINING,
    (S.JOINING, E.JOINED_AS_LEADER): S.ASSIGNING,
    (S.JOINING, E.JOINED_AS_FOLLOWER): S.COMPLETING_REBALANCE,
    (S.JOINING, E.JOINED_STILL_OWNING): S.REVOKING_ALL,
    (S.REVOKING_ALL, E.REVOKED): S.COMPLETING_REBALANCE,
    (S.ASSIGNING, E.ASSIGNMENT_MADE): S.COMPLETING_REBALANCE,
    (S.COMPLETING_REBALANCE, E.ASSIGNMENT_RECEIVED): S.REVOKING,
    (S.COMPLETING_REBALANCE, E.REJOIN): S.PREPARING_REBALANCE,
    (S.REVOKING, E.REVOKED): S.ADDING_PARTITIONS,
    (S.ADDING_PARTITIONS, E.PARTITIONS_ADDED): S.STABLE,
    (S.STABLE, E.REJOIN): S.PREPARING_REBALANCE,
    (S.PREPARING_TO_LEAVE, E.REVOKED): S.LEAVING,
    (S.LEAVING, E.LEFT): S.LEFT,
    **{(state, E.LOST): S.PREPARING_REBALANCE for state in _MEMBER_STATES},
    **{(state, event): S.PREPARING_TO_LEAVE for state in _MEMBER_STATES for event in (E.CLOSE, E.FAILED)},
    # A leaving member has nothing left to lose.
    **{(state, event): state for state in _LEAVING_STATES for event in (E.LOST, E.CLOSE)},
}
"""The next state for each state and event; an event that a state does not list is a bug."""


class Subject(Enum):
    """The requests whose error codes the tables explain; the value completes "A member could not ..."."""

    JOIN = "join the group"
    SYNC = "get its assignment"
    HEARTBEAT = "stay in the group"


class Meaning(Enum):
    """What to do after an error code."""

    DONE = "done"
    RETRY = "send the request again after retry.backoff.ms"
    MEMBER_ID_GIVEN = "join at once under the id that the coordinator gave (KIP-394)"
    REJOIN = "rejoin, as the same member"
    STALE_GENERATION = "the group is in a later generation: all partitions are lost, the member id is kept"
    UNKNOWN_MEMBER = "the coordinator does not know the member: all partitions and the member id are lost"
    FATAL = "leave the group with an error"


_C: Final = ErrorCode
_MEANINGS: Final = {
    Subject.JOIN: {
        _C.NONE: Meaning.DONE,
        _C.MEMBER_ID_REQUIRED: Meaning.MEMBER_ID_GIVEN,
        _C.REBALANCE_IN_PROGRESS: Meaning.RETRY,
        _C.UNKNOWN_MEMBER_ID: Meaning.UNKNOWN_MEMBER,
        _C.ILLEGAL_GENERATION: Meaning.STALE_GENERATION,
    },
    Subject.SYNC: {
        _C.NONE: Meaning.DONE,
        _C.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
        _C.UNKNOWN_MEMBER_ID: Meaning.UNKNOWN_MEMBER,
        _C.ILLEGAL_GENERATION: Meaning.STALE_GENERATION,
    },
    Subject.HEARTBEAT: {
        _C.NONE: Meaning.DONE,
        _C.REBALANCE_IN_PROGRESS: Meaning.REJOIN,
        _C.UNKNOWN_MEMBER_ID: Meaning.UNKNOWN_MEMBER,
        _C.ILLEGAL_GENERATION: Meaning.STALE_GENERATION,
    },
}
_RETRIABLE: Final = {Subject.JOIN: Meaning.RETRY, Subject.SYNC: Meaning.REJOIN, Subject.HEARTBEAT: Meaning.RETRY}


def meaning_of(subject: Subject, code: ErrorCode | int) -> Meaning:
    """What to do after `code` in the response to a request.

    As Java does, but a code that does not say what is wrong (`ErrorCode.is_unclear`) ends no member.
    """
    if ErrorCode.is_unclear(code) or not isinstance(code, ErrorCode):
        return _RETRIABLE[subject]
    return _MEANINGS[subject].get(code) or (_RETRIABLE[subject] if code.retriable else Meaning.FATAL)


def diagram() -> str:
    """The table as a Mermaid state diagram, without the edges of `close()` and fatal errors, which every state has."""
    edges: dict[tuple[State, State], list[str]] = {}
    for (state, event), target in TRANSITIONS.items():
        if state is not target and event not in (E.FAILED, E.CLOSE):
            edges.setdefault((state, target), []).append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {S.PREPARING_REBALANCE.name}"]
    lines += [f"    {a.name} --> {b.name}: {', '.join(events)}" for (a, b), events in edges.items()]
    return "\n".join(lines)
